//! A bridge on a broker and on a hub at once: one roster, and each peer over the link that leads to it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use plantbridge::{
    demo::broker::Broker,
    link::{Link, LinkId, hub, mqtt},
    node::{Identity, Node, Serving},
    plant::{Plant, Settings},
    wire::{PeerName, Prefix, Topics},
};
use serde_json::{Value as Json, json};
use tokio::time::timeout;

use crate::{
    harness::Client,
    hub::{Hub, config},
    over::meets,
    plant::{Works, serve_as},
    tools::{bad, client_of, good},
};

fn name(text: &str) -> PeerName {
    PeerName::configured(text).unwrap()
}

fn on_broker(broker: &Broker, me: &str) -> Link {
    let topics = Topics::new(&Prefix::default(), name(me)).unwrap();
    let mut config = mqtt::Config::new(mqtt::BrokerUrl::parse(&broker.url()).unwrap(), topics);
    config.backoff_min = Duration::from_millis(1);
    config.backoff_max = Duration::from_millis(20);
    mqtt::start(config, LinkId(0))
}

fn on_hub(hub: &Hub, me: &str, id: u8) -> Link {
    hub::start(config(&hub.url, me), LinkId(id))
}

/// The bridge, `works` on both links, `mqtt-only` and `hub-only`.
struct Plants {
    broker: Broker,
    hub: Hub,
    bridge: Node,
    plant: Plant,
    works: Arc<Works>,
    others: Vec<Node>,
}

async fn plants() -> Plants {
    let (broker, hub) = (Broker::start().await.unwrap(), Hub::start().await);
    let works = Arc::new(Works::default());
    let both = vec![on_broker(&broker, "works"), on_hub(&hub, "works", 1)];
    let idle = Arc::new(Works::default());
    let others = vec![
        serve_as("works", both, &works, None),
        serve_as("mqtt-only", vec![on_broker(&broker, "mqtt-only")], &idle, None),
        serve_as("hub-only", vec![on_hub(&hub, "hub-only", 0)], &idle, None),
    ];
    let identity = Identity { name: name("bridge"), serving: Serving::default(), exposed: Vec::new() };
    let bridge = Node::start(identity, vec![on_broker(&broker, "bridge"), on_hub(&hub, "bridge", 1)]).0;
    for peer in ["works", "mqtt-only", "hub-only"] {
        meets(&bridge, peer).await;
    }
    links(&bridge, "works", &[0, 1]).await;
    let settings = Settings {
        read_only: false,
        call_timeout: Duration::from_secs(5),
        link_names: vec!["mqtt".into(), "hub".into()],
    };
    Plants { broker, hub, plant: Plant::new(bridge.clone(), settings), bridge, works, others }
}

/// Waits until a peer is known to be on exactly these links.
async fn links(bridge: &Node, peer: &str, expected: &[u8]) {
    let expected: Vec<LinkId> = expected.iter().map(|id| LinkId(*id)).collect();
    let known = |network: &plantbridge::node::Network| {
        network.roster.get(&name(peer)).is_some_and(|seen| seen.links == expected)
    };
    let network = bridge.network_when(Duration::from_secs(10), known).await;
    assert!(known(&network), "{:?}", network.roster.get(&name(peer)));
}

fn read(peer: &str) -> Json {
    json!({"peer": peer, "namespace": "scale", "method": "read", "args": []})
}

fn line<'a>(told: &'a Json, peer: &str) -> &'a Json {
    told["details"].as_array().unwrap().iter().find(|line| line["name"] == peer).unwrap()
}

/// F-18: a departure on one link removes nobody from the other, and the next call goes over what is left.
#[tokio::test]
async fn f18_a_peer_is_there_until_it_is_gone_from_every_link() {
    let plants = plants().await;
    let mut client = client_of(plants.plant.clone()).await;
    let told = good(&mut client, "list_peers", json!({})).await;
    assert_eq!(told["peers"], json!(["bus", "hub-only", "mqtt-only", "works"]));
    assert_eq!(line(&told, "works")["links"], json!(["mqtt", "hub"]));
    assert_eq!(line(&told, "hub-only")["links"], json!(["hub"]));
    assert_eq!(told["links_down"], Json::Null);
    for peer in ["works", "mqtt-only", "hub-only"] {
        assert_eq!(good(&mut client, "call_method", read(peer)).await["result"], 42, "{peer}");
    }
    plants.hub.keep_out("works");
    links(&plants.bridge, "works", &[0]).await;
    assert_eq!(good(&mut client, "call_method", read("works")).await["result"], 42);
    plants.hub.let_in();
    // It comes back by itself, and is one peer again on two links.
    links(&plants.bridge, "works", &[0, 1]).await;
    let told = good(&mut client, "list_peers", json!({"link": "hub"})).await;
    assert_eq!(told["peers"], json!(["bus", "hub-only", "works"]));
}

/// With the broker gone, what the hub leads to is called over it; what only the broker led to is said to be out of reach,
/// and a list says which link is down.
#[tokio::test]
async fn a_peer_on_both_is_called_over_the_link_that_is_up() {
    let Plants { broker, hub: _hub, bridge, plant, works, others: _others } = plants().await;
    let mut client = client_of(plant).await;
    let ran = || works.ran.lock().unwrap().len();
    good(&mut client, "call_method", read("works")).await;
    let before = ran();
    broker.stop(Duration::from_secs(2)).await;
    let down = |network: &plantbridge::node::Network| !network.is_link_up(LinkId(0));
    assert!(down(&*bridge.network_when(Duration::from_secs(10), down).await));
    assert_eq!(good(&mut client, "call_method", read("works")).await["result"], 42);
    assert_eq!(ran(), before + 1);
    let told = good(&mut client, "list_peers", json!({})).await;
    assert_eq!(told["peers"], json!(["bus", "hub-only", "works"]));
    assert_eq!(line(&told, "works")["links"], json!(["hub"]));
    assert_eq!((&told["links_down"][0]["name"], &told["links_down"][0]["state"]), (&json!("mqtt"), &json!("down")));
    let refused = bad(&mut client, "call_method", read("mqtt-only")).await;
    assert_eq!(
        (&refused["code"], &refused["outcome"]),
        (&json!("network_unavailable"), &json!("not_run")),
        "{refused}"
    );
    assert_eq!(refused["links"][1], json!({"name": "hub", "state": "up"}));
}

/// W-072, invariant 6: a command that is on its way over a link that goes down is in doubt, and is not sent again over the other
/// link, though the peer can be reached there. Either link may be the one.
#[tokio::test]
async fn w072_a_command_in_flight_is_not_sent_again_over_the_other_link() {
    let Plants { broker, hub, bridge, plant, works, others: _others } = plants().await;
    works.holds.store(true, Ordering::Relaxed);
    let ran = || works.ran.lock().unwrap().iter().filter(|(method, _)| method == "tare").count();
    let mut client = client_of(plant).await;
    let tare = json!({"peer": "works", "namespace": "scale", "method": "tare", "args": []});
    let begun = async |count: usize| {
        timeout(Duration::from_secs(10), async {
            while ran() < count {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("it does not begin");
    };
    // Over the broker, which is lower.
    client.start("a", "call_method", tare.clone()).await;
    begun(1).await;
    broker.stop(Duration::from_secs(2)).await;
    let answer = timeout(Duration::from_secs(10), client.read()).await.unwrap();
    let error = &answer["result"]["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["outcome"]), (&json!("unknown_outcome"), &json!("unknown")), "{error}");
    // What the peer answers over the hub comes after whatever had been sent there.
    assert_eq!(good(&mut client, "call_method", read("works")).await["result"], 42);
    assert_eq!(ran(), 1, "it ran a second time");
    // Over the hub, which is all there is. The first still holds its place, so this one waits behind it and does not begin.
    client.start("b", "call_method", tare).await;
    let read_again = json!({"peer": "works", "namespace": "scale", "method": "read", "args": []});
    client.start("c", "call_method", read_again).await;
    assert_eq!(timeout(Duration::from_secs(10), client.read()).await.unwrap()["id"], "c");
    hub.cut("bridge");
    let answer = timeout(Duration::from_secs(10), client.read()).await.unwrap();
    let error = &answer["result"]["structuredContent"]["error"];
    assert_eq!((&answer["id"], &error["outcome"]), (&json!("b"), &json!("unknown")), "{error}");
    let back = |network: &plantbridge::node::Network| {
        let works = network.roster.get(&name("works"));
        network.is_link_up(LinkId(1)) && works.is_some_and(|seen| network.reaches(seen))
    };
    assert!(back(&*bridge.network_when(Duration::from_secs(10), back).await));
    assert_eq!(good(&mut client, "call_method", read("works")).await["result"], 42);
    assert_eq!(ran(), 1);
}

/// A watch on a peer that is on both goes on over the hub when the broker is gone, and says that it may have missed something.
#[tokio::test]
async fn a_standing_watch_moves_to_the_link_that_is_up() {
    let Plants { broker, hub: _hub, bridge, plant, works: _works, others } = plants().await;
    let mut client = client_of(plant).await;
    let told =
        good(&mut client, "start_watch", json!({"peer": "works", "namespace": "scale", "event": "weight"})).await;
    let watch = told["watch"]["id"].as_str().or(told["watch"].as_str()).or(told["id"].as_str()).unwrap().to_owned();
    let works = &others[0];
    let seen = async |client: &mut Client, expected: i64| {
        timeout(Duration::from_secs(10), async {
            loop {
                works.emit("scale", "weight", vec![expected.into()]).await;
                let read = good(client, "read_watch", json!({"watch": watch})).await;
                if read.to_string().contains(&format!("[{expected}]")) {
                    return;
                }
            }
        })
        .await
        .expect("it is never heard");
    };
    seen(&mut client, 11).await;
    broker.stop(Duration::from_secs(2)).await;
    let down = |network: &plantbridge::node::Network| !network.is_link_up(LinkId(0));
    bridge.network_when(Duration::from_secs(10), down).await;
    seen(&mut client, 12).await;
}
