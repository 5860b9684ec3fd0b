//! The bakery through the tools, over its own broker: context along both its peers, and what each switch makes go wrong.

use std::time::Duration;

use plantbridge::{
    demo::Demo,
    node::{Network, Node},
    plant::{Plant, Settings},
};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::{
    demo::stranger,
    harness::Client,
    tools::{bad, client_of, good},
};

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A bakery, a bridge to it and a client.
struct Visit {
    demo: Demo,
    node: Node,
    client: Client,
}

impl Visit {
    async fn begun() -> Self {
        let demo = Demo::start().await.unwrap();
        let node = stranger(demo.url());
        assert!(node.network_when(PATIENCE, Network::is_settled).await.is_settled());
        let settings = Settings { read_only: false, call_timeout: PATIENCE, link_names: vec!["mqtt".into()] };
        let client = client_of(Plant::new(node.clone(), settings)).await;
        Self { demo, node, client }
    }

    async fn good(&mut self, tool: &str, arguments: Json) -> Json {
        good(&mut self.client, tool, arguments).await
    }

    async fn bad(&mut self, tool: &str, arguments: Json) -> Json {
        bad(&mut self.client, tool, arguments).await
    }

    async fn call(&mut self, peer: &str, namespace: &str, method: &str, args: Json) -> Json {
        let arguments = json!({"peer": peer, "namespace": namespace, "method": method, "args": args});
        self.good("call_method", arguments).await
    }

    /// Turns a switch, and hears from it that it is turned.
    async fn switch(&mut self, peer: &str, switch: &str, to: Json) {
        let arguments = json!({"peer": peer, "namespace": "faults", "path": switch, "value": to, "verify_seconds": 5});
        assert_eq!(self.good("set_state", arguments).await["confirmed"], true, "{switch}");
    }

    async fn context(&mut self, token: &str, axis: &str) -> Json {
        let arguments = json!({"peer": "bakery", "node": "oven", "token": token, "axis": axis, "seconds": 2});
        self.good("read_context", arguments).await
    }

    /// Reads a watch until it holds so many records.
    async fn records(&mut self, watch: &Json, most: usize) -> Json {
        let until = Instant::now() + PATIENCE;
        loop {
            let told = self.good("read_watch", json!({"watch": watch})).await;
            if told["records"].as_array().unwrap().len() >= most {
                return told;
            }
            assert!(Instant::now() < until, "{told}");
        }
    }

    async fn ended(self) {
        self.node.leave();
        self.demo.stop().await;
    }
}

fn entries(told: &Json) -> Vec<(&str, &Json)> {
    let entries = told["entries"].as_array().unwrap().iter();
    entries.map(|entry| (entry["provider"].as_str().unwrap(), &entry["value"])).collect()
}

/// S-090 to S-092 over two real hosts: nearest first, what is local is missing, and a chain that is bent, and healed.
#[tokio::test]
async fn context_along_both_peers() {
    let mut visit = Visit::begun().await;
    let site = visit.context("demo.site", "physical").await;
    let plant = json!({"site": "Plant 7", "timezone": "Europe/Stockholm"});
    assert_eq!((&site["status"], entries(&site)), (&json!("live"), vec![("packaging/$host", &plant)]));
    assert_eq!(site["chain"], json!(["bakery/oven", "bakery/hall", "bakery/$host", "packaging/$host"]));
    assert_eq!(site["hops"], json!(["bakery/oven", "packaging/$host"]));
    let hygiene = visit.context("demo.hygiene", "physical").await;
    let both = [("bakery/hall", &json!("wear a hairnet")), ("packaging/$host", &json!("wash your hands"))];
    assert_eq!(entries(&hygiene), both);
    for (token, axis) in [("demo.recipe", "physical"), ("demo.site", "logical"), ("demo.nothing", "physical")] {
        let told = visit.context(token, axis).await;
        assert_eq!((&told["status"], &told["entries"]), (&json!("missing"), &json!([])), "{token} {axis}");
    }
    let order = visit.context("demo.work-order", "logical").await;
    assert_eq!(entries(&order), [("packaging/workOrders", &json!({"order": "1001"}))]);
    visit.call("packaging", "workOrders", "start", json!([1003])).await;
    let next = visit.context("demo.work-order", "logical").await;
    assert_eq!((entries(&next)[0].1, &next["entries"][0]["revision"]), (&json!({"order": "1003"}), &json!(1)));
    for (bent, status, reason, path) in [
        ("ring", "invalid", json!("cycle"), json!(["bakery/oven", "packaging/workOrders"])),
        ("dangling", "invalid", json!("invalid-reference"), json!(["packaging/nobody"])),
        ("away", "initializing", json!(null), json!(null)),
        ("whole", "live", json!(null), json!(null)),
    ] {
        visit.switch("packaging", "context", json!(bent)).await;
        let told = visit.context("demo.work-order", "logical").await;
        let seen = (&told["status"], &told["invalidReason"], &told["invalidPath"]);
        assert_eq!(seen, (&json!(status), &reason, &path), "{bent}: {told}");
        assert_eq!(told["entries"].as_array().unwrap().is_empty(), status != "live", "{bent}: {told}");
    }
    visit.ended().await;
}

/// Semantics 2.1: a description says where an instance stands.
#[tokio::test]
async fn a_description_says_where_an_instance_stands() {
    let mut visit = Visit::begun().await;
    let arguments = json!({"peer": "bakery", "namespace": "oven", "format": "detailed"});
    let told = visit.good("describe_peer", arguments).await;
    let topology = &told["namespaces"][0]["topology"];
    let reference = |peer: &str, instance: &str| json!({"peer": peer, "instance": instance});
    assert_eq!(topology["parent"], reference("bakery", "hall"));
    assert_eq!(topology["owner"], reference("packaging", "workOrders"));
    assert_eq!(told["host"]["parent"], reference("packaging", "$host"));
    let concise = visit.good("describe_peer", json!({"peer": "bakery", "namespace": "oven"})).await;
    let place = json!({"parent": "bakery/hall", "owner": "packaging/workOrders"});
    assert_eq!(concise["namespaces"][0]["topology"], place, "{concise}");
    assert_eq!((&told["host"]["place"], &told["host"]["label"]), (&json!(["plant-7", "hall-b"]), &json!("Bakery")));
    visit.ended().await;
}

/// A value for which JSON has no type is written as the refusal says.
#[tokio::test]
async fn a_refusal_says_how_a_date_and_bytes_are_written() {
    let mut visit = Visit::begun().await;
    let stamp = |args: Json| json!({"peer": "bakery", "namespace": "oven", "method": "stampLot", "args": args});
    let date = json!({"$date": "2026-08-07T18:22:10.114Z"});
    for (args, says) in [
        (json!(["2026-08-07", "AP+A"]), r#"{"$date": "2026-08-07T18:22:10.114Z"}"#),
        (json!([date, "AP+A"]), r#"{"$bytes": "base64"}"#),
    ] {
        let error = visit.bad("call_method", stamp(args)).await;
        assert!(error["fix"].as_str().unwrap().contains(says), "{error}");
    }
    visit.good("call_method", stamp(json!([date, {"$bytes": "AP+A"}]))).await;
    visit.ended().await;
}

/// Switch `bakeFails`: what answers later fails later.
#[tokio::test]
async fn a_loaf_that_fails_ends_its_ticket() {
    let mut visit = Visit::begun().await;
    visit.switch("bakery", "bakeFails", json!(true)).await;
    let bake = json!({"peer": "bakery", "namespace": "oven", "method": "bake", "args": ["wheat"], "wait_seconds": 10});
    let told = visit.bad("call_method", bake.clone()).await;
    assert_eq!((&told["code"], &told["outcome"]), (&json!("peer_refused"), &json!("ran")), "{told}");
    assert_eq!(told["peer_error"]["message"], "the flame went out: the loaf is lost");
    assert_eq!(told["ticket"]["state"], "rejected", "{told}");
    visit.switch("bakery", "bakeFails", json!(false)).await;
    assert_eq!(visit.good("call_method", bake).await["ticket"]["state"], "resolved", "the oven is free again");
    visit.ended().await;
}

/// Switch `ovenSilent`: a component that takes the subscription and says nothing; then it says what it holds.
#[tokio::test]
async fn a_silent_oven_takes_the_subscription_and_says_nothing() {
    let mut visit = Visit::begun().await;
    visit.switch("bakery", "ovenSilent", json!(true)).await;
    let look = json!({"peer": "bakery", "namespace": "oven", "seconds": 1});
    assert_eq!(visit.bad("read_state", look.clone()).await["code"], "no_snapshot");
    visit.call("bakery", "oven", "setSetpoint", json!([200])).await;
    visit.switch("bakery", "ovenSilent", json!(false)).await;
    assert_eq!(visit.good("read_state", look).await["state"]["setpoint"], 200.0);
    visit.ended().await;
}

/// Switch `labelsLost`: what is lost is counted, so the verdict says how much and which.
#[tokio::test]
async fn labels_that_are_lost_are_missed_by_number() {
    let mut visit = Visit::begun().await;
    let watch = json!({"peer": "packaging", "namespace": "labels", "event": "printed"});
    let watch = visit.good("start_watch", watch).await["watch"].clone();
    for (lost, label) in [(false, "one"), (true, "two"), (true, "three"), (false, "four")] {
        visit.switch("packaging", "labelsLost", json!(lost)).await;
        visit.call("packaging", "labels", "print", json!([label, 1])).await;
    }
    let told = visit.records(&watch, 2).await;
    let detail = &told["loss_detail"];
    assert_eq!((&detail["verdict"], &detail["missing"]), (&json!("missed"), &json!([[2, 3]])), "{told}");
    visit.good("stop_watch", json!({"watch": watch})).await;
    visit.ended().await;
}

/// An event nobody declared is counted from when somebody asks for it; the answer says that it is not declared.
#[tokio::test]
async fn an_event_nobody_declared() {
    let mut visit = Visit::begun().await;
    visit.call("packaging", "scale", "weigh", json!([])).await;
    let watch = json!({"peer": "packaging", "namespace": "scale", "event": "settled"});
    let started = visit.good("start_watch", watch).await;
    assert!(started["note"].as_str().unwrap().contains("does not declare"), "{started}");
    visit.call("packaging", "scale", "weigh", json!([])).await;
    let told = visit.records(&started["watch"], 1).await;
    assert_eq!((&told["records"][0]["args"], &told["records"][0]["seq"]), (&json!([312.5]), &json!(1)), "{told}");
    visit.ended().await;
}

/// Switch `ordersConflict`: whoever changes an order finds that somebody else was faster.
#[tokio::test]
async fn a_store_in_which_somebody_else_is_faster() {
    let mut visit = Visit::begun().await;
    let order = |more: Json| {
        let mut arguments = json!({"peer": "packaging", "namespace": "workOrders", "resource": "orders", "id": "1001"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    visit.switch("packaging", "ordersConflict", json!(true)).await;
    let mut status = Vec::new();
    for _ in 0..2 {
        let stamp = visit.good("read_row", order(json!({}))).await["stamp"].clone();
        let change = order(json!({"verb": "update", "row": {"quantity": 7}, "stamp": stamp}));
        status.push(visit.good("write_row", change).await["status"].clone());
        visit.switch("packaging", "ordersConflict", json!(false)).await;
    }
    assert_eq!(status, ["conflict", "ok"]);
    // A store that answers late leaves the outcome unknown, and the read says that it was written.
    visit.call("packaging", "workOrders", "setDelay", json!([2_000])).await;
    let stamp = visit.good("read_row", order(json!({"timeout_ms": 10_000}))).await["stamp"].clone();
    let late = order(json!({"verb": "update", "row": {"quantity": 8}, "stamp": stamp, "timeout_ms": 200}));
    assert_eq!(visit.bad("write_row", late).await["code"], "unknown_outcome");
    assert_eq!(visit.good("read_row", order(json!({}))).await["row"]["quantity"], 8);
    visit.ended().await;
}

/// Switch `takeOven`: authority is in the hands of another peer, really, until it is given back.
#[tokio::test]
async fn authority_in_other_hands() {
    let mut visit = Visit::begun().await;
    visit.call("packaging", "faults", "takeOven", json!([60])).await;
    let oven = json!({"peer": "bakery", "namespace": "oven"});
    let error = visit.bad("take_control", oven.clone()).await;
    assert_eq!(error["code"], "not_in_control");
    assert!(error["message"].as_str().unwrap().contains("controlled by packaging"), "{error}");
    visit.call("packaging", "faults", "leaveOven", json!([])).await;
    assert_eq!(visit.good("take_control", oven).await["holder"], "hmi");
    visit.ended().await;
}

/// Who is in control is what the host says now: not who was seen before, whose lease is over.
#[tokio::test]
async fn who_was_in_control_is_not_named_when_nobody_is() {
    let mut visit = Visit::begun().await;
    let described = async |visit: &mut Visit| {
        let told = visit.good("describe_peer", json!({"peer": "bakery", "namespace": "oven"})).await;
        told["namespaces"][0]["component"]["authority"]["holder"].clone()
    };
    visit.call("packaging", "faults", "takeOven", json!([60])).await;
    assert_eq!(described(&mut visit).await, "packaging", "nobody had looked before");
    let calibrate = json!({"peer": "bakery", "namespace": "oven", "method": "calibrate", "args": [1]});
    let error = visit.bad("call_method", calibrate.clone()).await;
    assert_eq!((&error["code"], &error["holder"]), (&json!("not_in_control"), &json!("packaging")), "{error}");
    visit.call("packaging", "faults", "leaveOven", json!([])).await;
    let error = visit.bad("call_method", calibrate).await;
    assert_eq!((&error["code"], error.get("holder")), (&json!("not_in_control"), None), "{error}");
    assert!(!error["fix"].as_str().unwrap().contains("\"take\":true"), "{error}");
    assert_eq!(described(&mut visit).await, Json::Null);
    visit.ended().await;
}

/// S-112: a key names one command. With another one it is refused before anything is sent, and its stamp serves on.
#[tokio::test]
async fn s112_a_key_that_comes_with_another_command_is_refused() {
    let mut visit = Visit::begun().await;
    let order = |id: &Json, more: Json| {
        let mut arguments = json!({"peer": "packaging", "namespace": "workOrders", "resource": "orders", "id": id});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let (one, other) = (json!("1001"), json!("1003"));
    let page = visit
        .good(
            "list_rows",
            json!({"peer": "packaging", "namespace": "workOrders", "resource": "orders", "page_size": 3}),
        )
        .await;
    assert!(page["rows"].as_array().unwrap().len() >= 2, "{page}");
    let stamps = [
        visit.good("read_row", order(&one, json!({}))).await["stamp"].clone(),
        visit.good("read_row", order(&other, json!({}))).await["stamp"].clone(),
    ];
    let update = |id: &Json, stamp: &Json, quantity: u32| {
        order(id, json!({"verb": "update", "row": {"quantity": quantity}, "stamp": stamp, "idempotency_key": "k"}))
    };
    assert_eq!(visit.good("write_row", update(&one, &stamps[0], 11)).await["status"], "ok");
    for wrong in [update(&one, &stamps[0], 22), update(&other, &stamps[1], 11)] {
        let error = visit.bad("write_row", wrong).await;
        let told = (&error["code"], &error["argument"], &error["outcome"]);
        assert_eq!(told, (&json!("bad_argument"), &json!("/idempotency_key"), &json!("not_run")), "{error}");
    }
    assert_eq!(visit.good("read_row", order(&one, json!({}))).await["row"]["quantity"], 11);
    let free = order(&other, json!({"verb": "update", "row": {"quantity": 12}, "stamp": stamps[1]}));
    assert_eq!(visit.good("write_row", free).await["status"], "ok");
    let start = |lot: &str| json!({"peer": "bakery", "namespace": "oven", "method": "bake", "args": [lot], "idempotency_key": "b"});
    visit.good("call_method", start("rye")).await;
    assert_eq!(visit.bad("call_method", start("wheat")).await["argument"], "/idempotency_key");
    visit.ended().await;
}

/// A filter is closed like every argument: what would be passed over is refused, at any depth.
#[tokio::test]
async fn what_a_filter_would_pass_over_is_refused() {
    let mut visit = Visit::begun().await;
    let rye = json!({"field": "product", "op": "eq", "operand": "rye"});
    for filter in [
        json!({"all": [rye], "any": [rye]}),
        json!({"all": [rye], "op": "eq"}),
        json!({"field": "product", "op": "eq", "operand": "rye", "x": 2}),
        json!({"any": [{"all": [rye], "any": [rye]}]}),
    ] {
        let rows = json!({"peer": "packaging", "namespace": "workOrders", "resource": "orders", "filter": filter});
        let error = visit.bad("list_rows", rows).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!("/filter")), "{error}");
    }
    visit.ended().await;
}
