//! Logs go to standard error, whatever the process serves on standard output.

use std::io::IsTerminal;

use tracing::{Level, Metadata};
use tracing_subscriber::{
    filter::{Targets, filter_fn},
    fmt,
    prelude::*,
};

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
    let harmless = filter_fn(is_harmless);
    // A second call finds logging started, which is what it wants.
    let _ = tracing_subscriber::registry().with(filter).with(harmless).with(log).try_init();
}

/// Whatever RUST_LOG says: below this the WebSocket library writes every message it sends, and one of them is our token.
fn is_harmless(said: &Metadata<'_>) -> bool {
    let tells_all = said.target().starts_with("tungstenite") || said.target().starts_with("tokio_tungstenite");
    !tells_all || *said.level() <= Level::INFO
}
