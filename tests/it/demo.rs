//! The demo as a whole: it starts, is what it says, and leaves nothing behind.

use std::time::Duration;

use plantbridge::{
    demo::Demo,
    link::{LinkId, mqtt},
    node::{Call, Identity, Node, Serving},
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
fn stranger(url: &str) -> Node {
    let topics = Topics::new(&Prefix::default(), name("hmi")).unwrap();
    let link = mqtt::start(mqtt::Config::new(mqtt::BrokerUrl::parse(url).unwrap(), topics), LinkId(0));
    let identity = Identity { name: name("hmi"), serving: Serving::default(), exposed: Vec::new() };
    Node::start(identity, vec![link]).0
}

#[tokio::test]
async fn it_starts_answers_and_leaves_nothing_behind() {
    let before = Handle::current().metrics().num_alive_tasks();
    let demo = Demo::start().await.unwrap();
    let url = demo.url();
    let address = url.strip_prefix("mqtt://").unwrap().to_owned();
    let hmi = stranger(&url);
    let network = hmi.network_when(PATIENCE, |network| network.roster.iter().count() == 2).await;
    let peers: Vec<String> = network.roster.iter().map(|(peer, _)| peer.to_string()).collect();
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
    let until = Instant::now() + PATIENCE;
    while Handle::current().metrics().num_alive_tasks() > before {
        assert!(Instant::now() < until, "tasks are left behind");
        tokio::task::yield_now().await;
    }
}

/// Two of them do not meet: each has its own port.
#[tokio::test]
async fn two_demos_stand_side_by_side() {
    let (one, other) = tokio::join!(Demo::start(), Demo::start());
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_ne!(one.url(), other.url());
    timeout(PATIENCE, async { tokio::join!(one.stop(), other.stop()) }).await.expect("both end");
}
