//! Who is on the network.

use super::{Plant, PlantError};
use crate::{node::Seen, wire::PeerName};

/// What a peer is, as far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// It describes itself and serves something.
    Device,
    /// It says that it is a fake.
    Fake,
    /// Nobody asked it yet, or it says nothing of itself.
    Unknown,
}

impl PeerKind {
    /// As results write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Fake => "fake",
            Self::Unknown => "unknown",
        }
    }
}

/// One peer of the roster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLine {
    /// Its name.
    pub name: PeerName,
    /// What is known of it.
    pub seen: Seen,
    /// What it is.
    pub kind: PeerKind,
}

impl Plant {
    /// Everybody there, ourselves left out, sorted by name; and how many were forgotten because too many were there. While
    /// the network is away, that is the fakes of this bridge, if it has any.
    pub async fn peers(&self) -> Result<(Vec<PeerLine>, u64), PlantError> {
        let (network, away) = match self.network().await {
            Ok(network) => (network, false),
            Err(error) if self.list_fakes().fakes.is_empty() => return Err(error),
            Err(_) => (self.node().network(), true),
        };
        let line = |(name, seen): (&PeerName, &Seen)| PeerLine {
            name: name.clone(),
            seen: seen.clone(),
            kind: if self.fakes().is_one(name) { PeerKind::Fake } else { self.shared.descriptions.kind(name) },
        };
        let here = |(_, seen): &(&PeerName, &Seen)| !away || seen.links.iter().any(|link| link.is_inside());
        let mut peers: Vec<PeerLine> = network.roster.iter().filter(here).map(line).collect();
        peers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok((peers, network.roster.forgotten()))
    }
}
