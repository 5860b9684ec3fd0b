//! What was typed, as validated configuration, and the composition root: every task of the process is owned here.

mod args;
#[cfg(feature = "demo")]
mod demo;
mod log;
mod mcp;
mod network;
mod secrets;
mod stop;

use std::{io::Write, process::ExitCode};

pub use args::Cli;
use args::{Command, Parsed};

use crate::mcp::{codes, registry, tools};

/// Why the process could not do what it was started for. Printed as one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StartError(pub(crate) String);

impl StartError {
    fn new(text: impl std::fmt::Display) -> Self {
        Self(text.to_string())
    }
}

/// Runs what the command line asks for. Exit code 0: done; 1: it could not start, or the tour found something wrong.
pub fn main(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> ExitCode {
    // Read before any thread starts, so that nothing runs while the environment is read (design: secrets).
    let secrets = secrets::read();
    let closed = secrets::close_process();
    let arguments: Vec<_> = arguments.into_iter().collect();
    let parsed = args::parse(&arguments);
    let outcome = match parsed {
        Parsed::Say(text) => {
            say(&text);
            Ok(())
        }
        Parsed::Wrong(text) => Err(StartError(text)),
        Parsed::Run(command) => secrets.and_then(|secrets| run(command, secrets, closed)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With standard error closed there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "plantbridge: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, secrets: secrets::Secrets, closed: std::io::Result<()>) -> Result<(), StartError> {
    match command {
        Command::Mcp(args) if args.errors => {
            say(&codes::errors_table());
            Ok(())
        }
        Command::Mcp(args) if args.tools => {
            say(&registry::tools_table(&tools::all()));
            Ok(())
        }
        Command::Mcp(args) => {
            let config = mcp::Config::new(*args, secrets)?;
            log::init();
            if let Err(error) = closed {
                tracing::warn!("the process stays readable to others of this user: {error}");
            }
            block_on(mcp::serve(config))
        }
        #[cfg(feature = "demo")]
        Command::Demo(args) => {
            log::init();
            block_on(demo::run(args))
        }
    }
}

/// One thread drives everything: a call crosses no core on its way, and the process stays small.
fn block_on(work: impl Future<Output = Result<(), StartError>>) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StartError(format!("the runtime did not start: {error}")))?;
    let outcome = runtime.block_on(work);
    // A blocked read of a terminal cannot be taken back; it must not keep the process.
    runtime.shutdown_background();
    outcome
}

/// Prints what was asked for instead of running; a reader that has gone is no failure.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
}
