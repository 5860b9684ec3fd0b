//! What a standing watch holds: a bounded ring of records, and the tally of everything that ever came.

use std::collections::VecDeque;

use super::{
    listening::{fingerprint, weigh},
    read_state::Snapshot,
    verdict::{Cursor, Doubt, MAX_EPOCH, Novelty, Tally},
};
use crate::{
    contract::path::{self, Segments},
    wire::{Stamp, Value},
};

/// How many records a watch holds.
const RECORDS: usize = 1_000;
/// How many bytes of them, about.
const BYTES: usize = 1 << 20;
/// Of a record that is larger only its size is held.
const LARGEST: usize = 128 << 10;
/// A value at a path that is larger is only told apart from the next, not held.
const COMPARED: usize = 16 << 10;
/// What a record takes besides what it carries.
const RECORD: usize = 96;
/// How many instances of a component are remembered as gone.
const RETIRED: usize = 16;

/// One record of a watch.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where it stands; the first is 1, and none is left out.
    pub index: u64,
    /// When it came, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// What it says.
    pub noted: Noted,
    /// How many bytes it weighs here, about.
    pub bytes: usize,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// An event.
    Event {
        /// What it carries; nothing if that is too large to be held.
        args: Option<Vec<Value>>,
        /// Its count.
        stamp: Option<Stamp>,
    },
    /// What a component published.
    State {
        /// Which instance.
        epoch: String,
        /// Its revision.
        revision: i64,
        /// Props and state; nothing if they are too large to be held.
        held: Option<(Value, Value)>,
    },
    /// What changed in a component.
    Changed {
        /// Which instance.
        epoch: String,
        /// Its revision.
        revision: i64,
        /// Where, from what, to what.
        changes: Vec<PathChange>,
    },
    /// Something may be missing here.
    Gap(Gap),
}

/// A value that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct PathChange {
    /// Where in the state.
    pub path: String,
    /// What stood there before, if anything is known to have.
    pub old: Option<Value>,
    /// What stands there now, if anything; left out if it is too large to be held.
    pub new: Option<Value>,
}

/// Why something may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Link or peer went away.
    Interrupted,
    /// The peer has the subscription again.
    Attached,
    /// The peer would not have it, or could not be asked.
    Refused(String),
    /// So many deliveries came faster than they were taken.
    FellOff(u64),
}

/// What is kept of a snapshot.
#[derive(Debug)]
struct Seen {
    epoch: String,
    revision: i64,
    /// What stood at each path.
    values: Vec<At>,
}

/// What stood at a path.
#[derive(Debug)]
struct At {
    /// Tells it apart even if it is too large to be kept.
    fingerprint: Option<u64>,
    value: Option<Value>,
}

impl At {
    fn of(snapshot: &Snapshot, path: &Segments) -> Self {
        let value = path::lookup(&snapshot.state, path);
        let kept = value.filter(|value| weigh(value) <= COMPARED).cloned();
        Self { fingerprint: value.map(|value| fingerprint(std::slice::from_ref(value))), value: kept }
    }
}

/// The records of one watch.
#[derive(Debug, Default)]
pub(super) struct Log {
    records: VecDeque<Record>,
    /// How many of them at most.
    most: usize,
    bytes: usize,
    next: u64,
    /// Everything heard of an event.
    pub(super) tally: Tally,
    /// The newest snapshot of a component, as far as the next one is compared with it.
    state: Option<Seen>,
    retired: VecDeque<String>,
    /// Paths to watch; all of the state if there are none.
    paths: Vec<Segments>,
    /// What speaks against the count of one incarnation.
    doubted: Option<(String, Doubt)>,
    /// How many revisions were skipped, by the component or on the way.
    pub(super) skipped: u64,
    /// How often link or peer went away.
    pub(super) interrupted: u64,
    attached: bool,
}

impl Log {
    pub(super) fn new(paths: Vec<Segments>) -> Self {
        Self { paths, most: RECORDS, ..Self::default() }
    }

    /// One that holds fewer records.
    #[cfg(test)]
    pub(super) fn holding(most: usize) -> Self {
        Self { most, ..Self::new(Vec::new()) }
    }

    /// How many records were written.
    pub(super) fn written(&self) -> u64 {
        self.next
    }

    /// The records that are still there, from the first.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    /// Whether the peer has the subscription, as far as is known.
    pub(super) fn is_attached(&self) -> bool {
        self.attached
    }

    /// The peer has the subscription for the first time.
    pub(super) fn attached(&mut self) {
        self.attached = true;
    }

    /// An event came. A repeat is only counted.
    pub(super) fn event(&mut self, args: Vec<Value>, stamp: Option<Stamp>, at_ms: i64) {
        if self.tally.hear(stamp.as_ref(), fingerprint(&args)) == Novelty::Repeated {
            return;
        }
        if let (Some(doubt), Some(stamp)) = (self.tally.take_doubt(), &stamp) {
            self.doubt(&stamp.epoch, doubt);
        }
        let stamp = stamp.filter(|stamp| stamp.epoch.len() <= MAX_EPOCH);
        let bytes = args.iter().map(weigh).sum();
        let args = (bytes <= LARGEST).then_some(args);
        self.push(at_ms, bytes, Noted::Event { args, stamp });
    }

    /// A snapshot came: newer than the one before, or nothing (semantics.md 7.3).
    pub(super) fn snapshot(&mut self, snapshot: Snapshot) {
        if self.retired.contains(&snapshot.epoch) || snapshot.epoch.len() > MAX_EPOCH {
            return;
        }
        let newer = |seen: &Seen| seen.epoch != snapshot.epoch || snapshot.revision > seen.revision;
        if self.state.as_ref().is_some_and(|seen| !newer(seen)) {
            return;
        }
        let before = self.state.take();
        match &before {
            Some(before) if before.epoch == snapshot.epoch => {
                let skipped = snapshot.revision.saturating_sub(before.revision).saturating_sub(1);
                self.skipped = self.skipped.saturating_add(u64::try_from(skipped).unwrap_or(0));
            }
            Some(before) => {
                if self.retired.len() >= RETIRED {
                    self.retired.pop_front();
                }
                self.retired.push_back(before.epoch.clone());
            }
            None => {}
        }
        let (epoch, revision) = (snapshot.epoch.clone(), snapshot.revision);
        let values = self.paths.iter().map(|path| At::of(&snapshot, path)).collect();
        let seen = Seen { epoch, revision, values };
        self.note_state(before, &seen, snapshot);
        self.state = Some(seen);
    }

    fn note_state(&mut self, before: Option<Seen>, seen: &Seen, now: Snapshot) {
        let (epoch, revision, at_ms) = (now.epoch, now.revision, now.received_ms);
        if self.paths.is_empty() {
            let bytes = weigh(&now.props) + weigh(&now.state);
            let held = (bytes <= LARGEST).then_some((now.props, now.state));
            return self.push(at_ms, bytes, Noted::State { epoch, revision, held });
        }
        let mut before = before.map(|before| before.values.into_iter());
        let mut bytes = 0;
        let mut changes = Vec::new();
        for (path, new) in self.paths.iter().zip(&seen.values) {
            let old = before.as_mut().and_then(Iterator::next);
            if old.as_ref().is_some_and(|old| old.fingerprint == new.fingerprint) {
                continue;
            }
            let (path, old, new) = (path.to_string(), old.and_then(|old| old.value), new.value.clone());
            bytes += path.len() + old.iter().chain(&new).map(weigh).sum::<usize>();
            changes.push(PathChange { path, old, new });
        }
        if !changes.is_empty() {
            self.push(at_ms, bytes, Noted::Changed { epoch, revision, changes });
        }
    }

    /// Something may be missing here.
    pub(super) fn gap(&mut self, gap: Gap, at_ms: i64) {
        match &gap {
            Gap::Interrupted => {
                self.interrupted += 1;
                self.attached = false;
            }
            Gap::Attached => self.attached = true,
            Gap::Refused(_) => self.attached = false,
            Gap::FellOff(missed) => self.tally.fell_off(*missed),
        }
        self.push(at_ms, 0, Noted::Gap(gap));
    }

    fn push(&mut self, at_ms: i64, bytes: usize, noted: Noted) {
        self.next += 1;
        let record = Record { index: self.next, at_ms, noted, bytes };
        self.bytes += record.held();
        self.records.push_back(record);
        while self.records.len() > self.most || self.bytes > BYTES {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= oldest.held();
        }
    }

    /// A tally of what is still held, for an answer that goes on after one record and up to another and is judged against
    /// the count of `epoch`. What fell off the ring was not read, so it was not heard.
    pub(super) fn tally_of_held(&self, answer: Range, epoch: &str, opened: Option<&Cursor>, late: &[u64]) -> Tally {
        let mut tally = Tally::default();
        for record in &self.records {
            let Noted::Event { stamp, .. } = &record.noted else { continue };
            if record.index > answer.opened {
                tally.opened(opened.cloned());
            }
            let told = record.index > answer.after && record.index <= answer.until;
            // Repeats are not in the ring, and two records with one stamp contradict each other.
            match stamp.as_ref().filter(|stamp| stamp.epoch == epoch) {
                Some(stamp) if late.contains(&record.index) => tally.hear_late(stamp, record.index),
                Some(stamp) => drop(tally.hear(Some(stamp), record.index)),
                None if told => drop(tally.hear(stamp.as_ref(), record.index)),
                None => {}
            }
        }
        tally.opened(opened.cloned());
        if let Some((_, doubt)) = self.doubted.as_ref().filter(|(of, _)| of == epoch) {
            tally.doubt(*doubt);
        }
        tally
    }

    /// The stamps of an incarnation that are held, each with its record.
    pub(super) fn stamps<'a>(&'a self, epoch: &'a str) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.records.iter().filter_map(move |record| match &record.noted {
            Noted::Event { stamp: Some(stamp), .. } if stamp.epoch == epoch => Some((record.index, stamp.seq)),
            _ => None,
        })
    }

    /// Records after one that were emitted after `begun` and, as nobody had heard them, reported missing up to `told`.
    pub(super) fn late(&self, after: u64, epoch: &str, begun: u64, told: u64) -> Vec<u64> {
        let new = self.stamps(epoch).filter(|(index, seq)| *index > after && *seq > begun && *seq <= told);
        new.map(|(index, _)| index).collect()
    }

    /// The incarnation of the last event up to a record, and its highest stamp up to there.
    pub(super) fn reached(&self, index: u64) -> Option<(String, u64)> {
        let stamp = |record: &'_ Record| match &record.noted {
            Noted::Event { stamp, .. } => stamp.clone(),
            Noted::State { .. } | Noted::Changed { .. } | Noted::Gap(_) => None,
        };
        let stamps = || self.records.iter().take_while(|record| record.index <= index).filter_map(stamp);
        let epoch = stamps().last()?.epoch;
        let highest = stamps().filter(|stamp| stamp.epoch == epoch).map(|stamp| stamp.seq).max()?;
        Some((epoch, highest))
    }

    /// The count of an incarnation was found unreliable.
    pub(super) fn doubt(&mut self, epoch: &str, doubt: Doubt) {
        if self.doubted.as_ref().is_none_or(|(known, _)| known != epoch) {
            self.doubted = Some((epoch.to_owned(), doubt));
        }
    }
}

/// What an answer covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// The last record told before.
    pub(super) after: u64,
    /// The last record told now.
    pub(super) until: u64,
    /// The last record that came before the opening cursor.
    pub(super) opened: u64,
}

impl Record {
    /// How many bytes it takes here, about.
    pub(super) const fn held(&self) -> usize {
        if self.bytes > LARGEST { RECORD } else { self.bytes + RECORD }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Map, PeerName};

    fn event(log: &mut Log, bytes: usize, seq: u64) {
        log.event(vec!["x".repeat(bytes).into()], Some(Stamp { epoch: "A".into(), seq }), 0);
    }

    fn snapshot(log: &mut Log, epoch: &str, revision: i64, level: i64) {
        let mut state = Map::new();
        state.insert("level", Value::Int(level));
        log.snapshot(Snapshot {
            peer: PeerName::configured("works").unwrap(),
            epoch: epoch.into(),
            revision,
            props: Value::Map(Map::new()),
            state: Value::Map(state),
            authority: None,
            received_ms: 0,
            stale: false,
        });
    }

    /// Invariant 8: a ring is bounded in records and in bytes, and of what is too large only the size is held.
    #[test]
    fn a_ring_is_bounded() {
        let mut log = Log::new(Vec::new());
        for seq in 1..=50 {
            event(&mut log, 100_000, seq);
        }
        assert!(log.bytes <= BYTES && log.records().count() == 10, "{}", log.bytes);
        event(&mut log, 10_000_000, 51);
        let last = log.records().last().unwrap();
        assert!(matches!(last.noted, Noted::Event { args: None, .. }) && last.bytes > 10_000_000);
        assert_eq!((log.records().count(), log.written()), (11, 51), "it pushes nothing out");
        for seq in 52..=5_000 {
            event(&mut log, 1, seq);
        }
        assert_eq!((log.records().count(), log.records().next().unwrap().index), (RECORDS, 4_001));
        assert_eq!(log.records().map(Record::held).sum::<usize>(), log.bytes);
    }

    /// S-080: nothing older, nothing twice, nothing of an instance that is gone; skipped revisions are counted.
    #[test]
    fn s080_only_newer_snapshots_are_recorded() {
        let mut log = Log::new(Vec::new());
        for (epoch, revision) in [("a", 1), ("a", 1), ("a", 4), ("a", 3), ("b", 0), ("a", 9), ("b", 1)] {
            snapshot(&mut log, epoch, revision, 1);
        }
        snapshot(&mut log, &"e".repeat(100_000), 1, 1);
        let revisions: Vec<(String, i64)> = log
            .records()
            .map(|record| match &record.noted {
                Noted::State { epoch, revision, .. } => (epoch.clone(), *revision),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [("a", 1), ("a", 4), ("b", 0), ("b", 1)].map(|(epoch, revision)| (epoch.to_owned(), revision));
        assert_eq!((revisions, log.skipped), (expected.to_vec(), 2));
    }

    /// Of paths only what changes is recorded, after how they stood at first.
    #[test]
    fn only_changes_at_the_paths_are_recorded() {
        let paths = ["level", "mode"].map(|path| Segments::parse(path).unwrap());
        let mut log = Log::new(paths.to_vec());
        for (revision, level) in [(1, 1), (2, 1), (3, 2)] {
            snapshot(&mut log, "a", revision, level);
        }
        let changes: Vec<Vec<PathChange>> = log
            .records()
            .map(|record| match &record.noted {
                Noted::Changed { changes, .. } => changes.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        let level = |old: Option<i64>, new: i64| {
            let (old, new) = (old.map(Value::Int), Some(Value::Int(new)));
            PathChange { path: "level".into(), old, new }
        };
        let mode = PathChange { path: "mode".into(), old: None, new: None };
        assert_eq!(changes, [vec![level(None, 1), mode], vec![level(Some(1), 2)]]);
    }
}
