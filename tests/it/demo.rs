//! The demo as a whole: it starts, is what it says, and leaves nothing behind.

use std::time::Duration;

use crate::hub::{Hub, linked};
use plantbridge::{
    demo::{
        Demo, Peers,
        tour::{self, TourError},
    },
    link::{LinkId, mqtt},
    mcp::{Offer, Registry, Server, Tool, load::Limits, server::Config, tools},
    node::{Call, Identity, Network, Node, Serving},
    plant::{Plant, Settings},
    wire::{PeerName, Prefix, Topics, Value},
};
use tokio::{
    net::TcpStream,
    runtime::Handle,
    time::{Instant, timeout},
};

/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

fn name(text: &str) -> PeerName {
    PeerName::mqtt(text).unwrap()
}

/// Somebody else on the demo's network.
pub(crate) fn stranger(url: &str) -> Node {
    let topics = Topics::new(&Prefix::default(), name("hmi")).unwrap();
    let link = mqtt::start(mqtt::Config::new(mqtt::BrokerUrl::parse(url).unwrap(), topics), LinkId(0));
    let identity = Identity { name: name("hmi"), serving: Serving::default(), exposed: Vec::new() };
    Node::start(identity, vec![link]).0
}

/// Waits until no more than so many tasks are alive.
async fn only(tasks: usize) {
    let until = Instant::now() + PATIENCE;
    while Handle::current().metrics().num_alive_tasks() > tasks {
        assert!(Instant::now() < until, "tasks are left behind");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn it_starts_answers_and_leaves_nothing_behind() {
    let before = Handle::current().metrics().num_alive_tasks();
    let demo = Demo::start().await.unwrap();
    let url = demo.url().to_owned();
    let address = url.strip_prefix("mqtt://").unwrap().to_owned();
    let hmi = stranger(&url);
    let network = hmi.network_when(PATIENCE, |network| network.roster.iter().count() == 2).await;
    let mut peers: Vec<String> = network.roster.iter().map(|(peer, _)| peer.to_string()).collect();
    peers.sort();
    assert_eq!(peers, ["bakery", "packaging"]);
    assert!(network.roster.iter().all(|(_, seen)| seen.shape.is_some()), "both announce what they are");
    for (peer, namespace, method, args) in [
        ("bakery", "oven", "setSetpoint", vec![Value::Int(9000)]),
        ("packaging", "line", "setSpeed", vec![Value::Int(9000)]),
    ] {
        let (peer, namespace, method) = (name(peer), namespace.to_owned(), method.to_owned());
        let call = Call { peer, namespace, method, args, timeout: Some(PATIENCE), idempotency_key: None };
        let taken = hmi.call(call).await.unwrap().value.unwrap().as_f64().unwrap();
        assert!(taken < 300.0, "{taken}");
    }
    demo.stop().await;
    // They said goodbye before the broker went, so the last thing known of the network is that nobody is there.
    let empty = hmi.network_when(PATIENCE, |network| network.roster.iter().count() == 0).await;
    assert_eq!(empty.roster.iter().count(), 0);
    assert!(TcpStream::connect(&address).await.is_err(), "something still listens at {address}");
    hmi.leave();
    drop(hmi);
    only(before).await;
}

/// Whoever forgets to stop it, or does not come to it, leaves nothing behind either.
#[tokio::test]
async fn dropped_it_ends_as_well() {
    let before = Handle::current().metrics().num_alive_tasks();
    let demo = Demo::start().await.unwrap();
    assert!(Handle::current().metrics().num_alive_tasks() > before);
    drop(demo);
    only(before).await;
}

/// Two of them do not meet: each has its own port.
#[tokio::test]
async fn two_demos_stand_side_by_side() {
    let (one, other) = tokio::join!(Demo::start(), Demo::start());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_ne!(one.url(), other.url());
    timeout(PATIENCE, async { tokio::join!(one.stop(), other.stop()) }).await.expect("both end");
}

/// A server of these tools over what `node` sees.
fn server(node: Node, tools: Vec<Tool>) -> Server {
    let plant =
        Plant::new(node, Settings { read_only: false, call_timeout: PATIENCE, link_names: vec!["mqtt".into()] });
    let incidents = Box::new(|| "incident-1".to_owned());
    let config = Config { limits: Limits::default(), longest_call: None, cursor_key: [1; 32], incidents };
    Server::new(plant, Registry::new(tools, Offer::default()), config)
}

/// The whole bridge at work: SDK client, stdio door, tools, verbs, node, link, broker, and the bakery behind it.
#[tokio::test]
async fn the_tour_reaches_its_end_and_tells_what_it_saw() {
    let demo = Demo::start().await.unwrap();
    let guide = stranger(demo.url());
    assert!(guide.network_when(PATIENCE, Network::is_settled).await.is_settled());
    let mut said = Vec::new();
    tour::run(&server(guide.clone(), tools::all()), &mut said).await.unwrap();
    let said = String::from_utf8(said).unwrap();
    for words in ["bakery, packaging", "the oven took 280", "refused: the oven does not heat", "not sent: "] {
        assert!(said.contains(words), "{words:?} is missing:\n{said}");
    }
    guide.leave();
    demo.stop().await;
}

/// The same tour over a hub: what it shows of calls, states, rows, watches, tickets and control is the tools' own, and not
/// the broker's.
#[tokio::test]
async fn the_tour_reaches_its_end_over_a_hub() {
    let hub = Hub::start().await;
    let peers = Peers::start(linked(&hub.url, "bakery"), linked(&hub.url, "packaging")).await.unwrap();
    let identity = Identity { name: name("hmi"), serving: Serving::default(), exposed: Vec::new() };
    let guide = Node::start(identity, vec![linked(&hub.url, "hmi")]).0;
    assert!(guide.network_when(PATIENCE, Network::is_settled).await.is_settled());
    let mut said = Vec::new();
    let toured = tour::run(&server(guide.clone(), tools::all()), &mut said).await;
    let said = String::from_utf8(said).unwrap();
    toured.unwrap_or_else(|error| panic!("{error}\n{said}"));
    for words in ["bakery, bus, packaging", "the oven took 280", "refused: the oven does not heat", "not sent: "] {
        assert!(said.contains(words), "{words:?} is missing:\n{said}");
    }
    guide.leave();
    peers.stop().await;
}

/// A tour through a server that has no tools ends at its first step, and says which and why.
#[tokio::test]
async fn a_tour_stops_at_the_first_answer_that_is_not_what_it_must_be() {
    let identity = Identity { name: name("guide"), serving: Serving::default(), exposed: Vec::new() };
    let server = server(Node::start(identity, Vec::new()).0, Vec::new());
    let mut said = Vec::new();
    let toured = timeout(PATIENCE, tour::run(&server, &mut said)).await.expect("it ends by itself");
    match toured {
        Err(TourError::Step { number: 1, problem, .. }) => assert!(problem.contains("unknown_tool"), "{problem}"),
        other => panic!("{other:?}"),
    }
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("1. Who is on the network?") && said.contains("> list_peers {}"), "{said}");
}
