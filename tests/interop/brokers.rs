//! Brokers that go, come back, refuse us, hold many peers, or let a second one in under our name.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Bridge, Broker, BrokerOptions, Caller, PATIENCE, Peer, call_arguments, error_of, structured};

/// W-072, W-075: what had left is in doubt, and is not sent again when the broker is back.
#[test]
fn w072_a_broker_lost_in_mid_call_leaves_the_outcome_unknown() {
    let mut broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let held = bridge.begin("call_method", &call_arguments(["scale-1", "scale", "hold"], &json!([1]), 20_000));
    peer.ran("hold");
    broker.stop();
    let result = bridge.finish(held);
    let error = error_of(&result);
    assert_eq!((&error["code"], &error["outcome"]), (&json!("unknown_outcome"), &json!("unknown")), "{error}");
    assert_eq!(error["retryable"], false);
    broker.start_again();
    peer.wish(&json!({"do": "release"}));
    let add = call_arguments(["scale-1", "scale", "add"], &json!([1, 2]), 5000);
    assert_eq!(structured(&bridge.call_once_joined("call_method", &add))["result"], 3);
    assert_eq!(peer.runs("hold"), 0, "it was sent again");
}

/// W-081, invariant 6: what is refused while the link is down never runs later.
#[test]
fn w081_a_command_refused_during_an_outage_never_runs() {
    let mut broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    // Describes the peer, so that nothing but the network can be in the way.
    structured(&bridge.call_method(["scale-1", "scale", "add"], &json!([0, 0]), 5000));
    let held = bridge.begin("call_method", &call_arguments(["scale-1", "scale", "hold"], &json!([1]), 20_000));
    peer.ran("hold");
    broker.stop();
    // The end of this call is how the outage is known to have been noticed.
    bridge.finish(held);
    let result = bridge.call_method(["scale-1", "scale", "tare"], &json!([]), 5000);
    let error = error_of(&result);
    assert_eq!((&error["code"], &error["outcome"]), (&json!("network_unavailable"), &json!("not_run")), "{error}");
    assert_eq!(error["retryable"], true);
    assert!(error["retry_after_ms"].is_number(), "{error}");
    broker.start_again();
    let add = call_arguments(["scale-1", "scale", "add"], &json!([1, 2]), 5000);
    structured(&bridge.call_once_joined("call_method", &add));
    peer.ran("add");
    peer.ran("add");
    assert_eq!(peer.runs("tare"), 0);
}

#[test]
fn a_broker_that_was_restarted_before_the_first_call_is_found_again() {
    let mut broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    broker.start_again();
    let add = call_arguments(["scale-1", "scale", "add"], &json!([1, 2]), 5000);
    assert_eq!(structured(&bridge.call_once_joined("call_method", &add))["result"], 3);
}

#[test]
fn a_broker_that_is_not_there_yet_is_waited_for() {
    let mut broker = Broker::stock();
    let url = broker.url();
    broker.stop();
    let mut bridge = Bridge::start(&["--broker", &url, "--name", "bridge-test"], &[]);
    let result = bridge.call("list_peers", &json!({}));
    assert_eq!(error_of(&result)["code"], "network_unavailable");
    broker.start_again();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let add = call_arguments(["scale-1", "scale", "add"], &json!([1, 2]), 5000);
    assert_eq!(structured(&bridge.call_once_joined("call_method", &add))["result"], 3);
}

/// Design 6: the cause is named, the process lives, and the password is nowhere.
#[test]
fn a_wrong_password_is_named_and_survived() {
    let account = Some(("plant".to_owned(), "right".to_owned()));
    let broker = Broker::start(&BrokerOptions { account, ..BrokerOptions::default() });
    let arguments = ["--broker", &broker.url(), "--name", "bridge-test"];
    let wrong = [("PLANTBRIDGE_MQTT_USERNAME", "plant"), ("PLANTBRIDGE_MQTT_PASSWORD", "s3cret-and-wrong")];
    let mut bridge = Bridge::start(&arguments, &wrong);
    let named =
        |text: &str| ["password", "credential", "authori"].iter().any(|word| text.to_lowercase().contains(word));
    // Until the broker has answered, the cause is only that we are joining.
    let until = Instant::now() + PATIENCE;
    let error = loop {
        let result = bridge.call("list_peers", &json!({}));
        let error = error_of(&result).clone();
        assert_eq!(error["code"], "network_unavailable", "{error}");
        if named(&error.to_string()) {
            break error;
        }
        assert!(Instant::now() < until, "the cause is not named: {error}");
    };
    let said = bridge.stderr();
    assert!(named(&said), "the operator is not told: {said}");
    assert!(!said.contains("s3cret") && !error.to_string().contains("s3cret"), "the password is told");
    let right = [("PLANTBRIDGE_MQTT_USERNAME", "plant"), ("PLANTBRIDGE_MQTT_PASSWORD", "right")];
    let mut bridge = Bridge::start(&arguments, &right);
    structured(&bridge.call_once_joined("list_peers", &json!({})));
}

/// A stock broker bounds what it queues at QoS 1 and would show about half of them (wire.md 4.2).
#[test]
fn two_thousand_peers_on_a_stock_broker_are_all_listed() {
    let broker = Broker::stock();
    let mut crowd = Caller::join(&broker.url(), "crowd", &["--no-presence"]);
    let told = crowd.do_it(json!({"do": "announce", "count": 2000, "stem": "device-"}));
    assert_eq!(told["announced"], 2000);
    let mut bridge = Bridge::join(&broker);
    let mut seen = BTreeSet::new();
    let mut arguments = json!({"limit": 500});
    loop {
        let result = bridge.call("list_peers", &arguments);
        let page = structured(&result);
        assert_eq!(page["matched"], 2000, "{page}");
        let peers = page["peers"].as_array().expect("a list of names");
        assert_eq!(page["returned"], peers.len());
        for peer in peers {
            let name = peer.as_str().expect("a name");
            assert!(seen.insert(name.to_owned()), "{name} is on two pages");
        }
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        assert_eq!(page["truncated"], true);
        arguments["cursor"] = json!(cursor);
    }
    assert_eq!(seen.len(), 2000);
    assert!(seen.contains("device-00000") && seen.contains("device-01999"));
}

/// Wire.md 4.1: the broker lets one in per name. Who is displaced looks who has the name now, says so, leaves it to him, and
/// comes back when he has gone. This broker does not say why it ends a connection.
#[test]
fn a_second_peer_of_our_name_is_reported_and_outlived() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let mut usurper = Caller::join(&broker.url(), "bridge-test", &["--no-reconnect"]);
    let until = Instant::now() + PATIENCE;
    loop {
        let result = bridge.call("list_peers", &json!({}));
        if result["structuredContent"]["error"]["links"][0]["kind"] == "name_taken" {
            break;
        }
        assert!(Instant::now() < until, "{result}");
    }
    let answer = usurper.call("msgpack", ["scale-1", "scale", "add"], json!([1, 2]));
    assert_eq!(answer["value"], 3, "he is not disturbed: {answer}");
    let closed = usurper.child().heard(|line: &Value| line.get("closed").cloned());
    assert!(closed.is_empty(), "we threw him off");
    drop(usurper);
    let add = call_arguments(["scale-1", "scale", "add"], &json!([1, 2]), 5000);
    assert_eq!(structured(&bridge.call_once_joined("call_method", &add))["result"], 3);
    let said = bridge.stderr();
    assert_eq!(
        said.matches("a peer named bridge-test is on the network").count(),
        1,
        "the operator is told once: {said}"
    );
}
