//! Watching the traffic of a real broker: with an account, over TLS, when it is forbidden, and when the broker dies.

use serde_json::{Value, json};

use crate::support::{Authority, Bridge, Broker, BrokerOptions, Peer, error_of, structured};

/// How the log of the broker calls the tap of `bridge-test`.
const TAP: &str = "msgrpc-bridge-test-tap-";
const ACCOUNT: (&str, &str) = ("operator", "open sesame");

fn account() -> (String, String) {
    (ACCOUNT.0.to_owned(), ACCOUNT.1.to_owned())
}

/// Waits until the tap listens, for the `times`th time.
fn listens(broker: &Broker, times: usize) {
    let acknowledged = format!("Sending SUBACK to {TAP}");
    broker.said("that the tap listens", |log| log.matches(&acknowledged).count() >= times);
}

/// Waits until the tap has gone, for the `times`th time.
fn gone(broker: &Broker, times: usize) {
    let left = |log: &str| log.lines().filter(|line| line.contains(TAP) && line.contains("disconnected")).count();
    broker.said("that the tap is gone", |log| left(log) >= times);
}

/// A bridge with an account.
fn join(broker: &Broker, more: &[&str]) -> Bridge {
    let url = broker.url();
    let arguments = [&["--broker", url.as_str(), "--name", "bridge-test"], more].concat();
    let environment = [("PLANTBRIDGE_MQTT_USERNAME", ACCOUNT.0), ("PLANTBRIDGE_MQTT_PASSWORD", ACCOUNT.1)];
    let mut bridge = Bridge::start(&arguments, &environment);
    structured(&bridge.call_once_joined("list_peers", &json!({})));
    bridge
}

/// Watches `peer` while the bridge itself describes it; gives what was seen.
fn watched(broker: &Broker, bridge: &mut Bridge, peer: &str) -> Value {
    let watch = bridge.begin("watch_traffic", &json!({"seconds": 30, "peer": peer, "max_frames": 2}));
    listens(broker, 1);
    bridge.call("describe_peer", &json!({"peer": peer}));
    structured(&bridge.finish(watch)).clone()
}

/// W-120: what a foreign peer answers is seen and paired; its presence is not changed by it, and nothing is left.
#[test]
fn w120_calls_to_a_foreign_peer_are_seen() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let told = watched(&broker, &mut bridge, "scale-1");
    gone(&broker, 1);
    let frames = told["frames"].as_array().expect("frames");
    assert_eq!((&frames[0]["kind"], &frames[0]["what"]), (&json!("POST"), &json!("introspection")), "{told}");
    assert_eq!((&frames[1]["kind"], &frames[0]["answer"]), (&json!("SUCCESS"), &json!("SUCCESS")), "{told}");
    assert!(frames[1]["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{told}");
    let retained = broker.said("anything", |_| true);
    assert!(!retained.contains(&format!("Received PUBLISH from {TAP}")), "the tap publishes nothing");
}

/// F-23: the account of the bridge opens the tap's connection too.
#[test]
fn the_tap_has_the_account_of_the_bridge() {
    let broker = Broker::start(&BrokerOptions { account: Some(account()), ..BrokerOptions::default() });
    let options = ["--username", ACCOUNT.0, "--password", ACCOUNT.1];
    let _peer = Peer::join(&broker, "scale-1", &options);
    let mut bridge = join(&broker, &[]);
    assert_eq!(watched(&broker, &mut bridge, "scale-1")["counts"]["pairs"], 1);
}

/// F-23: and so do its certificates.
#[test]
fn the_tap_has_the_certificates_of_the_bridge() {
    let authority = Authority::new();
    let broker = Broker::start(&BrokerOptions { tls: Some(authority.clone()), ..BrokerOptions::default() });
    let file = |name: &str| authority.file(name).display().to_string();
    let (ca, certificate, key) = (file("ca"), file("client"), file("client-key"));
    let mut bridge = join(&broker, &["--ca", &ca, "--client-cert", &certificate, "--client-key", &key]);
    let watch = bridge.begin("watch_traffic", &json!({"seconds": 1}));
    listens(&broker, 1);
    let told = structured(&bridge.finish(watch)).clone();
    assert_eq!((&told["not_shown"]["retained"], &told["counts"]["frames"]), (&json!(1), &json!(0)), "{told}");
    assert!(told["note"].as_str().is_some_and(|note| note.contains("no peer said anything")), "{told}");
}

/// F-22: two watches share one connection, each with its own filter; the last to go closes it.
#[test]
fn two_watches_share_one_connection() {
    let broker = Broker::stock();
    let _peers = [Peer::join(&broker, "scale-1", &[]), Peer::join(&broker, "scale-2", &[])];
    let mut bridge = Bridge::join(&broker);
    let arguments = |peer: &str| json!({"seconds": 30, "peer": peer, "max_frames": 2});
    let one = bridge.begin("watch_traffic", &arguments("scale-1"));
    listens(&broker, 1);
    let other = bridge.begin("watch_traffic", &arguments("scale-2"));
    // Its answer comes after the second watch has begun: both came through one pipe.
    bridge.call("list_peers", &json!({}));
    bridge.call("describe_peer", &json!({"peer": "scale-1"}));
    let told = structured(&bridge.finish(one)).clone();
    assert_eq!(told["counts"]["frames"], 2, "{told}");
    bridge.call("describe_peer", &json!({"peer": "scale-2"}));
    let told = structured(&bridge.finish(other)).clone();
    assert!(
        told["frames"].as_array().expect("frames").iter().all(|frame| frame.to_string().contains("scale-2")),
        "{told}"
    );
    gone(&broker, 1);
    let log = broker.said("anything", |_| true);
    assert_eq!(log.lines().filter(|line| line.contains("New client connected") && line.contains(TAP)).count(), 1);
}

/// F-08: a cancelled watch leaves no connection at the broker.
#[test]
fn a_cancelled_watch_leaves_no_connection() {
    let broker = Broker::stock();
    let mut bridge = Bridge::join(&broker);
    for round in 1..=3 {
        let watch = bridge.begin("watch_traffic", &json!({"seconds": 60}));
        listens(&broker, round);
        bridge.notify("notifications/cancelled", &json!({"requestId": watch}));
        gone(&broker, round);
    }
    assert!(bridge.hang_up().success());
}

/// A list of the broker that lets the bridge work and not watch: mosquitto grants the subscription and stays silent, which
/// must not look like a plant where nobody speaks.
#[test]
fn a_broker_that_forbids_watching_is_named() {
    let own = ["req", "rsp", "evt"].map(|channel| format!("topic read msgrpc/v2/{channel}/bridge-test\n")).concat();
    let acl = format!("user {}\ntopic write msgrpc/v2/#\n{own}", ACCOUNT.0);
    let options = BrokerOptions { account: Some(account()), acl: Some(acl), ..BrokerOptions::default() };
    let broker = Broker::start(&options);
    let mut bridge = join(&broker, &[]);
    let error = error_of(&bridge.call("watch_traffic", &json!({"seconds": 30}))).clone();
    assert_eq!((&error["code"], &error["filter"]), (&json!("tap_unavailable"), &json!("msgrpc/v2/#")), "{error}");
    assert!(error["fix"].as_str().is_some_and(|fix| fix.contains("access list")), "{error}");
    gone(&broker, 1);
}

/// A broker that dies in the middle: when nothing was heard is said, and what is said afterwards is heard.
#[test]
fn a_broker_that_dies_in_the_middle_is_told() {
    let mut broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let watch = bridge.begin("watch_traffic", &json!({"seconds": 60, "max_frames": 2, "kinds": ["POST"]}));
    listens(&broker, 1);
    // The broker answers it after it has answered the tap, so the watch has begun.
    bridge.call("describe_peer", &json!({"peer": "scale-1"}));
    broker.start_again();
    listens(&broker, 1);
    structured(&bridge.call_once_joined("describe_peer", &json!({"peer": "scale-1"})));
    let told = structured(&bridge.finish(watch)).clone();
    let gaps = told["interruptions"].as_array().expect("interruptions");
    assert_eq!(gaps.len(), 1, "{told}");
    assert!(["from", "to", "why"].iter().all(|member| gaps[0][member].is_string()), "{told}");
    assert_eq!((&told["ended"], &told["frames"][1]["own"]), (&json!("full"), &json!(true)), "{told}");
    assert!(told["note"].as_str().is_some_and(|note| note.contains("connection was lost")), "{told}");
}
