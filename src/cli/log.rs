//! Logs go to standard error, whatever the process serves on standard output.

use std::io::IsTerminal;

use tracing_subscriber::{filter::Targets, fmt, prelude::*};

/// What is logged unless RUST_LOG says otherwise. The SDK and the MQTT client write payloads, so they are heard
/// only when they fail.
pub(super) const SERVING: &str = "warn,plantbridge=info,rmcp=error,rumqttc=error,mqtt5=error";

/// The same of what does one thing and says itself what came of it, and whether a link was there. A frame that was not believed is
/// heard of nowhere else.
pub(super) const ERRAND: &str = "warn,plantbridge::links=error,rmcp=error,rumqttc=error,mqtt5=error";

/// Starts logging, of this unless RUST_LOG says otherwise.
pub(super) fn init(usual: &str) {
    let wanted = std::env::var("RUST_LOG").ok().and_then(|wanted| wanted.parse::<Targets>().ok());
    let filter = wanted.unwrap_or_else(|| usual.parse().unwrap_or_default());
    let colours = std::io::stderr().is_terminal();
    let log = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    // A second call finds logging started, which is what it wants.
    let _ = tracing_subscriber::registry().with(filter).with(log).try_init();
}
