//! The HTTP door, as raw bytes over TCP: what a client, a web page and a stranger may throw at it (tools.md 8).

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::Ordering,
    time::Duration,
};

use plantbridge::{
    door::{
        auth::Keys,
        hosts::Hosts,
        http::{DoorTls, HttpConfig, HttpDoor, Rules, RulesHandle},
    },
    mcp::{Offer, Registry, Server, load::Limits, server::Config, tools},
};
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, ServerName},
    },
};
use tokio_util::sync::CancellationToken;

use crate::{
    harness::{Client, Setup, Switches, nowhere},
    later::{deferred, resolved, tell},
    plant::joined,
    silence::ByHand,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const PAGE: &str = "https://console.example";

/// An open door.
pub(crate) struct Open {
    pub(crate) address: SocketAddr,
    /// What changes who and what it lets in.
    pub(crate) rules: RulesHandle,
    switches: Option<Switches>,
    pub(crate) stop: CancellationToken,
    ended: JoinHandle<()>,
}

impl Open {
    /// A door for the tools of the tests.
    pub(crate) async fn new(keys: Keys, config: HttpConfig) -> Self {
        let (tools, switches) = crate::harness::tools();
        let limits = Limits { running: 2, queued: 1, ..Limits::default() };
        let incidents = Box::new(|| "incident-1".to_owned());
        let config_of = Config { limits, longest_call: None, cursor_key: [1; 32], incidents };
        let server = Server::new(nowhere(), Registry::new(tools, Offer::default()), config_of);
        Self { switches: Some(switches), ..Self::of(server, keys, config).await }
    }

    pub(crate) async fn of(server: Server, keys: Keys, config: HttpConfig) -> Self {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let door = HttpDoor::bind(local, Self::letting_in(keys), config).await.unwrap();
        let (address, rules, stop) = (door.address().unwrap(), door.rules(), CancellationToken::new());
        let ended = tokio::spawn(door.serve(server, stop.clone()));
        Self { address, rules, switches: None, stop, ended }
    }

    /// The usual rules, for clients with these keys.
    pub(crate) fn letting_in(keys: Keys) -> Rules {
        let local = Ipv4Addr::LOCALHOST.into();
        let hosts = Hosts::new(local, &["plant.example".into()], &[PAGE.into()]).unwrap();
        Rules { keys, hosts, tls: None }
    }

    pub(crate) async fn anybody() -> Self {
        Self::new(Keys::default(), HttpConfig::default()).await
    }

    pub(crate) async fn for_named() -> Self {
        let keys = r#"{"tokens": {"key-a": {"name": "a"}, "key-b": {"name": "b"}, "key-eye": {"name": "eye", "read_only": true}}}"#;
        Self::new(Keys::parse(keys).unwrap(), HttpConfig::default()).await
    }

    pub(crate) fn switches(&mut self) -> &mut Switches {
        self.switches.as_mut().unwrap()
    }

    pub(crate) async fn connect(&self) -> Wire {
        Wire::at(self.address).await
    }

    /// It closes when it is asked to, and nothing is left.
    pub(crate) async fn closed(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.ended).await.expect("the door closes").unwrap();
        assert!(TcpStream::connect(self.address).await.is_err(), "nobody listens any more");
    }
}

/// One connection.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Told {
    pub(crate) fn json(&self) -> Json {
        assert!(self.head.contains("content-type: application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The code of a JSON-RPC error.
    pub(crate) fn code(&self) -> i64 {
        let json = self.json();
        assert!(json.as_object().unwrap().contains_key("id"), "{json}");
        json["error"]["code"].as_i64().unwrap_or_else(|| panic!("{json}"))
    }
}

/// A request with these headers beside its length.
pub(crate) fn post(headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("POST /mcp HTTP/1.1\r\nContent-Length: {}\r\n", body.len()).into_bytes();
    for header in headers {
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

pub(crate) const HOST: &str = "Host: localhost";
pub(crate) const TYPE: &str = "Content-Type: application/json";
pub(crate) const BOTH: &str = "Accept: application/json, text/event-stream";
const USUAL: [&str; 3] = [HOST, TYPE, BOTH];

pub(crate) fn call(id: &Json, tool: &str, arguments: &Json) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string().into_bytes()
}

pub(crate) fn echo(text: &str) -> Vec<u8> {
    call(&json!(1), "echo", &json!({"text": text}))
}

impl Wire {
    pub(crate) fn to(stream: TcpStream) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn at(address: SocketAddr) -> Self {
        Self::to(TcpStream::connect(address).await.unwrap())
    }

    /// Where the other end is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.peer_addr().unwrap()
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn more(&mut self) -> bool {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.read)).await.expect("something comes");
        read.unwrap_or(0) > 0
    }

    /// Reads up to the end of a head.
    pub(crate) async fn head(&mut self) -> String {
        loop {
            if let Some(at) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                let rest = self.read.split_off(at + 4);
                return String::from_utf8(std::mem::replace(&mut self.read, rest)).unwrap().to_lowercase();
            }
            assert!(self.more().await, "an answer, not the end: {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    async fn exactly(&mut self, length: usize) -> String {
        while self.read.len() < length {
            assert!(self.more().await, "a whole answer");
        }
        let rest = self.read.split_off(length);
        String::from_utf8(std::mem::replace(&mut self.read, rest)).unwrap()
    }

    /// One chunk; empty at the end of the body.
    pub(crate) async fn chunk(&mut self) -> String {
        let size = loop {
            if let Some(at) = self.read.windows(2).position(|two| two == b"\r\n") {
                let line = self.exactly(at + 2).await;
                break usize::from_str_radix(line.trim(), 16).unwrap();
            }
            assert!(self.more().await, "a chunk");
        };
        let chunk = self.exactly(size + 2).await;
        chunk.trim_end_matches("\r\n").to_owned()
    }

    pub(crate) async fn told(&mut self) -> Told {
        let head = self.head().await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|it| it.parse().unwrap());
        let body = match length {
            Some(length) => self.exactly(length).await,
            None if head.contains("transfer-encoding: chunked") => {
                let mut body = String::new();
                loop {
                    match self.chunk().await {
                        chunk if chunk.is_empty() => break body,
                        chunk => body.push_str(&(chunk + "\n")),
                    }
                }
            }
            None => String::new(),
        };
        Told { status, head, body }
    }

    pub(crate) async fn ask(&mut self, bytes: &[u8]) -> Told {
        self.send(bytes).await;
        self.told().await
    }

    /// The other end has closed.
    pub(crate) async fn is_closed(&mut self) -> bool {
        while self.more().await {}
        true
    }
}

async fn ask(door: &Open, bytes: &[u8]) -> Told {
    door.connect().await.ask(bytes).await
}

/// One message, one answer, over one connection, in every era; no session id is ever given.
#[tokio::test]
async fn a_message_is_answered_over_a_connection_that_stays() {
    let door = Open::anybody().await;
    let mut wire = door.connect().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let about =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}).to_string();
        let told = wire.ask(&post(&USUAL, body.as_bytes())).await;
        assert_eq!((told.status, &told.json()["result"]["protocolVersion"]), (200, &json!(version)));
        assert!(!told.head.contains("mcp-session-id"), "{}", told.head);
        let header = format!("MCP-Protocol-Version: {version}");
        let with = [HOST, TYPE, BOTH, &header];
        let told = wire.ask(&post(&with, br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await;
        assert_eq!((told.status, told.body.as_str()), (202, ""));
        let told = wire.ask(&post(&with, &echo(version))).await;
        assert_eq!(told.json()["result"]["structuredContent"]["text"], version);
        let told = wire.ask(&post(&with, br#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)).await;
        assert_eq!(told.json(), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
        let told = wire.ask(&post(&with, br#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":null}"#)).await;
        assert!(told.json()["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "echo"));
        let told = wire.ask(&post(&with, br#"{"jsonrpc":"2.0","id":3,"method":"no/such"}"#)).await;
        assert_eq!((told.status, told.code()), (200, -32601));
    }
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let new = |method: &str, params: Json| {
        let mut params = params;
        params["_meta"] = meta.clone();
        json!({"jsonrpc": "2.0", "id": 4, "method": method, "params": params}).to_string().into_bytes()
    };
    let version = "MCP-Protocol-Version: 2026-07-28";
    let with = |method: &'static str| [HOST, TYPE, BOTH, version, method, "Mcp-Name: echo"];
    let told = wire
        .ask(&post(
            &with("Mcp-Method: tools/call"),
            &new("tools/call", json!({"name": "echo", "arguments": {"text": "new"}})),
        ))
        .await;
    assert_eq!((told.status, &told.json()["result"]["structuredContent"]["text"]), (200, &json!("new")));
    let told = wire.ask(&post(&with("Mcp-Method: server/discover"), &new("server/discover", json!({})))).await;
    assert!(told.json()["result"]["supportedVersions"].as_array().is_some_and(|all| all.len() == 5), "{told:?}");
    let told = wire.ask(&post(&with("Mcp-Method: no/such"), &new("no/such", json!({})))).await;
    assert_eq!((told.status, told.code()), (404, -32601), "later revisions are told by the status as well");
    drop(wire);
    door.closed().await;
}

/// Whatever is no message is refused as JSON-RPC, is not executed, and the connection goes on.
#[tokio::test]
async fn bodies_that_are_no_message_are_refused_in_json() {
    let mut door = Open::anybody().await;
    let mut wire = door.connect().await;
    let cases: [(&[u8], i64); 12] = [
        (b"", -32700),
        (b"null", -32600),
        (b"[]", -32600),
        (
            br#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}]"#,
            -32600,
        ),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":"tools/ca"#, -32700),
        (b"\xff\xfe", -32700),
        (b"<html>", -32700),
        (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#, -32600),
        (
            br#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#,
            -32600,
        ),
        (br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600),
    ];
    for (body, code) in cases {
        let told = wire.ask(&post(&USUAL, body)).await;
        assert_eq!((told.status, told.code()), (400, code), "{}", String::from_utf8_lossy(body));
    }
    let told = wire.ask(&post(&USUAL, br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}"#)).await;
    assert_eq!((told.status, told.code(), &told.json()["id"]), (200, -32602, &json!(7)));
    assert_eq!(door.switches().echoed.load(Ordering::SeqCst), 0, "nothing of this is executed");
    assert_eq!(wire.ask(&post(&USUAL, &echo("still"))).await.status, 200);
}

/// F-11: what a web page can send, and a rebound name; only POST, only /mcp, only JSON, only known revisions.
#[tokio::test]
async fn what_a_head_says_is_checked_before_the_body() {
    let mut door = Open::anybody().await;
    let echo = echo("x");
    let with = |headers: &[&str]| post(headers, &echo);
    let cases: Vec<(u16, Vec<u8>)> = vec![
        (200, with(&[HOST, TYPE])),
        (200, with(&["Host: 127.0.0.1:9", TYPE, "Accept: */*"])),
        (200, with(&["Host: plant.example", TYPE, "Accept: application/json"])),
        (200, with(&[HOST, TYPE, "Origin: https://console.example"])),
        (403, with(&["Host: evil.example", TYPE])),
        (403, with(&["Host: localhost.evil.example", TYPE])),
        (400, with(&[TYPE])),
        (400, with(&[HOST, "Host: evil.example", TYPE])),
        (403, with(&[HOST, TYPE, "Origin: https://evil.example"])),
        (403, with(&[HOST, TYPE, "Origin: null"])),
        (200, with(&["Host: localhost:9", TYPE, "Origin: http://localhost:9"])),
        (403, with(&[HOST, TYPE, "Origin: http://localhost:9"])),
        (403, with(&[HOST, TYPE, "Origin: https://localhost"])),
        (403, with(&[HOST, TYPE, "Origin: https://console.example", "Origin: https://evil.example"])),
        (415, with(&[HOST])),
        (415, with(&[HOST, "Content-Type: text/plain"])),
        (415, with(&[HOST, "Content-Type: application/x-www-form-urlencoded"])),
        (406, with(&[HOST, TYPE, "Accept: text/html"])),
        (400, with(&[HOST, TYPE, "MCP-Protocol-Version: 2099-01-01"])),
        (400, with(&[HOST, TYPE, "MCP-Protocol-Version: 2026-07-28"])),
        (404, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".to_vec()),
        (404, b"GET /mcp/ HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        (403, b"POST http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".to_vec()),
        (405, b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".to_vec()),
        (405, b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: x\r\n\r\n".to_vec()),
        (405, b"PATCH /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
    ];
    for (status, request) in cases {
        let told = ask(&door, &request).await;
        assert_eq!(told.status, status, "{}\n{told:?}", String::from_utf8_lossy(&request));
        assert_eq!(told.status == 405, told.head.contains("allow: post"), "{told:?}");
        if status != 200 {
            assert!(told.json()["error"]["message"].is_string(), "no pages: {told:?}");
        }
    }
    assert_eq!(door.switches().echoed.load(Ordering::SeqCst), 5, "only what was answered ran");
    let told = ask(&door, b"OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://console.example\r\n\r\n").await;
    assert_eq!(told.status, 204);
    assert!(told.head.contains("access-control-allow-origin: https://console.example"), "{told:?}");
    let told = ask(&door, b"OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n").await;
    assert!(told.status == 403 && !told.head.contains("access-control"), "{told:?}");
}

/// F-34: no token, a wrong one, another client's; each client has its name, and one that may only look is shown no more.
#[tokio::test]
async fn a_token_is_needed_and_names_its_client() {
    let mut door = Open::for_named().await;
    for (header, challenge) in [
        ("X-None: 1", "www-authenticate: bearer"),
        ("Authorization: Bearer key-c", "invalid_token"),
        ("Authorization: Bearer", "invalid_token"),
        ("Authorization: Basic a2V5LWE6", "invalid_token"),
    ] {
        let told = ask(&door, &post(&[HOST, TYPE, header], &echo("x"))).await;
        assert_eq!((told.status, told.code()), (401, -32600), "{header}");
        assert!(told.head.contains(challenge), "{told:?}");
    }
    assert_eq!(door.switches().echoed.load(Ordering::SeqCst), 0);
    let (a, eye) = ("Authorization: Bearer key-a", "Authorization: Bearer key-eye");
    assert_eq!(ask(&door, &post(&[HOST, TYPE, a], &echo("x"))).await.status, 200);

    let list = br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let offers =
        |told: Told| told.json()["result"]["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "change_it");
    assert!(offers(ask(&door, &post(&[HOST, TYPE, a], list)).await));
    assert!(!offers(ask(&door, &post(&[HOST, TYPE, eye], list)).await));
    let told = ask(&door, &post(&[HOST, TYPE, eye], &call(&json!(1), "change_it", &json!({})))).await;
    assert_eq!(told.json()["result"]["structuredContent"]["error"]["code"], "read_only", "{told:?}");
}

/// results.md 6: a client has its places whichever connections it comes over, and no other client's.
#[tokio::test]
async fn each_client_has_places_of_its_own() {
    let mut door = Open::for_named().await;
    let with = |key: &str, id: i64, tool: &str| {
        let header = format!("Authorization: Bearer {key}");
        post(
            &[HOST, TYPE, &header],
            &call(&json!(id), tool, &if tool == "echo" { json!({"text": "x"}) } else { json!({}) }),
        )
    };
    let mut wires = Vec::new();
    for _ in 0..2 {
        let mut wire = door.connect().await;
        wire.send(&with("key-a", 1, "block")).await;
        assert_eq!(door.switches().begun.recv().await, Some("block"), "the same id twice at once is two calls");
        wires.push(wire);
    }
    // Two run; of two more one waits for its turn and the other is turned away at once.
    let (mut third, mut fourth) = (door.connect().await, door.connect().await);
    third.send(&with("key-a", 3, "echo")).await;
    fourth.send(&with("key-a", 4, "echo")).await;
    let (told, mut waits) = tokio::select! {
        told = third.told() => (told, fourth),
        told = fourth.told() => (told, third),
    };
    assert_eq!(told.json()["result"]["structuredContent"]["error"]["code"], "busy", "{told:?}");
    assert_eq!(ask(&door, &with("key-b", 5, "echo")).await.json()["result"]["isError"], Json::Null, "b is not a");
    door.switches().release.add_permits(2);
    for wire in &mut wires {
        assert_eq!(wire.told().await.json()["result"]["structuredContent"]["done"], true);
    }
    assert_eq!(waits.told().await.json()["result"]["structuredContent"]["text"], "x");
    drop((wires, waits));
    door.closed().await;
}

/// A call that waits for its plant keeps little in memory, its connection and its client counted in.
#[test]
fn a_call_in_flight_is_small() {
    const MOST: i64 = 64 * 1024;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut door = runtime.block_on(Open::anybody());
    let block = post(&USUAL, &call(&json!(1), "block", &json!({})));
    let mut waiting = Vec::new();
    let mut begin = || {
        runtime.block_on(async {
            let mut wire = door.connect().await;
            wire.send(&block).await;
            assert_eq!(door.switches().begun.recv().await, Some("block"));
            waiting.push(wire);
        });
    };
    // With the first comes what is made once.
    begin();
    let held = allocation_counter::measure(begin).bytes_current;
    assert!((1..MOST).contains(&held), "{held} bytes");
}

/// A client is told of what there is for it, and no more.
#[tokio::test]
async fn each_client_is_told_what_there_is_for_it() {
    let door = Open::for_named().await;
    let about =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}).to_string();
    for (key, looking) in [("key-a", false), ("key-eye", true)] {
        let told =
            ask(&door, &post(&[HOST, TYPE, &format!("Authorization: Bearer {key}")], body.as_bytes())).await.json();
        let said = told["result"]["instructions"].as_str().unwrap();
        assert_eq!(said.contains("This client may only look"), looking, "{said}");
        assert_eq!(said.contains("press, change_it"), !looking, "{said}");
    }
    // Whose it is that nothing changes: the bridge does more for others, and starting it anew would help nobody.
    let told =
        ask(&door, &post(&[HOST, TYPE, "Authorization: Bearer key-eye"], &call(&json!(1), "change_it", &json!({}))))
            .await;
    let error = told.json()["result"]["structuredContent"]["error"].clone();
    assert_eq!((&error["code"], &error["outcome"]), (&json!("read_only"), &json!("not_run")), "{error}");
    for said in [&error["message"], &error["cause"], &error["fix"]] {
        let said = said.as_str().unwrap();
        assert!(said.contains("token") && !said.contains("--read-only"), "{error}");
    }
    door.closed().await;
}

/// A client that hangs up ends the waiting, not the command, and harms nobody (semantics of results.md 6).
#[tokio::test]
async fn a_client_that_dies_mid_call_harms_nobody() {
    let mut door = Open::for_named().await;
    let with = |tool: &str| post(&[HOST, TYPE, "Authorization: Bearer key-a"], &call(&json!(1), tool, &json!({})));
    let mut dying = door.connect().await;
    dying.send(&with("press")).await;
    assert_eq!(door.switches().begun.recv().await, Some("press"));
    drop(dying);
    assert_eq!(
        timeout(PATIENCE, door.switches().told.recv()).await.unwrap(),
        Some("press"),
        "it is told that nobody waits"
    );
    let told = ask(&door, &post(&[HOST, TYPE, "Authorization: Bearer key-b"], &echo("x"))).await;
    assert_eq!(told.status, 200);
    door.switches().release.add_permits(1);
    door.closed().await;
}

/// F-08: `notifications/cancelled` ends the waiting, of this client's request only, over whatever connection it comes.
#[tokio::test]
async fn a_named_client_cancels_over_another_connection() {
    let mut door = Open::for_named().await;
    let cancel = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}"#;
    let mut wire = door.connect().await;
    wire.send(&post(&[HOST, TYPE, "Authorization: Bearer key-a"], &call(&json!("c"), "block", &json!({})))).await;
    assert_eq!(door.switches().begun.recv().await, Some("block"));
    let told = ask(&door, &post(&[HOST, TYPE, "Authorization: Bearer key-b"], cancel)).await;
    assert_eq!(told.status, 202, "of b nothing runs");
    assert!(door.switches().told.try_recv().is_err());
    assert_eq!(ask(&door, &post(&[HOST, TYPE, "Authorization: Bearer key-a"], cancel)).await.status, 202);
    assert_eq!(timeout(PATIENCE, door.switches().told.recv()).await.unwrap(), Some("block"));
    assert_eq!(wire.told().await.json()["id"], "c", "it has its answer");
}

/// Progress comes as a stream of events to a client that reads one; a client of JSON alone gets JSON.
#[tokio::test]
async fn progress_is_streamed_to_those_who_read_it() {
    let mut door = Open::anybody().await;
    let params = json!({"name": "block", "arguments": {}, "_meta": {"progressToken": "t"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let (mut streamed, mut plain) = (door.connect().await, door.connect().await);
    streamed.send(&post(&USUAL, body.as_bytes())).await;
    plain.send(&post(&[HOST, TYPE, "Accept: application/json"], body.as_bytes())).await;
    for _ in 0..2 {
        assert_eq!(door.switches().begun.recv().await, Some("block"));
    }
    let head = streamed.head().await;
    assert!(head.contains("content-type: text/event-stream") && head.contains("chunked"), "{head}");
    let progress = streamed.chunk().await;
    let progress: Json = serde_json::from_str(progress.trim().strip_prefix("event: message\ndata: ").unwrap()).unwrap();
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(progress["params"]["message"], "waiting\\nfor the test");
    door.switches().release.add_permits(2);
    let mut last = String::new();
    loop {
        match streamed.chunk().await {
            chunk if chunk.is_empty() => break,
            chunk => last = chunk,
        }
    }
    let last: Json = serde_json::from_str(last.trim().strip_prefix("event: message\ndata: ").unwrap()).unwrap();
    assert_eq!((&last["id"], &last["result"]["structuredContent"]["done"]), (&json!(1), &json!(true)));
    assert_eq!(plain.told().await.json()["result"]["structuredContent"]["done"], true);
    assert_eq!(streamed.ask(&post(&USUAL, &echo("again"))).await.status, 200, "the connection stays");
}

/// A body over the bound is 413 with a body of its own, said or not, of 100 MB or of no end.
#[tokio::test]
async fn a_body_over_the_bound_is_413() {
    let door = Open::anybody().await;
    let head = format!("POST /mcp HTTP/1.1\r\n{HOST}\r\n{TYPE}\r\nContent-Length: 100000000\r\n\r\n");
    let mut wire = door.connect().await;
    let told = wire.ask(head.as_bytes()).await;
    assert_eq!((told.status, told.code()), (413, -32600), "refused by its head alone");
    assert!(wire.is_closed().await);

    let small = HttpConfig { longest_body: 64 * 1024, ..HttpConfig::default() };
    let door = Open::new(Keys::default(), small).await;
    let mut wire = door.connect().await;
    wire.send(format!("POST /mcp HTTP/1.1\r\n{HOST}\r\n{TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes()).await;
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    for _ in 0..5 {
        wire.send(chunk.as_bytes()).await;
    }
    assert_eq!(wire.told().await.status, 413, "a body that never ends");
    assert_eq!(ask(&door, &post(&USUAL, &echo("next"))).await.status, 200);
}

/// A large body is read to its end, as over stdio; the tool refuses the argument by its size.
#[tokio::test]
async fn a_large_body_is_taken() {
    let door = Open::anybody().await;
    let body = call(&json!(1), "echo", &json!({"text": "x", "value": "y".repeat(3 * 1024 * 1024)}));
    let told = ask(&door, &post(&USUAL, &body)).await;
    let error = &told.json()["result"]["structuredContent"]["error"];
    assert_eq!((&error["argument"], &error["got"]), (&json!("/value"), &json!("3145728 bytes")), "{:.300}", told.body);
}

/// Heads and bodies that do not come, and answers that nobody reads, end their connection in time and no other.
#[tokio::test]
async fn slow_clients_are_not_waited_for_without_end() {
    let short = Duration::from_millis(100);
    let door = Open::new(Keys::default(), HttpConfig { head: short, body: short, ..HttpConfig::default() }).await;
    let mut silent = door.connect().await;
    let mut halting = door.connect().await;
    halting.send(b"POST /mcp HTTP/1.1\r\nHost: loc").await;
    assert!(silent.is_closed().await && halting.is_closed().await, "no head in time");
    let mut half = door.connect().await;
    half.send(format!("POST /mcp HTTP/1.1\r\n{HOST}\r\n{TYPE}\r\nContent-Length: 50\r\n\r\n{{\"json").as_bytes()).await;
    let told = half.told().await;
    assert_eq!((told.status, told.code()), (408, -32600));
    assert!(half.is_closed().await, "no body in time");
    let mut broken = door.connect().await;
    broken
        .send(format!("POST /mcp HTTP/1.1\r\n{HOST}\r\n{TYPE}\r\nContent-Length: 50\r\n\r\n{{\"json").as_bytes())
        .await;
    drop(broken);
    assert_eq!(ask(&door, &post(&USUAL, &echo("x"))).await.status, 200);
    door.closed().await;
}

/// A head over the bound is 431, whether one header is too long or there are too many, and nothing of it runs.
#[tokio::test]
async fn a_head_over_the_bound_is_431() {
    let mut door = Open::anybody().await;
    let long = format!("X-Long: {}", "x".repeat(20 * 1024));
    let many: Vec<String> = (0..100).map(|at| format!("X-{at}: x")).collect();
    let many: Vec<&str> = USUAL.into_iter().chain(many.iter().map(String::as_str)).collect();
    for headers in [&[HOST, TYPE, BOTH, &long][..], &many] {
        let mut wire = door.connect().await;
        wire.send(&post(headers, &echo("x"))).await;
        let head = wire.head().await;
        assert!(head.starts_with("http/1.1 431"), "{head}");
    }
    assert_eq!(door.switches().echoed.load(Ordering::SeqCst), 0);
    assert_eq!(ask(&door, &post(&USUAL, &echo("next"))).await.status, 200);
}

/// A client that asks and asks and reads nothing is let go of, and another is served meanwhile.
#[tokio::test]
async fn who_reads_nothing_is_let_go_of() {
    let config = HttpConfig { unread: Duration::from_millis(200), ..HttpConfig::default() };
    let door = Open::new(Keys::default(), config).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut stalled = socket.connect(door.address).await.unwrap();
    let request = post(&USUAL, &echo(&"x".repeat(16 * 1024)));
    let until_gone = async { while stalled.write_all(&request).await.is_ok() {} };
    let others = async {
        for _ in 0..20 {
            assert_eq!(ask(&door, &post(&USUAL, &echo("meanwhile"))).await.status, 200);
        }
    };
    timeout(PATIENCE, async { tokio::join!(until_gone, others) }).await.expect("it is let go of");
    door.closed().await;
}

/// The revision of the metadata, the headers that repeat the message, and what a client says of itself have to agree.
#[tokio::test]
async fn what_stands_twice_has_to_agree() {
    let mut door = Open::anybody().await;
    let mut wire = door.connect().await;
    let meta = |version: &str| json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}});
    let body = |meta: Json| {
        let params = json!({"name": "echo", "arguments": {"text": "x"}, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string().into_bytes()
    };
    let (version, method, name) = ("MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: echo");
    let good = body(meta("2026-07-28"));
    let cases: [(&[&str], &[u8], u16, i64); 7] = [
        (&["MCP-Protocol-Version: 2025-11-25", method, name], &good, 400, -32020),
        (&[method, name], &good, 400, -32020),
        (&[version, name], &good, 400, -32020),
        (&[version, "Mcp-Method: tools/list", name], &good, 400, -32020),
        (&[version, method, "Mcp-Name: press"], &good, 400, -32020),
        (&["MCP-Protocol-Version: 2031-01-01", method, name], &body(meta("2031-01-01")), 400, -32022),
        (&[version, method, name], &body(json!({})), 400, -32602),
    ];
    for (headers, body, status, code) in cases {
        let headers: Vec<&str> = USUAL.iter().chain(headers).copied().collect();
        let told = wire.ask(&post(&headers, body)).await;
        assert_eq!((told.status, told.code(), &told.json()["id"]), (status, code, &json!(1)), "{headers:?}");
    }
    let ping =
        json!({"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {"_meta": meta("2026-07-28")}}).to_string();
    let told = wire.ask(&post(&[HOST, TYPE, version, "Mcp-Method: ping"], ping.as_bytes())).await;
    assert_eq!((told.status, told.code()), (404, -32601), "a method this revision no longer has");
    let initialize = br#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}"#;
    let told = wire.ask(&post(&[HOST, TYPE, version, "Mcp-Method: initialize"], initialize)).await;
    assert_eq!((told.status, told.code()), (404, -32601), "whatever else it says");
    assert_eq!(door.switches().echoed.load(Ordering::SeqCst), 0);
    assert_eq!(wire.ask(&post(&[HOST, TYPE, version, method, name], &good)).await.status, 200);
}

/// Beyond the bound a connection is told at once that there is no room, and there is room again when a request ends.
#[tokio::test]
async fn connections_are_bounded() {
    let mut door = Open::new(Keys::default(), HttpConfig { connections: 2, ..HttpConfig::default() }).await;
    let (mut first, mut second) = (door.connect().await, door.connect().await);
    for wire in [&mut first, &mut second] {
        wire.send(&post(&USUAL, &call(&json!(1), "press", &json!({})))).await;
        door.switches().begun.recv().await.unwrap();
    }
    let mut third = door.connect().await;
    let told = third.ask(&post(&USUAL, &echo("in"))).await;
    assert_eq!((told.status, told.code()), (503, -32600), "{told:?}");
    assert!(told.json()["error"]["message"].as_str().unwrap().contains("connect again"), "{told:?}");
    assert!(third.is_closed().await);
    door.switches().release.add_permits(2);
    assert_eq!(first.told().await.status, 200);
    assert_eq!(second.told().await.status, 200);
    let mut again = door.connect().await;
    assert_eq!(again.ask(&post(&USUAL, &echo("again"))).await.status, 200, "there is room again");
    door.closed().await;
}

/// Connections that ask nothing, ask half, or are let in nowhere keep nobody out, however many there are: a client with a
/// token is served, and over the connection it has.
#[tokio::test]
async fn connections_that_ask_nothing_shut_nobody_out() {
    const PLACES: usize = 8;
    let keys = Keys::parse(r#"{"tokens": {"key-a": {"name": "a"}}}"#).unwrap();
    let door = Open::new(keys, HttpConfig { connections: PLACES, ..HttpConfig::default() }).await;
    let asks = post(&[HOST, TYPE, "Authorization: Bearer key-a"], &echo("in"));
    let mut known = door.connect().await;
    assert_eq!(known.ask(&asks).await.status, 200);
    let mut strangers = Vec::new();
    for kind in 0..4 * PLACES {
        let mut stranger = door.connect().await;
        match kind % 4 {
            0 => {}
            1 => stranger.send(b"PO").await,
            2 => stranger.send(b"POST /mcp HTTP/1.1\r\nHost: lo").await,
            _ => assert_eq!(
                stranger.ask(format!("GET /elsewhere HTTP/1.1\r\n{HOST}\r\n\r\n").as_bytes()).await.status,
                404
            ),
        }
        strangers.push(stranger);
    }
    assert_eq!(known.ask(&asks).await.status, 200, "it was let in, and keeps its place");
    let mut fresh = door.connect().await;
    assert_eq!(fresh.ask(&asks).await.status, 200, "there is room for one more");
    assert!(strangers[0].is_closed().await, "it gave its place away");
    door.closed().await;
}

/// At its end the door takes nothing more, and what runs is answered within the bound or given up.
#[tokio::test]
async fn what_runs_is_drained_within_a_bound() {
    let mut door = Open::anybody().await;
    let (mut idle, mut busy) = (door.connect().await, door.connect().await);
    assert_eq!(idle.ask(&post(&USUAL, &echo("x"))).await.status, 200);
    busy.send(&post(&USUAL, &call(&json!(1), "block", &json!({})))).await;
    assert_eq!(door.switches().begun.recv().await, Some("block"));
    door.stop.cancel();
    assert!(idle.is_closed().await);
    door.switches().release.add_permits(1);
    assert_eq!(busy.told().await.json()["result"]["structuredContent"]["done"], true);
    assert!(busy.is_closed().await);
    door.closed().await;

    let config = HttpConfig { drain: Duration::from_millis(50), ..HttpConfig::default() };
    let mut door = Open::new(Keys::default(), config).await;
    let mut busy = door.connect().await;
    busy.send(&post(&USUAL, &call(&json!(1), "block", &json!({})))).await;
    assert_eq!(door.switches().begun.recv().await, Some("block"));
    door.stop.cancel();
    assert_eq!(timeout(PATIENCE, door.switches().told.recv()).await.unwrap(), Some("block"));
    door.closed().await;
}

/// Connections that come and vanish, in every state a connection can be in, leave no descriptor and no task.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connections_that_vanish_leave_nothing() {
    let mut door = Open::anybody().await;
    let descriptors = || {
        let ours = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
        let inodes: std::collections::HashSet<String> = ours
            .filter_map(|entry| std::fs::read_link(entry.path()).ok())
            .filter_map(|to| Some(to.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
            .collect();
        let port = format!(":{:04X}", door.address.port());
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        table
            .lines()
            .filter(|line| {
                let cells: Vec<&str> = line.split_whitespace().collect();
                cells.get(1).is_some_and(|local| local.ends_with(&port))
                    && cells.get(9).is_some_and(|inode| inodes.contains(*inode))
            })
            .count()
    };
    assert_eq!(descriptors(), 1, "only the listener");
    let request = post(&USUAL, &echo("x"));
    for round in 0..1_000_usize {
        let mut wire = door.connect().await;
        match round % 5 {
            0 => {}
            1 => wire.send(&request[..20]).await,
            2 => wire.send(&request[..request.len() - 5]).await,
            3 => wire.send(&request).await,
            _ => assert_eq!(wire.ask(&request).await.status, 200),
        }
    }
    let emptied = async {
        while descriptors() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, emptied).await.expect("every descriptor is given back");
    assert!(door.switches().begun.try_recv().is_err());
    door.closed().await;
}

/// Two doors, one plant: watches, their cursors and tickets are the same whichever door a client came through, and what a
/// client was told of loss is its own.
#[tokio::test]
async fn both_doors_share_one_plant() {
    let (plant, _works, node) = joined(false, None).await;
    let mut stdio = Client::over(plant, tools::all(), &Setup::default());
    stdio.initialize("2025-06-18").await;
    let keys = Keys::parse(r#"{"tokens": {"key-a": {"name": "a"}, "key-b": {"name": "b"}}}"#).unwrap();
    let door = Open::of(stdio.server.clone(), keys, HttpConfig::default()).await;
    let (mut a, mut b) = (Agent::new(&door, "key-a").await, Agent::new(&door, "key-b").await);

    let weight = json!({"peer": "works", "namespace": "scale", "event": "weight"});
    let watch = stdio.call("start_watch", weight.clone()).await["structuredContent"]["watch"].clone();
    assert!(watch.is_string(), "{watch}");
    for agent in [&mut a, &mut b] {
        assert_eq!(agent.call("list_watches", json!({})).await["watches"][0]["watch"], watch);
    }
    let read = a.call("read_watch", json!({"watch": watch})).await;
    node.emit("scale", "weight", vec![7.into()]).await;
    let after = json!({"watch": watch, "after": read["cursor"]});
    let told = b.call("read_watch", after).await;
    assert_eq!(told["records"][0]["args"], json!([7]), "{told}");
    assert_eq!(told["loss_detail"]["verdict"], "gapless");

    let mut listen = weight;
    listen["seconds"] = 1.into();
    let verdict = |told: Json| told["loss_detail"]["verdict"].clone();
    assert_eq!(verdict(a.call("watch_events", listen.clone()).await), "first");
    node.emit("scale", "weight", vec![8.into()]).await;
    assert_eq!(verdict(b.call("watch_events", listen.clone()).await), "first", "b was told nothing yet");
    assert_eq!(verdict(a.call("watch_events", listen).await), "missed", "and did not take from a what a is to hear");

    a.call("stop_watch", json!({"watch": watch})).await;
    assert_eq!(stdio.call("list_watches", json!({})).await["structuredContent"]["watches"], json!([]));
    drop((a, b));
    door.closed().await;
}

/// F-21: what a connection without a name was told travels with it: none takes another's, and a later connection goes on
/// where an earlier one was.
#[tokio::test]
async fn what_a_connection_was_told_travels_with_it() {
    let (plant, _works, node) = joined(false, None).await;
    let stdio = Client::over(plant, tools::all(), &Setup::default());
    let door = Open::of(stdio.server.clone(), Keys::default(), HttpConfig::default()).await;
    let listen = |after: Option<&Json>| {
        let mut listen = json!({"peer": "works", "namespace": "scale", "event": "weight", "seconds": 1});
        if let Some(after) = after {
            listen["after"] = after.clone();
        }
        listen
    };
    let verdict = |told: &Json| told["loss_detail"]["verdict"].clone();
    let (mut one, mut other) = (Agent::new(&door, "none").await, Agent::new(&door, "none").await);
    let first = one.call("watch_events", listen(None)).await;
    assert_eq!(verdict(&first), "first");
    node.emit("scale", "weight", vec![7.into()]).await;
    assert_eq!(verdict(&other.call("watch_events", listen(None)).await), "first");
    assert_eq!(verdict(&one.call("watch_events", listen(None)).await), "first", "nothing is remembered in a session");
    drop(one);
    let told = other.call("watch_events", listen(Some(&first["told"]))).await;
    assert_eq!((verdict(&told), &told["loss_detail"]["missing"]), (json!("missed"), &json!([[1, 1]])));
    assert_eq!(verdict(&other.call("watch_events", listen(Some(&told["told"]))).await), "gapless");
    let mut elsewhere = listen(Some(&told["told"]));
    elsewhere["event"] = "creak".into();
    for arguments in [elsewhere, listen(Some(&json!("forged")))] {
        let refused = other.wire.ask(&post(&USUAL, &call(&json!(1), "watch_events", &arguments))).await.json();
        assert_eq!(refused["result"]["structuredContent"]["error"]["code"], "stale_cursor");
    }
}

/// A ticket that one client was given is read by another, through the other door, and outlives the one it was given to.
#[tokio::test]
async fn both_doors_share_tickets() {
    let (mut stdio, mut hand) = ByHand::joined().await;
    let door = Open::of(stdio.server.clone(), Keys::one("key").unwrap(), HttpConfig::default()).await;
    let (request, id) = deferred(&mut stdio, &mut hand).await;
    let mut agent = Agent::new(&door, "key").await;
    assert_eq!(agent.call("read_ticket", json!({"ticket": id})).await["state"], "pending");
    drop(stdio.input.take());
    tell(&hand, &request, resolved("done")).await;
    let told = agent.call("read_ticket", json!({"ticket": id, "wait_seconds": 5})).await;
    assert_eq!((&told["state"], &told["result"]), (&json!("resolved"), &json!("done")), "{told}");
    drop(agent);
    door.closed().await;
}

/// A client with a token, over one connection.
struct Agent {
    wire: Wire,
    header: String,
}

impl Agent {
    async fn new(door: &Open, key: &str) -> Self {
        Self { wire: door.connect().await, header: format!("Authorization: Bearer {key}") }
    }

    async fn call(&mut self, tool: &str, arguments: Json) -> Json {
        let request = post(&[HOST, TYPE, &self.header], &call(&json!(1), tool, &arguments));
        let told = self.wire.ask(&request).await.json();
        assert_eq!(told["result"]["isError"], Json::Null, "{told}");
        told["result"]["structuredContent"].clone()
    }
}

/// The binary with a door, on a network nobody is on.
#[cfg(unix)]
pub(crate) struct Process {
    pub(crate) child: tokio::process::Child,
    said: tokio::io::Lines<tokio::io::BufReader<tokio::process::ChildStderr>>,
}

#[cfg(unix)]
impl Process {
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        use tokio::io::AsyncBufReadExt;
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_plantbridge"));
        for name in ["BROKER", "READ_ONLY", "MQTT_USERNAME", "MQTT_PASSWORD", "MCP_TOKEN"] {
            command.env_remove(format!("PLANTBRIDGE_{name}")).env_remove(format!("SOURCE_RPC_{name}"));
        }
        let piped = std::process::Stdio::piped;
        command.env_remove("RUST_LOG").args(["mcp", "--broker", "mqtt://127.0.0.1:1"]).args(arguments);
        command.envs(environment.iter().copied()).stdin(piped()).stdout(piped()).stderr(piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let said = tokio::io::BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, said }
    }

    /// The next line on standard error that holds this.
    pub(crate) async fn says(&mut self, what: &str) -> String {
        loop {
            let line = timeout(PATIENCE, self.said.next_line()).await.expect("it says something").unwrap();
            let line = line.unwrap_or_else(|| panic!("it never says {what:?}"));
            if line.contains(what) {
                return line;
            }
        }
    }

    pub(crate) async fn connect(&mut self) -> Wire {
        Wire::at(self.address().await).await
    }

    /// Where its door is, once it says so.
    pub(crate) async fn address(&mut self) -> SocketAddr {
        let line = self.says("MCP over HTTP is at http").await;
        line.split_once("://").unwrap().1.split('/').next().unwrap().parse().unwrap()
    }

    pub(crate) async fn code(&mut self) -> i32 {
        timeout(PATIENCE, self.child.wait()).await.expect("it ends").unwrap().code().unwrap()
    }

    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        use rustix::process::{Pid, kill_process};
        let pid = Pid::from_raw(self.child.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

/// F-12: with a door open the end of standard input ends that client and not the process; port 0 says which it got.
#[cfg(unix)]
#[tokio::test]
async fn the_door_outlives_standard_input() {
    let mut process = Process::start(&["--port", "0"], &[]);
    let mut wire = process.connect().await;
    assert!(process.says("any process on this machine can drive the plant").await.contains("no token"));
    drop(process.child.stdin.take());
    process.says("the session of standard input is over").await;
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(wire.ask(&post(&USUAL, ping)).await.status, 200);
    process.terminate();
    assert!(wire.is_closed().await);
    assert_eq!(process.code().await, 0);
}

/// F-12: a container has no standard input, and nothing is written to standard output.
#[cfg(unix)]
#[tokio::test]
async fn a_container_needs_no_standard_input() {
    let token = [("SOURCE_RPC_MCP_TOKEN", "hunter2")];
    let mut process = Process::start(&["--port", "0", "--no-stdio", "--host", "0.0.0.0"], &token);
    drop(process.child.stdin.take());
    let mut wire = process.connect().await;
    process.says("without TLS").await;
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(wire.ask(&post(&USUAL, ping)).await.status, 401);
    let mut wire =
        Wire { stream: TcpStream::connect(wire.stream.peer_addr().unwrap()).await.unwrap(), read: Vec::new() };
    assert_eq!(wire.ask(&post(&[HOST, TYPE, "Authorization: Bearer hunter2"], ping)).await.status, 200);
    process.terminate();
    assert_eq!(process.code().await, 0);
    let mut out = String::new();
    process.child.stdout.take().unwrap().read_to_string(&mut out).await.unwrap();
    assert_eq!(out, "");
}

/// F-34: somebody who tries one token after another is a line of the log with a count, and not a line each.
#[cfg(unix)]
#[tokio::test]
async fn a_flood_of_wrong_tokens_does_not_fill_the_log() {
    let mut process = Process::start(&["--port", "0", "--no-stdio"], &[("PLANTBRIDGE_MCP_TOKEN", "hunter2")]);
    let first = process.connect().await;
    let address = first.stream.peer_addr().unwrap();
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for at in 0..50 {
        let mut wire = Wire { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() };
        let header = format!("Authorization: Bearer guess-{at}");
        assert_eq!(wire.ask(&post(&[HOST, TYPE, &header], ping)).await.status, 401);
    }
    process.terminate();
    let mut lines = Vec::new();
    while let Some(line) = timeout(PATIENCE, process.said.next_line()).await.expect("it ends").unwrap() {
        assert!(!line.contains("guess"), "{line}");
        lines.extend(line.contains("nobody's").then_some(line));
    }
    assert!((1..10).contains(&lines.len()), "{lines:#?}");
    assert_eq!(process.code().await, 0);
}

/// F-34: doors that would let in who should not come in do not open, in one line, with exit code 1.
#[cfg(unix)]
#[tokio::test]
async fn doors_that_must_not_open_do_not() {
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
    let empty: &[(&str, &str)] = &[("PLANTBRIDGE_MCP_TOKEN", "")];
    let cases: [Case<'_>; 9] = [
        (&["--port", "0", "--host", "0.0.0.0"], &[], "PLANTBRIDGE_MCP_TOKEN"),
        (&["--port", "0", "--require-token"], &[], "--require-token"),
        (&["--port", "0"], empty, "PLANTBRIDGE_MCP_TOKEN"),
        (&["--port", "0", "--mcp-auth", "/nowhere/tokens"], &[], "--mcp-auth"),
        (&["--port", "x"], &[], "--port"),
        (&["--port", "65536"], &[], "--port"),
        (&["--no-stdio"], &[], "--port"),
        (&["--port", "0", "--allow-origin", "*"], &[], "--allow-origin"),
        (&["--port", "0", "--host", "192.0.2.1"], &[("PLANTBRIDGE_MCP_TOKEN", "t")], "192.0.2.1"),
    ];
    for (arguments, environment, holds) in cases {
        let mut process = Process::start(arguments, environment);
        let line = process.says("plantbridge: ").await;
        assert!(line.contains(holds), "{arguments:?}: {line}");
        assert_eq!(process.code().await, 1, "{arguments:?}");
    }
}

/// A certificate for `localhost`, in files.
pub(crate) struct Certificate {
    pub(crate) chain: std::path::PathBuf,
    pub(crate) key: std::path::PathBuf,
    der: CertificateDer<'static>,
    _folder: tempfile::TempDir,
}

impl Certificate {
    pub(crate) fn made() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        Self { chain: certificate, key, der: made.cert.der().clone(), _folder: folder }
    }

    /// A connection of a client that believes this certificate and offers these protocols.
    pub(crate) async fn connect(&self, address: SocketAddr, offered: &[&str]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(std::sync::Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let connector = TlsConnector::from(std::sync::Arc::new(config));
        let stream = TcpStream::connect(address).await.unwrap();
        connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    }
}

/// With a certificate the door speaks TLS and nothing else; a client that never greets is not waited for without end.
#[tokio::test]
async fn a_door_with_a_certificate_speaks_tls() {
    let made = Certificate::made();
    let (certificate, key) = (&made.chain, &made.key);
    assert!(DoorTls::load(key, certificate).is_err(), "the wrong way round");

    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let hosts = Hosts::new(local.ip(), &[], &[]).unwrap();
    let tls = Some(DoorTls::load(certificate, key).unwrap());
    let config = HttpConfig { head: Duration::from_millis(500), ..HttpConfig::default() };
    let door = HttpDoor::bind(local, Rules { keys: Keys::default(), hosts, tls }, config).await.unwrap();
    let (address, stop) = (door.address().unwrap(), CancellationToken::new());
    let stdio = Client::new(&Setup::default());
    let ended = tokio::spawn(door.serve(stdio.server.clone(), stop.clone()));

    let mut silent = Wire { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() };
    let mut plain = Wire { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() };
    plain.send(&post(&USUAL, &echo("x"))).await;
    assert!(silent.is_closed().await && plain.is_closed().await);
    assert!(!plain.read.starts_with(b"HTTP"), "nothing is said in the clear");

    let mut stream = made.connect(address, &[]).await;
    stream.write_all(&post(&[HOST, TYPE, "Connection: close"], &echo("sealed"))).await.unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).await.unwrap();
    assert!(told.starts_with("HTTP/1.1 200") && told.contains("sealed"), "{told}");
    stop.cancel();
    timeout(PATIENCE, ended).await.unwrap().unwrap();
}
