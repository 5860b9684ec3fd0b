//! What a hub lets be watched: the path `bus` of its own name (wire.md 11.2). It mirrors what it passes on between two
//! others: not what is to or from itself, and not what enters from another hub. What is in a batch it does not tell.

use std::time::Duration;

use super::error::clip;
use super::{Map, Value};

/// The namespace of a hub that mirrors.
pub const PATH: &str = "bus";
/// Begins to mirror; its argument is a [`filter`], its answer holds a [`token`].
pub const TAP: &str = "tap";
/// Ends what a token stands for.
pub const UNTAP: &str = "untap";
/// The event by which what is mirrored arrives, for all who tap.
pub const FRAME: &str = "frame";

/// Something that was passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirrored {
    /// Who sent it.
    pub source: String,
    /// Whom it is for.
    pub target: String,
    /// What it is.
    pub kind: MirroredKind,
    /// The namespace; of an answer, where the hub knows its call.
    pub namespace: Option<String>,
    /// The method; the same.
    pub method: Option<String>,
    /// The event.
    pub event: Option<String>,
    /// What its sender called it. A batch has none.
    pub id: Option<String>,
    /// Of an answer: how many milliseconds after its call the hub passed it on, where it knows the call.
    pub ms: Option<f64>,
    /// Of an error: its code.
    pub code: Option<String>,
    /// Of an error: its text.
    pub error: Option<String>,
    /// What it carries: arguments, a result, what was emitted. Only where somebody who taps asked for it.
    pub carries: Option<Value>,
}

/// What kind of frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirroredKind {
    /// A request.
    Post,
    /// A result, or the receipt for one.
    Success,
    /// An error.
    Error,
    /// An event.
    Event,
    /// A later answer; which, is not told.
    Ticket,
    /// Several requests in one; which, is not told, and their answers come one by one.
    Batch,
}

/// What is wanted: what this peer sends or is sent, or everything; what it carries or not; for how long.
pub fn filter(peer: Option<&str>, payloads: bool, lasting: Duration) -> Value {
    let mut map = Map::new();
    if let Some(peer) = peer {
        map.insert("peer", peer);
    }
    map.insert("payloads", payloads);
    map.insert("ttl", i64::try_from(lasting.as_secs().clamp(1, LONGEST)).unwrap_or(1));
    Value::Map(map)
}

/// The token in the answer to a tap.
pub fn token(answer: &Value) -> Option<&str> {
    answer.get("token")?.as_str().filter(|token| (1..=MAX_TOKEN).contains(&token.len()))
}

/// Reads what was mirrored, if it is for this token: every subscriber is sent what anybody taps (W-121).
///
/// # Errors
/// What cannot be used of it; nobody can say then whom it was for.
pub fn mirrored(said: Value, token: &str) -> Result<Option<Mirrored>, String> {
    let Value::Map(mut map) = said else { return Err("a mirrored frame that is no map".into()) };
    let Some(Value::Array(taps)) = map.get("taps") else { return Err("a mirrored frame for nobody".into()) };
    if !taps.iter().any(|tap| tap.as_str() == Some(token)) {
        return Ok(None);
    }
    let mut take = |field: &str| match map.remove(field) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    };
    let kind = take("kind").unwrap_or_default();
    let kind = match kind.as_str() {
        "POST" => MirroredKind::Post,
        "SUCCESS" => MirroredKind::Success,
        "ERROR" => MirroredKind::Error,
        "EVENT" => MirroredKind::Event,
        "TICKET" => MirroredKind::Ticket,
        "BATCH" => MirroredKind::Batch,
        other => return Err(format!("a mirrored frame of kind {:?}", clip(other))),
    };
    let (Some(source), Some(target)) = (take("source"), take("target")) else {
        return Err("a mirrored frame between nobody".into());
    };
    let (namespace, method, event) = (take("namespace"), take("method"), take("event"));
    let (id, code, error) = (take("id"), take("code"), take("error"));
    let ms = map.get("ms").and_then(Value::as_f64).filter(|ms| ms.is_finite() && *ms >= 0.0);
    let carries = map.remove("params").or_else(|| map.remove("result"));
    Ok(Some(Mirrored { source, target, kind, namespace, method, event, id, ms, code, error, carries }))
}

/// How many seconds a hub mirrors at most for one token.
const LONGEST: u64 = 3600;
/// How long a token may be, in bytes.
const MAX_TOKEN: usize = 1024;

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::wire::json::from_json;
    use crate::wire::vectors;

    use MirroredKind::{Batch, Error, Post, Success};

    /// Every frame that a hub mirrored on the record is read, and none for another token (W-121).
    #[test]
    fn w121_what_was_recorded_is_read() {
        let recorded = vectors::file("hub-session.json");
        let transcript = recorded["transcripts"]["hmi"].as_array().unwrap();
        let bodies = transcript.iter().map(|step| &step["decoded"]);
        let frames: Vec<&Json> =
            bodies.filter(|flat| flat["event"] == FRAME && flat["path"] == PATH).map(|flat| &flat["body"][0]).collect();
        let read = |frame: &Json| mirrored(from_json(frame.clone()), "tap-1").unwrap().unwrap();
        let kinds: Vec<MirroredKind> = frames.iter().map(|frame| read(frame).kind).collect();
        assert_eq!(kinds, [Post, Success, Batch, Error, Success]);
        let answer = read(frames[1]);
        assert_eq!(
            (answer.method.as_deref(), answer.ms, answer.id.as_deref()),
            (Some("read"), Some(2.0), Some("c-13"))
        );
        assert_eq!(answer.carries, Some(Value::from("flow=42")));
        assert_eq!(read(frames[2]).id, None);
        assert_eq!(read(frames[3]).code.as_deref(), Some("MethodNotFound"));
        for frame in frames {
            assert_eq!(mirrored(from_json(frame.clone()), "tap-2").unwrap(), None);
        }
        let step = |method: &str| {
            transcript.iter().map(|step| &step["decoded"]).find(|flat| flat["method"] == method).unwrap()
        };
        let asked = filter(None, true, Duration::from_secs(5));
        assert_eq!(from_json(step(TAP)["body"][0].clone()), asked);
        let corr = &step(TAP)["corr"];
        let answered = transcript.iter().map(|step| &step["decoded"]);
        let answered = answered.filter(|flat| flat["kind"] == "result").find(|flat| flat["corr"] == *corr).unwrap();
        assert_eq!(token(&from_json(answered["body"].clone())), Some("tap-1"));
    }

    /// Whatever a hub sends in place of one is refused, by what is wrong with it.
    #[test]
    fn what_is_no_mirrored_frame_is_refused() {
        let good = json!({"taps": ["t"], "kind": "POST", "source": "a", "target": "b"});
        for (field, bad, says) in [
            ("taps", json!("t"), "nobody"),
            ("kind", json!("SNOW"), "SNOW"),
            ("kind", json!(7), "kind"),
            ("source", json!(null), "between nobody"),
            ("target", json!([]), "between nobody"),
        ] {
            let mut frame = good.clone();
            frame[field] = bad;
            let error = mirrored(from_json(frame), "t").unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(mirrored(Value::Null, "t").is_err());
        let mut odd = good;
        odd["ms"] = json!(-1);
        odd["method"] = json!({"a": 1});
        let read = mirrored(from_json(odd), "t").unwrap().unwrap();
        assert_eq!((read.ms, read.method), (None, None));
        assert_eq!(token(&from_json(json!({"token": ""}))), None);
        assert_eq!(token(&from_json(json!({"token": "x".repeat(2000)}))), None);
    }
}
