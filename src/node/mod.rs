//! Our peer: a pure state machine ([`state`]) under a thin driver, behind a handle that is cheap to clone ([`Node`]).
//!
//! ```no_run
//! # async fn example(node: plantbridge::node::Node) -> Result<(), plantbridge::node::CallError> {
//! use plantbridge::node::Call;
//! # let oven = node.name().clone();
//! let call = Call {
//!     peer: oven,
//!     namespace: "oven".into(),
//!     method: "read".into(),
//!     args: vec![],
//!     timeout: Some(std::time::Duration::from_secs(10)),
//!     idempotency_key: None,
//! };
//! let answer = node.call(call).await?;
//! println!("{:?}", answer.value);
//! # Ok(())
//! # }
//! ```

mod command;
mod driver;
mod error;
mod listener;
mod log;
mod meter;
mod service;
pub mod state;
#[cfg(test)]
pub(crate) mod testing;
mod ticket;
mod traffic;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use self::{
    command::{Command, Emission, Release},
    state::{CallId, SubscriptionId},
};
pub use self::{
    driver::Running,
    error::{CallError, Certainty, Doubt, NotSent},
    meter::{BOUNDS_US, CallEnd, Distribution, Histogram, NodeCounts},
    service::{Later, Service, ServiceFuture},
    state::{
        Answered, Call, Commit, Exposed, Failure, Incoming, LinkState, METHOD_CODES, Roster, RunId, SNAPSHOT, Seen,
        Serving, Stream, TicketUpdate,
    },
    ticket::{Ended, Progress, TicketHandle, TicketLog},
    traffic::{Traffic, TrafficNews},
};
pub use crate::link::Origin;
use crate::{
    contract::context::{Change, TopologyFault},
    link::{DownKind, Link, LinkId, mqtt::Tap},
    wire::{PeerName, Stamp, Value},
};

/// Our peer, as the verbs see it. Clones share it.
#[derive(Clone, Debug)]
pub struct Node {
    shared: Arc<Shared>,
    /// What lets us listen to others, where there is something, and on which link that is.
    tap: Option<(LinkId, Tap)>,
}

#[derive(Debug)]
struct Shared {
    name: PeerName,
    commands: mpsc::Sender<Command>,
    releases: mpsc::UnboundedSender<Release>,
    network: watch::Receiver<Arc<Network>>,
    ids: AtomicU64,
    meter: meter::Meter,
}

/// What is known of the network at one moment.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// How each link is.
    pub links: Vec<(LinkId, LinkState)>,
    /// Who is there, ourselves not included.
    pub roster: Roster,
}

impl Network {
    /// Whether any link to a network is up; the one inside this process is none.
    pub fn is_up(&self) -> bool {
        self.links.iter().any(|(id, link)| !id.is_inside() && link.down.is_none())
    }

    /// Whether a link to a network is up, and each that is up has completed its first sweep of presence, and none is still joining for
    /// the first time.
    pub fn is_settled(&self) -> bool {
        let known = |link: &LinkState| match &link.down {
            None => link.settled,
            Some(down) => down.kind != DownKind::Joining,
        };
        self.is_up() && self.links.iter().all(|(id, link)| id.is_inside() || known(link))
    }

    /// Whether this link is up and has completed its first sweep of presence.
    pub fn is_swept(&self, link: LinkId) -> bool {
        self.links.iter().any(|(id, state)| *id == link && state.down.is_none() && state.settled)
    }

    /// Whether a link that leads to this peer is up.
    pub fn reaches(&self, peer: &Seen) -> bool {
        peer.links.iter().any(|link| self.is_link_up(*link))
    }

    /// Whether this link is up.
    pub fn is_link_up(&self, link: LinkId) -> bool {
        self.links.iter().any(|(id, state)| *id == link && state.down.is_none())
    }
}

/// What our peer is when it starts.
#[derive(Debug)]
pub struct Identity {
    /// Its name.
    pub name: PeerName,
    /// What it says of itself as a whole.
    pub serving: Serving,
    /// What it serves from the start.
    pub exposed: Vec<(Exposed, Arc<dyn Service>)>,
}

/// An answer, with the later ones a deferred method sends.
#[derive(Debug)]
pub struct Answer {
    /// What the method returned; `None` is "nothing".
    pub value: Option<Value>,
    /// The receipt of a deferred method.
    pub ticket: Option<TicketHandle>,
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The peer confirmed that it has the subscription.
    Attached,
    /// The peer would not have it, or could not be asked.
    Failed(CallError),
    /// It emitted.
    Event {
        /// What it emitted.
        args: Vec<Value>,
        /// The count, where the peer counts.
        stamp: Option<Stamp>,
        /// When it arrived here, in milliseconds since the Unix epoch.
        at_ms: i64,
    },
    /// Link or peer went away: what it emits until the next [`Heard::Attached`] is not heard.
    Interrupted,
    /// The listener was too slow: so many deliveries fell off.
    Missed(u64),
}

/// A subscription. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    id: SubscriptionId,
    heard: mpsc::Receiver<Heard>,
    missed: Arc<AtomicU64>,
    releases: mpsc::UnboundedSender<Release>,
}

impl Subscription {
    /// What is heard next. `None` when the node has left the network.
    pub async fn next(&mut self) -> Option<Heard> {
        if let Ok(heard) = self.heard.try_recv() {
            return Some(heard);
        }
        match self.missed.swap(0, Ordering::Relaxed) {
            0 => self.heard.recv().await,
            missed => Some(Heard::Missed(missed)),
        }
    }

    /// What is heard already, without waiting.
    pub fn try_next(&mut self) -> Option<Heard> {
        if let Ok(heard) = self.heard.try_recv() {
            return Some(heard);
        }
        match self.missed.swap(0, Ordering::Relaxed) {
            0 => None,
            missed => Some(Heard::Missed(missed)),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // Closed first: a driver that sees the release before the subscription then knows not to begin it.
        self.heard.close();
        // A driver that is gone has nothing left to release.
        let _ = self.releases.send(Release::Unsubscribe(self.id));
    }
}

/// Tells the driver that a caller no longer waits, unless the answer came.
struct Waiting<'a> {
    id: CallId,
    shared: &'a Shared,
    armed: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.armed {
            let _ = self.shared.releases.send(Release::Abandon(self.id));
        }
    }
}

/// How many deliveries wait for a listener before they fall off.
const LISTENER_QUEUE: usize = 1024;

impl Node {
    /// Starts the driver over these links. The second value ends when the node has left.
    pub fn start(identity: Identity, links: Vec<Link>) -> (Self, Running) {
        driver::start(identity, links, false)
    }

    /// Starts one that keeps no roster: a peer beside another one of this process, which says who left ([`Node::departed`]).
    pub fn start_hosted(identity: Identity, links: Vec<Link>) -> (Self, Running) {
        driver::start(identity, links, true)
    }

    /// Our own name.
    pub fn name(&self) -> &PeerName {
        &self.shared.name
    }

    /// What is known of the network now.
    pub fn network(&self) -> Arc<Network> {
        self.shared.network.borrow().clone()
    }

    /// What is known of the network, and whenever it changes.
    pub fn watch_network(&self) -> watch::Receiver<Arc<Network>> {
        self.shared.network.clone()
    }

    /// Waits until `done` holds for the network, at most `bound`; gives what is known then.
    pub async fn network_when(&self, bound: Duration, done: impl Fn(&Network) -> bool) -> Arc<Network> {
        let mut watched = self.shared.network.clone();
        // Out of time, or the node is gone: what is known is the answer either way.
        let _ = tokio::time::timeout(bound, watched.wait_for(|network| done(network))).await;
        self.network()
    }

    /// Makes a call and waits for its answer. Dropping the future stops the waiting and nothing else.
    pub async fn call(&self, call: Call) -> Result<Answer, CallError> {
        let timed = self.shared.meter.begin();
        let outcome = self.carry(call).await;
        timed.end((&outcome).into());
        outcome
    }

    async fn carry(&self, call: Call) -> Result<Answer, CallError> {
        let id = CallId(self.next_id());
        let correlation = Uuid::new_v4().hyphenated().to_string();
        let (answer, answered) = oneshot::channel();
        let command = Command::Call { id, call: Box::new(call), correlation: correlation.clone().into(), answer };
        self.shared.commands.try_send(command).map_err(|error| not_taken(&error))?;
        let mut waiting = Waiting { id, shared: &self.shared, armed: true };
        let outcome = answered.await;
        waiting.armed = false;
        let (answer, log) = outcome.unwrap_or(Err(CallError::UnknownOutcome(Doubt::Closing)))?;
        let ticket = answer.ticket_expires_ms.zip(log);
        let ticket = ticket.map(|(expires_ms, log)| TicketHandle { id: correlation, expires_ms, log });
        Ok(Answer { value: answer.value, ticket })
    }

    /// Listens to an event of a peer, or to a component's `$snapshot`. The first thing heard of the attempt is
    /// [`Heard::Attached`] or [`Heard::Failed`]; an event may overtake it.
    pub fn subscribe(&self, stream: Stream) -> Result<Subscription, CallError> {
        let id = SubscriptionId(self.next_id());
        let (deliveries, heard) = mpsc::channel(LISTENER_QUEUE);
        let missed = Arc::new(AtomicU64::new(0));
        let command = Command::Subscribe { id, stream: Box::new(stream), deliveries, missed: missed.clone() };
        self.shared.commands.try_send(command).map_err(|error| not_taken(&error))?;
        Ok(Subscription { id, heard, missed, releases: self.shared.releases.clone() })
    }

    /// Emits an event of ours.
    pub async fn emit(&self, namespace: &str, event: &str, args: Vec<Value>) {
        let command = Command::Emit(Box::new(Emission { namespace: namespace.into(), event: event.into(), args }));
        // A driver that is gone has nobody to emit to.
        let _ = self.shared.commands.send(command).await;
    }

    /// Changes a component of ours. Changes made before a method returns are told before its answer.
    pub async fn commit(&self, namespace: &str, change: Commit) {
        let _ = self.shared.commands.send(Command::Commit(Box::new((namespace.into(), change)))).await;
    }

    /// Changes where our instances stand, or what they provide. Changes made before a method returns are told before its
    /// answer.
    ///
    /// # Errors
    ///
    /// Why it cannot be so; nothing has changed then.
    pub async fn change_topology(&self, change: Change) -> Result<(), TopologyFault> {
        let (answer, answered) = oneshot::channel();
        // A driver that is gone has nobody to tell.
        let _ = self.shared.commands.send(Command::Place { change: Box::new(change), answer }).await;
        answered.await.unwrap_or(Ok(()))
    }

    /// Has a namespace of ours go silent, or speak again: while it is silent its events are counted and its changes made,
    /// and nobody is told. It is how a demonstration loses something on purpose.
    pub async fn mute(&self, namespace: &str, muted: bool) {
        let _ = self.shared.commands.send(Command::Mute { namespace: namespace.into(), muted }).await;
    }

    /// Leaves the network: what waits is resolved, the departure is announced, links are flushed and closed. Await
    /// [`Running`] for the end of it.
    pub fn leave(&self) {
        let _ = self.shared.releases.send(Release::Leave(Vec::new()));
    }

    /// Leaves the network, and on these links without a word, because somebody else goes by our name there.
    pub fn yield_name(&self, links: Vec<LinkId>) {
        let _ = self.shared.releases.send(Release::Leave(links));
    }

    /// Another peer left the network: what it held here ends. For a peer that keeps no roster of its own.
    pub async fn departed(&self, peer: PeerName) {
        // A driver that is gone holds nothing for anybody.
        let _ = self.shared.commands.send(Command::Departed(peer)).await;
    }

    /// What it has counted so far.
    pub fn counts(&self) -> NodeCounts {
        let Shared { commands, meter, .. } = &*self.shared;
        meter.counts(commands.max_capacity() - commands.capacity(), commands.max_capacity())
    }

    /// Whether the driver lives: without it nothing is sent and nothing heard any more.
    pub fn is_alive(&self) -> bool {
        !self.shared.commands.is_closed()
    }

    fn next_id(&self) -> u64 {
        self.shared.ids.fetch_add(1, Ordering::Relaxed)
    }
}

/// A command the driver would not take.
fn not_taken(error: &mpsc::error::TrySendError<Command>) -> CallError {
    CallError::NotSent(match error {
        mpsc::error::TrySendError::Full(_) => NotSent::TooManyCalls { limit: driver::COMMAND_QUEUE },
        mpsc::error::TrySendError::Closed(_) => NotSent::Closing,
    })
}
