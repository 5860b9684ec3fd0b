//! Command authority: taken, renewed, lost, taken by another, and given back however it ends.

use std::{sync::Arc, time::Duration};

use plantbridge::{
    contract::{Contract, ServedNamespace},
    door::{auth::Keys, http::HttpConfig},
    link::LinkEvent,
    mcp::tools,
    node::{Exposed, Identity, Incoming, Node, Service, ServiceFuture, Serving, state::MAILBOX},
    plant::Plant,
    wire::{Map, PeerName, Request, Value, frame::Answer, json::from_json},
};
use serde_json::{Value as Json, json};

use crate::{
    harness::{Client, Setup},
    http::{HOST, Open, TYPE, call, post},
    over::{Over, meets, over_both, over_each_link},
    plant::bridge_over,
    silence::{ByHand, attached, error_of, name, refusal},
};

over_both!(paused:
    control_nobody_knows_of_is_given_back,
    control_is_bounded,
);

fn press(more: Json) -> Json {
    let mut arguments = json!({"peer": "works", "namespace": "press"});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

fn authority(holder: Option<&str>, generation: i64) -> Value {
    let mut authority = json!({"generation": generation});
    if let Some(holder) = holder {
        authority["holder"] = holder.into();
        authority["expiresAt"] = json!(32_503_680_000_000_i64);
    }
    from_json(authority)
}

async fn grant(hand: &ByHand, request: &Request, generation: i64) {
    hand.answer(request, Answer::Value(Some(authority(Some("bridge"), generation)))).await;
}

/// A client that is in control of `works.press` for so many seconds.
async fn in_control(plant: Plant, hand: &mut ByHand, seconds: u16) -> Client {
    let mut client = attached(plant).await;
    client.start("t", "take_control", press(json!({"seconds": seconds}))).await;
    let (_, request) = hand.request().await;
    assert_eq!((request.method.as_str(), &request.args), ("$acquire", &vec![Value::Int(1000 * i64::from(seconds))]));
    grant(hand, &request, 1).await;
    let told = client.read().await["result"]["structuredContent"].take();
    assert_eq!((&told["controlled"], &told["holder"]), (&json!("works.press"), &json!("bridge")), "{told}");
    client
}

/// The error of a call that the peer refuses because we are not in control.
async fn refused_call(client: &mut Client, hand: &mut ByHand) -> Json {
    client.start("c", "call_method", press(json!({"method": "close"}))).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, refusal("NotInControl", "press.close requires authority")).await;
    error_of(client).await
}

/// F-34: what a client controls is given back once its token is gone, or lets it only look.
#[tokio::test]
async fn control_does_not_outlast_the_right_to_it() {
    let keys = |text: &str| Keys::parse(text).unwrap();
    let mine = r#"{"tokens": {"key-a": {"name": "a"}}}"#;
    let others = r#"{"tokens": {"key-b": {"name": "b"}}}"#;
    let looking = r#"{"tokens": {"key-a": {"name": "a", "read_only": true}}}"#;
    for after in [others, looking] {
        let (plant, mut hand) = ByHand::plant().await;
        let client = Client::over(plant, tools::all(), &Setup::default());
        let door = Open::of(client.server.clone(), keys(mine), HttpConfig::default()).await;
        let take = call(&json!(1), "take_control", &press(json!({"seconds": 60})));
        let mut wire = door.connect().await;
        wire.send(&post(&[HOST, TYPE, "Authorization: Bearer key-a"], &take)).await;
        let (_, request) = hand.request().await;
        assert_eq!(request.method, "$acquire");
        grant(&hand, &request, 1).await;
        let told = wire.told().await.json();
        assert_eq!(told["result"]["structuredContent"]["controlled"], "works.press", "{told}");
        door.rules.set(Open::letting_in(keys(after)));
        let (_, request) = hand.request().await;
        assert_eq!(request.method, "$release", "{after}");
        hand.answer(&request, Answer::Value(Some("ok".into()))).await;
        door.closed().await;
    }
}

/// semantics.md 10.3: a lease is renewed at half its life, for as long as it is held, and not after it was given back.
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_until_it_is_given_back() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut client = in_control(plant, &mut hand, 60).await;
    for _ in 0..3 {
        let before = tokio::time::Instant::now();
        let (_, request) = hand.request().await;
        assert_eq!((request.method.as_str(), before.elapsed().as_secs()), ("$acquire", 30));
        assert_eq!(request.args.len(), 1, "a renewal never takes it from anybody");
        grant(&hand, &request, 1).await;
    }
    client.start("r", "release_control", press(json!({}))).await;
    let (_, request) = hand.request().await;
    assert_eq!(request.method, "$release");
    hand.answer(&request, Answer::Value(Some("ok".into()))).await;
    let told = client.read().await["result"]["structuredContent"].take();
    assert_eq!(told["released"], true, "{told}");
    assert!(
        tokio::time::timeout(Duration::from_hours(1), hand.request()).await.is_err(),
        "nothing is renewed any more"
    );
}

/// A renewal that is not answered is tried again until the lease is over; then it is lost, told, and not taken again.
#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_is_lost() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut client = in_control(plant, &mut hand, 60).await;
    let mut attempts = 0;
    while let Ok((_, request)) = tokio::time::timeout(Duration::from_mins(2), hand.request()).await {
        assert_eq!(request.method, "$acquire");
        attempts += 1;
    }
    assert!((2..200).contains(&attempts), "{attempts}");
    let error = refused_call(&mut client, &mut hand).await;
    assert_eq!((&error["code"], &error["outcome"]), (&json!("not_in_control"), &json!("not_run")), "{error}");
    assert_eq!(error["lost"], "it could not be renewed in time");
}

/// Taken by another: the renewal is refused, the next call says so, and giving back says how it was lost.
#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_another_is_lost() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut client = in_control(plant, &mut hand, 60).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, refusal("NotInControl", "press is controlled by hmi")).await;
    let error = refused_call(&mut client, &mut hand).await;
    assert_eq!(error["lost"], "press is controlled by hmi");
    client.start("r", "release_control", press(json!({}))).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, Answer::Value(Some("ok - was not holding".into()))).await;
    let told = client.read().await["result"]["structuredContent"].take();
    assert_eq!((&told["released"], &told["lost"]), (&json!(false), &json!("press is controlled by hmi")), "{told}");
}

/// How control was lost is still told after it was asked for again and refused.
#[tokio::test(start_paused = true)]
async fn a_refused_second_take_hides_no_loss() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut client = in_control(plant, &mut hand, 60).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, refusal("NotInControl", "press is controlled by hmi")).await;
    for code in ["NotInControl", "Exception"] {
        client.start("t", "take_control", press(json!({}))).await;
        let (_, request) = hand.request().await;
        assert_eq!(request.method, "$acquire");
        hand.answer(&request, refusal(code, "no")).await;
        assert_eq!(error_of(&mut client).await["peer_error"]["code"], code);
    }
    client.start("r", "release_control", press(json!({}))).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, Answer::Value(Some("ok - was not holding".into()))).await;
    let told = client.read().await["result"]["structuredContent"].take();
    assert_eq!((&told["released"], &told["lost"]), (&json!(false), &json!("press is controlled by hmi")), "{told}");
}

/// A renewal that is a new lease means that somebody else may have been in control: it is given back, and lost.
#[tokio::test(start_paused = true)]
async fn another_generation_is_not_the_same_lease() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut client = in_control(plant, &mut hand, 60).await;
    let (_, request) = hand.request().await;
    grant(&hand, &request, 3).await;
    let (_, request) = hand.request().await;
    assert_eq!(request.method, "$release");
    hand.answer(&request, Answer::Value(Some("ok".into()))).await;
    let error = refused_call(&mut client, &mut hand).await;
    assert!(error["lost"].as_str().unwrap().contains("in other hands"), "{error}");
}

/// A snapshot that shows another in control is believed: the lease is lost, the holder named in the refusal.
#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_who_is_in_control() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut client = in_control(plant.clone(), &mut hand, 60).await;
    client.start("s", "read_state", press(json!({"seconds": 5}))).await;
    let (_, request) = hand.request().await;
    let mut snapshot = Map::new();
    for (key, value) in [("epoch", Value::from("e")), ("revision", 1.into())] {
        snapshot.insert(key, value);
    }
    for key in ["props", "state"] {
        snapshot.insert(key, Map::new());
    }
    snapshot.insert("authority", authority(Some("hmi"), 2));
    let event = plantbridge::wire::Message::Event {
        path: Some("press".into()),
        event: "$snapshot".into(),
        args: vec![snapshot.into()],
        stamp: None,
    };
    let frame = plantbridge::wire::Frame { source: name("works"), target: name("bridge"), message: event };
    hand.answer(&request, Answer::Value(Some("ok".into()))).await;
    hand.tell(LinkEvent::Frame(Box::new(frame))).await;
    assert_eq!(client.read().await["result"]["structuredContent"]["authority"]["holder"], "hmi");
    let (_, request) = hand.request().await;
    assert_eq!(request.method, "off");
    let error = refused_call(&mut client, &mut hand).await;
    assert_eq!((&error["holder"], &error["lost"]), (&json!("hmi"), &json!("hmi is in control")), "{error}");
    assert!(error["fix"].as_str().unwrap().contains("\"take\":true"), "{error}");
    let known = plant.authority(&name("works"), "press").unwrap();
    assert_eq!((known.authority.holder.as_deref(), known.client), (Some("hmi"), None));
}

/// Another client of the bridge is in control: nothing is sent on its control, nor is it taken away, unless that is asked.
#[tokio::test(start_paused = true)]
async fn control_belongs_to_one_client() {
    let (plant, mut hand) = ByHand::plant().await;
    let _first = in_control(plant.clone(), &mut hand, 3600).await;
    let mut second = attached_as(plant, "second").await;
    for (tool, arguments) in [
        ("take_control", json!({})),
        ("release_control", json!({})),
        ("call_method", json!({"method": "$release"})),
        ("call_method", json!({"method": "$acquire"})),
    ] {
        second.start("x", tool, press(arguments)).await;
        let error = error_of(&mut second).await;
        assert_eq!((&error["code"], &error["client"]), (&json!("not_in_control"), &json!("stdio")), "{tool}: {error}");
    }
    second.start("x", "take_control", press(json!({"take": true}))).await;
    let (_, request) = hand.request().await;
    assert_eq!(request.args[1].get("take"), Some(&Value::Bool(true)), "and that was the first thing sent");
    grant(&hand, &request, 1).await;
    assert_eq!(second.read().await["result"]["structuredContent"]["holder"], "bridge");
}

async fn attached_as(plant: Plant, client: &str) -> Client {
    let mut client = Client::named(plant, client);
    client.initialize("2025-06-18").await;
    client
}

/// A client goes: what it was in control of is given back before its session is over.
#[tokio::test(start_paused = true)]
async fn a_client_that_goes_gives_back() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut client = in_control(plant.clone(), &mut hand, 3600).await;
    client.input = None;
    let (_, request) = hand.request().await;
    assert_eq!(request.method, "$release");
    hand.answer(&request, Answer::Value(Some("ok".into()))).await;
    client.ended().await;
    assert!(tokio::time::timeout(Duration::from_hours(2), hand.request()).await.is_err());
}

/// The bridge ends: everything is given back, and a peer that does not answer holds it up for a second only.
#[tokio::test(start_paused = true)]
async fn a_bridge_that_ends_gives_back_within_a_bound() {
    let (plant, mut hand) = ByHand::plant().await;
    let _client = in_control(plant.clone(), &mut hand, 3600).await;
    let before = tokio::time::Instant::now();
    let ((), (_, request)) = tokio::join!(plant.give_back_all(), hand.request());
    assert_eq!(request.method, "$release");
    assert!(before.elapsed() <= Duration::from_millis(1100), "{:?}", before.elapsed());
    plant.give_back_all().await;
    assert!(tokio::time::timeout(Duration::from_hours(2), hand.request()).await.is_err(), "once");
}

/// A client that stops waiting before control was granted does not know of it: it is given back.
async fn control_nobody_knows_of_is_given_back() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("t", "take_control", press(json!({}))).await;
    let (_, request) = hand.request().await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "t"}})).await;
    client.still_there().await;
    grant(&hand, &request, 1).await;
    let (_, request) = hand.request().await;
    assert_eq!(request.method, "$release");
}

/// An answer to `$acquire` that is lost leaves nothing that is renewed: what may have been granted lapses.
///
/// In memory only: hours pass in it, and a hub that is silent so long is lost.
#[tokio::test(start_paused = true)]
async fn control_in_doubt_is_not_kept() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("t", "take_control", press(json!({}))).await;
    hand.request().await;
    let error = error_of(&mut client).await;
    assert_eq!((&error["code"], &error["settle_with"]["tool"]), (&json!("unknown_outcome"), &json!("read_state")));
    assert!(tokio::time::timeout(Duration::from_hours(2), hand.request()).await.is_err());
}

/// Sixty-four components, and no more; one that is lost makes room.
async fn control_is_bounded() {
    let (mut client, mut hand) = ByHand::joined().await;
    let of = |at: usize| json!({"peer": "works", "namespace": format!("press-{at}"), "seconds": 3600});
    for at in 0..64 {
        client.start("t", "take_control", of(at)).await;
        let (_, request) = hand.request().await;
        grant(&hand, &request, 1).await;
        client.read().await;
    }
    client.start("t", "take_control", of(64)).await;
    let error = error_of(&mut client).await;
    assert_eq!((&error["code"], &error["limit"]), (&json!("limit_reached"), &json!(64)), "{error}");
    client.start("c", "call_method", json!({"peer": "works", "namespace": "press-0", "method": "close"})).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, refusal("NotInControl", "gone")).await;
    assert_eq!(error_of(&mut client).await["lost"], "gone");
    client.start("t", "take_control", of(64)).await;
    let (_, request) = hand.request().await;
    assert_eq!(request.path, "press-64");
}

/// A press with a method that requires authority.
#[derive(Debug)]
struct Press;

impl Service for Press {
    fn run(&self, _: Node, _: Incoming) -> ServiceFuture {
        Box::pin(std::future::ready(Ok(Some("closed".into()))))
    }
}

over_each_link!(
    what_requires_authority_can_be_called_by_whoever_has_it,
    a_method_is_not_called_on_the_control_of_another_client,
    control_is_refused_where_there_is_none,
);

/// A bridge, and a real peer that serves the press.
async fn pressed(over: Over, read_only: bool) -> (Plant, Node) {
    let object = json!({"kind": "object", "fields": {}});
    let contract = json!({"schema": 1, "version": "1", "namespaces": {
        "press": {"methods": {"close": {"params": [], "semantics": "idempotent-command"}},
            "component": {"snapshot": 1, "props": object, "state": object}},
        "lamp": {"methods": {"blink": {"params": [], "semantics": "idempotent-command"}}}}});
    let contract = Contract::parse(&from_json(contract)).unwrap();
    let exposed = contract.namespaces.iter().map(|namespace| {
        let mut surface = ServedNamespace::declared(namespace, "Press");
        for method in Arc::make_mut(&mut surface.methods) {
            // No contract says so: it is the host's to say.
            method.requires_authority = method.name == "close";
        }
        let exposed = Exposed {
            name: namespace.name.clone(),
            surface,
            validate: true,
            component: namespace.component.as_ref().map(|_| (Map::new(), Map::new())),
            mailbox: MAILBOX,
            path_writes: false,
        };
        let service: Arc<dyn Service> = Arc::new(Press);
        (exposed, service)
    });
    let identity = Identity {
        name: PeerName::configured("works").unwrap(),
        serving: Serving { introspection: true, ..Serving::default() },
        exposed: exposed.collect(),
    };
    let (ours, theirs) = over.pair("bridge", "works").await;
    let node = Node::start(identity, vec![theirs]).0;
    let (plant, bridge) = bridge_over(vec![ours], read_only);
    meets(&bridge, "works").await;
    (plant, node)
}

/// The way of a client: refused with the exact next call, control taken, the method runs, control given back, refused again.
async fn what_requires_authority_can_be_called_by_whoever_has_it(over: Over) {
    let (plant, _works) = pressed(over, false).await;
    let mut client = attached(plant).await;
    let call = press(json!({"method": "close"}));
    let refused = client.call("call_method", call.clone()).await;
    let error = &refused["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["outcome"]), (&json!("not_in_control"), &json!("not_run")), "{error}");
    let fix = error["fix"].as_str().unwrap();
    assert!(fix.starts_with("take_control {\"peer\":\"works\",\"namespace\":\"press\"}"), "{fix}");
    let told = client.call("take_control", press(json!({}))).await;
    assert_eq!(told["structuredContent"]["generation"], 1, "{told}");
    assert_eq!(client.call("call_method", call.clone()).await["structuredContent"]["result"], "closed");
    let described = client.call("describe_peer", json!({"peer": "works", "namespace": "press"})).await;
    let shown = &described["structuredContent"]["namespaces"][0];
    assert!(shown["methods"][0].as_str().unwrap().contains("requires authority"), "{shown}");
    let authority = &shown["component"]["authority"];
    assert_eq!((&authority["holder"], &authority["client"]), (&json!("bridge"), &json!("stdio")), "{shown}");
    let told = client.call("release_control", press(json!({}))).await;
    assert_eq!(told["structuredContent"]["released"], true, "{told}");
    let told = client.call("release_control", press(json!({}))).await;
    assert_eq!(told["structuredContent"]["released"], false, "{told}");
    let refused = client.call("call_method", call).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "not_in_control");
}

/// Another client's control does not let this one act.
async fn a_method_is_not_called_on_the_control_of_another_client(over: Over) {
    let (plant, _works) = pressed(over, false).await;
    let mut first = attached(plant.clone()).await;
    first.call("take_control", press(json!({}))).await;
    let mut second = attached_as(plant, "second").await;
    let refused = second.call("call_method", press(json!({"method": "close"}))).await;
    let error = &refused["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["client"]), (&json!("not_in_control"), &json!("stdio")), "{error}");
    assert_eq!(error["peer_error"], Json::Null, "nobody was asked");
}

/// What is no component has no authority; a bridge that may only look takes none.
async fn control_is_refused_where_there_is_none(over: Over) {
    let (plant, _works) = pressed(over, false).await;
    let mut client = attached(plant).await;
    for (namespace, code) in [("lamp", "not_a_component"), ("pres", "unknown_namespace")] {
        let told = client.call("take_control", json!({"peer": "works", "namespace": namespace})).await;
        assert_eq!(told["structuredContent"]["error"]["code"], code, "{told}");
    }
    let (plant, _works) = pressed(over, true).await;
    let mut client = Client::over(plant, tools::all(), &Setup::default());
    client.initialize("2025-06-18").await;
    for tool in ["take_control", "release_control"] {
        let told = client.call(tool, press(json!({}))).await;
        assert_eq!(told["structuredContent"]["error"]["code"], "read_only", "also when it is offered: {told}");
    }
}
