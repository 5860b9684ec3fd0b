//! What the handle says to the driver.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    CallError, Commit, Failure, Heard, TicketLog,
    state::{Answered, Call, CallId, RunId, Stream, SubscriptionId},
};
use crate::{
    contract::context::{Change, TopologyFault},
    link::LinkId,
    wire::{Correlation, PeerName, Value},
};

/// What the handle asks for.
#[derive(Debug)]
pub(super) enum Command {
    Call {
        id: CallId,
        /// Boxed: it is much larger than the rest, and a channel keeps room for many.
        call: Box<Call>,
        correlation: Correlation,
        answer: Caller,
    },
    Subscribe {
        id: SubscriptionId,
        stream: Stream,
        deliveries: mpsc::Sender<Heard>,
        missed: Arc<AtomicU64>,
    },
    Emit {
        namespace: String,
        event: String,
        args: Vec<Value>,
    },
    Commit {
        namespace: String,
        change: Commit,
    },
    Place {
        change: Change,
        answer: oneshot::Sender<Result<(), TopologyFault>>,
    },
    Mute {
        namespace: String,
        muted: bool,
    },
    Defer {
        run: RunId,
        life: Option<Duration>,
        gone: watch::Sender<bool>,
        answer: oneshot::Sender<Result<(), Failure>>,
    },
    Progress {
        run: RunId,
        value: Option<Value>,
    },
    /// This run never answers.
    Unanswered(RunId),
    /// The host of this peer says that another one left.
    Departed(PeerName),
}

/// Where the answer of a call goes, and with the receipt of a deferred method what becomes of its ticket.
pub(super) type Caller = oneshot::Sender<Result<(Answered, Option<watch::Receiver<TicketLog>>), CallError>>;

/// What the handle gives back. Unbounded in form only: each call and each subscription releases at most once.
#[derive(Clone, Debug)]
pub(super) enum Release {
    Abandon(CallId),
    Unsubscribe(SubscriptionId),
    /// And on these links without a word.
    Leave(Vec<LinkId>),
}
