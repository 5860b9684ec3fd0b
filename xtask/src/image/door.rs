//! A bridge of an image with its HTTP door open, and a client of that, a connection a request: what is needed to ask an image
//! something.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::room::{Room, Running};
use crate::bench::broker::{Broker, free_port};

/// How long anything may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at what is not there yet; a start is not measured finer.
const PAUSE: Duration = Duration::from_micros(500);

/// Whoever starts a bridge chooses it; this one is nobody's.
pub(super) const TOKEN: &str = "a-token-of-one-test-and-of-nothing-else";

/// Starts a bridge with a door on a free port, which wants [`TOKEN`], on a broker of this machine by this name for it.
pub(super) fn open(room: &Room, broker: &Broker, host: &str, more: [&str; 2]) -> Result<(Running, u16), String> {
    let port = free_port().map_err(|error| format!("no free port: {error}"))?;
    let (at, url) = (port.to_string(), format!("mqtt://{host}:{}", broker.port));
    let start = ["/plantbridge", "mcp", "--no-stdio", "--port", &at, "--require-token", "--broker", &url];
    let running = room.start(&[&start[..], &more].concat(), &[("PLANTBRIDGE_MCP_TOKEN", TOKEN)])?;
    Ok((running, port))
}

/// A door on this machine, and the token it wants.
pub(super) struct Door<'a> {
    pub(super) port: u16,
    pub(super) token: Option<&'a str>,
}

impl Door<'_> {
    /// Calls a tool, waiting for the network if it is not there yet; nothing was sent then.
    pub(super) fn call(&self, tool: &str, arguments: &Json) -> Result<Json, String> {
        let until = Instant::now() + PATIENCE;
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}});
        loop {
            let (status, answer) = self.post(&body.to_string())?;
            let answer: Json = serde_json::from_str(&answer).map_err(|error| format!("{status}: {answer}: {error}"))?;
            let result = &answer["result"];
            if status == 200 && result["isError"] != true && result.is_object() {
                return Ok(result["structuredContent"].clone());
            }
            let waits = result["structuredContent"]["error"]["code"] == "network_unavailable";
            if !waits || Instant::now() > until {
                return Err(format!("{tool}: {status}: {answer}"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The status of an answer to a body at `/mcp`, and the answer.
    pub(super) fn post(&self, body: &str) -> Result<(u16, String), String> {
        let token = self.token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        self.exchange(&format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n{token}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Waits until whatever is asked with a GET is answered as `wanted`.
    pub(super) fn until(&self, path: &str, wanted: impl Fn(u16) -> bool) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        loop {
            let answer = self.exchange(&request);
            if answer.as_ref().is_ok_and(|(status, _)| wanted(*status)) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("{path} is never answered as wanted: {answer:?}"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn exchange(&self, request: &str) -> Result<(u16, String), String> {
        let failed = |error: std::io::Error| format!("the door at {}: {error}", self.port);
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(failed)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| format!("half an answer: {answer}"))?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.ok_or_else(|| format!("no status: {head}"))?, body.to_owned()))
    }
}
