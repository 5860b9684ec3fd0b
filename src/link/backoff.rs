//! How long to wait before the next connection, and what a series of short-lived connections means.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::link::{DownKind, DownReason};

/// A number that no other process draws, nor this one again: for pauses that must not end together, and for names that are
/// nobody else's.
pub(super) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The pauses between connections.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
    /// Where the spread of pauses is drawn from.
    seed: u64,
    /// How many connections in a row were cut soon after they came up.
    short: u32,
}

impl Backoff {
    /// Pauses that double from `min` to `max`. Two peers that fight over a name must differ in `seed`, or they would
    /// keep meeting.
    pub(super) fn new(min: Duration, max: Duration, seed: u64) -> Self {
        Self { min, max: max.max(min), next: min, seed, short: 0 }
    }

    /// The pause after a connection that was up for `up_for`, or never came up. Corrects `reason` where the series
    /// tells more than the last failure does.
    pub(super) fn after(&mut self, up_for: Option<Duration>, reason: DownReason) -> (Duration, DownReason) {
        let pause = self.pause(up_for);
        let cut_short = up_for.is_some_and(|time| time < self.stable()) && reason.kind == DownKind::Lost;
        self.short = match up_for {
            Some(_) if cut_short => self.short.saturating_add(1),
            Some(_) => 0,
            None => self.short,
        };
        let reason = if cut_short && self.short >= SUSPICIOUS { displaced(&reason, self.short) } else { reason };
        (pause, reason)
    }

    /// The same pause, where a name does not end the connection of another.
    pub(super) fn pause(&mut self, up_for: Option<Duration>) -> Duration {
        if up_for.is_some_and(|time| time >= self.stable()) {
            self.next = self.min;
        }
        let pause = self.next;
        self.next = (self.next * 2).min(self.max);
        self.spread(pause)
    }

    /// How long a connection must have been up to count as sound: two peers that push each other out live as long as
    /// the other's pause.
    fn stable(&self) -> Duration {
        self.max * 2
    }

    /// Shortens a pause by up to a quarter, so that many peers of one broker do not come back in step.
    fn spread(&mut self, pause: Duration) -> Duration {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = u32::try_from(self.seed >> 56).unwrap_or(0);
        pause * (1024 - share) / 1024
    }
}

/// A broker may close the older of two connections of one name without a word (Mosquitto 2.0.11 does).
fn displaced(reason: &DownReason, times: u32) -> DownReason {
    DownReason {
        kind: DownKind::Displaced,
        detail: format!(
            "the connection ended {times} times right after it came up; probably another peer is connected under our \
             name ({})",
            reason.detail
        ),
    }
}

/// From how many cut connections in a row another peer of our name is the likely cause.
const SUSPICIOUS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(5);

    fn reason(kind: DownKind) -> DownReason {
        DownReason { kind, detail: "why".into() }
    }

    fn near(pause: Duration, nominal: Duration) {
        assert!(pause <= nominal && pause >= nominal * 3 / 4, "{pause:?} against {nominal:?}");
    }

    #[test]
    fn pauses_double_to_the_cap_and_start_anew_after_a_sound_connection() {
        let mut backoff = Backoff::new(MIN, MAX, 7);
        for millis in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            near(backoff.after(None, reason(DownKind::Unreachable)).0, Duration::from_millis(millis));
        }
        near(backoff.after(Some(Duration::from_secs(1)), reason(DownKind::Lost)).0, MAX);
        near(backoff.after(Some(Duration::from_mins(1)), reason(DownKind::Lost)).0, MIN);
    }

    #[test]
    fn pauses_of_two_peers_differ() {
        let pause = |seed| Backoff::new(MIN, MAX, seed).after(None, reason(DownKind::Lost)).0;
        assert_ne!(pause(1), pause(u64::MAX / 3));
    }

    #[test]
    fn three_cut_connections_in_a_row_are_a_fight_over_the_name() {
        let mut backoff = Backoff::new(MIN, MAX, 7);
        let short = Some(Duration::from_millis(300));
        assert_eq!(backoff.after(short, reason(DownKind::Lost)).1.kind, DownKind::Lost);
        // An attempt that failed in between says nothing about it.
        assert_eq!(backoff.after(None, reason(DownKind::Unreachable)).1.kind, DownKind::Unreachable);
        assert_eq!(backoff.after(short, reason(DownKind::Lost)).1.kind, DownKind::Lost);
        assert_eq!(backoff.after(short, reason(DownKind::Lost)).1.kind, DownKind::Displaced);
        assert_eq!(backoff.after(Some(Duration::from_mins(1)), reason(DownKind::Lost)).1.kind, DownKind::Lost);
        assert_eq!(backoff.after(short, reason(DownKind::Lost)).1.kind, DownKind::Lost);
    }
}
