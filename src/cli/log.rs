//! Logs go to standard error, whatever the process serves on standard output.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{
    Layer,
    filter::{Targets, filter_fn},
    fmt,
    prelude::*,
    registry::LookupSpan,
    reload,
};

use super::json_log::JsonLines;

/// What is logged unless RUST_LOG says otherwise. The SDK and the MQTT client write payloads, so they are heard
/// only when they fail.
pub(super) const SERVING: &str = "warn,plantbridge=info,rmcp=error,rumqttc=error,mqtt5=error";

/// The same of what does one thing and says itself what came of it, and whether a link was there. A frame that was not believed is
/// heard of nowhere else.
pub(super) const ERRAND: &str = "warn,plantbridge::links=error,rmcp=error,rumqttc=error,mqtt5=error";

/// How what serves logs.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct LogArgs {
    /// How the log is written: as text, or as one JSON object a line. PLANTBRIDGE_LOG says the same.
    #[arg(long = "log", value_name = "FORMAT", value_enum)]
    pub(super) format: Option<LogFormat>,
    /// How much of our own is logged; what of others stays as it is. Without it RUST_LOG is asked, and then it is info.
    #[arg(long = "log-level", value_name = "LEVEL", value_enum)]
    level: Option<LogLevel>,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// From when on something is worth logging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogFormat {
    /// As the command line names it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl LogArgs {
    /// With the format that the environment names, if no flag names one.
    pub(super) fn or(self, environment: Option<LogFormat>) -> Self {
        Self { format: self.format.or(environment), ..self }
    }

    /// Whether it is for programs to read.
    pub(super) fn is_json(self) -> bool {
        self.format == Some(LogFormat::Json)
    }

    fn filter(self) -> Option<Targets> {
        let level = match self.level? {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
            LogLevel::Trace => Level::TRACE,
        };
        let usual: Targets = SERVING.parse().unwrap_or_default();
        Some(usual.with_target("plantbridge", level))
    }
}

/// Turns the log of a process that runs up and down.
pub(super) struct Dial(Box<dyn Fn(Targets) + Send>);

impl Dial {
    /// From now on as much is logged as these ask for.
    pub(super) fn turn(&self, args: LogArgs) {
        (self.0)(args.filter().unwrap_or_else(|| filter(SERVING)));
    }
}

/// Starts logging, of this unless RUST_LOG says otherwise.
pub(super) fn init(usual: &str) {
    start(filter(usual), LogFormat::Text);
}

/// Starts the log of what serves.
pub(super) fn init_serving(args: LogArgs) -> Dial {
    let dial = start(args.filter().unwrap_or_else(|| filter(SERVING)), args.format.unwrap_or_default());
    if args.is_json() {
        // What is said of a panic otherwise has several lines, and none is JSON.
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string);
            tracing::error!(place, "panicked: {}", panic.payload_as_str().unwrap_or("without words"));
        }));
    }
    dial
}

/// What RUST_LOG asks for, if that can be understood.
pub(super) fn of_environment() -> Option<Targets> {
    std::env::var("RUST_LOG").ok().and_then(|wanted| wanted.parse().ok())
}

fn filter(usual: &str) -> Targets {
    of_environment().unwrap_or_else(|| usual.parse().unwrap_or_default())
}

fn start(filter: Targets, format: LogFormat) -> Dial {
    let (filter, handle) = reload::Layer::new(filter);
    let harmless = filter_fn(is_harmless);
    // A second call finds logging started, which is what it wants.
    let _ = tracing_subscriber::registry().with(filter).with(harmless).with(layer(format)).try_init();
    Dial(Box::new(move |wanted| {
        // Without a log there is nothing to turn.
        let _ = handle.reload(wanted);
    }))
}

fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync> {
    match format {
        LogFormat::Text => {
            let colours = std::io::stderr().is_terminal();
            fmt::layer().with_writer(std::io::stderr).with_ansi(colours).boxed()
        }
        LogFormat::Json => JsonLines(|| std::io::stderr().lock()).boxed(),
    }
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
        for (level, ours, debug) in
            [(LogLevel::Error, false, false), (LogLevel::Info, true, false), (LogLevel::Trace, true, true)]
        {
            let targets = LogArgs { format: None, level: Some(level) }.filter().unwrap();
            assert_eq!(targets.would_enable("plantbridge::cli", &Level::INFO), ours, "{level:?}");
            assert_eq!(targets.would_enable("plantbridge::cli", &Level::DEBUG), debug, "{level:?}");
            assert!(!targets.would_enable("rmcp", &Level::WARN) && targets.would_enable("hyper", &Level::ERROR));
        }
    }
}
