//! What shows what became of a command, as far as its peer said of itself.

use super::Plant;
use crate::contract::{Description, Effect, Method, TypeNode};

/// What shows what became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// The state of its namespace, which is a component, or was never heard to be none.
    State,
    /// The answer of this query, which takes no arguments.
    Query(String),
    /// Nothing of its namespace.
    Nothing,
}

impl Shows {
    fn of(description: &Description, namespace: &str) -> Self {
        let Some(known) = description.namespace(namespace) else { return Self::State };
        if known.component.is_some() {
            return Self::State;
        }
        let query = known.methods.iter().find(|method| is_plain_query(method));
        query.map_or(Self::Nothing, |method| Self::Query(method.name.clone()))
    }
}

impl Plant {
    /// What shows what became of a command to this namespace. Nobody is asked: the network may be what failed.
    pub(crate) fn what_shows(&self, peer: &str, namespace: &str) -> Shows {
        let known = self.shared.descriptions.remembered(peer);
        known.map_or(Shows::State, |description| Shows::of(&description, namespace))
    }

    /// The queries of this namespace that take no arguments; `None` if nothing is known of it. Nobody is asked.
    pub(crate) fn plain_queries(&self, peer: &str, namespace: &str) -> Option<Vec<String>> {
        let known = self.shared.descriptions.remembered(peer)?;
        let methods = &known.namespace(namespace)?.methods;
        Some(methods.iter().filter(|method| is_plain_query(method)).map(|method| method.name.clone()).collect())
    }
}

fn is_plain_query(method: &Method) -> bool {
    let without = method.params.as_ref().is_some_and(|params| params.iter().all(TypeNode::is_optional));
    method.effect() == Effect::Observe && method.deferred.is_none() && !method.requires_authority && without
}
