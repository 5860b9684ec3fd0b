//! Up to where each client has been told of each stream, so that the next watch can say what fell between (F-21). Two
//! clients never share one, and two watches of one client that overlap judge each stretch once.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::verdict::{Baseline, Cursor, Judged};
use crate::node::Stream;

/// How many streams are remembered, each for each client; of the one used longest ago the next watch is a first one.
const CAPACITY: usize = 1000;
/// How many stretches that overlapping watches judged are kept apart.
const MAX_AHEAD: usize = 32;

type Key = (String, Stream);

#[derive(Debug, Default)]
pub(super) struct Baselines {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    streams: HashMap<Key, Kept>,
    /// Streams whose count was found unreliable; a restart, or a count beyond the one given, makes it good again.
    broken: VecDeque<(Stream, Cursor)>,
    uses: u64,
}

#[derive(Debug, Default)]
struct Kept {
    baseline: Option<Baseline>,
    open: usize,
    used: u64,
}

/// An open watch of one client. Dropped without [`Window::finish`], it told nobody anything, and changes nothing.
#[derive(Debug)]
pub(super) struct Window<'a> {
    /// Where its client is remembered; nowhere, if the baseline travels with the client.
    kept: Option<(&'a Baselines, Key)>,
    /// Up to where the stream was judged when this watch began.
    pub(super) baseline: Option<Baseline>,
    /// Whether another one of the same client was open then.
    pub(super) overlapped: bool,
}

impl Baselines {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A watch of `client` begins.
    pub(super) fn begin(&self, client: &str, stream: &Stream) -> Window<'_> {
        let key = (client.to_owned(), stream.clone());
        let mut inner = self.inner();
        inner.make_room(&key);
        inner.uses += 1;
        let used = inner.uses;
        let kept = inner.streams.entry(key.clone()).or_default();
        let overlapped = kept.open > 0;
        kept.open += 1;
        kept.used = used;
        let baseline = kept.baseline.clone();
        drop(inner);
        Window { kept: Some((self, key)), baseline, overlapped }
    }

    /// A watch of a client that brings its baseline along, or has none yet. Nothing is remembered of it here.
    pub(super) fn brought(cursor: Option<Cursor>) -> Window<'static> {
        let baseline = cursor.map(|cursor| Baseline { cursor, ahead: Vec::new() });
        Window { kept: None, baseline, overlapped: false }
    }

    /// The count of this incarnation cannot be relied on, whoever asks.
    pub(super) fn distrust(&self, stream: &Stream, epoch: &str, until: u64) {
        let mut inner = self.inner();
        let known = inner.broken.iter_mut().find(|(known, of)| known == stream && of.epoch == epoch);
        if let Some((_, known)) = known {
            known.seq = known.seq.max(until);
            return;
        }
        if inner.broken.len() >= CAPACITY {
            inner.broken.pop_front();
        }
        inner.broken.push_back((stream.clone(), Cursor { epoch: epoch.to_owned(), seq: until, since: None }));
    }

    /// Whether it was found unreliable, and this count is no better.
    pub(super) fn distrusts(&self, stream: &Stream, count: &Cursor) -> bool {
        let holds = |of: &Cursor| of.epoch == count.epoch && count.seq <= of.seq;
        self.inner().broken.iter().any(|(known, of)| known == stream && holds(of))
    }
}

impl Inner {
    fn make_room(&mut self, key: &Key) {
        if self.streams.len() < CAPACITY || self.streams.contains_key(key) {
            return;
        }
        let idle = self.streams.iter().filter(|(_, kept)| kept.open == 0);
        if let Some(oldest) = idle.min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone()) {
            self.streams.remove(&oldest);
        }
    }
}

impl Window<'_> {
    /// The client is told this judgement: the next watch judges what follows.
    pub(super) fn finish(self, judged: &Judged) {
        let (Some(next), Some((all, key))) = (judged.next.clone(), &self.kept) else { return };
        let mut inner = all.inner();
        if let Some(kept) = inner.streams.get_mut(key) {
            kept.judged(judged.base, next);
        }
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let Some((all, key)) = &self.kept else { return };
        let mut inner = all.inner();
        if let Some(kept) = inner.streams.get_mut(key) {
            kept.open -= 1;
            if kept.open == 0 && kept.baseline.is_none() {
                inner.streams.remove(key);
            }
        }
    }
}

impl Kept {
    /// What follows `base` up to `next` was judged.
    fn judged(&mut self, base: Option<u64>, next: Cursor) {
        let Some(baseline) = self.baseline.as_mut().filter(|known| known.cursor.epoch == next.epoch) else {
            self.baseline = Some(Baseline { cursor: next, ahead: Vec::new() });
            return;
        };
        let base = base.unwrap_or(0);
        if next.seq > base && baseline.ahead.len() < MAX_AHEAD {
            baseline.ahead.push((base.saturating_add(1), next.seq));
        }
        let reached = &mut baseline.cursor.seq;
        baseline.ahead.sort_unstable();
        baseline.ahead.retain(|&(first, last)| {
            let follows = first <= reached.saturating_add(1);
            if follows {
                *reached = last.max(*reached);
            }
            !follows
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plant::verdict::{Against, Tally},
        wire::PeerName,
    };

    fn stream(event: &str) -> Stream {
        Stream { peer: PeerName::configured("works").unwrap(), namespace: "scale".into(), event: event.into() }
    }

    fn to(base: u64, seq: u64) -> Judged {
        let after = Cursor { epoch: "A".into(), seq, since: None };
        let judged = Tally::default().judge(Against { after: Some(&after), ..Against::default() });
        Judged { base: Some(base), ..judged }
    }

    fn reached(baselines: &Baselines, client: &str) -> Option<(u64, Vec<(u64, u64)>)> {
        baselines.begin(client, &stream("e")).baseline.as_ref().map(|kept| (kept.cursor.seq, kept.ahead.clone()))
    }

    /// F-21: two clients never steal each other's baseline.
    #[test]
    fn each_client_has_its_own() {
        let baselines = Baselines::default();
        baselines.begin("a", &stream("e")).finish(&to(0, 5));
        assert_eq!((reached(&baselines, "a"), reached(&baselines, "b")), (Some((5, vec![])), None));
    }

    /// F-21: of a client that brings its baseline along nothing is remembered, and nobody else's is touched.
    #[test]
    fn what_is_brought_along_is_not_kept() {
        let baselines = Baselines::default();
        baselines.begin("a", &stream("e")).finish(&to(0, 5));
        let brought = Baselines::brought(Some(Cursor { epoch: "A".into(), seq: 3, since: None }));
        assert_eq!(brought.baseline.as_ref().map(|known| known.cursor.seq), Some(3));
        brought.finish(&to(3, 9));
        assert_eq!(reached(&baselines, "a"), Some((5, vec![])));
        assert_eq!(baselines.inner().streams.len(), 1);
    }

    /// F-21: of overlapping watches each judges its own stretch; what a cancelled one covered is judged again.
    #[test]
    fn overlapping_watches_leave_no_hole() {
        let baselines = Baselines::default();
        baselines.begin("a", &stream("e")).finish(&to(0, 5));
        let long = baselines.begin("a", &stream("e"));
        let short = baselines.begin("a", &stream("e"));
        assert!(!long.overlapped && short.overlapped);
        short.finish(&to(7, 9));
        assert_eq!(reached(&baselines, "a"), Some((5, vec![(8, 9)])), "6 and 7 are still to be judged");
        drop(long);
        assert_eq!(reached(&baselines, "a"), Some((5, vec![(8, 9)])), "and nobody was told of them");
        baselines.begin("a", &stream("e")).finish(&to(5, 8));
        assert_eq!(reached(&baselines, "a"), Some((9, vec![])));
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes() {
        let baselines = Baselines::default();
        for n in 0..=CAPACITY {
            baselines.begin("a", &stream(&n.to_string())).finish(&to(0, 1));
            baselines.distrust(&stream(&n.to_string()), "A", 5);
        }
        assert!(baselines.begin("a", &stream("0")).baseline.is_none());
        assert!(baselines.inner().streams.len() <= CAPACITY + 1 && baselines.inner().broken.len() <= CAPACITY);
        let count = |epoch: &str, seq| Cursor { epoch: epoch.into(), seq, since: None };
        assert!(baselines.distrusts(&stream("1000"), &count("A", 5)), "it stands still");
        assert!(
            !baselines.distrusts(&stream("1000"), &count("A", 6))
                && !baselines.distrusts(&stream("1000"), &count("B", 5))
        );
        baselines.distrust(&stream("1000"), "A", u64::MAX);
        assert!(baselines.distrusts(&stream("1000"), &count("A", 6)));
    }
}
