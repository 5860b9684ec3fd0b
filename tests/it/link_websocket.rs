//! MQTT through a WebSocket: a broker behind one that does what a test says.

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use plantbridge::link::mqtt::{BrokerUrl, Config, start};
use plantbridge::link::{DownKind, Link, LinkEvent, LinkId, Outbound};
use plantbridge::wire::frame::Message as Said;
use plantbridge::wire::mqtt;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Message, http};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use crate::link_mqtt::{request, send, topics};
use crate::links::{arrives, down, ended, event, settled, up};
use crate::scripted::{CONNACK, PATIENCE, publish};

struct Door {
    listener: TcpListener,
}

/// One WebSocket, at the broker's end, and what came through it and was not read.
struct Wire {
    socket: WebSocketStream<TcpStream>,
    path: String,
    bytes: Vec<u8>,
    /// How large the largest message was.
    largest: usize,
}

impl Door {
    async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    fn config(&self, path: &str) -> Config {
        let port = self.listener.local_addr().unwrap().port();
        let url = BrokerUrl::parse(&format!("ws://127.0.0.1:{port}{path}")).unwrap();
        let mut config = Config::new(url, topics("hmi"));
        config.backoff_min = Duration::from_millis(1);
        config.backoff_max = Duration::from_millis(20);
        config
    }

    fn link(&self) -> Link {
        start(self.config(""), LinkId(0))
    }

    async fn socket(&self) -> TcpStream {
        timeout(PATIENCE, self.listener.accept()).await.expect("nobody comes").unwrap().0
    }

    /// The next WebSocket; MQTT is spoken in it if `speaks`.
    async fn accept(&self, speaks: bool) -> Result<Wire, tokio_tungstenite::tungstenite::Error> {
        let mut path = String::new();
        let choose = |asked: &Request, mut answer: Response| -> Result<Response, ErrorResponse> {
            asked.uri().path().clone_into(&mut path);
            assert_eq!(asked.headers()[http::header::SEC_WEBSOCKET_PROTOCOL], "mqtt");
            if speaks {
                let chosen = http::HeaderValue::from_static("mqtt");
                answer.headers_mut().insert(http::header::SEC_WEBSOCKET_PROTOCOL, chosen);
            }
            Ok(answer)
        };
        let socket = accept_hdr_async(self.socket().await, choose).await?;
        Ok(Wire { socket, path, bytes: Vec::new(), largest: 0 })
    }

    /// A link that joined.
    async fn join(&self) -> Wire {
        let mut wire = self.accept(true).await.unwrap();
        assert_eq!(wire.packet().await[0] >> 4, 1, "a CONNECT");
        wire.send(CONNACK).await;
        for _ in 0..4 {
            let subscribe = wire.packet().await;
            wire.send(&[0x90, 4, subscribe[2], subscribe[3], 0, 1]).await;
        }
        let online = wire.packet().await;
        assert_eq!(online[0] >> 4, 3, "an announcement");
        wire
    }
}

impl Wire {
    async fn next(&mut self) -> Option<Message> {
        timeout(PATIENCE, self.socket.next()).await.expect("the link says nothing")?.ok()
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.socket.send(Message::Binary(Bytes::copy_from_slice(bytes))).await.unwrap();
    }

    /// The next MQTT packet, whatever messages it came in.
    async fn packet(&mut self) -> Vec<u8> {
        loop {
            if let Some(whole) = whole(&self.bytes) {
                return self.bytes.drain(..whole).collect();
            }
            match self.next().await.expect("the link closed") {
                Message::Binary(bytes) => {
                    self.largest = self.largest.max(bytes.len());
                    self.bytes.extend_from_slice(&bytes);
                }
                other => panic!("{other:?} instead of bytes"),
            }
        }
    }
}

/// How long the packet is that `bytes` begin with, if all of it is there.
fn whole(bytes: &[u8]) -> Option<usize> {
    let (mut length, mut at) = (0, 1);
    loop {
        let byte = *bytes.get(at)?;
        length |= usize::from(byte & 0x7F) << (7 * (at - 1));
        at += 1;
        if byte & 0x80 == 0 {
            return (bytes.len() >= at + length).then_some(at + length);
        }
    }
}

fn to_hmi(method: &str) -> Vec<u8> {
    publish(&mqtt::encode(&request("oven", "hmi", method), &topics("oven")).unwrap(), None, false)
}

/// The path is that of the address, or the usual one; packets may be cut and joined by messages as the broker likes.
#[tokio::test]
async fn the_borders_of_messages_mean_nothing() {
    let door = Door::new().await;
    for (path, asked) in [("", "/mqtt"), ("/", "/"), ("/plant/a%20b", "/plant/a%20b")] {
        let mut link = start(door.config(path), LinkId(0));
        let mut wire = door.join().await;
        assert_eq!(wire.path, asked);
        up(&mut link).await;
        settled(&mut link).await;
        let both = [to_hmi("one"), to_hmi("two")].concat();
        let (head, rest) = both.split_at(7);
        wire.send(&[]).await;
        wire.send(head).await;
        wire.send(rest).await;
        arrives(&mut link, "one").await;
        arrives(&mut link, "two").await;
    }
}

/// A large packet leaves in pieces and arrives whole, both ways.
#[tokio::test]
async fn a_large_packet_goes_through() {
    let door = Door::new().await;
    let mut link = door.link();
    let mut wire = door.join().await;
    up(&mut link).await;
    settled(&mut link).await;
    let mut frame = request("hmi", "oven", "x");
    let large = "a".repeat(1_000_000);
    if let Said::Request(request) = &mut frame.message {
        request.args = vec![large.as_str().into()];
    }
    send(&link, 1, frame.clone()).await;
    let packet = wire.packet().await;
    assert!(packet.len() > 1_000_000 && wire.largest <= 64 * 1024, "{} in messages of {}", packet.len(), wire.largest);
    (frame.source, frame.target) = (frame.target, frame.source);
    wire.send(&publish(&mqtt::encode(&frame, &topics("oven")).unwrap(), None, false)).await;
    arrives(&mut link, "x").await;
}

/// W-081: a connection that ends is followed by another one, a ping is answered, and leaving is an orderly end.
#[tokio::test]
async fn w081_the_link_comes_back_and_leaves_in_order() {
    let door = Door::new().await;
    let mut link = door.link();
    for closes in [true, false] {
        let mut wire = door.join().await;
        up(&mut link).await;
        settled(&mut link).await;
        if closes {
            let frame = CloseFrame { code: CloseCode::Away, reason: "hunter2".into() };
            wire.socket.close(Some(frame)).await.unwrap();
        }
        drop(wire);
        let detail = down(&mut link, DownKind::Lost).await;
        assert!(!detail.contains("hunter2"), "{detail}");
    }
    let mut wire = door.join().await;
    up(&mut link).await;
    wire.socket.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    assert_eq!(wire.next().await, Some(Message::Pong(Bytes::from_static(b"there?"))));
    link.outbound.send(Outbound::Leave).await.unwrap();
    let mut said = Vec::new();
    loop {
        let packet = wire.packet().await;
        said.push(packet[0] >> 4);
        if packet[0] >> 4 == 3 {
            let text = 4 + usize::from(packet[3]);
            wire.send(&[0x40, 4, packet[text], packet[text + 1], 0, 0]).await;
        } else {
            break;
        }
    }
    assert_eq!(said, [3, 3, 14], "offline, cleared, DISCONNECT");
    drop(wire);
    loop {
        match event(&mut link).await {
            LinkEvent::Closed => break,
            LinkEvent::Settled => {}
            other => panic!("{other:?}"),
        }
    }
    ended(&mut link).await;
}

/// What is no MQTT ends the connection: text, and a message larger than any packet may be.
#[tokio::test]
async fn what_is_no_mqtt_is_refused() {
    let door = Door::new().await;
    let mut config = door.config("");
    config.max_packet = 1024;
    let mut link = start(config, LinkId(0));
    for (message, holds) in [
        (Message::Text("hunter2".into()), "text"),
        (Message::Binary(vec![0; 1024 + 64 * 1024 + 1].into()), "66561 bytes"),
    ] {
        let mut wire = door.join().await;
        up(&mut link).await;
        settled(&mut link).await;
        wire.socket.send(message).await.unwrap();
        let detail = down(&mut link, DownKind::Protocol).await;
        assert!(detail.contains(holds) && !detail.contains("hunter2"), "{detail}");
    }
}

/// An older broker is told as such behind a WebSocket too.
#[tokio::test]
async fn an_older_broker_is_told_as_such() {
    let door = Door::new().await;
    let mut link = door.link();
    let script = async {
        let mut wire = door.accept(true).await.unwrap();
        wire.packet().await;
        wire.send(&[0x20, 2, 0, 1]).await;
        wire
    };
    let (_wire, detail) = tokio::join!(script, down(&mut link, DownKind::Protocol));
    assert!(detail.contains("MQTT 3.1.1"), "{detail}");
}

/// Whoever answers otherwise is told what it is, and by nothing it wrote itself.
#[tokio::test]
async fn whoever_opens_no_websocket_is_told_as_what_it_is() {
    let door = Door::new().await;
    let mut link = door.link();
    assert!(door.accept(false).await.is_ok_and(|wire| wire.path == "/mqtt"));
    let detail = down(&mut link, DownKind::Protocol).await;
    assert!(detail.contains("does not choose `mqtt`"), "{detail}");
    for (answer, kind, holds) in [
        (
            "HTTP/1.1 200 hunter2\r\nContent-Length: 7\r\n\r\nhunter2",
            DownKind::Protocol,
            "HTTP 200; that is a web server",
        ),
        ("HTTP/1.1 404 Not Found\r\n\r\n", DownKind::Protocol, "HTTP 404; there is nothing at this path"),
        ("HTTP/1.1 302 Found\r\nLocation: /hunter2\r\n\r\n", DownKind::Protocol, "HTTP 302; it points elsewhere"),
        ("HTTP/1.1 401 hunter2\r\n\r\n", DownKind::Unauthorized, "HTTP 401"),
        ("HTTP/1.1 503 hunter2\r\n\r\n", DownKind::Unreachable, "HTTP 503"),
        ("hunter2\r\n\r\n", DownKind::Protocol, "no WebSocket opens there"),
        ("", DownKind::Protocol, "closed instead of answering"),
    ] {
        let mut socket = door.socket().await;
        let asked = socket.read(&mut [0; 4096]).await.unwrap();
        assert!(asked > 0);
        socket.write_all(answer.as_bytes()).await.unwrap();
        drop(socket);
        let detail = down(&mut link, kind).await;
        assert!(detail.contains(holds) && !detail.contains("hunter2"), "{answer}: {detail}");
    }
}
