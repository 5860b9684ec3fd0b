//! Which peers implement an interface, by its package-qualified name.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use super::{Plant, PlantError, is_close, nearest};
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
    /// Where nothing was found: interfaces that are declared and called like it, such as the same name in its package.
    pub nearest: Vec<String>,
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
        let (mut found, mut declared) = (Capabilities::default(), BTreeSet::new());
        while let Some(Ok((peer, description))) = asking.join_next().await {
            let Some(description) = description else {
                found.unanswered.push(peer);
                continue;
            };
            declared.extend(description.namespaces.iter().flat_map(|known| known.capabilities.iter().cloned()));
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
        if found.matches.is_empty() {
            found.nearest = alike(capability, &declared);
        }
        Ok(found)
    }
}

/// What is declared and called the same in some package; else, what is spelled nearly the same, whatever its package.
fn alike(wanted: &str, declared: &BTreeSet<String>) -> Vec<String> {
    let bare = |name: &str| name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let called = |is: &dyn Fn(&str) -> bool| -> Vec<&str> {
        declared.iter().map(String::as_str).filter(|name| is(&bare(name))).collect()
    };
    let wanted_bare = bare(wanted);
    let same = called(&|name| name == wanted_bare);
    let like = if same.is_empty() { called(&|name| is_close(&wanted_bare, name)) } else { same };
    nearest(wanted, like.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_or_misspelt_name_finds_what_is_called_like_it() {
        let declared = ["@acme/contracts/Oven", "@acme/contracts/Heater", "@other/Oven"].map(str::to_owned).into();
        assert_eq!(alike("oven", &declared), ["@other/Oven", "@acme/contracts/Oven"]);
        assert_eq!(alike("@acme/contract/Heater", &declared), ["@acme/contracts/Heater"]);
        assert_eq!(alike("@acme/contracts/Heatr", &declared)[0], "@acme/contracts/Heater");
        assert!(alike("Conveyor", &declared).is_empty());
    }
}
