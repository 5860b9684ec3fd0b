//! A fake that was started, until it is over.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    actor::Actor,
    ways::{FakeKey, Gates},
};
use crate::{
    link::DownKind,
    node::{Network, Node},
    wire::PeerName,
};

/// One fake on the network.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) node: Node,
    pub(super) actor: Actor,
    pub(super) terms: Terms,
    pub(super) since_ms: i64,
    over: watch::Sender<Option<Why>>,
}

/// How it stands on the network.
#[derive(Debug)]
pub(super) struct Terms {
    /// What it announces: who announces something else under its name is somebody else.
    pub(super) shape: String,
    /// Which of its links may connect.
    pub(super) gates: Gates,
    /// What its frames are signed with, if they are.
    pub(super) key: Option<FakeKey>,
}

/// Why a fake is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Somebody wanted that.
    Asked,
    /// Another peer goes by its name.
    Taken,
}

impl Live {
    pub(super) fn new(node: Node, actor: Actor, terms: Terms, since_ms: i64) -> Self {
        Self { node, actor, terms, since_ms, over: watch::Sender::new(None) }
    }

    pub(super) fn name(&self) -> &PeerName {
        self.node.name()
    }

    /// Has it end, unless it is over already.
    pub(super) fn end(&self, why: Why) {
        self.over.send_if_modified(|over| over.is_none() && over.replace(why).is_none());
    }

    /// Whether it is over, or about to be.
    pub(super) fn is_over(&self) -> bool {
        self.over.borrow().is_some()
    }

    /// Whether it is over because another peer goes by its name.
    pub(super) fn is_taken(&self) -> bool {
        *self.over.borrow() == Some(Why::Taken)
    }

    /// Waits until it is over.
    pub(super) async fn until_over(&self) -> Why {
        let mut over = self.over.subscribe();
        let asked = async {
            match over.wait_for(Option::is_some).await {
                Ok(why) => why.unwrap_or(Why::Asked),
                Err(_) => Why::Asked,
            }
        };
        let displaced = async {
            let mut network = self.node.watch_network();
            match network.wait_for(|network| is_displaced(network)).await {
                Ok(_) => Why::Taken,
                // The driver is gone, and the fake with it.
                Err(_) => Why::Asked,
            }
        };
        let why = tokio::select! {
            biased; // who asked knows why
            why = asked => why,
            why = displaced => why,
        };
        self.end(why);
        why
    }

    /// The pauses between what it emits by itself.
    pub(super) fn pauses(self: &Arc<Self>) -> impl Iterator<Item = Duration> {
        self.actor.plan().script.emits.iter().map(|emit| emit.every)
    }

    /// Emits one of what it emits by itself.
    pub(super) async fn emit(&self, at: usize) {
        if !self.is_over() {
            self.actor.emit_scripted(&self.node, at).await;
        }
    }
}

fn is_displaced(network: &Network) -> bool {
    network.links.iter().any(|(_, link)| link.down.as_ref().is_some_and(|down| down.kind == DownKind::Displaced))
}
