//! A standing watch as its readers see it, and one answer of it: the records since the last answer that arrived, and
//! what was missed since.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    verdict::{Against, Baseline, Cursor, Doubt, Judged, Loss, Verdict, ranges_beyond},
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
    /// What was shown beyond that.
    #[serde(default)]
    ahead: Vec<(u64, u64)>,
    duplicates: u64,
    fell_off: u64,
    skipped: u64,
    interrupted: u64,
    instance: Option<String>,
}

/// How many stretches shown beyond what was judged are kept in mind.
const AHEAD: usize = 64;

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
    /// How far it had at the beginning of the watch.
    pub(super) begun: Option<Cursor>,
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
            ahead: from.ahead.clone(),
            duplicates,
            fell_off: lost,
            skipped: log.skipped,
            interrupted: log.interrupted,
            instance: from.instance.clone(),
        };
        let mut unreliable = None;
        let (mut loss, counted) = if line.stream.event == SNAPSHOT {
            (state_loss(log, from, &records, &mut reached), false)
        } else {
            self.event_loss(log, &mut reached, more > 0, &mut unreliable)
        };
        if fell_off > 0 {
            fell_off_unread(&mut loss, fell_off, counted);
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

    /// What was missed, and whether the count says what fell off: it is among what is missing now or will be then.
    fn event_loss(
        &self,
        log: &mut Log,
        reached: &mut Reached,
        cut: bool,
        unreliable: &mut Option<(String, u64)>,
    ) -> (Loss, bool) {
        let from = &self.from;
        let until = log.reached(reached.index);
        // What this answer leaves for the next is not judged; neither is the incarnation that comes with it.
        let cursor = match (&self.cursor, &until, cut) {
            (Some(cursor), Some((epoch, seq)), true) if *epoch != cursor.epoch => {
                Some(Cursor { epoch: epoch.clone(), seq: *seq, since: None })
            }
            (Some(_), None, true) => from.cursor.clone(),
            (cursor, _, _) => cursor.clone(),
        };
        if let (Some(doubt), Some(cursor)) = (self.doubt, &self.cursor) {
            log.doubt(&cursor.epoch, doubt);
        }
        let shown = until.as_ref().map(|(epoch, _)| epoch);
        let epoch = cursor.as_ref().map(|cursor| &cursor.epoch).or(shown);
        let epoch = epoch.or(from.cursor.as_ref().map(|cursor| &cursor.epoch)).cloned().unwrap_or_default();
        let range = Range { after: from.index, until: reached.index, opened: self.opened.max(from.index) };
        let late = self.late(log, &epoch);
        let mut tally = log.tally_of_held(range, &epoch, from.cursor.as_ref(), &late);
        tally.fell_off(reached.fell_off.saturating_sub(from.fell_off));
        tally.repeated(reached.duplicates.saturating_sub(from.duplicates));
        if self.distrusted {
            tally.doubt(Doubt::Known);
        }
        if cursor.as_ref().is_some_and(|cursor| log.tally.is_stuck(cursor)) {
            tally.stuck();
        }
        let baseline = from.cursor.clone().map(|cursor| Baseline { cursor, ahead: self.ahead(&epoch).to_vec() });
        let judged = tally.judge(Against {
            baseline: baseline.as_ref(),
            overlapped: false,
            after: cursor.as_ref(),
            end: cut.then(|| self.judged_until(log, reached.index, &epoch)),
            since: "the answer before this one",
        });
        if let Some(until) = judged.distrust {
            if until == u64::MAX {
                log.doubt(&epoch, Doubt::Known);
            }
            *unreliable = Some((epoch.clone(), until));
        }
        let Judged { mut loss, base, next, .. } = judged;
        let late = late.iter().filter(|index| **index <= reached.index).count();
        if late > 0 {
            let told = format!("; {late} arrived late here, and had been reported missing or unknown before");
            loss.sentence.push_str(&told);
        }
        let unknowable = loss.verdict == Verdict::Unknowable;
        let counted = base.is_some() || unknowable || next.is_none() && from.cursor.is_some();
        if next.is_some() {
            reached.cursor = next;
        } else if let (true, Some((epoch, seq))) = (unknowable, until) {
            // Of the new incarnation nothing is known up to here; what follows is judged again.
            reached.cursor = Some(Cursor { epoch, seq, since: None });
        }
        self.go_ahead(log, reached, &mut loss);
        (loss, counted)
    }

    /// Up to where an answer that leaves some for the next is judged: what is left lies beyond, or was judged before.
    fn judged_until(&self, log: &Log, index: u64, epoch: &str) -> u64 {
        let known = self.from.cursor.as_ref().filter(|cursor| cursor.epoch == epoch).map_or(0, |cursor| cursor.seq);
        let shown = log.stamps(epoch).filter(|(at, _)| *at <= index).map(|(_, seq)| seq);
        let told = shown.chain(self.ahead(epoch).iter().map(|(_, last)| *last)).fold(known, u64::max);
        let left = log.stamps(epoch).filter(|(at, seq)| *at > index && *seq > known).map(|(_, seq)| seq).min();
        left.map_or(told, |left| told.min(left - 1))
    }

    /// What answers before this one showed beyond what they judged.
    fn ahead(&self, epoch: &str) -> &[(u64, u64)] {
        let same = self.from.cursor.as_ref().is_some_and(|cursor| cursor.epoch == epoch);
        if same { &self.from.ahead } else { &[] }
    }

    /// Keeps in mind what was shown beyond what was judged: it may be gone from here when that is.
    fn go_ahead(&self, log: &Log, reached: &mut Reached, loss: &mut Loss) {
        let Some(cursor) = &mut reached.cursor else { return };
        let shown = log.stamps(&cursor.epoch).filter(|(at, _)| *at > self.from.index && *at <= reached.index);
        let shown = shown.map(|(_, seq)| (seq, seq)).chain(self.ahead(&cursor.epoch).iter().copied());
        reached.ahead = ranges_beyond(cursor.seq, shown);
        let Some((_, last)) = reached.ahead.last().copied().filter(|_| reached.ahead.len() > AHEAD) else { return };
        let of = format!("{} to {last}, which came far out of order, not all is known", cursor.seq.saturating_add(1));
        match loss.verdict {
            Verdict::Missed | Verdict::Unknowable | Verdict::Unknown => {
                loss.sentence = format!("{}; of {of}", loss.sentence);
            }
            Verdict::First | Verdict::Gapless => {
                loss.verdict = Verdict::Unknown;
                loss.sentence = format!("unknown - of {of}");
            }
        }
        cursor.seq = last;
        reached.ahead = Vec::new();
    }

    /// Records that fill holes an answer before this one reported.
    fn late(&self, log: &Log, epoch: &str) -> Vec<u64> {
        let Some(known) = self.from.cursor.as_ref().filter(|cursor| cursor.epoch == epoch) else { return Vec::new() };
        let lowest = || log.tally.stamps(epoch).and_then(|stamps| stamps.first_key_value()).map(|(seq, _)| *seq);
        let begun = match &self.begun {
            Some(begun) if begun.epoch == epoch => Some(begun.seq),
            // All that another incarnation emitted was emitted in this watch.
            Some(_) => Some(0),
            None => lowest(),
        };
        begun.map(|begun| log.late(self.from.index, epoch, begun, known.seq)).unwrap_or_default()
    }
}

/// Records fell off before they were read. If events are counted, those are among what is missing and not counted again.
fn fell_off_unread(loss: &mut Loss, fell_off: u64, counted: bool) {
    let unread = format!("{fell_off} records fell off this watch unread");
    match (loss.verdict, counted) {
        (Verdict::Missed | Verdict::Unknowable | Verdict::Unknown, true) => {
            loss.sentence = format!("{}; {unread}", loss.sentence);
        }
        (Verdict::First | Verdict::Gapless, true) => {
            loss.verdict = Verdict::Unknown;
            loss.sentence = format!("unknown - {unread}, and the count does not say what they were");
        }
        (_, false) => {
            loss.sentence = format!("missed {fell_off} - {unread}; {}", loss.sentence);
            loss.missed = fell_off;
            loss.verdict = Verdict::Missed;
        }
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
        /// So many at once, more than the ring may hold.
        Burst(u64),
        Lost,
        Doubled,
        Late,
        Arrive,
        Overflow,
        Interrupted,
        Read(Reading),
    }

    /// An answer of at most so many records, which arrives or does not, for which the peer gives its cursor or does not.
    #[derive(Clone, Copy, Debug)]
    struct Reading {
        most: usize,
        arrives: bool,
        cursor: bool,
    }

    fn happening() -> impl Strategy<Value = Happening> {
        let reading = (1_usize..8, any::<bool>(), any::<bool>());
        prop_oneof![
            6 => Just(Happening::Emit),
            1 => (1_u64..30).prop_map(Happening::Burst),
            2 => Just(Happening::Lost),
            2 => Just(Happening::Doubled),
            2 => Just(Happening::Late),
            2 => Just(Happening::Arrive),
            1 => Just(Happening::Overflow),
            1 => Just(Happening::Interrupted),
            5 => reading.prop_map(|(most, arrives, cursor)| Happening::Read(Reading { most, arrives, cursor })),
        ]
    }

    fn counted(seq: u64) -> Cursor {
        Cursor { epoch: "A".into(), seq, since: None }
    }

    /// A peer that counts and sometimes does not say so, a watch on it, and a reader whose answers may be lost.
    struct World {
        log: Log,
        seq: u64,
        late: Vec<u64>,
        begun: Option<Cursor>,
        /// What the answers that arrived showed, and what they named as missing.
        shown: BTreeSet<u64>,
        named: BTreeSet<u64>,
        /// From where on the first answer that could judged.
        floor: Option<u64>,
        reached: Reached,
    }

    impl World {
        fn new(most: usize, begun: bool) -> Self {
            let begun = begun.then(|| counted(0));
            Self {
                log: Log::holding(most),
                seq: 0,
                late: Vec::new(),
                shown: BTreeSet::new(),
                named: BTreeSet::new(),
                floor: begun.as_ref().map(|begun| begun.seq),
                reached: Reached::beginning(begun.clone()),
                begun,
            }
        }

        fn emit(&mut self) {
            self.seq += 1;
            self.deliver(self.seq);
        }

        fn deliver(&mut self, seq: u64) {
            let payload = vec![seq.cast_signed().into()];
            self.log.event(payload, Some(Stamp { epoch: "A".into(), seq }), 0);
        }

        fn answer(&mut self, reading: Reading) -> WatchRead {
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
            let answering = Answering {
                from: self.reached.clone(),
                begun: self.begun.clone(),
                cursor: reading.cursor.then(|| counted(self.seq)),
                doubt: None,
                distrusted: false,
                opened: 0,
                most: reading.most,
                most_bytes: usize::MAX,
            };
            answering.read(&mut self.log, line).0
        }

        fn read(&mut self, reading: Reading) -> WatchRead {
            let read = self.answer(reading);
            let loss = &read.loss;
            let seq = |record: &Record| match &record.noted {
                Noted::Event { stamp, .. } => stamp.as_ref().map(|stamp| stamp.seq),
                Noted::State { .. } | Noted::Changed { .. } | Noted::Gap(_) => None,
            };
            let shown: BTreeSet<u64> = read.records.iter().filter_map(seq).chain(self.shown.iter().copied()).collect();
            let missing: BTreeSet<u64> = loss.missing.iter().flat_map(|(a, b)| *a..=*b).collect();
            assert!(missing.is_disjoint(&shown), "{loss:?} was shown");
            assert!(missing.is_disjoint(&self.named), "{loss:?} was named before");
            let uncounted = self.reached.cursor.is_none() && missing.is_empty() && loss.missed == read.fell_off;
            assert!(loss.missed == missing.len() as u64 || uncounted, "{loss:?}");
            assert_eq!(loss.missed > 0, loss.verdict == Verdict::Missed, "{loss:?}");
            assert!(loss.sentence.starts_with(loss.verdict.as_str()), "{loss:?}");
            assert!(loss.missed == 0 || loss.sentence.starts_with(&format!("missed {} - ", loss.missed)), "{loss:?}");
            let before = self.reached.cursor.as_ref().map(|cursor| cursor.seq);
            let after = read.reached.cursor.as_ref().map(|cursor| cursor.seq);
            if read.more > 0 {
                let most = shown.last().copied().max(before).unwrap_or(0);
                assert!(loss.to <= Some(most) && after <= Some(most.max(1)), "{loss:?} claims beyond {most}");
            }
            assert!(before <= after, "never back");
            let told = |seq: &u64| shown.contains(seq) || missing.contains(seq);
            let floor = before.or(loss.from.map(|from| from - 1)).or(after);
            if let (Some(floor), Some(after)) = (floor, after) {
                assert!((floor + 1..=after).all(|seq| told(&seq)), "{loss:?} of {floor} to {after}");
            }
            if reading.arrives {
                self.floor = self.floor.or(floor);
                (self.shown, self.reached) = (shown, read.reached.clone());
                self.named.extend(missing);
            }
            read
        }

        fn happens(&mut self, happening: Happening) {
            match happening {
                Happening::Emit => self.emit(),
                Happening::Burst(many) => (0..many).for_each(|_| self.emit()),
                Happening::Doubled => {
                    self.emit();
                    self.deliver(self.seq);
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
                Happening::Read(reading) => drop(self.read(reading)),
            }
        }
    }

    const ARRIVES: Reading = Reading { most: 100, arrives: true, cursor: true };

    /// The ring rolls over after an answer without a cursor that left more: what was neither shown nor held is missing.
    #[test]
    fn an_answer_without_a_cursor_hides_no_loss() {
        let mut world = World::new(1_000, true);
        (0..1_000).for_each(|_| world.emit());
        let first = world.read(Reading { cursor: false, ..ARRIVES });
        assert_eq!((first.loss.verdict, first.loss.to, first.more), (Verdict::Unknown, Some(100), 900));
        (0..2_000).for_each(|_| world.emit());
        let second = world.read(ARRIVES);
        assert_eq!((second.loss.missing, second.loss.missed, second.fell_off), (vec![(101, 2_000)], 1_900, 1_900));
        let expected = "missed 1900 - 2000 fired since the answer before this one and 100 of them were heard here";
        assert!(second.loss.sentence.starts_with(expected), "{}", second.loss.sentence);
    }

    /// What fills a hole that was reported says nothing against the count, and is called what it is.
    #[test]
    fn what_was_reported_missing_may_come_late() {
        let mut world = World::new(1_000, true);
        world.seq = 3;
        world.deliver(1);
        world.deliver(3);
        assert_eq!(world.read(ARRIVES).loss.missing, [(2, 2)]);
        world.deliver(2);
        let late = world.read(ARRIVES).loss;
        assert_eq!(late.verdict, Verdict::Gapless);
        assert!(late.sentence.ends_with("; 1 arrived late here, and had been reported missing or unknown before"));
        world.emit();
        let next = world.read(ARRIVES).loss;
        assert_eq!((next.verdict, next.from, next.to), (Verdict::Gapless, Some(4), Some(4)));
        assert!(!next.sentence.contains("late"), "{}", next.sentence);
    }

    /// A page that leaves more says nothing of what it leaves, though that may come out of order.
    #[test]
    fn a_page_claims_nothing_beyond_it() {
        let mut world = World::new(2, true);
        world.deliver(1);
        world.deliver(4);
        world.seq = 4;
        world.deliver(2);
        let page = world.read(Reading { most: 1, ..ARRIVES });
        assert_eq!((page.loss.verdict, page.loss.missing, page.more), (Verdict::Missed, vec![(1, 1)], 1));
        (0..2).for_each(|_| world.emit());
        assert_eq!(world.read(ARRIVES).loss.missing, [(2, 3)], "4 was shown, 2 fell off");
    }

    /// What is kept in mind of a stream far out of order is bounded, and what that costs is said.
    #[test]
    fn far_out_of_order_is_unknown() {
        let mut world = World::new(1_000, true);
        for nth in 0..=70 {
            world.deliver(2 * nth + 2);
        }
        world.deliver(1);
        world.seq = 142;
        let answer = world.answer(Reading { most: 71, ..ARRIVES });
        let expected = "unknown - of 1 to 142, which came far out of order, not all is known";
        assert_eq!((answer.loss.verdict, answer.loss.sentence.as_str()), (Verdict::Unknown, expected));
        world.reached = answer.reached;
        assert_eq!((world.reached.ahead.len(), world.reached.cursor.as_ref().unwrap().seq), (0, 142));
        let next = world.answer(ARRIVES).loss;
        assert_eq!((next.verdict, next.missed), (Verdict::Gapless, 0));
        assert!(next.sentence.contains("1 arrived late here"), "{}", next.sentence);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        /// Over arbitrary deliveries, rings, pages, absent cursors and lost answers: each answer names as missing just what
        /// it does not show of what it judges, and in the end everything that fired was told, as a record or as missing.
        #[test]
        fn a_reader_is_told_of_everything(
            most in 1_usize..12,
            begun in any::<bool>(),
            happenings in prop::collection::vec(happening(), 0..80),
        ) {
            let mut world = World::new(most, begun);
            for happening in happenings {
                world.happens(happening);
            }
            while world.read(Reading { most: 5, ..ARRIVES }).more > 0 {}
            let floor = world.floor.unwrap_or(world.seq);
            let told: BTreeSet<u64> = world.shown.union(&world.named).copied().filter(|seq| *seq > floor).collect();
            assert_eq!(told, (floor + 1..=world.seq).collect::<BTreeSet<u64>>());
        }
    }
}
