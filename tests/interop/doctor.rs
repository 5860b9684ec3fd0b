//! `plantbridge doctor` on brokers and hubs of other making: what is wrong is found, nothing else is, and nothing is left.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Authority, Broker, BrokerOptions, Caller, Hub, Keys, Kind, PLANTBRIDGE, Peer, Shown};

fn doctor(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(PLANTBRIDGE);
    command.arg("doctor").args(arguments).envs(environment.iter().copied()).env_remove("RUST_LOG");
    command.output().expect("the binary can be started")
}

/// What it says as JSON, and that its exit code goes with it.
fn told(arguments: &[&str], environment: &[(&str, &str)]) -> Value {
    let output = doctor(&[arguments, &["--json"]].concat(), environment);
    let text = String::from_utf8_lossy(&output.stdout);
    let told: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("no JSON ({error}): {text}\n{}", String::from_utf8_lossy(&output.stderr)));
    let wrong = told["wrong"].as_u64().expect("a count");
    assert_eq!(output.status.code(), Some(i32::from(wrong > 0)), "{told:#}");
    told
}

fn of<'a>(told: &'a Value, check: &str) -> Vec<&'a Value> {
    let findings = told["findings"].as_array().expect("findings");
    findings.iter().filter(|finding| finding["check"] == check).collect()
}

/// The only finding of this check.
#[track_caller]
fn the<'a>(told: &'a Value, check: &str) -> &'a Value {
    let found = of(told, check);
    assert_eq!(found.len(), 1, "{check}: {told:#}");
    found[0]
}

#[track_caller]
fn is(told: &Value, check: &str, mark: &str) {
    assert_eq!(the(told, check)["mark"], mark, "{check}: {told:#}");
}

/// The checks that are wrong.
fn wrong(told: &Value) -> Vec<&str> {
    let findings = told["findings"].as_array().expect("findings");
    let wrong = findings.iter().filter(|finding| finding["mark"] == "wrong");
    wrong.map(|finding| finding["check"].as_str().expect("a name")).collect()
}

fn tuned() -> BrokerOptions {
    BrokerOptions { tuned: true, ..BrokerOptions::default() }
}

/// A stock broker is fine but for its stall, which is measured; its cure is what it is told to be.
#[test]
fn the_stall_of_a_stock_broker_is_found_and_its_cure_cures_it() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &["--no-delay"]);
    let found = told(&["--broker", &broker.url()], &[]);
    assert_eq!(wrong(&found), ["broker.stall"], "{found:#}");
    let stall = the(&found, "broker.stall");
    let figure = |name: &str| stall["evidence"][name].as_f64().expect("a figure");
    assert!(figure("ordinary_ms") > figure("hurried_ms") + 20.0, "{stall}");
    assert!(stall["next"].as_str().is_some_and(|next| next.contains("set_tcp_nodelay true")), "{stall}");

    let broker = Broker::start(&tuned());
    let _peer = Peer::join(&broker, "scale-1", &["--no-delay"]);
    let found = told(&["--broker", &broker.url()], &[]);
    assert_eq!(wrong(&found), Vec::<&str>::new(), "{found:#}");
    for check in ["broker.protocol", "broker.access", "broker.retained", "broker.stall", "peers.there", "peers.answers"]
    {
        is(&found, check, "ok");
    }
    let output = doctor(&["--broker", &broker.url()], &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.lines().last().is_some_and(|line| line.starts_with("0 wrong, ")), "{text}");
}

/// A peer whose client has Nagle on holds its own answers back; one that has not does not. Who says nothing of itself is
/// named.
#[test]
fn peers_are_told_apart() {
    let broker = Broker::start(&tuned());
    let _quick = Peer::join(&broker, "scale-1", &["--no-delay"]);
    let found = told(&["--broker", &broker.url()], &[]);
    is(&found, "peers.stall", "ok");
    let _held = Peer::join(&broker, "scale-2", &[]);
    let _plain = Peer::join(&broker, "scale-3", &["--no-delay", "--no-introspection"]);
    let found = told(&["--broker", &broker.url()], &[]);
    let stall = the(&found, "peers.stall");
    assert_eq!((&stall["mark"], &stall["evidence"]["peers"]), (&json!("warning"), &json!(["scale-2"])), "{found:#}");
    let plain = the(&found, "peers.introspection");
    assert_eq!((&plain["mark"], &plain["evidence"]["peers"]), (&json!("warning"), &json!(["scale-3"])), "{found:#}");
    is(&found, "peers.answers", "ok");
}

/// Every PUBLISH of the log that this client sent: its topic, whether it is to be kept, its bytes.
fn published(log: &str, client: &str) -> Vec<(String, bool, usize)> {
    let head = format!("Received PUBLISH from {client} (");
    let published = log.lines().filter_map(|line| {
        let (_, said) = line.split_once(&head)?;
        let topic = said.split('\'').nth(1)?;
        let bytes = said.rsplit_once(" bytes")?.0.rsplit('(').next()?;
        Some((topic.to_owned(), said.contains(", r1, "), bytes.trim_start_matches("... ").parse().ok()?))
    });
    published.collect()
}

/// Nothing of it is left: everything that was retained is cleared, and nothing is sent to anybody but to itself, to a name that
/// nobody has, and the question what a peer is.
#[test]
fn nothing_is_left_behind() {
    let broker = Broker::start(&tuned());
    let _peer = Peer::join(&broker, "scale-1", &["--no-delay"]);
    let mut onlooker = Caller::join(&broker.url(), "onlooker", &["--watch"]);
    let found = told(&["--broker", &broker.url(), "--name", "doctor-1"], &[]);
    assert_eq!(wrong(&found), Vec::<&str>::new(), "{found:#}");
    onlooker.saw("doctor-1", "offline");
    let log = broker.said("that it left", |text| text.contains("Received DISCONNECT from msgrpc-doctor-1"));
    let published = published(&log, "msgrpc-doctor-1");
    let others = ["req/scale-1", "req/onlooker", "req/doctor-1-nobody"];
    let own = ["req", "rsp", "evt", "presence"].map(|channel| format!("{channel}/doctor-1"));
    let mut kept = std::collections::BTreeMap::new();
    assert!(published.len() > 20, "{log}");
    for (topic, retain, bytes) in published {
        let topic = topic.trim_start_matches("msgrpc/v2/").to_owned();
        assert!(own.contains(&topic) || others.contains(&topic.as_str()), "{topic}");
        if retain {
            kept.insert(topic, bytes);
        }
    }
    assert_eq!(
        kept.into_iter().collect::<Vec<_>>(),
        [("presence/doctor-1".to_owned(), 0), ("rsp/doctor-1".to_owned(), 0)]
    );
}

/// Each topic an access list keeps from us is named, with the rule that lets us; a name in use, and its holder stays.
#[test]
fn the_topic_that_is_refused_is_named() {
    let acl = "topic readwrite msgrpc/v2/req/#\ntopic read msgrpc/v2/rsp/#\ntopic readwrite msgrpc/v2/evt/#\ntopic readwrite msgrpc/v2/presence/#\n";
    let broker = Broker::start(&BrokerOptions { acl: Some(acl.into()), ..tuned() });
    let found = told(&["--broker", &broker.url(), "--name", "hmi"], &[]);
    let access = of(&found, "broker.access");
    assert_eq!(access.len(), 1, "{found:#}");
    assert_eq!((&access[0]["mark"], &access[0]["evidence"]["topic"]), (&json!("wrong"), &json!("msgrpc/v2/rsp/hmi")));
    assert!(access[0]["next"].as_str().is_some_and(|next| next.contains("readwrite msgrpc/v2/rsp/hmi")), "{found:#}");

    let acl = "topic write msgrpc/v2/#\ntopic read msgrpc/v2/rsp/#\ntopic read msgrpc/v2/evt/#\n";
    let broker = Broker::start(&BrokerOptions { acl: Some(acl.into()), ..tuned() });
    let found = told(&["--broker", &broker.url(), "--name", "hmi"], &[]);
    let topics: Vec<&Value> =
        of(&found, "broker.access").into_iter().map(|found| &found["evidence"]["topic"]).collect();
    assert!(
        topics.contains(&&json!("msgrpc/v2/req/hmi")) && topics.contains(&&json!("msgrpc/v2/presence/hmi")),
        "{found:#}"
    );

    let broker = Broker::start(&tuned());
    let mut peer = Peer::join(&broker, "scale-1", &["--no-delay"]);
    let found = told(&["--broker", &broker.url(), "--name", "scale-1"], &[]);
    is(&found, "broker.name", "wrong");
    assert!(peer.0.heard(|line| (line["closed"] == true).then_some(())).is_empty());
    let found = told(&["--broker", &broker.url()], &[]);
    assert_eq!(the(&found, "peers.there")["evidence"]["peers"], 1, "the holder is still there: {found:#}");
}

/// A wrong password, a small packet, and an account that is never shown.
#[test]
fn account_and_bounds_are_told() {
    let account = Some(("plant".to_owned(), "right".to_owned()));
    let broker = Broker::start(&BrokerOptions { account, max_packet_size: Some(16_384), ..tuned() });
    let with =
        |password: &'static str| [("PLANTBRIDGE_MQTT_USERNAME", "plant"), ("PLANTBRIDGE_MQTT_PASSWORD", password)];
    let found = told(&["--broker", &broker.url()], &with("hunter2-wrong"));
    assert_eq!(wrong(&found), ["broker.credentials"], "{found:#}");
    assert!(!found.to_string().contains("hunter2"));
    is(&told(&["--broker", &broker.url()], &[]), "broker.credentials", "wrong");
    let found = told(&["--broker", &broker.url()], &with("right"));
    assert_eq!(wrong(&found), Vec::<&str>::new(), "{found:#}");
    is(&found, "broker.packet", "warning");
    assert_eq!(the(&found, "broker.packet")["evidence"]["maximum_packet_size"], 16_384);
}

/// A broker of MQTT 3.1.1 answers as one, nobody answers at all, or it is no broker.
#[test]
fn what_is_no_mqtt5_broker_is_told_as_what_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("mqtt://{}", listener.local_addr().expect("it is bound"));
    let older = std::thread::spawn(move || {
        // One visit to see whether it is there, one to talk.
        for talks in [false, true] {
            let (mut stream, _) = listener.accept().expect("it comes");
            if talks {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(&[0x20, 2, 0, 1]);
                let _ = stream.read(&mut [0; 1024]);
            }
        }
    });
    let found = told(&["--broker", &url], &[]);
    older.join().expect("it was visited twice");
    assert_eq!(wrong(&found), ["broker.protocol"], "{found:#}");
    assert!(
        the(&found, "broker.protocol")["said"].as_str().is_some_and(|said| said.contains("MQTT 3.1.1")),
        "{found:#}"
    );

    let found = told(&["--broker", &url, "--wait", "1000"], &[]);
    assert_eq!(wrong(&found), ["broker.socket"], "{found:#}");
}

/// Certificates: what is left of their time, what is wrong with one, over MQTT and over its WebSocket.
#[test]
fn certificates_are_told() {
    let authority = Authority::new();
    let options = BrokerOptions { tls: Some(authority.clone()), web: true, ..tuned() };
    let broker = Broker::start(&options);
    let file = |name: &str| authority.file(name).display().to_string();
    let (ca, cert, key, digest) = (file("ca"), file("client"), file("client-key"), authority.digest());
    for url in [broker.url(), broker.web_url()] {
        let ours = ["--broker", url.as_str(), "--client-cert", cert.as_str(), "--client-key", key.as_str()];
        let found = told(&[&ours[..], &["--ca", &ca]].concat(), &[]);
        assert_eq!(wrong(&found), Vec::<&str>::new(), "{found:#}");
        is(&found, "broker.tls", "ok");
        assert_eq!(the(&found, "broker.tls")["evidence"]["sha256"], digest.as_str());
        let found = told(&[&ours[..], &["--pin", &digest]].concat(), &[]);
        is(&found, "broker.tls", "ok");
        let found = told(&ours, &[]);
        assert_eq!(wrong(&found), ["broker.tls"], "{found:#}");
    }
    let found = told(&["--broker", &broker.url(), "--ca", &ca], &[]);
    assert_eq!(wrong(&found), ["broker.tls"], "a certificate of ours is wanted: {found:#}");
    let authority = Authority::showing(Shown::Expired);
    let broker = Broker::start(&BrokerOptions { tls: Some(authority.clone()), ..tuned() });
    let ca = authority.file("ca").display().to_string();
    let found = told(&["--broker", &broker.url(), "--ca", &ca], &[]);
    assert!(the(&found, "broker.tls")["said"].as_str().is_some_and(|said| said.contains("expired")), "{found:#}");
}

/// W-094: a peer that does not sign on a signed network is named, with the reason why it is silent; one that does is not.
#[test]
fn unsigned_peers_on_a_signed_network_are_named() {
    let broker = Broker::start(&tuned());
    let keys = Keys::of(Kind::Ed25519, &["hmi", "scale-1", "scale-2"]);
    let _good = Peer::join(&broker, "scale-1", &["--sign", &keys.file("scale-1")]);
    let _plain = Peer::join(&broker, "scale-2", &[]);
    let found = told(&["--broker", &broker.url(), "--sign", &keys.file("hmi")], &[]);
    let answers = the(&found, "peers.answers");
    assert_eq!((&answers["mark"], &answers["evidence"]["peer"]), (&json!("wrong"), &json!("scale-2")), "{found:#}");
    is(&found, "signing.clock", "ok");
    is(&found, "signing.peers", "wrong");
    for secret in keys.secrets() {
        assert!(!found.to_string().contains(&secret));
    }
}

/// W-101: a hub of other making, with and without a token; its name is taken from nobody unless that is asked for.
#[test]
fn a_hub_is_told() {
    let hub = Hub::start(&[]);
    let _peer = Peer::join_at(&hub.url, "scale-1", &[]);
    let found = told(&["--hub", &hub.url], &[]);
    assert_eq!(wrong(&found), Vec::<&str>::new(), "{found:#}");
    for check in ["hub.protocol", "hub.credentials", "hub.packet", "hub.presence", "peers.answers"] {
        is(&found, check, "ok");
    }
    let found = told(&["--hub", &hub.url, "--name", "scale-1"], &[]);
    is(&found, "hub.presence", "not checked");
    let found = told(&["--hub", &hub.url], &[]);
    assert_eq!(the(&found, "peers.there")["evidence"]["peers"], 2, "it kept its name: {found:#}");

    let hub = Hub::start(&["--tokens", r#"{"tok-bridge": "bridge-test"}"#]);
    let found = told(&["--hub", &hub.url], &[]);
    assert_eq!(wrong(&found), ["hub.credentials"], "{found:#}");
    let found = told(&["--hub", &hub.url], &[("PLANTBRIDGE_TOKEN", "hunter2")]);
    assert_eq!(wrong(&found), ["hub.credentials"], "{found:#}");
    assert!(!found.to_string().contains("hunter2"));
    let ours = ["--hub", hub.url.as_str(), "--name", "bridge-test", "--take-name"];
    let found = told(&ours, &[("PLANTBRIDGE_TOKEN", "tok-bridge")]);
    is(&found, "hub.credentials", "ok");
    is(&found, "hub.presence", "ok");
    let found = told(&["--hub", &hub.url], &[("PLANTBRIDGE_TOKEN", "tok-bridge")]);
    is(&found, "hub.presence", "wrong");
}
