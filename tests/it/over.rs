//! Tests that run over each kind of link: what a tool does must not depend on what carries it.

use std::time::Duration;

use plantbridge::{
    link::{Link, LinkId, hub::start, loopback},
    node::Node,
    wire::PeerName,
};

use crate::hub::{Hub, config};

/// What carries the frames of a test.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    /// The loopback: values move as they are.
    Memory,
    /// A hub, with everything that is encoded, relayed and decoded on the way.
    Hub,
}

impl Over {
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
