//! What is told of what was found: every state of every check, as a person reads it.

use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

use super::{
    broker::{self, About},
    ear::{Ear, Voice},
    finding::{Finding, Mark, document, is_wrong, written},
    hub, left_alone,
    peers::{self, Against},
    way::Way,
};
use crate::{
    link::{
        DownKind, DownReason,
        hub::inspect as at_hub,
        mqtt::inspect::{Found, Greeting, Inspection, Need, Right, Trips},
        reach::{Reach, Secured},
        trust::{Digest, Trust},
    },
    plant::{Census, CensusAnswer, Counted, PeerKind},
    wire::{PeerName, instant},
};

const NOW: &str = "2026-11-30T12:00:00Z";

fn way(to: &str) -> Way<'_> {
    let now_ms = instant::parse(NOW).unwrap();
    Way { to, host: "127.0.0.1", port: 1883, tls: false, trust: Trust::Authorities, tells: false, now_ms, days: 30 }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn reach() -> Reach {
    Reach { found: Ok((1, ms(1))), opened: Some(Ok(ms(2))), secured: None }
}

fn down(kind: DownKind, detail: &str) -> DownReason {
    DownReason { kind, detail: detail.into() }
}

fn right(topic: &str, need: Need, found: Found) -> Right {
    Right { topic: topic.into(), need, found }
}

/// A broker as it should be.
fn well() -> Inspection {
    let greeting = Greeting { retains: true, wildcards: true, shares: true, ..Greeting::default() };
    Inspection {
        reach: reach(),
        greeting: Ok(greeting),
        clash: None,
        rights: vec![right("msgrpc/v2/req/me", Need::Both, Found::Allowed)],
        keeps: Some(true),
        trips: Some(Trips { count: 15, hurried: Duration::from_micros(180), lazy: Some(Duration::from_micros(210)) }),
        broken: None,
    }
}

const ABOUT: About<'_> = About { me: "me", named: false, account: false };

fn at_broker(inspection: &Inspection) -> Vec<Finding> {
    broker::findings(&way("broker"), &ABOUT, inspection)
}

/// What is not as it should be.
fn odd(findings: &[Finding]) -> Vec<(&str, Mark)> {
    let odd = findings.iter().filter(|finding| finding.mark != Mark::Fine);
    odd.map(|finding| (finding.check.as_str(), finding.mark)).collect()
}

fn peer(name: &str, announces: bool, answer: CensusAnswer, took: Option<u64>) -> Counted {
    Counted { name: PeerName::mqtt(name).unwrap(), announces, answer, took: took.map(ms) }
}

fn device(name: &str, took: u64) -> Counted {
    peer(name, true, CensusAnswer::Described(PeerKind::Device), Some(took))
}

fn census(peers: Vec<Counted>) -> Census {
    Census { peers, ..Census::default() }
}

/// Everything in order, as a person reads it and as a program does.
#[test]
fn a_network_in_order_is_told_line_by_line() {
    let mut findings = at_broker(&well());
    let against = Against { hurried: Some(ms(0)), ..Against::default() };
    findings.extend(peers::findings(&census(vec![device("oven-1", 1), device("oven-2", 2)]), None, &against));
    assert!(!is_wrong(&findings));
    insta::assert_snapshot!("doctor_in_order", written(&findings));
    insta::assert_snapshot!(
        "doctor_in_order_json",
        crate::mcp::text::pretty(&document("mqtt://127.0.0.1:1883", "me", &findings))
    );
}

/// Every way in which it can be out of order, with what to do about each.
#[test]
fn what_is_wrong_comes_with_the_next_step() {
    let mut out = String::new();
    let mut show = |what: &str, findings: &[Finding]| {
        let odd: Vec<Finding> = findings.iter().filter(|finding| finding.mark != Mark::Fine).cloned().collect();
        for finding in &odd {
            assert!(
                finding.next.is_some() || finding.mark == Mark::Unchecked,
                "{what}: {} has no next step",
                finding.check
            );
        }
        let _ = writeln!(out, "# {what}\n{}\n", written(&odd));
    };
    for (what, bent) in bent_brokers() {
        show(what, &at_broker(&bent));
    }
    for (what, way, reach) in bent_ways() {
        show(what, &super::way::findings(&way, &reach));
    }
    for (what, token, greeting) in bent_hubs() {
        let inspection = at_hub::Inspection { reach: reach(), greeting };
        show(what, &hub::findings(&way("hub"), token, &inspection));
    }
    show("a hub under a chosen name", &[left_alone("hmi")]);
    for (what, census, ear, against) in bent_peers().into_iter().chain(bent_signers()) {
        show(what, &peers::findings(&census, ear.as_ref(), &against));
    }
    insta::assert_snapshot!("doctor_out_of_order", out);
}

fn bent_brokers() -> Vec<(&'static str, Inspection)> {
    let with = |bend: &dyn Fn(&mut Inspection)| {
        let mut bent = well();
        bend(&mut bent);
        bent
    };
    let refuses = |kind, detail: &str| with(&|bent| bent.greeting = Err(down(kind, detail)));
    let says = |bend: &dyn Fn(&mut Greeting)| with(&|bent| bent.greeting.iter_mut().for_each(bend));
    let found = |need, found: Found| with(&|bent| bent.rights = vec![right("msgrpc/v2/req/me", need, found.clone())]);
    vec![
        ("an older broker", refuses(DownKind::Protocol, "it answers as one of MQTT 3.1.1")),
        ("no account", refuses(DownKind::Unauthorized, "the broker does not authorize us")),
        ("no answer", refuses(DownKind::Unreachable, "no answer in time")),
        ("no certificate of ours", refuses(DownKind::Tls, "the broker wants a certificate")),
        (
            "no way there",
            with(&|bent| {
                bent.greeting = Err(down(DownKind::Unreachable, "connection refused"));
                bent.reach.opened = Some(Err("connection refused".into()));
            }),
        ),
        (
            "small bounds",
            says(&|said| {
                (said.max_packet, said.receive_max, said.max_qos) = (Some(16_384), Some(2), Some(0));
                (said.wildcards, said.shares, said.keep_alive, said.session) = (false, false, Some(5), Some(60));
            }),
        ),
        ("a name in use", with(&|bent| bent.clash = Some("a peer named me is on the network".into()))),
        ("a refused subscription", found(Need::Subscribe, Found::Refused("NotAuthorized".into()))),
        ("a refused publication", found(Need::Both, Found::Refused("NotAuthorized".into()))),
        ("a lost publication", found(Need::Both, Found::Lost)),
        ("no answer to a publication", found(Need::Publish, Found::Unanswered)),
        ("a refused name that nobody has", found(Need::Others, Found::Refused("NotAuthorized".into()))),
        ("cut off", with(&|bent| bent.broken = Some(down(DownKind::Lost, "the broker closed the connection")))),
        ("no retained messages", says(&|said| said.retains = false)),
        ("retained messages that are lost", with(&|bent| bent.keeps = Some(false))),
        (
            "a stall",
            with(&|bent| {
                bent.trips = Some(Trips { count: 15, hurried: Duration::from_micros(180), lazy: Some(ms(44)) });
            }),
        ),
        (
            "a stall nobody can tell",
            with(&|bent| {
                bent.trips = Some(Trips { count: 15, hurried: ms(44), lazy: None });
            }),
        ),
        ("nothing arrives", with(&|bent| (bent.trips, bent.keeps) = (None, None))),
    ]
}

fn bent_ways() -> Vec<(&'static str, Way<'static>, Reach)> {
    let tls = |ends: &str| {
        let digest = Digest::parse(&"ab".repeat(32));
        let secured = Secured { version: "1.3", ends_ms: instant::parse(ends), digest };
        Reach { secured: Some(Ok(secured)), ..reach() }
    };
    let secure = Way { tls: true, ..way("broker") };
    let far = Way { host: "plant", ..way("broker") };
    vec![
        ("no such name", far, Reach { found: Err("no such name".into()), opened: None, secured: None }),
        ("nobody there", far, Reach { opened: Some(Err("connection refused".into())), ..reach() }),
        ("a secret in the clear", Way { tells: true, ..far }, reach()),
        ("in the clear", far, reach()),
        ("a certificate that is not trusted", secure, Reach { secured: Some(Err("it expired".into())), ..reach() }),
        ("a certificate that ends soon", secure, tls("2026-12-10T00:00:00Z")),
        (
            "a pinned certificate that is over",
            Way { trust: Trust::Pinned(Digest::parse(&"ab".repeat(32)).unwrap()), ..secure },
            tls("2026-11-01T00:00:00Z"),
        ),
        ("any certificate", Way { trust: Trust::Anyone, ..secure }, tls("2030-01-01T00:00:00Z")),
    ]
}

fn bent_hubs() -> Vec<(&'static str, bool, Result<at_hub::Greeting, DownReason>)> {
    vec![
        ("a hub that is none", false, Err(down(DownKind::Protocol, "no Socket.IO hub answers there"))),
        ("a hub that wants a token", false, Err(down(DownKind::Unauthorized, "the hub refused us"))),
        ("a hub that wants another token", true, Err(down(DownKind::Unauthorized, "the hub refused our token"))),
        ("a hub that is silent", true, Err(down(DownKind::Unreachable, "no answer in time"))),
        ("a hub of small messages", true, Ok(at_hub::Greeting { max_payload: 1000, silence: ms(45_000) })),
    ]
}

fn bent_peers() -> Vec<(&'static str, Census, Option<Ear>, Against)> {
    let quick = || Against { hurried: Some(ms(0)), ..Against::default() };
    let silent = |name: &str| peer(name, true, CensusAnswer::Silent, None);
    let mute = |name: &str| peer(name, false, CensusAnswer::Undescribed("NoSuchNamespace".into()), Some(1));
    let many = (0..11).map(|at| mute(&format!("scale-{at}"))).collect();
    let gone = DownReason { kind: DownKind::Displaced, detail: "another peer connected under our name".into() };
    vec![
        ("nobody", census(Vec::new()), None, quick()),
        ("peers that do not describe themselves", census(many), None, quick()),
        (
            "peers that do not answer",
            census(vec![silent("oven\u{9b}2J"), peer("hmi", false, CensusAnswer::Silent, None)]),
            None,
            quick(),
        ),
        ("a peer that stalls", census(vec![device("oven-1", 41), device("oven-2", 2)]), None, quick()),
        (
            "a slow way",
            census(vec![device("oven-1", 41)]),
            None,
            Against { hurried: Some(ms(30)), ..Against::default() },
        ),
        (
            "too many, and one down",
            Census { unasked: 3, down: vec![("mqtt".into(), gone)], ..census(vec![device("oven-1", 1)]) },
            None,
            quick(),
        ),
        (
            "no time",
            census(vec![peer("oven-1", true, CensusAnswer::Unasked("there was no time left to ask it".into()), None)]),
            None,
            quick(),
        ),
    ]
}

fn bent_signers() -> Vec<(&'static str, Census, Option<Ear>, Against)> {
    let signed = |names: &[&str]| {
        let believed: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Against { signs: true, believed: Some(believed), hurried: Some(ms(0)) }
    };
    let ear = |voices: &[(&str, Voice)]| {
        let peers = voices.iter().map(|(name, voice)| ((*name).to_owned(), *voice)).collect();
        Some(Ear { peers, opened: true, shut: None })
    };
    let voice = |signed, unsigned, behind_ms| Voice { signed, unsigned, behind_ms };
    let silent = |name: &str| peer(name, true, CensusAnswer::Silent, None);
    vec![
        (
            "unsigned, unlisted and unbelieving peers",
            census(vec![silent("oven-1"), silent("oven-2"), silent("oven-3")]),
            ear(&[("oven-1", voice(0, 2, None)), ("oven-3", voice(2, 0, Some(-61_000)))]),
            signed(&["oven-1", "oven-3"]),
        ),
        (
            "a clock that is late",
            census(vec![device("oven-1", 1)]),
            ear(&[("oven-1", voice(1, 0, Some(20_000)))]),
            signed(&["oven-1"]),
        ),
        (
            "a network that cannot be overheard",
            census(vec![device("oven-1", 1)]),
            Some(Ear { shut: Some("refused".into()), ..Ear::default() }),
            signed(&["oven-1"]),
        ),
    ]
}

/// Nothing else is blamed for what one thing brings about.
#[test]
fn one_cause_is_one_finding() {
    let only = |bend: &dyn Fn(&mut Inspection), expected: &[(&str, Mark)]| {
        let mut bent = well();
        bend(&mut bent);
        assert_eq!(odd(&at_broker(&bent)), expected);
    };
    only(&|_| {}, &[]);
    only(&|bent| bent.trips = Some(Trips { count: 15, hurried: ms(41), lazy: Some(ms(44)) }), &[]);
    only(
        &|bent| bent.trips = Some(Trips { count: 15, hurried: ms(1), lazy: Some(ms(41)) }),
        &[("broker.stall", Mark::Wrong)],
    );
    only(&|bent| bent.greeting = Err(down(DownKind::Unauthorized, "no")), &[("broker.credentials", Mark::Wrong)]);
    let refused = right("t", Need::Subscribe, Found::Refused("NotAuthorized".into()));
    only(&|bent| bent.rights.push(refused.clone()), &[("broker.access", Mark::Wrong)]);
}

/// No word of a network can start a line, or move a terminal.
#[test]
fn words_of_others_stay_in_their_line() {
    let mut bent = well();
    bent.greeting = Err(down(DownKind::Unauthorized, "no\nok  broker.tls  fine\u{1b}[2J"));
    let told = written(&at_broker(&bent));
    assert!(!told.contains('\u{1b}') && told.lines().all(|line| !line.starts_with("ok  broker")), "{told}");
}
