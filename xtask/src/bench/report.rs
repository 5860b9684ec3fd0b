//! What was measured, as a table.

use std::fmt;
use std::time::Duration;

use super::IN_FLIGHT;
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
    pub(super) described: Spread,
    pub(super) undescribed: Spread,
    pub(super) floor_rate: f64,
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
        writeln!(out, "| what | floor | bridge | bridge / floor | each round |")?;
        writeln!(out, "| --- | --- | --- | --- | --- |")?;
        for (broker, rounds) in [("tuned", &self.tuned), ("stock", &self.stock)] {
            let floor = |round: &Round| round.floor;
            latency(out, &format!("{broker} broker, one call at a time, described peer"), rounds, |round| {
                round.described
            })?;
            latency(out, &format!("{broker} broker, one call at a time, undescribed peer"), rounds, |round| {
                round.undescribed
            })?;
            let (bare, bridge) =
                (middle(rounds, |round| floor(round).p99), middle(rounds, |round| round.described.p99));
            writeln!(
                out,
                "| {broker} broker, one call at a time, p99 | {bare:.0} µs | {bridge:.0} µs | {:.2} | |",
                bridge / bare
            )?;
            throughput(out, broker, rounds)?;
        }
        writeln!(out)?;
        self.others(out)
    }
}

impl Report {
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

fn latency(out: &mut fmt::Formatter<'_>, what: &str, rounds: &[Round], of: impl Fn(&Round) -> Spread) -> fmt::Result {
    let ratios: Vec<f64> = rounds.iter().map(|round| of(round).median / round.floor.median).collect();
    let (floor, bridge) = (middle(rounds, |round| round.floor.median), middle(rounds, |round| of(round).median));
    let (ratio, each) = (median(&ratios), list(&ratios, 2));
    writeln!(out, "| {what} | {floor:.0} µs | {bridge:.0} µs | **{ratio:.2}** | {each} |")
}

fn throughput(out: &mut fmt::Formatter<'_>, broker: &str, rounds: &[Round]) -> fmt::Result {
    let ratios: Vec<f64> = rounds.iter().map(|round| round.bridge_rate / round.floor_rate).collect();
    let (floor, bridge) = (middle(rounds, |round| round.floor_rate), middle(rounds, |round| round.bridge_rate));
    let (ratio, each) = (median(&ratios), list(&ratios, 2));
    writeln!(
        out,
        "| {broker} broker, {IN_FLIGHT} in flight | {floor:.0} calls/s | {bridge:.0} calls/s | **{ratio:.2}** | {each} |"
    )
}

fn times(out: &mut fmt::Formatter<'_>, what: &str, times: &[Duration]) -> fmt::Result {
    let times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    writeln!(out, "| {what} | {:.1} ms | {} |", median(&times), list(&times, 1))
}

fn middle(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    median(&rounds.iter().map(of).collect::<Vec<_>>())
}
