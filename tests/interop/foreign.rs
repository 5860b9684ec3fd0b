//! Foreign against foreign: what the other tests rely on works without the bridge.

use std::time::Instant;

use serde_json::{Value, json};

use crate::served::refused_frames_are_met_with_silence;
use crate::support::{Broker, BrokerOptions, Caller, PATIENCE, Peer};

#[test]
fn a_stranger_calls_a_stranger_in_both_codecs() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut caller = Caller::join(&broker.url(), "hmi", &[]);
    for (codec, kind) in [("msgpack", "application/msgpack"), ("json", "application/json")] {
        let answer = caller.call(codec, ["scale-1", "scale", "add"], json!([2, 40]));
        assert_eq!(answer["value"], 42, "{answer}");
        assert_eq!(answer["codec"], kind);
        assert_eq!(answer["topic"], "msgrpc/v2/rsp/hmi");
        let nothing = caller.call(codec, ["scale-1", "scale", "void"], json!([]));
        assert_eq!(nothing["value"], Value::Null, "{nothing}");
    }
    let value = json!([{"$date": "2026-07-27T21:30:32.623Z"}, {"$bytes": "AAH/"}]);
    let answer = caller.call("msgpack", ["scale-1", "scale", "echo"], json!([value]));
    assert_eq!(answer["value"], value);
    let refused = caller.call("json", ["scale-1", "scale", "fail"], json!(["Busy"]));
    assert_eq!((&refused["kind"], &refused["code"]), (&json!("error"), &json!("Busy")));
}

#[test]
fn events_are_counted_and_a_component_shows_its_state() {
    let broker = Broker::start(&BrokerOptions { tuned: true, ..BrokerOptions::default() });
    let _peer = Peer::join(&broker, "scale-1", &["--json"]);
    let mut caller = Caller::join(&broker.url(), "hmi", &[]);
    let on = json!({"do": "on", "peer": "scale-1", "path": "scale", "event": "weight"});
    assert_eq!(caller.do_it(on.clone())["value"], "ok");
    assert_eq!(caller.do_it(on)["value"], "ok - already exists");
    caller.call("msgpack", ["scale-1", "scale", "emit"], json!([2]));
    assert_eq!(caller.event("weight")["seq"], "1");
    let second = caller.event("weight");
    assert_eq!((&second["seq"], &second["codec"]), (&json!("2"), &json!("application/json")));
    let cursor = caller.call("msgpack", ["scale-1", "msgrpc", "eventCursor"], json!(["scale", "weight"]));
    assert_eq!(cursor["value"]["seq"], 2);
    assert_eq!(cursor["value"]["epoch"], second["epoch"]);
    let look = json!({"do": "on", "peer": "scale-1", "path": "tank", "event": "$snapshot"});
    assert_eq!(caller.do_it(look)["value"], "ok");
    assert_eq!(caller.event("$snapshot")["args"][0]["state"]["level"], 120);
    caller.call("json", ["scale-1", "tank", "setSetpoint"], json!([9000]));
    assert_eq!(caller.event("$snapshot")["args"][0]["state"]["setpoint"], 500);
}

/// W-060: a repeated request is answered from memory.
#[test]
fn the_responder_runs_a_repeated_request_once() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut caller = Caller::join(&broker.url(), "hmi", &[]);
    let call = json!({"do": "call", "peer": "scale-1", "path": "scale", "method": "tare", "correlation": "same"});
    assert_eq!(caller.do_it(call.clone())["value"], "tared");
    assert_eq!(caller.do_it(call)["value"], "tared");
    peer.ran("tare");
    assert_eq!(peer.runs("tare"), 0);
}

#[test]
fn each_misbehaviour_shows_on_the_wire() {
    let broker = Broker::stock();
    let mut caller = Caller::join(&broker.url(), "hmi", &[]);
    let quick = |peer: &str| json!({"do": "call", "peer": peer, "path": "scale", "method": "tare", "ttl": 300});
    let _wrong = Peer::join(&broker, "wrong", &["--wrong-source"]);
    assert_eq!(caller.do_it(quick("wrong"))["source"], "wrong-impostor");
    for (name, option) in [("other", "--other-correlation"), ("mute", "--silent")] {
        let mut peer = Peer::join(&broker, name, &[option]);
        assert_eq!(caller.do_it(quick(name))["kind"], "silence");
        peer.ran("tare");
    }
    let stray = |line: &Value| line.get("stray").map(|_| line["value"].clone());
    assert_eq!(caller.child().wait_for("stray reply", stray), "tared");
    let _double = Peer::join(&broker, "double", &["--double-reply"]);
    assert_eq!(caller.do_it(quick("double"))["value"], "tared");
    assert_eq!(caller.child().wait_for("second reply", stray), "the second answer");
    let _late = Peer::join(&broker, "late", &["--late-reply"]);
    assert_eq!(caller.do_it(quick("late"))["kind"], "silence");
    assert_eq!(caller.call("msgpack", ["late", "scale", "add"], json!([1, 2]))["value"], 3);
    assert_eq!(caller.child().wait_for("late reply", stray), "tared");
}

#[test]
fn presence_comes_goes_and_survives_a_broker_that_dies() {
    let mut broker = Broker::stock();
    let mut caller = Caller::join(&broker.url(), "hmi", &["--watch"]);
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    assert_eq!(caller.saw("scale-1", "online")["shape"], "0123456789abcdef");
    peer.wish(&json!({"do": "vanish"}));
    caller.saw("scale-1", "offline");
    caller.saw("scale-1", "online");
    broker.start_again();
    caller.saw("scale-1", "online");
    peer.wish(&json!({"do": "leave"}));
    caller.saw("scale-1", "offline");
    assert!(peer.0.wait().success());
    let peers = caller.do_it(json!({"do": "peers"}));
    assert_eq!(peers["peers"], json!({}));
}

#[test]
fn a_broker_with_an_account_lets_nobody_else_in() {
    let account = Some(("plant".to_owned(), "right".to_owned()));
    let broker = Broker::start(&BrokerOptions { account, ..BrokerOptions::default() });
    let _peer = Peer::join(&broker, "scale-1", &["--username", "plant", "--password", "right"]);
    let mut caller = Caller::start(&broker.url(), "hmi", &["--no-reconnect"]);
    let trouble = caller.child().wait_for("refusal", |line| line["trouble"].as_str().map(str::to_owned));
    assert!(trouble.contains("Not authorized"), "{trouble}");
}

/// The measure for `served.rs`: a stranger refuses the same frames.
#[test]
fn a_stranger_refuses_what_we_have_to_refuse() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut caller = Caller::join(&broker.url(), "hmi", &[]);
    refused_frames_are_met_with_silence(&mut caller, "scale-1");
    let fenced = json!({"do": "call", "peer": "scale-1", "path": "scale", "method": "read", "fence": "e-7f21c9"});
    assert_eq!(caller.do_it(fenced)["code"], "OwnershipChanged");
}

/// What the broker retains reaches a subscriber at QoS 0 whole.
#[test]
fn a_crowd_can_be_announced_and_seen() {
    let broker = Broker::stock();
    let mut crowd = Caller::join(&broker.url(), "crowd", &["--no-presence"]);
    crowd.do_it(json!({"do": "announce", "count": 2000, "stem": "device-"}));
    let mut looker = Caller::join(&broker.url(), "looker", &[]);
    let until = Instant::now() + PATIENCE;
    loop {
        let seen = looker.do_it(json!({"do": "peers"}))["peers"].as_object().map_or(0, serde_json::Map::len);
        if seen == 2000 {
            break;
        }
        assert!(Instant::now() < until, "only {seen} are seen");
    }
}

#[test]
fn the_second_of_a_name_displaces_the_first() {
    let broker = Broker::stock();
    let mut first = Caller::join(&broker.url(), "hmi", &["--no-reconnect"]);
    let _second = Caller::join(&broker.url(), "hmi", &[]);
    first.child().wait_for("displacement", |line: &Value| line.get("closed").map(drop));
}
