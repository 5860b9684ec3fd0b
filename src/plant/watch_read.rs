//! One answer of a standing watch: the records since the last answer that arrived, and what was missed since.

use serde::{Deserialize, Serialize};

use super::{
    verdict::{Against, Baseline, Cursor, Doubt, Loss, Verdict},
    watch_log::{Log, Noted, Range, Record},
    watches::WatchLine,
};
use crate::node::SNAPSHOT;

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
    /// The last record that came before the peer said how far it had counted at the beginning.
    pub(super) opened: u64,
    pub(super) most: usize,
    pub(super) most_bytes: usize,
}

impl Answering {
    /// The answer, and the incarnation whose count cannot be relied on, if so.
    pub(super) fn read(self, log: &mut Log, line: WatchLine) -> (WatchRead, Option<String>) {
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

    fn event_loss(&self, log: &mut Log, reached: &mut Reached, cut: bool, unreliable: &mut Option<String>) -> Loss {
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
        if judged.unreliable {
            log.doubt(&epoch, Doubt::Known);
            *unreliable = Some(epoch);
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
