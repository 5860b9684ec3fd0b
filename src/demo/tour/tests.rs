//! That each step takes the answer it must get, and no other.

use serde_json::json;

use super::*;

/// What the tools say when all is well, step by step, reduced to what is looked at and a little more.
fn good() -> Vec<(bool, Json)> {
    let lot = json!({
        "baked": {"$date": "2026-08-07T18:22:10.114Z"},
        "bestBefore": {"$date": "2026-08-10T18:22:10.114Z"},
        "label": {"$bytes": "AP+A"},
    });
    let state = json!({"celsius": 20, "setpoint": 180, "mode": "idle", "door": "closed"});
    let machine = |peer: &str, namespace: &str| json!({"peer": peer, "namespace": namespace, "capabilities": []});
    let ring = json!(["bakery/oven", "packaging/workOrders"]);
    let interlock = json!({"code": "Forbidden", "message": "the door is open"});
    vec![
        (false, json!({"peers": ["bakery", "packaging"]})),
        (false, json!({"namespaces": [{"name": "oven", "methods": ["setSetpoint(celsius: number)"]}]})),
        (false, json!({"matches": [machine("bakery", "oven"), machine("packaging", "line")]})),
        (false, json!({"component": "bakery.oven", "status": "live", "state": state})),
        (false, json!({"called": "oven.setSetpoint", "returned": 190, "confirmed": true})),
        (false, json!({"called": "oven.setTopSetpoint", "returned": 280.0, "confirmed": false})),
        (false, json!({"result": "open"})),
        (true, json!({"error": {"code": "peer_refused", "peer_error": interlock}})),
        (false, json!({"result": "closed"})),
        (false, json!({"result": "heating"})),
        (true, json!({"error": {"code": "invalid_params", "outcome": "not_run", "message": "expected number"}})),
        (false, json!({"result": lot})),
        (false, json!({"result": {"loaf": 1, "recipe": "wheat"}, "ticket": {"state": "resolved", "progress": 100}})),
        (true, json!({"error": {"code": "not_in_control", "outcome": "not_run", "fix": "take_control {}"}})),
        (false, json!({"controlled": "bakery.oven", "holder": "bridge"})),
        (false, json!({"result": 0.5})),
        (false, json!({"component": "bakery.oven", "released": true})),
        (false, json!({"result": null, "checked": false})),
        (false, json!({"rows": [{"id": "1003", "row": {"product": "wheat", "quantity": 80, "status": "open"}}]})),
        (false, json!({"status": "ok", "row": {"product": "wheat", "quantity": 80}, "stamp": "s"})),
        (false, json!({"verb": "update", "status": "ok", "stamp": "t"})),
        (false, json!({"result": "started"})),
        (false, json!({"verb": "update", "status": "conflict", "note": "nothing was written"})),
        (true, json!({"error": {"code": "unknown_peer", "alternatives": ["bakery"]}})),
        (false, inherited("packaging/$host", &json!({"site": "Plant 7"}))),
        (false, json!({"status": "missing", "note": "it may be kept local"})),
        (false, inherited("packaging/workOrders", &json!({"order": "1003"}))),
        (false, json!({"confirmed": true})),
        (false, json!({"status": "invalid", "invalidReason": "cycle", "invalidPath": ring})),
        (false, json!({"confirmed": true})),
        (false, inherited("packaging/workOrders", &json!({"order": "1003"}))),
        (false, json!({"watch": "w-1", "hint": {"tool": "read_watch"}})),
        (false, json!({"result": 1})),
        (false, json!({"confirmed": true})),
        (false, json!({"result": 2})),
        (false, json!({"confirmed": true})),
        (false, json!({"result": 3})),
        (false, json!({"loss": "missed 1 - so", "loss_detail": {"verdict": "missed", "missing": [[2, 2]]}})),
        (false, json!({"stopped": true, "watch": "w-1"})),
    ]
}

fn inherited(provider: &str, value: &Json) -> Json {
    json!({"status": "live", "entries": [{"provider": provider, "value": value}]})
}

#[test]
fn every_step_takes_the_answer_it_must_get_and_no_other() {
    let (good, steps) = (good(), steps());
    assert_eq!(good.len(), steps.len());
    for (at, (step, (failed, answer))) in steps.iter().zip(&good).enumerate() {
        let words = (step.read)(*failed, answer);
        assert!(words.is_some_and(|words| !words.is_empty()), "step {}: {answer}", at + 1);
        assert_eq!((step.read)(!failed, answer), None, "step {}: a failure is no success, nor the reverse", at + 1);
        for (other, (failed, answer)) in good.iter().enumerate().filter(|(other, _)| *other != at) {
            // Two steps may well take the same answer; none takes one to another question.
            if step.tool != steps[other].tool {
                assert_eq!((step.read)(*failed, answer), None, "step {}: {answer}", at + 1);
            }
        }
        assert_eq!((step.read)(*failed, &json!({})), None, "step {}: nothing is no answer", at + 1);
    }
}

#[test]
fn an_integer_maximum_counts_as_the_maximum() {
    let steps = steps();
    let clamped = steps.iter().find(|step| step.title.contains("9000")).unwrap();
    assert!((clamped.read)(false, &json!({"returned": 280, "confirmed": false})).is_some());
    assert!((clamped.read)(false, &json!({"returned": 9000, "confirmed": false})).is_none());
}
