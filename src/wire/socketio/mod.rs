//! How a hub packs what it carries: Engine.IO 4 around Socket.IO 5 (wire.md 10.1, 10.2), without a socket.
//!
//! A text message of the WebSocket is one Engine.IO packet ([`Engine`]), and in it mostly one Socket.IO packet
//! ([`Packet`]), whose byte strings follow as binary messages of their own. [`Assembler`] puts those together again.
//! Everything is bounded: attachments by [`MAX_ATTACHMENTS`] and the size given to the assembler, values by the bounds of
//! the JSON reader.

mod assembler;
mod engine;
mod packet;
#[cfg(test)]
mod tests;

pub use assembler::{Assembler, Got};
pub use engine::{Engine, Opening};
pub use packet::{Kind, Packet};

/// Where a hub listens, and what makes it speak our version.
pub const ENDPOINT: &str = "/socket.io/?EIO=4&transport=websocket";

/// The text that comes before each flat frame, which follows as the next binary message (W-103).
pub const FRAME: &str = "451-[\"frame\",{\"_placeholder\":true,\"num\":0}]";

/// How many byte strings one packet may announce.
pub const MAX_ATTACHMENTS: usize = 10;

/// What is wrong with a message of a hub. Nothing of it is used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// No Engine.IO packet.
    #[error("a message that is no Engine.IO packet: {0:?}")]
    Engine(String),
    /// No Socket.IO packet.
    #[error("a message that is no Socket.IO packet: {0:?}")]
    Malformed(String),
    /// For another namespace than `/`.
    #[error("a packet for the namespace {0:?}")]
    Namespace(String),
    /// Too many byte strings announced.
    #[error("a packet that announces more than {MAX_ATTACHMENTS} attachments")]
    TooMany,
    /// More bytes attached than are taken.
    #[error("the attachments of a packet are larger than {0} bytes")]
    TooLarge(usize),
    /// What it carries is no value.
    #[error("what a packet carries: {0}")]
    Value(super::DecodeError),
    /// Another packet came where an attachment was announced.
    #[error("a packet came before all attachments of the one before it")]
    Interrupted,
    /// An attachment nobody announced.
    #[error("an attachment that nothing announced")]
    Unannounced,
    /// A placeholder without its attachment, or an attachment without its placeholder.
    #[error("placeholders and attachments of a packet do not match")]
    Placeholder,
}
