//! `$context` and silence, served: every recorded scene, and the bounds of what others can make us hold.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::{
    bench::{A, Bench, code, event, ok, peer},
    recorded::masked,
    serving::bell,
    sim::{World, call},
};
use crate::{
    contract::{
        Surface,
        context::{Axis, Change, Topology},
        testing::{at, provided, recorded_hosts, token, unordered, value, vectors},
    },
    node::state::{Exposed, Failure},
    wire::{Map, Message, Value, frame::Answer},
};

fn host(name: &str, topology: Topology) -> Bench {
    let mut bench = Bench::new(name);
    bench.topology = Some(topology);
    bench.serve(&Surface { introspection: true, ..Surface::default() }, vec![bell(true)]);
    bench
}

fn edge() -> Bench {
    host("edge", recorded_hosts().remove("edge").unwrap())
}

fn changed(bench: &mut Bench, change: Change) {
    bench.turn(|state, _| state.change_topology(change)).unwrap();
}

fn site(value: &str) -> Change {
    let mut site = Map::new();
    site.insert("site", value);
    Change::Provide(provided("acme.site", "$host", Axis::Physical, site))
}

fn result(answer: &Answer) -> &Value {
    match answer {
        Answer::Value(Some(value)) => value,
        other => panic!("{other:?}"),
    }
}

/// What was pushed and nobody picked up yet: to whom, and what.
fn pushes(bench: &mut Bench) -> Vec<(String, Value)> {
    let given = std::mem::take(&mut bench.given);
    given
        .into_iter()
        .map(|given| match given.frame.message {
            Message::Event { path: Some(path), event, mut args, stamp: None } => {
                assert_eq!((path.as_str(), event.as_str(), args.len()), ("$context", "$context", 1));
                (given.frame.target.to_string(), args.remove(0))
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

/// What happened at a host before it pushed, by the scene and the number of the push.
fn happened(scene: &str, push: usize, bench: &mut Bench) {
    assert_eq!(scene, "subscribe, push, unsubscribe");
    match push {
        // Two changes in one turn are one push.
        0 => bench.turn(|state, _| {
            state.change_topology(site("site-8")).unwrap();
            state.change_topology(site("site-9")).unwrap();
        }),
        1 => {
            let (token, instance, axis) = (token("acme.site"), "$host".into(), Axis::Physical);
            changed(bench, Change::Withdraw { token, instance, axis });
        }
        other => panic!("{other}"),
    }
}

fn requests(payload: &Json) -> Vec<Json> {
    match payload["type"].as_str().unwrap() {
        "POST" => vec![payload.clone()],
        "BATCH" => payload["payloads"].as_array().unwrap().clone(),
        other => panic!("{other}"),
    }
}

/// S-093 and semantics 8.2: every recorded scene, request by request and push by push.
#[test]
fn s093_every_recorded_scene() {
    let file = vectors(include_str!("../../../../tests/vectors/sem-context.json"));
    let mut hosts: HashMap<&str, Bench> =
        recorded_hosts().into_iter().map(|(name, topology)| (name, host(name, topology))).collect();
    let mut seen = 0;
    for scene in file["scenes"].as_array().unwrap() {
        let name = scene["name"].as_str().unwrap();
        let plant = hosts.get_mut("plantHost").unwrap();
        match name {
            "remote reader: physical chain over two hosts" => changed(plant, site("again")),
            "remote reader: owner ring over two hosts" => {
                changed(plant, Change::Owner("line".into(), Some(at("edge", "machine"))));
            }
            _ => {}
        }
        let (mut answers, mut push) = (HashMap::new(), 0);
        for message in scene["messages"].as_array().unwrap() {
            let (bench, payload) = (hosts.get_mut(message["at"].as_str().unwrap()).unwrap(), &message["payload"]);
            if message["dir"] == "in" {
                for request in requests(payload) {
                    let Value::Array(args) = value(&request["params"]) else { panic!("{request}") };
                    let from = message["from"].as_str().unwrap();
                    let answer = bench.answered(from, "$context", request["method"].as_str().unwrap(), args);
                    answers.insert(request["id"].as_str().unwrap().to_owned(), answer);
                }
                continue;
            }
            seen += 1;
            if payload["type"] == "EVENT" {
                happened(name, push, bench);
                push += 1;
                let pushed = pushes(bench);
                assert_eq!(pushed.len(), 1, "{name}: what changes in one turn is pushed once");
                assert_eq!(unordered(masked(pushed[0].1.clone())), unordered(masked(value(&payload["params"][0]))));
            } else {
                let answer = answers.remove(payload["id"].as_str().unwrap()).unwrap();
                let (ours, recorded) = (result(&answer).clone(), value(&payload["result"]));
                assert_eq!(unordered(masked(ours)), unordered(masked(recorded)), "{name}");
            }
        }
        assert!(answers.is_empty(), "{name}");
    }
    assert!(seen > 50, "{seen}");
    assert!(hosts.values().all(|bench| bench.state.server.context_held() == 0));
}

/// Semantics 8.2: there is no enumeration, nor anything else.
#[test]
fn other_methods_are_not_exposed() {
    let mut bench = edge();
    for method in ["list", "on", "off", "describe", "$data"] {
        let answer = bench.answered("hmi", "$context", method, vec!["$context".into()]);
        let Answer::Error(error) = &answer else { panic!("{answer:?}") };
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("ClassNotFound", &*format!("$context.{method} is not exposed"))
        );
    }
    bench.says("hmi", event(Some("$context"), "$context", vec!["a lie".into()]));
}

fn tokens(ids: impl IntoIterator<Item = String>) -> Value {
    ids.into_iter().map(Value::from).collect::<Vec<_>>().into()
}

/// A namespace of that name, if one is exposed, goes before; and what a namespace is called says nothing of its place.
#[test]
fn an_exposed_namespace_goes_before() {
    let mut bench = edge();
    let exposed = Exposed { name: "$context".into(), ..bell(true) };
    bench.turn(|state, now| state.expose(exposed, "i".into(), now));
    assert_eq!(code(&bench.answered("hmi", "$context", "read", vec!["arm".into()])), "MethodNotFound");
}

/// What is asked for is bounded, and refused in words.
#[test]
fn what_is_asked_is_bounded() {
    let mut bench = edge();
    let many = |n: usize| tokens((0..n).map(|n| format!("acme.t{n}")));
    let long = || Value::from("x".repeat(1_025));
    for (method, args) in [
        ("read", vec!["arm".into(), many(65)]),
        ("read", vec!["arm".into(), tokens(["acme.a".into(), "acme.a".into()])]),
        ("read", vec!["arm".into(), tokens(["x".repeat(257)])]),
        ("read", vec!["arm".into(), vec![Value::Int(7)].into()]),
        ("read", vec![long()]),
        ("subscribe", vec![long(), "arm".into(), many(1)]),
        ("subscribe", vec!["".into(), "arm".into(), many(1)]),
        ("subscribe", vec![Value::Null, "arm".into(), many(1)]),
    ] {
        assert_eq!(code(&bench.answered("hmi", "$context", method, args)), "InvalidParams", "{method}");
    }
    let answer = bench.answered("hmi", "$context", "read", vec!["arm".into(), many(64)]);
    assert_eq!(result(&answer).get("tokens").unwrap().as_array().unwrap().len(), 64);
    assert_eq!(bench.answered("hmi", "$context", "unsubscribe", vec![]), ok("ok"));
    assert_eq!(bench.state.server.context_held(), 0);
}

fn watch(bench: &mut Bench, from: &str, id: &str) -> Answer {
    let args = vec![id.into(), "arm".into(), tokens(["acme.note".into()])];
    bench.answered(from, "$context", "subscribe", args)
}

/// S-071: a peer holds so many and all together so many; one that left holds none, and its place is free.
#[test]
fn s071_subscriptions_are_bounded_and_end_with_their_peer() {
    let mut bench = edge();
    for n in 0..64 {
        result(&watch(&mut bench, "greedy", &format!("s{n}")));
    }
    assert_eq!(code(&watch(&mut bench, "greedy", "one more")), "Busy");
    result(&watch(&mut bench, "greedy", "s5"));
    for n in 0..936 {
        result(&watch(&mut bench, &format!("p{}", n / 64), &format!("s{n}")));
    }
    assert_eq!(code(&watch(&mut bench, "late", "s")), "Busy");
    bench.offline("greedy");
    assert_eq!(bench.state.server.context_held(), 936);
    result(&watch(&mut bench, "late", "s"));
    for n in 0..15 {
        bench.offline(&format!("p{n}"));
    }
    bench.offline("late");
    assert_eq!(bench.state.server.context_held(), 0);
}

/// A push goes to those for whom something changed, with their own count; what is local moves nobody.
#[test]
fn a_push_goes_to_those_it_concerns() {
    let mut bench = edge();
    watch(&mut bench, "hmi", "note");
    watch(&mut bench, "mes", "note");
    let elsewhere = vec!["root".into(), "$host".into(), tokens(["acme.note".into()])];
    bench.answered("hmi", "$context", "subscribe", elsewhere);
    changed(&mut bench, Change::Provide(provided("acme.note", "machine", Axis::Physical, "nearer")));
    let pushed = pushes(&mut bench);
    let told: Vec<(&str, &Value)> =
        pushed.iter().map(|(to, push)| (to.as_str(), push.get("subscriptionId").unwrap())).collect();
    assert_eq!(told, [("hmi", &"note".into()), ("mes", &"note".into())]);
    let hidden =
        crate::contract::context::Provided { local: true, ..provided("acme.note", "arm", Axis::Physical, "secret") };
    changed(&mut bench, Change::Provide(hidden));
    changed(&mut bench, Change::Provide(provided("acme.other", "arm", Axis::Physical, "x")));
    changed(&mut bench, Change::Provide(provided("acme.note", "arm", Axis::Logical, "seen")));
    let pushed = pushes(&mut bench);
    assert_eq!(pushed.len(), 2, "{pushed:?}");
    assert!(pushed.iter().all(|(_, push)| push.get("snapshot").unwrap().get("seq") == Some(&Value::Int(2))));
    assert_eq!(bench.answered("hmi", "$context", "unsubscribe", vec!["note".into()]), ok("ok"));
    // The chain of everybody below the root is another one now.
    changed(&mut bench, Change::Parent("$host".into(), None));
    let to: Vec<String> = pushes(&mut bench).into_iter().map(|(to, _)| to).collect();
    assert_eq!(to, ["hmi", "mes"]);
}

/// What a method changed is told before its answer (wire.md 5.1).
#[test]
fn a_change_is_told_before_the_answer_of_its_method() {
    let mut bench = edge();
    watch(&mut bench, "hmi", "note");
    bench.asked("hmi", "bell", "pull", vec![]);
    let run = bench.runs().remove(0).run;
    bench.turn(|state, now| {
        state.change_topology(Change::Provide(provided("acme.note", "arm", Axis::Physical, "x"))).unwrap();
        state.handle_ran(run, Ok(None), now);
    });
    let kinds: Vec<bool> =
        bench.take().iter().map(|given| matches!(given.frame.message, Message::Event { .. })).collect();
    assert_eq!(kinds, [true, false]);
}

/// W-061: a fenced call runs under the owner its caller saw; one whose owner changed while it waited does not run.
#[test]
fn w061_a_fence_holds_until_the_method_runs() {
    let mut bench = edge();
    let place = crate::contract::context::Place { instance: "bell".into(), parent: None, owner: None, label: None };
    changed(&mut bench, Change::Declare(place));
    let topology = bench.answered("hmi", "msgrpc", "topology", vec![]);
    let records = result(&topology).get("records").unwrap().as_array().unwrap().to_vec();
    let record = records.iter().find(|record| record.get("ref").unwrap().get("instance") == Some(&"bell".into()));
    let seen = record.unwrap().get("ownerEpoch").unwrap().as_str().unwrap().to_owned();
    let fenced = |bench: &mut Bench, id: &str| {
        let mut request = super::bench::request(id, "bell", "pull", vec![]);
        request.fence = Some(seen.clone());
        bench.says("hmi", Message::Request(request));
    };
    fenced(&mut bench, "one");
    let run = bench.runs().remove(0).run;
    bench.ran(run, Err(Failure::exception("x")));
    changed(&mut bench, Change::Owner("bell".into(), None));
    fenced(&mut bench, "two");
    assert!(bench.runs().is_empty());
    let answer = bench.take_answer(&"two".into()).unwrap();
    assert_eq!(code(&answer), "OwnershipChanged", "a link that is set has a fresh epoch, even to the same");
}

/// A namespace that is silent counts on, so that whoever listens can know what it missed; it speaks again as it stands.
#[test]
fn a_silent_namespace_counts_on() {
    let mut bench = edge();
    let (_, oven) = super::recorded::oven_values();
    let exposed = Exposed { component: Some((Map::new(), oven)), ..bell(true) };
    bench.turn(|state, now| state.expose(exposed, "i".into(), now));
    bench.answered("hmi", "bell", "on", vec!["ring".into()]);
    bench.answered("hmi", "bell", "on", vec!["$snapshot".into()]);
    bench.take();
    bench.turn(|state, _| state.mute("bell", true));
    bench.turn(|state, _| state.emit("bell", "ring", &[]));
    bench.turn(|state, _| state.commit("bell", crate::node::state::Commit::State(Map::new())));
    assert_eq!(bench.answered("mes", "bell", "on", vec!["$snapshot".into()]), ok("ok"), "it is taken, and no more");
    assert!(bench.take().is_empty());
    bench.turn(|state, _| state.mute("bell", false));
    let told: Vec<(String, String)> = bench
        .take()
        .into_iter()
        .map(|given| match given.frame.message {
            Message::Event { event, .. } => (given.frame.target.to_string(), event),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [("hmi".into(), "$snapshot".into()), ("mes".into(), "$snapshot".into())]);
    bench.turn(|state, _| state.emit("bell", "ring", &[]));
    let given = bench.take().remove(0);
    assert_eq!((given.link, given.frame.target), (A, peer("hmi")));
    assert!(matches!(given.frame.message, Message::Event { stamp: Some(stamp), .. } if stamp.seq == 2));
}

/// W-061, W-064: also one whose owner changed while it waited for the command before it.
#[test]
fn w061_a_fence_is_checked_again_when_its_turn_comes() {
    let mut bench = edge();
    let mut exposed = bell(true);
    let ring = &mut std::sync::Arc::make_mut(&mut exposed.surface.methods)[0];
    ring.semantics = Some(crate::contract::Semantics::IdempotentCommand);
    bench.turn(|state, now| state.expose(exposed, "i".into(), now));
    let place = crate::contract::context::Place { instance: "bell".into(), parent: None, owner: None, label: None };
    changed(&mut bench, Change::Declare(place));
    bench.asked("hmi", "bell", "pull", vec![]);
    let topology = bench.answered("hmi", "msgrpc", "topology", vec![]);
    let records = result(&topology).get("records").unwrap().as_array().unwrap().to_vec();
    let bell = records.iter().find(|record| record.get("ref").unwrap().get("instance") == Some(&"bell".into()));
    let mut request = super::bench::request("waits", "bell", "pull", vec![]);
    request.fence = bell.unwrap().get("ownerEpoch").unwrap().as_str().map(str::to_owned);
    bench.says("hmi", Message::Request(request));
    let run = bench.runs().remove(0).run;
    assert!(bench.take_answer(&"waits".into()).is_none(), "it waits");
    changed(&mut bench, Change::Owner("bell".into(), Some(at("mes", "batch"))));
    bench.ran(run, Ok(None));
    assert!(bench.runs().is_empty());
    assert_eq!(code(&bench.take_answer(&"waits".into()).unwrap()), "OwnershipChanged");
}

/// What reached a watcher, by the sequence: answers to it and pushes, however they overtook each other.
fn newest(received: &[Value]) -> Option<&Value> {
    received.iter().max_by_key(|answer| answer.get("seq").and_then(Value::as_i64))
}

/// A watcher and the recorded plant host, with a network between them that reorders and doubles.
struct Watching {
    world: World,
    received: Vec<Value>,
    calls: u64,
}

impl Watching {
    fn begun() -> Self {
        let mut world = World::new(&["hmi", "plantHost"]);
        let topology = recorded_hosts().remove("plantHost");
        world.turn(1, |state| state.serve(crate::node::Serving { topology, ..Default::default() }));
        let mut this = Self { world, received: Vec::new(), calls: 0 };
        this.subscribe("acme.site");
        this
    }

    fn subscribe(&mut self, token: &str) {
        self.calls += 1;
        let args = vec!["s".into(), "line".into(), tokens([token.to_owned(), "acme.work-order".into()])];
        self.world.call(0, self.calls, call("plantHost", "$context", "subscribe", args));
    }

    /// Machines and links move what they hold; pushes that arrive are noted, for no listener of ours would hear them.
    fn pump(&mut self) {
        for at in [0, 1] {
            while self.world.pump_link(at) | self.world.pump_node(at) {}
        }
        for (_, outcome) in self.world.resolved(0) {
            self.received.push(outcome.unwrap().value.unwrap());
        }
    }

    fn deliver(&mut self, index: usize, again: bool) {
        let Some(index) = index.checked_rem(self.world.flying.len()) else { return };
        if let Message::Event { args, .. } = &self.world.flying[index].message {
            self.received.push(args[0].get("snapshot").unwrap().clone());
        }
        self.world.deliver(index, again);
        self.pump();
    }

    fn settle(&mut self) {
        self.pump();
        while !self.world.flying.is_empty() {
            self.deliver(0, false);
        }
    }

    /// The host as it stands, asked once more.
    fn truth(&mut self, token: &str) -> Value {
        self.subscribe(token);
        self.settle();
        self.received.pop().unwrap()
    }
}

fn without_seq(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Value::Map(map) = &mut answer {
        map.remove("seq");
    }
    answer
}

proptest! {
    /// However pushes and answers overtake each other, the one with the highest sequence is the host as it stands; a
    /// sequence never means two things; and nothing is held for a watcher that is gone.
    #[test]
    fn what_has_the_highest_sequence_is_what_stands(steps in prop::collection::vec((0..6_u8, 0..8_usize), 0..60)) {
        let mut watching = Watching::begun();
        let mut token = "acme.site";
        for (step, n) in steps {
            match step {
                0 => watching.world.turn(1, |state| state.change_topology(site(&n.to_string()))).unwrap(),
                1 => {
                    let owner = (n > 3).then(|| at("edge", &format!("i{n}")));
                    watching.world.turn(1, |state| state.change_topology(Change::Owner("line".into(), owner))).unwrap();
                }
                2 => {
                    let (token, instance, axis) = (crate::contract::testing::token("acme.site"), "$host".into(), Axis::Physical);
                    let gone = Change::Withdraw { token, instance, axis };
                    watching.world.turn(1, |state| state.change_topology(gone)).unwrap();
                }
                3 => {
                    token = if n > 3 { "acme.site" } else { "acme.note" };
                    watching.subscribe(token);
                    // Two requests of one watcher that overtake each other have no order to be right about.
                    watching.settle();
                }
                4 => watching.deliver(n, false),
                _ => watching.deliver(n, true),
            }
            watching.pump();
        }
        watching.settle();
        let newest = newest(&watching.received).cloned().unwrap();
        prop_assert_eq!(without_seq(&newest), without_seq(&watching.truth(token)));
        let mut told = std::collections::BTreeMap::new();
        for answer in &watching.received {
            let seq = answer.get("seq").and_then(Value::as_i64).unwrap();
            prop_assert_eq!(told.entry(seq).or_insert(answer), &answer);
        }
        watching.world.cut(0);
        watching.settle();
        prop_assert_eq!(watching.world.sides[1].state.server.context_held(), 0);
    }
}
