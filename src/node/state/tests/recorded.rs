//! Every recorded call, made of the recorded peers as this machine serves them.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::bench::{Bench, request};
use crate::{
    contract::{
        Surface, Types,
        testing::{placed_component, surfaces, types_of, unordered, value},
    },
    node::state::{Exposed, Failure, Incoming, MAILBOX},
    wire::{Map, Message, Value, frame::Answer, vectors},
};

/// Rows about what this machine does not serve, by the reason.
const NOT_SERVED: [(&str, &[&str]); 6] = [
    (
        "no collection of ours is declared beside the component",
        &["$data resource", "$data resource wrong verb", "$data unknown resource"],
    ),
    (
        "no instances are made on request",
        &["createRpcInstance", "createRpcInstance unknown class", "createRpcInstance name taken"],
    ),
    (
        "no topology of ours is changed by others",
        &[
            "updateTopology stale version",
            "updateTopology ok",
            "updateTopology unknown",
            "updateTopology remote parent",
            "updateTopology self parent",
            "updateTopology root to own",
            "updateTopology self owner",
        ],
    ),
    (
        "declared versions are not compared, and no contract is made compulsory",
        &["declared version 1 (narrowed)", "declared unknown version, rejected", "required: undescribed method"],
    ),
    ("refused by the caller before anything is sent: the verbs do that", &["bad timeout"]),
    ("an outcome of the caller, tested with the other ways a call ends", &["own timeout"]),
];

/// The state of the recorded store.
const DOCKER_STATE: &str = r#"{"jobs":{"j1":{"n":1},"j2":{"n":2}}}"#;

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn map(json: &str) -> Map {
    let Value::Map(map) = value(&serde_json::from_str(json).unwrap()) else { panic!("{json} is no map") };
    map
}

/// The first props and state of the recorded component.
pub(super) fn oven_values() -> (Map, Map) {
    let state = r#"{"temperature":20,"mode":"idle","zones":{"top":{"setpoint":1}},"tags":{"b":2,"a":1,"c":3}}"#;
    (map(r#"{"unit":"C","maximum":300}"#), map(state))
}

/// What a surface says it serves, as namespaces that do.
pub(super) fn exposed(surface: &Surface) -> Vec<Exposed> {
    let expose = |namespace: &crate::contract::ServedNamespace| Exposed {
        name: namespace.name.clone(),
        surface: namespace.clone(),
        validate: surface.validating,
        component: namespace
            .component
            .as_ref()
            .map(|_| if namespace.name == "docker" { (Map::new(), map(DOCKER_STATE)) } else { oven_values() }),
        mailbox: MAILBOX,
        path_writes: surface.path_writes,
    };
    surface.namespaces.iter().map(expose).collect()
}

/// The machine that serves a recorded surface.
pub(super) fn serving(surface: &Surface) -> Bench {
    let mut bench = Bench::down(&surface.name, &[super::bench::A]);
    bench.topology = (surface.name == "component").then(placed_component);
    let types: Types = types_of(&crate::wire::json::to_json(&Value::Map(Map::clone(&surface.types))).unwrap());
    bench.serve_typed(surface, types, exposed(surface));
    bench.up(super::bench::A);
    bench
}

/// The recorded methods. Their namespaces have different methods of one name on different peers.
fn run(peer: &str, incoming: &Incoming) -> Result<Option<Value>, Failure> {
    let first = || Ok(Some(incoming.args[0].clone()));
    let reading = |celsius: i64| {
        let mut reading = Map::new();
        reading.insert("celsius", celsius);
        Ok(Some(reading.into()))
    };
    match (peer, incoming.method.as_str()) {
        ("fake1", "read") => reading(84),
        ("fake1", "dispense") => Err(Failure::coded("Unauthorized", "plant.dispense is set to fail")),
        ("fake1", "writeSetpoint") => Ok(Some(0.into())),
        (_, "read") => reading(20),
        (_, "writeSetpoint" | "hold" | "setMode") => first(),
        (_, "set") => Ok(Some(incoming.args[1].clone())),
        (_, "late") => Ok(Some(1.into())),
        (_, "boom") => Err(Failure::exception("no")),
        (_, "coded") => Err(Failure::coded("Forbidden", "local mode")),
        (_, "enoent") => Err(Failure::coded("ENOENT", "nofile")),
        (_, "createRpcInstance") => Err(Failure::exception("nothing is behind it")),
        other => panic!("{other:?} ran"),
    }
}

/// The peer a row asks; some rows say it by who asks or what.
fn asked_peer(row: &Json) -> &str {
    let by_path = || if row["path"] == "oven" { "component" } else { "described" };
    row["peer"].as_str().unwrap_or_else(by_path)
}

fn answer(bench: &mut Bench, peer: &str, row: &Json) -> Option<Answer> {
    let args = match value(&row["args"]) {
        Value::Array(args) => args,
        other => panic!("{other:?}"),
    };
    let label = row["label"].as_str().unwrap();
    let mut request = request("", row["path"].as_str().unwrap(), row["method"].as_str().unwrap(), args);
    request.correlation = format!("{label}/{}", bench.now.unix_ms).into();
    request.fence = row["options"]["ownerEpoch"].as_str().map(str::to_owned);
    if label == "fence right" {
        // No two runs share the name of a link.
        request.fence = placed_component().places().owner_epoch("oven").map(str::to_owned);
    }
    request.version = label.starts_with("declared").then(|| "2".into());
    let correlation = request.correlation.clone();
    bench.now.unix_ms += 1;
    bench.says(row["as"].as_str().unwrap_or("caller"), Message::Request(request));
    for incoming in bench.runs() {
        let result = run(peer, &incoming);
        bench.ran(incoming.run, result);
    }
    bench.take_answer(&correlation)
}

/// Times and names of incarnations, which no two runs share.
pub(super) fn masked(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(masked).collect()),
        Value::Map(map) => {
            let mask = |(key, member): (String, Value)| {
                let member = match (key.as_str(), &member) {
                    ("epoch" | "parentEpoch" | "ownerEpoch", Value::Text(_)) => "an epoch".into(),
                    ("chainKey", Value::Map(keys)) => links_counted(keys),
                    ("expiresAt" | "since" | "ms", Value::Int(_)) => "a time".into(),
                    _ => masked(member),
                };
                (key, member)
            };
            Value::Map(map.into_iter().map(mask).collect())
        }
        other => other,
    }
}

/// How many links a chain key names on each axis.
fn links_counted(keys: &Map) -> Value {
    let count = |key: &Value| text(key).split('\0').filter(|link| !link.is_empty()).count();
    keys.iter().map(|(axis, key)| (axis.to_owned(), i64::try_from(count(key)).unwrap().into())).collect::<Map>().into()
}

/// A row's outcome, as a recording and as ours.
#[derive(Debug, PartialEq)]
enum Outcome {
    Result(Value),
    Error(String),
    Silence,
}

fn recorded(row: &Json) -> Outcome {
    match row.get("result") {
        Some(result) => Outcome::Result(unordered(masked(value(result)))),
        None => Outcome::Error(digits_masked(row["message"].as_str().unwrap(), row)),
    }
}

fn ours(answer: Option<Answer>, row: &Json) -> Outcome {
    match answer {
        Some(Answer::Value(result)) => Outcome::Result(unordered(masked(result.unwrap_or(Value::Null)))),
        Some(Answer::Error(error)) => Outcome::Error(digits_masked(&format!("{}: {}", error.code, error.message), row)),
        None => Outcome::Silence,
        other => panic!("{other:?}"),
    }
}

/// Only the refusal that tells until when somebody is in control holds a time.
fn digits_masked(message: &str, row: &Json) -> String {
    if row["label"] == "acquire while held" {
        message.chars().map(|digit| if digit.is_ascii_digit() { '0' } else { digit }).collect()
    } else {
        message.to_owned()
    }
}

/// S-007 to S-013, S-023, S-030, S-039, S-086, S-088, W-061, W-066, W-067.
#[test]
fn every_recorded_call_is_answered_as_recorded() {
    let surfaces = surfaces();
    let mut peers: BTreeMap<String, Bench> = BTreeMap::new();
    let mut not_served: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in vectors::list("sem-calls.json", "calls") {
        let label = row["label"].as_str().unwrap();
        let why = NOT_SERVED.iter().find(|(_, labels)| labels.contains(&label)).map(|(why, _)| *why);
        let peer = asked_peer(&row);
        let outcome = match surfaces.get(peer) {
            Some(surface) => {
                let bench = peers.entry(peer.to_owned()).or_insert_with(|| serving(surface));
                if why == Some(NOT_SERVED[4].0) { Outcome::Silence } else { ours(answer(bench, peer, &row), &row) }
            }
            // `mutable` and `strict` are hosts of features that ours lacks.
            None => Outcome::Silence,
        };
        if let Some(why) = why {
            assert_ne!(outcome, recorded(&row), "{label} is served");
            not_served.entry(why).or_default().push(label.to_owned());
        } else {
            assert_eq!(outcome, recorded(&row), "{label}");
        }
    }
    for (why, labels) in NOT_SERVED {
        let mut seen = not_served.remove(why).unwrap_or_default();
        let mut listed = labels.to_vec();
        seen.sort();
        listed.sort_unstable();
        assert_eq!(seen, listed, "{why}");
    }
}

/// The refusals in place of what is not served are the ordinary ones: nothing is half there.
#[test]
fn what_is_not_served_is_refused_in_the_ordinary_way() {
    let surfaces = surfaces();
    let mut component = serving(&surfaces["component"]);
    let made = component.answered("caller", "manageRpc", "createRpcInstance", vec!["Job".into()]);
    assert_eq!(super::bench::code(&made), "ClassNotFound");
}

/// Describing over the machine gives what the surface describes, and what the contract of `msgrpc` says; so do cursor
/// and topology (S-023 to S-026, W-043).
#[test]
fn introspection_answers_fit_their_own_contract() {
    let contract = crate::contract::introspection();
    let fits = |method: &str, answer: &Value| {
        let declared = contract.namespace("msgrpc").unwrap().method(method).unwrap();
        let returns = declared.returns.as_ref().unwrap();
        crate::contract::validate::value(answer, returns, &contract.types, method).unwrap();
    };
    let surfaces = surfaces();
    assert_eq!(surfaces.len(), 7);
    for (name, surface) in surfaces {
        let mut bench = serving(&surface);
        let ask = |bench: &mut Bench, method: &str, args: Vec<Value>| {
            let Answer::Value(Some(answer)) = bench.answered("caller", "msgrpc", method, args) else {
                panic!("{name} has no answer")
            };
            answer
        };
        let described = ask(&mut bench, "describe", vec![]);
        assert_eq!(described, crate::contract::describe(&surface), "{name}");
        fits("describe", &described);
        let cursor = ask(&mut bench, "eventCursor", vec!["plant".into(), "alarm".into()]);
        fits("eventCursor", &cursor);
        fits("topology", &ask(&mut bench, "topology", vec![]));
        let shape = crate::contract::shape::shape(&surface);
        assert_eq!(bench.announced.last(), Some(&Some(shape)), "{name}");
        for namespace in surface.namespaces.iter().filter(|namespace| namespace.emitter) {
            bench.answered("caller", &namespace.name, "on", vec!["adhoc".into()]);
            assert_eq!(Some(bench.state.server.shape()).as_ref(), bench.announced.last().unwrap().as_ref(), "{name}");
            let described = ask(&mut bench, "describe", vec![]);
            let shown = described.get("namespaces").unwrap().as_array().unwrap();
            let shown = shown.iter().find(|shown| text(shown.get("name").unwrap()) == namespace.name).unwrap();
            let adhoc = shown.get("events").unwrap().as_array().unwrap();
            assert!(adhoc.iter().any(|event| text(event.get("name").unwrap()) == "adhoc"), "{name}");
        }
    }
}
