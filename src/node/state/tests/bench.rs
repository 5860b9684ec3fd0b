//! One machine on a bench: what happens to it is done by hand, what it says is picked up.

use std::time::{Duration, Instant};

use super::super::{
    Call, CallId, Delivery, Exposed, Failure, Incoming, NodeEvent, NodeState, Note, Now, RunId, Send, SendWhat,
    Serving, Stream, SubscriptionId, TicketUpdate,
};
use crate::{
    contract::{Surface, context::Topology},
    link::{Claim, DownKind, DownReason, LinkEvent, LinkId, Rejection},
    node::{error::CallError, state::Answered, testing::name},
    wire::{
        Correlation, Frame, Message, PeerName, RemoteError, Reply, ReplyRoute, Request, Value,
        frame::{Answer, Ticket},
    },
};

/// A frame the machine gave to a link.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) link: LinkId,
    pub(super) id: u64,
    pub(super) frame: Frame,
    pub(super) claim: Option<Claim>,
}

impl Given {
    /// The request it holds.
    pub(super) fn request(&self) -> &Request {
        match &self.frame.message {
            Message::Request(request) => request,
            other => panic!("{other:?} is no request"),
        }
    }

    /// The answer it holds.
    pub(super) fn answer(&self) -> &Answer {
        match &self.frame.message {
            Message::Reply(reply) => &reply.answer,
            other => panic!("{other:?} is no reply"),
        }
    }
}

pub(super) const A: LinkId = LinkId(0);
pub(super) const B: LinkId = LinkId(1);

/// The machine, and what it said that nobody picked up yet.
pub(super) struct Bench {
    pub(super) state: NodeState,
    pub(super) now: Now,
    pub(super) given: Vec<Given>,
    pub(super) announced: Vec<Option<String>>,
    pub(super) events: Vec<NodeEvent>,
    /// Where its instances stand, once it serves any.
    pub(super) topology: Option<Topology>,
    next: u64,
}

impl Bench {
    /// A machine with these links, down.
    pub(super) fn down(me: &str, links: &[LinkId]) -> Self {
        let now = Now { at: Instant::now(), unix_ms: 1_800_000_000_000 };
        let state = NodeState::new(name(me), links.iter().copied(), format!("epoch-{me}"), [7; 16]);
        Self { state, now, given: Vec::new(), announced: Vec::new(), events: Vec::new(), topology: None, next: 0 }
    }

    /// A machine with one link, up and settled.
    pub(super) fn new(me: &str) -> Self {
        let mut bench = Self::down(me, &[A]);
        bench.up(A);
        bench
    }

    pub(super) fn turn<T>(&mut self, feed: impl FnOnce(&mut NodeState, Now) -> T) -> T {
        let fed = feed(&mut self.state, self.now);
        self.state.end_turn();
        while let Some(Send { link, what }) = self.state.poll_send() {
            match what {
                SendWhat::Frame { id, frame, claim } => self.given.push(Given { link, id, frame: *frame, claim }),
                SendWhat::Announce(shape) => self.announced.push(shape),
            }
        }
        while let Some(event) = self.state.poll_event() {
            self.events.push(event);
        }
        fed
    }

    pub(super) fn link(&mut self, link: LinkId, event: LinkEvent) {
        self.turn(|state, now| state.handle_link(link, event, now));
    }

    pub(super) fn up(&mut self, link: LinkId) {
        self.link(link, LinkEvent::Up);
        self.link(link, LinkEvent::Settled);
    }

    pub(super) fn lost(&mut self, link: LinkId) {
        let reason = DownReason { kind: DownKind::Lost, detail: "cut".into() };
        self.link(link, LinkEvent::Down(reason));
    }

    pub(super) fn online(&mut self, peer: &str, shape: Option<&str>) {
        self.link(A, LinkEvent::Online { peer: name(peer), shape: shape.map(str::to_owned) });
    }

    pub(super) fn offline(&mut self, peer: &str) {
        self.link(A, LinkEvent::Offline(name(peer)));
    }

    pub(super) fn rejected(&mut self, id: u64, why: Rejection) {
        self.link(A, LinkEvent::Rejected { id, why });
    }

    pub(super) fn advance(&mut self, millis: u64) {
        self.now.at += Duration::from_millis(millis);
        self.now.unix_ms += i64::try_from(millis).unwrap();
        self.turn(NodeState::handle_timeout);
    }

    pub(super) fn serve(&mut self, surface: &Surface, exposed: Vec<Exposed>) {
        let types = crate::contract::Types::default();
        self.serve_typed(surface, types, exposed);
    }

    pub(super) fn serve_typed(&mut self, surface: &Surface, types: crate::contract::Types, exposed: Vec<Exposed>) {
        let serving = Serving {
            version: surface.version.clone(),
            types,
            types_entry: surface.types.clone(),
            introspection: surface.introspection,
            topology: self.topology.take(),
        };
        self.turn(|state, now| {
            state.serve(serving);
            for exposed in exposed {
                state.expose(exposed, "instance-1".into(), now);
            }
        });
    }

    /// A message of `from` to the machine arrives.
    pub(super) fn says(&mut self, from: &str, message: Message) {
        let target = self.state.name().clone();
        self.link(A, LinkEvent::Frame(Box::new(Frame { source: name(from), target, message })));
    }

    /// A request arrives, under a correlation of its own, which is given back.
    pub(super) fn asked(&mut self, from: &str, path: &str, method: &str, args: Vec<Value>) -> Correlation {
        self.next += 1;
        let request = request(&format!("r-{}", self.next), path, method, args);
        let correlation = request.correlation.clone();
        self.says(from, Message::Request(request));
        correlation
    }

    /// A request arrives and is answered at once.
    pub(super) fn answered(&mut self, from: &str, path: &str, method: &str, args: Vec<Value>) -> Answer {
        let correlation = self.asked(from, path, method, args);
        self.take_answer(&correlation).expect("no answer at once")
    }

    /// Picks up the answer to a request.
    pub(super) fn take_answer(&mut self, correlation: &Correlation) -> Option<Answer> {
        let is_it =
            |given: &Given| matches!(&given.frame.message, Message::Reply(reply) if reply.correlation == *correlation);
        let at = self.given.iter().position(is_it)?;
        Some(self.given.remove(at).answer().clone())
    }

    pub(super) fn call(&mut self, id: u64, call: Call) -> Correlation {
        let correlation = Correlation::from(format!("c-{id}"));
        let used = correlation.clone();
        self.turn(|state, now| state.call(CallId(id), call, used, now));
        correlation
    }

    pub(super) fn subscribe(&mut self, id: u64, stream: Stream) {
        self.turn(|state, now| state.subscribe(SubscriptionId(id), stream, format!("s-{id}").into(), now));
    }

    pub(super) fn unsubscribe(&mut self, id: u64) {
        self.turn(|state, now| state.unsubscribe(SubscriptionId(id), format!("u-{id}").into(), now));
    }

    /// The link takes what it was given: it leaves.
    pub(super) fn take(&mut self) -> Vec<Given> {
        let given = std::mem::take(&mut self.given);
        given.into_iter().filter(|given| given.claim.as_ref().is_none_or(Claim::take)).collect()
    }

    pub(super) fn runs(&mut self) -> Vec<Incoming> {
        self.pick(|event| if let NodeEvent::Run(run) = event { Ok(run) } else { Err(event) })
    }

    pub(super) fn ran(&mut self, run: RunId, result: Result<Option<Value>, Failure>) {
        self.turn(|state, now| state.handle_ran(run, result, now));
    }

    pub(super) fn resolved(&mut self) -> Vec<(u64, Result<Answered, CallError>)> {
        self.pick(|event| if let NodeEvent::Resolved(id, outcome) = event { Ok((id.0, outcome)) } else { Err(event) })
    }

    pub(super) fn deliveries(&mut self) -> Vec<(u64, Delivery)> {
        self.pick(|event| if let NodeEvent::Delivery(id, what) = event { Ok((id.0, what)) } else { Err(event) })
    }

    pub(super) fn tickets(&mut self) -> Vec<(u64, TicketUpdate)> {
        self.pick(|event| if let NodeEvent::Ticket(id, what) = event { Ok((id.0, what)) } else { Err(event) })
    }

    pub(super) fn notes(&mut self) -> Vec<Note> {
        self.pick(|event| if let NodeEvent::Note(note) = event { Ok(note) } else { Err(event) })
    }

    fn pick<T>(&mut self, wanted: impl Fn(NodeEvent) -> Result<T, NodeEvent>) -> Vec<T> {
        let mut picked = Vec::new();
        for event in std::mem::take(&mut self.events) {
            match wanted(event) {
                Ok(found) => picked.push(found),
                Err(other) => self.events.push(other),
            }
        }
        picked
    }
}

/// A request that waits for ever.
pub(super) fn request(correlation: &str, path: &str, method: &str, args: Vec<Value>) -> Request {
    Request {
        correlation: correlation.into(),
        path: path.into(),
        method: method.into(),
        args,
        version: None,
        ttl: None,
        expiry: None,
        idempotency_key: None,
        fence: None,
        reply: ReplyRoute::default(),
    }
}

pub(super) fn reply(correlation: &Correlation, answer: Answer) -> Message {
    Message::Reply(Reply { correlation: correlation.clone(), route: ReplyRoute::default(), answer })
}

pub(super) fn ok(value: impl Into<Value>) -> Answer {
    Answer::Value(Some(value.into()))
}

pub(super) fn error(code: &str) -> Answer {
    Answer::Error(RemoteError { code: code.into(), name: "RpcError".into(), message: "no".into() })
}

pub(super) fn progress(value: i64) -> Answer {
    Answer::Ticket(Ticket::Progress(Some(value.into())))
}

pub(super) fn event(path: Option<&str>, event: &str, args: Vec<Value>) -> Message {
    Message::Event { path: path.map(str::to_owned), event: event.into(), args, stamp: None }
}

pub(super) fn stream(peer: &str, namespace: &str, event: &str) -> Stream {
    Stream { peer: name(peer), namespace: namespace.into(), event: event.into() }
}

/// The code of an error.
pub(super) fn code(answer: &Answer) -> &str {
    match answer {
        Answer::Error(error) => &error.code,
        other => panic!("{other:?} is no error"),
    }
}

/// The peer of that name; for comparisons.
pub(super) fn peer(text: &str) -> PeerName {
    name(text)
}
