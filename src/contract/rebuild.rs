//! A contract document rebuilt from what a live peer says of itself, for a fake that stands in for it.
//!
//! What a description does not carry is not made up: a method without parameters is left out and said to be, later answers
//! and older versions are not described at all.

use std::collections::HashSet;

use crate::wire::{Map, Value};

/// A rebuilt document.
#[derive(Clone, Debug, PartialEq)]
pub struct Rebuilt {
    /// The document.
    pub document: Value,
    /// What the peer serves and the document lacks, one clause each.
    pub left_out: Vec<String>,
}

/// Rebuilds a contract from the answer of `msgrpc.describe`, verbatim where the answer is.
pub fn rebuild(answer: &Value) -> Rebuilt {
    let mut left_out = Vec::new();
    let mut root = Map::new();
    root.insert("schema", 1);
    keep(answer, &mut root, &["version"]);
    let types = answer.get("types").and_then(Value::as_map);
    let own: Map = types
        .into_iter()
        .flat_map(Map::iter)
        .filter(|(name, _)| !name.starts_with("msgrpc."))
        .map(|(name, node)| (name.to_owned(), node.clone()))
        .collect();
    if !own.is_empty() {
        root.insert("types", own);
    }
    let namespaces: Map = named(answer.get("namespaces"))
        .filter(|(name, _)| *name != "msgrpc")
        .map(|(name, entry)| (name.to_owned(), namespace(name, entry, &mut left_out)))
        .collect();
    root.insert("namespaces", namespaces);
    Rebuilt { document: root.into(), left_out }
}

fn namespace(name: &str, entry: &Value, left_out: &mut Vec<String>) -> Value {
    let mut out = Map::new();
    keep(entry, &mut out, &["version"]);
    let mut methods = Vec::new();
    for (method, entry) in named(entry.get("methods")) {
        if entry.get("params").and_then(Value::as_array).is_some() {
            let mut declared = Map::new();
            keep(entry, &mut declared, &["params", "paramNames", "rest", "returns", "semantics", "effect", "sets"]);
            methods.push((method.to_owned(), declared.into()));
        } else {
            left_out.push(format!("method {name}.{method}, which is described without its parameters"));
        }
    }
    out.insert("methods", methods.into_iter().collect::<Map>());
    let events: Map = named(entry.get("events"))
        .filter_map(|(event, entry)| {
            let mut declared = Map::new();
            keep(entry, &mut declared, &["params"]);
            (!declared.is_empty()).then(|| (event.to_owned(), declared.into()))
        })
        .collect();
    if !events.is_empty() {
        out.insert("events", events);
    }
    if let Some(component) = entry.get("component").filter(|component| component.as_map().is_some()) {
        let mut declared = Map::new();
        declared.insert("snapshot", 1);
        keep(component, &mut declared, &["props", "state"]);
        if declared.len() == 3 {
            out.insert("component", declared);
        } else {
            left_out.push(format!("component {name}, which is described without its types"));
        }
    }
    keep(entry, &mut out, &["capabilities"]);
    out.into()
}

/// Copies the members that are there.
fn keep(from: &Value, to: &mut Map, keys: &[&str]) {
    for key in keys {
        if let Some(value) = from.get(key).filter(|value| **value != Value::Null) {
            to.insert(*key, value.clone());
        }
    }
}

/// The entries of a list that have names, each name once.
fn named(list: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    let mut seen = HashSet::new();
    let entries = list.and_then(Value::as_array).unwrap_or_default();
    entries.iter().filter_map(move |entry| {
        let name = entry.get("name").and_then(Value::as_str)?;
        seen.insert(name).then_some((name, entry))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::testing::{json, value, vectors};
    use crate::contract::{Contract, Effect};

    /// A recorded peer becomes the contract it was served from, as far as it told; what it did not tell is named.
    #[test]
    fn a_recorded_description_becomes_its_contract() {
        let file = vectors(include_str!("../../tests/vectors/sem-describe.json"));
        let mut answer = file["peers"]["component"].clone();
        answer["types"].as_object_mut().unwrap().remove("…"); // the recording abbreviates here
        let rebuilt = rebuild(&value(&answer));
        let contract = Contract::parse_to_serve(&rebuilt.document).unwrap();
        let oven = contract.namespace("oven").unwrap();
        let stored = Contract::parse(&value(&file["schemas"]["component"])).unwrap();
        let stored = stored.namespace("oven").unwrap();
        let set = oven.method("setMode").unwrap();
        assert_eq!((set.effect(), set.sets.clone()), (Effect::Operate, stored.method("setMode").unwrap().sets.clone()));
        assert_eq!(oven.component.as_ref().unwrap().entry, stored.component.as_ref().unwrap().entry);
        assert_eq!(
            rebuilt.left_out,
            [
                "method oven.hold, which is described without its parameters",
                "method oven.set, which is described without its parameters",
                "method oven.twice, which is described without its parameters",
            ]
        );
        assert!(contract.namespace("msgrpc").is_none() && contract.types.is_empty());
    }

    /// Nothing a peer says makes it fail; a second entry of a name and one without a name are not there.
    #[test]
    fn an_odd_answer_becomes_what_can_be_read_of_it() {
        let answer = json(
            r#"{"version":5,"types":7,"namespaces":[{"name":"a","methods":[{"name":"m","params":[]},{"name":"m"},{}],
            "events":[{"name":"e"}],"component":{"props":{"kind":"any"}}},{"name":"a"},3,{"name":"__proto__"}]}"#,
        );
        let rebuilt = rebuild(&value(&answer));
        let expected = json(
            r#"{"schema":1,"version":5,"namespaces":{"a":{"methods":{"m":{"params":[]}}},"__proto__":{"methods":{}}}}"#,
        );
        assert_eq!(rebuilt.document, value(&expected));
        assert_eq!(rebuilt.left_out, ["component a, which is described without its types"]);
        assert_eq!(rebuild(&Value::Null).document, value(&json(r#"{"schema":1,"namespaces":{}}"#)));
    }
}
