//! `watch_traffic` on a hub: what it mirrors, and what is said where it does not; and on a broker and a hub at once.

use std::{sync::Arc, time::Duration};

use plantbridge::{
    link::{Link, LinkId, hub},
    node::{Call, Identity, Node, Serving},
    plant::{Plant, Settings},
    wire::{PeerName, Value},
};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::{
    harness::Client,
    hub::{Hub, PATIENCE, config},
    over::meets,
    plant::{Works, joined, serve_as},
    tools::{bad, client_of, good},
};

fn name(text: &str) -> PeerName {
    PeerName::configured(text).unwrap()
}

fn on_hub(hub: &Hub, me: &str) -> Link {
    hub::start(config(&hub.url, me), LinkId(0))
}

fn peer(links: Vec<Link>, me: &str) -> Node {
    Node::start(Identity { name: name(me), serving: Serving::default(), exposed: Vec::new() }, links).0
}

/// A bridge on a hub, the works behind it, and a stranger who calls them.
struct Scene {
    hub: Hub,
    client: Client,
    bridge: Node,
    works: Node,
    hmi: Node,
}

impl Scene {
    async fn on(hub: Hub) -> Self {
        let works = serve_as("works", vec![on_hub(&hub, "works")], &Arc::new(Works::default()), None);
        let hmi = peer(vec![on_hub(&hub, "hmi")], "hmi");
        let bridge = peer(vec![on_hub(&hub, "bridge")], "bridge");
        for other in ["works", "hmi", "bus"] {
            meets(&bridge, other).await;
        }
        meets(&hmi, "works").await;
        let client = client_of(plant(bridge.clone(), &["hub"])).await;
        Self { hub, client, bridge, works, hmi }
    }

    /// Watches while the stranger calls again and again, until it is over.
    async fn watched(&mut self, arguments: Json) -> Json {
        self.client.start("w", "watch_traffic", arguments).await;
        tokio::select! {
            () = calls(&self.hmi) => unreachable!("it calls for ever"),
            answer = timeout(PATIENCE, self.client.read()) => content(answer.expect("the watch does not end")),
        }
    }

    /// Waits until so much is tapped.
    async fn taps(&self, count: usize) -> Vec<Json> {
        timeout(PATIENCE, async {
            loop {
                let taps = self.hub.taps();
                if taps.len() == count {
                    return taps;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the hub mirrors something else")
    }
}

fn plant(node: Node, names: &[&str]) -> Plant {
    let link_names = names.iter().map(|name| (*name).to_owned()).collect();
    Plant::new(node, Settings { read_only: false, call_timeout: PATIENCE, link_names })
}

fn content(answer: Json) -> Json {
    assert_eq!(answer["result"]["isError"], Json::Null, "{answer}");
    answer["result"]["structuredContent"].clone()
}

async fn call(node: &Node, method: &str, args: Vec<Value>) {
    let (namespace, method) = ("scale".into(), method.into());
    let call = Call { peer: name("works"), namespace, method, args, timeout: Some(PATIENCE), idempotency_key: None };
    // What becomes of it is what the watch shows.
    let _ = node.call(call).await;
}

async fn calls(node: &Node) {
    loop {
        call(node, "add", vec![1.into(), 2.into()]).await;
        call(node, "nonesuch", vec![]).await;
    }
}

fn frames(told: &Json) -> &Vec<Json> {
    told["frames"].as_array().unwrap()
}

/// wire.md 11.2, W-121: what the hub passes on between two others is shown with its answers; `links` says what it is and
/// what it is not; the tap is given back.
#[tokio::test]
async fn w121_what_a_hub_mirrors_is_shown() {
    let mut scene = Scene::on(Hub::mirroring().await).await;
    let told = scene.watched(json!({"seconds": 60, "max_frames": 12, "payloads": true})).await;
    assert_eq!(told["links"], json!([{"link": "hub", "sees": "relayed", "by": "bus"}]), "{told}");
    assert_eq!(told["sources"], json!(["this process", "bus"]));
    for frame in frames(&told) {
        assert_eq!(frame["link"], "hub", "{frame}");
        assert!(frame.get("bytes").is_none(), "a hub does not tell: {frame}");
    }
    let asked = frames(&told).iter().find(|frame| frame["method"] == "add" && frame["kind"] == "POST").unwrap();
    assert_eq!(
        (&asked["source"], &asked["target"], &asked["params"]),
        (&json!("hmi"), &json!("works"), &json!([1, 2]))
    );
    let answer = frames(&told).iter().find(|frame| frame["method"] == "add" && frame["kind"] == "SUCCESS").unwrap();
    assert_eq!((&answer["source"], &answer["result"], answer["ms"].is_number()), (&json!("works"), &json!(3), true));
    let failed = frames(&told).iter().find(|frame| frame["method"] == "nonesuch" && frame["kind"] == "ERROR").unwrap();
    assert_eq!(failed["code"], "MethodNotFound");
    assert!(told["counts"]["pairs"].as_u64() > Some(3), "{told}");
    scene.taps(0).await;
}

/// F-22: two who watch have a tap each; what one narrowed, or wanted carried, is not the other's.
#[tokio::test]
async fn f22_two_watches_on_a_hub_do_not_share_what_they_want() {
    let mut scene = Scene::on(Hub::mirroring().await).await;
    let mut other = client_of(plant(scene.bridge.clone(), &["hub"])).await;
    other.start("o", "watch_traffic", json!({"seconds": 60, "peer": "nobody", "payloads": true})).await;
    let filters = scene.taps(1).await;
    assert_eq!(
        (&filters[0]["peer"], &filters[0]["payloads"], &filters[0]["ttl"]),
        (&json!("nobody"), &json!(true), &json!(70))
    );
    let told = scene.watched(json!({"seconds": 60, "max_frames": 6})).await;
    assert!(frames(&told).iter().all(|frame| frame.get("params").is_none() && frame.get("result").is_none()), "{told}");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "o"}});
    other.send(&cancel).await;
    scene.taps(0).await;
    other.still_there().await;
}

/// F-08: a watch that is cancelled while the hub is still being asked leaves no tap behind.
#[tokio::test]
async fn f08_a_cancelled_watch_gives_its_tap_back() {
    let mut scene = Scene::on(Hub::mirroring().await).await;
    for round in 0..20 {
        let id = format!("w{round}");
        scene.client.start(&id, "watch_traffic", json!({"seconds": 60})).await;
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        scene.client.send(&cancel).await;
        scene.client.still_there().await;
    }
    // What was still on its way has been answered by now, or is answered before this.
    good(&mut scene.client, "describe_peer", json!({"peer": "works"})).await;
    scene.taps(0).await;
}

/// A hub without `bus` shows who comes and goes, and that this is all is said where it counts.
#[tokio::test]
async fn a_hub_that_mirrors_nothing_shows_who_comes_and_goes() {
    let mut scene = Scene::on(Hub::start().await).await;
    scene.client.start("w", "watch_traffic", json!({"seconds": 60, "max_frames": 2})).await;
    scene.client.still_there().await;
    let hub = &scene.hub;
    let coming = async {
        loop {
            let node = peer(vec![on_hub(hub, "visitor")], "visitor");
            meets(&node, "bus").await;
            node.leave();
        }
    };
    let told = tokio::select! {
        () = coming => unreachable!("they come for ever"),
        answer = timeout(PATIENCE, scene.client.read()) => content(answer.unwrap()),
    };
    let links = &told["links"][0];
    assert_eq!((&links["link"], &links["sees"]), (&json!("hub"), &json!("presence")), "{told}");
    assert!(links["why"].as_str().is_some_and(|why| !why.is_empty()), "{links}");
    assert!(told["note"].as_str().unwrap().contains("only who comes and goes was seen"), "{told}");
    for frame in frames(&told) {
        assert_eq!(
            (&frame["kind"], &frame["source"], &frame["link"]),
            (&json!("PRESENCE"), &json!("visitor"), &json!("hub"))
        );
    }
}

/// A hub that goes away and comes back has forgotten what it was asked: that is said, and it is asked again.
#[tokio::test]
async fn a_hub_that_comes_back_is_tapped_again() {
    let mut scene = Scene::on(Hub::mirroring().await).await;
    scene
        .client
        .start("w", "watch_traffic", json!({"seconds": 60, "max_frames": 8, "kinds": ["POST"], "peer": "hmi"}))
        .await;
    scene.taps(1).await;
    scene.hub.forget_taps();
    scene.hub.cut("bridge");
    scene.taps(1).await;
    let told = tokio::select! {
        () = calls(&scene.hmi) => unreachable!("it calls for ever"),
        answer = timeout(PATIENCE, scene.client.read()) => content(answer.unwrap()),
    };
    let gap = &told["interruptions"][0];
    assert!(gap["link"] == "hub" && gap["from"].is_string() && gap["to"].is_string(), "{told}");
    scene.taps(0).await;
}

/// Our own frames are among them and marked, and the works' events too.
#[tokio::test]
async fn own_frames_and_events_are_there() {
    let mut scene = Scene::on(Hub::mirroring().await).await;
    let watching = json!({"peer": "works", "namespace": "scale", "event": "weight"});
    good(&mut scene.client, "start_watch", watching).await;
    scene
        .client
        .start("w", "watch_traffic", json!({"seconds": 60, "max_frames": 1, "kinds": ["EVENT"], "payloads": true}))
        .await;
    let emitting = async {
        loop {
            scene.works.emit("scale", "weight", vec![7.into()]).await;
        }
    };
    let told = tokio::select! {
        () = emitting => unreachable!("it emits for ever"),
        answer = timeout(PATIENCE, scene.client.read()) => content(answer.unwrap()),
    };
    let frame = &frames(&told)[0];
    assert_eq!(
        (&frame["event"], &frame["own"], &frame["params"]),
        (&json!("weight"), &json!(true), &json!([7])),
        "{told}"
    );
}

/// A link that is no hub shows who comes and goes; one that is down shows nothing, which is an error if it is the only one.
#[tokio::test]
async fn without_any_network_it_says_so() {
    let (memory, _works, _node) = joined(false, None).await;
    let mut client = client_of(memory).await;
    let told = good(&mut client, "watch_traffic", json!({"seconds": 1})).await;
    assert_eq!(told["links"][0]["sees"], "presence", "{told}");
    let mut client = client_of(plant(peer(Vec::new(), "bridge"), &[])).await;
    let error = bad(&mut client, "watch_traffic", json!({})).await;
    assert_eq!(error["code"], "tap_unavailable", "{error}");
    assert!(error["fix"].as_str().unwrap().contains("--hub"), "{error}");
    let hub = Hub::start().await;
    let node = peer(vec![on_hub(&hub, "bridge")], "bridge");
    meets(&node, "bus").await;
    drop(hub);
    let down = |network: &plantbridge::node::Network| !network.is_up();
    assert!(down(&*node.network_when(PATIENCE, down).await));
    let mut client = client_of(plant(node, &["hub"])).await;
    let error = bad(&mut client, "watch_traffic", json!({"seconds": 1})).await;
    assert_eq!((&error["code"], &error["links"][0]["name"]), (&json!("network_unavailable"), &json!("hub")), "{error}");
}

/// Reads a scale for ever, and lets others have their turn.
#[cfg(feature = "demo")]
async fn reads(peer: &str, node: &Node) {
    loop {
        let (namespace, method, args) = ("scale".into(), "read".into(), Vec::new());
        let call = Call { peer: name(peer), namespace, method, args, timeout: Some(PATIENCE), idempotency_key: None };
        // What becomes of it is what the watch shows.
        let _ = node.call(call).await;
        tokio::task::yield_now().await;
    }
}

/// What was seen of each of two links.
#[cfg(feature = "demo")]
fn sees(told: &Json) -> [&str; 2] {
    [0, 1].map(|at| told["links"][at]["sees"].as_str().unwrap())
}

/// A broker and a hub at once: each frame says over which link it went, each link what is seen of it; a broker that is gone
/// is said to show nothing, and the hub goes on being shown.
#[cfg(feature = "demo")]
#[tokio::test]
async fn with_both_links_frames_are_marked_with_theirs() {
    use plantbridge::{
        demo::broker::Broker,
        link::mqtt,
        wire::{Prefix, Topics},
    };
    let (broker, hub) = (Broker::start().await.unwrap(), Hub::mirroring().await);
    let settings = |me: &str| {
        let topics = Topics::new(&Prefix::default(), name(me)).unwrap();
        let mut config = mqtt::Config::new(mqtt::BrokerUrl::parse(&broker.url()).unwrap(), topics);
        config.backoff_min = Duration::from_millis(1);
        config
    };
    let on_broker = |me: &str| mqtt::start(settings(me), LinkId(0));
    let idle = || Arc::new(Works::default());
    let _works = serve_as("works", vec![on_broker("works")], &idle(), None);
    let _also = serve_as("hub-works", vec![on_hub(&hub, "hub-works")], &idle(), None);
    let (one, two) = (peer(vec![on_broker("hmi")], "hmi"), peer(vec![on_hub(&hub, "hub-hmi")], "hub-hmi"));
    let bridge_links = vec![on_broker("bridge"), hub::start(config(&hub.url, "bridge"), LinkId(1))];
    let bridge = peer(bridge_links, "bridge").with_tap(LinkId(0), mqtt::Tap::new(settings("bridge")));
    for other in ["works", "hmi", "hub-works", "hub-hmi"] {
        meets(&bridge, other).await;
    }
    meets(&one, "works").await;
    meets(&two, "hub-works").await;
    let mut client = client_of(plant(bridge.clone(), &["mqtt", "hub"])).await;
    client.start("w", "watch_traffic", json!({"seconds": 60, "max_frames": 60, "limit": 60})).await;
    let told = tokio::select! {
        () = reads("works", &one) => unreachable!(),
        () = reads("hub-works", &two) => unreachable!(),
        answer = timeout(PATIENCE, client.read()) => content(answer.unwrap()),
    };
    assert_eq!(sees(&told), ["everything", "relayed"], "{told}");
    let mut seen = [false; 2];
    for frame in frames(&told).iter().filter(|frame| frame["kind"] == "POST" || frame["kind"] == "SUCCESS") {
        let parties = [frame["source"].as_str().unwrap(), frame["target"].as_str().unwrap()];
        let through_hub = parties.iter().all(|party| party.starts_with("hub-"));
        assert_eq!(frame["link"], if through_hub { "hub" } else { "mqtt" }, "{frame}");
        seen[usize::from(through_hub)] = true;
    }
    assert_eq!(seen, [true; 2], "{told}");
    broker.stop(Duration::from_secs(2)).await;
    let down = |network: &plantbridge::node::Network| !network.is_link_up(LinkId(0));
    bridge.network_when(PATIENCE, down).await;
    client.start("w", "watch_traffic", json!({"seconds": 60, "max_frames": 4})).await;
    let told = tokio::select! {
        () = reads("hub-works", &two) => unreachable!(),
        answer = timeout(PATIENCE, client.read()) => content(answer.unwrap()),
    };
    assert_eq!(sees(&told), ["nothing", "relayed"], "{told}");
    assert!(
        told["links"][0]["why"].is_string() && told["note"].as_str().unwrap().contains("nothing was seen of mqtt"),
        "{told}"
    );
}
