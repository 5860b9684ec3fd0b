//! What a hub of other making does to frames and peers on the way, point by point: batches, hops, its own errors, its list
//! after a reconnect, its bound, its heartbeat, the older layout, frames as JSON, names, and what it mirrors.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Bridge, Caller, Hub, PATIENCE, Peer, call_arguments, error_of, structured};

const NAME: &str = "bridge-test";

/// A hub with these options, `scale-1` behind it, and a bridge that sees it.
fn scene(options: &[&str]) -> (Hub, Peer, Bridge) {
    let hub = Hub::start(options);
    let peer = Peer::join_at(&hub.url, "scale-1", &[]);
    let mut bridge = Bridge::start(&["--hub", &hub.url, "--name", NAME], &[]);
    bridge.call_once_joined("describe_peer", &json!({"peer": "scale-1"}));
    (hub, peer, bridge)
}

fn adds(bridge: &mut Bridge) {
    let call = call_arguments(["scale-1", "scale", "add"], &json!([2, 40]), 5_000);
    let result = bridge.call_once_joined("call_method", &call);
    assert_eq!(structured(&result)["result"], 42, "{result}");
}

fn describe(caller: &mut Caller, user: &Value) -> Value {
    caller.do_it(json!({"do": "call", "peer": NAME, "path": "msgrpc", "method": "describe", "user": user}))
}

/// Calls again and again until its error is as wanted.
fn refused(bridge: &mut Bridge, tool: &str, arguments: &Value, wanted: impl Fn(&Value) -> bool) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let result = bridge.call(tool, arguments);
        let error = &result["structuredContent"]["error"];
        if wanted(error) {
            return error.clone();
        }
        assert!(Instant::now() < until, "{result}\n{}", bridge.stderr());
    }
}

/// W-100: each member of a batch is answered by itself, the one that cannot be run too.
#[test]
fn w100_a_batch_is_answered_member_by_member() {
    let (hub, _peer, _bridge) = scene(&[]);
    let mut caller = Caller::join(&hub.url, "hmi", &[]);
    let member = |id: u64, method: &str| json!({"id": id, "path": "msgrpc", "method": method});
    let calls = json!([member(901, "describe"), member(902, "nonesuch"), member(903, "describe")]);
    let sent = caller.ask(json!({"do": "batch", "peer": NAME, "calls": calls}));
    assert!(sent > 0);
    for (id, kind) in [(901, "result"), (902, "error"), (903, "result")] {
        let answer = caller.answer(id);
        assert_eq!(answer["kind"], kind, "{answer}");
    }
}

/// wire.md 10.6: how often a frame was passed on is no business of ours; over eight the hub answers for us.
#[test]
fn frames_that_came_a_long_way_are_answered() {
    let (mut hub, _peer, _bridge) = scene(&["--tell"]);
    let mut caller = Caller::join(&hub.url, "hmi", &[]);
    assert_eq!(describe(&mut caller, &json!({"hops": 7}))["kind"], "result");
    hub.child.wait_for("the eighth relay", |line| (line["to"] == NAME && line["hops"] == 8).then_some(()));
    let answer = describe(&mut caller, &json!({"hops": 8}));
    assert_eq!((&answer["code"], &answer["source"]), (&json!("TransportError"), &json!("bus-1")), "{answer}");
}

/// W-071: the hub answers for a peer that is not there, and nothing ran; the answer of a stranger is none.
#[test]
fn w071_the_hub_answers_for_who_is_not_there() {
    let (mut hub, _peer, mut bridge) = scene(&[]);
    hub.wish(&json!({"do": "ghost", "name": "ghost-1", "state": "online"}));
    let call = call_arguments(["ghost-1", "scale", "tare"], &json!([]), 5_000);
    let result = bridge.call_once_joined("call_method", &call);
    let error = error_of(&result);
    assert_eq!(error["outcome"], "not_run", "{error}");
    assert!(error.to_string().contains("no route to 'ghost-1'"), "{error}");
}

/// W-080 and wire.md 10.8: after a reconnect the hub's list is the whole truth, and what was listened to is asked for again.
#[test]
fn w080_after_a_reconnect_the_list_is_new_and_watches_go_on() {
    let (mut hub, mut peer, mut bridge) = scene(&[]);
    let stream = json!({"peer": "scale-1", "namespace": "scale", "event": "weight"});
    let told = bridge.call("start_watch", &stream);
    let watch =
        structured(&told)["watch"]["id"].as_str().or(structured(&told)["watch"].as_str()).expect("an id").to_owned();
    let subscribed = |line: &Value| (line["subscribed"] == NAME && line["event"] == "weight").then_some(());
    peer.0.wait_for("subscription", subscribed);
    hub.wish(&json!({"do": "ghost", "name": "ghost-1", "state": "online"}));
    let until = Instant::now() + PATIENCE;
    while !structured(&bridge.call("list_peers", &json!({})))["peers"].to_string().contains("ghost-1") {
        assert!(Instant::now() < until, "the ghost is not seen");
    }
    hub.announced(NAME);
    hub.wish(&json!({"do": "cut", "name": NAME}));
    hub.announced(NAME);
    peer.0.wait_for("subscription again", subscribed);
    let told = bridge.call_once_joined("list_peers", &json!({}));
    assert_eq!(structured(&told)["peers"], json!(["bus-1", "scale-1"]), "{told}");
    peer.wish(&json!({"do": "emit", "n": 2}));
    let until = Instant::now() + PATIENCE;
    loop {
        let read = bridge.call("read_watch", &json!({"watch": watch}));
        if structured(&read).to_string().contains("[20,\"g\"]") {
            break;
        }
        assert!(Instant::now() < until, "{read}");
    }
}

/// W-110: what is too large for the hub is refused here, before a byte of it left, and the connection lives.
#[test]
fn w110_what_is_too_large_for_the_hub_is_not_sent() {
    let (mut hub, mut peer, mut bridge) = scene(&[]);
    let large = json!([vec!["x".repeat(60_000); 20]]);
    let error = error_of(&bridge.call_method(["scale-1", "scale", "echo"], &large, 5_000)).clone();
    assert_eq!(error["outcome"], "not_run", "{error}");
    assert!(error.to_string().contains("1000000"), "{error}");
    adds(&mut bridge);
    assert_eq!(peer.runs("echo"), 0);
    assert!(hub.child.heard(|line| (line["gone"] == NAME).then_some(())).is_empty(), "the hub threw us out");
}

/// W-104: the hub's pings are answered; it would end the connection otherwise, and we would come a second time.
#[test]
fn w104_the_heartbeat_goes_on() {
    let (mut hub, _peer, mut bridge) = scene(&["--ping", "150"]);
    hub.announced(NAME);
    for _ in 0..10 {
        hub.child.wait_for("an answer to a ping", |line| (line["pong"] == NAME).then_some(()));
    }
    adds(&mut bridge);
    let again = hub.child.heard(|line| (line["gone"] == NAME || line["announced"] == NAME).then(|| line.clone()));
    assert!(again.is_empty(), "{again:?}");
}

/// W-104, the other way round: a hub that stands still is noticed, said to be silent, and come back to.
#[test]
fn w104_a_hub_that_falls_silent_is_left() {
    let (hub, _peer, mut bridge) = scene(&["--ping", "150"]);
    hub.child.signal("-STOP");
    let error = refused(&mut bridge, "list_peers", &json!({}), |error| error["code"] == "network_unavailable");
    assert!(error.to_string().contains("silent"), "{error}");
    hub.child.signal("-CONT");
    adds(&mut bridge);
}

/// W-130: a frame of the older layout runs nothing and ends nothing; that it came is in the log.
#[test]
fn w130_the_older_layout_is_recognised_and_ignored() {
    let mut hub = Hub::start(&[]);
    let _peer = Peer::join_at(&hub.url, "scale-1", &[]);
    let arguments = ["--hub", &hub.url, "--name", NAME];
    let mut bridge = Bridge::start(&arguments, &[("RUST_LOG", "plantbridge=debug")]);
    adds(&mut bridge);
    for _ in 0..3 {
        hub.wish(&json!({"do": "legacy", "name": NAME}));
    }
    // It comes after them over the same connection.
    let mut caller = Caller::join(&hub.url, "hmi", &[]);
    assert_eq!(describe(&mut caller, &json!({}))["kind"], "result");
    adds(&mut bridge);
    bridge.hang_up();
    let log = bridge.stderr();
    assert!(log.contains("older layout from \"veteran\""), "{log}");
    assert!(log.lines().any(|line| line.contains("older layout were ignored") && line.contains("count=3")), "{log}");
}

/// wire.md 10.2: a network that writes frames as JSON is read, and an answer goes out as its request came in.
#[test]
fn frames_are_read_and_answered_in_both_forms() {
    for (options, codec) in [(&["--tell", "--json"][..], "json"), (&["--tell"][..], "msgpack")] {
        let (mut hub, _peer, mut bridge) = scene(options);
        adds(&mut bridge);
        let mut caller = Caller::join(&hub.url, "hmi", &[]);
        assert_eq!(describe(&mut caller, &json!({}))["kind"], "result");
        let answered = |line: &Value| {
            (line["relayed"] == "result" && line["from"] == NAME && line["to"] == "hmi").then(|| line["codec"].clone())
        };
        assert_eq!(hub.child.wait_for("the answer of the bridge", answered), codec);
    }
}

/// wire.md 10.5: a shape that changes is told, and what was remembered of the peer is asked for anew.
#[test]
fn a_changed_shape_is_told_over_a_hub() {
    let (_hub, mut peer, mut bridge) = scene(&[]);
    let shape = |bridge: &mut Bridge| {
        structured(&bridge.call("list_peers", &json!({"prefix": "scale"})))["details"][0]["shape"].clone()
    };
    assert_eq!(shape(&mut bridge), "0123456789abcdef");
    peer.wish(&json!({"do": "shape", "shape": "00000000000000aa"}));
    let until = Instant::now() + PATIENCE;
    while shape(&mut bridge) != "00000000000000aa" {
        assert!(Instant::now() < until, "it is not told");
    }
}

/// wire.md 11.2, W-121: what a hub of other making mirrors between two strangers is shown, with its answers, and its tap is
/// given back.
#[test]
fn w121_what_a_hub_of_other_making_mirrors_is_shown() {
    let (mut hub, _peer, mut bridge) = scene(&["--bus"]);
    let mut caller = Caller::join(&hub.url, "hmi", &[]);
    // His coming may be told after the watch has begun.
    let watch = bridge.begin(
        "watch_traffic",
        &json!({"seconds": 30, "peer": "hmi", "max_frames": 2, "payloads": true, "kinds": ["POST", "SUCCESS"]}),
    );
    hub.child.wait_for("a tap", |line| (line["tapped"] == 1).then_some(()));
    let answer = caller.call("msgpack", ["scale-1", "scale", "add"], json!([2, 40]));
    assert_eq!(answer["value"], 42, "{answer}");
    let told = bridge.finish(watch);
    let told = structured(&told);
    let links = json!([{"link": "hub", "sees": "relayed", "by": "bus-1"}]);
    assert_eq!((&told["links"], &told["sources"]), (&links, &json!(["this process", "bus-1"])), "{told}");
    let (asked, answered) = (&told["frames"][0], &told["frames"][1]);
    assert_eq!(
        (&asked["source"], &asked["method"], &asked["params"]),
        (&json!("hmi"), &json!("add"), &json!([2, 40])),
        "{told}"
    );
    assert_eq!(
        (&answered["kind"], &answered["result"], &answered["link"]),
        (&json!("SUCCESS"), &json!(42), &json!("hub")),
        "{told}"
    );
    assert_eq!(told["counts"]["pairs"], 1, "{told}");
    hub.child.wait_for("the end of the tap", |line| (line["tapped"] == 0).then_some(()));
}

/// Without `bus` only who comes and goes is seen, and the result says so.
#[test]
fn a_hub_that_mirrors_nothing_is_said_to() {
    let (_hub, _peer, mut bridge) = scene(&[]);
    let told = bridge.call("watch_traffic", &json!({"seconds": 1}));
    let told = structured(&told);
    assert_eq!(told["links"][0]["sees"], "presence", "{told}");
    assert!(told["links"][0]["why"].as_str().is_some_and(|why| why.contains("`bus`")), "{told}");
}

/// Invariant 7: a chosen name that somebody has on the hub is not joined under; he is not disturbed, and when he has gone we
/// come.
#[test]
fn a_name_on_a_hub_is_left_to_who_has_it() {
    let (mut hub, mut peer, _bridge) = scene(&[]);
    let mut second = Bridge::start(&["--hub", &hub.url, "--name", "scale-1"], &[]);
    let error = refused(&mut second, "list_peers", &json!({}), |error| error["links"][0]["kind"] == "name_taken");
    assert!(error["fix"].as_str().is_some_and(|fix| fix.contains("--name")), "{error}");
    hub.announced("scale-1");
    let again = hub.child.heard(|line| (line["announced"] == "scale-1").then_some(()));
    assert!(again.is_empty(), "somebody else announced himself as scale-1");
    assert_eq!(second.stderr().matches("a peer named scale-1 is on the hub").count(), 1, "{}", second.stderr());
    peer.wish(&json!({"do": "leave"}));
    structured(&second.call_once_joined("list_peers", &json!({})));
    hub.announced("scale-1");
}

/// Somebody takes our name on a hub: we stay away, say so once, and come back when he has gone.
#[test]
fn whoever_takes_our_name_on_a_hub_keeps_it() {
    let (mut hub, _peer, mut bridge) = scene(&[]);
    hub.announced(NAME);
    let mut usurper = Caller::join(&hub.url, NAME, &[]);
    hub.announced(NAME);
    refused(&mut bridge, "list_peers", &json!({}), |error| error["links"][0]["kind"] == "name_taken");
    let answer = usurper.call("msgpack", ["scale-1", "scale", "add"], json!([1, 2]));
    assert_eq!(answer["value"], 3, "he is not disturbed: {answer}");
    assert!(hub.child.heard(|line| (line["announced"] == NAME).then_some(())).is_empty(), "we took it back");
    drop(usurper);
    adds(&mut bridge);
    let said = bridge.stderr();
    assert_eq!(said.matches("another peer goes by our name now").count(), 1, "{said}");
    assert_eq!(said.matches("a peer named bridge-test is on the hub").count(), 1, "{said}");
}
