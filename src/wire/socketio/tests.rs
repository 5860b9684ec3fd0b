//! Recorded sessions, and what holds for any packet.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::wire::flat::{self, Presence};
use crate::wire::vectors::{self, Carrier, any_value, through_json};
use crate::wire::{Value, json};

const LIMIT: usize = 1_000_000;

fn session() -> Json {
    vectors::file("hub-session.json")
}

/// One recorded message, as its reader takes it.
fn take(assembler: &mut Assembler, message: &Json) -> Result<Option<Got>, PacketError> {
    match message["text"].as_str() {
        Some(text) => match Engine::parse(text)? {
            Engine::Message(_) => assembler.text(text),
            Engine::Open(opening) => {
                let opening = Opening::parse(opening)?;
                assert_eq!(opening, Opening { silence: Duration::from_secs(45), max_payload: 1_000_000 });
                Ok(None)
            }
            other => panic!("{other:?} is in no transcript"),
        },
        None => assembler.binary(vectors::hex(message["binaryHex"].as_str().unwrap())),
    }
}

/// Frames of the transcripts that a reader refuses, by the correlation they name.
const REFUSED: [&str; 1] = ["z"];

/// W-103: every message of every recorded session is read, each side by its own assembler; every frame is what the
/// recorder says it is; every packet is written again as it was.
#[test]
fn w103_recorded_sessions_are_read_and_written_again() {
    let session = session();
    let (mut frames, mut packets) = (0, 0);
    for (who, transcript) in session["transcripts"].as_object().unwrap() {
        let (mut hub, mut peer) = (Assembler::new(LIMIT), Assembler::new(LIMIT));
        for message in transcript.as_array().unwrap() {
            if message["close"].is_u64() {
                continue;
            }
            let side = if message["from"] == "hub" { &mut hub } else { &mut peer };
            match take(side, message).unwrap_or_else(|error| panic!("{who}: {message}: {error}")) {
                None => {}
                Some(Got::Frame(bytes)) => {
                    frames += 1;
                    recorded_frame(&bytes, &message["decoded"]);
                }
                Some(Got::Packet(packet)) => {
                    packets += 1;
                    recorded_packet(packet, message);
                }
            }
        }
    }
    assert_eq!((frames, packets), (43, 34), "all of them");
}

fn recorded_frame(bytes: &Bytes, decoded: &Json) {
    let arrived = match flat::decode(bytes) {
        Ok(arrived) => arrived,
        Err(error) => {
            assert!(REFUSED.contains(&decoded["corr"].as_str().unwrap()), "{decoded}: {error}");
            return;
        }
    };
    assert_eq!(
        (arrived.source.as_str(), arrived.target.as_str()),
        (decoded["src"].as_str().unwrap(), decoded["tgt"].as_str().unwrap())
    );
    assert_eq!(arrived.hops, decoded["hops"].as_u64().unwrap_or(0));
    assert_eq!(arrived.batch, decoded["kind"] == "batch");
}

/// A packet that came is what its text says, and so is what we would write.
fn recorded_packet(packet: Packet, message: &Json) {
    let kind = packet.kind;
    if message["text"].is_null() {
        // The older layout, in an event of its own.
        let Some((name, arguments)) = packet.into_event() else { panic!("an event") };
        assert_eq!(name, "message");
        let [Value::Bytes(bytes)] = &arguments[..] else { panic!("one attachment") };
        assert!(flat::legacy(bytes).is_some());
        return;
    }
    let text = message["text"].as_str().unwrap();
    let (written, attached) = packet.clone().write().unwrap();
    assert_eq!((format!("4{written}"), attached.len()), (text.to_owned(), 0));
    if kind == Kind::Event {
        let Some((name, mut arguments)) = packet.into_event() else { panic!("an event") };
        match name.as_str() {
            "presence" if message["from"] == "hub" => {
                flat::presence(arguments.remove(0)).unwrap();
            }
            "presence" => assert_eq!(arguments[0].get("v").is_some(), text.contains("\"v\":2")),
            // One peer sent no bytes; a reader of frames refuses it.
            "frame" => assert_eq!(arguments, ["notbinary".into()]),
            other => panic!("{other} is in no transcript"),
        }
    }
}

/// The recorded authentication: what we present, and how a refusal reads.
#[test]
fn the_recorded_handshake_is_ours() {
    let session = session();
    let recorded: Vec<&str> =
        session["authentication"].as_array().unwrap().iter().filter_map(|message| message["text"].as_str()).collect();
    assert_eq!(recorded.len(), 7);
    let present = |token: &str| {
        let credentials = Value::Map([("token".to_owned(), token.into())].into_iter().collect());
        Engine::Message(&Packet::connect(Some(credentials)).write().unwrap().0).write()
    };
    assert_eq!([present("wrong"), present("tok-hmi")], [recorded[0], recorded[2]]);
    let mut assembler = Assembler::new(LIMIT);
    let kinds = recorded.iter().map(|text| match assembler.text(text).unwrap() {
        Some(Got::Packet(packet)) => packet.kind,
        other => panic!("{other:?}"),
    });
    let expected = [Kind::Connect, Kind::Refusal, Kind::Connect, Kind::Connect, Kind::Event, Kind::Event, Kind::Event];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    let Ok(Some(Got::Packet(last))) = assembler.text(recorded[6]) else { panic!("a packet") };
    let (_, mut arguments) = last.into_event().unwrap();
    let Ok(Presence::Everybody { peers: known, .. }) = flat::presence(arguments.remove(0)) else {
        panic!("a snapshot")
    };
    assert_eq!(known[0].peer.as_str(), "bus-1", "W-106: the hub names itself first");
}

/// The rest of what was recorded: how it closes, and what a client that polls first says. We connect by WebSocket at once.
#[test]
fn the_recorded_closing_is_ours() {
    let session = session();
    let closing = &session["closing"];
    let (leave, _) = Packet::disconnect().write().unwrap();
    assert_eq!(Engine::Message(&leave).write(), closing["hubShutsDown"][0].as_str().unwrap());
    assert_eq!(closing["oversizeMessage"]["limitBytes"], LIMIT);
    assert!(session["url"].as_str().unwrap().ends_with(ENDPOINT));
    assert_eq!(session["longPollHandshakeOfTheReferenceClient"].as_array().unwrap().len(), 4);
    let (written, attached) = Packet::event("frame", Value::Bytes(Bytes::new())).write().unwrap();
    assert_eq!((Engine::Message(&written).write(), attached.len()), (FRAME.to_owned(), 1));
}

/// What a hub says of itself is kept within reason.
#[test]
fn an_opening_is_bounded() {
    let read = |text: &str| Opening::parse(text).unwrap();
    assert_eq!(read("{}"), Opening { silence: Duration::from_secs(45), max_payload: 1_000_000 });
    let absurd = read(r#"{"pingInterval":9007199254740991,"pingTimeout":1e300,"maxPayload":-1}"#);
    assert_eq!(absurd, Opening { silence: Duration::from_mins(10), max_payload: 1_000_000 });
    let tiny = read(r#"{"pingInterval":0,"pingTimeout":0,"maxPayload":10}"#);
    assert_eq!(tiny, Opening { silence: Duration::from_millis(100), max_payload: 10 });
    // W-110: whatever it allows.
    assert_eq!(read(r#"{"maxPayload":100000000}"#).max_payload, 1_000_000);
    for odd in ["", "[]", "7", "{"] {
        assert!(Opening::parse(odd).is_err(), "{odd}");
    }
}

#[test]
fn hostile_packets_are_refused() {
    let check = |text: &str, expected: &str| {
        let error = Assembler::new(LIMIT).text(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check("4", "no Socket.IO packet");
    check("49", "no Socket.IO packet");
    check("42", "no Socket.IO packet");
    check("42{}", "no Socket.IO packet");
    check("42[]", "no Socket.IO packet");
    check("42[7]", "no Socket.IO packet");
    check("41[]", "no Socket.IO packet");
    check("45[\"frame\"]", "no Socket.IO packet");
    check("451[\"frame\"]", "no Socket.IO packet");
    check("45999999999999999999999-[\"frame\"]", "no Socket.IO packet");
    check("4511-[\"frame\"]", "more than 10");
    check("42999999999999999999999[\"x\"]", "no Socket.IO packet");
    check("42/admin,[\"x\"]", "/admin");
    check("40/admin,{}", "/admin");
    check("42[\"x\"", "not JSON");
    check(&format!("42[\"x\",{}]", "[".repeat(500)), "levels deep");
    check("4é", "no Socket.IO packet");
    assert!(Engine::parse("").is_err() && Engine::parse("9").is_err() && Engine::parse("é").is_err());
}

#[test]
fn attachments_come_when_and_as_announced() {
    let attachment = || Bytes::from_static(b"x");
    let mut assembler = Assembler::new(4);
    assert_eq!(assembler.binary(attachment()), Err(PacketError::Unannounced));
    // A packet in between ends the one that waited.
    assert_eq!(assembler.text(FRAME), Ok(None));
    assert_eq!(assembler.text("42[\"x\"]"), Err(PacketError::Interrupted));
    assert_eq!(assembler.binary(attachment()), Err(PacketError::Unannounced));
    // Two attachments, in any place; each is used once.
    assert_eq!(assembler.text(r#"452-["x",{"_placeholder":true,"num":1},[{"_placeholder":true,"num":0}]]"#), Ok(None));
    assert_eq!(assembler.binary(attachment()), Ok(None));
    assert!(matches!(assembler.binary(attachment()), Ok(Some(Got::Packet(_)))));
    for odd in [
        r#"451-["x",{"_placeholder":true,"num":0},{"_placeholder":true,"num":0}]"#,
        r#"451-["x",{"_placeholder":true,"num":1}]"#,
        r#"451-["x",{"_placeholder":true}]"#,
        r#"451-["x"]"#,
    ] {
        assert_eq!(assembler.text(odd), Ok(None));
        assert_eq!(assembler.binary(attachment()), Err(PacketError::Placeholder), "{odd}");
    }
    // Together they are bounded.
    assert_eq!(assembler.text(r#"452-["x",{"_placeholder":true,"num":1},{"_placeholder":true,"num":0}]"#), Ok(None));
    assert_eq!(assembler.binary(Bytes::from_static(b"xxx")), Ok(None));
    assert_eq!(assembler.binary(Bytes::from_static(b"xx")), Err(PacketError::TooLarge(4)));
    assert_eq!(assembler.text(FRAME), Ok(None));
    assert_eq!(assembler.binary(Bytes::from_static(b"xxxxx")), Err(PacketError::TooLarge(4)));
    // In other words, or with an acknowledgement asked for, it is a frame all the same.
    assert_eq!(assembler.text(r#"451-7["frame",{"num":0,"_placeholder":true}]"#), Ok(None));
    assert_eq!(assembler.binary(attachment()), Ok(Some(Got::Frame(attachment()))));
}

fn any_packet() -> impl Strategy<Value = Packet> {
    // A map that looks like a placeholder is one.
    // What JSON rounded to beyond 2^53 is not written again.
    let writable = |value: &Value| json::encode(value).is_ok();
    let value = move || any_value(Carrier::Json).prop_map(through_json).prop_filter("exact", writable).boxed();
    let with_bytes = (value(), prop::collection::vec(any::<u8>(), 0..20))
        .prop_map(|(value, bytes)| Value::Array(vec![value, Value::Bytes(bytes.into())]));
    let argument = prop_oneof![value(), with_bytes];
    let map = any::<String>().prop_filter("readable", |key| key != "__proto__");
    let map = prop::collection::vec((map, value()), 0..4).prop_map(|entries| Value::Map(entries.into_iter().collect()));
    let id = prop::option::of(0..=u64::MAX);
    prop_oneof![
        prop::option::of(map.clone()).prop_map(Packet::connect),
        Just(Packet::disconnect()),
        map.prop_map(|data| Packet { kind: Kind::Refusal, id: None, data: Some(data) }),
        (any::<String>(), argument.clone(), id.clone())
            .prop_map(|(name, argument, id)| Packet { id, ..Packet::event(&name, argument) }),
        (argument, id)
            .prop_map(|(argument, id)| { Packet { kind: Kind::Ack, id, data: Some(Value::Array(vec![argument])) } }),
    ]
}

proptest! {
    /// What is written is read as it was, attachments included.
    #[test]
    fn a_packet_is_read_as_it_was_written(packet in any_packet()) {
        let (text, attached) = packet.clone().write().unwrap();
        let message = Engine::Message(&text).write();
        prop_assert_eq!(Engine::parse(&message), Ok(Engine::Message(&text)));
        let mut assembler = Assembler::new(LIMIT);
        let mut got = assembler.text(&message).unwrap();
        for bytes in attached {
            prop_assert_eq!(got, None);
            got = assembler.binary(bytes).unwrap();
        }
        match got {
            Some(Got::Packet(read)) => prop_assert_eq!(read, packet),
            Some(Got::Frame(_)) => prop_assert_eq!(packet.into_event().unwrap().0, "frame"),
            None => prop_assert!(false, "it is not complete"),
        }
    }

    /// W-021: no sequence of messages brings the reader down.
    #[test]
    fn w021_no_messages_bring_a_reader_down(messages in prop::collection::vec(prop_oneof![
        any::<String>().prop_map(Ok),
        "[0-6]{0,2}[0-9]{0,3}-?(/a,)?[0-9]{0,3}\\[?\"?frame\"?,?\\{?(\"_placeholder\":true,\"num\":0)?\\}?\\]?".prop_map(Ok),
        prop::collection::vec(any::<u8>(), 0..50).prop_map(Err),
    ], 0..8)) {
        let mut assembler = Assembler::new(30);
        for message in messages {
            let got = match message {
                Ok(text) => { let _ = Engine::parse(&text); assembler.text(&text) }
                Err(bytes) => assembler.binary(bytes.into()),
            };
            if let Ok(Some(Got::Frame(bytes))) = got {
                prop_assert!(bytes.len() <= 30);
                let _ = flat::decode(&bytes);
            }
        }
    }
}

/// The JSON of a packet is bounded as any other: a short text does not claim much.
#[test]
fn w021_a_wide_packet_is_refused() {
    let wide = format!("42[\"x\",[{}]]", vec!["0"; (1 << 20) + 1].join(","));
    assert!(Assembler::new(LIMIT).text(&wide).is_err());
    assert!(json::decode(b"[0]").is_ok());
}
