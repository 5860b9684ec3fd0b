//! `cargo xtask count`: how many instructions the steps of a call take (`benches/instructions.rs`), held against the table that
//! is kept (`benches/instructions.txt`).
//!
//! A time says as much of the machine as of the code; a count of instructions, by callgrind, is the same in every run of the
//! same program, whatever else the machine does. So a step that has become dearer is found where a time would not show it. A
//! step is run twice, more often the second time, and what both runs have in common falls out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, first_line};
use crate::install::{program, repository, target};

/// How often a step is done in the first run: until whatever grows has grown.
const FEW: u64 = 200;
/// How often in the second.
const MANY: u64 = 1_200;
/// How far a count may be from its entry, either way, in parts of a thousand.
const TOLERANCE: u64 = 50;

/// Counts, and compares with the table or, with `--write`, writes it.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let write = match words {
        [] => false,
        [flag] if flag == "--write" => true,
        _ => return Err("usage: cargo xtask count [--write]".to_owned()),
    };
    let valgrind = program("valgrind", "valgrind")?;
    let binary = build()?;
    let compiler = first_line(Path::new("rustc"), &["--version"]).ok_or("rustc does not say its version")?;
    let counted = Table { compiler, counts: count(&valgrind, &binary)? };
    let file = repository().join("benches/instructions.txt");
    if write {
        fs::write(&file, counted.text()).map_err(|error| format!("{}: {error}", file.display()))?;
        println!("{}: {} steps", file.display(), counted.counts.len());
        return Ok(());
    }
    let kept = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (shown, wrong) = compared(&Table::read(&kept)?, &counted);
    println!("{shown}");
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("{}\nif that is meant, `cargo xtask count --write` renews benches/instructions.txt", wrong.join("\n")))
}

/// Builds the steps and says where they are: the name holds a hash that only cargo knows.
fn build() -> Result<PathBuf, String> {
    let mut cargo = cargo();
    cargo.args(["build", "--quiet", "--locked", "--package", "plantbridge", "--no-default-features"]);
    cargo.args(["--profile", "count", "--bench", "instructions", "--message-format", "json"]);
    let built = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&built.stdout);
    let messages = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let path = messages
        .filter(|message| message.pointer("/target/name").is_some_and(|name| name == "instructions"))
        .find_map(|message| message.get("executable")?.as_str().map(PathBuf::from));
    path.ok_or_else(|| format!("benches/instructions.rs was not built: {}", String::from_utf8_lossy(&built.stderr)))
}

/// What each step takes.
fn count(valgrind: &Path, binary: &Path) -> Result<BTreeMap<String, u64>, String> {
    let named = Command::new(binary).output().map_err(|error| format!("{}: {error}", binary.display()))?;
    let names = String::from_utf8_lossy(&named.stdout).into_owned();
    let one = |name: &str| {
        let (few, many) = (total(valgrind, binary, name, FEW)?, total(valgrind, binary, name, MANY)?);
        let each = many.checked_sub(few).ok_or_else(|| format!("{name}: more often is less"))? / (MANY - FEW);
        Ok((name.to_owned(), each))
    };
    names.lines().map(one).collect()
}

/// The instructions of a whole run.
fn total(valgrind: &Path, binary: &Path, step: &str, times: u64) -> Result<u64, String> {
    let out = target()?.join("instructions.callgrind");
    let mut command = Command::new(valgrind);
    // What stands in the environment moves the stack, and with it what copying takes.
    command.env_clear().args(["--tool=callgrind", "--quiet"]).arg(format!("--callgrind-out-file={}", out.display()));
    let run = command.arg(binary).args([step, &times.to_string()]).output().map_err(|error| error.to_string())?;
    if !run.status.success() {
        return Err(format!("{step}: {}", String::from_utf8_lossy(&run.stderr)));
    }
    let text = fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    summary(&text).ok_or_else(|| format!("{}: callgrind has no summary", out.display()))
}

fn summary(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("summary:").or_else(|| line.strip_prefix("totals:")))?;
    line.trim().parse().ok()
}

/// Counts, and what they were made with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    compiler: String,
    counts: BTreeMap<String, u64>,
}

impl Table {
    fn text(&self) -> String {
        let mut out = String::from(
            "# Instructions of one step each, as `cargo xtask count` counts them. Written by `cargo xtask count --write`.\n",
        );
        // Writing into text cannot fail.
        let _ = writeln!(out, "compiler = {}", self.compiler);
        for (step, count) in &self.counts {
            let _ = writeln!(out, "{step} = {count}");
        }
        out
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut table = Self { compiler: String::new(), counts: BTreeMap::new() };
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let odd = || format!("benches/instructions.txt: {line:?} is no entry");
            match line.split_once(" = ").ok_or_else(odd)? {
                ("compiler", version) => version.clone_into(&mut table.compiler),
                (step, count) => {
                    table.counts.insert(step.to_owned(), count.parse().map_err(|_| odd())?);
                }
            }
        }
        Ok(table)
    }
}

/// Both side by side, and what is not as it was.
fn compared(kept: &Table, counted: &Table) -> (String, Vec<String>) {
    let (mut shown, mut wrong) =
        (String::from("| instructions | kept | counted | |\n| --- | --- | --- | --- |\n"), Vec::new());
    // Another compiler makes other code: what differs then says nothing of ours.
    if kept.compiler != counted.compiler {
        wrong.push(format!("the table is of {}, and this is {}", kept.compiler, counted.compiler));
    }
    for (step, now) in &counted.counts {
        let Some(before) = kept.counts.get(step) else {
            wrong.push(format!("{step}: {now} instructions, and the table has no entry"));
            continue;
        };
        let difference = share(*before, *now);
        let _ = writeln!(shown, "| {step} | {before} | {now} | {difference} |");
        if now.abs_diff(*before) * 1000 > before * TOLERANCE {
            let more = if now > before { "more than was kept" } else { "less than was kept, which wants to be kept" };
            wrong.push(format!("{step}: {now} instructions instead of {before}, {difference}: {more}"));
        }
    }
    let gone = kept.counts.keys().filter(|step| !counted.counts.contains_key(*step));
    wrong.extend(gone.map(|step| format!("{step}: in the table, and no step any more")));
    (shown, wrong)
}

fn share(before: u64, now: u64) -> String {
    let sign = if now < before { '-' } else { '+' };
    let thousandths = now.abs_diff(before) * 1000 / before.max(1);
    format!("{sign}{}.{} %", thousandths / 10, thousandths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(counts: &[(&str, u64)]) -> Table {
        let counts = counts.iter().map(|(step, count)| ((*step).to_owned(), *count)).collect();
        Table { compiler: "rustc 1".into(), counts }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let table = table(&[("a", 1), ("b", 20_000)]);
        assert_eq!(Table::read(&table.text()), Ok(table));
        assert!(Table::read("a = b\n").is_err() && Table::read("a\n").is_err());
    }

    #[test]
    fn a_count_may_be_a_twentieth_off() {
        let kept = table(&[("a", 1_000)]);
        for (now, fits) in [(1_000, true), (1_050, true), (1_051, false), (950, true), (949, false)] {
            assert_eq!(compared(&kept, &table(&[("a", now)])).1.is_empty(), fits, "{now}");
        }
        assert!(compared(&kept, &table(&[("a", 2_000)])).0.contains("| a | 1000 | 2000 | +100.0 % |"));
    }

    #[test]
    fn what_the_table_does_not_fit_is_told() {
        let (kept, mut counted) = (table(&[("a", 1)]), table(&[("b", 1)]));
        assert_eq!(compared(&kept, &counted).1.len(), 2);
        counted.compiler = "rustc 2".into();
        assert!(compared(&kept, &counted).1.iter().any(|wrong| wrong.contains("the table is of rustc 1")));
    }

    #[test]
    fn the_sum_of_a_run_is_found() {
        assert_eq!(summary("events: Ir\nfn=(1)\n1 2\nsummary: 42\n"), Some(42));
        assert_eq!(summary("fn=(1)\n\ntotals: 43\n"), Some(43));
        assert_eq!(summary("fn=(1)\n"), None);
    }

    #[test]
    fn the_table_that_is_kept_is_one() {
        let file = repository().join("benches/instructions.txt");
        assert!(!Table::read(&fs::read_to_string(file).unwrap()).unwrap().counts.is_empty());
    }
}
