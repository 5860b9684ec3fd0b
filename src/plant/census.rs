//! Who is on the network and whether they answer: each is asked once what it is, a few at a time, and the slow ones again.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, timeout_at},
};

use super::{PeerKind, Plant, PlantError};
use crate::{link::DownReason, wire::PeerName};

/// Everybody, and what became of asking.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// By name.
    pub peers: Vec<Counted>,
    /// How many are there and were not asked: too many, or too late.
    pub unasked: usize,
    /// The links that are down, by name, and why.
    pub down: Vec<(String, DownReason)>,
}

/// One peer.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Its name.
    pub name: PeerName,
    /// Whether it announces what it serves. One that does not need not answer: a pure caller takes no requests.
    pub announces: bool,
    /// What became of asking.
    pub answer: CensusAnswer,
    /// How long its quickest answer took.
    pub took: Option<Duration>,
}

/// What became of asking a peer what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CensusAnswer {
    /// It said so.
    Described(PeerKind),
    /// It answered, and says nothing of itself; why not, in its words where they are its own.
    Undescribed(String),
    /// Nothing came.
    Silent,
    /// It could not be asked.
    Unasked(String),
}

/// How many peers are asked.
const MOST: usize = 256;
/// How many of them at once.
const AT_ONCE: usize = 8;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer that takes so long may have been held back, and is asked for again.
const SLOW: Duration = Duration::from_millis(25);
/// How many slow ones are asked again.
const AGAIN: usize = 16;
/// How often.
const TIMES: usize = 5;

impl Plant {
    /// Asks everybody, before `until`. Only what every peer answers is asked, so that nothing changes anywhere.
    ///
    /// # Errors
    /// No link is up.
    pub async fn census(&self, until: Instant) -> Result<Census, PlantError> {
        let peers = self.peers().await?;
        let unasked = peers.lines.len().saturating_sub(MOST);
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let mut asking = JoinSet::new();
        for line in peers.lines.into_iter().take(MOST) {
            let (plant, room) = (self.clone(), room.clone());
            let (name, announces) = (line.name, line.seen.shape.is_some());
            asking.spawn(async move {
                // The semaphore is never closed; without a permit the peer would only be asked earlier.
                let _permit = room.acquire_owned().await.ok();
                plant.count(name, announces, until).await
            });
        }
        let mut census = Census { unasked, down: peers.down, peers: Vec::new() };
        while let Some(Ok(counted)) = asking.join_next().await {
            census.peers.push(counted);
        }
        census.peers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let slow = |peer: &&mut Counted| peer.took.is_some_and(|took| took >= SLOW);
        for peer in census.peers.iter_mut().filter(slow).take(AGAIN) {
            for _ in 0..TIMES {
                let again = self.count(peer.name.clone(), peer.announces, until).await;
                peer.took = again.took.into_iter().chain(peer.took).min();
            }
        }
        Ok(census)
    }

    async fn count(&self, name: PeerName, announces: bool, until: Instant) -> Counted {
        let began = Instant::now();
        let patience = PATIENCE.min(self.settings().call_timeout);
        let asked = timeout_at(until, self.describe_afresh(&name, patience)).await;
        let (answer, came) = match asked {
            Ok(Ok(_)) => (CensusAnswer::Described(self.kind(&name)), true),
            Ok(Err(PlantError::Undescribed { unsaid, .. })) if unsaid.unanswered => (CensusAnswer::Silent, false),
            Ok(Err(PlantError::Undescribed { unsaid, .. })) => (CensusAnswer::Undescribed(unsaid.why), true),
            Ok(Err(error)) => (CensusAnswer::Unasked(error.to_string()), false),
            Err(_) => (CensusAnswer::Unasked("there was no time left to ask it".into()), false),
        };
        Counted { name, announces, answer, took: came.then(|| began.elapsed()) }
    }
}
