//! The layers of settings, strongest first: flags, the environment, the file, defaults. What the file says is put into the command
//! line as the flags that say the same, so that one parser holds the rules, between a flag and a file too.

use std::{ffi::OsString, path::PathBuf};

use clap::{Command, CommandFactory, parser::ValueSource};

use super::{
    file::{self, Entry, For, Place},
    keys,
};
use crate::cli::{
    Cli,
    args::{self, Parsed},
    environment::Environment,
    log,
};

/// The subcommands that a file of settings is for.
pub(in crate::cli) const SERVING: [&str; 2] = ["mcp", "node"];
/// Where we are is one setting of two flags: a hub that was named is not joined by a broker that was not.
const PLACES: [&str; 2] = ["broker", "hub"];
/// What RUST_LOG says as well.
const LEVEL: &str = "log_level";
/// What PLANTBRIDGE_LOG says as well.
const FORMAT: &str = "log";

/// A command line with the settings of its file in it.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Line {
    /// All of it.
    pub(in crate::cli) arguments: Vec<OsString>,
    /// What of it came from the file.
    pub(super) entries: Vec<Entry>,
}

/// Puts what the file of a command line says into it, where nothing stronger says otherwise.
///
/// # Errors
///
/// All that is wrong with the file, a line each.
pub(in crate::cli) fn whole(typed: &[OsString], environment: Option<&Environment>) -> Result<Line, Vec<String>> {
    let bare = Line { arguments: typed.to_vec(), ..Line::default() };
    let Some((command, other)) = serving(typed) else { return Ok(bare) };
    // What cannot be read of it is refused by the parser, in its words.
    let flags = keys::without_rules(&command).try_get_matches_from(typed.iter().skip(2));
    let Ok(flags) = flags else { return Ok(bare) };
    let Some(path) = flags.get_one::<PathBuf>("config").cloned() else { return Ok(bare) };
    let is_typed = |id: &str| flags.value_source(id) == Some(ValueSource::CommandLine);
    let placed = environment.is_some_and(|environment| environment.broker.is_some() || environment.hub.is_some());
    let placed = placed || PLACES.iter().any(|id| is_typed(id));
    let stronger = |entry: &Entry| {
        is_typed(&entry.key.id)
            || (placed && PLACES.contains(&entry.key.name.as_str()))
            || (entry.key.name == LEVEL && log::of_environment().is_some())
            || (entry.key.name == FORMAT && environment.is_some_and(|environment| environment.log.is_some()))
    };
    let mut entries = file::read(&path, For { command: &command, other: &other })?;
    entries.retain(|entry| !stronger(entry));
    let own = typed.iter().take(2).cloned();
    let filed = entries.iter().flat_map(Entry::arguments);
    let arguments = own.chain(filed).chain(typed.iter().skip(2).cloned()).collect();
    Ok(Line { arguments, entries })
}

/// The definition of the subcommand that was typed, and that of the other; nothing if it is neither.
pub(super) fn serving(typed: &[OsString]) -> Option<(Command, Command)> {
    let word = typed.get(1)?.to_str().filter(|word| SERVING.contains(word))?;
    let other = SERVING.into_iter().find(|other| *other != word)?;
    let all = Cli::command();
    Some((all.find_subcommand(word)?.clone(), all.find_subcommand(other)?.clone()))
}

impl Line {
    /// The same refusal with the place of what it is about, if that stands in the file.
    pub(in crate::cli) fn blame(&self, refusal: String) -> String {
        match self.to_blame(&refusal) {
            Some(place) => format!("{place}: {refusal}"),
            None => refusal,
        }
    }

    fn to_blame(&self, refusal: &str) -> Option<&Place> {
        let names = |entry: &&Entry| names(refusal, &entry.key.long) || entry.is_path_in(refusal);
        let named = || self.entries.iter().find(names).map(|entry| &entry.place);
        if !matches!(args::parse(&self.arguments), Parsed::Wrong(..)) {
            return named();
        }
        // A rule between flags: that one is to blame without which it holds.
        let holds_without = |entry: &&Entry| matches!(args::parse(&self.without(entry)), Parsed::Run(_));
        self.entries.iter().find(holds_without).map(|entry| &entry.place).or_else(named)
    }

    fn without(&self, left_out: &Entry) -> Vec<OsString> {
        let out = left_out.arguments();
        let own = self.arguments.iter().take(2).cloned();
        own.chain(self.arguments.iter().skip(2).filter(|argument| !out.contains(argument)).cloned()).collect()
    }
}

/// Whether a text names this flag.
fn names(text: &str, long: &str) -> bool {
    let flag = format!("--{long}");
    text.match_indices(&flag).any(|(at, _)| {
        let next = text.as_bytes().get(at + flag.len());
        next.is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-')
    })
}
