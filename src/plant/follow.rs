//! Following the later answer of a deferred call for as long as somebody wants to wait.

use std::time::Duration;

use super::Plant;
use crate::{
    node::{TicketHandle, TicketUpdate},
    wire::{RemoteError, Value},
};

/// What became of a deferred answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Followed {
    /// Nothing final yet.
    Pending,
    /// The answer.
    Resolved(Option<Value>),
    /// The peer says that it failed.
    Rejected(RemoteError),
    /// The peer went away before answering.
    PeerGone,
    /// Its time passed, or it is no longer followed.
    Lapsed,
}

impl Plant {
    /// Waits for the answer, at most `wait`; `progress` hears what the peer reports meanwhile, and the last of it is given.
    pub async fn follow(
        &self,
        mut ticket: TicketHandle,
        wait: Duration,
        progress: impl Fn(&Option<Value>),
    ) -> (Followed, Option<Value>) {
        let deadline = tokio::time::Instant::now() + wait;
        let mut last = None;
        loop {
            let update = tokio::time::timeout_at(deadline, ticket.updates.recv()).await;
            let ended = match update {
                Err(_) => Followed::Pending,
                Ok(Some(TicketUpdate::Progress(value))) => {
                    progress(&value);
                    last = value;
                    continue;
                }
                Ok(Some(TicketUpdate::Resolved(value))) => Followed::Resolved(value),
                Ok(Some(TicketUpdate::Rejected(error))) => Followed::Rejected(error),
                Ok(Some(TicketUpdate::PeerGone)) => Followed::PeerGone,
                Ok(Some(TicketUpdate::Lapsed | TicketUpdate::Dropped) | None) => Followed::Lapsed,
            };
            return (ended, last);
        }
    }
}
