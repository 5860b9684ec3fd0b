//! Rows of a store (semantics.md 9): which may be written, reading them, writing one. A store has two halves, a namespace
//! that is read through `$data` and, by convention, another called like it with `.write` behind; either is accepted and
//! the other is found in the peer's description.

mod list;
mod read;
mod spent;
mod write;

use std::{sync::Arc, time::Duration};

pub use list::{ListRows, Resource, RowPage};
pub use read::{Row, RowQuery, Writable};
pub(super) use spent::Spent;
pub use write::{Change, RowWritten, WriteRow, Written};

use super::{
    Arguments, CallRequest, Called, Plant, PlantError, Principal, Target, call::check, is_fake, nearest, while_wanted,
};
use crate::{
    contract::{Description, Effect, Method, Namespace},
    wire::{PeerName, Value},
};

/// Which store, and how long it is waited for.
#[derive(Clone, Debug)]
pub struct Store {
    /// On which peer.
    pub peer: String,
    /// Either half of it.
    pub namespace: String,
    /// How long the answer is awaited; `None`: as long as this process usually does.
    pub timeout: Option<Duration>,
    /// How long the peer is awaited, if it is not there.
    pub wait: Duration,
}

/// Which half of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Read,
    Write,
}

/// What the name of a write half ends in.
const WRITE: &str = ".write";

impl Half {
    /// The namespace that is this half of the store `named`. Where the description knows no better, it is the one that was
    /// named.
    fn of(self, named: &str, description: &Description) -> String {
        let known = |name: &str| description.namespace(name).is_some();
        match self {
            Self::Read => named.strip_suffix(WRITE).filter(|read| known(read)).unwrap_or(named).to_owned(),
            Self::Write => {
                let writes = |namespace: &Namespace| namespace.method("writable").is_some();
                let sibling = format!("{named}{WRITE}");
                if !description.namespace(named).is_some_and(writes) && known(&sibling) {
                    sibling
                } else {
                    named.to_owned()
                }
            }
        }
    }
}

/// One half of a store that is there.
struct Found {
    peer: PeerName,
    namespace: String,
    description: Option<Arc<Description>>,
}

impl Plant {
    /// Finds this half of a store. A peer that says nothing of itself is asked under the name that was given.
    async fn half(&self, store: &Store, half: Half) -> Result<Found, PlantError> {
        let (peer, _) = self.reach(&store.peer, store.wait).await?;
        let description = self.description_if_any(&peer).await?;
        let namespace = match &description {
            None => store.namespace.clone(),
            Some(description) => half.of(&store.namespace, description),
        };
        Ok(Found { peer, namespace, description })
    }

    /// Asks a store something that changes nothing. What the peer declares to be more than a look is not called: whoever
    /// wants it called calls it.
    async fn ask_store(
        &self,
        principal: &Principal,
        store: &Store,
        found: Found,
        method: &str,
        args: Vec<Value>,
    ) -> Result<Called, PlantError> {
        let Found { peer, namespace, description } = found;
        let declared = description.as_ref().and_then(|description| description.namespace(&namespace)?.method(method));
        if let Some(effect) = declared.map(Method::effect).filter(|effect| *effect != Effect::Observe) {
            return Err(PlantError::NotALook { target: Target { peer, namespace, method: method.into() }, effect });
        }
        let ready = check(peer, store.call(namespace, method, args), description.as_ref())
            .map_err(|error| no_store(error, description.as_deref()))?;
        let timeout = store.timeout.unwrap_or(self.settings().call_timeout);
        self.send(principal, ready, timeout, None).await.map_err(|error| match error {
            // It is a read whatever is known of the peer: without an answer nothing is in doubt.
            PlantError::Call { target, checked, idempotency_key, error, .. } => {
                PlantError::Call { target, checked, observes: true, idempotency_key, error }
            }
            other => other,
        })
    }
}

impl Store {
    fn call(&self, namespace: String, method: &str, args: Vec<Value>) -> CallRequest {
        CallRequest {
            peer: self.peer.clone(),
            namespace,
            method: method.into(),
            arguments: Arguments::Positional(args),
            timeout: self.timeout,
            wait: self.wait,
            idempotency_key: None,
        }
    }
}

/// A namespace that lacks the methods of a store has no write half; others may.
fn no_store(error: PlantError, description: Option<&Description>) -> PlantError {
    let writes = |namespace: &&Namespace| namespace.method("writable").is_some();
    let is_one = |name: &str| description.and_then(|known| known.namespace(name)).is_some_and(|known| writes(&known));
    match error {
        PlantError::UnknownMethod { peer, namespace, .. } if !is_one(&namespace) => {
            let stores = description.into_iter().flat_map(|known| known.namespaces.iter().filter(writes));
            let stores = nearest(&namespace, stores.map(|store| store.name.as_str()));
            PlantError::NoStore { peer, namespace, stores }
        }
        other => other,
    }
}

/// The answer is not what a store answers.
fn odd(called: &Called, expected: &'static str, changes: bool) -> PlantError {
    PlantError::OddAnswer { target: called.target.clone(), expected, changes }
}
