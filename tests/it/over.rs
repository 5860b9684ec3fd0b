//! Tests that run over each kind of link: what a tool does must not depend on what carries it.
//!
//! What does not run over a hub says why, in its own words ("In memory only"): a clock that jumps by hours leaves a hub that
//! is silent for as long; a hub is a peer too, which a count of peers shows; a link that is played by hand can put two things
//! into an order, reject what it took, or fail with given words, and a hub cannot. What is a broker's own has no counterpart
//! there: what is retained, wills and sessions (`link_mqtt.rs`, `tap.rs`, `traffic.rs`, `demo_broker.rs`), signatures
//! (`link_signing.rs`), and fakes, each of which stands on the broker by itself (`fakes.rs`, `serve.rs`, `bakery.rs`, `demo.rs`).
//! `contracts.rs` is about files and pairs of descriptions; what it asks of a peer is what `tools.rs` asks.

use std::{cell::Cell, time::Duration};

use plantbridge::{
    link::{Link, LinkId, hub::start, loopback},
    node::Node,
    wire::PeerName,
};

use crate::hub::{Hub, config};

/// What carries the frames of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The loopback: values move as they are.
    Memory,
    /// A hub, with everything that is encoded, relayed and decoded on the way.
    Hub,
}

thread_local! {
    /// What the test of this thread runs over.
    static CHOSEN: Cell<Over> = const { Cell::new(Over::Memory) };
}

impl Over {
    /// Has the test of this thread run over it.
    pub(crate) fn choose(self) {
        CHOSEN.set(self);
    }

    /// What the test of this thread runs over; in memory unless it was chosen.
    pub(crate) fn chosen() -> Self {
        CHOSEN.get()
    }

    /// The links of two peers that meet.
    pub(crate) async fn pair(self, ours: &str, theirs: &str) -> (Link, Link) {
        match self {
            Self::Memory => loopback::pair(name(ours), name(theirs)),
            Self::Hub => {
                let hub = Hub::start().await;
                let link = |me| start(config(&hub.url, me), LinkId(0));
                let pair = (link(ours), link(theirs));
                // It ends with the runtime of the test.
                std::mem::forget(hub);
                pair
            }
        }
    }
}

/// Waits until `peer` is there.
pub(crate) async fn meets(node: &Node, peer: &str) {
    let patience = Duration::from_secs(10);
    let network = node.network_when(patience, |network| network.roster.get(&name(peer)).is_some()).await;
    assert!(network.roster.get(&name(peer)).is_some(), "{peer} does not come");
}

fn name(text: &str) -> PeerName {
    PeerName::configured(text).unwrap()
}

/// Makes tests of functions that take what they run over.
macro_rules! over_each_link {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use crate::over::Over;

            #[tokio::test]
            async fn in_memory() {
                super::$name(Over::Memory).await;
            }

            #[tokio::test]
            async fn over_a_hub() {
                super::$name(Over::Hub).await;
            }
        }
    )+};
}
pub(crate) use over_each_link;

/// Makes tests of functions that ask [`Over::chosen`] what they run over, through `joined` or `ByHand`. `paused` are those in
/// which nothing waits for the clock on the wall: it jumps when everybody waits, sockets included.
macro_rules! over_both {
    (paused: $($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test(start_paused = true)]
            async fn in_memory() {
                super::$name().await;
            }

            #[tokio::test(start_paused = true)]
            async fn over_a_hub() {
                crate::over::Over::Hub.choose();
                super::$name().await;
            }
        }
    )+};
    (running: $($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test]
            async fn in_memory() {
                super::$name().await;
            }

            #[tokio::test]
            async fn over_a_hub() {
                crate::over::Over::Hub.choose();
                super::$name().await;
            }
        }
    )+};
}
pub(crate) use over_both;
