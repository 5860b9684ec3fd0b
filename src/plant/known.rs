//! What is known without asking anybody: how the bridge stands, and names that somebody is about to type. No frame is sent.

use std::collections::BTreeSet;

use super::Plant;
use crate::{node::LinkState, wire::PeerName};

/// How the bridge stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its name on the network.
    pub name: PeerName,
    /// Whether a link to a network is up.
    pub on_network: bool,
    /// Every link by its name, and how it is.
    pub links: Vec<(String, LinkState)>,
    /// Peers that a link leads to which is up.
    pub peers: usize,
    /// Peers that were forgotten because too many were there.
    pub forgotten: u64,
    /// Fakes of this bridge.
    pub fakes: usize,
    /// Standing watches.
    pub watches: usize,
}

impl Plant {
    /// How the bridge stands now.
    pub fn status(&self) -> Status {
        let network = self.node().network();
        Status {
            name: self.name().clone(),
            on_network: network.is_up(),
            links: self.links(&network),
            peers: network.roster.iter().filter(|(_, seen)| network.reaches(seen)).count(),
            forgotten: network.roster.forgotten(),
            fakes: self.list_fakes().fakes.len(),
            watches: self.list_watches().len(),
        }
    }

    /// The names of everybody there, sorted, as far as it is known now.
    pub fn known_peers(&self) -> BTreeSet<String> {
        let network = self.node().network();
        let there = network.roster.iter().filter(|(_, seen)| network.reaches(seen));
        there.map(|(name, _)| name.to_string()).collect()
    }

    /// The components of this peer, or of all peers, as far as they said so once.
    pub fn known_components(&self, peer: Option<&str>) -> BTreeSet<String> {
        let descriptions = match peer {
            Some(peer) => self.shared.descriptions.remembered(peer).into_iter().collect(),
            None => self.shared.descriptions.all_remembered(),
        };
        let namespaces = descriptions.iter().flat_map(|description| &description.namespaces);
        let components = namespaces.filter(|namespace| namespace.component.is_some());
        components.map(|namespace| namespace.name.clone()).collect()
    }
}
