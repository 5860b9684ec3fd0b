//! The HTTP door: what the head of a request says, with its body.

use std::net::{IpAddr, Ipv4Addr};

use plantbridge::door::hosts::Hosts;
use plantbridge::door::http::judged;

use super::pieces::{Pieces, long, short};
use super::reason;

pub(super) fn run(data: &[u8]) {
    let mut pieces = Pieces(data);
    let body = pieces.long();
    let mut fields: Vec<(&str, &[u8])> = Vec::new();
    while !pieces.0.is_empty() && fields.len() < 16 {
        let name = NAMES.get(usize::from(pieces.byte()) % NAMES.len()).copied().unwrap_or_default();
        fields.push((name, pieces.short()));
    }
    // What else there is never becomes a header.
    fields.retain(|(_, value)| value.iter().all(|byte| (*byte >= b' ' && *byte != 0x7f) || *byte == b'\t'));
    let judgement = judged(&fields, body);
    match &judgement {
        Ok(method) => is_served(&fields, method),
        Err((status, why)) => {
            // A request whose params are wrong is answered like any other.
            assert!([200, 400, 404, 406, 415].contains(status), "{status}");
            reason(why);
        }
    }
    assert_eq!(judged(&fields, body), judgement);
    for (_, value) in &fields {
        if let Ok(text) = std::str::from_utf8(value) {
            host(text);
        }
    }
}

/// What is served came as JSON, which a page of another site cannot send unasked (F-11), and is what its headers say.
fn is_served(fields: &[(&str, &[u8])], method: &str) {
    let [kind] = values(fields, "content-type")[..] else { panic!("{method} without one type") };
    let kind = String::from_utf8_lossy(kind).trim().to_ascii_lowercase();
    assert!(kind.starts_with("application/json"), "{method} as {kind:?}");
    let is_held = values(fields, "mcp-protocol-version") == [b"2026-07-28"];
    if is_held && !["", "initialize"].contains(&method) {
        assert_eq!(values(fields, "mcp-method"), [method.as_bytes()]);
    }
}

fn values<'a>(fields: &[(&str, &'a [u8])], name: &str) -> Vec<&'a [u8]> {
    fields.iter().filter(|(known, _)| *known == name).map(|(_, value)| *value).collect()
}

/// A name that is not ours is not let in, however it is written.
fn host(text: &str) {
    let bound = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let hosts =
        Hosts::new(bound, &["plant.example".to_owned()], &["https://console.example".to_owned()]).expect("hosts");
    let lower = text.to_ascii_lowercase();
    if hosts.answers_to(text) {
        assert!(!text.contains(['@', '/', '?', '#', ' ']), "{text:?}");
        // What begins like this is no address.
        if lower.starts_with(|first| ('g'..='z').contains(&first)) {
            let name = lower.split(':').next().unwrap_or_default();
            assert!(["plant.example", "localhost"].contains(&name), "{text:?}");
        }
    }
    if hosts.lets_in(text) {
        let port = lower.strip_prefix("https://console.example").expect("another page is let in");
        assert!(port.is_empty() || port.trim_start_matches([':', '0']) == "443", "{text:?}");
    }
    if Hosts::is_at(text, "http", "plant.example") {
        assert!(lower.starts_with("http://plant.example"), "{text:?}");
    }
}

const NAMES: [&str; 8] =
    ["content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name", "host", "origin", "authorization"];

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let modern = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let old = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let begins = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let json = (0, "application/json");
    let both = (1, "application/json, text/event-stream;q=0.5");
    [
        seed(modern, &[json, both, (2, "2026-07-28"), (3, "tools/call"), (4, "echo")]),
        seed(modern, &[json, (2, "2026-07-28"), (3, "tools/call"), (4, "=?base64?ZWNobw==?=")]),
        seed(old, &[(0, "Application/Json; charset=\"utf-8\""), (2, "2025-06-18"), (5, "localhost:80")]),
        seed(begins, &[json, both, (6, "https://console.example:443"), (5, "[::1]:9")]),
        seed(begins, &[json, (2, "2025-11-25"), (5, "Plant.Example:99")]),
        seed("{}", &[json, (1, "*/*;q=0"), (2, "2026-07-28"), (3, "ping")]),
        seed("", &[(0, "text/plain"), (1, "text/html"), (6, "http://plant.example:80")]),
    ]
    .into()
}

fn seed(body: &str, fields: &[(u8, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    long(&mut out, body.as_bytes());
    for (name, value) in fields {
        out.push(*name);
        short(&mut out, value.as_bytes());
    }
    out
}
