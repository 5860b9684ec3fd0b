//! How much the bridge holds and has counted, for whoever watches the watcher. No name of a peer is in it, and nobody is asked.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Loss, Plant};
use crate::node::{LinkState, NodeCounts};

/// What the verbs count.
#[derive(Debug, Default)]
pub(super) struct Meter {
    missed: AtomicU64,
}

impl Meter {
    /// Somebody is told of a loss.
    pub(super) fn told(&self, loss: &Loss) {
        if loss.missed > 0 {
            self.missed.fetch_add(loss.missed, Ordering::Relaxed);
        }
    }
}

/// How much there is now, and what was counted since the start.
#[derive(Clone, Copy, Debug)]
pub struct Holdings {
    /// Of calls on the network, and of the driver's queue.
    pub node: NodeCounts,
    /// Peers that a link leads to which is up.
    pub peers: usize,
    /// Peers that were forgotten because too many were there.
    pub peers_forgotten: u64,
    /// Fakes of this bridge.
    pub fakes: usize,
    /// Standing watches.
    pub watches: usize,
    /// Records they hold.
    pub watch_records: usize,
    /// Events that clients were told they missed. What is told again, to another client or because an answer was lost, counts again.
    pub events_missed: u64,
    /// Later answers that are awaited.
    pub tickets_open: usize,
    /// Later answers that are kept, those among them.
    pub tickets: usize,
    /// Scripts that run.
    pub scripts: usize,
}

impl Plant {
    /// How much there is now.
    pub fn holdings(&self) -> Holdings {
        let network = self.node().network();
        let watches = self.list_watches();
        let (tickets_open, tickets) = self.shared.tickets.count();
        Holdings {
            node: self.node().counts(),
            peers: network.roster.iter().filter(|(_, seen)| network.reaches(seen)).count(),
            peers_forgotten: network.roster.forgotten(),
            fakes: self.list_fakes().fakes.len(),
            watches: watches.len(),
            watch_records: watches.iter().map(|watch| watch.held).sum(),
            events_missed: self.shared.meter.missed.load(Ordering::Relaxed),
            tickets_open,
            tickets,
            scripts: self.shared.scripts.as_ref().map_or(0, crate::script::Scripts::running_now),
        }
    }

    /// Every link to a network by its name, and how it is.
    pub fn link_states(&self) -> Vec<(String, LinkState)> {
        self.links(&self.node().network())
    }

    /// Whether the task that drives the network lives.
    pub fn is_alive(&self) -> bool {
        self.node().is_alive()
    }
}
