//! What a run came to, for people.

use std::fmt;
use std::time::Duration;

use super::check::middle;
use super::plan::Plan;
use super::record::State;

/// Everything that is told at the end.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) state: &'a State,
    /// What the proxies swallowed, in bytes, and sent again, in packets.
    pub(super) swallowed: u64,
    pub(super) repeated: u64,
    /// How long the list of peers took to be true, and the bridge to end, where they did.
    pub(super) roster: Option<Duration>,
    pub(super) farewell: Option<Duration>,
    /// The end of what the bridge said on standard error.
    pub(super) log: &'a str,
}

/// How many lines of the log are shown with a violation.
const TAIL: usize = 30;

impl fmt::Display for Report<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, state, swallowed, repeated, .. } = self;
        writeln!(out, "| soak | seed {}, {} s |", plan.seed, plan.length.as_secs())?;
        writeln!(out, "| --- | --- |")?;
        for (kind, times) in &state.faults {
            writeln!(out, "| fault: {kind} | {times} |")?;
        }
        writeln!(out, "| bytes swallowed, packets sent again | {swallowed}, {repeated} |")?;
        for ((tool, outcome), times) in &state.outcomes {
            writeln!(out, "| {tool}: {outcome} | {times} |")?;
        }
        let ran: u64 = state.commands.values().map(|command| u64::from(command.ran)).sum();
        writeln!(out, "| commands given, executions counted by the peers | {}, {ran} |", state.commands.len())?;
        writeln!(out, "| requests that came to a peer again | {} |", state.repeats)?;
        let (dead, (offline, online, tardy)) = (state.dead_fakes.len(), state.kept);
        writeln!(out, "| fakes taken down while their line was bad | {dead} |")?;
        writeln!(out, "| of those the broker keeps `offline`, `online` | {offline}, {online} |")?;
        writeln!(out, "| fakes whose farewell took too long, `offline` | {tardy} |")?;
        writeln!(
            out,
            "| events emitted, of watches shown, reported missed | {}, {}, {} |",
            state.emissions(),
            state.shown,
            state.missed
        )?;
        writeln!(out, "| slowest answer | {:.1} s |", state.slowest.as_secs_f64())?;
        let shown =
            |time: Option<Duration>| time.map_or("never".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()));
        writeln!(
            out,
            "| the list of peers was true, the bridge ended, after | {}, {} |",
            shown(self.roster),
            shown(self.farewell)
        )?;
        let quarter = state.samples.len() / 4;
        let ends = [state.samples.get(..quarter), state.samples.get(state.samples.len() - quarter..)];
        if let [Some(first), Some(last)] = ends.map(|part| part.and_then(middle)) {
            writeln!(
                out,
                "| first and last quarter: resident memory, descriptors | {:.1}, {:.1} MiB; {}, {} |",
                first.mib, last.mib, first.descriptors, last.descriptors
            )?;
        }
        writeln!(out, "| violations | {} |", state.violations.len() as u64 + state.more_violations)?;
        self.violations(out)
    }
}

impl Report<'_> {
    fn violations(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state;
        if state.violations.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\nviolations; to repeat: cargo xtask soak --seed {} --for {}s",
            self.plan.seed,
            self.plan.length.as_secs()
        )?;
        for violation in &state.violations {
            let call = violation.call.map(|call| format!(" call {call}")).unwrap_or_default();
            writeln!(out, "{:8.2} s{call}: {}", violation.at.as_secs_f64(), violation.what)?;
        }
        if state.more_violations > 0 {
            writeln!(out, "and {} more", state.more_violations)?;
        }
        let lines: Vec<&str> = self.log.lines().collect();
        writeln!(out, "\nthe end of the bridge's log:")?;
        lines.iter().skip(lines.len().saturating_sub(TAIL)).try_for_each(|line| writeln!(out, "  {line}"))
    }
}
