//! The mapping onto MQTT against the recorded packets, hostile ones included.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::wire::frame::{Answer, Ticket};
use crate::wire::vectors::{self, hex};
use crate::wire::{
    Correlation, DecodeError, EncodeError, Encoding, Frame, Message, NameError, PeerName, Prefix, RemoteError, Reply,
    ReplyRoute, Request, Stamp, Topics, Value,
};

fn peer(name: &str) -> PeerName {
    PeerName::mqtt(name).unwrap()
}

fn topics(me: &str) -> Topics {
    Topics::new(&Prefix::default(), peer(me)).unwrap()
}

fn request() -> Request {
    Request {
        correlation: "c-1".into(),
        path: "plant".into(),
        method: "read".into(),
        args: vec!["x".into()],
        version: None,
        ttl: None,
        expiry: None,
        idempotency_key: None,
        fence: None,
        reply: ReplyRoute::default(),
    }
}

fn sent(message: Message) -> Result<Publish, EncodeError> {
    encode(&Frame { source: peer("hmi"), target: peer("plantServer"), message }, &topics("hmi"))
}

fn answered(answer: Answer, route: ReplyRoute) -> Result<Publish, EncodeError> {
    let reply = Reply { correlation: "c-1".into(), route, answer };
    let frame = Frame { source: peer("plantServer"), target: peer("hmi"), message: Message::Reply(reply) };
    encode(&frame, &topics("plantServer"))
}

/// A minimal call as it arrives at plantServer, with one thing changed.
fn arriving(change: impl FnOnce(&mut Publish)) -> Result<Frame, DecodeError> {
    let mut publish = sent(Message::Request(request())).unwrap();
    change(&mut publish);
    decode(publish, &topics("plantServer"))
}

fn arriving_request(change: impl FnOnce(&mut Publish)) -> Request {
    match arriving(change).unwrap().message {
        Message::Request(request) => request,
        other => panic!("{other:?}"),
    }
}

/// A frame as it arrives, from its kind, further control properties and body.
fn received(kind: &str, properties: &[(&str, &str)], body: &str) -> Result<Message, DecodeError> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let publish = Publish {
        topic: "msgrpc/v2/rsp/hmi".into(),
        payload: hex(body),
        correlation: Some("c-1".into()),
        user_properties: [("mr-src", "p"), ("mr-kind", kind)].iter().chain(properties).map(own).collect(),
        ..Publish::default()
    };
    decode(publish, &topics("hmi")).map(|frame| frame.message)
}

fn received_answer(kind: &str, properties: &[(&str, &str)], body: &str) -> Answer {
    match received(kind, properties, body).unwrap() {
        Message::Reply(reply) => reply.answer,
        other => panic!("{other:?}"),
    }
}

fn error(code: &str, name: &str, message: &str) -> RemoteError {
    RemoteError { code: code.into(), name: name.into(), message: message.into() }
}

/// The whole packet at QoS 1 with the packet identifier 1, properties in the order of the recordings.
fn packet(publish: &Publish, retain: bool) -> Vec<u8> {
    let text = |text: &str| [&u16::try_from(text.len()).unwrap().to_be_bytes()[..], text.as_bytes()].concat();
    let varint = |mut number: usize| {
        let mut bytes = Vec::new();
        loop {
            let low = u8::try_from(number % 128).unwrap();
            number /= 128;
            bytes.push(if number > 0 { low | 0x80 } else { low });
            if number == 0 {
                return bytes;
            }
        }
    };
    let mut properties = Vec::new();
    if let Some(content_type) = &publish.content_type {
        properties.extend([&[3][..], &text(content_type)].concat());
    }
    if let Some(format) = publish.payload_format {
        properties.extend([1, format]);
    }
    if let Some(correlation) = &publish.correlation {
        properties.extend([&[9][..], &u16::try_from(correlation.len()).unwrap().to_be_bytes(), correlation].concat());
    }
    if let Some(topic) = &publish.response_topic {
        properties.extend([&[8][..], &text(topic)].concat());
    }
    if let Some(expiry) = publish.expiry {
        properties.extend([&[2][..], &expiry.to_be_bytes()].concat());
    }
    for (name, value) in &publish.user_properties {
        properties.extend([&[38][..], &text(name), &text(value)].concat());
    }
    let rest = [&text(&publish.topic)[..], &[0, 1], &varint(properties.len()), &properties, &publish.payload].concat();
    [&[0x32 | u8::from(retain)][..], &varint(rest.len()), &rest].concat()
}

/// Every recorded packet: read, written again, the same to the byte, and of the size foretold.
///
/// W-003, W-012, W-023, W-034, W-035, W-051, W-053, W-065.
#[test]
fn recorded_packets_are_written_to_the_byte() {
    for vector in vectors::list("mqtt-frames.json", "vectors") {
        let name = vector["name"].as_str().unwrap();
        for (at, recorded) in vector["packets"].as_array().unwrap().iter().enumerate() {
            let publish = vectors::publish(recorded);
            let retain = recorded["retain"].as_bool().unwrap();
            let written = match name {
                "presence-online" => online(None, &topics("hmi")).unwrap(),
                "presence-online-with-shape" => online(Some("558b20242ecef91a"), &topics("plantServer")).unwrap(),
                "presence-graceful-goodbye" => [offline, cleared][at](&topics("hmi")),
                _ => rewritten(publish.clone()),
            };
            assert_eq!(written, publish, "{name}");
            let whole = packet(&written, retain);
            assert_eq!(Bytes::from(whole.clone()), hex(recorded["packetHex"].as_str().unwrap()), "{name}");
            assert_eq!(packet_size(&written), whole.len(), "{name}");
            assert_eq!(retain, name.starts_with("presence-"), "{name}");
        }
    }
}

/// The packet after reading and writing it. What a reply does not carry, the responder remembers: its route.
fn rewritten(publish: Publish) -> Publish {
    let (topic, json) = (publish.topic.clone(), publish.content_type.as_deref() == Some("application/json"));
    let mut frame = decode(publish, &topics("somebody")).unwrap();
    if let Message::Reply(reply) = &mut frame.message {
        let encoding = if json { Encoding::Json } else { Encoding::MessagePack };
        reply.route = ReplyRoute { topic: Some(topic), encoding };
    }
    encode(&frame, &topics(frame.source.as_str())).unwrap()
}

/// What the recorded packets say, where reading and writing alike could be wrong alike.
#[test]
fn recorded_packets_say_what_they_say() {
    let mut frames: HashMap<String, Frame> = vectors::list("mqtt-frames.json", "vectors")
        .into_iter()
        .map(|vector| (vector["name"].as_str().unwrap().to_owned(), vectors::publish(&vector["packets"][0])))
        .filter(|(name, _)| !name.starts_with("presence-"))
        .map(|(name, publish)| (name, decode(publish, &topics("somebody")).unwrap()))
        .collect();
    let correlation = Correlation::from("00000000-0000-4000-8000-000000000001");
    let mut said = |name: &str| frames.remove(name).unwrap().message;
    let full = Request {
        correlation: correlation.clone(),
        method: "writeSetpoint".into(),
        args: vec![Value::Int(1200)],
        version: Some("1.2.3".into()),
        ttl: Some(2500),
        expiry: Some(3),
        idempotency_key: Some("order-7".into()),
        fence: Some("e-7f21c9".into()),
        reply: ReplyRoute { topic: Some("msgrpc/v2/rsp/hmi".into()), encoding: Encoding::MessagePack },
        ..request()
    };
    assert_eq!(said("call-every-field"), Message::Request(full));
    let answer =
        |answer| Message::Reply(Reply { correlation: correlation.clone(), route: ReplyRoute::default(), answer });
    assert_eq!(said("result"), answer(Answer::Value(Some(Value::Int(1200)))));
    assert!(matches!(said("result-deferred-receipt"), Message::Reply(Reply { answer: Answer::Deferred(Some(_)), .. })));
    assert_eq!(
        said("error"),
        answer(Answer::Error(error("Forbidden", "RpcError", "not permitted to call plant.writeSetpoint")))
    );
    assert_eq!(said("ticket-progress"), answer(Answer::Ticket(Ticket::Progress(Some(Value::Int(50))))));
    assert!(matches!(
        said("ticket-resolved"),
        Message::Reply(Reply { answer: Answer::Ticket(Ticket::Resolved(_)), .. })
    ));
    assert_eq!(said("ticket-rejected"), answer(Answer::Ticket(Ticket::Rejected(error("Exception", "Error", "broke")))));
    let event = Message::Event {
        path: Some("plant".into()),
        event: "alarm".into(),
        args: vec!["high pressure".into()],
        stamp: Some(Stamp { epoch: "e3f9c001".into(), seq: 41 }),
    };
    assert_eq!(said("event"), event);
}

/// Requests the reference runs and we refuse: an answer to these topics would forge presence or a request (W-052).
const REFUSED: [&str; 2] = ["response topic msgrpc/v2/presence/other", "response topic msgrpc/v2/req/plantServer"];

/// Answers that differ: correlations are echoed as they came (W-051), and nothing is `null` in JSON (W-063).
const ANSWERED_BETTER: [&str; 3] =
    ["binary correlation (not UTF-8)", "correlation with BOM", "json call of a void method"];

/// Every hostile publish: refused for the recorded reason, or read as what it says.
///
/// W-002, W-010, W-024, W-052, W-056, W-057, W-058, W-059.
#[test]
fn hostile_publishes_are_refused_as_recorded() {
    for vectors::Hostile { name, request, reported, replies, invocations } in vectors::hostile() {
        let got = decode(request.clone(), &topics("plantServer"));
        if REFUSED.contains(&name.as_str()) {
            assert!(reported.is_empty() && invocations == 1, "{name} deviates no longer");
            assert!(matches!(got, Err(DecodeError::ResponseTopicOutside(_))), "{name}: {got:?}");
            continue;
        }
        match (reported.first(), got) {
            (Some(report), Err(error)) => {
                assert!(replies.is_empty() && invocations == 0, "{name}");
                assert!(is_about(report, &error), "{name}: {report}, but {error:?}");
            }
            (Some(report), Ok(frame)) => {
                assert_eq!(report, &format!("no route to '{}'", frame.target), "{name}");
                assert_eq!(frame.target, peer("ghost"), "{name}");
            }
            (None, Ok(frame)) => says(&name, &frame, &request),
            (None, Err(error)) => panic!("{name}: {error:?}"),
        }
    }
}

fn is_about(report: &str, error: &DecodeError) -> bool {
    let quoted = |before: &str| report.strip_prefix(before).and_then(|rest| rest.split('\'').next());
    match error {
        DecodeError::Repeated(name) => report == format!("repeated control property {name}"),
        DecodeError::SourceMissing | DecodeError::Source(_) => report == "missing or unsafe peer name",
        DecodeError::ContentType(text) => quoted("unknown content type '") == Some(text),
        // The recording cut the longest topic short, and so do we, elsewhere.
        DecodeError::ResponseTopicUnusable(topic) => {
            quoted("unusable response topic '").is_some_and(|quoted| topic.starts_with(quoted))
        }
        DecodeError::ResponseTopicOutside(topic) => quoted("response topic '") == Some(topic),
        DecodeError::Kind(kind) => {
            quoted("unrecognised frame kind '") == Some(if kind.is_empty() { "undefined" } else { kind })
        }
        DecodeError::Missing { kind, .. } => quoted("unrecognised frame kind '") == Some(kind),
        DecodeError::Outcome(_) => quoted("unrecognised frame kind '") == Some("ticket"),
        DecodeError::Reserved => report.ends_with("Unrecognized type byte: 0xc1"),
        DecodeError::Trailing(1) => report.contains("Extra 1 of 2 byte(s)"),
        DecodeError::Json(_) => report.starts_with("undecodable payload: SyntaxError"),
        _ => false,
    }
}

fn says(name: &str, frame: &Frame, publish: &Publish) {
    let property =
        |key: &str| publish.user_properties.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    assert_eq!(Some(frame.source.as_str()), property("mr-src"), "{name}");
    let Message::Request(request) = &frame.message else {
        assert_eq!(name, "unsolicited result");
        return;
    };
    assert_eq!(frame.target, peer("plantServer"), "{name}");
    assert_eq!(Some(request.path.as_str()), property("mr-path"), "{name}");
    assert_eq!(Some(request.method.as_str()), property("mr-method"), "{name}");
    assert_eq!(request.fence.as_deref(), property("mr-fence"), "{name}");
    assert_eq!(Some(&request.correlation.0), publish.correlation.as_ref(), "{name}");
    assert_eq!(request.reply.topic, publish.response_topic, "{name}");
    assert_eq!(request.expiry, publish.expiry, "{name}");
    let ttl = match name {
        "mr-ttl \"0\"" => Some(0),
        "mr-ttl \"05000\"" => Some(5000),
        "mr-ttl \"10000\"" => Some(10_000),
        "ttl expired while queued" => Some(20),
        "broker expiry narrows ttl" => Some(60_000),
        _ => None,
    };
    assert_eq!(request.ttl, ttl, "{name}");
    let args = match &publish.payload[..] {
        b"" | b"\xc0" | b"\x90" | b"[]" => vec![],
        b"\x07" => vec![Value::Int(7)],
        b"\x81\xa1a\x01" => vec![Value::Map([("a".to_owned(), Value::Int(1))].into_iter().collect())],
        b"\xa5hello" => vec!["hello".into()],
        b"[21]" => vec![Value::Int(21)],
        b"\x91\xa5alarm" => vec!["alarm".into()],
        b"\x91\xa9$snapshot" => vec!["$snapshot".into()],
        b"\x91\xa1x" => vec!["x".into()],
        other => panic!("{name}: {other:?} is new"),
    };
    assert_eq!(request.args, args, "{name}");
}

/// The first recorded answer to every hostile request that is run, written by us from what we read of the request.
///
/// W-051, W-054, W-063.
#[test]
fn answers_go_where_and_as_recorded() {
    let me = topics("plantServer");
    let mut differing = Vec::new();
    for vectors::Hostile { name, request, replies, .. } in vectors::hostile() {
        let Ok(Frame { source, message: Message::Request(request), .. }) = decode(request, &me) else { continue };
        let Some(recorded) = replies.first() else { continue };
        let body = recorded["payloadHex"].as_str().map(hex);
        let value = match (recorded["contentType"].as_str().unwrap(), &body) {
            (_, None) => None,
            ("application/json", Some(text)) => Some(crate::wire::json::decode(text).unwrap()),
            (_, Some(bytes)) => Some(crate::wire::msgpack::decode(bytes).unwrap()),
        };
        let answer = match recorded["code"].as_str().filter(|_| value.is_some()) {
            Some(code) => {
                let text = |key| value.as_ref().unwrap().get(key).unwrap().as_str().unwrap();
                Answer::Error(error(code, text("name"), text("message")))
            }
            None => Answer::Value(value),
        };
        let reply = Reply { correlation: request.correlation, route: request.reply, answer };
        let target = source;
        let written = encode(&Frame { source: me.me().clone(), target, message: Message::Reply(reply) }, &me).unwrap();
        assert_eq!(Some(written.topic.as_str()), recorded["topic"].as_str(), "{name}");
        assert_eq!((&written.response_topic, written.expiry), (&None, None), "{name}");
        let same = written.content_type.as_deref() == recorded["contentType"].as_str()
            && written.correlation == recorded["correlationHex"].as_str().map(hex)
            && body.as_ref() == Some(&written.payload);
        if !same {
            differing.push(name);
        }
    }
    assert_eq!(differing, ANSWERED_BETTER);
}

/// W-130: a blob of the older layout, on its own topic or on ours, is refused and harms nothing.
#[test]
fn legacy_traffic_is_refused() {
    let legacy = vectors::file("legacy.json");
    let payload = hex(legacy["frameHex"].as_str().unwrap());
    let own = legacy["mqttTopic"].as_str().unwrap();
    let blob = |topic: &str| Publish { topic: topic.to_owned(), payload: payload.clone(), ..Publish::default() };
    for me in [topics("plantServer"), Topics::new(&Prefix::new("msgrpc/v1").unwrap(), peer("plantServer")).unwrap()] {
        assert_eq!(decode(blob(own), &me), Err(DecodeError::Topic(own.to_owned())));
        for topic in [me.requests(), me.replies(), me.events()] {
            assert_eq!(decode(blob(topic), &me), Err(DecodeError::SourceMissing), "{topic}");
        }
        assert!(matches!(decode(blob(me.presence()), &me), Err(DecodeError::Topic(_))));
        assert_eq!(presence("msgrpc/v2/presence/old", &payload, &[], &me), None);
    }
    // W-024: the blob begins with what looks like a small integer.
    assert!(matches!(crate::wire::msgpack::decode(&payload), Err(DecodeError::Trailing(_))));
    // Were it given a sender and a kind, the payload would still be refused.
    let refused = arriving(|publish| publish.payload = payload.clone());
    assert!(matches!(refused, Err(DecodeError::Trailing(_))), "{refused:?}");
}

/// W-040, W-043: every recorded presence message has the recorded effect.
#[test]
fn presence_is_read_as_recorded() {
    let file = vectors::file("presence.json");
    let me = topics(file["mqtt"]["self"].as_str().unwrap());
    let mut shapes: HashMap<PeerName, String> = HashMap::new();
    let sequence = file["mqtt"]["sequence"].as_array().unwrap();
    assert!(!sequence.is_empty());
    for vector in sequence {
        let shape = &vector["shapeUserProperty"];
        let given = shape.as_array().cloned().unwrap_or_else(|| vec![shape.clone()]);
        let properties: Vec<_> =
            given.iter().filter_map(|shape| Some(("shape".to_owned(), shape.as_str()?.to_owned()))).collect();
        let payload = vector["payloadUtf8"].as_str().unwrap().as_bytes();
        let effect = match presence(vector["topic"].as_str().unwrap(), payload, &properties, &me) {
            None => vec![],
            Some(Presence::Offline(peer)) => vec![format!("gone {peer}")],
            Some(Presence::Online { peer, shape }) => {
                let changed = shape.filter(|shape| shapes.insert(peer.clone(), shape.clone()).as_ref() != Some(shape));
                let noted = changed.map(|shape| format!("shape {peer} {shape}"));
                noted.into_iter().chain([format!("online {peer}")]).collect()
            }
        };
        let without_remark = |text: &serde_json::Value| text.as_str().unwrap().split(" (").next().unwrap().to_owned();
        let recorded: Vec<_> = vector["effect"].as_array().unwrap().iter().map(without_remark).collect();
        assert_eq!(effect, recorded, "{vector}");
    }
}

/// W-040, W-002: other topics, names that break the rule and near misses of the payload mean nothing.
#[test]
fn odd_presence_means_nothing() {
    let me = topics("me");
    for topic in ["msgrpc/v2/presence/", "msgrpc/v2/presence/a/b", "msgrpc/v2/presence/a\tb", "msgrpc/v2/req/a", "x"] {
        assert_eq!(presence(topic, b"online", &[], &me), None, "{topic:?}");
    }
    for payload in [&b"online\n"[..], b"Online", b"offline ", b"", b"\xff"] {
        assert_eq!(presence("msgrpc/v2/presence/a", payload, &[], &me), None, "{payload:?}");
    }
    let shaped = |first: &str| {
        let properties = [("shape".to_owned(), first.to_owned()), ("shape".to_owned(), "second".to_owned())];
        match presence("msgrpc/v2/presence/a", b"online", &properties, &me) {
            Some(Presence::Online { shape, .. }) => shape,
            other => panic!("{other:?}"),
        }
    };
    // W-043: 64 UTF-16 units, and the first one counts even if it is ignored.
    assert_eq!(shaped(&"🎛".repeat(32)), Some("🎛".repeat(32)));
    assert_eq!(shaped(&"🎛".repeat(33)), None);
    assert_eq!(shaped(""), None);
}

/// W-043, W-082: a shape that others would ignore or a broker would not carry is not announced.
#[test]
fn odd_shapes_are_not_announced() {
    let me = topics("me");
    assert!(online(Some(&"x".repeat(64)), &me).is_ok());
    assert_eq!(online(Some(&"x".repeat(65)), &me), Err(EncodeError::TooLong("shape")));
    assert_eq!(online(Some(""), &me), Err(EncodeError::Empty("shape")));
    assert_eq!(online(Some("a\u{1}"), &me), Err(EncodeError::Unsendable("shape")));
}

/// W-082: a control character or a noncharacter in any property or topic part keeps the packet from leaving.
#[test]
fn nothing_unsendable_is_published() {
    for bad in ["a\tb", "\0", "a\u{7f}", "a\u{85}", "a\u{fdd0}", "a\u{ffff}", "a\u{10fffe}"] {
        let text = || bad.to_owned();
        let requests = [
            ("mr-path", Request { path: text(), ..request() }),
            ("mr-method", Request { method: text(), ..request() }),
            ("mr-ver", Request { version: Some(text()), ..request() }),
            ("mr-idem", Request { idempotency_key: Some(text()), ..request() }),
            ("mr-fence", Request { fence: Some(text()), ..request() }),
        ];
        for (field, request) in requests {
            assert_eq!(sent(Message::Request(request)), Err(EncodeError::Unsendable(field)), "{bad:?}");
        }
        let event = |path: &str, event: &str, epoch: &str| Message::Event {
            path: Some(path.into()),
            event: event.into(),
            args: vec![],
            stamp: Some(Stamp { epoch: epoch.into(), seq: 1 }),
        };
        assert_eq!(sent(event(bad, "e", "1")), Err(EncodeError::Unsendable("mr-path")));
        assert_eq!(sent(event("p", bad, "1")), Err(EncodeError::Unsendable("mr-event")));
        assert_eq!(sent(event("p", "e", bad)), Err(EncodeError::Unsendable("mr-epoch")));
        let failed = answered(Answer::Error(error(bad, "", "")), ReplyRoute::default());
        assert_eq!(failed, Err(EncodeError::Unsendable("mr-code")));
        let route = ReplyRoute { topic: Some(format!("msgrpc/v2/rsp/{bad}")), encoding: Encoding::Json };
        assert!(matches!(answered(Answer::Value(None), route), Err(EncodeError::ResponseTopic(_))));
        // In the body the same text is nobody's trouble.
        assert!(sent(Message::Request(Request { args: vec![bad.into()], ..request() })).is_ok());
    }
    // Names are held to the rule as sender and as addressee.
    let odd = peer("a\u{85}");
    let frame = |source: &PeerName, target: &PeerName| Frame {
        source: source.clone(),
        target: target.clone(),
        message: Message::Request(request()),
    };
    assert_eq!(encode(&frame(&odd, &peer("p")), &topics("hmi")), Err(EncodeError::Unsendable("mr-src")));
    assert_eq!(encode(&frame(&peer("p"), &odd), &topics("hmi")), Err(EncodeError::Unsendable("target")));
}

/// A command that could not be answered is not taken on: its derived reply topic must be writable (W-082).
#[test]
fn a_request_that_cannot_be_answered_is_refused() {
    let from_odd = |publish: &mut Publish| publish.user_properties[1].1 = "a\u{85}".into();
    let refused = arriving(|publish| {
        from_odd(publish);
        publish.response_topic = None;
    });
    assert!(matches!(refused, Err(DecodeError::ResponseTopicUnusable(_))), "{refused:?}");
    assert!(arriving(from_odd).is_ok(), "where it named a topic, the answer can be sent");
}

/// W-003: what a frame needs is never written empty, and what does not apply is absent.
#[test]
fn inapplicable_fields_are_absent() {
    let empty = || String::new();
    for (field, request) in [
        ("mr-path", Request { path: empty(), ..request() }),
        ("mr-method", Request { method: empty(), ..request() }),
        ("mr-ver", Request { version: Some(empty()), ..request() }),
        ("mr-fence", Request { fence: Some(empty()), ..request() }),
    ] {
        assert_eq!(sent(Message::Request(request)), Err(EncodeError::Empty(field)));
    }
    let names = |publish: &Publish| publish.user_properties.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let call = sent(Message::Request(request())).unwrap();
    assert_eq!(names(&call), ["mr-v", "mr-src", "mr-kind", "mr-path", "mr-method"]);
    let event = Message::Event { path: None, event: "e".into(), args: vec![], stamp: None };
    let event = sent(event).unwrap();
    assert_eq!(names(&event), ["mr-v", "mr-src", "mr-kind", "mr-event"]);
    assert_eq!((event.correlation, event.response_topic, event.expiry), (None, None, None));
}

/// A property or correlation longer than MQTT can carry would be cut or break the packet: it is refused.
#[test]
fn overlong_fields_are_refused() {
    let long = "x".repeat(0x1_0000);
    let path = Request { path: long.clone(), ..request() };
    assert_eq!(sent(Message::Request(path)), Err(EncodeError::TooLong("mr-path")));
    let correlation = Request { correlation: long.as_str().into(), ..request() };
    assert_eq!(sent(Message::Request(correlation)), Err(EncodeError::TooLong("correlation")));
    assert!(sent(Message::Request(Request { path: long[1..].to_owned(), ..request() })).is_ok());
}

/// W-050: our own correlations are plain text.
#[test]
fn odd_correlations_are_not_sent() {
    for odd in [&b""[..], b"\xff", b"\xef\xbb\xbfa"] {
        let request = Request { correlation: Correlation(Bytes::from_static(odd)), ..request() };
        assert_eq!(sent(Message::Request(request)), Err(EncodeError::Correlation), "{odd:?}");
    }
}

/// W-051: whatever bytes a request carried come back with the answer.
#[test]
fn correlations_are_echoed_verbatim() {
    let bytes = Bytes::from_static(b"\xef\xbb\xbf\xff\0");
    let request = arriving_request(|publish| publish.correlation = Some(bytes.clone()));
    let reply = Reply { correlation: request.correlation, route: request.reply, answer: Answer::Value(None) };
    let frame = Frame { source: peer("plantServer"), target: peer("hmi"), message: Message::Reply(reply) };
    assert_eq!(encode(&frame, &topics("plantServer")).unwrap().correlation, Some(bytes));
}

/// W-065: the expiry is the ttl in seconds, rounded up, at least one, at most what fits; thirty without a ttl; and on
/// requests only.
#[test]
fn expiry_follows_the_ttl() {
    for (ttl, seconds) in [
        (None, 30),
        (Some(0), 30),
        (Some(1), 1),
        (Some(1000), 1),
        (Some(1001), 2),
        (Some(2500), 3),
        (Some(4_294_967_295_000), u32::MAX),
        (Some(u64::MAX), u32::MAX),
    ] {
        assert_eq!(expiry(ttl), seconds, "{ttl:?}");
        let request = Request { ttl, expiry: Some(77), ..request() };
        assert_eq!(sent(Message::Request(request)).unwrap().expiry, Some(seconds), "{ttl:?}");
    }
    assert_eq!(answered(Answer::Value(None), ReplyRoute::default()).unwrap().expiry, None);
}

/// W-064, W-077: what the broker left of the expiry is passed on as it came, and its absence as absence.
#[test]
fn the_received_expiry_is_kept() {
    assert_eq!(arriving_request(|publish| publish.expiry = Some(0)).expiry, Some(0));
    assert_eq!(arriving_request(|publish| publish.expiry = None).expiry, None);
}

/// W-010: three labels, one kind of request; the label we write follows the method.
#[test]
fn the_label_of_a_request_does_not_matter() {
    for label in ["call", "subscribe", "unsubscribe"] {
        let read = arriving_request(|publish| publish.user_properties[2].1 = label.to_owned());
        assert_eq!(read.method, "read", "{label}");
    }
    for (method, label) in [
        ("read", "call"),
        ("on", "subscribe"),
        ("off", "unsubscribe"),
        ("removeListener", "unsubscribe"),
        ("once", "call"),
    ] {
        let publish = sent(Message::Request(Request { method: method.into(), ..request() })).unwrap();
        assert_eq!(publish.user_properties[2], ("mr-kind".to_owned(), label.to_owned()));
    }
}

/// W-011: bodies are read leniently, by the kind of frame.
#[test]
fn bodies_are_read_leniently() {
    let args = |body: &str| arriving_request(|publish| publish.payload = hex(body)).args;
    assert_eq!(args(""), []);
    assert_eq!(args("c0"), []);
    assert_eq!(args("90"), []);
    assert_eq!(args("07"), [Value::Int(7)]);
    assert_eq!(args("91c0"), [Value::Null]);
    let event = |body| match received("event", &[("mr-event", "e")], body).unwrap() {
        Message::Event { path: None, args, .. } => args,
        other => panic!("{other:?}"),
    };
    assert_eq!(event(""), [Value::Null]);
    assert_eq!(event("c0"), [Value::Null]);
    assert_eq!(event("07"), [Value::Int(7)]);
    assert_eq!(event("920708"), [Value::Int(7), Value::Int(8)]);
    assert_eq!(received_answer("result", &[], ""), Answer::Value(None));
    assert_eq!(received_answer("result", &[], "c0"), Answer::Value(Some(Value::Null)));
}

/// W-012: arguments are always a list, results are bare.
#[test]
fn arguments_are_lists_and_results_bare() {
    let none = sent(Message::Request(Request { args: vec![], ..request() })).unwrap();
    assert_eq!(none.payload, hex("90"));
    let json = ReplyRoute { topic: None, encoding: Encoding::Json };
    let call = Request { args: vec![], reply: json, ..request() };
    let call = sent(Message::Request(call)).unwrap();
    assert_eq!((&call.payload[..], call.payload_format), (&b"[]"[..], Some(1)));
    let list = Answer::Value(Some(Value::Array(vec![Value::Int(1)])));
    assert_eq!(answered(list, ReplyRoute::default()).unwrap().payload, hex("9101"));
}

/// W-063: nothing, answered in JSON, is `null`.
#[test]
fn nothing_is_null_in_json() {
    let route = ReplyRoute { topic: Some("msgrpc/v2/rsp/inbox".into()), encoding: Encoding::Json };
    let publish = answered(Answer::Value(None), route).unwrap();
    assert_eq!((publish.topic.as_str(), &publish.payload[..]), ("msgrpc/v2/rsp/inbox", &b"null"[..]));
    assert_eq!(publish.content_type.as_deref(), Some("application/json"));
}

/// W-055: an answer is read by its own content type, whatever the request was written in.
#[test]
fn answers_are_read_by_their_own_content_type() {
    for encoding in [Encoding::Json, Encoding::MessagePack] {
        let route = ReplyRoute { topic: None, encoding };
        let publish = answered(Answer::Value(Some("é".into())), route).unwrap();
        let frame = decode(publish, &topics("hmi")).unwrap();
        assert!(
            matches!(frame.message, Message::Reply(Reply { answer: Answer::Value(Some(Value::Text(t))), .. }) if t == "é")
        );
    }
}

/// W-062, W-074: a stack is neither kept nor sent, an unknown code passes, and what is missing has a default.
#[test]
fn errors_are_read_leniently_and_written_without_a_stack() {
    // {name: "E", message: "m", stack: "s"}
    let body = "83a46e616d65a145a76d657373616765a16da5737461636ba173";
    let read = received_answer("error", &[("mr-code", "Invented")], body);
    assert_eq!(read, Answer::Error(error("Invented", "E", "m")));
    let written = answered(read, ReplyRoute::default()).unwrap();
    assert_eq!(written.payload, hex("82a46e616d65a145a76d657373616765a16d"));
    assert_eq!(received_answer("error", &[], ""), Answer::Error(error("Exception", "Error", "")));
    assert_eq!(received_answer("error", &[("mr-code", "")], "a16d"), Answer::Error(error("Exception", "Error", "m")));
    assert_eq!(received_answer("error", &[], "81a46e616d6507"), Answer::Error(error("Exception", "Error", "")));
    let rejected = received_answer("ticket", &[("mr-outcome", "rejected")], body);
    assert_eq!(rejected, Answer::Ticket(Ticket::Rejected(error("Exception", "E", "m"))));
}

/// A receipt is told by the presence of `mr-deferred`, whatever stands in it.
#[test]
fn deferred_counts_by_presence() {
    for value in ["1", "", "0", "false"] {
        assert_eq!(received_answer("result", &[("mr-deferred", value)], "07"), Answer::Deferred(Some(Value::Int(7))));
    }
    assert_eq!(received_answer("result", &[], "07"), Answer::Value(Some(Value::Int(7))));
}

/// W-069: number and incarnation are usable only together, and a number that is none is absent.
#[test]
fn stamps_need_both_halves() {
    let stamp = |properties: &[(&str, &str)]| {
        let properties: Vec<_> = [("mr-event", "e")].into_iter().chain(properties.iter().copied()).collect();
        match received("event", &properties, "90").unwrap() {
            Message::Event { stamp, .. } => stamp,
            other => panic!("{other:?}"),
        }
    };
    let whole = |seq| Some(Stamp { epoch: "e1".into(), seq });
    assert_eq!(stamp(&[("mr-seq", "41"), ("mr-epoch", "e1")]), whole(41));
    assert_eq!(stamp(&[("mr-seq", "0"), ("mr-epoch", "e1")]), whole(0));
    assert_eq!(stamp(&[("mr-seq", "9007199254740991"), ("mr-epoch", "e1")]), whole(9_007_199_254_740_991));
    assert_eq!(stamp(&[("mr-seq", "41")]), None);
    assert_eq!(stamp(&[("mr-epoch", "e1")]), None);
    assert_eq!(stamp(&[("mr-seq", "41"), ("mr-epoch", "")]), None);
    for odd in ["", "-1", "1.5", "+1", " 1", "1e3", "9007199254740992", "99999999999999999999"] {
        assert_eq!(stamp(&[("mr-seq", odd), ("mr-epoch", "e1")]), None, "{odd:?}");
    }
}

/// An empty fence is no absent fence: it is checked, and matches nobody (W-061).
#[test]
fn an_empty_fence_is_kept() {
    let read = arriving_request(|publish| {
        for name in ["mr-fence", "mr-idem", "mr-ver"] {
            publish.user_properties.push((name.to_owned(), String::new()));
        }
    });
    assert_eq!((read.fence.as_deref(), read.idempotency_key, read.version), (Some(""), None, None));
}

/// W-056: repeated control properties are refused, every known one and any unknown one; foreign ones do not matter.
#[test]
fn repeated_control_properties_are_refused() {
    for name in [
        "mr-v",
        "mr-src",
        "mr-kind",
        "mr-path",
        "mr-method",
        "mr-event",
        "mr-code",
        "mr-ver",
        "mr-ttl",
        "mr-idem",
        "mr-fence",
        "mr-deferred",
        "mr-outcome",
        "mr-seq",
        "mr-epoch",
        "mr-nonce",
        "mr-ts",
        "mr-sig",
        "mr-",
    ] {
        let refused = arriving(|publish| {
            publish.user_properties.retain(|(given, _)| given != name);
            publish.user_properties.extend(["1", "2"].map(|value| (name.to_owned(), value.to_owned())));
        });
        assert_eq!(refused, Err(DecodeError::Repeated(name.to_owned())));
    }
    for name in ["shape", "MR-SRC", "x-mr-src", ""] {
        let pair = (name.to_owned(), "x".to_owned());
        assert!(arriving(|publish| publish.user_properties.extend([pair.clone(), pair])).is_ok(), "{name}");
    }
}

/// W-057, W-058: only the two content types, to the letter; the layout version is nobody's business.
#[test]
fn content_types_are_exact() {
    for odd in ["application/MSGPACK", " application/json", "text/plain", "application/json;charset=utf-8"] {
        let refused = arriving(|publish| publish.content_type = Some(odd.to_owned()));
        assert_eq!(refused, Err(DecodeError::ContentType(odd.to_owned())));
    }
    for version in ["1", "99", "", "x"] {
        assert!(arriving(|publish| publish.user_properties[0].1 = version.to_owned()).is_ok(), "{version}");
    }
}

/// W-002: senders and addressees that break the rule are refused.
#[test]
fn names_are_checked_on_arrival() {
    let refused = arriving(|publish| publish.user_properties[1].1 = "a/b".into());
    assert_eq!(refused, Err(DecodeError::Source(NameError::Character('/'))));
    for topic in ["msgrpc/v2/req/", "msgrpc/v2/req/a/b", "msgrpc/v2/presence/a", "msgrpc/v3/req/a", "", "$SYS/x"] {
        let refused = arriving(|publish| publish.topic = topic.to_owned());
        assert_eq!(refused, Err(DecodeError::Topic(topic.to_owned())));
    }
}

/// The checks come in the order of wire.md 4.5: of two faults the earlier is reported.
#[test]
fn checks_come_in_order() {
    type Fault = (fn(&mut Publish), fn(&DecodeError) -> bool);
    let faults: [Fault; 6] = [
        (|p| p.user_properties.push(("mr-path".into(), "x".into())), |e| matches!(e, DecodeError::Repeated(_))),
        (|p| p.user_properties.retain(|(name, _)| name != "mr-src"), |e| *e == DecodeError::SourceMissing),
        (|p| p.content_type = Some("x".into()), |e| matches!(e, DecodeError::ContentType(_))),
        (|p| p.response_topic = Some("x".into()), |e| matches!(e, DecodeError::ResponseTopicOutside(_))),
        (|p| p.payload = hex("c1"), |e| *e == DecodeError::Reserved),
        (|p| p.correlation = None, |e| matches!(e, DecodeError::Missing { .. })),
    ];
    for first in 0..faults.len() {
        let error = arriving(|publish| faults[first..].iter().for_each(|(fault, _)| fault(publish))).unwrap_err();
        // The content type fault would hide the payload's; the later faults stand all the same.
        assert!(faults[first].1(&error), "{first}: {error:?}");
    }
}

/// The response topic of a reply or an event is ignored.
#[test]
fn only_requests_name_a_response_topic() {
    let mut publish = answered(Answer::Value(None), ReplyRoute::default()).unwrap();
    publish.response_topic = Some("$SYS/x".into());
    assert!(decode(publish, &topics("hmi")).is_ok());
}

/// What was received appears in a refusal escaped and cut short, for it goes to a log.
#[test]
fn refusals_are_safe_to_log() {
    let error = arriving(|publish| publish.content_type = Some("\n\u{1b}[2J".repeat(1000))).unwrap_err();
    let text = error.to_string();
    assert!(text.len() < 1000 && !text.contains(char::is_control), "{text}");
}

fn text() -> impl Strategy<Value = String> {
    "[ -~é制🎛]{1,12}"
}

fn name() -> impl Strategy<Value = PeerName> {
    "[a-zé制🎛$* -]{1,12}".prop_map(|name| peer(&name))
}

fn value() -> impl Strategy<Value = Value> {
    vectors::any_value(vectors::Carrier::MessagePack).prop_map(vectors::through_msgpack)
}

fn values() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(value(), 0..4)
}

fn any_request() -> impl Strategy<Value = Message> {
    let named = (prop::option::of(text()), prop::option::of(text()), prop::option::of(text()));
    (text(), text(), text(), values(), named, any::<Option<u64>>()).prop_map(
        |(correlation, path, method, args, (version, idempotency_key, fence), ttl)| {
            Message::Request(Request {
                correlation: correlation.into(),
                path,
                method,
                args,
                version,
                ttl,
                expiry: Some(expiry(ttl)),
                idempotency_key,
                fence,
                reply: ReplyRoute::default(),
            })
        },
    )
}

fn any_reply() -> impl Strategy<Value = Message> {
    let failure =
        || (text(), any::<String>(), any::<String>()).prop_map(|(code, name, message)| error(&code, &name, &message));
    let rejected = (any::<String>(), any::<String>()).prop_map(|(name, message)| error("Exception", &name, &message));
    let answer = prop_oneof![
        value().prop_map(|value| Answer::Value(Some(value))),
        value().prop_map(|value| Answer::Deferred(Some(value))),
        failure().prop_map(Answer::Error),
        value().prop_map(|value| Answer::Ticket(Ticket::Progress(Some(value)))),
        value().prop_map(|value| Answer::Ticket(Ticket::Resolved(Some(value)))),
        rejected.prop_map(|error| Answer::Ticket(Ticket::Rejected(error))),
    ];
    (prop::collection::vec(any::<u8>(), 1..40), answer).prop_map(|(correlation, answer)| {
        Message::Reply(Reply { correlation: Correlation(correlation.into()), route: ReplyRoute::default(), answer })
    })
}

fn any_event() -> impl Strategy<Value = Message> {
    let stamp = (text(), 0..=9_007_199_254_740_991_u64).prop_map(|(epoch, seq)| Stamp { epoch, seq });
    (prop::option::of(text()), text(), values(), prop::option::of(stamp))
        .prop_map(|(path, event, args, stamp)| Message::Event { path, event, args, stamp })
}

proptest! {
    /// What is written is read as the same frame, and its packet is as large as foretold.
    #[test]
    fn frames_survive(source in name(), target in name(), message in prop_oneof![any_request(), any_reply(), any_event()]) {
        let mut frame = Frame { source, target, message };
        let us = topics(frame.source.as_str());
        let publish = encode(&frame, &us).unwrap();
        prop_assert_eq!(packet_size(&publish), packet(&publish, false).len());
        if let Message::Request(request) = &mut frame.message {
            request.reply.topic = Some(us.replies().to_owned());
        }
        prop_assert_eq!(decode(publish, &us).unwrap(), frame);
    }

    /// W-021: whatever arrives is read or refused.
    #[test]
    fn any_publish_is_read_or_refused(
        topic in prop_oneof!["msgrpc/v2/(req|rsp|evt|presence)/.{0,8}", ".{0,20}"],
        payload: Vec<u8>,
        content_type in prop::option::of(prop_oneof!["", "application/(msgpack|json)", ".*"]),
        correlation: Option<Vec<u8>>,
        response_topic in prop::option::of(prop_oneof!["msgrpc/v2/rsp/.{0,8}", ".*"]),
        expiry: Option<u32>,
        user_properties in prop::collection::vec(
            ("(mr-(src|kind|path|method|event|outcome|ttl|seq|epoch|code)|.{0,6})",
             "(call|event|ticket|result|error|progress|[0-9]{0,25}|.{0,8})"), 0..8),
    ) {
        let correlation = correlation.map(Bytes::from);
        let payload = Bytes::from(payload);
        let us = topics("me");
        let _ = presence(&topic, &payload, &user_properties, &us);
        let publish = Publish {
            topic, payload, payload_format: None, content_type, correlation, response_topic, expiry, user_properties,
        };
        let _ = packet_size(&publish);
        if let Err(error) = decode(publish, &us) {
            prop_assert!(!error.to_string().contains(char::is_control));
        }
    }
}
