//! Puts packets and their attachments together. A frame, which is nearly all there is, takes the short way.

use bytes::Bytes;

use super::packet::Head;
use super::{FRAME, Packet, PacketError};
use crate::wire::Value;

/// What of a packet is there so far.
#[derive(Debug)]
pub struct Assembler {
    pending: Option<Pending>,
    /// How many bytes the attachments of one packet may have.
    limit: usize,
}

#[derive(Debug)]
enum Pending {
    /// [`FRAME`] was there.
    Frame,
    /// Anything else with attachments.
    Packet { head: Head, attached: Vec<Bytes>, bytes: usize },
}

/// What is complete.
#[derive(Clone, Debug, PartialEq)]
pub enum Got {
    /// The attachment of an event `frame`.
    Frame(Bytes),
    /// Any other packet.
    Packet(Packet),
}

impl Assembler {
    /// One that takes at most so many bytes attached to one packet.
    pub const fn new(limit: usize) -> Self {
        Self { pending: None, limit }
    }

    /// A text message came, with its Engine.IO character in front. One that comes where an attachment was announced ends
    /// the packet that waits; it is read by itself then, when it is given again.
    ///
    /// # Errors
    /// What is no packet, or came too early.
    pub fn text(&mut self, message: &str) -> Result<Option<Got>, PacketError> {
        if self.pending.take().is_some() {
            return Err(PacketError::Interrupted);
        }
        if message == FRAME {
            self.pending = Some(Pending::Frame);
            return Ok(None);
        }
        let head = Head::parse(message.get(1..).unwrap_or_default())?;
        if head.attachments == 0 {
            return head.complete(&[]).map(|packet| Some(Got::Packet(packet)));
        }
        self.pending = Some(Pending::Packet { attached: Vec::with_capacity(head.attachments), head, bytes: 0 });
        Ok(None)
    }

    /// A binary message came.
    ///
    /// # Errors
    /// One that nothing announced, one too large, or a packet whose placeholders do not match.
    pub fn binary(&mut self, bytes: Bytes) -> Result<Option<Got>, PacketError> {
        let (head, mut attached, before) = match self.pending.take() {
            None => return Err(PacketError::Unannounced),
            Some(Pending::Frame) if bytes.len() > self.limit => return Err(PacketError::TooLarge(self.limit)),
            Some(Pending::Frame) => return Ok(Some(Got::Frame(bytes))),
            Some(Pending::Packet { head, attached, bytes }) => (head, attached, bytes),
        };
        let total = before.saturating_add(bytes.len());
        if total > self.limit {
            return Err(PacketError::TooLarge(self.limit));
        }
        attached.push(bytes);
        if attached.len() < head.attachments {
            self.pending = Some(Pending::Packet { head, attached, bytes: total });
            return Ok(None);
        }
        head.complete(&attached).map(|packet| Some(framed(packet)))
    }
}

/// A frame that was announced in other words is a frame all the same.
fn framed(packet: Packet) -> Got {
    match (&packet.data, packet.kind) {
        (Some(Value::Array(items)), super::Kind::Event) => match items.as_slice() {
            [Value::Text(name), Value::Bytes(bytes)] if name == "frame" => Got::Frame(bytes.clone()),
            _ => Got::Packet(packet),
        },
        _ => Got::Packet(packet),
    }
}
