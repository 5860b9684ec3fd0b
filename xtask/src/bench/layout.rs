//! `cargo xtask layout`: which code runs in every session, as a linker script that lays it out together.
//!
//! A session of the release binary runs under callgrind, and the functions it entered become patterns of section names.
//! What a compiler draws anew (the hashes of crates, the places that back references point to) becomes a wildcard, so
//! that the next version of the compiler or of a crate finds most of them again.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bridge::Bridge;
use super::broker::{Broker, Kind};
use super::peer::{DESCRIBED, Peers, UNDESCRIBED};
use crate::command::find;
use crate::install::repository;

/// Calls of each peer: what runs once in a while, like an allocation that grows, is to run too.
const CALLS: usize = 50;

/// Traces the release binary, or the release `--binary FILE` names, and writes `build/startup.ld`.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let binary = match words {
        [] => super::build(true)?,
        [flag, file] if flag == "--binary" => PathBuf::from(file),
        _ => return Err("usage: cargo xtask layout [--binary FILE]".to_owned()),
    };
    let trace = binary.with_file_name("plantbridge.callgrind");
    session(&binary, &trace)?;
    let text = fs::read_to_string(&trace).map_err(|error| format!("{}: {error}", trace.display()))?;
    let patterns: BTreeSet<String> = entered(&text).filter_map(pattern).collect();
    let script = repository().join("build/startup.ld");
    fs::write(&script, linker_script(&patterns)).map_err(|error| format!("{}: {error}", script.display()))?;
    println!("{}: {} patterns; a release built now is laid out by them", script.display(), patterns.len());
    Ok(())
}

/// One session: it begins, looks, calls and ends.
fn session(binary: &Path, trace: &Path) -> Result<(), String> {
    let valgrind: PathBuf = find("valgrind").ok_or("valgrind is not installed")?;
    let broker = Broker::start(Kind::Stock)?;
    let _peers = Peers::join(broker.port, 0)?;
    let mut command = Command::new(valgrind);
    command.args(["--tool=callgrind", "--demangle=no"]).arg(format!("--callgrind-out-file={}", trace.display()));
    let mut bridge = Bridge::start_as(command.arg(binary), broker.port, &[])?.0;
    bridge.request("tools/list", "{}")?;
    bridge.tool("list_peers", "{}")?;
    for peer in [DESCRIBED, UNDESCRIBED] {
        bridge.sequential(peer, CALLS, &mut Vec::new())?;
        bridge.flight(peer, CALLS, super::IN_FLIGHT)?;
    }
    bridge.end().map(drop)
}

/// The functions that were entered: a name is given once, and after that its number stands for it.
fn entered(trace: &str) -> impl Iterator<Item = &str> {
    let mut names = HashMap::new();
    trace.lines().filter_map(move |line| {
        let (kind, rest) = line.split_once("fn=(")?;
        let (number, name) = rest.split_once(')')?;
        if let Some(name) = name.strip_prefix(' ') {
            // A recursion is told by the depth behind an apostrophe.
            names.insert(number, name.split('\'').next().unwrap_or(name));
        }
        kind.is_empty().then(|| names.get(number).copied())?
    })
}

/// The pattern of a Rust function's name; nothing for what the C library or an assembler named.
fn pattern(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("_R")?;
    let mut out = "_R".to_owned();
    while let Some(at) = rest.find(['B', 'C']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let mark = if from.starts_with("Cs") { 2 } else { 1 };
        let (mark, body) = from.split_at(mark);
        out.push_str(mark);
        rest = body;
        let number = body.len() - body.trim_start_matches(|digit: char| digit.is_ascii_alphanumeric()).len();
        if mark != "C" && body.get(number..).is_some_and(|after| after.starts_with('_')) {
            out.push('*');
            rest = body.get(number..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    Some(out.split('.').next().unwrap_or_default().to_owned())
}

fn linker_script(patterns: &BTreeSet<String>) -> String {
    let mut out = String::from(
        "/* The code that runs in every session, laid out together: see build.rs.\n   \
         Written by `cargo xtask layout`; a pattern that no longer fits anything does no harm. */\n\
         SECTIONS {\n  .text.session : {\n",
    );
    for pattern in patterns {
        // What is rarely reached by the compiler's reckoning, like an allocation that grows, has a prefix of its own.
        let _ = writeln!(out, "    *(.text*.{pattern})");
    }
    out.push_str("  }\n}\nINSERT BEFORE .text;\n");
    out
}

#[cfg(test)]
mod tests {
    use super::{entered, pattern};

    #[test]
    fn what_a_compiler_draws_anew_is_left_open() {
        let name = "_RNvMs_NtCsgEmfK2I1SDS_4core4cellINtB5_4CellNtB1x_4CaseE3getCs12ab_11plantbridge.llvm.77";
        assert_eq!(pattern(name).unwrap(), "_RNvMs_NtCs*_4core4cellINtB*_4CellNtB*_4CaseE3getCs*_11plantbridge");
        assert_eq!(pattern("memcpy"), None);
    }

    #[test]
    fn a_function_that_was_only_called_by_number_is_named() {
        let trace = "fn=(1) _Rmain\ncfn=(2) _Rcalled\nfn=(2)\nfn=(3) _Ragain'2\n";
        assert_eq!(entered(trace).collect::<Vec<_>>(), ["_Rmain", "_Rcalled", "_Ragain"]);
    }
}
