//! The contract of the namespace `msgrpc`: what every peer that can be described serves (semantics 2).
//!
//! Written as code because a peer that serves it must describe it to the letter, and most of it is the type language
//! describing itself six times over.

use std::sync::LazyLock;

use super::{Contract, Effect, Semantics};
use crate::wire::{Map, Value};

/// The contract of `msgrpc`, its named types under the prefix `msgrpc.`.
///
/// Its methods have the effects that follow from their semantics. One for all peers of this process, made when the first
/// of them is described.
pub fn introspection() -> &'static Contract {
    static CONTRACT: LazyLock<Contract> = LazyLock::new(read);
    &CONTRACT
}

fn read() -> Contract {
    let mut namespace = Map::new();
    namespace.insert("methods", map(methods()));
    let mut document = Map::new();
    document.insert("schema", 1);
    document.insert("types", map(types()));
    document.insert("namespaces", map([("msgrpc", Value::Map(namespace))]));
    // The document is ours and a test reads it; a contract that did not parse would describe nothing.
    Contract::parse(&Value::Map(document)).unwrap_or_default()
}

fn methods() -> [(&'static str, Value); 4] {
    let topology = object([
        ("records", list(own("RpcTopologyRecord"))),
        ("place?", list(kind("string"))),
        ("capabilities", own("RpcTopologyCapabilities")),
    ]);
    let cursor = object([
        ("epoch", kind("string")),
        ("seq?", union([kind("null"), kind("number")])),
        ("since?", kind("number")),
    ]);
    let patch = vec![kind("string"), own("RpcTopologyPatch"), own("RpcTopologyMutation")];
    let (query, command) = (Semantics::Query, Semantics::IdempotentCommand);
    [
        ("topology", method(vec![], &[], topology, query)),
        ("updateTopology", method(patch, &["instance", "patch", "mutation"], own("RpcTopologyRecord"), command)),
        ("eventCursor", method(vec![kind("string"), kind("string")], &["namespace", "event"], cursor, query)),
        ("describe", method(vec![], &[], own("ServerDescription"), query)),
    ]
}

fn types() -> Vec<(&'static str, Value)> {
    let mut types = topology_types();
    types.extend(description_types());
    types.push(("msgrpc.TypeNode", type_node()));
    let field = object([("type", own("TypeNode")), ("optional?", kind("boolean"))]);
    types.push(("msgrpc.FieldNode", field));
    types.extend(resource_types());
    types.extend(member_types());
    types
}

fn topology_types() -> Vec<(&'static str, Value)> {
    vec![
        (
            "msgrpc.RpcTopologyRecord",
            object([
                ("ref", own("RpcRef")),
                ("parent?", reference_or_null()),
                ("owner?", reference_or_null()),
                ("parentEpoch", kind("string")),
                ("ownerEpoch", kind("string")),
                ("version", own("RpcTopologyVersion")),
                ("label?", kind("string")),
            ]),
        ),
        ("msgrpc.RpcRef", object([("peer", kind("string")), ("instance", kind("string"))])),
        ("msgrpc.RpcTopologyVersion", object([("epoch", kind("string")), ("revision", kind("number"))])),
        (
            "msgrpc.RpcTopologyCapabilities",
            object([
                ("authorityScope", literal("host")),
                ("cycleGuarantee", literal("detected")),
                ("reverseIndex", literal("eventual")),
                ("deletion", literal("tombstone")),
                ("durability", words(&["volatile", "durable"])),
            ]),
        ),
        (
            "msgrpc.RpcTopologyPatch",
            object([("parent?", reference_or_null()), ("owner?", reference_or_null()), ("label?", kind("string"))]),
        ),
        (
            "msgrpc.RpcTopologyMutation",
            object([("expectedVersion", own("RpcTopologyVersion")), ("reason?", kind("string"))]),
        ),
    ]
}

fn description_types() -> Vec<(&'static str, Value)> {
    let host = object([
        ("root", own("RpcRef")),
        ("parent?", reference_or_null()),
        ("owner?", reference_or_null()),
        ("place?", list(kind("string"))),
        ("label?", kind("string")),
        ("capabilities", own("RpcTopologyCapabilities")),
    ]);
    vec![
        (
            "msgrpc.ServerDescription",
            object([
                ("name", kind("string")),
                ("version?", kind("string")),
                ("validating", kind("boolean")),
                ("namespaces", list(own("DescribedNamespace"))),
                ("elevated?", list(own("RpcElevation"))),
                ("host?", host),
                ("types?", record(own("TypeNode"))),
            ]),
        ),
        (
            "msgrpc.DescribedNamespace",
            object([
                ("name", kind("string")),
                ("version?", kind("string")),
                ("className?", kind("string")),
                ("created", kind("boolean")),
                ("emitter", kind("boolean")),
                ("serialised?", kind("boolean")),
                ("component?", own("DescribedComponent")),
                ("topology?", own("DescribedTopology")),
                ("capabilities?", list(kind("string"))),
                ("methods", list(own("DescribedMethod"))),
                ("events", list(own("DescribedEvent"))),
            ]),
        ),
        (
            "msgrpc.DescribedComponent",
            object([
                ("props?", type_node()),
                ("state?", type_node()),
                ("subscribers", kind("number")),
                ("resources?", list(own("RpcDataResource"))),
            ]),
        ),
    ]
}

fn resource_types() -> Vec<(&'static str, Value)> {
    vec![
        (
            "msgrpc.RpcDataResource",
            object([
                ("path", list(kind("string"))),
                ("row?", type_node()),
                ("verbs", list(own("RpcDataMethod"))),
                ("shape?", words(&["list", "tree"])),
                ("label?", kind("string")),
                ("actions?", list(own("RpcDataAction"))),
            ]),
        ),
        ("msgrpc.RpcDataMethod", words(&["getList", "getOne", "getMany", "getManyReference"])),
        (
            "msgrpc.RpcDataAction",
            object([("method", kind("string")), ("label?", kind("string")), ("confirm?", kind("boolean"))]),
        ),
    ]
}

fn member_types() -> Vec<(&'static str, Value)> {
    let semantics = [Semantics::Query, Semantics::IdempotentCommand, Semantics::NonRepeatableCommand];
    let effects = [Effect::Observe, Effect::Operate, Effect::Program, Effect::SecurityAdmin];
    vec![
        (
            "msgrpc.DescribedTopology",
            object([
                ("parent?", reference_or_null()),
                ("owner?", reference_or_null()),
                ("parentEpoch", kind("string")),
                ("ownerEpoch", kind("string")),
                ("label?", kind("string")),
            ]),
        ),
        (
            "msgrpc.DescribedMethod",
            object([
                ("name", kind("string")),
                ("params?", list(own("TypeNode"))),
                ("paramNames?", list(kind("string"))),
                ("rest?", type_node()),
                ("returns?", type_node()),
                ("semantics?", words(&semantics.map(Semantics::as_str))),
                ("effect?", words(&effects.map(Effect::as_str))),
                ("sets?", kind("string")),
                ("requiresAuthority?", kind("boolean")),
            ]),
        ),
        (
            "msgrpc.DescribedEvent",
            object([("name", kind("string")), ("params?", list(own("TypeNode"))), ("subscribers", kind("number"))]),
        ),
        (
            "msgrpc.RpcElevation",
            object([
                ("capability", kind("string")),
                ("reason?", kind("string")),
                ("since?", kind("number")),
                ("until?", kind("number")),
                ("grantedBy?", kind("string")),
            ]),
        ),
    ]
}

/// The type language as a type: one object per kind.
fn type_node() -> Value {
    let bits = [Value::Bool(false), Value::Bool(true)].map(literal);
    let mut literals = vec![kind("null"), kind("string"), kind("number")];
    literals.extend(bits);
    union([
        node("any", vec![]),
        node("null", vec![]),
        node("boolean", vec![]),
        node("number", vec![("integer?", kind("boolean")), ("min?", kind("number")), ("max?", kind("number"))]),
        node(
            "string",
            vec![("pattern?", kind("string")), ("minLength?", kind("number")), ("maxLength?", kind("number"))],
        ),
        node("bytes", vec![("maxBytes?", kind("number"))]),
        node("date", vec![]),
        node("literal", vec![("value?", union(literals))]),
        node("array", vec![("items", own("TypeNode")), ("maxItems?", kind("number"))]),
        node("tuple", vec![("items", list(own("TypeNode")))]),
        node("object", vec![("fields", record(own("FieldNode"))), ("additional?", kind("boolean"))]),
        node(
            "record",
            vec![("values", own("TypeNode")), ("keyPattern?", kind("string")), ("maxEntries?", kind("number"))],
        ),
        node("union", vec![("options", list(own("TypeNode")))]),
        node("ref", vec![("name", kind("string"))]),
    ])
}

fn node(kind: &'static str, attributes: Vec<(&'static str, Value)>) -> Value {
    object([("kind", literal(kind))].into_iter().chain(attributes))
}

fn method(params: Vec<Value>, names: &[&str], returns: Value, semantics: Semantics) -> Value {
    let mut out = Map::new();
    out.insert("params", params);
    if !names.is_empty() {
        out.insert("paramNames", names.iter().map(|name| Value::from(*name)).collect::<Vec<Value>>());
    }
    out.insert("returns", returns);
    out.insert("semantics", semantics.as_str());
    Value::Map(out)
}

fn map(members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Map(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map>())
}

fn kind(kind: &'static str) -> Value {
    map([("kind", kind.into())])
}

fn own(name: &str) -> Value {
    map([("kind", "ref".into()), ("name", format!("msgrpc.{name}").into())])
}

fn literal(value: impl Into<Value>) -> Value {
    map([("kind", "literal".into()), ("value", value.into())])
}

fn list(items: Value) -> Value {
    map([("kind", "array".into()), ("items", items)])
}

fn record(values: Value) -> Value {
    map([("kind", "record".into()), ("values", values)])
}

fn union(options: impl Into<Vec<Value>>) -> Value {
    map([("kind", "union".into()), ("options", options.into().into())])
}

fn words(words: &[&str]) -> Value {
    union(words.iter().map(|word| literal(*word)).collect::<Vec<Value>>())
}

fn reference_or_null() -> Value {
    union([kind("null"), own("RpcRef")])
}

/// An object type; a name that ends in `?` is an optional field.
fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let fields = fields.into_iter().map(|(name, node)| match name.strip_suffix('?') {
        Some(name) => (name, map([("type", node), ("optional", true.into())])),
        None => (name, map([("type", node)])),
    });
    map([("kind", "object".into()), ("fields", map(fields))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Method;
    use crate::contract::testing::{value, vectors};

    /// S-023: the introspection namespace is as recorded, in the order recorded, since the shape prints it.
    #[test]
    fn s023_the_introspection_namespace_is_as_recorded() {
        let file = vectors(include_str!("../../tests/vectors/sem-msgrpc-contract.json"));
        assert_eq!(map(types()), value(&file["types"]));
        assert_eq!(map(methods()), value(&file["namespaces"]["msgrpc"]["methods"]));
        assert_eq!(file["namespaces"].as_object().unwrap().len(), 1);
        assert_eq!(file["schema"], 1);
    }

    /// S-024: it reads as a contract, and its effects follow from its semantics.
    #[test]
    fn s024_the_introspection_contract_reads() {
        let contract = introspection();
        assert_eq!((contract.types.len(), contract.unchecked.len()), (18, 0));
        let effects: Vec<Effect> = contract.namespaces[0].methods.iter().map(Method::effect).collect();
        assert_eq!(effects, [Effect::Observe, Effect::Operate, Effect::Observe, Effect::Observe]);
    }
}
