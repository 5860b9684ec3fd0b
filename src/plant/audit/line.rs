//! One line of a trail, as it is written and as it is read again. Pure.
//!
//! A line is one JSON object: its number, when it was written, the hash of the line before, and what happened. What a client
//! called things is cut to a bound and escaped as JSON is, so that no name can begin a line of its own.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::chain::{Hash, Head};
use crate::wire::instant;

/// Bytes a line may have. What is longer was not written by us.
pub(super) const MAX_LINE: usize = 32 * 1024;
/// Bytes that are kept of one name that a client gave.
const MAX_NAME: usize = 256;

/// What was called, in the words of whoever called it, or as it was found on the plant. What a tool does not have is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Names {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    /// Of a contract, a script, a watch, a fake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
}

/// Who called what, with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Asked {
    pub(super) client: String,
    pub(super) tool: String,
    #[serde(flatten)]
    pub(super) names: Names,
    /// The salted digest of the arguments.
    pub(super) args: String,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ending {
    /// `ok`, or what may be concluded: `not_run`, `ran`, `unknown`; `refused` where the refusal says nothing of it.
    pub outcome: &'static str,
    /// The code of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'static, str>>,
}

impl Ending {
    /// It was done.
    pub const OK: Self = Self { outcome: "ok", code: None };
    /// It was given up before it began.
    pub(super) const GIVEN_UP: Self = Self { outcome: "not_run", code: Some(Cow::Borrowed("cancelled")) };
    /// It could not be written down, so it was not sent.
    pub(super) const UNAUDITED: Self = Self { outcome: "not_run", code: Some(Cow::Borrowed("audit_unavailable")) };
    /// It broke off.
    pub(super) const BROKEN: Self = Self { outcome: "unknown", code: Some(Cow::Borrowed("internal")) };
}

/// Who was turned away without it being known who he is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stranger {
    /// No token, or nobody's: 401.
    Token,
    /// A Host that is no name of ours: 403.
    Host,
    /// A web page that is not let in: 403.
    Origin,
    /// A peer that calls a namespace of ours, and whose frame no key vouches for.
    Peer,
}

impl Stranger {
    pub(super) const ALL: [Self; 4] = [Self::Token, Self::Host, Self::Origin, Self::Peer];

    /// The HTTP status it was told.
    pub(super) const fn status(self) -> Option<u16> {
        match self {
            Self::Token => Some(401),
            Self::Host | Self::Origin => Some(403),
            Self::Peer => None,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// A process began to write; `salt` says which salt its digests are made with, and nothing about it.
    Opened { version: &'a str, salt: &'a str },
    /// It ended in order.
    Closed,
    /// A call is about to be made.
    Begun(&'a Asked),
    /// The call of line `call` ended.
    Ended {
        call: u64,
        client: &'a str,
        tool: &'a str,
        #[serde(flatten)]
        names: &'a Names,
        #[serde(flatten)]
        ending: &'a Ending,
        us: u64,
    },
    /// A call that never began.
    Refused {
        #[serde(flatten)]
        asked: &'a Asked,
        #[serde(flatten)]
        ending: &'a Ending,
        us: u64,
    },
    /// Strangers were turned away, so many times since the last such line.
    TurnedAway {
        why: Stranger,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        times: u64,
    },
    /// Files that are over the bounds go; `head` is the hash of the last line of the last of them.
    Dropped { files: &'a [String], last: u64, head: Hash },
    /// A line that was not whole is put aside.
    Recovered { file: &'a str, bytes: u64, sha256: Hash, kept: &'a str },
    /// Nothing could be written for a while.
    Resumed { why: &'a str, ms: u64, missed: u64 },
}

/// The bytes of a line, without its line feed.
pub(super) fn line(before: Head, at_ms: i64, event: &Event<'_>) -> serde_json::Result<Vec<u8>> {
    let (seq, at) = (before.seq + 1, instant::format(at_ms));
    let mut out = format!(r#"{{"seq":{seq},"at":"{at}","prev":"{}","#, before.hash).into_bytes();
    let from = out.len();
    serde_json::to_writer(&mut out, event)?;
    // One object out of two: the brace that opens the second goes.
    out.remove(from);
    Ok(out)
}

/// What is read of a line to check it.
#[derive(Debug, Deserialize)]
pub(super) struct Read {
    pub(super) seq: u64,
    pub(super) at: String,
    pub(super) prev: Hash,
    pub(super) event: String,
    pub(super) head: Option<Hash>,
    pub(super) files: Option<Vec<String>>,
    pub(super) sha256: Option<Hash>,
    pub(super) kept: Option<String>,
}

impl Read {
    /// A line of a trail, if it is one.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// A name as it may stand in a line.
pub(super) fn name(text: &str) -> String {
    match text.len() {
        0..=MAX_NAME => text.to_owned(),
        _ => format!("{}…", text.get(..text.floor_char_boundary(MAX_NAME)).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a client calls things, a line is one line, is bounded, and says so in JSON.
    #[test]
    fn names_of_clients_stay_in_their_line() {
        let worst = name(&"\u{0}\n\"".repeat(100_000));
        let names = Names {
            peer: Some(worst.clone()),
            namespace: Some(worst.clone()),
            method: Some(worst.clone()),
            name: None,
        };
        let asked = Asked { client: worst.clone(), tool: worst, names, args: "0".repeat(64) };
        let ending = Ending { outcome: "not_run", code: Some("bad_argument".into()) };
        let line = line(Head::NONE, 0, &Event::Refused { asked: &asked, ending: &ending, us: 1 }).unwrap();
        assert!(line.len() < MAX_LINE && !line.contains(&b'\n'));
        let read = Read::parse(&line).unwrap();
        assert_eq!((read.seq, read.event.as_str(), read.prev), (1, "refused", Hash::GENESIS));
        assert_eq!(read.at, "1970-01-01T00:00:00.000Z");
    }

    /// ARCHITECTURE.md shows this line.
    #[test]
    fn a_line_is_as_told() {
        let names = Names {
            peer: Some("bakery".into()),
            namespace: Some("oven".into()),
            method: Some("setTarget".into()),
            name: None,
        };
        let head = Head { seq: 41, hash: Hash::of(b"") };
        let ending = Ending { outcome: "unknown", code: Some("unknown_outcome".into()) };
        let event = Event::Ended {
            call: 40,
            client: "stdio",
            tool: "set_state",
            names: &names,
            ending: &ending,
            us: 10_000_417,
        };
        let told = concat!(
            r#"{"seq":42,"at":"2026-08-07T18:22:10.114Z","#,
            r#""prev":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","#,
            r#""event":"ended","call":40,"client":"stdio","tool":"set_state","peer":"bakery","namespace":"oven","#,
            r#""method":"setTarget","outcome":"unknown","code":"unknown_outcome","us":10000417}"#
        );
        assert_eq!(String::from_utf8(line(head, 1_786_126_930_114, &event).unwrap()).unwrap(), told);
    }
}
