//! `cargo xtask fuzz`: builds the fuzzer once and runs its targets (`fuzz/src/targets`), as many at a time as there are
//! cores, each from its seeds and from what was kept in `fuzz/corpus`.
//!
//! The compiler is the usual one: the flags of [`INSTRUMENTED`] make it count what runs, so that the fuzzer sees what an input
//! reaches. An input that breaks something is shown as text that runs it again, and fails the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::command::{cargo, first_line, run as run_command};
use crate::install::{program, repository, target};

/// What is to be done.
struct Asked {
    targets: Vec<String>,
    seconds: u64,
    /// One input to run instead.
    input: Option<Vec<u8>>,
    /// Whether what is found is kept.
    keep: bool,
}

/// How long a target runs if nothing is said.
const USUAL: u64 = 60;

/// Runs the fuzzer as the words say.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let asked = asked(words)?;
    let fuzzer = Fuzzer { binary: build()?, folder: target()?.join("fuzz/work") };
    if let Some(input) = &asked.input {
        let [target] = asked.targets.as_slice() else { return Err("--input needs one target".to_owned()) };
        return fuzzer.once(target, input);
    }
    let broken = fuzzer.all(&asked)?;
    if broken.is_empty() { Ok(()) } else { Err(format!("the fuzzer broke {}", broken.join(", "))) }
}

fn asked(words: &[String]) -> Result<Asked, String> {
    let known = targets()?;
    let mut asked = Asked { targets: Vec::new(), seconds: USUAL, input: None, keep: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--for" => asked.seconds = seconds(words.next().ok_or("--for needs a time, such as 60s")?)?,
            "--input" => {
                let text = words.next().ok_or("--input needs base64")?;
                asked.input = Some(STANDARD.decode(text).map_err(|error| format!("--input: {error}"))?);
            }
            "--keep" => asked.keep = true,
            name if known.iter().any(|target| target == name) => asked.targets.push(name.to_owned()),
            other => {
                let known = known.join(", ");
                return Err(format!("fuzz knows --for TIME, --input BASE64, --keep, and {known}; not {other}"));
            }
        }
    }
    if asked.targets.is_empty() {
        asked.targets = known;
    }
    Ok(asked)
}

/// `60s`, `5m`, or seconds alone.
fn seconds(text: &str) -> Result<u64, String> {
    let (digits, unit) = match (text.strip_suffix('s'), text.strip_suffix('m')) {
        (Some(digits), _) => (digits, 1),
        (_, Some(digits)) => (digits, 60),
        _ => (text, 1),
    };
    let count = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).filter(|count| *count > 0);
    count.ok_or_else(|| format!("{text:?} is no time; 60s and 5m are"))
}

/// The targets are the folders of what is kept; a test sees to it that none is missing.
fn targets() -> Result<Vec<String>, String> {
    let folder = corpus();
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

fn corpus() -> PathBuf {
    repository().join("fuzz/corpus")
}

/// Builds the fuzzer and says where it is.
fn build() -> Result<PathBuf, String> {
    program("c++", "g++")?;
    let host = host()?;
    let folder = target()?.join("fuzz");
    let mut cargo = cargo();
    // With a target named, the flags are for what runs there and not for what builds it.
    cargo.args(["build", "--quiet", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--profile", "fuzz"]);
    cargo.args(["--target", &host, "--target-dir"]).arg(&folder);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTED.join("\u{1f}")).env("CARGO_INCREMENTAL", "0");
    run_command(&mut cargo)?;
    Ok(folder.join(host).join("fuzz/plantbridge-fuzz"))
}

fn host() -> Result<String, String> {
    let rustc = Path::new("rustc");
    first_line(rustc, &["--print", "host-tuple"]).ok_or_else(|| "rustc does not say what it builds for".to_owned())
}

/// What the fuzzer needs in the code it runs.
const INSTRUMENTED: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The bounds of a run. An input that takes longer, or a process that holds more, counts as broken.
const BOUNDS: [&str; 3] = ["-rss_limit_mb=2048", "-timeout=20", "-max_len=12288"];

/// What is kept of one target at most, in bytes.
const MOST_KEPT: u64 = 128 * 1024;

struct Fuzzer {
    binary: PathBuf,
    /// Where logs, seeds and what is found go.
    folder: PathBuf,
}

impl Fuzzer {
    /// Runs the targets, and gives those that broke.
    fn all(&self, asked: &Asked) -> Result<Vec<String>, String> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let waiting = Mutex::new(asked.targets.iter());
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            let mut broken = Vec::new();
            while let Some(name) = next() {
                if !self.one(name, asked)? {
                    broken.push(name.clone());
                }
            }
            Ok(broken)
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let ended =
                workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err("a worker fell".to_owned())));
            ended.collect::<Result<Vec<_>, String>>().map(|broken| broken.concat())
        })
    }

    /// Runs one target; whether it held.
    fn one(&self, name: &str, asked: &Asked) -> Result<bool, String> {
        let (seeds, found) = (self.fresh(name, "seeds")?, self.fresh(name, "found")?);
        let broken = self.fresh(name, "broken")?;
        let written = self.command(name).env("FUZZ_SEEDS", &seeds).output().map_err(|error| error.to_string())?;
        if !written.status.success() {
            return Err(format!("{name}: its seeds are not written: {}", String::from_utf8_lossy(&written.stderr)));
        }
        let kept = corpus().join(name);
        let mut command = self.command(name);
        command.args(BOUNDS).arg(format!("-max_total_time={}", asked.seconds));
        command.arg(format!("-artifact_prefix={}/", broken.display())).args([&found, &kept, &seeds]);
        let output = command.output().map_err(|error| format!("{name}: {error}"))?;
        let log = String::from_utf8_lossy(&output.stderr);
        let file = self.folder.join(name).join("log.txt");
        fs::write(&file, &*log).map_err(|error| format!("{}: {error}", file.display()))?;
        println!("{name}: {}", log.lines().rfind(|line| line.contains("cov: ")).unwrap_or("nothing ran").trim());
        if !output.status.success() {
            println!("{}", broke(name, &log, &broken, &file));
            return Ok(false);
        }
        if asked.keep {
            self.keep(name, &[&found, &seeds])?;
        }
        Ok(true)
    }

    /// Keeps of all that is there what reaches most, as little as possible of it.
    fn keep(&self, name: &str, more: &[&PathBuf]) -> Result<(), String> {
        let (merged, kept) = (self.fresh(name, "merged")?, corpus().join(name));
        let mut command = self.command(name);
        command.args(BOUNDS).args(["-merge=1", "-set_cover_merge=1"]).arg(&merged).arg(&kept).args(more);
        let output = command.output().map_err(|error| format!("{name}: {error}"))?;
        if !output.status.success() {
            return Err(format!("{name}: not merged: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let entries = fs::read_dir(&merged).map_err(|error| format!("{}: {error}", merged.display()))?.flatten();
        let mut files: Vec<(u64, PathBuf)> =
            entries.map(|entry| (entry.metadata().map_or(u64::MAX, |data| data.len()), entry.path())).collect();
        files.sort();
        empty(&kept)?;
        let mut room = MOST_KEPT;
        let mut count = 0;
        for (bytes, file) in &files {
            let Some(left) = room.checked_sub(*bytes) else { break };
            let to = kept.join(file.file_name().unwrap_or_default());
            fs::copy(file, &to).map_err(|error| format!("{}: {error}", to.display()))?;
            (room, count) = (left, count + 1);
        }
        println!("{name}: kept {count} of {} inputs, {} bytes", files.len(), MOST_KEPT - room);
        Ok(())
    }

    /// Runs one input once, with its messages shown.
    fn once(&self, name: &str, input: &[u8]) -> Result<(), String> {
        let file = self.fresh(name, "input")?.join("input");
        fs::write(&file, input).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut command = self.command(name);
        command.stderr(Stdio::inherit()).env("RUST_BACKTRACE", "1");
        run_command(command.args(BOUNDS).arg(&file))
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("FUZZ_TARGET", name).stdin(Stdio::null());
        command
    }

    /// An empty folder for this.
    fn fresh(&self, name: &str, what: &str) -> Result<PathBuf, String> {
        let folder = self.folder.join(name).join(what);
        empty(&folder)?;
        Ok(folder)
    }
}

fn empty(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// What broke, and how it is tried again.
fn broke(name: &str, log: &str, broken: &Path, file: &Path) -> String {
    let begins = log.find("panicked at").or_else(|| log.find("==")).unwrap_or_default();
    let said: Vec<&str> = log.get(begins..).unwrap_or_default().lines().take(SHOWN).collect();
    let inputs = fs::read_dir(broken).into_iter().flatten().flatten().filter_map(|entry| fs::read(entry.path()).ok());
    let again = inputs.map(|input| {
        let input = STANDARD.encode(input);
        format!("\n  again: cargo xtask fuzz {name} --input '{input}'")
    });
    format!(
        "{name} broke:\n  {}\n  all of it: {}{}\n  once mended, keep the input in fuzz/corpus/{name}: from then on every test run tries it",
        said.join("\n  "),
        file.display(),
        again.collect::<String>()
    )
}

/// Lines shown of what a run that broke said.
const SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_seconds() {
        assert_eq!(seconds("60s"), Ok(60));
        assert_eq!(seconds("5m"), Ok(300));
        assert_eq!(seconds("7"), Ok(7));
        for wrong in ["", "s", "0", "-1s", "1h"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_asked_is_known() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(asked(&[]).unwrap().targets, targets().unwrap());
        let one = asked(&words("guard --for 5m --input AQI=")).unwrap();
        assert_eq!((one.targets, one.seconds, one.input), (vec!["guard".to_owned()], 300, Some(vec![1, 2])));
        for wrong in ["nothing", "--for", "--input ?", "--for 1h"] {
            assert!(asked(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_broke_is_shown_with_how_to_try_it_again() {
        let folder = std::env::temp_dir().join(format!("xtask-fuzz-{}", std::process::id()));
        empty(&folder).unwrap();
        fs::write(folder.join("crash-1"), [1, 2]).unwrap();
        let told = broke("guard", "INFO: x\nthread 'main' panicked at here\nwhy\n", &folder, Path::new("log.txt"));
        assert!(told.contains("panicked at here\n  why"), "{told}");
        assert!(told.contains("cargo xtask fuzz guard --input 'AQI='"), "{told}");
        fs::remove_dir_all(folder).unwrap();
    }
}
