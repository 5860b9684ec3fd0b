//! One message of a window, as it is listed.

use crate::{link::LinkId, plant::listening::weigh, wire::Value};

/// The longest text of the network that a line keeps, in bytes.
const MAX_TEXT: usize = 512;
/// The largest body that a line keeps, in bytes as JSON, about.
const MAX_BODY: usize = 12 * 1024;
/// What a line weighs besides what it carries.
const BARE: usize = 320;

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineKind {
    /// A request.
    Post,
    /// An answer that is a result, or the receipt for one.
    Success,
    /// An answer that is an error.
    Error,
    /// A later answer.
    Ticket,
    /// An event.
    Event,
    /// A peer came or went.
    Presence,
    /// Several requests in one, unopened.
    Batch,
    /// It cannot be read.
    Unreadable,
    /// It is none of the network's.
    Foreign,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// A result came.
    Success,
    /// An error came.
    Error,
    /// A receipt came, and no end of it.
    Receipt,
    /// A receipt came, and later the end.
    Ticket,
    /// Nothing came to the end of the window.
    Unanswered,
    /// Nothing came, and for a while nothing could be heard.
    Unheard,
}

/// What a message carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// All of it.
    Whole(Value),
    /// It is too large to keep; its bytes, about.
    TooLarge(usize),
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// When it was heard, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Over which link.
    pub link: LinkId,
    /// What kind of message it is.
    pub kind: LineKind,
    /// The same more closely: `call`, `subscribe`, `rows`, `snapshot`, `online` …
    pub what: &'static str,
    /// Who sent it, where that is said.
    pub source: Option<String>,
    /// Whom it is for; a topic where nobody is.
    pub target: String,
    /// The namespace, of an answer that of its call.
    pub namespace: Option<String>,
    /// The method, of an answer that of its call.
    pub method: Option<String>,
    /// The event, also of a subscription.
    pub event: Option<String>,
    /// What its sender called it.
    pub id: Option<String>,
    /// Its number, where the emitter counts.
    pub seq: Option<u64>,
    /// How large the packet was, about; nothing where that is not told.
    pub bytes: usize,
    /// Of an answer: how many microseconds after its call it was heard.
    pub took_us: Option<u64>,
    /// Of an answer: whether its call was not heard.
    pub without_call: bool,
    /// Of a request: what became of it.
    pub answer: Option<Answered>,
    /// Whether the same was heard before.
    pub repeat: bool,
    /// Whether we sent it, or are to get it.
    pub own: bool,
    /// The code of an error.
    pub code: Option<String>,
    /// The text of an error, or what is wrong with what cannot be read.
    pub error: Option<String>,
    /// What it carries, if that is wanted.
    pub body: Option<Body>,
}

impl Line {
    /// About as many bytes as it takes.
    pub(super) fn weight(&self) -> usize {
        let texts = [&self.source, &self.namespace, &self.method, &self.event, &self.id, &self.code, &self.error];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let body = match &self.body {
            // A number takes more in memory than as JSON, a text hardly.
            Some(Body::Whole(value)) => 4 * weigh(value),
            Some(Body::TooLarge(_)) | None => 0,
        };
        BARE + texts + self.target.len() + body
    }
}

impl Body {
    /// What is kept of `value`.
    pub(super) fn of(value: Value) -> Self {
        match weigh(&value) {
            weight if weight <= MAX_BODY => Self::Whole(value),
            weight => Self::TooLarge(weight),
        }
    }
}

/// A text of the network, cut where it is no name any more.
pub(super) fn cut(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT);
    format!("{}…", text.get(..end).unwrap_or_default())
}
