//! What a peer says of itself.

use std::{sync::Arc, time::Duration};

use super::{Plant, PlantError};
use crate::{
    contract::Description,
    wire::{PeerName, Value},
};

/// One peer's description.
#[derive(Clone, Debug)]
pub struct Described {
    /// Whose it is.
    pub peer: PeerName,
    /// What it says, read.
    pub description: Arc<Description>,
    /// What it says, verbatim.
    pub answer: Value,
}

impl Plant {
    /// Asks a peer to describe itself, afresh; the answer serves later verbs too.
    pub async fn describe(&self, peer: &str, wait: Duration) -> Result<Described, PlantError> {
        let (peer, _) = self.reach(peer, wait).await?;
        let (description, answer) = self.describe_afresh(&peer, self.settings().call_timeout).await?;
        Ok(Described { peer, description, answer })
    }
}
