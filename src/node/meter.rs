//! What our peer counts of itself: how calls on the network ended and how long their answers took. A few relaxed additions a
//! call, no lock and no allocation; whoever reads takes copies that may be a moment apart.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

use super::{Answer, CallError};

/// How a call on the network ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// With a value.
    Answered,
    /// With an error of the peer, or of a relay on the way.
    Refused,
    /// It certainly did not leave.
    NotSent,
    /// It left and nothing conclusive came back.
    Unknown,
    /// Nobody waited for its end.
    Abandoned,
}

impl CallEnd {
    /// Every end, in the order counts are given.
    pub const ALL: [Self; 5] = [Self::Answered, Self::Refused, Self::NotSent, Self::Unknown, Self::Abandoned];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::NotSent => "not_sent",
            Self::Unknown => "unknown",
            Self::Abandoned => "abandoned",
        }
    }
}

impl From<&Result<Answer, CallError>> for CallEnd {
    fn from(outcome: &Result<Answer, CallError>) -> Self {
        match outcome {
            Ok(_) => Self::Answered,
            Err(CallError::Refused(_)) => Self::Refused,
            Err(CallError::NotSent(_)) => Self::NotSent,
            Err(CallError::UnknownOutcome(_)) => Self::Unknown,
        }
    }
}

/// What is counted while the node lives.
#[derive(Debug, Default)]
pub(super) struct Meter {
    begun: AtomicU64,
    ended: [AtomicU64; CallEnd::ALL.len()],
    latency: Histogram,
    fell_off: AtomicU64,
}

/// What a node has counted so far.
#[derive(Clone, Copy, Debug)]
pub struct NodeCounts {
    /// Calls that ended, in the order of [`CallEnd::ALL`].
    pub ended: [u64; CallEnd::ALL.len()],
    /// Calls that have not ended.
    pub open: u64,
    /// How long answers took, those of a peer that refused among them.
    pub latency: Distribution,
    /// Deliveries that fell off because a listener was too slow.
    pub fell_off: u64,
    /// Commands that wait for the driver.
    pub queued: usize,
    /// How many may.
    pub queue: usize,
}

impl Meter {
    /// A call begins; it ends with [`Timed::end`], or as abandoned when that is dropped.
    pub(super) fn begin(&self) -> Timed<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Timed { meter: self, begun: Instant::now(), end: CallEnd::Abandoned }
    }

    /// Deliveries found no room.
    pub(super) fn fell_off(&self) {
        self.fell_off.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self, queued: usize, queue: usize) -> NodeCounts {
        // Ends before beginnings: what ends in between is open for a moment longer, never fewer than none.
        let ended = self.ended.each_ref().map(|count| count.load(Ordering::Relaxed));
        let open = self.begun.load(Ordering::Relaxed).saturating_sub(ended.iter().sum());
        let (latency, fell_off) = (self.latency.read(), self.fell_off.load(Ordering::Relaxed));
        NodeCounts { ended, open, latency, fell_off, queued, queue }
    }
}

/// A call that is being counted.
pub(super) struct Timed<'a> {
    meter: &'a Meter,
    begun: Instant,
    end: CallEnd,
}

impl Timed<'_> {
    pub(super) fn end(mut self, end: CallEnd) {
        self.end = end;
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        if matches!(self.end, CallEnd::Answered | CallEnd::Refused) {
            self.meter.latency.add(self.begun.elapsed());
        }
        if let Some(count) = self.meter.ended.get(self.end as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Upper bounds of the buckets of a [`Histogram`], in microseconds: from below a call on a local broker, which takes 0.2 ms, to
/// beyond the time a call is given unless it says otherwise.
pub const BOUNDS_US: [u64; 16] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000,
];

/// Times, counted in buckets of fixed bounds and one for what is beyond them.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// What a [`Histogram`] held when it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many in each bucket, the last one without a bound.
    pub buckets: [u64; BOUNDS_US.len() + 1],
    /// All of them together, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// Counts one.
    pub fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS_US.partition_point(|bound| *bound < micros);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// What it holds.
    pub fn read(&self) -> Distribution {
        let buckets = self.buckets.each_ref().map(|count| count.load(Ordering::Relaxed));
        Distribution { buckets, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

impl Distribution {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How long all but `1 - share` of them took at most, in microseconds, as if they lay evenly within their bucket; of
    /// what is beyond the last bound, that bound. Nothing of nothing.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let count = self.count();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate within a bucket; a share is between 0 and 1"
        )]
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let (mut below, mut from) = (0, 0);
        for (held, bound) in self.buckets.iter().zip(BOUNDS_US) {
            if below + held >= rank {
                return Some(from + (bound - from) * (rank - below) / held);
            }
            below += held;
            from = bound;
        }
        (count > 0).then_some(from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(times: &[u64]) -> Distribution {
        let histogram = Histogram::default();
        for micros in times {
            histogram.add(Duration::from_micros(*micros));
        }
        histogram.read()
    }

    /// Counting is on the way of every call: it allocates nothing.
    #[test]
    fn counting_allocates_nothing() {
        let meter = Meter::default();
        let counted = allocation_counter::measure(|| {
            meter.begin().end(CallEnd::Answered);
            drop(meter.begin());
        });
        assert_eq!(counted.count_total, 0);
        let counts = meter.counts(1, 2);
        assert_eq!((counts.ended, counts.open, counts.latency.count()), ([1, 0, 0, 0, 1], 0, 1));
        let open = meter.begin();
        assert_eq!(meter.counts(0, 0).open, 1);
        open.end(CallEnd::Unknown);
        assert_eq!(meter.counts(0, 0).ended, [1, 0, 0, 1, 1]);
    }

    /// A bound belongs to its bucket, as in the text format (`le`), and what is beyond all has the last.
    #[test]
    fn each_time_is_in_the_first_bucket_that_holds_it() {
        assert!(BOUNDS_US.is_sorted());
        let read = of(&[0, 250, 251, 30_000_000, 30_000_001]);
        let mut expected = [0; BOUNDS_US.len() + 1];
        (expected[0], expected[1], expected[15], expected[16]) = (2, 1, 1, 1);
        assert_eq!((read.buckets, read.count(), read.sum_us), (expected, 5, 60_000_502));
    }

    #[test]
    fn a_quantile_is_within_the_bucket_of_its_rank() {
        assert_eq!(of(&[]).quantile_us(0.5), None);
        assert_eq!(of(&[100]).quantile_us(0.99), Some(250));
        assert_eq!(of(&[40_000_000]).quantile_us(0.5), Some(30_000_000));
        let mut times = vec![200; 98];
        times.extend([2_000, 20_000]);
        let read = of(&times);
        assert_eq!([0.5, 0.98, 0.99, 1.0].map(|share| read.quantile_us(share).unwrap()), [127, 250, 2_500, 25_000]);
    }

    proptest! {
        /// A larger share never took less, and none is told beyond the bucket of the slowest.
        #[test]
        fn quantiles_rise(times in prop::collection::vec(0_u64..40_000_000, 1..50), a in 0.0..1.0_f64, b in 0.0..1.0_f64) {
            let read = of(&times);
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(read.quantile_us(low) <= read.quantile_us(high));
            let slowest = times.iter().max().copied().unwrap_or_default();
            let bound = BOUNDS_US.iter().copied().find(|bound| *bound >= slowest).unwrap_or(30_000_000);
            prop_assert!(read.quantile_us(1.0) <= Some(bound));
            prop_assert_eq!(read.count(), times.len() as u64);
        }
    }
}
