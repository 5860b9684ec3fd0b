//! What is wrong with a contract although every part of it reads: references that lead nowhere or round in a ring,
//! bounds that exclude each other, declarations that contradict each other, names nobody could call.
//!
//! A live peer is taken as it is. A contract that somebody wrote, to be kept, served or compared with, is refused for any
//! of these: what it says would not be what happens.

use std::collections::{HashMap, HashSet};

use super::document::read_namespace;
use super::parse::Reader;
use super::path::{Segments, type_at};
use super::{Component, Contract, Effect, Event, Field, Method, Namespace, Semantics, Sets, TypeNode, Types};
use crate::wire::Value;

/// Notes everything that is wrong with `contract`, which was read from `document`.
pub(super) fn audit(reader: &mut Reader, contract: &Contract, document: &Value) {
    let depths = least_depths(contract);
    reader.at("types", |reader| {
        for (name, _) in contract.types_entry.iter() {
            let Some(node) = contract.types.get(name) else { continue };
            reader.at(name, |reader| {
                if depths.get(name).is_some_and(Option::is_none) {
                    reader.problem(ENDLESS);
                }
                type_node(reader, node, &contract.types, 0);
            });
        }
    });
    let namespaces = document.get("namespaces");
    reader.at("namespaces", |reader| {
        for namespace in &contract.namespaces {
            let entry = namespaces.and_then(|namespaces| namespaces.get(&namespace.name));
            reader.at(&namespace.name, |reader| audit_namespace(reader, namespace, entry, &contract.types));
        }
    });
}

fn audit_namespace(reader: &mut Reader, namespace: &Namespace, entry: Option<&Value>, types: &Types) {
    name(reader, &namespace.name, "namespace", true);
    reader.at("methods", |reader| {
        for method in namespace.methods.iter() {
            reader.at(&method.name, |reader| audit_method(reader, method, namespace, types));
        }
    });
    reader.at("events", |reader| {
        for event in &namespace.events {
            reader.at(&event.name, |reader| audit_event(reader, event, types));
        }
    });
    if let Some(component) = &namespace.component {
        reader.at("component", |reader| audit_component(reader, component, types));
    }
    reader.at("capabilities", |reader| no_twice(reader, &namespace.capabilities));
    if let Some(history) = entry.and_then(|entry| entry.get("history")).and_then(Value::as_map) {
        reader.at("history", |reader| {
            for (version, older) in history.iter() {
                // Only whether it reads: it may name types that are gone by now.
                reader.at(version, |reader| read_namespace(reader, &namespace.name, older));
            }
        });
    }
}

fn audit_method(reader: &mut Reader, method: &Method, namespace: &Namespace, types: &Types) {
    name(reader, &method.name, "method", false);
    let subscribable = !namespace.events.is_empty() || namespace.component.is_some();
    if SUBSCRIBING.contains(&method.name.as_str()) && subscribable {
        reader.problem("a method of this name hides the subscription to what the namespace publishes");
    }
    reader.at("params", |reader| nodes(reader, method.params.as_deref().unwrap_or_default(), types));
    reader.at("paramNames", |reader| no_twice(reader, &method.param_names));
    for (key, node) in [("rest", &method.rest), ("returns", &method.returns)] {
        if let Some(node) = node {
            reader.at(key, |reader| type_node(reader, node, types, 0));
        }
    }
    declarations(reader, method);
    if let Some(sets) = &method.sets {
        reader.at("sets", |reader| audit_sets(reader, sets, method, namespace, types));
    }
    if method.deferred.is_some() {
        audit_deferred(reader, method, types);
    }
}

/// Semantics and effect against each other and against the words there are.
fn declarations(reader: &mut Reader, method: &Method) {
    let word = method.entry.as_ref().and_then(|entry| entry.get("semantics")).and_then(Value::as_str);
    if let Some(word) = word.filter(|word| Semantics::parse(word).is_none()) {
        let what = format!("expected query, idempotent-command or non-repeatable-command, got {word:?}");
        reader.at("semantics", |reader| reader.problem(what));
    }
    let command = method.semantics.is_some_and(|semantics| semantics != Semantics::Query);
    if command && method.declared_effect == Some(Effect::Observe) {
        let what = "a command changes something, so its effect is not observe; what only looks is a query";
        reader.at("effect", |reader| reader.problem(what));
    }
}

fn audit_sets(reader: &mut Reader, sets: &Sets, method: &Method, namespace: &Namespace, types: &Types) {
    if method.effect() == Effect::Observe {
        reader.problem("a method that only observes sets nothing");
    }
    let Sets::Path(path) = sets else {
        if method.params.as_ref().is_some_and(|params| params.len() != 2) {
            reader.problem("a method that sets any path takes the path and the value");
        }
        return;
    };
    let Ok(segments) = Segments::from_list(path.split('.').map(str::to_owned).collect()) else {
        return reader.problem("not a path: a field, or fields with dots between them, or *");
    };
    let state = namespace.component.as_ref().and_then(|component| component.state.as_ref());
    if state.is_some_and(|state| !leads_anywhere(state, types) && type_at(state, &segments, types).is_none()) {
        reader.problem("the component's state has no such path");
    }
}

/// Whether nothing is known of what lies below a type.
fn leads_anywhere(node: &TypeNode, types: &Types) -> bool {
    match types.resolve(node) {
        Some(TypeNode::Any) | None => true,
        Some(TypeNode::Object { additional, .. }) => *additional,
        Some(_) => false,
    }
}

/// A method that answers later returns a receipt, which names the ticket and how long it lives.
fn audit_deferred(reader: &mut Reader, method: &Method, types: &Types) {
    if let Some(returns) = &method.returns {
        let known = |key: &str| match types.resolve(returns) {
            Some(TypeNode::Object { fields, .. }) => fields.iter().any(|field| field.name == key && !field.optional),
            Some(TypeNode::Any) | None => true,
            Some(_) => false,
        };
        if !known("id") || !known("expiresAt") {
            let what = "a deferred method returns a receipt: an object with `id`, text, and `expiresAt`, a number";
            reader.at("returns", |reader| reader.problem(what));
        }
    }
    if let Some(deferred) = &method.deferred {
        reader.at("deferred", |reader| {
            reader.at("result", |reader| type_node(reader, &deferred.result, types, 0));
            if let Some(progress) = &deferred.progress {
                reader.at("progress", |reader| type_node(reader, progress, types, 0));
            }
        });
    }
}

fn audit_event(reader: &mut Reader, event: &Event, types: &Types) {
    name(reader, &event.name, "event", false);
    reader.at("params", |reader| nodes(reader, event.params.as_deref().unwrap_or_default(), types));
}

fn audit_component(reader: &mut Reader, component: &Component, types: &Types) {
    let snapshot = component.entry.as_ref().and_then(|entry| entry.get("snapshot"));
    if snapshot.is_some_and(|snapshot| snapshot.as_f64() != Some(1.0)) {
        reader.at("snapshot", |reader| reader.problem("expected the number 1, the only form of snapshot known here"));
    }
    for (key, node) in [("props", &component.props), ("state", &component.state)] {
        let Some(node) = node else { continue };
        reader.at(key, |reader| {
            let map = |node: &TypeNode| {
                matches!(node, TypeNode::Object { .. } | TypeNode::Record { .. } | TypeNode::Any) || !is_sound(node)
            };
            if types.resolve(node).is_some_and(|node| !map(node)) {
                reader.problem("a component publishes members, so this is an object or a record");
            }
            type_node(reader, node, types, 0);
        });
    }
}

/// Whether the reader has not spoken of this node already.
fn is_sound(node: &TypeNode) -> bool {
    !matches!(node, TypeNode::Unknown { .. } | TypeNode::Malformed { .. })
}

fn nodes(reader: &mut Reader, nodes: &[TypeNode], types: &Types) {
    for (at, node) in nodes.iter().enumerate() {
        reader.at_index(at, |reader| type_node(reader, node, types, 0));
    }
}

fn type_node(reader: &mut Reader, node: &TypeNode, types: &Types, depth: usize) {
    if depth > DEEPEST {
        return reader.problem(format!("nested deeper than {DEEPEST} levels, which no value may be"));
    }
    let below = depth + 1;
    match node {
        TypeNode::Unknown { kind } => reader.problem(format!("unknown type kind {kind:?}")),
        TypeNode::Ref { name } if types.get(name).is_none() => reader.problem(format!("unknown type {name:?}")),
        TypeNode::Number { min: Some(min), max: Some(max), .. } if min > max => {
            reader.problem("`min` is above `max`, so no number fits");
        }
        TypeNode::Text { min_length: Some(min), max_length: Some(max), .. } if min > max => {
            reader.problem("`minLength` is above `maxLength`, so no text fits");
        }
        TypeNode::Array { items, .. } => reader.at("items", |reader| type_node(reader, items, types, below)),
        TypeNode::Record { values, .. } => reader.at("values", |reader| type_node(reader, values, types, below)),
        TypeNode::Tuple { items } => reader.at("items", |reader| list(reader, items, types, below)),
        TypeNode::Union { options } if options.is_empty() => {
            reader.problem("a union without options, which nothing fits");
        }
        TypeNode::Union { options } => reader.at("options", |reader| {
            same_literals(reader, options);
            list(reader, options, types, below);
        }),
        TypeNode::Object { fields, .. } => reader.at("fields", |reader| {
            for Field { name, node, .. } in fields {
                reader.at(name, |reader| reader.at("type", |reader| type_node(reader, node, types, below)));
            }
        }),
        _ => {}
    }
}

fn list(reader: &mut Reader, nodes: &[TypeNode], types: &Types, depth: usize) {
    for (at, node) in nodes.iter().enumerate() {
        reader.at_index(at, |reader| type_node(reader, node, types, depth));
    }
}

/// The same literal twice among the options of a union is a slip of whoever wrote it.
fn same_literals(reader: &mut Reader, options: &[TypeNode]) {
    let mut seen = HashSet::new();
    for (at, option) in options.iter().enumerate() {
        if let TypeNode::Literal(_) = option
            && !seen.insert(super::signature::render(option))
        {
            reader.at_index(at, |reader| reader.problem("the same literal as an option before it"));
        }
    }
}

fn no_twice(reader: &mut Reader, names: &[String]) {
    let mut seen = HashSet::new();
    for (at, name) in names.iter().enumerate() {
        if !name.is_empty() && !seen.insert(name) {
            reader.at_index(at, |reader| reader.problem("there twice"));
        }
    }
}

/// Names that can be written, split at their last dot and told from the network's own.
fn name(reader: &mut Reader, name: &str, of: &str, dots: bool) {
    if name.is_empty() || (dots && (name.starts_with('.') || name.ends_with('.'))) {
        reader.problem(format!("the name of a {of} is empty"));
    } else if name.starts_with('$') {
        reader.problem("names that begin with $ are the network's own");
    } else if !dots && name.contains('.') {
        reader.problem(format!("the name of a {of} has no dot: what stands before the last dot is the namespace"));
    } else if name.chars().any(char::is_control) {
        reader.problem("a name without control characters is needed");
    } else if name.len() > LONGEST_NAME {
        reader.problem(format!("a name of at most {LONGEST_NAME} bytes is needed"));
    }
}

/// How deep the shallowest value of each named type is; `None` where it passes what any value may be.
///
/// Found by going round until nothing changes. A round settles all types that are one reference deeper, so there are no
/// more rounds than levels, and no type refers to another through our stack.
fn least_depths(contract: &Contract) -> HashMap<&str, Option<usize>> {
    let names: Vec<&str> = contract.types_entry.iter().map(|(name, _)| name).collect();
    let mut depths: HashMap<&str, Option<usize>> = names.iter().map(|name| (*name, None)).collect();
    for _ in 0..=DEEPEST {
        let mut changed = false;
        for name in &names {
            let Some(node) = contract.types.get(name) else { continue };
            let depth = least_depth(node, &depths);
            if depths.get(name) != Some(&depth) {
                depths.insert(name, depth);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    depths
}

fn least_depth(node: &TypeNode, known: &HashMap<&str, Option<usize>>) -> Option<usize> {
    let deeper = |deepest: Option<usize>, node: &TypeNode| Some(deepest?.max(least_depth(node, known)? + 1));
    let depth = match node {
        // One that is not declared is told where it stands.
        TypeNode::Ref { name } => known.get(name.as_str()).map_or(Some(0), |depth| depth.map(|depth| depth + 1)),
        TypeNode::Tuple { items } => items.iter().fold(Some(0), deeper),
        TypeNode::Object { fields, .. } => {
            fields.iter().filter(|field| !field.optional).map(|field| &field.node).fold(Some(0), deeper)
        }
        TypeNode::Union { options } if !options.is_empty() => {
            options.iter().filter_map(|option| least_depth(option, known)).min().map(|depth| depth + 1)
        }
        _ => Some(0),
    };
    depth.filter(|depth| *depth <= DEEPEST)
}

/// The names that subscribing uses.
const SUBSCRIBING: [&str; 3] = ["on", "off", "removeListener"];
/// Both are the same to whoever looks for a value: none is shallow enough.
const ENDLESS: &str = "no value can be of this type: it refers to itself without end, or needs more than 32 levels, of which \
                       each reference is one";
/// Levels a value may be nested (S-033).
const DEEPEST: usize = 32;
/// Bytes of a name that is called or listened to.
const LONGEST_NAME: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::testing::json;
    use crate::wire::json::from_json;

    fn problems(document: &str) -> Vec<String> {
        let found = Contract::parse_to_compare(&from_json(json(document))).map(|_| ()).err().unwrap_or_default();
        found.iter().map(ToString::to_string).collect()
    }

    fn of_types(types: &str) -> Vec<String> {
        problems(&format!(r#"{{"schema":1,"types":{types},"namespaces":{{}}}}"#))
    }

    fn of_method(method: &str) -> Vec<String> {
        let all = problems(&format!(
            r#"{{"schema":1,"namespaces":{{"n":{{"methods":{{"m":{method}}},"component":{{"snapshot":1,
            "props":{{"kind":"object","fields":{{}}}},
            "state":{{"kind":"object","fields":{{"a":{{"type":{{"kind":"number"}}}}}}}}}}}}}}}}"#
        ));
        all.into_iter().map(|problem| problem.replace("/namespaces/n/methods/m", "")).collect()
    }

    /// S-034: a reference leads to a declared type, whatever its name is in other languages.
    #[test]
    fn s034_references_lead_somewhere() {
        assert_eq!(
            of_types(
                r#"{"A":{"kind":"array","items":{"kind":"ref","name":"toString"}},"B":{"kind":"ref","name":"__proto__"}}"#
            ),
            ["/types/A/items: unknown type \"toString\"", "/types/B: unknown type \"__proto__\""]
        );
        let own = r#"{"toString":{"kind":"string"},"__proto__":{"kind":"object","fields":{"constructor":
            {"type":{"kind":"ref","name":"toString"}}}}}"#;
        assert_eq!(of_types(own), Vec::<String>::new());
    }

    /// S-033: a chain that ends is refused for its length alone, and one that is short enough is not.
    #[test]
    fn s033_a_chain_may_be_as_long_as_a_value_is_deep() {
        let chain = |links: usize| {
            let link = |at: usize| {
                let next = at + 1;
                format!(r#""T{at}":{{"kind":"object","fields":{{"n":{{"type":{{"kind":"ref","name":"T{next}"}}}}}}}}"#)
            };
            let links: Vec<String> =
                (0..links).map(link).chain([format!(r#""T{links}":{{"kind":"number"}}"#)]).collect();
            format!("{{{}}}", links.join(","))
        };
        assert_eq!(of_types(&chain(15)), Vec::<String>::new());
        assert_eq!(of_types(&chain(17)).first(), Some(&format!("/types/T0: {ENDLESS}")));
    }

    /// S-033: a ring that no value can end is refused, one that a value can end is not.
    #[test]
    fn s033_rings_must_end() {
        let ring = ENDLESS;
        let cases = [
            (r#"{"A":{"kind":"ref","name":"A"}}"#, vec!["A"]),
            (r#"{"A":{"kind":"ref","name":"B"},"B":{"kind":"ref","name":"A"}}"#, vec!["A", "B"]),
            (r#"{"A":{"kind":"object","fields":{"a":{"type":{"kind":"ref","name":"A"}}}}}"#, vec!["A"]),
            (r#"{"A":{"kind":"tuple","items":[{"kind":"number"},{"kind":"ref","name":"A"}]}}"#, vec!["A"]),
            (
                r#"{"A":{"kind":"union","options":[{"kind":"ref","name":"A"},{"kind":"tuple","items":[{"kind":"ref","name":"A"}]}]}}"#,
                vec!["A"],
            ),
            (r#"{"A":{"kind":"union","options":[{"kind":"ref","name":"A"},{"kind":"null"}]}}"#, vec![]),
            (r#"{"A":{"kind":"object","fields":{"a":{"optional":true,"type":{"kind":"ref","name":"A"}}}}}"#, vec![]),
            (r#"{"A":{"kind":"array","items":{"kind":"ref","name":"A"}}}"#, vec![]),
            (r#"{"A":{"kind":"record","values":{"kind":"ref","name":"A"}}}"#, vec![]),
            (
                r#"{"B":{"kind":"object","fields":{"a":{"type":{"kind":"ref","name":"A"}}}},"A":{"kind":"ref","name":"A"}}"#,
                vec!["B", "A"],
            ),
        ];
        for (types, names) in cases {
            let expected: Vec<String> = names.iter().map(|name| format!("/types/{name}: {ring}")).collect();
            assert_eq!(of_types(types), expected, "{types}");
        }
    }

    /// S-033: a long row of references is refused in no time and on no stack.
    #[test]
    fn s033_a_long_chain_is_refused_at_once() {
        let entry = |at: usize| format!(r#""T{at}":{{"kind":"ref","name":"T{}"}}"#, at + 1);
        let types: Vec<String> = (0..5_000).map(entry).collect();
        let found = of_types(&format!(r#"{{{},"T5000":{{"kind":"null"}}}}"#, types.join(",")));
        assert_eq!(found.len(), 65, "bounded, with a count of the rest");
        assert_eq!(found[64], format!("{} more problems are not listed", 5_000 - 32 - 64));
    }

    /// A contract says what it means: what nothing fits, and what is there twice, is a slip.
    #[test]
    fn types_that_nothing_fits_are_refused() {
        assert_eq!(
            of_types(
                r#"{"A":{"kind":"number","min":2,"max":1},"B":{"kind":"string","minLength":3,"maxLength":2},
                "C":{"kind":"union","options":[]},"D":{"kind":"decimal"},
                "E":{"kind":"union","options":[{"kind":"literal","value":"x"},{"kind":"literal","value":"x"}]}}"#
            ),
            [
                "/types/A: `min` is above `max`, so no number fits",
                "/types/B: `minLength` is above `maxLength`, so no text fits",
                "/types/C: a union without options, which nothing fits",
                "/types/D: unknown type kind \"decimal\"",
                "/types/E/options/1: the same literal as an option before it",
            ]
        );
    }

    /// S-033: inline nesting ends where values end; a million options are a list that is not read.
    #[test]
    fn s033_sizes_and_depths_are_bounded() {
        let nest = |levels: usize| {
            (0..levels)
                .fold(r#"{"kind":"null"}"#.to_owned(), |inner, _| format!(r#"{{"kind":"array","items":{inner}}}"#))
        };
        assert_eq!(of_types(&format!(r#"{{"A":{}}}"#, nest(32))), Vec::<String>::new());
        let deep = of_types(&format!(r#"{{"A":{}}}"#, nest(40)));
        assert!(
            deep.len() == 1 && deep[0].ends_with("nested deeper than 32 levels, which no value may be"),
            "{deep:?}"
        );
        assert_eq!(of_types(&format!(r#"{{"A":{}}}"#, nest(40))).len(), 1);
        let mut document = from_json(json(r#"{"namespaces":{},"types":{"A":{"kind":"union","options":[]}}}"#));
        let Value::Map(root) = &mut document else { panic!() };
        let Some(Value::Map(types)) = root.get_mut("types") else { panic!() };
        let Some(Value::Map(union)) = types.get_mut("A") else { panic!() };
        union.insert("options", vec![Value::Null; 1_000_000]);
        let found = Contract::parse_to_compare(&document).unwrap_err();
        assert_eq!(found[0].to_string(), "/types/A/options: 1000000 entries, and only 4096 are read");
        let methods: Vec<String> = (0..5_000).map(|at| format!(r#""m{at}":{{"params":[]}}"#)).collect();
        let found = problems(&format!(r#"{{"namespaces":{{"n":{{"methods":{{{}}}}}}}}}"#, methods.join(",")));
        assert_eq!(found, ["/namespaces/n/methods: 5000 entries, and only 4096 are read"]);
    }

    /// S-038: a pattern that cannot be run in linear time, or only as a huge program, is compared by its text but neither kept
    /// nor served; the reason is told, each with its place.
    #[test]
    fn s038_patterns_that_cannot_be_checked_are_not_served() {
        let document = |pattern: &str| {
            let node = serde_json::json!({"kind": "string", "pattern": pattern});
            from_json(serde_json::json!({"types": {"T": node}, "namespaces": {}}))
        };
        for (pattern, why) in [
            ("^(?=a)", "not checked here: the pattern looks ahead"),
            ("(?<!a)b", "not checked here: the pattern looks behind"),
            ("(a)\\1", "not checked here: the pattern refers back to a group"),
            ("((((a{99}){99}){99}){99})", "not checked here: too large"),
        ] {
            assert!(Contract::parse_to_compare(&document(pattern)).is_ok(), "{pattern}");
            let [problem] = &Contract::parse_to_serve(&document(pattern)).unwrap_err()[..] else { panic!("{pattern}") };
            assert_eq!(problem.pointer, "/types/T/pattern");
            assert!(problem.what.starts_with(why), "{pattern}: {}", problem.what);
        }
        let broken = Contract::parse_to_compare(&document("(a")).unwrap_err();
        assert_eq!(broken[0].to_string(), "/types/T/pattern: not a pattern: a group is not closed");
        // What backtracking engines explode on is an ordinary pattern here.
        assert!(Contract::parse_to_serve(&document("^(a+)+$")).is_ok());
    }

    /// What a method declares does not contradict itself.
    #[test]
    fn declarations_do_not_contradict_each_other() {
        let cases = [
            (
                r#"{"params":[],"semantics":"someday"}"#,
                "/semantics: expected query, idempotent-command or non-repeatable-command, got \"someday\"",
            ),
            (
                r#"{"params":[],"semantics":"idempotent-command","effect":"observe"}"#,
                "/effect: a command changes something, so its effect is not observe; what only looks is a query",
            ),
            (
                r#"{"params":[{"kind":"number"}],"semantics":"query","sets":"a"}"#,
                "/sets: a method that only observes sets nothing",
            ),
            (r#"{"params":[{"kind":"number"}],"sets":"b"}"#, "/sets: the component's state has no such path"),
            (
                r#"{"params":[{"kind":"number"}],"sets":"*"}"#,
                "/sets: a method that sets any path takes the path and the value",
            ),
            (r#"{"params":[{"kind":"any"},{"kind":"any"}],"paramNames":["x","x"]}"#, "/paramNames/1: there twice"),
            (
                r#"{"params":[],"returns":{"kind":"number"},"deferred":{"result":{"kind":"any"}}}"#,
                "/returns: a deferred method returns a receipt: an object with `id`, text, and `expiresAt`, a number",
            ),
            (
                r#"{"params":[],"deferred":{"result":{"kind":"ref","name":"X"}}}"#,
                "/deferred/result: unknown type \"X\"",
            ),
        ];
        for (method, problem) in cases {
            assert_eq!(of_method(method), [problem], "{method}");
        }
        for method in [
            r#"{"params":[{"kind":"number"}],"sets":"a","semantics":"idempotent-command","effect":"program"}"#,
            r#"{"params":[],"semantics":"query","effect":"security-admin"}"#,
            r#"{"params":[{"kind":"any"},{"kind":"any"}],"sets":"*"}"#,
        ] {
            assert_eq!(of_method(method), Vec::<String>::new(), "{method}");
        }
    }

    /// S-001: members can be named, and no name takes what belongs to the network.
    #[test]
    fn s001_names_can_be_called() {
        let document = r#"{"namespaces":{"":{"methods":{}},"$x":{"methods":{}},"a.b":{"methods":{"c.d":{"params":[]},
            "$data":{"params":[]},"on":{"params":[]}},"events":{"$snapshot":{"params":[]}},"capabilities":["@a/B","@a/B"]},
            "v":{"methods":{},"component":{"snapshot":2,"props":{"kind":"number"},"state":{"kind":"any"}},
                 "history":{"1":{"events":{}}}}}}"#;
        assert_eq!(
            problems(document),
            [
                "/namespaces/: the name of a namespace is empty",
                "/namespaces/$x: names that begin with $ are the network's own",
                "/namespaces/a.b/methods/c.d: the name of a method has no dot: what stands before the last dot is the namespace",
                "/namespaces/a.b/methods/$data: names that begin with $ are the network's own",
                "/namespaces/a.b/methods/on: a method of this name hides the subscription to what the namespace publishes",
                "/namespaces/a.b/events/$snapshot: names that begin with $ are the network's own",
                "/namespaces/a.b/capabilities/1: there twice",
                "/namespaces/v/component/snapshot: expected the number 1, the only form of snapshot known here",
                "/namespaces/v/component/props: a component publishes members, so this is an object or a record",
                "/namespaces/v/history/1: a namespace needs `methods`",
            ]
        );
    }
}
