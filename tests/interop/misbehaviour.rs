//! Responders that break the rules: every way of breaking them has one right outcome, and the bridge lives on.

use serde_json::json;

use crate::support::{Bridge, Broker, Peer, error_of, structured};

/// How long a call waits that is never answered as it should be.
const SHORT: u64 = 400;

/// W-071: only the peer that was called can say a result; what names another source is no answer.
#[test]
fn w071_a_result_of_another_source_is_no_answer() {
    no_answer_comes("--wrong-source");
}

#[test]
fn an_answer_to_an_unknown_correlation_is_no_answer() {
    no_answer_comes("--other-correlation");
}

#[test]
fn silence_is_no_answer() {
    no_answer_comes("--silent");
}

/// A query that is not answered failed; a command that is not answered is in doubt, and is not sent again.
fn no_answer_comes(option: &str) {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[option]);
    let mut bridge = Bridge::join(&broker);
    let result = bridge.call_method(["scale-1", "scale", "read"], &json!([]), SHORT);
    let error = error_of(&result);
    assert_eq!((&error["code"], &error["retryable"]), (&json!("deadline_exceeded"), &json!(true)), "{error}");
    peer.ran("read");
    let result = bridge.call_method(["scale-1", "scale", "tare"], &json!([]), SHORT);
    let error = error_of(&result);
    assert_eq!(error["code"], "unknown_outcome", "{error}");
    assert_eq!((&error["outcome"], &error["retryable"]), (&json!("unknown"), &json!(false)), "{error}");
    peer.ran("tare");
    // A state read goes over another namespace, where this peer is honest.
    structured(&bridge.call("read_state", &json!({"peer": "scale-1", "namespace": "tank"})));
    assert_eq!(peer.runs("tare") + peer.runs("read"), 0, "it was sent again");
}

/// W-071: an error may come from a relay, so its source does not matter.
#[test]
fn w071_an_error_counts_whoever_says_it() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &["--wrong-source"]);
    let mut bridge = Bridge::join(&broker);
    let result = bridge.call_method(["scale-1", "scale", "fail"], &json!(["TransportError"]), 5000);
    assert_eq!(error_of(&result)["peer_error"]["code"], "TransportError");
}

#[test]
fn of_two_answers_the_first_counts() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &["--double-reply"]);
    let mut bridge = Bridge::join(&broker);
    for (method, args, value) in [("tare", json!([]), json!("tared")), ("add", json!([1, 2]), json!(3))] {
        let result = bridge.call_method(["scale-1", "scale", method], &args, 5000);
        assert_eq!(structured(&result)["result"], value);
    }
    peer.ran("tare");
    assert_eq!(peer.runs("tare"), 0);
}

/// W-060 seen from the caller: an answer that comes too late answers nothing else.
#[test]
fn a_late_answer_is_not_taken_for_the_next_one() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &["--late-reply"]);
    let mut bridge = Bridge::join(&broker);
    let result = bridge.call_method(["scale-1", "scale", "tare"], &json!([]), SHORT);
    assert_eq!(error_of(&result)["outcome"], "unknown");
    let result = bridge.call_method(["scale-1", "scale", "add"], &json!([1, 2]), 5000);
    assert_eq!(structured(&result)["result"], 3);
    peer.ran("tare");
    assert_eq!(peer.runs("tare"), 0);
}
