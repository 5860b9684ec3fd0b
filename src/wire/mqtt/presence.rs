//! Presence: what a peer retains about itself, and how others read it (wire.md 4.3).

use bytes::Bytes;

use super::Publish;
use crate::wire::name::units;
use crate::wire::topic::{Channel, sendable};
use crate::wire::{EncodeError, PeerName, Topics};

/// What a presence message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The peer is there.
    Online {
        /// Which.
        peer: PeerName,
        /// The shape of what it serves, if it announces one of 1–64 UTF-16 units (W-043).
        shape: Option<String>,
    },
    /// The peer is gone.
    Offline(PeerName),
}

/// Reads a presence message. `None` for everything that means nothing: other topics and payloads, an empty payload
/// included, our own echo, and names that break the rule (W-040, W-002).
pub fn presence(
    topic: &str,
    payload: &[u8],
    user_properties: &[(String, String)],
    topics: &Topics,
) -> Option<Presence> {
    let Some((Channel::Presence, name)) = topics.parse(topic) else { return None };
    let peer = PeerName::mqtt(name).ok().filter(|peer| peer != topics.me())?;
    match payload {
        ONLINE => {
            let shape = user_properties.iter().find(|(name, _)| name == SHAPE).map(|(_, shape)| shape);
            let shape = shape.filter(|shape| (1..=MAX_SHAPE).contains(&units(shape))).cloned();
            Some(Presence::Online { peer, shape })
        }
        OFFLINE => Some(Presence::Offline(peer)),
        _ => None,
    }
}

/// Whether what is retained under a name says that somebody goes by it, ourselves included (W-040).
pub fn is_online(payload: &[u8]) -> bool {
    payload == ONLINE
}

/// Says that we are there, with the shape of what we serve; to be published retained (W-034).
///
/// # Errors
/// A shape that others would ignore or that a broker would not carry (W-043, W-082).
pub fn online(shape: Option<&str>, topics: &Topics) -> Result<Publish, EncodeError> {
    let mut publish = said(ONLINE, topics);
    if let Some(shape) = shape {
        match units(shape) {
            0 => return Err(EncodeError::Empty(SHAPE)),
            1..=MAX_SHAPE if sendable(shape) => {}
            1..=MAX_SHAPE => return Err(EncodeError::Unsendable(SHAPE)),
            _ => return Err(EncodeError::TooLong(SHAPE)),
        }
        publish.user_properties.push((SHAPE.to_owned(), shape.to_owned()));
    }
    Ok(publish)
}

/// Says that we are gone: the will, and the first half of a departure; to be published retained (W-032, W-035).
pub fn offline(topics: &Topics) -> Publish {
    said(OFFLINE, topics)
}

/// Clears what is retained of us: the second half of a departure (W-035).
pub fn cleared(topics: &Topics) -> Publish {
    said(b"", topics)
}

fn said(payload: &'static [u8], topics: &Topics) -> Publish {
    Publish { topic: topics.presence().to_owned(), payload: Bytes::from_static(payload), ..Publish::default() }
}

const ONLINE: &[u8] = b"online";
const OFFLINE: &[u8] = b"offline";
const SHAPE: &str = "shape";
/// How many UTF-16 units a shape may have.
const MAX_SHAPE: usize = 64;
