//! What was measured, as a table.

use std::fmt;
use std::time::Duration;

use super::IN_FLIGHT;
use super::fakes::Fakes;
use super::looks::LOOKS;
use super::stats::{list, median, micros, percentile};

/// The middle and the far end of some samples, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    median: f64,
    p99: f64,
}

impl From<&mut Vec<Duration>> for Spread {
    fn from(samples: &mut Vec<Duration>) -> Self {
        Self { median: micros(percentile(samples, 0.5)), p99: micros(percentile(samples, 0.99)) }
    }
}

/// One round on one broker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) floor: Spread,
    pub(super) library: Spread,
    pub(super) described: Spread,
    pub(super) undescribed: Spread,
    pub(super) looks: [Spread; LOOKS.len()],
    pub(super) floor_rate: f64,
    pub(super) library_rate: f64,
    pub(super) bridge_rate: f64,
}

/// Resident memory, in MiB.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) calls: usize,
    pub(super) idle: f64,
    pub(super) after: Vec<f64>,
}

/// Looks at a network on which many peers are.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    pub(super) peers: usize,
    pub(super) looks: usize,
    /// From the start of the process to the answer.
    pub(super) listed: Vec<Duration>,
    pub(super) described: Vec<Duration>,
    /// At first, and after so many looks again and again.
    pub(super) resident: Vec<f64>,
}

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) tuned: Vec<Round>,
    pub(super) stock: Vec<Round>,
    pub(super) starts: Vec<Duration>,
    pub(super) memory: Memory,
    pub(super) crowd: Crowd,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "| one call at a time, p50 | bare floor | library floor | bridge | over bare | over library | each round, over library |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
        for (broker, rounds) in self.brokers() {
            latency(out, &format!("{broker} broker, described peer"), rounds, |round| round.described)?;
            latency(out, &format!("{broker} broker, undescribed peer"), rounds, |round| round.undescribed)?;
        }
        writeln!(out)?;
        writeln!(
            out,
            "| {IN_FLIGHT} in flight, calls a second | bare floor | library floor | bridge | over bare | over library | each round, over bare |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
        for (broker, rounds) in self.brokers() {
            throughput(out, broker, rounds)?;
        }
        writeln!(out)?;
        self.looks(out)?;
        writeln!(out, "| one call at a time, p99 | bare floor | library floor | bridge |")?;
        writeln!(out, "| --- | --- | --- | --- |")?;
        for (broker, rounds) in self.brokers() {
            let p99 = |of: fn(&Round) -> Spread| middle(rounds, |round| of(round).p99);
            let (bare, library, bridge) =
                (p99(|round| round.floor), p99(|round| round.library), p99(|round| round.described));
            writeln!(out, "| {broker} broker | {bare:.0} µs | {library:.0} µs | {bridge:.0} µs |")?;
        }
        writeln!(out)?;
        self.others(out)
    }
}

impl Report {
    fn brokers(&self) -> [(&'static str, &[Round]); 2] {
        [("tuned", &self.tuned), ("stock", &self.stock)]
    }

    fn looks(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "| one look at a time, p50 | round trips | library floor of one | bridge | over library, for each | each round |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
        for (broker, rounds) in self.brokers() {
            for (at, look) in LOOKS.iter().enumerate() {
                let took = |round: &Round| round.looks.get(at).map_or(f64::NAN, |look| look.median);
                let over: Vec<f64> =
                    rounds.iter().map(|round| took(round) / round.library.median / look.trips).collect();
                let (floor, bridge) = (middle(rounds, |round| round.library.median), middle(rounds, took));
                let (tool, trips, over, all) = (look.tool, look.of, median(&over), list(&over, 2));
                writeln!(
                    out,
                    "| {broker} broker, `{tool}` | {trips} | {floor:.0} µs | {bridge:.0} µs | **{over:.2}** | {all} |"
                )?;
            }
        }
        writeln!(out)
    }

    fn others(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "| what | median | all |")?;
        writeln!(out, "| --- | --- | --- |")?;
        times(out, "start to the answer of the first request", &self.starts)?;
        let Memory { calls, idle, after } = &self.memory;
        writeln!(out, "| resident memory, idle | {idle:.1} MiB | |")?;
        let first = after.first().copied().unwrap_or(f64::NAN);
        let (twice, thrice) = (calls * 2, calls * 3);
        let all = list(after, 1);
        writeln!(
            out,
            "| resident memory after {calls} calls | {first:.1} MiB | after {calls}, {twice}, {thrice}: {all} |"
        )?;
        let Crowd { peers, looks, listed, described, resident } = &self.crowd;
        times(out, &format!("{peers} peers: start to the first complete answer of `list_peers`"), listed)?;
        times(out, &format!("{peers} peers: start to the first answer of `describe_peer`"), described)?;
        let last = resident.last().copied().unwrap_or(f64::NAN);
        let all = list(resident, 1);
        writeln!(
            out,
            "| {peers} peers: resident memory | {last:.1} MiB | after the first look, then after {looks} more of both each time: {all} |"
        )
    }
}

/// What many fakes cost, as a table.
pub(super) fn fakes(fakes: &Fakes) -> String {
    let Fakes { count, started, first, all, inside, outside, ended, gone } = fakes;
    let each = fakes.each();
    let seconds = |time: &Duration| time.as_secs_f64();
    format!(
        "| {count} fakes in one bridge, a component and an event a second each | |\n| --- | --- |\n\
         | all started, one after another | {:.2} s |\n\
         | resident memory, the first alone, all | {first:.1}, {all:.1} MiB |\n\
         | each beyond the first | {each:.0} KiB |\n\
         | a call to each from its bridge, one after another | {:.2} s, all answered |\n\
         | a call to each over the broker, all at once | {:.2} s, all answered |\n\
         | end of input to the end of the process | {:.2} s |\n\
         | end of input until nothing of them is retained | {:.2} s |\n",
        seconds(started),
        seconds(inside),
        seconds(outside),
        seconds(ended),
        seconds(gone)
    )
}

fn latency(out: &mut fmt::Formatter<'_>, what: &str, rounds: &[Round], of: impl Fn(&Round) -> Spread) -> fmt::Result {
    let over = |floor: fn(&Round) -> Spread| -> Vec<f64> {
        rounds.iter().map(|round| of(round).median / floor(round).median).collect()
    };
    let (bare, library) = (over(|round| round.floor), over(|round| round.library));
    let p50 = |of: &dyn Fn(&Round) -> Spread| middle(rounds, |round| of(round).median);
    writeln!(
        out,
        "| {what} | {:.0} µs | {:.0} µs | {:.0} µs | {:.2} | **{:.2}** | {} |",
        p50(&|round| round.floor),
        p50(&|round| round.library),
        p50(&of),
        median(&bare),
        median(&library),
        list(&library, 2)
    )
}

fn throughput(out: &mut fmt::Formatter<'_>, broker: &str, rounds: &[Round]) -> fmt::Result {
    let over = |floor: fn(&Round) -> f64| -> Vec<f64> {
        rounds.iter().map(|round| round.bridge_rate / floor(round)).collect()
    };
    let (bare, library) = (over(|round| round.floor_rate), over(|round| round.library_rate));
    writeln!(
        out,
        "| {broker} broker | {:.0} | {:.0} | {:.0} | **{:.2}** | {:.2} | {} |",
        middle(rounds, |round| round.floor_rate),
        middle(rounds, |round| round.library_rate),
        middle(rounds, |round| round.bridge_rate),
        median(&bare),
        median(&library),
        list(&bare, 2)
    )
}

fn times(out: &mut fmt::Formatter<'_>, what: &str, times: &[Duration]) -> fmt::Result {
    let times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    writeln!(out, "| {what} | {:.1} ms | {} |", median(&times), list(&times, 1))
}

fn middle(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    median(&rounds.iter().map(of).collect::<Vec<_>>())
}
