//! Logs go to standard error, whatever the process serves on standard output.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt};

/// What is logged unless RUST_LOG says otherwise. The SDK writes payloads, so it is heard only when it fails.
const DEFAULT: &str = "warn,plantbridge=info,rmcp=error,mqtt5=error";

/// Starts logging.
pub(super) fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let colours = std::io::stderr().is_terminal();
    let log = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    // A second call finds logging started, which is what it wants.
    let _ = log.try_init();
}
