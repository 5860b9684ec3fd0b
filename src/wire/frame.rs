//! The neutral form of one message, whichever link carried it (wire.md 1).

use bytes::Bytes;

use super::{PeerName, Value};

/// One message between two peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Who sent it.
    pub source: PeerName,
    /// Whom it is addressed to.
    pub target: PeerName,
    /// What it says.
    pub message: Message,
}

/// What a frame says, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A call, a subscription or its end; which one, the method name decides (W-010).
    Request(Request),
    /// An answer to a request.
    Reply(Reply),
    /// Something a peer emitted to one of its subscribers.
    Event {
        /// The namespace; absent from some emitters, then it goes to every subscription of that source and event.
        path: Option<String>,
        /// The event's name.
        event: String,
        /// What was emitted.
        args: Vec<Value>,
        /// The count of this stream, where the emitter counts. Number and incarnation are usable only together.
        stamp: Option<Stamp>,
    },
}

/// A request as it arrives or leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Names this attempt; the answer carries it back.
    pub correlation: Correlation,
    /// The namespace.
    pub path: String,
    /// The method; `on`, `off` and `removeListener` are subscriptions.
    pub method: String,
    /// Positional arguments.
    pub args: Vec<Value>,
    /// The contract version the caller was built against.
    pub version: Option<String>,
    /// How many milliseconds the caller will still wait. Absent: it waits for ever, or what stood there was unreadable.
    pub ttl: Option<u64>,
    /// The message expiry in whole seconds as the broker rewrote it; only on what was received (W-064).
    pub expiry: Option<u32>,
    /// Names the command rather than this attempt.
    pub idempotency_key: Option<String>,
    /// The owner generation the caller observed.
    pub fence: Option<String>,
    /// Where and how the answer is to be sent. On an outgoing request only the encoding counts.
    pub reply: ReplyRoute,
}

/// Where and how to answer: an opaque note that the responder hands back with the reply (W-054).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyRoute {
    /// The response topic named by the request; absent: the one derived from the requester's name.
    pub topic: Option<String>,
    /// The content type the requester wrote, which the answer uses too.
    pub encoding: Encoding,
}

/// How a body is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// `application/msgpack`, the default.
    #[default]
    MessagePack,
    /// `application/json`.
    Json,
}

/// An answer as it arrives or leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Which request it answers.
    pub correlation: Correlation,
    /// What the request said about answering; only on outgoing replies.
    pub route: ReplyRoute,
    /// The answer itself.
    pub answer: Answer,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The method ran and returned this. `None` is "nothing".
    Value(Option<Value>),
    /// A receipt: the real answer follows as tickets. The value is `{id, expiresAt}`.
    Deferred(Option<Value>),
    /// The method ran and failed, or it was refused.
    Error(RemoteError),
    /// A later answer to a deferred call.
    Ticket(Ticket),
}

/// A later answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Ticket {
    /// On its way.
    Progress(Option<Value>),
    /// Done.
    Resolved(Option<Value>),
    /// Failed.
    Rejected(RemoteError),
}

/// An error as a peer reported it. Codes are an open set (W-074); a stack is never kept (W-062).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteError {
    /// The code; `Exception` where none was given.
    pub code: String,
    /// The error's class, for people.
    pub name: String,
    /// The text, for people.
    pub message: String,
}

/// Names one attempt of one caller. The bytes are echoed as they came (W-051).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Correlation(pub Bytes);

impl From<String> for Correlation {
    fn from(text: String) -> Self {
        Self(Bytes::from(text))
    }
}

impl From<&str> for Correlation {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// The count of one (namespace, event) at its emitter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The incarnation of the emitter; compared for equality only.
    pub epoch: String,
    /// The first emission counted is 1.
    pub seq: u64,
}
