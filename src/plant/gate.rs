//! The one function every verb that can change a plant passes before anything is sent.

use super::{Plant, PlantError, Target, audit::Entry};
use crate::contract::{Effect, Semantics};

/// On whose behalf a verb acts.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The client's name; `stdio` for the one on standard input.
    pub client: String,
    /// Whether this client may only look.
    pub read_only: bool,
    /// Where it is written down, if it is.
    pub entry: Option<Entry>,
}

/// What is about to be done.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub(super) target: Target,
    pub(super) semantics: Option<Semantics>,
    /// The enforced effect; of a method that is not described, operate.
    pub(super) effect: Effect,
}

impl Plant {
    /// Refuses what this bridge or this client may not do. Under read-only that is whatever the peer does not declare
    /// to be an observation.
    pub(super) fn permit(&self, principal: &Principal, action: &Action) -> Result<(), PlantError> {
        if let Some(entry) = &principal.entry {
            entry.addresses(&action.target);
        }
        let looks = action.effect == Effect::Observe;
        if looks || !(self.settings().read_only || principal.read_only) {
            tracing::debug!(
                client = principal.client,
                target = %action.target,
                semantics = ?action.semantics,
                effect = action.effect.as_str(),
                "permitted"
            );
            return Ok(());
        }
        tracing::info!(client = principal.client, target = %action.target, "refused: read-only");
        let of_client = !self.settings().read_only;
        Err(PlantError::ReadOnly { target: action.target.clone(), effect: action.effect, of_client })
    }
}
