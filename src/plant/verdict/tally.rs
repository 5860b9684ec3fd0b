//! What was heard of a stream, as a set of stamps.

use std::collections::BTreeMap;

use super::{Cursor, Doubt, MAX_EPOCH};
use crate::wire::Stamp;

/// Whether a delivery says something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Novelty {
    /// It does, as far as is known.
    Fresh,
    /// It is the same delivery once more.
    Repeated,
}

/// How many incarnations one judgement tells apart.
const MAX_EPOCHS: usize = 16;
/// How many stamps of an incarnation are remembered to recognise repeats.
const REMEMBERED: usize = 4096;

/// The stamps of one incarnation, each with a fingerprint of what it was on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) epoch: String,
    pub(crate) stamps: BTreeMap<u64, u64>,
    /// The highest stamp that was repeated, and how often.
    repeated: (u64, u32),
    /// Stamps up to here may have been forgotten.
    floor: u64,
}

/// The highest stamps heard at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Highest(Vec<(String, u64)>);

impl Highest {
    /// Speaks against a peer that counts less than it had stamped before it was asked.
    pub(crate) fn check(&self, after: Option<&Cursor>) -> Option<Doubt> {
        let after = after?;
        let beyond = self.0.iter().any(|(epoch, highest)| *epoch == after.epoch && *highest > after.seq);
        beyond.then_some(Doubt::Beyond)
    }
}

/// What was heard, and what speaks against relying on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) epochs: Vec<Heard>,
    pub(crate) before: Option<Cursor>,
    pub(crate) unstamped: u64,
    pub(crate) duplicates: u64,
    pub(crate) fell_off: u64,
    /// Deliveries came after the opening cursor that it had counted already.
    pub(crate) under: bool,
    stuck: bool,
    pub(crate) doubt: Option<Doubt>,
}

impl Tally {
    /// The opening cursor: what arrives from here on was not heard when it was taken.
    pub(crate) fn opened(&mut self, cursor: Option<Cursor>) {
        self.before = cursor;
    }

    /// A delivery, with a fingerprint that differs when what was delivered differs.
    pub(crate) fn hear(&mut self, stamp: Option<&Stamp>, fingerprint: u64) -> Novelty {
        let Some(stamp) = stamp.filter(|stamp| stamp.epoch.len() <= MAX_EPOCH) else {
            self.unstamped += 1;
            return Novelty::Fresh;
        };
        if stamp.seq == 0 {
            self.doubt(Doubt::Zero);
        }
        let opened = self.before.as_ref();
        self.under |= opened.is_some_and(|before| before.epoch == stamp.epoch && stamp.seq <= before.seq);
        let Some(heard) = heard_in(&mut self.epochs, &stamp.epoch) else {
            self.doubt(Doubt::Epochs);
            return Novelty::Fresh;
        };
        if let Some(known) = heard.stamps.get(&stamp.seq).copied() {
            if known == fingerprint {
                self.duplicates += 1;
                let (highest, times) = heard.repeated;
                if stamp.seq >= highest {
                    heard.repeated = (stamp.seq, if stamp.seq == highest { times.saturating_add(1) } else { 1 });
                }
                return Novelty::Repeated;
            }
            self.doubt(Doubt::Conflict);
            return Novelty::Fresh;
        }
        let old = stamp.seq <= heard.floor && stamp.seq > 0;
        heard.stamps.insert(stamp.seq, fingerprint);
        if heard.stamps.len() > REMEMBERED
            && let Some((forgotten, _)) = heard.stamps.pop_first()
        {
            heard.floor = heard.floor.max(forgotten);
        }
        if old {
            self.doubt(Doubt::Old);
        }
        Novelty::Fresh
    }

    /// A delivery that was reported missing before: it is late, and says nothing against the count.
    pub(crate) fn hear_late(&mut self, stamp: &Stamp, fingerprint: u64) {
        let before = self.before.take();
        self.hear(Some(stamp), fingerprint);
        self.before = before;
    }

    /// So many deliveries arrived and fell off here unread.
    pub(crate) fn fell_off(&mut self, deliveries: u64) {
        self.fell_off = self.fell_off.saturating_add(deliveries);
    }

    /// Something repeated what had been heard before this tally began.
    pub(crate) fn repeated(&mut self, times: u64) {
        self.duplicates += times;
        self.under |= times > 0;
    }

    /// The highest stamp of each incarnation. Taken when the closing cursor is asked for, it must be counted in that.
    pub(crate) fn highest_of_each(&self) -> Highest {
        let highest = |heard: &Heard| heard.stamps.last_key_value().map(|(seq, _)| (heard.epoch.clone(), *seq));
        Highest(self.epochs.iter().filter_map(highest).collect())
    }

    /// Whether the last emission counted was repeated more often than a link repeats.
    pub(crate) fn is_stuck(&self, after: &Cursor) -> bool {
        let of = self.epochs.iter().find(|heard| heard.epoch == after.epoch);
        self.stuck || of.is_some_and(|heard| heard.repeated.0 == after.seq && heard.repeated.1 > 1)
    }

    /// Another tally found that it was.
    pub(crate) fn stuck(&mut self) {
        self.stuck = true;
    }

    /// Speaks against relying on the count.
    pub(crate) fn doubt(&mut self, doubt: Doubt) {
        self.doubt.get_or_insert(doubt);
    }

    /// What speaks against it, which is then forgotten here.
    pub(crate) const fn take_doubt(&mut self) -> Option<Doubt> {
        self.doubt.take()
    }

    /// How many deliveries repeated another, and how many fell off.
    pub(crate) const fn counts(&self) -> (u64, u64) {
        (self.duplicates, self.fell_off)
    }

    /// The highest stamp heard of an incarnation.
    pub(crate) fn highest(&self, epoch: &str) -> Option<u64> {
        self.stamps(epoch)?.last_key_value().map(|(seq, _)| *seq)
    }

    pub(crate) fn stamps(&self, epoch: &str) -> Option<&BTreeMap<u64, u64>> {
        self.epochs.iter().find(|heard| heard.epoch == epoch).map(|heard| &heard.stamps)
    }

    /// Whether everything is there that `after` and the opening cursor say has fired: nothing is worth waiting for.
    pub(crate) fn complete(&self, after: &Cursor) -> bool {
        let before = self.before.as_ref().filter(|before| before.epoch == after.epoch);
        before.is_none_or(|before| self.gaps(&after.epoch, before.seq, after.seq, &[]).is_empty())
    }

    /// What was not heard of the emissions after `base` up to `end`.
    pub(crate) fn gaps(&self, epoch: &str, base: u64, end: u64, ahead: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        if end <= base {
            return gaps;
        }
        let mut last = base;
        let stamps = self.stamps(epoch).into_iter().flat_map(|stamps| stamps.range(base..)).map(|(seq, _)| *seq);
        for seq in stamps.take_while(|seq| *seq <= end).filter(|seq| *seq > base).chain(end.checked_add(1)) {
            if seq - last > 1 {
                gaps.push((last + 1, seq - 1));
            }
            last = seq;
        }
        if end == u64::MAX && last < end {
            gaps.push((last + 1, end));
        }
        ahead.iter().fold(gaps, |gaps, covered| without(&gaps, *covered))
    }
}

fn heard_in<'a>(epochs: &'a mut Vec<Heard>, epoch: &str) -> Option<&'a mut Heard> {
    let at = match epochs.iter().position(|heard| heard.epoch == epoch) {
        Some(at) => at,
        None if epochs.len() >= MAX_EPOCHS => return None,
        None => {
            epochs.push(Heard { epoch: epoch.to_owned(), ..Heard::default() });
            epochs.len() - 1
        }
    };
    epochs.get_mut(at)
}

/// Ranges with what another covers taken out.
fn without(ranges: &[(u64, u64)], (first, last): (u64, u64)) -> Vec<(u64, u64)> {
    let parts = ranges.iter().flat_map(|&(a, b)| {
        let left = (a < first).then(|| (a, b.min(first.saturating_sub(1))));
        let right = (b > last).then(|| (a.max(last.saturating_add(1)), b));
        [left, right]
    });
    parts.flatten().collect()
}

/// Stamps and ranges as the fewest ranges that hold the same, of what lies beyond `floor`.
pub(crate) fn ranges_beyond(floor: u64, all: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = all.filter(|(_, last)| *last > floor).collect();
    all.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (first, last) in all {
        match merged.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => merged.push((first.max(floor.saturating_add(1)), last)),
        }
    }
    merged
}

pub(crate) fn count(ranges: &[(u64, u64)]) -> u64 {
    ranges.iter().fold(0, |sum: u64, (a, b)| sum.saturating_add((b - a).saturating_add(1)))
}
