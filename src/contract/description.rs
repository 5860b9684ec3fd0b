//! What a live peer says about itself (semantics 2.1), read leniently: the peer may be old, odd or hostile, and a part
//! that cannot be read costs that part alone.

use std::collections::HashSet;

use super::document::read_declaration;
use super::parse::{Findings, Reader};
use super::{Component, Effect, Event, Method, Namespace, Problem, Types};
use crate::wire::{Map, Value};

/// The answer of `msgrpc.describe`.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The name the peer gives itself. Who answered is known from the wire, not from here.
    pub name: Option<String>,
    /// Contract version of the whole.
    pub version: Option<String>,
    /// Whether the peer checks arguments.
    pub validating: bool,
    /// The namespaces, in the order sent.
    pub namespaces: Vec<Namespace>,
    /// Named types.
    pub types: Types,
    /// Capabilities held for a time, as sent.
    pub elevated: Option<Value>,
    /// Where the host stands, as sent.
    pub host: Option<Value>,
    /// What could not be read, with where.
    pub problems: Vec<Problem>,
    /// Patterns that are not checked here, with the reason.
    pub unchecked: Vec<Problem>,
}

impl Description {
    /// Reads an answer. Entries whose name is missing or not text are skipped (W-076), absent parameters are undescribed
    /// (S-021), and everything left out is among the problems.
    ///
    /// # Errors
    ///
    /// When the answer is no map: then the peer has not described itself.
    pub fn parse(answer: &Value) -> Result<Self, Problem> {
        let mut reader = Reader::default();
        let Some(root) = answer.as_map() else {
            let what = format!("expected a description, got {}", super::validate::type_name(Some(answer)));
            return Err(Problem { pointer: String::new(), what });
        };
        let description = Self {
            name: reader.member(root, "name", Reader::text),
            version: reader.member(root, "version", Reader::text),
            validating: reader.member(root, "validating", Reader::flag).unwrap_or(false),
            namespaces: read_named(&mut reader, root, "namespaces", read_namespace),
            types: reader
                .member(root, "types", |reader, types| Some(reader.described_types(types)))
                .unwrap_or_default(),
            elevated: present(root, "elevated"),
            host: present(root, "host"),
            ..Self::default()
        };
        let Findings { problems, unchecked } = reader.finish();
        Ok(Self { problems, unchecked, ..description })
    }

    /// Holds what `other` says to the letter too together with it: many peers of a plant are of one make.
    pub(crate) fn hold_with(&mut self, other: &Self) {
        for namespace in &mut self.namespaces {
            if let Some(same) = other.namespace(&namespace.name).filter(|same| same.methods == namespace.methods) {
                namespace.methods = same.methods.clone();
            }
        }
        self.types.hold_with(&other.types);
    }

    /// The namespace called `name`.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.iter().find(|namespace| namespace.name == name)
    }
}

/// The member as sent, unless it is null.
fn present(map: &Map, key: &str) -> Option<Value> {
    map.get(key).filter(|value| **value != Value::Null).cloned()
}

/// Reads the list `key` of entries that have names. One without, and a second one of a name, is skipped.
fn read_named<T>(reader: &mut Reader, map: &Map, key: &str, read: impl Fn(&mut Reader, &str, &Map) -> T) -> Vec<T> {
    let entries = reader.member(map, key, |reader, value| {
        let mut seen = HashSet::new();
        let mut entries = Vec::new();
        for (at, entry) in reader.list(value, MAX_ENTRIES)?.iter().enumerate() {
            reader.at_index(at, |reader| {
                let name = entry.get("name").and_then(Value::as_str);
                let (Some(name), Some(map)) = (name, entry.as_map()) else {
                    return reader.problem("skipped: it has no name");
                };
                if !seen.insert(name) {
                    return reader.problem("skipped: its name was there before");
                }
                entries.push(read(reader, name, map));
            });
        }
        // Many descriptions are remembered, and each entry is large.
        entries.shrink_to_fit();
        Some(entries)
    });
    entries.unwrap_or_default()
}

fn read_namespace(reader: &mut Reader, name: &str, map: &Map) -> Namespace {
    let mut flag = |key: &str| reader.member(map, key, Reader::flag).unwrap_or(false);
    let (created, emitter, serialised) = (flag("created"), flag("emitter"), flag("serialised"));
    Namespace {
        name: name.to_owned(),
        version: reader.member(map, "version", Reader::text),
        class_name: reader.member(map, "className", Reader::text),
        created,
        emitter,
        serialised,
        component: reader.member(map, "component", read_component),
        topology: present(map, "topology"),
        capabilities: reader.member(map, "capabilities", Reader::texts).unwrap_or_default(),
        methods: read_named(reader, map, "methods", read_method).into(),
        events: read_named(reader, map, "events", read_event),
        validate: true,
        history: None,
    }
}

fn read_method(reader: &mut Reader, name: &str, map: &Map) -> Method {
    let mut method = read_declaration(reader, name, map);
    method.declared_effect = reader.member(map, "effect", |reader, word| Some(read_effect(reader, word)));
    method.requires_authority = reader.member(map, "requiresAuthority", Reader::flag).unwrap_or(false);
    method
}

/// An effect this build does not know counts as the greatest: to take it for a lesser one would open a door.
fn read_effect(reader: &mut Reader, value: &Value) -> Effect {
    let effect = value.as_str().and_then(Effect::parse);
    if effect.is_none() {
        reader.problem("an effect that is not known here, read as security-admin");
    }
    effect.unwrap_or(Effect::SecurityAdmin)
}

fn read_event(reader: &mut Reader, name: &str, map: &Map) -> Event {
    let params = reader.member(map, "params", Reader::nodes);
    Event { name: name.to_owned(), params, subscribers: subscribers(map), entry: None }
}

fn read_component(reader: &mut Reader, value: &Value) -> Option<Component> {
    let map = reader.map(value)?;
    Some(Component {
        props: reader.member(map, "props", |reader, node| Some(reader.node(node))),
        state: reader.member(map, "state", |reader, node| Some(reader.node(node))),
        subscribers: subscribers(map),
        resources: present(map, "resources"),
        entry: None,
    })
}

fn subscribers(map: &Map) -> u64 {
    map.get("subscribers").and_then(Value::as_i64).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}

/// Entries read of one list of a description.
const MAX_ENTRIES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::contract::testing::{json, value, vectors};
    use crate::contract::{Semantics, Sets, TypeNode};

    fn parse(text: &str) -> Description {
        Description::parse(&value(&json(text))).unwrap()
    }

    /// S-002: every recorded description reads without a problem but for the parts the recording abbreviates.
    #[test]
    fn s002_recorded_descriptions_read() {
        let file = vectors(include_str!("../../tests/vectors/sem-describe.json"));
        let peers = file["peers"].as_object().unwrap();
        let later = file["afterSubscribing"].as_object().unwrap();
        assert_eq!((peers.len(), later.len()), (7, 2));
        for (name, peer) in peers.iter().chain(later) {
            let description = Description::parse(&value(peer)).unwrap();
            assert_eq!(description.name.as_deref(), Some(name.as_str()));
            assert_eq!(description.namespaces.len(), peer["namespaces"].as_array().unwrap().len());
            let introspection = peer["namespaces"].as_array().unwrap().iter().position(|ns| ns["name"] == "msgrpc");
            let abbreviated = [format!("/namespaces/{}/", introspection.unwrap()), "/types/…".to_owned()];
            for problem in description.problems {
                assert!(
                    abbreviated.iter().any(|place| problem.pointer.starts_with(place.as_str())),
                    "{name}: {problem}"
                );
            }
        }
        let described = Description::parse(&value(&peers["component"])).unwrap();
        let oven = described.namespace("oven").unwrap();
        assert!(oven.topology.is_some() && oven.component.as_ref().unwrap().state.is_some());
        let (hold, set) = (oven.method("hold").unwrap(), oven.method("setMode").unwrap());
        assert!(hold.requires_authority && hold.params.is_none());
        assert_eq!(hold.semantics, Some(Semantics::IdempotentCommand));
        assert_eq!(set.sets, Some(Sets::Path("mode".to_owned())));
        let store = Description::parse(&value(&peers["store"])).unwrap();
        assert!(
            store.elevated.is_some()
                && store.namespace("docker").unwrap().component.as_ref().unwrap().resources.is_some()
        );
    }

    /// W-076, S-021: entries without a usable name are skipped, absent parameters are undescribed.
    #[test]
    fn w076_entries_without_names_are_skipped() {
        let description = parse(
            r#"{"namespaces":[5,{"name":"a","methods":[{"name":"m"},{"name":"n","params":[]},{"name":7},{"name":"m"}],
                "events":[{"subscribers":1},{"name":null},{"name":"e","subscribers":2}]},{"methods":[]}]}"#,
        );
        let a = description.namespace("a").unwrap();
        assert_eq!((description.namespaces.len(), a.methods.len(), a.events.len()), (1, 2, 1));
        assert!(a.method("m").unwrap().params.is_none());
        assert!(a.method("n").unwrap().params.as_ref().is_some_and(Vec::is_empty));
        assert_eq!((a.events[0].subscribers, a.events[0].params.is_none()), (2, true));
        let pointers: Vec<&str> = description.problems.iter().map(|problem| problem.pointer.as_str()).collect();
        let skipped = [
            "/namespaces/0",
            "/namespaces/1/methods/2",
            "/namespaces/1/methods/3",
            "/namespaces/1/events/0",
            "/namespaces/1/events/1",
            "/namespaces/2",
        ];
        assert_eq!(pointers, skipped);
    }

    /// S-024: an effect nobody here knows is not taken for a harmless one; a missing one follows the semantics.
    #[test]
    fn s024_unknown_effects_count_as_the_greatest() {
        let description = parse(
            r#"{"namespaces":[{"name":"a","methods":[{"name":"m","semantics":"query","effect":"dance"},
                {"name":"n","semantics":"query","effect":5},{"name":"o","semantics":"query"}]}]}"#,
        );
        let effect = |name: &str| description.namespace("a").unwrap().method(name).unwrap().effect();
        assert_eq!((effect("m"), effect("n")), (Effect::SecurityAdmin, Effect::SecurityAdmin));
        assert_eq!(effect("o"), Effect::Observe);
    }

    /// S-038: on a live peer an unchecked or broken pattern costs only its check, and is reported.
    #[test]
    fn s038_patterns_of_a_live_peer_are_reported() {
        let description = parse(
            r#"{"namespaces":[{"name":"a","methods":[{"name":"m","params":[{"kind":"string","pattern":"(?!x)"},
                {"kind":"string","pattern":"("}]}]}]}"#,
        );
        assert_eq!(description.unchecked[0].pointer, "/namespaces/0/methods/0/params/0/pattern");
        assert_eq!(description.problems[0].pointer, "/namespaces/0/methods/0/params/1/pattern");
        let method = description.namespace("a").unwrap().method("m").unwrap();
        let args = [Value::from("x"), Value::from("y")];
        assert_eq!(crate::contract::validate::before_sending(&args, method, &description.types), Ok(()));
    }

    /// S-038: patterns share one budget, so that many of them cost no more than a few; the rest is left unchecked.
    #[test]
    fn s038_patterns_of_one_document_share_a_budget() {
        let kinds = |pattern: fn(usize) -> String| {
            let node = |at: usize| format!(r#"{{"kind":"string","pattern":"{}"}}"#, pattern(at));
            let nodes: Vec<String> = (0..300).map(node).collect();
            parse(&format!(r#"{{"types":{{"T":{{"kind":"tuple","items":[{}]}}}}}}"#, nodes.join(",")))
        };
        assert_eq!(kinds(|at| format!("^P-{at}$")).unchecked.len(), 300 - 256);
        assert_eq!(kinds(|_| "^.{1,255}$".to_owned()).unchecked, [], "one pattern is compiled once");
        let large = kinds(|at| format!("^.{{1,255}}{at}$")).unchecked;
        assert_eq!((large.len(), large[64].to_string().as_str()), (65, "229 more unchecked patterns are not listed"));
    }

    /// Peers of one make cost their methods and types once; what differs is nobody else's.
    #[test]
    fn what_peers_say_alike_is_held_once() {
        let text = |max: u32, name: &str| {
            format!(
                r#"{{"name":"{name}","types":{{"T":{{"kind":"number","max":{max}}}}},
                "namespaces":[{{"name":"a","methods":[{{"name":"m","params":[{{"kind":"ref","name":"T"}}]}}]}},
                {{"name":"b","methods":[{{"name":"n","params":[{{"kind":"number","max":{max}}}]}}]}}]}}"#
            )
        };
        let (first, mut same, mut other) = (parse(&text(1, "p")), parse(&text(1, "q")), parse(&text(2, "r")));
        same.hold_with(&first);
        other.hold_with(&first);
        let together = |description: &Description, at: usize| {
            Arc::ptr_eq(&description.namespaces[at].methods, &first.namespaces[at].methods)
        };
        assert!(together(&same, 0) && together(&same, 1) && same.name.as_deref() == Some("q"));
        assert!(together(&other, 0) && !together(&other, 1));
        let TypeNode::Number { max, .. } = other.types.get("T").unwrap() else { panic!("not a number") };
        assert_eq!(*max, Some(2.0), "its own");
    }

    /// S-020: what is no map is no description.
    #[test]
    fn s020_an_answer_that_is_no_map_is_refused() {
        assert!(Description::parse(&Value::Null).is_err());
        assert!(parse("{}").namespaces.is_empty());
    }

    /// S-033: size and depth are bounded, and what falls over a bound is reported.
    #[test]
    fn s033_descriptions_are_bounded() {
        let name = |at: usize| Value::Map([("name".to_owned(), Value::from(format!("n{at}")))].into_iter().collect());
        let list = Value::Array((0..5000).map(name).collect());
        let wide = Description::parse(&Value::Map([("namespaces".to_owned(), list)].into_iter().collect())).unwrap();
        assert_eq!((wide.namespaces.len(), wide.problems.len()), (4096, 1));

        let mut deep = Value::Map([("kind".to_owned(), Value::from("any"))].into_iter().collect());
        for _ in 0..90 {
            deep = Value::Map(
                [("kind".to_owned(), Value::from("array")), ("items".to_owned(), deep)].into_iter().collect(),
            );
        }
        let types = Value::Map([("T".to_owned(), deep)].into_iter().collect());
        let deep = Description::parse(&Value::Map([("types".to_owned(), types)].into_iter().collect())).unwrap();
        assert_eq!(deep.problems.len(), 1);
    }

    const KINDS: &[&str] =
        &["any", "array", "object", "union", "ref", "string", "literal", "tuple", "record", "number", "date", "(a)\\1"];

    const KEYS: &[&str] = &[
        "name",
        "namespaces",
        "methods",
        "params",
        "kind",
        "items",
        "options",
        "fields",
        "type",
        "types",
        "values",
        "pattern",
        "events",
        "rest",
        "component",
        "state",
    ];

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_map(Value::Float),
            prop::sample::select(KINDS).prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                prop::collection::vec((prop::sample::select(KEYS), inner), 0..6).prop_map(|members| Value::Map(
                    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map>()
                )),
            ]
        })
    }

    proptest! {
        /// S-002: nothing a peer sends makes reading panic, nor checking against what was read.
        #[test]
        fn s002_any_answer_reads_or_is_refused(answer in any_value(), argument in any_value()) {
            if let Ok(description) = Description::parse(&answer) {
                for method in description.namespaces.iter().flat_map(|namespace| namespace.methods.iter()) {
                    let _ = crate::contract::validate::before_sending(
                        std::slice::from_ref(&argument), method, &description.types);
                    let _ = crate::contract::signature::line(method);
                }
            }
            let _ = crate::contract::Contract::parse(&answer);
        }
    }
}
