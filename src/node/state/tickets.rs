//! Later answers to deferred calls of ours: a receipt came, the answer follows as tickets from the peer called (W-070).

use std::collections::{HashMap, VecDeque};

use super::{CallId, Now};
use crate::wire::{Correlation, PeerName, RemoteError, Value, frame::Ticket};

/// How many tickets may be open at once.
pub(super) const MAX_OPEN: usize = 1000;
/// How many progress values are held for a caller whose receipt has not arrived; the oldest is dropped (wire.md 2).
const MAX_EARLY: usize = 64;
/// The life of a ticket whose receipt names none that can be read (wire.md 5.8).
const DEFAULT_LIFE_MS: i64 = 30 * 60 * 1000;

/// What became of a deferred call.
#[derive(Clone, Debug, PartialEq)]
pub enum TicketUpdate {
    /// It is on its way.
    Progress(Option<Value>),
    /// The answer.
    Resolved(Option<Value>),
    /// The peer says that it failed.
    Rejected(RemoteError),
    /// The peer went away before answering (S-111).
    PeerGone,
    /// Its time passed with no answer.
    Lapsed,
    /// Too many tickets are open, or we are leaving: this one is no longer followed.
    Dropped,
}

impl TicketUpdate {
    /// Whether nothing follows.
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Progress(_))
    }
}

/// Tickets that are open, and those that overtook their receipt.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    open: HashMap<Correlation, Open>,
    early: HashMap<Correlation, VecDeque<Ticket>>,
}

#[derive(Debug)]
struct Open {
    call: CallId,
    peer: PeerName,
    expires_ms: i64,
}

impl Tickets {
    /// A receipt came for `call`. Gives when it expires and what had overtaken it, in order.
    pub(super) fn open(
        &mut self,
        call: CallId,
        correlation: &Correlation,
        peer: &PeerName,
        receipt: Option<&Value>,
        now: Now,
    ) -> (i64, Vec<(CallId, TicketUpdate)>) {
        let named = receipt.and_then(|value| value.get("expiresAt")).and_then(Value::as_i64);
        let expires_ms = named.filter(|at| *at > now.unix_ms).unwrap_or(now.unix_ms + DEFAULT_LIFE_MS);
        let early = self.early.remove(correlation).unwrap_or_default();
        if self.open.len() >= MAX_OPEN {
            return (expires_ms, vec![(call, TicketUpdate::Dropped)]);
        }
        self.open.insert(correlation.clone(), Open { call, peer: peer.clone(), expires_ms });
        let updates = early.into_iter().filter_map(|ticket| self.update(correlation, peer, ticket)).collect();
        (expires_ms, updates)
    }

    /// A ticket came for a call whose receipt has not: hold it (W-070).
    pub(super) fn hold(&mut self, correlation: &Correlation, ticket: Ticket) {
        let held = self.early.entry(correlation.clone()).or_default();
        if held.back().is_some_and(|last| !matches!(last, Ticket::Progress(_))) {
            // Nothing follows the end.
            return;
        }
        if held.len() >= MAX_EARLY {
            held.pop_front();
        }
        held.push_back(ticket);
    }

    /// The call ended without a receipt: what overtook it has nobody to go to.
    pub(super) fn forget_early(&mut self, correlation: &Correlation) {
        if !self.early.is_empty() {
            self.early.remove(correlation);
        }
    }

    /// A ticket came. `None` when it is not for an open one, or not from the peer that was called.
    pub(super) fn update(
        &mut self,
        correlation: &Correlation,
        from: &PeerName,
        ticket: Ticket,
    ) -> Option<(CallId, TicketUpdate)> {
        let open = self.open.get(correlation).filter(|open| open.peer == *from)?;
        let call = open.call;
        let update = match ticket {
            Ticket::Progress(value) => TicketUpdate::Progress(value),
            Ticket::Resolved(value) => TicketUpdate::Resolved(value),
            Ticket::Rejected(error) => TicketUpdate::Rejected(error),
        };
        if update.is_final() {
            self.open.remove(correlation);
        }
        Some((call, update))
    }

    /// `peer` is gone: its tickets end.
    pub(super) fn peer_gone(&mut self, peer: &PeerName) -> Vec<(CallId, TicketUpdate)> {
        self.end(|open| open.peer == *peer, &TicketUpdate::PeerGone)
    }

    /// Ends those whose time has passed.
    pub(super) fn expire(&mut self, now_ms: i64) -> Vec<(CallId, TicketUpdate)> {
        self.end(|open| open.expires_ms <= now_ms, &TicketUpdate::Lapsed)
    }

    /// Nobody follows any of them from now on.
    pub(super) fn drop_all(&mut self) -> Vec<(CallId, TicketUpdate)> {
        self.end(|_| true, &TicketUpdate::Dropped)
    }

    /// When the next one expires.
    pub(super) fn next_expiry_ms(&self) -> Option<i64> {
        self.open.values().map(|open| open.expires_ms).min()
    }

    /// How many calls have tickets that overtook their receipt.
    #[cfg(test)]
    pub(super) fn early(&self) -> usize {
        self.early.len()
    }

    fn end(&mut self, which: impl Fn(&Open) -> bool, update: &TicketUpdate) -> Vec<(CallId, TicketUpdate)> {
        let mut ended = Vec::new();
        self.open.retain(|_, open| {
            let stays = !which(open);
            if !stays {
                ended.push((open.call, update.clone()));
            }
            stays
        });
        ended.sort_by_key(|(call, _)| *call);
        ended
    }
}
