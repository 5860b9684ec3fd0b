//! `plantbridge completions` and `plantbridge man`: made from the definition of the command line itself.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::{Cli, ending::Failure, out::write_out};

#[derive(Clone, Debug, Args)]
pub(super) struct CompletionsArgs {
    /// Of which shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Clone, Debug, Args)]
pub(super) struct ManArgs {
    /// The page of this subcommand instead.
    #[arg(value_name = "SUBCOMMAND")]
    subcommand: Option<String>,
    /// Writes every page into this directory instead, which is made if need be: one of everything and one a subcommand.
    #[arg(long, value_name = "DIR", conflicts_with = "subcommand")]
    into: Option<PathBuf>,
}

/// Prints what the shell sources.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let (mut script, mut command) = (Vec::new(), Cli::command());
    clap_complete::generate(args.shell, &mut command, "plantbridge", &mut script);
    write_out(&String::from_utf8_lossy(&script))
}

/// Prints a manual page, or writes all of them.
pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Cli::command().version(env!("CARGO_PKG_VERSION"));
    command.build();
    if let Some(folder) = &args.into {
        return all_pages(&command, folder);
    }
    let page = match &args.subcommand {
        None => command,
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            found.ok_or_else(|| Failure::Usage(format!("there is no subcommand '{name}' to describe")))?
        }
    };
    write_out(&page_of(page)?.1)
}

/// One page a file. What is not for people has none.
fn all_pages(command: &Command, folder: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| Failure::Broken(format!("{}: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    let subcommands = command.get_subcommands().filter(shown);
    for command in std::iter::once(command).chain(subcommands) {
        let (name, text) = page_of(command.clone())?;
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// The name of the file of a page, and its text.
fn page_of(command: Command) -> Result<(String, String), Failure> {
    let (page, mut written) = (clap_mangen::Man::new(command), Vec::new());
    let rendered = page.render(&mut written);
    rendered.map_err(|error| Failure::Broken(format!("the page cannot be written: {error}")))?;
    Ok((page.get_filename(), String::from_utf8_lossy(&written).into_owned() + ENVIRONMENT + SIGNALS + EXIT_STATUS))
}

/// What the definition of the command line does not know. In roff.
const ENVIRONMENT: &str = r"
.SH ENVIRONMENT
.TP
PLANTBRIDGE_BROKER, PLANTBRIDGE_HUB
The broker and the hub, where no flag names a place. Else SOURCE_RPC_BROKER and SOURCE_RPC_HUB.
.TP
PLANTBRIDGE_MQTT_USERNAME, PLANTBRIDGE_MQTT_PASSWORD
The account at the broker. Else SOURCE_RPC_MQTT_USERNAME and SOURCE_RPC_MQTT_PASSWORD, never a mixture.
.TP
PLANTBRIDGE_TOKEN
What is presented to the hub, unless \-\-auth names a file. Else SOURCE_RPC_TOKEN.
.TP
PLANTBRIDGE_READ_ONLY
1 or true: nothing but declared observations is sent. 0, false or not set: what the flags say.
.TP
PLANTBRIDGE_MCP_TOKEN
The token of clients over HTTP, unless \-\-mcp\-auth names a file. Else SOURCE_RPC_MCP_TOKEN.
.TP
RUST_LOG
How much is written to standard error, unless \-\-log\-level says so. Stronger than a file of settings.
.TP
NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID
Set by a service manager: where it is told of readiness, status, reloads and the end, and how often it wants a sign of life.
.TP
NO_COLOR
Set and not empty: no colour on a terminal.
";

const SIGNALS: &str = r"
.SH SIGNALS
.TP
SIGINT, SIGTERM
End the process in order.
.TP
SIGHUP
Has \fBmcp\fR and \fBnode\fR read their settings again: \-\-config, the tokens and certificates it and the flags name. All of them are taken, or none.
";

const EXIT_STATUS: &str = r"
.SH EXIT STATUS
.TP
0
Done.
.TP
1
Refused, in doubt, not reachable; something breaking, different or wrong was found; nothing was heard of an event that is not declared;
or what serves others could not start, or would not, as \fBconfig check\fR found.
.TP
2
Wrong usage of a subcommand for people.
";
