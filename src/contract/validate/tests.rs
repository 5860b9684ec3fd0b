//! Every recorded check, and what bounds them.

use serde_json::Value as Json;

use super::*;
use crate::contract::testing::{
    described_method, is_undefined, json, node, node_of, types_of, value as from_json, vectors,
};

/// Vectors on which we answer otherwise, by place in the file, with our answer and the reason.
///
/// R-03: the reference finds what every object of its language has besides its members; we look at own members only
/// (S-037). The others hold a value that is not there *inside* another value, which has no encoding: on the wire it is
/// null in a list and gone from a map, and that is how it reaches us.
const DEVIATIONS: &[(&str, Option<&str>, &str)] = &[
    ("value 114", Some("value[0]: expected number, got null"), "no encoding"),
    ("value 160", None, "no encoding"),
    ("value 164", None, "no encoding"),
    ("value 219", Some("value.toString: not part of this type"), "R-03"),
    ("value 220", Some("value.constructor: not part of this type"), "R-03"),
    ("value 221", Some("value.toString: missing"), "R-03"),
    ("value 222", Some("value: unknown type 'toString'"), "R-03"),
    ("params 4", None, "no encoding"),
];

fn check_vector(label: &str, ours: Option<&str>, recorded: &Json, met: &mut Vec<String>) {
    let recorded = recorded.as_str();
    match DEVIATIONS.iter().find(|deviation| deviation.0 == label) {
        Some((_, answer, why)) => {
            assert_ne!(*answer, recorded, "{label} no longer deviates: {why}");
            assert_eq!(ours, *answer, "{label}, {why}");
            met.push(label.to_owned());
        }
        None => assert_eq!(ours, recorded, "{label}"),
    }
}

/// S-030 to S-037: every recorded check, with its text.
#[test]
fn s030_every_recorded_check() {
    let file = vectors(include_str!("../../../tests/vectors/sem-validation.json"));
    let types = types_of(&file["types"]);
    let mut met = Vec::new();
    let values = file["value"].as_array().unwrap();
    assert_eq!(values.len(), 223);
    for (at, case) in values.iter().enumerate() {
        let (node, path) = (node_of(&case["type"]), case["path"].as_str().unwrap());
        let checked = if is_undefined(&case["value"]) {
            absent(&node, &types, path)
        } else {
            value(&from_json(&case["value"]), &node, &types, path)
        };
        check_vector(&format!("value {at}"), checked.err().as_deref(), &case["expect"], &mut met);
    }
    let params = file["params"].as_array().unwrap();
    assert_eq!(params.len(), 38);
    for (at, case) in params.iter().enumerate() {
        let args: Vec<Value> = case["args"].as_array().unwrap().iter().map(from_json).collect();
        let checked = arguments(&args, &described_method(&case["method"]), &types);
        let text = checked.err().map(|fault| fault.text);
        check_vector(&format!("params {at}"), text.as_deref(), &case["expect"], &mut met);
    }
    assert_eq!(met.len(), DEVIATIONS.len());
}

/// S-041: before sending, arity is checked too, arguments have their names, and the fault says which one it was.
#[test]
fn s041_faults_name_the_argument() {
    let types = Types::default();
    let method = described_method(&json(
        r#"{"params":[{"kind":"number"},{"kind":"string"},{"kind":"any"}],"paramNames":["celsius",""]}"#,
    ));
    let fault = |args: &[Value]| before_sending(args, &method, &types).unwrap_err();
    let arity = "expected at least 2 arguments, got 1".to_owned();
    assert_eq!(fault(&[Value::Int(1)]), ArgumentFault { argument: None, text: arity });
    let first = fault(&["x".into(), "y".into()]);
    assert_eq!((first.argument, first.text.as_str()), (Some(0), "celsius: expected number, got string"));
    let second = fault(&[Value::Int(1), Value::Int(2)]);
    assert_eq!((second.argument, second.text.as_str()), (Some(1), "argument 1: expected string, got number"));
    assert_eq!(second.to_string(), second.text);
}

/// S-021: an undescribed method accepts any list.
#[test]
fn s021_undescribed_methods_are_not_checked() {
    let method = Method::undeclared("f");
    assert_eq!(arguments(&[Value::Null, Value::Int(1)], &method, &Types::default()), Ok(()));
}

/// S-033: types that ask for more work than any value is worth are given up on, and said to be.
#[test]
fn s033_self_referring_unions_end() {
    let twice = r#"{"kind":"union","options":[{"kind":"ref","name":"T"},{"kind":"ref","name":"T"},{"kind":"ref","name":"T"},
        {"kind":"ref","name":"T"},{"kind":"ref","name":"T"},{"kind":"ref","name":"T"}]}"#;
    let types = types_of(&json(&format!("{{\"T\":{twice}}}")));
    let text = value(&Value::Int(1), &node(r#"{"kind":"ref","name":"T"}"#), &types, "").unwrap_err();
    assert_eq!(text, "value: takes more than 4000000 steps to check");
}

/// S-032: integers are equal however they are encoded, and dates end where ECMAScript ends them.
#[test]
fn s032_encodings_of_one_number_are_one_number() {
    let types = Types::default();
    let integer = node(r#"{"kind":"number","integer":true,"max":5}"#);
    for number in [Value::Int(5), Value::Float(5.0)] {
        assert_eq!(value(&number, &integer, &types, ""), Ok(()));
    }
    let five = node(r#"{"kind":"literal","value":5}"#);
    assert_eq!(value(&Value::Float(5.0), &five, &types, ""), Ok(()));
    assert_eq!(value(&Value::Date(8_640_000_000_000_000), &TypeNode::Date, &types, ""), Ok(()));
    assert!(value(&Value::Date(8_640_000_000_000_001), &TypeNode::Date, &types, "").is_err());
    assert!(value(&Value::Date(i64::MIN), &TypeNode::Date, &types, "").is_err());
}

/// S-034: a type that is broken in itself accepts nothing and says what is wrong with it.
#[test]
fn s034_broken_types_accept_nothing() {
    let text = value(&Value::Null, &node(r#"{"kind":"array"}"#), &Types::default(), "x").unwrap_err();
    assert_eq!(text, "x: its declared type is broken: an array needs `items`");
}

/// S-041: a check that passes allocates nothing, unions included.
#[test]
fn s041_passing_checks_do_not_allocate() {
    let types =
        types_of(&json(r#"{"Mode":{"kind":"union","options":[{"kind":"number"},{"kind":"literal","value":"auto"}]}}"#));
    let method = described_method(&json(
        r#"{"params":[{"kind":"object","fields":{"mode":{"type":{"kind":"ref","name":"Mode"}},
            "list":{"type":{"kind":"array","items":{"kind":"string","maxLength":4}}}}},{"kind":"number","min":0}]}"#,
    ));
    let args = [from_json(&json(r#"{"mode":"auto","list":["a","b"]}"#)), Value::Int(3)];
    let measured = allocation_counter::measure(|| assert_eq!(before_sending(&args, &method, &types), Ok(())));
    assert_eq!(measured.count_total, 0);
}
