//! The steps: what is asked, what the answer must be, and how it reads.

use serde_json::{Map as JsonMap, Value as Json, json};

use super::{context, watching};

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// What it shows, for people.
    pub(super) title: &'static str,
    /// The tool it calls.
    pub(super) tool: &'static str,
    /// With what.
    pub(super) arguments: fn() -> Json,
    /// The answer in words, given whether it is a failure; `None` when it is not what it must be.
    pub(super) read: fn(bool, &Json) -> Option<String>,
}

/// The tour, from the first look to the last watch. It leaves the oven heating, so that there is something to look at.
pub(super) fn steps() -> Vec<Step> {
    [&STEPS[..], &context::STEPS, &watching::STEPS].concat()
}

/// The machines and the store.
const STEPS: [Step; 24] = [
    Step { title: "Who is on the network?", tool: "list_peers", arguments: || json!({}), read: peers },
    Step {
        title: "What can the bakery do?",
        tool: "describe_peer",
        arguments: || json!({"peer": "bakery"}),
        read: description,
    },
    Step {
        title: "Who is a machine of ours, whatever it is called?",
        tool: "find_capability",
        arguments: || json!({"capability": "@plantbridge/contracts/Machine"}),
        read: machines,
    },
    Step {
        title: "What does the oven say of itself?",
        tool: "read_state",
        arguments: || oven(&json!({})),
        read: state,
    },
    Step {
        title: "Set it to 190 °C, and wait for the oven's own word that it took it",
        tool: "set_state",
        arguments: || oven(&json!({"path": "setpoint", "value": 190, "verify_seconds": 5})),
        read: |failed, answer| {
            (!failed && at(answer, "/confirmed") == true).then(|| "confirmed: the oven says 190".into())
        },
    },
    Step {
        title: "Ask for 9000 °C: the oven has the last word",
        tool: "set_state",
        arguments: || oven(&json!({"path": "zones.top.setpoint", "value": 9000, "verify_seconds": 5})),
        read: |failed, answer| {
            (!failed && at(answer, "/confirmed") == false && at(answer, "/returned") == 280.0)
                .then(|| "not confirmed: the oven took 280, its maximum".into())
        },
    },
    Step {
        title: "Open the door",
        tool: "call_method",
        arguments: || oven(&json!({"method": "setDoor", "args": ["open"]})),
        read: |failed, answer| (!failed && at(answer, "/result") == "open").then(|| "it is open".into()),
    },
    Step {
        title: "Heat with the door open: the interlock is the oven's, and its words come through",
        tool: "call_method",
        arguments: || oven(&json!({"method": "setMode", "args": ["heating"]})),
        read: |failed, answer| {
            let refusal = at(answer, "/error/peer_error");
            let interlock =
                failed && at(answer, "/error/code") == "peer_refused" && at(refusal, "/code") == "Forbidden";
            interlock.then(|| at(refusal, "/message").as_str()).flatten().map(|words| format!("refused: {words}"))
        },
    },
    Step {
        title: "Close the door",
        tool: "call_method",
        arguments: || oven(&json!({"method": "setDoor", "args": ["closed"]})),
        read: |failed, answer| (!failed && at(answer, "/result") == "closed").then(|| "it is closed".into()),
    },
    Step {
        title: "Heat",
        tool: "call_method",
        arguments: || oven(&json!({"method": "setMode", "args": ["heating"]})),
        read: |failed, answer| {
            let mode = at(answer, "/result").as_str().filter(|mode| ["heating", "holding"].contains(mode));
            mode.filter(|_| !failed).map(|mode| format!("it is {mode}"))
        },
    },
    Step {
        title: "Give a word where a number belongs: refused here, and nothing is sent",
        tool: "call_method",
        arguments: || oven(&json!({"method": "setSetpoint", "args": ["hot"]})),
        read: |failed, answer| {
            let error = at(answer, "/error");
            let refused = failed && at(error, "/code") == "invalid_params" && at(error, "/outcome") == "not_run";
            refused.then(|| at(error, "/message").as_str()).flatten().map(|words| format!("not sent: {words}"))
        },
    },
    Step {
        title: "Dates and bytes, which JSON lacks, go there and back",
        tool: "call_method",
        arguments: || oven(&json!({"method": "stampLot", "args": [{"$date": BAKED}, {"$bytes": LABEL}]})),
        read: |failed, answer| {
            let lot = at(answer, "/result");
            let same = at(lot, "/baked/$date") == BAKED && at(lot, "/label/$bytes") == LABEL;
            let best_before = at(lot, "/bestBefore/$date").as_str().filter(|_| same && !failed);
            best_before.map(|date| format!("label {LABEL}, best before {date}"))
        },
    },
    Step {
        title: "Bake a loaf: the answer comes later, and is waited for",
        tool: "call_method",
        arguments: || oven(&json!({"method": "bake", "args": ["wheat"], "wait_seconds": 10})),
        read: |failed, answer| {
            let done = !failed && at(answer, "/ticket/state") == "resolved" && at(answer, "/result/recipe") == "wheat";
            let loaf = at(answer, "/result/loaf").as_i64().filter(|_| done);
            loaf.map(|loaf| format!("loaf {loaf} is done; {} % was told on the way", at(answer, "/ticket/progress")))
        },
    },
    Step {
        title: "Calibrate the oven: only whoever is in control may",
        tool: "call_method",
        arguments: || oven(&json!({"method": "calibrate", "args": [0.5]})),
        read: |failed, answer| {
            let error = at(answer, "/error");
            let refused = failed && at(error, "/code") == "not_in_control" && at(error, "/outcome") == "not_run";
            refused.then(|| at(error, "/fix").as_str()).flatten().map(|words| format!("refused: {words}"))
        },
    },
    Step {
        title: "Take control",
        tool: "take_control",
        arguments: || oven(&json!({"seconds": 30})),
        read: |failed, answer| {
            let holder = at(answer, "/holder").as_str().filter(|_| at(answer, "/controlled") == "bakery.oven");
            holder.filter(|_| !failed).map(|holder| format!("{holder} is in control"))
        },
    },
    Step {
        title: "Calibrate",
        tool: "call_method",
        arguments: || oven(&json!({"method": "calibrate", "args": [0.5]})),
        read: |failed, answer| (!failed && at(answer, "/result") == 0.5).then(|| "it shows half a degree more".into()),
    },
    Step {
        title: "Give control back",
        tool: "release_control",
        arguments: || oven(&json!({})),
        read: |failed, answer| (!failed && at(answer, "/released") == true).then(|| "others may take it".into()),
    },
    Step {
        title: "A method nobody described: it goes out unchecked, and the answer says so",
        tool: "call_method",
        arguments: || json!({"peer": "packaging", "namespace": "scale", "method": "tare"}),
        read: |failed, answer| (!failed && at(answer, "/checked") == false).then(|| "done, unchecked".into()),
    },
    Step {
        title: "Which work orders are open?",
        tool: "list_rows",
        arguments: || {
            orders(
                &json!({"filter": {"field": "status", "op": "eq", "operand": "open"}, "sort": {"field": "quantity"}}),
            )
        },
        read: open_orders,
    },
    Step {
        title: "Read one: its stamp is what a change needs",
        tool: "read_row",
        arguments: || orders(&json!({"id": ORDER})),
        read: |failed, answer| {
            let stamped = !failed && at(answer, "/status") == "ok" && at(answer, "/stamp").is_string();
            let (product, quantity) = (at(answer, "/row/product").as_str()?, at(answer, "/row/quantity").as_i64()?);
            stamped.then(|| format!("{quantity} {product}, and a stamp"))
        },
    },
    Step {
        title: "Change it under that stamp",
        tool: "write_row",
        arguments: || orders(&json!({"verb": "update", "id": ORDER, "row": {"quantity": 90}, "stamp": STAMP})),
        read: |failed, answer| {
            let done = !failed && at(answer, "/verb") == "update" && at(answer, "/status") == "ok";
            (done && at(answer, "/stamp").is_string()).then(|| "written, and the next stamp came back".into())
        },
    },
    Step {
        title: "Meanwhile somebody at the line takes the order up",
        tool: "call_method",
        arguments: || json!({"peer": "packaging", "namespace": "workOrders", "method": "start", "args": [1003]}),
        read: |failed, answer| (!failed && at(answer, "/result") == "started").then(|| "it is started".into()),
    },
    Step {
        title: "Change it again, not having looked: the stamp is stale, and nothing is written",
        tool: "write_row",
        arguments: || orders(&json!({"verb": "update", "id": ORDER, "row": {"quantity": 95}, "stamp": STAMP})),
        read: |failed, answer| {
            let conflict = !failed && at(answer, "/status") == "conflict" && at(answer, "/stamp").is_null();
            conflict.then(|| at(answer, "/note").as_str()).flatten().map(|words| format!("conflict: {words}"))
        },
    },
    Step {
        title: "Misspell a name: what would have worked is in the answer",
        tool: "describe_peer",
        arguments: || json!({"peer": "bakry"}),
        read: |failed, answer| {
            let error = at(answer, "/error");
            let refused = failed && at(error, "/code") == "unknown_peer";
            (refused && words(at(error, "/alternatives")).contains(&"bakery"))
                .then(|| "unknown; did you mean bakery?".into())
        },
    },
];

/// Arguments for the oven.
fn oven(more: &Json) -> Json {
    let mut arguments = JsonMap::new();
    arguments.insert("peer".into(), "bakery".into());
    arguments.insert("namespace".into(), "oven".into());
    arguments.extend(more.as_object().cloned().unwrap_or_default());
    Json::Object(arguments)
}

/// Arguments that turn a switch of packaging.
pub(super) fn switch(name: &str, to: &Json) -> Json {
    json!({"peer": "packaging", "namespace": "faults", "path": name, "value": to, "verify_seconds": 5})
}

/// The words, if a switch says that it is turned.
pub(super) fn turned(failed: bool, answer: &Json, words: &str) -> Option<String> {
    (!failed && at(answer, "/confirmed") == true).then(|| words.to_owned())
}

/// Arguments for the store of work orders.
fn orders(more: &Json) -> Json {
    let mut arguments = JsonMap::new();
    arguments.insert("peer".into(), "packaging".into());
    arguments.insert("namespace".into(), "workOrders".into());
    arguments.insert("resource".into(), "orders".into());
    arguments.extend(more.as_object().cloned().unwrap_or_default());
    Json::Object(arguments)
}

fn open_orders(failed: bool, answer: &Json) -> Option<String> {
    let rows = at(answer, "/rows").as_array().filter(|rows| !failed && !rows.is_empty())?;
    let open = |row: &&Json| at(row, "/row/status") == "open";
    let line = |row: &Json| {
        Some(format!(
            "{}: {} {}",
            at(row, "/id").as_str()?,
            at(row, "/row/quantity"),
            at(row, "/row/product").as_str()?
        ))
    };
    let lines: Vec<String> = rows.iter().filter(open).filter_map(line).collect();
    (lines.len() == rows.len() && rows.iter().any(|row| at(row, "/id") == ORDER)).then(|| lines.join(", "))
}

/// What stands at a JSON Pointer; null if nothing does.
pub(super) fn at<'a>(answer: &'a Json, pointer: &str) -> &'a Json {
    answer.pointer(pointer).unwrap_or(&Json::Null)
}

fn peers(failed: bool, answer: &Json) -> Option<String> {
    // Each a name, or a record with one.
    let peers = at(answer, "/peers").as_array().filter(|_| !failed)?;
    let names: Vec<&str> =
        peers.iter().filter_map(|peer| peer.as_str().or_else(|| at(peer, "/name").as_str())).collect();
    ["bakery", "packaging"].iter().all(|name| names.contains(name)).then(|| names.join(", "))
}

fn description(failed: bool, answer: &Json) -> Option<String> {
    let namespaces = at(answer, "/namespaces").as_array().filter(|_| !failed)?;
    let oven = namespaces.iter().find(|namespace| at(namespace, "/name") == "oven")?;
    let methods = at(oven, "/methods").as_array().filter(|methods| !methods.is_empty())?;
    oven.to_string().contains("setSetpoint").then(|| format!("an oven with {} methods", methods.len()))
}

fn machines(failed: bool, answer: &Json) -> Option<String> {
    let matches = at(answer, "/matches").as_array().filter(|_| !failed)?;
    let name = |found: &Json| Some(format!("{}.{}", at(found, "/peer").as_str()?, at(found, "/namespace").as_str()?));
    let names: Vec<String> = matches.iter().filter_map(name).collect();
    ["bakery.oven", "packaging.line"]
        .iter()
        .all(|name| names.iter().any(|found| found == name))
        .then(|| names.join(", "))
}

fn state(failed: bool, answer: &Json) -> Option<String> {
    let state = at(answer, "/state");
    let live = !failed && at(answer, "/component") == "bakery.oven" && at(answer, "/status") == "live";
    let (celsius, setpoint) = (at(state, "/celsius").as_f64().filter(|_| live)?, at(state, "/setpoint").as_f64()?);
    let (mode, door) = (at(state, "/mode").as_str()?, at(state, "/door").as_str()?);
    Some(format!("{celsius} °C, set to {setpoint} °C, {mode}, door {door}"))
}

fn words(list: &Json) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).collect()
}

/// What a later step needs of an answer, and what stands for it in the arguments.
pub(super) const KEPT: [(&str, &str); 2] = [("stamp", STAMP), ("watch", WATCH)];
/// Stands for the stamp that came last.
const STAMP: &str = "(the stamp that came last)";
/// Stands for the watch that was started last.
pub(super) const WATCH: &str = "(the watch that was started)";
/// The order that is changed.
const ORDER: &str = "1003";
/// When the lot was baked.
const BAKED: &str = "2026-08-07T18:22:10.114Z";
/// Its label, three bytes of which none is text.
const LABEL: &str = "AP+A";
