//! What the front counts: tool calls by tool and by what may be concluded, how long they took, what was refused with which code,
//! and who is there through which door. A few relaxed additions a call. No label of any count is a word of a client or of the
//! network: tools, codes and doors are all known when the process starts.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::Value as Json;
use tokio::time::Instant;

use super::{
    codes::ErrorCode,
    context::Door,
    error::{Outcome, ToolError},
    registry::Offer,
};
use crate::{
    link::now_ms,
    node::{Distribution, Histogram},
};

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolEnd {
    /// With a result.
    Ok,
    /// It failed, and certainly changed nothing.
    NotRun,
    /// The peer ran it and failed.
    Ran,
    /// It may have run.
    Unknown,
    /// It failed, and there was nothing it could have changed.
    Failed,
}

impl ToolEnd {
    /// Every end, in the order counts are given.
    pub(crate) const ALL: [Self; 5] = [Self::Ok, Self::NotRun, Self::Ran, Self::Unknown, Self::Failed];

    /// Its word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotRun => "not_run",
            Self::Ran => "ran",
            Self::Unknown => "unknown",
            Self::Failed => "failed",
        }
    }
}

impl From<&Result<Json, ToolError>> for ToolEnd {
    fn from(outcome: &Result<Json, ToolError>) -> Self {
        match outcome.as_ref().map_err(ToolError::certainty) {
            Ok(_) => Self::Ok,
            Err(Some(Outcome::NotRun)) => Self::NotRun,
            Err(Some(Outcome::Ran)) => Self::Ran,
            Err(Some(Outcome::Unknown)) => Self::Unknown,
            Err(None) => Self::Failed,
        }
    }
}

/// What is counted while the process lives.
#[derive(Debug)]
pub(super) struct Meter {
    started: Instant,
    started_ms: i64,
    pub(super) offer: Offer,
    /// What else the command line switched on.
    grants: OnceLock<Vec<&'static str>>,
    tools: Vec<ToolMeter>,
    refusals: [AtomicU64; ErrorCode::ALL.len()],
    doors: [DoorMeter; Door::ALL.len()],
    leaving: AtomicBool,
}

#[derive(Debug)]
struct ToolMeter {
    name: &'static str,
    ended: [AtomicU64; ToolEnd::ALL.len()],
    took: Histogram,
}

#[derive(Debug, Default)]
struct DoorMeter {
    open: AtomicBool,
    sessions: AtomicUsize,
}

/// What was counted of one tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolCounts {
    /// Which.
    pub(crate) name: &'static str,
    /// Calls that ended, in the order of [`ToolEnd::ALL`].
    pub(crate) ended: [u64; ToolEnd::ALL.len()],
    /// How long they took, the waiting for their turn included.
    pub(crate) took: Distribution,
}

impl Meter {
    /// For tools of these names, in this order.
    pub(super) fn new(names: impl Iterator<Item = &'static str>, offer: Offer) -> Self {
        let tools = names.map(|name| ToolMeter { name, ended: Default::default(), took: Histogram::default() });
        Self {
            started: Instant::now(),
            started_ms: now_ms(),
            offer,
            grants: OnceLock::new(),
            tools: tools.collect(),
            refusals: std::array::from_fn(|_| AtomicU64::new(0)),
            doors: Default::default(),
            leaving: AtomicBool::new(false),
        }
    }

    /// The call of the tool at this place has ended.
    pub(super) fn ended(&self, tool: usize, took: Duration, outcome: &Result<Json, ToolError>) {
        if let Some(tool) = self.tools.get(tool) {
            tool.took.add(took);
            if let Some(count) = tool.ended.get(ToolEnd::from(outcome) as usize) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Err(error) = outcome {
            self.refused(error.code());
        }
    }

    /// A tool call was refused, of whatever tool or of none.
    pub(super) fn refused(&self, code: ErrorCode) {
        if let Some(count) = self.refusals.get(code as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn door(&self, door: Door) -> Option<&DoorMeter> {
        self.doors.get(door as usize)
    }

    /// A door is open.
    pub(super) fn opened(&self, door: Door) {
        if let Some(door) = self.door(door) {
            door.open.store(true, Ordering::Relaxed);
        }
    }

    /// A session begins.
    pub(super) fn enters(&self, door: Door) {
        self.opened(door);
        if let Some(door) = self.door(door) {
            door.sessions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A session is over.
    pub(super) fn leaves(&self, door: Door) {
        if let Some(door) = self.door(door) {
            // One that ends twice is a fault of its door, and no reason to count backwards.
            let less = |sessions: usize| sessions.checked_sub(1);
            let _ = door.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// The process was asked to end.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether it was.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// What the command line switched on that no tool shows. The first word on it counts.
    pub(super) fn grant(&self, grants: Vec<&'static str>) {
        let _ = self.grants.set(grants);
    }

    /// Everything that is switched on.
    pub(super) fn grants(&self) -> Vec<&'static str> {
        let Offer { read_only: _, contracts, scripts, exec } = self.offer;
        let offered = [(contracts, "contracts"), (scripts, "scripts"), (exec, "allow_exec")];
        let further = self.grants.get().into_iter().flatten().copied();
        offered.into_iter().filter_map(|(on, name)| on.then_some(name)).chain(further).collect()
    }

    pub(super) fn started_ms(&self) -> i64 {
        self.started_ms
    }

    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// What was counted of each tool.
    pub(super) fn tools(&self) -> impl Iterator<Item = ToolCounts> {
        self.tools.iter().map(|tool| ToolCounts {
            name: tool.name,
            ended: tool.ended.each_ref().map(|count| count.load(Ordering::Relaxed)),
            took: tool.took.read(),
        })
    }

    /// How often each code was given; codes that never were are left out.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (ErrorCode, u64)> {
        let counted = ErrorCode::ALL.iter().zip(&self.refusals);
        counted.map(|(code, count)| (*code, count.load(Ordering::Relaxed))).filter(|(_, count)| *count > 0)
    }

    /// The doors that are or were open, each with the clients that are there through it.
    pub(super) fn doors(&self) -> impl Iterator<Item = (Door, usize)> {
        let doors = Door::ALL.into_iter().zip(&self.doors);
        let open = doors.filter(|(_, held)| held.open.load(Ordering::Relaxed));
        open.map(|(door, held)| (door, held.sessions.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counting is on the way of every call: it allocates nothing. Whatever place a tool claims, it is one there is.
    #[test]
    fn counting_allocates_nothing() {
        let meter = Meter::new(["a", "b"].into_iter(), Offer::default());
        let ran = Err(ToolError::new(ErrorCode::PeerRefused, "no").outcome(Outcome::Ran));
        let good = Ok(Json::Null);
        let counted = allocation_counter::measure(|| {
            meter.ended(1, Duration::from_millis(1), &good);
            meter.ended(1, Duration::from_millis(1), &ran);
            meter.ended(7, Duration::from_millis(1), &ran);
            meter.refused(ErrorCode::Internal);
        });
        assert_eq!(counted.count_total, 0);
        let tools: Vec<_> = meter.tools().map(|tool| (tool.name, tool.ended, tool.took.count())).collect();
        assert_eq!(tools, [("a", [0; 5], 0), ("b", [1, 0, 1, 0, 0], 2)]);
        let refusals: Vec<_> = meter.refusals().collect();
        assert_eq!(refusals, [(ErrorCode::PeerRefused, 2), (ErrorCode::Internal, 1)]);
    }

    /// Clients are there from their first session to their last, and never fewer than none.
    #[test]
    fn clients_are_counted_by_door() {
        let meter = Meter::new(std::iter::empty(), Offer { exec: true, ..Offer::default() });
        meter.opened(Door::Http);
        let doors = || meter.doors().collect::<Vec<_>>();
        assert_eq!(doors(), [(Door::Http, 0)]);
        meter.enters(Door::Stdio);
        meter.enters(Door::Http);
        meter.enters(Door::Http);
        meter.leaves(Door::Stdio);
        meter.leaves(Door::Stdio);
        assert_eq!(doors(), [(Door::Stdio, 0), (Door::Http, 2)]);
        meter.grant(vec!["development"]);
        meter.grant(vec!["another"]);
        assert_eq!(meter.grants(), ["allow_exec", "development"]);
    }

    /// Where a code and a door are counted is their place in the list of all.
    #[test]
    fn places_are_in_order() {
        assert!(ErrorCode::ALL.iter().enumerate().all(|(at, code)| *code as usize == at));
        assert!(Door::ALL.into_iter().enumerate().all(|(at, door)| door as usize == at));
        assert!(ToolEnd::ALL.into_iter().enumerate().all(|(at, end)| end as usize == at));
        assert!(crate::node::CallEnd::ALL.into_iter().enumerate().all(|(at, end)| end as usize == at));
    }
}
