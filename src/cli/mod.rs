//! What was typed, as validated configuration, and the composition root: every task of the process is owned here.

mod args;
mod audit;
mod call;
mod check;
mod config;
mod contract_file;
#[cfg(feature = "demo")]
mod demo;
mod describe;
mod diff;
mod doctor;
mod door;
mod ending;
mod environment;
mod errand;
mod fix;
mod health;
mod json_log;
mod keys;
mod later;
mod log;
mod mcp;
mod member;
mod network;
mod node;
mod operator;
#[cfg(feature = "otel")]
mod otel;
mod out;
mod peers;
mod plain;
mod scripts;
mod secrets;
mod security;
mod serve;
mod service;
mod shell;
mod stop;
mod tidings;
mod token;
mod watch;

use std::{ffi::OsString, io::Write, process::ExitCode};

pub use args::Cli;
use args::{Command, McpArgs, Parsed};
use config::Line;
use ending::Failure;
use environment::Environment;
use errand::Errand;
use log::Dial;
use node::NodeArgs;
use operator::Operator;

use crate::{
    mcp::{Server, codes, registry, tools},
    script::supervise,
};

/// Why the process could not do what it was started for. Printed as one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StartError(pub(crate) String);

impl StartError {
    fn new(text: impl std::fmt::Display) -> Self {
        Self(text.to_string())
    }
}

/// Runs what the command line asks for. Exit code 0: done. 1: it could not start, was refused, is in doubt, or found
/// something wrong. 2: what is for people was asked for in a way that makes no sense.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Read before any thread starts, so that nothing runs while the environment is read (design: secrets).
    let environment = environment::read();
    let closed = secrets::close_process();
    let arguments: Vec<_> = arguments.into_iter().collect();
    // A script waits for it: what reads the words of people is not asked.
    if matches!(arguments.as_slice(), [_, word] if word == supervise::WORD) {
        return served(supervise());
    }
    let line = match config::whole(&arguments, environment.as_ref().ok()) {
        Ok(line) => line,
        Err(problems) => return failed(&config::in_one_line(&problems), 1),
    };
    match args::parse(&line.arguments) {
        Parsed::Say(text) => {
            say(&text);
            ExitCode::SUCCESS
        }
        Parsed::Wrong(text, code) => failed(&line.blame(text), code),
        Parsed::Run(command) => run(command, environment, closed, &Started { typed: arguments, line }),
    }
}

/// How the process was started.
struct Started {
    /// What was typed.
    typed: Vec<OsString>,
    /// The same with the settings of its file.
    line: Line,
}

fn run(
    command: Command,
    environment: Result<Environment, StartError>,
    closed: std::io::Result<()>,
    started: &Started,
) -> ExitCode {
    let json = command.wants_json();
    let done = match command {
        Command::Handlers => return crate::fake::code::child::run(),
        Command::Mcp(args) => {
            let log = args.log.or(named_log(&environment));
            let serve = |dial| bridge(*args, environment, closed, started, dial);
            return serving(log, started, serve);
        }
        #[cfg(feature = "demo")]
        Command::Demo(args) => {
            log::init(log::SERVING);
            return served(environment.and_then(|_| block_on(demo::run(args))?));
        }
        Command::Audit(args) => audit::run(args),
        Command::Keygen(args) => keys::run(&args).map_err(Failure::from).map(|said| say(&said)),
        Command::Node(args) => {
            let log = args.log.or(named_log(&environment));
            let serve = |dial| environment.and_then(|environment| host(*args, environment, started, dial));
            return serving(log, started, serve);
        }
        Command::Health(args) => {
            let asked = environment.and_then(|environment| health::run(&args, environment.health));
            return served(asked.map(|said| say(&said)));
        }
        Command::Config(args) => config::run(args, environment),
        Command::Supervise => return served(supervise()),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
        verb => environment.map_err(Failure::from).and_then(|environment| errand(verb, environment)),
    };
    done.map_or_else(|failure| failure.report(json), |()| ExitCode::SUCCESS)
}

/// The subcommands that join a network for one thing.
fn errand(command: Command, environment: Environment) -> Result<(), Failure> {
    log::init(log::ERRAND);
    match command {
        Command::Peers(args) => block_on(errand::run(args.errand, true, environment, peers::run))?,
        Command::Describe(args) => {
            let work = async |errand: &Errand| describe::run(errand, *args.clone()).await;
            block_on(errand::run(args.errand.clone(), true, environment, work))?
        }
        Command::Call(args) => {
            let work = async |errand: &Errand| call::run(errand, *args.clone()).await;
            block_on(errand::run(args.errand.clone(), args.read_only, environment, work))?
        }
        Command::Watch(args) => {
            let work = async |errand: &Errand| watch::run(errand, *args.clone()).await;
            block_on(errand::run(args.errand.clone(), true, environment, work))?
        }
        Command::Check(args) => {
            let work = async |errand: &Errand| check::run(errand, *args.clone()).await;
            block_on(errand::run(args.errand.clone(), true, environment, work))?
        }
        Command::Serve(args) => {
            let (errand, wanted) = serve::read(*args)?;
            let work = async |errand: &Errand| serve::run(errand, wanted.clone()).await;
            block_on(errand::run(errand, false, environment, work))?
        }
        Command::Doctor(args) => block_on(doctor::run(*args, environment))?,
        Command::Diff(args) if args.is_local() => diff::local(*args),
        Command::Diff(args) => {
            let work = async |errand: &Errand| diff::run(errand, *args.clone()).await;
            block_on(errand::run(args.errand.clone(), true, environment, work))?
        }
        _ => Ok(()),
    }
}

fn bridge(
    args: McpArgs,
    environment: Result<Environment, StartError>,
    closed: std::io::Result<()>,
    started: &Started,
    dial: Dial,
) -> Result<(), StartError> {
    if args.errors || args.tools {
        say(&if args.errors { codes::errors_table() } else { registry::tools_table(&tools::all()) });
        return Ok(());
    }
    let environment = environment?;
    let beside = environment.of_settings();
    let config = mcp::Config::try_new(args, environment).map_err(first)?;
    if let Err(error) = closed {
        tracing::warn!("the process stays readable to others of this user: {error}");
    }
    #[cfg(feature = "otel")]
    let export = otel::Export::wanted()?;
    let begun = |server: &Server| {
        #[cfg(feature = "otel")]
        if let Some(export) = &export {
            server.trace_with(export.tracer());
        }
        let _ = server;
    };
    let served = block_on(async {
        let operator = Operator::new(&started.typed, &started.line, beside, dial, config.door());
        mcp::serve(config, operator, begun).await
    })?;
    #[cfg(feature = "otel")]
    if let Some(export) = export {
        export.end();
    }
    served
}

fn host(args: NodeArgs, environment: Environment, started: &Started, dial: Dial) -> Result<(), StartError> {
    let beside = environment.of_settings();
    let network = node::read(args, environment)?;
    block_on(async {
        let operator = Operator::new(&started.typed, &started.line, beside, dial, None);
        node::serve(network, operator).await
    })?
}

/// What is said of several things that keep it from starting.
fn first(faults: Vec<StartError>) -> StartError {
    StartError(config::in_one_line(&faults.into_iter().map(|StartError(why)| why).collect::<Vec<_>>()))
}

fn supervise() -> Result<(), StartError> {
    block_on(supervise::run())?.map_err(|error| StartError(format!("supervise is for a bridge to use: {error}")))
}

/// How the environment has the log written, as far as it can be read.
fn named_log(environment: &Result<Environment, StartError>) -> Option<log::LogFormat> {
    environment.as_ref().ok()?.log
}

/// Does what serves, with its log. Where that is for programs, why it could not is a line of it like any other.
fn serving(log: log::LogArgs, started: &Started, work: impl FnOnce(Dial) -> Result<(), StartError>) -> ExitCode {
    let dial = log::init_serving(log);
    match work(dial).map_err(|why| StartError(started.line.blame(why.0))) {
        Err(error) if log.is_json() => {
            tracing::error!("{error}");
            ExitCode::from(1)
        }
        outcome => served(outcome),
    }
}

fn served(outcome: Result<(), StartError>) -> ExitCode {
    outcome.map_or_else(|error| failed(&error.0, 1), |()| ExitCode::SUCCESS)
}

fn failed(text: &str, code: u8) -> ExitCode {
    // With standard error closed there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "plantbridge: {text}");
    ExitCode::from(code)
}

/// One thread drives everything: a call crosses no core on its way, and the process stays small.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StartError(format!("the runtime did not start: {error}")))?;
    let outcome = runtime.block_on(work);
    // A blocked read or write of a terminal cannot be taken back; it must not keep the process.
    runtime.shutdown_background();
    Ok(outcome)
}

/// Prints what was asked for instead of running; a reader that has gone is no failure.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
}
