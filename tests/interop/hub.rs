//! The bridge on a hub of other making, the socket.io server, with a device of other making behind it.

use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Bridge, Broker, Hub, PATIENCE, PLANTBRIDGE, Peer, error_of, structured};

const NAME: &str = "bridge-test";

/// A bridge on this hub that sees `scale-1`.
fn bridge(hub: &Hub) -> Bridge {
    let mut bridge = Bridge::start(&["--hub", &hub.url, "--name", NAME], &[]);
    bridge.call_once_joined("describe_peer", &json!({"peer": "scale-1"}));
    bridge
}

fn tank(more: Value) -> Value {
    let mut arguments = json!({"peer": "scale-1", "namespace": "tank"});
    for (key, value) in more.as_object().cloned().unwrap_or_default() {
        arguments[key] = value;
    }
    arguments
}

/// W-101, W-103: looking, calling, setting and watching over a real hub, and a departure that it tells others of.
#[test]
fn w101_w103_a_hub_of_other_making_carries_everything() {
    let mut hub = Hub::start(&[]);
    let mut peer = Peer::join_at(&hub.url, "scale-1", &[]);
    let mut bridge = bridge(&hub);
    let announced = hub.announced(NAME);
    assert_eq!(announced["v"], 2);
    assert!(announced["shape"].is_string(), "{announced}");
    let told = bridge.call("list_peers", &json!({}));
    assert_eq!(structured(&told)["peers"], json!(["bus-1", "scale-1"]), "{told}");
    assert_eq!(structured(&told)["details"][1]["links"], json!(["hub"]));
    let value = json!({"$date": "2026-07-27T21:30:32.623Z"});
    for (method, args, expected) in [
        ("add", json!([2, 40]), json!(42)),
        ("echo", json!([value.clone()]), value),
        ("echo", json!([{"$bytes": "AAH/"}]), json!({"$bytes": "AAH/"})),
        ("void", json!([]), Value::Null),
    ] {
        let result = bridge.call_method(["scale-1", "scale", method], &args, 5_000);
        assert_eq!(structured(&result)["result"], expected, "{method}: {result}");
    }
    let result = bridge.call("read_state", &tank(json!({})));
    assert_eq!(structured(&result)["state"]["level"], 120, "{result}");
    let result = bridge.call("set_state", &tank(json!({"path": "setpoint", "value": 300})));
    assert_eq!(structured(&result)["applied"], true, "{result}");
    let result = bridge.call("read_state", &tank(json!({"path": "setpoint"})));
    assert!(structured(&result).to_string().contains("300"), "{result}");
    let watching = json!({"peer": "scale-1", "namespace": "scale", "event": "weight", "seconds": 30, "max_events": 3});
    let watch = bridge.begin("watch_events", &watching);
    let on = |line: &Value| (line["subscribed"] == NAME && line["event"] == "weight").then_some(());
    peer.0.wait_for("subscription", on);
    peer.wish(&json!({"do": "emit", "n": 3}));
    let result = bridge.finish(watch);
    assert_eq!(structured(&result)["heard"].as_array().map(Vec::len), Some(3), "{result}");
    drop(bridge);
    let gone = |line: &Value| (line["gone"] == NAME).then_some(());
    hub.child.wait_for("departure of the bridge", gone);
}

/// A hub that cuts, sends away, or restarts: the bridge comes back by itself, and a command is run once or not at all.
#[test]
fn w108_the_bridge_comes_back_to_a_hub() {
    let mut hub = Hub::start(&[]);
    let mut peer = Peer::join_at(&hub.url, "scale-1", &[]);
    let mut bridge = bridge(&hub);
    hub.announced(NAME);
    for end in ["cut", "away"] {
        let held = bridge
            .begin("call_method", &json!({"peer": "scale-1", "namespace": "scale", "method": "hold", "args": [1]}));
        peer.ran("hold");
        hub.wish(&json!({"do": end, "name": NAME}));
        let result = bridge.finish(held);
        let error = error_of(&result);
        assert_eq!(
            (&error["code"], &error["outcome"]),
            (&json!("unknown_outcome"), &json!("unknown")),
            "{end}: {error}"
        );
        hub.announced(NAME);
        peer.wish(&json!({"do": "release"}));
        let result = bridge.call_once_joined(
            "call_method",
            &json!({"peer": "scale-1", "namespace": "scale", "method": "add", "args": [1, 2]}),
        );
        assert_eq!(structured(&result)["result"], 3, "{result}");
    }
    assert_eq!(peer.runs("hold"), 0, "nothing ran a second time");
}

/// A device that leaves is known to be gone; a call to nobody is not sent.
#[test]
fn a_departure_is_told() {
    let hub = Hub::start(&[]);
    let mut peer = Peer::join_at(&hub.url, "scale-1", &[]);
    let mut bridge = bridge(&hub);
    peer.wish(&json!({"do": "leave"}));
    peer.0.wait();
    let until = Instant::now() + PATIENCE;
    loop {
        let result = bridge.call_method(["scale-1", "scale", "tare"], &json!([]), 2_000);
        let error = error_of(&result).clone();
        assert_eq!(error["outcome"], "not_run", "{error}");
        if error["code"] == "unknown_peer" {
            break;
        }
        assert!(Instant::now() < until, "{error}");
    }
}

/// A token lets us in under its name; another is refused, said to be, and shown nowhere.
#[test]
fn a_token_opens_a_hub_and_is_never_shown() {
    let hub = Hub::start(&["--tokens", r#"{"tok-bridge": "bridge-test", "tok-scale": "scale-1"}"#]);
    let _peer = Peer::join_at(&hub.url, "scale-1", &["--token", "tok-scale"]);
    let arguments = ["--hub", &hub.url, "--name", NAME];
    let mut bridge = Bridge::start(&arguments, &[("PLANTBRIDGE_TOKEN", "tok-bridge")]);
    let call = json!({"peer": "scale-1", "namespace": "scale", "method": "add", "args": [1, 2]});
    assert_eq!(structured(&bridge.call_once_joined("call_method", &call))["result"], 3);

    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    let file = folder.path().join("auth.json");
    std::fs::write(&file, r#"{"token": "tok-bridge"}"#).expect("the scratch folder can be written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, mode).expect("the file is ours");
    drop(bridge);
    let auth = file.display().to_string();
    let with_file = ["--hub", &hub.url, "--name", NAME, "--auth", &auth];
    let mut bridge = Bridge::start(&with_file, &[("PLANTBRIDGE_TOKEN", "hunter2")]);
    assert_eq!(structured(&bridge.call_once_joined("call_method", &call))["result"], 3, "a file wins");
    drop(bridge);

    let mut bridge = Bridge::start(&arguments, &[("PLANTBRIDGE_TOKEN", "hunter2")]);
    let until = Instant::now() + PATIENCE;
    let refused = loop {
        let result = bridge.call("list_peers", &json!({}));
        let error = error_of(&result).clone();
        if error["links"][0]["kind"] == "unauthorized" {
            break error;
        }
        assert!(Instant::now() < until, "{error}");
    };
    assert!(refused["fix"].as_str().is_some_and(|fix| fix.contains("PLANTBRIDGE_TOKEN")), "{refused}");
    assert!(!refused.to_string().contains("hunter2") && !bridge.stderr().contains("hunter2"), "{refused}");
}

fn boiler() -> Value {
    let number = json!({"kind": "number", "min": 0, "max": 200});
    let methods = json!({"read": {"params": [], "returns": number, "semantics": "query"}});
    json!({"schema": 1, "version": "1", "namespaces": {"boiler": {"version": "4", "methods": methods}}})
}

/// What another process gets from the fake, over the hub.
fn read_by_another(hub: &Hub, token: Option<&str>) -> String {
    let mut command = Command::new(PLANTBRIDGE);
    command.args(["call", "double", "boiler.read", "--name", "hmi", "--hub", &hub.url]);
    let output = command.envs(token.map(|token| ("PLANTBRIDGE_TOKEN", token))).output();
    let output = output.expect("the binary can be started");
    String::from_utf8(output.stdout).expect("text") + &String::from_utf8_lossy(&output.stderr)
}

/// A fake on a hub is a peer of it by a connection of its own: others call it, and a bridge that is killed takes it off.
#[test]
fn a_fake_stands_on_a_hub_of_other_making() {
    let mut hub = Hub::start(&[]);
    let _peer = Peer::join_at(&hub.url, "scale-1", &[]);
    let mut bridge = bridge(&hub);
    structured(&bridge.call("start_fake", &json!({"name": "double", "schema": boiler()})));
    assert_eq!(hub.announced("double")["v"], 2);
    assert!(read_by_another(&hub, None).starts_with("100"), "{}", read_by_another(&hub, None));
    // A device comes, and has its name.
    let _real = Peer::join_at(&hub.url, "double", &[]);
    let until = Instant::now() + PATIENCE;
    while structured(&bridge.call("list_fakes", &json!({})))["withdrawn"][0]["peer"] != "double" {
        assert!(Instant::now() < until, "it does not withdraw: {}", bridge.stderr());
    }
    let add = json!({"peer": "double", "namespace": "scale", "method": "add", "args": [1, 2]});
    assert_eq!(structured(&bridge.call_once_joined("call_method", &add))["result"], 3);
    structured(&bridge.call("start_fake", &json!({"name": "double-2", "schema": boiler()})));
    bridge.kill();
    hub.child.wait_for("end of the fake", |line| (line["gone"] == "double-2").then_some(()));
}

/// The file of `--auth`, for us alone.
fn auth(folder: &tempfile::TempDir, text: Value) -> String {
    let file = folder.path().join("auth.json");
    std::fs::write(&file, text.to_string()).expect("the scratch folder can be written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, mode).expect("the file is ours");
    file.display().to_string()
}

/// F-33: on a hub that ties a token to a name, a fake is let in by a credential of its own that its bridge mints. Without one,
/// or with one that the hub does not take, its start fails with the reason and leaves nothing.
#[test]
fn f33_a_hub_with_tokens_lets_a_fake_in_whom_its_bridge_vouches_for() {
    let tokens = r#"{"tok-bridge": "bridge-test", "tok-hmi": "hmi"}"#;
    let mut hub = Hub::start(&["--tokens", tokens, "--issuers", r#"{"bridge-test": "what-the-hub-knows"}"#]);
    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    for (file, reason) in [
        (json!({"token": "tok-bridge"}), "`derive` secret"),
        (json!({"token": "tok-bridge", "derive": "something else"}), "list this bridge as an issuer"),
    ] {
        let auth = auth(&folder, file);
        let mut bridge = Bridge::start(&["--hub", &hub.url, "--name", NAME, "--auth", &auth], &[]);
        bridge.call_once_joined("list_peers", &json!({}));
        let refused = bridge.call("start_fake", &json!({"name": "double", "schema": boiler()}));
        let error = error_of(&refused);
        assert_eq!((&error["code"], &error["outcome"]), (&json!("fake_failed"), &json!("not_run")), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(structured(&bridge.call("list_fakes", &json!({})))["matched"], 0);
    }
    assert!(hub.child.heard(|line| (line["announced"] == "double").then_some(())).is_empty());
    let auth = auth(&folder, json!({"token": "tok-bridge", "derive": "what-the-hub-knows"}));
    let mut bridge = Bridge::start(&["--hub", &hub.url, "--name", NAME, "--auth", &auth], &[]);
    bridge.call_once_joined("list_peers", &json!({}));
    structured(&bridge.call("start_fake", &json!({"name": "double", "schema": boiler()})));
    let let_in = hub.child.wait_for("credential", |line| (line["as"] == "double").then(|| line.clone()));
    assert_eq!((&let_in["roles"], &let_in["generation"]), (&json!(["ai-program", "simulated"]), &json!(2)));
    let answer = read_by_another(&hub, Some("tok-hmi"));
    assert!(answer.starts_with("100"), "{answer}");
    // Cut off, it comes back with another one.
    hub.announced("double");
    hub.wish(&json!({"do": "cut", "name": "double"}));
    let again = hub.child.wait_for("credential", |line| (line["as"] == "double").then(|| line["presented"].clone()));
    assert_ne!(again, let_in["presented"]);
    hub.announced("double");
}

/// A broker and a hub at once, with the binary as people start it: one roster.
#[test]
fn a_broker_and_a_hub_are_one_network() {
    let (broker, hub) = (Broker::stock(), Hub::start(&[]));
    let _one = Peer::join(&broker, "scale-1", &[]);
    let _other = Peer::join_at(&hub.url, "scale-2", &[]);
    let mut bridge = Bridge::start(&["--broker", &broker.url(), "--hub", &hub.url, "--name", NAME], &[]);
    for peer in ["scale-1", "scale-2"] {
        let call = json!({"peer": peer, "namespace": "scale", "method": "add", "args": [1, 2]});
        assert_eq!(structured(&bridge.call_once_joined("call_method", &call))["result"], 3);
    }
    let told = bridge.call("list_peers", &json!({}));
    let told = structured(&told);
    assert_eq!(told["peers"], json!(["bus-1", "scale-1", "scale-2"]));
    assert_eq!((&told["details"][1]["links"], &told["details"][2]["links"]), (&json!(["mqtt"]), &json!(["hub"])));
}
