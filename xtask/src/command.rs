//! Running other programs: say what runs, and turn a failure into one sentence.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::install::repository;

/// Prints the command, runs it with our own standard streams and fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let status = command.status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

/// Whether the program starts and answers `--version` or the like with success; nothing is printed.
pub(crate) fn answers(program: &Path, argument: &str) -> bool {
    let quiet = Command::new(program).arg(argument).stdin(Stdio::null()).output();
    quiet.is_ok_and(|output| output.status.success())
}

/// The first line a program prints on standard output, if it succeeds.
pub(crate) fn first_line(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.lines().next().unwrap_or_default().to_owned())
}

/// Where a program is, looked up the way a shell does, and in the folder where Debian keeps daemons.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The cargo that runs us, in the repository.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repository());
    cargo
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
