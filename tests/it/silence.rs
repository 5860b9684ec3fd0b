//! The tools against a peer that the test plays by hand: one that stays silent, answers later, or vanishes.

use plantbridge::{
    link::{DownKind, DownReason, Link, LinkEvent, LinkId, Outbound, Rejection},
    mcp::tools,
    plant::Plant,
    wire::{
        Frame, Message, PeerName, RemoteError, Reply, ReplyRoute, Request, Value,
        frame::{Answer, Ticket},
    },
};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use crate::{
    harness::{Client, Setup},
    plant::bridge,
};

/// The other end of the bridge's link, in the hands of the test.
pub(crate) struct ByHand {
    asked: mpsc::Receiver<Outbound>,
    events: mpsc::Sender<LinkEvent>,
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
        let plant = bridge(vec![Link { id: LinkId(0), outbound, events: received }], false);
        let hand = Self { asked, events };
        hand.tell(LinkEvent::Up).await;
        hand.tell(LinkEvent::Online { peer: name("works"), shape: None }).await;
        hand.tell(LinkEvent::Settled).await;
        (plant, hand)
    }

    pub(crate) async fn tell(&self, event: LinkEvent) {
        self.events.send(event).await.unwrap();
    }

    /// The next request, taken off the link as a link takes it; `msgrpc.describe` is refused, as a minimal device would.
    pub(crate) async fn request(&mut self) -> (u64, Request) {
        loop {
            let Some(Outbound::Frame { id, frame, claim }) = self.asked.recv().await else { continue };
            let Message::Request(request) = frame.message else { continue };
            assert!(claim.unwrap().take(), "a request is wanted when it is taken");
            if request.path != "msgrpc" {
                return (id, request);
            }
            self.answer(&request, refusal("ClassNotFound", "msgrpc.describe is not exposed")).await;
        }
    }

    pub(crate) async fn answer(&self, request: &Request, answer: Answer) {
        self.answer_as("works", request, answer).await;
    }

    pub(crate) async fn answer_as(&self, from: &str, request: &Request, answer: Answer) {
        let reply = Reply { correlation: request.correlation.clone(), route: ReplyRoute::default(), answer };
        let frame = Frame { source: name(from), target: name("bridge"), message: Message::Reply(reply) };
        self.tell(LinkEvent::Frame(frame)).await;
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
#[tokio::test(start_paused = true)]
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

/// W-072: the link is lost while the answer is awaited; the answer is known to be unknown at once.
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
#[tokio::test(start_paused = true)]
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
#[tokio::test(start_paused = true)]
async fn a_deferred_answer_is_followed() {
    let (mut client, mut hand) = ByHand::joined().await;
    let mut waiting = press();
    waiting["wait_seconds"] = json!(20);
    client.start("c", "call_method", waiting).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, Answer::Ticket(Ticket::Progress(Some(Value::Int(1))))).await;
    let receipt = json!({"id": "c", "expiresAt": 32_503_680_000_000_i64});
    hand.answer(&request, Answer::Deferred(Some(plantbridge::wire::json::from_json(receipt)))).await;
    hand.answer(&request, Answer::Ticket(Ticket::Progress(Some(Value::Int(2))))).await;
    hand.answer_as("stranger", &request, Answer::Ticket(Ticket::Resolved(Some("a lie".into())))).await;
    hand.answer(&request, Answer::Ticket(Ticket::Resolved(Some("baked".into())))).await;
    let answer = client.read().await;
    let told = &answer["result"]["structuredContent"];
    assert_eq!((&told["result"], &told["ticket"]["state"]), (&json!("baked"), &json!("resolved")), "{told}");
    assert_eq!(told["ticket"]["progress"], 2);
}

/// Without waiting, the receipt is the answer and says that the rest follows.
#[tokio::test(start_paused = true)]
async fn a_receipt_is_an_answer() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "call_method", press()).await;
    let (_, request) = hand.request().await;
    hand.answer(&request, Answer::Deferred(None)).await;
    let answer = client.read().await;
    assert_eq!(answer["result"]["structuredContent"]["ticket"]["state"], "pending", "{answer}");
}

/// S-082: a component that accepts the subscription and says nothing is told apart, and nothing is left behind.
#[tokio::test(start_paused = true)]
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

/// results.md 6: cancelling a look closes what it opened.
#[tokio::test(start_paused = true)]
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

/// F-09: what a peer returns is bounded before it reaches the model; what was cut says how much there was.
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

/// tools.md, find_capability: a plant full of silent peers is searched for a bounded time, and says who did not answer.
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
