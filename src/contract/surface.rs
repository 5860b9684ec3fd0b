//! What a peer of ours serves, and how it describes that (semantics 2.1).
//!
//! A surface holds declarations and counts, never values (S-025). No elevation is part of it: our peers have none.

use std::sync::Arc;

use super::context::Places;
use super::introspection::introspection;
use super::text::by_code_unit;
use super::{Component, Effect, Event, Method, Namespace, Sets};
use crate::wire::{Map, Value};

/// All that one peer serves.
#[derive(Clone, Debug, Default)]
pub struct Surface {
    /// The peer's own name.
    pub name: String,
    /// Contract version of the whole, if it has one.
    pub version: Option<String>,
    /// Whether arguments are checked.
    pub validating: bool,
    /// Whether `msgrpc` is served. Its namespace and types need not be listed: they are always the same.
    pub introspection: bool,
    /// Whether methods that set any path are accepted; where they are refused, they are not described (S-024).
    pub path_writes: bool,
    /// What is served besides `msgrpc`.
    pub namespaces: Vec<ServedNamespace>,
    /// Named types as the contract writes them.
    pub types: Arc<Map>,
    /// Where the host and its instances stand; no part of the shape.
    pub places: Option<Places>,
}

/// One namespace that is served.
#[derive(Clone, Debug, Default)]
pub struct ServedNamespace {
    /// Its name.
    pub name: String,
    /// Class of the instance: `Fake` for a fake (S-126), `Object` for a bare bag of functions.
    pub class_name: String,
    /// Whether it was made on request.
    pub created: bool,
    /// Whether it can be subscribed to.
    pub emitter: bool,
    /// Whether its calls are declared to run one at a time.
    pub serialised: bool,
    /// Contract version.
    pub version: Option<String>,
    /// Methods, declared by a contract (with its entry) or not.
    pub methods: Arc<Vec<Method>>,
    /// Events: the declared ones, which have the contract's entry, and others that somebody is subscribed to, which have
    /// none and do not move the shape.
    pub events: Vec<Event>,
    /// Set when it publishes snapshots; with the contract's entry if there is one.
    pub component: Option<Component>,
    /// Package-qualified interface names.
    pub capabilities: Vec<String>,
}

impl ServedNamespace {
    /// A namespace served as its contract declares it, component included, with nobody subscribed.
    pub fn declared(namespace: &Namespace, class_name: impl Into<String>) -> Self {
        Self {
            name: namespace.name.clone(),
            class_name: class_name.into(),
            emitter: true,
            version: namespace.version.clone(),
            methods: namespace.methods.clone(),
            events: namespace.events.clone(),
            component: namespace.component.clone(),
            capabilities: namespace.capabilities.clone(),
            ..Self::default()
        }
    }

    /// The methods in the order they are described in (S-026).
    pub(crate) fn sorted_methods(&self) -> Vec<&Method> {
        let mut methods: Vec<&Method> = self.methods.iter().collect();
        methods.sort_by(|left, right| by_code_unit(&left.name, &right.name));
        methods
    }

    /// The events in the order they are described in; `$snapshot` is never among them (S-025).
    pub(crate) fn sorted_events(&self) -> Vec<&Event> {
        let mut events: Vec<&Event> = self.events.iter().filter(|event| event.name != SNAPSHOT_EVENT).collect();
        events.sort_by(|left, right| by_code_unit(&left.name, &right.name));
        events
    }
}

impl Surface {
    /// The namespaces in the order they are described in, with `own` among them (S-026).
    pub(crate) fn sorted_namespaces<'a>(&'a self, own: Option<&'a ServedNamespace>) -> Vec<&'a ServedNamespace> {
        let others = |namespace: &&ServedNamespace| own.is_none_or(|own| own.name != namespace.name);
        let mut namespaces: Vec<&ServedNamespace> = self.namespaces.iter().filter(others).chain(own).collect();
        namespaces.sort_by(|left, right| by_code_unit(&left.name, &right.name));
        namespaces
    }

    /// The namespace `msgrpc` as it is served, and its types.
    pub(crate) fn own(&self) -> Option<(ServedNamespace, Arc<Map>)> {
        let contract = self.introspection.then(introspection)?;
        let served = ServedNamespace::declared(contract.namespaces.first()?, "Introspection");
        Some((ServedNamespace { emitter: false, ..served }, contract.types_entry.clone()))
    }

    /// What `method` sets, if this host says so.
    pub(crate) fn sets<'m>(&self, method: &'m Method) -> Option<&'m str> {
        method.sets.as_ref().filter(|sets| self.path_writes || **sets != Sets::Any).map(Sets::as_str)
    }
}

/// The answer of `msgrpc.describe` for this surface.
pub fn describe(surface: &Surface) -> Value {
    let own = surface.own();
    let namespaces = surface.sorted_namespaces(own.as_ref().map(|(namespace, _)| namespace));
    let mut out = Map::new();
    out.insert("name", surface.name.as_str());
    insert_text(&mut out, "version", surface.version.as_deref());
    out.insert("validating", surface.validating);
    let described = |namespace: &&ServedNamespace| describe_namespace(surface, namespace);
    out.insert("namespaces", namespaces.iter().map(described).collect::<Vec<Value>>());
    out.insert("host", host(surface));
    let own = own.as_ref().map(|(_, types)| types.iter());
    let types = surface.types.iter().chain(own.into_iter().flatten());
    out.insert("types", types.map(|(name, node)| (name.to_owned(), node.clone())).collect::<Map>());
    Value::Map(out)
}

fn describe_namespace(surface: &Surface, namespace: &ServedNamespace) -> Value {
    let mut out = Map::new();
    out.insert("name", namespace.name.as_str());
    insert_text(&mut out, "version", namespace.version.as_deref());
    if namespace.serialised {
        out.insert("serialised", true);
    }
    out.insert("className", namespace.class_name.as_str());
    out.insert("created", namespace.created);
    out.insert("emitter", namespace.emitter);
    if let Some(component) = &namespace.component {
        let mut described = Map::new();
        copy_members(&mut described, component.entry.as_deref(), &["props", "state"]);
        described.insert("subscribers", count(component.subscribers));
        out.insert("component", described);
    }
    if let Some(record) = surface.places.as_ref().and_then(|places| places.described(&namespace.name)) {
        out.insert("topology", record);
    }
    if !namespace.capabilities.is_empty() {
        let mut names: Vec<&str> = namespace.capabilities.iter().map(String::as_str).collect();
        names.sort_by(|left, right| by_code_unit(left, right));
        out.insert("capabilities", names.into_iter().map(Value::from).collect::<Vec<Value>>());
    }
    let methods = namespace.sorted_methods();
    out.insert("methods", methods.into_iter().map(|method| describe_method(surface, method)).collect::<Vec<Value>>());
    out.insert("events", namespace.sorted_events().into_iter().map(describe_event).collect::<Vec<Value>>());
    Value::Map(out)
}

fn describe_method(surface: &Surface, method: &Method) -> Value {
    let mut out = Map::new();
    out.insert("name", method.name.as_str());
    copy_members(&mut out, method.entry.as_deref(), &["params", "paramNames", "rest", "returns"]);
    write_promises(&mut out, surface, method);
    Value::Map(out)
}

/// What a method promises besides its types, in the order descriptions and shapes share. The effect is always there, and
/// is the one enforced (S-024).
pub(crate) fn write_promises(out: &mut Map, surface: &Surface, method: &Method) {
    insert_text(out, "semantics", method.semantics.map(super::Semantics::as_str));
    insert_text(out, "effect", Some(Effect::as_str(method.effect())));
    insert_text(out, "sets", surface.sets(method));
    if method.requires_authority {
        out.insert("requiresAuthority", true);
    }
}

fn describe_event(event: &Event) -> Value {
    let mut out = Map::new();
    out.insert("name", event.name.as_str());
    copy_members(&mut out, event.entry.as_deref(), &["params"]);
    out.insert("subscribers", count(event.subscribers));
    Value::Map(out)
}

/// Where the host stands: a root, which may be part of another host's, and nothing that outlives the process.
fn host(surface: &Surface) -> Map {
    let mut root = Map::new();
    root.insert("peer", surface.name.as_str());
    root.insert("instance", "$host");
    let mut capabilities = Map::new();
    for (key, word) in HOST_CAPABILITIES {
        capabilities.insert(*key, *word);
    }
    let mut host = Map::new();
    host.insert("root", root);
    host.insert("parent", Value::Null);
    if let Some(places) = &surface.places {
        places.describe_host(&mut host);
    }
    host.insert("capabilities", capabilities);
    host
}

pub(crate) fn insert_text(out: &mut Map, key: &str, text: Option<&str>) {
    if let Some(text) = text {
        out.insert(key, text);
    }
}

fn copy_members(out: &mut Map, entry: Option<&Value>, keys: &[&str]) {
    for key in keys {
        if let Some(value) = entry.and_then(|entry| entry.get(key)) {
            out.insert(*key, value.clone());
        }
    }
}

fn count(subscribers: u64) -> i64 {
    i64::try_from(subscribers).unwrap_or(i64::MAX)
}

/// The event that carries snapshots; a channel of the component, not an event of the namespace.
const SNAPSHOT_EVENT: &str = "$snapshot";
const HOST_CAPABILITIES: &[(&str, &str)] = &[
    ("authorityScope", "host"),
    ("cycleGuarantee", "detected"),
    ("reverseIndex", "eventual"),
    ("deletion", "tombstone"),
    ("durability", "volatile"),
];

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;
    use crate::contract::Description;
    use crate::contract::testing::{surfaces, unordered, value, vectors};

    /// Takes out of a recorded description what no peer of ours has: elevation (`elevated`), and collections
    /// (`resources`); and the parts the recording itself abbreviates, which `the_introspection_namespace_is_as_recorded`
    /// covers.
    fn producible(recorded: &Json) -> Json {
        let mut recorded = recorded.clone();
        let root = recorded.as_object_mut().unwrap();
        root.remove("elevated");
        root["types"].as_object_mut().unwrap().remove("…");
        root["namespaces"].as_array_mut().unwrap().retain(|namespace| namespace["name"] != "msgrpc");
        for namespace in root["namespaces"].as_array_mut().unwrap() {
            if let Some(component) = namespace.get_mut("component") {
                component.as_object_mut().unwrap().remove("resources");
            }
            // No two runs share the name of a link.
            if let Some(topology) = namespace.get_mut("topology") {
                topology["parentEpoch"] = "…".into();
                topology["ownerEpoch"] = "…".into();
            }
        }
        recorded
    }

    fn mask_links(namespace: &mut Value) {
        let Value::Map(namespace) = namespace else { return };
        if let Some(Value::Map(topology)) = namespace.get_mut("topology") {
            topology.insert("parentEpoch", "…");
            topology.insert("ownerEpoch", "…");
        }
    }

    fn described(surface: &Surface) -> Value {
        let Value::Map(mut answer) = describe(surface) else { panic!("a description is a map") };
        let namespaces = answer.get("namespaces").and_then(Value::as_array).unwrap().to_vec();
        let others = namespaces.into_iter().filter(|ns| ns.get("name") != Some(&Value::from("msgrpc")));
        let mut others: Vec<Value> = others.collect();
        others.iter_mut().for_each(mask_links);
        answer.insert("namespaces", others);
        let types = answer.get("types").and_then(Value::as_map).unwrap().clone();
        let named = types.into_iter().filter(|(name, _)| !name.starts_with("msgrpc."));
        answer.insert("types", named.collect::<Map>());
        unordered(Value::Map(answer))
    }

    /// S-024, S-025, S-026: every recorded description, as far as a peer of ours can give it.
    #[test]
    fn s024_every_recorded_description() {
        let file = vectors(include_str!("../../tests/vectors/sem-describe.json"));
        let mut known = surfaces();
        let peers = file["peers"].as_object().unwrap();
        for (name, recorded) in peers {
            let surface = known.remove(name.as_str()).unwrap_or_else(|| panic!("no surface for {name}"));
            assert_eq!(described(&surface), unordered(value(&producible(recorded))), "{name}");
        }
        assert!(known.is_empty());
    }

    /// S-025: after subscribing, counts move, undeclared events appear, and `$snapshot` does not.
    #[test]
    fn s025_descriptions_after_subscribing() {
        let file = vectors(include_str!("../../tests/vectors/sem-describe.json"));
        let mut known = surfaces();
        let mut described_surface = known.remove("described").unwrap();
        let plant = described_surface.namespaces.iter_mut().find(|ns| ns.name == "plant").unwrap();
        plant.events.iter_mut().find(|event| event.name == "alarm").unwrap().subscribers = 1;
        plant.events.push(Event { name: "adhoc".to_owned(), subscribers: 1, ..Event::default() });
        let mut component_surface = known.remove("component").unwrap();
        let oven = &mut component_surface.namespaces[0];
        oven.component.as_mut().unwrap().subscribers = 1;
        oven.events.push(Event { name: "$snapshot".to_owned(), subscribers: 1, ..Event::default() });
        let later = file["afterSubscribing"].as_object().unwrap();
        assert_eq!(later.len(), 2);
        assert_eq!(described(&described_surface), unordered(value(&producible(&later["described"]))));
        assert_eq!(described(&component_surface), unordered(value(&producible(&later["component"]))));
    }

    /// S-023: what we say about ourselves reads back without a problem, introspection included.
    #[test]
    fn s023_our_descriptions_read_back() {
        for (name, surface) in surfaces() {
            let description = Description::parse(&describe(&surface)).unwrap();
            assert_eq!(description.problems, [], "{name}");
            assert_eq!(description.name.as_deref(), Some(name));
            assert_eq!(description.namespace("msgrpc").unwrap().methods.len(), 4);
            assert!(description.types.get("msgrpc.ServerDescription").is_some());
        }
        let silent = Surface { name: "silent".to_owned(), ..Surface::default() };
        assert!(Description::parse(&describe(&silent)).unwrap().namespaces.is_empty());
    }

    /// S-023: our description satisfies the type that introspection declares for it.
    #[test]
    fn s023_our_descriptions_have_the_declared_type() {
        let own = introspection();
        let returns = own.namespaces[0].method("describe").unwrap().returns.clone().unwrap();
        for surface in surfaces().values() {
            let checked = crate::contract::validate::value(&describe(surface), &returns, &own.types, "");
            assert_eq!(checked, Ok(()));
        }
    }
}
