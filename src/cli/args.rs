//! The command line, and its refusals in one line each.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    ArgAction, Args, CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Puts a live plant network in front of an MCP client.
#[derive(Debug, Parser)]
#[command(name = "plantbridge", disable_version_flag = true, disable_help_subcommand = true)]
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
    /// Starts a broker and a bakery on this machine, tours them through a real MCP client, and stays up to be attached to.
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
}

#[derive(Debug, Args)]
pub(super) struct McpArgs {
    /// The MQTT 5 broker: mqtt://host[:1883] or mqtts://host[:8883]. The account comes from PLANTBRIDGE_MQTT_USERNAME and
    /// PLANTBRIDGE_MQTT_PASSWORD, never from here.
    #[arg(long, value_name = "URL")]
    pub(super) broker: Option<String>,
    /// Serves a bakery on an embedded broker instead of a plant.
    #[cfg(feature = "demo")]
    #[arg(long, conflicts_with = "broker")]
    pub(super) demo: bool,
    /// Our name on the network; made up if not given. A name belongs to one process per broker.
    #[arg(long, value_name = "PEER")]
    pub(super) name: Option<String>,
    /// The topic prefix all peers share.
    #[arg(long, value_name = "TOPIC", default_value = "msgrpc/v2")]
    pub(super) prefix: String,
    /// How long a call waits for its answer, in milliseconds, unless it says otherwise.
    #[arg(long, value_name = "MS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=600_000))]
    pub(super) timeout: u32,
    /// Only looks: tools that change something are not shown, and only what a peer declares to be an observation is sent.
    #[arg(long)]
    pub(super) read_only: bool,
    /// A directory to keep contracts in, as <name>.types.json; made when the first is saved.
    #[arg(long, value_name = "DIR")]
    pub(super) contracts: Option<PathBuf>,
    /// Certificates of a private authority to trust beside the system's, as PEM.
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Our certificate towards the broker, as PEM. Needs --client-key.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(super) client_cert: Option<PathBuf>,
    /// The key of --client-cert, as PEM.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(super) client_key: Option<PathBuf>,
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
    /// Print this one line and fail.
    Wrong(String),
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
        Err(error) => Parsed::Wrong(one_line(&error, arguments)),
    }
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
    let text = error.render().to_string();
    let ends = |line: &str| line.starts_with("Usage:") || line.starts_with("For more information");
    let lines = text.lines().map(str::trim).take_while(|line| !ends(line));
    let said: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    said.join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(arguments: &[&str]) -> String {
        let words: Vec<OsString> = ["plantbridge"].iter().chain(arguments).map(OsString::from).collect();
        match parse(&words) {
            Parsed::Wrong(text) => text,
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
        let cases: [(&[&str], &str); 6] = [
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

    #[test]
    fn the_bare_command_prints_usage_and_the_version_is_short() {
        let Parsed::Say(help) = parse(&["plantbridge".into()]) else { panic!("no usage") };
        assert!(help.contains("mcp") && help.contains("Usage"));
        for flag in ["--version", "-v", "-V"] {
            let Parsed::Say(text) = parse(&["plantbridge".into(), flag.into()]) else { panic!("no version") };
            assert!(text.starts_with("plantbridge "));
        }
    }
}
