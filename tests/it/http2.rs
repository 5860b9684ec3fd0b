//! The HTTP door over HTTP/2, by a client that can do wrong: the same guards as over HTTP/1.1, and bounds of its own.

use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use h2::{Reason, RecvStream, client};
use hyper::{Method, Request, StatusCode, Version};
use plantbridge::door::{
    auth::Keys,
    hosts::Hosts,
    http::{DoorTls, HttpConfig, HttpDoor, Rules},
};
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    harness::{Client, Setup},
    http::{Certificate, Open, PATIENCE, call, echo},
};

/// One connection, and what drives it.
struct Wire {
    requests: client::SendRequest<Bytes>,
    driven: JoinHandle<Result<(), h2::Error>>,
}

type Headers<'a> = &'a [(&'a str, &'a str)];

#[derive(Debug)]
struct Told {
    status: StatusCode,
    body: Vec<u8>,
    kind: String,
    has_connection: bool,
}

impl Told {
    fn json(&self) -> Json {
        assert_eq!(self.kind, "application/json", "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }

    fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("{self:?}"))
    }
}

const TYPE: (&str, &str) = ("content-type", "application/json");
const AT: &str = "http://localhost/mcp";

fn head(method: &Method, at: &str, headers: Headers) -> Request<()> {
    let request = Request::builder().version(Version::HTTP_2).method(method).uri(at);
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(()).unwrap()
}

impl Wire {
    async fn over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, builder: &client::Builder) -> Self {
        let (requests, connection) = builder.handshake(stream).await.unwrap();
        Self { requests, driven: tokio::spawn(connection) }
    }

    async fn to(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap(), &client::Builder::new()).await
    }

    /// Sends a whole request; what comes of it may be waited for.
    async fn send(&mut self, head: Request<()>, body: &[u8]) -> client::ResponseFuture {
        let mut ready = timeout(PATIENCE, self.requests.clone().ready()).await.expect("room for a request").unwrap();
        let (response, mut stream) = ready.send_request(head, body.is_empty()).unwrap();
        if !body.is_empty() {
            stream.send_data(Bytes::copy_from_slice(body), true).unwrap();
        }
        response
    }

    async fn ask(&mut self, head: Request<()>, body: &[u8]) -> Told {
        let response = self.send(head, body).await;
        told(response).await
    }

    async fn post(&mut self, headers: Headers<'_>, body: &[u8]) -> Told {
        self.ask(head(&Method::POST, AT, headers), body).await
    }

    /// The other end closes the connection, saying so or not.
    async fn ends(self) -> Option<Reason> {
        let ended = timeout(PATIENCE, self.driven).await.expect("it is closed").unwrap();
        ended.err().and_then(|error| error.reason())
    }
}

async fn told(response: client::ResponseFuture) -> Told {
    let response = timeout(PATIENCE, response).await.expect("an answer").unwrap();
    let (head, body) = response.into_parts();
    let kind = head.headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned()).unwrap_or_default();
    let has_connection = head.headers.contains_key("connection");
    Told { status: head.status, body: all(body).await, kind, has_connection }
}

async fn all(mut body: RecvStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(data) = timeout(PATIENCE, body.data()).await.expect("a body") {
        // A body that was refused unread may be told by a reset once the answer is whole.
        let Ok(data) = data else { break };
        let _ = body.flow_control().release_capacity(data.len());
        bytes.extend_from_slice(&data);
    }
    bytes
}

/// Many calls over one connection, in no order but their own; the client is one.
#[tokio::test]
async fn calls_share_a_connection() {
    let mut door = Open::anybody().await;
    let mut wire = Wire::to(door.address).await;
    let blocked = wire.send(head(&Method::POST, AT, &[TYPE]), &call(&json!("b"), "block", &json!({}))).await;
    assert_eq!(door.switches().begun.recv().await, Some("block"));
    for at in 0..20 {
        let told = wire.post(&[TYPE], &echo(&at.to_string())).await;
        assert_eq!(told.json()["result"]["structuredContent"]["text"], at.to_string(), "{told:?}");
    }
    let second = wire.send(head(&Method::POST, AT, &[TYPE]), &call(&json!("b"), "block", &json!({}))).await;
    assert_eq!(door.switches().begun.recv().await, Some("block"), "the same id twice at once is two calls");
    let third = wire.send(head(&Method::POST, AT, &[TYPE]), &call(&json!("e"), "echo", &json!({"text": "x"}))).await;
    let busy = wire.post(&[TYPE], &echo("x")).await;
    assert_eq!(busy.json()["result"]["structuredContent"]["error"]["code"], "busy", "one client has its places");
    door.switches().release.add_permits(2);
    for response in [blocked, second, third] {
        assert_eq!(told(response).await.json()["result"]["isError"], Json::Null);
    }
    drop(wire);
    door.closed().await;
}

/// F-11, F-34: what a head says is checked as over HTTP/1.1, the host by `:authority`.
#[tokio::test]
async fn what_a_head_says_is_checked() {
    let mut door = Open::for_named().await;
    let a = ("authorization", "Bearer key-a");
    let page = ("origin", "https://console.example");
    let new = ("mcp-protocol-version", "2026-07-28");
    let cases: [(u16, &Method, &str, Headers); 20] = [
        (200, &Method::POST, AT, &[TYPE, a]),
        (200, &Method::POST, "http://127.0.0.1:9/mcp", &[TYPE, a]),
        (200, &Method::POST, AT, &[TYPE, a, page]),
        (200, &Method::POST, AT, &[TYPE, a, ("host", "plant.example")]),
        (401, &Method::POST, AT, &[TYPE]),
        (401, &Method::POST, AT, &[TYPE, ("authorization", "Bearer key-c")]),
        (401, &Method::POST, AT, &[TYPE, a, ("authorization", "Bearer key-b")]),
        (403, &Method::POST, "http://evil.example/mcp", &[TYPE, a]),
        (403, &Method::POST, AT, &[TYPE, a, ("host", "evil.example")]),
        (403, &Method::POST, "http://evil.example/mcp", &[TYPE, a, ("host", "localhost")]),
        (400, &Method::POST, AT, &[TYPE, a, ("host", "localhost"), ("host", "localhost")]),
        (403, &Method::POST, AT, &[TYPE, a, ("origin", "https://evil.example")]),
        (403, &Method::POST, AT, &[TYPE, a, page, ("origin", "https://evil.example")]),
        (404, &Method::POST, "http://localhost/", &[TYPE, a]),
        (405, &Method::GET, AT, &[a]),
        (405, &Method::DELETE, AT, &[a]),
        (415, &Method::POST, AT, &[("content-type", "text/plain"), a]),
        (406, &Method::POST, AT, &[TYPE, a, ("accept", "text/html")]),
        (400, &Method::POST, AT, &[TYPE, a, ("mcp-protocol-version", "2031-01-01")]),
        (400, &Method::POST, AT, &[TYPE, a, new, ("mcp-method", "tools/list")]),
    ];
    for (status, method, at, headers) in cases {
        // A connection each: an answer to what was sent unread may end its stream early.
        let mut wire = Wire::to(door.address).await;
        let body = if *method == Method::POST { echo("x") } else { Vec::new() };
        let told = wire.ask(head(method, at, headers), &body).await;
        assert_eq!(told.status.as_u16(), status, "{method} {at} {headers:?}: {told:?}");
        assert!(!told.has_connection, "HTTP/2 has no such header");
        if status != 200 {
            assert!(told.json()["error"]["message"].is_string(), "no pages: {told:?}");
        }
    }
    assert_eq!(door.switches().echoed.load(Ordering::SeqCst), 4, "only what was answered ran");
    let mut wire = Wire::to(door.address).await;
    let told = wire.ask(head(&Method::OPTIONS, AT, &[page]), b"").await;
    assert_eq!(told.status, 204);
}

/// What is no message is refused in JSON, the connection goes on, and nothing of it runs.
#[tokio::test]
async fn bodies_that_are_no_message_are_refused() {
    let mut door = Open::anybody().await;
    let mut wire = Wire::to(door.address).await;
    let cases: [(&[u8], i64); 6] = [
        (b"", -32700),
        (b"null", -32600),
        (b"[]", -32600),
        (br#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}]"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":"tools/ca"#, -32700),
        (b"<html>", -32700),
    ];
    for (body, code) in cases {
        let told = wire.post(&[TYPE], body).await;
        assert_eq!((told.status.as_u16(), told.code()), (400, code), "{}", String::from_utf8_lossy(body));
    }
    let told = wire.post(&[TYPE], br#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#).await;
    assert_eq!((told.status.as_u16(), told.code()), (200, -32601));
    assert_eq!(door.switches().echoed.load(Ordering::SeqCst), 0);
    assert_eq!(wire.post(&[TYPE], &echo("still")).await.status, 200);
}

/// Heads over the bound are 431; bodies over it, by what they say or by what comes, are 413 and end only their stream; one that
/// stops half-way is 408, and one that is given up is nothing.
#[tokio::test]
async fn heads_and_bodies_are_bounded() {
    let config = HttpConfig { longest_body: 64 * 1024, body: Duration::from_millis(200), ..HttpConfig::default() };
    let mut door = Open::new(Keys::default(), config).await;
    let mut wire = Wire::to(door.address).await;
    let long = "x".repeat(20 * 1024);
    let told = wire.ask(head(&Method::POST, AT, &[TYPE, ("x-long", &long)]), &echo("x")).await;
    assert_eq!(told.status, 431);

    let (response, stream) =
        wire.requests.send_request(head(&Method::POST, AT, &[TYPE, ("content-length", "100000000")]), false).unwrap();
    assert_eq!(self::told(response).await.status, 413, "by its head alone");
    drop(stream);

    let (response, mut stream) = wire.requests.send_request(head(&Method::POST, AT, &[TYPE]), false).unwrap();
    let endless = async {
        // Until nobody takes any more.
        loop {
            stream.reserve_capacity(16 * 1024);
            let room = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
            let Some(Ok(room)) = room else { return };
            if stream.send_data(Bytes::from(vec![b' '; room]), false).is_err() {
                return;
            }
        }
    };
    let (told, ()) = timeout(PATIENCE, async { tokio::join!(self::told(response), endless) }).await.unwrap();
    assert_eq!(told.status, 413, "a body that never ends");

    let (response, mut stream) = wire.requests.send_request(head(&Method::POST, AT, &[TYPE]), false).unwrap();
    stream.send_data(Bytes::from_static(b"{\"json"), false).unwrap();
    assert_eq!(self::told(response).await.status, 408, "half a body");

    let (response, mut stream) = wire.requests.send_request(head(&Method::POST, AT, &[TYPE]), false).unwrap();
    stream.send_data(Bytes::from_static(b"{\"json"), false).unwrap();
    stream.send_reset(Reason::CANCEL);
    assert!(timeout(PATIENCE, response).await.unwrap().is_err());
    assert_eq!(wire.post(&[TYPE], &echo("the same connection")).await.status, 200);
    assert_eq!(door.switches().echoed.load(Ordering::SeqCst), 1);
}

/// A request that is given up ends the waiting for its call and no other's, and the command goes on.
#[tokio::test]
async fn a_stream_that_is_given_up_harms_nobody() {
    let mut door = Open::anybody().await;
    let mut wire = Wire::to(door.address).await;
    let pressed = wire.send(head(&Method::POST, AT, &[TYPE]), &call(&json!(1), "press", &json!({}))).await;
    assert_eq!(door.switches().begun.recv().await, Some("press"));
    let kept = wire.send(head(&Method::POST, AT, &[TYPE]), &call(&json!(2), "block", &json!({}))).await;
    assert_eq!(door.switches().begun.recv().await, Some("block"));
    drop(pressed);
    assert_eq!(timeout(PATIENCE, door.switches().told.recv()).await.unwrap(), Some("press"));
    door.switches().release.add_permits(2);
    assert_eq!(told(kept).await.json()["result"]["structuredContent"]["done"], true);
    assert!(door.switches().told.try_recv().is_err(), "the other was not told to end");

    // The same when the connection dies with what was asked over it.
    let mut dying = Wire::to(door.address).await;
    let _asked = dying.send(head(&Method::POST, AT, &[TYPE]), &call(&json!(3), "press", &json!({}))).await;
    assert_eq!(door.switches().begun.recv().await, Some("press"));
    dying.driven.abort();
    assert_eq!(timeout(PATIENCE, door.switches().told.recv()).await.unwrap(), Some("press"));
    assert_eq!(wire.post(&[TYPE], &echo("meanwhile")).await.status, 200);
    door.switches().release.add_permits(1);
    drop(wire);
    door.closed().await;
}

/// Who opens requests only to give them up is shown out, and others are served meanwhile.
#[tokio::test]
async fn a_flood_of_resets_ends_its_connection() {
    let mut door = Open::anybody().await;
    let mut other = Wire::to(door.address).await;
    // Raw frames: a head of `POST http://localhost/mcp` and its reset, as fast as they can be written.
    let mut flood = TcpStream::connect(door.address).await.unwrap();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // Indexed `:method: POST` and `:scheme: http`, literal `:path` and `:authority`.
    let fields = b"\x83\x86\x04\x04/mcp\x01\x09localhost";
    for at in 0..20_000_u32 {
        let stream = (2 * at + 1).to_be_bytes();
        bytes.extend_from_slice(&[0, 0, u8::try_from(fields.len()).unwrap(), 1, 4]);
        bytes.extend_from_slice(&stream);
        bytes.extend_from_slice(fields);
        bytes.extend_from_slice(&[0, 0, 4, 3, 0]);
        bytes.extend_from_slice(&stream);
        bytes.extend_from_slice(&8_u32.to_be_bytes());
    }
    let flooding = async {
        // What was not written is not taken any more.
        let _ = flood.write_all(&bytes).await;
        let mut rest = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut flood, &mut rest).await;
        rest
    };
    let served = async {
        for _ in 0..20 {
            assert_eq!(other.post(&[TYPE], &echo("meanwhile")).await.status, 200);
        }
    };
    let (rest, ()) = timeout(PATIENCE, async { tokio::join!(flooding, served) }).await.expect("it is shown out");
    let told = 11_u32.to_be_bytes();
    assert!(rest.windows(4).any(|four| four == told), "ENHANCE_YOUR_CALM: {rest:?}");
    assert_eq!(door.switches().echoed.load(Ordering::SeqCst), 20);
    drop(other);
    door.closed().await;
}

/// A connection that begins and asks nothing, or leaves an answer unread, is closed in time; one that waits for a call is not.
#[tokio::test]
async fn slow_connections_are_closed() {
    let short = Duration::from_millis(100);
    let config = HttpConfig { head: short, unread: short, ..HttpConfig::default() };
    let mut door = Open::new(Keys::default(), config).await;
    let mut half = door.connect().await;
    half.send(b"PRI * HTTP/2.0\r\n").await;
    assert!(half.is_closed().await, "no preface in time");
    assert_eq!(Wire::to(door.address).await.ends().await, None, "no request in time");

    let mut windowless = client::Builder::new();
    windowless.initial_window_size(0);
    let mut unread = Wire::over(TcpStream::connect(door.address).await.unwrap(), &windowless).await;
    let response = unread.send(head(&Method::POST, AT, &[TYPE]), &echo("x")).await;
    let answered = timeout(PATIENCE, response).await.unwrap().unwrap();
    assert_eq!(answered.status(), 200);
    assert!(timeout(PATIENCE, unread.driven).await.is_ok(), "nobody reads it");
    drop(answered);

    let mut waiting = Wire::to(door.address).await;
    let response = waiting.send(head(&Method::POST, AT, &[TYPE]), &call(&json!(1), "block", &json!({}))).await;
    assert_eq!(door.switches().begun.recv().await, Some("block"));
    // Others come and are closed for being idle, so that much time passes.
    for _ in 0..3 {
        Wire::to(door.address).await.ends().await;
    }
    door.switches().release.add_permits(1);
    assert_eq!(told(response).await.json()["result"]["structuredContent"]["done"], true);
    drop(waiting);
    door.closed().await;
}

/// More requests than a connection may have open wait at the client.
#[tokio::test]
async fn open_requests_are_bounded() {
    let door = Open::anybody().await;
    let mut wire = Wire::to(door.address).await;
    assert_eq!(wire.post(&[TYPE], &echo("first")).await.status, 200);
    assert_eq!(wire.requests.current_max_send_streams(), 64);
}

/// At its end the door lets what runs be answered, takes nothing more, and closes.
#[tokio::test]
async fn what_runs_is_drained() {
    let mut door = Open::anybody().await;
    let (idle, mut busy) = (Wire::to(door.address).await, Wire::to(door.address).await);
    let response = busy.send(head(&Method::POST, AT, &[TYPE]), &call(&json!(1), "block", &json!({}))).await;
    assert_eq!(door.switches().begun.recv().await, Some("block"));
    door.stop.cancel();
    assert_eq!(idle.ends().await, None);
    door.switches().release.add_permits(1);
    assert_eq!(told(response).await.json()["result"]["structuredContent"]["done"], true);
    assert_eq!(busy.ends().await, None);
    door.closed().await;
}

/// Progress comes as a stream of events, as over HTTP/1.1.
#[tokio::test]
async fn progress_is_streamed() {
    let mut door = Open::anybody().await;
    let mut wire = Wire::to(door.address).await;
    let params = json!({"name": "block", "arguments": {}, "_meta": {"progressToken": "t"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let headers = [TYPE, ("accept", "application/json, text/event-stream")];
    let response = wire.send(head(&Method::POST, AT, &headers), body.as_bytes()).await;
    assert_eq!(door.switches().begun.recv().await, Some("block"));
    let mut body = timeout(PATIENCE, response).await.unwrap().unwrap().into_body();
    let first = timeout(PATIENCE, body.data()).await.unwrap().unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("notifications/progress"), "{first:?}");
    door.switches().release.add_permits(1);
    let rest = String::from_utf8(all(body).await).unwrap();
    assert!(rest.trim().lines().last().unwrap().contains(r#""done":true"#), "{rest}");
}

/// HTTP/2 is agreed on in the TLS greeting; without it HTTP/1.1 is spoken.
#[tokio::test]
async fn tls_agrees_on_a_protocol() {
    let made = Certificate::made();
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let tls = Some(DoorTls::load(&made.chain, &made.key).unwrap());
    let rules = Rules { keys: Keys::default(), hosts: Hosts::new(local.ip(), &[], &[]).unwrap(), tls };
    let door = HttpDoor::bind(local, rules, HttpConfig::default()).await.unwrap();
    let (address, stop) = (door.address().unwrap(), CancellationToken::new());
    let stdio = Client::new(&Setup::default());
    let ended = tokio::spawn(door.serve(stdio.server.clone(), stop.clone()));

    for (offered, agreed) in
        [(vec!["h2", "http/1.1"], Some("h2")), (vec!["http/1.1"], Some("http/1.1")), (vec![], None)]
    {
        let stream = made.connect(address, &offered).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed.map(str::as_bytes));
        if agreed == Some("h2") {
            let mut wire = Wire::over(stream, &client::Builder::new()).await;
            let told = wire.ask(head(&Method::POST, "https://localhost/mcp", &[TYPE]), &echo("sealed")).await;
            assert_eq!(told.json()["result"]["structuredContent"]["text"], "sealed");
        }
    }
    stop.cancel();
    timeout(PATIENCE, ended).await.unwrap().unwrap();
}
