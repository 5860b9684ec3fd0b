//! Rows of a store through the tools: against a store that the test plays by hand, and over a plant in memory.

use std::{fs, path::Path};

use plantbridge::{
    link::{LinkEvent, Outbound},
    wire::{PeerName, Request, Value, frame::Answer, json::from_json, json::to_json},
};
use serde_json::{Value as Json, json};

use crate::{
    harness::Client,
    over::over_both,
    plant::joined,
    silence::{ByHand, error_of, refusal},
    tools::{bad, client_of, good},
};

over_both!(paused:
    s101_every_recorded_call_of_a_store,
    write_row_refuses_shapes_before_sending,
    ids_are_given_back_as_they_were_given,
    a_store_that_answers_too_late,
    a_stamp_serves_one_change,
    either_half_is_accepted_and_nonsense_is_told_apart,
    a_page_is_bounded_whatever_the_peer_sends,
    a_filter_is_checked_before_sending,
    a_read_that_is_declared_a_command_is_not_called,
    a_store_without_a_description_is_asked_as_it_was_named,
    a_store_that_leaves_and_returns_in_the_middle,
    a_refusal_of_a_store_points_to_what_may_be_written,
    a_change_that_was_given_up_is_not_sent,
);

over_both!(running:
    a_look_stays_a_look,
    list_rows_reads_the_maps_of_a_component,
);

fn recorded() -> Json {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/sem-rows.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The next request of the store, which describes itself as recorded.
async fn asked(hand: &mut ByHand) -> Request {
    hand.describes.get_or_insert_with(|| json!({"name": "works", "namespaces": recorded()["describe"]}));
    hand.request().await.1
}

/// The result of a call that asks nothing but what the peer is.
async fn describing(client: &mut Client, hand: &mut ByHand) -> Json {
    tokio::select! {
        (_, request) = hand.request() => panic!("{request:?}"),
        answer = client.read() => answer["result"]["structuredContent"].clone(),
    }
}

/// A request as a recorded row writes it.
fn written(request: &Request) -> Json {
    let args: Vec<Json> = request.args.iter().map(|arg| to_json(arg).unwrap()).collect();
    json!([request.path, request.method, args])
}

async fn answers(hand: &ByHand, request: &Request, answer: Json) {
    hand.answer(request, Answer::Value(Some(from_json(answer)))).await;
}

/// Arguments for the recorded store.
fn at(more: Json) -> Json {
    let mut arguments = json!({"peer": "works", "namespace": "sql.write", "resource": "pupils"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

/// Recorded calls no tool makes, by the reason.
const NOT_OURS: [(&str, &[&str]); 2] = [
    ("no tool calls it; call_method does", &["tables", "refresh"]),
    ("list_rows reads pages; no tool asks for rows by key", &["many", "reference"]),
];
/// Recorded refusals that are ours already, with the argument they name: nothing is sent.
const REFUSED_HERE: [(&str, &str); 3] =
    [("create not an object", "/row"), ("update no stamp", "/stamp"), ("delete no stamp", "/stamp")];
/// A stamp serves one change, and the first change under it was made: nothing is sent, and the answer is the recorded one.
const SPENT: [&str; 2] = ["update stale stamp", "delete stale"];
/// The other half is found, so that what is refused there is answered.
const FOUND: [&str; 1] = ["read namespace has no writable"];

/// The tool and the arguments that make a recorded call.
fn tool_for(row: &Json) -> (&'static str, Json) {
    let args = row["args"].as_array().unwrap();
    let mut arguments = json!({"peer": "works", "namespace": row["path"]});
    let mut set = |name: &str, at: usize| {
        if let Some(value) = args.get(at) {
            arguments[name] = value.clone();
        }
    };
    let tool = match row["method"].as_str().unwrap() {
        "writable" => "list_writable",
        "getOne" => {
            set("resource", 0);
            set("id", 1);
            "read_row"
        }
        verb @ ("create" | "update" | "delete") => {
            set("resource", 0);
            match verb {
                "create" => set("row", 1),
                "update" => [("id", 1), ("row", 2), ("stamp", 3)].iter().for_each(|(name, at)| set(name, *at)),
                _ => [("id", 1), ("stamp", 2)].iter().for_each(|(name, at)| set(name, *at)),
            }
            arguments["verb"] = json!(verb);
            "write_row"
        }
        "$data" => {
            let params = args[2].as_object().unwrap();
            arguments["resource"] = args[1].clone();
            for name in ["filter", "sort"].iter().filter(|name| params.contains_key(**name)) {
                arguments[*name] = params[*name].clone();
            }
            if let Some(pagination) = params.get("pagination") {
                (arguments["page"], arguments["page_size"]) =
                    (pagination["page"].clone(), pagination["pageSize"].clone());
            }
            "list_rows"
        }
        other => panic!("{other}"),
    };
    (tool, arguments)
}

/// What the tool says of a recorded result.
fn check_told(label: &str, tool: &str, told: &Json, result: &Json) {
    match tool {
        "list_writable" => {
            assert_eq!((&told["node"], &told["resources"]), (&json!("works.sql.write"), result), "{label}");
        }
        "list_rows" => {
            let ids: Vec<&Json> = told["rows"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
            let rows: Vec<&Json> = told["rows"].as_array().unwrap().iter().map(|row| &row["row"]).collect();
            assert_eq!((json!(ids), json!(rows)), (result["ids"].clone(), result["data"].clone()), "{label}");
            assert_eq!((&told["total"], &told["has_more"]), (&result["total"], &result["hasMore"]), "{label}");
            assert!(!told.to_string().contains("stamp"), "{told}");
        }
        _ => {
            for key in ["status", "row", "stamp"] {
                assert_eq!(told[key], result[key], "{label} {key}");
            }
            assert!(told["note"].is_string(), "{label}");
        }
    }
}

/// S-100, S-101, S-103: every recorded call that a caller makes, through the tools: one request each, as recorded, and the
/// recorded answer or refusal in the words of the store.
async fn s101_every_recorded_call_of_a_store() {
    let (mut client, mut hand) = ByHand::joined().await;
    let (mut here, mut skipped) = (Vec::new(), Vec::new());
    let file = recorded();
    for row in file["calls"].as_array().unwrap() {
        let label = row["label"].as_str().unwrap();
        if let Some((why, _)) = NOT_OURS.iter().find(|(_, labels)| labels.contains(&label)) {
            skipped.push((*why, label));
            continue;
        }
        let (tool, arguments) = tool_for(row);
        if let Some((_, argument)) = REFUSED_HERE.iter().find(|(refused, _)| *refused == label) {
            let error = bad(&mut client, tool, arguments).await;
            assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!(argument)), "{label}");
            here.push(label);
            continue;
        }
        if SPENT.contains(&label) {
            check_told(label, tool, &good(&mut client, tool, arguments).await, &row["result"]);
            here.push(label);
            continue;
        }
        client.start("c", tool, arguments).await;
        let request = asked(&mut hand).await;
        let mut sent = written(&request);
        if FOUND.contains(&label) {
            assert_eq!(sent, json!(["sql.write", "writable", []]), "{label}");
            answers(&hand, &request, json!([])).await;
            let told = &client.read().await["result"]["structuredContent"];
            assert!(told["note"].as_str().unwrap().contains("nothing may be written"), "{told}");
            here.push(label);
            continue;
        }
        if row["method"] == "$data" && row["args"][2].get("pagination").is_none() {
            let taken = sent[2][2].as_object_mut().unwrap().shift_remove("pagination");
            assert_eq!(taken, Some(json!({"page": 0, "pageSize": 50})), "a page is always bounded");
        }
        assert_eq!(sent, json!([row["path"], row["method"], row["args"]]), "{label}");
        match row.get("result") {
            Some(result) => {
                answers(&hand, &request, result.clone()).await;
                let answer = client.read().await;
                assert_eq!(answer["result"]["isError"], Json::Null, "{label}: {answer}");
                check_told(label, tool, &answer["result"]["structuredContent"], result);
            }
            None => {
                let (code, message) = (row["code"].as_str().unwrap(), row["message"].as_str().unwrap());
                let message = message.strip_prefix(&format!("{code}: ")).unwrap();
                hand.answer(&request, refusal(code, message)).await;
                let error = error_of(&mut client).await;
                assert_eq!(error["code"], "peer_refused", "{label}");
                assert_eq!(error["peer_error"], json!({"code": code, "message": message}), "{label}");
                let points = if tool == "list_rows" { "describe_peer" } else { "list_writable" };
                assert!(error["fix"].as_str().unwrap().contains(points), "{label}: {error}");
            }
        }
    }
    let expected = REFUSED_HERE.len() + SPENT.len() + FOUND.len();
    assert_eq!((here.len(), skipped.len()), (expected, 4), "{here:?} {skipped:?}");
}

/// tools.md, write_row: what each verb takes and does not take is said before anything is sent, and no stamp is fetched.
async fn write_row_refuses_shapes_before_sending() {
    let (mut client, mut hand) = ByHand::joined().await;
    let row = json!({"name": "x"});
    for (arguments, argument) in [
        (json!({"verb": "create"}), "/row"),
        (json!({"verb": "create", "row": row, "id": "1"}), "/id"),
        (json!({"verb": "create", "row": row, "stamp": "s"}), "/stamp"),
        (json!({"verb": "update", "id": "1", "stamp": "s"}), "/row"),
        (json!({"verb": "update", "row": row, "stamp": "s"}), "/id"),
        (json!({"verb": "update", "id": "1", "row": row}), "/stamp"),
        (json!({"verb": "delete", "stamp": "s"}), "/id"),
        (json!({"verb": "delete", "id": "1"}), "/stamp"),
        (json!({"verb": "delete", "id": "1", "stamp": "s", "row": row}), "/row"),
        (json!({"verb": "upsert", "row": row}), "/verb"),
        (json!({"verb": "create", "row": [row]}), "/row"),
        (json!({"verb": "create", "row": "x"}), "/row"),
        (json!({"verb": "create", "row": {"$date": "2026-08-07T18:22:10.114Z"}}), "/row"),
        (json!({"verb": "create", "row": {"n": 9_007_199_254_740_993_i64}}), "/row/n"),
        (json!({"verb": "create", "row": row, "rows": [row]}), "/rows"),
        (json!({"verb": "delete", "id": 1.5, "stamp": "s"}), "/id"),
        (json!({"verb": "delete", "id": 9_007_199_254_740_993_i64, "stamp": "s"}), "/id"),
        (json!({"verb": "delete", "id": ["1", "2"], "stamp": "s"}), "/id"),
        (json!({"verb": "delete", "id": "1", "stamp": ""}), "/stamp"),
    ] {
        let error = bad(&mut client, "write_row", at(arguments.clone())).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!(argument)), "{arguments}");
        assert!(error["expected"].is_string());
    }
    assert!(none_for_the_store(&mut hand), "nothing was sent");
}

/// Whether what was sent is presence alone.
fn none_for_the_store(hand: &mut ByHand) -> bool {
    while let Ok(sent) = hand.asked.try_recv() {
        if matches!(sent, Outbound::Frame { .. }) {
            return false;
        }
    }
    true
}

/// Semantics 9.2: an id keeps its spelling and its kind on the way there and back.
async fn ids_are_given_back_as_they_were_given() {
    let (mut client, mut hand) = ByHand::joined().await;
    let ids = [
        json!(2),
        json!("2"),
        json!("02"),
        json!(-3),
        json!(""),
        json!("line.1/\u{e5}"),
        json!("say \"it\" \\ 'now'"),
        json!("tab\tnul\u{0}esc\u{1b}"),
        json!("\u{1F600}\u{202e}"),
        json!("$date"),
    ];
    for id in ids {
        client.start("c", "read_row", at(json!({"id": id}))).await;
        let request = asked(&mut hand).await;
        assert_eq!(written(&request), json!(["sql.write", "getOne", ["pupils", id]]));
        answers(&hand, &request, json!({"status": "ok", "row": {}, "stamp": "s"})).await;
        let told = client.read().await["result"]["structuredContent"].take();
        assert_eq!((&told["id"], &told["stamp"]), (&id, &json!("s")));
        client.start("c", "write_row", at(json!({"verb": "delete", "id": id, "stamp": "s"}))).await;
        let request = asked(&mut hand).await;
        assert_eq!(written(&request), json!(["sql.write", "delete", ["pupils", id, "s"]]));
        answers(&hand, &request, json!({"status": "ok", "id": id})).await;
        let told = client.read().await["result"]["structuredContent"].take();
        assert_eq!((&told["status"], &told["id"]), (&json!("ok"), &id));
        assert!(told["idempotency_key"].is_string() && told.get("stamp").is_none());
    }
}

/// F-14: a write that was not answered is in doubt, and the error names the read that settles it; a read that was not
/// answered is only late. What comes after that is nobody's.
async fn a_store_that_answers_too_late() {
    let (mut client, mut hand) = ByHand::joined().await;
    let list =
        json!({"tool": "list_rows", "arguments": {"peer": "works", "namespace": "sql.write", "resource": "pupils"}});
    let mut read = list.clone();
    (read["tool"], read["arguments"]["id"]) = (json!("read_row"), json!("1"));
    for (tool, arguments, settle) in [
        ("list_writable", json!({"resource": null}), Json::Null),
        ("read_row", json!({"id": "1"}), Json::Null),
        ("list_rows", json!({}), Json::Null),
        ("write_row", json!({"verb": "create", "row": {"name": "x"}}), list),
        ("write_row", json!({"verb": "update", "id": "1", "row": {"name": "x"}, "stamp": "s"}), read.clone()),
        ("write_row", json!({"verb": "delete", "id": "1", "stamp": "t"}), read),
    ] {
        let mut arguments = at(arguments);
        arguments["timeout_ms"] = json!(1500);
        if arguments["resource"].is_null() {
            arguments.as_object_mut().unwrap().shift_remove("resource");
        }
        client.start("c", tool, arguments).await;
        let request = asked(&mut hand).await;
        let error = error_of(&mut client).await;
        if settle.is_null() {
            assert_eq!((&error["code"], &error["retryable"]), (&json!("deadline_exceeded"), &json!(true)), "{error}");
            assert!(error.get("outcome").is_none(), "{error}");
        } else {
            assert_eq!((&error["code"], &error["outcome"]), (&json!("unknown_outcome"), &json!("unknown")), "{error}");
            assert_eq!((&error["settle_with"], &error["retryable"]), (&settle, &json!(false)), "{error}");
            assert_eq!(error["idempotency_key"], json!(request.idempotency_key));
        }
        answers(&hand, &request, json!({"status": "ok", "id": "5", "stamp": "late"})).await;
        client.still_there().await;
    }
}

/// tools.md, write_row: a stamp serves one change. In doubt it is not sent again, unless it is the same command under its
/// key; what was refused may be corrected; a row that was read again may be changed.
async fn a_stamp_serves_one_change() {
    let (mut client, mut hand) = ByHand::joined().await;
    let change = |grade: i64, key: Option<&Json>| {
        let mut arguments =
            at(json!({"verb": "update", "id": "1", "row": {"grade": grade}, "stamp": "s", "timeout_ms": 100}));
        if let Some(key) = key {
            arguments["idempotency_key"] = key.clone();
        }
        arguments
    };
    client.start("c", "write_row", change(1, None)).await;
    let request = asked(&mut hand).await;
    hand.answer(&request, refusal("Exception", "grade holds INTEGER and was given a string")).await;
    assert_eq!(error_of(&mut client).await["code"], "peer_refused");
    client.start("c", "write_row", change(2, None)).await;
    asked(&mut hand).await;
    let error = error_of(&mut client).await;
    assert_eq!(error["code"], "unknown_outcome");
    let told = good(&mut client, "write_row", change(3, None)).await;
    assert_eq!((&told["status"], told.get("ms")), (&json!("conflict"), None), "{told}");
    assert!(told["note"].as_str().unwrap().contains("read_row"), "{told}");
    client.start("c", "write_row", change(2, Some(&error["idempotency_key"]))).await;
    let request = asked(&mut hand).await;
    assert_eq!(json!(request.idempotency_key), error["idempotency_key"]);
    answers(&hand, &request, json!({"status": "ok", "id": "1", "stamp": "s2"})).await;
    assert_eq!(client.read().await["result"]["structuredContent"]["stamp"], "s2");
    client.start("c", "read_row", at(json!({"id": "1"}))).await;
    let request = asked(&mut hand).await;
    answers(&hand, &request, json!({"status": "ok", "row": {"grade": 0}, "stamp": "s"})).await;
    client.read().await;
    client.start("c", "write_row", change(4, None)).await;
    let request = asked(&mut hand).await;
    assert_eq!(request.method, "update", "the row has that state again, and somebody looked at it");
    answers(&hand, &request, json!({"status": "conflict", "stamp": "of somebody else"})).await;
    let told = client.read().await["result"]["structuredContent"].take();
    assert_eq!((&told["status"], told.get("stamp")), (&json!("conflict"), None), "a conflict carries no new stamp");
}

/// Either half of a store is accepted, and a store that answers nonsense is told apart.
async fn either_half_is_accepted_and_nonsense_is_told_apart() {
    let (mut client, mut hand) = ByHand::joined().await;
    for half in ["sql", "sql.write"] {
        for (tool, more, path) in [
            ("list_writable", json!({}), "sql.write"),
            ("read_row", json!({"resource": "pupils", "id": "1"}), "sql.write"),
            ("write_row", json!({"resource": "pupils", "verb": "create", "row": {}}), "sql.write"),
            ("list_rows", json!({"resource": "pupils"}), "sql"),
        ] {
            let mut arguments = more;
            (arguments["peer"], arguments["namespace"]) = (json!("works"), json!(half));
            client.start("c", tool, arguments).await;
            let request = asked(&mut hand).await;
            assert_eq!(request.path, path, "{tool}");
            hand.answer(&request, Answer::Value(Some(Value::Int(7)))).await;
            let error = error_of(&mut client).await;
            let expected = if tool == "write_row" { "unknown_outcome" } else { "peer_refused" };
            assert_eq!(error["code"], expected, "{tool}: {error}");
        }
    }
    let error =
        bad(&mut client, "read_row", json!({"peer": "works", "namespace": "sqll", "resource": "x", "id": 1})).await;
    assert_eq!(error["code"], "unknown_namespace", "{error}");
}

/// S-102: a total that is not said is not zero; rows nobody asked for are left out, and it is said that they are.
async fn a_page_is_bounded_whatever_the_peer_sends() {
    let (mut client, mut hand) = ByHand::joined().await;
    let ids: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    let data: Vec<Json> = (0..100_000).map(|n| json!({"name": format!("pupil {n}"), "grade": n % 7})).collect();
    let ask = |more: Json| {
        let mut arguments = at(json!({"page_size": 500, "fields": ["grade", "none"]}));
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let flood = json!({"ids": ids, "data": data, "epoch": "e", "revision": 1, "ms": 0});
    client.start("c", "list_rows", ask(json!({}))).await;
    let request = asked(&mut hand).await;
    assert_eq!(written(&request)[2][2]["pagination"], json!({"page": 0, "pageSize": 500}));
    answers(&hand, &request, flood.clone()).await;
    let answer = client.read().await;
    let told = &answer["result"]["structuredContent"];
    assert!(answer.to_string().len() < 100_000, "{}", answer.to_string().len());
    assert_eq!((told.get("total"), told.get("has_more"), &told["truncated"]), (None, None, &json!(true)));
    assert_eq!(told["rows"][3], json!({"id": "3", "row": {"grade": 3}}));
    assert!(told["note"].as_str().unwrap().contains("more rows"), "{told}");
    let (next, returned) = (told["hint"]["arguments"].clone(), told["returned"].as_u64().unwrap());
    if next.get("cursor").is_some() {
        client.start("c", "list_rows", next).await;
        let request = asked(&mut hand).await;
        answers(&hand, &request, flood).await;
        let told = client.read().await["result"]["structuredContent"].take();
        assert_eq!(told["rows"][0]["id"], json!(returned.to_string()), "it goes on where it ended");
    }
    for more in [json!({"page_size": 501}), json!({"page_size": 100_000}), json!({"page": -1})] {
        assert_eq!(bad(&mut client, "list_rows", ask(more)).await["code"], "bad_argument");
    }
}

/// Semantics 9.1: bounds and words of a filter are checked here; nothing is sent, nothing is adjusted (S-104).
async fn a_filter_is_checked_before_sending() {
    let (mut client, mut hand) = ByHand::joined().await;
    let leaf = json!({"op": "eq", "operand": 1});
    let deep = (0..8).fold(leaf.clone(), |inner, _| json!({"all": [inner]}));
    for filter in [
        json!({}),
        json!({"field": "a", "op": "like", "operand": 1}),
        json!({"field": "a", "op": "eq", "operand": {"$date": "2026-08-07T18:22:10.114Z"}}),
        json!({"any": []}),
        deep,
        json!({"all": vec![leaf; 64]}),
    ] {
        let error = bad(&mut client, "list_rows", at(json!({"filter": filter}))).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!("/filter")), "{filter}");
        assert!(error["problem"].as_str().unwrap().starts_with("$data: "), "{error}");
    }
    assert!(none_for_the_store(&mut hand));
}

/// A look calls only what is declared to be one, and under read-only nothing else is offered.
async fn a_look_stays_a_look() {
    let (plant, works, _node) = joined(true, None).await;
    let mut client = client_of(plant).await;
    let create = json!({"peer": "works", "namespace": "tank", "resource": "x", "verb": "create", "row": {}});
    let error = bad(&mut client, "write_row", create).await;
    assert_eq!((&error["code"], &error["outcome"]), (&json!("read_only"), &json!("not_run")), "{error}");
    let rows = good(&mut client, "list_rows", json!({"peer": "works", "namespace": "tank", "resource": "tags"})).await;
    assert_eq!((&rows["rows"], &rows["total"]), (&json!([{"id": "line.1", "row": 7}]), &json!(1)));
    assert_eq!(rows["resource"], json!(["state", "tags"]));
    let error = bad(&mut client, "list_writable", json!({"peer": "works", "namespace": "tank"})).await;
    assert_eq!(error["code"], "unknown_method");
    assert!(error["message"].as_str().unwrap().contains("write half"), "{error}");
    assert_eq!(error.get("alternatives"), None, "{error}");
    assert!(error["fix"].as_str().unwrap().starts_with("no namespace that works describes is a store"), "{error}");
    let error = bad(&mut client, "list_rows", json!({"peer": "works", "namespace": "scale", "resource": "x"})).await;
    assert_eq!((&error["code"], &error["alternatives"]), (&json!("not_a_component"), &json!(["tank"])), "{error}");
    assert!(works.ran.lock().unwrap().is_empty());
}

/// Where something else was named, the stores there are are told; a store that lacks one method is still a store.
#[tokio::test(start_paused = true)]
async fn what_is_no_store_is_told_with_the_stores_there_are() {
    let (mut client, mut hand) = ByHand::joined().await;
    let methods = json!([{"name": "writable", "effect": "observe"}, {"name": "getOne", "effect": "observe"}]);
    let scale = json!({"name": "scale", "methods": [{"name": "read"}], "events": []});
    let namespaces = json!([scale, {"name": "sql.write", "methods": methods, "events": []}]);
    hand.describes = Some(json!({"name": "works", "namespaces": namespaces}));
    client.start("w", "list_writable", json!({"peer": "works", "namespace": "scale"})).await;
    let told = describing(&mut client, &mut hand).await["error"].take();
    assert_eq!((&told["code"], &told["outcome"]), (&json!("unknown_method"), &json!("not_run")), "{told}");
    assert_eq!((&told["alternatives"], told.get("settle_with")), (&json!(["sql.write"]), None), "{told}");
    client.start("d", "write_row", at(json!({"verb": "delete", "id": "1", "stamp": "s"}))).await;
    let told = describing(&mut client, &mut hand).await["error"].take();
    assert_eq!(told["message"], "works.sql.write has no method 'delete'", "{told}");
}

/// The same of a store that declares its reads to be commands.
async fn a_read_that_is_declared_a_command_is_not_called() {
    let (mut client, mut hand) = ByHand::joined().await;
    let methods = json!([{"name": "writable", "effect": "observe"}, {"name": "getOne", "effect": "operate"}]);
    let namespaces = json!([{"name": "sql.write", "methods": methods, "events": []}]);
    hand.describes = Some(json!({"name": "works", "namespaces": namespaces}));
    client.start("c", "read_row", at(json!({"id": "1"}))).await;
    let error = &describing(&mut client, &mut hand).await["error"];
    assert_eq!((&error["code"], &error["outcome"]), (&json!("read_only"), &json!("not_run")), "{error}");
    assert!(error["fix"].as_str().unwrap().contains("call_method"));
    assert!(none_for_the_store(&mut hand));
}

/// Over a component of ours: filtered, sorted, cut, a large one in pages, and a name that is nothing is an empty list that
/// says so.
async fn list_rows_reads_the_maps_of_a_component() {
    let tags: serde_json::Map<String, Json> = (0..100_000).map(|n| (format!("tag.{n:05}"), json!(n % 10))).collect();
    let state = json!({"level": 1, "mode": "idle", "both": 1, "zones": {"top": 3}, "tags": tags});
    let (plant, _works, _node) = joined(false, Some(state)).await;
    let mut client: Client = client_of(plant).await;
    let ask = |more: Json| {
        let mut arguments = json!({"peer": "works", "namespace": "tank", "resource": "state.tags"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let told = good(&mut client, "list_rows", ask(json!({"page": 3, "page_size": 2}))).await;
    assert_eq!(told["rows"], json!([{"id": "tag.00006", "row": 6}, {"id": "tag.00007", "row": 7}]));
    assert_eq!((&told["total"], &told["has_more"]), (&json!(100_000), &json!(true)));
    assert_eq!(told["hint"]["arguments"]["page"], 4);
    let last = json!({"filter": {"op": "eq", "operand": 9}, "sort": {"field": "id", "order": "DESC"}, "page_size": 1});
    let told = good(&mut client, "list_rows", ask(last)).await;
    assert_eq!((&told["rows"][0]["id"], &told["total"]), (&json!("tag.99999"), &json!(10_000)));
    let told = good(&mut client, "list_rows", ask(json!({"page_size": 0}))).await;
    assert_eq!((&told["rows"], &told["total"]), (&json!([]), &json!(100_000)));
    let told = good(&mut client, "list_rows", ask(json!({"resource": ["state", "tgas"]}))).await;
    assert!(told["note"].as_str().unwrap().contains("does not have"), "{told}");
}

/// A store that says nothing of itself is asked under the name that was given, unchecked; a read that it does not answer is
/// late and not in doubt, and a bridge that may only look does not ask it.
async fn a_store_without_a_description_is_asked_as_it_was_named() {
    let (mut client, mut hand) = ByHand::joined().await;
    let mut arguments = at(json!({"id": "1", "timeout_ms": 200}));
    arguments["namespace"] = json!("sql");
    client.start("c", "read_row", arguments).await;
    let (_, request) = hand.request().await;
    assert_eq!(written(&request), json!(["sql", "getOne", ["pupils", "1"]]));
    assert_eq!(error_of(&mut client).await["code"], "deadline_exceeded");
    client.start("c", "write_row", at(json!({"verb": "create", "row": {"name": "x"}}))).await;
    let (_, request) = hand.request().await;
    assert!(request.idempotency_key.is_some());
    answers(&hand, &request, json!({"status": "ok", "id": "4", "stamp": "s"})).await;
    let told = client.read().await["result"]["structuredContent"].take();
    assert_eq!((&told["id"], &told["stamp"], &told["verb"]), (&json!("4"), &json!("s"), &json!("create")));
}

/// A store that goes offline and returns while a verb waits: what it answers counts, and nothing is sent twice.
async fn a_store_that_leaves_and_returns_in_the_middle() {
    let works = PeerName::configured("works").unwrap();
    for (tool, more, answer) in [
        ("list_writable", json!({}), json!([])),
        ("read_row", json!({"resource": "pupils", "id": 1}), json!({"status": "missing"})),
        ("list_rows", json!({"resource": "pupils"}), json!({"ids": [], "data": []})),
        ("write_row", json!({"resource": "pupils", "verb": "create", "row": {}}), json!({"status": "ok", "id": "1"})),
    ] {
        let (mut client, mut hand) = ByHand::joined().await;
        let mut arguments = more;
        (arguments["peer"], arguments["namespace"]) = (json!("works"), json!("sql.write"));
        client.start("c", tool, arguments).await;
        let request = asked(&mut hand).await;
        hand.tell(LinkEvent::Offline(works.clone())).await;
        hand.tell(LinkEvent::Online { peer: works.clone(), shape: None }).await;
        answers(&hand, &request, answer).await;
        let told = client.read().await;
        assert_eq!(told["result"]["isError"], Json::Null, "{tool}: {told}");
        assert!(none_for_the_store(&mut hand), "{tool}");
    }
}

/// Semantics 9.2: a store may not do what its list does not hold; an absent list entry is a refusal of the store.
async fn a_refusal_of_a_store_points_to_what_may_be_written() {
    let (mut client, mut hand) = ByHand::joined().await;
    let arguments =
        json!({"peer": "works", "namespace": "sql", "resource": "courses", "verb": "create", "row": {"a": 1}});
    client.start("c", "write_row", arguments).await;
    let request = asked(&mut hand).await;
    let sentence = "courses is not writable on this node - it accepts writes to pupils";
    hand.answer(&request, refusal("Exception", sentence)).await;
    let error = error_of(&mut client).await;
    assert_eq!((&error["code"], &error["retryable"]), (&json!("peer_refused"), &json!(false)));
    assert_eq!(error["fix"], "list_writable {\"peer\":\"works\",\"namespace\":\"sql\"} shows what may be written here");
}

/// What is given up before it is sent is not sent, and leaves its stamp as it was.
async fn a_change_that_was_given_up_is_not_sent() {
    let (mut client, mut hand) = ByHand::joined().await;
    let change = at(json!({"verb": "update", "id": "1", "row": {"grade": 1}, "stamp": "s"}));
    client.start("c", "write_row", change.clone()).await;
    let (_, describe, claim) = hand.offered().await;
    assert!(claim.take() && describe.path == "msgrpc");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}})).await;
    client.still_there().await;
    let description = json!({"name": "works", "namespaces": recorded()["describe"]});
    hand.answer(&describe, Answer::Value(Some(from_json(description)))).await;
    client.start("d", "write_row", change).await;
    let request = asked(&mut hand).await;
    assert_eq!(request.method, "update", "the first that is sent is the second that was wanted");
    answers(&hand, &request, json!({"status": "ok", "id": "1", "stamp": "t"})).await;
    assert_eq!(client.read().await["result"]["structuredContent"]["stamp"], "t");
    assert!(none_for_the_store(&mut hand));
}
