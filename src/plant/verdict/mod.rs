//! What can be said about loss on a stream of events, from the stamps alone (semantics.md 6.4). Pure: no clock, no I/O.
//!
//! A [`Tally`] is told what was heard and which cursors the peer gave; [`Tally::judge`] says what that proves. Deliveries
//! are a set of stamps, never a number, so a repeat cannot hide a loss. `Gapless` is said only when every emission between
//! two cursors of one incarnation was heard; whatever casts doubt on the count makes it `Unknown`.

mod judge;
mod tally;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub(crate) use self::{
    judge::Against,
    tally::{Novelty, Tally, ranges_beyond},
};

/// How far a peer has counted one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The incarnation of the peer; compared for equality only.
    pub epoch: String,
    /// How many it emitted.
    pub seq: u64,
    /// Since when it counts, in milliseconds since the Unix epoch.
    pub since: Option<i64>,
}

/// Up to where a stream was judged before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Baseline {
    /// The last emission judged.
    pub(crate) cursor: Cursor,
    /// What was judged beyond it, by watches that overlapped.
    pub(crate) ahead: Vec<(u64, u64)>,
}

/// What is known about loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to compare with, and nothing inside was missed as far as is known.
    First,
    /// Everything that fired was heard, and the count proves it.
    Gapless,
    /// Something that fired was not heard.
    Missed,
    /// The peer restarted: nothing is known across that.
    Unknowable,
    /// There is no count, or none to rely on.
    Unknown,
}

impl Verdict {
    /// As results write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Gapless => "gapless",
            Self::Missed => "missed",
            Self::Unknowable => "unknowable",
            Self::Unknown => "unknown",
        }
    }
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What is known.
    pub verdict: Verdict,
    /// The first emission judged, if any fired.
    pub from: Option<u64>,
    /// The last one.
    pub to: Option<u64>,
    /// Those not heard, as first and last.
    pub missing: Vec<(u64, u64)>,
    /// How many those are.
    pub missed: u64,
    /// Deliveries that repeated another.
    pub duplicates: u64,
    /// What each incarnation proves by itself, if there was more than one.
    pub epochs: Vec<EpochLoss>,
    /// The same as a sentence, beginning with the verdict.
    pub sentence: String,
}

/// What one incarnation of a peer proves by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochLoss {
    /// Which.
    pub epoch: String,
    /// The first emission judged.
    pub from: u64,
    /// The last one.
    pub to: u64,
    /// Those not heard.
    pub missing: Vec<(u64, u64)>,
}

/// A judgement, and from where to judge next time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// What is known about loss.
    pub(crate) loss: Loss,
    /// Before which emission the judgement begins: what it covers follows that.
    pub(crate) base: Option<u64>,
    /// Up to where it goes. `None`: nothing new is known, and what was kept stays.
    pub(crate) next: Option<Cursor>,
    /// Up to which count of this incarnation nothing is to be believed from now on; beyond it the count has moved again.
    pub(crate) distrust: Option<u64>,
}

/// Why the count of a peer cannot be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// A delivery without a stamp, though the peer counts.
    Unstamped,
    /// One stamp on two different deliveries.
    Conflict,
    /// The first emission is 1.
    Zero,
    /// A stamp above what the peer then said it had counted.
    Beyond,
    /// The count went back, or began anew.
    Backwards,
    /// More incarnations than are told apart.
    Epochs,
    /// A stamp so far back that it cannot be told whether it repeats another.
    Old,
    /// It was found unreliable before, in this incarnation.
    Known,
}

impl Doubt {
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::Unstamped => "some deliveries carry no stamp although the peer counts this event",
            Self::Conflict => "two different deliveries carry the same stamp",
            Self::Zero => "a delivery carries the stamp 0, which no counted emission has",
            Self::Beyond => "a delivery carries a stamp above what the peer says it has counted",
            Self::Backwards => "the count went back or began anew without a restart",
            Self::Epochs => "deliveries carry more incarnations than can be told apart",
            Self::Old => "a delivery carries a stamp from too far back to tell whether it repeats another",
            Self::Known => "the count of this incarnation was found unreliable before",
        }
    }
}

/// The longest name of an incarnation that is taken for one.
pub(crate) const MAX_EPOCH: usize = 256;
