//! Reads the recorded wire facts under `tests/vectors`, for the tests of this layer and of those above it.
//!
//! [`list`] gives one array of a file. [`publish`] turns a recorded packet into a [`Publish`], [`hostile`] reads the
//! publishes that were sent into a responder together with what it did about them: what this layer decides is tested
//! here, what a responder does with a decoded request is tested where responders live. [`coded`] gives the recorded
//! values, [`any_value`] arbitrary ones, and the `through_…` functions what becomes of a value on its way.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value as Json;

use super::json::{ecma_number, iso_date};
use super::mqtt::Publish;
use super::value::MAX_SAFE_INTEGER;
use super::{Map, Value};

/// One publish into a responder named `plantServer` with the prefix `msgrpc/v2`, and what came of it.
pub(crate) struct Hostile {
    /// The name of the vector.
    pub(crate) name: String,
    /// What was published.
    pub(crate) request: Publish,
    /// How often the method ran.
    pub(crate) invocations: u64,
    /// What was answered, in order.
    pub(crate) replies: Vec<Json>,
    /// What was reported locally and sent to nobody.
    pub(crate) reported: Vec<String>,
}

/// One file of vectors.
pub(crate) fn file(name: &str) -> Json {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// The array `key` of one file; never empty, so that a loop over it cannot pass by doing nothing.
pub(crate) fn list(name: &str, key: &str) -> Vec<Json> {
    let items = file(name)[key].as_array().unwrap_or_else(|| panic!("{name} has no list {key}")).clone();
    assert!(!items.is_empty(), "{name} {key}");
    items
}

/// Every vector of `mqtt-hostile.json`.
pub(crate) fn hostile() -> Vec<Hostile> {
    let read = |vector: Json| Hostile {
        name: text(&vector["name"]),
        request: publish(&vector["request"]),
        invocations: vector["outcome"]["methodInvocations"].as_u64().unwrap(),
        replies: vector["outcome"]["replies"].as_array().unwrap().clone(),
        reported: vector["outcome"]["reportedLocally"].as_array().unwrap().iter().map(text).collect(),
    };
    list("mqtt-hostile.json", "vectors").into_iter().map(read).collect()
}

/// A recorded packet: topic, properties, user properties, payload.
pub(crate) fn publish(packet: &Json) -> Publish {
    let properties = &packet["properties"];
    let number = |key: &str| properties[key].as_u64().map(|n| u32::try_from(n).unwrap());
    let pair = |pair: &Json| (text(&pair[0]), text(&pair[1]));
    Publish {
        topic: text(&packet["topic"]),
        payload: hex(packet["payloadHex"].as_str().unwrap()),
        payload_format: number("payloadFormatIndicator").map(|n| u8::try_from(n).unwrap()),
        content_type: properties["contentType"].as_str().map(str::to_owned),
        correlation: properties["correlationDataHex"].as_str().map(hex),
        response_topic: properties["responseTopic"].as_str().map(str::to_owned),
        expiry: number("messageExpiryInterval"),
        user_properties: packet["userProperties"].as_array().unwrap().iter().map(pair).collect(),
    }
}

/// The bytes that hexadecimal text stands for.
pub(crate) fn hex(text: &str) -> Bytes {
    assert!(text.len().is_multiple_of(2), "{text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn text(value: &Json) -> String {
    value.as_str().unwrap().to_owned()
}

/// One recorded value with its encodings.
pub(crate) struct Coded {
    /// The name of the vector; two may share one.
    pub(crate) name: String,
    /// What is encoded.
    pub(crate) value: Value,
    /// The whole vector.
    pub(crate) vector: Json,
}

/// Recorded subjects that exist in the reference's language only.
pub(crate) const NOT_VALUES: [&str; 6] = ["bigint", "arraybuffer", "js-map", "js-set", "date-invalid", "function"];

/// The values of `codec.json`; all of them but [`NOT_VALUES`], each of which must be there too.
pub(crate) fn coded() -> Vec<Coded> {
    let (absent, present): (Vec<_>, Vec<_>) = list("codec.json", "encode")
        .into_iter()
        .map(|vector| (text(&vector["name"]), vector))
        .partition(|(name, _)| NOT_VALUES.contains(&name.as_str()));
    assert_eq!(absent.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), NOT_VALUES);
    present.into_iter().map(|(name, vector)| Coded { value: subject(&name, &vector), name, vector }).collect()
}

fn subject(name: &str, vector: &Json) -> Value {
    let float = |text: &str| Value::Float(text.parse().unwrap());
    let bytes = |text: &str| Value::Bytes(hex(text));
    let map = |pairs: &[(&str, Value)]| Value::Map(pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect());
    let ints = |range: std::ops::Range<i64>| Value::Array(range.map(Value::Int).collect());
    let described = vector["value"].as_str().unwrap();
    match name {
        "nil" | "undefined-top-level" => Value::Null,
        "true" | "false" => Value::Bool(name == "true"),
        "negative-zero" => Value::Float(-0.0),
        "float-3.0 (integral value)" => Value::Float(3.0),
        _ if name.starts_with("int-") => match described.parse().unwrap() {
            number if (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(&number) => Value::Int(number),
            _ => float(described),
        },
        _ if name.starts_with("float-") => float(described),
        "empty-string" => "".into(),
        "ascii" => "flow=42".into(),
        "str-31" | "str-32" | "str-255" | "str-256" | "str-65536" => "a".repeat(name[4..].parse().unwrap()).into(),
        "unicode" => "é 制御 🎛 \u{2028}".into(),
        "bytes-empty" => bytes(""),
        "bytes-3" | "buffer-3" => bytes("0102ff"),
        "bytes-256" => Value::Bytes(vec![0; 256].into()),
        "float64array" => bytes("000000000000f83f"),
        "array-empty" => ints(0..0),
        "array-args" => ints(1200..1201),
        "array-mixed" => Value::Array(vec![Value::Int(1), "a".into(), Value::Null, true.into(), 1.5.into()]),
        "array-undefined" => Value::Array(vec![Value::Null, Value::Int(1)]),
        "array-16" => ints(0..16),
        "map-empty" => map(&[]),
        "map-order" => map(&[("b", 1.into()), ("a", 2.into())]),
        "map-undefined" => map(&[("b", Value::Null)]),
        "map-intkeys" => map(&[("1", "y".into()), ("2", "x".into())]),
        "map-16" => Value::Map((0..16).map(|n| (format!("k{n}"), Value::Int(n))).collect()),
        "date-32" => Value::Date(1_785_187_832_000),
        "date-64" => Value::Date(1_785_187_832_623),
        "date-epoch" => Value::Date(0),
        "date-negative" => Value::Date(-1),
        "date-far" => Value::Date((1 << 34) * 1000),
        "date-2106" => Value::Date((1 << 32) * 1000),
        "error-body" => {
            map(&[("name", "RpcError".into()), ("message", "not permitted to call plant.writeSetpoint".into())])
        }
        "nested" => {
            let row = [("id", 1.into()), ("at", Value::Date(1_785_187_832_623)), ("raw", bytes("0001"))];
            map(&[("rows", Value::Array(vec![map(&row)])), ("total", 1.into())])
        }
        "ext-unknown" => Value::Ext(5, hex("01020304")),
        _ => panic!("{name} is new"),
    }
}

/// So many lists round a nil.
pub(crate) fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |value, _| Value::Array(vec![value]))
}

/// What is to carry an arbitrary value.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Carrier {
    MessagePack,
    Json,
}

/// Any value that the carrier can carry. NaN is left out, for it does not equal itself.
pub(crate) fn any_value(carrier: Carrier) -> impl Strategy<Value = Value> {
    let float = any::<f64>().prop_filter("equal to itself", |number| !number.is_nan());
    let integral = (-60_i32..60).prop_map(|power| 2_f64.powi(power));
    let common = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).prop_map(Value::Int),
        (-300_i64..300).prop_map(Value::Int),
        float.prop_map(Value::Float),
        integral.prop_map(Value::Float),
        any::<String>().prop_map(Value::Text),
        any::<i64>().prop_map(|at| Value::Date(at / 1000)),
        (0..2_000_000_000_i64).prop_map(|second| Value::Date(second * 1000)),
    ];
    let blob = || prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    let leaf = match carrier {
        Carrier::Json => common.boxed(),
        Carrier::MessagePack => prop_oneof![
            8 => common,
            1 => blob().prop_map(Value::Bytes),
            1 => (0..=127_i8, blob()).prop_map(|(kind, bytes)| Value::Ext(kind, bytes)),
        ]
        .boxed(),
    };
    leaf.prop_recursive(5, 60, 20, |inner| {
        let key = any::<String>().prop_filter("readable", |key| key != "__proto__");
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
            prop::collection::vec((key, inner), 0..20).prop_map(|entries| Value::Map(entries.into_iter().collect())),
        ]
    })
}

/// What a value is after MessagePack: integral doubles have become integers.
#[expect(clippy::cast_possible_truncation, reason = "exact within ±(2^53−1)")]
pub(crate) fn through_msgpack(value: Value) -> Value {
    match value {
        Value::Float(number) if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0 => {
            Value::Int(number as i64)
        }
        other => within(other, through_msgpack),
    }
}

/// What a value is after JSON: what looks like an integer is one, dates are text, what is no number is nothing.
pub(crate) fn through_json(value: Value) -> Value {
    match value {
        Value::Float(number) if !number.is_finite() => Value::Null,
        Value::Float(number) => ecma_number(number).parse().map_or(Value::Float(number), Value::Int),
        Value::Date(at) => iso_date(at).map_or(Value::Null, Value::Text),
        other => within(other, through_json),
    }
}

fn within(value: Value, change: fn(Value) -> Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(change).collect()),
        Value::Map(map) => Value::Map(map.into_iter().map(|(key, value)| (key, change(value))).collect::<Map>()),
        scalar => scalar,
    }
}
