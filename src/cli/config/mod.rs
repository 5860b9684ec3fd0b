//! Settings from a file, beside flags and the environment: `--config`, and `plantbridge config`, which says what is wrong with them
//! and what is in force.
//!
//! A key of the file is a flag (`keys.rs`). The file is read strictly (`file.rs`) and becomes a part of the command line (`layers.rs`),
//! so what a flag refuses, a file is refused for in the same words, with its place.

mod file;
mod keys;
mod layers;
mod secret;
mod settings;
mod shown;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

pub(super) use layers::{Line, whole};
pub(super) use settings::Settings;

use super::{
    StartError,
    args::{self, Command, Parsed},
    ending::Failure,
    environment::Environment,
    mcp, node,
    out::Out,
};

/// The flags of what serves, whoever its operator is.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct OperatorArgs {
    /// A file of settings in TOML: a key is one of these flags without its dashes and with _ for -, as in allow_origin. A flag
    /// is stronger than the environment, the environment than the file. Paths in it are relative to where it lies. SIGHUP
    /// reads it again.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Says everything that would keep `plantbridge mcp` from starting, and opens nothing. Exit code 1 if there is something.
    Check(OfArgs),
    /// Prints the settings in force as a file of settings, each with where it came from. Secrets are never shown.
    Print(OfArgs),
}

#[derive(Debug, Args)]
struct OfArgs {
    /// Those of `plantbridge node` instead.
    #[arg(long)]
    node: bool,
    /// Writes JSON.
    #[arg(long)]
    json: bool,
    /// The flags it would be started with: --config FILE above all.
    #[arg(value_name = "FLAG", trailing_var_arg = true, allow_hyphen_values = true)]
    flags: Vec<OsString>,
}

impl OfArgs {
    /// The command line that is asked about. Our own flags may stand among its flags.
    fn line(&mut self) -> Vec<OsString> {
        let (node, json) = (&mut self.node, &mut self.json);
        self.flags.retain(|flag| {
            let (is_node, is_json) = (flag == "--node", flag == "--json");
            *node |= is_node;
            *json |= is_json;
            !is_node && !is_json
        });
        let word = if self.node { "node" } else { "mcp" };
        ["plantbridge", word].into_iter().map(OsString::from).chain(self.flags.iter().cloned()).collect()
    }
}

impl ConfigArgs {
    /// Whether refusals are wanted as JSON.
    pub(super) const fn wants_json(&self) -> bool {
        match &self.what {
            What::Check(args) | What::Print(args) => args.json,
        }
    }
}

/// Says what was asked about the settings.
pub(super) fn run(args: ConfigArgs, environment: Result<Environment, StartError>) -> Result<(), Failure> {
    match args.what {
        What::Check(args) => check(args, environment),
        What::Print(mut args) => {
            let typed = args.line();
            let environment = environment?;
            match whole(&typed, Some(&environment)).and_then(accepted) {
                Ok((line, _)) => {
                    shown::run(&Settings::of(&line, &environment), &typed, &environment, Out::new(args.json))
                }
                Err(problems) => {
                    for problem in problems {
                        Out::new(args.json).note(&format!("plantbridge: {problem}"));
                    }
                    Err(Failure::Finding)
                }
            }
        }
    }
}

fn check(mut args: OfArgs, environment: Result<Environment, StartError>) -> Result<(), Failure> {
    let typed = args.line();
    let out = Out::new(args.json);
    let problems = problems(&typed, environment);
    if args.json {
        out.say(out.line(&json!({"ok": problems.is_empty(), "problems": problems})).trim_end())?;
    } else if problems.is_empty() {
        let word = if args.node { "node" } else { "mcp" };
        out.say(&format!("nothing keeps `plantbridge {word}` from starting with these settings"))?;
    }
    if problems.is_empty() {
        return Ok(());
    }
    if !args.json {
        let lines: Vec<String> = problems.iter().map(|problem| crate::mcp::text::one_line(problem)).collect();
        out.say(&lines.join("\n"))?;
    }
    Err(Failure::Finding)
}

/// The line with what it asks for, if it is accepted.
fn accepted(line: Line) -> Result<(Line, Command), Vec<String>> {
    match args::parse(&line.arguments) {
        Parsed::Run(command) => Ok((line, command)),
        Parsed::Wrong(why, _) => Err(vec![line.blame(why)]),
        Parsed::Say(_) => Err(vec!["this prints its help, and has no settings".into()]),
    }
}

/// Everything that would keep it from starting, as far as it can be known at once.
fn problems(typed: &[OsString], environment: Result<Environment, StartError>) -> Vec<String> {
    let read = whole(typed, environment.as_ref().ok()).and_then(accepted);
    let (environment, mut problems) = match environment {
        Ok(environment) => (environment, Vec::new()),
        Err(StartError(why)) => (Environment::default(), vec![why]),
    };
    match read {
        Err(wrong) => problems.extend(wrong),
        // What the environment would have said is not missed where it is wrong itself.
        Ok(_) if !problems.is_empty() => {}
        Ok((line, command)) => problems.extend(faults(command, environment).into_iter().map(|why| line.blame(why.0))),
    }
    problems
}

fn faults(command: Command, environment: Environment) -> Vec<StartError> {
    match command {
        Command::Mcp(args) if args.tools || args.errors => Vec::new(),
        Command::Mcp(args) => mcp::Config::try_new(*args, environment).err().unwrap_or_default(),
        Command::Node(args) => node::read(*args, environment).err().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// What is wrong with a file, for whoever starts: the first of it, and how to see the rest.
pub(super) fn in_one_line(problems: &[String]) -> String {
    match problems {
        [] => String::new(),
        [only] => only.clone(),
        [first, rest @ ..] => {
            format!("{first} (and {} more; `plantbridge config check` with these flags says all)", rest.len())
        }
    }
}
