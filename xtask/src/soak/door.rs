//! A client of the bridge, on its pipes or over HTTP: it makes calls one after another, writes each into the record, and reads
//! from the answer what may be concluded.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::bridge::{Pipe, TIMEOUT};
use super::record::{Record, Told};

/// Where the calls of a client go.
#[derive(Debug)]
pub(super) enum Door {
    Pipe(Pipe),
    Http { port: u16, stream: Option<TcpStream> },
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) door: Door,
    pub(super) record: Arc<Record>,
}

/// What came of a call.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) call: u64,
    /// `ok`, or the code of the error.
    pub(super) code: String,
    pub(super) content: Value,
    /// What is said of a command; nothing if nothing is said.
    pub(super) told: Option<Told>,
}

/// What a call may take beyond what it was told to wait: the machine is shared, and the build is one for development.
const GRACE: Duration = Duration::from_secs(10);
/// Refusals that come from the peer: whatever was sent arrived and did not run.
const FROM_THE_PEER: [&str; 5] = ["peer_refused", "peer_busy", "superseded", "not_in_control", "ownership_changed"];

impl Client {
    /// Calls a tool that itself waits no longer than `wait`.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value, wait: Duration) -> Answered {
        let bound = wait + Duration::from_millis(TIMEOUT) + GRACE;
        let call = self.record.with(|state| state.begin(described(tool, arguments), bound));
        let params = json!({"name": tool, "arguments": arguments});
        let message = match &mut self.door {
            Door::Pipe(pipe) => {
                let answer = pipe.ask(call, "tools/call", &params);
                answer.and_then(|answer| answer.recv_timeout(2 * bound).map_err(|error| error.to_string()))
            }
            Door::Http { port, stream } => post(*port, stream, call, &params, 2 * bound).inspect(|_| {
                self.record.with(|state| state.answered(call));
            }),
        };
        self.conclude(tool, call, message)
    }

    /// Calls a tool on the pipes and cancels it after a moment; gives what came, if anything did.
    pub(super) fn call_and_cancel(&mut self, tool: &str, arguments: &Value, after: Duration) -> Option<Answered> {
        let Door::Pipe(pipe) = &self.door else { return None };
        let bound = after + GRACE;
        let call = self.record.with(|state| state.begin(described(tool, arguments), bound));
        let answer = pipe.ask(call, "tools/call", &json!({"name": tool, "arguments": arguments})).ok()?;
        if let Ok(message) = answer.recv_timeout(after) {
            return Some(self.conclude(tool, call, Ok(message)));
        }
        self.record.with(|state| state.cancelled(call));
        pipe.tell("notifications/cancelled", &json!({"requestId": call, "reason": "soak"})).ok()?;
        let message = answer.recv_timeout(Duration::from_millis(500)).ok();
        if message.is_none() {
            self.record.with(|state| state.outcome(tool, "cancelled, no answer"));
        }
        message.map(|message| self.conclude(tool, call, Ok(message)))
    }

    fn conclude(&self, tool: &str, call: u64, message: Result<Value, String>) -> Answered {
        let message = message.unwrap_or_else(|why| {
            self.record.with(|state| state.given_up(call));
            json!({ "gone": why })
        });
        let content = message.pointer("/result/structuredContent").cloned().unwrap_or(Value::Null);
        let failed = message.pointer("/result/isError") == Some(&Value::Bool(true));
        let code = match content.pointer("/error/code").and_then(Value::as_str) {
            Some(code) if failed => code.to_owned(),
            _ if content.is_object() && !failed => "ok".to_owned(),
            _ => {
                let what = format!("{tool} has no result: {}", cut(&message.to_string()));
                self.record.with(|state| state.violate(Some(call), what));
                "no result".to_owned()
            }
        };
        if code == "internal" {
            let what = format!("{tool} failed inside: {}", cut(&content.to_string()));
            self.record.with(|state| state.violate(Some(call), what));
        }
        let outcome = content.pointer("/error/outcome").and_then(Value::as_str);
        let told = match (code.as_str(), outcome) {
            ("ok", _) => Some(Told::Done),
            (code, Some("not_run")) if FROM_THE_PEER.contains(&code) => Some(Told::Refused),
            (_, Some("not_run")) => Some(Told::NotSent),
            (_, Some("ran")) => Some(Told::Ran),
            (_, Some("unknown")) => Some(Told::Unknown),
            _ => None,
        };
        let shown = outcome.map_or_else(|| code.clone(), |outcome| format!("{code}, {outcome}"));
        self.record.with(|state| state.outcome(tool, &shown));
        Answered { call, code, content, told }
    }
}

fn described(tool: &str, arguments: &Value) -> String {
    format!("{tool} {}", cut(&arguments.to_string()))
}

fn cut(text: &str) -> String {
    text.chars().take(300).collect()
}

/// Posts a call and reads its answer, on the connection there is or on a new one.
fn post(port: u16, kept: &mut Option<TcpStream>, call: u64, params: &Value, wait: Duration) -> Result<Value, String> {
    let body = json!({"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params}).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| format!("the door: {error}"))?,
    };
    let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(wait)));
    set.map_err(|error| format!("the door: {error}"))?;
    stream.write_all(request.as_bytes()).map_err(|error| format!("write to the door: {error}"))?;
    let answer = answer(&mut stream)?;
    if answer.get("id").and_then(Value::as_u64) != Some(call) {
        return Err(format!("the answer to another call: {}", cut(&answer.to_string())));
    }
    *kept = Some(stream);
    Ok(answer)
}

fn answer(stream: &mut TcpStream) -> Result<Value, String> {
    let (mut inbox, mut piece) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        match stream.read(&mut piece).map_err(|error| format!("read from the door: {error}"))? {
            0 => return Err("the door closed a connection".to_owned()),
            count => inbox.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
        let Some(end) = inbox.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let (head, body) = inbox.split_at(end + 4);
        let head = String::from_utf8_lossy(head).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
        let length = length.ok_or_else(|| format!("an answer of no length: {}", cut(&head)))?;
        if body.len() > length {
            return Err("more than one answer to one call".to_owned());
        }
        if body.len() == length {
            let told = String::from_utf8_lossy(body);
            return serde_json::from_str(&told).map_err(|_| format!("no JSON: {} {}", cut(&head), cut(&told)));
        }
    }
}
