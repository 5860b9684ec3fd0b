//! One state behind two doors: clients of different making, in different languages, see and change the same things.

use serde_json::{Value, json};

use crate::support::{Bridge, javascript_client, python_client, structured};

/// What each call of a script gave.
fn results(told: &Value) -> Vec<Value> {
    let results = told["results"].as_array().expect("a list");
    results
        .iter()
        .map(|result| {
            assert_ne!(result["isError"], true, "{result}");
            result["structuredContent"].clone()
        })
        .collect()
}

fn names(listed: &Value, list: &str, name: &str) -> Vec<Value> {
    listed[list].as_array().unwrap_or_else(|| panic!("{listed}")).iter().map(|entry| entry[name].clone()).collect()
}

/// A fake, a watch with its cursor and a ticket, begun over the pipes: a Python and a TypeScript client read each of them over
/// HTTP, one goes on where the other was, and what the last one ends is gone for the first.
#[test]
fn three_clients_see_one_plant() {
    let (mut stdio, url) = Bridge::with_door(&[]);
    let tool = |tool: &str, args: Value| json!({"tool": tool, "args": args});
    let labels = json!({"peer": "packaging", "namespace": "labels", "event": "printed"});
    let print = |what: &str| {
        tool("call_method", json!({"peer": "packaging", "namespace": "labels", "method": "print", "args": [what, 1]}))
    };
    let watch = structured(&stdio.call("start_watch", &labels))["watch"].clone();
    let schema = json!({"schema": 1, "version": "1", "namespaces": {"press": {"version": "1",
        "methods": {"read": {"params": [], "returns": {"kind": "number"}, "semantics": "query"}}}}});
    structured(&stdio.call("start_fake", &json!({"name": "press-1", "schema": schema})));
    let bake = json!({"peer": "bakery", "namespace": "oven", "method": "bake", "args": ["wheat"]});
    let begun = stdio.call("call_method", &bake);
    let ticket = structured(&begun)["ticket"]["id"].clone();
    assert!(watch.is_string() && ticket.is_string(), "{watch} {begun}");
    let wait = tool("read_ticket", json!({"ticket": ticket, "wait_seconds": 10}));

    let calls = json!([
        tool("list_watches", json!({})),
        tool("list_fakes", json!({})),
        print("rye"),
        tool("read_watch", json!({"watch": watch})),
        wait,
    ]);
    let python = results(&python_client("auto", &json!(url), &calls));
    assert_eq!(names(&python[0], "watches", "watch"), std::slice::from_ref(&watch));
    assert_eq!(names(&python[1], "fakes", "peer"), ["press-1"]);
    assert_eq!(names(&python[3], "records", "seq"), [1], "{}", python[3]);
    assert_eq!((&python[4]["state"], &python[4]["result"]["recipe"]), (&json!("resolved"), &json!("wheat")));

    let after = tool("read_watch", json!({"watch": watch, "after": python[3]["cursor"]}));
    let stop = [tool("stop_fake", json!({"name": "press-1"})), tool("stop_watch", json!({"watch": watch}))];
    let calls = json!([after, print("spelt"), after, wait, tool("list_fakes", json!({})), stop[0], stop[1]]);
    let script = results(&javascript_client(&url, &calls));
    assert_eq!(names(&script[0], "records", "seq"), Vec::<Value>::new(), "it was told already: {}", script[0]);
    assert_eq!(names(&script[2], "records", "seq"), [2], "{}", script[2]);
    assert_eq!(script[2]["loss_detail"]["verdict"], "gapless");
    assert_eq!(script[3]["result"], python[4]["result"]);
    assert_eq!(names(&script[4], "fakes", "peer"), ["press-1"]);

    assert_eq!(structured(&stdio.call("list_watches", &json!({})))["watches"], json!([]));
    assert_eq!(structured(&stdio.call("list_fakes", &json!({})))["fakes"], json!([]));
}
