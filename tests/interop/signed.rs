//! A signed network: the bridge and strangers that sign with the crypto of Node, over mosquitto.

use serde_json::{Value, json};

use crate::support::{Bridge, Broker, Caller, Keys, Kind, Peer, error_of, structured};

const KINDS: [Kind; 2] = [Kind::Hmac, Kind::Ed25519];

/// The bridge with its key file.
fn bridge(broker: &Broker, keys: &Keys) -> Bridge {
    // Its name is in the file.
    let mut bridge = Bridge::start(&["--broker", &broker.url(), "--sign", &keys.file("bridge-test")], &[]);
    bridge.call_once_joined("list_peers", &json!({}));
    bridge
}

fn is_told(bridge: &Bridge, what: &str) -> usize {
    bridge.stderr().lines().filter(|line| line.contains("not believed") && line.contains(what)).count()
}

/// W-091 to W-095: a stranger is called, watched and answered, with keys of either kind.
#[test]
fn w091_a_signed_stranger_is_called_and_calls() {
    for kind in KINDS {
        let broker = Broker::stock();
        let keys = Keys::of(kind, &["bridge-test", "scale-1", "hmi"]);
        let _peer = Peer::join(&broker, "scale-1", &["--sign", &keys.file("scale-1")]);
        let mut bridge = bridge(&broker, &keys);
        let sum = bridge.call_method(["scale-1", "scale", "add"], &json!([2, 40]), 5000);
        assert_eq!(structured(&sum)["result"], 42, "{kind:?}: {sum}");
        let look = json!({"peer": "scale-1", "namespace": "tank"});
        let state = bridge.call("read_state", &look);
        assert_eq!(structured(&state)["state"]["level"], 120, "{kind:?}: {state}");
        let refused = bridge.call_method(["scale-1", "scale", "fail"], &json!(["Busy"]), 5000);
        assert_eq!(error_of(&refused)["code"], "peer_busy", "{kind:?}: {refused}");
        // And the other way round, in both codecs.
        let mut caller = Caller::join(&broker.url(), "hmi", &["--sign", &keys.file("hmi")]);
        for codec in ["msgpack", "json"] {
            let answer = caller.call(codec, ["bridge-test", "msgrpc", "describe"], json!([]));
            assert_eq!(answer["value"]["name"], "bridge-test", "{kind:?}: {answer}");
        }
        assert_eq!(is_told(&bridge, ""), 0, "{}", bridge.stderr());
    }
}

/// W-094, W-095: what is bent on its way to us is met with silence, told once for each cause, and changes nothing.
#[test]
fn w094_what_is_bent_is_met_with_silence() {
    for kind in KINDS {
        let broker = Broker::stock();
        let keys = Keys::of(kind, &["bridge-test", "hmi"]);
        let mut bridge = bridge(&broker, &keys);
        let mut caller = Caller::join(&broker.url(), "hmi", &["--sign", &keys.file("hmi")]);
        let call = |bend: &str| json!({"do": "call", "peer": "bridge-test", "path": "msgrpc", "method": "describe", "ttl": 400, "bend": bend});
        let bends = ["unsigned", "unsigned", "stale", "future", "truncated", "re-signed", "re-addressed", "redirected"];
        for bend in bends {
            let answer = caller.do_it(call(bend));
            assert_eq!(answer["kind"], "silence", "{kind:?} {bend}: {answer}");
        }
        // Of one that comes twice the first is answered, and nothing else comes.
        assert_eq!(caller.do_it(call("replayed"))["kind"], "result");
        assert_eq!(caller.do_it(call("none"))["kind"], "result");
        let strays = caller.child().heard(|line| line.get("stray").cloned());
        assert!(strays.is_empty(), "{strays:?}");
        assert!(bridge.hang_up().success());
        for cause in ["(unsigned)", "(stale)", "(from the future)", "(wrong signature)", "(replayed)"] {
            assert_eq!(is_told(&bridge, cause), 1, "{kind:?} {cause}: {}", bridge.stderr());
        }
        for count in ["2 unsigned", "1 stale", "1 from the future", "1 replayed", "4 wrong signature"] {
            assert!(bridge.stderr().contains(count), "{kind:?} {count}: {}", bridge.stderr());
        }
        for secret in keys.secrets() {
            assert!(!bridge.stderr().contains(&secret));
        }
    }
}

/// W-095: a peer that does not sign is called, and its answer does not count: what became of the command is unknown. The same
/// of one whose key is not listed.
#[test]
fn w095_answers_nobody_vouches_for_do_not_count() {
    let broker = Broker::stock();
    let mut keys = Keys::of(Kind::Ed25519, &["bridge-test", "scale-2"]);
    keys.believe("bridge-test", &[]);
    let mut plain = Peer::join(&broker, "scale-1", &["--no-introspection"]);
    let mut unlisted = Peer::join(&broker, "scale-2", &["--no-introspection", "--sign", &keys.file("scale-2")]);
    let mut bridge = bridge(&broker, &keys);
    for (peer, name, cause) in [(&mut plain, "scale-1", "(unsigned)"), (&mut unlisted, "scale-2", "(unknown sender)")] {
        let result = bridge.call_method([name, "scale", "tare"], &json!([]), 1500);
        let error = error_of(&result);
        assert_eq!((&error["code"], &error["outcome"]), (&json!("unknown_outcome"), &json!("unknown")), "{error}");
        peer.ran("tare");
        assert_eq!(is_told(&bridge, cause), 1, "{}", bridge.stderr());
    }
}

/// A bridge that does not sign is not heard on a signed network, and says what can be concluded: nothing.
#[test]
fn w095_without_a_key_nobody_listens() {
    let broker = Broker::stock();
    let keys = Keys::of(Kind::Hmac, &["bridge-test", "scale-1"]);
    let options = ["--no-introspection", "--sign", &keys.file("scale-1")];
    let mut peer = Peer::join(&broker, "scale-1", &options);
    let mut bridge = Bridge::join(&broker);
    let result = bridge.call_method(["scale-1", "scale", "tare"], &json!([]), 1500);
    assert_eq!(error_of(&result)["outcome"], "unknown", "{result}");
    peer.0.wait_for("refusal", |line: &Value| (line["refused"] == "unsigned").then_some(()));
    assert_eq!(peer.runs("tare"), 0);
}

/// A signed bridge without listed peers takes what comes, as the reference does.
#[test]
fn w095_without_listed_peers_everybody_is_taken() {
    let broker = Broker::stock();
    let keys = Keys::of(Kind::Hmac, &["bridge-test", "scale-1"]);
    let _plain = Peer::join(&broker, "scale-2", &[]);
    let _signed = Peer::join(&broker, "scale-1", &["--sign", &keys.file("scale-1")]);
    let text = std::fs::read_to_string(keys.path("bridge-test")).expect("it was made");
    let mut file: Value = serde_json::from_str(&text).expect("it is JSON");
    file.as_object_mut().expect("it is an object").remove("peers");
    std::fs::write(keys.path("bridge-test"), file.to_string()).expect("it can be written");
    let mut bridge = bridge(&broker, &keys);
    for name in ["scale-1", "scale-2"] {
        let sum = bridge.call_method([name, "scale", "add"], &json!([1, 2]), 5000);
        assert_eq!(structured(&sum)["result"], 3, "{sum}");
    }
}

/// F-33: a fake on a signed network signs as itself. A stranger that lists its key is answered; one that does not drops what
/// it says, which the start said; one that the bridge does not list is not heard. No secret is in a result.
#[test]
fn f33_a_fake_signs_as_itself_and_is_believed_by_whoever_lists_it() {
    for kind in KINDS {
        let broker = Broker::stock();
        let mut keys = Keys::of(kind, &["bridge-test", "hmi", "nobody"]);
        keys.believe("bridge-test", &["hmi"]);
        let mut bridge = bridge(&broker, &keys);
        let number = json!({"kind": "number", "min": 0, "max": 200});
        let methods = json!({"read": {"params": [], "returns": number, "semantics": "query"}});
        let schema =
            json!({"schema": 1, "version": "1", "namespaces": {"boiler": {"version": "4", "methods": methods}}});
        let started = bridge.call("start_fake", &json!({"name": "double", "schema": schema}));
        let listed = bridge.call("list_fakes", &json!({}));
        let (told, line) = (structured(&started), &structured(&listed)["fakes"][0]);
        assert_eq!(told["key"], line["key"]);
        let entry = keys.of_fake("bridge-test", "double");
        if kind == Kind::Hmac {
            let secret = entry["double"].as_str().expect("a secret");
            assert!(!format!("{started}{listed}").contains(secret), "a secret is in a result");
            assert_eq!(told["key"], json!({"algorithm": "HMAC-SHA256"}));
            assert!(told["warnings"].to_string().contains("keygen --for-fake"), "{told}");
        } else {
            assert_eq!(told["key"], json!({"algorithm": "Ed25519", "public": entry["double"]["public"]}));
            assert!(told["warnings"][0].as_str().is_some_and(|said| said.contains(&entry.to_string())), "{told}");
        }
        let read = |ttl: u32| json!({"do": "call", "peer": "double", "path": "boiler", "method": "read", "args": [], "ttl": ttl});
        let mut caller = Caller::join(&broker.url(), "hmi", &["--sign", &keys.file("hmi")]);
        assert_eq!(caller.do_it(read(500))["kind"], "silence", "{kind:?}: nobody vouches for the answer");
        drop(caller);
        keys.list("hmi", &entry);
        keys.list("nobody", &entry);
        let mut caller = Caller::join(&broker.url(), "hmi", &["--sign", &keys.file("hmi")]);
        assert_eq!(caller.do_it(read(5000))["value"], 100, "{kind:?}");
        let mut nobody = Caller::join(&broker.url(), "nobody", &["--sign", &keys.file("nobody")]);
        assert_eq!(nobody.do_it(read(500))["kind"], "silence", "{kind:?}: the bridge does not list it");
        // The bridge, which takes signed frames only, reaches it inside.
        let own = bridge.call_method(["double", "boiler", "read"], &json!([]), 5000);
        assert_eq!(structured(&own)["result"], 100, "{kind:?}: {own}");
    }
}
