//! The process: what it prints, and how it ends.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Bridge, Broker, Caller, PLANTBRIDGE, Peer, call_arguments, error_of, structured};

/// Invariant 3. That every line is JSON is checked wherever a line is read; here all of them are, at the loudest.
#[test]
fn standard_output_carries_nothing_but_the_protocol() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &["--double-reply"]);
    let arguments = ["--broker", &broker.url(), "--name", "bridge-test"];
    let mut bridge = Bridge::start(&arguments, &[("RUST_LOG", "trace")]);
    bridge.call_once_joined("list_peers", &json!({}));
    structured(&bridge.call_method(["scale-1", "scale", "add"], &json!([1, 2]), 5000));
    error_of(&bridge.call_method(["scale-1", "scale", "fail"], &json!(["Busy"]), 5000));
    peer.wish(&json!({"do": "vanish"}));
    let unknown = bridge.request("no/such/method", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    assert!(bridge.hang_up().success(), "{}", bridge.stderr());
    for line in bridge.leftover() {
        assert_eq!(line["jsonrpc"], "2.0", "{line}");
    }
    assert!(!bridge.stderr().is_empty(), "RUST_LOG=trace says nothing at all");
}

/// W-035: a client that hangs up ends the process, which says goodbye to the plant.
#[test]
fn w035_the_end_of_input_is_a_polite_leave() {
    let broker = Broker::stock();
    let mut watcher = Caller::join(&broker.url(), "watcher", &["--watch"]);
    let mut bridge = Bridge::join(&broker);
    watcher.saw("bridge-test", "online");
    assert!(bridge.hang_up().success(), "{}", bridge.stderr());
    assert_eq!(watcher.saw("bridge-test", "offline")["retained"], false);
    watcher.saw("bridge-test", "");
    // What was cleared is not told to those who come later.
    let mut later = Caller::join(&broker.url(), "later", &[]);
    let peers = later.do_it(json!({"do": "peers"}));
    assert!(!peers["peers"].to_string().contains("bridge-test"), "{peers}");
}

/// A command that left when the operator ends the process is told as in doubt, promptly.
#[test]
fn sigterm_in_mid_call_is_answered_and_quick() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut watcher = Caller::join(&broker.url(), "watcher", &["--watch"]);
    let mut bridge = Bridge::join(&broker);
    let held = bridge.begin("call_method", &call_arguments(["scale-1", "scale", "hold"], &json!([1]), 20_000));
    peer.ran("hold");
    bridge.terminate();
    let asked = Instant::now();
    let result = bridge.finish(held);
    assert_eq!(error_of(&result)["outcome"], "unknown", "{result}");
    let status = bridge.wait();
    assert!(asked.elapsed() < Duration::from_secs(2), "it took {:?}", asked.elapsed());
    assert!(status.success(), "{status}: {}", bridge.stderr());
    watcher.saw("bridge-test", "online");
    watcher.saw("bridge-test", "offline");
}

/// A bridge that is killed is taken off the network by its will (W-032).
#[test]
fn w032_a_bridge_that_dies_is_seen_to_be_gone() {
    let broker = Broker::stock();
    let mut watcher = Caller::join(&broker.url(), "watcher", &["--watch"]);
    let bridge = Bridge::join(&broker);
    watcher.saw("bridge-test", "online");
    drop(bridge);
    watcher.saw("bridge-test", "offline");
}

#[test]
fn the_tour_runs_once_and_ends_well() {
    let output = Command::new(PLANTBRIDGE).args(["demo", "--once"]).output().expect("the binary can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("bakery"), "{said}");
}
