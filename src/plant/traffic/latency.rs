//! How long answers took, in fixed memory: 64 steps to each doubling, so a median is at most 1/64 off; the longest is exact.

use std::time::Duration;

/// Steps to each doubling, as a power of two.
const STEP_BITS: u32 = 6;
/// Doublings from a microsecond on: beyond the last of them lie twelve days.
const DOUBLINGS: usize = 40;

/// The answers of a window.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    steps: Vec<u32>,
    pairs: u64,
    max_us: u64,
}

/// What is told of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySeen {
    /// How many there were.
    pub pairs: u64,
    /// Half of them took no longer.
    pub median: Duration,
    /// None took longer.
    pub max: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        Self { steps: vec![0; DOUBLINGS << STEP_BITS], pairs: 0, max_us: 0 }
    }
}

impl Latency {
    pub(crate) fn took(&mut self, us: u64) {
        let last = self.steps.len() - 1;
        if let Some(step) = self.steps.get_mut(step(us).min(last)) {
            *step = step.saturating_add(1);
        }
        self.pairs += 1;
        self.max_us = self.max_us.max(us);
    }

    /// `None` if there was no answer.
    pub(crate) fn told(&self) -> Option<LatencySeen> {
        let wanted = self.pairs.div_ceil(2);
        let mut below = 0;
        let middle = self.steps.iter().position(|step| {
            below += u64::from(*step);
            below >= wanted && wanted > 0
        })?;
        let median = Duration::from_micros(middle_of(middle).min(self.max_us));
        Some(LatencySeen { pairs: self.pairs, median, max: Duration::from_micros(self.max_us) })
    }
}

/// The step of so many microseconds: exact up to 128, then 64 to a doubling.
fn step(us: u64) -> usize {
    let doubling = (u64::BITS - us.leading_zeros()).saturating_sub(STEP_BITS + 1);
    let within = us >> doubling;
    (usize::try_from(doubling).unwrap_or(DOUBLINGS) << STEP_BITS) + usize::try_from(within).unwrap_or(0)
}

/// What stands in the middle of a step.
fn middle_of(step: usize) -> u64 {
    let doubling = (step >> STEP_BITS).saturating_sub(1);
    let first = (step - (doubling << STEP_BITS)) as u64;
    (first << doubling) + ((1_u64 << doubling) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_in_order_and_meet_without_a_gap() {
        let mut last = 0;
        for us in 0..100_000 {
            let now = step(us);
            assert!(now == last || now == last + 1, "{us}");
            last = now;
            let off = middle_of(now).abs_diff(us);
            assert!(off * 64 <= us, "{us} reads as {}", middle_of(now));
        }
    }

    proptest::proptest! {
        /// The median is that of the sorted list, within a 64th; the longest is exact.
        #[test]
        fn the_middle_and_the_longest_are_told(mut all in proptest::collection::vec(0_u64..10_000_000_000, 1..200)) {
            let mut latency = Latency::default();
            for us in &all {
                latency.took(*us);
            }
            all.sort_unstable();
            let (told, median) = (latency.told().unwrap(), all[all.len().div_ceil(2) - 1]);
            let found = u64::try_from(told.median.as_micros()).unwrap();
            assert!(found.abs_diff(median) * 64 <= median.max(found), "{found} for {median}");
            assert_eq!((told.pairs, told.max), (all.len() as u64, Duration::from_micros(*all.last().unwrap())));
        }

        #[test]
        fn nothing_is_too_long(us in proptest::prelude::any::<u64>()) {
            let mut latency = Latency::default();
            latency.took(us);
            assert_eq!(latency.told().unwrap().max, Duration::from_micros(us));
        }
    }

    #[test]
    fn without_answers_nothing_is_told() {
        assert_eq!(Latency::default().told(), None);
    }
}
