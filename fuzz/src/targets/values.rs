//! Values: MessagePack, JSON, tagged JSON, and the texts of numbers and instants.

use bytes::Bytes;
use plantbridge::wire::{DecodeError, EncodeError, Value, instant, json, msgpack, tagged};
use serde_json::Value as Json;

use super::{hex_of, reason, same_again, vectors};

pub(super) fn run(data: &[u8]) {
    numbers(data);
    if let Ok(text) = std::str::from_utf8(data)
        && let Some(at) = instant::parse(text)
    {
        same_instant(at);
    }
    if let Some(value) = read(msgpack::decode(&Bytes::copy_from_slice(data))) {
        in_messagepack(&value);
        in_json(&value);
        is_told(value);
    }
    if let Some(value) = read(json::decode(data)) {
        in_messagepack(&value);
        in_json(&value);
    }
    if let Ok(told) = serde_json::from_slice::<Json>(data) {
        match tagged::from_json(told) {
            Ok(value) => {
                let told = is_told(value);
                let again = tagged::from_json(told.clone()).expect("what we tell is read");
                assert_eq!(tagged::to_json(again), told);
            }
            Err(fault) => {
                assert!(fault.pointer.is_empty() || fault.pointer.starts_with('/'), "{fault:?}");
                reason(&fault.problem);
            }
        }
    }
}

fn read(read: Result<Value, DecodeError>) -> Option<Value> {
    read.map_err(|why| reason(&why)).ok()
}

/// What is written is read as what it was: written again, it is the same. NaN, which does not equal itself, does so too.
fn in_messagepack(value: &Value) {
    match msgpack::encode(value) {
        Ok(written) => {
            let again = msgpack::decode(&Bytes::copy_from_slice(&written)).expect("what we write is read");
            assert_eq!(msgpack::encode(&again), Ok(written));
        }
        // It was read, so it is neither too deep nor too large.
        Err(why) => {
            assert!(matches!(why, EncodeError::Integer(_)), "{why:?}");
            reason(&why);
        }
    }
}

fn in_json(value: &Value) {
    match json::encode(value) {
        Ok(written) => {
            let again = json::decode(&written).expect("what we write is read");
            same_again(&written, json::encode(&again));
            let parsed: Json = serde_json::from_slice(&written).expect("what we write is JSON");
            assert_eq!(json::to_json(value), Ok(parsed));
        }
        Err(why) => {
            assert!(matches!(why, EncodeError::Integer(_) | EncodeError::NoJsonForm(_)), "{why:?}");
            assert_eq!(json::to_json(value), Err(why.clone()));
            reason(&why);
        }
    }
}

/// A value is told to clients in one way, whether it is borrowed or not.
fn is_told(value: Value) -> Json {
    let borrowed = serde_json::to_string(&tagged::Tagged(&value)).expect("every value is told");
    let told = tagged::to_json(value);
    assert_eq!(borrowed, told.to_string());
    told
}

#[expect(clippy::float_cmp, reason = "the very number is wanted; a zero has no sign there")]
fn numbers(data: &[u8]) {
    let Some(bits) = data.first_chunk() else { return };
    let number = f64::from_be_bytes(*bits);
    if number.is_finite() {
        let text = json::ecma_number(number);
        let read: f64 = text.parse().expect("a number");
        assert!(read == number, "{number:?} became {text}");
    }
    same_instant(i64::from_be_bytes(*bits) % (instant::FURTHEST + 1));
}

fn same_instant(at: i64) {
    let text = instant::format(at);
    assert_eq!(instant::parse(&text), Some(at), "{text}");
    assert_eq!(json::iso_date(at), Some(text));
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let codec = vectors(include_str!("../../../tests/vectors/codec.json"));
    let mut seeds = hex_of(&codec, &["msgpackHex", "hex"]);
    let texts = super::each(&codec, &|part| Some(part.get("jsonText")?.as_str()?.as_bytes().to_vec()));
    seeds.extend(texts);
    let tagged = [
        r#"{"$date":"2026-08-07T18:22:10.114Z"}"#,
        r#"{"$bytes":"AQL/"}"#,
        r#"[{"$number":"NaN"},{"$number":"-Infinity"}]"#,
        r#"{"$ext":{"type":5,"bytes":"AQI="}}"#,
        r#"{"$map":{"$date":1}}"#,
        "2026-08-07T18:22+02:00",
        "-000001-12-31T23:59:59.999999Z",
    ];
    seeds.extend(tagged.map(|text| text.as_bytes().to_vec()));
    // What is long says nothing that is not said in short.
    seeds.retain(|seed| seed.len() < 1_024);
    seeds
}
