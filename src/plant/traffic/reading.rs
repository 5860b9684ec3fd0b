//! What each message is: its kind, its names, and where it belongs.

use super::{
    Onlooker,
    line::{Answered, Body, Line, LineKind, cut},
    mirrored::MIRRORED_TICKET,
    pairing::{Asked, Belongs, How, Key},
};
use crate::link::LinkId;
use crate::wire::{
    Message, PeerName, RemoteError, Reply, Request, Stamp, Value,
    frame::{Answer, Ticket},
    mqtt::{Overheard, Said},
};

/// When something was heard, and where.
#[derive(Clone, Copy, Debug)]
pub(in crate::plant) struct Moment {
    /// In microseconds since the window began.
    pub(in crate::plant) us: u64,
    /// In milliseconds since the Unix epoch.
    pub(in crate::plant) unix_ms: i64,
    /// Over which link.
    pub(in crate::plant) link: LinkId,
}

/// The body of a frame, as far as it was read.
pub(super) struct Read {
    pub(super) whole: bool,
    pub(super) bytes: usize,
}

impl Onlooker {
    /// Takes in one message.
    pub(in crate::plant) fn hears(&mut self, overheard: Overheard, at: Moment) {
        let Overheard { to, bytes, said } = overheard;
        self.seen.heard.add(bytes);
        let line = blank(cut(&to), bytes, at);
        match said {
            Said::Message { source, message, thread, read } => {
                self.frames = true;
                let line = Line { source: Some(source.as_str().into()), ..line };
                let read = Read { whole: read, bytes };
                match message {
                    Message::Request(request) => self.request(line, request, &source, &thread, &read, at),
                    Message::Reply(reply) => self.reply(line, reply, &source, &thread, &read, at),
                    Message::Event { path, event, args, stamp } => {
                        let emission = Emission { path, event, args, stamp };
                        self.event(line, emission, &to, &read);
                    }
                }
            }
            Said::Presence { state } => {
                let line = Line { kind: LineKind::Presence, what: state, source: Some(line.target.clone()), ..line };
                self.place(line, None);
            }
            Said::Foreign => self.place(Line { kind: LineKind::Foreign, what: "foreign", ..line }, None),
            Said::Unreadable { source, problem } => {
                self.seen.unreadable += 1;
                let (source, error) = (source.as_deref().map(cut), Some(cut(&problem.to_string())));
                self.place(Line { kind: LineKind::Unreadable, what: "unreadable", source, error, ..line }, None);
            }
        }
    }

    pub(super) fn request(
        &mut self,
        line: Line,
        request: Request,
        source: &PeerName,
        thread: &str,
        read: &Read,
        at: Moment,
    ) {
        let what = match request.method.as_str() {
            "on" => "subscribe",
            "off" | "removeListener" => "unsubscribe",
            "$data" => "rows",
            "$acquire" | "$release" => "control",
            _ if request.path == "msgrpc" => "introspection",
            _ => "call",
        };
        let subscribes = matches!(what, "subscribe" | "unsubscribe");
        let event = request.args.first().and_then(Value::as_str).filter(|_| subscribes).map(cut);
        let mut line = Line {
            kind: LineKind::Post,
            what,
            namespace: Some(cut(&request.path)),
            method: Some(cut(&request.method)),
            event,
            id: Some(text(&request.correlation.0)),
            body: self.body(read, || Value::Array(request.args)),
            ..line
        };
        let relevant = self.is_relevant(&line, Some(&request.path), None);
        let asked = Asked {
            at_us: at.us,
            link: at.link,
            caller: source.clone(),
            target: line.target.clone(),
            namespace: line.namespace.as_deref().unwrap_or_default().into(),
            method: line.method.as_deref().unwrap_or_default().into(),
            line: None,
            relevant,
            receipt: false,
        };
        let key = Key::of(&[&[at.link.0], thread.as_bytes(), &request.correlation.0]);
        line.repeat = !self.pairing.asked(key, asked);
        let repeat = line.repeat;
        let listed = self.count(line, relevant);
        if !repeat {
            self.seen.counts.calls += u64::from(relevant);
            self.pairing.listed(key, listed);
        }
    }

    pub(super) fn reply(&mut self, line: Line, reply: Reply, source: &PeerName, thread: &str, read: &Read, at: Moment) {
        let answer = reply.answer;
        let (kind, what, how) = match &answer {
            Answer::Value(_) => (LineKind::Success, "result", How::Result),
            Answer::Deferred(_) => (LineKind::Success, "receipt", How::Receipt),
            Answer::Error(_) => (LineKind::Error, "error", How::Error),
            Answer::Ticket(Ticket::Progress(_)) => (LineKind::Ticket, "progress", How::Progress),
            Answer::Ticket(Ticket::Resolved(_)) => (LineKind::Ticket, "resolved", How::Ended),
            Answer::Ticket(Ticket::Rejected(_)) => (LineKind::Ticket, "rejected", How::Ended),
        };
        let (value, error) = match answer {
            Answer::Value(value)
            | Answer::Deferred(value)
            | Answer::Ticket(Ticket::Progress(value) | Ticket::Resolved(value)) => (value, None),
            Answer::Error(error) | Answer::Ticket(Ticket::Rejected(error)) => (None, Some(error)),
        };
        // A hub does not tell which later answer it is.
        let what = if line.what.is_empty() { what } else { line.what };
        let mut line = Line { kind, what, id: Some(text(&reply.correlation.0)), ..line };
        match error {
            Some(RemoteError { code, message, .. }) => {
                line.code = Some(cut(&code));
                line.error = Some(cut(&message)).filter(|text| !text.is_empty());
            }
            None => line.body = self.body(read, || value.unwrap_or(Value::Null)),
        }
        let key = Key::of(&[&[at.link.0], thread.as_bytes(), &reply.correlation.0]);
        match self.pairing.answered(key, source, how) {
            Belongs::To(asked) => self.first(line, &asked, how, at),
            Belongs::Again(asked) => {
                // Nor does a hub tell a receipt from a result, so that later answers come after what ended the call.
                line.repeat = line.what != MIRRORED_TICKET;
                self.of_call(line, &asked);
            }
            Belongs::Nowhere => {
                line.without_call = true;
                let namespace = line.namespace.clone();
                self.place(line, namespace.as_deref());
            }
        }
    }

    /// An answer that its call was waiting for.
    fn first(&mut self, mut line: Line, asked: &Asked, how: How, at: Moment) {
        // A hub says how long it took where the frames pass, which is nearer to the truth than when they came here.
        let took = line.took_us.unwrap_or_else(|| at.us.saturating_sub(asked.at_us));
        line.took_us = Some(took);
        let answers = matches!(how, How::Result | How::Error | How::Receipt);
        if answers && asked.relevant {
            self.seen.counts.answered += 1;
            self.latency.took(took);
        } else if how == How::Ended && !asked.receipt && asked.relevant {
            // Its receipt was not heard.
            self.seen.counts.answered += 1;
        }
        let answer = match how {
            How::Result => Some(Answered::Success),
            How::Error => Some(Answered::Error),
            How::Receipt => Some(Answered::Receipt),
            How::Ended => Some(Answered::Ticket),
            How::Progress => None,
        };
        let call = asked.line.and_then(|line| self.seen.lines.get_mut(line));
        if let (Some(call), Some(answer)) = (call, answer) {
            call.answer = Some(answer);
        }
        self.of_call(line, asked);
    }

    /// An answer whose call was heard: it goes to whoever made it, whatever its topic is called.
    fn of_call(&mut self, mut line: Line, asked: &Asked) {
        line.target = asked.caller.as_str().into();
        line.namespace = Some(asked.namespace.to_string());
        line.method = Some(asked.method.to_string());
        let relevant = self.is_relevant(&line, None, Some(asked));
        self.count(line, relevant);
    }

    pub(super) fn event(&mut self, line: Line, emission: Emission, to: &str, read: &Read) {
        let Emission { path, event, args, stamp } = emission;
        let what = if event == "$snapshot" { "snapshot" } else { "event" };
        let repeat = stamp.as_ref().filter(|_| what == "event").is_some_and(|stamp| {
            let source = line.source.as_deref().unwrap_or_default();
            let parts = [to, source, path.as_deref().unwrap_or_default(), &event, &stamp.epoch];
            let parts = parts.map(str::as_bytes);
            let seq = stamp.seq.to_be_bytes();
            self.pairing.emitted_again(Key::of(&[&parts[..], &[&seq[..]]].concat()))
        });
        let line = Line {
            kind: LineKind::Event,
            what,
            namespace: path.as_deref().map(cut),
            event: Some(cut(&event)),
            seq: stamp.map(|stamp| stamp.seq),
            repeat,
            body: self.body(read, || Value::Array(args)),
            ..line
        };
        self.place(line, path.as_deref());
    }

    /// What is kept of a body, if any is wanted.
    fn body(&self, read: &Read, value: impl FnOnce() -> Value) -> Option<Body> {
        self.filter.payloads.then(|| if read.whole { Body::of(value()) } else { Body::TooLarge(read.bytes) })
    }

    /// Counts and lists what belongs to no call.
    pub(super) fn place(&mut self, line: Line, namespace: Option<&str>) {
        let relevant = self.is_relevant(&line, namespace, None);
        self.count(line, relevant);
    }

    /// Counts a line and lists it; says where it is listed.
    fn count(&mut self, mut line: Line, relevant: bool) -> Option<usize> {
        if !relevant {
            self.seen.not_listed.filtered += 1;
            return None;
        }
        line.own = line.source.as_deref() == Some(self.me.as_str()) || line.target == self.me;
        let counts = &mut self.seen.counts;
        counts.frames += 1;
        counts.bytes += line.bytes as u64;
        counts.own += u64::from(line.own);
        counts.repeats += u64::from(line.repeat);
        counts.without_call += u64::from(line.without_call);
        match line.kind {
            LineKind::Post | LineKind::Success => {}
            LineKind::Error => counts.errors += 1,
            LineKind::Ticket => counts.tickets += 1,
            LineKind::Event => counts.events += 1,
            LineKind::Presence => counts.presence += 1,
            LineKind::Batch => counts.batches += 1,
            LineKind::Unreadable => counts.unreadable += 1,
            LineKind::Foreign => counts.foreign += 1,
        }
        self.list(line)
    }

    /// Whether it passes the filters. `namespace` as it came, before it was cut; an answer has that of its call.
    fn is_relevant(&self, line: &Line, namespace: Option<&str>, call: Option<&Asked>) -> bool {
        let peer = |wanted: &String| line.source.as_ref() == Some(wanted) || line.target == *wanted;
        let by_peer = self.filter.peer.as_ref().is_none_or(peer) || call.is_some_and(|call| call.relevant);
        let by_namespace = match call {
            Some(call) => self.filter.namespace.is_none() || call.relevant,
            None => self.filter.namespace.as_deref().is_none_or(|wanted| namespace == Some(wanted)),
        };
        by_peer && by_namespace
    }
}

/// An event as it was heard.
pub(super) struct Emission {
    pub(super) path: Option<String>,
    pub(super) event: String,
    pub(super) args: Vec<Value>,
    pub(super) stamp: Option<Stamp>,
}

/// A correlation, as text.
fn text(bytes: &[u8]) -> String {
    cut(&String::from_utf8_lossy(bytes.get(..1024).unwrap_or(bytes)))
}

pub(super) fn blank(target: String, bytes: usize, at: Moment) -> Line {
    Line {
        at_ms: at.unix_ms,
        link: at.link,
        kind: LineKind::Foreign,
        what: "",
        source: None,
        target,
        namespace: None,
        method: None,
        event: None,
        id: None,
        seq: None,
        bytes,
        took_us: None,
        without_call: false,
        answer: None,
        repeat: false,
        own: false,
        code: None,
        error: None,
        body: None,
    }
}
