//! A package manager at work: its process, its time, and what it says.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{
    Input, Limits, Plan, ScriptFault, Scripts,
    gather::{Gathered, gather},
    how,
    results::Packager,
};

/// One run of a package manager.
pub(super) struct Work<'a> {
    pub(super) manager: Packager,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// Where it is started.
    pub(super) from: &'a Path,
    /// The directory of scripts, which is not told.
    pub(super) directory: &'a Path,
}

impl Scripts {
    /// Runs a package manager to its end; gives the end of what it wrote.
    pub(super) async fn run_packager(
        &self,
        work: Work<'_>,
        note: &impl Fn(&str),
        stop: &CancellationToken,
    ) -> Result<String, ScriptFault> {
        let manager = work.manager.as_str();
        let inherited = &self.shared.config.inherited;
        let plan = Plan {
            program: work.program,
            arguments: work.arguments,
            environment: inherited.everybody.iter().chain(&inherited.packagers).cloned().collect(),
            directory: work.from.to_owned(),
            scratch: false,
            input: Input::Closed,
            limits: Limits { run_ms: Some(BUDGET_MS), memory: Some(MEMORY), ..Limits::default() },
        };
        let failed = |why: String, output: &str| ScriptFault::Install { manager, why, output: tail(output) };
        let started = self.shared.config.supervisor.start(&plan).await;
        let process = started.map_err(|fault| failed(format!("could not be started: {fault}"), ""))?;
        let heard = |piece: &[u8]| {
            let text = String::from_utf8_lossy(piece);
            if let Some(line) = text.lines().rfind(|line| !line.trim().is_empty()) {
                let line: String = line.chars().take(200).collect();
                note(&without_places(&line, work.directory, inherited.home()));
            }
        };
        let Gathered { ended, text, too_much } = tokio::select! {
            gathered = gather(process, MOST_OUTPUT, heard) => gathered,
            // Dropped with its line, it is ended with all it began.
            () = stop.cancelled() => return Err(ScriptFault::Cancelled { manager }),
        };
        let text = without_places(&text, work.directory, inherited.home());
        match (too_much, ended.by, ended.code) {
            (true, ..) => Err(failed("wrote more than 8 MiB, and was ended".into(), &text)),
            (_, super::EndedBy::Time, _) => Err(failed("took more than 180 s, and was ended".into(), &text)),
            (_, _, Some(0)) => Ok(tail(&text)),
            _ => Err(failed(format!("failed, with {}", how(&ended)), &text)),
        }
    }
}

/// The npm that came with a Node.
pub(super) fn npm_beside(node: &Path) -> Option<PathBuf> {
    let node = node.canonicalize().ok()?;
    let npm = node.parent()?.parent()?.join("lib/node_modules/npm/bin/npm-cli.js");
    npm.is_file().then_some(npm)
}

/// The script that a command called npm is.
pub(super) fn npm_of(command: &Path) -> Option<PathBuf> {
    let script = command.canonicalize().ok()?;
    let is_script = script.extension().is_some_and(|ending| ending == "js" || ending == "cjs");
    is_script.then_some(script)
}

/// What a package manager wrote, without where things are on this machine.
fn without_places(text: &str, directory: &Path, home: &str) -> String {
    let directory = directory.to_string_lossy();
    let mut text = text.replace(&*directory, ".");
    if home.len() > 1 {
        text = text.replace(home, "~");
    }
    text
}

/// The end of what a package manager wrote.
fn tail(text: &str) -> String {
    let from = text.ceil_char_boundary(text.len().saturating_sub(SHOWN));
    text.get(from..).unwrap_or_default().trim().to_owned()
}

/// How long a package manager may take, in milliseconds.
const BUDGET_MS: u64 = 180_000;
/// Bytes of memory it may use.
const MEMORY: u64 = 2 << 30;
/// Bytes it may write.
const MOST_OUTPUT: usize = 8 * 1024 * 1024;
/// Bytes of that which are shown.
const SHOWN: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// results.md 2: a path of this machine never appears.
    #[test]
    fn where_things_are_is_not_told() {
        let told = without_places("log: /home/me/.npm/x.log\nin /srv/s/node_modules", Path::new("/srv/s"), "/home/me");
        assert_eq!(told, "log: ~/.npm/x.log\nin ./node_modules");
        assert_eq!(without_places("/a", Path::new("/srv"), "/"), "/a");
    }

    #[test]
    fn what_is_long_is_shown_from_its_end() {
        assert_eq!(tail(" ok \n"), "ok");
        let long = format!("{}ä{}", "x".repeat(100), "y".repeat(SHOWN - 1));
        assert_eq!(tail(&long).len(), SHOWN - 1);
    }
}
