//! Later answers, from both sides: tickets that outlive their client, and a peer of ours that serves them.

use std::{sync::Arc, time::Duration};

use plantbridge::{
    link::LinkEvent,
    node::{Failure, Incoming, Node, Service, ServiceFuture},
    wire::{
        RemoteError, Request, Value,
        frame::{Answer, Ticket},
        json::from_json,
    },
};
use serde_json::{Value as Json, json};
use tokio::sync::{Mutex, mpsc};

use crate::{
    harness::Client,
    node::{call, identity, name, soon},
    over::{Over, meets, over_both, over_each_link},
    silence::{ByHand, attached, error_of, press},
};

over_both!(paused:
    s110_progress_is_kept_up_to_a_bound,
    a_cancelled_wait_loses_nothing,
    a_wait_is_bounded,
    s111_a_ticket_ends_with_its_peer,
    tickets_are_bounded,
);

over_both!(running:
    s111_a_ticket_lapses,
);

/// Later than any test.
const NEVER_MS: i64 = 32_503_680_000_000;

async fn receipt(hand: &ByHand, request: &Request, expires_ms: i64) {
    let receipt = json!({"id": "as the correlation", "expiresAt": expires_ms});
    hand.answer(request, Answer::Deferred(Some(from_json(receipt)))).await;
}

pub(crate) async fn tell(hand: &ByHand, request: &Request, ticket: Ticket) {
    hand.answer(request, Answer::Ticket(ticket)).await;
}

fn progress(value: i64) -> Ticket {
    Ticket::Progress(Some(value.into()))
}

pub(crate) fn resolved(value: &str) -> Ticket {
    Ticket::Resolved(Some(value.into()))
}

/// A call that was answered with a ticket: its request, and the ticket.
pub(crate) async fn deferred(client: &mut Client, hand: &mut ByHand) -> (Request, String) {
    client.start("c", "call_method", press()).await;
    let (_, request) = hand.request().await;
    receipt(hand, &request, NEVER_MS).await;
    let told = client.read().await["result"]["structuredContent"].take();
    assert_eq!(told["ticket"]["state"], "pending", "{told}");
    let id = told["ticket"]["id"].as_str().unwrap().to_owned();
    assert_eq!(told["ticket"]["next"]["tool"], "read_ticket");
    (request, id)
}

async fn read(client: &mut Client, id: &str, wait: u64) -> Json {
    let result = client.call("read_ticket", json!({"ticket": id, "wait_seconds": wait})).await;
    assert_eq!(result["isError"], Json::Null, "{result}");
    result["structuredContent"].clone()
}

/// A ticket outlives the client that made the call: what came while nobody was there is collected by the next one, twice.
#[tokio::test(start_paused = true)]
async fn a_ticket_outlives_its_client() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut client = attached(plant.clone()).await;
    let (request, id) = deferred(&mut client, &mut hand).await;
    client.input = None;
    client.ended().await;
    tell(&hand, &request, progress(50)).await;
    hand.answer_as("stranger", &request, Answer::Ticket(resolved("a lie"))).await;
    tell(&hand, &request, resolved("baked")).await;
    let mut client = attached(plant).await;
    let first = read(&mut client, &id, 5).await;
    assert_eq!((&first["state"], &first["result"]), (&json!("resolved"), &json!("baked")), "{first}");
    assert_eq!((&first["outcome"], &first["called"]), (&json!("ran"), &json!("press.close")));
    assert_eq!((&first["progress"][0]["value"], &first["progress_dropped"]), (&json!(50), &json!(null)));
    assert_eq!(read(&mut client, &id, 0).await, first, "reading takes nothing away");
}

/// S-110: progress is kept, at most 64 with the oldest dropped, and counted.
async fn s110_progress_is_kept_up_to_a_bound() {
    let (mut client, mut hand) = ByHand::joined().await;
    let (request, id) = deferred(&mut client, &mut hand).await;
    for n in 1..=100 {
        tell(&hand, &request, progress(n)).await;
    }
    tell(&hand, &request, Ticket::Resolved(None)).await;
    let told = read(&mut client, &id, 5).await;
    let reports = told["progress"].as_array().unwrap();
    assert_eq!((reports.len(), &reports[0]["value"], &reports[63]["value"]), (64, &json!(37), &json!(100)));
    assert_eq!((&told["progress_dropped"], &told["result"]), (&json!(36), &json!(null)));
    assert_eq!(told["note"], "the method ran and returned nothing");
}

/// A client that cancels its wait loses nothing.
async fn a_cancelled_wait_loses_nothing() {
    let (mut client, mut hand) = ByHand::joined().await;
    let (request, id) = deferred(&mut client, &mut hand).await;
    client.start("w", "read_ticket", json!({"ticket": id, "wait_seconds": 60})).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "w"}})).await;
    client.still_there().await;
    assert_eq!(read(&mut client, &id, 0).await["state"], "pending");
    tell(&hand, &request, resolved("baked")).await;
    assert_eq!(read(&mut client, &id, 5).await["result"], "baked");
}

/// A wait ends with its time, and says that nothing is there yet.
async fn a_wait_is_bounded() {
    let (mut client, mut hand) = ByHand::joined().await;
    let (_, id) = deferred(&mut client, &mut hand).await;
    let started = tokio::time::Instant::now();
    let told = read(&mut client, &id, 7).await;
    assert_eq!((&told["state"], &told["outcome"]), (&json!("pending"), &json!(null)), "{told}");
    assert_eq!(started.elapsed().as_secs(), 7);
}

/// What a rejection says of the method: that it ran, or nothing; never that it did not, for the receipt came from it.
///
/// In memory only: a rejected ticket carries no code on a wire.
#[tokio::test(start_paused = true)]
async fn a_rejection_says_whether_it_ran() {
    for (code, outcome) in [("Exception", "ran"), ("Forbidden", "unknown"), ("UnknownOutcome", "unknown")] {
        let (mut client, mut hand) = ByHand::joined().await;
        let (request, id) = deferred(&mut client, &mut hand).await;
        let error = RemoteError { code: code.into(), name: "Error".into(), message: "burnt".into() };
        tell(&hand, &request, Ticket::Rejected(error)).await;
        let told = read(&mut client, &id, 5).await;
        assert_eq!((&told["state"], &told["outcome"]), (&json!("rejected"), &json!(outcome)), "{told}");
        assert_eq!(told["error"], json!({"code": code, "message": "burnt"}));
    }
}

/// A call that waits for its later answer fails when that is a failure: with the ticket, what may be concluded, and no
/// result, whatever way it ends. What ended is collected as it was.
///
/// In memory only: a rejected ticket carries no code on a wire.
#[tokio::test(start_paused = true)]
async fn a_call_fails_with_the_ticket_it_waited_for() {
    for (end, code, outcome, state) in [
        (Some("Exception"), "peer_refused", "ran", "rejected"),
        (Some("Forbidden"), "peer_refused", "unknown", "rejected"),
        (Some("UnknownOutcome"), "unknown_outcome", "unknown", "rejected"),
        (None, "unknown_outcome", "unknown", "peer_gone"),
    ] {
        let (mut client, mut hand) = ByHand::joined().await;
        let mut waiting = press();
        waiting["wait_seconds"] = json!(30);
        client.start("c", "call_method", waiting).await;
        let (_, request) = hand.request().await;
        receipt(&hand, &request, NEVER_MS).await;
        match end {
            Some(code) => {
                let error = RemoteError { code: code.into(), name: "Error".into(), message: "burnt".into() };
                tell(&hand, &request, Ticket::Rejected(error)).await;
            }
            None => hand.tell(LinkEvent::Offline(name("works"))).await,
        }
        let answer = client.read().await["result"].take();
        assert_eq!(
            (&answer["isError"], &answer["structuredContent"]["result"]),
            (&json!(true), &Json::Null),
            "{answer}"
        );
        let error = &answer["structuredContent"]["error"];
        assert_eq!((&error["code"], &error["outcome"]), (&json!(code), &json!(outcome)), "{error}");
        assert_eq!((&error["ticket"]["state"], &error["retryable"]), (&json!(state), &json!(false)), "{error}");
        let id = error["ticket"]["id"].as_str().unwrap();
        assert_eq!(read(&mut client, id, 0).await["state"], state, "it is still kept");
    }
}

/// S-111: a ticket ends with its peer, and what came of the command is not known; the read that shows it is named.
async fn s111_a_ticket_ends_with_its_peer() {
    let (mut client, mut hand) = ByHand::joined().await;
    let (_, id) = deferred(&mut client, &mut hand).await;
    hand.tell(LinkEvent::Offline(name("works"))).await;
    let told = read(&mut client, &id, 5).await;
    assert_eq!((&told["state"], &told["outcome"]), (&json!("peer_gone"), &json!("unknown")), "{told}");
    let settle = json!({"tool": "read_state", "arguments": {"peer": "works", "namespace": "press"}});
    assert_eq!(told["settle_with"], settle);
}

/// S-111: a ticket lapses at its time. By the wall clock, so this one really waits a little.
async fn s111_a_ticket_lapses() {
    let (mut client, mut hand) = ByHand::joined().await;
    client.start("c", "call_method", press()).await;
    let (_, request) = hand.request().await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    receipt(&hand, &request, i64::try_from(now.as_millis()).unwrap() + 300).await;
    let told = client.read().await;
    let id = told["result"]["structuredContent"]["ticket"]["id"].as_str().unwrap().to_owned();
    let told = read(&mut client, &id, 30).await;
    assert_eq!((&told["state"], &told["outcome"]), (&json!("lapsed"), &json!("unknown")), "{told}");
}

/// A ticket that is not known is refused with those that are; it is forgotten an hour after its end, and not before.
///
/// In memory only: an hour passes in it, and a hub that is silent so long is lost.
#[tokio::test(start_paused = true)]
async fn a_ticket_is_kept_for_an_hour_after_its_end() {
    let (mut client, mut hand) = ByHand::joined().await;
    let (request, id) = deferred(&mut client, &mut hand).await;
    client.start("x", "read_ticket", json!({"ticket": "nobody's"})).await;
    let error = error_of(&mut client).await;
    assert_eq!((&error["code"], &error["alternatives"]), (&json!("unknown_ticket"), &json!([id])), "{error}");
    assert_eq!(error["tickets"][0], json!({"ticket": id, "called": "works.press.close", "state": "pending"}));
    tokio::time::advance(Duration::from_hours(5)).await;
    assert_eq!(read(&mut client, &id, 0).await["state"], "pending", "an open one stays");
    tell(&hand, &request, resolved("baked")).await;
    assert_eq!(read(&mut client, &id, 5).await["state"], "resolved");
    tokio::time::advance(Duration::from_mins(59)).await;
    assert_eq!(read(&mut client, &id, 0).await["state"], "resolved");
    tokio::time::advance(Duration::from_mins(2)).await;
    client.start("x", "read_ticket", json!({"ticket": id})).await;
    assert_eq!(error_of(&mut client).await["code"], "unknown_ticket");
}

/// A thousand tickets are kept: the one that ended first makes room, and an open one never does. With a thousand open the
/// next is not followed, and that is said.
async fn tickets_are_bounded() {
    let (mut client, mut hand) = ByHand::joined().await;
    let (ended, first) = deferred(&mut client, &mut hand).await;
    let (_, second) = deferred(&mut client, &mut hand).await;
    tell(&hand, &ended, resolved("baked")).await;
    for _ in 2..1000 {
        deferred(&mut client, &mut hand).await;
    }
    assert_eq!(read(&mut client, &first, 0).await["state"], "resolved");
    deferred(&mut client, &mut hand).await;
    client.start("x", "read_ticket", json!({"ticket": first})).await;
    assert_eq!(error_of(&mut client).await["code"], "unknown_ticket");
    client.start("c", "call_method", press()).await;
    let (_, request) = hand.request().await;
    receipt(&hand, &request, NEVER_MS).await;
    let told = error_of(&mut client).await;
    assert_eq!((&told["code"], &told["ticket"]["state"]), (&json!("unknown_outcome"), &json!("lapsed")), "{told}");
    assert!(told["ticket"]["note"].as_str().unwrap().contains("does not follow it"));
    assert_eq!(read(&mut client, &second, 0).await["state"], "pending", "an open one never makes room");
}

/// An oven that bakes while it is told to go on; `end` is how it is told.
#[derive(Debug)]
struct Baker {
    go_on: Mutex<mpsc::Receiver<Result<Value, Failure>>>,
    gone: mpsc::Sender<()>,
}

impl Baker {
    fn new() -> (Arc<Self>, mpsc::Sender<Result<Value, Failure>>, mpsc::Receiver<()>) {
        let (end, go_on) = mpsc::channel(1);
        let (gone, told) = mpsc::channel(1);
        (Arc::new(Self { go_on: Mutex::new(go_on), gone }), end, told)
    }
}

/// The service, as a handle that a run can take along.
#[derive(Clone, Debug)]
struct Baking(Arc<Baker>);

impl Service for Baking {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        let this = self.0.clone();
        Box::pin(async move {
            let mut later = node.answer_later(call.run, None).await?;
            later.progress(50.into()).await;
            assert_ne!(call.method, "panic later", "as it was told to");
            let mut go_on = this.go_on.lock().await;
            tokio::select! {
                end = go_on.recv() => end.unwrap().map(Some),
                () = later.caller_gone() => {
                    this.gone.send(()).await.unwrap();
                    Ok(None)
                }
            }
        })
    }
}

over_each_link!(
    a_served_method_answers_later,
    a_panic_after_the_receipt_is_a_rejection,
    a_served_method_hears_that_its_caller_left,
);

/// Two nodes, one of which bakes.
async fn bakery(over: Over) -> (Node, Node, mpsc::Sender<Result<Value, Failure>>, mpsc::Receiver<()>) {
    let (ours, theirs) = over.pair("hmi", "tower").await;
    let (baker, end, gone) = Baker::new();
    let (hmi, _) = Node::start(identity("hmi", None), vec![ours]);
    let (tower, _) = Node::start(identity("tower", Some(Arc::new(Baking(baker)))), vec![theirs]);
    meets(&hmi, "tower").await;
    (hmi, tower, end, gone)
}

/// wire.md 5.8, from end to end: receipt, progress, and the end that the method gives, good or bad.
async fn a_served_method_answers_later(over: Over) {
    let (hmi, _tower, end, _gone) = bakery(over).await;
    for (done, expected) in
        [(Ok(Value::from("bread")), "Resolved(Some(Text(\"bread\")))"), (Err(Failure::exception("burnt")), "burnt")]
    {
        let answer = soon(hmi.call(call("tower", "echo", vec![]))).await.unwrap();
        let mut ticket = answer.ticket.expect("a ticket");
        assert_eq!(answer.value.unwrap().get("id").and_then(Value::as_str), Some(ticket.id.as_str()));
        soon(ticket.log.wait_for(|log| log.reports == 1)).await.unwrap();
        assert!(ticket.log.borrow().ended.is_none());
        end.send(done).await.unwrap();
        let ended = soon(ticket.log.wait_for(|log| log.ended.is_some())).await.unwrap().ended.clone().unwrap();
        assert!(format!("{:?}", ended.update).contains(expected), "{ended:?}");
    }
}

/// A method that panics after its receipt rejects its ticket, and harms nobody else.
async fn a_panic_after_the_receipt_is_a_rejection(over: Over) {
    let (hmi, _tower, end, _gone) = bakery(over).await;
    let mut ticket = soon(hmi.call(call("tower", "panic later", vec![]))).await.unwrap().ticket.unwrap();
    let ended = soon(ticket.log.wait_for(|log| log.ended.is_some())).await.unwrap().ended.clone().unwrap();
    assert!(format!("{:?}", ended.update).contains("failed unexpectedly"), "{ended:?}");
    let mut ticket = soon(hmi.call(call("tower", "echo", vec![]))).await.unwrap().ticket.unwrap();
    end.send(Ok(1.into())).await.unwrap();
    soon(ticket.log.wait_for(|log| log.ended.is_some())).await.unwrap();
}

/// wire.md 5.8: the method is told that whoever waits for its answer is gone.
async fn a_served_method_hears_that_its_caller_left(over: Over) {
    let (hmi, _tower, _end, mut gone) = bakery(over).await;
    let ticket = soon(hmi.call(call("tower", "echo", vec![]))).await.unwrap().ticket.unwrap();
    hmi.leave();
    soon(gone.recv()).await.unwrap();
    let ended = ticket.log.borrow().ended.clone();
    assert!(format!("{ended:?}").contains("Dropped"), "we no longer follow it: {ended:?}");
}
