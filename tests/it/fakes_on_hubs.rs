//! Fakes on a hub, and on a broker and a hub at once: what they are to others, whose name they never take, and that nothing of
//! them is left.

use std::{sync::Arc, time::Duration};

use plantbridge::{
    demo::broker::Broker,
    fake::{Stage, Way},
    link::{LinkId, hub, loopback, mqtt},
    node::{Call, Heard, Identity, Network, Node, Running, Serving, Stream},
    plant::{ContractSource, Plant, PlantError, Principal, Settings, StartFake},
    wire::{
        PeerName, Prefix, Topics,
        json::from_json,
        signing::{KeyFile, Kin},
    },
};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    fakes::boiler,
    hub::{Hub, config},
    node::{Bell, identity},
    tools::{client_of, good},
};

const PATIENCE: Duration = Duration::from_secs(20);

fn name(text: &str) -> PeerName {
    PeerName::configured(text).unwrap()
}

fn by_broker(broker: &Broker, me: &str) -> mqtt::Config {
    let topics = Topics::new(&Prefix::default(), name(me)).unwrap();
    let mut config = mqtt::Config::new(mqtt::BrokerUrl::parse(&broker.url()).unwrap(), topics);
    config.backoff_min = Duration::from_millis(1);
    config.backoff_max = Duration::from_millis(20);
    config
}

/// A bridge as the command line puts it together.
struct Bridge {
    plant: Plant,
    node: Node,
    running: Running,
}

impl Bridge {
    async fn join(broker: Option<mqtt::Config>, hub: Option<&Hub>, kin: Option<Kin>) -> Self {
        let (inside, board) = loopback::board(name("bridge"));
        let link_names = [broker.as_ref().map(|_| "mqtt"), hub.map(|_| "hub")].into_iter().flatten();
        let settings = Settings {
            read_only: false,
            call_timeout: Duration::from_secs(10),
            link_names: link_names.map(str::to_owned).collect(),
        };
        let broker = broker.map(|config| Way::Broker(Box::new(config)));
        let hub = hub.map(|hub| Way::Hub(Box::new(config(&hub.url, "bridge"))));
        let ways: Vec<_> = (0..).map(LinkId).zip(broker.into_iter().chain(hub)).collect();
        let start = |(id, way): &(LinkId, Way)| match way {
            Way::Broker(config) => mqtt::start((**config).clone(), *id),
            Way::Hub(config) => hub::start((**config).clone(), *id),
        };
        let links = ways.iter().map(start).chain([inside]).collect();
        let (node, running) = Node::start(identity("bridge", None), links);
        let stage = Stage { board, ways, prefix: Prefix::default(), kin, minter: None, exec: None };
        let plant = Plant::with_fakes(node.clone(), settings, None, Some(stage));
        node.network_when(PATIENCE, Network::is_settled).await;
        Self { plant, node, running }
    }

    async fn on(hub: &Hub) -> Self {
        Self::join(None, Some(hub), None).await
    }

    async fn start(&self, name: &str) -> Result<Vec<String>, PlantError> {
        let request =
            StartFake { name: Some(name.into()), source: ContractSource::Inline(from_json(boiler())), script: None };
        let principal = Principal { client: "test".into(), read_only: false, entry: None };
        let started = self.plant.start_fake(&principal, request, &CancellationToken::new()).await?;
        Ok(started.warnings)
    }

    fn fakes(&self) -> Vec<String> {
        self.plant.list_fakes().fakes.iter().map(|fake| fake.name.to_string()).collect()
    }
}

/// Another peer, without any service.
fn stranger(link: plantbridge::link::Link, me: &str) -> Node {
    let identity = Identity { name: name(me), serving: Serving::default(), exposed: Vec::new() };
    Node::start(identity, vec![link]).0
}

fn hub_stranger(hub: &Hub, me: &str) -> Node {
    stranger(crate::hub::linked(&hub.url, me), me)
}

async fn sees(node: &Node, who: &str, there: bool) {
    let who = name(who);
    let seen = node.network_when(PATIENCE, |network| network.roster.get(&who).is_some() == there).await;
    assert_eq!(seen.roster.get(&who).is_some(), there, "{who}");
}

async fn until(what: impl Fn() -> bool) {
    let late = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < late, "it does not come to that");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn read(peer: &str) -> Call {
    Call {
        peer: name(peer),
        namespace: "boiler".into(),
        method: "read".into(),
        args: Vec::new(),
        timeout: Some(PATIENCE),
        idempotency_key: None,
    }
}

async fn answers(caller: &Node, peer: &str) {
    sees(caller, peer, true).await;
    let answer = caller.call(read(peer)).await.unwrap();
    assert_eq!(answer.value, Some(100.into()), "{peer}");
}

/// One fake on a hub from its start to its end: called and listened to by others, and no trace of it afterwards.
#[tokio::test]
async fn a_fake_is_a_peer_of_a_hub_like_any_other() {
    let hub = Hub::start().await;
    let bridge = Bridge::on(&hub).await;
    let hmi = hub_stranger(&hub, "hmi");
    let mut client = client_of(bridge.plant.clone()).await;
    let script = json!({"emits": [{"event": "boiler.alarm", "every": 50, "params": ["hot"]}]});
    let started =
        good(&mut client, "start_fake", json!({"name": "double", "schema": boiler(), "script": script})).await;
    assert!(started.get("key").is_none(), "nothing is signed there: {started}");
    answers(&hmi, "double").await;
    let stream = Stream { peer: name("double"), namespace: "boiler".into(), event: "alarm".into() };
    let mut alarms = hmi.subscribe(stream).unwrap();
    assert_eq!(alarms.next().await, Some(Heard::Attached));
    assert!(matches!(timeout(PATIENCE, alarms.next()).await.unwrap(), Some(Heard::Event { .. })));
    // Its bridge reaches it inside, and shows where it is.
    answers(&bridge.node, "double").await;
    let listed = good(&mut client, "list_peers", json!({})).await;
    let line = listed["details"].as_array().unwrap().iter().find(|line| line["name"] == "double").unwrap();
    assert_eq!((&line["links"], &line["kind"]), (&json!(["hub", "loopback"]), &json!("fake")), "{listed}");
    good(&mut client, "stop_fake", json!({"name": "double"})).await;
    sees(&hmi, "double", false).await;
    sees(&bridge.node, "double", false).await;
}

/// On a broker and a hub at once it is one peer, reached from either side, and gone from both.
#[tokio::test]
async fn on_a_broker_and_a_hub_it_is_one_peer() {
    let (broker, hub) = (Broker::start().await.unwrap(), Hub::start().await);
    let bridge = Bridge::join(Some(by_broker(&broker, "bridge")), Some(&hub), None).await;
    let on_broker = stranger(mqtt::start(by_broker(&broker, "scada"), LinkId(0)), "scada");
    let on_hub = hub_stranger(&hub, "hmi");
    bridge.start("double").await.unwrap();
    answers(&on_broker, "double").await;
    answers(&on_hub, "double").await;
    let links = bridge.node.network().roster.get(&name("double")).unwrap().links.clone();
    assert_eq!(links, [LinkId(0), LinkId(1), LinkId::INSIDE]);
    // One of the two networks away, the other still has it; and it comes back to the first.
    hub.cut("double");
    answers(&on_broker, "double").await;
    let back =
        |network: &Network| network.roster.get(&name("double")).is_some_and(|seen| seen.links.contains(&LinkId(1)));
    bridge.node.network_when(PATIENCE, back).await;
    answers(&on_hub, "double").await;
    bridge.plant.stop_all_fakes().await;
    sees(&on_broker, "double", false).await;
    sees(&on_hub, "double", false).await;
}

/// S-125, invariant 7: whoever is on any of the networks keeps the name.
#[tokio::test]
async fn s125_a_fake_takes_nobodys_name_on_either_network() {
    let (broker, hub) = (Broker::start().await.unwrap(), Hub::start().await);
    let _boiler = stranger(mqtt::start(by_broker(&broker, "boiler-1"), LinkId(0)), "boiler-1");
    let _oven = hub_stranger(&hub, "oven-1");
    let bridge = Bridge::join(Some(by_broker(&broker, "bridge")), Some(&hub), None).await;
    for taken in ["boiler-1", "oven-1", "bus", "bridge"] {
        until(|| taken == "bridge" || bridge.node.network().roster.get(&name(taken)).is_some()).await;
        assert!(matches!(bridge.start(taken).await, Err(PlantError::NameInUse { .. })), "{taken}");
    }
    assert_eq!(bridge.fakes(), Vec::<String>::new());
}

/// A device announces itself under the name of a fake: the hub hands it the name, and the fake ends, on both networks.
#[tokio::test]
async fn a_fake_leaves_its_name_to_a_peer_that_comes_to_the_hub() {
    let (broker, hub) = (Broker::start().await.unwrap(), Hub::start().await);
    let bridge = Bridge::join(Some(by_broker(&broker, "bridge")), Some(&hub), None).await;
    let on_broker = stranger(mqtt::start(by_broker(&broker, "scada"), LinkId(0)), "scada");
    bridge.start("tower").await.unwrap();
    sees(&on_broker, "tower", true).await;
    let bell = Arc::new(Bell::default());
    let real = Node::start(identity("tower", Some(bell)), vec![crate::hub::linked(&hub.url, "tower")]).0;
    until(|| bridge.fakes().is_empty()).await;
    until(|| bridge.plant.list_fakes().withdrawn.len() == 1).await;
    sees(&on_broker, "tower", false).await;
    // Who answers now is the real one, and it stays.
    let rung = crate::node::call("tower", "echo", vec![5.into()]);
    assert_eq!(bridge.node.call(rung).await.unwrap().value, Some(5.into()));
    assert!(real.network().is_up());
    assert!(matches!(bridge.start("tower").await, Err(PlantError::NameInUse { .. })));
}

/// Its own bridge reaches a fake while the hub is away, and others do again when it is back.
#[tokio::test]
async fn the_bridge_reaches_its_fakes_while_the_hub_is_away() {
    let hub = Hub::start().await;
    let bridge = Bridge::on(&hub).await;
    bridge.start("double").await.unwrap();
    hub.keep_out("bridge");
    hub.keep_out("double");
    bridge.node.network_when(PATIENCE, |network| !network.is_up()).await;
    answers(&bridge.node, "double").await;
    until(|| bridge.plant.list_fakes().fakes.iter().all(|fake| !fake.on_network)).await;
    hub.let_in();
    let hmi = hub_stranger(&hub, "hmi");
    answers(&hmi, "double").await;
    assert!(bridge.plant.list_fakes().withdrawn.is_empty(), "it did not take itself for somebody else");
}

/// A hub that does not have the fake: the start fails, says why, and leaves nothing, on neither network.
#[tokio::test]
async fn a_start_that_a_hub_refuses_leaves_nothing_anywhere() {
    let (broker, hub) = (Broker::start().await.unwrap(), Hub::start().await);
    let bridge = Bridge::join(Some(by_broker(&broker, "bridge")), Some(&hub), None).await;
    let on_broker = stranger(mqtt::start(by_broker(&broker, "scada"), LinkId(0)), "scada");
    bridge.start("double").await.unwrap();
    hub.keep_out("double");
    bridge.plant.stop_all_fakes().await;
    let bridge = {
        bridge.node.leave();
        bridge.running.ended().await;
        Bridge::join(Some(by_broker(&broker, "bridge")), Some(&hub), None).await
    };
    let refused = bridge.start("double").await.unwrap_err();
    assert!(matches!(refused, PlantError::FakeFailed { .. }), "{refused:?}");
    assert_eq!(bridge.fakes(), Vec::<String>::new());
    sees(&on_broker, "double", false).await;
    sees(&bridge.node, "double", false).await;
    hub.let_in();
    bridge.start("double").await.unwrap();
    answers(&on_broker, "double").await;
}

/// F-33: on a signed network a fake signs as itself. Who lists its key is answered; who does not hears nothing, which its
/// start says; and its bridge, which verifies too, reaches it all the same.
#[tokio::test]
async fn f33_a_fake_on_a_signed_network_signs_as_itself() {
    let broker = Broker::start().await.unwrap();
    let own = r#"{"name": "bridge", "ed25519": {"seed": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},
                  "peers": {"lists": "the secret of who lists it", "does-not": "the secret of who does not"}}"#;
    let file = KeyFile::parse(own).unwrap();
    let (kin, mut config) = (file.kin.clone(), by_broker(&broker, "bridge"));
    config.signing = Some(file.into());
    let bridge = Bridge::join(Some(config), None, Some(kin)).await;
    let warnings = bridge.start("double").await.unwrap();
    let listed = warnings.iter().find(|warning| warning.contains("until they list")).expect("others have to list it");
    let entry: Json = serde_json::from_str(&listed[listed.find('{').unwrap()..]).unwrap();
    let fake = &bridge.plant.list_fakes().fakes[0];
    let key = fake.key.clone().unwrap();
    assert_eq!((key.kind, key.public.as_deref()), ("Ed25519", entry["double"]["public"].as_str()));
    assert_ne!(key.public.as_deref(), Some("A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="), "not the bridge's own");
    assert!(warnings.iter().any(|warning| warning.contains("of nobody else")), "{warnings:?}");
    // Not there yet, and still somebody's: its device could not come beside a fake.
    let of_a_device = bridge.start("lists").await.unwrap_err();
    assert!(of_a_device.to_string().contains("the key file of this bridge lists 'lists'"), "{of_a_device}");
    let join = |me: &str, secret: &str, peers: Json| {
        let file = json!({"name": me, "secret": secret, "peers": peers});
        let mut config = by_broker(&broker, me);
        config.signing = Some(KeyFile::parse(&file.to_string()).unwrap().into());
        stranger(mqtt::start(config, LinkId(0)), me)
    };
    let lists = join("lists", "the secret of who lists it", entry);
    answers(&lists, "double").await;
    let does_not = join("does-not", "the secret of who does not", json!({}));
    sees(&does_not, "double", true).await;
    let call = Call { timeout: Some(Duration::from_millis(500)), ..read("double") };
    assert!(does_not.call(call).await.is_err(), "an answer it cannot verify is none");
    let unlisted = join("unlisted", "the secret of somebody else", json!({}));
    sees(&unlisted, "double", true).await;
    answers(&bridge.node, "double").await;
}
