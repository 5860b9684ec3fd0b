//! What the roster of the host means for its fakes: who left is told to each of them, who takes the name of one ends it,
//! and while nobody can know who is there none of them connects.

use std::{
    collections::HashSet,
    sync::{Arc, Weak},
};

use tokio::sync::watch;

use super::{
    host::Shared,
    live::{Live, Why},
};
use crate::{link::LinkId, node::Network, wire::PeerName};

/// Goes until the host has left the network.
pub(super) async fn run(shared: Weak<Shared>, mut network: watch::Receiver<Arc<Network>>) {
    let mut known = HashSet::new();
    loop {
        let now = network.borrow_and_update().clone();
        let Some(shared) = shared.upgrade() else { return };
        let lives = shared.lives();
        for live in &lives {
            look(live, &now);
        }
        if now.is_settled() {
            tell_departures(&lives, &now, &mut known).await;
        }
        drop(shared);
        if network.changed().await.is_err() {
            return;
        }
    }
}

/// Whether the name of a fake is still its own, and over which links it may connect.
pub(super) fn look(live: &Live, network: &Network) {
    let theirs = !others(network, live.name(), &live.terms.shape).is_empty();
    if theirs {
        live.end(Why::Taken);
    }
    // Each link waits until its own network was swept: on another one the name may be somebody's.
    let may = network.is_settled() && !theirs;
    live.terms.gates.set(|link| may && network.is_swept(link));
}

/// The networks on which somebody else than the one who announces this shape goes by this name. One that tells no shape may have
/// heard of it from another network, by way of a peer on both.
pub(super) fn others(network: &Network, name: &PeerName, shape: &str) -> Vec<LinkId> {
    let told = || network.roster.get(name).into_iter().flat_map(|seen| &seen.told);
    let is_known = told().any(|(_, told)| told.as_deref() == Some(shape));
    let is_other = |told: Option<&str>| told.map_or(!is_known, |told| told != shape);
    told().filter(|(_, told)| is_other(told.as_deref())).map(|(link, _)| *link).collect()
}

/// Only a settled roster says that somebody is gone. Fakes call nobody: of them nothing is told.
async fn tell_departures(lives: &[Arc<Live>], network: &Network, known: &mut HashSet<PeerName>) {
    let fakes: HashSet<&PeerName> = lives.iter().map(|live| live.name()).collect();
    let here = |name: &PeerName| network.roster.get(name).is_some();
    let gone: Vec<PeerName> = known.iter().filter(|name| !here(name)).cloned().collect();
    for name in gone {
        for live in lives {
            live.node.departed(name.clone()).await;
        }
        known.remove(&name);
    }
    known.extend(network.roster.iter().map(|(name, _)| name).filter(|name| !fakes.contains(name)).cloned());
}
