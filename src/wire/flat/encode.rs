//! A frame as one flat map.

use std::borrow::Cow;

use bytes::Bytes;

use super::{LAYOUT, NO_TEXT, names};
use crate::wire::body::{failed, kind_of};
use crate::wire::frame::{Answer, Ticket};
use crate::wire::value::{MAX_SAFE_INTEGER, Part};
use crate::wire::{
    Correlation, EncodeError, Encoding, Frame, Message, PeerName, Reply, Request, Stamp, Value, json, msgpack,
};

/// Writes a frame: requests as they say, answers as their request came, events as MessagePack. On a failure nothing may
/// be sent: the frame is as it were not there. No relay of ours passes frames on, so none has `hops`.
///
/// # Errors
/// A value the encoding cannot carry, a name that peers on a hub do not read, or a field that is needed and empty (W-003).
pub fn encode(frame: &Frame) -> Result<Vec<u8>, EncodeError> {
    let mut map = Parts(Vec::with_capacity(12));
    map.number(names::LAYOUT, LAYOUT);
    map.name(names::SOURCE, &frame.source)?;
    map.name(names::TARGET, &frame.target)?;
    let encoding = match &frame.message {
        Message::Request(request) => encode_request(&mut map, request)?,
        Message::Reply(reply) => encode_reply(&mut map, reply)?,
        Message::Event { path, event, args, stamp } => {
            map.text(names::KIND, "event")?;
            map.text_if(names::PATH, path.as_deref())?;
            map.text(names::EVENT, event)?;
            if let Some(Stamp { epoch, seq }) = stamp {
                map.count(names::SEQ, *seq);
                map.text(names::EPOCH, epoch)?;
            }
            map.0.push((names::BODY, Part::List(args)));
            Encoding::MessagePack
        }
    };
    match encoding {
        Encoding::MessagePack => msgpack::encode_parts(&map.0),
        Encoding::Json => json::encode_parts(&map.0),
    }
}

fn encode_request<'a>(map: &mut Parts<'a>, request: &'a Request) -> Result<Encoding, EncodeError> {
    map.text(names::KIND, kind_of(&request.method))?;
    map.correlation(&request.correlation)?;
    map.text(names::PATH, &request.path)?;
    map.text(names::METHOD, &request.method)?;
    map.text_if(names::VERSION, request.version.as_deref())?;
    if let Some(ttl) = request.ttl {
        map.count(names::TTL, ttl);
    }
    map.text_if(names::IDEMPOTENCY_KEY, request.idempotency_key.as_deref())?;
    map.text_if(names::FENCE, request.fence.as_deref())?;
    map.0.push((names::BODY, Part::List(&request.args)));
    Ok(request.reply.encoding)
}

fn encode_reply<'a>(map: &mut Parts<'a>, reply: &'a Reply) -> Result<Encoding, EncodeError> {
    map.text(
        names::KIND,
        match &reply.answer {
            Answer::Value(_) | Answer::Deferred(_) => "result",
            Answer::Error(_) => "error",
            Answer::Ticket(_) => "ticket",
        },
    )?;
    map.correlation(&reply.correlation)?;
    match &reply.answer {
        Answer::Value(value) => map.body(value.as_ref()),
        Answer::Deferred(receipt) => {
            map.0.push((names::DEFERRED, Part::Value(Cow::Owned(Value::Bool(true)))));
            map.body(receipt.as_ref());
        }
        Answer::Error(error) => {
            map.text(names::CODE, &error.code)?;
            map.0.push((names::BODY, Part::Value(Cow::Owned(failed(error)))));
        }
        Answer::Ticket(ticket) => match ticket {
            Ticket::Progress(value) => map.ticket("progress", value.as_ref())?,
            Ticket::Resolved(value) => map.ticket("resolved", value.as_ref())?,
            Ticket::Rejected(error) => {
                map.text(names::OUTCOME, "rejected")?;
                map.0.push((names::BODY, Part::Value(Cow::Owned(failed(error)))));
            }
        },
    }
    Ok(reply.route.encoding)
}

/// The fields of one frame, in the conventional order.
struct Parts<'a>(Vec<(&'static str, Part<'a>)>);

impl<'a> Parts<'a> {
    fn text(&mut self, name: &'static str, text: &'a str) -> Result<(), EncodeError> {
        if text.is_empty() {
            return Err(EncodeError::Empty(name));
        }
        self.0.push((name, Part::Text(text)));
        Ok(())
    }

    fn text_if(&mut self, name: &'static str, text: Option<&'a str>) -> Result<(), EncodeError> {
        text.map_or(Ok(()), |text| self.text(name, text))
    }

    fn name(&mut self, field: &'static str, name: &'a PeerName) -> Result<(), EncodeError> {
        PeerName::hub(name.as_str()).map_err(|error| EncodeError::HubName(name.to_string(), error))?;
        self.text(field, name.as_str())
    }

    fn number(&mut self, name: &'static str, number: i64) {
        self.0.push((name, Part::Value(Cow::Owned(Value::Int(number)))));
    }

    /// A count, no larger than peers can hold.
    fn count(&mut self, name: &'static str, count: u64) {
        self.number(name, i64::try_from(count).unwrap_or(MAX_SAFE_INTEGER).min(MAX_SAFE_INTEGER));
    }

    /// The correlation as it came (W-051).
    fn correlation(&mut self, correlation: &'a Correlation) -> Result<(), EncodeError> {
        let bytes: &'a [u8] = &correlation.0;
        if let Some((&NO_TEXT, form)) = bytes.split_first() {
            let value = msgpack::decode(&Bytes::copy_from_slice(form)).map_err(|_| EncodeError::Correlation)?;
            self.0.push((names::CORRELATION, Part::Value(Cow::Owned(value))));
            return Ok(());
        }
        self.text(names::CORRELATION, std::str::from_utf8(bytes).map_err(|_| EncodeError::Correlation)?)
    }

    /// A value bare; nothing is no field at all.
    fn body(&mut self, value: Option<&'a Value>) {
        self.0.extend(value.map(|value| (names::BODY, Part::Value(Cow::Borrowed(value)))));
    }

    fn ticket(&mut self, outcome: &'static str, value: Option<&'a Value>) -> Result<(), EncodeError> {
        self.text(names::OUTCOME, outcome)?;
        self.body(value);
        Ok(())
    }
}
