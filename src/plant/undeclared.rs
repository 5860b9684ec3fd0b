//! An event that its peer does not declare: it may be emitted all the same, and it may be misspelt. So it is watched, what is
//! like it is named, and silence alone is never called gapless.

use super::{
    Loss, nearest,
    verdict::{Cursor, Verdict},
};
use crate::{
    contract::{Description, Segments, TypeNode, Types},
    node::Stream,
};

/// What a peer says of an event.
#[derive(Clone, Debug, Default)]
pub(super) enum Declared {
    /// Nothing: it does not describe itself.
    #[default]
    Unknown,
    /// It declares it.
    Yes,
    /// It does not, and declares these, which are like it.
    No(Vec<String>),
}

impl Declared {
    pub(super) fn of(description: Option<&Description>, stream: &Stream) -> Self {
        let Some(namespace) = description.and_then(|known| known.namespace(&stream.namespace)) else {
            return Self::Unknown;
        };
        if namespace.event(&stream.event).is_some() {
            return Self::Yes;
        }
        Self::No(nearest(&stream.event, namespace.events.iter().map(|event| event.name.as_str())))
    }

    /// Whether it is declared, and what is like it if not.
    pub(super) fn parts(&self) -> (Option<bool>, Vec<String>) {
        match self {
            Self::Unknown => (None, Vec::new()),
            Self::Yes => (Some(true), Vec::new()),
            Self::No(nearest) => (Some(false), nearest.clone()),
        }
    }
}

/// A count that never moved proves nothing of an event that nobody declared: it may not exist.
pub(super) fn undeclared_is_not_gapless(
    loss: &mut Loss,
    stream: &Stream,
    declared: Option<bool>,
    cursor: Option<&Cursor>,
) {
    let never = cursor.is_none_or(|cursor| cursor.seq == 0);
    if declared == Some(false) && never && loss.verdict == Verdict::Gapless {
        loss.verdict = Verdict::Unknown;
        loss.sentence = format!(
            "unknown - nothing was heard, and {} does not declare '{}': it may never be emitted",
            stream.peer, stream.event
        );
    }
}

/// The members there are where a path leaves what a component declares of its state; `None`: it does not, or nobody knows.
pub(super) fn leaves(state: &TypeNode, path: &Segments, types: &Types) -> Option<Vec<String>> {
    let mut node = state;
    for segment in path.as_slice() {
        node = match types.resolve(node)? {
            TypeNode::Object { fields, additional } => match fields.iter().find(|field| field.name == *segment) {
                Some(field) => &field.node,
                None if *additional => return None,
                None => return Some(nearest(segment, fields.iter().map(|field| field.name.as_str()))),
            },
            TypeNode::Record { values, .. } => values,
            TypeNode::Array { items, .. } => items,
            _ => return None,
        };
    }
    None
}
