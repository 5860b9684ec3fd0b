//! A method that declares what it sets sets it: the value is brought within the bounds of the state, and written.

use crate::{
    contract::{Segments, TypeNode, Types, path::type_at, validate},
    wire::{Map, Value, value::MAX_SAFE_INTEGER},
};

/// The path a method declares that it sets: dots between fields, whatever else is in it (semantics 7.4).
pub(super) fn path(sets: &str) -> Option<Segments> {
    Segments::from_list(sets.split('.').map(str::to_owned).collect()).ok()
}

/// Writes `value` at `path` of a state of this type. What stands there afterwards is of its type.
///
/// # Errors
/// Why it does not fit there, even within bounds; then nothing is written. `Ok(false)`: the state has no such place.
pub(super) fn set(
    state: &mut Map,
    node: &TypeNode,
    types: &Types,
    path: &Segments,
    value: Value,
) -> Result<bool, String> {
    let Some(there) = type_at(node, path, types) else { return Ok(false) };
    let value = clamped(value, there, types);
    validate::value(&value, there, types, &path.to_string())?;
    Ok(write(state, path.as_slice(), value))
}

/// A number within the bounds of its type, whole where that wants whole ones; anything else as it is.
fn clamped(value: Value, node: &TypeNode, types: &Types) -> Value {
    let Some(number) = value.as_f64() else { return value };
    match types.resolve(node) {
        Some(TypeNode::Number { integer, min, max }) => {
            let low = min.map_or(number, |min| number.max(min));
            let within = max.map_or(low, |max| low.min(max));
            if within.to_bits() == number.to_bits() && !(*integer && number.fract() != 0.0) {
                return value;
            }
            as_number(if *integer { whole(within, *max) } else { within })
        }
        Some(TypeNode::Union { options }) => {
            let fits = |option: &&TypeNode| validate::value(&value, option, types, "").is_ok();
            if options.iter().any(|option| fits(&option)) {
                return value;
            }
            let numeric = |option: &&TypeNode| matches!(types.resolve(option), Some(TypeNode::Number { .. }));
            match options.iter().find(numeric) {
                Some(option) => clamped(value, option, types),
                None => value,
            }
        }
        _ => value,
    }
}

/// The nearest whole number, upwards from the middle, and not beyond the bound.
fn whole(number: f64, max: Option<f64>) -> f64 {
    let up = (number + 0.5).floor();
    if max.is_some_and(|max| up > max) { up - 1.0 } else { up }
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "it is whole and small enough")]
fn as_number(number: f64) -> Value {
    let exact = number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER as f64;
    if exact { Value::Int(number as i64) } else { Value::Float(number) }
}

/// Writes at a path below a map; members that are missing on the way are made. False when something is in the way.
fn write(map: &mut Map, path: &[String], value: Value) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    if rest.is_empty() {
        map.insert(first.as_str(), value);
        return true;
    }
    if map.get(first).is_none() {
        map.insert(first.as_str(), Map::new());
    }
    map.get_mut(first).is_some_and(|member| write_into(member, rest, value))
}

fn write_into(member: &mut Value, path: &[String], value: Value) -> bool {
    match member {
        Value::Map(map) => write(map, path, value),
        Value::Array(items) => {
            let Some((first, rest)) = path.split_first() else { return false };
            let Some(item) = first.parse::<usize>().ok().and_then(|at| items.get_mut(at)) else { return false };
            if rest.is_empty() {
                *item = value;
                return true;
            }
            write_into(item, rest, value)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::testing::{node_of, types_of, value};

    fn after(path: &str, given: Value) -> Result<Value, String> {
        let types = types_of(&json!({"Celsius": {"kind": "number", "min": -50, "max": 400}}));
        let node = node_of(&json!({"kind": "object", "fields": {
            "target": {"type": {"kind": "ref", "name": "Celsius"}},
            "count": {"type": {"kind": "number", "integer": true, "max": 9}},
            "mode": {"type": {"kind": "union", "options": [{"kind": "literal", "value": "idle"}, {"kind": "number", "max": 1}]}},
            "tags": {"type": {"kind": "record", "values": {"kind": "number", "min": 0}}},
            "list": {"type": {"kind": "array", "items": {"kind": "number", "max": 5}}},
        }}));
        let mut state = value(&json!({"target": 20, "count": 1, "mode": "idle", "tags": {}, "list": [1, 2]}));
        let Value::Map(map) = &mut state else { unreachable!() };
        set(map, &node, &types, &Segments::parse(path).unwrap(), given).map(|written| {
            let at = crate::contract::path::lookup(&state, &Segments::parse(path).unwrap());
            if written { at.cloned().unwrap() } else { "nothing".into() }
        })
    }

    /// Semantics 7.4: what is written is within the bounds of the state, wherever in it that is.
    #[test]
    fn a_value_is_brought_within_bounds_and_written() {
        for (path, given, stands) in [
            ("target", 180.5.into(), 180.5.into()),
            ("target", 9000.into(), 400.into()),
            ("target", Value::Float(-1e300), (-50).into()),
            ("count", 2.5.into(), 3.into()),
            ("count", 99.into(), 9.into()),
            ("mode", "idle".into(), "idle".into()),
            ("mode", 7.into(), 1.into()),
            ("tags.TI-101", (-3).into(), 0.into()),
            ("/tags/a.b", 4.into(), 4.into()),
            ("list.1", 77.into(), 5.into()),
            ("list.9", 1.into(), "nothing".into()),
            ("nowhere.at.all", 1.into(), "nothing".into()),
        ] {
            assert_eq!(after(path, given), Ok::<Value, String>(stands), "{path}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_not_written() {
        assert_eq!(after("target", "hot".into()), Err("target: expected number, got string".into()));
        assert_eq!(after("mode", "off".into()).unwrap_err(), "mode: expected \"idle\" | number, got string");
    }
}
