//! A peer beside another one of this process, its host, and calls that are never answered.

use super::{NodeState, Now, RunId};
use crate::wire::PeerName;

impl NodeState {
    /// No roster is kept from now on: whoever hosts this peer has one, and says who left. Large answers are not remembered,
    /// only that they were given. To be said before the links are.
    pub fn be_hosted(&mut self) {
        self.hosted = true;
        self.server.be_light();
    }

    /// Whoever hosts this peer says that another one left the network.
    pub fn departed(&mut self, peer: &PeerName) {
        self.peer_gone(peer);
    }

    /// A method that [`super::NodeEvent::Run`] asked for never answers: its caller is left to its own patience. Nobody else
    /// is: the next command of the namespace may start (S-122). Nothing is heard of the run any more.
    pub fn leave_unanswered(&mut self, run: RunId, now: Now) {
        self.server.leave_unanswered(run, now, &mut self.out);
    }
}
