//! What a hub mirrors, as the same messages that a broker shows: where it tells less, so do we.

use super::{
    Moment, Onlooker,
    line::{Line, LineKind, cut},
    reading::{Emission, Read, blank},
};
use crate::wire::{
    Correlation, Message, PeerName, RemoteError, Reply, ReplyRoute, Request, Value,
    bus::{Mirrored, MirroredKind},
    frame::{Answer, Ticket},
};

/// What a later answer is called of which a hub does not tell more.
pub(super) const MIRRORED_TICKET: &str = "ticket";

/// A body that is there as a whole. A hub does not say how large the packet was.
const READ: Read = Read { whole: true, bytes: 0 };

impl Onlooker {
    /// Takes in one message that a hub passed on.
    pub(in crate::plant) fn hears_mirrored(&mut self, mirrored: Mirrored, at: Moment) {
        self.seen.heard.add(0);
        let line = blank(cut(&mirrored.target), 0, at);
        let Ok(source) = PeerName::hub(&mirrored.source) else {
            return self.unreadable(line, "a source that is no name");
        };
        self.frames = true;
        let line = Line { source: Some(source.as_str().into()), ..line };
        match mirrored.kind {
            MirroredKind::Batch => {
                self.seen.batches += 1;
                self.place(Line { kind: LineKind::Batch, what: "batch", ..line }, None);
            }
            MirroredKind::Event => {
                let args = list(mirrored.carries);
                let event = mirrored.event.unwrap_or_default();
                let to = line.target.clone();
                self.event(line, Emission { path: mirrored.namespace, event, args, stamp: None }, &to, &READ);
            }
            MirroredKind::Post | MirroredKind::Success | MirroredKind::Error | MirroredKind::Ticket => {
                self.conversation(line, &mirrored, &source, at);
            }
        }
    }

    /// Something of a hub that cannot be used.
    pub(in crate::plant) fn hears_nonsense(&mut self, hub: &PeerName, problem: &str, at: Moment) {
        self.seen.heard.add(0);
        self.unreadable(Line { source: Some(hub.as_str().into()), ..blank(String::new(), 0, at) }, problem);
    }

    /// A peer came to a link, or left it, as everybody there is told.
    pub(in crate::plant) fn sees(&mut self, peer: &PeerName, state: &'static str, at: Moment) {
        self.seen.heard.add(0);
        let line = blank(peer.as_str().into(), 0, at);
        self.place(Line { kind: LineKind::Presence, what: state, source: Some(peer.as_str().into()), ..line }, None);
    }

    fn unreadable(&mut self, line: Line, problem: &str) {
        self.seen.unreadable += 1;
        self.place(Line { kind: LineKind::Unreadable, what: "unreadable", error: Some(cut(problem)), ..line }, None);
    }

    fn conversation(&mut self, line: Line, mirrored: &Mirrored, source: &PeerName, at: Moment) {
        let asks = mirrored.kind == MirroredKind::Post;
        // A correlation is its caller's own.
        let caller = if asks { source.as_str().to_owned() } else { mirrored.target.clone() };
        let Some(message) = message(mirrored) else { return self.unreadable(line, "a frame without an id") };
        match message {
            Message::Request(request) => self.request(line, request, source, &caller, &READ, at),
            Message::Reply(reply) => {
                let what = if mirrored.kind == MirroredKind::Ticket { MIRRORED_TICKET } else { "" };
                let (namespace, method) = (mirrored.namespace.as_deref().map(cut), mirrored.method.as_deref().map(cut));
                let took_us = mirrored.ms.map(micros);
                self.reply(Line { what, namespace, method, took_us, ..line }, reply, source, &caller, &READ, at);
            }
            Message::Event { .. } => {}
        }
    }
}

/// The request or answer; nothing if it does not say which.
fn message(mirrored: &Mirrored) -> Option<Message> {
    let correlation = Correlation::from(mirrored.id.clone()?);
    let route = ReplyRoute::default();
    let error = || RemoteError {
        code: mirrored.code.clone().unwrap_or_else(|| "Exception".into()),
        name: String::new(),
        message: mirrored.error.clone().unwrap_or_default(),
    };
    let answer = match mirrored.kind {
        MirroredKind::Post => {
            return Some(Message::Request(Request {
                correlation,
                path: mirrored.namespace.clone().unwrap_or_default(),
                method: mirrored.method.clone().unwrap_or_default(),
                args: list(mirrored.carries.clone()),
                version: None,
                ttl: None,
                expiry: None,
                idempotency_key: None,
                fence: None,
                reply: route,
            }));
        }
        MirroredKind::Error => Answer::Error(error()),
        MirroredKind::Ticket if mirrored.code.is_some() || mirrored.error.is_some() => {
            Answer::Ticket(Ticket::Rejected(error()))
        }
        MirroredKind::Ticket => Answer::Ticket(Ticket::Progress(mirrored.carries.clone())),
        MirroredKind::Success | MirroredKind::Event | MirroredKind::Batch => Answer::Value(mirrored.carries.clone()),
    };
    Some(Message::Reply(Reply { correlation, route, answer }))
}

fn list(carries: Option<Value>) -> Vec<Value> {
    match carries {
        Some(Value::Array(items)) => items,
        Some(other) => vec![other],
        None => Vec::new(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; what is too large saturates"
)]
fn micros(ms: f64) -> u64 {
    (ms * 1000.0) as u64
}
