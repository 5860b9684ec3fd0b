//! What runs when a peer calls a namespace of ours.

use std::{future::Future, pin::Pin};

use super::{Failure, Incoming, Node};
use crate::wire::Value;

/// The future of one run.
pub type ServiceFuture = Pin<Box<dyn Future<Output = Result<Option<Value>, Failure>> + Send>>;

/// The program behind a served namespace. It is called only with what passed the checks of wire.md 5.1.
pub trait Service: Send + Sync + std::fmt::Debug {
    /// Runs a method. What it commits and emits through `node` before it returns is told before its answer.
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture;
}
