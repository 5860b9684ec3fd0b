//! A publish as a frame, with the checks in the order of wire.md 4.5. Whatever fails is dropped and reported locally;
//! nothing is sent about it (W-059).

use std::collections::HashSet;

use bytes::Bytes;

use super::{JSON, MSGPACK, Publish, names};
use crate::wire::body::{arguments, emitted, failure, filled};
use crate::wire::error::clip;
use crate::wire::frame::{Answer, Ticket};
use crate::wire::signing::Verifier;
use crate::wire::topic::{Channel, sendable};
use crate::wire::value::MAX_SAFE_INTEGER;
use crate::wire::{
    Correlation, DecodeError, Encoding, Frame, Message, PeerName, Reply, ReplyRoute, Request, Stamp, Topics, Value,
    json, msgpack,
};

/// Reads a frame. Its target is the peer part of the topic, which need not be us; the channel is not compared with the
/// kind, and the layout version is not looked at (W-058). Nobody vouches for its source.
pub fn decode(publish: Publish, topics: &Topics) -> Result<Frame, DecodeError> {
    let target = addressee(&publish.topic, topics)?;
    let (source, message) = read(publish, |named, source| answerable(named, source, topics), anybody)?;
    Ok(Frame { source, target, message })
}

/// Reads a frame whose signature the verifier finds right, of whatever kind it is (W-095); `now` in milliseconds since
/// 1970. The payload is not looked at before that (W-092).
///
/// # Errors
/// What [`decode`] refuses, and [`DecodeError::Unverified`].
pub fn decode_signed(
    publish: Publish,
    topics: &Topics,
    verifier: &mut Verifier,
    now: u64,
) -> Result<Frame, DecodeError> {
    let target = addressee(&publish.topic, topics)?;
    let believe = |source: &PeerName, control: &Control, publish: &Publish| {
        let verified =
            control.covered(publish).and_then(|(covered, marks)| verifier.verify(source, &covered, &marks, now));
        verified.map_err(|why| DecodeError::Unverified { from: source.clone(), why })
    };
    let (source, message) = read(publish, |named, source| answerable(named, source, topics), believe)?;
    Ok(Frame { source, target, message })
}

/// Believes whoever a frame says it is from.
#[expect(clippy::unnecessary_wraps, reason = "it stands where a verifier can")]
pub(super) fn anybody(_: &PeerName, _: &Control, _: &Publish) -> Result<(), DecodeError> {
    Ok(())
}

/// Who says what, whoever it is addressed to. `judge` is asked whether a request can be answered where it wants to be, and
/// then `believe` whether the frame is taken for what it says, before its payload is looked at.
pub(super) fn read(
    mut publish: Publish,
    judge: impl FnOnce(Option<&str>, &PeerName) -> Result<(), DecodeError>,
    believe: impl FnOnce(&PeerName, &Control, &Publish) -> Result<(), DecodeError>,
) -> Result<(PeerName, Message), DecodeError> {
    let control = Control::read(std::mem::take(&mut publish.user_properties))?;
    let source = match control.source.as_deref() {
        Some(name) => PeerName::mqtt(name).map_err(DecodeError::Source)?,
        None => return Err(DecodeError::SourceMissing),
    };
    let encoding = match publish.content_type.as_deref() {
        None | Some("" | MSGPACK) => Encoding::MessagePack,
        Some(JSON) => Encoding::Json,
        Some(other) => return Err(DecodeError::ContentType(clip(other))),
    };
    let kind = control.kind.as_deref().and_then(Kind::parse);
    if let Some(Kind::Request(_)) = kind {
        judge(publish.response_topic.as_deref(), &source)?;
    }
    believe(&source, &control, &publish)?;
    let body = match encoding {
        _ if publish.payload.is_empty() => None,
        Encoding::MessagePack => Some(msgpack::decode(&publish.payload)?),
        Encoding::Json => Some(json::decode(&publish.payload)?),
    };
    let message = match kind {
        None => return Err(DecodeError::Kind(clip(control.kind.as_deref().unwrap_or_default()))),
        Some(Kind::Request(kind)) => {
            let reply = ReplyRoute { topic: publish.response_topic, encoding };
            let correlation = correlation(kind, publish.correlation)?;
            Message::Request(control.request(kind, correlation, body, reply, publish.expiry)?)
        }
        Some(Kind::Reply(kind)) => {
            let correlation = correlation(kind.label(), publish.correlation)?;
            let answer = control.answer(kind, body)?;
            Message::Reply(Reply { correlation, route: ReplyRoute::default(), answer })
        }
        Some(Kind::Event) => control.event(body)?,
    };
    Ok((source, message))
}

fn addressee(topic: &str, topics: &Topics) -> Result<PeerName, DecodeError> {
    match topics.parse(topic) {
        Some((Channel::Request | Channel::Reply | Channel::Event, peer)) => PeerName::mqtt(peer).ok(),
        Some((Channel::Presence, _)) | None => None,
    }
    .ok_or_else(|| DecodeError::Topic(clip(topic)))
}

/// Whether an answer can be sent at all: a command must not run if it cannot.
fn answerable(named: Option<&str>, source: &PeerName, topics: &Topics) -> Result<(), DecodeError> {
    match named {
        Some(topic) => topics.answerable(topic),
        None if sendable(source.as_str()) => Ok(()),
        None => Err(DecodeError::ResponseTopicUnusable(topics.reply_topic(&ReplyRoute::default(), source))),
    }
}

fn correlation(kind: &'static str, bytes: Option<Bytes>) -> Result<Correlation, DecodeError> {
    let bytes = bytes.filter(|bytes| !bytes.is_empty());
    bytes.map(Correlation).ok_or(DecodeError::Missing { kind, field: "correlation" })
}

/// The kinds this link carries.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A request, by its label.
    Request(&'static str),
    Reply(ReplyKind),
    Event,
}

#[derive(Clone, Copy)]
pub(super) enum ReplyKind {
    Result,
    Error,
    Ticket,
}

impl Kind {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "call" => Self::Request("call"),
            "subscribe" => Self::Request("subscribe"),
            "unsubscribe" => Self::Request("unsubscribe"),
            "result" => Self::Reply(ReplyKind::Result),
            "error" => Self::Reply(ReplyKind::Error),
            "ticket" => Self::Reply(ReplyKind::Ticket),
            "event" => Self::Event,
            _ => return None,
        })
    }
}

impl ReplyKind {
    const fn label(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Error => "error",
            Self::Ticket => "ticket",
        }
    }
}

/// The control properties, each at most once.
#[derive(Default)]
pub(super) struct Control {
    pub(super) layout: Option<String>,
    pub(super) source: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) path: Option<String>,
    pub(super) method: Option<String>,
    pub(super) event: Option<String>,
    pub(super) code: Option<String>,
    pub(super) version: Option<String>,
    pub(super) ttl: Option<String>,
    pub(super) idempotency_key: Option<String>,
    pub(super) fence: Option<String>,
    pub(super) deferred: Option<String>,
    pub(super) outcome: Option<String>,
    pub(super) seq: Option<String>,
    pub(super) epoch: Option<String>,
    pub(super) nonce: Option<String>,
    pub(super) time: Option<String>,
    pub(super) signature: Option<String>,
}

impl Control {
    /// Sorts the properties. Ours may not be repeated, known to us or not; foreign ones do not matter (W-056).
    fn read(properties: Vec<(String, String)>) -> Result<Self, DecodeError> {
        let mut control = Self::default();
        let mut unknown = HashSet::new();
        for (name, value) in properties {
            if !name.starts_with("mr-") {
                continue;
            }
            let first = match control.slot(&name) {
                Some(slot) => slot.replace(value).is_none(),
                None => unknown.insert(name.clone()),
            };
            if !first {
                return Err(DecodeError::Repeated(clip(&name)));
            }
        }
        Ok(control)
    }

    fn slot(&mut self, name: &str) -> Option<&mut Option<String>> {
        Some(match name {
            names::LAYOUT => &mut self.layout,
            names::SOURCE => &mut self.source,
            names::KIND => &mut self.kind,
            names::PATH => &mut self.path,
            names::METHOD => &mut self.method,
            names::EVENT => &mut self.event,
            names::CODE => &mut self.code,
            names::VERSION => &mut self.version,
            names::TTL => &mut self.ttl,
            names::IDEMPOTENCY_KEY => &mut self.idempotency_key,
            names::FENCE => &mut self.fence,
            names::DEFERRED => &mut self.deferred,
            names::OUTCOME => &mut self.outcome,
            names::SEQ => &mut self.seq,
            names::EPOCH => &mut self.epoch,
            names::NONCE => &mut self.nonce,
            names::TIME => &mut self.time,
            names::SIGNATURE => &mut self.signature,
            _ => return None,
        })
    }

    fn request(
        self,
        kind: &'static str,
        correlation: Correlation,
        body: Option<Value>,
        reply: ReplyRoute,
        expiry: Option<u32>,
    ) -> Result<Request, DecodeError> {
        Ok(Request {
            correlation,
            path: filled(self.path).ok_or(DecodeError::Missing { kind, field: "path" })?,
            method: filled(self.method).ok_or(DecodeError::Missing { kind, field: "method" })?,
            args: arguments(body),
            version: filled(self.version),
            ttl: self.ttl.as_deref().and_then(digits),
            expiry,
            idempotency_key: filled(self.idempotency_key),
            // Kept even if empty: an empty fence matches no owner, an absent one is not checked at all.
            fence: self.fence,
            reply,
        })
    }

    fn answer(self, kind: ReplyKind, body: Option<Value>) -> Result<Answer, DecodeError> {
        Ok(match kind {
            ReplyKind::Result if self.deferred.is_some() => Answer::Deferred(body),
            ReplyKind::Result => Answer::Value(body),
            ReplyKind::Error => Answer::Error(failure(self.code, body)),
            ReplyKind::Ticket => Answer::Ticket(match self.outcome.as_deref() {
                Some("progress") => Ticket::Progress(body),
                Some("resolved") => Ticket::Resolved(body),
                Some("rejected") => Ticket::Rejected(failure(self.code, body)),
                Some(other) => return Err(DecodeError::Outcome(clip(other))),
                None => return Err(DecodeError::Missing { kind: "ticket", field: "outcome" }),
            }),
        })
    }

    fn event(self, body: Option<Value>) -> Result<Message, DecodeError> {
        let seq = self.seq.as_deref().and_then(digits).filter(|&seq| seq <= MAX_SAFE_INTEGER.unsigned_abs());
        Ok(Message::Event {
            path: filled(self.path),
            event: filled(self.event).ok_or(DecodeError::Missing { kind: "event", field: "name" })?,
            args: emitted(body),
            stamp: seq.zip(filled(self.epoch)).map(|(seq, epoch)| Stamp { epoch, seq }),
        })
    }
}

/// Plain digits as a number; anything else, a sign included, is none.
fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}
