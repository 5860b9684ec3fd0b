//! Reads recorded vectors: JSON text as values, with the tags recordings use for what JSON lacks (semantics 3.2).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value as Json;

use super::context::{Axis, Change, Place, Provided, Ref, TokenId, Topology};
use super::parse::Reader;
use super::{Component, Contract, Method, Semantics, ServedNamespace, Sets, Surface, TypeNode, Types};
use crate::contract::document::read_declaration;
use crate::wire::{Map, PeerName, Value};

/// JSON text.
pub(crate) fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

/// A file of vectors.
pub(crate) fn vectors(text: &str) -> Json {
    json(text)
}

/// Whether this is the tag for a value that is not there.
pub(crate) fn is_undefined(json: &Json) -> bool {
    json.get("$undefined").is_some()
}

/// JSON as a value. What is not there becomes null in a list and nothing in a map, as it does on the wire.
pub(crate) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(bit) => Value::Bool(*bit),
        Json::Number(number) => number.as_i64().map_or_else(|| Value::Float(number.as_f64().unwrap()), Value::Int),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::Array(items.iter().map(value).collect()),
        Json::Object(members) => tagged(json).unwrap_or_else(|| {
            let kept = members.iter().filter(|(_, member)| !is_undefined(member));
            Value::Map(kept.map(|(key, member)| (key.clone(), value(member))).collect::<Map>())
        }),
    }
}

fn tagged(json: &Json) -> Option<Value> {
    let (tag, content) = json.as_object().filter(|members| members.len() == 1)?.iter().next()?;
    Some(match (tag.as_str(), content.as_str()) {
        ("$undefined", _) => Value::Null,
        ("$date", Some("1970-01-01T00:00:00.000Z")) => Value::Date(0),
        ("$date", Some("invalid")) => Value::Date(i64::MAX),
        ("$number", Some("-0")) => Value::Float(-0.0),
        ("$number", Some("NaN")) => Value::Float(f64::NAN),
        ("$number", Some("Infinity")) => Value::Float(f64::INFINITY),
        ("$number", Some("-Infinity")) => Value::Float(f64::NEG_INFINITY),
        ("$bytes", Some(hex)) => {
            let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            Value::Bytes((0..hex.len()).step_by(2).map(digit).collect::<Bytes>())
        }
        (tag, _) if tag.starts_with('$') => panic!("a tag the recordings do not explain: {tag}"),
        _ => return None,
    })
}

/// The value with the members of every map in the order of their names, to compare what has no order.
pub(crate) fn unordered(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(unordered).collect()),
        Value::Map(map) => {
            let mut members: Vec<_> = map.into_iter().map(|(key, member)| (key, unordered(member))).collect();
            members.sort_by(|left, right| left.0.cmp(&right.0));
            Value::Map(members.into_iter().collect())
        }
        other => other,
    }
}

/// A type from JSON text.
pub(crate) fn node(text: &str) -> TypeNode {
    Reader::default().node(&value(&json(text)))
}

/// A type from a vector.
pub(crate) fn node_of(json: &Json) -> TypeNode {
    Reader::default().node(&value(json))
}

/// Named types from a vector.
pub(crate) fn types_of(json: &Json) -> Types {
    Reader::default().types(&value(json))
}

/// A method as a description writes it; its name may be missing.
pub(crate) fn described_method(json: &Json) -> Method {
    let name = json["name"].as_str().unwrap_or_default().to_owned();
    read_declaration(&mut Reader::default(), &name, value(json).as_map().unwrap())
}

/// The peers of the recorded descriptions, as surfaces: their contracts, and by hand what no contract declares.
pub(crate) fn surfaces() -> HashMap<&'static str, Surface> {
    let file = vectors(include_str!("../../tests/vectors/sem-describe.json"));
    let schema = |name: &str| Contract::parse_to_serve(&value(&file["schemas"][name])).unwrap();
    let (described, component) = (schema("described"), schema("component"));

    let mut plant = ServedNamespace::declared(described.namespace("plant").unwrap(), "Plant");
    Arc::make_mut(&mut plant.methods).extend(["late", "boom", "coded", "enoent"].map(Method::undeclared));
    let fake = |namespace: &str, contract: &Contract| {
        let declared = ServedNamespace::declared(contract.namespace(namespace).unwrap(), "Fake");
        // The recorded fake observes no component (semantics 7.5).
        ServedNamespace { component: None, ..declared }
    };
    let fakes = vec![fake("plant", &described), fake("oven", &component)];
    let oven = oven(&component);
    let docker = ServedNamespace {
        emitter: true,
        component: Some(Component::default()),
        methods: vec![command("retry", Semantics::NonRepeatableCommand)].into(),
        ..bag("docker", "Docker", &[])
    };
    let odd = vec![
        ServedNamespace { serialised: true, ..bag("cell", "Serial", &["a"]) },
        ServedNamespace { created: true, ..bag("job1", "Job", &["go"]) },
        bag("manageRpc", "ManageRpc", &["createRpcInstance"]),
    ];
    let bare = vec![bag("plain", "Plain", &["ping", "add"]), bag("misc", "Object", &["zeta", "alpha"])];
    let types = |contract: &Contract| contract.types_entry.clone();
    let version = described.version.clone();
    HashMap::from([
        ("bare", surface("bare", bare)),
        (
            "described",
            Surface {
                version: version.clone(),
                validating: true,
                types: types(&described),
                ..surface("described", vec![plant])
            },
        ),
        (
            "component",
            Surface {
                validating: true,
                places: Some(placed_component().places().clone()),
                ..surface("component", vec![oven.clone()])
            },
        ),
        ("generic", Surface { validating: true, path_writes: true, ..surface("generic", vec![oven]) }),
        ("store", surface("store", vec![docker])),
        ("odd", surface("odd", odd)),
        ("fake1", Surface { version, validating: true, types: types(&described), ..surface("fake1", fakes) }),
    ])
}

fn oven(contract: &Contract) -> ServedNamespace {
    let mut oven = ServedNamespace::declared(contract.namespace("oven").unwrap(), "Oven");
    let declared = |name| command(name, Semantics::IdempotentCommand);
    let methods = Arc::make_mut(&mut oven.methods);
    methods.push(declared("twice"));
    methods.push(Method { sets: Some(Sets::Any), ..declared("set") });
    methods.push(Method { requires_authority: true, ..declared("hold") });
    oven
}

fn surface(name: &str, namespaces: Vec<ServedNamespace>) -> Surface {
    Surface { name: name.to_owned(), introspection: true, namespaces, ..Surface::default() }
}

fn bag(name: &str, class_name: &str, methods: &[&str]) -> ServedNamespace {
    ServedNamespace {
        name: name.to_owned(),
        class_name: class_name.to_owned(),
        methods: methods.iter().map(|name| Method::undeclared(*name)).collect::<Vec<_>>().into(),
        ..ServedNamespace::default()
    }
}

fn command(name: &str, semantics: Semantics) -> Method {
    Method { semantics: Some(semantics), ..Method::undeclared(name) }
}

/// A ref from its two halves.
pub(crate) fn at(peer: &str, instance: &str) -> Ref {
    Ref::new(PeerName::mqtt(peer).unwrap(), instance).unwrap()
}

/// A token a test means to exist.
pub(crate) fn token(id: &str) -> TokenId {
    TokenId::parse(id).unwrap()
}

/// Something provided to everybody.
pub(crate) fn provided(id: &str, instance: &str, axis: Axis, value: impl Into<Value>) -> Provided {
    Provided { token: token(id), instance: instance.into(), axis, value: value.into(), local: false }
}

/// Where the recorded component stands.
pub(crate) fn placed_component() -> Topology {
    let mut topology = Topology::new(PeerName::mqtt("component").unwrap(), "e").at(&["site-7", "hall-b"]);
    let place = |instance: &str, parent: Option<Ref>, owner: Option<Ref>, label: &str| {
        Change::Declare(Place { instance: instance.into(), parent, owner, label: Some(label.into()) })
    };
    for change in [
        place("$host", None, Some(at("mes", "line")), "Hall B"),
        Change::Parent("$host".into(), Some(at("described", "$host"))),
        place("line", Some(at("component", "$host")), None, "Line"),
        place("oven", Some(at("component", "line")), Some(at("mes", "batch-1")), "Ugn 3"),
    ] {
        topology.apply(change).unwrap();
    }
    topology
}

/// The two hosts of the recorded context as they stood at first.
pub(crate) fn recorded_hosts() -> HashMap<&'static str, Topology> {
    let place = |instance: &str, parent: Option<Ref>, owner: Option<Ref>| Place {
        instance: instance.into(),
        parent,
        owner,
        label: None,
    };
    let (edge_root, plant_root) = (at("edge", "$host"), at("plantHost", "$host"));
    let mut edge = Topology::new(edge_root.peer.clone(), "edge");
    let mut plant = Topology::new(plant_root.peer.clone(), "plant");
    for declared in [
        place("$host", Some(plant_root.clone()), None),
        place("machine", Some(edge_root), Some(at("plantHost", "line"))),
        place("arm", Some(at("edge", "machine")), None),
        place("dangling", Some(at("edge", "ghost")), None),
        place("orphan", None, None),
    ] {
        edge.declare(declared).unwrap();
    }
    plant.declare(place("line", Some(plant_root.clone()), None)).unwrap();
    for n in 0..=130 {
        let parent = if n == 0 { plant_root.clone() } else { at("plantHost", &format!("deep{}", n - 1)) };
        plant.declare(place(&format!("deep{n}"), Some(parent), None)).unwrap();
    }
    edge.apply(Change::Provide(provided("acme.note", "machine", Axis::Physical, "near"))).unwrap();
    let secret = Provided { local: true, ..provided("acme.secret", "$host", Axis::Physical, "s") };
    for one in [
        provided("acme.site", "$host", Axis::Physical, value(&json(r#"{"site":"site-7"}"#))),
        provided("acme.note", "$host", Axis::Physical, "far"),
        provided("acme.work-order", "line", Axis::Logical, value(&json(r#"{"workOrder":"WO-17"}"#))),
        secret,
    ] {
        plant.apply(Change::Provide(one)).unwrap();
    }
    HashMap::from([("edge", edge), ("plantHost", plant)])
}
