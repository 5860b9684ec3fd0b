//! The MQTT link against a broker that follows a script.

use std::collections::BTreeSet;
use std::time::Duration;

use plantbridge::link::mqtt::{BrokerUrl, Config, Credentials, Hears, Secret, start};
use plantbridge::link::{DownKind, Link, LinkEvent, LinkId, Outbound, Rejection};
use plantbridge::wire::frame::Message;
use plantbridge::wire::{Frame, PeerName, Prefix, ReplyRoute, Request, Topics, Value, mqtt};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::links::{arrives, down, ended, event, rejected, settled, up};
use crate::scripted::{Broker, CONNACK, Cursor, PATIENCE, Packet, Wire, plain, publish};

pub(crate) fn name(text: &str) -> PeerName {
    PeerName::mqtt(text).unwrap()
}

pub(crate) fn topics(text: &str) -> Topics {
    Topics::new(&Prefix::new("msgrpc/v2").unwrap(), name(text)).unwrap()
}

/// A link named `me` to the broker, quick to retry.
pub(crate) fn config(broker: &Broker, me: &str) -> Config {
    let mut config = Config::new(BrokerUrl::parse(&broker.url()).unwrap(), topics(me));
    config.backoff_min = Duration::from_millis(1);
    config.backoff_max = Duration::from_millis(20);
    config
}

pub(crate) fn linked(broker: &Broker) -> Link {
    start(config(broker, "hmi"), LinkId(0))
}

pub(crate) fn request(source: &str, target: &str, method: &str) -> Frame {
    Frame {
        source: name(source),
        target: name(target),
        message: Message::Request(Request {
            correlation: method.into(),
            path: "plant".into(),
            method: method.into(),
            args: Vec::new(),
            version: None,
            ttl: Some(10_000),
            expiry: None,
            idempotency_key: None,
            fence: None,
            reply: ReplyRoute::default(),
        }),
    }
}

pub(crate) async fn send(link: &Link, id: u64, frame: Frame) {
    link.outbound.send(Outbound::Frame { id, frame: Box::new(frame), claim: None }).await.unwrap();
}

/// A request from `oven` to the link, as a broker would pass it on.
fn to_hmi(method: &str, number: Option<u16>) -> Vec<u8> {
    publish(&mqtt::encode(&request("oven", "hmi", method), &topics("oven")).unwrap(), number, false)
}

/// What a PUBLISH of ours calls, told by its correlation.
fn calls(packet: &Packet, method: &str) -> u16 {
    let publish = packet.publish();
    assert_eq!((&*publish.topic, publish.qos, publish.retain), ("msgrpc/v2/req/oven", 1, false));
    let marker = [&[0x09, 0, u8::try_from(method.len()).unwrap()], method.as_bytes()].concat();
    assert!(publish.properties.windows(marker.len()).any(|window| window == marker), "{publish:?} is not {method}");
    publish.number
}

pub(crate) fn vectors(file: &str) -> Json {
    let path = format!("{}/tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

// What is sent to join.

/// The fields of a CONNECT, named as the vectors name them.
pub(crate) fn connect_fields(connect: &Packet) -> Json {
    let mut at = Cursor { bytes: &connect.body };
    assert_eq!(at.text(), "MQTT");
    let level = at.u8();
    let flags = at.u8();
    let keep_alive = at.u16();
    let mut fields = json!({
        "protocolLevel": level, "cleanStart": flags & 2 != 0, "keepAliveSeconds": keep_alive,
        "sessionExpiryInterval": null, "maximumPacketSize": null, "will": null,
    });
    let length = at.length();
    let mut properties = Cursor { bytes: at.take(length) };
    while !properties.bytes.is_empty() {
        let key = match properties.u8() {
            0x11 => "sessionExpiryInterval",
            0x27 => "maximumPacketSize",
            other => panic!("property {other:#x}"),
        };
        fields[key] = properties.u32().into();
    }
    fields["clientId"] = at.text().into();
    if flags & 4 != 0 {
        assert_eq!(at.length(), 0, "the will has no properties");
        let topic = at.text();
        let payload = at.text();
        fields["will"] = json!({
            "topic": topic, "payloadUtf8": payload, "qos": flags >> 3 & 3, "retain": flags & 32 != 0,
            "delaySeconds": 0, "properties": [],
        });
    }
    assert!(at.bytes.is_empty());
    fields
}

/// W-032, W-033. Where we differ from the recorded peers, and why: nothing may be kept for a peer that was away, and a
/// message larger than we take must not cut the link.
#[tokio::test]
async fn w032_w033_connect_is_as_recorded_but_for_the_session() {
    const DIFFERENT: [(&str, &[&str]); 4] = [
        ("caller", &["cleanStart", "maximumPacketSize", "sessionExpiryInterval"]),
        ("responder", &["cleanStart", "maximumPacketSize", "sessionExpiryInterval"]),
        ("replica a of group workers", &["maximumPacketSize"]),
        ("tap", &["cleanStart", "maximumPacketSize", "sessionExpiryInterval"]),
    ];
    let vectors = vectors("mqtt-link.json");
    let recorded = vectors["connect"].as_array().unwrap();
    assert_eq!(recorded.len(), DIFFERENT.len());
    for vector in recorded {
        let case = vector["name"].as_str().unwrap();
        let expected = &vector["fields"];
        let broker = Broker::new().await;
        let mut config = config(&broker, expected["clientId"].as_str().unwrap().strip_prefix("msgrpc-").unwrap());
        config.announce = !expected["will"].is_null();
        let link = start(config, LinkId(0));
        let ours = connect_fields(&broker.accept().await.packet().await);
        let different: BTreeSet<_> = ours
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, value)| **value != expected[key.as_str()])
            .map(|(key, _)| key.as_str())
            .collect();
        let (_, listed) = DIFFERENT.iter().find(|(name, _)| *name == case).expect(case);
        assert_eq!(different, listed.iter().copied().collect(), "{case}: {ours}");
        assert_eq!(ours["cleanStart"], true);
        assert_eq!(ours["sessionExpiryInterval"], 0);
        drop(link);
    }
}

/// W-031, W-034, W-042: the recorded packets and their order, each subscription acknowledged before the next. One
/// deviation: presence at QoS 0, which a broker does not bound.
#[tokio::test]
async fn w031_w034_w042_joining_is_as_recorded_step_by_step() {
    const NOT_OURS: [&str; 2] = ["replica", "tap"];
    let vectors = vectors("mqtt-link.json");
    for (sequence, recorded) in vectors["subscribeSequences"].as_object().unwrap() {
        if NOT_OURS.contains(&sequence.as_str()) {
            continue;
        }
        assert_eq!(sequence, "ordinary");
        let broker = Broker::new().await;
        let mut link = linked(&broker);
        let mut wire = broker.accept().await;
        wire.greet(CONNACK).await;
        let mut order = Vec::new();
        for vector in recorded.as_array().unwrap() {
            let subscribe = wire.packet().await;
            // Had the next one been sent without waiting, it would come before the answer to this.
            wire.fence("msgrpc/v2/evt/hmi").await;
            let mut expected = hex::decode(vector["packetHex"].as_str().unwrap()).unwrap();
            let filter = vector["filter"].as_str().unwrap();
            if filter == "msgrpc/v2/presence/+" {
                assert_eq!(expected.pop(), Some(1), "the deviation is not needed any more");
                expected.push(0);
            }
            assert_eq!(hex::encode(subscribe.bytes()), hex::encode(expected), "{filter}");
            order.push(format!("SUBSCRIBE {}", filter.replace("msgrpc/v2/", "").replace("hmi", "<me>")));
            let [high, low] = subscribe.number().to_be_bytes();
            wire.send(&[0x90, 4, high, low, 0, 1]).await;
        }
        let online = wire.packet().await.publish();
        assert_eq!(
            (&*online.topic, &*online.payload, online.qos, online.retain),
            ("msgrpc/v2/presence/hmi", &b"online"[..], 1, true)
        );
        assert!(online.properties.is_empty());
        order.push("PUBLISH retained presence/<me> = online (not for replicas or taps)".into());
        up(&mut link).await;
        // The four fences were held back until now.
        for _ in 0..4 {
            assert!(matches!(event(&mut link).await, LinkEvent::Refused(_)));
        }
        settled(&mut link).await;
        order.push("start the 250 ms presence-quiet timer".into());
        order.push("ready: replay held event subscriptions".into());
        assert_eq!(json!(order), vectors["orderAfterConnack"]);
    }
}

/// W-035, against the recorded order; and the socket is closed by the broker first, so that nothing is lost.
#[tokio::test]
async fn w035_leaving_says_so_clears_it_and_disconnects() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    link.outbound.send(Outbound::Leave).await.unwrap();
    let mut order = Vec::new();
    for payload in ["offline", ""] {
        let publish = wire.packet().await.publish();
        assert_eq!((&*publish.topic, publish.qos, publish.retain), ("msgrpc/v2/presence/hmi", 1, true));
        assert_eq!(publish.payload, payload.as_bytes());
        let said = if payload.is_empty() { "zero-length" } else { payload };
        order.push(format!("PUBLISH retained presence/<me> = {said}"));
        wire.acknowledge(publish.number).await;
    }
    let disconnect = wire.packet().await;
    assert_eq!((disconnect.kind(), disconnect.body.first().copied().unwrap_or(0)), (14, 0));
    order.push("DISCONNECT reason 0x00".into());
    assert_eq!(json!(order), vectors("mqtt-link.json")["gracefulClose"]);
    assert_eq!(wire.try_packet().await, None);
    drop(wire);
    assert!(matches!(event(&mut link).await, LinkEvent::Closed));
    ended(&mut link).await;
}

/// A broker that acknowledges nothing does not keep us.
#[tokio::test]
async fn leaving_is_bounded() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    let asked = std::time::Instant::now();
    link.outbound.send(Outbound::Leave).await.unwrap();
    assert!(matches!(event(&mut link).await, LinkEvent::Closed));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!(wire.packet().await.publish().payload, b"offline");
    assert_eq!(wire.packet().await.publish().payload, b"");
    assert_eq!(wire.packet().await.kind(), 14);
}

/// Dropping the sender leaves in order; dropping the receiver cuts, and the broker publishes the will.
#[tokio::test]
async fn dropping_either_half_ends_the_link() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    drop(link.outbound);
    assert_eq!(wire.packet().await.publish().payload, b"offline");

    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    drop(link.events);
    assert_eq!(wire.try_packet().await, None);
    drop(link.outbound);
}

// What arrives.

/// W-040, W-043: every recorded presence message has the recorded effect.
#[tokio::test]
async fn w040_w043_presence_is_read_as_recorded() {
    let vectors = vectors("presence.json");
    let broker = Broker::new().await;
    let mut link = start(config(&broker, vectors["mqtt"]["self"].as_str().unwrap()), LinkId(0));
    let mut wire = broker.join().await;
    up(&mut link).await;
    for vector in vectors["mqtt"]["sequence"].as_array().unwrap() {
        let topic = vector["topic"].as_str().unwrap();
        let mut message = plain(topic, vector["payloadUtf8"].as_str().unwrap().as_bytes());
        let shapes = match &vector["shapeUserProperty"] {
            Json::Array(shapes) => shapes.clone(),
            Json::Null => Vec::new(),
            one => vec![one.clone()],
        };
        message.user_properties = shapes.iter().map(|s| ("shape".into(), s.as_str().unwrap().into())).collect();
        wire.send(&publish(&message, None, true)).await;
        wire.send(&publish(&plain("msgrpc/v2/presence/sentinel", b"offline"), None, false)).await;
        let mut effects = Vec::new();
        loop {
            match event(&mut link).await {
                LinkEvent::Offline(peer) if peer.as_str() == "sentinel" => break,
                LinkEvent::Offline(peer) => effects.push(format!("gone {peer}")),
                LinkEvent::Online { peer, shape } => {
                    effects.extend(shape.map(|shape| format!("shape {peer} {shape}")));
                    effects.push(format!("online {peer}"));
                }
                LinkEvent::Settled => {}
                other => panic!("{other:?}"),
            }
        }
        let expected: Vec<_> = vector["effect"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
        let expected: Vec<_> = expected.iter().map(|e| e.split(" (").next().unwrap().to_owned()).collect();
        // The recorded effect names a shape only when it changed; the link passes on what was announced every time.
        let known = |effect: &&String| !effect.starts_with("shape ") || expected.contains(effect);
        let repeated = effects.iter().filter(|effect| !known(effect)).count();
        assert!(repeated <= 1 && effects.iter().filter(known).eq(expected.iter()), "{vector}: {effects:?}");
    }
}

/// W-041: what arrives while joining is told after `Up`, in order: presence is not lost to the roster that `Up` voids.
#[tokio::test]
async fn w041_what_arrives_while_joining_is_told_after_up() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    for _ in 0..3 {
        wire.answer_subscribe(1).await;
    }
    let subscribe = wire.packet().await;
    wire.send(&to_hmi("early", None)).await;
    for peer in 0..100 {
        wire.send(&publish(&plain(&format!("msgrpc/v2/presence/p{peer}"), b"online"), None, true)).await;
    }
    let [high, low] = subscribe.number().to_be_bytes();
    wire.send(&[0x90, 4, high, low, 0, 0]).await;
    up(&mut link).await;
    arrives(&mut link, "early").await;
    for expected in 0..100 {
        let LinkEvent::Online { peer, .. } = event(&mut link).await else { panic!("no presence") };
        assert_eq!(peer.as_str(), format!("p{expected}"));
    }
    settled(&mut link).await;
}

/// A sweep much larger than the event channel comes whole, and is settled only after its last message.
#[tokio::test]
async fn a_sweep_larger_than_every_queue_comes_whole() {
    const PEERS: usize = 2_000;
    let broker = Broker::new().await;
    let mut config = config(&broker, "hmi");
    config.queue = 4;
    let mut link = start(config, LinkId(0));
    let mut wire = broker.join().await;
    let sweep: Vec<u8> = (0..PEERS)
        .flat_map(|peer| publish(&plain(&format!("msgrpc/v2/presence/p{peer}"), b"online"), None, true))
        .collect();
    wire.send(&sweep).await;
    up(&mut link).await;
    for expected in 0..PEERS {
        let LinkEvent::Online { peer, .. } = event(&mut link).await else { panic!("no presence {expected}") };
        assert_eq!(peer.as_str(), format!("p{expected}"));
    }
    settled(&mut link).await;
}

/// W-042: a peer that never stops coming and going does not keep the first sweep from ending.
#[tokio::test]
async fn w042_the_first_sweep_is_bounded() {
    let broker = Broker::new().await;
    let mut config = config(&broker, "hmi");
    config.sweep = Duration::from_millis(700);
    let mut link = start(config, LinkId(0));
    let mut wire = broker.join().await;
    up(&mut link).await;
    let flapping = tokio::spawn(async move {
        let mut every = tokio::time::interval(Duration::from_millis(100));
        loop {
            every.tick().await;
            wire.send(&publish(&plain("msgrpc/v2/presence/p", b"online"), None, true)).await;
        }
    });
    let settled = async { while !matches!(event(&mut link).await, LinkEvent::Settled) {} };
    timeout(PATIENCE, settled).await.expect("the sweep never ends");
    flapping.abort();
}

/// W-059: what cannot be read is said and nothing is sent about it; the link lives.
#[tokio::test]
async fn w059_a_refused_message_is_said_and_not_answered() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    wire.fence("msgrpc/v2/req/hmi").await;
    loop {
        match event(&mut link).await {
            LinkEvent::Settled => {}
            LinkEvent::Refused(_) => break,
            other => panic!("{other:?}"),
        }
    }
    wire.send(&to_hmi("fine", Some(9))).await;
    assert_eq!(wire.packet().await.number(), 9);
}

/// Messages arriving at QoS 1 are acknowledged at once, before anybody has taken them.
#[tokio::test]
async fn an_arriving_message_is_acknowledged_at_once() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    for number in 1..=20 {
        wire.send(&to_hmi("call", Some(number))).await;
        let ack = wire.packet().await;
        assert_eq!((ack.kind(), ack.number()), (4, number));
    }
    up(&mut link).await;
}

// What leaves.

/// The first shape is announced on joining, a later one at once, and both survive a reconnect.
#[tokio::test]
async fn a_shape_is_announced_at_once_and_after_every_reconnect() {
    fn shape(text: &str) -> Vec<u8> {
        [b"\x26\x00\x05shape\x00\x04", text.as_bytes()].concat()
    }
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    link.outbound.send(Outbound::Announce { shape: Some("aaaa".into()) }).await.unwrap();
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    assert_eq!(wire.grant_all().await.properties, shape("aaaa"));
    up(&mut link).await;
    link.outbound.send(Outbound::Announce { shape: Some("bbbb".into()) }).await.unwrap();
    let again = wire.packet().await.publish();
    assert_eq!((again.properties, again.payload, again.retain), (shape("bbbb"), b"online".to_vec(), true));
    drop(wire);
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    assert_eq!(wire.grant_all().await.properties, shape("bbbb"));
}

/// W-043: a shape that peers would ignore is not announced; we are, all the same.
#[tokio::test]
async fn w043_an_overlong_shape_is_left_out() {
    let broker = Broker::new().await;
    let link = linked(&broker);
    link.outbound.send(Outbound::Announce { shape: Some("x".repeat(65)) }).await.unwrap();
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    assert!(wire.grant_all().await.properties.is_empty());
}

/// W-075, W-081: what was handed over and not acknowledged is not sent again after a reconnect, and neither is anything
/// asked for while the link was down.
#[tokio::test]
async fn w081_nothing_survives_a_reconnect() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    send(&link, 1, request("hmi", "oven", "too-early")).await;
    assert_eq!(rejected(&mut link, 1).await, Rejection::Down);
    let mut wire = broker.join().await;
    up(&mut link).await;
    for id in 2..40 {
        send(&link, id, request("hmi", "oven", "lost")).await;
    }
    calls(&wire.packet().await, "lost");
    drop(wire);
    loop {
        match event(&mut link).await {
            LinkEvent::Settled => {}
            LinkEvent::Down(reason) => break assert_eq!(reason.kind, DownKind::Lost),
            other => panic!("{other:?}"),
        }
    }
    send(&link, 50, request("hmi", "oven", "while-down")).await;
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    assert_eq!(rejected(&mut link, 50).await, Rejection::Down);
    wire.grant_all().await;
    up(&mut link).await;
    send(&link, 51, request("hmi", "oven", "fresh")).await;
    calls(&wire.packet().await, "fresh");
}

/// A message larger than the broker takes is refused before it is written; the link lives.
#[tokio::test]
async fn an_oversized_message_is_refused_and_the_link_lives() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.accept().await;
    wire.greet(&[0x20, 8, 0, 0, 5, 0x27, 0, 0, 4, 0]).await;
    wire.grant_all().await;
    up(&mut link).await;
    let mut large = request("hmi", "oven", "large");
    if let Message::Request(request) = &mut large.message {
        request.args = vec![Value::Bytes(vec![0; 2_000].into())];
    }
    send(&link, 1, large).await;
    match rejected(&mut link, 1).await {
        Rejection::TooLarge { bytes, limit: 1024 } => assert!(bytes > 2_000),
        other => panic!("{other:?}"),
    }
    send(&link, 2, request("hmi", "oven", "small")).await;
    calls(&wire.packet().await, "small");
}

/// The size that is checked is the size that is written: a packet exactly as large as the broker takes goes through.
#[tokio::test]
async fn a_message_of_exactly_the_limit_passes() {
    let frame = request("hmi", "oven", "exact");
    let size = mqtt::packet_size(&mqtt::encode(&frame, &topics("hmi")).unwrap());
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.accept().await;
    let limit = u32::try_from(size).unwrap().to_be_bytes();
    wire.greet(&[&[0x20, 8, 0, 0, 5, 0x27], &limit[..]].concat()).await;
    wire.grant_all().await;
    up(&mut link).await;
    send(&link, 1, frame).await;
    let packet = wire.packet().await;
    calls(&packet, "exact");
    assert_eq!(packet.bytes().len(), size);
}

/// W-082: what must not be sent is rejected, not published.
#[tokio::test]
async fn w082_an_unsendable_frame_is_rejected() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    send(&link, 1, request("hmi", "oven", "a\tb")).await;
    assert!(matches!(rejected(&mut link, 1).await, Rejection::Unsendable(_)));
    send(&link, 2, request("hmi", "oven", "good")).await;
    calls(&wire.packet().await, "good");
}

/// A broker that refuses a message says so in its acknowledgement; that frame certainly reached nobody.
#[tokio::test]
async fn a_message_the_broker_refuses_is_rejected() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    send(&link, 1, request("hmi", "oven", "one")).await;
    send(&link, 2, request("hmi", "oven", "two")).await;
    let one = calls(&wire.packet().await, "one");
    let two = calls(&wire.packet().await, "two");
    wire.answer_publish(two, 0x87).await;
    wire.answer_publish(one, 0x10).await;
    assert!(matches!(rejected(&mut link, 2).await, Rejection::Refused(_)));
    settled(&mut link).await;
}

/// The broker's receive maximum is heeded: the next frame leaves when one is acknowledged, and what still waits when the
/// link goes is rejected, because nothing of it was written.
#[tokio::test]
async fn what_the_broker_does_not_take_yet_waits_and_can_be_refused() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.accept().await;
    wire.greet(&[0x20, 6, 0, 0, 3, 0x21, 0, 1]).await;
    wire.grant_all().await;
    up(&mut link).await;
    for (id, method) in [(1, "one"), (2, "two"), (3, "three")] {
        send(&link, id, request("hmi", "oven", method)).await;
    }
    let one = calls(&wire.packet().await, "one");
    wire.fence("msgrpc/v2/presence/fence").await;
    wire.acknowledge(one).await;
    calls(&wire.packet().await, "two");
    drop(wire);
    loop {
        match event(&mut link).await {
            LinkEvent::Settled => {}
            LinkEvent::Rejected { id: 3, why } => break assert_eq!(why, Rejection::Down),
            other => panic!("{other:?}"),
        }
    }
}

/// A frame does not wait long for its turn: it would run after its call has failed (W-081).
#[tokio::test]
async fn w081_waiting_for_ones_turn_is_bounded() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.accept().await;
    wire.greet(&[0x20, 6, 0, 0, 3, 0x21, 0, 1]).await;
    wire.grant_all().await;
    up(&mut link).await;
    settled(&mut link).await;
    send(&link, 1, request("hmi", "oven", "one")).await;
    send(&link, 2, request("hmi", "oven", "two")).await;
    assert_eq!(rejected(&mut link, 2).await, Rejection::Full);
    let one = calls(&wire.packet().await, "one");
    wire.acknowledge(one).await;
    send(&link, 3, request("hmi", "oven", "three")).await;
    calls(&wire.packet().await, "three");
}

// What goes wrong.

/// A wrong password keeps the link trying; the cause is told once, and the end of it is an ordinary `Up`. The password
/// travels, and is never printed.
#[tokio::test]
async fn a_wrong_password_is_told_once_and_tried_again() {
    let broker = Broker::new().await;
    let mut config = config(&broker, "hmi");
    config.credentials =
        Some(Credentials { username: "operator".into(), password: Some(Secret::new("hunter2".into())) });
    assert!(!format!("{config:?}").contains("hunter2"));
    let mut link = start(config, LinkId(0));
    for _ in 0..3 {
        let connect = broker.accept().await.greet(&[0x20, 3, 0, 0x86, 0]).await;
        assert!(connect.body.ends_with(b"\x00\x08operator\x00\x07hunter2"));
    }
    let detail = down(&mut link, DownKind::Unauthorized).await;
    assert!(!detail.contains("hunter2"));
    // The codes of the older protocol mean the same, in other words: a change, told once.
    for code in [4, 5] {
        broker.accept().await.greet(&[0x20, 3, 0, code, 0]).await;
    }
    let _wire = broker.join().await;
    down(&mut link, DownKind::Unauthorized).await;
    up(&mut link).await;
}

/// Brokers that do not speak MQTT 5: one answers in the older form, one hangs up. Both are named for what they are.
#[tokio::test]
async fn an_older_broker_is_named_as_such() {
    for answer in
        [&[0x20, 2, 0, 1][..], &[0x20, 3, 0, 0x84, 0], &[], b"\x15\x03\x03\x00\x02\x02\x46", b"HTTP/1.1 400\r\n"]
    {
        let broker = Broker::new().await;
        let mut link = linked(&broker);
        broker.accept().await.greet(answer).await;
        let detail = down(&mut link, DownKind::Protocol).await;
        assert!(detail.contains("MQTT 5"), "{answer:?}: {detail}");
        // One that understood the question is told apart from what is no broker at all.
        assert_eq!(
            detail.contains("answers as one of MQTT 3.1.1"),
            answer.first() == Some(&0x20),
            "{answer:?}: {detail}"
        );
        // And it goes on trying, without a word more.
        for _ in 0..3 {
            broker.accept().await.greet(answer).await;
        }
        assert!(link.events.try_recv().is_err(), "{answer:?} is told again");
    }
}

/// A broker that names the displacement, and one that only closes: the second is told by its repetition.
#[tokio::test]
async fn displacement_is_told_whether_or_not_the_broker_names_it() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    wire.send(&[0xE0, 2, 0x8E, 0]).await;
    down(&mut link, DownKind::Displaced).await;

    let mut config = config(&broker, "hmi");
    config.backoff_max = Duration::from_secs(5);
    drop((wire, link));
    let broker = Broker::new().await;
    config.broker = BrokerUrl::parse(&broker.url()).unwrap();
    let mut link = start(config, LinkId(0));
    for kind in [DownKind::Lost, DownKind::Lost, DownKind::Displaced] {
        let wire = broker.join().await;
        up(&mut link).await;
        drop(wire);
        down(&mut link, kind).await;
    }
}

/// Nobody listening is told once, however often it is tried, and leaving works meanwhile.
#[tokio::test]
async fn an_absent_broker_is_told_once() {
    let broker = Broker::new().await;
    let config = config(&broker, "hmi");
    drop(broker);
    let mut link = start(config, LinkId(0));
    down(&mut link, DownKind::Unreachable).await;
    for id in 0..50 {
        send(&link, id, request("hmi", "oven", "x")).await;
        assert_eq!(rejected(&mut link, id).await, Rejection::Down);
    }
    link.outbound.send(Outbound::Leave).await.unwrap();
    assert!(matches!(event(&mut link).await, LinkEvent::Closed));
    ended(&mut link).await;
}

/// Plain MQTT where TLS was asked for.
#[tokio::test]
async fn a_broker_without_tls_is_told_as_such() {
    let broker = Broker::new().await;
    let mut config = config(&broker, "hmi");
    config.broker = BrokerUrl::parse(&format!("mqtts://127.0.0.1:{}", broker.port())).unwrap();
    let mut link = start(config, LinkId(0));
    let script = async {
        let mut wire: Wire = broker.accept().await;
        wire.send(CONNACK).await;
        wire
    };
    let (_wire, _detail) = tokio::join!(script, down(&mut link, DownKind::Tls));
}

/// W-042: our own topics refused is a link that is no use; presence refused is said and settles at once.
#[tokio::test]
async fn w042_a_refused_subscription_is_said() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    wire.answer_subscribe(1).await;
    wire.answer_subscribe(0x87).await;
    let detail = down(&mut link, DownKind::Unauthorized).await;
    assert!(detail.contains("msgrpc/v2/rsp/hmi"), "{detail}");

    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    for reason in [1, 1, 1, 0x87] {
        wire.answer_subscribe(reason).await;
    }
    up(&mut link).await;
    assert!(matches!(event(&mut link).await, LinkEvent::Refused(text) if text.contains("presence")));
    settled(&mut link).await;
}

/// A pure caller does not subscribe to requests.
#[tokio::test]
async fn a_pure_caller_takes_no_requests() {
    let broker = Broker::new().await;
    let mut config = config(&broker, "hmi");
    config.requests = false;
    let mut link = start(config, LinkId(0));
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    for filter in ["rsp/hmi", "evt/hmi", "presence/+"] {
        let subscribe = wire.answer_subscribe(1).await;
        assert!(String::from_utf8_lossy(&subscribe.body).contains(filter), "{filter}: {subscribe:?}");
    }
    up(&mut link).await;
}

/// A peer that is only called subscribes to its requests alone, and awaits no sweep.
#[tokio::test]
async fn a_peer_that_is_only_called_hears_nothing_else() {
    let broker = Broker::new().await;
    let mut config = config(&broker, "double");
    config.hears = Hears::Nothing;
    let mut link = start(config, LinkId(0));
    let mut wire = broker.accept().await;
    wire.greet(CONNACK).await;
    let subscribe = wire.answer_subscribe(1).await;
    assert!(String::from_utf8_lossy(&subscribe.body).contains("req/double"), "{subscribe:?}");
    up(&mut link).await;
    settled(&mut link).await;
    assert_eq!(wire.packet().await.publish().payload, b"online");
}

/// W-035: whoever left its name to somebody else says nothing under it, and the DISCONNECT keeps the will unsaid.
#[tokio::test]
async fn w035_a_name_is_left_in_silence_when_somebody_else_has_it() {
    let broker = Broker::new().await;
    let mut link = linked(&broker);
    let mut wire = broker.join().await;
    up(&mut link).await;
    link.outbound.send(Outbound::Yield).await.unwrap();
    let disconnect = wire.packet().await;
    assert_eq!((disconnect.kind(), disconnect.body.first().copied().unwrap_or(0)), (14, 0), "{disconnect:?}");
    assert_eq!(wire.try_packet().await, None);
    drop(wire);
    settled_or_closed(&mut link).await;
    ended(&mut link).await;
}

async fn settled_or_closed(link: &mut Link) {
    while !matches!(event(link).await, LinkEvent::Closed) {}
}

/// One that yields ends when it is displaced; it does not come back to displace whoever it was.
#[tokio::test]
async fn a_link_that_yields_does_not_take_its_name_back() {
    let broker = Broker::new().await;
    let mut config = config(&broker, "double");
    config.yields = true;
    let mut link = start(config, LinkId(0));
    let mut wire = broker.join().await;
    up(&mut link).await;
    // DISCONNECT, session taken over.
    wire.send(&[0xE0, 2, 0x8E, 0]).await;
    drop(wire);
    down(&mut link, DownKind::Displaced).await;
    settled_or_closed(&mut link).await;
    ended(&mut link).await;
}

/// No connection is attempted before the gate opens, at first and after a loss; what is asked meanwhile is refused.
#[tokio::test]
async fn a_link_connects_only_when_it_may() {
    let broker = Broker::new().await;
    let (open, gate) = tokio::sync::watch::channel(false);
    let mut config = config(&broker, "double");
    config.gate = Some(gate);
    let mut link = start(config, LinkId(0));
    send(&link, 1, request("double", "oven", "x")).await;
    assert_eq!(rejected(&mut link, 1).await, Rejection::Down);
    open.send_replace(true);
    let wire = broker.join().await;
    up(&mut link).await;
    open.send_replace(false);
    drop(wire);
    down(&mut link, DownKind::Lost).await;
    send(&link, 2, request("double", "oven", "x")).await;
    assert_eq!(rejected(&mut link, 2).await, Rejection::Down);
    open.send_replace(true);
    let _wire = broker.join().await;
    up(&mut link).await;
}

/// A look has a client id of its own, no will, and says nothing: what a process that died left is waited for, and only then
/// the name is joined under. What later connections look for is in `names.rs`.
#[tokio::test]
async fn a_chosen_name_is_looked_for_before_it_is_joined_under() {
    let broker = Broker::new().await;
    let mut config = config(&broker, "hmi");
    config.looks = true;
    let mut link = start(config, LinkId(0));
    let mut look = broker.accept().await;
    let connect = look.greet(CONNACK).await;
    let mut cursor = Cursor { bytes: &connect.body };
    cursor.take(7);
    assert_eq!(cursor.u8() & 0x04, 0, "a will");
    assert!(!connect.body.ends_with(b"msgrpc-hmi") && has(&connect.body, b"msgrpc-hmi-look-"), "{connect:?}");
    let subscribe = look.answer_subscribe(0).await;
    assert!(has(&subscribe.body, b"msgrpc/v2/presence/hmi"), "{subscribe:?}");
    let presence = |text: &[u8]| publish(&plain("msgrpc/v2/presence/hmi", text), None, true);
    look.send(&presence(b"online")).await;
    send(&link, 1, request("hmi", "oven", "x")).await;
    assert_eq!(rejected(&mut link, 1).await, Rejection::Down);
    look.send(&presence(b"offline")).await;
    assert_eq!(look.packet().await.kind(), 14, "nothing but a DISCONNECT");
    drop(look);
    let _wire = broker.join().await;
    up(&mut link).await;
}

/// A broker that lets an account in under one client id, or shows it no presence, is joined: nobody else goes by the name, or
/// nobody can know.
#[tokio::test]
async fn a_look_that_is_refused_is_no_reason_to_stay_away() {
    let broker = Broker::new().await;
    for refused_early in [true, false] {
        let mut config = config(&broker, "hmi");
        config.looks = true;
        let mut link = start(config, LinkId(0));
        let mut look = broker.accept().await;
        if refused_early {
            look.greet(&[0x20, 3, 0, 0x87, 0]).await;
        } else {
            look.greet(CONNACK).await;
            look.answer_subscribe(0x87).await;
            assert_eq!(look.packet().await.kind(), 14, "nothing but a DISCONNECT");
        }
        drop(look);
        let _wire = broker.join().await;
        up(&mut link).await;
    }
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
