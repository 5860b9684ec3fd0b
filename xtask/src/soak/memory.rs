//! What a peer of the plant remembers of requests, so that one that comes again does not run again (W-060).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::say::Reply;

/// The answers a name gave, under who asked and how. They outlive its incarnations, as a store does, so that what comes again
/// after a crash is known again.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Arc<Mutex<Answers>>);

#[derive(Debug, Default)]
struct Answers {
    known: HashMap<Key, Before>,
    order: VecDeque<Key>,
}

/// Who asked, and under which correlation.
type Key = (Vec<u8>, Vec<u8>);

/// What became of a request that came before.
#[derive(Clone, Debug)]
pub(super) enum Before {
    Running,
    Answered(Reply),
}

/// More than a peer must remember.
const REMEMBERED: usize = 4_000;

impl Memory {
    pub(super) fn known(&self, source: &[u8], correlation: &[u8]) -> Option<Before> {
        self.lock().known.get(&(source.to_vec(), correlation.to_vec())).cloned()
    }

    pub(super) fn note(&self, source: &[u8], correlation: &[u8], what: Before) {
        let key = (source.to_vec(), correlation.to_vec());
        let mut answers = self.lock();
        if answers.known.insert(key.clone(), what).is_none() {
            answers.order.push_back(key);
        }
        if answers.order.len() > REMEMBERED
            && let Some(oldest) = answers.order.pop_front()
        {
            answers.known.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
