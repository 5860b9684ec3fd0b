//! Which peers implement an interface, by its package-qualified name.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use super::{Plant, PlantError};
use crate::wire::PeerName;

/// A namespace that declares the interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CapabilityMatch {
    /// Whose.
    pub peer: PeerName,
    /// Which.
    pub namespace: String,
    /// Its contract version.
    pub version: Option<String>,
    /// Everything it declares.
    pub capabilities: Vec<String>,
}

/// What was found, and who could not be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// By peer, then namespace.
    pub matches: Vec<CapabilityMatch>,
    /// Peers that did not answer in time, or say nothing of themselves.
    pub unanswered: Vec<PeerName>,
}

/// How many peers are asked at once.
const AT_ONCE: usize = 16;
/// How long one peer may take to answer.
const BUDGET: Duration = Duration::from_secs(2);
/// How long the whole search may take; whoever was not asked by then has not answered.
const SEARCH: Duration = Duration::from_secs(30);

impl Plant {
    /// Asks every peer, through memory, for namespaces that declare `capability` exactly.
    pub async fn find_capability(&self, capability: &str) -> Result<Capabilities, PlantError> {
        let peers = self.peers().await?.lines;
        let over = Instant::now() + SEARCH;
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let mut asking = JoinSet::new();
        for peer in peers.into_iter().map(|line| line.name) {
            let (plant, room) = (self.clone(), room.clone());
            asking.spawn(async move {
                // The semaphore is never closed; without a permit the peer would only be asked earlier.
                let _permit = room.acquire_owned().await.ok();
                let in_time = Instant::now() + BUDGET <= over;
                let description = if in_time { plant.description(&peer, BUDGET).await.ok() } else { None };
                (peer, description)
            });
        }
        let mut found = Capabilities::default();
        while let Some(Ok((peer, description))) = asking.join_next().await {
            let Some(description) = description else {
                found.unanswered.push(peer);
                continue;
            };
            let declares =
                description.namespaces.iter().filter(|known| known.capabilities.iter().any(|c| c == capability));
            found.matches.extend(declares.map(|known| CapabilityMatch {
                peer: peer.clone(),
                namespace: known.name.clone(),
                version: known.version.clone(),
                capabilities: known.capabilities.clone(),
            }));
        }
        found.matches.sort_unstable();
        found.unanswered.sort_unstable();
        Ok(found)
    }
}
