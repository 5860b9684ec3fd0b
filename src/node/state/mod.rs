//! Our peer as a pure state machine.
//!
//! Nothing here reads a clock, waits, spawns or draws randomness. The methods of [`NodeState`] come in four families:
//!
//! 1. getters (`&self`);
//! 2. inputs, `handle_*`: what happened, with `now`;
//! 3. commands: `call`, `subscribe`, `expose` …, with `now` and ids made by the caller;
//! 4. outputs, `poll_*`: what is to be sent, what somebody must be told, when to come back.
//!
//! After any number of inputs and commands call [`NodeState::end_turn`], then drain `poll_send` and `poll_event`, then
//! arm a timer for `poll_timeout`. Two machines can be run against each other with a clock that jumps and a network that
//! delays, drops, doubles and reorders; the tests do just that.

mod calls;
mod component;
mod counters;
mod hosted;
mod links;
mod listening;
mod network;
mod placing;
mod projection;
mod repeats;
mod requests;
mod roster;
mod server;
mod stream;
mod subscriptions;
#[cfg(test)]
mod tests;
mod tickets;

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

pub use calls::MAX_PENDING;
use calls::{Calls, Purpose};
pub use component::Commit;
pub use links::LinkState;
use links::Links;
pub(super) use repeats::weigh_value;
pub use roster::{Roster, Seen};
use server::Server;
pub use server::{Exposed, Failure, Incoming, MAILBOX, METHOD_CODES, RunId, Serving};
pub use stream::{Delivery, SNAPSHOT, Stream};
use subscriptions::Subscriptions;
pub use tickets::TicketUpdate;
use tickets::Tickets;

use super::error::{CallError, Doubt, NotSent};
use crate::{
    link::{Claim, DownReason, LinkEvent, LinkId, Origin, Rejection},
    wire::{Correlation, Frame, PeerName, Value},
};

/// A moment, as both clocks tell it. The monotonic one decides; the other is only for what people and peers read.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The monotonic clock.
    pub at: Instant,
    /// Milliseconds since the Unix epoch.
    pub unix_ms: i64,
}

/// Names one request of ours; made by the caller, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// Names one local listener; made by the caller, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionId(pub u64);

/// A call somebody wants made.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Whom to call.
    pub peer: PeerName,
    /// The namespace.
    pub namespace: String,
    /// The method.
    pub method: String,
    /// Positional arguments.
    pub args: Vec<Value>,
    /// How long the caller waits; `None` is for ever.
    pub timeout: Option<Duration>,
    /// Names the command rather than this attempt.
    pub idempotency_key: Option<String>,
}

/// A good answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// What the method returned; `None` is "nothing".
    pub value: Option<Value>,
    /// When the receipt of a deferred method expires; the value is the receipt, and ticket updates follow.
    pub ticket_expires_ms: Option<i64>,
}

/// What somebody must be told.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEvent {
    /// A call is resolved. It happens exactly once for every call.
    Resolved(CallId, Result<Answered, CallError>),
    /// News of a deferred call.
    Ticket(CallId, TicketUpdate),
    /// News for a listener.
    Delivery(SubscriptionId, Delivery),
    /// Run this method and report with [`NodeState::handle_ran`].
    Run(Incoming),
    /// Whoever is owed the later answer of this run is gone from the network.
    CallerGone(RunId),
    /// The roster or a link changed.
    NetworkChanged,
    /// Something worth a line in the log.
    Note(Note),
}

/// Something that happened and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// An answer came for a request that is resolved already, or that we never made.
    LateReply(PeerName),
    /// An answer to our request came from a peer that we did not ask.
    ForeignReply {
        /// Whom we asked.
        asked: PeerName,
        /// Who answered.
        from: PeerName,
    },
    /// A ticket came that is not for a call of ours to that peer.
    StrayTicket(PeerName),
    /// A frame was refused by the link.
    Refused(String),
    /// A link is down.
    Down(LinkId, DownReason),
    /// A link is up.
    Up(LinkId),
    /// Something of ours other than a request could not be written.
    Unwritten(Rejection),
}

/// What is to be handed to a link.
#[derive(Debug)]
pub struct Send {
    /// Which link.
    pub link: LinkId,
    /// What.
    pub what: SendWhat,
}

/// What is to be handed to a link.
#[derive(Debug)]
pub enum SendWhat {
    /// A frame; `id` is what a rejection names.
    Frame {
        /// The number.
        id: u64,
        /// The frame. Boxed, as in [`Outbound`](crate::link::Outbound).
        frame: Box<Frame>,
        /// What decides whether a request left.
        claim: Option<Claim>,
    },
    /// The shape of what we serve.
    Announce(Option<String>),
}

/// What the machines inside say to the outside.
#[derive(Debug, Default)]
struct Outputs {
    sends: VecDeque<Send>,
    events: VecDeque<NodeEvent>,
}

impl Outputs {
    fn frame(&mut self, link: LinkId, id: u64, frame: Frame) {
        self.sends.push_back(Send { link, what: SendWhat::Frame { id, frame: Box::new(frame), claim: None } });
    }

    fn event(&mut self, event: NodeEvent) {
        self.events.push_back(event);
    }

    fn note(&mut self, note: Note) {
        self.events.push_back(NodeEvent::Note(note));
    }
}

/// Our peer. See the module for how it is used.
#[derive(Debug)]
pub struct NodeState {
    me: PeerName,
    links: Links,
    roster: Roster,
    /// Whether a host knows who is there and says who left: then no roster is kept here.
    hosted: bool,
    /// Who was there before a link was lost and has not been seen on it since it is back.
    awaited: BTreeSet<(LinkId, PeerName)>,
    calls: Calls,
    tickets: Tickets,
    subscriptions: Subscriptions,
    server: Server,
    out: Outputs,
    secret: [u8; 16],
    next_internal: u64,
    closing: bool,
}

/// Ids of requests that no caller made: the upper half, so that they never meet a caller's.
const INTERNAL: u64 = 1 << 63;

// Getters.
impl NodeState {
    /// A peer of this name. `epoch` names this incarnation in event stamps: at least 64 random bits. `secret` is random and
    /// never leaves: correlations of our own making are drawn from it.
    pub fn new(me: PeerName, links: impl IntoIterator<Item = LinkId>, epoch: String, secret: [u8; 16]) -> Self {
        Self {
            server: Server::new(me.clone(), epoch),
            me,
            links: Links::new(links),
            roster: Roster::default(),
            hosted: false,
            awaited: BTreeSet::new(),
            calls: Calls::default(),
            tickets: Tickets::default(),
            subscriptions: Subscriptions::default(),
            out: Outputs::default(),
            secret,
            next_internal: INTERNAL,
            closing: false,
        }
    }

    /// Our own name.
    pub const fn name(&self) -> &PeerName {
        &self.me
    }

    /// Who is there.
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }

    /// How our links are.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &LinkState)> {
        self.links.iter()
    }

    /// How many requests of ours await an answer.
    pub fn pending(&self) -> usize {
        self.calls.len()
    }
}

// Inputs.
impl NodeState {
    /// A link reports.
    pub fn handle_link(&mut self, link: LinkId, event: LinkEvent, now: Now) {
        match event {
            LinkEvent::Up => self.link_up(link, now),
            LinkEvent::Down(reason) => self.link_down(link, reason, now),
            LinkEvent::Frame(frame) => self.frame(link, *frame, Origin::Claimed, now),
            LinkEvent::Verified(frame) => self.frame(link, *frame, Origin::Verified, now),
            LinkEvent::Online { peer, shape } => self.peer_online(link, &peer, shape, now),
            LinkEvent::Offline(peer) => self.peer_offline(link, &peer, now),
            // It is told with the sweep that it begins.
            LinkEvent::Hub(name) => self.links.hub(link, name),
            LinkEvent::Settled => self.settled(link, now),
            LinkEvent::Rejected { id, why } => self.rejected(id, why, now),
            LinkEvent::Refused(text) => self.out.note(Note::Refused(text)),
            LinkEvent::Closed => self.link_closed(link, now),
        }
    }

    /// A method that [`NodeEvent::Run`] asked for has ended.
    pub fn handle_ran(&mut self, run: RunId, result: Result<Option<Value>, Failure>, now: Now) {
        self.server.publish_commits(&mut self.out);
        self.server.ran(run, result, now, &mut self.out);
    }

    /// A method that [`NodeEvent::Run`] asked for answers later: its caller gets the receipt, which is good for `life` from
    /// the call on (half an hour if not given). What it committed until now is told before that. The end of the run is the
    /// end of its ticket.
    ///
    /// # Errors
    ///
    /// What the method is to fail with, if it may not.
    pub fn defer(&mut self, run: RunId, life: Option<Duration>, now: Now) -> Result<(), Failure> {
        self.server.publish_commits(&mut self.out);
        self.server.defer(run, life, now, &mut self.out)
    }

    /// News of a later answer of ours.
    pub fn progress(&mut self, run: RunId, value: Option<Value>) {
        self.server.progress(run, value, &mut self.out);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((id, pending, error)) = self.calls.expired(now.at) {
            self.resolve(id, &pending, Err(error), now);
        }
        self.retry_subscriptions(now);
        for (call, update) in self.tickets.expire(now.unix_ms) {
            self.out.event(NodeEvent::Ticket(call, update));
        }
        self.server.handle_timeout(now, &mut self.out);
    }

    /// Everything that was ready is fed: commits of this turn are published, once.
    pub fn end_turn(&mut self) {
        self.server.publish_commits(&mut self.out);
    }
}

// Commands.
impl NodeState {
    /// Makes a call. Its end is told by [`NodeEvent::Resolved`], exactly once, whatever happens. `correlation` is fresh
    /// for every attempt (S-003).
    pub fn call(&mut self, id: CallId, call: Call, correlation: Correlation, now: Now) {
        self.request(id, call, correlation, Purpose::Caller, now);
    }

    /// The caller stops waiting. What has left has left: an answer that still comes is late.
    pub fn abandon(&mut self, id: CallId, now: Now) {
        if let Some(pending) = self.calls.take(id) {
            let error = pending.fail(NotSent::Abandoned, Doubt::Abandoned);
            self.resolve(id, &pending, Err(error), now);
        }
    }

    /// Stands a namespace up; `instance` names this incarnation of a component. Do it before the links are (W-030).
    pub fn expose(&mut self, exposed: Exposed, instance: String, now: Now) {
        self.server.expose(exposed, instance, now, &mut self.out);
        self.announce();
    }

    /// Takes a namespace down; its subscribers are told.
    pub fn withdraw(&mut self, namespace: &str) {
        self.server.withdraw(namespace, &mut self.out);
        self.announce();
    }

    /// Sets what our description says of us as a whole.
    pub fn serve(&mut self, serving: Serving) {
        self.server.serve(serving);
        self.announce();
    }

    /// Emits an event of ours to whoever subscribed; it is counted either way.
    pub fn emit(&mut self, namespace: &str, event: &str, args: &[Value]) {
        self.server.emit(namespace, event, args, &mut self.out);
    }

    /// Changes a component of ours; it is told at the end of the turn.
    pub fn commit(&mut self, namespace: &str, change: Commit) {
        self.server.commit(namespace, change);
    }

    /// No call is taken any more, and what waits is resolved; tickets are no longer followed.
    pub fn close(&mut self, now: Now) {
        self.closing = true;
        for (id, pending) in self.calls.drain() {
            let error = pending.fail(NotSent::Closing, Doubt::Closing);
            self.resolve(id, &pending, Err(error), now);
        }
        for (call, update) in self.tickets.drop_all() {
            self.out.event(NodeEvent::Ticket(call, update));
        }
    }
}

// Outputs.
impl NodeState {
    /// What is to be handed to a link next.
    pub fn poll_send(&mut self) -> Option<Send> {
        self.out.sends.pop_front()
    }

    /// What somebody must be told next.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        self.out.events.pop_front()
    }

    /// When [`NodeState::handle_timeout`] is wanted at the latest. `now` relates the two clocks.
    pub fn poll_timeout(&self, now: Now) -> Option<Instant> {
        let wall = [self.tickets.next_expiry_ms(), self.server.next_expiry_ms()].into_iter().flatten().min();
        let wall = wall.map(|at| {
            let left = Duration::from_millis(u64::try_from(at.saturating_sub(now.unix_ms)).unwrap_or(0));
            now.at.checked_add(left).unwrap_or(now.at)
        });
        [self.calls.next_deadline(), self.subscriptions.next_retry(), wall].into_iter().flatten().min()
    }
}
