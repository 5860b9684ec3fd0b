//! Frames of a hub, in MessagePack and JSON; what a hub says of presence, and what it mirrors.

use bytes::Bytes;
use plantbridge::wire::flat::{self, MAX_BATCH, Presence};
use plantbridge::wire::{Frame, PeerName, Value, bus, json, msgpack};

use super::{each, hex_of, mqtt_frame::same_command, reason, same_again, vectors};

pub(super) fn run(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Some(header) = flat::legacy(data) {
        is_name(&header.source);
        is_name(&header.target);
        assert!(flat::decode(&bytes).is_err(), "two layouts at once");
    }
    match flat::decode(&bytes) {
        Err(why) => reason(&why),
        Ok(arrived) => {
            is_name(&arrived.source);
            is_name(&arrived.target);
            assert!(arrived.batch && !arrived.messages.is_empty() || arrived.messages.len() == 1);
            for message in arrived.messages {
                let refusal = flat::overfull(&arrived.target, &arrived.source, &message, MAX_BATCH + 1);
                let frame = Frame { source: arrived.source.clone(), target: arrived.target.clone(), message };
                again(&frame);
                // Whatever is refused can be told so.
                if let Some(refusal) = refusal {
                    flat::encode(&refusal).expect("a refusal can be written");
                }
            }
        }
    }
    for value in [msgpack::decode(&bytes), json::decode(data)].into_iter().flatten() {
        presence(value.clone());
        if let Err(why) = bus::mirrored(value, "t") {
            reason(&why);
        }
    }
}

fn is_name(name: &PeerName) {
    assert_eq!(PeerName::hub(name.as_str()).as_ref(), Ok(name));
}

fn again(frame: &Frame) {
    let written = match flat::encode(frame) {
        Ok(written) => Bytes::from(written),
        Err(why) => return reason(&why),
    };
    let arrived = flat::decode(&written).expect("what we write is read");
    assert_eq!((&arrived.source, &arrived.target), (&frame.source, &frame.target));
    let [message] = arrived.messages.as_slice() else { panic!("one became {}", arrived.messages.len()) };
    same_command(&frame.message, message);
    let after = Frame { message: message.clone(), ..frame.clone() };
    same_again(&written, flat::encode(&after).map(Bytes::from));
}

fn presence(value: Value) {
    match flat::presence(value) {
        Err(why) => reason(&why),
        Ok(Presence::Everybody { hub, peers }) => {
            hub.iter().chain(peers.iter().map(|known| &known.peer)).for_each(is_name);
        }
        Ok(Presence::Online(known)) => is_name(&known.peer),
        Ok(Presence::Offline(peer)) => is_name(&peer),
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let frames = vectors(include_str!("../../../tests/vectors/flat-frames.json"));
    let mut seeds = hex_of(&frames, &["msgpackHex"]);
    seeds.extend(each(&frames, &|part| Some(part.get("jsonText")?.as_str()?.as_bytes().to_vec())));
    seeds.extend(each(&frames, &|part| part.get("frame").map(|frame| frame.to_string().into_bytes())));
    seeds.extend(hex_of(&vectors(include_str!("../../../tests/vectors/legacy.json")), &["frameHex"]));
    let presence = vectors(include_str!("../../../tests/vectors/hub-session.json"));
    seeds.extend(each(&presence, &|part| {
        let said = part.get("text")?.as_str()?.strip_prefix("42[\"presence\",")?.strip_suffix(']')?;
        Some(said.as_bytes().to_vec())
    }));
    for said in [
        r#"{"taps":["t"],"kind":"POST","source":"a","target":"b","namespace":"n","method":"m","id":"1","params":[1]}"#,
        r#"{"taps":["t"],"kind":"ERROR","source":"a","target":"b","ms":1.5,"code":"Busy","error":"later"}"#,
        r#"{"peers":["hub","a"],"shapes":{"a":"0123456789abcdef"}}"#,
        r#"{"peer":"a","state":"offline"}"#,
    ] {
        seeds.push(said.as_bytes().to_vec());
    }
    seeds.retain(|seed| seed.len() < 2_048);
    seeds
}
