//! Where our instances stand, and which of them are silent.

use super::NodeState;
use crate::contract::context::{Change, TopologyFault};

impl NodeState {
    /// Changes where our instances stand, or what they provide; it is told at the end of the turn.
    pub fn change_topology(&mut self, change: Change) -> Result<(), TopologyFault> {
        self.server.change_topology(change)
    }

    /// Has a namespace of ours go silent, or speak again: what it emits and commits is counted and not told. A component
    /// that speaks again tells what it holds.
    pub fn mute(&mut self, namespace: &str, muted: bool) {
        self.server.mute(namespace, muted);
    }
}
