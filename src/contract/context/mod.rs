//! Context: what a node inherits along its chain of parents or owners (semantics 8). A host walks the part of a chain
//! that is its own ([`places`], [`topology`]) and answers for it ([`answer`]); a reader joins the answers of the hosts along the
//! chain ([`resolve`]).
//!
//! A chain may close over several hosts, and a host may answer anything: every walk here is bounded, and what does not
//! hold together is refused with what is wrong with it.

pub mod answer;
pub mod places;
pub mod resolve;
pub mod topology;

use std::fmt;

pub use answer::{AnswerFault, Entry, HostAnswer, INVALID_REFERENCE, TokenAnswer, Trouble, Version};
pub use places::{Place, Places, TopologyFault};
pub use resolve::{Found, Invalid, Outcome, Resolution, Step};
pub use topology::{Change, Provided, Topology};

use crate::wire::{Map, PeerName, Value};

/// The instance every host has: where its physical chains end, or go on to the root of another host.
pub const ROOT: &str = "$host";
/// Bytes of an instance's name.
const MAX_INSTANCE: usize = 1_024;
/// Bytes of a token id.
const MAX_TOKEN: usize = 256;

/// Which chain: a token is on one of them, and there is no search of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// Where something is: parents, up to the root of a host and of the host above it.
    Physical,
    /// Whom something serves: owners, anywhere.
    Logical,
}

impl Axis {
    /// Both, in the order entries come in.
    pub const ALL: [Self; 2] = [Self::Physical, Self::Logical];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Physical => "physical",
            Self::Logical => "logical",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|axis| axis.as_str() == word)
    }
}

/// One of a thing for each axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerAxis<T> {
    /// That of the physical axis.
    pub physical: T,
    /// That of the logical axis.
    pub logical: T,
}

impl<T> PerAxis<T> {
    /// Makes one for each.
    pub fn each(mut make: impl FnMut(Axis) -> T) -> Self {
        Self { physical: make(Axis::Physical), logical: make(Axis::Logical) }
    }

    /// The same, if both can be made.
    fn try_each<E>(mut make: impl FnMut(Axis) -> Result<T, E>) -> Result<Self, E> {
        Ok(Self { physical: make(Axis::Physical)?, logical: make(Axis::Logical)? })
    }

    /// That of an axis.
    pub const fn of(&self, axis: Axis) -> &T {
        match axis {
            Axis::Physical => &self.physical,
            Axis::Logical => &self.logical,
        }
    }
}

/// A place: an instance on a peer. People read it as `peer/instance`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ref {
    /// The peer.
    pub peer: PeerName,
    /// The instance; `$host` is the peer itself.
    pub instance: String,
}

impl Ref {
    /// An instance of a peer.
    ///
    /// # Errors
    ///
    /// What is wrong with its name.
    pub fn new(peer: PeerName, instance: &str) -> Result<Self, IdFault> {
        check(instance, MAX_INSTANCE)?;
        Ok(Self { peer, instance: instance.to_owned() })
    }

    /// The root of a peer.
    pub fn root(peer: PeerName) -> Self {
        Self { peer, instance: ROOT.into() }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("peer", self.peer.as_str());
        map.insert("instance", self.instance.as_str());
        map.into()
    }

    /// Reads a ref; what is none is not one.
    pub fn parse(value: &Value) -> Option<Self> {
        let peer = value.get("peer")?.as_str()?;
        let peer = PeerName::mqtt(peer).or_else(|_| PeerName::hub(peer)).ok()?;
        Self::new(peer, value.get("instance")?.as_str()?).ok()
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.peer, self.instance)
    }
}

/// What names a piece of context: the same everywhere, so it has a namespace of its own before a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenId(String);

impl TokenId {
    /// Reads an id.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, IdFault> {
        check(text, MAX_TOKEN)?;
        if !text.contains('.') {
            return Err(IdFault::NoNamespace);
        }
        Ok(Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What is wrong with the name of an instance or the id of a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdFault {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it has {bytes} bytes and may have {limit}")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A character that ids never have.
    #[error("it contains a control character, and ids never do")]
    Control,
    /// A token id that is a bare word.
    #[error("it has no namespace: a token id contains a dot, as in 'acme.site'")]
    NoNamespace,
}

/// What every id keeps to: it stands in keys joined by NUL, and people read it.
fn check(text: &str, limit: usize) -> Result<(), IdFault> {
    if text.is_empty() {
        return Err(IdFault::Empty);
    }
    if text.len() > limit {
        return Err(IdFault::TooLong { bytes: text.len(), limit });
    }
    if text.chars().any(char::is_control) { Err(IdFault::Control) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
