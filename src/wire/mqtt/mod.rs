//! How a frame maps onto an MQTT 5 publish (wire.md 4.3–4.6), and how presence is said and read.
//!
//! Everything is published at QoS 1; only presence is retained.

use bytes::Bytes;

mod decode;
mod encode;
mod overhear;
mod presence;
mod signed;

pub use decode::{decode, decode_signed};
pub use encode::encode;
pub use overhear::{Overheard, Said, overhear};
pub use presence::{Presence, cleared, is_online, offline, online, presence};
pub use signed::{Claimed, claimed, sign};

/// The parts of an MQTT 5 PUBLISH that frames and presence use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publish {
    /// Where to.
    pub topic: String,
    /// The body.
    pub payload: Bytes,
    /// 1 for text, 0 for anything else; not looked at on reading.
    pub payload_format: Option<u8>,
    /// How the body is written.
    pub content_type: Option<String>,
    /// Which request it is or answers; absent on events.
    pub correlation: Option<Bytes>,
    /// Where the answer is wanted; on requests only.
    pub response_topic: Option<String>,
    /// For how many seconds the broker keeps it; on requests only.
    pub expiry: Option<u32>,
    /// The control properties, and whatever others put beside them.
    pub user_properties: Vec<(String, String)>,
}

/// The message expiry of a request in seconds: its ttl rounded up, at least 1; 30 for one that waits for ever (W-065).
pub fn expiry(ttl: Option<u64>) -> u32 {
    match ttl {
        None | Some(0) => 30,
        Some(ttl) => u32::try_from(ttl.div_ceil(1000)).unwrap_or(u32::MAX),
    }
}

/// How many bytes the whole PUBLISH packet takes at QoS 1 without a topic alias.
pub fn packet_size(publish: &Publish) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, |text| 3 + text.len());
    let properties = publish.payload_format.map_or(0, |_| 2)
        + publish.expiry.map_or(0, |_| 5)
        + text(&publish.content_type)
        + text(&publish.response_topic)
        + publish.correlation.as_ref().map_or(0, |bytes| 3 + bytes.len())
        + publish.user_properties.iter().map(|(name, value)| 5 + name.len() + value.len()).sum::<usize>();
    let packet_identifier = 2;
    let rest = 2 + publish.topic.len() + packet_identifier + varint(properties) + properties + publish.payload.len();
    1 + varint(rest) + rest
}

/// How many bytes MQTT's variable byte integer takes.
const fn varint(number: usize) -> usize {
    match number {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}

const MSGPACK: &str = "application/msgpack";
const JSON: &str = "application/json";

/// The layout version written as `mr-v`.
const LAYOUT: &str = "3";

/// The names of the control properties, and what stands in them.
mod names {
    pub(super) const LAYOUT: &str = "mr-v";
    pub(super) const SOURCE: &str = "mr-src";
    pub(super) const KIND: &str = "mr-kind";
    pub(super) const PATH: &str = "mr-path";
    pub(super) const METHOD: &str = "mr-method";
    pub(super) const EVENT: &str = "mr-event";
    pub(super) const CODE: &str = "mr-code";
    pub(super) const VERSION: &str = "mr-ver";
    pub(super) const TTL: &str = "mr-ttl";
    pub(super) const IDEMPOTENCY_KEY: &str = "mr-idem";
    pub(super) const FENCE: &str = "mr-fence";
    pub(super) const DEFERRED: &str = "mr-deferred";
    pub(super) const OUTCOME: &str = "mr-outcome";
    pub(super) const SEQ: &str = "mr-seq";
    pub(super) const EPOCH: &str = "mr-epoch";
    pub(super) const NONCE: &str = "mr-nonce";
    pub(super) const TIME: &str = "mr-ts";
    pub(super) const SIGNATURE: &str = "mr-sig";
}

#[cfg(test)]
mod tests;
