//! The hub link against a hub that follows a script, and against one that works.

use std::{sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use plantbridge::{
    link::{
        Claim, DownKind, Link, LinkEvent, LinkId, Outbound, Rejection,
        hub::{HubUrl, start},
        tls::{Tls, TlsFiles},
    },
    node::{Call, Certainty, Heard, Identity, Node, Serving, Stream},
    wire::{
        Frame, ReplyRoute, Request, Value,
        frame::{Answer, Message, Reply},
        signing::Secret,
    },
};
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    },
};
use tokio_tungstenite::tungstenite::{Message as Ws, protocol::CloseFrame};

use crate::authority::Authority;
use crate::hub::{Door, FRAME, Hub, OPENING, PATIENCE, config, linked, name, packed};
use crate::links::{any_event, arrives, down, ended, event, rejected, settled, up};

async fn online(link: &mut Link, expected: &str) -> Option<String> {
    match event(link).await {
        LinkEvent::Online { peer, shape } if peer.as_str() == expected => shape,
        other => panic!("{other:?} instead of {expected}"),
    }
}

async fn refused(link: &mut Link, expected: &str) {
    match event(link).await {
        LinkEvent::Refused(why) => assert!(why.contains(expected), "{why}"),
        other => panic!("{other:?} instead of a refusal: {expected}"),
    }
}

fn request(method: &str, argument: Value) -> Frame {
    Frame {
        source: name("hmi"),
        target: name("oven"),
        message: Message::Request(Request {
            correlation: method.into(),
            path: "plant".into(),
            method: method.into(),
            args: vec![argument],
            version: None,
            ttl: Some(10_000),
            expiry: None,
            idempotency_key: None,
            fence: None,
            reply: ReplyRoute::default(),
        }),
    }
}

async fn send(link: &Link, id: u64, frame: Frame, claim: Option<Claim>) {
    link.outbound.send(Outbound::Frame { id, frame: Box::new(frame), claim }).await.unwrap();
}

fn to_hmi(method: &str) -> Json {
    json!({"v": 2, "src": "oven", "tgt": "hmi", "hops": 1, "kind": "call", "corr": method, "path": "p", "method": method})
}

fn method(frame: &Value) -> &str {
    frame.get("method").and_then(Value::as_str).unwrap()
}

// Joining.

/// W-101: the recorded steps, and nothing before its turn. The link is up once it has announced itself, and settled once
/// the hub said who is there.
#[tokio::test]
async fn w101_w106_joining_is_as_recorded_step_by_step() {
    let path = format!("{}/tests/vectors/hub-session.json", env!("CARGO_MANIFEST_DIR"));
    let recorded: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let steps = recorded["transcripts"]["hmi"].as_array().unwrap();
    let step = |at: usize| steps[at]["text"].as_str().unwrap();
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.accept().await;
    wire.say(step(0)).await;
    assert_eq!(wire.text().await, step(1));
    wire.say(step(2)).await;
    assert_eq!(wire.text().await, step(3));
    up(&mut link).await;
    wire.say(step(4)).await;
    assert_eq!(online(&mut link, "bus-1").await.as_deref(), Some("05bd0b450010881a"));
    assert_eq!(online(&mut link, "plantServer").await.as_deref(), Some("e87b84ca945efbd4"));
    settled(&mut link).await;
}

/// What is served changes: it is announced again, and after a reconnect too.
#[tokio::test]
async fn w101_every_announcement_says_which_layout_and_the_newest_shape() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    link.outbound.send(Outbound::Announce { shape: Some("abc".into()) }).await.unwrap();
    let expected = r#"42["presence",{"name":"hmi","v":2,"shape":"abc"}]"#;
    assert_eq!(wire.text().await, expected);
    drop(wire);
    up(&mut link).await;
    down(&mut link, DownKind::Lost).await;
    assert_eq!(door.accept().await.admit().await, expected);
    up(&mut link).await;
}

/// W-040: presence as a hub tells it; our own name is nobody else's.
#[tokio::test]
async fn w040_presence_is_told_and_our_own_is_not() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    wire.say(r#"42["presence",{"peers":["bus","hmi","a b","oven"]}]"#).await;
    online(&mut link, "bus").await;
    online(&mut link, "oven").await;
    settled(&mut link).await;
    wire.say(r#"42["presence",{"peer":"hmi","state":"offline"}]"#).await;
    wire.say(r#"42["presence",{"peer":"oven","state":"online","shape":"1"}]"#).await;
    assert_eq!(online(&mut link, "oven").await.as_deref(), Some("1"));
    wire.say(r#"42["presence",{"peer":"oven","state":"offline"}]"#).await;
    assert!(matches!(event(&mut link).await, LinkEvent::Offline(peer) if peer.as_str() == "oven"));
    // A list that comes again adds, removes nobody, and settles nothing a second time.
    wire.say(r#"42["presence",{"peers":["bus"]}]"#).await;
    online(&mut link, "bus").await;
    wire.say(r#"42["presence",7]"#).await;
    refused(&mut link, "no map").await;
}

/// W-106: the first of the first list is the hub; what is no name there is nobody, and the second is not taken for it.
#[tokio::test]
async fn w106_the_hub_is_the_first_of_its_list() {
    for (list, hub) in [(r#""bus","oven""#, Some("bus")), (r#""a b","oven""#, None)] {
        let door = Door::new().await;
        let mut link = linked(&door.url, "hmi");
        let mut wire = door.joined().await;
        up(&mut link).await;
        for _ in 0..2 {
            wire.say(&format!(r#"42["presence",{{"peers":[{list}]}}]"#)).await;
        }
        let mut told = Vec::new();
        let mut ovens = 0;
        while ovens < 2 {
            match any_event(&mut link).await {
                LinkEvent::Hub(name) => told.push(name.to_string()),
                LinkEvent::Online { peer, .. } => ovens += usize::from(peer.as_str() == "oven"),
                LinkEvent::Settled => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(told, hub.into_iter().collect::<Vec<_>>(), "once");
    }
}

/// A hub that never says who is there holds nobody up for ever, and why is told.
#[tokio::test]
async fn a_hub_that_does_not_say_who_is_there_ends_our_patience() {
    let door = Door::new().await;
    let mut config = config(&door.url, "hmi");
    config.sweep = Duration::from_millis(20);
    let mut link = start(config, LinkId(0));
    let _wire = door.joined().await;
    up(&mut link).await;
    refused(&mut link, "who is there").await;
    settled(&mut link).await;
}

/// The token is presented as recorded; a hub that refuses it is asked again later, and its words repeat no token.
#[tokio::test]
async fn a_refused_token_is_said_once_and_never_shown() {
    let door = Door::new().await;
    let mut config = config(&door.url, "hmi");
    config.token = Some(Secret::new("hunter2".into()));
    assert!(!format!("{config:?}").contains("hunter2"));
    let mut link = start(config, LinkId(0));
    for words in ["unauthorized", "unauthorized", "no such token: hunter2"] {
        let mut wire = door.accept().await;
        wire.say(OPENING).await;
        assert_eq!(wire.text().await, r#"40{"token":"hunter2"}"#);
        wire.say(&format!(r#"44{{"message":"{words}"}}"#)).await;
    }
    let said = down(&mut link, DownKind::Unauthorized).await;
    assert!(said.contains("unauthorized") && !said.contains("hunter2"), "{said}");
    let said = down(&mut link, DownKind::Unauthorized).await;
    assert!(!said.contains("hunter2"), "{said}");
}

// What keeps us from joining.

/// Whoever answers wrongly is named as what it is, and tried again.
#[tokio::test]
async fn whoever_is_no_hub_is_said_to_be_none() {
    for (said, kind) in [
        ("HTTP/1.1 404 Not Found\r\n\r\n", DownKind::Protocol),
        ("HTTP/1.1 302 Found\r\nLocation: http://elsewhere\r\n\r\n", DownKind::Protocol),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", DownKind::Unauthorized),
        ("HTTP/1.1 502 Bad Gateway\r\n\r\n", DownKind::Unreachable),
        ("\u{15}\u{3}\u{3}\0\u{2}\u{2}\n", DownKind::Protocol),
    ] {
        let door = Door::new().await;
        let mut link = linked(&door.url, "hmi");
        let mut socket = door.socket().await;
        socket.write_all(said.as_bytes()).await.unwrap();
        socket.shutdown().await.unwrap();
        let told = down(&mut link, kind).await;
        assert!(told.contains(&door.url), "{told}");
        door.socket().await;
    }
}

/// One that answers nothing, at any step, is given up in time.
#[tokio::test]
async fn a_hub_that_never_answers_is_given_up() {
    let door = Door::new().await;
    let mut config = config(&door.url, "hmi");
    config.connect_timeout = Duration::from_millis(50);
    let mut link = start(config, LinkId(0));
    let _socket = door.socket().await;
    assert!(down(&mut link, DownKind::Unreachable).await.contains("WebSocket handshake"));
    let _wire = door.accept().await;
    assert!(down(&mut link, DownKind::Unreachable).await.contains("did not open"));
    let mut wire = door.accept().await;
    wire.say(OPENING).await;
    assert!(down(&mut link, DownKind::Unreachable).await.contains("let us in"));
    link.outbound.send(Outbound::Leave).await.unwrap();
    while !matches!(event(&mut link).await, LinkEvent::Closed) {}
    ended(&mut link).await;
}

#[tokio::test]
async fn odd_openings_are_refused() {
    for said in ["4", "2", "40{}", "0[]", "x", "0{\"pingInterval\":"] {
        let door = Door::new().await;
        let mut link = linked(&door.url, "hmi");
        door.accept().await.say(said).await;
        down(&mut link, DownKind::Protocol).await;
    }
    for said in ["42[\"x\"]", "40/admin,{}", "41", FRAME] {
        let door = Door::new().await;
        let mut link = linked(&door.url, "hmi");
        let mut wire = door.accept().await;
        wire.say(OPENING).await;
        wire.text().await;
        wire.say(said).await;
        down(&mut link, DownKind::Protocol).await;
    }
}

#[tokio::test]
async fn nobody_there_is_told_with_the_address_and_what_is_sent_is_rejected() {
    let door = Door::new().await;
    let url = door.url.clone();
    drop(door);
    let mut link = linked(&url, "hmi");
    assert!(down(&mut link, DownKind::Unreachable).await.contains(&url));
    send(&link, 7, request("a", Value::Null), None).await;
    assert_eq!(rejected(&mut link, 7).await, Rejection::Down);
    link.outbound.send(Outbound::Leave).await.unwrap();
    assert!(matches!(event(&mut link).await, LinkEvent::Closed));
    ended(&mut link).await;
}

// Frames.

/// W-103: a frame is two messages back to back; what comes is taken in order.
#[tokio::test]
async fn w103_frames_go_and_come() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    send(&link, 1, request("one", Value::Int(1)), None).await;
    send(&link, 2, request("two", Value::Int(2)), None).await;
    assert_eq!(method(&wire.arrived().await), "one");
    assert_eq!(method(&wire.arrived().await), "two");
    wire.frame(to_hmi("a")).await;
    // A ping between text and attachment is answered, and parts nothing.
    wire.say(FRAME).await;
    wire.say("2").await;
    wire.attach(packed(to_hmi("b"))).await;
    arrives(&mut link, "a").await;
    arrives(&mut link, "b").await;
    assert_eq!(wire.text().await, "3");
    // An acknowledgement that is asked for is not given, and does no harm.
    wire.say(r#"451-9["frame",{"_placeholder":true,"num":0}]"#).await;
    wire.attach(packed(to_hmi("c"))).await;
    arrives(&mut link, "c").await;
}

/// W-100: a batch is its members, in order.
#[tokio::test]
async fn w100_a_batch_is_taken_apart() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    let members: Vec<Json> = ["a", "b", "c"].into_iter().map(to_hmi).collect();
    wire.frame(json!({"v": 2, "src": "oven", "tgt": "hmi", "kind": "batch", "batch": members})).await;
    for method in ["a", "b", "c"] {
        arrives(&mut link, method).await;
    }
}

/// semantics.md 1.6: 256 are taken, of 257 each is refused.
#[tokio::test]
async fn a_batch_over_the_bound_is_refused_member_by_member() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    let batch = |count: usize| {
        let member = |at| json!({"kind": "call", "corr": format!("b{at}"), "path": "p", "method": "m"});
        let members: Vec<Json> = (0..count).map(member).collect();
        json!({"v": 2, "src": "oven", "tgt": "hmi", "kind": "batch", "batch": members})
    };
    wire.frame(batch(256)).await;
    for _ in 0..256 {
        arrives(&mut link, "m").await;
    }
    wire.frame(batch(257)).await;
    refused(&mut link, "a batch of 257").await;
    for at in 0..257 {
        let answer = wire.arrived().await;
        assert_eq!(answer.get("corr"), Some(&format!("b{at}").as_str().into()));
        assert_eq!(answer.get("code"), Some(&"InvalidParams".into()));
        assert_eq!(answer.get("tgt"), Some(&"oven".into()));
    }
    // For somebody else it is nobody's business here but the node's, which refuses what is not for it.
    let mut foreign = batch(257);
    foreign["tgt"] = "other".into();
    wire.frame(foreign).await;
    arrives(&mut link, "m").await;
}

/// W-059, W-105, W-130: what cannot be read is said and ends nothing.
#[tokio::test]
async fn w105_w130_odd_messages_are_refused_and_end_nothing() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    for (text, expected) in [
        ("x", "no Engine.IO packet"),
        ("4", "no Socket.IO packet"),
        (OPENING, "opened a second time"),
        (r#"42["weather",1]"#, "weather"),
        (r#"42["frame","notbinary"]"#, "none of ours"),
        (r#"42["presence"]"#, "none of ours"),
        (r#"42/admin,["x"]"#, "/admin"),
        (r#"4599-["frame"]"#, "more than 10"),
    ] {
        wire.say(text).await;
        refused(&mut link, expected).await;
    }
    for harmless in ["3", "5", "6", "43[]"] {
        wire.say(harmless).await;
    }
    wire.attach(vec![1]).await;
    refused(&mut link, "nothing announced").await;
    wire.say(FRAME).await;
    wire.say(FRAME).await;
    refused(&mut link, "before all attachments").await;
    wire.attach(packed(to_hmi("a"))).await;
    arrives(&mut link, "a").await;
    for (frame, expected) in [
        (json!({"v": 3, "src": "oven", "tgt": "hmi"}), "only the number 2"),
        (
            json!({"v": 2, "src": "hmi", "tgt": "hmi", "kind": "call", "corr": "c", "path": "p", "method": "m"}),
            "from us",
        ),
        (
            json!({"v": 2, "src": "oven", "tgt": "hmi", "kind": "batch", "batch": [to_hmi("a"), {"kind": "call"}]}),
            "member 1",
        ),
    ] {
        wire.frame(frame).await;
        refused(&mut link, expected).await;
    }
    let older = br#"{"source":"oven","target":"hmi","time":1,"seq":0}$x"#.to_vec();
    for number in 1..=4 {
        wire.say(r#"451-["message",{"_placeholder":true,"num":0}]"#).await;
        wire.attach(older.clone()).await;
        if number != 3 {
            refused(&mut link, &format!("older layout from \"oven\", number {number}")).await;
        }
    }
    wire.say(FRAME).await;
    wire.attach(older).await;
    wire.frame(to_hmi("b")).await;
    arrives(&mut link, "b").await;
}

/// W-110: what is too large for the hub is rejected before a byte of it is written, whether the hub allows little or much.
#[tokio::test]
async fn w110_what_is_too_large_is_rejected_before_it_is_sent() {
    for (allowed, limit) in [("5000", 5_000), ("100000000", 1_000_000)] {
        let door = Door::new().await;
        let mut link = linked(&door.url, "hmi");
        let mut wire = door.accept().await;
        wire.say(&OPENING.replace("1000000", allowed)).await;
        wire.text().await;
        wire.say("40{}").await;
        wire.text().await;
        up(&mut link).await;
        let claim = Claim::default();
        let sized = |bytes: usize| request("m", Value::Text("x".repeat(bytes)));
        send(&link, 1, sized(limit), Some(claim.clone())).await;
        assert!(
            matches!(rejected(&mut link, 1).await, Rejection::TooLarge { limit: said, bytes } if said == limit && bytes > limit)
        );
        assert!(claim.take(), "it was not taken");
        send(&link, 2, sized(limit - 200), None).await;
        assert_eq!(method(&wire.arrived().await), "m");
    }
}

/// A message larger than we take ends the connection; we come back. One that a hub made larger by rewriting is taken.
#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection_and_we_come_back() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    let with = |bytes: usize| {
        let mut frame = to_hmi("large");
        frame["body"] = json!(["x".repeat(bytes)]);
        frame
    };
    wire.frame(with(2_000_000)).await;
    arrives(&mut link, "large").await;
    wire.say(FRAME).await;
    // The link may be gone before all of it is written.
    let _ = wire.0.send(Ws::binary(packed(with(5_000_000)))).await;
    assert!(down(&mut link, DownKind::Protocol).await.contains("are taken"));
    door.joined().await;
    up(&mut link).await;
}

/// W-081: who withdrew the frame is not surprised by it; whoever takes the claim first has it.
#[tokio::test]
async fn w081_a_withdrawn_frame_is_dropped_without_a_word() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    let (withdrawn, taken) = (Claim::default(), Claim::default());
    assert!(withdrawn.take());
    send(&link, 1, request("never", Value::Null), Some(withdrawn)).await;
    send(&link, 2, request("now", Value::Null), Some(taken.clone())).await;
    assert_eq!(method(&wire.arrived().await), "now");
    assert!(!taken.take(), "the link has it");
}

/// What cannot be written is rejected alone.
#[tokio::test]
async fn a_frame_that_cannot_be_written_is_rejected_alone() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    send(&link, 1, request("m", Value::Int(i64::MAX)), None).await;
    assert!(matches!(rejected(&mut link, 1).await, Rejection::Unsendable(_)));
    send(&link, 2, request("n", Value::Null), None).await;
    assert_eq!(method(&wire.arrived().await), "n");
}

/// W-081: while the hub takes nothing, what waits still belongs to its sender, and is rejected when the connection ends.
#[tokio::test]
async fn w081_what_a_slow_hub_does_not_take_can_be_withdrawn() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let wire = door.joined().await;
    up(&mut link).await;
    // More than any socket holds.
    let large = Value::Text("x".repeat(900_000));
    let claims: Vec<Claim> = (0..64).map(|_| Claim::default()).collect();
    for (id, claim) in (0..).zip(&claims) {
        send(&link, id, request("m", large.clone()), Some(claim.clone())).await;
    }
    // It has gone as far as it can when it goes round and round and takes nothing more, though something waits.
    let mut wire = wire;
    let (mut room, mut rounds) = (link.outbound.capacity(), 0);
    while rounds < 20 {
        wire.frame(to_hmi("a")).await;
        arrives(&mut link, "a").await;
        let now = link.outbound.capacity();
        rounds = if now == room && now < link.outbound.max_capacity() { rounds + 1 } else { 0 };
        room = now;
    }
    let withdrawn: Vec<bool> = claims.iter().map(Claim::take).collect();
    assert!(!withdrawn[0] && withdrawn[63], "{withdrawn:?}");
    let first = withdrawn.iter().position(|withdrawn| *withdrawn).unwrap();
    assert!(withdrawn[first..].iter().all(|withdrawn| *withdrawn), "in order: {withdrawn:?}");
    drop(wire);
    loop {
        match event(&mut link).await {
            LinkEvent::Down(reason) => {
                assert_eq!(reason.kind, DownKind::Lost);
                break;
            }
            LinkEvent::Rejected { id, .. } => assert!(withdrawn[usize::try_from(id).unwrap()]),
            other => panic!("{other:?}"),
        }
    }
}

// The end of a connection.

/// W-104: pings are answered as they come; a silent hub is lost.
#[tokio::test]
async fn w104_pings_are_answered_and_silence_is_loss() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.accept().await;
    wire.say(r#"0{"sid":"s","upgrades":[],"pingInterval":100,"pingTimeout":50,"maxPayload":1000000}"#).await;
    wire.text().await;
    wire.say("2").await;
    assert_eq!(wire.text().await, "3", "even while it is not decided");
    wire.say("40{}").await;
    wire.text().await;
    up(&mut link).await;
    for said in ["", "probe"] {
        wire.say(&format!("2{said}")).await;
        assert_eq!(wire.text().await, format!("3{said}"));
    }
    assert!(down(&mut link, DownKind::Lost).await.contains("silent for 150 ms"));
    door.joined().await;
    up(&mut link).await;
}

/// W-108: however the hub ends it, we come back, and rebuild what we know.
#[tokio::test]
async fn w108_we_come_back_whoever_ended_it() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    for end in ["41", "1", "44{}", "close", "too large", "cut"] {
        let mut wire = door.joined().await;
        up(&mut link).await;
        wire.say(r#"42["presence",{"peers":["bus"]}]"#).await;
        online(&mut link, "bus").await;
        settled(&mut link).await;
        match end {
            "close" => wire.0.close(None).await.unwrap(),
            "too large" => {
                let frame = CloseFrame { code: 1009.into(), reason: "".into() };
                wire.0.close(Some(frame)).await.unwrap();
            }
            "cut" => drop(wire),
            text => wire.say(text).await,
        }
        let kind = if end == "44{}" { DownKind::Unauthorized } else { DownKind::Lost };
        let said = down(&mut link, kind).await;
        assert_eq!(said.contains("too large"), end == "too large", "{said}");
    }
}

/// A hub that goes away in the middle of a batch leaves nothing of it behind.
#[tokio::test]
async fn a_hub_that_closes_during_a_batch_delivers_none_of_it() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    wire.say(FRAME).await;
    drop(wire);
    down(&mut link, DownKind::Lost).await;
    let mut wire = door.joined().await;
    up(&mut link).await;
    // The attachment that was announced on the old connection is none on the new one.
    wire.attach(packed(to_hmi("a"))).await;
    refused(&mut link, "nothing announced").await;
}

/// W-035: leaving says so, after what was asked for before, and waits for the hub to close.
#[tokio::test]
async fn w035_leaving_flushes_what_was_sent_and_says_goodbye() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    send(&link, 1, request("last", Value::Null), None).await;
    link.outbound.send(Outbound::Leave).await.unwrap();
    assert_eq!(method(&wire.arrived().await), "last");
    assert_eq!(wire.text().await, "41");
    assert_eq!(wire.message().await, None);
    drop(wire);
    assert!(matches!(event(&mut link).await, LinkEvent::Closed));
    ended(&mut link).await;
}

/// A hub that does not take the goodbye does not keep us.
#[tokio::test]
async fn leaving_ends_even_if_the_hub_does_not() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let _wire = door.joined().await;
    up(&mut link).await;
    link.outbound.send(Outbound::Leave).await.unwrap();
    assert!(matches!(event(&mut link).await, LinkEvent::Closed));
    ended(&mut link).await;
}

/// Whoever lets go of the link cuts it.
#[tokio::test]
async fn a_link_nobody_listens_to_ends() {
    let door = Door::new().await;
    let link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    drop(link.events);
    assert_eq!(wire.message().await, None);
    assert!(link.outbound.is_closed());
}

/// The socket is cut without a goodbye only if nobody said one: a plain drop of the sender leaves in order.
#[tokio::test]
async fn dropping_the_sender_leaves_in_order() {
    let door = Door::new().await;
    let mut link = linked(&door.url, "hmi");
    let mut wire = door.joined().await;
    up(&mut link).await;
    let (sender, _) = tokio::sync::mpsc::channel(1);
    link.outbound = sender;
    assert_eq!(wire.text().await, "41");
}

// A node behind it.

fn node(url: &str) -> Node {
    let identity = Identity {
        name: name("hmi"),
        serving: Serving { introspection: true, ..Serving::default() },
        exposed: Vec::new(),
    };
    Node::start(identity, vec![linked(url, "hmi")]).0
}

fn read_oven() -> Call {
    let (namespace, method) = ("plant".into(), "read".into());
    Call { peer: name("oven"), namespace, method, args: Vec::new(), timeout: Some(PATIENCE), idempotency_key: None }
}

/// W-109: a request for somebody else is answered, anything else for him is dropped.
#[tokio::test]
async fn w109_what_is_for_somebody_else_is_not_ours() {
    let door = Door::new().await;
    let _node = node(&door.url);
    let mut wire = door.joined().await;
    let mut foreign = to_hmi("a");
    foreign["tgt"] = "other".into();
    wire.frame(foreign.clone()).await;
    let answer = wire.arrived().await;
    assert_eq!((answer.get("corr"), answer.get("code")), (Some(&"a".into()), Some(&"TransportError".into())));
    assert_eq!(answer.get("body").and_then(|body| body.get("message")), Some(&"hmi: no route to 'other'".into()));
    foreign["kind"] = "event".into();
    foreign["event"] = "e".into();
    wire.frame(foreign).await;
    wire.frame(json!({"v": 2, "src": "oven", "tgt": "other", "kind": "result", "corr": "a"})).await;
    wire.frame(
        json!({"v": 2, "src": "oven", "tgt": "hmi", "kind": "call", "corr": "b", "path": "none", "method": "m"}),
    )
    .await;
    let answer = wire.arrived().await;
    assert_eq!((answer.get("corr"), answer.get("code")), (Some(&"b".into()), Some(&"ClassNotFound".into())));
}

/// W-071: an answer counts only from the peer that was asked, whatever a hub passes on; a hub's own error counts, and says
/// that nothing ran.
#[tokio::test]
async fn w071_a_spoofed_answer_is_none_and_a_relays_error_is_one() {
    let door = Door::new().await;
    let node = node(&door.url);
    let mut wire = door.joined().await;
    wire.say(r#"42["presence",{"peers":["bus","oven"]}]"#).await;
    node.network_when(PATIENCE, |network| network.roster.len() == 2).await;
    let call = tokio::spawn({
        let node = node.clone();
        async move { node.call(read_oven()).await }
    });
    let asked = wire.arrived().await;
    let correlation = asked.get("corr").and_then(Value::as_str).unwrap().to_owned();
    let answer = |from: &str, body: i64| json!({"v": 2, "src": from, "tgt": "hmi", "kind": "result", "corr": correlation, "body": body});
    wire.frame(answer("thief", 1)).await;
    wire.frame(answer("oven", 2)).await;
    assert_eq!(call.await.unwrap().unwrap().value, Some(Value::Int(2)));
    let call = tokio::spawn({
        let node = node.clone();
        async move { node.call(read_oven()).await }
    });
    let asked = wire.arrived().await;
    let mut refusal = json!({"v": 2, "src": "bus", "tgt": "hmi", "kind": "error", "code": "TransportError"});
    refusal["corr"] = asked.get("corr").and_then(Value::as_str).unwrap().into();
    refusal["body"] = json!({"name": "RpcError", "message": "bus: no route to 'oven'"});
    wire.frame(refusal).await;
    assert_eq!(call.await.unwrap().unwrap_err().certainty(), Certainty::DidNotRun);
}

/// W-080, W-072: a connection that ends fails what it carried, as unknown; what is listened to is asked for again, once.
#[tokio::test]
async fn w080_w072_subscriptions_are_replayed_and_calls_are_not() {
    let door = Door::new().await;
    let node = node(&door.url);
    let mut wire = door.joined().await;
    wire.say(r#"42["presence",{"peers":["bus","oven"]}]"#).await;
    node.network_when(PATIENCE, |network| network.roster.len() == 2).await;
    let (namespace, event) = ("plant".into(), "alarm".into());
    let stream = Stream { peer: name("oven"), namespace, event };
    let mut listening = node.subscribe(stream).unwrap();
    let asked = wire.arrived().await;
    assert_eq!(method(&asked), "on");
    let corr = asked.get("corr").and_then(Value::as_str).unwrap();
    wire.frame(json!({"v": 2, "src": "oven", "tgt": "hmi", "kind": "result", "corr": corr, "body": "ok"})).await;
    let call = tokio::spawn({
        let node = node.clone();
        async move { node.call(read_oven()).await }
    });
    assert_eq!(method(&wire.arrived().await), "read");
    drop(wire);
    assert_eq!(call.await.unwrap().unwrap_err().certainty(), Certainty::MayHaveRun);
    let mut wire = door.joined().await;
    wire.say(r#"42["presence",{"peers":["bus","oven"]}]"#).await;
    let asked = wire.arrived().await;
    assert_eq!(method(&asked), "on", "and not the call");
    let corr = asked.get("corr").and_then(Value::as_str).unwrap();
    wire.frame(json!({"v": 2, "src": "oven", "tgt": "hmi", "kind": "result", "corr": corr, "body": "ok"})).await;
    wire.frame(
        json!({"v": 2, "src": "oven", "tgt": "hmi", "kind": "event", "path": "plant", "event": "alarm", "body": [9]}),
    )
    .await;
    loop {
        if let Heard::Event { args, .. } = timeout(PATIENCE, listening.next()).await.unwrap().unwrap() {
            assert_eq!(args, [Value::Int(9)]);
            break;
        }
    }
}

// Against a hub that works.

async fn settle(link: &mut Link) -> Vec<String> {
    up(link).await;
    let mut peers = Vec::new();
    loop {
        match event(link).await {
            LinkEvent::Online { peer, .. } => peers.push(peer.to_string()),
            LinkEvent::Settled => return peers,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn two_links_meet_on_a_hub() {
    let hub = Hub::start().await;
    let mut hmi = linked(&hub.url, "hmi");
    assert_eq!(settle(&mut hmi).await, ["bus"]);
    let mut oven = linked(&hub.url, "oven");
    assert_eq!(settle(&mut oven).await, ["bus", "hmi"]);
    online(&mut hmi, "oven").await;
    send(&hmi, 1, request("read", Value::Date(5)), None).await;
    let LinkEvent::Frame(frame) = event(&mut oven).await else { panic!("a frame") };
    let Message::Request(request) = frame.message else { panic!("a request") };
    assert_eq!(request.args, [Value::Date(5)]);
    let reply = Reply { correlation: request.correlation, route: request.reply, answer: Answer::Value(None) };
    let answer = Frame { source: name("oven"), target: name("hmi"), message: Message::Reply(reply) };
    send(&oven, 1, answer, None).await;
    assert!(matches!(event(&mut hmi).await, LinkEvent::Frame(frame) if frame.source.as_str() == "oven"));
    hub.cut("oven");
    assert!(matches!(event(&mut hmi).await, LinkEvent::Offline(peer) if peer.as_str() == "oven"));
    down(&mut oven, DownKind::Lost).await;
    settle(&mut oven).await;
    online(&mut hmi, "oven").await;
    oven.outbound.send(Outbound::Leave).await.unwrap();
    while !matches!(event(&mut oven).await, LinkEvent::Closed) {}
    assert!(matches!(event(&mut hmi).await, LinkEvent::Offline(peer) if peer.as_str() == "oven"));
}

/// The address decides what is spoken, and nothing listens at a path.
#[tokio::test]
async fn the_request_is_the_recorded_one() {
    let door = Door::new().await;
    let _link = start(config(&door.url.replace("http", "ws"), "hmi"), LinkId(0));
    assert!(HubUrl::parse("http://plant/namespace").is_err());
    let mut socket = door.socket().await;
    let mut said = vec![0; 64];
    socket.read_exact(&mut said).await.unwrap();
    let line = b"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n";
    assert!(said.starts_with(line), "{}", String::from_utf8_lossy(&said));
}

// TLS.

/// The hub's end of TLS: it shows a certificate of this authority, and wants one of it.
fn acceptor(authority: &Authority) -> TlsAcceptor {
    let certificates = |name: &str| -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_file_iter(authority.file(name)).unwrap().map(Result::unwrap).collect()
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificates("ca").remove(0)).unwrap();
    let wanted = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::from_pem_file(authority.file("broker-key")).unwrap();
    let config = builder.with_client_cert_verifier(wanted).with_single_cert(certificates("broker"), key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A private authority and our own certificate open the door; without either, TLS is what is said to be wrong.
#[tokio::test]
async fn tls_trusts_the_authority_it_was_given_and_shows_who_we_are() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let acceptor = acceptor(&authority);
    let file = |name: &str| authority.file(name);
    let identity = Some((file("client"), file("client-key")));
    for (ca, identity, good) in [
        (Some(file("ca")), identity.clone(), true),
        (Some(stranger.file("ca")), identity.clone(), false),
        (None, identity, false),
        (Some(file("ca")), None, false),
    ] {
        let door = Door::new().await;
        let mut config = config(&door.url.replace("http", "https"), "hmi");
        config.tls = Some(Tls::load(&TlsFiles { ca, identity }).unwrap());
        let mut link = start(config, LinkId(0));
        let accepted = acceptor.accept(door.socket().await).await;
        if !good {
            down(&mut link, DownKind::Tls).await;
            continue;
        }
        let mut wire = tokio_tungstenite::accept_async(accepted.unwrap()).await.unwrap();
        wire.send(Ws::text(OPENING)).await.unwrap();
        assert_eq!(wire.next().await.unwrap().unwrap(), Ws::text("40"));
        wire.send(Ws::text("40{}")).await.unwrap();
        up(&mut link).await;
        link.outbound.send(Outbound::Leave).await.unwrap();
        assert!(matches!(wire.next().await, Some(Ok(Ws::Text(text))) if text.starts_with("42")));
        assert_eq!(wire.next().await.unwrap().unwrap(), Ws::text("41"));
    }
}
