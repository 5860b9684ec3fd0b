//! What the oven inherits along its parents and its owners, over both peers, and a chain that is bent into a ring.

use serde_json::{Value as Json, json};

use super::steps::{Step, at, switch, turned};

/// The steps.
pub(super) const STEPS: [Step; 7] = [
    Step {
        title: "Which plant is the oven in? It inherits that along its parents, from the other peer",
        tool: "read_context",
        arguments: || oven("demo.site", "physical"),
        read: |failed, answer| {
            let entry = live(failed, answer, "packaging/$host")?;
            at(entry, "/value/site").as_str().map(|site| format!("{site}, says packaging/$host"))
        },
    },
    Step {
        title: "The recipe: the bakery keeps it to itself, and that looks as if nobody had one",
        tool: "read_context",
        arguments: || oven("demo.recipe", "physical"),
        read: |failed, answer| {
            let missing = !failed && at(answer, "/status") == "missing";
            missing.then(|| at(answer, "/note").as_str()).flatten().map(|note| format!("missing: {note}"))
        },
    },
    Step {
        title: "What does it work on? That comes along its owners",
        tool: "read_context",
        arguments: || oven("demo.work-order", "logical"),
        read: work_order,
    },
    Step {
        title: "Bend the chain: the work orders now serve the oven that serves them",
        tool: "set_state",
        arguments: || switch("context", &json!("ring")),
        read: |failed, answer| turned(failed, answer, "it is a ring over two peers"),
    },
    Step {
        title: "Ask again: a chain that does not hold is told, with the ring, and decides nothing",
        tool: "read_context",
        arguments: || oven("demo.work-order", "logical"),
        read: |failed, answer| {
            let ring = json!(["bakery/oven", "packaging/workOrders"]);
            let invalid = !failed && at(answer, "/status") == "invalid" && at(answer, "/invalidReason") == "cycle";
            (invalid && *at(answer, "/invalidPath") == ring).then(|| format!("invalid, a cycle: {ring}"))
        },
    },
    Step {
        title: "Make it whole",
        tool: "set_state",
        arguments: || switch("context", &json!("whole")),
        read: |failed, answer| turned(failed, answer, "it is whole"),
    },
    Step {
        title: "And ask once more",
        tool: "read_context",
        arguments: || oven("demo.work-order", "logical"),
        read: work_order,
    },
];

/// What the oven inherits.
fn oven(token: &str, axis: &str) -> Json {
    json!({"peer": "bakery", "node": "oven", "token": token, "axis": axis})
}

/// The nearest entry of a live answer, if it is of this provider.
fn live<'a>(failed: bool, answer: &'a Json, provider: &str) -> Option<&'a Json> {
    let entry = at(answer, "/entries/0");
    (!failed && at(answer, "/status") == "live" && at(entry, "/provider") == provider).then_some(entry)
}

fn work_order(failed: bool, answer: &Json) -> Option<String> {
    let entry = live(failed, answer, "packaging/workOrders")?;
    at(entry, "/value/order").as_str().map(|order| format!("order {order}"))
}
