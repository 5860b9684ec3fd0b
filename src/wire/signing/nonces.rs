//! What was seen before, in bounded memory (W-090).
//!
//! Of each source we remember its nonces for as long as a frame with one could still be fresh, which is until the frame's
//! own time is a window ago: a frame from the future is remembered longer. What is forgotten, because its time is over or
//! because there is no room, leaves a **floor**: nothing of that source from the floor's time or before is taken again.
//! So a replay is refused whatever the load is and wherever the clock jumps; what a flood can do is make late frames of
//! the flooding source itself be refused.

use std::collections::{BTreeSet, HashMap};

use sha2::{Digest, Sha256};

use super::Refusal;

/// A nonce, as far as it is kept. It may be any text; 128 bits of its hash tell it from every other.
type Mark = [u8; 16];

/// The nonces of every source. Sources are numbered.
#[derive(Debug)]
pub(super) struct Nonces {
    sources: Vec<Seen>,
    /// How many nonces are remembered, of all sources.
    count: usize,
    capacity: usize,
}

/// What was seen of one source.
#[derive(Debug, Default)]
struct Seen {
    nonces: HashMap<Mark, u64>,
    /// The same, oldest first.
    order: BTreeSet<(u64, Mark)>,
    /// Nothing from this time or before is taken.
    floor: Option<u64>,
}

impl Nonces {
    pub(super) fn new(sources: usize) -> Self {
        Self::with_capacity(sources, MAX_NONCES)
    }

    fn with_capacity(sources: usize, capacity: usize) -> Self {
        Self { sources: std::iter::repeat_with(Seen::default).take(sources).collect(), count: 0, capacity }
    }

    /// Whether a frame of that time may be new.
    pub(super) fn check(&self, source: usize, nonce: &str, time: u64) -> Result<(), Refusal> {
        let Some(seen) = self.sources.get(source) else { return Err(Refusal::UnknownSource) };
        if seen.nonces.contains_key(&mark(nonce)) {
            return Err(Refusal::Replayed);
        }
        if seen.floor.is_some_and(|floor| time <= floor) { Err(Refusal::Forgotten) } else { Ok(()) }
    }

    /// Remembers a frame that was verified, and forgets what cannot come again.
    pub(super) fn record(&mut self, source: usize, nonce: &str, time: u64, now: u64) {
        self.forget_over(source, now);
        if let Some(seen) = self.sources.get_mut(source) {
            let mark = mark(nonce);
            if seen.nonces.insert(mark, time).is_none() {
                seen.order.insert((time, mark));
                self.count += 1;
            }
        }
        if self.count > self.capacity {
            for source in 0..self.sources.len() {
                self.forget_over(source, now);
            }
        }
        while self.count > self.capacity {
            // Whoever said most gives way, so that nobody can take the memory of others.
            let largest = self.sources.iter_mut().max_by_key(|seen| seen.order.len());
            self.count -= largest.map_or(self.count, |seen| usize::from(seen.forget_oldest()));
        }
    }

    /// Forgets what is stale by now of one source.
    fn forget_over(&mut self, source: usize, now: u64) {
        let Some(seen) = self.sources.get_mut(source) else { return };
        while seen.order.first().is_some_and(|(time, _)| time.saturating_add(WINDOW_MS) < now) {
            self.count -= usize::from(seen.forget_oldest());
        }
    }
}

impl Seen {
    fn forget_oldest(&mut self) -> bool {
        let Some((time, mark)) = self.order.pop_first() else { return false };
        self.nonces.remove(&mark);
        self.floor = self.floor.max(Some(time));
        true
    }
}

fn mark(nonce: &str) -> Mark {
    let hash = Sha256::digest(nonce.as_bytes());
    let mut mark = Mark::default();
    for (kept, byte) in mark.iter_mut().zip(hash) {
        *kept = byte;
    }
    mark
}

/// How far a sender's clock may be from ours, in milliseconds (W-094).
pub(super) const WINDOW_MS: u64 = 60_000;
/// How many nonces are remembered.
const MAX_NONCES: usize = 65_536;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn take(nonces: &mut Nonces, source: usize, nonce: &str, time: u64, now: u64) -> Result<(), Refusal> {
        nonces.check(source, nonce, time)?;
        nonces.record(source, nonce, time, now);
        Ok(())
    }

    #[test]
    fn w090_a_frame_from_the_future_is_remembered_until_it_is_stale() {
        let mut nonces = Nonces::new(1);
        take(&mut nonces, 0, "a", 60_000, 0).unwrap();
        // Sixty seconds later it is as fresh as can be.
        take(&mut nonces, 0, "b", 60_001, 60_001).unwrap();
        assert_eq!(nonces.check(0, "a", 60_000), Err(Refusal::Replayed));
        take(&mut nonces, 0, "c", 120_001, 120_001).unwrap();
        assert_eq!(nonces.check(0, "a", 60_000), Err(Refusal::Forgotten));
    }

    #[test]
    fn w090_a_clock_that_jumps_back_makes_nothing_new() {
        let mut nonces = Nonces::new(1);
        take(&mut nonces, 0, "a", 0, 0).unwrap();
        take(&mut nonces, 0, "b", 70_000, 70_000).unwrap();
        assert!(nonces.check(0, "a", 0).is_err());
        assert_eq!(nonces.count, 1);
    }

    #[test]
    fn w090_memory_is_bounded_and_whoever_says_most_gives_way() {
        let mut nonces = Nonces::with_capacity(2, 4);
        take(&mut nonces, 1, "quiet", 1, 1).unwrap();
        for time in 1..100 {
            take(&mut nonces, 0, &time.to_string(), time, time).unwrap();
        }
        assert_eq!((nonces.count, nonces.sources[1].order.len()), (4, 1));
        assert_eq!(nonces.check(1, "quiet", 1), Err(Refusal::Replayed));
        assert_eq!(nonces.check(0, "5", 5), Err(Refusal::Forgotten));
        assert_eq!(nonces.check(0, "99", 99), Err(Refusal::Replayed));
        // One source's nonces are none of another's.
        assert_eq!(nonces.check(1, "99", 99), Ok(()));
    }

    proptest! {
        /// However small the memory and however the clock jumps, nothing is taken twice.
        #[test]
        fn w090_nothing_is_taken_twice(
            frames in prop::collection::vec((0_usize..2, 0_u8..12, 0_u64..8, 0_u64..200_000), 1..200),
            capacity in 1_usize..6,
        ) {
            let mut nonces = Nonces::with_capacity(2, capacity);
            let mut taken = HashSet::new();
            for (source, nonce, time, now) in frames {
                let time = time * 20_000;
                if take(&mut nonces, source, &nonce.to_string(), time, now).is_ok() {
                    prop_assert!(taken.insert((source, nonce, time)), "taken twice");
                }
                prop_assert!(nonces.count <= capacity);
                let held: usize = nonces.sources.iter().map(|seen| seen.order.len()).sum();
                let named: usize = nonces.sources.iter().map(|seen| seen.nonces.len()).sum();
                prop_assert_eq!((held, named), (nonces.count, nonces.count));
            }
        }
    }
}
