//! Which answer belongs to which call: by where the answer goes and the correlation, and from whom the call wanted it.
//! Bounded: beyond its bounds the oldest call is forgotten, and that is counted.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use sha2::{Digest, Sha256};

use crate::{link::LinkId, wire::PeerName};

/// How many calls wait for their answer.
const MAX_OPEN: usize = 16_384;
/// How many of those that were answered, and of events, are remembered to know a repeat by.
const MAX_SETTLED: usize = 8_192;

/// Names one call, or one emission: as large however long the names on the wire are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 16]);

impl Key {
    /// What has the same parts has the same key, and, as good as always, nothing else.
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let mut key = [0; 16];
        key.iter_mut().zip(digest.finalize()).for_each(|(byte, drawn)| *byte = drawn);
        Self(key)
    }
}

/// A call that was heard.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// When, in microseconds since the window began.
    pub(crate) at_us: u64,
    /// Over which link.
    pub(crate) link: LinkId,
    /// Who asked.
    pub(crate) caller: PeerName,
    /// Who is to answer.
    pub(crate) target: String,
    pub(crate) namespace: Arc<str>,
    pub(crate) method: Arc<str>,
    /// Which line it is, if it is listed.
    pub(crate) line: Option<usize>,
    /// Whether it passes the filters.
    pub(crate) relevant: bool,
    /// Whether a receipt came.
    pub(crate) receipt: bool,
}

/// What an answer is, as far as pairing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Result,
    Error,
    Receipt,
    Progress,
    /// The last ticket.
    Ended,
}

/// Where an answer belongs.
#[derive(Clone, Debug)]
pub(crate) enum Belongs {
    /// To this call, which it is the first answer to; or, after a receipt, a later one.
    To(Asked),
    /// To this call, which has been answered before.
    Again(Asked),
    /// To none that was heard: it was made before the window, was forgotten, or wanted its answer from somebody else.
    Nowhere,
}

#[derive(Debug, Default)]
pub(crate) struct Pairing {
    open: HashMap<Key, (u64, Asked)>,
    /// The open ones, oldest first; those answered meanwhile are passed over.
    order: VecDeque<(u64, Key)>,
    settled: Recent<Option<Asked>>,
    serial: u64,
    /// Calls of which it is not known any more whether they are answered.
    pub(crate) forgotten: u64,
}

impl Pairing {
    /// Notes a call. False if it was heard before: it is being repeated.
    pub(crate) fn asked(&mut self, key: Key, asked: Asked) -> bool {
        if self.open.contains_key(&key) || self.settled.get(&key).is_some() {
            return false;
        }
        self.serial += 1;
        self.open.insert(key, (self.serial, asked));
        self.order.push_back((self.serial, key));
        self.tidy();
        true
    }

    /// Notes where a call is listed.
    pub(crate) fn listed(&mut self, key: Key, line: Option<usize>) {
        if let Some((_, asked)) = self.open.get_mut(&key) {
            asked.line = line;
        }
    }

    /// Finds the call of an answer. An error may come from anybody (W-071), the rest from whom it was asked of.
    pub(crate) fn answered(&mut self, key: Key, source: &PeerName, how: How) -> Belongs {
        let Some((_, asked)) = self.open.get_mut(&key) else {
            return self.settled.get(&key).cloned().flatten().map_or(Belongs::Nowhere, Belongs::Again);
        };
        if how != How::Error && asked.target != source.as_str() {
            return Belongs::Nowhere;
        }
        match how {
            How::Progress => Belongs::To(asked.clone()),
            How::Receipt | How::Result | How::Error if asked.receipt => Belongs::Again(asked.clone()),
            How::Receipt => {
                asked.receipt = true;
                Belongs::To(asked.clone())
            }
            How::Result | How::Error | How::Ended => {
                let Some((_, asked)) = self.open.remove(&key) else { return Belongs::Nowhere };
                self.settled.add(key, Some(asked.clone()));
                Belongs::To(asked)
            }
        }
    }

    /// Whether this emission was heard before.
    pub(crate) fn emitted_again(&mut self, key: Key) -> bool {
        let again = self.settled.get(&key).is_some();
        if !again {
            self.settled.add(key, None);
        }
        again
    }

    /// The calls without any answer.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &Asked> {
        self.open.values().map(|(_, asked)| asked).filter(|asked| !asked.receipt)
    }

    fn tidy(&mut self) {
        let open = |(serial, key): &(u64, Key), calls: &HashMap<Key, (u64, Asked)>| {
            calls.get(key).is_some_and(|(then, _)| then == serial)
        };
        while self.order.front().is_some_and(|first| self.open.len() > MAX_OPEN || !open(first, &self.open)) {
            let Some((serial, key)) = self.order.pop_front() else { return };
            if open(&(serial, key), &self.open) {
                self.open.remove(&key);
                self.forgotten += 1;
            }
        }
        if self.order.len() > 2 * MAX_OPEN {
            self.order.retain(|entry| open(entry, &self.open));
        }
    }
}

/// What came last.
#[derive(Debug)]
struct Recent<V> {
    known: HashMap<Key, V>,
    order: VecDeque<Key>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { known: HashMap::new(), order: VecDeque::new() }
    }
}

impl<V> Recent<V> {
    fn get(&self, key: &Key) -> Option<&V> {
        self.known.get(key)
    }

    fn add(&mut self, key: Key, value: V) {
        if self.known.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_SETTLED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PeerName {
        PeerName::mqtt(text).unwrap()
    }

    fn key(number: u64) -> Key {
        Key::of(&[b"rsp/hmi", &number.to_be_bytes()])
    }

    fn asked(at_us: u64) -> Asked {
        Asked {
            at_us,
            link: LinkId(0),
            caller: name("hmi"),
            target: "oven-1".into(),
            namespace: "oven".into(),
            method: "read".into(),
            line: None,
            relevant: true,
            receipt: false,
        }
    }

    fn is_to(belongs: &Belongs, at_us: u64) -> bool {
        matches!(belongs, Belongs::To(asked) if asked.at_us == at_us)
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_eq!(Key::of(&[b"ab", b"c"]), Key::of(&[b"ab", b"c"]));
        assert_ne!(Key::of(&[b"ab", b"c"]), Key::of(&[b"a", b"bc"]));
        assert_ne!(Key::of(&[b"ab"]), Key::of(&[b"ab", b""]));
    }

    #[test]
    fn a_call_is_answered_once_and_repeats_are_known() {
        let mut pairing = Pairing::default();
        assert!(pairing.asked(key(1), asked(5)));
        assert!(!pairing.asked(key(1), asked(6)), "asked again");
        assert_eq!(pairing.unanswered().count(), 1);
        assert!(is_to(&pairing.answered(key(1), &name("oven-1"), How::Result), 5));
        assert!(matches!(pairing.answered(key(1), &name("oven-1"), How::Result), Belongs::Again(_)));
        assert!(!pairing.asked(key(1), asked(7)), "asked again after the answer");
        assert!(matches!(pairing.answered(key(2), &name("oven-1"), How::Result), Belongs::Nowhere));
        assert_eq!(pairing.unanswered().count(), 0);
    }

    /// W-070, W-071: a result comes from whom it was asked of, an error from anybody.
    #[test]
    fn w071_only_an_error_may_come_from_somebody_else() {
        let mut pairing = Pairing::default();
        pairing.asked(key(1), asked(5));
        for how in [How::Result, How::Receipt, How::Progress, How::Ended] {
            assert!(matches!(pairing.answered(key(1), &name("stranger"), how), Belongs::Nowhere), "{how:?}");
        }
        assert!(is_to(&pairing.answered(key(1), &name("hub"), How::Error), 5));
    }

    /// A receipt is an answer, and what follows belongs to the same call; the recorded tap leaves tickets unpaired.
    #[test]
    fn tickets_follow_their_receipt() {
        let mut pairing = Pairing::default();
        pairing.asked(key(1), asked(5));
        let oven = name("oven-1");
        assert!(is_to(&pairing.answered(key(1), &oven, How::Progress), 5), "early");
        assert!(is_to(&pairing.answered(key(1), &oven, How::Receipt), 5));
        assert!(matches!(pairing.answered(key(1), &oven, How::Receipt), Belongs::Again(_)));
        assert_eq!(pairing.unanswered().count(), 0);
        assert!(is_to(&pairing.answered(key(1), &oven, How::Progress), 5));
        assert!(is_to(&pairing.answered(key(1), &oven, How::Ended), 5));
        assert!(matches!(pairing.answered(key(1), &oven, How::Ended), Belongs::Again(_)));
    }

    /// Invariant 8: what is never answered does not pile up.
    #[test]
    fn calls_without_answers_are_forgotten_oldest_first() {
        let mut pairing = Pairing::default();
        let many = MAX_OPEN as u64 + 100;
        (0..many).for_each(|number| assert!(pairing.asked(key(number), asked(number))));
        assert_eq!((pairing.open.len(), pairing.forgotten), (MAX_OPEN, 100));
        assert!(matches!(pairing.answered(key(99), &name("oven-1"), How::Result), Belongs::Nowhere));
        assert!(is_to(&pairing.answered(key(100), &name("oven-1"), How::Result), 100));
    }

    /// One call that is never answered does not keep the order of the others alive.
    #[test]
    fn answered_calls_leave_nothing() {
        let mut pairing = Pairing::default();
        pairing.asked(key(0), asked(0));
        for number in 1..200_000 {
            pairing.asked(key(number), asked(number));
            pairing.answered(key(number), &name("oven-1"), How::Result);
        }
        assert!(pairing.order.len() <= 2 * MAX_OPEN && pairing.open.len() == 1, "{}", pairing.order.len());
        assert!(pairing.settled.known.len() <= MAX_SETTLED && pairing.settled.order.len() <= MAX_SETTLED);
        assert_eq!(pairing.forgotten, 0);
    }

    #[test]
    fn an_emission_is_new_once() {
        let mut pairing = Pairing::default();
        assert!(!pairing.emitted_again(key(1)));
        assert!(pairing.emitted_again(key(1)));
        assert!(matches!(pairing.answered(key(1), &name("oven-1"), How::Result), Belongs::Nowhere));
    }
}
