//! A frame as a publish (wire.md 4.4).

use bytes::Bytes;

use super::{JSON, LAYOUT, MSGPACK, Publish, expiry, names};
use crate::wire::body::{failed, kind_of};
use crate::wire::frame::{Answer, Ticket};
use crate::wire::topic::sendable;
use crate::wire::{EncodeError, Encoding, Frame, Message, Reply, Request, Stamp, Topics, Value, json, msgpack};

/// Writes a frame. On a failure nothing may be published: the frame is as it were not there.
///
/// # Errors
/// A value the encoding cannot carry, or a property or topic part that a broker would not (W-082).
pub fn encode(frame: &Frame, topics: &Topics) -> Result<Publish, EncodeError> {
    fits("target", frame.target.as_str())?;
    match &frame.message {
        Message::Request(request) => encode_request(frame, request, topics),
        Message::Reply(reply) => encode_reply(frame, reply, topics),
        Message::Event { path, event, args, stamp } => {
            let mut properties = Properties::new(frame, "event")?;
            properties.put_if(names::PATH, path.as_deref())?;
            properties.put(names::EVENT, event)?;
            if let Some(Stamp { epoch, seq }) = stamp {
                properties.put(names::SEQ, &seq.to_string())?;
                properties.put(names::EPOCH, epoch)?;
            }
            let publish = Publish { topic: topics.event_topic(&frame.target), ..Publish::default() };
            Ok(properties.onto(publish, arguments(args, Encoding::MessagePack)?, Encoding::MessagePack))
        }
    }
}

fn encode_request(frame: &Frame, request: &Request, topics: &Topics) -> Result<Publish, EncodeError> {
    let correlation = &request.correlation.0;
    match std::str::from_utf8(correlation) {
        Ok(text) if !text.is_empty() && !text.starts_with('\u{FEFF}') => {}
        _ => return Err(EncodeError::Correlation),
    }
    let mut properties = Properties::new(frame, kind_of(&request.method))?;
    properties.put(names::PATH, &request.path)?;
    properties.put(names::METHOD, &request.method)?;
    properties.put_if(names::VERSION, request.version.as_deref())?;
    if let Some(ttl) = request.ttl {
        properties.put(names::TTL, &ttl.to_string())?;
    }
    properties.put_if(names::IDEMPOTENCY_KEY, request.idempotency_key.as_deref())?;
    properties.put_if(names::FENCE, request.fence.as_deref())?;
    let encoding = request.reply.encoding;
    let publish = Publish {
        topic: topics.request_topic(&frame.target),
        correlation: Some(echo(correlation)?),
        response_topic: Some(topics.replies().to_owned()),
        expiry: Some(expiry(request.ttl)),
        ..Publish::default()
    };
    Ok(properties.onto(publish, arguments(&request.args, encoding)?, encoding))
}

fn encode_reply(frame: &Frame, reply: &Reply, topics: &Topics) -> Result<Publish, EncodeError> {
    if let Some(topic) = &reply.route.topic
        && topics.answerable(topic).is_err()
    {
        return Err(EncodeError::ResponseTopic(topic.clone()));
    }
    let kind = match &reply.answer {
        Answer::Value(_) | Answer::Deferred(_) => "result",
        Answer::Error(_) => "error",
        Answer::Ticket(_) => "ticket",
    };
    let mut properties = Properties::new(frame, kind)?;
    let encoding = reply.route.encoding;
    let payload = match &reply.answer {
        Answer::Value(value) => body(value.as_ref(), encoding)?,
        Answer::Deferred(receipt) => {
            properties.put(names::DEFERRED, "1")?;
            body(receipt.as_ref(), encoding)?
        }
        Answer::Error(error) => {
            properties.put(names::CODE, &error.code)?;
            body(Some(&failed(error)), encoding)?
        }
        Answer::Ticket(ticket) => {
            let (outcome, payload) = match ticket {
                Ticket::Progress(value) => ("progress", body(value.as_ref(), encoding)?),
                Ticket::Resolved(value) => ("resolved", body(value.as_ref(), encoding)?),
                Ticket::Rejected(error) => ("rejected", body(Some(&failed(error)), encoding)?),
            };
            properties.put(names::OUTCOME, outcome)?;
            payload
        }
    };
    let publish = Publish {
        topic: topics.reply_topic(&reply.route, &frame.target),
        correlation: Some(echo(&reply.correlation.0)?),
        ..Publish::default()
    };
    Ok(properties.onto(publish, payload, encoding))
}

fn arguments(args: &[Value], encoding: Encoding) -> Result<Vec<u8>, EncodeError> {
    match encoding {
        Encoding::MessagePack => msgpack::encode_args(args),
        Encoding::Json => json::encode_args(args),
    }
}

/// A value bare; nothing is nil, or `null` (W-063).
fn body(value: Option<&Value>, encoding: Encoding) -> Result<Vec<u8>, EncodeError> {
    let value = value.unwrap_or(&Value::Null);
    match encoding {
        Encoding::MessagePack => msgpack::encode(value),
        Encoding::Json => json::encode(value),
    }
}

fn echo(correlation: &Bytes) -> Result<Bytes, EncodeError> {
    match correlation.len() {
        0 => Err(EncodeError::Empty("correlation")),
        1..=MAX_FIELD => Ok(correlation.clone()),
        _ => Err(EncodeError::TooLong("correlation")),
    }
}

/// How many bytes a string or the correlation may have in a packet.
const MAX_FIELD: usize = 0xFFFF;

fn fits(field: &'static str, text: &str) -> Result<(), EncodeError> {
    if text.is_empty() {
        return Err(EncodeError::Empty(field));
    }
    if text.len() > MAX_FIELD {
        return Err(EncodeError::TooLong(field));
    }
    if sendable(text) { Ok(()) } else { Err(EncodeError::Unsendable(field)) }
}

/// The control properties of one frame, in the conventional order.
struct Properties(Vec<(String, String)>);

impl Properties {
    fn new(frame: &Frame, kind: &str) -> Result<Self, EncodeError> {
        let mut properties = Self(Vec::with_capacity(9));
        properties.put(names::LAYOUT, LAYOUT)?;
        properties.put(names::SOURCE, frame.source.as_str())?;
        properties.put(names::KIND, kind)?;
        Ok(properties)
    }

    fn put(&mut self, name: &'static str, value: &str) -> Result<(), EncodeError> {
        fits(name, value)?;
        self.0.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    fn put_if(&mut self, name: &'static str, value: Option<&str>) -> Result<(), EncodeError> {
        value.map_or(Ok(()), |value| self.put(name, value))
    }

    fn onto(self, publish: Publish, payload: Vec<u8>, encoding: Encoding) -> Publish {
        let (format, content_type) = match encoding {
            Encoding::MessagePack => (0, MSGPACK),
            Encoding::Json => (1, JSON),
        };
        Publish {
            payload: payload.into(),
            payload_format: Some(format),
            content_type: Some(content_type.to_owned()),
            user_properties: self.0,
            ..publish
        }
    }
}
