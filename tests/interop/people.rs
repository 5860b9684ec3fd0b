//! The subcommands for people against a stock broker and a peer of other making: what happens when they are interrupted.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Broker, BrokerOptions, Child, PLANTBRIDGE, Peer};

fn command(broker: &Broker, arguments: &[&str]) -> Command {
    let mut command = Command::new(PLANTBRIDGE);
    command.args(arguments).env("PLANTBRIDGE_BROKER", broker.url()).env_remove("RUST_LOG");
    command
}

fn run(broker: &Broker, arguments: &[&str]) -> Output {
    command(broker, arguments).output().expect("the binary can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").arg(name).arg(child.id().to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()), "the command is not there to be asked");
}

/// S-005: a command that left when its caller gave up may have run, and that is what is said; it ran once.
#[test]
fn s005_an_interrupted_command_is_in_doubt() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    for name in ["-INT", "-TERM"] {
        let mut call = Child::start("call", &mut command(&broker, &["call", "scale-1", "scale.hold", "1", "--json"]));
        peer.ran("hold");
        signal(&call, name);
        let asked = Instant::now();
        let status = call.wait();
        assert_eq!(status.code(), Some(1), "{}", call.stderr());
        assert!(asked.elapsed() < Duration::from_secs(3), "it took {:?}", asked.elapsed());
        let told: Value = serde_json::from_str(&call.stderr()).expect("the refusal is JSON");
        let error = &told["error"];
        assert_eq!((&error["code"], &error["outcome"]), (&json!("unknown_outcome"), &json!("unknown")), "{told}");
        assert!(error["fix"].as_str().is_some_and(|fix| fix.starts_with("do not repeat it")), "{told}");
        assert_eq!(error.get("settle_with"), None, "there is no tool to call");
    }
    assert_eq!(peer.runs("hold"), 0, "nothing ran twice");
}

/// S-094: a watch that is interrupted takes its subscription back before it leaves.
#[test]
fn s094_an_interrupted_watch_unsubscribes() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    for name in ["-INT", "-TERM"] {
        let arguments = ["watch", "scale-1", "scale.weight", "--name", "watcher"];
        let mut watch = Child::start("watch", &mut command(&broker, &arguments));
        let subscribed = |line: &Value| (line["subscribed"] == "watcher" && line["event"] == "weight").then_some(());
        peer.0.wait_for("subscription", subscribed);
        peer.wish(&json!({"do": "emit", "n": 2}));
        for _ in 0..2 {
            let event = watch.wait_for("event", |line| line["args"].is_array().then(|| line.clone()));
            assert_eq!(event["args"][1], "g", "{event}");
        }
        signal(&watch, name);
        let gone = |line: &Value| (line["unsubscribed"] == "watcher" && line["event"] == "weight").then_some(());
        peer.0.wait_for("end of the subscription", gone);
        assert!(watch.wait().success(), "{}", watch.stderr());
    }
}

/// S-070, S-068: a broker that dies under a watch is told as a gap, and the watch goes on.
#[test]
fn s070_a_watch_outlives_its_broker_and_says_so() {
    let mut broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let arguments = ["watch", "scale-1", "scale.weight", "--name", "watcher", "--json"];
    let mut watch = Child::start("watch", &mut command(&broker, &arguments));
    let subscribed = |line: &Value| (line["subscribed"] == "watcher" && line["event"] == "weight").then_some(());
    peer.0.wait_for("subscription", subscribed);
    peer.wish(&json!({"do": "emit", "n": 1}));
    watch.wait_for("first event", |line| (line["args"] == json!([10, "g"])).then_some(()));
    broker.start_again();
    watch.wait_for("gap", |line| (line["gap"] == "interrupted").then_some(()));
    watch.wait_for("end of the gap", |line| (line["gap"] == "attached_again").then_some(()));
    peer.wish(&json!({"do": "emit", "n": 1}));
    watch.wait_for("second event", |line| (line["args"] == json!([20, "g"])).then_some(()));
    signal(&watch, "-INT");
    let end = watch.wait_for("last word", |line| (line["ended"] == "interrupted").then(|| line.clone()));
    assert_eq!((&end["heard"], &end["missed"]), (&json!(2), &json!(0)), "{end}");
    // Without a cursor, while the link was down, nothing is known; that is not taken back.
    assert!(["gapless", "unknown"].contains(&end["verdict"].as_str().unwrap_or_default()), "{end}");
    assert!(watch.wait().success(), "{}", watch.stderr());
}

/// A minimal device is called unchecked, which is said; words are JSON or text then. Not under a guard.
#[test]
fn a_peer_that_says_nothing_of_itself_is_called_unchecked() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &["--no-introspection"]);
    let done = run(&broker, &["call", "scale-1", "scale.echo", r#"{"a":[1,null]}"#]);
    assert_eq!(serde_json::from_slice::<Value>(&done.stdout).expect("it is JSON"), json!({"a": [1, null]}));
    assert!(text(&done.stderr).contains("not checked"), "{}", text(&done.stderr));
    peer.ran("echo");
    let done = run(&broker, &["call", "scale-1", "scale.echo", "1", "--read-only"]);
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(1), String::new()));
    assert!(text(&done.stderr).contains("code: read_only"), "{}", text(&done.stderr));
    let done = run(&broker, &["describe", "scale-1"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("code: peer_undescribed"), "{}", text(&done.stderr));
    assert_eq!(peer.runs("echo"), 0, "the refused one was not sent");
}

/// results.md 2: what the peer says of a refusal decides the outcome; a silent one leaves a command in doubt.
#[test]
fn the_outcome_is_the_peers_to_say() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let _silent = Peer::join(&broker, "scale-2", &["--silent"]);
    for (arguments, code, outcome) in [
        (&["call", "scale-1", "scale.fail", "Busy"][..], "peer_busy", json!("not_run")),
        (&["call", "scale-1", "scale.fail", "Exception"], "peer_refused", json!("ran")),
        (&["call", "scale-1", "scale.fail", "Weather"], "peer_refused", json!("unknown")),
        (&["call", "scale-2", "scale.tare", "--timeout", "300"], "unknown_outcome", json!("unknown")),
    ] {
        let done = run(&broker, &[arguments, &["--json"]].concat());
        let told: Value = serde_json::from_slice(&done.stderr).expect("the refusal is JSON");
        assert_eq!((&told["error"]["code"], &told["error"]["outcome"]), (&json!(code), &outcome), "{told}");
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(1), String::new()));
    }
}

/// A broker that refuses us is told at once, whatever was to be waited.
#[test]
fn a_broker_that_refuses_us_is_told_at_once() {
    let account = Some(("plant".to_owned(), "right".to_owned()));
    let broker = Broker::start(&BrokerOptions { account, ..BrokerOptions::default() });
    let began = Instant::now();
    let mut peers = command(&broker, &["peers", "--wait", "60000"]);
    let peers = peers.env("PLANTBRIDGE_MQTT_USERNAME", "plant").env("PLANTBRIDGE_MQTT_PASSWORD", "wrong-secret");
    let done = peers.output().expect("the binary can be started");
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(1), String::new()));
    let said = text(&done.stderr);
    assert!(said.contains("network_unavailable") && said.contains("PLANTBRIDGE_MQTT_PASSWORD"), "{said}");
    assert!(!said.contains("wrong-secret"), "{said}");
}
