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

/// Starts logging, of this unless RUST_LOG says otherwise.
pub(super) fn init(usual: &str) {
    start(filter(usual), LogFormat::Text);
}

/// Starts the log of what serves.
pub(super) fn init_serving(args: LogArgs) {
    start(args.filter().unwrap_or_else(|| filter(SERVING)), args.format.unwrap_or_default());
    if args.is_json() {
        // What is said of a panic otherwise has several lines, and none is JSON.
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string);
            tracing::error!(place, "panicked: {}", panic.payload_as_str().unwrap_or("without words"));
        }));
    }
}

fn filter(usual: &str) -> Targets {
    let wanted = std::env::var("RUST_LOG").ok().and_then(|wanted| wanted.parse::<Targets>().ok());
    wanted.unwrap_or_else(|| usual.parse().unwrap_or_default())
}

fn start(filter: Targets, format: LogFormat) {
    let harmless = filter_fn(is_harmless);
    // A second call finds logging started, which is what it wants.
    let _ = tracing_subscriber::registry().with(filter).with(harmless).with(layer(format)).try_init();
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
