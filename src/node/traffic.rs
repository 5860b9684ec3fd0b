//! What others say to each other, where a link can be tapped. The tap is a connection of its own: our peer and what it does
//! are not touched by it.

use std::sync::Arc;

use tokio::time::Instant;

use super::Node;
use crate::{
    link::{
        DownReason, LinkId,
        mqtt::{self, Tap, Tapped, Watcher},
    },
    wire::{
        Topics,
        mqtt::{Overheard, overhear},
    },
};

/// The largest body that is read, in bytes. Reading takes the time of everybody else on this thread, and what is larger
/// would not be shown.
const LARGEST_READ: usize = 64 * 1024;

/// Listens to everything on a network. Dropping it ends it.
#[derive(Debug)]
pub struct Traffic {
    watcher: Watcher,
    topics: Topics,
}

/// What an onlooker is told.
#[derive(Debug)]
pub enum TrafficNews {
    /// From now on everything is heard.
    Up {
        /// Whether something was heard already.
        proven: bool,
    },
    /// Nothing is heard until the next [`TrafficNews::Up`].
    Down(DownReason),
    /// A message that the broker had kept: it was sent before we listened.
    Kept {
        /// How large it was, about.
        bytes: usize,
    },
    /// A message.
    Said {
        /// What was said.
        overheard: Overheard,
        /// When it was heard.
        at: Instant,
        /// The same, in milliseconds since the Unix epoch.
        at_ms: i64,
    },
}

impl Node {
    /// The same peer, whose network behind this link can be listened to through this tap.
    #[must_use]
    pub fn with_tap(mut self, link: LinkId, tap: Tap) -> Self {
        self.tap = Some((link, tap));
        self
    }

    /// Begins to listen to everything on a network, and says behind which link it is; `None` if no link of ours can be
    /// tapped.
    pub fn overhear(&self) -> Option<(LinkId, Traffic)> {
        let (link, tap) = self.tap.as_ref()?;
        Some((*link, Traffic { watcher: tap.watch(), topics: tap.topics().clone() }))
    }
}

impl Traffic {
    /// What is heard next.
    pub async fn next(&mut self) -> TrafficNews {
        let tapped = self.watcher.next().await;
        self.read(tapped)
    }

    /// What is heard already, without waiting.
    pub fn try_next(&mut self) -> Option<TrafficNews> {
        let tapped = self.watcher.try_next()?;
        Some(self.read(tapped))
    }

    /// What we were too slow for so far.
    pub fn dropped(&self) -> mqtt::Dropped {
        self.watcher.dropped()
    }

    /// The filter that has to be allowed to us.
    pub fn filter(&self) -> &str {
        self.topics.everything()
    }

    fn read(&self, tapped: Tapped) -> TrafficNews {
        match tapped {
            Tapped::Up { proven } => TrafficNews::Up { proven },
            Tapped::Down(reason) => TrafficNews::Down(reason),
            Tapped::Publish { publish, retained: true, .. } => {
                TrafficNews::Kept { bytes: crate::wire::mqtt::packet_size(&publish) }
            }
            Tapped::Publish { publish, at, at_ms, .. } => {
                let overheard = overhear(Arc::unwrap_or_clone(publish), &self.topics, LARGEST_READ);
                TrafficNews::Said { overheard, at, at_ms }
            }
        }
    }
}
