//! What we listen to at others. Several local listeners share one remote subscription (S-060).
//!
//! For every stream two things are held: who listens here, and what is known of the peer. [`Subscriptions::step`] gives
//! the request that brings the second in line with the first, if there is cause to make one: a listener came or the last
//! one went, the peer or the link returned (S-070, W-080), or a request ended. A stream stays held after its last
//! listener went, until the peer is known not to have it: a look leaves nothing behind, even at a peer that was away.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use super::{
    SubscriptionId,
    stream::{Delivery, SNAPSHOT, Stream},
};
use crate::{
    link::LinkId,
    node::error::{CallError, Certainty},
    wire::PeerName,
};

/// How many remote subscriptions may be held at once.
pub(super) const MAX_HELD: usize = 1000;
/// How many local listeners may listen at once.
pub(super) const MAX_LISTENERS: usize = 10_000;
/// How long after a failure that another attempt may mend a peer that is there is asked again.
const RETRY: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Held {
    stream: Stream,
    listeners: Vec<Listener>,
    remote: Remote,
    /// The `on` that is under way.
    attaching: Option<Attempt>,
    /// The `off` that is under way.
    detaching: Option<Attempt>,
    /// There is cause for a request.
    due: bool,
    /// Whether the peer is known to announce itself.
    announces: bool,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct Listener {
    id: SubscriptionId,
    told: Told,
}

/// What a listener was told last of its attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Attached,
    Failed,
}

/// What is known of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remote {
    /// It has no subscription of ours.
    Absent,
    /// It may have one.
    Unknown,
    /// It said that it has one, and reaches us over this link.
    There(LinkId),
}

/// Names one request; the answer to one that was given up counts no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt(u64);

/// A request to make.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) stream: Stream,
    /// `on`, or `off`.
    pub(super) attach: bool,
    pub(super) attempt: Attempt,
}

/// The held subscriptions, by a number of their own and by what they listen to.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    held: HashMap<u64, Held>,
    by_stream: HashMap<Stream, u64>,
    listeners: HashMap<SubscriptionId, u64>,
    retries: BTreeSet<(Instant, u64)>,
    next: u64,
    attempts: u64,
}

/// What became of a new listener.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// It is attached already.
    Attached,
    /// It waits for the answer of the peer; [`Subscriptions::step`] this one.
    Waiting(u64),
    /// Too many are held.
    Full,
}

// Local listeners.
impl Subscriptions {
    /// A listener joins; `announces` says whether the peer is known to announce itself. Snapshots are always asked for again, because every accepted `on` is answered with a fresh one.
    pub(super) fn join(&mut self, id: SubscriptionId, stream: Stream, announces: bool) -> Joined {
        let again = stream.event == SNAPSHOT;
        if self.listeners.len() >= MAX_LISTENERS {
            return Joined::Full;
        }
        let Some(key) = self.key(stream) else { return Joined::Full };
        let Some(held) = self.held.get_mut(&key) else { return Joined::Full };
        held.announces |= announces;
        self.listeners.insert(id, key);
        let there = matches!(held.remote, Remote::There(_)) && held.attaching.is_none() && held.detaching.is_none();
        if there && !again {
            held.listeners.push(Listener { id, told: Told::Attached });
            return Joined::Attached;
        }
        held.listeners.push(Listener { id, told: Told::Nothing });
        held.due |= again || held.attaching.is_none() || held.detaching.is_some();
        Joined::Waiting(key)
    }

    /// A listener leaves. Gives what to step if it was the last.
    pub(super) fn leave(&mut self, id: SubscriptionId) -> Option<u64> {
        let key = self.listeners.remove(&id)?;
        let held = self.held.get_mut(&key)?;
        held.listeners.retain(|known| known.id != id);
        if !held.listeners.is_empty() {
            return None;
        }
        held.due = true;
        Some(key)
    }

    /// The number of a stream, held from now on. `None` when too many are; one that nobody listens to gives way.
    fn key(&mut self, stream: Stream) -> Option<u64> {
        if let Some(&key) = self.by_stream.get(&stream) {
            return Some(key);
        }
        if self.held.len() >= MAX_HELD {
            let idle = |held: &Held| held.listeners.is_empty() && held.attaching.is_none() && held.detaching.is_none();
            let oldest = self.held.iter().filter(|(_, held)| idle(held)).map(|(key, _)| *key).min()?;
            self.remove(oldest);
        }
        let key = self.next;
        self.next += 1;
        self.by_stream.insert(stream.clone(), key);
        let held = Held {
            stream,
            listeners: Vec::new(),
            remote: Remote::Absent,
            attaching: None,
            detaching: None,
            due: false,
            announces: false,
            retry_at: None,
        };
        self.held.insert(key, held);
        Some(key)
    }

    fn remove(&mut self, key: u64) {
        if let Some(held) = self.held.remove(&key) {
            self.by_stream.remove(&held.stream);
            self.retries.retain(|(_, retried)| *retried != key);
        }
    }

    /// Whoever listens to this. Without a namespace it goes to every listener of that peer and event (W-073).
    pub(super) fn listeners(&self, peer: &PeerName, namespace: Option<String>, event: String) -> Vec<SubscriptionId> {
        if let Some(namespace) = namespace {
            let stream = Stream { peer: peer.clone(), namespace, event };
            let held = self.by_stream.get(&stream).and_then(|key| self.held.get(key));
            return held.map(|held| held.listeners.iter().map(|listener| listener.id).collect()).unwrap_or_default();
        }
        let matches = |held: &&Held| held.stream.peer == *peer && held.stream.event == event;
        let of_all = self.held.values().filter(matches).flat_map(|held| &held.listeners);
        let mut all: Vec<_> = of_all.map(|listener| listener.id).collect();
        all.sort_unstable();
        all
    }
}

// The peer.
impl Subscriptions {
    /// The next request for `key`, which is to be made now; `None` when there is none or no cause. `on` never follows an
    /// `off` that is not answered, so that they cannot change places; `off` follows an `on` at once, and once more if that
    /// is answered later.
    pub(super) fn step(&mut self, key: u64) -> Option<Step> {
        let held = self.held.get_mut(&key)?;
        let attach = !held.listeners.is_empty();
        if held.detaching.is_some() || attach && held.attaching.is_some() {
            return None;
        }
        if !attach && held.remote == Remote::Absent && held.attaching.is_none() {
            self.remove(key);
            return None;
        }
        if !std::mem::take(&mut held.due) {
            return None;
        }
        let attempt = Attempt(self.attempts);
        self.attempts += 1;
        if let Some(at) = held.retry_at.take() {
            self.retries.remove(&(at, key));
        }
        *(if attach { &mut held.attaching } else { &mut held.detaching }) = Some(attempt);
        Some(Step { stream: held.stream.clone(), attach, attempt })
    }

    /// A request of a [`Step`] ended, well if the peer did it; then it says whether it had no such subscription before.
    /// Gives whom to tell what; step `key` afterwards.
    pub(super) fn ended(
        &mut self,
        key: u64,
        attempt: Attempt,
        link: Option<LinkId>,
        outcome: Result<bool, CallError>,
        now: Instant,
    ) -> Vec<(SubscriptionId, Delivery)> {
        let Some(held) = self.held.get_mut(&key) else { return Vec::new() };
        if held.detaching == Some(attempt) {
            held.detaching = None;
            self.detached(key, outcome.err(), now);
            return Vec::new();
        }
        if held.attaching != Some(attempt) {
            return Vec::new();
        }
        held.attaching = None;
        let again = outcome.as_ref().is_err_and(|error| !futile(error)) && !held.due;
        let told = held.attached(link, outcome);
        if again {
            self.retry_later(key, now);
        }
        told
    }

    /// `off` ended.
    fn detached(&mut self, key: u64, error: Option<CallError>, now: Instant) {
        let Some(held) = self.held.get_mut(&key) else { return };
        // With an `on` under way the answer says nothing of what comes after it.
        if held.attaching.is_none() && error.is_none_or(|error| futile(&error)) {
            held.remote = Remote::Absent;
            return;
        }
        held.remote = Remote::Unknown;
        if held.listeners.is_empty() && held.attaching.is_none() {
            self.retry_later(key, now);
        }
    }

    fn retry_later(&mut self, key: u64, now: Instant) {
        let Some(held) = self.held.get_mut(&key) else { return };
        let at = now + RETRY;
        if let Some(before) = held.retry_at.replace(at) {
            self.retries.remove(&(before, key));
        }
        self.retries.insert((at, key));
    }

    /// Those to ask a peer for once more, if it is there.
    pub(super) fn retry(&mut self, now: Instant, there: impl Fn(&PeerName) -> bool) -> Vec<u64> {
        let mut keys = Vec::new();
        while let Some(&(at, key)) = self.retries.first()
            && at <= now
        {
            self.retries.pop_first();
            if let Some(held) = self.held.get_mut(&key) {
                held.retry_at = None;
                held.due |= there(&held.stream.peer);
                keys.push(key);
            }
        }
        keys
    }

    /// When [`Subscriptions::retry`] is wanted.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// Those of the peers that `lost` says, given the link they are attached over, are in doubt; a link is not known of one
    /// that is not attached. Gives whom to tell.
    pub(super) fn interrupted(&mut self, lost: impl Fn(&PeerName, Option<LinkId>) -> bool) -> Vec<SubscriptionId> {
        let mut told = Vec::new();
        for held in self.held.values_mut() {
            let link = if let Remote::There(link) = held.remote { Some(link) } else { None };
            if !lost(&held.stream.peer, link) {
                continue;
            }
            let under_way = held.attaching.take().is_some() | held.detaching.take().is_some();
            if link.is_some() || under_way {
                held.remote = Remote::Unknown;
                told.extend(held.listeners.iter().map(|listener| listener.id));
                held.listeners.iter_mut().for_each(|listener| listener.told = Told::Nothing);
            }
        }
        told.sort_unstable();
        told
    }

    /// A peer is back, or has another surface and may have forgotten who listened (S-070). Gives what to step.
    pub(super) fn peer_back(&mut self, peer: &PeerName, reshaped: bool) -> Vec<u64> {
        for held in self.held.values_mut().filter(|held| held.stream.peer == *peer) {
            held.announces = true;
        }
        self.cause(|held| {
            let settled = matches!(held.remote, Remote::There(_)) && held.attaching.is_none();
            held.stream.peer == *peer && (reshaped || !settled)
        })
    }

    /// A link can be used (W-080). Gives what to step: what is wanted and not there, and what is unwanted at a peer that
    /// `there` says can be told.
    pub(super) fn link_back(&mut self, there: impl Fn(&PeerName) -> bool) -> Vec<u64> {
        self.cause(|held| {
            let idle = held.attaching.is_none() && held.detaching.is_none();
            let settled = matches!(held.remote, Remote::There(_));
            // A peer that announces itself is asked when it does: before that nobody would hear, and the answer would be
            // awaited in vain.
            let here = there(&held.stream.peer);
            idle && !settled && (here || !held.listeners.is_empty() && !held.announces)
        })
    }

    fn cause(&mut self, wanted: impl Fn(&Held) -> bool) -> Vec<u64> {
        let mut keys = Vec::new();
        for (key, held) in self.held.iter_mut().filter(|(_, held)| wanted(held)) {
            held.due = true;
            keys.push(*key);
        }
        keys.sort_unstable();
        keys
    }

    /// How many streams are held, listened to or not.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }
}

impl Held {
    /// `on` ended. Whoever waits is told; on failure all are, unless the peer has it all the same.
    fn attached(&mut self, link: Option<LinkId>, outcome: Result<bool, CallError>) -> Vec<(SubscriptionId, Delivery)> {
        if self.detaching.is_some() {
            // Nobody listened any more, and `off` has followed it: what that leads to counts.
            self.remote = Remote::Unknown;
            return Vec::new();
        }
        // What came too late to be undone by an `off` is undone by another.
        self.due |= self.listeners.is_empty();
        let mut told = Vec::new();
        let delivery = match outcome {
            Ok(fresh) => {
                if fresh && matches!(self.remote, Remote::There(_)) {
                    // It had forgotten, so something may have been missed.
                    for listener in self.listeners.iter_mut().filter(|listener| listener.told == Told::Attached) {
                        listener.told = Told::Nothing;
                        told.push((listener.id, Delivery::Interrupted));
                    }
                }
                self.remote = link.map_or(Remote::Unknown, Remote::There);
                Delivery::Attached
            }
            Err(error) => {
                self.remote = match error.certainty() {
                    _ if unknown_there(&error) => Remote::Absent,
                    Certainty::DidNotRun => self.remote,
                    Certainty::Ran | Certainty::MayHaveRun => Remote::Unknown,
                };
                Delivery::Failed(error)
            }
        };
        let tells = if delivery == Delivery::Attached { Told::Attached } else { Told::Failed };
        let still_there = matches!(self.remote, Remote::There(_));
        let knows = |listener: &Listener| listener.told == tells || still_there && listener.told == Told::Attached;
        for listener in self.listeners.iter_mut().filter(|listener| !knows(listener)) {
            listener.told = tells;
            told.push((listener.id, delivery.clone()));
        }
        told
    }
}

/// The peer has nothing of that name, so nobody is subscribed to it.
fn unknown_there(error: &CallError) -> bool {
    matches!(error, CallError::Refused(error) if matches!(error.code.as_str(), "ClassNotFound" | "MethodNotFound"))
}

/// Asking again would not help: the peer refused, and not for want of time, room or a way.
fn futile(error: &CallError) -> bool {
    matches!(error, CallError::Refused(error) if !matches!(error.code.as_str(), "Timeout" | "Busy" | "TransportError"))
}
