//! What the audit trail costs: the same call through a bridge that writes one, in turns with one that does not.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Plan;
use super::bridge::Bridge;
use super::broker::{Broker, Kind};
use super::peer::{DESCRIBED, Peers};
use super::stats::{list, median, micros, percentile};

/// What a call may cost more at the median, in microseconds.
const TARGET: f64 = 30.0;

/// The median of each round in microseconds: without a trail, and with one.
#[derive(Debug)]
pub(super) struct Audited {
    rounds: Vec<[f64; 2]>,
    judged: bool,
}

pub(super) fn measure(binary: &Path, plan: &Plan) -> Result<Audited, String> {
    let broker = Broker::start(Kind::Tuned)?;
    let _peers = Peers::join(broker.port, 0)?;
    let trail = Trail::new()?;
    let start =
        |more: &[&str]| Bridge::start_as(&mut Command::new(binary), broker.port, more).map(|(bridge, _)| bridge);
    let mut bridges = [start(&[])?, start(&["--audit", &trail.path()])?];
    for bridge in &mut bridges {
        // The peer is described, and caches fill.
        bridge.sequential(DESCRIBED, plan.calls.min(100), &mut Vec::new())?;
    }
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let mut samples: [Vec<Duration>; 2] = Default::default();
        for _ in 0..plan.blocks {
            for (bridge, samples) in bridges.iter_mut().zip(&mut samples) {
                bridge.sequential(DESCRIBED, plan.calls, samples)?;
            }
        }
        rounds.push(samples.map(|mut samples| micros(percentile(&mut samples, 0.5))));
    }
    Ok(Audited { rounds, judged: plan.rounds > 1 })
}

impl Audited {
    /// What the trail adds, each round.
    fn added(&self) -> Vec<f64> {
        self.rounds.iter().map(|[plain, audited]| audited - plain).collect()
    }

    /// Fails if a call that is written down costs more than it may.
    pub(super) fn judge(&self) -> Result<(), String> {
        let added = median(&self.added());
        let passes = !self.judged || added <= TARGET;
        if passes { Ok(()) } else { Err(format!("an audited call costs {added:.0} µs more, and {TARGET} are wanted")) }
    }
}

impl fmt::Display for Audited {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let middle = |of: fn(&[f64; 2]) -> f64| median(&self.rounds.iter().map(of).collect::<Vec<_>>());
        let (plain, audited, added) = (middle(|[plain, _]| *plain), middle(|[_, audited]| *audited), self.added());
        writeln!(out, "| one call at a time, p50 | no trail | `--audit` | more | each round, more |")?;
        writeln!(out, "| --- | --- | --- | --- | --- |")?;
        let more = median(&added);
        writeln!(out, "| described peer | {plain:.0} µs | {audited:.0} µs | **{more:.0} µs** | {} |", list(&added, 0))
    }
}

/// A directory for the trail; gone with this.
struct Trail(PathBuf);

impl Trail {
    fn new() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("plantbridge-bench-audit-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        // Nothing in it is about anything.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
