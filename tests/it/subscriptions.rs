//! Subscriptions to resources, by both their ways and through both doors: who is told, how often, and that nothing is left.

use std::time::Duration;

use plantbridge::{
    door::{auth::Keys, http::HttpConfig, stdio::Ended},
    link::LinkEvent,
    mcp::tools,
    wire::{Request, frame::Answer},
};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, timeout};

use crate::{
    harness::{Client, Setup, newest},
    http::{BOTH, HOST, Open, TYPE, Wire, post},
    plant::joined,
    silence::{ByHand, attached, name, subscribers},
};

const PRESS: &str = "peer://works/press/state";

fn of(uri: &str) -> Json {
    json!({"uri": uri})
}

fn listen(uris: &[&str]) -> Json {
    newest(json!({"notifications": {"resourceSubscriptions": uris, "toolsListChanged": true}}))
}

/// The next line is an update of this resource.
async fn updated(client: &mut Client, uri: &str) -> Json {
    let line = client.read().await;
    assert_eq!(
        (&line["method"], &line["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!(uri)),
        "{line}"
    );
    line
}

impl ByHand {
    /// The subscription of the press, taken with a snapshot.
    async fn takes(&mut self, revision: i64) -> Request {
        let (_, on) = self.request().await;
        assert_eq!((on.method.as_str(), on.path.as_str()), ("on", "press"));
        self.publish(revision, 5).await;
        self.answer(&on, Answer::Value(Some("ok".into()))).await;
        on
    }

    /// The subscription is given up.
    async fn given_up(&mut self) {
        let (_, off) = self.request().await;
        assert_eq!(off.method, "off");
        self.answer(&off, Answer::Value(Some("ok".into()))).await;
    }
}

/// A client that listens to the press on standard input, by the older way.
async fn subscribed() -> (Client, ByHand) {
    let (mut client, mut hand) = ByHand::joined().await;
    client.request("s", "resources/subscribe", &of(PRESS)).await;
    hand.takes(1).await;
    let answer = client.read().await;
    assert_eq!((&answer["id"], &answer["result"]), (&json!("s"), &json!({})), "{answer}");
    (client, hand)
}

/// At most one update a second, the first at once; what comes meanwhile is one; the same snapshot again is none; that it is
/// not known any more is one.
#[tokio::test(start_paused = true)]
async fn a_client_is_told_once_a_second_at_most() {
    let (mut client, mut hand) = subscribed().await;
    client.still_there().await;
    let begun = Instant::now();
    hand.publish(2, 6).await;
    updated(&mut client, PRESS).await;
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    for revision in 3..50 {
        hand.publish(revision, 6).await;
    }
    updated(&mut client, PRESS).await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    hand.publish(49, 6).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    client.still_there().await;
    hand.tell(LinkEvent::Offline(name("works"))).await;
    updated(&mut client, PRESS).await;
    hand.tell(LinkEvent::Online { peer: name("works"), shape: None }).await;
    hand.takes(49).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    client.still_there().await;
    let answer = client.ask("resources/unsubscribe", &of(PRESS)).await;
    assert_eq!(answer["result"], json!({}));
    hand.given_up().await;
    assert_eq!(client.ask("resources/unsubscribe", &of(PRESS)).await["result"], json!({}));
}

/// What cannot be subscribed to is refused with the reason, and nothing is held.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_subscribed_to_is_refused() {
    let (mut client, mut hand) = ByHand::joined().await;
    for (uri, code) in [
        ("plant://guide", -32602),
        ("peer://works/description", -32602),
        ("peer://nobody/press/state", -32002),
        ("watch://wail-1-0000", -32002),
        ("peer://works/%00/state", -32002),
        ("contract://pump", -32002),
    ] {
        let answer = client.ask("resources/subscribe", &of(uri)).await;
        assert_eq!(answer["error"]["code"], code, "{uri}: {answer}");
    }
    client.request("s", "resources/subscribe", &of(PRESS)).await;
    let (_, on) = hand.request().await;
    hand.answer(&on, crate::silence::refusal("ClassNotFound", "there is no press")).await;
    // It is asked what it has instead, and says nothing of itself.
    let answer = tokio::select! {
        answer = client.read() => answer,
        request = hand.request() => panic!("{request:?}"),
    };
    assert_eq!(answer["error"]["code"], -32002, "{answer}");
    client.request("s", "resources/subscribe", &of(PRESS)).await;
    let (_, on) = hand.request().await;
    assert_eq!(on.method, "on", "nobody listens, so it is asked for again");
}

/// How many subscriptions of ours the peer counts.
async fn counted(client: &mut Client) -> u64 {
    let whole = json!({"peer": "works", "format": "detailed", "limit": 500});
    subscribers(&client.call("describe_peer", whole).await["structuredContent"])
}

/// Two clients share one subscription at the peer, which ends with the last of them, however it ends.
#[tokio::test(start_paused = true)]
async fn a_subscription_is_shared_and_ends_with_the_last() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut watcher = attached(plant.clone()).await;
    let tank = "peer://works/tank/state";
    let (mut first, mut second) = (Client::named(plant.clone(), "first"), Client::named(plant, "second"));
    for client in [&mut first, &mut second] {
        client.initialize("2025-06-18").await;
        assert_eq!(client.ask("resources/subscribe", &of(tank)).await["result"], json!({}));
        assert_eq!(client.ask("resources/subscribe", &of(tank)).await["result"], json!({}), "twice is once");
    }
    assert_eq!(counted(&mut watcher).await, 1);
    watcher.call("set_state", json!({"peer": "works", "namespace": "tank", "path": "level", "value": 77})).await;
    updated(&mut first, tank).await;
    updated(&mut second, tank).await;
    first.input = None;
    assert_eq!(first.ended().await, Ended::EndOfInput);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(counted(&mut watcher).await, 1);
    // Its other end is gone without a word.
    drop((second.input.take(), second.output.take()));
    second.ended().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(counted(&mut watcher).await, 0);
}

/// A watch tells of its records and, once, of its end; the status of what is there.
#[tokio::test(start_paused = true)]
async fn watches_and_the_status_tell_too() {
    let (plant, _works, node) = joined(false, None).await;
    let mut client = attached(plant.clone()).await;
    let weight = json!({"peer": "works", "namespace": "scale", "event": "weight"});
    let id = client.call("start_watch", weight).await["structuredContent"]["watch"].as_str().unwrap().to_owned();
    let watch = format!("watch://{id}");
    assert_eq!(client.ask("resources/subscribe", &of(&watch)).await["result"], json!({}));
    node.emit("scale", "weight", vec![0.into()]).await;
    updated(&mut client, &watch).await;
    for payload in 1..3 {
        node.emit("scale", "weight", vec![payload.into()]).await;
    }
    updated(&mut client, &watch).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    client.still_there().await;
    assert_eq!(client.ask("resources/subscribe", &of("plant://status")).await["result"], json!({}));
    tokio::time::sleep(Duration::from_secs(5)).await;
    client.still_there().await;
    client.start("stop", "stop_watch", json!({"watch": id})).await;
    let mut told = Vec::new();
    for _ in 0..3 {
        let line = client.read().await;
        told.push(if line["id"].is_null() { line["params"]["uri"].clone() } else { line["id"].clone() }.to_string());
    }
    told.sort();
    assert_eq!(told, ["\"plant://status\"", "\"stop\"", &format!("\"{watch}\"")]);
    let gone = client.ask("resources/read", &of(&watch)).await;
    assert_eq!(gone["error"]["code"], -32002);
}

/// 2026-07-28, on standard input: what is granted is acknowledged, updates name the request, and cancelling it gives up what
/// it listened to.
#[tokio::test(start_paused = true)]
async fn a_request_listens_for_as_long_as_it_is_open() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut client = Client::over(plant, tools::all(), &Setup::default());
    client.request("l", "subscriptions/listen", &listen(&[PRESS, "plant://guide", "watch://none", PRESS, "x"])).await;
    let acknowledged = client.read().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let granted = &acknowledged["params"]["notifications"];
    assert!(granted["resourceSubscriptions"].as_array().unwrap().iter().all(|uri| uri == PRESS), "{granted}");
    assert!(granted["toolsListChanged"].is_null(), "what never changes is not granted: {granted}");
    hand.takes(1).await;
    let update = updated(&mut client, PRESS).await;
    assert_eq!(update["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l", "{update}");
    hand.publish(2, 6).await;
    updated(&mut client, PRESS).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l"}})).await;
    hand.given_up().await;
    let legacy = client.ask("resources/subscribe", &newest(of(PRESS))).await;
    assert_eq!(legacy["error"]["code"], -32601, "the newest revision has another way");
    client.request("again", "subscriptions/listen", &listen(&["plant://status"])).await;
    assert_eq!(client.read().await["method"], "notifications/subscriptions/acknowledged");
    let begun = Instant::now();
    client.input = None;
    let last = client.read().await;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("again"), &json!("complete")), "{last}");
    assert_eq!(client.ended().await, Ended::EndOfInput);
    assert!(begun.elapsed() < Duration::from_secs(1), "nobody waits for what lasts: {:?}", begun.elapsed());
}

/// So many resources a client, and what is over is refused with the bound; one that ends makes room.
#[tokio::test(start_paused = true)]
async fn what_is_listened_to_is_bounded() {
    let (plant, _hand) = ByHand::plant().await;
    let mut client = Client::over(plant, tools::all(), &Setup::default());
    let many: Vec<String> = (0..40).map(|at| format!("peer://works/n{at}/state")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    client.request("l", "subscriptions/listen", &listen(&many)).await;
    let granted = client.read().await;
    assert_eq!(granted["params"]["notifications"]["resourceSubscriptions"].as_array().unwrap().len(), 32);
    client.request("m", "subscriptions/listen", &listen(&["plant://status"])).await;
    assert_eq!(client.read().await["method"], "notifications/subscriptions/acknowledged");
    let refused = client.read().await;
    assert_eq!((&refused["id"], &refused["error"]["data"]["error"]["limit"]), (&json!("m"), &json!(32)), "{refused}");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l"}})).await;
    let list = client.ask("tools/list", &newest(json!({}))).await;
    assert!(list["result"]["tools"].is_array());
    client.request("n", "subscriptions/listen", &listen(&["plant://status"])).await;
    assert_eq!(client.read().await["method"], "notifications/subscriptions/acknowledged");
    let list = client.ask("tools/list", &newest(json!({}))).await;
    assert!(list["result"]["tools"].is_array(), "it goes on: {list}");
}

/// A client that does not read holds up nobody else, and is told once when it reads again.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let (plant, mut hand) = ByHand::plant().await;
    let mut idle = Client::over(plant.clone(), tools::all(), &Setup { pipe: 512, ..Setup::default() });
    let mut keen = attached(plant).await;
    idle.request("l", "subscriptions/listen", &listen(&[PRESS])).await;
    hand.takes(1).await;
    keen.request("s", "resources/subscribe", &of(PRESS)).await;
    hand.takes(1).await;
    assert_eq!(keen.read().await["id"], "s");
    for revision in 2..60 {
        hand.publish(revision, revision).await;
        updated(&mut keen, PRESS).await;
    }
    let mut lines = 0;
    while let Ok(line) = timeout(Duration::from_secs(3), idle.read()).await {
        lines += usize::from(line["method"] == "notifications/resources/updated");
    }
    assert!((2..6).contains(&lines), "what it did not read was not kept for it: {lines}");
}

// ---------------------------------------------------------------------------------------------------------------------
// Over HTTP
// ---------------------------------------------------------------------------------------------------------------------

const NEWEST: &str = "MCP-Protocol-Version: 2026-07-28";
const LISTEN: &str = "Mcp-Method: subscriptions/listen";

fn listening(uris: &[&str]) -> Vec<u8> {
    let params = listen(uris);
    json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params}).to_string().into_bytes()
}

/// A door on a plant whose link the test holds.
async fn door(config: HttpConfig) -> (Open, ByHand) {
    let (plant, hand) = ByHand::plant().await;
    let client = Client::over(plant, tools::all(), &Setup::default());
    (Open::of(client.server.clone(), Keys::default(), config).await, hand)
}

impl Wire {
    /// The next message of a stream of events; comments are passed over.
    async fn event(&mut self) -> Json {
        loop {
            let chunk = self.chunk().await;
            if let Some(data) = chunk.trim().strip_prefix("event: message\ndata: ") {
                return serde_json::from_str(data).unwrap();
            }
            assert_eq!(chunk, ":\n\n");
        }
    }

    /// A stream that listens.
    async fn listens(&mut self, uris: &[&str]) {
        self.listens_as(&[], uris).await;
    }

    /// The same with these headers besides.
    async fn listens_as(&mut self, headers: &[&str], uris: &[&str]) {
        self.send(&post(&[&[HOST, TYPE, BOTH, NEWEST, LISTEN], headers].concat(), &listening(uris))).await;
        let head = self.head().await;
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        assert_eq!(self.event().await["method"], "notifications/subscriptions/acknowledged");
    }
}

/// A stream stays open, carries updates, and ends with its connection, which gives up what it listened to.
#[tokio::test]
async fn a_stream_listens_until_its_connection_ends() {
    let (door, mut hand) = door(HttpConfig::default()).await;
    let mut wire = door.connect().await;
    wire.listens(&[PRESS]).await;
    hand.takes(1).await;
    assert_eq!(wire.event().await["params"]["uri"], PRESS);
    hand.publish(2, 6).await;
    let update = wire.event().await;
    assert_eq!(update["method"], "notifications/resources/updated");
    drop(wire);
    timeout(Duration::from_secs(20), hand.given_up()).await.expect("what it listened to is given up");
    door.closed().await;
}

/// A stream that has nothing to say says so, so that neither side takes the other for dead.
#[tokio::test]
async fn a_silent_stream_is_kept_alive() {
    let (door, _hand) = door(HttpConfig { quiet: Duration::from_millis(10), ..HttpConfig::default() }).await;
    let mut wire = door.connect().await;
    wire.listens(&["plant://status"]).await;
    for _ in 0..3 {
        assert_eq!(wire.chunk().await, ":\n\n");
    }
    drop(wire);
    door.closed().await;
}

/// A door that closes ends its streams in order.
#[tokio::test]
async fn a_door_that_closes_ends_its_streams() {
    let (door, _hand) = door(HttpConfig { drain: Duration::from_mins(10), ..HttpConfig::default() }).await;
    let mut wire = door.connect().await;
    wire.listens(&["plant://status"]).await;
    door.stop.cancel();
    let last = wire.event().await;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("l"), &json!("complete")), "{last}");
    assert_eq!(wire.chunk().await, "", "the stream ends");
    drop(wire);
    door.closed().await;
}

/// What listens does not outlast the token that it was asked for with, or the time when none was needed; what is asked for with
/// the new one does.
#[tokio::test]
async fn a_stream_ends_with_the_token_it_was_asked_for_with() {
    let named = |key: &str| Keys::parse(&format!(r#"{{"tokens": {{"{key}": {{"name": "a"}}}}}}"#)).unwrap();
    let (door, _hand) = door(HttpConfig::default()).await;
    let ends = async |mut wire: Wire| {
        let last = wire.event().await;
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("l"), &json!("complete")), "{last}");
        assert_eq!(wire.chunk().await, "", "the stream ends");
    };
    let mut nobody = door.connect().await;
    nobody.listens(&["plant://status"]).await;
    door.rules.set(Open::letting_in(named("key-1")));
    ends(nobody).await;
    let (mut first, mut second) = (door.connect().await, door.connect().await);
    first.listens_as(&["Authorization: Bearer key-1"], &["plant://status"]).await;
    door.rules.set(Open::letting_in(named("key-2")));
    ends(first).await;
    second.listens_as(&["Authorization: Bearer key-2"], &["plant://status"]).await;
    door.rules.set(Open::letting_in(Keys::parse(r#"{"tokens": {"key-3": {"name": "b"}}}"#).unwrap()));
    ends(second).await;
    door.closed().await;
}

/// What can read no stream is told so, and the older way is not offered where there are no sessions.
#[tokio::test]
async fn over_http_there_is_one_way() {
    let (door, _hand) = door(HttpConfig::default()).await;
    let mut wire = door.connect().await;
    let json_only = [HOST, TYPE, "Accept: application/json", NEWEST, LISTEN];
    assert_eq!(wire.ask(&post(&json_only, &listening(&["plant://status"]))).await.status, 406);
    let about =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}).to_string();
    let told = wire.ask(&post(&[HOST, TYPE, BOTH], body.as_bytes())).await.json();
    assert_eq!(told["result"]["capabilities"]["resources"], json!({"listChanged": false}), "{told}");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": of("plant://status")});
    let told =
        wire.ask(&post(&[HOST, TYPE, BOTH, "MCP-Protocol-Version: 2025-11-25"], body.to_string().as_bytes())).await;
    assert_eq!(told.code(), -32601);
    assert!(told.json()["error"]["message"].as_str().unwrap().contains("subscriptions/listen"), "{told:?}");
    drop(wire);
    door.closed().await;
}
