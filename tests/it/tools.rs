//! The tools over a plant in memory: what each gives and how each refuses.

use plantbridge::{
    mcp::{Offer, registry::violations, tools},
    plant::Plant,
};
use serde_json::{Value as Json, json};

use crate::{
    harness::{Client, Setup},
    over::{Over, over_both, over_each_link},
    plant::{bridge, joined, joined_over},
};

over_both!(paused:
    nobody_of_that_name_fails_at_once,
);

over_both!(running:
    a_refused_argument_says_what_is_wrong_with_it,
);

over_each_link!(
    describe_peer_is_short_by_default_and_verbatim_on_demand,
    describe_peer_pages_by_namespace,
    call_method_returns_what_the_method_does,
    call_method_refuses_what_does_not_fit_before_sending,
    a_refusal_by_the_peer_keeps_its_words,
    read_only_sends_nothing_that_could_change_anything,
    read_state_looks_once_and_leaves_nothing_behind,
    read_state_pages_a_large_state,
    set_state_calls_the_setter_and_asks_the_plant,
    set_state_refuses_what_nobody_sets_and_what_does_not_fit,
    set_state_keeps_to_what_was_expected,
);

pub(crate) async fn client_of(plant: Plant) -> Client {
    let read_only = plant.settings().read_only;
    let setup = Setup { offer: Offer { read_only, ..Offer::default() }, ..Setup::default() };
    let mut client = Client::over(plant, tools::all(), &setup);
    client.initialize("2025-06-18").await;
    client
}

pub(crate) async fn good(client: &mut Client, tool: &str, arguments: Json) -> Json {
    let result = client.call(tool, arguments).await;
    assert_eq!(result["isError"], Json::Null, "{result}");
    result["structuredContent"].clone()
}

pub(crate) async fn bad(client: &mut Client, tool: &str, arguments: Json) -> Json {
    let result = client.call(tool, arguments).await;
    assert_eq!(result["isError"], true, "{result}");
    result["structuredContent"]["error"].clone()
}

fn call(method: &str, args: Json) -> Json {
    json!({"peer": "works", "namespace": "scale", "method": method, "args": args})
}

fn set(path: Json, value: Json) -> Json {
    json!({"peer": "works", "namespace": "tank", "path": path, "value": value})
}

/// What is refused before it is sent says what is wrong and how it is written, and of a tool that changes, that nothing ran.
async fn a_refused_argument_says_what_is_wrong_with_it() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let row = |more: Json| {
        let mut arguments = json!({"peer": "works", "namespace": "tank", "resource": "wall"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let huge = json!(9_007_199_254_740_992_i64);
    for (tool, arguments, says) in [
        ("set_state", set(json!("level"), huge.clone()), vec!["9007199254740992", "9007199254740991 (2^53-1)"]),
        ("set_state", set(json!("a..b"), json!(1)), vec!["/path"]),
        ("call_method", call("tare", json!([huge.clone()])), vec!["/args/0", "2^53-1"]),
        ("write_row", row(json!({"verb": "update", "id": "1", "row": {}})), vec!["stamp"]),
        ("write_row", row(json!({"verb": "create", "row": {"n": huge}})), vec!["/row/n", "2^53-1"]),
        ("write_row", row(json!({"verb": "upsert"})), vec!["/verb"]),
        ("take_control", json!({"peer": "works", "namespace": "tank", "seconds": 1}), vec!["/seconds"]),
        ("list_rows", row(json!({"filter": {"field": "x"}})), vec!["op is missing"]),
        ("list_rows", row(json!({"filter": {"all": [{"op": "eq"}]}})), vec!["field is missing"]),
        ("read_state", json!({"peer": "works", "namespace": "tank", "path": "a..b"}), vec!["/path"]),
    ] {
        let error = bad(&mut client, tool, arguments).await;
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["code"], "bad_argument", "{error}");
        assert!(says.iter().all(|says| message.contains(says)), "{says:?}: {error}");
        assert!(!error.to_string().contains("something else") && !message.contains("undefined"), "{error}");
        let changes = !["list_rows", "read_state"].contains(&tool);
        assert_eq!(error.get("outcome"), changes.then_some(&json!("not_run")), "{error}");
    }
}

/// style.md 2.9: unique names, hints, no combinators at the top, descriptions of a readable length, known keywords only.
#[test]
fn every_tool_keeps_the_rules_of_the_registry() {
    assert_eq!(violations(&tools::all()), Vec::<String>::new());
}

/// One golden a tool: what a client is told of it is a contract.
#[test]
fn each_tool_is_listed_as_agreed() {
    for tool in tools::all() {
        let listed = serde_json::to_value(tool.listed()).unwrap();
        insta::assert_json_snapshot!(format!("tool_{}", tool.spec().name), listed);
    }
}

/// In memory only: a hub is a peer too, and is counted; relay.rs in the interop tests lists over one.
#[tokio::test]
async fn list_peers_names_who_is_there_and_filters() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let told = good(&mut client, "list_peers", json!({})).await;
    assert_eq!(told["peers"], json!(["works"]));
    assert_eq!(told["details"][0]["links"], json!(["memory"]));
    assert_eq!(told["details"][0]["kind"], "unknown", "nobody asked it yet");
    good(&mut client, "describe_peer", json!({"peer": "works"})).await;
    let told = good(&mut client, "list_peers", json!({"kind": "device"})).await;
    assert_eq!(told["peers"], json!(["works"]));
    for nobody in [json!({"prefix": "x"}), json!({"link": "hub"}), json!({"kind": "fake"})] {
        assert_eq!(good(&mut client, "list_peers", nobody).await["matched"], 0);
    }
}

/// tools.md, describe_peer: concise is one line a method, with what a caller must know before calling.
async fn describe_peer_is_short_by_default_and_verbatim_on_demand(over: Over) {
    let (plant, _works, _node) = joined_over(over, false, None).await;
    let mut client = client_of(plant).await;
    let concise = good(&mut client, "describe_peer", json!({"peer": "works"})).await;
    insta::assert_json_snapshot!("describe_concise", concise);
    let detailed = json!({"peer": "works", "namespace": "tank", "format": "detailed"});
    let detailed = good(&mut client, "describe_peer", detailed).await;
    assert_eq!(detailed["namespaces"][0]["methods"][4]["sets"], "zones.top");
    assert_eq!(detailed["namespaces"][0]["component"]["subscribers"], 0);
    assert_eq!(detailed["types"]["Mode"]["kind"], "union", "the named types it refers to are there");
    assert!(detailed["types"].get("msgrpc.TypeNode").is_none());
    let error = bad(&mut client, "describe_peer", json!({"peer": "works", "namespace": "tunk"})).await;
    assert_eq!((&error["code"], &error["alternatives"]), (&json!("unknown_namespace"), &json!(["tank"])));
    let msgrpc = good(&mut client, "describe_peer", json!({"peer": "works", "namespace": "msgrpc"})).await;
    assert_eq!(msgrpc["matched"], 1, "shown when asked for");
}

/// Pages are continued by a cursor that is bound to its tool and filters.
async fn describe_peer_pages_by_namespace(over: Over) {
    let (plant, _works, _node) = joined_over(over, false, None).await;
    let mut client = client_of(plant).await;
    let first = good(&mut client, "describe_peer", json!({"peer": "works", "limit": 1})).await;
    assert_eq!((&first["returned"], &first["truncated"]), (&json!(1), &json!(true)));
    assert_eq!(first["hint"]["tool"], "describe_peer");
    let second = good(&mut client, "describe_peer", first["hint"]["arguments"].clone()).await;
    assert_eq!(second["namespaces"][0]["name"], "tank");
    let moved = json!({"peer": "works", "namespace": "tank", "limit": 1, "cursor": first["next_cursor"]});
    assert_eq!(bad(&mut client, "describe_peer", moved).await["code"], "stale_cursor");
}

/// In memory only: a hub is a peer too, and is counted.
#[tokio::test]
async fn find_capability_matches_exactly_and_says_who_did_not_answer() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let told = good(&mut client, "find_capability", json!({"capability": "@plant/contracts/Scale"})).await;
    assert_eq!((&told["matches"][0]["peer"], &told["matches"][0]["namespace"]), (&json!("works"), &json!("scale")));
    assert_eq!(told["unanswered"], json!([]));
    let none = good(&mut client, "find_capability", json!({"capability": "Scale"})).await;
    assert_eq!(none["matches"], json!([]), "a bare name matches nothing, and nothing is an answer");
    assert_eq!(none["nearest"], json!(["@plant/contracts/Scale"]), "{none}");
    assert!(none["note"].as_str().unwrap().contains("no package"), "{none}");
    let none = good(&mut client, "find_capability", json!({"capability": "@plant/contracts/Conveyor"})).await;
    assert_eq!((&none["matches"], none.get("nearest")), (&json!([]), None), "{none}");
    assert!(none["note"].as_str().unwrap().contains("declares exactly this name"), "{none}");
    assert_eq!(told.get("note"), None, "what was found needs no word");
}

/// tools.md, call_method: by position or by name, with dates and bytes, and what is declared about it.
async fn call_method_returns_what_the_method_does(over: Over) {
    let (plant, works, _node) = joined_over(over, false, None).await;
    let mut client = client_of(plant).await;
    let told = good(&mut client, "call_method", call("add", json!([2, 40]))).await;
    assert_eq!((&told["result"], &told["checked"]), (&json!(42), &json!(true)));
    assert_eq!((&told["semantics"], &told["effect"]), (&json!("query"), &json!("observe")));
    assert_eq!(told["source"], json!({"peer": "works", "kind": "live", "trust": "data"}));
    let named = json!({"peer": "works", "namespace": "scale", "method": "add", "named_args": {"b": 1, "a": 2}});
    assert_eq!(good(&mut client, "call_method", named).await["result"], 3);
    let tagged = json!([{"$date": "2026-08-07T18:22:10.114Z"}, {"$bytes": "AAH/"}]);
    assert_eq!(good(&mut client, "call_method", call("stamp", tagged.clone())).await["result"], tagged);
    let told = good(&mut client, "call_method", call("label", json!(["x"]))).await;
    assert_eq!(
        (&told["result"], told["note"].is_string()),
        (&json!(null), true),
        "nothing was returned, and that is said"
    );
    let told = good(&mut client, "call_method", call("tare", json!([]))).await;
    assert!(told["idempotency_key"].is_string(), "a command that must not be repeated is named: {told}");
    assert_eq!(works.ran.lock().unwrap().len(), 5);
}

/// F-05, F-16, S-041: what does not fit is refused here and nothing is sent.
async fn call_method_refuses_what_does_not_fit_before_sending(over: Over) {
    let (plant, works, _node) = joined_over(over, false, None).await;
    let mut client = client_of(plant).await;
    for (arguments, code, argument) in [
        (call("add", json!([2])), "invalid_params", "/args"),
        (call("add", json!([2, 3, 4])), "invalid_params", "/args"),
        (call("add", json!([200, 3])), "invalid_params", "/args/0"),
        (call("add", json!([2, "3"])), "invalid_params", "/args/1"),
        (call("label", json!([5])), "invalid_params", "/args/0"),
        (
            json!({"peer": "works", "namespace": "scale", "method": "add", "named_args": {"a": 1, "c": 2}}),
            "bad_argument",
            "/named_args/c",
        ),
        (
            json!({"peer": "works", "namespace": "scale", "method": "add", "named_args": {"b": 1}}),
            "bad_argument",
            "/named_args/a",
        ),
        (
            json!({"peer": "works", "namespace": "scale", "method": "add", "args": [1, 2], "named_args": {"a": 1}}),
            "bad_argument",
            "/named_args",
        ),
        (call("add", json!([{"$date": "yesterday"}, 1])), "bad_argument", "/args/0/$date"),
        (call("add", json!([9_007_199_254_740_993_i64, 1])), "bad_argument", "/args/0"),
    ] {
        let error = bad(&mut client, "call_method", arguments).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!(code), &json!(argument)), "{error}");
        assert_eq!(error["retryable"], false);
    }
    for (method, alternatives) in [("reed", json!("read")), ("toString", json!(null)), ("on", json!(null))] {
        let error = bad(&mut client, "call_method", call(method, json!([]))).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!("unknown_method"), &json!("not_run")), "{error}");
        assert!(alternatives.is_null() || error["alternatives"][0] == alternatives, "{error}");
    }
    assert_eq!(works.ran.lock().unwrap().len(), 0, "nothing left");
}

/// results.md 2: each remote code keeps its words and says what may be concluded.
async fn a_refusal_by_the_peer_keeps_its_words(over: Over) {
    let (plant, _works, _node) = joined_over(over, false, None).await;
    let mut client = client_of(plant).await;
    for (theirs, ours, outcome) in [
        ("Forbidden", "peer_refused", "not_run"),
        ("Weather", "peer_refused", "ran"),
        ("Timeout", "peer_refused", "not_run"),
        ("UnknownOutcome", "unknown_outcome", "unknown"),
    ] {
        let error = bad(&mut client, "call_method", call("refuse", json!([theirs]))).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!(ours), &json!(outcome)), "{error}");
        assert_eq!(error["peer_error"]["message"], "as it was told to");
        assert_eq!(error["retryable"], false);
    }
}

/// Only declared queries and observations pass a bridge that may only look, also for a tool that was not shown.
async fn read_only_sends_nothing_that_could_change_anything(over: Over) {
    let (plant, works, _node) = joined_over(over, true, None).await;
    let mut client = client_of(plant).await;
    let listed = client.ask("tools/list", &json!({})).await;
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(!names.contains(&"set_state"), "{names:?}");
    assert_eq!(good(&mut client, "call_method", call("read", json!([]))).await["result"], 42);
    for method in ["tare", "reset"] {
        let error = bad(&mut client, "call_method", call(method, json!([]))).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!("read_only"), &json!("not_run")), "{error}");
        assert_eq!(error["method"], format!("works.scale.{method}"));
    }
    let acquire = json!({"peer": "works", "namespace": "tank", "method": "$acquire"});
    assert_eq!(bad(&mut client, "call_method", acquire).await["code"], "read_only");
    assert_eq!(bad(&mut client, "set_state", set(json!("level"), json!(1))).await["code"], "read_only");
    assert_eq!(works.ran.lock().unwrap().len(), 1);
}

async fn read_state_looks_once_and_leaves_nothing_behind(over: Over) {
    let (plant, _works, _node) = joined_over(over, false, None).await;
    let mut client = client_of(plant).await;
    let tank = json!({"peer": "works", "namespace": "tank"});
    let told = good(&mut client, "read_state", tank.clone()).await;
    assert_eq!((&told["component"], &told["status"]), (&json!("works.tank"), &json!("live")));
    assert_eq!((&told["props"]["unit"], &told["state"]["level"]), (&json!("l"), &json!(10)));
    for (path, value) in
        [(json!("zones.top"), json!(3)), (json!("/tags/line.1"), json!(7)), (json!(["tags", "line.1"]), json!(7))]
    {
        let mut at = tank.clone();
        at["path"] = path;
        let told = good(&mut client, "read_state", at).await;
        assert_eq!((&told["value"], &told["state"]), (&value, &json!(null)));
    }
    let error = bad(&mut client, "read_state", json!({"peer": "works", "namespace": "tank", "path": "levels"})).await;
    assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!("/path")));
    let error = bad(&mut client, "read_state", json!({"peer": "works", "namespace": "scale"})).await;
    assert_eq!((&error["code"], &error["alternatives"]), (&json!("not_a_component"), &json!(["tank"])));
    let error = bad(&mut client, "read_state", json!({"peer": "works", "namespace": "nope"})).await;
    assert_eq!(error["code"], "unknown_namespace");
    let detailed = json!({"peer": "works", "namespace": "tank", "format": "detailed"});
    let told = good(&mut client, "describe_peer", detailed).await;
    assert_eq!(told["namespaces"][0]["component"]["subscribers"], 0, "a look leaves nothing behind");
}

/// results.md 4: a state larger than a page comes in pages of members, and a cursor into another snapshot is stale.
async fn read_state_pages_a_large_state(over: Over) {
    let tags: serde_json::Map<String, Json> =
        (0..600).map(|n| (format!("tag-{n:04}"), json!("x".repeat(60)))).collect();
    let (plant, _works, _node) = joined_over(over, false, Some(json!({"level": 1, "tags": tags}))).await;
    let mut client = client_of(plant).await;
    let tank = json!({"peer": "works", "namespace": "tank", "path": "tags", "limit": 500});
    let mut seen = 0;
    let mut next = tank;
    loop {
        let told = good(&mut client, "read_state", next.clone()).await;
        let page = told["value"].as_object().unwrap().len();
        assert_eq!(told["matched"], 600);
        assert!(told.to_string().len() < 30_000, "a page is bounded");
        seen += page;
        if told["next_cursor"].is_null() {
            break;
        }
        next = told["hint"]["arguments"].clone();
    }
    assert_eq!(seen, 600);
    good(&mut client, "set_state", set(json!("level"), json!(2))).await;
    assert_eq!(bad(&mut client, "read_state", next).await["code"], "stale_cursor");
}

/// tools.md, set_state: the method chosen by `sets`, any form of path, the plant's own word for it.
async fn set_state_calls_the_setter_and_asks_the_plant(over: Over) {
    let (plant, works, _node) = joined_over(over, false, None).await;
    let mut client = client_of(plant).await;
    let told = good(&mut client, "set_state", set(json!("level"), json!(20))).await;
    assert_eq!(
        (&told["called"], &told["applied"], &told["returned"]),
        (&json!("tank.setLevel"), &json!(true), &json!(20))
    );
    assert_eq!(told["confirmed"], json!(null), "nobody asked");
    for (value, confirmed, seen) in [(30, json!(true), 30), (9000, json!(false), 500), (500, json!(true), 500)] {
        let mut request = set(json!("level"), json!(value));
        request["verify_seconds"] = json!(2);
        let told = good(&mut client, "set_state", request).await;
        assert_eq!((&told["confirmed"], &told["seen"]), (&confirmed, &json!(seen)), "{told}");
    }
    for path in [json!("zones.top"), json!("/zones/top"), json!(["zones", "top"])] {
        good(&mut client, "set_state", set(path, json!(4))).await;
    }
    let mut silent = set(json!("mode"), json!("fill"));
    silent["verify_seconds"] = json!(1);
    let told = good(&mut client, "set_state", silent).await;
    assert_eq!(told["confirmed"], "unknown", "no snapshot came: {told}");
    assert_eq!(works.ran.lock().unwrap().len(), 8);
}

async fn set_state_refuses_what_nobody_sets_and_what_does_not_fit(over: Over) {
    let (plant, works, _node) = joined_over(over, false, None).await;
    let mut client = client_of(plant).await;
    for (path, value, code) in [
        (json!("tags.x"), json!(1), "no_setter"),
        (json!("both"), json!(1), "ambiguous_setter"),
        (json!("level"), json!("high"), "invalid_params"),
        (json!("level"), json!(-1), "invalid_params"),
        (json!("mode"), json!("boil"), "invalid_params"),
        (json!(""), json!(1), "bad_argument"),
        (json!("a..b"), json!(1), "bad_argument"),
        (json!([]), json!(1), "bad_argument"),
        (json!(5), json!(1), "bad_argument"),
    ] {
        let error = bad(&mut client, "set_state", set(path.clone(), value)).await;
        assert_eq!(error["code"], code, "{path}: {error}");
    }
    let error = bad(&mut client, "set_state", set(json!("pressure"), json!(1))).await;
    assert!(error["alternatives"].to_string().contains("level (by setLevel)"), "{error}");
    assert_eq!(works.ran.lock().unwrap().len(), 0);
}

/// tools.md, set_state: `expect` refuses the change if somebody was faster; nothing is sent then.
async fn set_state_keeps_to_what_was_expected(over: Over) {
    let (plant, works, _node) = joined_over(over, false, None).await;
    let mut client = client_of(plant).await;
    let with = |expect: Json| {
        let mut request = set(json!("level"), json!(20));
        request["expect"] = expect;
        request
    };
    let told = good(&mut client, "set_state", with(json!({"value": 11}))).await;
    assert_eq!((&told["applied"], &told["seen"], &told["revision"]), (&json!(false), &json!(10), &json!(0)));
    let told = good(&mut client, "set_state", with(json!({"revision": 3}))).await;
    assert_eq!(told["applied"], false);
    assert_eq!(works.ran.lock().unwrap().len(), 0);
    let told = good(&mut client, "set_state", with(json!({"revision": 0, "value": 10}))).await;
    assert_eq!(told["applied"], true);
}

/// results.md 6: nobody of that name fails at once; with wait_seconds it may still arrive.
async fn nobody_of_that_name_fails_at_once() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let started = tokio::time::Instant::now();
    for (tool, arguments) in [
        ("describe_peer", json!({"peer": "work"})),
        ("read_state", json!({"peer": "work", "namespace": "tank"})),
        ("set_state", json!({"peer": "work", "namespace": "tank", "path": "level", "value": 1})),
        ("call_method", json!({"peer": "work", "namespace": "scale", "method": "read"})),
    ] {
        let error = bad(&mut client, tool, arguments).await;
        assert_eq!((&error["code"], &error["alternatives"]), (&json!("unknown_peer"), &json!(["works"])), "{error}");
        assert_eq!(error["retryable"], true);
    }
    assert!(started.elapsed().as_millis() < 1000, "{:?}", started.elapsed());
    let waiting = json!({"peer": "work", "namespace": "scale", "method": "read", "wait_seconds": 3});
    bad(&mut client, "call_method", waiting).await;
    assert!(started.elapsed().as_secs() >= 3);
}

/// Issue of a broker that is down: stdio answers at once, tools say network_unavailable.
#[tokio::test(start_paused = true)]
async fn without_a_network_every_tool_says_so() {
    let mut client = client_of(bridge(Vec::new(), false)).await;
    for (tool, arguments) in [
        ("list_peers", json!({})),
        ("describe_peer", json!({"peer": "works"})),
        ("find_capability", json!({"capability": "x"})),
        ("read_state", json!({"peer": "works", "namespace": "tank"})),
        ("set_state", json!({"peer": "works", "namespace": "tank", "path": "level", "value": 1})),
        ("call_method", json!({"peer": "works", "namespace": "scale", "method": "read"})),
    ] {
        let error = bad(&mut client, tool, arguments).await;
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&json!("network_unavailable"), &json!(true)),
            "{tool}: {error}"
        );
        assert!(error["retry_after_ms"].is_number());
    }
}
