//! What runs when a peer calls a namespace of ours.

use std::{future::Future, pin::Pin, time::Duration};

use tokio::sync::{mpsc, oneshot, watch};

use super::{Failure, Incoming, Node, command::Command, state::RunId};
use crate::wire::Value;

/// The future of one run.
pub type ServiceFuture = Pin<Box<dyn Future<Output = Result<Option<Value>, Failure>> + Send>>;

/// A run that answers later: its caller has the receipt, and the end of the run is the end of the ticket.
#[derive(Debug)]
pub struct Later {
    run: RunId,
    commands: mpsc::Sender<Command>,
    gone: watch::Receiver<bool>,
}

impl Later {
    /// Tells the caller how far it is.
    pub async fn progress(&self, value: Value) {
        // A driver that is gone has nobody to tell.
        let _ = self.commands.send(Command::Progress { run: self.run, value: Some(value) }).await;
    }

    /// Ends when the caller is gone from the network. The run may go on, and answer.
    pub async fn caller_gone(&mut self) {
        // A driver that is gone has left the network, and every caller with it.
        let _ = self.gone.wait_for(|gone| *gone).await;
    }
}

impl Node {
    /// Leaves the call of this run without any answer, now and later, as a peer does that hangs. Its caller waits as long as
    /// it has patience; nobody else has to (S-122).
    pub async fn leave_unanswered(&self, run: RunId) {
        let _ = self.shared.commands.send(Command::Unanswered(run)).await;
    }

    /// Answers the call of this run later (wire.md 5.8): the caller gets its receipt now, good for `life` from the call on
    /// (half an hour if not given), and what the run returns, or how it fails, is the end of its ticket. The next command
    /// of the namespace may start. To be asked before the work begins.
    ///
    /// # Errors
    ///
    /// What the run is to fail with: as many answers as it can hold are on their way, or this run is over.
    pub async fn answer_later(&self, run: RunId, life: Option<Duration>) -> Result<Later, Failure> {
        let (gone_sender, gone) = watch::channel(false);
        let (answer, answered) = oneshot::channel();
        let commands = self.shared.commands.clone();
        // A driver that is gone drops the question with its queue.
        let _ = commands.send(Command::Defer { run, life, gone: gone_sender, answer }).await;
        let leaving = || Failure::exception("this peer is leaving the network");
        answered.await.unwrap_or_else(|_| Err(leaving()))?;
        Ok(Later { run, commands, gone })
    }
}

/// The program behind a served namespace. It is called only with what passed the checks of wire.md 5.1.
pub trait Service: Send + Sync + std::fmt::Debug {
    /// Runs a method. What it commits and emits through `node` before it returns is told before its answer. One that takes longer
    /// than callers wait answers later: [`Node::answer_later`].
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture;
}
