//! What watches a bridge, as others see it: a probe while the broker comes and goes, a reader of metrics that is not ours, and an
//! operator who ends it.

use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Bridge, Broker, PATIENCE, PLANTBRIDGE, Peer, call_arguments, metrics, structured};

/// A bridge on this broker that is watched, and where.
fn watched(broker: &Broker) -> (Bridge, String) {
    let arguments = ["--broker", &broker.url(), "--name", "bridge-test", "--metrics-port", "0"];
    let mut bridge = Bridge::start(&arguments, &[]);
    bridge.call_once_joined("list_peers", &json!({}));
    let log = bridge.stderr();
    let (_, rest) = log.split_once("health and metrics are at ").expect("it says where");
    let url = rest.split(": ").next().expect("the address").to_owned();
    (bridge, url)
}

/// What `plantbridge health` says, and whether all is well.
fn health(url: &str) -> (bool, String) {
    let told = Command::new(PLANTBRIDGE).args(["health", "--url", url]).output().expect("the binary can be started");
    let said = if told.status.success() { told.stdout } else { told.stderr };
    (told.status.success(), String::from_utf8(said).expect("text"))
}

fn until(url: &str, what: impl Fn(&(bool, String)) -> bool) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let told = health(url);
        if what(&told) {
            return told.1;
        }
        assert!(Instant::now() < end, "it stays {told:?}");
    }
}

/// A broker that goes and comes back is told by the probe, and counted.
#[test]
fn a_probe_follows_the_broker() {
    let mut broker = Broker::stock();
    let (bridge, url) = watched(&broker);
    assert_eq!(until(&url, |(well, _)| *well), "ready\n");
    broker.stop();
    let said = until(&url, |(well, _)| !well);
    assert!(said.contains("not_ready link_down; mqtt is "), "{said}");
    broker.start_again();
    until(&url, |(well, _)| *well);
    let told = metrics(&url);
    let family = |name: &str| told["families"][name]["samples"][0].clone();
    let labels = json!({"link": "0", "kind": "mqtt"});
    assert_eq!(family("plantbridge_link_reconnects"), json!(["plantbridge_link_reconnects_total", labels, 1]));
    assert_eq!(family("plantbridge_link_up"), json!(["plantbridge_link_up", labels, 1]));
    drop(bridge);
}

/// The reader of Prometheus' own client takes every line, and finds the calls that were made.
#[test]
fn metrics_are_read_by_others() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let (mut bridge, url) = watched(&broker);
    for _ in 0..3 {
        structured(&bridge.call_method(["scale-1", "scale", "add"], &json!([1, 2]), 5000));
    }
    let told = metrics(&url);
    assert_eq!(told["kind"], "text/plain; version=0.0.4; charset=utf-8");
    let samples = |family: &str| told["families"][family]["samples"].as_array().expect("samples").clone();
    let calls = samples("plantbridge_tool_calls");
    let ok = json!(["plantbridge_tool_calls_total", {"tool": "call_method", "outcome": "ok"}, 3]);
    assert!(calls.contains(&ok), "{calls:?}");
    let times = samples("plantbridge_network_call_duration_seconds");
    let last = |name: &str| {
        let name = format!("plantbridge_network_call_duration_seconds_{name}");
        times.iter().rfind(|sample| sample[0] == name).map(|sample| sample[2].clone()).expect("a sample")
    };
    assert_eq!(last("bucket"), last("count"), "{times:?}");
    assert!(last("count").as_f64() >= Some(4.0) && last("sum").as_f64() > Some(0.0), "{times:?}");
    let memory = samples("process_resident_memory_bytes")[0][2].as_f64();
    assert!(memory > Some(1e6) && samples("process_open_fds")[0][2].as_f64() > Some(3.0), "{told}");
    assert_eq!(told["families"]["plantbridge_build_info"]["type"], "gauge");
}

/// While a bridge that was asked to end still waits for a call, it is alive and not ready.
#[test]
fn a_bridge_that_leaves_is_not_ready() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let (mut bridge, url) = watched(&broker);
    let held = bridge.begin("call_method", &call_arguments(["scale-1", "scale", "hold"], &json!([1]), 20_000));
    peer.ran("hold");
    bridge.terminate();
    let said = until(&url, |(well, _)| !well);
    assert!(said.contains("not_ready leaving"), "{said}");
    let answer: Value = bridge.finish(held);
    assert_eq!(answer["isError"], true, "{answer}");
    assert!(bridge.wait().success(), "{}", bridge.stderr());
    assert!(health(&url).1.starts_with("plantbridge: health: 127.0.0.1:"));
}
