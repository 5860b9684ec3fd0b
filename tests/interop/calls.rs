//! Our tools against a responder of other making.

use serde_json::{Value, json};

use crate::support::{Bridge, Broker, BrokerOptions, Peer, call_arguments, error_of, structured};

/// What `scale.method` of `peer` returned through `call_method`.
fn returned(bridge: &mut Bridge, target: [&str; 3], args: Value) -> Value {
    structured(&bridge.call_method(target, &args, 5000))["result"].clone()
}

/// W-055: a reply is read by its own content type, whatever the request was written in.
#[test]
fn w055_answers_arrive_in_either_codec() {
    let broker = Broker::stock();
    let _native = Peer::join(&broker, "native", &[]);
    let _textual = Peer::join(&broker, "textual", &["--json"]);
    let mut bridge = Bridge::join(&broker);
    for peer in ["native", "textual"] {
        assert_eq!(returned(&mut bridge, [peer, "scale", "add"], json!([2, 40])), 42);
        assert_eq!(returned(&mut bridge, [peer, "scale", "void"], json!([])), Value::Null);
        let text = json!({"text": "Ugn 3 – åäö", "list": [1, 2.5, null, true]});
        assert_eq!(returned(&mut bridge, [peer, "scale", "echo"], json!([text])), text);
    }
    let at = json!("2026-07-27T21:30:32.623Z");
    assert_eq!(returned(&mut bridge, ["native", "scale", "read"], json!([]))["at"], json!({"$date": at}));
    assert_eq!(returned(&mut bridge, ["textual", "scale", "read"], json!([]))["at"], at);
}

/// Results.md 1: what JSON lacks travels tagged, both ways.
#[test]
fn dates_and_bytes_make_the_round_trip() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    for value in [
        json!({"$date": "2026-08-07T18:22:10.114Z"}),
        json!({"$date": "1969-12-31T23:59:59.999Z"}),
        json!({"$bytes": "AAH/"}),
        json!({"deep": [{"$bytes": ""}, {"$date": "2026-08-07T18:22:10.000Z"}]}),
    ] {
        assert_eq!(returned(&mut bridge, ["scale-1", "scale", "echo"], json!([value])), value);
        assert_eq!(peer.ran("echo")["args"], json!([value]), "what the peer was given");
    }
}

/// W-050, W-053, W-065 and the rest of a request as the other side sees it.
#[test]
fn a_request_arrives_as_the_wire_says() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let mut arguments = call_arguments(["scale-1", "scale", "tare"], &json!([]), 2500);
    arguments["idempotency_key"] = json!("order-7");
    let result = bridge.call("call_method", &arguments);
    let told = structured(&result);
    assert_eq!(told["result"], "tared");
    assert_eq!(told["semantics"], "non-repeatable-command");
    assert_eq!(told["effect"], "operate");
    assert!(told["ms"].is_number(), "{told}");
    let ran = peer.ran("tare");
    assert_eq!(ran["source"], "bridge-test");
    assert_eq!(ran["codec"], "application/msgpack");
    assert_eq!(ran["idem"], "order-7");
    assert_eq!(ran["ttl"], 2500);
    assert_eq!(ran["expiry"], 3);
}

#[test]
fn arguments_can_be_named() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let named = json!({"peer": "scale-1", "namespace": "scale", "method": "add", "named_args": {"b": 1, "a": 2}});
    assert_eq!(structured(&bridge.call("call_method", &named))["result"], 3);
}

/// Results.md 2: how a peer's own errors are told, an unknown code included (W-074).
#[test]
fn w074_a_refusal_keeps_its_code() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let cases = [
        ("Busy", "peer_busy"),
        ("Superseded", "superseded"),
        ("NotInControl", "not_in_control"),
        ("OwnershipChanged", "ownership_changed"),
        ("UnknownOutcome", "unknown_outcome"),
        ("InvalidParams", "peer_refused"),
        ("Timeout", "peer_refused"),
        ("Exception", "peer_refused"),
        ("SomethingNew", "peer_refused"),
    ];
    for (theirs, ours) in cases {
        let result = bridge.call_method(["scale-1", "scale", "fail"], &json!([theirs]), 5000);
        let error = error_of(&result);
        assert_eq!(error["code"], ours, "{theirs}: {error}");
        assert_eq!(error["peer_error"]["code"], theirs, "{error}");
        assert_eq!(error["peer_error"]["message"], format!("asked to fail with {theirs}"));
    }
}

/// What the contract forbids is refused here, and the peer never hears of it.
#[test]
fn a_wrong_argument_never_leaves() {
    let broker = Broker::stock();
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    for (args, named) in [(json!(["one", 2]), "type"), (json!([1]), "too few"), (json!([1, 2, 3]), "too many")] {
        let result = bridge.call_method(["scale-1", "scale", "add"], &args, 5000);
        let error = error_of(&result);
        assert_eq!(
            (&error["code"], &error["outcome"]),
            (&json!("invalid_params"), &json!("not_run")),
            "{named}: {error}"
        );
    }
    let result = bridge.call_method(["scale-1", "scale", "weigh"], &json!([]), 5000);
    assert_eq!(error_of(&result)["code"], "unknown_method");
    let result = bridge.call_method(["scale-1", "scales", "read"], &json!([]), 5000);
    assert_eq!(error_of(&result)["code"], "unknown_namespace");
    let result = bridge.call_method(["scale-2", "scale", "read"], &json!([]), 5000);
    let error = error_of(&result);
    assert_eq!(error["code"], "unknown_peer");
    assert!(error["alternatives"].to_string().contains("scale-1"), "{error}");
    // The peer runs requests in order, so a run before this one would have been noted before it.
    bridge.call_method(["scale-1", "scale", "tare"], &json!([]), 5000);
    peer.ran("tare");
    assert_eq!(peer.runs("add") + peer.runs("weigh"), 0);
}

/// Design 6: the usual device in the field publishes no introspection, and is still a peer.
#[test]
fn a_minimal_device_is_called_unchecked() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "device", &["--no-introspection"]);
    let mut bridge = Bridge::join(&broker);
    let result = bridge.call_method(["device", "scale", "add"], &json!([2, 3]), 5000);
    let told = structured(&result);
    assert_eq!((&told["result"], &told["checked"]), (&json!(5), &json!(false)), "{told}");
    let result = bridge.call_method(["device", "scale", "weigh"], &json!([]), 5000);
    assert_eq!(error_of(&result)["peer_error"]["code"], "MethodNotFound");
    let result = bridge.call_method(["device", "nowhere", "read"], &json!([]), 5000);
    assert_eq!(error_of(&result)["peer_error"]["code"], "ClassNotFound");
    let result = bridge.call("describe_peer", &json!({"peer": "device"}));
    assert_eq!(error_of(&result)["code"], "peer_undescribed");
}

#[test]
fn a_description_and_its_capabilities_are_read() {
    let broker = Broker::stock();
    let _peer = Peer::join(&broker, "scale-1", &[]);
    let _other = Peer::join(&broker, "device", &["--no-introspection"]);
    let mut bridge = Bridge::join(&broker);
    let result = bridge.call("describe_peer", &json!({"peer": "scale-1"}));
    let told = structured(&result);
    assert_eq!(told["name"], "scale-1", "{told}");
    for word in ["scale", "tank", "setSetpoint", "weight"] {
        assert!(told.to_string().contains(word), "{word} is missing: {told}");
    }
    let wanted = "@plantbridge/interop/Scale";
    let result = bridge.call("find_capability", &json!({"capability": wanted}));
    let matches = structured(&result)["matches"].as_array().cloned().unwrap_or_default();
    assert_eq!(matches.len(), 1, "{result}");
    assert_eq!((&matches[0]["peer"], &matches[0]["namespace"]), (&json!("scale-1"), &json!("scale")));
    let result = bridge.call("find_capability", &json!({"capability": "Scale"}));
    assert_eq!(structured(&result)["matches"], json!([]), "an imagined capability is an answer");
}

/// Design 4: an oversized publish would end the connection and all that runs over it.
#[test]
fn a_call_too_large_for_the_broker_is_refused_and_the_link_lives() {
    let broker = Broker::start(&BrokerOptions { max_packet_size: Some(16_384), ..BrokerOptions::default() });
    let mut peer = Peer::join(&broker, "scale-1", &[]);
    let mut bridge = Bridge::join(&broker);
    let result = bridge.call_method(["scale-1", "scale", "hold"], &json!(["x".repeat(20_000)]), 5000);
    let error = error_of(&result);
    assert_eq!(error["outcome"], "not_run", "{error}");
    assert_eq!(returned(&mut bridge, ["scale-1", "scale", "add"], json!([1, 2])), 3);
    peer.ran("add");
    assert_eq!(peer.runs("hold"), 0);
}
