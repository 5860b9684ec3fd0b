//! What runs wrote, on the disk: the last runs of each script, and so many of all, each in a file of its own of
//! bounded size, for whoever asks after the bridge was started again. A script that is deleted takes them along.

use std::{fs::File, io::Write as _};

use super::{
    FileFault, ScriptFault, ScriptName,
    folder::{Folder, Kind},
    pinned::{Pinned, is_left},
    results::{Output, RunEnd},
    ring::LINES,
    store::file_fault,
};

/// The record of one run. What is written waits here until there is enough, or a moment has passed.
#[derive(Debug)]
pub(super) struct Record {
    file: File,
    /// What runs, which goes with the end of the run.
    _text: Pinned,
    pending: Vec<u8>,
    taken: usize,
    left_out: u64,
    broken: bool,
}

impl Record {
    /// Begins the record of a run, and forgets the oldest.
    pub(super) fn begin(text: Pinned, name: &ScriptName, run: &str) -> Result<Self, ScriptFault> {
        let below = text.folder.below(FOLDER).map_err(|fault| file_fault(FOLDER, fault))?;
        prune(&below, name)?;
        let file = file(name, run);
        let file = below.fresh(&file).map_err(|fault| file_fault(&file, fault))?;
        // Or the record of a run that goes on for long would be the oldest that is forgotten.
        let _ = file.try_lock();
        Ok(Self { file, _text: text, pending: Vec::new(), taken: 0, left_out: 0, broken: false })
    }

    /// Takes a line in; beyond the bound lines are only counted.
    pub(super) fn push(&mut self, line: &str) {
        if self.left_out > 0 || self.taken + line.len() + 1 > HEAD {
            self.left_out += 1;
            return;
        }
        self.taken += line.len() + 1;
        self.pending.extend_from_slice(line.as_bytes());
        self.pending.push(b'\n');
    }

    /// Whether so much waits that it should be written.
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= WAITING
    }

    /// Whether anything waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes what waits. A disk that is full ends the record, not the run.
    pub(super) fn flush(&mut self) {
        if !self.broken && self.file.write_all(&self.pending).is_err() {
            self.broken = true;
            tracing::warn!("the record of a script's run cannot be written; its output is kept in memory only");
        }
        self.pending = Vec::new();
    }

    /// Whether lines were left out, so that its end has to be told again.
    pub(super) fn is_cut(&self) -> bool {
        self.left_out > 0
    }

    /// Writes the end: the last lines that were left out, and how it ended.
    pub(super) fn end(mut self, last: &[String], ended: &RunEnd) {
        if self.is_cut() {
            let mut bytes = 0;
            let fits =
                last.iter().rev().take(usize::try_from(self.left_out).unwrap_or(usize::MAX)).take_while(|line| {
                    bytes += line.len() + 1;
                    bytes <= TAIL
                });
            let kept = fits.count();
            let missing = self.left_out - kept as u64;
            self.pending.extend_from_slice(format!("({missing} lines are not kept)\n").as_bytes());
            for line in last.iter().skip(last.len() - kept) {
                self.pending.extend_from_slice(line.as_bytes());
                self.pending.push(b'\n');
            }
        }
        self.pending.extend_from_slice(last_line(ended).as_bytes());
        self.pending.push(b'\n');
        self.flush();
    }
}

/// How a run ended, as its output says it.
fn last_line(ended: &RunEnd) -> String {
    let code = ended.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let signal = ended.signal.map(|signal| format!(", signal {signal}")).unwrap_or_default();
    format!("(ended: code {code}{signal})")
}

/// What is kept of one run, or of the last one: its name and its last lines.
pub(super) fn read(
    folder: &Folder,
    name: &ScriptName,
    run: Option<&str>,
) -> Result<(String, Vec<String>), ScriptFault> {
    let never = || ScriptFault::NeverStarted {
        what: run.map_or_else(|| format!("'{name}'"), |run| format!("run {run} of '{name}'")),
    };
    // Looking makes nothing.
    if folder.kind(FOLDER).map_err(|fault| file_fault(FOLDER, fault))?.is_none() {
        return Err(never());
    }
    let below = folder.below(FOLDER).map_err(|fault| file_fault(FOLDER, fault))?;
    let kept = kept(&below, name)?;
    let wanted = match run {
        Some(run) => kept.into_iter().find(|kept| kept == run),
        None => kept.into_iter().max(),
    };
    let run = wanted.ok_or_else(never)?;
    let file = file(name, &run);
    let bytes = match below.read(&file, LARGEST) {
        Ok(bytes) => bytes,
        Err(FileFault::Missing) => return Err(never()),
        Err(fault) => return Err(file_fault(&file, fault)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LINES);
    Ok((run, lines.iter().skip(from).map(|line| (*line).to_owned()).collect()))
}

/// As much of what is kept as was asked for.
pub(super) fn output(run: String, lines: &[String], after: Option<u64>, most: usize, bytes: usize) -> Output {
    let total = lines.len();
    let first = after.and_then(|after| usize::try_from(after).ok()).unwrap_or(total.saturating_sub(most)).min(total);
    let mut size = 0;
    let fits = |line: &&String| {
        size += line.len();
        size <= bytes
    };
    let mut kept: Vec<String> = lines.iter().skip(first).take(most).take_while(fits).cloned().collect();
    if kept.is_empty() {
        kept.extend(lines.get(first).cloned());
    }
    let more = (total - first - kept.len()) as u64;
    // How it ended is its last line, if it was written.
    let ended = (more == 0).then(|| RunEnd { note: Some("the last line says how".into()), ..RunEnd::default() });
    Output { run, first: first as u64, lines: kept, more, fell_off: 0, ended, stored: true }
}

/// Makes room for one more: of a script, and of all. Those of runs that go on stay.
fn prune(below: &Folder, name: &ScriptName) -> Result<(), ScriptFault> {
    let mut all = all(below)?;
    all.sort_unstable();
    let mut surplus = (all.len() + 1).saturating_sub(RUNS_IN_ALL);
    let mut own = (all.iter().filter(|(_, script)| script == name.as_str()).count() + 1).saturating_sub(RUNS);
    for (run, script) in all {
        let is_own = script == name.as_str();
        let file = format!("{script}.{run}{ENDING}");
        if (surplus == 0 && !(is_own && own > 0)) || !is_left(below, &file) {
            continue;
        }
        below.discard(&file).map_err(|fault| file_fault(&file, fault))?;
        surplus = surplus.saturating_sub(1);
        own = own.saturating_sub(usize::from(is_own));
    }
    Ok(())
}

/// Forgets the runs of a script that is no more. One that was started in the meantime keeps its own.
pub(super) fn forget(folder: &Folder, name: &ScriptName) {
    if folder.kind(FOLDER).ok().flatten().is_none() {
        return;
    }
    let Ok(below) = folder.below(FOLDER) else { return };
    let files = kept(&below, name).unwrap_or_default().into_iter().map(|run| file(name, &run));
    for file in files.filter(|file| is_left(&below, file)) {
        // What stays falls to the bound of all.
        let _ = below.discard(&file);
    }
}

/// The runs that are kept of a script.
fn kept(below: &Folder, name: &ScriptName) -> Result<Vec<String>, ScriptFault> {
    let of = |(run, script): (String, String)| (script == name.as_str()).then_some(run);
    Ok(all(below)?.into_iter().filter_map(of).collect())
}

/// The runs that are kept, each with its script.
fn all(below: &Folder) -> Result<Vec<(String, String)>, ScriptFault> {
    let (entries, _) = below.entries(MAX_ENTRIES).map_err(|fault| file_fault(FOLDER, fault))?;
    let run = |(file, kind): (String, Kind)| {
        let (script, run) = file.strip_suffix(ENDING)?.rsplit_once('.')?;
        (kind == Kind::File && is_run(run)).then(|| (run.to_owned(), script.to_owned()))
    };
    Ok(entries.into_iter().filter_map(run).collect())
}

/// Whether this names a run: the moment, in digits, and a few more of chance.
pub(super) fn is_run(text: &str) -> bool {
    let rest = text.split_once('-');
    rest.is_some_and(|(moment, chance)| {
        moment.len() == 17
            && moment.bytes().all(|byte| byte.is_ascii_digit())
            && chance.len() == 4
            && chance.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

fn file(name: &ScriptName, run: &str) -> String {
    format!("{name}.{run}{ENDING}")
}

/// Where they are, in the directory of scripts.
const FOLDER: &str = ".runs";
const ENDING: &str = ".log";
/// Runs that are kept of a script.
const RUNS: usize = 10;
/// Runs that are kept in all, beside those that go on.
const RUNS_IN_ALL: usize = 256;
/// Bytes of a record from its beginning.
const HEAD: usize = 512 * 1024;
/// Bytes of it from its end, if it is longer.
const TAIL: usize = 256 * 1024;
/// Bytes that wait to be written.
const WAITING: usize = 64 * 1024;
/// Bytes of a record that are read.
const LARGEST: u64 = 1024 * 1024;
/// Entries of that directory that are looked at: all runs that are kept, and some junk.
const MAX_ENTRIES: usize = 8_192;
