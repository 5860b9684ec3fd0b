//! The subcommands for people against a stock broker and a peer of other making: what happens when they are interrupted.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Broker, BrokerOptions, Caller, Child, PLANTBRIDGE, Peer};

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
        let fix = error["fix"].as_str().unwrap_or_default();
        assert!(fix.starts_with("do not repeat it") && fix.contains("plantbridge call scale-1 scale.read"), "{told}");
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

/// The boiler of this repository.
const BOILER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/contracts/boiler.types.json");

/// A fake of `boiler` that stands.
fn serve(broker: &Broker) -> Child {
    let arguments = ["serve", "--contract", BOILER, "--fail", "burner.enable=Forbidden", "--json"];
    let mut serve = Child::start("serve", &mut command(broker, &arguments));
    serve.wait_for("being up", |line| (line["up"] == "boiler" && line["fake"] == true).then_some(()));
    serve
}

/// tools.md 10: a caller of other making meets the fake; interrupted, nothing of it is left, and killed, `offline` is.
#[test]
fn a_served_fake_is_a_peer_until_it_is_interrupted() {
    let broker = Broker::stock();
    let mut caller = Caller::join(&broker.url(), "hmi", &["--watch"]);
    for name in ["-INT", "-TERM"] {
        let mut serve = serve(&broker);
        caller.saw("boiler", "online");
        let answer = caller.call("msgpack", ["boiler", "boiler", "setPressure"], json!([8]));
        assert_eq!(answer["value"], 7.5, "{answer}");
        let refused = caller.call("json", ["boiler", "burner", "enable"], json!([true]));
        assert_eq!(refused["code"], "Forbidden", "{refused}");
        signal(&serve, name);
        let end = serve.wait_for("last word", |line| line["ended"].is_string().then(|| line.clone()));
        assert_eq!((&end["ended"], &end["calls"]), (&json!("interrupted"), &json!(2)), "{end}");
        assert!(serve.wait().success(), "{}", serve.stderr());
        caller.saw("boiler", "offline");
        // Whoever comes now is shown nothing at all: a departure that is retained would be told.
        let mut late = Caller::join(&broker.url(), "late", &["--watch"]);
        late.do_it(json!({"do": "peers"}));
        let shown = |line: &Value| line["presence"].as_str().filter(|name| *name != "hmi").map(str::to_owned);
        let told: Vec<String> = late.child().heard(shown).into_iter().filter(|name| name != "late").collect();
        assert_eq!(told, Vec::<String>::new());
    }
    let serve = serve(&broker);
    caller.saw("boiler", "online");
    drop(serve);
    caller.saw("boiler", "offline");
}

/// Invariant 7: the fake outlives its broker and says so; the device that comes later has its name, and the command ends with 1.
#[test]
fn a_served_fake_leaves_its_name_to_the_device() {
    let mut broker = Broker::stock();
    let mut serve = serve(&broker);
    broker.start_again();
    let mut caller = Caller::join(&broker.url(), "hmi", &["--watch"]);
    caller.saw("boiler", "online");
    assert_eq!(caller.call("msgpack", ["boiler", "boiler", "setPressure"], json!([8]))["value"], 7.5);
    let mut device = Peer::join(&broker, "boiler", &[]);
    let end = serve.wait_for("last word", |line| line["ended"].is_string().then(|| line.clone()));
    assert_eq!((&end["ended"], &end["peer"]), (&json!("withdrawn"), &json!("boiler")), "{end}");
    assert_eq!(serve.wait().code(), Some(1), "{}", serve.stderr());
    for words in ["the broker is away", "the broker is back", "another peer goes by the name 'boiler' now"] {
        assert!(serve.stderr().contains(words), "{words}: {}", serve.stderr());
    }
    let answer = caller.call("msgpack", ["boiler", "scale", "add"], json!([1, 2]));
    assert_eq!(answer["value"], 3, "{answer}");
    device.ran("add");
}
