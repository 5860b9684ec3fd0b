//! The bakery: two peers as a plant has them. `bakery` has an oven with an interlock; `packaging` has a line that can jam,
//! a label printer that is no component, a scale with a method and an event that nobody described, and a store of work
//! orders. Each has switches that make something go wrong.
//!
//! What they are is pure ([`oven`], [`line`]); what they declare is in `contracts/`; here is the thin part between.

mod faults;
mod line;
mod loaves;
mod news;
mod orders;
mod oven;
mod place;
mod service;
mod store;

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinHandle, time::timeout};

use self::service::{LabelService, LineService, OvenService, ScaleService};
use crate::{
    contract::{
        Contract, Method, ServedNamespace,
        context::{IdFault, Topology, TopologyFault},
    },
    link::Link,
    node::{Exposed, Identity, Node, Running, Service, Serving, state::MAILBOX},
    wire::{Map, NameError, PeerName, json},
};

/// One peer of the plant, on its own link. Dropping it takes it off the network.
#[derive(Debug)]
pub(crate) struct Peer {
    node: Present,
    running: Running,
    /// What lets its time pass, if anything happens there by itself.
    clockwork: Option<Clockwork>,
}

/// A node that leaves when this is dropped: its driver holds a handle of its own, and would stay for ever.
#[derive(Debug)]
struct Present(Node);

/// A task that ends with the peer.
#[derive(Debug)]
struct Clockwork(JoinHandle<()>);

/// Why a peer cannot stand up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// Its contract does not hold.
    #[error("the contract of {peer} cannot be served: {why}")]
    Contract {
        /// Whose.
        peer: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Its name is none.
    #[error("{0}")]
    Name(#[from] NameError),
    /// It cannot stand where it is to stand.
    #[error("{0}")]
    Place(#[from] TopologyFault),
    /// Something it provides has a name that is none.
    #[error("{0}")]
    Id(#[from] IdFault),
}

/// The name of the peer with the oven.
pub(crate) const BAKERY: &str = "bakery";
/// The name of the peer with the packaging line.
pub(crate) const PACKAGING: &str = "packaging";

impl Peer {
    /// The peer with the oven.
    pub(crate) fn bakery(link: Link) -> Result<Self, PeerError> {
        let contract = contract(BAKERY, include_str!("../../../contracts/bakery.types.json"))?;
        let service = OvenService::new();
        let component = (oven::Oven::props(), service.first_state());
        let mut exposed = exposed(BAKERY, &contract, "oven", Some(component))?;
        for method in Arc::make_mut(&mut exposed.surface.methods) {
            // No contract says this of a method: it is the host's to say.
            method.requires_authority = method.name == "calibrate";
        }
        let faults = faults::BakeryFaults::new(service.clone());
        let switches = self::exposed(BAKERY, &contract, faults::FAULTS, Some((Map::new(), faults.first_state())))?;
        let namespaces: Vec<(Exposed, Arc<dyn Service>)> =
            vec![(exposed, Arc::new(service.clone())), (switches, Arc::new(faults))];
        let identity = identity(BAKERY, &contract, place::bakery()?, namespaces)?;
        let (node, running) = Node::start(identity, vec![link]);
        let clockwork = Clockwork(tokio::spawn(service.let_time_pass(node.clone())));
        Ok(Self { node: Present(node), running, clockwork: Some(clockwork) })
    }

    /// The peer with the packaging line.
    pub(crate) fn packaging(link: Link) -> Result<Self, PeerError> {
        let contract = contract(PACKAGING, include_str!("../../../contracts/packaging.types.json"))?;
        let line = LineService::new();
        let component = (line::Line::props(), line.first_state());
        let orders = store::OrderService::new();
        let board = (Map::new(), orders.first_state());
        let faults = faults::PackagingFaults::new(orders.clone());
        let switches = (Map::new(), faults.first_state());
        let mut scale = exposed(PACKAGING, &contract, "scale", None)?;
        // As a device of another making has it: callable, and not described.
        Arc::make_mut(&mut scale.surface.methods).push(Method::undeclared("tare"));
        let namespaces: Vec<(Exposed, Arc<dyn Service>)> = vec![
            (exposed(PACKAGING, &contract, "line", Some(component))?, Arc::new(line)),
            (exposed(PACKAGING, &contract, "labels", None)?, Arc::new(LabelService::default())),
            (scale, Arc::new(ScaleService::default())),
            (exposed(PACKAGING, &contract, store::READ, Some(board))?, Arc::new(orders.clone())),
            (exposed(PACKAGING, &contract, store::WRITE, None)?, Arc::new(orders)),
            (exposed(PACKAGING, &contract, faults::FAULTS, Some(switches))?, Arc::new(faults)),
        ];
        let (node, running) = Node::start(identity(PACKAGING, &contract, place::packaging()?, namespaces)?, vec![link]);
        Ok(Self { node: Present(node), running, clockwork: None })
    }

    /// The peer itself.
    pub(crate) const fn node(&self) -> &Node {
        &self.node.0
    }

    /// Takes it off the network; at most `bound` is waited for that.
    pub(crate) async fn stop(self, bound: Duration) {
        self.node.0.leave();
        if timeout(bound, self.running.ended()).await.is_err() {
            tracing::warn!(peer = %self.node.0.name(), "it did not leave in time");
        }
        if let Some(mut clockwork) = self.clockwork {
            clockwork.0.abort();
            // It was aborted: that is all its end can say.
            let _ = (&mut clockwork.0).await;
        }
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for Clockwork {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn contract(peer: &'static str, text: &str) -> Result<Contract, PeerError> {
    let fault = |why: String| PeerError::Contract { peer, why };
    let document = json::decode(text.as_bytes()).map_err(|error| fault(error.to_string()))?;
    Contract::parse_to_serve(&document).map_err(|problems| {
        let problems = problems.iter().map(|problem| format!("{}: {}", problem.pointer, problem.what));
        fault(problems.collect::<Vec<_>>().join("; "))
    })
}

fn exposed(
    peer: &'static str,
    contract: &Contract,
    name: &str,
    component: Option<(Map, Map)>,
) -> Result<Exposed, PeerError> {
    let declared = contract.namespace(name);
    let declared =
        declared.ok_or_else(|| PeerError::Contract { peer, why: format!("it has no namespace '{name}'") })?;
    Ok(Exposed {
        name: name.to_owned(),
        surface: ServedNamespace::declared(declared, "Demo"),
        validate: declared.validate,
        component,
        mailbox: MAILBOX,
        path_writes: false,
    })
}

fn identity(
    peer: &str,
    contract: &Contract,
    topology: Topology,
    exposed: Vec<(Exposed, Arc<dyn Service>)>,
) -> Result<Identity, PeerError> {
    let serving = Serving {
        version: contract.version.clone(),
        types: contract.types.clone(),
        types_entry: contract.types_entry.clone(),
        introspection: true,
        topology: Some(topology),
    };
    Ok(Identity { name: PeerName::mqtt(peer)?, serving, exposed })
}

#[cfg(test)]
mod tests;
