//! The stamp of a row (semantics 9.2), for those who serve rows: a short text that names one state of one row in one
//! resource, and differs when a writable column does. To whoever calls, a stamp is opaque.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::text::{by_code_unit, ecma_number, write_json, write_json_list, write_json_text};
use crate::wire::{Value, json::iso_date, value::MAX_SAFE_INTEGER};

/// The stamp of the row `id` of `resource` with these writable fields, in any order. A field that is not there counts as
/// null. The id counts as it is written: `2` and `"2"` have different stamps.
pub fn stamp(resource: &str, id: &Value, fields: &[(&str, Option<&Value>)]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text(resource, id, fields).as_bytes()))
}

/// The text that is hashed.
fn text(resource: &str, id: &Value, fields: &[(&str, Option<&Value>)]) -> String {
    let mut fields = fields.to_vec();
    fields.sort_by(|left, right| by_code_unit(left.0, right.0));
    let mut out = String::from("[\"sw1\",");
    write_json_text(&mut out, resource);
    out.push(',');
    write_json(&mut out, id);
    out.push(',');
    write_json_list(&mut out, fields.into_iter(), |out, (name, value)| {
        out.push('[');
        write_json_text(out, name);
        out.push(',');
        write_tagged(out, value.unwrap_or(&Value::Null));
        out.push(']');
    });
    out.push(']');
    out
}

/// A value with its kind. Nesting is that of the value, which was bounded when it was read.
fn write_tagged(out: &mut String, value: &Value) {
    let text = |out: &mut String, tag: &str, text: &str| {
        out.push_str(tag);
        write_json_text(out, text);
    };
    match value {
        Value::Null => out.push_str("[\"n\""),
        Value::Bool(bit) => out.push_str(if *bit { "[\"b\",true" } else { "[\"b\",false" }),
        Value::Int(number) if number.unsigned_abs() > MAX_SAFE_INTEGER.unsigned_abs() => {
            text(out, "[\"i\",", &number.to_string());
        }
        Value::Int(_) | Value::Float(_) => {
            let number = value.as_f64().unwrap_or(f64::NAN);
            if number.is_finite() {
                out.push_str("[\"d\",");
                out.push_str(&ecma_number(number));
            } else {
                text(out, "[\"d\",", &ecma_number(number));
            }
        }
        Value::Text(words) => text(out, "[\"s\",", words),
        Value::Date(at) => text(out, "[\"t\",", &iso_date(*at).unwrap_or_default()),
        Value::Bytes(bytes) | Value::Ext(_, bytes) => {
            out.push_str("[\"y\",");
            write_json_list(out, bytes.iter(), |out, byte| out.push_str(&byte.to_string()));
        }
        Value::Array(items) => {
            out.push_str("[\"a\",");
            write_json_list(out, items.iter(), write_tagged);
        }
        Value::Map(map) => {
            let mut members: Vec<(&str, &Value)> = map.iter().collect();
            members.sort_by(|left, right| by_code_unit(left.0, right.0));
            out.push_str("[\"o\",");
            write_json_list(out, members.into_iter(), |out, (key, value)| {
                out.push('[');
                write_json_text(out, key);
                out.push(',');
                write_tagged(out, value);
                out.push(']');
            });
        }
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::testing::{is_undefined, value, vectors};

    /// Semantics 9.2: every recorded stamp, and the text it is of.
    #[test]
    fn every_recorded_stamp() {
        let file = vectors(include_str!("../../tests/vectors/sem-row-stamps.json"));
        let cases = file["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 9);
        for case in cases {
            let fields: Vec<(&str, Option<Value>)> = case["fields"]
                .as_array()
                .unwrap()
                .iter()
                .map(|field| (field[0].as_str().unwrap(), (!is_undefined(&field[1])).then(|| value(&field[1]))))
                .collect();
            let fields: Vec<(&str, Option<&Value>)> =
                fields.iter().map(|(name, value)| (*name, value.as_ref())).collect();
            let (scope, id) = (case["scope"].as_str().unwrap(), value(&case["id"]));
            assert_eq!(text(scope, &id, &fields), case["input"].as_str().unwrap());
            assert_eq!(stamp(scope, &id, &fields), case["stamp"].as_str().unwrap());
        }
    }

    /// Semantics 9.2: the exact spelling and kind of an id are part of the stamp.
    #[test]
    fn ids_that_look_alike_have_different_stamps() {
        let of = |id: Value| stamp("orders", &id, &[]);
        let all = [of(2.into()), of("2".into()), of("02".into()), of("2 ".into())];
        assert!(all.iter().enumerate().all(|(at, one)| !all[..at].contains(one)), "{all:?}");
        assert_eq!(of(2.into()), of(2.0.into()), "one number, however it was encoded");
        let big = [Value::Int(1 << 60), Value::Int((1 << 60) + 1)].map(|n| stamp("t", &1.into(), &[("n", Some(&n))]));
        assert_ne!(big[0], big[1]);
    }
}
