//! The tools against a peer that the test plays by hand: one that stays silent, answers later, or vanishes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use plantbridge::{
    link::{Claim, DownKind, DownReason, Link, LinkEvent, LinkId, Outbound, Rejection, loopback},
    mcp::tools,
    plant::Plant,
    wire::{
        Frame, Message, PeerName, RemoteError, Reply, ReplyRoute, Request, Value,
        frame::{Answer, Ticket},
        json::from_json,
    },
};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use crate::{
    by_hand,
    harness::{Client, Setup},
    over::over_both,
    over::{Over, meets},
    plant::{bridge, bridge_over, joined, serve},
};

over_both!(paused:
    a_silent_peer_leaves_a_command_in_doubt,
    what_settles_a_doubt_can_be_read,
    a_minimal_device_is_called_unchecked,
    a_deferred_answer_is_followed,
    a_receipt_is_an_answer,
    a_component_that_says_nothing_is_told_apart,
    a_subscription_that_is_not_answered_is_a_read_without_an_answer,
    a_cancelled_look_leaves_nothing_behind,
    a_command_given_up_before_it_left_never_leaves,
    a_look_that_fails_after_the_command_only_leaves_it_unconfirmed,
    a_change_is_never_sent_unchecked,
    a_value_of_before_is_no_confirmation_after_an_interruption,
    a_cancelled_change_stops_looking,
    invalid_params_after_a_check_of_ours_concludes_nothing,
    a_changing_call_with_wrong_arguments_says_that_nothing_ran,
);

/// The other end of the bridge's link, in the hands of the test.
pub(crate) struct ByHand {
    pub(crate) asked: mpsc::Receiver<Outbound>,
    events: mpsc::Sender<LinkEvent>,
    /// What `msgrpc.describe` is answered; without it, it is refused, as a minimal device would.
    pub(crate) describes: Option<Json>,
}

pub(crate) fn name(text: &str) -> PeerName {
    PeerName::configured(text).unwrap()
}

impl ByHand {
    /// A bridge whose link the test holds, with the peer `works` online, and a client of it.
    pub(crate) async fn joined() -> (Client, Self) {
        let (plant, hand) = Self::plant().await;
        (attached(plant).await, hand)
    }

    /// A bridge whose link the test holds, with the peer `works` online.
    pub(crate) async fn plant() -> (Plant, Self) {
        let (outbound, asked) = mpsc::channel(64);
        let (events, received) = mpsc::channel(64);
        let link = match Over::chosen() {
            Over::Memory => Link { id: LinkId(0), outbound, events: received },
            Over::Hub => by_hand::hub(outbound, received).await,
        };
        let (plant, node) = bridge_over(vec![link], false);
        let hand = Self { asked, events, describes: None };
        hand.tell(LinkEvent::Up).await;
        hand.tell(LinkEvent::Online { peer: name("works"), shape: None }).await;
        hand.tell(LinkEvent::Settled).await;
        if Over::chosen() == Over::Hub {
            meets(&node, "works").await;
        }
        (plant, hand)
    }

    pub(crate) async fn tell(&self, event: LinkEvent) {
        self.events.send(event).await.unwrap();
    }

    /// The next request, taken off the link as a link takes it; `msgrpc.describe` is answered here.
    pub(crate) async fn request(&mut self) -> (u64, Request) {
        loop {
            let (id, request, claim) = self.offered().await;
            assert!(claim.take(), "a request is wanted when it is taken");
            if request.path != "msgrpc" {
                return (id, request);
            }
            let described = self.describes.clone().map(|described| Answer::Value(Some(from_json(described))));
            let answer = described.unwrap_or_else(|| refusal("ClassNotFound", "msgrpc.describe is not exposed"));
            self.answer(&request, answer).await;
        }
    }

    /// The next request, left on the link.
    pub(crate) async fn offered(&mut self) -> (u64, Request, Claim) {
        loop {
            let Some(Outbound::Frame { id, frame, claim }) = self.asked.recv().await else { continue };
            if let Message::Request(request) = frame.message {
                return (id, request, claim.unwrap());
            }
        }
    }

    /// Makes sure that nothing more is to be sent.
    fn asked_no_more(&mut self) {
        while let Ok(outbound) = self.asked.try_recv() {
            let Outbound::Frame { frame, claim, .. } = outbound else { continue };
            assert!(!claim.unwrap().take(), "{frame:?}");
        }
    }

    /// A component `press` whose `force` is set by one method.
    fn describe_press(&mut self) {
        let force = json!({"kind": "object", "fields": {"force": {"type": {"kind": "number"}}}});
        let method = json!({"name": "setForce", "params": [{"kind": "number"}], "sets": "force", "semantics": "non-repeatable-command"});
        let component = json!({"state": force});
        self.describes = Some(json!({"name": "works", "namespaces": [
            {"name": "press", "methods": [method], "events": [], "component": component}
        ]}));
    }

    /// The component tells what it holds.
    pub(crate) async fn publish(&self, revision: i64, force: i64) {
        self.publish_as(json!({"epoch": "e", "revision": revision, "props": {}, "state": {"force": force}})).await;
    }

    async fn publish_as(&self, snapshot: Json) {
        let (path, event) = (Some("press".into()), "$snapshot".into());
        let message = Message::Event { path, event, args: vec![from_json(snapshot)], stamp: None };
        self.tell(LinkEvent::Frame(Box::new(Frame { source: name("works"), target: name("bridge"), message }))).await;
    }

    /// The component takes the subscription and says that it holds 5; then it is set to `force`, and says that it was.
    async fn is_set(&mut self) {
        let (_, on) = self.request().await;
        assert_eq!(on.method, "on");
        self.publish(1, 5).await;
        self.answer(&on, Answer::Value(Some("ok".into()))).await;
        let (_, set) = self.request().await;
        assert_eq!(set.method, "setForce");
        self.answer(&set, Answer::Value(Some("set".into()))).await;
    }

    pub(crate) async fn answer(&self, request: &Request, answer: Answer) {
        self.answer_as("works", request, answer).await;
    }

    pub(crate) async fn answer_as(&self, from: &str, request: &Request, answer: Answer) {
        let reply = Reply { correlation: request.correlation.clone(), route: ReplyRoute::default(), answer };
        let frame = Frame { source: name(from), target: name("bridge"), message: Message::Reply(reply) };
        self.tell(LinkEvent::Frame(Box::new(frame))).await;
    }
}

/// A client of this plant.
pub(crate) async fn attached(plant: Plant) -> Client {
    let mut client = Client::over(plant, tools::all(), &Setup::default());
    client.initialize("2025-06-18").await;
    client
}

pub(crate) fn refusal(code: &str, message: &str) -> Answer {
    Answer::Error(RemoteError { code: code.into(), name: "RpcError".into(), message: message.into() })
}

pub(crate) fn press() -> Json {
    json!({"peer": "works", "namespace": "press", "method": "close", "timeout_ms": 3000})
}

pub(crate) async fn error_of(client: &mut Client) -> Json {
    let answer = client.read().await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["structuredContent"]["error"].clone()
}

/// F-14: a command that was not answered is in doubt, is not retryable, and the error names the read that settles it.
async fn a_silent_peer_leaves_a_command_in_doubt() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "call_method", press()).await;
    let (_, request) = hand.request().await;
    assert_eq!(request.ttl, Some(3000));
    let error = error_of(&mut client).await;
    assert_eq!(
        (&error["code"], &error["outcome"], &error["retryable"]),
        (&json!("unknown_outcome"), &json!("unknown"), &json!(false))
    );
    assert_eq!(
        error["settle_with"],
        json!({"tool": "read_state", "arguments": {"peer": "works", "namespace": "press"}})
    );
    hand.answer(&request, Answer::Value(None)).await;
    client.still_there().await;
}

/// F-14: the read that settles a doubt is one that its peer can answer: a component's state, else a query without arguments,
/// else none, and then the error says so. By a call that is not answered, and by a ticket that is lost.
async fn what_settles_a_doubt_can_be_read() {
    let command = json!({"name": "close", "params": [], "semantics": "non-repeatable-command"});
    let query = |name: &str, params: Json| json!({"name": name, "params": params, "semantics": "query"});
    let state = json!({"tool": "read_state", "arguments": {"peer": "works", "namespace": "press"}});
    let asked = json!({"tool": "call_method", "arguments": {"peer": "works", "namespace": "press", "method": "force"}});
    let number = json!({"kind": "number"});
    for (methods, component, settles) in [
        (json!([command, query("force", json!([]))]), json!({}), state.clone()),
        (json!([command, query("at", json!([number])), query("force", json!([]))]), Json::Null, asked),
        (json!([command, query("at", json!([number]))]), Json::Null, Json::Null),
        (json!([command]), Json::Null, Json::Null),
    ] {
        for lost in [false, true] {
            let (mut client, mut hand) = ByHand::joined().await;
            let mut namespace = json!({"name": "press", "methods": methods, "events": []});
            if !component.is_null() {
                namespace["component"] = component.clone();
            }
            hand.describes = Some(json!({"name": "works", "namespaces": [namespace]}));
            let mut arguments = press();
            arguments["wait_seconds"] = json!(30);
            client.start("c", "call_method", arguments).await;
            let (_, request) = hand.request().await;
            if lost {
                let receipt = json!({"id": "as the correlation", "expiresAt": 32_503_680_000_000_i64});
                hand.answer(&request, Answer::Deferred(Some(from_json(receipt)))).await;
                hand.tell(LinkEvent::Offline(name("works"))).await;
            }
            let error = error_of(&mut client).await;
            assert_eq!((&error["code"], &error["settle_with"]), (&json!("unknown_outcome"), &settles), "{error}");
            let fix = error["fix"].as_str().unwrap();
            let says = settles["tool"].as_str().unwrap_or("ask a person");
            assert!(fix.starts_with("do not repeat it") && fix.contains(says), "{fix}");
            if lost {
                let id = error["ticket"]["id"].clone();
                let told = client.call("read_ticket", json!({"ticket": id})).await["structuredContent"].take();
                assert_eq!(told["settle_with"], settles, "{told}");
            }
        }
    }
}

/// W-072: the link is lost while the answer is awaited; the answer is known to be unknown at once.
///
/// In memory only: its words are those of a broker; w108 in the interop tests is the same over a hub.
#[tokio::test(start_paused = true)]
async fn a_lost_link_leaves_a_command_in_doubt_at_once() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "call_method", press()).await;
    hand.request().await;
    let started = tokio::time::Instant::now();
    hand.tell(LinkEvent::Down(DownReason { kind: DownKind::Lost, detail: "the broker went away".into() })).await;
    let error = error_of(&mut client).await;
    assert_eq!((&error["code"], &error["outcome"]), (&json!("unknown_outcome"), &json!("unknown")));
    assert!(error["message"].as_str().unwrap().contains("the broker went away"));
    assert!(started.elapsed().as_millis() < 100);
    let result = client.call("call_method", press()).await;
    let error = &result["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["outcome"]), (&json!("network_unavailable"), &json!("not_run")), "{error}");
    assert_eq!(error["links"][0]["kind"], "lost");
}

/// What the link certainly did not write did not run.
///
/// In memory only: a hub rejects nothing after it was written.
#[tokio::test(start_paused = true)]
async fn a_rejected_request_certainly_did_not_run() {
    for (why, code) in [
        (Rejection::TooLarge { bytes: 9, limit: 5 }, "bad_argument"),
        (Rejection::Unsendable("a tab in an idempotency key".into()), "bad_argument"),
        (Rejection::Full, "network_unavailable"),
        (Rejection::Refused("NotAuthorized".into()), "network_unavailable"),
    ] {
        let (mut client, mut hand) = ByHand::joined().await;
        client.start("c", "call_method", press()).await;
        let (id, _) = hand.request().await;
        hand.tell(LinkEvent::Rejected { id, why }).await;
        let error = error_of(&mut client).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!(code), &json!("not_run")), "{error}");
    }
}

/// design.md 6: a peer without introspection is called unchecked, as an operation, and every answer but its own is ignored.
async fn a_minimal_device_is_called_unchecked() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "call_method", press()).await;
    let (_, request) = hand.request().await;
    hand.answer_as("stranger", &request, Answer::Value(Some("a lie".into()))).await;
    hand.answer(&Request { correlation: "nobody's".into(), ..request.clone() }, Answer::Value(Some("lost".into())))
        .await;
    hand.answer(&request, Answer::Value(Some("shut".into()))).await;
    hand.answer(&request, Answer::Value(Some("twice".into()))).await;
    let answer = client.read().await;
    let told = &answer["result"]["structuredContent"];
    assert_eq!(
        (&told["result"], &told["checked"], &told["effect"]),
        (&json!("shut"), &json!(false), &json!("operate"))
    );
    client.still_there().await;
}

/// W-070: a deferred answer is followed as long as the caller waits, and progress is told.
async fn a_deferred_answer_is_followed() {
    let (mut client, mut hand) = ByHand::joined().await;
    let mut waiting = press();
    waiting["wait_seconds"] = json!(20);
    client.start("c", "call_method", waiting).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, Answer::Ticket(Ticket::Progress(Some(Value::Int(1))))).await;
    let receipt = json!({"id": "c", "expiresAt": 32_503_680_000_000_i64});
    hand.answer(&request, Answer::Deferred(Some(from_json(receipt)))).await;
    hand.answer(&request, Answer::Ticket(Ticket::Progress(Some(Value::Int(2))))).await;
    hand.answer_as("stranger", &request, Answer::Ticket(Ticket::Resolved(Some("a lie".into())))).await;
    hand.answer(&request, Answer::Ticket(Ticket::Resolved(Some("baked".into())))).await;
    let answer = client.read().await;
    let told = &answer["result"]["structuredContent"];
    assert_eq!((&told["result"], &told["ticket"]["state"]), (&json!("baked"), &json!("resolved")), "{told}");
    assert_eq!(told["ticket"]["progress"], 2);
}

/// Without waiting, the receipt is the answer and says that the rest follows.
async fn a_receipt_is_an_answer() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "call_method", press()).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, Answer::Deferred(None)).await;
    let answer = client.read().await;
    assert_eq!(answer["result"]["structuredContent"]["ticket"]["state"], "pending", "{answer}");
}

/// S-082: a component that accepts the subscription and says nothing is told apart, and nothing is left behind.
async fn a_component_that_says_nothing_is_told_apart() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "read_state", json!({"peer": "works", "namespace": "press", "seconds": 2})).await;
    let (_, request) = hand.request().await;
    assert_eq!((request.method.as_str(), &request.args), ("on", &vec![Value::from("$snapshot")]));
    hand.answer(&request, Answer::Value(Some("ok".into()))).await;
    let error = error_of(&mut client).await;
    assert_eq!((&error["code"], &error["retryable"]), (&json!("no_snapshot"), &json!(true)), "{error}");
    let (_, request) = hand.request().await;
    assert_eq!(request.method, "off");
}

/// results.md 2: of a peer that did not even take the subscription it is not said that it did.
async fn a_subscription_that_is_not_answered_is_a_read_without_an_answer() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "read_state", json!({"peer": "works", "namespace": "press", "seconds": 2})).await;
    hand.request().await;
    let error = error_of(&mut client).await;
    assert_eq!(error["code"], "deadline_exceeded", "{error}");
    let (_, request) = hand.request().await;
    assert_eq!(request.method, "off");
}

/// results.md 6: cancelling a look closes what it opened.
async fn a_cancelled_look_leaves_nothing_behind() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "read_state", json!({"peer": "works", "namespace": "press", "seconds": 60})).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, Answer::Value(Some("ok".into()))).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}})).await;
    let (_, request) = hand.request().await;
    assert_eq!(request.method, "off");
    client.still_there().await;
}

/// W-081: a command that was given up before it left never leaves, whether its peer was awaited or asked what it serves.
async fn a_command_given_up_before_it_left_never_leaves() {
    let (mut client, mut hand) = ByHand::joined().await;
    let cancel = |id| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    for (id, tool, more) in [("c", "call_method", json!({"method": "close"})), ("s", "set_state", set_to(7, 0))] {
        let mut awaited = more;
        awaited["peer"] = format!("late-{id}").into();
        awaited["namespace"] = "press".into();
        awaited["wait_seconds"] = 30.into();
        client.start(id, tool, awaited).await;
        client.still_there().await;
        client.send(&cancel(id)).await;
        client.still_there().await;
        hand.tell(LinkEvent::Online { peer: name(&format!("late-{id}")), shape: None }).await;
        client.still_there().await;
        hand.asked_no_more();
    }
    client.start("d", "call_method", press()).await;
    let (_, describe, claim) = hand.offered().await;
    assert!(claim.take());
    client.send(&cancel("d")).await;
    client.still_there().await;
    hand.answer(&describe, refusal("ClassNotFound", "msgrpc.describe is not exposed")).await;
    client.still_there().await;
    hand.asked_no_more();
}

fn set_to(force: i64, verify: u8) -> Json {
    json!({"peer": "works", "namespace": "press", "path": "force", "value": force, "verify_seconds": verify})
}

/// results.md 2: a command that ran is never said not to have run, however the look at what came of it ends.
async fn a_look_that_fails_after_the_command_only_leaves_it_unconfirmed() {
    let (mut client, mut hand) = ByHand::joined().await;
    hand.describe_press();
    for code in ["Busy", "ClassNotFound", "Exception"] {
        client.start(code, "set_state", set_to(7, 20)).await;
        let (_, on) = hand.request().await;
        let (_, set) = hand.request().await;
        assert_eq!((on.method.as_str(), set.method.as_str()), ("on", "setForce"));
        hand.answer(&set, Answer::Value(None)).await;
        hand.answer(&on, refusal(code, "no")).await;
        let answer = client.read().await;
        let told = &answer["result"]["structuredContent"];
        assert_eq!((&told["applied"], &told["confirmed"]), (&json!(true), &json!("unknown")), "{answer}");
    }
}

/// tools.md, set_state: only the contract knows which method sets what, so a change never goes out unchecked, not even
/// when the peer has announced another surface meanwhile and does not say which.
async fn a_change_is_never_sent_unchecked() {
    let (mut client, mut hand) = ByHand::joined().await;
    hand.describe_press();
    client.start("s", "set_state", set_to(7, 1)).await;
    let (_, on) = hand.request().await;
    hand.describes = None;
    hand.tell(LinkEvent::Online { peer: name("works"), shape: Some("another".into()) }).await;
    hand.publish(1, 5).await;
    hand.answer(&on, Answer::Value(Some("ok".into()))).await;
    let set = loop {
        let (_, request) = hand.request().await;
        if request.method != "on" {
            break request;
        }
    };
    assert_eq!(set.method, "setForce");
    assert!(set.idempotency_key.is_some(), "it was not taken for what it is declared to be");
}

/// tools.md, set_state: what the plant held before proves nothing once something may have been missed.
async fn a_value_of_before_is_no_confirmation_after_an_interruption() {
    for (event, confirmed) in [(None, json!(true)), (Some(LinkEvent::Offline(name("works"))), json!("unknown"))] {
        let (mut client, mut hand) = ByHand::joined().await;
        hand.describe_press();
        client.start("s", "set_state", set_to(5, 3)).await;
        hand.is_set().await;
        if let Some(event) = event {
            hand.tell(event).await;
        }
        let answer = client.read().await;
        assert_eq!(answer["result"]["structuredContent"]["confirmed"], confirmed, "{answer}");
    }
}

/// results.md 6: cancelling closes what was opened, also the look that confirms a change.
async fn a_cancelled_change_stops_looking() {
    let (mut client, mut hand) = ByHand::joined().await;
    hand.describe_press();
    client.start("s", "set_state", set_to(7, 60)).await;
    hand.is_set().await;
    client.still_there().await;
    let cancelled = tokio::time::Instant::now();
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}})).await;
    let (_, off) = hand.request().await;
    assert_eq!(off.method, "off");
    assert!(cancelled.elapsed().as_millis() < 100, "{:?}", cancelled.elapsed());
}

/// S-022: that the link was lost while a peer was asked what it serves says nothing about the peer; and what the broker
/// would not take is not told as a network that is down.
///
/// In memory only: a hub rejects nothing after it was written.
#[tokio::test(start_paused = true)]
async fn a_link_that_fails_is_not_taken_for_a_peer_without_a_description() {
    let (mut client, mut hand) = ByHand::joined().await;
    hand.describe_press();
    let wrong = json!({"peer": "works", "namespace": "press", "method": "setForce", "args": ["much"]});
    client.start("a", "call_method", wrong.clone()).await;
    let (id, _, _) = hand.offered().await;
    hand.tell(LinkEvent::Rejected { id, why: Rejection::Refused("NotAuthorized".into()) }).await;
    let error = error_of(&mut client).await;
    assert!(error["message"].as_str().unwrap().contains("NotAuthorized"), "{error}");
    assert_eq!(error["outcome"], "not_run");
    client.start("b", "call_method", wrong.clone()).await;
    let (_, _, claim) = hand.offered().await;
    assert!(claim.take());
    hand.tell(LinkEvent::Down(DownReason { kind: DownKind::Lost, detail: "the broker went away".into() })).await;
    let error = error_of(&mut client).await;
    assert_eq!((&error["code"], &error["outcome"]), (&json!("network_unavailable"), &json!("not_run")), "{error}");
    hand.tell(LinkEvent::Up).await;
    hand.tell(LinkEvent::Online { peer: name("works"), shape: None }).await;
    hand.tell(LinkEvent::Settled).await;
    client.start("c", "call_method", wrong).await;
    tokio::select! {
        error = error_of(&mut client) => assert_eq!(error["code"], "invalid_params", "{error}"),
        (_, request) = hand.request() => panic!("it left unchecked: {request:?}"),
    }
}

/// F-09: what a peer returns is bounded before it reaches the model; what was cut says how much there was.
///
/// In memory only: no hub passes on twenty megabytes.
#[tokio::test(start_paused = true)]
async fn a_huge_result_is_cut_to_its_head() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "call_method", press()).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, Answer::Value(Some(Value::Text("x".repeat(20_000_000))))).await;
    let answer = client.read().await;
    let told = &answer["result"]["structuredContent"]["result"];
    assert_eq!((&told["truncated"], &told["bytes"]), (&json!(true), &json!(20_000_002)));
    assert!(answer.to_string().len() < 100_000);
    client.still_there().await;
}

/// F-09: so are the texts around it, whichever of them a peer chose to make huge.
///
/// In memory only: no hub passes on names of megabytes.
#[tokio::test(start_paused = true)]
async fn a_huge_name_is_cut() {
    let (mut client, mut hand) = ByHand::joined().await;
    let huge = "x".repeat(3_000_000);
    hand.describes =
        Some(json!({"name": "works", "version": huge, "elevated": [huge], "host": {"place": huge}, "namespaces": [
            {"name": "press", "methods": [{"name": huge, "params": []}]}
        ]}));
    for (tool, arguments) in [("describe_peer", json!({"peer": "works"})), ("call_method", press())] {
        client.start(tool, tool, arguments).await;
        tokio::select! {
            answer = client.read() => assert!(answer.to_string().len() < 150_000, "{tool}: {}", answer.to_string().len()),
            (_, request) = hand.request() => panic!("{request:?}"),
        }
    }
    client.start("r", "read_state", json!({"peer": "works", "namespace": "press"})).await;
    hand.request().await;
    let snapshot = json!({"epoch": huge, "revision": 1, "props": {}, "state": {}});
    hand.publish_as(snapshot).await;
    assert!(client.read().await.to_string().len() < 10_000);
}

/// tools.md, find_capability: a plant full of silent peers is searched for a bounded time, and says who did not answer.
///
/// In memory only: a hub is a peer too, and is counted.
#[tokio::test(start_paused = true)]
async fn a_search_among_silent_peers_is_bounded() {
    let (mut client, hand) = ByHand::joined().await;
    for n in 0..400 {
        hand.tell(LinkEvent::Online { peer: name(&format!("silent-{n:03}")), shape: None }).await;
    }
    let started = tokio::time::Instant::now();
    let mut asked = hand.asked;
    let taking = tokio::spawn(async move { while asked.recv().await.is_some() {} });
    let told = client.call("find_capability", json!({"capability": "@x/y/Z"})).await["structuredContent"].take();
    assert_eq!((&told["matches"], &told["unanswered_count"]), (&json!([]), &json!(401)), "{told}");
    assert_eq!(told["unanswered"].as_array().unwrap().len(), 50);
    assert!(started.elapsed().as_secs() <= 31, "{:?}", started.elapsed());
    taking.abort();
}

/// semantics.md 1.5: `InvalidParams` may also be a result check, after the method ran. Of arguments that fitted what the
/// peer declares, it is not said that nothing ran.
async fn invalid_params_after_a_check_of_ours_concludes_nothing() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "call_method", press()).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, refusal("InvalidParams", "expected at least 1 argument, got 0")).await;
    assert_eq!(error_of(&mut client).await["outcome"], "not_run", "nothing was checked here");
    let (plant, works, _node) = joined(false, None).await;
    let mut client = Client::over(plant, tools::all(), &Setup::default());
    client.initialize("2025-06-18").await;
    let odd = json!({"peer": "works", "namespace": "scale", "method": "refuse", "args": ["InvalidParams"]});
    let error = client.call("call_method", odd).await["structuredContent"]["error"].take();
    assert_eq!((&error["code"], &error["outcome"]), (&json!("peer_refused"), &json!("unknown")), "{error}");
    assert_eq!(works.ran.lock().unwrap().len(), 1);
}

/// results.md 2: what is refused before it begins certainly did not run.
async fn a_changing_call_with_wrong_arguments_says_that_nothing_ran() {
    let (mut client, _hand) = ByHand::joined().await;
    for (tool, arguments) in [("call_method", json!({"peer": 5})), ("set_state", json!({}))] {
        let error = client.call(tool, arguments).await["structuredContent"]["error"].take();
        assert_eq!((&error["code"], &error["outcome"]), (&json!("bad_argument"), &json!("not_run")), "{error}");
    }
    let error = client.call("read_state", json!({})).await["structuredContent"]["error"].take();
    assert_eq!(error["outcome"], json!(null), "a look changes nothing");
}

/// What a peer says of who subscribed to what of it, added up.
pub(crate) fn subscribers(described: &Json) -> u64 {
    match described {
        Json::Object(members) => {
            let own = members.get("subscribers").and_then(Json::as_u64).unwrap_or(0);
            own + members.values().map(subscribers).sum::<u64>()
        }
        Json::Array(items) => items.iter().map(subscribers).sum(),
        _ => 0,
    }
}

/// Reads answers until that of `id`; gives those read before it, by id.
async fn answers_until(client: &mut Client, id: &str) -> Vec<Json> {
    let mut before = Vec::new();
    loop {
        let answer = client.read().await;
        if answer["id"] == id {
            return before;
        }
        before.push(answer);
    }
}

/// A link that takes a millisecond each way, and can lose what the peer says.
fn slow(mut link: Link) -> (Link, Arc<AtomicBool>) {
    let deaf = Arc::new(AtomicBool::new(false));
    let (outbound, mut asked) = mpsc::channel::<Outbound>(1024);
    let (events, received) = mpsc::channel(1024);
    let (id, inner, loses) = (link.id, link.outbound.clone(), deaf.clone());
    tokio::spawn(async move {
        while let Some(command) = asked.recv().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
            inner.send(command).await.unwrap();
        }
    });
    tokio::spawn(async move {
        while let Some(event) = link.events.recv().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if !(loses.load(Ordering::Relaxed) && matches!(event, LinkEvent::Frame(_)))
                && events.send(event).await.is_err()
            {
                return;
            }
        }
    });
    (Link { id, outbound, events: received }, deaf)
}

/// Invariant 5, in numbers: after a thousand looks, most of them cancelled in the middle or never answered, no peer has a
/// subscription of ours, and no watch is held that nobody stopped.
#[tokio::test(start_paused = true)]
async fn after_a_thousand_looks_no_subscription_is_left() {
    let (ours, theirs) = loopback::pair(name("bridge"), name("works"));
    let (ours, deaf) = slow(ours);
    let node = serve(theirs, &Arc::default(), None);
    let mut client = attached(bridge(vec![ours], false)).await;
    let looks = [
        ("read_state", json!({"peer": "works", "namespace": "tank", "seconds": 1})),
        ("watch_events", json!({"peer": "works", "namespace": "scale", "event": "weight", "seconds": 1})),
        ("start_watch", json!({"peer": "works", "namespace": "scale", "event": "weight"})),
        ("start_watch", json!({"peer": "works", "namespace": "tank"})),
        ("list_rows", json!({"peer": "works", "namespace": "scale", "resource": "pupils", "timeout_ms": 1000})),
    ];
    let (mut cancelled, mut failed, mut stood) = (0, 0, 0);
    for number in 0..1000_usize {
        let ((tool, arguments), round) = (&looks[number % looks.len()], number / looks.len());
        deaf.store(round % 4 == 1, Ordering::Relaxed);
        let id = format!("look-{number}");
        client.start(&id, tool, arguments.clone()).await;
        let answer = if round % 2 == 0 {
            tokio::time::sleep(Duration::from_micros(500 * (round % 12) as u64)).await;
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            client.send(&cancel).await;
            client.request("then", "ping", &json!({})).await;
            let before = answers_until(&mut client, "then").await;
            cancelled += usize::from(before.is_empty());
            before.into_iter().next()
        } else {
            Some(client.read().await)
        };
        deaf.store(false, Ordering::Relaxed);
        let Some(answer) = answer else { continue };
        assert_eq!(answer["id"], json!(id), "{answer}");
        failed += usize::from(answer["result"]["isError"] == true);
        if let Some(watch) = answer["result"]["structuredContent"]["watch"].as_str() {
            node.emit("scale", "weight", vec![Value::Int(1)]).await;
            client.call("stop_watch", json!({"watch": watch})).await;
            stood += 1;
        }
    }
    assert!(cancelled > 400 && failed > 200 && stood > 50, "{cancelled} cancelled, {failed} failed, {stood} stood");
    let held = client.call("list_watches", json!({})).await;
    assert_eq!(held["structuredContent"]["matched"], 0, "{held}");
    // What is on its way arrives: each step takes a millisecond.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let whole = json!({"peer": "works", "format": "detailed", "limit": 500});
    let described = client.call("describe_peer", whole.clone()).await["structuredContent"].clone();
    assert!(described.to_string().contains("\"subscribers\":0"), "{described}");
    assert_eq!(subscribers(&described), 0, "{described}");
    // The measure measures: with a watch there is one.
    client.call("start_watch", looks[2].1.clone()).await;
    assert_eq!(subscribers(&client.call("describe_peer", whole).await["structuredContent"]), 1);
}
