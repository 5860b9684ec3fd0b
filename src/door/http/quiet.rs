//! Lines of the log that strangers can bring about: one of a kind in a while, with how many times it happened since the one
//! before. Somebody who tries a token a thousand times a second is to be seen, and is not to fill the disk.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::plant::audit::Stranger;

/// How long nothing is said of a kind once something was.
const QUIET: Duration = Duration::from_secs(10);

/// What strangers are turned away for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Token,
    Host,
    Origin,
    Connection,
    Message,
}

impl Refused {
    const ALL: [Self; 5] = [Self::Token, Self::Host, Self::Origin, Self::Connection, Self::Message];

    /// As the audit trail has it: who is not let in, and not what is too much or no message.
    pub(super) const fn stranger(self) -> Option<Stranger> {
        match self {
            Self::Token => Some(Stranger::Token),
            Self::Host => Some(Stranger::Host),
            Self::Origin => Some(Stranger::Origin),
            Self::Connection | Self::Message => None,
        }
    }
}

/// What was said, and what was not.
#[derive(Debug, Default)]
pub(super) struct Quiet(Mutex<[Kind; 5]>);

#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    said: Option<Instant>,
    unsaid: u64,
}

impl Kind {
    fn may_speak(&self, now: Instant) -> bool {
        self.said.is_none_or(|said| now.duration_since(said) >= QUIET)
    }
}

impl Quiet {
    /// Counts one; `Some` when a line is due, with how many there were since the last one.
    pub(super) fn times(&self, refused: Refused, now: Instant) -> Option<u64> {
        self.with(refused, |kind| {
            kind.unsaid += 1;
            kind.may_speak(now).then(|| {
                kind.said = Some(now);
                std::mem::take(&mut kind.unsaid)
            })
        })
    }

    /// Says how many there were that nobody has heard of, once no more come.
    pub(super) fn say_the_rest(&self, now: Instant) {
        for refused in Refused::ALL {
            if let Some(times) = self.rest(refused, now) {
                tracing::warn!(?refused, times, "refused as said before");
            }
        }
    }

    fn rest(&self, refused: Refused, now: Instant) -> Option<u64> {
        self.with(refused, |kind| {
            (kind.unsaid > 0 && kind.may_speak(now)).then(|| {
                kind.said = Some(now);
                std::mem::take(&mut kind.unsaid)
            })
        })
    }

    fn with<R>(&self, refused: Refused, work: impl FnOnce(&mut Kind) -> Option<R>) -> Option<R> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Refused::ALL.iter().zip(kinds.iter_mut());
        found.find(|(kind, _)| **kind == refused).and_then(|(_, kind)| work(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line a while for each kind, and none that happened is left out of the count.
    #[test]
    fn a_flood_is_a_line_with_a_count() {
        let (quiet, begin) = (Quiet::default(), Instant::now());
        assert_eq!(quiet.times(Refused::Token, begin), Some(1));
        for _ in 0..999 {
            assert_eq!(quiet.times(Refused::Token, begin + QUIET / 2), None);
        }
        assert_eq!(quiet.times(Refused::Host, begin + QUIET / 2), Some(1), "another kind is heard at once");
        assert_eq!(quiet.times(Refused::Token, begin + QUIET), Some(1_000));
        assert_eq!(quiet.times(Refused::Token, begin + QUIET), None);
        assert_eq!(quiet.rest(Refused::Token, begin + QUIET), None, "not yet");
        assert_eq!(quiet.rest(Refused::Token, begin + 2 * QUIET), Some(1), "once no more come");
        assert_eq!(quiet.rest(Refused::Token, begin + 9 * QUIET), None);
    }
}
