//! Engine.IO: the first character of a text message says what it is.

use std::time::Duration;

use super::PacketError;
use crate::wire::error::clip;
use crate::wire::{Value, json};

/// One text message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine<'a> {
    /// The hub opens, with its settings.
    Open(&'a str),
    /// The end.
    Close,
    /// Are you there? The text is to be sent back.
    Ping(&'a str),
    /// I am.
    Pong(&'a str),
    /// A Socket.IO packet.
    Message(&'a str),
    /// The other way of transport is left; nothing to us.
    Upgrade,
    /// Nothing.
    Noop,
}

impl<'a> Engine<'a> {
    /// Reads one.
    pub fn parse(text: &'a str) -> Result<Self, PacketError> {
        let mut rest = text.chars();
        let kind = rest.next();
        let rest = rest.as_str();
        Ok(match kind {
            Some('0') => Self::Open(rest),
            Some('1') => Self::Close,
            Some('2') => Self::Ping(rest),
            Some('3') => Self::Pong(rest),
            Some('4') => Self::Message(rest),
            Some('5') => Self::Upgrade,
            Some('6') => Self::Noop,
            _ => return Err(PacketError::Engine(clip(text))),
        })
    }

    /// Writes one.
    pub fn write(self) -> String {
        let (kind, rest) = match self {
            Self::Open(rest) => ('0', rest),
            Self::Close => ('1', ""),
            Self::Ping(rest) => ('2', rest),
            Self::Pong(rest) => ('3', rest),
            Self::Message(rest) => ('4', rest),
            Self::Upgrade => ('5', ""),
            Self::Noop => ('6', ""),
        };
        format!("{kind}{rest}")
    }
}

/// What a hub says when it opens. Each is kept within reason, whatever it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// How long the hub may be silent: its ping interval and its ping timeout together (W-104).
    pub silence: Duration,
    /// The largest message it takes, in bytes (W-110).
    pub max_payload: usize,
}

impl Opening {
    /// Reads it.
    pub fn parse(text: &str) -> Result<Self, PacketError> {
        let value = json::decode(text.as_bytes()).map_err(PacketError::Value)?;
        if value.as_map().is_none() {
            return Err(PacketError::Engine(clip(text)));
        }
        let number = |key, default: u64| {
            let said = value.get(key).and_then(Value::as_i64).and_then(|number| u64::try_from(number).ok());
            said.unwrap_or(default)
        };
        let silence = number("pingInterval", PING_INTERVAL).saturating_add(number("pingTimeout", PING_TIMEOUT));
        let silence = Duration::from_millis(silence).clamp(SHORTEST, LONGEST);
        let max_payload = number("maxPayload", MAX_MESSAGE as u64);
        Ok(Self { silence, max_payload: usize::try_from(max_payload).unwrap_or(MAX_MESSAGE).min(MAX_MESSAGE) })
    }
}

/// What a message may have, whatever a hub allows (wire.md 2).
const MAX_MESSAGE: usize = 1_000_000;
/// What a hub says if it says nothing, in milliseconds.
const PING_INTERVAL: u64 = 25_000;
/// The same.
const PING_TIMEOUT: u64 = 20_000;
/// A silence that is always borne.
const SHORTEST: Duration = Duration::from_millis(100);
/// A silence that is never borne.
const LONGEST: Duration = Duration::from_mins(10);
