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

/// What the handle asks for. What is large is boxed: a channel keeps room for many, and there may be many nodes.
#[derive(Debug)]
pub(super) enum Command {
    Call {
        id: CallId,
        call: Box<Call>,
        correlation: Correlation,
        answer: Caller,
    },
    Subscribe {
        id: SubscriptionId,
        stream: Box<Stream>,
        deliveries: mpsc::Sender<Heard>,
        missed: Arc<AtomicU64>,
    },
    Emit(Box<Emission>),
    Commit(Box<(String, Commit)>),
    Place {
        change: Box<Change>,
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

/// An event of ours.
#[derive(Debug)]
pub(super) struct Emission {
    pub(super) namespace: String,
    pub(super) event: String,
    pub(super) args: Vec<Value>,
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
