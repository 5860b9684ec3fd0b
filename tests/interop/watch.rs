//! Watching the events of a responder of other making, through a broker, also one that dies.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Bridge, Broker, PATIENCE, Peer, structured};

fn weight(more: Value) -> Value {
    let mut arguments = json!({"peer": "scale-1", "namespace": "scale", "event": "weight"});
    for (key, value) in more.as_object().cloned().unwrap_or_default() {
        arguments[key] = value;
    }
    arguments
}

fn emit(bridge: &mut Bridge, times: u64) {
    bridge.call_method(["scale-1", "scale", "emit"], &json!([times]), 5000);
}

fn seqs(told: &Value) -> Vec<u64> {
    told["records"].as_array().into_iter().flatten().filter_map(|record| record["seq"].as_u64()).collect()
}

/// S-067, S-069: first, gapless, and what fell between two watches by its numbers; nothing is left behind.
#[test]
fn what_fell_between_two_watches_is_told() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    for (fired, verdict, missing) in
        [(0, "first", json!([])), (0, "gapless", json!([])), (3, "missed", json!([[1, 3]])), (0, "gapless", json!([]))]
    {
        emit(&mut bridge, fired);
        let result = bridge.call("watch_events", &weight(json!({"seconds": 1})));
        let detail = &structured(&result)["loss_detail"];
        assert_eq!((&detail["verdict"], &detail["missing"]), (&json!(verdict), &missing), "{result}");
        let gone = |line: &Value| (line["unsubscribed"] == "bridge-test" && line["event"] == "weight").then_some(());
        peer.0.wait_for("end of the subscription", gone);
    }
}

/// S-070, W-080: a standing watch hears all of it, and goes on after the broker died, with the gap marked.
#[test]
fn a_standing_watch_survives_a_broker_that_dies() {
    let mut broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let watch = structured(&bridge.call("start_watch", &weight(json!({}))))["watch"].clone();
    emit(&mut bridge, 3);
    let told = structured(&bridge.call("read_watch", &json!({"watch": watch}))).clone();
    assert_eq!((&told["loss_detail"]["verdict"], seqs(&told)), (&json!("gapless"), vec![1, 2, 3]), "{told}");
    broker.start_again();
    let until = Instant::now() + PATIENCE;
    let back = |told: &Value| told["attached"] == true && told["records"].to_string().contains("attached_again");
    let next = json!({"watch": watch, "after": told["cursor"]});
    let mut told = told;
    while !back(&told) {
        assert!(Instant::now() < until, "it was not attached again: {told}");
        told = structured(&bridge.call("read_watch", &next)).clone();
    }
    emit(&mut bridge, 2);
    let told = structured(&bridge.call("read_watch", &next)).clone();
    assert_eq!((&told["loss_detail"]["verdict"], seqs(&told)), (&json!("gapless"), vec![4, 5]), "{told}");
    assert_eq!(told["records"][0]["gap"], "interrupted");
}
