//! A plant in memory: one peer that serves a contract, and a bridge that reaches it, with the real tools in front.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use plantbridge::{
    contract::{Contract, ServedNamespace},
    link::Link,
    node::{Commit, Exposed, Failure, Identity, Incoming, Node, Service, ServiceFuture, Serving, state::MAILBOX},
    plant::{Plant, Settings},
    wire::{Map, PeerName, Value, json::from_json},
};
use serde_json::{Value as Json, json};

use crate::over::{Over, meets};

/// What the peer declares: one namespace of methods, two components, one that declares nothing.
pub(crate) fn contract() -> Json {
    json!({"schema": 1, "version": "7",
        "types": {"Mode": {"kind": "union", "options": [{"kind": "literal", "value": "idle"}, {"kind": "literal", "value": "fill"}]}},
        "namespaces": {
            "scale": {"version": "2", "capabilities": ["@plant/contracts/Scale"], "methods": {
                "read": {"params": [], "returns": {"kind": "number"}, "semantics": "query"},
                "add": {"params": [{"kind": "number", "max": 100}, {"kind": "number"}], "paramNames": ["a", "b"],
                        "returns": {"kind": "number"}, "semantics": "query"},
                "label": {"params": [{"kind": "string"}, {"kind": "union", "options": [{"kind": "string"}, {"kind": "literal", "value": null}]}],
                          "paramNames": ["text", "colour"], "semantics": "idempotent-command"},
                "tare": {"params": [], "semantics": "non-repeatable-command"},
                "stamp": {"params": [{"kind": "date"}, {"kind": "bytes"}], "returns": {"kind": "any"}, "semantics": "query"},
                "refuse": {"params": [{"kind": "string"}], "semantics": "idempotent-command"},
                "reset": {"params": [], "effect": "security-admin"}},
                "events": {"weight": {"params": [{"kind": "number"}]}}},
            "tank": {"methods": {
                "setLevel": {"params": [{"kind": "number", "min": 0}], "semantics": "idempotent-command", "sets": "level"},
                "setMode": {"params": [{"kind": "ref", "name": "Mode"}], "semantics": "idempotent-command", "sets": "mode"},
                "setTop": {"params": [{"kind": "number"}], "semantics": "idempotent-command", "sets": "zones.top"},
                "setA": {"params": [{"kind": "number"}], "semantics": "idempotent-command", "sets": "both"},
                "setB": {"params": [{"kind": "number"}], "semantics": "idempotent-command", "sets": "both"}},
                "component": {"snapshot": 1,
                    "props": {"kind": "object", "fields": {"unit": {"type": {"kind": "string"}}}},
                    "state": {"kind": "object", "fields": {
                        "level": {"type": {"kind": "number", "min": 0}},
                        "mode": {"type": {"kind": "ref", "name": "Mode"}},
                        "both": {"type": {"kind": "number"}},
                        "zones": {"type": {"kind": "object", "fields": {"top": {"type": {"kind": "number"}}}}},
                        "tags": {"type": {"kind": "record", "values": {"kind": "number"}}}}}}}}})
}

/// The program behind the peer: notes what ran, clamps what it sets.
#[derive(Debug, Default)]
pub(crate) struct Works {
    pub(crate) ran: Mutex<Vec<(String, Vec<Value>)>>,
    /// Whether `tare` runs and never ends.
    pub(crate) holds: AtomicBool,
    state: Mutex<HashMap<String, Value>>,
}

impl Service for Works {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        self.ran.lock().unwrap().push((call.method.clone(), call.args.clone()));
        let first = call.args.first().cloned().unwrap_or(Value::Null);
        let done = match call.method.as_str() {
            "tare" if self.holds.load(Ordering::Relaxed) => return Box::pin(std::future::pending()),
            "read" => Ok(Some(Value::Int(42))),
            "add" => {
                let sum: f64 = call.args.iter().filter_map(Value::as_f64).sum();
                Ok(Some(Value::Float(sum)))
            }
            "stamp" => Ok(Some(Value::Array(call.args))),
            "refuse" => Err(Failure::coded(first.as_str().unwrap_or_default(), "as it was told to")),
            "setLevel" => {
                let level = first.as_f64().unwrap_or_default().min(500.0);
                self.state.lock().unwrap().insert("level".into(), level.into());
                let state = self.snapshot();
                return Box::pin(async move {
                    node.commit("tank", Commit::State(state)).await;
                    Ok(Some(level.into()))
                });
            }
            _ => Ok(None),
        };
        Box::pin(std::future::ready(done))
    }
}

impl Works {
    fn snapshot(&self) -> Map {
        let mut state = first_state();
        for (name, value) in self.state.lock().unwrap().iter() {
            state.insert(name.as_str(), value.clone());
        }
        state
    }
}

fn first_state() -> Map {
    let state = json!({"level": 10, "mode": "idle", "both": 1, "zones": {"top": 3}, "tags": {"line.1": 7}});
    map(&state)
}

fn map(json: &Json) -> Map {
    let Value::Map(map) = from_json(json.clone()) else { panic!("a map") };
    map
}

/// The peer `works`, over this link.
pub(crate) fn serve(link: Link, works: &Arc<Works>, state: Option<Json>) -> Node {
    serve_as("works", vec![link], works, state)
}

/// The same peer under another name, or over other links.
pub(crate) fn serve_as(me: &str, links: Vec<Link>, works: &Arc<Works>, state: Option<Json>) -> Node {
    let contract = Contract::parse(&from_json(contract())).unwrap();
    let exposed = contract.namespaces.iter().map(|namespace| {
        let state = state.as_ref().map_or_else(first_state, map);
        let component = namespace.component.as_ref().map(|_| (map(&json!({"unit": "l"})), state));
        let exposed = Exposed {
            name: namespace.name.clone(),
            surface: ServedNamespace::declared(namespace, "Works"),
            validate: true,
            component,
            mailbox: MAILBOX,
            path_writes: false,
        };
        let service: Arc<dyn Service> = works.clone();
        (exposed, service)
    });
    let identity = Identity {
        name: PeerName::configured(me).unwrap(),
        serving: Serving {
            version: contract.version.clone(),
            types: contract.types.clone(),
            types_entry: contract.types_entry.clone(),
            introspection: true,
            topology: None,
        },
        exposed: exposed.collect(),
    };
    Node::start(identity, links).0
}

/// A bridge over this link.
pub(crate) fn bridge(links: Vec<Link>, read_only: bool) -> Plant {
    bridge_over(links, read_only).0
}

/// The same, with its own peer.
pub(crate) fn bridge_over(links: Vec<Link>, read_only: bool) -> (Plant, Node) {
    let name = PeerName::configured("bridge").unwrap();
    let identity = Identity { name, serving: Serving::default(), exposed: Vec::new() };
    let call_timeout = Duration::from_secs(5);
    let settings = Settings { read_only, call_timeout, link_names: vec!["memory".into()] };
    let node = Node::start(identity, links).0;
    (Plant::new(node.clone(), settings), node)
}

/// The peer and the bridge, joined over what the test chose; they have met.
pub(crate) async fn joined(read_only: bool, state: Option<Json>) -> (Plant, Arc<Works>, Node) {
    joined_over(Over::chosen(), read_only, state).await
}

/// The peer and the bridge, joined over this kind of link; they have met.
pub(crate) async fn joined_over(over: Over, read_only: bool, state: Option<Json>) -> (Plant, Arc<Works>, Node) {
    let (ours, theirs) = over.pair("bridge", "works").await;
    let works = Arc::new(Works::default());
    let node = serve(theirs, &works, state);
    let (plant, bridge) = bridge_over(vec![ours], read_only);
    meets(&bridge, "works").await;
    (plant, works, node)
}
