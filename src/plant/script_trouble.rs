//! Why something was not done with a script, here or on another node.

use super::{PlantError, Target, scripts::PRESENCE};
use crate::{
    contract::Semantics,
    node::{CallError, Doubt},
    script::{NAMESPACE, Said, ScriptFault},
    wire::{PeerName, RemoteError},
};

/// Why something was not done with a script, beside what keeps any call from being made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScriptTrouble {
    /// This bridge keeps no scripts of its own.
    #[error("this bridge has no directory of scripts")]
    None,
    /// It could not be done here.
    #[error("{0}")]
    Here(#[from] ScriptFault),
    /// The other node is not there.
    #[error("no node named '{node}' is on the network, nor came within {} s", PRESENCE.as_secs())]
    NoNode {
        /// Its name.
        node: String,
        /// Names like it.
        alternatives: Vec<String>,
    },
    /// The other node lets nobody script it.
    #[error("{node} serves no namespace 'scripting'")]
    NotScriptable {
        /// Which.
        node: PeerName,
    },
    /// The other node does not let us script it.
    #[error("{target} answered {}: {}", .refusal.code, .refusal.message)]
    Forbidden {
        /// What was called.
        target: Target,
        /// What it said.
        refusal: RemoteError,
    },
    /// The other node did not do it, and said what kind of fault that was.
    #[error("{}: {text}", .target.peer)]
    Told {
        /// What was called.
        target: Target,
        /// The kind.
        said: Said,
        /// Its text.
        text: String,
        /// All that it said.
        refusal: RemoteError,
    },
    /// The other node is there, and said nothing.
    #[error("{target} was sent, and was not answered: {doubt}")]
    Silent {
        /// What was called.
        target: Target,
        /// Whether it only looks, so that nothing is in doubt.
        looks: bool,
        /// How long was waited, or what cut it short.
        doubt: Doubt,
    },
    /// What was begun on another node ended badly, after it was begun.
    #[error("{target} {why}")]
    FarEnd {
        /// What was called.
        target: Target,
        /// How it ended.
        why: String,
        /// What the other node said, if it said something.
        refusal: Option<RemoteError>,
    },
}

impl From<ScriptFault> for PlantError {
    fn from(fault: ScriptFault) -> Self {
        ScriptTrouble::Here(fault).into()
    }
}

/// By its code, or by the kind it begins with, and never by its words: an installation that failed over a refusal is none
/// (F-29).
pub(super) fn explained(error: PlantError, semantics: Semantics) -> PlantError {
    match error {
        PlantError::UnknownPeer { peer: node, alternatives } => ScriptTrouble::NoNode { node, alternatives }.into(),
        PlantError::UnknownNamespace { peer, namespace, .. } if namespace == NAMESPACE => not_scriptable(peer),
        PlantError::Call { target, error: CallError::UnknownOutcome(doubt), .. } => {
            ScriptTrouble::Silent { target, looks: semantics == Semantics::Query, doubt }.into()
        }
        PlantError::Call { target, error: CallError::Refused(refusal), .. } if refusal.code == "Forbidden" => {
            ScriptTrouble::Forbidden { target, refusal }.into()
        }
        PlantError::Call { target, error: CallError::Refused(refusal), .. } if refusal.code == "ClassNotFound" => {
            not_scriptable(target.peer)
        }
        PlantError::Call { target, checked, observes, idempotency_key, error: CallError::Refused(refusal) } => {
            told(&target, &refusal).map_or_else(
                || {
                    let error = CallError::Refused(refusal);
                    PlantError::Call { target, checked, observes, idempotency_key, error }
                },
                PlantError::from,
            )
        }
        other => other,
    }
}

/// What another node said, if it said its kind.
pub(super) fn told(target: &Target, refusal: &RemoteError) -> Option<ScriptTrouble> {
    let (said, text) = Said::read(&refusal.message)?;
    Some(ScriptTrouble::Told { target: target.clone(), said, text: text.to_owned(), refusal: refusal.clone() })
}

fn not_scriptable(node: PeerName) -> PlantError {
    ScriptTrouble::NotScriptable { node }.into()
}
