//! The MQTT link on a signed network, against a broker that follows a script: what is sent is signed, and of what arrives
//! only that is taken which a listed peer signed, for us, just now, and once.

use std::time::{Duration, SystemTime};

use plantbridge::link::mqtt::{Config, Signing, start};
use plantbridge::link::{Link, LinkEvent, LinkId};
use plantbridge::wire::mqtt::{self, Publish};
use plantbridge::wire::signing::{KeyFile, Verifier};
use plantbridge::wire::{Correlation, Frame, Message, Reply, ReplyRoute, Value, frame::Answer};
use serde_json::{Value as Json, json};

use crate::link_mqtt::{config, name, request, send, topics};
use crate::links::{event, up};
use crate::scripted::{Broker, Cursor, Published, Wire, plain, publish};

/// How a peer's keys look in the file of its own, and in those of others.
#[derive(Clone, Copy)]
enum Kind {
    Hmac,
    Ed25519,
}

const KINDS: [Kind; 2] = [Kind::Hmac, Kind::Ed25519];

/// A seed and its public key, one pair a peer.
const PAIRS: [(&str, &str, &str); 2] = [
    ("hmi", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="),
    ("oven", "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=", "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="),
];

fn secret(peer: &str) -> String {
    format!("the long secret of {peer}")
}

/// The key file of `peer`, who believes the other one of the two.
fn keys(kind: Kind, peer: &str) -> KeyFile {
    let (_, seed, _) = PAIRS.iter().find(|(name, ..)| *name == peer).unwrap();
    let other = PAIRS.iter().find(|(name, ..)| *name != peer).unwrap();
    let file = match kind {
        Kind::Hmac => json!({"name": peer, "secret": secret(peer), "peers": {other.0: secret(other.0)}}),
        Kind::Ed25519 => json!({"ed25519": {"seed": seed}, "peers": {other.0: {"public": other.2}}}),
    };
    read(&file)
}

fn read(file: &Json) -> KeyFile {
    KeyFile::parse(&file.to_string()).unwrap()
}

/// `hmi` on a signed network.
fn signed(broker: &Broker, keys: KeyFile) -> Config {
    let mut config = config(broker, "hmi");
    config.signing = Some(Signing::from(keys));
    config
}

async fn joined(broker: &Broker, keys: KeyFile) -> (Link, Wire) {
    let mut link = start(signed(broker, keys), LinkId(0));
    let wire = broker.join().await;
    up(&mut link).await;
    (link, wire)
}

/// The next event that is not the end of the sweep.
async fn told(link: &mut Link) -> LinkEvent {
    loop {
        match event(link).await {
            LinkEvent::Settled => {}
            event => return event,
        }
    }
}

async fn believed(link: &mut Link) -> Frame {
    match told(link).await {
        LinkEvent::Verified(frame) => *frame,
        other => panic!("{other:?} instead of a verified frame"),
    }
}

/// Why a frame was dropped.
async fn dropped(link: &mut Link) -> String {
    match told(link).await {
        LinkEvent::Refused(why) => why,
        other => panic!("{other:?} instead of a refusal"),
    }
}

fn now() -> u64 {
    u64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

/// A nonce nobody used.
fn nonce() -> [u8; 16] {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    bytes
}

/// A request of `oven` to `to`, not signed.
fn unsigned_to(to: &str, method: &str) -> Publish {
    mqtt::encode(&request("oven", to, method), &topics("oven")).unwrap()
}

/// A request of `oven` to the link, signed with these keys, that long ago.
fn signed_by(keys: &KeyFile, method: &str, at: u64) -> Publish {
    let mut publish = unsigned_to("hmi", method);
    mqtt::sign(&mut publish, &keys.signer, at, nonce());
    publish
}

async fn deliver(wire: &mut Wire, message: &Publish) {
    wire.send(&publish(message, None, false)).await;
}

/// A PUBLISH of the link as whoever receives it has it.
fn received(sent: &Published) -> Publish {
    let mut at = Cursor { bytes: &sent.properties };
    let mut read = Publish { topic: sent.topic.clone(), payload: sent.payload.clone().into(), ..Publish::default() };
    while !at.bytes.is_empty() {
        match at.u8() {
            0x01 => read.payload_format = Some(at.u8()),
            0x02 => read.expiry = Some(at.u32()),
            0x03 => read.content_type = Some(at.text()),
            0x08 => read.response_topic = Some(at.text()),
            0x09 => {
                let length = usize::from(at.u16());
                read.correlation = Some(at.take(length).to_vec().into());
            }
            0x26 => {
                let pair = (at.text(), at.text());
                read.user_properties.push(pair);
            }
            other => panic!("property {other:#x}"),
        }
    }
    read
}

/// What leaves is signed, fresh, with a nonce of its own, and believed by whoever knows the key.
#[tokio::test]
async fn w091_what_leaves_is_signed() {
    for kind in KINDS {
        let broker = Broker::new().await;
        let (link, mut wire) = joined(&broker, keys(kind, "hmi")).await;
        let mut verifier = Verifier::new(keys(kind, "oven").peers.unwrap());
        let reply = Reply {
            correlation: Correlation::from("c-1"),
            route: ReplyRoute::default(),
            answer: Answer::Value(Some(Value::Int(7))),
        };
        let event = Message::Event { path: Some("p".into()), event: "e".into(), args: vec![], stamp: None };
        let frames = [
            request("hmi", "oven", "start"),
            Frame { message: Message::Reply(reply), ..request("hmi", "oven", "") },
            Frame { message: event, ..request("hmi", "oven", "") },
        ];
        for (id, frame) in frames.into_iter().enumerate() {
            send(&link, id as u64, frame).await;
            let sent = wire.packet().await.publish();
            wire.acknowledge(sent.number).await;
            let read = received(&sent);
            let names: Vec<&str> = read.user_properties.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names[names.len() - 3..], ["mr-nonce", "mr-ts", "mr-sig"]);
            mqtt::decode_signed(read, &topics("oven"), &mut verifier, now()).unwrap();
        }
    }
}

/// W-094, W-095: whatever is not as it was signed by a listed peer for us is dropped in silence, for its own reason; and
/// what is, is taken, before and after.
#[tokio::test]
async fn w094_w095_only_what_was_signed_for_us_just_now_is_taken() {
    for kind in KINDS {
        let broker = Broker::new().await;
        let (mut link, mut wire) = joined(&broker, keys(kind, "hmi")).await;
        let oven = keys(kind, "oven");
        let genuine = || signed_by(&oven, "start", now());
        let changed = |change: &dyn Fn(&mut Publish)| {
            let mut publish = genuine();
            change(&mut publish);
            publish
        };
        let to_another = {
            let mut publish = unsigned_to("mixer", "start");
            mqtt::sign(&mut publish, &oven.signer, now(), nonce());
            publish.topic = "msgrpc/v2/req/hmi".into();
            publish
        };
        let renamed = |publish: &mut Publish| publish.user_properties[1].1 = "mixer".into();
        let bare = |publish: &mut Publish| publish.user_properties.retain(|(name, _)| name != "mr-nonce");
        let shorter = |publish: &mut Publish| publish.payload = publish.payload.slice(..0);
        let redirected = |publish: &mut Publish| publish.response_topic = Some("msgrpc/v2/rsp/thief".into());
        let cut = |publish: &mut Publish| {
            let signature = &mut publish.user_properties.last_mut().unwrap().1;
            signature.truncate(20);
        };
        let cases: [(&str, Publish, &str); 11] = [
            ("not signed", unsigned_to("hmi", "start"), "not signed"),
            ("without a nonce", changed(&bare), "not signed"),
            ("signed a minute ago", signed_by(&oven, "start", now() - 62_000), "ago by its sender's clock"),
            ("signed in a minute", signed_by(&oven, "start", now() + 65_000), "in the future"),
            ("with a payload cut off", changed(&shorter), "signature is wrong"),
            ("with half a signature", changed(&cut), "signature is wrong"),
            ("signed by another", signed_by(&keys(kind, "hmi"), "start", now()), "signature is wrong"),
            ("for another", to_another, "signature is wrong"),
            ("answered elsewhere", changed(&redirected), "signature is wrong"),
            ("of an unlisted source", changed(&renamed), "no key is listed"),
            ("of another layout", changed(&|publish| publish.user_properties[0].1 = "2".into()), "layout version"),
        ];
        for (what, frame, why) in cases {
            deliver(&mut wire, &frame).await;
            let said = dropped(&mut link).await;
            assert!(said.contains(why), "{what}: {said}");
            assert!(!said.contains("long secret"), "{said}");
        }
        let once = genuine();
        deliver(&mut wire, &once).await;
        assert_eq!(believed(&mut link).await.source, name("oven"));
        deliver(&mut wire, &once).await;
        assert!(dropped(&mut link).await.contains("seen before"));
        // Nothing was sent about any of it, and the next one is taken.
        wire.send(&publish(&genuine(), Some(0x7777), false)).await;
        let answer = wire.packet().await;
        assert_eq!((answer.kind(), answer.number()), (4, 0x7777), "{answer:?}");
        believed(&mut link).await;
    }
}

/// W-090: what was seen before the connection was lost is a replay on the next one; and a forged frame that used a nonce
/// does not keep the genuine one out.
#[tokio::test]
async fn w090_a_replay_does_not_become_new_by_a_reconnect() {
    let broker = Broker::new().await;
    let (mut link, mut wire) = joined(&broker, keys(Kind::Hmac, "hmi")).await;
    let genuine = signed_by(&keys(Kind::Hmac, "oven"), "start", now());
    let mut forged = genuine.clone();
    forged.payload = b"\x91\x01".to_vec().into();
    deliver(&mut wire, &forged).await;
    assert!(dropped(&mut link).await.contains("signature is wrong"));
    deliver(&mut wire, &genuine).await;
    believed(&mut link).await;
    drop(wire);
    let mut wire = broker.join().await;
    while !matches!(told(&mut link).await, LinkEvent::Up) {}
    deliver(&mut wire, &genuine).await;
    assert!(dropped(&mut link).await.contains("seen before"));
}

/// A file without peers signs and believes everybody; without a file signatures are not looked at. Either way nobody is
/// verified.
#[tokio::test]
async fn without_listed_peers_everything_is_taken_and_nothing_is_verified() {
    let signs_only = read(&json!({"secret": secret("hmi")}));
    for keys_of in [Some(signs_only), None] {
        let broker = Broker::new().await;
        let mut config = config(&broker, "hmi");
        config.signing = keys_of.map(Signing::from);
        let mut link = start(config, LinkId(0));
        let mut wire = broker.join().await;
        up(&mut link).await;
        let mut wrong = signed_by(&keys(Kind::Hmac, "oven"), "start", 1);
        wrong.user_properties.last_mut().unwrap().1 = "nonsense".into();
        for frame in [unsigned_to("hmi", "start"), signed_by(&keys(Kind::Hmac, "oven"), "start", now()), wrong] {
            deliver(&mut wire, &frame).await;
            assert!(matches!(told(&mut link).await, LinkEvent::Frame(_)));
        }
    }
}

/// Presence is never signed, ours or that of others.
#[tokio::test]
async fn presence_is_not_signed() {
    let broker = Broker::new().await;
    let mut link = start(signed(&broker, keys(Kind::Ed25519, "hmi")), LinkId(0));
    let mut wire = broker.accept().await;
    wire.greet(crate::scripted::CONNACK).await;
    let online = wire.grant_all().await;
    assert_eq!((&*online.payload, &*online.properties), (&b"online"[..], &b""[..]));
    up(&mut link).await;
    deliver(&mut wire, &plain("msgrpc/v2/presence/oven", b"online")).await;
    assert!(matches!(told(&mut link).await, LinkEvent::Online { peer, .. } if peer == name("oven")));
}

/// The signature counts towards what the broker takes: a frame that is too large with it is refused, and nothing is lost.
#[tokio::test]
async fn w082_a_signature_is_part_of_the_size() {
    let broker = Broker::new().await;
    let frame = request("hmi", "oven", "start");
    let bytes = mqtt::packet_size(&mqtt::encode(&frame, &topics("hmi")).unwrap());
    let mut config = signed(&broker, keys(Kind::Hmac, "hmi"));
    config.max_packet = u32::try_from(bytes).unwrap() + 10;
    config.backoff_min = Duration::from_millis(1);
    let mut link = start(config, LinkId(0));
    let _wire = broker.join().await;
    up(&mut link).await;
    send(&link, 1, frame).await;
    assert!(matches!(told(&mut link).await, LinkEvent::Rejected { id: 1, .. }));
}
