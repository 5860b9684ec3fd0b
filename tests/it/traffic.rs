//! `watch_traffic` on the embedded broker, with the bakery and a stranger on it.

use std::time::Duration;

use plantbridge::{
    demo::{Demo, broker::Broker},
    link::{LinkId, mqtt},
    mcp::tools,
    node::{Call, Identity, Network, Node, Serving},
    plant::{Plant, Settings},
    wire::{PeerName, Prefix, Topics, Value},
};
use serde_json::{Value as Json, json};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use crate::{
    demo_broker,
    harness::{Client, Setup},
    tools::{bad, client_of, good},
};
use rumqttc::PublishProperties;

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

fn config(url: &str, name: &str) -> mqtt::Config {
    let topics = Topics::new(&Prefix::default(), PeerName::configured(name).unwrap()).unwrap();
    mqtt::Config::new(mqtt::BrokerUrl::parse(url).unwrap(), topics)
}

async fn peer(url: &str, name: &str) -> Node {
    let config = config(url, name);
    let identity = Identity { name: config.topics.me().clone(), serving: Serving::default(), exposed: Vec::new() };
    let tap = mqtt::Tap::new(config.clone());
    let node = Node::start(identity, vec![mqtt::start(config, LinkId(0))]).0.with_tap(LinkId(0), tap);
    assert!(node.network_when(PATIENCE, Network::is_settled).await.is_settled());
    node
}

/// A bridge on the bakery's broker, and a stranger.
struct Scene {
    demo: Demo,
    hmi: Node,
    client: Client,
}

impl Scene {
    async fn begin() -> Self {
        let demo = Demo::start().await.unwrap();
        let hmi = peer(demo.url(), "hmi").await;
        let settings = Settings { read_only: false, call_timeout: PATIENCE, link_names: vec!["mqtt".into()] };
        let plant = Plant::new(peer(demo.url(), "bridge").await, settings);
        Self { demo, hmi, client: client_of(plant).await }
    }

    /// Watches while the stranger calls again and again, until it is over.
    async fn watched(&mut self, arguments: Json) -> Json {
        self.client.start("w", "watch_traffic", arguments).await;
        let calling = calls(&self.hmi);
        let answer = tokio::select! {
            () = calling => unreachable!("it calls for ever"),
            answer = timeout(PATIENCE, self.client.read()) => answer.expect("the watch does not end"),
        };
        assert_eq!(answer["result"]["isError"], Json::Null, "{answer}");
        answer["result"]["structuredContent"].clone()
    }
}

/// Sets the bakery's oven for ever, and asks it for what it does not have.
async fn calls(hmi: &Node) {
    for step in 0_u32.. {
        let (method, args) =
            if step.is_multiple_of(4) { ("explode", vec![]) } else { ("setSetpoint", vec![Value::Int(180)]) };
        let call = Call {
            peer: PeerName::mqtt("bakery").unwrap(),
            namespace: "oven".into(),
            method: method.into(),
            args,
            timeout: Some(PATIENCE),
            idempotency_key: None,
        };
        let answer = hmi.call(call).await;
        assert_eq!(answer.is_err(), method == "explode", "{answer:?}");
    }
}

/// Waits until so many tasks are alive; a connection is some, here and at the broker.
async fn tasks(wanted: impl Fn(usize) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !wanted(Handle::current().metrics().num_alive_tasks()) {
        assert!(Instant::now() < until, "{} tasks", Handle::current().metrics().num_alive_tasks());
        tokio::task::yield_now().await;
    }
}

fn frames(told: &Json) -> &Vec<Json> {
    told["frames"].as_array().unwrap()
}

/// tools.md, watch_traffic: who called what, how it ended and how long it took; payloads only when asked for; early return.
#[tokio::test]
async fn calls_of_others_are_shown_with_their_answers() {
    let mut scene = Scene::begin().await;
    let arguments = json!({"seconds": 60, "peer": "hmi", "namespace": "oven", "max_frames": 40});
    let told = scene.watched(arguments).await;
    assert_eq!(
        (&told["ended"], &told["matched"], &told["sources"]),
        (&json!("full"), &json!(40), &json!(["this process"]))
    );
    let (mut answered, mut failed) = (0, 0);
    for frame in frames(&told) {
        assert!(
            frame.get("own").is_none() && frame.get("params").is_none() && frame.get("result").is_none(),
            "{frame}"
        );
        match frame["kind"].as_str().unwrap() {
            "POST" => assert_eq!((&frame["source"], &frame["target"]), (&json!("hmi"), &json!("bakery"))),
            "SUCCESS" | "ERROR" => {
                assert_eq!((&frame["source"], &frame["target"]), (&json!("bakery"), &json!("hmi")));
                assert!(frame["ms"].as_f64().is_some_and(|ms| (0.0..20_000.0).contains(&ms)), "{frame}");
                answered += 1;
                if frame["method"] == "explode" {
                    assert_eq!(
                        (&frame["kind"], &frame["code"]),
                        (&json!("ERROR"), &json!("MethodNotFound")),
                        "{frame}"
                    );
                    failed += 1;
                }
            }
            other => panic!("{other}: {frame}"),
        }
    }
    let counts = &told["counts"];
    assert_eq!((&counts["pairs"], &counts["errors"]), (&json!(answered), &json!(failed)), "{counts}");
    assert!(answered >= 15 && failed >= 3, "{counts}");
    assert_eq!(told["latency"]["pairs"], json!(answered));
    let told = scene.watched(json!({"peer": "hmi", "max_frames": 8, "seconds": 60, "payloads": true})).await;
    let set = frames(&told).iter().find(|frame| frame["method"] == "setSetpoint" && frame["kind"] == "POST").unwrap();
    assert_eq!(set["params"], json!([180]));
    scene.demo.stop().await;
}

/// results.md 4: a window is read page by page, each frame once, without being watched again; later it is stale.
#[tokio::test]
async fn a_window_is_read_in_pages() {
    let mut scene = Scene::begin().await;
    let mut told = scene.watched(json!({"seconds": 60, "peer": "hmi", "max_frames": 30, "limit": 8})).await;
    let (first, mut ids, mut pages) = (told["hint"]["arguments"].clone(), Vec::new(), 0);
    let counts = told["counts"].clone();
    loop {
        pages += 1;
        assert_eq!((&told["matched"], &told["counts"]), (&json!(30), &counts));
        ids.extend(frames(&told).iter().map(|frame| format!("{} {}", frame["kind"], frame["id"])));
        if told["next_cursor"].is_null() {
            break;
        }
        told = good(&mut scene.client, "watch_traffic", told["hint"]["arguments"].clone()).await;
    }
    assert_eq!((pages, ids.len()), (4, 30));
    let different: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(different.len(), 30, "{ids:?}");
    for _ in 0..4 {
        scene.watched(json!({"seconds": 60, "max_frames": 1})).await;
    }
    assert_eq!(bad(&mut scene.client, "watch_traffic", first).await["code"], "stale_cursor", "four windows are kept");
    scene.demo.stop().await;
}

/// What is over max_frames is counted to the end of the time, if that is wanted; and what is filtered is counted always.
#[tokio::test]
async fn what_is_not_shown_is_counted() {
    let mut scene = Scene::begin().await;
    let arguments = json!({"seconds": 1, "peer": "hmi", "kinds": ["POST"], "max_frames": 5, "count_on": true});
    let told = scene.watched(arguments).await;
    let (counts, left) = (&told["counts"], &told["not_shown"]);
    let number = |json: &Json| json.as_u64().unwrap();
    assert_eq!((&told["ended"], told["matched"].as_u64()), (&json!("time"), Some(5)), "{told}");
    assert_eq!(number(&counts["frames"]), 5 + number(&left["other_kinds"]) + number(&left["over_limit"]), "{told}");
    assert!(number(&left["over_limit"]) > 0 && number(&left["other_kinds"]) > 0, "{left}");
    assert_eq!((&left["dropped"], number(&left["retained"]) >= 3), (&json!(0), true), "{left}");
    assert!(number(&counts["calls"]) - number(&counts["pairs"]) <= 1, "one may be on its way at the end: {counts}");
    scene.demo.stop().await;
}

/// Our own calls are there, and marked.
#[tokio::test]
async fn our_own_frames_are_marked() {
    let mut scene = Scene::begin().await;
    scene.client.start("w", "watch_traffic", json!({"seconds": 60, "peer": "bridge", "max_frames": 2})).await;
    let call = json!({"peer": "bakery", "namespace": "oven", "method": "setSetpoint", "args": [180]});
    let told = loop {
        scene.client.start("c", "call_method", call.clone()).await;
        let mut answers = [scene.client.read().await, Json::Null];
        if answers[0]["id"] == "c" {
            continue;
        }
        answers[1] = scene.client.read().await;
        break answers[0]["result"]["structuredContent"].clone();
    };
    assert!(frames(&told).iter().all(|frame| frame["own"] == true), "{told}");
    assert_eq!(told["counts"]["own"], told["counts"]["frames"]);
    scene.demo.stop().await;
}

/// F-08: a cancelled watch closes the tap at once; one that ends leaves no connection either.
#[tokio::test]
async fn a_watch_leaves_no_connection_behind() {
    let mut scene = Scene::begin().await;
    scene.watched(json!({"seconds": 60, "max_frames": 1})).await;
    tasks(|_| true).await;
    // What the first watch left, if anything, is gone once a round trip was made and nothing moves any more.
    let mut before = usize::MAX;
    let until = Instant::now() + PATIENCE;
    while Handle::current().metrics().num_alive_tasks() != before {
        before = Handle::current().metrics().num_alive_tasks();
        scene.client.still_there().await;
        good(&mut scene.client, "describe_peer", json!({"peer": "bakery"})).await;
        assert!(Instant::now() < until);
    }
    for id in ["a", "b", "c"] {
        scene.client.start(id, "watch_traffic", json!({"seconds": 60, "peer": "nobody"})).await;
        tasks(|now| now >= before + 2).await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        scene.client.send(&cancel).await;
        tasks(|now| now <= before).await;
        scene.client.still_there().await;
    }
    scene.demo.stop().await;
}

/// A bridge on a broker of its own.
async fn alone() -> (Broker, Client) {
    let broker = Broker::start().await.unwrap();
    let settings = Settings { read_only: false, call_timeout: PATIENCE, link_names: vec!["mqtt".into()] };
    let plant = Plant::new(peer(&broker.url(), "bridge").await, settings);
    let mut client = Client::over(plant, tools::all(), &Setup::default());
    client.initialize("2025-06-18").await;
    (broker, client)
}

/// Whatever is published under the prefix is shown as what it is, bounded, and nothing of it is taken for anything else.
#[tokio::test]
async fn hostile_messages_are_shown_as_what_they_are() {
    let (broker, mut client) = alone().await;
    let mut stranger = demo_broker::Client::join(&broker, "stranger", None).await;
    // Once this watch has heard something, the tap listens; the next one finds it so.
    client.start("keeps", "watch_traffic", json!({"seconds": 60, "peer": "nobody"})).await;
    client.start("probe", "watch_traffic", json!({"seconds": 60, "peer": "probe", "max_frames": 1})).await;
    let heard = loop {
        stranger.publish("msgrpc/v2/evt/probe", false, "x", PublishProperties::default()).await;
        if let Ok(answer) = timeout(Duration::from_millis(20), client.read()).await {
            break answer;
        }
    };
    assert_eq!(heard["id"], "probe", "{heard}");
    client.start("w", "watch_traffic", json!({"seconds": 60, "payloads": true, "max_frames": 8, "limit": 8})).await;
    client.still_there().await;
    let says = |kind: &str, source: &str| {
        let user = [
            ("mr-src", source),
            ("mr-kind", kind),
            ("mr-path", "p\u{202e}q"),
            ("mr-method", "m\u{7f}"),
            ("mr-event", "e"),
        ];
        let user_properties = user.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let correlation_data = Some("c".into());
        PublishProperties { user_properties, correlation_data, ..PublishProperties::default() }
    };
    let none = PublishProperties::default;
    let evil = "evil \u{feff}name";
    stranger.publish("msgrpc/v2/req/oven", false, b"\x91\xa1x".to_vec(), says("call", evil)).await;
    stranger.publish("msgrpc/v2/banana/\u{202e}", false, "x", none()).await;
    stranger.publish("msgrpc/v2/req/oven", false, b"\xc1".to_vec(), says("call", "a")).await;
    stranger.publish("msgrpc/v2/evt/oven", false, "x", none()).await;
    stranger.publish("msgrpc/v2/rsp/oven/deep/er", false, b"\x01".to_vec(), says("result", "a")).await;
    let huge = [b"\x91\xc6\x00\x40\x00\x00".to_vec(), vec![7; 0x40_0000]].concat();
    stranger.publish("msgrpc/v2/evt/hmi", false, huge, says("event", "a")).await;
    let nested = [vec![0x91; 20_000], vec![0xc0]].concat();
    stranger.publish("msgrpc/v2/evt/hmi", false, nested, says("event", "a")).await;
    stranger.publish("msgrpc/v2/presence/a", true, "online", none()).await;
    let answer = timeout(PATIENCE, client.read()).await.expect("all eight were heard");
    let told = &answer["result"]["structuredContent"];
    let kinds: Vec<&str> = frames(told).iter().map(|frame| frame["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["POST", "FOREIGN", "UNREADABLE", "UNREADABLE", "SUCCESS", "EVENT", "UNREADABLE", "PRESENCE"],
        "{told}"
    );
    let frames = frames(told);
    assert_eq!((&frames[0]["source"], &frames[0]["params"]), (&json!(evil), &json!(["x"])));
    assert_eq!((&frames[0]["answer"], &frames[4]["without_call"]), (&json!("unanswered"), &json!(true)));
    assert_eq!((&frames[2]["source"], frames[2]["error"].is_string()), (&json!("a"), true));
    assert_eq!((&frames[4]["target"], &frames[4]["result"]), (&json!("oven/deep/er"), &json!(1)));
    assert_eq!(frames[5]["params"]["truncated"], true, "four mebibytes are not read");
    let counts = &told["counts"];
    assert_eq!((&counts["unreadable"], &counts["foreign"], &counts["presence"]), (&json!(3), &json!(1), &json!(1)));
    assert!(counts["bytes"].as_u64().unwrap() > 0x40_0000);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(!text.contains(['\u{202e}', '\u{7f}', '\u{feff}']), "what changes how a text is shown is escaped");
    broker.stop(Duration::from_secs(1)).await;
}

/// A broker that ends in the middle is said, with the time; the window goes on.
#[tokio::test]
async fn a_broker_that_goes_is_said() {
    let (broker, mut client) = alone().await;
    let before = Handle::current().metrics().num_alive_tasks();
    let call = json!({"name": "watch_traffic", "arguments": {"seconds": 3}, "_meta": {"progressToken": "p"}});
    client.request("w", "tools/call", &call).await;
    tasks(|now| now >= before + 2).await;
    assert_eq!(client.read().await["method"], "notifications/progress", "a second has passed: it listens");
    broker.stop(Duration::from_secs(1)).await;
    let mut answer = client.read().await;
    while answer["method"] == "notifications/progress" {
        answer = client.read().await;
    }
    let told = &answer["result"]["structuredContent"];
    let gap = &told["interruptions"][0];
    assert!(gap["from"].is_string() && gap["why"].is_string() && gap.get("to").is_none(), "{told}");
    assert!(told["note"].as_str().unwrap().contains("connection was lost"), "{told}");
    // Nobody is there any more: that is an error and not an empty window.
    let error = bad(&mut client, "watch_traffic", json!({"seconds": 1})).await;
    assert_eq!(
        (&error["code"], &error["retryable"], &error["link"]),
        (&json!("tap_unavailable"), &json!(true), &json!("unreachable"))
    );
}
