//! Requests of ours that await an answer: each is resolved exactly once, by an answer, a rejection, its deadline, the
//! loss of its link, or the caller giving up.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use super::{CallId, subscriptions::Attempt};
use crate::{
    link::{Claim, LinkId, Rejection},
    node::error::{CallError, Doubt, NotSent},
    wire::{Correlation, PeerName},
};

/// How many requests may await an answer at once.
pub const MAX_PENDING: usize = 4096;

/// Why a request was made, and so who is told how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// A caller waits for it.
    Caller,
    /// It attaches or detaches the held subscription of this number.
    Subscription(u64, Attempt),
}

/// A request that left, or is about to.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) purpose: Purpose,
    pub(super) peer: PeerName,
    pub(super) correlation: Correlation,
    pub(super) link: LinkId,
    /// Taken by the link when it writes the request.
    pub(super) claim: Claim,
    pub(super) ttl: Option<Duration>,
    pub(super) deadline: Option<Instant>,
}

impl Pending {
    /// How it fails: certainly not sent if the link has not taken it, and then the link never will; else in doubt.
    pub(super) fn fail(&self, not_sent: NotSent, doubt: Doubt) -> CallError {
        if self.claim.take() { CallError::NotSent(not_sent) } else { CallError::UnknownOutcome(doubt) }
    }
}

/// The requests that await an answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pending: HashMap<CallId, Pending>,
    by_correlation: HashMap<Correlation, CallId>,
    deadlines: BTreeSet<(Instant, CallId)>,
}

impl Calls {
    /// Registers a request, unless too many are pending. Its correlation must be fresh (S-003).
    pub(super) fn insert(&mut self, id: CallId, pending: Pending) -> Result<(), NotSent> {
        if self.pending.len() >= MAX_PENDING {
            return Err(NotSent::TooManyCalls { limit: MAX_PENDING });
        }
        if let Some(deadline) = pending.deadline {
            self.deadlines.insert((deadline, id));
        }
        self.by_correlation.insert(pending.correlation.clone(), id);
        self.pending.insert(id, pending);
        Ok(())
    }

    /// The request that `correlation` names, if it awaits an answer.
    pub(super) fn find(&self, correlation: &Correlation) -> Option<(CallId, &Pending)> {
        let id = *self.by_correlation.get(correlation)?;
        self.pending.get(&id).map(|pending| (id, pending))
    }

    /// Takes a request out: it is resolved, and whatever comes later for it is late.
    pub(super) fn take(&mut self, id: CallId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.by_correlation.remove(&pending.correlation);
        if let Some(deadline) = pending.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(pending)
    }

    /// How many await an answer.
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// When the first deadline falls.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Takes out one whose time is up.
    pub(super) fn expired(&mut self, now: Instant) -> Option<(CallId, Pending, CallError)> {
        let (at, id) = *self.deadlines.first()?;
        if at > now {
            return None;
        }
        let pending = self.take(id)?;
        let ttl = pending.ttl.unwrap_or_default();
        let error = pending.fail(NotSent::Timeout(ttl), Doubt::Timeout(ttl));
        Some((id, pending, error))
    }

    /// Those that were handed to `link`, which is lost: none of them can be answered any more.
    pub(super) fn lost(&mut self, link: LinkId) -> Vec<(CallId, Pending)> {
        let ids = self.ids(|pending| pending.link == link);
        ids.into_iter().filter_map(|id| self.take(id).map(|pending| (id, pending))).collect()
    }

    /// Takes everything out, at the end.
    pub(super) fn drain(&mut self) -> Vec<(CallId, Pending)> {
        let ids = self.ids(|_| true);
        ids.into_iter().filter_map(|id| self.take(id).map(|pending| (id, pending))).collect()
    }

    fn ids(&self, wanted: impl Fn(&Pending) -> bool) -> Vec<CallId> {
        let mut ids: Vec<CallId> =
            self.pending.iter().filter(|(_, pending)| wanted(pending)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }
}

/// What a rejection by the link means to the caller.
pub(super) fn rejected(why: Rejection) -> CallError {
    CallError::NotSent(match why {
        Rejection::Down => NotSent::LinkDown,
        why @ (Rejection::Full | Rejection::TooLarge { .. } | Rejection::Unsendable(_) | Rejection::Refused(_)) => {
            NotSent::Rejected(why)
        }
    })
}
