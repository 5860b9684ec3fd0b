//! What an onlooker makes of the traffic of a window, pure: every message has a kind, answers are put to their calls, what
//! is wanted is listed within bounds, and what is not listed is counted.

mod latency;
mod line;
mod mirrored;
mod pairing;
mod reading;

use std::collections::BTreeMap;

use latency::Latency;
pub use latency::LatencySeen;
pub use line::{Answered, Body, Line, LineKind};
pub(super) use pairing::Key;
use pairing::Pairing;
pub(super) use reading::Moment;

use crate::link::LinkId;

/// How many bytes of lines a window keeps, about.
const MAX_KEPT: usize = 4 * 1024 * 1024;

/// What is wanted of the traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficFilter {
    /// Only what this peer sends or is sent.
    pub peer: Option<String>,
    /// Only what concerns this namespace, of whichever peer.
    pub namespace: Option<String>,
    /// Only these kinds are listed; all if empty. What is counted is not narrowed by it.
    pub kinds: Vec<LineKind>,
    /// Whether arguments, results and what was emitted are wanted.
    pub payloads: bool,
}

/// How much there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Messages.
    pub frames: u64,
    /// Their bytes, about.
    pub bytes: u64,
}

impl Volume {
    /// One more, of so many bytes.
    pub fn add(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }
}

/// What passed the filters, by what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounts {
    /// All of it.
    pub frames: u64,
    /// Their bytes, about.
    pub bytes: u64,
    /// Requests, repeats left out.
    pub calls: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Those that were not, to the end of the window.
    pub unanswered: u64,
    /// Those whose answer may have come while nothing could be heard.
    pub unheard: u64,
    /// Answers that are errors.
    pub errors: u64,
    /// Later answers.
    pub tickets: u64,
    /// Events.
    pub events: u64,
    /// Peers coming and going.
    pub presence: u64,
    /// Answers to nothing that was asked in the window.
    pub without_call: u64,
    /// What was heard before.
    pub repeats: u64,
    /// What cannot be read.
    pub unreadable: u64,
    /// What is none of the network's.
    pub foreign: u64,
    /// Several requests in one, which a hub does not open for whoever watches.
    pub batches: u64,
    /// Sent by us, or to us.
    pub own: u64,
}

/// What is not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotListed {
    /// It did not pass the filters.
    pub filtered: u64,
    /// It is of another kind.
    pub other_kinds: u64,
    /// As many as wanted were listed already.
    pub over_limit: u64,
}

/// What was seen in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrafficSeen {
    /// What is listed, as it came.
    pub lines: Vec<Line>,
    /// What is not.
    pub not_listed: NotListed,
    /// All that was heard, whatever the filters.
    pub heard: Volume,
    /// What of that cannot be read.
    pub unreadable: u64,
    /// Batches among it: what is in them, and whom their answers answer, is not told.
    pub batches: u64,
    /// What passed the filters.
    pub counts: TrafficCounts,
    /// How long answers took.
    pub latency: Option<LatencySeen>,
    /// Calls that were forgotten because too many had no answer.
    pub forgotten: u64,
}

/// Watches a window.
#[derive(Debug)]
pub(super) struct Onlooker {
    me: String,
    filter: TrafficFilter,
    most: usize,
    kept: usize,
    pairing: Pairing,
    latency: Latency,
    seen: TrafficSeen,
    /// Whether there was a frame, wanted or not.
    frames: bool,
    /// When each connection was lost last, in microseconds since the window began.
    lost_us: BTreeMap<LinkId, u64>,
}

impl Onlooker {
    /// One of so many lines at most; `me` is our own name.
    pub(super) fn new(me: &str, filter: TrafficFilter, most: usize) -> Self {
        Self {
            me: me.into(),
            filter,
            most,
            kept: 0,
            pairing: Pairing::default(),
            latency: Latency::default(),
            seen: TrafficSeen::default(),
            frames: false,
            lost_us: BTreeMap::new(),
        }
    }

    /// How much was heard so far.
    pub(super) const fn heard(&self) -> Volume {
        self.seen.heard
    }

    /// Whether anybody said anything: presence is seen by everybody, frames are not.
    pub(super) const fn heard_frames(&self) -> bool {
        self.frames
    }

    /// Whether no more is listed.
    pub(super) const fn is_full(&self) -> bool {
        self.seen.lines.len() >= self.most || self.kept >= MAX_KEPT
    }

    /// Nothing is heard for a while: what is open now may be answered meanwhile.
    pub(super) fn lost(&mut self, link: LinkId, at_us: u64) {
        self.lost_us.insert(link, at_us);
    }

    /// The window is over.
    pub(super) fn finish(mut self) -> TrafficSeen {
        for asked in self.pairing.unanswered().filter(|asked| asked.relevant) {
            let unheard = self.lost_us.get(&asked.link).is_some_and(|lost| asked.at_us <= *lost);
            let counts = &mut self.seen.counts;
            *(if unheard { &mut counts.unheard } else { &mut counts.unanswered }) += 1;
            if let Some(line) = asked.line.and_then(|line| self.seen.lines.get_mut(line)) {
                line.answer = Some(if unheard { Answered::Unheard } else { Answered::Unanswered });
            }
        }
        self.seen.latency = self.latency.told();
        self.seen.forgotten = self.pairing.forgotten;
        self.seen
    }

    /// Lists a line, if it is wanted and there is room; says where.
    fn list(&mut self, line: Line) -> Option<usize> {
        if !self.filter.kinds.is_empty() && !self.filter.kinds.contains(&line.kind) {
            self.seen.not_listed.other_kinds += 1;
            return None;
        }
        if self.is_full() {
            self.seen.not_listed.over_limit += 1;
            return None;
        }
        self.kept += line.weight();
        self.seen.lines.push(line);
        Some(self.seen.lines.len() - 1)
    }
}

#[cfg(test)]
mod tests;
