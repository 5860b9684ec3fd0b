//! A standing watch, and an event that is lost on purpose: the verdict says which.

use serde_json::{Value as Json, json};

use super::steps::{Step, WATCH, at, switch, turned};

/// The steps.
pub(super) const STEPS: [Step; 8] = [
    Step {
        title: "Watch the label printer, beyond this call",
        tool: "start_watch",
        arguments: || json!({"peer": "packaging", "namespace": "labels", "event": "printed"}),
        read: |failed, answer| {
            let begun = !failed && at(answer, "/hint/tool") == "read_watch";
            at(answer, "/watch").as_str().filter(|_| begun).map(|watch| format!("watch {watch} is held"))
        },
    },
    Step { title: "Print a label", tool: "call_method", arguments: || print("rye"), read: printed },
    Step {
        title: "Have what the printer says be lost on the way",
        tool: "set_state",
        arguments: || switch("labelsLost", &json!(true)),
        read: |failed, answer| turned(failed, answer, "it prints, and nobody hears of it"),
    },
    Step { title: "Print another", tool: "call_method", arguments: || print("spelt"), read: printed },
    Step {
        title: "Have it be heard again",
        tool: "set_state",
        arguments: || switch("labelsLost", &json!(false)),
        read: |failed, answer| turned(failed, answer, "it is heard"),
    },
    Step { title: "And a third", tool: "call_method", arguments: || print("wheat"), read: printed },
    Step {
        title: "What was heard, and what was not?",
        tool: "read_watch",
        arguments: || json!({"watch": WATCH}),
        read: |failed, answer| {
            let detail = at(answer, "/loss_detail");
            let missed = !failed && at(detail, "/verdict") == "missed" && *at(detail, "/missing") == json!([[2, 2]]);
            missed.then(|| at(answer, "/loss").as_str()).flatten().map(str::to_owned)
        },
    },
    Step {
        title: "End the watch",
        tool: "stop_watch",
        arguments: || json!({"watch": WATCH}),
        read: |failed, answer| (!failed && at(answer, "/stopped") == true).then(|| "it is ended".into()),
    },
];

fn print(text: &str) -> Json {
    json!({"peer": "packaging", "namespace": "labels", "method": "print", "args": [text, 1]})
}

fn printed(failed: bool, answer: &Json) -> Option<String> {
    at(answer, "/result").as_i64().filter(|_| !failed).map(|labels| format!("{labels} printed so far"))
}
