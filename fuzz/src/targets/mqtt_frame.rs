//! Publishes of a broker: frames, what an onlooker makes of them, presence.

use bytes::Bytes;
use plantbridge::wire::mqtt::{self, Presence, Publish, Said};
use plantbridge::wire::{Message, PeerName, Prefix, Topics};
use serde_json::Value as Json;

use super::pieces::{Pieces, short};
use super::{each, hex, reason, same_again, vectors};

pub(super) fn run(data: &[u8]) {
    let publish = publish(&mut Pieces(data));
    let topics = topics("me");
    assert!(mqtt::packet_size(&publish) > publish.payload.len() + publish.topic.len());
    presence(&publish, &topics);
    let overheard = mqtt::overhear(publish.clone(), &topics, usize::MAX);
    match mqtt::decode(publish.clone(), &topics) {
        Err(why) => reason(&why),
        Ok(frame) => {
            // An onlooker reads what its addressee reads.
            let Said::Message { source, message, read: true, .. } = overheard.said else {
                panic!("not overheard: {:?}", overheard.said);
            };
            assert_eq!(source, frame.source);
            assert_eq!(format!("{message:?}"), format!("{:?}", frame.message));
            let claimed = mqtt::claimed(&publish).expect("it names its source");
            assert_eq!(claimed.source, frame.source.as_str());
            match mqtt::encode(&frame, &topics) {
                Err(why) => reason(&why),
                Ok(written) => {
                    let again = mqtt::decode(written.clone(), &topics).expect("what we write is read");
                    assert_eq!((&again.source, &again.target), (&frame.source, &frame.target));
                    same_command(&frame.message, &again.message);
                    same_again(&written, mqtt::encode(&again, &topics));
                }
            }
        }
    }
}

/// What must not change on the way, whatever becomes of the form of its values.
pub(super) fn same_command(before: &Message, after: &Message) {
    match (before, after) {
        (Message::Request(before), Message::Request(after)) => {
            assert_eq!(before.correlation, after.correlation);
            assert_eq!((&before.path, &before.method), (&after.path, &after.method));
            assert_eq!((&before.idempotency_key, &before.fence), (&after.idempotency_key, &after.fence));
            assert_eq!(before.args.len(), after.args.len());
        }
        (Message::Reply(before), Message::Reply(after)) => {
            assert_eq!(before.correlation, after.correlation);
            assert_eq!(std::mem::discriminant(&before.answer), std::mem::discriminant(&after.answer));
        }
        (
            Message::Event { path, event, args, stamp },
            Message::Event { path: path_after, event: event_after, args: args_after, stamp: stamp_after },
        ) => {
            assert_eq!((path, event, stamp), (path_after, event_after, stamp_after));
            assert_eq!(args.len(), args_after.len());
        }
        _ => panic!("{before:?} became {after:?}"),
    }
}

fn presence(publish: &Publish, topics: &Topics) {
    let said = mqtt::presence(&publish.topic, &publish.payload, &publish.user_properties, topics);
    let (peer, shape) = match &said {
        None => return,
        Some(Presence::Online { peer, shape }) => (peer, Some(shape.as_deref())),
        Some(Presence::Offline(peer)) => (peer, None),
    };
    assert_ne!(peer, topics.me(), "our own echo");
    let Ok(theirs) = Topics::new(&Prefix::default(), peer.clone()) else { return };
    let again = match shape {
        None => mqtt::offline(&theirs),
        Some(shape) => match mqtt::online(shape, &theirs) {
            Ok(again) => again,
            Err(why) => return reason(&why),
        },
    };
    assert_eq!(mqtt::presence(&again.topic, &again.payload, &again.user_properties, topics), said);
}

/// The topics of a peer under the usual prefix.
pub(super) fn topics(me: &str) -> Topics {
    let me = PeerName::configured(me).expect("a name");
    Topics::new(&Prefix::default(), me).expect("topics")
}

/// A publish out of the input.
pub(super) fn publish(pieces: &mut Pieces<'_>) -> Publish {
    let there = pieces.byte();
    let has = |bit: u8| there & (1 << bit) != 0;
    let topic = match pieces.byte() {
        0 => pieces.text(),
        known => {
            let channels = ["req/", "rsp/", "evt/", "presence/"];
            let channel = channels.get(usize::from(known) % channels.len()).copied().unwrap_or_default();
            format!("msgrpc/v2/{channel}{}", pieces.text())
        }
    };
    let content_type = has(0).then(|| match pieces.byte() {
        0 => pieces.text(),
        known if known % 2 == 0 => "application/json".to_owned(),
        _ => "application/msgpack".to_owned(),
    });
    let correlation = has(1).then(|| Bytes::copy_from_slice(pieces.short()));
    let response_topic = has(2).then(|| pieces.text());
    let expiry = has(3).then(|| u32::from(pieces.byte()));
    let mut user_properties = Vec::new();
    for _ in 0..pieces.byte() % 24 {
        let name = match pieces.byte() {
            0 => pieces.text(),
            known => PROPERTIES.get(usize::from(known) % PROPERTIES.len()).copied().unwrap_or_default().to_owned(),
        };
        user_properties.push((name, pieces.text()));
    }
    let payload = Bytes::copy_from_slice(pieces.0);
    let payload_format = has(4).then_some(1);
    Publish { topic, payload, payload_format, content_type, correlation, response_topic, expiry, user_properties }
}

/// The input that a recorded packet stands in.
fn written(packet: &Json) -> Option<Vec<u8>> {
    let payload = hex(packet.get("payloadHex")?.as_str()?)?;
    let properties = packet.get("properties")?;
    let text = |name: &str| properties.get(name).and_then(Json::as_str);
    let correlation = text("correlationDataHex").and_then(hex);
    let expiry = properties.get("messageExpiryInterval").and_then(Json::as_u64);
    let there =
        [text("contentType").is_some(), correlation.is_some(), text("responseTopic").is_some(), expiry.is_some()];
    let mut out = vec![there.iter().rev().fold(0, |bits, there| bits << 1 | u8::from(*there)), 0];
    short(&mut out, packet.get("topic")?.as_str()?.as_bytes());
    if let Some(content_type) = text("contentType") {
        out.push(0);
        short(&mut out, content_type.as_bytes());
    }
    if let Some(correlation) = &correlation {
        short(&mut out, correlation);
    }
    if let Some(topic) = text("responseTopic") {
        short(&mut out, topic.as_bytes());
    }
    out.extend(expiry.map(|expiry| u8::try_from(expiry).unwrap_or(u8::MAX)));
    let user = packet.get("userProperties")?.as_array()?;
    out.push(u8::try_from(user.len()).ok()?);
    for pair in user {
        let (name, value) = (pair.get(0)?.as_str()?, pair.get(1)?.as_str()?);
        match PROPERTIES.iter().position(|known| *known == name) {
            Some(at) => out.push(u8::try_from(at + PROPERTIES.len()).ok()?),
            None => {
                out.push(0);
                short(&mut out, name.as_bytes());
            }
        }
        short(&mut out, value.as_bytes());
    }
    out.extend(payload);
    Some(out)
}

/// What the fuzzer need not find out letter by letter.
const PROPERTIES: [&str; 19] = [
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
    "shape",
];

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../../tests/vectors/mqtt-frames.json"),
        include_str!("../../../tests/vectors/mqtt-hostile.json"),
        include_str!("../../../tests/vectors/signing.json"),
    ];
    let mut seeds: Vec<Vec<u8>> = files.iter().flat_map(|file| each(&vectors(file), &written)).collect();
    for (name, payload) in [("pump", "online"), ("pump", "offline"), ("me", "online"), ("a/b", "online")] {
        let mut out = vec![0, 3];
        short(&mut out, name.as_bytes());
        out.extend([1, 18 + 19]);
        short(&mut out, b"0123456789abcdef");
        out.extend_from_slice(payload.as_bytes());
        seeds.push(out);
    }
    seeds
}
