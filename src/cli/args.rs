//! The command line, and its refusals in one line each.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    ArgAction, Args, CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::{
    audit::{AuditArgs, TrailArgs},
    call::CallArgs,
    check::CheckArgs,
    config::{ConfigArgs, OperatorArgs},
    describe::DescribeArgs,
    diff::DiffArgs,
    doctor::DoctorArgs,
    door::DoorArgs,
    ending::USAGE,
    health::HealthArgs,
    keys::KeygenArgs,
    log::LogArgs,
    network::NetworkArgs,
    node::NodeArgs,
    peers::PeersArgs,
    scripts::ScriptArgs,
    serve::ServeArgs,
    shell::{CompletionsArgs, ManArgs},
    watch::WatchArgs,
};

/// Puts a live plant network in front of an MCP client.
#[derive(Debug, Parser)]
#[command(name = "plantbridge", disable_version_flag = true)]
pub struct Cli {
    /// Prints the version.
    #[arg(short = 'v', short_alias = 'V', long = "version", action = ArgAction::SetTrue, global = false)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Joins a plant network and serves it to an MCP client on standard input and output.
    Mcp(Box<McpArgs>),
    /// Joins a plant network as a node whose scripts named peers may write, start and stop from afar, without MCP.
    Node(Box<NodeArgs>),
    /// Says what is wrong with the settings of `mcp` or `node`, and which are in force.
    Config(ConfigArgs),
    /// Lists who is on the network: the name, the links it is reached over, and the shape of what it serves, a hash that changes
    /// when that does. In a pipe one tab stands between them, and no heads.
    Peers(Box<PeersArgs>),
    /// Shows what a peer serves.
    Describe(Box<DescribeArgs>),
    /// Calls one method of a peer, once. Nothing is ever repeated; a refusal says what may be concluded.
    Call(Box<CallArgs>),
    /// Listens to one event of a peer: one line of JSON each, and what was missed.
    Watch(Box<WatchArgs>),
    /// Holds a peer against a contract: whether it still serves who was built against that.
    Check(Box<CheckArgs>),
    /// Says what is right and what is wrong with a network: the way there, certificates, the account, what the broker lets us do,
    /// its bounds, its haste, who is there and who answers. Changes nothing and leaves nothing. Exit code 1 if something is wrong.
    Doctor(Box<DoctorArgs>),
    /// Compares two sides, each a peer or the file of a contract.
    Diff(Box<DiffArgs>),
    /// Stands a fake up from a contract in a file, until it is interrupted.
    Serve(Box<ServeArgs>),
    /// Checks or shows the audit trail that `--audit` wrote.
    Audit(TrailArgs),
    /// Asks a bridge on this machine whether its links are up: one line, exit code 0 if they are, else 1. For the health check of a
    /// container, whose image has nothing else to ask with.
    Health(HealthArgs),
    /// Makes a key to sign frames with, in a new file that only its owner can read.
    Keygen(KeygenArgs),
    /// Runs the JavaScript handlers of one fake, for the bridge that started this.
    #[command(name = "handlers", hide = true)]
    Handlers,
    /// Starts a broker and a bakery on this machine, tours them through a real MCP client, and stays up to be attached to.
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
    /// Prints a script that completes this command line in a shell.
    Completions(CompletionsArgs),
    /// Prints the manual page, of everything or of one subcommand; or writes all of them.
    Man(ManArgs),
    /// Runs one program for a bridge, which holds the other end of standard input.
    #[command(hide = true)]
    Supervise,
}

impl Command {
    /// Whether refusals are wanted as JSON.
    pub(super) fn wants_json(&self) -> bool {
        match self {
            Self::Peers(args) => args.errand.json,
            Self::Describe(args) => args.errand.json,
            Self::Call(args) => args.errand.json,
            Self::Watch(args) => args.errand.json,
            Self::Check(args) => args.errand.json,
            Self::Diff(args) => args.errand.json,
            Self::Doctor(args) => args.errand.json,
            Self::Serve(args) => args.errand.json,
            Self::Config(args) => args.wants_json(),
            _ => false,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct McpArgs {
    #[command(flatten)]
    pub(super) network: NetworkArgs,
    /// Serves a bakery on an embedded broker instead of a plant.
    #[cfg(feature = "demo")]
    #[arg(long, conflicts_with_all = ["broker", "hub", "sign"])]
    pub(super) demo: bool,
    /// Only looks: tools that change something are not shown, and only what a peer declares to be an observation is sent.
    /// PLANTBRIDGE_READ_ONLY=1 says the same.
    #[arg(long)]
    pub(super) read_only: bool,
    /// A directory to keep contracts in, as <name>.types.json; made when the first is saved.
    #[arg(long, value_name = "DIR")]
    pub(super) contracts: Option<PathBuf>,
    /// Runs code that the scripts of fakes bring along: handlers in JavaScript, which are shut in, and programs in Python, which
    /// may do what this user may. Needs --development.
    #[arg(long, requires = "development", conflicts_with = "read_only")]
    pub(super) allow_exec: bool,
    #[command(flatten)]
    pub(super) scripts: ScriptArgs,
    /// Offers the tools for scripts without a directory of our own: for nodes that named us with --scriptable-by.
    #[arg(long)]
    pub(super) remote_scripts: bool,
    #[command(flatten)]
    pub(super) audit: AuditArgs,
    #[command(flatten)]
    pub(super) door: DoorArgs,
    #[command(flatten)]
    pub(super) operator: OperatorArgs,
    #[command(flatten)]
    pub(super) log: LogArgs,
    /// Prints the table of all tools and exits.
    #[arg(long, exclusive = true)]
    pub(super) tools: bool,
    /// Prints the table of all error codes and exits.
    #[arg(long, exclusive = true)]
    pub(super) errors: bool,
}

#[cfg(feature = "demo")]
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Ends after the tour: exit code 0 if every step gave what it must.
    #[arg(long)]
    pub(super) once: bool,
}

/// What the command line comes to.
pub(super) enum Parsed {
    /// Do this.
    Run(Command),
    /// Print this and succeed.
    Say(String),
    /// Print this one line and fail with this exit code.
    Wrong(String, u8),
}

/// Reads the command line.
pub(super) fn parse(arguments: &[OsString]) -> Parsed {
    match Cli::try_parse_from(arguments) {
        Ok(Cli { version: true, .. }) => Parsed::Say(version()),
        Ok(Cli { command: Some(command), .. }) => Parsed::Run(command),
        Ok(Cli { command: None, .. }) => Parsed::Say(Cli::command().render_help().to_string()),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            Parsed::Say(error.render().to_string())
        }
        Err(error) => Parsed::Wrong(one_line(&error, arguments), wrong_code(arguments)),
    }
}

/// What serves others ends with 1 whatever keeps it from starting; what is for people tells wrong usage apart.
fn wrong_code(arguments: &[OsString]) -> u8 {
    let serves = |word: &OsString| word == "mcp" || word == "demo" || word == "node";
    if arguments.get(1).is_some_and(serves) { 1 } else { USAGE }
}

fn version() -> String {
    format!("plantbridge {} (msgrpc/v2 topics, frame 3)", env!("CARGO_PKG_VERSION"))
}

/// A refusal in one line. A missing value says what stands in its place.
fn one_line(error: &clap::Error, arguments: &[OsString]) -> String {
    let missing = match (error.kind(), error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue)) {
        (ErrorKind::InvalidValue, Some(ContextValue::String(flag)), Some(ContextValue::String(value)))
            if value.is_empty() =>
        {
            flag.split(' ').next().map(str::to_owned)
        }
        _ => None,
    };
    if let Some(flag) = missing {
        let at = arguments.iter().position(|argument| argument.to_str() == Some(flag.as_str()));
        let next = at.and_then(|at| arguments.get(at + 1)).map(|next| next.to_string_lossy().into_owned());
        return match next {
            Some(next) if next.starts_with('-') => format!("{flag} needs a value, and '{next}' is another flag"),
            _ => format!("{flag} needs a value, and nothing follows it"),
        };
    }
    let usage = usage_of(error).map(|usage| format!("; usage: {usage}"));
    plain_refusal(error) + &usage.unwrap_or_default()
}

fn usage_of(error: &clap::Error) -> Option<String> {
    let text = error.render().to_string();
    text.lines().find_map(|line| line.trim().strip_prefix("Usage:")).map(|usage| usage.trim().to_owned())
}

/// What the parser says, in one line and without how it is used.
pub(super) fn plain_refusal(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let ends = |line: &str| line.starts_with("Usage:") || line.starts_with("For more information");
    let lines = text.lines().map(str::trim);
    let said: Vec<&str> = lines.take_while(|line| !ends(line)).filter(|line| !line.is_empty()).collect();
    said.join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(arguments: &[&str]) -> String {
        refused(arguments).0
    }

    fn refused(arguments: &[&str]) -> (String, u8) {
        let words: Vec<OsString> = ["plantbridge"].iter().chain(arguments).map(OsString::from).collect();
        match parse(&words) {
            Parsed::Wrong(text, code) => (text, code),
            Parsed::Run(command) => panic!("{command:?}"),
            Parsed::Say(text) => panic!("{text}"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_missing_value_is_named_with_what_stands_in_its_place() {
        assert_eq!(wrong(&["mcp", "--broker"]), "--broker needs a value, and nothing follows it");
        assert_eq!(
            wrong(&["mcp", "--broker", "--read-only"]),
            "--broker needs a value, and '--read-only' is another flag"
        );
    }

    #[test]
    fn every_refusal_is_one_line_and_says_what_is_wrong() {
        let cases: [(&[&str], &str); 8] = [
            (&["mcp", "--allow-exec"], "--development"),
            (&["mcp", "--allow-exec", "--development", "--read-only"], "--read-only"),
            (&["mcp", "--timeout", "1e3"], "'1e3'"),
            (&["mcp", "--timeout", "0"], "0"),
            (&["mcp", "--bogus"], "--bogus"),
            (&["mcp", "--client-cert", "a.pem"], "--client-key"),
            (&["mcp", "stray"], "stray"),
            (&["nonsense"], "nonsense"),
        ];
        for (arguments, holds) in cases {
            let text = wrong(arguments);
            assert!(text.contains(holds) && !text.contains('\n') && !text.starts_with("error"), "{text}");
            assert!(!text.contains("--help"), "{text}");
        }
    }

    /// Every bad input of what is for people: one line that names the flag or the place, and exit code 2.
    #[test]
    fn what_is_for_people_tells_wrong_usage_apart() {
        let cases: [(&[&str], &str); 29] = [
            (&["serve", "--contract", "x.json", "--allow-exec"], "--development"),
            (&["peers", "stray"], "stray"),
            (&["peers", "--wait", "-1"], "--wait"),
            (&["peers", "--wait", "600001"], "--wait"),
            (&["peers", "--wait"], "--wait needs a value, and nothing follows it"),
            (&["peers", "--broker", "--json"], "--broker needs a value, and '--json' is another flag"),
            (&["describe"], "<PEER>"),
            (&["describe", ""], "<PEER>"),
            (&["call", "oven-1"], "<NAMESPACE.METHOD>"),
            (&["call", "oven-1", "read"], "<NAMESPACE.METHOD>"),
            (&["call", "oven-1", "oven.read", "-x"], "-x"),
            (&["call", "oven-1", "oven.read", "--args", "{}"], "--args"),
            (&["call", "oven-1", "oven.read", "--args", "[1"], "--args"),
            (&["call", "oven-1", "oven.read", "1", "--args", "[1]"], "--args"),
            (&["call", "oven-1", "oven.read", "--idempotency-key", ""], "--idempotency-key"),
            (&["call", "oven-1", "oven.read", "--timeout", "0"], "--timeout"),
            (&["watch", "oven-1", "oven.door", "--seconds", "0"], "--seconds"),
            (&["watch", "oven-1", "oven.door", "--max-events", "0"], "--max-events"),
            (&["check", "--peer", "oven-1"], "--against"),
            (&["check", "--against", "x.json"], "--peer"),
            (&["diff", "oven-1"], "<B>"),
            (&["doctor", "stray"], "stray"),
            (&["doctor", "--days", "-1"], "--days"),
            (&["serve"], "--contract"),
            (&["serve", "--contract", "x.json", "--fail", "oven.read"], "--fail"),
            (&["serve", "--contract", "x.json", "--fail", "read=Timeout"], "--fail"),
            (&["serve", "--contract", "x.json", "--fail", "oven.read="], "--fail"),
            (&["completions", "cmd"], "SHELL"),
            (&["nonsense"], "nonsense"),
        ];
        for (arguments, holds) in cases {
            let (text, code) = refused(arguments);
            assert!(
                text.contains(holds) && !text.contains('\n') && !text.starts_with("error"),
                "{arguments:?}: {text}"
            );
            assert_eq!(code, USAGE, "{text}");
        }
        for arguments in [&["peers", "extra"][..], &["check", "bakery", "x"], &["version"], &["call", "x"]] {
            let text = wrong(arguments);
            assert!(text.contains("; usage: plantbridge ") && !text.contains('\n'), "{text}");
        }
        assert_eq!(refused(&["mcp", "--bogus"]).1, 1, "what serves others ends as it always did");
    }

    /// A negative number is an argument, and so is everything behind a double dash.
    #[test]
    fn arguments_of_a_call_may_begin_with_a_dash() {
        let words = |arguments: &[&str]| {
            let typed = ["plantbridge", "call", "p", "n.m"].iter().chain(arguments).map(OsString::from);
            let Parsed::Run(Command::Call(args)) = parse(&typed.collect::<Vec<_>>()) else { panic!("{arguments:?}") };
            args.words
        };
        assert_eq!(words(&["-5", "--json", "-1.5e3"]), ["-5", "-1.5e3"]);
        assert_eq!(words(&["--json", "--", "--x", "-y"]), ["--x", "-y"]);
    }

    #[test]
    fn the_bare_command_prints_usage_and_the_version_is_short() {
        let Parsed::Say(help) = parse(&["plantbridge".into()]) else { panic!("no usage") };
        assert!(help.contains("mcp") && help.contains("Usage"));
        for (of, holds) in [(None, "watch"), (Some("call"), "--idempotency-key")] {
            let typed = ["plantbridge", "help"].into_iter().chain(of).map(OsString::from);
            let Parsed::Say(help) = parse(&typed.collect::<Vec<_>>()) else { panic!("no help") };
            assert!(help.contains(holds), "{help}");
        }
        for flag in ["--version", "-v", "-V"] {
            let Parsed::Say(text) = parse(&["plantbridge".into(), flag.into()]) else { panic!("no version") };
            assert!(text.starts_with("plantbridge "));
        }
    }
}
