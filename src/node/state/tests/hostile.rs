//! Every hostile publish, from the packet through the machine to the packets of the answers (W-010 to W-068).

use serde_json::{Value as Json, json};

use super::bench::{Bench, peer};
use crate::{
    contract::{Method, Semantics, ServedNamespace, Surface},
    link::LinkEvent,
    node::state::{Exposed, Incoming, MAILBOX, tests::bench::A},
    wire::{
        Prefix, Topics, Value,
        mqtt::{self, Publish},
        vectors::{self, Hostile},
    },
};

/// What a recorded responder is set up with that ours does not have: nobody is authorised or identified here.
const NOT_SERVED: [&str; 3] = ["authorizer refuses", "authorizer throws", "identity required"];

/// What came of one vector.
#[derive(Debug, PartialEq)]
struct Outcome {
    invocations: u64,
    replies: Vec<Json>,
}

/// What ours does better, with what it does instead.
fn deviations() -> Vec<(&'static str, Outcome)> {
    let result = |topic: &str, correlation: &str, content: &str, payload: &str| {
        json!({"topic": topic, "kind": "result", "correlationHex": correlation, "contentType": content,
            "payloadHex": payload})
    };
    let read = |correlation: &str, topic: &str| result(topic, correlation, "application/msgpack", "a178");
    let once = |reply| Outcome { invocations: 1, replies: vec![reply] };
    let (hmi, other) = ("msgrpc/v2/rsp/hmi", "msgrpc/v2/rsp/other");
    vec![
        // W-052: answers go to reply topics and nowhere else.
        ("response topic msgrpc/v2/presence/other", Outcome { invocations: 0, replies: vec![] }),
        ("response topic msgrpc/v2/req/plantServer", Outcome { invocations: 0, replies: vec![] }),
        // W-051: the correlation comes back as it came.
        ("binary correlation (not UTF-8)", once(read("00ff80c3289f9e01a0b0c0d0e0f01020", hmi))),
        ("correlation with BOM", once(read("efbbbf61", hmi))),
        // W-062, W-063: nothing is `null` in JSON, and no error with a stack.
        ("json call of a void method", once(result(hmi, "632d31", "application/json", "6e756c6c"))),
        // W-060: another peer is never handed somebody else's answer; its own call runs.
        (
            "same correlation from another peer",
            Outcome { invocations: 2, replies: vec![read("632d31", hmi), read("632d31", other)] },
        ),
    ]
}

fn plant(serial: bool) -> Exposed {
    let semantics = serial.then_some(Semantics::IdempotentCommand);
    let method = |name: &&str| Method { semantics, ..Method::undeclared(*name) };
    Exposed {
        name: "plant".into(),
        surface: ServedNamespace {
            name: "plant".into(),
            class_name: "Plant".into(),
            emitter: true,
            methods: ["read", "nothing", "slow"].iter().map(method).collect::<Vec<_>>().into(),
            ..ServedNamespace::default()
        },
        validate: false,
        component: None,
        mailbox: MAILBOX,
        path_writes: false,
    }
}

fn topics() -> Topics {
    Topics::new(&Prefix::default(), peer("plantServer")).unwrap()
}

fn arrives(bench: &mut Bench, publish: Publish) {
    if let Ok(frame) = mqtt::decode(publish, &topics()) {
        bench.link(A, LinkEvent::Frame(Box::new(frame)));
    }
}

/// Ends what runs, as the recorded methods do.
fn run(bench: &mut Bench, runs: Vec<Incoming>) -> u64 {
    let mut count = 0;
    for incoming in runs {
        count += 1;
        let result = match incoming.method.as_str() {
            "read" => Some(incoming.args.into_iter().next().unwrap_or_else(|| "none".into())),
            "nothing" => None,
            "slow" => Some("slow done".into()),
            other => panic!("{other} ran"),
        };
        bench.ran(incoming.run, Ok(result));
    }
    count
}

/// The second packet of the vectors that have one.
fn second(name: &str, first: &Publish) -> Option<Publish> {
    let mut again = first.clone();
    match name {
        "duplicate delivery" | "duplicate while running" => {}
        "subscribe twice" => again.correlation = Some("c-2".into()),
        "same correlation from another peer" => {
            again.response_topic = Some("msgrpc/v2/rsp/other".into());
            let source = again.user_properties.iter_mut().find(|(name, _)| name == "mr-src").unwrap();
            source.1 = "other".into();
        }
        _ => return None,
    }
    Some(again)
}

fn outcome(vector: &Hostile) -> Outcome {
    let queued = ["ttl expired while queued", "broker expiry narrows ttl", "expiry without ttl"];
    let queued = queued.contains(&vector.name.as_str());
    let mut bench = Bench::new("plantServer");
    bench.serve(&Surface::default(), vec![plant(queued)]);
    let mut occupant = Vec::new();
    if queued {
        bench.asked("occupant", "plant", "read", vec![]);
        occupant = bench.runs();
    }
    let mut invocations = 0;
    arrives(&mut bench, vector.request.clone());
    let waits = vector.name == "duplicate while running";
    if !waits {
        let runs = bench.runs();
        invocations += run(&mut bench, runs);
    }
    if let Some(again) = second(&vector.name, &vector.request) {
        arrives(&mut bench, again);
    }
    if queued {
        bench.advance(60);
        assert_eq!((run(&mut bench, occupant), bench.given.remove(0).frame.target), (1, peer("occupant")));
    }
    let runs = bench.runs();
    invocations += run(&mut bench, runs);
    let replies = bench.take().iter().map(|given| shown(&mqtt::encode(&given.frame, &topics()).unwrap())).collect();
    Outcome { invocations, replies }
}

/// A packet as the recordings show it.
fn shown(publish: &Publish) -> Json {
    let property = |key: &str| publish.user_properties.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    assert_eq!(property("mr-src").unwrap(), "plantServer");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let mut shown = json!({"topic": publish.topic, "kind": property("mr-kind").unwrap(),
        "correlationHex": hex(publish.correlation.as_ref().unwrap()), "contentType": publish.content_type,
        "payloadHex": hex(&publish.payload)});
    if let Some(code) = property("mr-code") {
        shown["code"] = json!(code);
    }
    shown
}

/// A refusal for spent time says by how much, which no two runs share.
fn without_times(mut outcome: Outcome) -> Outcome {
    for reply in outcome.replies.iter_mut().filter(|reply| reply["code"] == "Timeout") {
        let body = crate::wire::msgpack::decode(&vectors::hex(reply["payloadHex"].as_str().unwrap())).unwrap();
        let text = body.get("message").and_then(Value::as_str).unwrap().to_owned();
        let words = text.split(' ').map(|word| if word.parse::<u64>().is_ok() { "n" } else { word });
        reply["payloadHex"] = json!(words.collect::<Vec<_>>().join(" "));
    }
    outcome
}

/// W-010, W-011, W-024, W-050 to W-068, S-007 to S-010.
#[test]
fn every_hostile_publish_has_the_recorded_outcome_or_a_better_one() {
    let mut deviations = deviations();
    let mut not_served = Vec::new();
    for vector in vectors::hostile() {
        let recorded = without_times(Outcome { invocations: vector.invocations, replies: vector.replies.clone() });
        let ours = without_times(outcome(&vector));
        if let Some(at) = deviations.iter().position(|(name, _)| *name == vector.name) {
            let better = deviations.remove(at).1;
            assert_ne!(recorded, better, "{} deviates no longer", vector.name);
            assert_eq!(ours, better, "{}", vector.name);
        } else if NOT_SERVED.contains(&vector.name.as_str()) {
            assert_ne!(recorded, ours, "{} is served", vector.name);
            not_served.push(vector.name);
        } else {
            assert_eq!(ours, recorded, "{}", vector.name);
        }
    }
    assert!(deviations.is_empty(), "no such vector: {deviations:?}");
    assert_eq!(not_served, NOT_SERVED);
}
