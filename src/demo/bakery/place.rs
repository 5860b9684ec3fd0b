//! Where the machines of the bakery stand, whom they serve, and what is provided along the way. Both chains of the oven go
//! on at the other peer:
//!
//! ```text
//! physical  bakery/oven -> bakery/hall -> bakery/$host -> packaging/$host
//! logical   bakery/oven -> packaging/workOrders
//! ```

use uuid::Uuid;

use super::{BAKERY, PACKAGING, PeerError, store};
use crate::{
    contract::context::{Axis, Change, Place, Provided, ROOT, Ref, TokenId, Topology},
    node::Node,
    wire::{Map, PeerName, Value},
};

/// Which plant this is; the root of packaging provides it.
const SITE: &str = "demo.site";
/// What to wear and do; the hall and the plant each say something.
const HYGIENE: &str = "demo.hygiene";
/// What is worked on; along owners.
const WORK_ORDER: &str = "demo.work-order";
/// What makes the bread what it is; nobody outside the bakery is told.
const RECIPE: &str = "demo.recipe";

/// What becomes of the chain of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chain {
    /// It ends at the work orders.
    Whole,
    /// The work orders serve the oven, which serves them.
    Ring,
    /// The work orders serve something that is not there.
    Dangling,
    /// The work orders serve something on a peer that is not there.
    Away,
}

impl Chain {
    const ALL: [Self; 4] = [Self::Whole, Self::Ring, Self::Dangling, Self::Away];

    /// Reads the word of the contract.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|chain| chain.as_str() == word)
    }

    /// The word of the contract.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Ring => "ring",
            Self::Dangling => "dangling",
            Self::Away => "away",
        }
    }
}

/// Where the oven stands.
pub(super) fn bakery() -> Result<Topology, PeerError> {
    let mut topology = topology(BAKERY)?.at(&["plant-7", "hall-b"]);
    for change in [
        declare(ROOT, Some(at(PACKAGING, ROOT)?), None, "Bakery"),
        declare("hall", Some(at(BAKERY, ROOT)?), None, "Hall B"),
        declare("oven", Some(at(BAKERY, "hall")?), Some(at(PACKAGING, store::READ)?), "Deck oven"),
        provide(HYGIENE, "hall", Axis::Physical, "wear a hairnet".into())?,
        Change::Provide(Provided { local: true, ..provided(RECIPE, ROOT, Axis::Physical, "72 h of rest".into())? }),
    ] {
        topology.apply(change)?;
    }
    Ok(topology)
}

/// Where the line and the work orders stand.
pub(super) fn packaging() -> Result<Topology, PeerError> {
    let mut topology = topology(PACKAGING)?.at(&["plant-7"]);
    let mut site = Map::new();
    site.insert("site", "Plant 7");
    site.insert("timezone", "Europe/Stockholm");
    for change in [
        declare(ROOT, None, None, "Plant 7"),
        declare(store::READ, Some(at(PACKAGING, ROOT)?), None, "Work orders"),
        declare("line", Some(at(PACKAGING, ROOT)?), Some(at(PACKAGING, store::READ)?), "Packaging line"),
        provide(SITE, ROOT, Axis::Physical, site.into())?,
        provide(HYGIENE, ROOT, Axis::Physical, "wash your hands".into())?,
        provide(WORK_ORDER, store::READ, Axis::Logical, order(1001))?,
    ] {
        topology.apply(change)?;
    }
    Ok(topology)
}

/// Another order is worked on: whoever inherits it is told.
pub(super) async fn work_on(node: &Node, number: i64) {
    if let Ok(change) = provide(WORK_ORDER, store::READ, Axis::Logical, order(number))
        && let Err(fault) = node.change_topology(change).await
    {
        tracing::warn!(%fault, "the work order is not provided");
    }
}

/// Bends the chain of owners.
pub(super) async fn bend(node: &Node, chain: Chain) -> Result<(), PeerError> {
    let owner = match chain {
        Chain::Whole => None,
        Chain::Ring => Some(at(BAKERY, "oven")?),
        Chain::Dangling => Some(at(PACKAGING, "nobody")?),
        Chain::Away => Some(at("warehouse", "shelves")?),
    };
    Ok(node.change_topology(Change::Owner(store::READ.into(), owner)).await?)
}

/// A host; its seed names this start of it.
fn topology(peer: &str) -> Result<Topology, PeerError> {
    Ok(Topology::new(PeerName::mqtt(peer)?, &Uuid::new_v4().simple().to_string()))
}

fn at(peer: &str, instance: &str) -> Result<Ref, PeerError> {
    Ok(Ref::new(PeerName::mqtt(peer)?, instance)?)
}

fn declare(instance: &str, parent: Option<Ref>, owner: Option<Ref>, label: &str) -> Change {
    Change::Declare(Place { instance: instance.into(), parent, owner, label: Some(label.into()) })
}

fn provided(token: &str, instance: &str, axis: Axis, value: Value) -> Result<Provided, PeerError> {
    Ok(Provided { token: TokenId::parse(token)?, instance: instance.into(), axis, value, local: false })
}

fn provide(token: &str, instance: &str, axis: Axis, value: Value) -> Result<Change, PeerError> {
    provided(token, instance, axis, value).map(Change::Provide)
}

fn order(number: i64) -> Value {
    let mut order = Map::new();
    order.insert("order", number.to_string());
    order.into()
}
