//! Recorded scenes: what a serving peer heard and what it sent, message by message (sem-snapshots, sem-event-cursors),
//! and every recorded narrowing of a snapshot (sem-projections).

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{
    bench::{Bench, Given, request},
    recorded::{exposed, masked, oven_values},
};
use crate::{
    contract::{
        Event, Method, Semantics, ServedNamespace, Surface,
        testing::{surfaces, unordered, value},
    },
    node::state::{Commit, Exposed, Failure, Incoming, component::Component, projection::Projection},
    wire::{Map, Message, Value, frame::Answer, vectors},
};

/// Scenes of what this host does not do, by the reason.
const NOT_SERVED: [(&str, &str); 3] = [
    ("min publish interval 200 ms: burst", "every turn with a commit is published; there is no interval"),
    ("oversized snapshot is skipped", "the link says what is too large, and nothing is skipped silently"),
    ("next small commit publishes again", "follows the two above"),
];

/// A message of ours as the recordings write it.
fn shown(given: &Given) -> Value {
    let payload = match &given.frame.message {
        Message::Event { path, event, args, stamp } => {
            let mut shown = Map::new();
            shown.insert("type", "EVENT");
            shown.insert("event", event.as_str());
            shown.insert("params", args.clone());
            shown.insert("path", path.clone().unwrap());
            if let Some(stamp) = stamp {
                shown.insert("seq", i64::try_from(stamp.seq).unwrap());
                shown.insert("epoch", stamp.epoch.as_str());
            }
            shown
        }
        Message::Reply(reply) => {
            let mut shown = Map::new();
            shown.insert("id", String::from_utf8(reply.correlation.0.to_vec()).unwrap());
            match &reply.answer {
                Answer::Value(result) => {
                    shown.insert("type", "SUCCESS");
                    if let Some(result) = result {
                        shown.insert("result", result.clone());
                    }
                }
                Answer::Error(error) => {
                    shown.insert("type", "ERROR");
                    shown.insert("code", error.code.as_str());
                    let told = json!({"name": error.name, "message": error.message});
                    shown.insert("error", value(&told));
                }
                other => panic!("{other:?}"),
            }
            shown
        }
        Message::Request(request) => panic!("{request:?}"),
    };
    let mut shown = Map::new();
    shown.insert("to", given.frame.target.as_str());
    shown.insert("payload", payload);
    unordered(masked(shown.into()))
}

/// What a recorded message is to be.
fn recorded(message: &Json) -> Value {
    let mut shown = Map::new();
    shown.insert("to", message["to"].as_str().unwrap());
    shown.insert("payload", value(&message["payload"]));
    unordered(masked(shown.into()))
}

/// A recorded request arrives.
fn hear(bench: &mut Bench, message: &Json) {
    let payload = &message["payload"];
    let member = |key: &str| payload[key].as_str().unwrap();
    let Value::Array(args) = value(&payload["params"]) else { panic!("{payload}") };
    let mut request = request(member("id"), member("path"), member("method"), args);
    request.ttl = payload["ttl"].as_u64();
    bench.says(message["from"].as_str().unwrap(), Message::Request(request));
}

/// A scene: its requests arrive in turn, each runs, and what is sent must be what was. `acts` is what the host does by
/// itself, before the first message that is not an answer to a request, or at once when there is none.
fn play(bench: &mut Bench, scene: &Json, run: Run, acts: impl FnOnce(&mut Bench)) {
    let name = scene["name"].as_str().unwrap();
    let mut acts = Some(acts);
    let messages = scene["messages"].as_array().unwrap();
    let heard = |message: &Json| message["dir"] == "in";
    if !messages.first().is_some_and(heard) {
        acts.take().unwrap()(bench);
    }
    for message in messages {
        if heard(message) {
            assert!(bench.given.is_empty(), "{name}: sent more: {:?}", bench.given);
            hear(bench, message);
            for incoming in bench.runs() {
                let result = run(bench, &incoming);
                bench.ran(incoming.run, result);
            }
            continue;
        }
        if bench.given.is_empty()
            && let Some(acts) = acts.take()
        {
            acts(bench);
        }
        assert!(!bench.given.is_empty(), "{name}: not sent: {message}");
        assert_eq!(shown(&bench.given.remove(0)), recorded(message), "{name}");
    }
    assert!(bench.given.is_empty(), "{name}: sent more: {:?}", bench.given);
}

type Run = fn(&mut Bench, &Incoming) -> Result<Option<Value>, Failure>;

fn no_runs(_: &mut Bench, incoming: &Incoming) -> Result<Option<Value>, Failure> {
    panic!("{incoming:?} ran")
}

/// The state of the recorded oven, with some of it replaced.
fn state_with(bench: &mut Bench, changes: &[(&str, Value)]) {
    let server = &bench.state.server;
    let snapshot = server.snapshot("oven").unwrap();
    let Some(Value::Map(mut state)) = snapshot.get("state").cloned() else { panic!("{snapshot:?}") };
    for (key, value) in changes {
        state.insert(*key, value.clone());
    }
    bench.turn(|machine, _| machine.commit("oven", Commit::State(state)));
}

/// The methods of the recorded oven. What they commit is told before they are answered.
#[expect(clippy::unnecessary_wraps, reason = "methods of other peers fail")]
fn run_oven(bench: &mut Bench, incoming: &Incoming) -> Result<Option<Value>, Failure> {
    match incoming.method.as_str() {
        "setMode" => {
            state_with(bench, &[("mode", incoming.args[0].clone())]);
            Ok(Some(incoming.args[0].clone()))
        }
        "twice" => {
            let commit = |temperature: i64| {
                let (_, mut state) = oven_values();
                state.insert("mode", "heating");
                state.insert("temperature", temperature);
                Commit::State(state)
            };
            bench.turn(|machine, _| {
                machine.commit("oven", commit(21));
                machine.commit("oven", commit(22));
            });
            Ok(Some(2.into()))
        }
        other => panic!("{other} ran"),
    }
}

fn act(bench: &mut Bench, scene: &str) {
    match scene {
        "commit reaches both, narrowed for one" => state_with(bench, &[("temperature", 30.into())]),
        "lease expiry" => bench.advance(61),
        "host replaces props" => {
            let Value::Map(props) = value(&json!({"unit": "F", "maximum": 500})) else { panic!() };
            bench.turn(|machine, _| machine.commit("oven", Commit::Props(props)));
        }
        "commit after unsubscribe" => state_with(bench, &[("temperature", 31.into())]),
        "withdraw tells watchers" => {
            for event in ["$snapshot", "chime"] {
                bench.asked("observer", "oven2", "on", vec![event.into()]);
            }
            bench.given.clear();
            bench.turn(|machine, _| machine.withdraw("oven2"));
        }
        other => panic!("nothing is to be done in {other}"),
    }
}

/// S-071 aside, the whole life of a component: S-085, S-012, W-067 and semantics 7, 10.3.
#[test]
fn every_recorded_scene_of_a_component() {
    let surface = &surfaces()["component"];
    let mut bench = Bench::new("dev");
    let mut served = exposed(surface);
    let mut second = served[0].clone();
    second.name = "oven2".into();
    served.push(second);
    bench.serve(&Surface { types: Arc::default(), ..surface.clone() }, served);
    let mut not_served = Vec::new();
    for scene in vectors::list("sem-snapshots.json", "scenes") {
        let name = scene["name"].as_str().unwrap().to_owned();
        if NOT_SERVED.iter().any(|(listed, _)| *listed == name) {
            not_served.push(name);
            continue;
        }
        play(&mut bench, &scene, run_oven, |bench| act(bench, &name));
    }
    assert_eq!(not_served, NOT_SERVED.map(|(name, _)| name));
}

/// Of a burst of commits in turns of their own all are published, and a snapshot of any size is: what the scenes that
/// are not served would refuse.
#[test]
fn nothing_of_a_component_is_skipped() {
    let mut bench = Bench::new("dev");
    bench.serve(&Surface::default(), exposed(&surfaces()["component"]));
    bench.answered("observer", "oven", "on", vec!["$snapshot".into()]);
    bench.given.clear();
    for temperature in 0..5 {
        state_with(&mut bench, &[("temperature", temperature.into())]);
    }
    state_with(&mut bench, &[("log", "x".repeat(2_000_000).into())]);
    assert_eq!(bench.take().len(), 6);
}

fn emitter(name: &str, emitter: bool, events: &[&str]) -> Exposed {
    let declared = |name: &&str| Event { name: (*name).to_owned(), ..Event::default() };
    Exposed {
        name: name.into(),
        surface: ServedNamespace {
            name: name.into(),
            emitter,
            events: events.iter().map(declared).collect(),
            methods: vec![Method { semantics: Some(Semantics::Query), ..Method::undeclared("read") }].into(),
            ..ServedNamespace::default()
        },
        validate: false,
        component: None,
        mailbox: 1,
        path_writes: false,
    }
}

fn sirens(bench: &mut Bench) {
    let mut served = vec![emitter("siren", true, &["wail"]), emitter("jobs", false, &[])];
    served.extend(exposed(&surfaces()["component"]));
    bench.serve(&Surface { introspection: true, ..Surface::default() }, served);
}

/// Events with what they carry.
type Emissions = &'static [(&'static str, i64)];

/// What the host emits between the scenes, before the one named, and in it.
fn emitted(scene: &str) -> (Emissions, Emissions) {
    match scene {
        "cursor after two unwatched emissions" => (&[("wail", 1), ("wail", 2)], &[]),
        "delivery is stamped" => (&[], &[("wail", 3)]),
        "two in one turn" => (&[], &[("wail", 4), ("wail", 5)]),
        "cursor after a gap" => (&[("wail", 6)], &[]),
        "ad-hoc event: counting starts at the ask" => (&[("adhoc", 1)], &[]),
        "ad-hoc event counted from there" => (&[("adhoc", 2)], &[]),
        "ad-hoc event: counting starts at subscribe" => (&[("adhoc2", 1)], &[("adhoc2", 2)]),
        _ => (&[], &[]),
    }
}

/// S-063 to S-066, W-069: counting, stamping and asking how far.
#[test]
fn every_recorded_scene_of_event_counters() {
    let mut bench = Bench::new("dev");
    sirens(&mut bench);
    let first = bench.state.server.epoch().to_owned();
    let emit = |bench: &mut Bench, list: &[(&str, i64)]| {
        bench.turn(|machine, _| list.iter().for_each(|(event, n)| machine.emit("siren", event, &[(*n).into()])));
    };
    let scenes = vectors::list("sem-event-cursors.json", "scenes");
    assert_eq!(scenes.len(), 15);
    for scene in scenes {
        let name = scene["name"].as_str().unwrap();
        if name == "same peer after a restart" {
            bench = Bench::new("dev2");
            sirens(&mut bench);
            assert_ne!(bench.state.server.epoch(), first, "S-064");
        }
        let (before, within) = emitted(name);
        emit(&mut bench, before);
        play(&mut bench, &scene, no_runs, |bench| emit(bench, within));
    }
}

/// Every recorded narrowing (semantics 7.2).
#[test]
fn every_recorded_projection() {
    let file = vectors::file("sem-projections.json");
    let member = |key: &str| match value(&file["snapshot"][key]) {
        Value::Map(map) => map,
        other => panic!("{other:?}"),
    };
    let mut component = Component::new("e".into(), member("props"), member("state"));
    for _ in 0..3 {
        component.commit(Commit::State(member("state")));
    }
    assert_eq!(unordered(component.snapshot(None)), unordered(value(&file["snapshot"])));
    for case in vectors::list("sem-projections.json", "cases") {
        let projection = Projection::parse(Some(&value(&case["projection"]))).unwrap().unwrap();
        let narrowed = component.snapshot(Some(&projection));
        assert_eq!(unordered(narrowed), unordered(value(&case["expect"])), "{}", case["projection"]);
    }
    assert_eq!(Projection::parse(None).unwrap(), None);
    assert_eq!(Projection::parse(Some(&Value::Null)).unwrap(), None, "null is everything");
}

/// A projection is kept and sent with every snapshot: it is bounded, and an index is written as indices are.
#[test]
fn a_projection_is_bounded() {
    let many: Vec<Value> = (0..257).map(|_| vec![Value::from("state")].into()).collect();
    assert!(Projection::parse(Some(&many.into())).unwrap_err().contains("at most 256 entries"));
    let long = vec![vec![Value::from("state"), "x".repeat(70_000).into()].into()];
    assert!(Projection::parse(Some(&long.into())).unwrap_err().contains("bytes"));
    let mut state = Map::new();
    state.insert("list", vec![Value::from(10), 11.into()]);
    let component = Component::new("e".into(), Map::new(), state);
    for odd in ["01", "+1", "-1", "2"] {
        let path: Vec<Value> = vec![vec![Value::from("state"), "list".into(), odd.into()].into()];
        let snapshot = component.snapshot(Projection::parse(Some(&path.into())).unwrap().as_ref());
        assert_eq!(snapshot.get("state").unwrap().as_map().unwrap().iter().len(), 0, "{odd}");
    }
}
