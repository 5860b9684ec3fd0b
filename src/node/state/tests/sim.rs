//! Two machines, a broker between them, and a clock that moves only when told.
//!
//! Each machine has one link with a queue in each direction, as the real one has, so that a loss can be noticed late on
//! either side. What the broker holds is delivered in any order, doubled or lost, as the test says.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::super::{
    Call, CallId, Exposed, Failure, Incoming, MAILBOX, NodeEvent, NodeState, Now, RunId, Send, SendWhat, Serving,
};
use crate::{
    contract::{Contract, ServedNamespace},
    link::{DownKind, DownReason, LinkEvent, LinkId, Rejection},
    node::{error::CallError, state::Answered, testing::name},
    wire::{Frame, Message, Value},
};

/// The only link of each machine.
pub(super) const LINK: LinkId = LinkId(0);

/// One machine with its link.
pub(super) struct Side {
    pub(super) state: NodeState,
    pub(super) up: bool,
    to_link: VecDeque<SendWhat>,
    to_node: VecDeque<LinkEvent>,
    /// Everything the machine said, taken out by the test.
    pub(super) events: Vec<NodeEvent>,
}

/// Both, and what is between them.
pub(super) struct World {
    pub(super) now: Now,
    pub(super) sides: Vec<Side>,
    /// What the broker holds.
    pub(super) flying: Vec<Frame>,
    /// Requests that left a link, by correlation text, in order.
    pub(super) left: Vec<(String, Now)>,
}

impl World {
    /// Machines of these names, links up.
    pub(super) fn new(names: &[&str]) -> Self {
        let now = Now { at: Instant::now(), unix_ms: 1_800_000_000_000 };
        let side = |text: &&str| Side {
            state: NodeState::new(name(text), [LINK], format!("epoch-{text}"), [7; 16]),
            up: false,
            to_link: VecDeque::new(),
            to_node: VecDeque::new(),
            events: Vec::new(),
        };
        let mut world = Self { now, sides: names.iter().map(side).collect(), flying: Vec::new(), left: Vec::new() };
        for at in 0..names.len() {
            world.join(at);
        }
        world.settle();
        world
    }

    /// The side's link comes up; everybody up learns of everybody up.
    pub(super) fn join(&mut self, at: usize) {
        if self.sides[at].up {
            return;
        }
        self.sides[at].up = true;
        self.sides[at].to_node.push_back(LinkEvent::Up);
        let me = self.sides[at].state.name().clone();
        for other in 0..self.sides.len() {
            if other != at && self.sides[other].up {
                let peer = self.sides[other].state.name().clone();
                self.sides[at].to_node.push_back(LinkEvent::Online { peer, shape: None });
                self.sides[other].to_node.push_back(LinkEvent::Online { peer: me.clone(), shape: None });
            }
        }
        self.sides[at].to_node.push_back(LinkEvent::Settled);
    }

    /// The side's link is lost; the others hear of it.
    pub(super) fn cut(&mut self, at: usize) {
        if !self.sides[at].up {
            return;
        }
        self.sides[at].up = false;
        let reason = DownReason { kind: DownKind::Lost, detail: "cut".into() };
        self.sides[at].to_node.push_back(LinkEvent::Down(reason));
        let me = self.sides[at].state.name().clone();
        for other in 0..self.sides.len() {
            if other != at {
                self.sides[other].to_node.push_back(LinkEvent::Offline(me.clone()));
            }
        }
    }

    /// The link takes one thing from its machine: it leaves, or is rejected because the link is down.
    pub(super) fn pump_link(&mut self, at: usize) -> bool {
        let Some(what) = self.sides[at].to_link.pop_front() else { return false };
        match what {
            SendWhat::Frame { id, .. } if !self.sides[at].up => {
                self.sides[at].to_node.push_back(LinkEvent::Rejected { id, why: Rejection::Down });
            }
            SendWhat::Frame { claim, .. } if claim.as_ref().is_some_and(|claim| !claim.take()) => {}
            SendWhat::Frame { frame, .. } => {
                if let Message::Request(request) = &frame.message {
                    let text = String::from_utf8(request.correlation.0.to_vec()).unwrap();
                    self.left.push((text, self.now));
                }
                self.flying.push(*frame);
            }
            SendWhat::Announce(_) => {}
        }
        true
    }

    /// The machine takes one thing from its link.
    pub(super) fn pump_node(&mut self, at: usize) -> bool {
        let Some(event) = self.sides[at].to_node.pop_front() else { return false };
        let now = self.now;
        self.turn(at, |state| state.handle_link(LINK, event, now));
        true
    }

    /// The broker hands over the frame at `index` and keeps it when `again`.
    pub(super) fn deliver(&mut self, index: usize, again: bool) {
        let frame = if again { self.flying[index].clone() } else { self.flying.remove(index) };
        let to = self.sides.iter().position(|side| *side.state.name() == frame.target && side.up);
        if let Some(to) = to {
            self.sides[to].to_node.push_back(LinkEvent::Frame(Box::new(frame)));
        }
    }

    /// Time passes.
    pub(super) fn advance(&mut self, millis: u64) {
        self.now.at += Duration::from_millis(millis);
        self.now.unix_ms += i64::try_from(millis).unwrap();
        let now = self.now;
        for at in 0..self.sides.len() {
            self.turn(at, |state| state.handle_timeout(now));
        }
    }

    /// Feeds one machine and takes its outputs.
    pub(super) fn turn<T>(&mut self, at: usize, feed: impl FnOnce(&mut NodeState) -> T) -> T {
        let side = &mut self.sides[at];
        let fed = feed(&mut side.state);
        side.state.end_turn();
        while let Some(Send { what, .. }) = side.state.poll_send() {
            side.to_link.push_back(what);
        }
        while let Some(event) = side.state.poll_event() {
            side.events.push(event);
        }
        fed
    }

    /// Moves everything that can move, in order, until nothing does.
    pub(super) fn settle(&mut self) {
        loop {
            let mut moved = false;
            for at in 0..self.sides.len() {
                moved |= self.pump_link(at) | self.pump_node(at);
            }
            if !self.flying.is_empty() {
                self.deliver(0, false);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// A call from one side, with a correlation that names it.
    pub(super) fn call(&mut self, at: usize, id: u64, call: Call) {
        let now = self.now;
        self.turn(at, |state| state.call(CallId(id), call, format!("c-{id}").into(), now));
    }

    /// Stands namespaces of a contract up.
    pub(super) fn expose(&mut self, at: usize, document: &serde_json::Value) {
        let (serving, exposed) = served(document);
        let now = self.now;
        self.turn(at, |state| {
            state.serve(serving);
            for exposed in exposed {
                state.expose(exposed, "00000000-instance".into(), now);
            }
        });
    }

    /// Takes the methods that wait to be run.
    pub(super) fn runs(&mut self, at: usize) -> Vec<Incoming> {
        let mut runs = Vec::new();
        self.sides[at].events.retain(|event| match event {
            NodeEvent::Run(incoming) => {
                runs.push(incoming.clone());
                false
            }
            _ => true,
        });
        runs
    }

    /// Ends a run.
    pub(super) fn ran(&mut self, at: usize, run: RunId, result: Result<Option<Value>, Failure>) {
        let now = self.now;
        self.turn(at, |state| state.handle_ran(run, result, now));
    }

    /// Takes how calls ended.
    pub(super) fn resolved(&mut self, at: usize) -> Vec<(u64, Result<Answered, CallError>)> {
        let mut resolved = Vec::new();
        self.sides[at].events.retain(|event| match event {
            NodeEvent::Resolved(id, outcome) => {
                resolved.push((id.0, outcome.clone()));
                false
            }
            _ => true,
        });
        resolved
    }
}

/// A contract as what a machine serves.
pub(super) fn served(document: &serde_json::Value) -> (Serving, Vec<Exposed>) {
    let document = crate::wire::json::from_json(document.clone());
    let contract = Contract::parse(&document).unwrap();
    let expose = |namespace: &crate::contract::Namespace| Exposed {
        name: namespace.name.clone(),
        surface: ServedNamespace::declared(namespace, "Test"),
        validate: namespace.validate,
        component: namespace.component.as_ref().map(|_| Default::default()),
        mailbox: MAILBOX,
        path_writes: false,
    };
    let exposed = contract.namespaces.iter().map(expose).collect();
    let serving = Serving {
        version: contract.version,
        types: contract.types,
        types_entry: contract.types_entry,
        introspection: true,
        topology: None,
    };
    (serving, exposed)
}

/// A call with a timeout of ten seconds.
pub(super) fn call(peer: &str, namespace: &str, method: &str, args: Vec<Value>) -> Call {
    Call {
        peer: name(peer),
        namespace: namespace.into(),
        method: method.into(),
        args,
        timeout: Some(Duration::from_secs(10)),
        idempotency_key: None,
    }
}
