//! `plantbridge completions` and `plantbridge man`: made from the definition of the command line itself.

use clap::{Args, CommandFactory};
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
}

/// Prints what the shell sources.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let (mut script, mut command) = (Vec::new(), Cli::command());
    clap_complete::generate(args.shell, &mut command, "plantbridge", &mut script);
    write_out(&String::from_utf8_lossy(&script))
}

/// Prints a manual page.
pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Cli::command().version(env!("CARGO_PKG_VERSION"));
    command.build();
    let page = match &args.subcommand {
        None => command,
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            found.ok_or_else(|| Failure::Usage(format!("there is no subcommand '{name}' to describe")))?
        }
    };
    let mut written = Vec::new();
    let rendered = clap_mangen::Man::new(page).render(&mut written);
    rendered.map_err(|error| Failure::Broken(format!("the page cannot be written: {error}")))?;
    write_out(&String::from_utf8_lossy(&written))
}
