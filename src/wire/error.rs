//! What can be wrong with a message: on the way out ([`EncodeError`]) and on the way in ([`DecodeError`]).
//!
//! The texts go to a log, so what a network sent appears in them escaped and cut short.

use super::name::{NameError, PeerName};
use super::signing::Refusal;

/// Why a value or a frame must not be written. Nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// An integer that peers cannot hold exactly (W-020).
    #[error("the integer {0} is beyond ±(2^53−1) and would arrive changed; send it as text")]
    Integer(i64),
    /// More nesting than [`MAX_DEPTH`](super::value::MAX_DEPTH).
    #[error("the value is nested more than {} levels deep", super::value::MAX_DEPTH)]
    TooDeep,
    /// A text, byte string, list or map with more than 2^32−1 bytes or items.
    #[error("a {0} of the value is too large to encode")]
    TooLarge(&'static str),
    /// A map key that makes the payload undecodable for its reader.
    #[error("the map key `__proto__` makes a message unreadable")]
    Key,
    /// A kind of value that JSON has no form for.
    #[error("JSON has no form for {0}; use MessagePack, or text agreed by contract")]
    NoJsonForm(&'static str),
    /// A control character or a noncharacter in a property or topic part (W-082).
    #[error("`{0}` holds a control character or a noncharacter, which a broker may answer by cutting the connection")]
    Unsendable(&'static str),
    /// A property or topic part longer than MQTT can carry, 65 535 bytes.
    #[error("`{0}` is longer than 65535 bytes")]
    TooLong(&'static str),
    /// A property or topic part that the frame needs and that is empty (W-003).
    #[error("`{0}` is empty")]
    Empty(&'static str),
    /// The correlation of a request is not plain text (W-050).
    #[error("the correlation is not UTF-8 text without a byte order mark")]
    Correlation,
    /// A response topic that answers are not sent to (W-052).
    #[error("the response topic {0:?} is not one to answer to")]
    ResponseTopic(String),
    /// A name that peers on a hub would not read.
    #[error("the name {0:?} cannot be addressed over a hub: {1}")]
    HubName(String, NameError),
}

/// Why something received was refused. Nothing is sent about it (W-059).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The payload ends inside a value.
    #[error("the payload ends inside a value")]
    Truncated,
    /// Bytes follow the value (W-024).
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    /// The byte that MessagePack never uses.
    #[error("the byte 0xc1 begins no value")]
    Reserved,
    /// More nesting than [`MAX_DEPTH`](super::value::MAX_DEPTH) (W-021).
    #[error("the value is nested more than {} levels deep", super::value::MAX_DEPTH)]
    TooDeep,
    /// More items than [`MAX_ITEMS`](super::value::MAX_ITEMS) (W-021).
    #[error("the value has more than {} items", super::value::MAX_ITEMS)]
    TooMany,
    /// A text that is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A map key that is neither text nor a number.
    #[error("a map key is neither text nor a number")]
    KeyKind,
    /// The map key that the network refuses everywhere.
    #[error("the map key `__proto__` is not allowed")]
    KeyProto,
    /// A timestamp of a size or with a fraction that there is not, or beyond 64 bits of milliseconds.
    #[error("a timestamp is malformed or out of range")]
    Timestamp,
    /// Not JSON, with what the parser says.
    #[error("not JSON: {0}")]
    Json(String),
    /// The topic is none of ours that carries frames (W-130).
    #[error("the topic {0:?} carries no frames")]
    Topic(String),
    /// A control property occurs twice (W-056).
    #[error("the control property {0:?} is repeated")]
    Repeated(String),
    /// The sender is not named.
    #[error("the sender is not named")]
    SourceMissing,
    /// The sender's name breaks the rule of the link (W-002).
    #[error("the sender's name: {0}")]
    Source(NameError),
    /// A content type that is none of the two (W-057).
    #[error("unknown content type {0:?}")]
    ContentType(String),
    /// A response topic that cannot be published to.
    #[error("the response topic {0:?} cannot be published to")]
    ResponseTopicUnusable(String),
    /// A response topic that is not under `<prefix>/rsp/` (W-052).
    #[error("the response topic {0:?} is no reply topic of this network")]
    ResponseTopicOutside(String),
    /// No kind, or one that this link does not carry.
    #[error("unknown frame kind {0:?}")]
    Kind(String),
    /// Something the kind cannot do without is absent or empty.
    #[error("a frame of kind `{kind}` has no {field}")]
    Missing {
        /// The kind.
        kind: &'static str,
        /// What it lacks.
        field: &'static str,
    },
    /// A flat frame that is no map.
    #[error("the frame is no map")]
    NoMap,
    /// A flat frame of another layout (W-105).
    #[error("the frame's layout is {0}, and only the number 2 is read")]
    Layout(String),
    /// The addressee is not named (W-105).
    #[error("the addressee is not named")]
    TargetMissing,
    /// The addressee's name breaks the rule of the link (W-002).
    #[error("the addressee's name: {0}")]
    Target(NameError),
    /// Something that must be text is not.
    #[error("the {0} is no text")]
    NoText(&'static str),
    /// A batch without members.
    #[error("the batch carries nothing")]
    EmptyBatch,
    /// A batch with a member that cannot be read; then none of it is (W-105).
    #[error("member {0} of the batch: {1}")]
    BatchMember(usize, Box<DecodeError>),
    /// Its signature is absent, or not believed.
    #[error("from {:?}: {why}", clip(.from.as_str()))]
    Unverified {
        /// Who it says it is from.
        from: PeerName,
        /// Why it is not believed.
        why: Refusal,
    },
    /// A ticket whose outcome is none of the three.
    #[error("unknown ticket outcome {0:?}")]
    Outcome(String),
}

/// At most the first 80 characters of something received, for a message.
pub(super) fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
