//! Values of the plant as JSON, both ways (results.md 1).
//!
//! Dates, byte strings and the numbers JSON lacks travel tagged: `{"$date": "2026-08-07T18:22:10.114Z"}`,
//! `{"$bytes": "base64"}`, `{"$number": "NaN" | "Infinity" | "-Infinity"}`. An extension this build does not interpret is
//! `{"$ext": {"type": 5, "bytes": "base64"}}`, so that nothing is lost. A map whose only key is one of these, or `$map`,
//! travels as `{"$map": {…}}`. Integers beyond ±(2^53−1) are refused on the way in: no peer could tell them from their
//! neighbours.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map as JsonMap, Number, Value as Json};

use super::instant;
use crate::wire::{Map, Value};

/// Why a JSON value is no value of the plant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at {pointer:?}")]
pub struct TagError {
    /// Where, as a JSON Pointer into the value given.
    pub pointer: String,
    /// What is wrong there.
    pub problem: String,
}

/// The value that `json` stands for. Text is moved, not copied.
///
/// # Errors
///
/// A tag that holds something else than it names, an integer no peer can hold, or nesting beyond [`MAX_DEPTH`].
pub fn from_json(json: Json) -> Result<Value, TagError> {
    decode(json, 0).map_err(|trail| TagError {
        pointer: trail.path.iter().rev().fold(String::new(), |pointer, step| pointer + "/" + &escape_step(step)),
        problem: trail.problem,
    })
}

/// The JSON that stands for `value`. Text is moved, not copied.
pub fn to_json(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(bit) => Json::Bool(bit),
        Value::Int(number) => Json::Number(number.into()),
        Value::Float(number) => match integral(number) {
            Some(integer) => Json::Number(integer.into()),
            None => Number::from_f64(number).map_or_else(|| tag("$number", odd_number(number)), Json::Number),
        },
        Value::Text(text) => Json::String(text),
        Value::Bytes(bytes) => tag("$bytes", STANDARD.encode(bytes)),
        Value::Date(millis) => tag("$date", instant::format(millis)),
        Value::Ext(kind, bytes) => tag("$ext", serde_json::json!({"type": kind, "bytes": STANDARD.encode(bytes)})),
        Value::Array(items) => Json::Array(items.into_iter().map(to_json).collect()),
        Value::Map(map) => {
            let escaped = needs_escape(&map);
            let members: JsonMap<String, Json> = map.into_iter().map(|(key, value)| (key, to_json(value))).collect();
            if escaped { tag("$map", members) } else { Json::Object(members) }
        }
    }
}

/// A borrowed value that serializes as [`to_json`] would, without copying it first.
#[derive(Clone, Copy, Debug)]
pub struct Tagged<'a>(pub &'a Value);

impl Serialize for Tagged<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(bit) => serializer.serialize_bool(*bit),
            Value::Int(number) => serializer.serialize_i64(*number),
            Value::Float(number) if number.is_finite() => match integral(*number) {
                Some(integer) => serializer.serialize_i64(integer),
                None => serializer.serialize_f64(*number),
            },
            Value::Float(number) => one(serializer, "$number", odd_number(*number)),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) => one(serializer, "$bytes", &STANDARD.encode(bytes)),
            Value::Date(millis) => one(serializer, "$date", &instant::format(*millis)),
            Value::Ext(kind, bytes) => {
                one(serializer, "$ext", &serde_json::json!({"type": kind, "bytes": STANDARD.encode(bytes)}))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Tagged)),
            Value::Map(map) if needs_escape(map) => one(serializer, "$map", &Members(map)),
            Value::Map(map) => Members(map).serialize(serializer),
        }
    }
}

/// How deeply values may nest; arguments are refused at 64 before they come here.
pub const MAX_DEPTH: usize = 100;

/// The extension type that is a date on the wire.
const DATE: i8 = -1;
const TAGS: [&str; 5] = ["$date", "$bytes", "$number", "$map", "$ext"];
const MAX_SAFE: u64 = (1 << 53) - 1;

struct Members<'a>(&'a Map);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, Tagged(value))))
    }
}

fn one<S: Serializer, T: Serialize + ?Sized>(serializer: S, key: &str, value: &T) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(key, value)?;
    map.end()
}

fn tag(key: &str, value: impl Into<Json>) -> Json {
    let mut members = JsonMap::with_capacity(1);
    members.insert(key.to_owned(), value.into());
    Json::Object(members)
}

fn needs_escape(map: &Map) -> bool {
    map.len() == 1 && map.iter().any(|(key, _)| TAGS.contains(&key))
}

/// A double without a fraction as the integer it is to every peer (wire.md 3.1).
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "within ±(2^53−1) both are exact")]
fn integral(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= MAX_SAFE as f64).then_some(number as i64)
}

fn odd_number(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// A problem and the way back to it, innermost step first.
struct Trail {
    path: Vec<String>,
    problem: String,
}

fn problem<T>(problem: impl Into<String>) -> Result<T, Trail> {
    Err(Trail { path: Vec::new(), problem: problem.into() })
}

fn decode(json: Json, depth: usize) -> Result<Value, Trail> {
    if depth > MAX_DEPTH {
        return problem(format!("nested over {MAX_DEPTH} levels"));
    }
    match json {
        Json::Null => Ok(Value::Null),
        Json::Bool(bit) => Ok(Value::Bool(bit)),
        Json::Number(number) => decode_number(&number),
        Json::String(text) => Ok(Value::Text(text)),
        Json::Array(items) => {
            let decoded = items.into_iter().enumerate().map(|(at, item)| within(at, decode(item, depth + 1)));
            decoded.collect::<Result<_, _>>().map(Value::Array)
        }
        Json::Object(members) => decode_object(members, depth),
    }
}

fn decode_number(number: &Number) -> Result<Value, Trail> {
    if let Some(integer) = number.as_i64() {
        return if integer.unsigned_abs() <= MAX_SAFE { Ok(Value::Int(integer)) } else { too_large(number) };
    }
    if number.is_u64() {
        return too_large(number);
    }
    number.as_f64().map_or_else(|| problem("no number"), |float| Ok(Value::Float(float)))
}

fn too_large(number: &Number) -> Result<Value, Trail> {
    problem(format!("{number} is beyond {MAX_SAFE} (2^53-1), the greatest integer that keeps its digits"))
}

fn decode_object(mut members: JsonMap<String, Json>, depth: usize) -> Result<Value, Trail> {
    let found = if members.len() == 1 { TAGS.iter().find(|tag| members.contains_key(**tag)) } else { None };
    let Some(tag) = found else { return decode_members(members, depth).map(Value::Map) };
    let inner = members.remove(*tag).unwrap_or_default();
    let decoded = match (*tag, inner) {
        ("$date", Json::String(text)) => match instant::parse(&text) {
            Some(millis) => Ok(Value::Date(millis)),
            None => problem("$date holds no instant such as 2026-08-07T18:22:10.114Z"),
        },
        ("$bytes", Json::String(text)) => decode_bytes(&text).map(Value::Bytes),
        ("$number", Json::String(text)) => decode_odd_number(&text),
        ("$ext", Json::Object(ext)) => decode_ext(&ext),
        ("$map", Json::Object(members)) => decode_members(members, depth + 1).map(Value::Map),
        ("$ext" | "$map", _) => problem(format!("{tag} holds no object")),
        _ => problem(format!("{tag} holds no text")),
    };
    within(tag, decoded)
}

fn decode_members(members: JsonMap<String, Json>, depth: usize) -> Result<Map, Trail> {
    let decoded = members.into_iter().map(|(key, value)| match decode(value, depth + 1) {
        Ok(value) => Ok((key, value)),
        Err(trail) => within(&key, Err(trail)),
    });
    decoded.collect()
}

fn decode_bytes(text: &str) -> Result<bytes::Bytes, Trail> {
    match STANDARD.decode(text) {
        Ok(bytes) => Ok(bytes.into()),
        Err(_) => problem("$bytes holds no base64 with padding"),
    }
}

fn decode_odd_number(text: &str) -> Result<Value, Trail> {
    match text {
        "NaN" => Ok(Value::Float(f64::NAN)),
        "Infinity" => Ok(Value::Float(f64::INFINITY)),
        "-Infinity" => Ok(Value::Float(f64::NEG_INFINITY)),
        _ => problem("$number holds NaN, Infinity or -Infinity; other numbers are written plainly"),
    }
}

fn decode_ext(members: &JsonMap<String, Json>) -> Result<Value, Trail> {
    let kind = members.get("type").and_then(Json::as_i64).and_then(|kind| i8::try_from(kind).ok());
    let bytes = members.get("bytes").and_then(Json::as_str);
    match (kind, bytes) {
        (Some(DATE), _) => problem("type -1 is a date: write it as {\"$date\": …}"),
        (Some(kind), Some(bytes)) if members.len() == 2 => Ok(Value::Ext(kind, decode_bytes(bytes)?)),
        _ => problem("$ext holds {\"type\": -128 to 127, \"bytes\": base64}"),
    }
}

fn within<T>(step: impl std::fmt::Display, result: Result<T, Trail>) -> Result<T, Trail> {
    result.map_err(|mut trail| {
        trail.path.push(step.to_string());
        trail
    })
}

fn escape_step(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(value: &Value, json: &Json) {
        assert_eq!(to_json(value.clone()), *json);
        assert_eq!(serde_json::to_value(Tagged(value)).unwrap(), *json);
        let back = from_json(json.clone()).unwrap();
        assert_eq!(format!("{back:?}"), format!("{value:?}"), "NaN differs from itself, so compare as text");
    }

    fn map(key: &str, value: Value) -> Value {
        Value::Map([(key.to_owned(), value)].into_iter().collect())
    }

    /// results.md 1: what JSON lacks travels tagged, both ways.
    #[test]
    fn tags_both_ways() {
        check(&Value::Date(1_786_126_930_114), &json!({"$date": "2026-08-07T18:22:10.114Z"}));
        check(&Value::Bytes(Bytes::from_static(b"\x00\xff!")), &json!({"$bytes": "AP8h"}));
        check(&Value::Float(f64::NAN), &json!({"$number": "NaN"}));
        check(&Value::Float(f64::INFINITY), &json!({"$number": "Infinity"}));
        check(&Value::Float(f64::NEG_INFINITY), &json!({"$number": "-Infinity"}));
        check(&Value::Ext(-3, Bytes::from_static(b"x")), &json!({"$ext": {"type": -3, "bytes": "eA=="}}));
    }

    /// wire.md 3.1: a double without a fraction is the same number as the integer, and reads shorter.
    #[test]
    fn whole_doubles_are_written_as_integers() {
        for (number, json) in [(42.0, json!(42)), (-0.0, json!(0)), (0.5, json!(0.5)), (1e300, json!(1e300))] {
            assert_eq!(to_json(Value::Float(number)), json);
            assert_eq!(serde_json::to_value(Tagged(&Value::Float(number))).unwrap(), json);
        }
    }

    /// results.md 1: a map that really has a tag as its single key travels as `$map`, however often.
    #[test]
    fn a_map_that_looks_like_a_tag_is_escaped() {
        for tag in TAGS {
            check(&map(tag, Value::Int(1)), &json!({"$map": {tag: 1}}));
        }
        check(&map("$map", map("$map", Value::Null)), &json!({"$map": {"$map": {"$map": {"$map": null}}}}));
        let mut two = Map::new();
        two.insert("$date", 1i64);
        two.insert("x", 2i64);
        check(&Value::Map(two), &json!({"$date": 1, "x": 2}));
    }

    /// results.md 1: integers beyond 2^53 are refused on the way in.
    #[test]
    fn integers_beyond_2_53_are_refused() {
        for text in ["9007199254740992", "-9007199254740992", "18446744073709551615", "-9223372036854775808"] {
            let error = from_json(json!({"a/b": [serde_json::from_str::<Json>(text).unwrap()]})).unwrap_err();
            assert_eq!(error.pointer, "/a~1b/0");
        }
        check(&Value::Int(9_007_199_254_740_991), &json!(9_007_199_254_740_991_i64));
    }

    /// A tag that holds something else is refused where it stands, never passed on as a map.
    #[test]
    fn bad_tags_are_refused_with_their_place() {
        for (json, pointer) in [
            (json!({"a": {"$date": 5}}), "/a/$date"),
            (json!({"$date": "yesterday"}), "/$date"),
            (json!([{"$bytes": "AP8"}]), "/0/$bytes"),
            (json!({"$bytes": [1]}), "/$bytes"),
            (json!({"$number": "1"}), "/$number"),
            (json!({"$map": 1}), "/$map"),
            (json!({"$map": {"x": {"$date": null}}}), "/$map/x/$date"),
            (json!({"$ext": {"type": 200, "bytes": ""}}), "/$ext"),
            (json!({"$ext": {"type": -1, "bytes": "AA=="}}), "/$ext"),
        ] {
            assert_eq!(from_json(json.clone()).unwrap_err().pointer, pointer, "{json}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = (0..=MAX_DEPTH).fold(json!(1), |inner, _| json!([inner]));
        assert!(from_json(deep).unwrap_err().problem.contains("levels"));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-(1i64 << 53) + 1..1i64 << 53).prop_map(Value::Int),
            (-instant::FURTHEST..=instant::FURTHEST).prop_map(Value::Date),
            any::<f64>().prop_filter("read back as an integer", |n| integral(*n).is_none()).prop_map(Value::Float),
            ".{0,8}".prop_map(Value::Text),
            prop::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| Value::Bytes(bytes.into())),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let keys = prop_oneof![Just("$date".to_owned()), Just("$map".to_owned()), ".{0,4}"];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((keys, inner), 0..4).prop_map(|all| Value::Map(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_survives(value in values()) {
            let json = to_json(value.clone());
            prop_assert_eq!(&serde_json::to_value(Tagged(&value)).unwrap(), &json);
            prop_assert_eq!(format!("{:?}", from_json(json).unwrap()), format!("{value:?}"));
        }
    }
}
