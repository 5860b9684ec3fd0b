//! MCP clients of other making: the official Python client and the Inspector's command line, in every protocol era.

use serde_json::{Value, json};

use crate::support::{Bridge, PLANTBRIDGE, inspector, python_client};

const TOOLS: [&str; 6] = ["list_peers", "describe_peer", "find_capability", "call_method", "read_state", "set_state"];

/// The client checks each result against the schema its tool promised; failures have to fit as well.
fn python_makes_every_call(mode: &str, server: &Value) -> Value {
    let oven = json!({"peer": "bakery", "namespace": "oven"});
    let with = |more: Value| {
        let mut arguments = oven.clone();
        arguments.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        arguments
    };
    let calls = json!([
        {"tool": "list_peers", "args": {}},
        {"tool": "describe_peer", "args": {"peer": "bakery"}},
        {"tool": "describe_peer", "args": {"peer": "bakery", "format": "detailed"}},
        {"tool": "find_capability", "args": {"capability": "@nobody/nothing/Here"}},
        {"tool": "read_state", "args": oven},
        {"tool": "read_state", "args": with(json!({"path": "zones.top"}))},
        {"tool": "set_state", "args": with(json!({"path": "setpoint", "value": 190, "verify_seconds": 3}))},
        {"tool": "call_method", "args": {"peer": "bakery", "namespace": "msgrpc", "method": "describe"}},
        {"tool": "call_method", "args": with(json!({"method": "explode"}))},
        {"tool": "describe_peer", "args": {"peer": "nobody"}},
        {"tool": "read_state", "args": {"peer": "bakery"}},
    ]);
    let told = python_client(mode, server, &calls);
    let results = told["results"].as_array().expect("a list");
    let failures: Vec<bool> = results.iter().map(|result| result["isError"] == true).collect();
    let expected = [false, false, false, false, false, false, false, false, true, true, true];
    assert_eq!(failures, expected, "{told}");
    assert_eq!(results[6]["structuredContent"]["confirmed"], true, "{}", results[6]);
    for tool in TOOLS {
        assert!(told["tools"].as_array().expect("a list").iter().any(|found| found["name"] == tool), "no {tool}");
    }
    told
}

fn over_stdio() -> Value {
    json!([PLANTBRIDGE, "mcp", "--demo"])
}

/// Over HTTP, in every era; somebody else is attached over stdio meanwhile.
#[test]
fn the_python_client_works_over_http() {
    let (mut bridge, url) = Bridge::with_door(&[]);
    for (mode, protocol) in [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")] {
        assert_eq!(python_makes_every_call(mode, &json!(url))["protocol"], protocol);
    }
    assert!(bridge.hang_up_but_stay(), "the door outlives standard input");
    assert_eq!(python_makes_every_call("auto", &json!(url))["protocol"], "2026-07-28");
}

#[test]
fn the_python_client_works_after_initialize() {
    assert_eq!(python_makes_every_call("legacy", &over_stdio())["protocol"], "2025-11-25");
}

#[test]
fn the_python_client_finds_the_newest_revision_by_itself() {
    let told = python_makes_every_call("auto", &over_stdio());
    assert_eq!(told["protocol"], "2026-07-28");
    assert!(told["instructions"].as_str().is_some_and(|text| text.contains("list_peers")), "{told}");
}

#[test]
fn the_python_client_needs_no_handshake() {
    assert_eq!(python_makes_every_call("2026-07-28", &over_stdio())["protocol"], "2026-07-28");
}

/// `--strict` fails on a schema that some client would refuse.
#[test]
fn the_inspector_lists_and_calls_in_every_era() {
    inspects_in_every_era(&[PLANTBRIDGE, "mcp", "--demo"], &[]);
}

/// Whatever a process offers, no client is shown a schema that it would refuse, through either door.
#[test]
fn every_set_of_tools_is_portable() {
    let contracts = concat!(env!("CARGO_MANIFEST_DIR"), "/contracts");
    let (looking, stored) = (["--read-only"], ["--contracts", contracts]);
    let mut seen: Vec<Value> = Vec::new();
    for flags in [vec![], looking.to_vec(), stored.to_vec(), [&looking[..], &stored].concat()] {
        let strict =
            |server: &[&str]| inspector("auto", server, &["tools/list", "--strict"])["result"]["tools"].clone();
        let over_stdio = strict(&[&[PLANTBRIDGE, "mcp", "--demo"], &flags[..]].concat());
        let (_bridge, url) = Bridge::with_door_and(&flags, &[]);
        assert_eq!(strict(&[&url]), over_stdio, "{flags:?}");
        assert!(!seen.contains(&over_stdio), "{flags:?} changes nothing");
        seen.push(over_stdio);
    }
}

/// Over HTTP, with a token.
#[test]
fn the_inspector_comes_in_with_its_token() {
    let (_bridge, url) = Bridge::with_door(&[("PLANTBRIDGE_MCP_TOKEN", "hunter2")]);
    inspects_in_every_era(&[&url], &["--header", "Authorization: Bearer hunter2"]);
}

fn inspects_in_every_era(server: &[&str], with: &[&str]) {
    for era in ["legacy", "auto", "modern"] {
        let listed = inspector(era, server, &[&["tools/list", "--strict"], with].concat());
        let tools = listed["result"]["tools"].as_array().expect("a list");
        for name in TOOLS {
            let tool = tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{era}: no {name}"));
            assert!(tool["title"].is_string() && tool["outputSchema"].is_object(), "{era}: {tool}");
            assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{era}: {tool}");
        }
        let arguments = json!({"peer": "bakery", "namespace": "oven"}).to_string();
        let call: [&str; 5] = ["tools/call", "--tool-name", "read_state", "--tool-args-json", &arguments];
        let told = inspector(era, server, &[&call, with].concat());
        assert_eq!(told["result"]["structuredContent"]["component"], "bakery.oven", "{era}: {told}");
    }
}
