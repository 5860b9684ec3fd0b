//! A plant to look at without one: an embedded broker, the bakery on it, and a tour of both through a real MCP client.

mod bakery;
pub mod broker;
mod snippet;
pub mod tour;

use std::time::Duration;

pub use self::snippet::snippet;
use self::{
    bakery::{BAKERY, PACKAGING, Peer},
    broker::{Broker, BrokerError},
};
use crate::{
    link::{Link, LinkId, mqtt},
    node::Node,
    wire::{NameError, PeerName, Prefix, Topics},
};

/// A running bakery behind an embedded broker. [`Demo::stop`] ends it in order; dropping it ends it all the same.
#[derive(Debug)]
pub struct Demo {
    peers: Peers,
    broker: Broker,
    url: String,
}

/// The peers of the bakery, on links of the caller's. Dropping them takes them off their network.
#[derive(Debug)]
pub struct Peers {
    bakery: Peer,
    packaging: Peer,
}

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The broker.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// A name that peers would not take.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A peer that cannot stand up.
    #[error("{0}")]
    Peer(String),
    /// The address of the broker is not one a link can use.
    #[error(transparent)]
    Link(#[from] mqtt::ConfigError),
    /// They do not see each other.
    #[error("the peers of the demo did not come online within {} s", .0.as_secs())]
    NotReady(Duration),
}

impl Demo {
    /// Starts it all; both peers are online when this returns. Must be called inside a tokio runtime.
    pub async fn start() -> Result<Self, DemoError> {
        let broker = Broker::start().await?;
        let url = broker.url();
        let (bakery, packaging) = (join(&broker, BAKERY)?, join(&broker, PACKAGING)?);
        match Peers::start(bakery, packaging).await {
            Ok(peers) => Ok(Self { peers, broker, url }),
            Err(error) => {
                broker.stop(BROKER_WAIT).await;
                Err(error)
            }
        }
    }

    /// Where the broker listens, as `mqtt://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Takes the peers off the network, then ends the broker. Takes a few seconds at most.
    pub async fn stop(self) {
        self.peers.stop().await;
        self.broker.stop(BROKER_WAIT).await;
    }
}

impl Peers {
    /// Stands both up, on links that join as `bakery` and as `packaging`; they have met when this returns.
    pub async fn start(bakery: Link, packaging: Link) -> Result<Self, DemoError> {
        let stand_up = |peer: Result<Peer, bakery::PeerError>| peer.map_err(|error| DemoError::Peer(error.to_string()));
        let peers = Self { bakery: stand_up(Peer::bakery(bakery))?, packaging: stand_up(Peer::packaging(packaging))? };
        if peers.is_ready().await {
            return Ok(peers);
        }
        peers.stop().await;
        Err(DemoError::NotReady(READY_WAIT))
    }

    /// Takes them off the network. Takes a few seconds at most.
    pub async fn stop(self) {
        tokio::join!(self.bakery.stop(LEAVE_WAIT), self.packaging.stop(LEAVE_WAIT));
    }

    /// Whether each peer came to see the other, which means that both announced themselves.
    async fn is_ready(&self) -> bool {
        let (bakery, packaging) =
            tokio::join!(sees(self.bakery.node(), PACKAGING), sees(self.packaging.node(), BAKERY));
        bakery && packaging
    }
}

async fn sees(node: &Node, other: &str) -> bool {
    let Ok(other) = PeerName::mqtt(other) else { return false };
    node.network_when(READY_WAIT, |network| network.roster.get(&other).is_some()).await.roster.get(&other).is_some()
}

fn join(broker: &Broker, name: &str) -> Result<Link, DemoError> {
    let topics = Topics::new(&Prefix::default(), PeerName::mqtt(name)?)?;
    let url = mqtt::BrokerUrl::parse(&broker.url())?;
    Ok(mqtt::start(mqtt::Config::new(url, topics), LinkId(0)))
}

/// How long both peers may take to come online.
const READY_WAIT: Duration = Duration::from_secs(10);
/// How long a peer may take to say goodbye.
const LEAVE_WAIT: Duration = Duration::from_secs(2);
/// How long the broker may take to end.
const BROKER_WAIT: Duration = Duration::from_secs(2);
