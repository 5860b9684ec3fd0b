//! Components of a responder of other making: looking leaves nothing behind, writing is told as what came of it.

use serde_json::{Value, json};

use crate::support::{Bridge, Broker, Peer, error_of, structured};

fn tank(more: Value) -> Value {
    let mut arguments = json!({"peer": "scale-1", "namespace": "tank"});
    for (key, value) in more.as_object().cloned().unwrap_or_default() {
        arguments[key] = value;
    }
    arguments
}

fn until_unsubscribed(peer: &mut Peer) {
    let gone = |line: &Value| (line["unsubscribed"] == "bridge-test" && line["event"] == "$snapshot").then_some(());
    peer.0.wait_for("end of the subscription", gone);
}

/// Invariant 5.
#[test]
fn a_look_shows_props_and_state_and_leaves_no_subscriber() {
    let broker = Broker::stock();
    for options in [&[][..], &["--json"]] {
        let mut peer = Peer::join(&broker, "scale-1", options);
        let mut bridge = Bridge::join(&broker);
        let result = bridge.call("read_state", &tank(json!({})));
        let told = structured(&result);
        assert_eq!(told["component"], "scale-1.tank", "{told}");
        assert_eq!(told["status"], "live");
        assert_eq!(told["props"], json!({"unit": "l", "capacity": 500}));
        assert_eq!(told["state"]["zones"]["left"]["setpoint"], 10);
        assert!(told["receivedAt"].is_string() && told["epoch"].is_string() && told["revision"].is_number(), "{told}");
        until_unsubscribed(&mut peer);
        let result = bridge.call("read_state", &tank(json!({"path": "zones.left"})));
        assert!(structured(&result).to_string().contains("\"setpoint\":10"), "{result}");
        until_unsubscribed(&mut peer);
        peer.wish(&json!({"do": "leave"}));
        peer.0.wait();
    }
}

#[test]
fn what_is_no_component_is_said_to_be_none() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let result = bridge.call("read_state", &json!({"peer": "scale-1", "namespace": "scale"}));
    let error = error_of(&result);
    assert_eq!(error["code"], "not_a_component", "{error}");
    assert!(error["alternatives"].to_string().contains("tank"), "{error}");
}

/// What the plant agreed to decides, not that the method ran.
#[test]
fn a_written_value_is_confirmed_by_the_plant_or_not() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    for (value, confirmed) in [(300, true), (9000, false)] {
        let write = tank(json!({"path": "setpoint", "value": value, "verify_seconds": 2}));
        let result = bridge.call("set_state", &write);
        let told = structured(&result);
        assert_eq!(told["called"], "tank.setSetpoint", "{told}");
        assert_eq!(told["confirmed"], confirmed, "{told}");
        assert_eq!(peer.ran("setSetpoint")["args"], json!([value]));
        until_unsubscribed(&mut peer);
    }
    let result = bridge.call("read_state", &tank(json!({})));
    assert_eq!(structured(&result)["state"]["setpoint"], 500, "the capacity is where the tank stops");
}

#[test]
fn a_value_nobody_sets_or_of_the_wrong_kind_never_leaves() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let result = bridge.call("set_state", &tank(json!({"path": "level", "value": 1})));
    let error = error_of(&result);
    assert_eq!((&error["code"], &error["outcome"]), (&json!("no_setter"), &json!("not_run")), "{error}");
    assert!(error["alternatives"].to_string().contains("setpoint"), "{error}");
    let result = bridge.call("set_state", &tank(json!({"path": "setpoint", "value": "high"})));
    let error = error_of(&result);
    assert_eq!((&error["code"], &error["outcome"]), (&json!("invalid_params"), &json!("not_run")), "{error}");
    bridge.call_method(["scale-1", "scale", "tare"], &json!([]), 5000);
    peer.ran("tare");
    assert_eq!(peer.runs("setSetpoint") + peer.runs("setMode"), 0);
}
