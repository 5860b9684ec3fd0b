//! A flat map as frames, with the checks of wire.md 10.3. Whatever fails is dropped and reported locally (W-059).

use bytes::Bytes;

use super::{LAYOUT, NO_TEXT, names};
use crate::wire::body::{arguments, emitted, failure, filled};
use crate::wire::error::clip;
use crate::wire::frame::{Answer, Ticket};
use crate::wire::value::MAX_SAFE_INTEGER;
use crate::wire::{
    Correlation, DecodeError, Encoding, Map, Message, PeerName, Reply, ReplyRoute, Request, Stamp, Value, json, msgpack,
};

/// What one attachment carried.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrived {
    /// Who sent it.
    pub source: PeerName,
    /// Whom it is addressed to.
    pub target: PeerName,
    /// How many relays it has passed; 0 where it says nothing usable.
    pub hops: u64,
    /// What it says: one message, or the members of a batch in order (W-100).
    pub messages: Vec<Message>,
    /// Whether it was a batch.
    pub batch: bool,
}

/// Reads what one attachment carries.
///
/// # Errors
/// Bytes that are no value, and everything W-105 refuses. A batch is read whole or not at all.
pub fn decode(bytes: &Bytes) -> Result<Arrived, DecodeError> {
    let (value, encoding) = match bytes.first() {
        Some(b'{') => (json::decode(bytes)?, Encoding::Json),
        _ => (msgpack::decode(bytes)?, Encoding::MessagePack),
    };
    let Value::Map(mut map) = value else { return Err(DecodeError::NoMap) };
    match map.get(names::LAYOUT) {
        Some(Value::Int(_) | Value::Float(_)) if map.get(names::LAYOUT).and_then(Value::as_i64) == Some(LAYOUT) => {}
        other => return Err(DecodeError::Layout(clip(&format!("{other:?}")))),
    }
    let source = named(&mut map, names::SOURCE, DecodeError::SourceMissing, DecodeError::Source)?;
    let target = named(&mut map, names::TARGET, DecodeError::TargetMissing, DecodeError::Target)?;
    let hops = map.get(names::HOPS).and_then(count).unwrap_or(0);
    let batch = map.get(names::KIND).and_then(Value::as_str) == Some("batch");
    let messages = if batch { members(map, encoding)? } else { vec![Fields::read(map).message(encoding)?] };
    Ok(Arrived { source, target, hops, messages, batch })
}

fn named(
    map: &mut Map,
    field: &str,
    missing: DecodeError,
    odd: fn(crate::wire::NameError) -> DecodeError,
) -> Result<PeerName, DecodeError> {
    match map.remove(field) {
        Some(Value::Text(name)) if !name.is_empty() => PeerName::hub(&name).map_err(odd),
        _ => Err(missing),
    }
}

/// The members of a batch. Those that repeat source and target say nothing by it; a batch within is unknown to a member.
fn members(mut map: Map, encoding: Encoding) -> Result<Vec<Message>, DecodeError> {
    let Some(Value::Array(members)) = map.remove(names::BATCH).filter(|list| list.as_array() != Some(&[])) else {
        return Err(DecodeError::EmptyBatch);
    };
    let read = |(at, member)| {
        let message = match member {
            Value::Map(map) => Fields::read(map).message(encoding),
            _ => Err(DecodeError::NoMap),
        };
        message.map_err(|error| DecodeError::BatchMember(at, Box::new(error)))
    };
    members.into_iter().enumerate().map(read).collect()
}

/// The fields of one frame. Unknown ones are dropped.
#[derive(Default)]
struct Fields {
    kind: Option<Value>,
    correlation: Option<Value>,
    path: Option<Value>,
    method: Option<Value>,
    event: Option<Value>,
    code: Option<Value>,
    version: Option<Value>,
    ttl: Option<Value>,
    idempotency_key: Option<Value>,
    fence: Option<Value>,
    deferred: Option<Value>,
    outcome: Option<Value>,
    seq: Option<Value>,
    epoch: Option<Value>,
    body: Option<Value>,
}

impl Fields {
    fn read(map: Map) -> Self {
        let mut fields = Self::default();
        for (name, value) in map {
            let slot = match name.as_str() {
                names::KIND => &mut fields.kind,
                names::CORRELATION => &mut fields.correlation,
                names::PATH => &mut fields.path,
                names::METHOD => &mut fields.method,
                names::EVENT => &mut fields.event,
                names::CODE => &mut fields.code,
                names::VERSION => &mut fields.version,
                names::TTL => &mut fields.ttl,
                names::IDEMPOTENCY_KEY => &mut fields.idempotency_key,
                names::FENCE => &mut fields.fence,
                names::DEFERRED => &mut fields.deferred,
                names::OUTCOME => &mut fields.outcome,
                names::SEQ => &mut fields.seq,
                names::EPOCH => &mut fields.epoch,
                names::BODY => &mut fields.body,
                _ => continue,
            };
            *slot = Some(value);
        }
        fields
    }

    fn message(mut self, encoding: Encoding) -> Result<Message, DecodeError> {
        let kind = text(self.kind.take());
        match kind.as_deref() {
            Some("call") => self.request("call", encoding).map(Message::Request),
            Some("subscribe") => self.request("subscribe", encoding).map(Message::Request),
            Some("unsubscribe") => self.request("unsubscribe", encoding).map(Message::Request),
            Some("result") => self.reply("result").map(Message::Reply),
            Some("error") => self.reply("error").map(Message::Reply),
            Some("ticket") => self.reply("ticket").map(Message::Reply),
            Some("event") => self.event(),
            other => Err(DecodeError::Kind(clip(other.unwrap_or_default()))),
        }
    }

    fn request(self, kind: &'static str, encoding: Encoding) -> Result<Request, DecodeError> {
        Ok(Request {
            correlation: correlation(kind, self.correlation)?,
            path: filled(text(self.path)).ok_or(DecodeError::Missing { kind, field: "path" })?,
            method: filled(text(self.method)).ok_or(DecodeError::Missing { kind, field: "method" })?,
            args: arguments(self.body),
            version: filled(text(self.version)),
            ttl: self.ttl.as_ref().and_then(milliseconds),
            expiry: None,
            // Left out, a second attempt would run a second time.
            idempotency_key: strict(self.idempotency_key, "idempotency key")?.filter(|key| !key.is_empty()),
            // Kept even if empty, as it matches no owner then; left out, it would not be checked at all.
            fence: strict(self.fence, "fence")?,
            reply: ReplyRoute { topic: None, encoding },
        })
    }

    fn reply(self, kind: &'static str) -> Result<Reply, DecodeError> {
        let (code, body) = (text(self.code), self.body);
        let answer = match kind {
            "error" => Answer::Error(failure(code, body)),
            "ticket" => Answer::Ticket(match text(self.outcome).as_deref() {
                Some("progress") => Ticket::Progress(body),
                Some("resolved") => Ticket::Resolved(body),
                Some("rejected") => Ticket::Rejected(failure(code, body)),
                Some(other) => return Err(DecodeError::Outcome(clip(other))),
                None => return Err(DecodeError::Missing { kind, field: "outcome" }),
            }),
            // Unlike on MQTT, only the truth value counts here.
            _ if self.deferred == Some(Value::Bool(true)) => Answer::Deferred(body),
            _ => Answer::Value(body),
        };
        Ok(Reply { correlation: correlation(kind, self.correlation)?, route: ReplyRoute::default(), answer })
    }

    fn event(self) -> Result<Message, DecodeError> {
        let epoch = filled(text(self.epoch));
        Ok(Message::Event {
            path: filled(text(self.path)),
            event: filled(text(self.event)).ok_or(DecodeError::Missing { kind: "event", field: "name" })?,
            args: emitted(self.body),
            stamp: self.seq.as_ref().and_then(count).zip(epoch).map(|(seq, epoch)| Stamp { epoch, seq }),
        })
    }
}

fn text(value: Option<Value>) -> Option<String> {
    if let Some(Value::Text(text)) = value { Some(text) } else { None }
}

/// A text, or none; anything else is refused.
fn strict(value: Option<Value>, field: &'static str) -> Result<Option<String>, DecodeError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text)),
        Some(_) => Err(DecodeError::NoText(field)),
    }
}

/// The correlation, whatever it is made of: it is echoed as it came (W-051).
fn correlation(kind: &'static str, value: Option<Value>) -> Result<Correlation, DecodeError> {
    let missing = DecodeError::Missing { kind, field: "correlation" };
    match value {
        None | Some(Value::Null) => Err(missing),
        Some(Value::Text(text)) if text.is_empty() => Err(missing),
        Some(Value::Text(text)) => Ok(text.into()),
        Some(other) => {
            let mut bytes = vec![NO_TEXT];
            bytes.extend(msgpack::encode(&other).map_err(|_| DecodeError::NoText("correlation"))?);
            Ok(Correlation(bytes.into()))
        }
    }
}

/// A whole number from 0 on that every peer holds exactly.
fn count(value: &Value) -> Option<u64> {
    value.as_i64().filter(|number| (0..=MAX_SAFE_INTEGER).contains(number)).map(i64::cast_unsigned)
}

/// A duration; what is no such thing, or reaches beyond what can be counted, is no limit.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "finite and not negative; it saturates")]
fn milliseconds(value: &Value) -> Option<u64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0).map(|number| number as u64)
}
