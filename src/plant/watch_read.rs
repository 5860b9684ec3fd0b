//! A standing watch as its readers see it, and one answer of it: the records since the last answer that arrived, and
//! what was missed since.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    verdict::{Against, Baseline, Cursor, Doubt, Loss, Verdict},
    watch_log::{Log, Noted, Range, Record},
};
use crate::{
    contract::path::Segments,
    node::{SNAPSHOT, Stream},
};

/// What is watched of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchTarget {
    /// An event.
    Event(String),
    /// The state of a component: every snapshot, or what changes at these paths.
    State(Vec<Segments>),
}

/// A watch as it stands.
#[derive(Clone, Debug)]
pub struct WatchLine {
    /// Its id.
    pub id: String,
    /// What it listens to.
    pub stream: Stream,
    /// What of it.
    pub target: WatchTarget,
    /// Who started it.
    pub client: String,
    /// When, in milliseconds since the Unix epoch.
    pub started_ms: i64,
    /// Records written so far.
    pub written: u64,
    /// Records still held.
    pub held: usize,
    /// Whether the peer has the subscription now, as far as is known.
    pub attached: bool,
    /// When it ends unless somebody reads it.
    pub idle_left: Duration,
    /// Whether the peer declares the event; `None`: it says nothing of itself, or no event is watched.
    pub declared: Option<bool>,
    /// Of an event that is not declared: declared ones like it.
    pub nearest: Vec<String>,
    /// Paths that the component does not declare, each with what it declares there.
    pub lacking: Vec<(String, Vec<String>)>,
}

/// A read of a watch.
#[derive(Clone, Debug)]
pub struct ReadWatch {
    /// Which.
    pub watch: String,
    /// What the last answer that arrived had reached; `None` begins with the oldest.
    pub after: Option<Reached>,
    /// How many records at most.
    pub most: usize,
    /// How many bytes, about.
    pub most_bytes: usize,
}

/// What an answer had reached: the next one goes on from here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    index: u64,
    cursor: Option<Cursor>,
    duplicates: u64,
    fell_off: u64,
    skipped: u64,
    interrupted: u64,
    instance: Option<String>,
}

/// What a watch holds since then.
#[derive(Clone, Debug)]
pub struct WatchRead {
    /// The watch.
    pub line: WatchLine,
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// How many there are beyond these.
    pub more: u64,
    /// How many fell off before they were read.
    pub fell_off: u64,
    /// What was missed since.
    pub loss: Loss,
    /// What this answer has reached.
    pub reached: Reached,
    /// Whether the peer says that it is a fake, as far as it was asked.
    pub fake: bool,
}

impl Reached {
    /// How far the peer had counted.
    pub(super) fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Nothing yet: a watch is judged from where it began.
    pub(super) fn beginning(cursor: Option<Cursor>) -> Self {
        Self { cursor, ..Self::default() }
    }
}

/// What an answer is made from, besides the log.
#[derive(Debug)]
pub(super) struct Answering {
    pub(super) from: Reached,
    /// How far the peer has counted.
    pub(super) cursor: Option<Cursor>,
    /// What speaks against that.
    pub(super) doubt: Option<Doubt>,
    /// Whether its count is not believed, whoever asks.
    pub(super) distrusted: bool,
    /// The last record that came before the peer said how far it had counted at the beginning.
    pub(super) opened: u64,
    pub(super) most: usize,
    pub(super) most_bytes: usize,
}

impl Answering {
    /// The answer, and the incarnation whose count cannot be relied on, if so, with up to where.
    pub(super) fn read(self, log: &mut Log, line: WatchLine) -> (WatchRead, Option<(String, u64)>) {
        let from = &self.from;
        let oldest = log.records().next().map_or(log.written() + 1, |record| record.index);
        let fell_off = oldest.saturating_sub(from.index + 1);
        let records = self.page(log);
        let last = records.last().map_or(from.index.max(oldest.saturating_sub(1)), |record| record.index);
        let more = log.written().saturating_sub(last);
        let (duplicates, lost) = log.tally.counts();
        let mut reached = Reached {
            index: last,
            cursor: from.cursor.clone(),
            duplicates,
            fell_off: lost,
            skipped: log.skipped,
            interrupted: log.interrupted,
            instance: from.instance.clone(),
        };
        let mut unreliable = None;
        let mut loss = if line.stream.event == SNAPSHOT {
            state_loss(log, from, &records, &mut reached)
        } else {
            self.event_loss(log, &mut reached, more > 0, &mut unreliable)
        };
        if fell_off > 0 {
            loss.missed = loss.missed.max(fell_off);
            let unread = format!("{fell_off} records fell off this watch unread");
            loss.sentence = match loss.verdict {
                Verdict::Missed => format!("{}; {unread}", loss.sentence),
                _ => format!("missed {fell_off} - {unread}; {}", loss.sentence),
            };
            loss.verdict = Verdict::Missed;
        }
        (WatchRead { line, records, more, fell_off, loss, reached, fake: false }, unreliable)
    }

    fn page(&self, log: &Log) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        let mut left = self.most_bytes;
        for record in log.records().filter(|record| record.index > self.from.index) {
            if records.len() >= self.most || !records.is_empty() && record.held() > left {
                break;
            }
            left = left.saturating_sub(record.held());
            records.push(record.clone());
        }
        records
    }

    fn event_loss(
        &self,
        log: &mut Log,
        reached: &mut Reached,
        cut: bool,
        unreliable: &mut Option<(String, u64)>,
    ) -> Loss {
        let from = &self.from;
        let until = log.reached(reached.index);
        // What this answer leaves for the next is not judged; neither is the incarnation that comes with it.
        let cursor = match (&self.cursor, &until, cut) {
            (Some(cursor), Some((epoch, seq)), true) if *epoch != cursor.epoch => {
                Some(Cursor { epoch: epoch.clone(), seq: *seq, since: None })
            }
            (cursor, _, _) => cursor.clone(),
        };
        if let (Some(doubt), Some(cursor)) = (self.doubt, &self.cursor) {
            log.doubt(&cursor.epoch, doubt);
        }
        let epoch = cursor.as_ref().or(from.cursor.as_ref()).map(|cursor| cursor.epoch.clone()).unwrap_or_default();
        let range = Range { after: from.index, until: reached.index, opened: self.opened.max(from.index) };
        let mut tally = log.tally_of_held(range, &epoch, from.cursor.as_ref());
        tally.fell_off(reached.fell_off.saturating_sub(from.fell_off));
        tally.repeated(reached.duplicates.saturating_sub(from.duplicates));
        if self.distrusted {
            tally.doubt(Doubt::Known);
        }
        if cursor.as_ref().is_some_and(|cursor| log.tally.is_stuck(cursor)) {
            tally.stuck();
        }
        let baseline = from.cursor.clone().map(|cursor| Baseline { cursor, ahead: Vec::new() });
        let known = from.cursor.as_ref().filter(|cursor| cursor.epoch == epoch).map_or(0, |cursor| cursor.seq);
        let end = until.filter(|(of, _)| *of == epoch).map_or(known, |(_, seq)| seq.max(known));
        let judged = tally.judge(Against {
            baseline: baseline.as_ref(),
            overlapped: false,
            after: cursor.as_ref(),
            end: cut.then_some(end),
            since: "the answer before this one",
        });
        if let Some(until) = judged.distrust {
            if until == u64::MAX {
                log.doubt(&epoch, Doubt::Known);
            }
            *unreliable = Some((epoch, until));
        }
        if judged.next.is_some() {
            reached.cursor = judged.next;
        }
        judged.loss
    }
}

/// A snapshot is whole, so nothing of the present can be missed; what stood between two of them can.
fn state_loss(log: &Log, from: &Reached, records: &[Record], reached: &mut Reached) -> Loss {
    let instances = records.iter().filter_map(|record| match &record.noted {
        Noted::State { epoch, .. } | Noted::Changed { epoch, .. } => Some(epoch),
        Noted::Event { .. } | Noted::Gap(_) => None,
    });
    let mut replaced = false;
    for instance in instances {
        replaced |= reached.instance.as_ref().is_some_and(|known| known != instance);
        reached.instance = Some(instance.clone());
    }
    let skipped = log.skipped.saturating_sub(from.skipped);
    let interrupted = log.interrupted > from.interrupted || reached.fell_off > from.fell_off;
    let (verdict, sentence) = if replaced {
        (
            Verdict::Unknowable,
            "unknowable - another instance of the component publishes now; what it publishes is whole".into(),
        )
    } else if interrupted {
        (
            Verdict::Unknown,
            "unknown - link or peer went away or was too fast; each snapshot is whole, those between are lost".into(),
        )
    } else if skipped > 0 {
        (
            Verdict::Unknown,
            format!("unknown - {skipped} revisions were never published to us, or lost; each snapshot is whole"),
        )
    } else {
        (Verdict::Unknown, "unknown - no revision was skipped between the snapshots heard; a component does not say which it publishes".into())
    };
    let (from, to, missing, epochs) = (None, None, Vec::new(), Vec::new());
    Loss { verdict, from, to, missing, missed: 0, duplicates: 0, epochs, sentence }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        plant::watch_log::Gap,
        wire::{PeerName, Stamp},
    };

    #[derive(Clone, Copy, Debug)]
    enum Happening {
        Emit,
        Lost,
        Doubled,
        Late,
        Arrive,
        Overflow,
        Interrupted,
        /// An answer of at most so many records, which arrives or does not.
        Read(usize, bool),
    }

    fn happening() -> impl Strategy<Value = Happening> {
        prop_oneof![
            6 => Just(Happening::Emit),
            2 => Just(Happening::Lost),
            2 => Just(Happening::Doubled),
            2 => Just(Happening::Late),
            2 => Just(Happening::Arrive),
            1 => Just(Happening::Overflow),
            1 => Just(Happening::Interrupted),
            4 => (1_usize..8, any::<bool>()).prop_map(|(most, arrives)| Happening::Read(most, arrives)),
        ]
    }

    /// A peer that counts, a watch on it, and a reader whose answers may be lost.
    struct World {
        log: Log,
        seq: u64,
        late: Vec<u64>,
        heard: BTreeSet<u64>,
        told: BTreeSet<u64>,
        reached: Reached,
    }

    impl World {
        fn deliver(&mut self, seq: u64) {
            let payload = vec![seq.cast_signed().into()];
            self.log.event(payload, Some(Stamp { epoch: "A".into(), seq }), 0);
            self.heard.insert(seq);
        }

        fn read(&mut self, most: usize, arrives: bool) -> u64 {
            let stream = Stream { peer: PeerName::configured("p").unwrap(), namespace: "n".into(), event: "e".into() };
            let line = WatchLine {
                id: "w".into(),
                target: WatchTarget::Event("e".into()),
                stream,
                client: "c".into(),
                started_ms: 0,
                written: 0,
                held: 0,
                attached: true,
                idle_left: Duration::ZERO,
                declared: None,
                nearest: Vec::new(),
                lacking: Vec::new(),
            };
            let cursor = Some(Cursor { epoch: "A".into(), seq: self.seq, since: None });
            let from = self.reached.clone();
            let before = from.cursor.as_ref().map_or(0, |cursor| cursor.seq);
            let answering =
                Answering { from, cursor, doubt: None, distrusted: false, opened: 0, most, most_bytes: usize::MAX };
            let (read, _) = answering.read(&mut self.log, line);
            let after = read.reached.cursor.as_ref().map_or(0, |cursor| cursor.seq);
            let unheard: Vec<u64> = (before + 1..=after).filter(|seq| !self.heard.contains(seq)).collect();
            let missing: Vec<u64> = read.loss.missing.iter().flat_map(|(a, b)| *a..=*b).collect();
            match read.loss.verdict {
                Verdict::Gapless | Verdict::Unknown => assert!(unheard.is_empty(), "{:?}, but {unheard:?}", read.loss),
                Verdict::Missed => assert_eq!(missing, unheard, "{:?}", read.loss),
                Verdict::First | Verdict::Unknowable => panic!("{:?}", read.loss),
            }
            if arrives {
                let shown = read.records.iter().filter_map(|record| match &record.noted {
                    Noted::Event { stamp, .. } => stamp.as_ref().map(|stamp| stamp.seq),
                    Noted::State { .. } | Noted::Changed { .. } | Noted::Gap(_) => None,
                });
                self.told.extend(shown.chain(missing));
                self.reached = read.reached;
            }
            read.more
        }

        fn happens(&mut self, happening: Happening) {
            match happening {
                Happening::Emit | Happening::Doubled => {
                    self.seq += 1;
                    self.deliver(self.seq);
                    if matches!(happening, Happening::Doubled) {
                        self.deliver(self.seq);
                    }
                }
                Happening::Lost => self.seq += 1,
                Happening::Late => {
                    self.seq += 1;
                    self.late.push(self.seq);
                }
                Happening::Arrive => {
                    let late = std::mem::take(&mut self.late);
                    late.into_iter().rev().for_each(|seq| self.deliver(seq));
                }
                Happening::Overflow => {
                    self.seq += 3;
                    self.log.gap(Gap::FellOff(3), 0);
                }
                Happening::Interrupted => self.log.gap(Gap::Interrupted, 0),
                Happening::Read(most, arrives) => drop(self.read(most, arrives)),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        /// Over arbitrary deliveries, pages and lost answers: gapless is never said of what was not heard, and in the end
        /// everything that fired was told, as a record or as missing.
        #[test]
        fn a_reader_is_told_of_everything(happenings in prop::collection::vec(happening(), 0..80)) {
            let cursor = Some(Cursor { epoch: "A".into(), seq: 0, since: None });
            let reached = Reached::beginning(cursor);
            let log = Log::new(Vec::new());
            let mut world =
                World { log, seq: 0, late: Vec::new(), heard: BTreeSet::new(), told: BTreeSet::new(), reached };
            for happening in happenings {
                world.happens(happening);
            }
            while world.read(5, true) > 0 {}
            assert_eq!(world.told, (1..=world.seq).collect::<BTreeSet<u64>>());
        }
    }
}
