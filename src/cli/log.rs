//! Logs go to standard error, whatever the process serves on standard output.

use std::io::IsTerminal;

use tracing::{Level, Metadata};
use tracing_subscriber::{
    filter::{Targets, filter_fn},
    fmt,
    prelude::*,
    reload,
};

/// What is logged unless RUST_LOG says otherwise. The SDK and the MQTT client write payloads, so they are heard
/// only when they fail.
pub(super) const SERVING: &str = "warn,plantbridge=info,rmcp=error,rumqttc=error,mqtt5=error";

/// The same of what does one thing and says itself what came of it, and whether a link was there. A frame that was not believed is
/// heard of nowhere else.
pub(super) const ERRAND: &str = "warn,plantbridge::links=error,rmcp=error,rumqttc=error,mqtt5=error";

/// The levels of `--log-level`, the quietest first.
pub(super) const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Turns the log of a process that runs up and down.
pub(super) struct Dial(Box<dyn Fn(Targets) + Send>);

impl Dial {
    /// From now on this is logged.
    pub(super) fn turn(&self, level: Option<&str>) {
        (self.0)(wanted(SERVING, level));
    }
}

/// What RUST_LOG asks for, if that can be understood.
pub(super) fn of_environment() -> Option<Targets> {
    std::env::var("RUST_LOG").ok().and_then(|wanted| wanted.parse().ok())
}

/// Starts logging: of this unless RUST_LOG says otherwise, which a level that was asked for is stronger than.
pub(super) fn init(usual: &str, level: Option<&str>) -> Dial {
    let (filter, handle) = reload::Layer::new(wanted(usual, level));
    let colours = std::io::stderr().is_terminal();
    let log = fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let harmless = filter_fn(is_harmless);
    // A second call finds logging started, which is what it wants.
    let _ = tracing_subscriber::registry().with(filter).with(harmless).with(log).try_init();
    Dial(Box::new(move |wanted| {
        // Without a log there is nothing to turn.
        let _ = handle.reload(wanted);
    }))
}

fn wanted(usual: &str, level: Option<&str>) -> Targets {
    match level {
        Some(level) => at(level).parse().unwrap_or_default(),
        None => of_environment().unwrap_or_else(|| usual.parse().unwrap_or_default()),
    }
}

/// Our own lines from a level on; those of others as ever, or less.
fn at(level: &str) -> String {
    let others = if level == "error" { "error" } else { "warn" };
    format!("{others},plantbridge={level},rmcp=error,rumqttc=error,mqtt5=error")
}

/// Whatever RUST_LOG says: below this the WebSocket library writes every message it sends, and one of them is our token.
fn is_harmless(said: &Metadata<'_>) -> bool {
    let tells_all = said.target().starts_with("tungstenite") || said.target().starts_with("tokio_tungstenite");
    !tells_all || *said.level() <= Level::INFO
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A level is about our own lines: what would write payloads stays quiet.
    #[test]
    fn a_level_is_about_our_own_lines() {
        for (level, ours, debug) in [("error", false, false), ("info", true, false), ("trace", true, true)] {
            let targets: Targets = at(level).parse().unwrap();
            assert_eq!(targets.would_enable("plantbridge::cli", &Level::INFO), ours, "{level}");
            assert_eq!(targets.would_enable("plantbridge::cli", &Level::DEBUG), debug, "{level}");
            assert!(!targets.would_enable("rmcp", &Level::WARN) && targets.would_enable("hyper", &Level::ERROR));
        }
    }
}
