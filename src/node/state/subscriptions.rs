//! What we listen to at others. Several local listeners share one remote subscription (S-060); it is attached again
//! whenever the link returns (W-080) or the peer does (S-070), and detached when the last listener goes.

use std::collections::HashMap;

use super::SubscriptionId;
use crate::{
    node::error::CallError,
    wire::{PeerName, Stamp, Value},
};

/// How many remote subscriptions may be held at once.
pub(super) const MAX_HELD: usize = 1000;

/// What a listener is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// The peer answered: the listener is attached.
    Attached,
    /// The peer would not have it, or could not be asked.
    Failed(CallError),
    /// It emitted.
    Event {
        /// What it emitted.
        args: Vec<Value>,
        /// The count, where the peer counts.
        stamp: Option<Stamp>,
        /// When it arrived here, in milliseconds since the Unix epoch.
        at_ms: i64,
    },
    /// The link or the peer went away: what it emits until [`Delivery::Attached`] comes again is not heard.
    Interrupted,
}

/// What is listened to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The emitting peer.
    pub peer: PeerName,
    /// The namespace.
    pub namespace: String,
    /// The event, or `$snapshot`.
    pub event: String,
}

#[derive(Debug)]
struct Held {
    stream: Stream,
    listeners: Vec<SubscriptionId>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not at the peer, as far as we know.
    Detached,
    /// `on` was sent and not answered.
    Attaching,
    /// The peer said that it has it.
    Attached,
}

/// The held subscriptions, by a number of their own and by what they listen to.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    held: HashMap<u64, Held>,
    by_stream: HashMap<Stream, u64>,
    listeners: HashMap<SubscriptionId, u64>,
    next: u64,
}

/// What a new listener needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// Send `on` for this one.
    Attach(u64),
    /// It is attached already.
    Attached,
    /// Somebody else's `on` is under way.
    Waiting,
    /// Too many are held.
    Full,
}

impl Subscriptions {
    /// A listener joins. Snapshots are always asked for again, because every accepted `on` is answered with a fresh one.
    pub(super) fn join(&mut self, listener: SubscriptionId, stream: Stream) -> Joined {
        let again = stream.event == SNAPSHOT;
        if let Some(&key) = self.by_stream.get(&stream) {
            let Some(held) = self.held.get_mut(&key) else { return Joined::Full };
            held.listeners.push(listener);
            self.listeners.insert(listener, key);
            return match held.phase {
                Phase::Attached if !again => Joined::Attached,
                Phase::Attached | Phase::Detached => Joined::Attach(key),
                Phase::Attaching => Joined::Waiting,
            };
        }
        if self.held.len() >= MAX_HELD {
            return Joined::Full;
        }
        let key = self.next;
        self.next += 1;
        self.by_stream.insert(stream.clone(), key);
        self.listeners.insert(listener, key);
        self.held.insert(key, Held { stream, listeners: vec![listener], phase: Phase::Detached });
        Joined::Attach(key)
    }

    /// A listener leaves. Gives the stream to detach when it was the last and the peer may have it.
    pub(super) fn leave(&mut self, listener: SubscriptionId) -> Option<Stream> {
        let key = self.listeners.remove(&listener)?;
        let held = self.held.get_mut(&key)?;
        held.listeners.retain(|known| *known != listener);
        if !held.listeners.is_empty() {
            return None;
        }
        let held = self.held.remove(&key)?;
        self.by_stream.remove(&held.stream);
        (held.phase != Phase::Detached).then_some(held.stream)
    }

    /// What the held subscription `key` listens to; `on` is about to be sent for it.
    pub(super) fn attaching(&mut self, key: u64) -> Option<Stream> {
        let held = self.held.get_mut(&key)?;
        held.phase = Phase::Attaching;
        Some(held.stream.clone())
    }

    /// `on` was answered. Gives whom to tell; on failure they are told, and it is tried again when peer or link return.
    pub(super) fn attached(&mut self, key: u64, ok: bool) -> Vec<SubscriptionId> {
        let Some(held) = self.held.get_mut(&key) else { return Vec::new() };
        if held.phase == Phase::Attaching {
            held.phase = if ok { Phase::Attached } else { Phase::Detached };
        }
        held.listeners.clone()
    }

    /// Whoever listens to this. Without a namespace it goes to every listener of that peer and event (W-073).
    pub(super) fn listeners(&self, peer: &PeerName, namespace: Option<String>, event: String) -> Vec<SubscriptionId> {
        if let Some(namespace) = namespace {
            let stream = Stream { peer: peer.clone(), namespace, event };
            let held = self.by_stream.get(&stream).and_then(|key| self.held.get(key));
            return held.map(|held| held.listeners.clone()).unwrap_or_default();
        }
        let matches = |held: &&Held| held.stream.peer == *peer && held.stream.event == event;
        let mut all: Vec<_> = self.held.values().filter(matches).flat_map(|held| held.listeners.clone()).collect();
        all.sort_unstable();
        all
    }

    /// Those at the peers of `gone` are lost there. Gives whom to tell.
    pub(super) fn interrupted(&mut self, gone: impl Fn(&PeerName) -> bool) -> Vec<SubscriptionId> {
        let mut told = Vec::new();
        for held in self.held.values_mut().filter(|held| gone(&held.stream.peer)) {
            if held.phase != Phase::Detached {
                told.extend(held.listeners.iter().copied());
            }
            held.phase = Phase::Detached;
        }
        told.sort_unstable();
        told
    }

    /// Those to attach again because their peer is back: all of them, or those that are not there as far as we know.
    pub(super) fn to_attach(&self, peer: impl Fn(&PeerName) -> bool, all: bool) -> Vec<u64> {
        let wanted = |held: &Held| peer(&held.stream.peer) && (all || held.phase == Phase::Detached);
        let mut keys: Vec<u64> = self.held.iter().filter(|(_, held)| wanted(held)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }
}

/// The channel of a component (semantics.md 7.1).
pub const SNAPSHOT: &str = "$snapshot";
