//! The flat frame of a hub (wire.md 10.3): one map, written as MessagePack, read as that or as JSON. Beside it what a hub
//! and its peers say of presence (10.4, 10.5), and how the older layout is recognised (12).
//!
//! A frame written as JSON begins with a brace, which begins no map in MessagePack: both are read without being told
//! which it is, and an answer goes out as its request came in.

mod decode;
mod encode;
mod legacy;
mod presence;
#[cfg(test)]
mod tests;

pub use decode::{Arrived, decode};
pub use encode::encode;
pub use legacy::{LegacyHeader, legacy};
pub use presence::{Known, Presence, announcement, presence};

use super::PeerName;
use super::frame::{Frame, Message, RemoteError, Reply};

/// The layout version, as `v`.
const LAYOUT: i64 = 2;

/// How many requests one batch may carry (wire.md 2).
pub const MAX_BATCH: usize = 256;

/// The refusal of a member of a batch that carried `carried` (semantics.md 1.6); nothing if the member asked nothing.
pub fn overfull(from: &PeerName, to: &PeerName, member: &Message, carried: usize) -> Option<Frame> {
    let Message::Request(request) = member else { return None };
    let message = format!("this peer accepts at most {MAX_BATCH} calls in one batch, and this one carried {carried}");
    let error = RemoteError { code: "InvalidParams".into(), name: "RpcError".into(), message };
    let reply = Reply {
        correlation: request.correlation.clone(),
        route: request.reply.clone(),
        answer: super::frame::Answer::Error(error),
    };
    Some(Frame { source: from.clone(), target: to.clone(), message: Message::Reply(reply) })
}

/// The names of the fields.
mod names {
    pub(super) const LAYOUT: &str = "v";
    pub(super) const SOURCE: &str = "src";
    pub(super) const TARGET: &str = "tgt";
    pub(super) const HOPS: &str = "hops";
    pub(super) const KIND: &str = "kind";
    pub(super) const CORRELATION: &str = "corr";
    pub(super) const PATH: &str = "path";
    pub(super) const METHOD: &str = "method";
    pub(super) const EVENT: &str = "event";
    pub(super) const CODE: &str = "code";
    pub(super) const VERSION: &str = "ver";
    pub(super) const TTL: &str = "ttl";
    pub(super) const IDEMPOTENCY_KEY: &str = "idem";
    pub(super) const FENCE: &str = "fence";
    pub(super) const DEFERRED: &str = "deferred";
    pub(super) const OUTCOME: &str = "outcome";
    pub(super) const SEQ: &str = "seq";
    pub(super) const EPOCH: &str = "epoch";
    pub(super) const BODY: &str = "body";
    pub(super) const BATCH: &str = "batch";
}

/// What stands before a correlation that was no text on the wire; the rest is its MessagePack form. No text has this byte,
/// so none is mistaken for it. Peers exist that send such, and they are answered with what they sent.
const NO_TEXT: u8 = 0xFF;
