//! What is listened to, and what its listeners hear.

use crate::{
    node::error::CallError,
    wire::{PeerName, Stamp, Value},
};

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

/// The channel of a component (semantics.md 7.1).
pub const SNAPSHOT: &str = "$snapshot";
