//! Fakes on a stock broker, met by callers of other making, among peers that come, go and have their names.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Bridge, Broker, BrokerOptions, Caller, PATIENCE, Peer, error_of, structured};

fn boiler() -> Value {
    let number = json!({"kind": "number", "min": 0, "max": 200});
    json!({"schema": 1, "version": "1", "namespaces": {"boiler": {"version": "4",
        "methods": {
            "read": {"params": [], "returns": number, "semantics": "query"},
            "setTarget": {"params": [number], "paramNames": ["celsius"], "returns": {"kind": "boolean"},
                          "semantics": "idempotent-command", "sets": "target"},
            "hang": {"params": [], "semantics": "non-repeatable-command"},
            "report": {"params": [], "semantics": "non-repeatable-command", "deferred": {"result": {"kind": "number", "min": 7}}}},
        "events": {"alarm": {"params": [{"kind": "string"}]}},
        "component": {"snapshot": 1, "props": {"kind": "object", "fields": {}},
                      "state": {"kind": "object", "fields": {"target": {"type": number}}}}}}})
}

fn start(bridge: &mut Bridge, name: &str, script: Value) -> Value {
    let result = bridge.call("start_fake", &json!({"name": name, "schema": boiler(), "script": script}));
    structured(&result).clone()
}

/// The names of the fakes, and of those that withdrew.
fn fakes(bridge: &mut Bridge) -> (Vec<String>, Vec<String>) {
    let result = bridge.call("list_fakes", &json!({}));
    let listed = structured(&result);
    let names = |key: &str| {
        let all = listed[key].as_array().expect("a list").iter();
        all.map(|fake| fake["peer"].as_str().expect("a name").to_owned()).collect()
    };
    (names("fakes"), names("withdrawn"))
}

fn until_withdrawn(bridge: &mut Bridge, name: &str) {
    let until = Instant::now() + PATIENCE;
    while fakes(bridge) != (vec![], vec![name.to_owned()]) {
        assert!(Instant::now() < until, "the fake does not withdraw: {:?}\n{}", fakes(bridge), bridge.stderr());
    }
}

/// Semantics 11, S-122, S-127: both codecs, events with their counts, snapshots, later answers, and a call that hangs beside
/// one that does not.
#[test]
fn a_fake_is_a_peer_to_callers_of_other_making() {
    let broker = Broker::stock();
    let mut bridge = Bridge::join(&broker);
    let emits = json!([{"event": "boiler.alarm", "every": 50, "params": ["hot"]}]);
    start(
        &mut bridge,
        "double",
        json!({"returns": {"boiler.read": 21.5}, "fails": {"boiler.hang": "Timeout"}, "emits": emits}),
    );
    let mut caller = Caller::join(&broker.url(), "hmi", &["--watch"]);
    caller.saw("double", "online");
    for (codec, kind) in [("msgpack", "application/msgpack"), ("json", "application/json")] {
        let answer = caller.call(codec, ["double", "boiler", "read"], json!([]));
        assert_eq!(
            (&answer["value"], &answer["codec"], &answer["source"]),
            (&json!(21.5), &json!(kind), &json!("double"))
        );
        let refused = caller.call(codec, ["double", "boiler", "setTarget"], json!([900]));
        assert_eq!((&refused["kind"], &refused["code"]), (&json!("error"), &json!("InvalidParams")), "{refused}");
    }
    let described = caller.call("msgpack", ["double", "msgrpc", "describe"], json!([]));
    let namespaces = described["value"]["namespaces"].as_array().expect("a list");
    let own = namespaces.iter().find(|namespace| namespace["name"] == "boiler").expect("the boiler");
    assert_eq!((&own["className"], &own["emitter"]), (&json!("Fake"), &json!(true)));

    let look = json!({"do": "on", "peer": "double", "path": "boiler", "event": "$snapshot"});
    assert_eq!(caller.do_it(look)["value"], "ok");
    let hanging = json!({"do": "call", "peer": "double", "path": "boiler", "method": "hang", "args": [], "ttl": 1500});
    let hanging = caller.ask(hanging);
    assert_eq!(caller.call("msgpack", ["double", "boiler", "setTarget"], json!([80]))["value"], true);
    while caller.event("$snapshot")["args"][0]["state"]["target"] != 80 {}
    assert_eq!(caller.answer(hanging)["kind"], "silence");

    let listen = json!({"do": "on", "peer": "double", "path": "boiler", "event": "alarm"});
    assert_eq!(caller.do_it(listen)["value"], "ok");
    let seq = |event: &Value| event["seq"].as_str().and_then(|seq| seq.parse::<u64>().ok()).expect("a count");
    let first = caller.event("alarm");
    let second = caller.event("alarm");
    assert_eq!((&first["args"], seq(&second)), (&json!(["hot"]), seq(&first) + 1));
    assert_eq!(first["epoch"], second["epoch"]);

    let report = caller.call("msgpack", ["double", "boiler", "report"], json!([]));
    assert_eq!(report["deferred"], true, "{report}");
    let number = report["id"].as_u64().expect("the number of the wish");
    assert_eq!(
        (&caller.answer(number)["outcome"], &report["value"]["id"]),
        (&json!("resolved"), &report["value"]["id"])
    );
}

/// Design 6: while the broker is away the bridge reaches its fakes, and everybody does again when it is back.
#[test]
fn fakes_are_there_again_when_the_broker_is() {
    let mut broker = Broker::stock();
    let mut bridge = Bridge::join(&broker);
    for name in ["double-1", "double-2", "double-3"] {
        start(&mut bridge, name, json!({}));
    }
    broker.stop();
    let until = Instant::now() + PATIENCE;
    loop {
        let result = bridge.call("list_fakes", &json!({}));
        let listed = structured(&result)["fakes"].as_array().expect("a list").clone();
        assert_eq!(listed.len(), 3);
        if listed.iter().all(|fake| fake["on_network"] == false) {
            break;
        }
        assert!(Instant::now() < until, "the outage is not noticed: {result}");
    }
    let read = bridge.call_method(["double-2", "boiler", "read"], &json!([]), 5000);
    assert_eq!(structured(&read)["result"], 100);
    broker.start_again();
    let mut caller = Caller::join(&broker.url(), "hmi", &["--watch"]);
    for name in ["double-1", "double-2", "double-3"] {
        caller.saw(name, "online");
        assert_eq!(caller.call("msgpack", [name, "boiler", "read"], json!([]))["value"], 100, "{name}");
    }
    assert_eq!(fakes(&mut bridge).1, Vec::<String>::new(), "none withdrew");
}

/// Invariant 7: a device that comes later has its name, at once and for good.
#[test]
fn a_device_that_comes_later_has_its_name() {
    let broker = Broker::stock();
    let mut bridge = Bridge::join(&broker);
    start(&mut bridge, "scale-1", json!({}));
    let mut device = Peer::join(&broker, "scale-1", &[]);
    until_withdrawn(&mut bridge, "scale-1");
    let add = bridge.call_once_joined(
        "call_method",
        &json!({"peer": "scale-1", "namespace": "scale", "method": "add", "args": [1, 2]}),
    );
    assert_eq!((&structured(&add)["result"], &structured(&add)["source"]["kind"]), (&json!(3), &json!("live")));
    device.ran("add");
    let result = bridge.call("start_fake", &json!({"name": "scale-1", "schema": boiler()}));
    assert_eq!(error_of(&result)["code"], "name_in_use");
    // What the network shows of it is its own.
    let mut caller = Caller::join(&broker.url(), "hmi", &["--watch"]);
    caller.saw("scale-1", "online");
    assert!(bridge.stderr().contains("scale-1"), "the operator is not told: {}", bridge.stderr());
}

/// Invariant 7: a fake that comes back after an outage looks first; a device that has the name by then is not disturbed.
#[test]
fn a_peer_that_took_the_name_during_an_outage_keeps_it() {
    let mut broker = Broker::stock();
    let mut bridge = Bridge::join(&broker);
    start(&mut bridge, "double", json!({}));
    // The bridge sleeps through the outage, so that the device is there first for certain.
    bridge.pause();
    broker.start_again();
    let mut device = Caller::join(&broker.url(), "double", &["--no-reconnect"]);
    bridge.go_on();
    until_withdrawn(&mut bridge, "double");
    let closed = device.child().heard(|line| line.get("closed").map(drop));
    assert_eq!(closed.len(), 0, "the device was thrown off the broker");
    assert!(device.do_it(json!({"do": "peers"}))["peers"].is_object(), "it is still there");
}

/// All that was started is gone when the bridge ends, retained presence included; a bridge that is killed leaves `offline`.
#[test]
fn nothing_of_a_fake_outlives_its_bridge() {
    let broker = Broker::stock();
    let mut bridge = Bridge::join(&broker);
    let names: Vec<String> = (0..20).map(|at| format!("double-{at:02}")).collect();
    for name in &names {
        start(&mut bridge, name, json!({}));
    }
    let mut caller = Caller::join(&broker.url(), "hmi", &["--watch"]);
    let seen = |caller: &mut Caller| {
        let answer = caller.do_it(json!({"do": "peers"}));
        answer["peers"].as_object().expect("a map").keys().filter(|name| name.starts_with("double-")).count()
    };
    caller.saw("double-19", "online");
    let asked = Instant::now();
    assert!(bridge.hang_up().success());
    let took = asked.elapsed();
    for name in &names {
        caller.saw(name, "offline");
    }
    assert_eq!(seen(&mut caller), 0);
    assert!(took.as_secs_f64() < 2.0, "{took:?}");
    // Whoever comes now is shown nothing at all: a departure that is retained would be told.
    let mut late = Caller::join(&broker.url(), "late", &["--watch"]);
    late.do_it(json!({"do": "peers"}));
    assert_eq!(
        late.child()
            .heard(|line| line["presence"].as_str().filter(|name| name.starts_with("double")).map(str::to_owned)),
        Vec::<String>::new()
    );

    let mut bridge = Bridge::join(&broker);
    start(&mut bridge, "double-99", json!({}));
    caller.saw("double-99", "online");
    bridge.kill();
    caller.saw("double-99", "offline");
}

/// A start that the broker refuses leaves nothing: no presence, no name that is held.
#[test]
fn a_start_that_the_broker_refuses_leaves_nothing() {
    let broker = Broker::start(&BrokerOptions { max_connections: Some(3), ..BrokerOptions::default() });
    // Under a made-up name: this broker takes off two for the one connection that looks for a chosen one and goes again.
    let mut bridge = Bridge::start(&["--broker", &broker.url()], &[]);
    bridge.call_once_joined("list_peers", &json!({}));
    let mut caller = Caller::join(&broker.url(), "hmi", &["--watch"]);
    start(&mut bridge, "double", json!({}));
    let result = bridge.call("start_fake", &json!({"name": "one-too-many", "schema": boiler()}));
    let error = error_of(&result);
    assert_eq!((&error["code"], &error["outcome"]), (&json!("fake_failed"), &json!("not_run")), "{error}");
    assert_eq!(fakes(&mut bridge).0, ["double"]);
    structured(&bridge.call("stop_fake", &json!({"name": "double"})));
    caller.saw("double", "offline");
    start(&mut bridge, "one-too-many", json!({}));
    caller.saw("one-too-many", "online");
    let seen = caller.child().heard(|line| (line["presence"] == "one-too-many").then(|| line["state"].clone()));
    assert_eq!(seen, Vec::<Value>::new(), "it was there once, and never before");
}
