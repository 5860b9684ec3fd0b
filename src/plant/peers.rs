//! Who is on the network.

use super::{Plant, PlantError};
use crate::{link::DownReason, node::Seen, wire::PeerName};

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

/// Who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Everybody that a link leads to which is up, ourselves left out, sorted by name.
    pub lines: Vec<PeerLine>,
    /// How many were forgotten because too many were there.
    pub forgotten: u64,
    /// The links that are down, by name, and why: whoever is only on those is not among the lines.
    pub down: Vec<(String, DownReason)>,
}

impl Plant {
    /// Everybody there. While the network is away, that is the fakes of this bridge, if it has any.
    pub async fn peers(&self) -> Result<Peers, PlantError> {
        let network = match self.network().await {
            Ok(network) => network,
            Err(error) if self.list_fakes().fakes.is_empty() => return Err(error),
            Err(_) => self.node().network(),
        };
        let line = |(name, seen): (&PeerName, &Seen)| {
            let mut seen = seen.clone();
            seen.links.retain(|link| network.is_link_up(*link));
            (!seen.links.is_empty()).then(|| PeerLine { name: name.clone(), seen, kind: self.kind(name) })
        };
        let mut lines: Vec<PeerLine> = network.roster.iter().filter_map(line).collect();
        lines.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let down = self.links(&network).into_iter().filter_map(|(name, link)| Some((name, link.down?))).collect();
        Ok(Peers { lines, forgotten: network.roster.forgotten(), down })
    }
}
