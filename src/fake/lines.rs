//! What is told of fakes: as they stand, how they ended, who has their name now.

use super::{live::Live, ways::FakeKey};
use crate::wire::PeerName;

/// One fake, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeLine {
    /// Its name.
    pub name: PeerName,
    /// What it serves.
    pub namespaces: Vec<String>,
    /// Since when.
    pub since_ms: i64,
    /// Whether the network can reach it now; this process can in any case.
    pub on_network: bool,
    /// What its frames are signed with, where frames are signed.
    pub key: Option<FakeKey>,
    /// Calls it was given.
    pub calls: u64,
    /// Events it emitted by itself.
    pub events: u64,
}

/// The end of a fake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// As it was at last.
    pub last: FakeLine,
    /// Whether it left its name to somebody else.
    pub withdrawn: bool,
}

/// A fake that left its name to somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawn {
    /// Its name.
    pub name: PeerName,
    /// When.
    pub at_ms: i64,
}

impl FakeLine {
    /// As it stands now.
    pub(super) fn of(live: &Live) -> Self {
        let (calls, events) = live.actor.counts();
        Self {
            name: live.name().clone(),
            namespaces: live.actor.plan().namespaces().map(|namespace| namespace.name.clone()).collect(),
            since_ms: live.since_ms,
            on_network: live.node.network().is_up(),
            key: live.terms.key.clone(),
            calls,
            events,
        }
    }
}
