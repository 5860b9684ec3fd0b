//! Fakes: peers that stand in for devices and say so. A fake is made of a contract alone, and of a script for whoever wants
//! it to say something particular (semantics 11); everybody on the network can call it like any other peer.
//!
//! Reading is pure: what a fake is to be ([`Plan`]) is settled before anything joins. [`Fakes`] keeps those that were
//! started: each has connections of its own to every network that the peer beside which they stand is on, so that a process that
//! dies takes its fakes off. They share the roster of that peer, which reaches them past any network; keys and credentials of
//! theirs are made of its own (`ways`).
//!
//! A fake never takes a name that somebody answers to (invariant 7): the name is reserved here, looked for on the network,
//! and looked for again after joining; a fake connects again only when nobody took its name meanwhile, and leaves it to
//! whoever comes later.

mod actor;
mod clock;
pub mod code;
mod contracts;
mod deeds;
mod host;
mod lines;
mod live;
pub mod names;
mod plan;
pub mod rows;
mod script;
mod setting;
mod standing;
mod stock;
#[cfg(test)]
mod tests;
mod usher;
mod ways;

pub use code::Exec;
pub use host::{Fakes, MOST, StartFault, Taken};
pub use lines::{FakeLine, Over, Withdrawn};
pub use plan::{Plan, PlanFault};
pub use ways::{FakeKey, Stage, Way};

use crate::contract::{Contract, Namespace};

/// The namespaces of a contract that a fake serves: `msgrpc` is served by every peer in its own way.
fn served(contract: &Contract) -> impl Iterator<Item = &Namespace> {
    contract.namespaces.iter().filter(|namespace| namespace.name != "msgrpc")
}
