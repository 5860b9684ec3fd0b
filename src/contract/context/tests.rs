//! Context as recorded, and as hosts would have it that want us to walk for ever.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::Value as Json;

use super::{
    resolve::{MAX_CHAIN, Outcome, Resolution, Step},
    *,
};
use crate::{
    contract::testing::{at, json, provided, recorded_hosts, token, unordered, value, vectors},
    wire::vectors::{Carrier, any_value},
};

fn recorded() -> Json {
    vectors(include_str!("../../../tests/vectors/sem-context.json"))
}

/// Every answer that was recorded, direct or pushed.
fn answers() -> Vec<Json> {
    let file = recorded();
    let messages = file["scenes"].as_array().unwrap().iter().flat_map(|scene| scene["messages"].as_array().unwrap());
    let payloads = messages.map(|message| message["payload"].clone());
    let found: Vec<Json> = payloads
        .filter_map(|payload| match payload["type"].as_str().unwrap() {
            "SUCCESS" if payload["result"].is_object() => Some(payload["result"].clone()),
            "EVENT" => Some(payload["params"][0]["snapshot"].clone()),
            _ => None,
        })
        .collect();
    assert!(found.len() > 30, "{}", found.len());
    found
}

/// Asks hosts until it is known, or until more was asked than a chain has refs.
fn resolve(hosts: &HashMap<&str, Topology>, node: Ref, id: &str, axis: Axis) -> (Resolution, Option<Outcome>) {
    let mut resolution = Resolution::new(node, token(id), axis);
    for _ in 0..=MAX_CHAIN {
        let Some(host) = hosts.get(resolution.at().peer.as_str()) else { return (resolution, None) };
        let answer = host.answer(resolution.at().clone(), &[id.to_owned()]);
        // As it arrives: written and read.
        let answer = HostAnswer::parse(&answer.to_value()).unwrap();
        if let Step::Done(outcome) = resolution.feed(&answer).unwrap() {
            return (resolution, Some(outcome));
        }
    }
    panic!("it does not end: {:?}", resolution.chain());
}

/// Semantics 8.2: what hosts were recorded to answer reads, and is written as they wrote it.
#[test]
fn s090_every_recorded_answer_reads_back() {
    for recorded in answers() {
        let read = HostAnswer::parse(&value(&recorded)).unwrap_or_else(|fault| panic!("{fault}: {recorded}"));
        assert_eq!(unordered(read.to_value()), unordered(value(&recorded)));
    }
}

/// Views of a held subscription, which no one-shot reading has: a host that never answered, and one that went away. The
/// verb tells both apart, and its tests do.
const HELD: [&str; 2] = ["host that is not there (after 1.5 s)", "providing host went away"];

/// S-090, S-091, S-092: every recorded view, from the hosts as they stood.
#[test]
fn s090_every_recorded_view() {
    let mut hosts = recorded_hosts();
    let again = provided("acme.site", "$host", Axis::Physical, value(&json(r#"{"site":"again"}"#)));
    hosts.get_mut("plantHost").unwrap().apply(Change::Provide(again)).unwrap();
    let mut held = Vec::new();
    for row in recorded()["views"].as_array().unwrap() {
        let label = row["label"].as_str().unwrap();
        if HELD.contains(&label) {
            held.push(label.to_owned());
            continue;
        }
        if label == "owner ring" {
            let ring = Change::Owner("line".into(), Some(at("edge", "machine")));
            hosts.get_mut("plantHost").unwrap().apply(ring).unwrap();
        }
        let node = at(row["at"]["peer"].as_str().unwrap(), row["at"]["instance"].as_str().unwrap());
        let axis = Axis::parse(row["token"]["axis"].as_str().unwrap()).unwrap();
        let (_, outcome) = resolve(&hosts, node, row["token"]["id"].as_str().unwrap(), axis);
        check_view(label, &row["view"], outcome.as_ref().unwrap());
    }
    assert_eq!(held, HELD);
}

fn check_view(label: &str, view: &Json, outcome: &Outcome) {
    let status = view["status"].as_str().unwrap();
    match outcome {
        Outcome::Live(found) => {
            assert_eq!(status, "live", "{label}");
            let nearest = view["entry"].as_object().map(|_| vec![view["entry"].clone()]);
            let recorded = view["entries"].as_array().cloned().or(nearest).unwrap();
            let shown: Vec<_> = found.iter().map(|one| (one.value.clone(), one.provider.to_value())).collect();
            let expected: Vec<_> = recorded.iter().map(|one| (value(&one["value"]), value(&one["provider"]))).collect();
            // "nearest" is the first of all.
            assert_eq!(shown[..expected.len()], expected[..], "{label}");
        }
        Outcome::Missing => assert_eq!(status, "missing", "{label}"),
        Outcome::Invalid(invalid) => {
            assert_eq!((status, view["invalidReason"].as_str().unwrap()), ("invalid", invalid.reason), "{label}");
            if let Some(path) = view.get("invalidPath") {
                let shown: Vec<Value> = invalid.path.iter().map(Ref::to_value).collect();
                assert_eq!(Value::from(shown), value(path), "{label}");
            }
        }
    }
}

/// Semantics 8.3: 128 refs are a chain, 129 are not; a host gives up behind 129 of its own.
#[test]
fn a_chain_has_so_many_refs_and_no_more() {
    let hosts = recorded_hosts();
    for (node, whole, walked) in [("deep126", true, 128), ("deep127", false, 129), ("deep130", false, 129)] {
        let (resolution, outcome) = resolve(&hosts, at("plantHost", node), "acme.site", Axis::Physical);
        assert_eq!(matches!(outcome, Some(Outcome::Live(_))), whole, "{node}: {outcome:?}");
        assert_eq!(resolution.chain().len(), walked, "{node}");
    }
    let answer = hosts["plantHost"].answer(at("plantHost", "deep127"), &[]);
    assert_eq!(answer.trouble.physical, None, "129 refs of one host are walked");
}

/// A ring on one host is told by the host, with the ring once round.
#[test]
fn a_ring_of_owners_on_one_host() {
    let mut host = Topology::new(PeerName::mqtt("edge").unwrap(), "e");
    for (instance, owner) in [("c", "a"), ("b", "c"), ("a", "b"), ("z", "a")] {
        let (parent, owner) = (Some(at("edge", "$host")), Some(at("edge", owner)));
        host.declare(Place { instance: instance.into(), parent, owner, label: None }).unwrap();
    }
    let hosts = HashMap::from([("edge", host)]);
    let (_, outcome) = resolve(&hosts, at("edge", "z"), "acme.x", Axis::Logical);
    let path = ["a", "b", "c"].map(|instance| at("edge", instance)).to_vec();
    assert_eq!(outcome, Some(Outcome::Invalid(Invalid { reason: "cycle", path })));
}

/// Semantics 2.2: what a topology may not be is refused in the recorded words, and changes nothing.
#[test]
fn what_a_topology_may_not_be() {
    let mut hosts = recorded_hosts();
    let edge = hosts.get_mut("edge").unwrap();
    let before = edge.answer(at("edge", "arm"), &[]);
    let parent = |of: &str, to: Ref| Change::Parent(of.into(), Some(to));
    for (change, words) in [
        (parent("nope", at("edge", "arm")), "topology: nope is not declared here"),
        (
            parent("arm", at("z", "q")),
            "topology: arm cannot have a remote physical parent - only the $host root may, root to root",
        ),
        (parent("arm", at("edge", "arm")), "topology: arm cannot be its own parent"),
        (parent("machine", at("edge", "arm")), "topology: parenting machine under arm closes a physical cycle"),
        (
            parent("$host", at("edge", "arm")),
            "topology: the $host root's parent is another host's root, not something on this host",
        ),
        (
            parent("$host", at("z", "q")),
            "topology: a host root's parent must be another host root - physical edges cross hosts only root to root",
        ),
        (Change::Owner("arm".into(), Some(at("edge", "arm"))), "topology: arm cannot own itself"),
        (Change::Provide(provided("acme.x", "ghost", Axis::Physical, "x")), "topology: ghost is not declared here"),
        (
            Change::Provide(provided("acme.x", "arm", Axis::Physical, "x".repeat(16 << 10))),
            "topology: the value of acme.x has 16386 bytes as JSON, and may have 16384",
        ),
    ] {
        assert_eq!(edge.apply(change).unwrap_err().to_string(), words);
    }
    assert_eq!(edge.answer(at("edge", "arm"), &[]), before);
    let place = |instance: &str, parent| Place { instance: instance.into(), parent, owner: None, label: None };
    let declared = edge.declare(place("arm", None)).unwrap_err();
    assert_eq!(declared.to_string(), "topology: arm is declared already");
    let ring = edge.declare(place("ghost", Some(at("edge", "dangling")))).unwrap_err();
    assert_eq!(ring.to_string(), "topology: parenting ghost under dangling closes a physical cycle");
    let control = edge.declare(place("a\u{0}b", None)).unwrap_err();
    assert_eq!(control.to_string(), "topology: an instance: it contains a control character, and ids never do");
}

/// All values of a host have a bound together, which bounds every answer; what gives way makes room.
#[test]
fn the_values_of_a_host_are_bounded_together() {
    let mut host = Topology::new(PeerName::mqtt("edge").unwrap(), "e");
    let large = |n: usize| provided(&format!("acme.x{n}"), "$host", Axis::Physical, "x".repeat(16_000));
    let kept = (0..100).take_while(|n| host.apply(Change::Provide(large(*n))).is_ok()).count();
    assert_eq!(kept, (256 << 10) / 16_002);
    host.apply(Change::Provide(large(0))).unwrap();
    assert!(host.apply(Change::Provide(large(kept))).is_err());
    let (token, instance, axis) = (token("acme.x0"), "$host".to_owned(), Axis::Physical);
    host.apply(Change::Withdraw { token, instance, axis }).unwrap();
    host.apply(Change::Provide(large(kept))).unwrap();
}

/// Semantics 8.2: one epoch a registration, one revision a change; a link that is set has a fresh epoch.
#[test]
fn versions_name_what_they_must() {
    let mut host = Topology::new(PeerName::mqtt("edge").unwrap(), "e");
    let set = |value: &str| Change::Provide(provided("acme.x", "$host", Axis::Logical, value));
    let seen = |host: &Topology| {
        let answer = host.answer(at("edge", "$host"), &["acme.x".into()]);
        (answer.tokens[0].entries.first().map(|entry| entry.provider.clone()), answer.chain_key)
    };
    host.apply(set("1")).unwrap();
    let (first, key) = seen(&host);
    host.apply(set("2")).unwrap();
    let (second, same_key) = seen(&host);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((&first.epoch, first.revision, second.revision), (&second.epoch, 0, 1));
    let gone = Change::Withdraw { token: token("acme.x"), instance: "$host".into(), axis: Axis::Logical };
    host.apply(gone).unwrap();
    host.apply(set("1")).unwrap();
    let third = seen(&host).0.unwrap();
    assert!(third.epoch != first.epoch && third.revision == 0, "{third:?}");
    assert_eq!(key, same_key);
    host.apply(Change::Parent("$host".into(), None)).unwrap();
    let moved = seen(&host).1;
    assert!(moved.physical != key.physical && moved.logical == key.logical, "{moved:?}");
}

/// An answer about `edge/arm`, with one member replaced, as JSON.
fn answer_with(change: impl FnOnce(&mut Json)) -> Value {
    let mut answer = recorded()["scenes"][0]["messages"][1]["payload"]["result"].clone();
    change(&mut answer);
    value(&answer)
}

/// A host that answers what no host may is refused, and told what is wrong.
#[test]
fn answers_that_do_not_hold_together() {
    type Spoil = fn(&mut Json);
    let many = |n: usize| Json::from(vec![serde_json::json!({"peer": "edge", "instance": "arm"}); n]);
    let too_many = many(257);
    let cases: [(&str, Spoil); 20] = [
        ("is about edge/machine", |a| a["node"]["instance"] = "machine".into()),
        ("is about plant/arm", |a| a["node"]["peer"] = "plant".into()),
        ("begins with edge/machine", |a| drop(a["walked"]["physical"].as_array_mut().unwrap().remove(0))),
        ("chain is empty", |a| a["walked"]["physical"] = serde_json::json!([])),
        ("answers for plant/x", |a| a["walked"]["physical"][1] = serde_json::json!({"peer": "plant", "instance": "x"})),
        ("leaves it for edge/x", |a| a["continues"]["physical"] = serde_json::json!({"peer": "edge", "instance": "x"})),
        ("says nothing about acme.note", |a| a["tokens"] = serde_json::json!([])),
        ("says nothing about acme.note", |a| a["tokens"][1]["tokenId"] = "acme.other".into()),
        ("edge/other provides", |a| a["tokens"][1]["entries"][0]["node"]["instance"] = "other".into()),
        ("on no axis", |a| a["tokens"][1]["entries"][0]["axis"] = "sideways".into()),
        ("its provider", |a| a["tokens"][1]["entries"][0]["provider"] = Json::Null),
        ("its node", |a| a["node"] = "edge/arm".into()),
        ("its walked", |a| a["walked"]["physical"][1]["instance"] = "a\u{0}b".into()),
        ("its walked", |a| a["walked"] = Json::Null),
        ("its walked", |a| a["walked"]["logical"][0]["peer"] = "".into()),
        ("its continues", |a| a["continues"]["physical"] = serde_json::json!({"peer": "x"})),
        ("not known here", |a| a["trouble"] = serde_json::json!([{"axis": "physical", "status": "tired"}])),
        ("no axis", |a| a["trouble"] = serde_json::json!([{"axis": "sideways", "status": "cycle"}])),
        ("its trouble", |a| a["trouble"] = serde_json::json!([{}, {}, {}])),
        ("its seq", |a| a["seq"] = (-1).into()),
    ];
    for (words, spoil) in cases {
        refused(words, &answer_with(spoil));
    }
    refused("257 entries", &answer_with(|answer| answer["walked"]["physical"] = too_many));
    let huge = Json::from("x".repeat(1 << 20));
    refused("values have more", &answer_with(|answer| answer["tokens"][1]["entries"][0]["value"] = huge));
    refused("no map", &Value::Null);
}

fn refused(words: &str, answer: &Value) {
    let mut resolution = Resolution::new(at("edge", "arm"), token("acme.note"), Axis::Physical);
    let read = HostAnswer::parse(answer).and_then(|answer| resolution.feed(&answer).map(|_| ()));
    let fault = read.expect_err(words).to_string();
    assert!(fault.contains(words), "{fault:?} does not say {words:?}");
    assert!(resolution.chain().is_empty() && resolution.hops().is_empty(), "a refused answer leaves no trace");
}

/// S-002: what is not known is ignored, and what is absent is nothing.
#[test]
fn s002_what_is_not_known_is_ignored() {
    let answer = answer_with(|answer| {
        answer["more"] = "?".into();
        let members = answer.as_object_mut().unwrap();
        members.remove("trouble");
        members.remove("continues");
    });
    let mut resolution = Resolution::new(at("edge", "arm"), token("acme.note"), Axis::Physical);
    let step = resolution.feed(&HostAnswer::parse(&answer).unwrap()).unwrap();
    assert!(matches!(step, Step::Done(Outcome::Live(found)) if found.len() == 1));
}

/// Semantics 8.2: a token id has a namespace, and no control characters; anything else may stand in it.
#[test]
fn token_ids() {
    for good in ["acme.plant", "a.b.c", "x.\u{1f9ea}", "\"q\".'/\\", ".", "a b.c"] {
        assert_eq!(TokenId::parse(good).unwrap().as_str(), good);
    }
    for (bad, words) in [
        ("site", "contains a dot"),
        ("", "empty"),
        ("a.\u{7}", "control"),
        ("a.\u{85}", "control"),
        (&*format!("a.{}", "x".repeat(255)), "257 bytes"),
    ] {
        let fault = TokenId::parse(bad).unwrap_err().to_string();
        assert!(fault.contains(words), "{fault}");
    }
}

/// Links between twelve instances of three hosts, as they may come: declared, dangling, in rings, to hosts that are not
/// there. What a host refuses to be is left out.
fn any_hosts() -> impl Strategy<Value = Vec<(usize, usize, bool, usize, usize)>> {
    prop::collection::vec((0..3_usize, 0..5_usize, any::<bool>(), 0..4_usize, 0..6_usize), 0..60)
}

fn place_of(host: usize, instance: usize) -> Ref {
    let instance = if instance == 0 { ROOT.to_owned() } else { format!("i.{instance}/\"\u{1f9ea}") };
    at(["one", "two", "three", "nobody"][host], &instance)
}

fn hosts_of(links: &[(usize, usize, bool, usize, usize)]) -> HashMap<&'static str, Topology> {
    let mut hosts: HashMap<&str, Topology> = ["one", "two", "three"]
        .into_iter()
        .map(|name| {
            let mut host = Topology::new(PeerName::mqtt(name).unwrap(), name);
            for instance in 1..5 {
                let Ref { instance, .. } = place_of(0, instance);
                host.declare(Place { instance, parent: None, owner: None, label: None }).unwrap();
            }
            (name, host)
        })
        .collect();
    for (host, instance, physical, to_host, to_instance) in links {
        let (from, to) = (place_of(*host, *instance), Some(place_of(*to_host, *to_instance)));
        let host = hosts.get_mut(from.peer.as_str()).unwrap();
        let change = if *physical { Change::Parent } else { Change::Owner };
        let _ = host.apply(change(from.instance.clone(), to));
        let provided = provided("acme.x", &from.instance, Axis::ALL[usize::from(!physical)], "x");
        host.apply(Change::Provide(provided)).unwrap();
    }
    hosts
}

proptest! {
    /// However hosts are joined, resolving ends, is bounded, and gives what a plain walk over all records gives.
    #[test]
    fn any_topology_is_resolved(links in any_hosts(), host in 0..3_usize, instance in 0..6_usize, physical: bool) {
        let hosts = hosts_of(&links);
        let axis = Axis::ALL[usize::from(!physical)];
        let (resolution, outcome) = resolve(&hosts, place_of(host, instance), "acme.x", axis);
        prop_assert!(resolution.chain().len() <= 15 && resolution.hops().len() <= 15);
        // The model: one step at a time, knowing every host.
        let (mut seen, mut at) = (Vec::new(), Some(place_of(host, instance)));
        let expected = loop {
            let Some(now) = at else { break "whole" };
            if seen.contains(&now) { break "cycle" }
            let Some(topology) = hosts.get(now.peer.as_str()) else { break "away" };
            let Some(record) = topology.places().described(&now.instance) else { break "invalid-reference" };
            let next = record.get(if physical { "parent" } else { "owner" }).cloned().unwrap();
            seen.push(now);
            at = Ref::parse(&next);
        };
        let provides = |at: &&Ref| {
            let answer = hosts[at.peer.as_str()].answer((*at).clone(), &["acme.x".into()]);
            answer.tokens[0].entries.iter().any(|entry| entry.node == **at && entry.axis == axis)
        };
        match (&outcome, expected) {
            (None, "away") => {}
            (Some(Outcome::Live(found)), "whole") => {
                let found: Vec<&Ref> = found.iter().map(|found| &found.provider).collect();
                prop_assert_eq!(found, seen.iter().filter(provides).collect::<Vec<_>>());
            }
            (Some(Outcome::Missing), "whole") => prop_assert!(!seen.iter().any(|at| provides(&at))),
            (Some(Outcome::Invalid(invalid)), reason) => {
                prop_assert_eq!(invalid.reason, reason);
                prop_assert!(reason != "cycle" || invalid.path.iter().all(|at| seen.contains(at)));
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    /// Whatever a host says, reading it ends, and what is taken is bounded.
    #[test]
    fn any_answer_is_read_or_refused(
        junk in any_value(Carrier::MessagePack),
        member in prop::sample::select(vec!["node", "walked", "continues", "trouble", "chainKey", "tokens", "seq"]),
    ) {
        let _ = HostAnswer::parse(&junk);
        let Value::Map(mut answer) = answer_with(|_| ()) else { panic!() };
        answer.insert(member, junk);
        let mut resolution = Resolution::new(at("edge", "arm"), token("acme.note"), Axis::Physical);
        if let Ok(answer) = HostAnswer::parse(&answer.into()) {
            let _ = resolution.feed(&answer);
            prop_assert!(resolution.chain().len() <= 256);
        }
    }
}
