//! Socket.IO: one packet as text, with byte strings aside.

use std::fmt::Write as _;

use bytes::Bytes;

use super::{MAX_ATTACHMENTS, PacketError};
use crate::wire::error::clip;
use crate::wire::{DecodeError, EncodeError, Map, Value, json};

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Joins, or has joined.
    Connect,
    /// Leaves, or is sent away.
    Disconnect,
    /// Something happened: the first item is its name.
    Event,
    /// Answers an event that asked for it; the hubs of this network ask for none.
    Ack,
    /// May not join.
    Refusal,
}

/// One packet for the namespace `/`, its byte strings in place.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// What it is.
    pub kind: Kind,
    /// The number of an acknowledgement asked for or given.
    pub id: Option<u64>,
    /// What it carries.
    pub data: Option<Value>,
}

impl Packet {
    /// Joining, with credentials if there are any.
    pub const fn connect(credentials: Option<Value>) -> Self {
        Self { kind: Kind::Connect, id: None, data: credentials }
    }

    /// Leaving.
    pub const fn disconnect() -> Self {
        Self { kind: Kind::Disconnect, id: None, data: None }
    }

    /// An event.
    pub fn event(name: &str, argument: Value) -> Self {
        Self { kind: Kind::Event, id: None, data: Some(Value::Array(vec![name.into(), argument])) }
    }

    /// The name of the event and what it says, if this is one.
    pub fn into_event(self) -> Option<(String, Vec<Value>)> {
        let (Kind::Event, Some(Value::Array(items))) = (self.kind, self.data) else { return None };
        let mut items = items.into_iter();
        match items.next() {
            Some(Value::Text(name)) => Some((name, items.collect())),
            _ => None,
        }
    }

    /// Writes it: the text after the Engine.IO character, and the byte strings that must follow it.
    ///
    /// # Errors
    /// What JSON has no form for; byte strings are taken out before.
    pub fn write(self) -> Result<(String, Vec<Bytes>), EncodeError> {
        let mut attached = Vec::new();
        let data = self.data.map(|data| take_out(data, &mut attached));
        let digit = match (self.kind, attached.is_empty()) {
            (Kind::Connect, _) => '0',
            (Kind::Disconnect, _) => '1',
            (Kind::Event, true) => '2',
            (Kind::Ack, true) => '3',
            (Kind::Refusal, _) => '4',
            (Kind::Event, false) => '5',
            (Kind::Ack, false) => '6',
        };
        let mut text = digit.to_string();
        // Writing into text cannot fail.
        if matches!(digit, '5' | '6') {
            let _ = write!(text, "{}-", attached.len());
        }
        if let Some(id) = self.id {
            let _ = write!(text, "{id}");
        }
        if let Some(data) = data {
            text.push_str(&String::from_utf8_lossy(&json::encode(&data)?));
        }
        Ok((text, attached))
    }
}

/// A packet as its text says it is: byte strings are placeholders yet.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) attachments: usize,
    id: Option<u64>,
    data: Option<Value>,
}

impl Head {
    /// Reads the text after the Engine.IO character.
    pub(super) fn parse(text: &str) -> Result<Self, PacketError> {
        let malformed = || PacketError::Malformed(clip(text));
        let mut rest = text;
        let (kind, binary) = match take(&mut rest, 1).ok_or_else(malformed)? {
            "0" => (Kind::Connect, false),
            "1" => (Kind::Disconnect, false),
            "2" => (Kind::Event, false),
            "3" => (Kind::Ack, false),
            "4" => (Kind::Refusal, false),
            "5" => (Kind::Event, true),
            "6" => (Kind::Ack, true),
            _ => return Err(malformed()),
        };
        let mut attachments = 0;
        if binary {
            let count = digits(&mut rest).ok_or_else(malformed)?;
            rest = rest.strip_prefix('-').ok_or_else(malformed)?;
            attachments =
                usize::try_from(count).ok().filter(|count| *count <= MAX_ATTACHMENTS).ok_or(PacketError::TooMany)?;
        }
        if rest.starts_with('/') {
            let (namespace, after) = rest.split_once(',').unwrap_or((rest, ""));
            if namespace != "/" {
                return Err(PacketError::Namespace(clip(namespace)));
            }
            rest = after;
        }
        let id = if rest.starts_with(|c: char| c.is_ascii_digit()) {
            Some(digits(&mut rest).ok_or_else(malformed)?)
        } else {
            None
        };
        let data =
            if rest.is_empty() { None } else { Some(json::decode(rest.as_bytes()).map_err(PacketError::Value)?) };
        let head = Self { kind, attachments, id, data };
        if head.is_sound() { Ok(head) } else { Err(malformed()) }
    }

    /// Whether what it carries fits what it is.
    fn is_sound(&self) -> bool {
        match (self.kind, &self.data) {
            (Kind::Connect, data) => matches!(data, None | Some(Value::Map(_))),
            (Kind::Disconnect, data) => data.is_none(),
            (Kind::Event, Some(Value::Array(items))) => matches!(items.first(), Some(Value::Text(_))),
            (Kind::Ack, data) => matches!(data, Some(Value::Array(_))),
            (Kind::Refusal, data) => matches!(data, Some(Value::Map(_) | Value::Text(_))),
            (Kind::Event, _) => false,
        }
    }

    /// The packet, its byte strings put where the placeholders are.
    pub(super) fn complete(self, attached: &[Bytes]) -> Result<Packet, PacketError> {
        let Self { kind, id, data, .. } = self;
        if attached.is_empty() {
            return Ok(Packet { kind, id, data });
        }
        let mut used = vec![false; attached.len()];
        let data = data.map(|data| put_back(data, attached, &mut used)).transpose()?;
        if used.iter().all(|used| *used) { Ok(Packet { kind, id, data }) } else { Err(PacketError::Placeholder) }
    }
}

/// Takes the first `count` bytes, if they are characters.
fn take<'a>(rest: &mut &'a str, count: usize) -> Option<&'a str> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

/// Takes the digits at the front; `None` if there are none or they are too many.
fn digits(rest: &mut &str) -> Option<u64> {
    let end = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    take(rest, end)?.parse().ok()
}

/// Replaces every byte string by a placeholder.
fn take_out(value: Value, attached: &mut Vec<Bytes>) -> Value {
    match value {
        Value::Bytes(bytes) => {
            let mut placeholder = Map::new();
            placeholder.insert(PLACEHOLDER, true);
            placeholder.insert(NUMBER, i64::try_from(attached.len()).unwrap_or(i64::MAX));
            attached.push(bytes);
            Value::Map(placeholder)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| take_out(item, attached)).collect()),
        Value::Map(map) => Value::Map(map.into_iter().map(|(key, value)| (key, take_out(value, attached))).collect()),
        other => other,
    }
}

/// Replaces every placeholder by its byte string. Each may be used once: else a short text could claim much memory.
fn put_back(value: Value, attached: &[Bytes], used: &mut [bool]) -> Result<Value, PacketError> {
    Ok(match value {
        Value::Map(map) if map.get(PLACEHOLDER) == Some(&Value::Bool(true)) => {
            let at = map.get(NUMBER).and_then(Value::as_i64).and_then(|at| usize::try_from(at).ok());
            let at = at.ok_or(PacketError::Placeholder)?;
            let (Some(bytes), Some(used @ false)) = (attached.get(at), used.get_mut(at)) else {
                return Err(PacketError::Placeholder);
            };
            *used = true;
            Value::Bytes(bytes.clone())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| put_back(item, attached, used)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let entry = |(key, value)| Ok((key, put_back(value, attached, used)?));
            Value::Map(map.into_iter().map(entry).collect::<Result<_, PacketError>>()?)
        }
        other => other,
    })
}

/// Marks the place of a byte string.
const PLACEHOLDER: &str = "_placeholder";
/// Says which.
const NUMBER: &str = "num";

impl From<DecodeError> for PacketError {
    fn from(error: DecodeError) -> Self {
        Self::Value(error)
    }
}
