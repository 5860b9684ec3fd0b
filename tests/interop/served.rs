//! What we serve, seen by a caller of other making: the bakery behind `plantbridge mcp --demo`.

use serde_json::{Value, json};

use crate::support::{Bridge, Caller};

/// The description of the bakery, as it says it over the wire.
fn description(caller: &mut Caller) -> Value {
    let answer = caller.call("msgpack", ["bakery", "msgrpc", "describe"], json!([]));
    assert_eq!(answer["kind"], "result", "{answer}");
    answer["value"].clone()
}

/// The first method anywhere in the bakery that `wanted` accepts, as (namespace, method).
fn method_where(description: &Value, wanted: impl Fn(&Value) -> bool) -> (String, String) {
    let namespaces = description["namespaces"].as_array().expect("a list");
    let all = namespaces.iter().flat_map(|namespace| {
        let methods = namespace["methods"].as_array().expect("a list");
        methods.iter().map(move |method| (namespace["name"].clone(), method))
    });
    let mut fitting = all.filter(|(_, method)| wanted(method));
    let (namespace, method) = fitting.next().unwrap_or_else(|| panic!("the bakery has no such method: {description}"));
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    (text(&namespace), text(&method["name"]))
}

#[test]
fn the_bakery_is_there_and_describes_itself() {
    let (_bridge, url) = Bridge::demo();
    let mut caller = Caller::join(&url, "hmi", &["--watch"]);
    for peer in ["bakery", "packaging"] {
        let seen = caller.saw(peer, "online");
        assert!(seen["shape"].as_str().is_some_and(|shape| (1..=64).contains(&shape.len())), "{seen}");
    }
    let description = description(&mut caller);
    assert_eq!(description["name"], "bakery");
    let namespaces = description["namespaces"].as_array().expect("a list");
    let oven = namespaces.iter().find(|namespace| namespace["name"] == "oven").expect("the oven");
    assert!(oven["component"]["state"].is_object(), "{oven}");
}

/// Both codecs, each answered in kind (wire.md 4.6), and the snapshot tells what came of it.
#[test]
fn a_setter_is_called_in_both_codecs() {
    let (_bridge, url) = Bridge::demo();
    let mut caller = Caller::join(&url, "hmi", &[]);
    let description = description(&mut caller);
    let (namespace, method) = method_where(&description, |method| method["sets"] == "setpoint");
    assert_eq!(namespace, "oven");
    let look = json!({"do": "on", "peer": "bakery", "path": "oven", "event": "$snapshot"});
    assert_eq!(caller.do_it(look)["value"], "ok");
    for (codec, kind, value) in [("msgpack", "application/msgpack", 175), ("json", "application/json", 180)] {
        let answer = caller.call(codec, ["bakery", "oven", &method], json!([value]));
        assert_eq!((&answer["kind"], &answer["codec"]), (&json!("result"), &json!(kind)), "{answer}");
        assert_eq!(answer["source"], "bakery");
        // The plant is alive, so other changes may be told before this one.
        while caller.event("$snapshot")["args"][0]["state"]["setpoint"] != value {}
    }
    let off = json!({"do": "off", "peer": "bakery", "path": "oven", "event": "$snapshot"});
    assert_eq!(caller.do_it(off.clone())["value"], "ok");
    assert_eq!(caller.do_it(off)["value"], "ok - was not subscribed");
}

/// W-063.
#[test]
fn w063_nothing_is_null_to_a_json_caller() {
    let (_bridge, url) = Bridge::demo();
    let mut caller = Caller::join(&url, "hmi", &[]);
    let description = description(&mut caller);
    let (namespace, method) = method_where(&description, |method| {
        let returns = &method["returns"];
        method["params"] == json!([]) && (returns.is_null() || returns["kind"] == "null")
    });
    let answer = caller.call("json", ["bakery", &namespace, &method], json!([]));
    assert_eq!((&answer["kind"], &answer["value"]), (&json!("result"), &Value::Null), "{answer}");
    assert_eq!((&answer["codec"], &answer["empty"]), (&json!("application/json"), &json!(false)), "{answer}");
}

/// W-061, W-066, W-067: refusals by code.
#[test]
fn w066_refusals_name_what_is_missing() {
    let (_bridge, url) = Bridge::demo();
    let mut caller = Caller::join(&url, "hmi", &[]);
    for (path, method, code) in
        [("cellar", "read", "ClassNotFound"), ("oven", "explode", "MethodNotFound"), ("cellar", "on", "ClassNotFound")]
    {
        let answer = caller.call("msgpack", ["bakery", path, method], json!(["x"]));
        assert_eq!((&answer["kind"], &answer["code"]), (&json!("error"), &json!(code)), "{path}.{method}: {answer}");
        assert!(answer["error"].get("stack").is_none(), "W-062: {answer}");
    }
    let fenced = json!({"do": "call", "peer": "bakery", "path": "msgrpc", "method": "describe", "fence": "e-7f21c9"});
    assert_eq!(caller.do_it(fenced)["code"], "OwnershipChanged");
    let off = json!({"do": "off", "peer": "bakery", "path": "oven", "event": "never"});
    assert_eq!(caller.do_it(off)["value"], "ok - was not subscribed");
    let nameless = json!({"do": "on", "peer": "bakery", "path": "oven", "event": 5});
    assert_eq!(caller.do_it(nameless)["code"], "InvalidParams", "W-076");
}

/// W-060, W-054: a repeat is answered from memory, and only the one who asked gets it.
#[test]
fn w060_a_repeated_command_runs_once() {
    let (_bridge, url) = Bridge::demo();
    let mut caller = Caller::join(&url, "hmi", &[]);
    let description = description(&mut caller);
    let (_, method) = method_where(&description, |method| method["sets"] == "setpoint");
    let look = json!({"do": "on", "peer": "bakery", "path": "oven", "event": "$snapshot"});
    caller.do_it(look);
    let set = |value: u32, id: &str| {
        let (peer, path) = ("bakery", "oven");
        json!({"do": "call", "peer": peer, "path": path, "method": method, "args": [value], "correlation": id})
    };
    let first = caller.do_it(set(171, "one"));
    caller.do_it(set(172, "two"));
    let repeat = caller.do_it(set(171, "one"));
    assert_eq!((&first["kind"], &first["value"]), (&repeat["kind"], &repeat["value"]));
    // Had the repeat run, 171 would come after 172.
    caller.do_it(set(173, "three"));
    let mut seen = Vec::new();
    while seen.last() != Some(&json!(173)) {
        seen.push(caller.event("$snapshot")["args"][0]["state"]["setpoint"].clone());
    }
    let second = seen.iter().position(|value| *value == 172).expect("172 was a state of the oven");
    assert!(seen[second..].iter().all(|value| *value != 171), "{seen:?}");
    let mut other = Caller::join(&url, "other", &[]);
    let answer = other.do_it(set(174, "one"));
    assert_eq!(answer["kind"], "result", "another caller's id is another call: {answer}");
}

/// W-052, W-056, W-057, W-058, W-059, with what a stranger does as the measure (`foreign.rs` runs the same on one).
#[test]
fn w059_refused_frames_are_met_with_silence() {
    let (_bridge, url) = Bridge::demo();
    let mut caller = Caller::join(&url, "hmi", &[]);
    refused_frames_are_met_with_silence(&mut caller, "bakery");
}

/// Every frame that has to be refused is answered by nothing, and the next good one by a result.
pub(crate) fn refused_frames_are_met_with_silence(caller: &mut Caller, peer: &str) {
    let describe = json!({"do": "call", "peer": peer, "path": "msgrpc", "method": "describe"});
    let with = |change: Value| {
        let mut call = describe.clone();
        for (key, value) in change.as_object().expect("an object") {
            call[key] = value.clone();
        }
        call
    };
    for (what, mut change) in [
        ("a response topic outside rsp", json!({"responseTopic": "msgrpc/v2/presence/hmi"})),
        ("a repeated property", json!({"user": {"mr-path": ["msgrpc", "msgrpc"]}})),
        ("a repeated property nobody knows", json!({"user": {"mr-new": ["1", "1"]}})),
        ("no source", json!({"user": {"mr-src": ""}})),
        ("a source that is no name", json!({"user": {"mr-src": "h/mi"}})),
        ("no method", json!({"user": {"mr-method": ""}})),
        ("a kind of the other link", json!({"user": {"mr-kind": "batch"}})),
        ("an unknown content type", json!({"contentType": "application/msgpack; charset=utf-8"})),
        ("bytes after the value", json!({"hex": "9090"})),
        ("half a value", json!({"hex": "91"})),
    ] {
        change["ttl"] = json!(400);
        assert_eq!(caller.do_it(with(change))["kind"], "silence", "{what}");
    }
    let odd = json!({"user": {"mr-new": "1", "elsewhere": ["a", "a"], "mr-v": "99", "mr-kind": "subscribe"}});
    assert_eq!(caller.do_it(with(odd))["kind"], "result", "W-010, W-056, W-058");
    for (what, change) in [
        ("W-011: an empty body is no arguments", json!({"hex": ""})),
        ("W-011: so is null", json!({"hex": "c0"})),
        ("W-057: an absent content type is the default", json!({"contentType": null})),
    ] {
        assert_eq!(caller.do_it(with(change))["kind"], "result", "{what}");
    }
}

/// Semantics 8.2: context, read in both codecs, watched until it changes, and not to be enumerated.
#[test]
fn context_is_read_and_watched() {
    let (_bridge, url) = Bridge::demo();
    let mut caller = Caller::join(&url, "hmi", &[]);
    for codec in ["msgpack", "json"] {
        let answer = caller.call(codec, ["bakery", "$context", "read"], json!(["oven", ["demo.hygiene"]]));
        let told = &answer["value"];
        let instances = |axis: &str| {
            let walked = told["walked"][axis].as_array().expect("a list");
            walked.iter().map(|at| at["instance"].clone()).collect::<Value>()
        };
        assert_eq!((instances("physical"), instances("logical")), (json!(["oven", "hall", "$host"]), json!(["oven"])));
        assert_eq!(told["continues"]["physical"], json!({"peer": "packaging", "instance": "$host"}), "{answer}");
        assert_eq!(told["tokens"][0]["entries"][0]["value"], "wear a hairnet", "{answer}");
        let none = caller.call(codec, ["bakery", "$context", "list"], json!([]));
        assert_eq!(none["code"], "ClassNotFound", "{none}");
    }
    let watch = json!(["mine", "workOrders", ["demo.work-order"]]);
    let first = caller.call("msgpack", ["packaging", "$context", "subscribe"], watch);
    assert_eq!(first["value"]["seq"], 0, "{first}");
    caller.call("msgpack", ["packaging", "workOrders", "start"], json!([1003]));
    let pushed = caller.event("$context")["args"][0].clone();
    let entry = &pushed["snapshot"]["tokens"][0]["entries"][0];
    assert_eq!((&pushed["subscriptionId"], &pushed["snapshot"]["seq"]), (&json!("mine"), &json!(1)), "{pushed}");
    assert_eq!((&entry["value"]["order"], &entry["provider"]["revision"]), (&json!("1003"), &json!(1)), "{pushed}");
    let ended = caller.call("msgpack", ["packaging", "$context", "unsubscribe"], json!(["mine"]));
    assert_eq!(ended["value"], "ok", "{ended}");
}
