//! Switches that make something go wrong, one namespace a peer, so that a client can see each failure and how it is told.
//!
//! | switch | what a client sees |
//! | --- | --- |
//! | `bakery.faults.bakeFails` | a ticket that ends in a failure |
//! | `bakery.faults.ovenSilent` | a component that takes the subscription and says nothing; events that are counted and lost |
//! | `packaging.faults.context` | a chain of owners that is a ring, leads nowhere, or to a peer that is not there |
//! | `packaging.faults.ordersConflict` | a change of a row that somebody else was faster with |
//! | `packaging.faults.labelsLost` | a gap in the count of an event |
//! | `packaging.faults.takeOven` | authority in other hands |
//! | `packaging.workOrders.setDelay` | a store that answers late, so that an outcome is unknown |

use std::{sync::Arc, time::Duration};

use tokio::sync::Mutex;

use super::{
    BAKERY,
    place::{self, Chain},
    service::{Args, OVEN, OvenService, unknown, unusable},
    store::OrderService,
};
use crate::{
    node::{Call, Commit, Failure, Incoming, Node, Service, ServiceFuture},
    wire::{Map, PeerName, Value},
};

/// The namespace of the switches.
pub(super) const FAULTS: &str = "faults";

/// Which switches are on.
#[derive(Clone, Debug)]
struct Switches {
    first: Map,
    now: Arc<Mutex<Map>>,
}

impl Switches {
    fn new<const N: usize>(all_is_well: [(&str, Value); N]) -> Self {
        let first: Map = all_is_well.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { now: Arc::new(Mutex::new(first.clone())), first }
    }
}

/// The switches at the bakery.
#[derive(Clone, Debug)]
pub(super) struct BakeryFaults {
    oven: OvenService,
    switches: Switches,
}

/// The switches at packaging.
#[derive(Clone, Debug)]
pub(super) struct PackagingFaults {
    orders: OrderService,
    switches: Switches,
}

impl BakeryFaults {
    pub(super) fn new(oven: OvenService) -> Self {
        Self { oven, switches: Switches::new([("bakeFails", false.into()), ("ovenSilent", false.into())]) }
    }

    /// All is well.
    pub(super) fn first_state(&self) -> Map {
        self.switches.first.clone()
    }

    async fn switch(self, node: Node, call: Incoming) -> Result<Option<Value>, Failure> {
        let mut switches = self.switches.now.lock().await;
        let on = Args(&call.args).flag(0)?;
        let name = match call.method.as_str() {
            "setBakeFails" => {
                self.oven.set_bake_fails(on);
                "bakeFails"
            }
            "setOvenSilent" => {
                node.mute(OVEN, on).await;
                "ovenSilent"
            }
            _ => return Err(unknown(&call)),
        };
        set(&node, &mut switches, name, on.into()).await;
        Ok(Some(on.into()))
    }
}

impl PackagingFaults {
    pub(super) fn new(orders: OrderService) -> Self {
        let whole = Chain::Whole.as_str().into();
        let switches =
            Switches::new([("context", whole), ("ordersConflict", false.into()), ("labelsLost", false.into())]);
        Self { orders, switches }
    }

    /// All is well.
    pub(super) fn first_state(&self) -> Map {
        self.switches.first.clone()
    }

    async fn switch(self, node: Node, call: Incoming) -> Result<Option<Value>, Failure> {
        let (args, mut switches) = (Args(&call.args), self.switches.now.lock().await);
        let (name, value): (_, Value) = match call.method.as_str() {
            "setContext" => {
                let chain = Chain::parse(args.text(0)?).ok_or_else(|| unusable(0, "that is no chain"))?;
                place::bend(&node, chain).await.map_err(|fault| Failure::exception(fault.to_string()))?;
                ("context", chain.as_str().into())
            }
            "setOrdersConflict" => {
                let on = args.flag(0)?;
                self.orders.set_meddled(on).await;
                ("ordersConflict", on.into())
            }
            "setLabelsLost" => {
                let on = args.flag(0)?;
                node.mute("labels", on).await;
                ("labelsLost", on.into())
            }
            "takeOven" => {
                let mut take = Map::new();
                take.insert("take", true);
                let life = Value::from(args.integer(0)?.saturating_mul(1000));
                return ask_oven(&node, "$acquire", vec![life, take.into()], "taken").await;
            }
            "leaveOven" => return ask_oven(&node, "$release", Vec::new(), "left").await,
            _ => return Err(unknown(&call)),
        };
        set(&node, &mut switches, name, value.clone()).await;
        Ok(Some(value))
    }
}

/// Packaging asks the oven, over the network as anybody would: the authority is really in its hands.
async fn ask_oven(node: &Node, method: &str, args: Vec<Value>, done: &'static str) -> Result<Option<Value>, Failure> {
    let peer = PeerName::mqtt(BAKERY).map_err(|fault| Failure::exception(fault.to_string()))?;
    let (namespace, method, timeout) = (OVEN.into(), method.into(), Some(PATIENCE));
    let call = Call { peer, namespace, method, args, timeout, idempotency_key: None };
    let asked = node.call(call).await;
    asked.map(|_| Some(done.into())).map_err(|error| Failure::exception(format!("the oven was asked: {error}")))
}

/// How long the oven is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

async fn set(node: &Node, switches: &mut Map, name: &str, value: Value) {
    switches.insert(name, value);
    node.commit(FAULTS, Commit::State(switches.clone())).await;
}

impl Service for BakeryFaults {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        Box::pin(self.clone().switch(node, call))
    }
}

impl Service for PackagingFaults {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        Box::pin(self.clone().switch(node, call))
    }
}
