//! The responder: what a request meets, in the order of wire.md 5.1, and what our subscribers are told.

mod authority;
mod context;
mod data;
mod dispatch;
mod introspection;
mod later;
mod streams;
mod unwritten;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use super::{
    Now, Outputs, SNAPSHOT,
    component::{Commit, Component},
    counters::Counters,
    repeats::{Command, Repeats},
};
use crate::{
    contract::{ServedNamespace, Types, context::Topology},
    link::{LinkId, Origin},
    wire::{Correlation, Frame, Map, Message, PeerName, RemoteError, Reply, ReplyRoute, Request, Value, frame::Answer},
};
use context::Watched;
use later::Later;
use streams::Streams;
use unwritten::Sent;

/// What our description says of us as a whole.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    /// The version of the whole contract.
    pub version: Option<String>,
    /// Named types of every namespace.
    pub types: Types,
    /// The same as written, for the description.
    pub types_entry: Arc<Map>,
    /// Whether `msgrpc` is served: it is how a model finds out what we are.
    pub introspection: bool,
    /// Where our instances stand and what they provide; without it, our root stands alone.
    pub topology: Option<Topology>,
}

/// A namespace to serve.
#[derive(Clone, Debug)]
pub struct Exposed {
    /// Its name.
    pub name: String,
    /// What it declares: methods, events, capabilities, component types.
    pub surface: ServedNamespace,
    /// Whether arguments are checked against what is declared.
    pub validate: bool,
    /// The first props and state of a component.
    pub component: Option<(Map, Map)>,
    /// How many commands may wait for the one that runs.
    pub mailbox: usize,
    /// Whether a method that sets any path is accepted (S-088).
    pub path_writes: bool,
}

/// How many commands wait for one namespace unless its host says otherwise (wire.md 2).
pub const MAILBOX: usize = 100;
/// How many methods may run at once, all namespaces together.
const MAX_RUNNING: usize = 1000;

/// Names one run of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunId(u64);

/// A call that passed every check and is to be run now.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// What to report with.
    pub run: RunId,
    /// Who calls.
    pub caller: PeerName,
    /// Whether that is sure. Whoever lets a caller do more than others must look.
    pub origin: Origin,
    /// The namespace.
    pub namespace: String,
    /// The method.
    pub method: String,
    /// Its arguments.
    pub args: Vec<Value>,
}

/// How a method fails: with a code of its own choosing, of those a method may choose (wire.md 5.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code; one that a method may not choose is answered as `Exception` (S-013).
    pub code: String,
    /// The text.
    pub message: String,
}

impl Failure {
    /// The method failed.
    pub fn exception(message: impl Into<String>) -> Self {
        Self { code: "Exception".into(), message: message.into() }
    }

    /// The method failed, with this code.
    pub fn coded(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// The codes a method may choose (S-013).
pub const METHOD_CODES: [&str; 9] = [
    "Unauthorized",
    "Forbidden",
    "InvalidParams",
    "IncompatibleVersion",
    "ClassNotFound",
    "MethodNotFound",
    "TransportError",
    "Timeout",
    "UnknownOutcome",
];

/// Everything we serve.
#[derive(Debug)]
pub(super) struct Server {
    me: PeerName,
    serving: Serving,
    /// Boxed: a tree has room for eleven where there is one.
    namespaces: BTreeMap<String, Box<Served>>,
    topology: Topology,
    watched: Watched,
    streams: Streams,
    counters: Counters,
    repeats: Repeats,
    sent: Sent,
    running: HashMap<RunId, Box<Accepted>>,
    later: Later,
    next_run: u64,
    next_frame: u64,
}

/// One namespace, as it stands.
#[derive(Debug)]
struct Served {
    exposed: Exposed,
    component: Option<Component>,
    /// Nobody is told what it emits and commits.
    muted: bool,
    /// The command that runs; others of this namespace wait.
    busy: Option<RunId>,
    waiting: VecDeque<Accepted>,
}

/// A request that was accepted: it runs, or waits to.
#[derive(Debug)]
struct Accepted {
    link: LinkId,
    origin: Origin,
    source: PeerName,
    request: Request,
    arrived: Now,
    /// Whether it is a command, of which one runs at a time per namespace.
    serial: bool,
    /// What remembers a keyed command, if this is one.
    command: Option<Command>,
}

/// Ids of frames that no rejection resolves; they only have to differ from those of calls.
const FRAMES: u64 = 3 << 62;

impl Server {
    pub(super) fn new(me: PeerName, epoch: String) -> Self {
        Self {
            topology: Topology::new(me.clone(), &epoch),
            watched: Watched::default(),
            me,
            serving: Serving::default(),
            namespaces: BTreeMap::new(),
            streams: Streams::default(),
            counters: Counters::new(epoch),
            repeats: Repeats::default(),
            sent: Sent::default(),
            running: HashMap::new(),
            later: Later::default(),
            next_run: 0,
            next_frame: FRAMES,
        }
    }

    #[cfg(test)]
    pub(super) fn epoch(&self) -> &str {
        self.counters.epoch()
    }

    pub(super) fn be_light(&mut self) {
        self.repeats.be_light();
    }

    pub(super) fn serve(&mut self, mut serving: Serving) {
        if let Some(topology) = serving.topology.take() {
            self.topology = topology;
            self.watched.moved();
        }
        self.serving = serving;
    }

    /// Stands a namespace up. One of that name gives way: what waits for it certainly did not run, a command of it that
    /// runs still keeps the next one waiting, and whoever listens goes on listening to what is still there.
    pub(super) fn expose(&mut self, exposed: Exposed, instance: String, now: Now, out: &mut Outputs) {
        for declared in &exposed.surface.events {
            self.counters.declare(&exposed.name, &declared.name, now.unix_ms);
        }
        let component = exposed.component.clone().map(|(props, state)| Component::new(instance, props, state));
        let (name, emits, observable) = (exposed.name.clone(), exposed.surface.emitter, component.is_some());
        let mut runs = self.running.iter();
        let busy = runs.find(|(_, accepted)| accepted.serial && accepted.request.path == name).map(|(run, _)| *run);
        let served = Box::new(Served { exposed, component, muted: false, busy, waiting: VecDeque::new() });
        let Some(replaced) = self.namespaces.insert(name.clone(), served) else { return };
        self.refuse_retired(replaced.waiting, out);
        self.retire_streams(&name, |event| if event == SNAPSHOT { !observable } else { !emits }, out);
        if let Some(component) = self.namespaces.get_mut(&name).and_then(|served| served.component.as_mut()) {
            component.tell();
        }
    }

    /// Takes a namespace down: what waits for it certainly did not run, and its subscribers are told.
    pub(super) fn withdraw(&mut self, namespace: &str, out: &mut Outputs) {
        let Some(served) = self.namespaces.remove(namespace) else { return };
        self.refuse_retired(served.waiting, out);
        self.retire_streams(namespace, |_| true, out);
    }

    fn refuse_retired(&mut self, waiting: VecDeque<Accepted>, out: &mut Outputs) {
        for accepted in waiting {
            let text = retired(&accepted.request);
            self.refuse(&accepted.source, accepted.link, &accepted.request, "OwnershipChanged", text, out);
        }
    }

    fn retire_streams(&mut self, namespace: &str, ends: impl Fn(&str) -> bool, out: &mut Outputs) {
        for (subscriber, link) in self.streams.withdraw(namespace, ends) {
            let mut told = Map::new();
            told.insert("namespace", namespace);
            told.insert("generation", 0);
            self.send_event(&subscriber, link, namespace, "$retired", vec![told.into()], None, out);
        }
    }

    pub(super) fn commit(&mut self, namespace: &str, change: Commit) {
        if let Some(component) = self.namespaces.get_mut(namespace).and_then(|served| served.component.as_mut()) {
            component.commit(change);
        }
    }

    pub(super) fn mute(&mut self, namespace: &str, muted: bool) {
        let Some(served) = self.namespaces.get_mut(namespace) else { return };
        let spoke = std::mem::replace(&mut served.muted, muted);
        if let Some(component) = served.component.as_mut().filter(|_| spoke && !muted) {
            component.tell();
        }
    }

    fn is_muted(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|served| served.muted)
    }

    /// A component as it stands.
    #[cfg(test)]
    pub(super) fn snapshot(&self, namespace: &str) -> Option<Value> {
        Some(self.namespaces.get(namespace)?.component.as_ref()?.snapshot(None))
    }

    /// How many subscriptions of others are held, and how many streams that is.
    #[cfg(test)]
    pub(super) fn subscriptions(&self) -> (usize, usize) {
        self.streams.held()
    }

    /// How many subscriptions of others to context are held.
    #[cfg(test)]
    pub(super) fn context_held(&self) -> usize {
        self.watched.len()
    }

    /// How many listen to this.
    #[cfg(test)]
    pub(super) fn subscribers(&self, namespace: &str, event: &str) -> u64 {
        self.streams.subscribers(namespace, event)
    }

    /// A peer is gone: it no longer listens (W-068), nor waits for an answer.
    pub(super) fn peer_gone(&mut self, peer: &PeerName, out: &mut Outputs) {
        self.streams.peer_gone(peer);
        self.watched.peer_gone(peer);
        self.caller_gone(peer, out);
    }

    /// A request on somebody else's topic: we carry nobody (wire.md 10.6).
    pub(super) fn no_route(
        &mut self,
        link: LinkId,
        source: &PeerName,
        target: &PeerName,
        request: Request,
        out: &mut Outputs,
    ) {
        let text = format!("{}: no route to '{target}'", self.me);
        let error = RemoteError { code: "TransportError".into(), name: ERROR_NAME.into(), message: text };
        self.send_reply(source, link, request.correlation, request.reply, Answer::Error(error), out);
    }
}

// Answers.
impl Server {
    /// Answers a request, and remembers the answer for one that is delivered again.
    fn answer(&mut self, source: &PeerName, link: LinkId, request: &Request, answer: Answer, out: &mut Outputs) {
        self.repeats.answered(source, &request.correlation, request.reply.clone(), &answer);
        self.send_reply(source, link, request.correlation.clone(), request.reply.clone(), answer, out);
    }

    fn refuse(
        &mut self,
        source: &PeerName,
        link: LinkId,
        request: &Request,
        code: &str,
        message: impl Into<String>,
        out: &mut Outputs,
    ) {
        let error = RemoteError { code: code.into(), name: ERROR_NAME.into(), message: message.into() };
        self.answer(source, link, request, Answer::Error(error), out);
    }

    fn send_reply(
        &mut self,
        to: &PeerName,
        link: LinkId,
        correlation: Correlation,
        route: ReplyRoute,
        answer: Answer,
        out: &mut Outputs,
    ) {
        let id = self.frame_id();
        self.sent.remember(id, to, link, &correlation, &route, &answer);
        let reply = Reply { correlation, route, answer };
        let frame = Frame { source: self.me.clone(), target: to.clone(), message: Message::Reply(reply) };
        out.frame(link, id, frame);
    }

    fn frame_id(&mut self) -> u64 {
        self.next_frame += 1;
        self.next_frame
    }
}

/// The class every error of a dispatcher carries (wire.md 5.7).
const ERROR_NAME: &str = "RpcError";

fn retired(request: &Request) -> String {
    format!(
        "{}.{} was queued against an instance that has since been retired, so it certainly did not run",
        request.path, request.method
    )
}
