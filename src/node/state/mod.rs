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
mod links;
mod projection;
mod repeats;
mod roster;
mod server;
mod subscriptions;
#[cfg(test)]
mod tests;
mod tickets;

use std::{
    collections::{BTreeSet, VecDeque},
    time::{Duration, Instant},
};

pub use calls::MAX_PENDING;
use calls::{Calls, Pending, Purpose};
pub use component::Commit;
pub use links::LinkState;
use links::Links;
pub use roster::{Roster, Seen};
use server::Server;
pub use server::{Exposed, Failure, Incoming, MAILBOX, RunId, Serving};
pub use subscriptions::{Delivery, SNAPSHOT, Stream};
use subscriptions::{Joined, Subscriptions};
pub use tickets::TicketUpdate;
use tickets::Tickets;

use super::error::{CallError, Doubt, NotSent};
use crate::{
    link::{Claim, DownKind, DownReason, LinkEvent, LinkId, Rejection},
    wire::{Correlation, Frame, Message, PeerName, Reply, ReplyRoute, Request, Value, frame::Answer},
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
        /// The frame.
        frame: Frame,
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
        self.sends.push_back(Send { link, what: SendWhat::Frame { id, frame, claim: None } });
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
    /// Who was there before a link was lost and has not been seen since it is back.
    awaited: BTreeSet<PeerName>,
    calls: Calls,
    tickets: Tickets,
    subscriptions: Subscriptions,
    server: Server,
    out: Outputs,
    next_internal: u64,
    closing: bool,
}

/// Ids of requests that no caller made: the upper half, so that they never meet a caller's.
const INTERNAL: u64 = 1 << 63;
/// How long the answer to a subscription is awaited.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

// Getters.
impl NodeState {
    /// A peer of this name. `epoch` names this incarnation in event stamps: at least 64 random bits.
    pub fn new(me: PeerName, links: impl IntoIterator<Item = LinkId>, epoch: String) -> Self {
        Self {
            server: Server::new(me.clone(), epoch),
            me,
            links: Links::new(links),
            roster: Roster::default(),
            awaited: BTreeSet::new(),
            calls: Calls::default(),
            tickets: Tickets::default(),
            subscriptions: Subscriptions::default(),
            out: Outputs::default(),
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
            LinkEvent::Frame(frame) => self.frame(link, frame, now),
            LinkEvent::Online { peer, shape } => self.peer_online(link, peer, shape, now),
            LinkEvent::Offline(peer) => self.peer_offline(link, &peer),
            LinkEvent::Settled => self.settled(link),
            LinkEvent::Rejected { id, why } => self.rejected(id, why),
            LinkEvent::Refused(text) => self.out.note(Note::Refused(text)),
            LinkEvent::Closed => self.link_closed(link, now),
        }
    }

    /// A method that [`NodeEvent::Run`] asked for has ended.
    pub fn handle_ran(&mut self, run: RunId, result: Result<Option<Value>, Failure>, now: Now) {
        self.server.publish_commits(&mut self.out);
        self.server.ran(run, result, now, &mut self.out);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((id, pending, error)) = self.calls.expired(now.at) {
            self.resolve(id, &pending, Err(error));
        }
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
    pub fn abandon(&mut self, id: CallId) {
        if let Some(pending) = self.calls.take(id) {
            let error = pending.fail(NotSent::Abandoned, Doubt::Abandoned);
            self.resolve(id, &pending, Err(error));
        }
    }

    /// Listens to a stream. The listener hears [`Delivery::Attached`] or [`Delivery::Failed`] first, though an event may
    /// overtake the answer. `correlation` is used if something must be sent.
    pub fn subscribe(&mut self, id: SubscriptionId, stream: Stream, correlation: Correlation, now: Now) {
        match self.subscriptions.join(id, stream) {
            Joined::Attach(key) => self.attach(key, correlation, now),
            Joined::Attached => self.out.event(NodeEvent::Delivery(id, Delivery::Attached)),
            Joined::Waiting => {}
            Joined::Full => {
                let error = CallError::NotSent(NotSent::TooManyCalls { limit: subscriptions::MAX_HELD });
                self.out.event(NodeEvent::Delivery(id, Delivery::Failed(error)));
            }
        }
    }

    /// Stops listening. The last listener of a stream takes the remote subscription with it.
    pub fn unsubscribe(&mut self, id: SubscriptionId, correlation: Correlation, now: Now) {
        let Some(stream) = self.subscriptions.leave(id) else { return };
        let call = subscription_call(&stream, "off");
        let id = self.internal_id();
        self.request(id, call, correlation, Purpose::Unsubscribe, now);
    }

    /// Stands a namespace up; `instance` names this incarnation of a component. Do it before the links are (W-030).
    pub fn expose(&mut self, exposed: Exposed, instance: String, now: Now) {
        self.server.expose(exposed, instance, now);
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
    pub fn emit(&mut self, namespace: &str, event: &str, args: Vec<Value>) {
        self.server.emit(namespace, event, args, &mut self.out);
    }

    /// Changes a component of ours; it is told at the end of the turn.
    pub fn commit(&mut self, namespace: &str, change: Commit) {
        self.server.commit(namespace, change);
    }

    /// No call is taken any more, and what waits is resolved.
    pub fn close(&mut self) {
        self.closing = true;
        for (id, pending) in self.calls.drain() {
            let error = pending.fail(NotSent::Closing, Doubt::Closing);
            self.resolve(id, &pending, Err(error));
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
        let wall = wall.map(|at| now.at + Duration::from_millis(u64::try_from(at - now.unix_ms).unwrap_or(0)));
        [self.calls.next_deadline(), wall].into_iter().flatten().min()
    }
}

// What happens to links and peers.
impl NodeState {
    /// The roster is rebuilt from this connection's presence (W-041). Whoever was there before the loss is only taken to
    /// be gone when the sweep is complete without him: his subscriptions and tickets outlive a blip of our link.
    fn link_up(&mut self, link: LinkId, now: Now) {
        self.links.up(link);
        self.awaited.extend(self.roster.forget_link(link));
        self.out.note(Note::Up(link));
        self.out.event(NodeEvent::NetworkChanged);
        for key in self.subscriptions.to_attach(|_| true, false) {
            self.reattach(key, now);
        }
    }

    fn settled(&mut self, link: LinkId) {
        self.links.settled(link);
        for peer in std::mem::take(&mut self.awaited) {
            if self.roster.get(&peer).is_none() {
                self.peer_gone(&peer);
            }
        }
        self.out.event(NodeEvent::NetworkChanged);
    }

    fn link_down(&mut self, link: LinkId, reason: DownReason, now: Now) {
        if self.links.down(link, reason.clone()) {
            for (id, pending) in self.calls.lost(link) {
                let error = pending.fail(NotSent::LinkDown, Doubt::LinkLost(reason.detail.clone()));
                self.resolve(id, &pending, Err(error));
            }
            let links = &self.links;
            let roster = &self.roster;
            let cut = |peer: &PeerName| links.route(roster.get(peer)).is_none();
            for id in self.subscriptions.interrupted(cut) {
                self.out.event(NodeEvent::Delivery(id, Delivery::Interrupted));
            }
            self.reattach_elsewhere(now);
        }
        self.out.note(Note::Down(link, reason));
        self.out.event(NodeEvent::NetworkChanged);
    }

    /// The link is gone for good, because we left or because its task has ended.
    fn link_closed(&mut self, link: LinkId, now: Now) {
        let reason = DownReason { kind: DownKind::Lost, detail: "the link was closed".into() };
        if self.links.is_up(link) && !self.closing {
            return self.link_down(link, reason, now);
        }
        self.links.down(link, reason);
        self.out.event(NodeEvent::NetworkChanged);
    }

    /// With another link up, what was lost with this one may be attached over that.
    fn reattach_elsewhere(&mut self, now: Now) {
        if self.links.any_up() {
            for key in self.subscriptions.to_attach(|_| true, false) {
                self.reattach(key, now);
            }
        }
    }

    fn peer_online(&mut self, link: LinkId, peer: PeerName, shape: Option<String>, now: Now) {
        if peer == self.me {
            return;
        }
        let change = self.roster.online(peer.clone(), link, shape, now.unix_ms);
        if change == roster::Change::Repeated {
            return;
        }
        self.out.event(NodeEvent::NetworkChanged);
        // S-070: a peer that is back, or that has another surface, has forgotten who listened.
        let all = change == roster::Change::Reshaped;
        for key in self.subscriptions.to_attach(|name| *name == peer, all) {
            self.reattach(key, now);
        }
    }

    fn peer_offline(&mut self, link: LinkId, peer: &PeerName) {
        let gone = self.roster.offline(peer, link);
        if gone {
            self.out.event(NodeEvent::NetworkChanged);
        }
        if self.awaited.remove(peer) || gone {
            self.peer_gone(peer);
        }
    }

    /// A peer is gone from every link: what it held for us and we for it ends.
    fn peer_gone(&mut self, peer: &PeerName) {
        for (call, update) in self.tickets.peer_gone(peer) {
            self.out.event(NodeEvent::Ticket(call, update));
        }
        for id in self.subscriptions.interrupted(|name| name == peer) {
            self.out.event(NodeEvent::Delivery(id, Delivery::Interrupted));
        }
        self.server.peer_gone(peer);
    }

    fn announce(&mut self) {
        let shape = self.server.shape();
        for (link, _) in self.links.iter() {
            self.out.sends.push_back(Send { link, what: SendWhat::Announce(shape.clone()) });
        }
    }
}

// What happens to requests of ours.
impl NodeState {
    fn request(&mut self, id: CallId, call: Call, correlation: Correlation, purpose: Purpose, now: Now) {
        if let Err(why) = self.try_request(id, call, correlation, purpose, now) {
            self.tell(id, purpose, Err(CallError::NotSent(why)));
        }
    }

    fn try_request(
        &mut self,
        id: CallId,
        call: Call,
        correlation: Correlation,
        purpose: Purpose,
        now: Now,
    ) -> Result<(), NotSent> {
        if self.closing {
            return Err(NotSent::Closing);
        }
        let link = self.links.route(self.roster.get(&call.peer)).ok_or(NotSent::LinkDown)?;
        let claim = Claim::default();
        let pending = Pending {
            purpose,
            peer: call.peer.clone(),
            correlation: correlation.clone(),
            link,
            claim: claim.clone(),
            ttl: call.timeout,
            deadline: call.timeout.map(|timeout| now.at + timeout),
        };
        self.calls.insert(id, pending)?;
        let request = Request {
            correlation,
            path: call.namespace,
            method: call.method,
            args: call.args,
            version: None,
            ttl: call.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            expiry: None,
            idempotency_key: call.idempotency_key,
            fence: None,
            reply: ReplyRoute::default(),
        };
        let frame = Frame { source: self.me.clone(), target: call.peer, message: Message::Request(request) };
        self.out.sends.push_back(Send { link, what: SendWhat::Frame { id: id.0, frame, claim: Some(claim) } });
        Ok(())
    }

    fn attach(&mut self, key: u64, correlation: Correlation, now: Now) {
        let Some(stream) = self.subscriptions.attaching(key) else { return };
        let id = self.internal_id();
        self.request(id, subscription_call(&stream, "on"), correlation, Purpose::Subscribe(key), now);
    }

    /// Attaches again. The correlation is made of our epoch and a number never used before: unique, if not random.
    fn reattach(&mut self, key: u64, now: Now) {
        let correlation = format!("{}-{}-{key}", self.server.epoch(), self.next_internal);
        self.attach(key, correlation.into(), now);
    }

    fn internal_id(&mut self) -> CallId {
        self.next_internal += 1;
        CallId(self.next_internal)
    }

    fn rejected(&mut self, id: u64, why: Rejection) {
        match self.calls.take(CallId(id)) {
            Some(pending) => self.resolve(CallId(id), &pending, Err(calls::rejected(why))),
            None => self.out.note(Note::Unwritten(why)),
        }
    }

    /// A request taken out of the table is told to whoever made it.
    fn resolve(&mut self, id: CallId, pending: &Pending, outcome: Result<Answered, CallError>) {
        if outcome.as_ref().map_or(true, |answered| answered.ticket_expires_ms.is_none()) {
            self.tickets.forget_early(&pending.correlation);
        }
        self.tell(id, pending.purpose, outcome);
    }

    fn tell(&mut self, id: CallId, purpose: Purpose, outcome: Result<Answered, CallError>) {
        match purpose {
            Purpose::Caller => self.out.event(NodeEvent::Resolved(id, outcome)),
            Purpose::Unsubscribe => {}
            Purpose::Subscribe(key) => {
                let delivery = match outcome {
                    Ok(_) => Delivery::Attached,
                    Err(error) => Delivery::Failed(error),
                };
                for listener in self.subscriptions.attached(key, delivery == Delivery::Attached) {
                    self.out.event(NodeEvent::Delivery(listener, delivery.clone()));
                }
            }
        }
    }
}

// What frames say.
impl NodeState {
    fn frame(&mut self, link: LinkId, frame: Frame, now: Now) {
        if frame.source != self.me && self.roster.heard(&frame.source, link, now.unix_ms) {
            self.out.event(NodeEvent::NetworkChanged);
        }
        let Frame { source, target, message } = frame;
        match message {
            Message::Request(request) if target == self.me => {
                self.server.request(link, source, request, now, &mut self.out);
            }
            Message::Request(request) => self.server.no_route(link, &source, &target, request, &mut self.out),
            Message::Reply(_) | Message::Event { .. } if target != self.me => {}
            Message::Reply(reply) => self.reply(&source, reply, now),
            Message::Event { path, event, args, stamp } => {
                let mut listeners = self.subscriptions.listeners(&source, path, event);
                let last = listeners.pop();
                for id in listeners {
                    let delivery = Delivery::Event { args: args.clone(), stamp: stamp.clone(), at_ms: now.unix_ms };
                    self.out.event(NodeEvent::Delivery(id, delivery));
                }
                if let Some(id) = last {
                    self.out.event(NodeEvent::Delivery(id, Delivery::Event { args, stamp, at_ms: now.unix_ms }));
                }
            }
        }
    }

    fn reply(&mut self, from: &PeerName, reply: Reply, now: Now) {
        let Reply { correlation, answer, .. } = reply;
        let Some((id, pending)) = self.calls.find(&correlation) else {
            return self.unmatched(from, &correlation, answer);
        };
        // W-071: an error may come from a relay in between; anything else only from the peer that was asked.
        if !matches!(answer, Answer::Error(_)) && pending.peer != *from {
            let asked = pending.peer.clone();
            return self.out.note(Note::ForeignReply { asked, from: from.clone() });
        }
        if let Answer::Ticket(ticket) = answer {
            return self.tickets.hold(&correlation, ticket);
        }
        let Some(pending) = self.calls.take(id) else { return };
        match answer {
            Answer::Value(value) => {
                self.resolve(id, &pending, Ok(Answered { value, ticket_expires_ms: None }));
            }
            Answer::Deferred(receipt) => {
                let (at, updates) = self.tickets.open(id, &correlation, &pending.peer, receipt.as_ref(), now);
                self.resolve(id, &pending, Ok(Answered { value: receipt, ticket_expires_ms: Some(at) }));
                for (call, update) in updates {
                    self.out.event(NodeEvent::Ticket(call, update));
                }
            }
            Answer::Error(error) => self.resolve(id, &pending, Err(CallError::Refused(error))),
            Answer::Ticket(_) => {}
        }
    }

    /// An answer to nothing that waits: a ticket for an open one, or late.
    fn unmatched(&mut self, from: &PeerName, correlation: &Correlation, answer: Answer) {
        let Answer::Ticket(ticket) = answer else {
            return self.out.note(Note::LateReply(from.clone()));
        };
        match self.tickets.update(correlation, from, ticket) {
            Some((call, update)) => self.out.event(NodeEvent::Ticket(call, update)),
            None => self.out.note(Note::StrayTicket(from.clone())),
        }
    }
}

fn subscription_call(stream: &Stream, method: &str) -> Call {
    Call {
        peer: stream.peer.clone(),
        namespace: stream.namespace.clone(),
        method: method.into(),
        args: vec![stream.event.as_str().into()],
        timeout: Some(SUBSCRIBE_TIMEOUT),
        idempotency_key: None,
    }
}
