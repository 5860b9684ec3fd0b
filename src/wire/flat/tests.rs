//! Recorded flat frames, both ways, and what holds for any.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::wire::frame::{Answer, Ticket};
use crate::wire::vectors::{self, Carrier, any_value, through_json, through_msgpack};
use crate::wire::{DecodeError, Encoding, ReplyRoute, Request, Stamp, Value, json, msgpack};

fn read(bytes: &Bytes) -> Result<Arrived, DecodeError> {
    decode(bytes)
}

/// The frame as our encoder is given it: the answer in the encoding wanted.
fn frame(arrived: &Arrived, encoding: Encoding) -> Frame {
    let [message] = &arrived.messages[..] else { panic!("one message") };
    let mut message = message.clone();
    match &mut message {
        Message::Request(request) => request.reply.encoding = encoding,
        Message::Reply(reply) => reply.route.encoding = encoding,
        Message::Event { .. } => {}
    }
    Frame { source: arrived.source.clone(), target: arrived.target.clone(), message }
}

/// Rows that our encoder does not reproduce, each with its reason.
const UNWRITTEN: [(&str, &str); 3] = [
    ("batch", "each request of ours leaves by itself: only a single one is answered where there is no route (W-102)"),
    ("batch-relayed", "the same, and we relay nothing"),
    ("call-relayed-once", "we relay nothing, so we never write `hops`"),
];

/// Rows whose JSON form our encoder does not reproduce.
const UNWRITTEN_JSON: [(&str, &str); 3] = [
    ("result-bytes-date", "JSON has no form for bytes that every peer reads back (wire.md 3.2)"),
    ("event", "an event is nobody's answer, so it is written as MessagePack, which every peer reads"),
    ("event-unstamped", "the same"),
];

/// Every recorded frame is read, and written again byte for byte, but for what is listed.
#[test]
fn frames_are_written_as_recorded() {
    let rows = vectors::list("flat-frames.json", "encode");
    let mut left_out = Vec::new();
    for row in &rows {
        let name = row["name"].as_str().unwrap();
        let recorded = vectors::hex(row["msgpackHex"].as_str().unwrap());
        let arrived = read(&recorded).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(arrived.source.as_str(), row["frame"]["src"], "{name}");
        assert_eq!(arrived.target.as_str(), row["frame"]["tgt"], "{name}");
        assert_eq!(arrived.hops, row["frame"]["hops"].as_u64().unwrap_or(0), "{name}");
        assert_eq!(arrived.batch, row["frame"]["kind"] == "batch", "{name}");
        assert_eq!(arrived.messages.len(), row["frame"]["batch"].as_array().map_or(1, Vec::len), "{name}");
        if UNWRITTEN.iter().any(|(unwritten, _)| *unwritten == name) {
            left_out.push(name);
            continue;
        }
        let ours = encode(&frame(&arrived, Encoding::MessagePack)).unwrap();
        assert_eq!(hex::encode(ours), row["msgpackHex"].as_str().unwrap(), "{name}");
        if UNWRITTEN_JSON.iter().any(|(unwritten, _)| *unwritten == name) {
            continue;
        }
        let ours = String::from_utf8(encode(&frame(&arrived, Encoding::Json)).unwrap()).unwrap();
        assert_eq!(ours, row["jsonText"].as_str().unwrap(), "{name}");
    }
    left_out.sort_unstable();
    assert_eq!(left_out, UNWRITTEN.map(|(name, _)| name));
}

/// The JSON form says the same as the MessagePack form, so far as JSON can say it.
#[test]
fn both_forms_of_a_recorded_frame_say_the_same() {
    for row in vectors::list("flat-frames.json", "encode") {
        let name = row["name"].as_str().unwrap();
        if name == "result-bytes-date" {
            continue; // Bytes and dates do not survive JSON.
        }
        let msgpack = read(&vectors::hex(row["msgpackHex"].as_str().unwrap())).unwrap();
        let json = read(&Bytes::from(row["jsonText"].as_str().unwrap().to_owned())).unwrap();
        let text = |arrived: Arrived| format!("{arrived:?}").replace("Json", "MessagePack");
        assert_eq!(text(json), text(msgpack), "{name}");
    }
}

/// What a recorded reader made of a frame, told of ours.
fn told(arrived: &Arrived) -> Json {
    let mut told = serde_json::json!({
        "source": arrived.source.as_str(), "target": arrived.target.as_str(), "hops": arrived.hops,
    });
    let values = |args: &[Value]| Json::Array(args.iter().map(|value| json::to_json(value).unwrap()).collect());
    if arrived.batch {
        told["kindAsRead"] = "BATCH".into();
        told["payloads"] = arrived.messages.len().into();
        return told;
    }
    match &arrived.messages[0] {
        Message::Request(request) => {
            told["kindAsRead"] = "POST".into();
            told["params"] = values(&request.args);
        }
        Message::Event { args, .. } => {
            told["kindAsRead"] = "EVENT".into();
            told["params"] = values(args);
        }
        Message::Reply(reply) => match &reply.answer {
            Answer::Value(Some(value)) | Answer::Deferred(Some(value)) => {
                told["kindAsRead"] = "SUCCESS".into();
                told["result"] = json::to_json(value).unwrap();
                if matches!(reply.answer, Answer::Deferred(_)) {
                    told["deferred"] = true.into();
                }
            }
            Answer::Error(error) => {
                told["kindAsRead"] = "ERROR".into();
                told["code"] = error.code.as_str().into();
            }
            other => panic!("{other:?} is in no vector"),
        },
    }
    told
}

/// W-105, W-011, W-100: every recorded odd frame, in both forms. One deviation: a batch with nothing for a member made the
/// recorded reader throw; it is refused like any other member that cannot be read.
#[test]
fn w105_odd_frames_are_read_or_refused_as_recorded() {
    for row in vectors::list("flat-frames.json", "read") {
        let name = row["name"].as_str().unwrap();
        let packed = Bytes::from(msgpack::encode(&json::from_json(row["frame"].clone())).unwrap());
        let printed = Bytes::from(row["frame"].to_string());
        for bytes in [packed, printed] {
            if name == "string" && bytes.first() == Some(&b'"') || name == "array" && bytes.first() == Some(&b'[') {
                // Only a text in braces is taken for JSON; this is refused as MessagePack that it is not.
                assert!(read(&bytes).is_err());
                continue;
            }
            let outcome = read(&bytes);
            let expected = &row["outcome"];
            match (outcome, &expected["accepted"]) {
                (Ok(arrived), accepted) if accepted.is_object() => assert_eq!(told(&arrived), *accepted, "{name}"),
                (Err(_), _) if expected["refused"].is_string() || expected["threw"].is_string() => {}
                (other, _) => panic!("{name}: {other:?} instead of {expected}"),
            }
        }
    }
}

/// What is refused says why, field by field.
#[test]
fn a_refusal_names_what_is_wrong() {
    let check = |text: &str, expected: &str| {
        let error = read(&Bytes::copy_from_slice(text.as_bytes())).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check(r#"{"v":3}"#, "only the number 2");
    check(r#"{"v":2,"tgt":"b"}"#, "sender is not named");
    check(r#"{"v":2,"src":"a b","tgt":"b"}"#, "sender's name");
    check(r#"{"v":2,"src":"a","tgt":""}"#, "addressee is not named");
    check(r#"{"v":2,"src":"a","tgt":"b c"}"#, "addressee's name");
    check(r#"{"v":2,"src":"a","tgt":"b","kind":"batch","batch":{}}"#, "carries nothing");
    check(r#"{"v":2,"src":"a","tgt":"b","kind":"batch","batch":[{"kind":"call"}]}"#, "member 0");
    check(
        r#"{"v":2,"src":"a","tgt":"b","kind":"call","corr":"c","path":"p","method":"m","idem":7}"#,
        "idempotency key",
    );
    check(r#"{"v":2,"src":"a","tgt":"b","kind":"call","corr":"c","path":"p","method":"m","fence":7}"#, "fence");
    check(r#"{"v":2,"src":"a","tgt":"b","kind":"ticket","corr":"c","outcome":"maybe"}"#, "outcome");
}

/// W-003: what is needed and empty is not sent; a name that no peer on a hub reads is not addressed.
#[test]
fn w003_what_peers_would_refuse_is_not_written() {
    let request = |path: &str, target: &str| Frame {
        source: PeerName::hub("a").unwrap(),
        target: PeerName::mqtt(target).unwrap(),
        message: Message::Request(Request { path: path.into(), ..call() }),
    };
    assert!(encode(&request("", "b")).is_err());
    assert!(encode(&request("p", "b c")).is_err());
    assert!(encode(&request("p", "b")).is_ok());
}

/// W-051: a correlation that was no text is echoed as what it was.
#[test]
fn w051_an_odd_correlation_is_echoed() {
    for odd in [Value::Int(7), Value::Bool(true), Value::Map([("x".to_owned(), Value::Int(1))].into_iter().collect())] {
        let mut map = crate::wire::Map::new();
        for (key, value) in [("src", "a"), ("tgt", "b"), ("kind", "call"), ("path", "p"), ("method", "m")] {
            map.insert(key, value);
        }
        map.insert("v", 2);
        map.insert("corr", odd.clone());
        let arrived = read(&msgpack::encode(&Value::Map(map)).unwrap().into()).unwrap();
        let Message::Request(request) = &arrived.messages[0] else { panic!("a request") };
        let answer = Answer::Value(None);
        let reply = Reply { correlation: request.correlation.clone(), route: ReplyRoute::default(), answer };
        let frame = Frame { source: arrived.target, target: arrived.source, message: Message::Reply(reply) };
        let written = msgpack::decode(&encode(&frame).unwrap().into()).unwrap();
        assert_eq!(written.get("corr"), Some(&odd));
    }
}

/// W-107: what a hub does to numbers on the way is read as the same numbers; dates, bytes and extensions are not changed.
#[test]
fn w107_relayed_values_are_read_as_recorded() {
    let recorded = vectors::file("hub-session.json");
    let value = |key: &str| msgpack::decode(&vectors::hex(recorded["relayFidelity"][key].as_str().unwrap())).unwrap();
    let (sent, came) = (value("argumentHex"), value("resultHex"));
    assert_eq!(sent.get("f"), Some(&Value::Float(3.0)));
    assert_eq!(came.get("f"), Some(&Value::Int(3)));
    for same in ["d", "b", "e"] {
        assert_eq!(sent.get(same).or(sent.get("t")).is_some(), came.get(same).or(came.get("t")).is_some());
    }
    for (key, value) in
        sent.as_map().unwrap().iter().filter(|(_, value)| !matches!(value, Value::Int(_) | Value::Float(_)))
    {
        assert_eq!(came.get(key), Some(value), "{key}");
    }
}

/// semantics.md 1.6: the refusal of a batch that is too large is the recorded one, to each request in it.
#[test]
fn a_batch_over_the_bound_is_refused_in_the_recorded_words() {
    let recorded = vectors::file("sem-batch.json");
    let messages = recorded["scenes"][1]["messages"].as_array().unwrap();
    let refusal =
        messages.iter().map(|message| &message["payload"]).find(|payload| payload["type"] == "ERROR").unwrap();
    let (me, caller) = (PeerName::hub("dev").unwrap(), PeerName::hub("observer").unwrap());
    let member = Message::Request(Request { correlation: "b0".into(), ..call() });
    let Some(Frame {
        message: Message::Reply(Reply { correlation, answer: Answer::Error(error), .. }), target, ..
    }) = overfull(&me, &caller, &member, 257)
    else {
        panic!("a refusal")
    };
    assert_eq!((target, &correlation.0[..]), (caller.clone(), refusal["id"].as_str().unwrap().as_bytes()));
    assert_eq!(error.code, refusal["code"].as_str().unwrap());
    assert_eq!(error.message, refusal["error"]["message"].as_str().unwrap());
    let event = Message::Event { path: None, event: "e".into(), args: Vec::new(), stamp: None };
    assert_eq!(overfull(&me, &caller, &event, 257), None);
}

/// W-130: the recorded older frame is recognised; what only looks like it is not.
#[test]
fn w130_the_older_layout_is_recognised() {
    let recorded = vectors::file("legacy.json");
    let bytes = vectors::hex(recorded["frameHex"].as_str().unwrap());
    let header = legacy(&bytes).unwrap();
    assert_eq!(header.source.as_str(), recorded["header"]["source"]);
    assert_eq!(header.target.as_str(), recorded["header"]["target"]);
    assert!(read(&bytes).is_err(), "it is no flat frame");
    let odd = br#"{"source":"a$}{\"","target":"b"}$x"#;
    assert_eq!(legacy(odd).unwrap().source.as_str(), "a$}{\"");
    let long = format!("{{\"source\":\"a\",\"target\":\"b\",\"x\":\"{}\"}}$", "x".repeat(1024));
    for other in [&b"{}"[..], b"{}$", b"", b"$", b"}$", b"[]$", b"{\"source\":1,\"target\":\"b\"}$", long.as_bytes()] {
        assert_eq!(legacy(other), None, "{other:?}");
    }
}

/// W-106, W-101, W-043: presence is said and read as recorded.
#[test]
fn w101_w106_presence_is_said_and_read() {
    let me = PeerName::configured("hmi").unwrap();
    assert_eq!(json::encode(&announcement(&me, None)).unwrap(), br#"{"name":"hmi","v":2}"#);
    let shaped = br#"{"name":"hmi","v":2,"shape":"00"}"#;
    assert_eq!(json::encode(&announcement(&me, Some("00"))).unwrap(), shaped);
    assert_eq!(announcement(&me, Some(&"x".repeat(65))), announcement(&me, None), "others would ignore it");
    let read = |text: &str| presence(json::decode(text.as_bytes()).unwrap());
    let known =
        |peer: &str, shape: Option<&str>| Known { peer: PeerName::hub(peer).unwrap(), shape: shape.map(str::to_owned) };
    let list = r#"{"peers":["bus-1","b d",7,"a"],"shapes":{"a":"01","bus-1":"","x":"02"}}"#;
    assert_eq!(
        read(list),
        Ok(Presence::Everybody {
            hub: PeerName::hub("bus-1").ok(),
            peers: vec![known("bus-1", None), known("a", Some("01"))]
        })
    );
    assert_eq!(read(r#"{"peer":"a","state":"online","shape":"1"}"#), Ok(Presence::Online(known("a", Some("1")))));
    assert_eq!(read(r#"{"peer":"a","state":"asleep"}"#), Ok(Presence::Online(known("a", None))));
    assert_eq!(read(r#"{"peer":"a","state":"offline"}"#), Ok(Presence::Offline(PeerName::hub("a").unwrap())));
    for odd in ["7", "{}", r#"{"peer":"a b","state":"online"}"#, r#"{"peers":{}}"#, r#"{"peer":7}"#] {
        assert!(read(odd).is_err(), "{odd}");
    }
}

fn call() -> Request {
    Request {
        correlation: "c".into(),
        path: "p".into(),
        method: "m".into(),
        args: Vec::new(),
        version: None,
        ttl: None,
        expiry: None,
        idempotency_key: None,
        fence: None,
        reply: ReplyRoute::default(),
    }
}

fn any_message(encoding: Encoding) -> impl Strategy<Value = Message> {
    let carrier = if encoding == Encoding::Json { Carrier::Json } else { Carrier::MessagePack };
    let through = if encoding == Encoding::Json { through_json } else { through_msgpack };
    let text = || "[a-zA-Z0-9$ é]{1,12}";
    let optional = move || prop::option::of(text());
    let route = ReplyRoute { topic: None, encoding };
    let value = move || any_value(carrier).prop_map(through);
    let values = move || prop::collection::vec(value(), 0..3);
    let error = (text(), text(), ".{0,20}").prop_map(|(code, name, message)| RemoteError { code, name, message });
    let answer = prop_oneof![
        prop::option::of(value()).prop_map(Answer::Value),
        prop::option::of(value()).prop_map(Answer::Deferred),
        error.clone().prop_map(Answer::Error),
        prop::option::of(value()).prop_map(|value| Answer::Ticket(Ticket::Progress(value))),
        prop::option::of(value()).prop_map(|value| Answer::Ticket(Ticket::Resolved(value))),
        error.prop_map(|error| {
            // A ticket has no field for a code.
            let code = "Exception".to_owned();
            Answer::Ticket(Ticket::Rejected(RemoteError { code, ..error }))
        }),
    ];
    let ttl = prop::option::of(0..=9_007_199_254_740_991_u64);
    let request = (text(), text(), text(), values(), optional(), ttl, optional(), prop::option::of(text()));
    let stamp = prop::option::of((text(), 0..1_000_000_u64).prop_map(|(epoch, seq)| Stamp { epoch, seq }));
    let replied = route.clone();
    prop_oneof![
        request.prop_map(move |(correlation, path, method, args, version, ttl, idempotency_key, fence)| {
            let (correlation, reply) = (correlation.into(), route.clone());
            let expiry = None;
            Message::Request(Request {
                correlation,
                path,
                method,
                args,
                version,
                ttl,
                expiry,
                idempotency_key,
                fence,
                reply,
            })
        }),
        (text(), answer).prop_map(move |(correlation, answer)| {
            Message::Reply(Reply { correlation: correlation.into(), route: replied.clone(), answer })
        }),
        (optional(), text(), values(), stamp).prop_map(move |(path, event, args, stamp)| {
            let args = if encoding == Encoding::Json { Vec::new() } else { args };
            Message::Event { path, event, args, stamp }
        }),
    ]
}

proptest! {
    /// What is written is read as it was.
    #[test]
    fn decode_gives_what_encode_was_given(
        (encoding, message) in prop_oneof![Just(Encoding::MessagePack), Just(Encoding::Json)]
            .prop_flat_map(|encoding| (Just(encoding), any_message(encoding))),
    ) {
        let (source, target) = (PeerName::hub("a/b").unwrap(), PeerName::hub("é+").unwrap());
        let frame = Frame { source, target, message };
        let written = encode(&frame);
        // Only nesting that the bound refuses cannot be written.
        prop_assume!(written.is_ok());
        let arrived = decode(&written.unwrap().into()).unwrap();
        prop_assert!(!arrived.batch && arrived.hops == 0);
        let mut expected = frame.message;
        if let Message::Reply(reply) = &mut expected {
            // Where to answer is nothing a reply says.
            reply.route = ReplyRoute::default();
        }
        prop_assert_eq!((arrived.source, arrived.target), (frame.source, frame.target));
        prop_assert_eq!(arrived.messages, vec![expected]);
        let _ = encoding;
    }

    /// W-021: no bytes bring a reader down.
    #[test]
    fn w021_no_bytes_bring_a_reader_down(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&Bytes::from(bytes.clone()));
        let _ = legacy(&bytes);
    }

    /// Nor does a frame with one byte changed, or cut short.
    #[test]
    fn w021_no_damaged_frame_brings_a_reader_down(row in 0..18_usize, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let rows = vectors::list("flat-frames.json", "encode");
        let mut bytes = vectors::hex(rows[row % rows.len()]["msgpackHex"].as_str().unwrap()).to_vec();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let _ = decode(&bytes.into());
    }
}

/// W-021: deep, wide and lying payloads are refused before they cost anything.
#[test]
fn w021_hostile_sizes_are_refused() {
    let frame = |tail: &[u8]| Bytes::from([&[0x82, 0xa1, b'v', 2, 0xa4, b'b', b'o', b'd', b'y'][..], tail].concat());
    assert_eq!(read(&frame(&[0x91; 200])), Err(DecodeError::TooDeep));
    assert_eq!(read(&frame(&[0xdd, 0xff, 0xff, 0xff, 0xff])), Err(DecodeError::Truncated));
    assert_eq!(read(&frame(&[0xc6, 0xff, 0xff, 0xff, 0xff])), Err(DecodeError::Truncated));
    assert_eq!(read(&Bytes::from("{\"v\":".repeat(200))), Err(DecodeError::TooDeep));
}
