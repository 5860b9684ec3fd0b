//! Sample values: what a fake answers where nobody said what it should (semantics 11.1). The same type gives the same
//! value every time; only a date is the moment it is asked for.
//!
//! A value is bounded whatever the type says: in depth as the specification has it, and in weight, because a few types
//! that refer to each other in width would fill a machine. What is beyond either bound is null, which may break the type;
//! so may a text with a pattern. Whoever must know checks the value as any other (S-128).

use super::{Field, Literal, TypeNode, Types};
use crate::wire::{Map, Value, value::MAX_SAFE_INTEGER};

/// A value of this type; of no type, null. `now_ms` is what a date is.
pub fn sample(node: Option<&TypeNode>, types: &Types, now_ms: i64) -> Value {
    let mut sampler = Sampler { types, now_ms, path: Vec::new(), left: HEAVIEST };
    node.map_or(Value::Null, |node| sampler.value(node, 0))
}

/// One value on its way.
struct Sampler<'t> {
    types: &'t Types,
    now_ms: i64,
    /// The named types the value is inside of.
    path: Vec<&'t str>,
    /// How much may still be added: values, and units of text.
    left: usize,
}

impl<'t> Sampler<'t> {
    fn value(&mut self, node: &'t TypeNode, depth: usize) -> Value {
        if depth > DEEPEST || self.left == 0 {
            return Value::Null;
        }
        self.left -= 1;
        let below = depth + 1;
        match node {
            TypeNode::Any | TypeNode::Null | TypeNode::Unknown { .. } | TypeNode::Malformed { .. } => Value::Null,
            TypeNode::Boolean => true.into(),
            TypeNode::Number { integer, min, max } => number(*integer, *min, *max),
            TypeNode::Text { min_length, max_length, .. } => self.text(*min_length, *max_length),
            TypeNode::Bytes { max_bytes } => bytes(*max_bytes),
            TypeNode::Date => Value::Date(self.now_ms),
            TypeNode::Literal(literal) => of_literal(literal),
            TypeNode::Array { max_items: Some(0), .. } => Value::Array(Vec::new()),
            TypeNode::Array { items, .. } => Value::Array(vec![self.value(items, below)]),
            TypeNode::Tuple { items } => Value::Array(items.iter().map(|item| self.value(item, below)).collect()),
            TypeNode::Object { fields, .. } => self.object(fields, below),
            TypeNode::Record { key_pattern: Some(_), .. } | TypeNode::Record { max_entries: Some(0), .. } => {
                Map::new().into()
            }
            TypeNode::Record { values, .. } => Map::from_iter([(TEXT.to_owned(), self.value(values, below))]).into(),
            TypeNode::Union { options } => {
                let first = options.iter().find(|option| !option.is_null_literal());
                first.map_or(Value::Null, |option| self.value(option, below))
            }
            TypeNode::Ref { name } => self.named(name, below),
        }
    }

    fn object(&mut self, fields: &'t [Field], depth: usize) -> Value {
        let required = fields.iter().filter(|field| !field.optional);
        required.map(|field| (field.name.clone(), self.value(&field.node, depth))).collect::<Map>().into()
    }

    fn named(&mut self, name: &'t str, depth: usize) -> Value {
        let Some(node) = self.types.get(name).filter(|_| !self.path.contains(&name)) else { return Value::Null };
        self.path.push(name);
        let value = self.value(node, depth);
        self.path.pop();
        value
    }

    fn text(&mut self, min: Option<u64>, max: Option<u64>) -> Value {
        let length =
            |bound: Option<u64>, none: usize| bound.map_or(none, |units| usize::try_from(units).unwrap_or(none));
        let padding = length(min, 0).saturating_sub(TEXT.len()).min(self.left);
        self.left -= padding;
        let mut text = format!("{TEXT}{}", "x".repeat(padding));
        text.truncate(length(max, usize::MAX));
        text.into()
    }
}

fn number(integer: bool, min: Option<f64>, max: Option<f64>) -> Value {
    let middle = match (min, max) {
        (Some(min), Some(max)) => f64::midpoint(min, max),
        (Some(min), None) => min,
        (None, Some(max)) => max.min(0.0),
        (None, None) => 0.0,
    };
    let number = if integer { (middle + 0.5).floor() } else { middle };
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    if number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER as f64 {
        return Value::Int(number as i64);
    }
    Value::Float(number)
}

fn bytes(max: Option<u64>) -> Value {
    let most = max.map_or(BYTES.len(), |max| usize::try_from(max).unwrap_or(usize::MAX).min(BYTES.len()));
    Value::Bytes(BYTES.iter().copied().take(most).collect())
}

fn of_literal(literal: &Literal) -> Value {
    match literal {
        Literal::Text(text) => text.as_str().into(),
        Literal::Number(value) => number(false, Some(*value), None),
        Literal::Bool(bit) => (*bit).into(),
        Literal::Null => Value::Null,
    }
}

/// Every text begins with it, and every key is it.
const TEXT: &str = "sample";
/// Every byte string begins with them.
const BYTES: [u8; 4] = [0, 1, 2, 3];
/// The depth from which on everything is null (semantics 11.1).
const DEEPEST: usize = 6;
/// How many values and units of padding one sample may have.
const HEAVIEST: usize = 1 << 13;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::contract::testing::{node_of, types_of, value, vectors};
    use crate::contract::{Contract, validate};

    const NOW: i64 = 1_785_585_600_000;

    /// Rows whose recorded value we do not give, and why.
    const DEVIATIONS: [(&str, &str); 1] =
        [(r#"{"integer":true,"kind":"number","max":-0.5}"#, "the recorded peer says -0 and advises 0")];

    /// S-120, semantics 11.1: every recorded sample.
    #[test]
    fn s120_every_recorded_sample() {
        let file = vectors(include_str!("../../tests/vectors/sem-fake-generation.json"));
        let types = types_of(&file["types"]);
        let samples = file["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 70);
        let mut deviating = Vec::new();
        for row in samples {
            let text = row["type"].to_string().replace("{\"$now\":true}", "now");
            let node = (!row["type"].is_null()).then(|| node_of(&row["type"]));
            let sampled = sample(node.as_ref(), &types, NOW);
            let recorded = recorded(&row["value"]);
            // Minus zero equals zero as a number; here the sign is what differs.
            if format!("{sampled:?}") != format!("{recorded:?}") {
                deviating.push(text);
            }
        }
        let known: Vec<String> = DEVIATIONS.iter().map(|(row, _)| sorted(row)).collect();
        assert_eq!(deviating.iter().map(|row| sorted(row)).collect::<Vec<_>>(), known);
        assert_eq!(
            sample(Some(&node_of(&json!({"kind": "number", "max": -0.5, "integer": true}))), &types, 0),
            0.into()
        );
    }

    /// Semantics 4, recognition: what the recorded peer takes for a contract, and what we refuse of that.
    #[test]
    fn s050_every_recorded_recognition() {
        let file = vectors(include_str!("../../tests/vectors/sem-fake-generation.json"));
        let rows = file["looksLikeSchema"].as_array().unwrap();
        assert_eq!(rows.len(), 11);
        let stricter = [json!({"namespaces": []}), json!({"schema": 2, "namespaces": {}})];
        for row in rows {
            let taken = Contract::parse(&value(&row["value"])).is_ok();
            let expected = row["expect"] == true && !stricter.contains(&row["value"]);
            assert_eq!(taken, expected, "{row}");
        }
    }

    fn sorted(text: &str) -> String {
        serde_json::from_str::<std::collections::BTreeMap<String, serde_json::Value>>(text)
            .map_or_else(|_| text.to_owned(), |map| format!("{map:?}"))
    }

    /// A recorded value, with the moment where the recording says "now".
    fn recorded(json: &serde_json::Value) -> Value {
        match json {
            serde_json::Value::Object(map) if map.contains_key("$now") => Value::Date(NOW),
            serde_json::Value::Object(map) if !map.keys().any(|key| key.starts_with('$')) => {
                map.iter().map(|(key, member)| (key.clone(), recorded(member))).collect::<Map>().into()
            }
            serde_json::Value::Array(items) => Value::Array(items.iter().map(recorded).collect()),
            other => value(other),
        }
    }

    /// A few types that name each other in width ask for more values than a machine holds.
    #[test]
    fn a_sample_is_bounded_in_weight() {
        let wide = |of: &str| {
            let fields: serde_json::Map<_, _> =
                (0..500).map(|at| (format!("f{at}"), json!({"type": {"kind": "ref", "name": of}}))).collect();
            json!({"kind": "object", "fields": fields})
        };
        let types = types_of(&json!({"A": wide("B"), "B": wide("C"), "C": wide("D"), "D": {"kind": "string"}}));
        let sampled = sample(Some(&TypeNode::Ref { name: "A".into() }), &types, 0);
        assert_eq!(sampled.as_map().unwrap().len(), 500);
        let long = node_of(&json!({"kind": "string", "minLength": 4_000_000_000_u64}));
        assert!(sample(Some(&long), &types, 0).as_str().unwrap().len() <= HEAVIEST + TEXT.len());
        let huge = node_of(&json!({"kind": "number", "min": 1e308, "max": 1.6e308}));
        assert!(sample(Some(&huge), &types, 0).as_f64().unwrap().is_finite());
    }

    /// Types within which a sample always fits: no patterns, bounds that leave room, nothing deeper than a sample goes.
    fn types_with_room() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!({"kind": "any"})),
            Just(json!({"kind": "null"})),
            Just(json!({"kind": "boolean"})),
            Just(json!({"kind": "date"})),
            (-1e6..1e6_f64, 1.0..1e6_f64, any::<bool>()).prop_map(
                |(min, more, integer)| json!({"kind": "number", "min": min, "max": min + more, "integer": integer})
            ),
            any::<i32>().prop_map(|max| json!({"kind": "number", "max": max})),
            (0..20_u8, 0..20_u8)
                .prop_map(|(min, more)| json!({"kind": "string", "minLength": min, "maxLength": min + more})),
            (0..9_u8).prop_map(|max| json!({"kind": "bytes", "maxBytes": max})),
            "[a-z]{0,5}".prop_map(|text| json!({"kind": "literal", "value": text})),
            any::<i32>().prop_map(|number| json!({"kind": "literal", "value": number})),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                (inner.clone(), 0..3_u8)
                    .prop_map(|(items, max)| json!({"kind": "array", "items": items, "maxItems": max})),
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| json!({"kind": "tuple", "items": items})),
                prop::collection::vec((inner.clone(), any::<bool>()), 0..4).prop_map(|fields| {
                    let fields: serde_json::Map<_, _> = fields
                        .into_iter()
                        .enumerate()
                        .map(|(at, (node, optional))| (format!("f{at}"), json!({"type": node, "optional": optional})))
                        .collect();
                    json!({"kind": "object", "fields": fields})
                }),
                (inner.clone(), 0..3_u8)
                    .prop_map(|(values, max)| json!({"kind": "record", "values": values, "maxEntries": max})),
                prop::collection::vec(inner, 1..4).prop_map(|options| json!({"kind": "union", "options": options})),
            ]
        })
    }

    proptest! {
        /// S-120: a sample is a value of its type, and the same one every time.
        #[test]
        fn s120_a_sample_is_a_value_of_its_type(json in types_with_room()) {
            let (node, types) = (node_of(&json), Types::default());
            let sampled = sample(Some(&node), &types, NOW);
            prop_assert_eq!(validate::value(&sampled, &node, &types, ""), Ok(()));
            prop_assert_eq!(sampled, sample(Some(&node), &types, NOW));
        }
    }
}
