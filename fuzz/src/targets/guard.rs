//! The stdio door: bytes to lines, and each line to one message, one refusal, or nothing that anybody waits for.

use plantbridge::door::guard::{Refusal, Verdict, judge};
use plantbridge::door::lines::{Line, Lines};
use plantbridge::door::scan::{IdScan, MAX_ID};
use serde_json::Value as Json;

use super::pieces::{Pieces, short};

/// Bytes of a line: few, so that lines are too long.
const LIMIT: usize = 512;

pub(super) fn run(data: &[u8]) {
    let mut pieces = Pieces(data);
    let cuts = pieces.short();
    let stream = pieces.0;
    let whole = outcomes(&[stream]);
    assert_eq!(outcomes(&cut(stream, cuts)), whole, "it matters how the stream is cut");
    let lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    // What follows the last newline is a line if there is anything.
    let expected = lines.len() - usize::from(lines.last().is_some_and(|last| last.is_empty()));
    assert_eq!(whole.len(), expected, "as many outcomes as lines");
    for (line, outcome) in lines.iter().zip(&whole) {
        is_sound(line, outcome);
    }
}

/// What became of a line.
#[derive(Debug, PartialEq)]
enum Outcome {
    PassedOn(Json),
    Refused(Vec<Refusal>),
    Absorbed(Option<&'static str>),
    TooLong(Option<Json>),
}

fn outcomes(pieces: &[&[u8]]) -> Vec<Outcome> {
    let mut lines = Lines::new(LIMIT);
    let mut out = Vec::new();
    for piece in pieces {
        lines.room().extend_from_slice(piece);
        while let Some(line) = lines.next_line() {
            out.push(outcome(line));
        }
    }
    out.extend(lines.last_line().map(outcome));
    out
}

fn outcome(line: Line) -> Outcome {
    match line {
        Line::TooLong { id, .. } => Outcome::TooLong(id),
        Line::Whole(line) => match judge(&line) {
            Verdict::Message(message) => Outcome::PassedOn(serde_json::to_value(&*message).expect("a message is JSON")),
            Verdict::Refused(refusals) => Outcome::Refused(refusals),
            Verdict::Absorbed(why) => Outcome::Absorbed(why),
        },
    }
}

/// The stream in pieces, each as long as a byte says.
fn cut<'a>(stream: &'a [u8], cuts: &[u8]) -> Vec<&'a [u8]> {
    let mut rest = stream;
    let mut pieces: Vec<&[u8]> = Vec::new();
    for length in cuts {
        let (piece, after) = rest.split_at(usize::from(*length).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

fn is_sound(line: &[u8], outcome: &Outcome) {
    let text = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    match outcome {
        Outcome::TooLong(id) => {
            assert!(line.len() > LIMIT);
            assert_eq!(*id, IdScan::of(line));
        }
        Outcome::Absorbed(None) => assert!(text.is_empty()),
        Outcome::Absorbed(Some(why)) => {
            assert!(!why.is_empty());
            // Whoever waits for an answer is given one: only a response may name an id and get nothing.
            let parsed: Json = serde_json::from_slice(text).expect("what is absorbed is JSON");
            assert!(parsed.get("id").is_none() || parsed.get("method").is_none(), "{parsed}");
        }
        Outcome::Refused(refusals) => {
            assert!(!refusals.is_empty());
            assert!(refusals.len() == 1 || text.starts_with(b"["), "only a batch has several answers");
            refusals.iter().for_each(is_an_answer);
        }
        Outcome::PassedOn(message) => {
            let parsed: Json = serde_json::from_slice(text).expect("what is passed on is JSON");
            assert_eq!(message.get("method"), parsed.get("method"));
            // A call that cannot be answered is not executed, and an answer goes to whoever asked.
            if message.get("method").is_some() {
                assert_eq!(message.get("id"), parsed.get("id"), "{message}");
                assert!(message.get("id").is_none_or(|id| id.is_i64() || id.is_u64() || id.is_string()), "{message}");
            }
        }
    }
}

fn is_an_answer(refusal: &Refusal) {
    let Refusal { id, code, message } = refusal;
    assert!(id.is_null() || id.is_number() || id.as_str().is_some_and(|id| id.len() <= MAX_ID), "{id}");
    assert!([-32700, -32600, -32602].contains(code), "{code}");
    assert!(!message.is_empty() && message.len() <= 1_024, "{message:.200}");
    let answer = refusal.to_json();
    assert_eq!(answer["jsonrpc"], "2.0");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let streams = [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"tools/list\",\"params\":null}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"arguments\":{\"a\":[1,{\"b\":null}]},\"_meta\":{\"progressToken\":\"p\"}}}\r\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"x\",\"arguments\":5,\"inputResponses\":{\"a\":{\"b\":1}},\"requestState\":\"s\"}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1,\"reason\":\"r\"}}\n\n\u{feff}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},{\"id\":\"b\"},5,[{\"id\":9}],{\"id\":null}]\n[]\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}}\n{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"m\"}}\n",
        "{\"id\":4,\nnonsense\n{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/read\",\"params\":{\"uri\":\"plant://guide\"}}\n{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"completion/complete\",\"params\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"server/discover\",\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}\n",
    ];
    let long = format!("{{\"x\":\"{}\",\"id\":77}}\nok", "y".repeat(600));
    let deep = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{{\"a\":{}", "[".repeat(120));
    let seed = |stream: &str| {
        let mut out = Vec::new();
        short(&mut out, &[1, 7, 0, 30, 3, 99]);
        out.extend_from_slice(stream.as_bytes());
        out
    };
    streams.into_iter().chain([long.as_str(), deep.as_str()]).map(seed).collect()
}
