//! Fakes through the tools, on the embedded broker: what they are to others, whose name they never take, and that nothing
//! of them is left.

use std::{sync::Arc, time::Duration};

use plantbridge::{
    demo::{Demo, broker::Broker},
    fake::{Exec, Stage, Way},
    link::{LinkId, loopback, mqtt},
    mcp::{Offer, tools},
    node::{Call, Heard, Identity, Network, Node, Running, Serving, Stream},
    plant::{ContractSource, Plant, PlantError, Principal, Settings, StartFake},
    wire::{PeerName, Prefix, Topics, Value, json::from_json},
};
use rumqttc::{AsyncClient, Broker as At, MqttOptions, PublishOptions};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    harness::{Client, Setup},
    node::identity,
    tools::{bad, client_of, good},
};

const PATIENCE: Duration = Duration::from_secs(20);

fn name(text: &str) -> PeerName {
    PeerName::mqtt(text).unwrap()
}

fn link(url: &str, me: &str) -> mqtt::Config {
    let topics = Topics::new(&Prefix::default(), name(me)).unwrap();
    mqtt::Config::new(mqtt::BrokerUrl::parse(url).unwrap(), topics)
}

/// A bridge as the command line puts it together.
pub(crate) struct Bridge {
    pub(crate) plant: Plant,
    pub(crate) node: Node,
    _running: Running,
}

impl Bridge {
    async fn join(url: &str, read_only: bool) -> Self {
        Self::join_as("bridge", url, read_only).await
    }

    async fn join_as(me: &str, url: &str, read_only: bool) -> Self {
        Self::join_with(me, url, read_only, None).await
    }

    /// One that runs code, in processes of this program.
    pub(crate) async fn join_to_run(url: &str, program: &std::path::Path) -> Self {
        Self::join_with(
            "bridge",
            url,
            false,
            Some(Exec::new(program.to_owned(), std::env::vars().filter(|(name, _)| name == "PATH").collect())),
        )
        .await
    }

    async fn join_with(me: &str, url: &str, read_only: bool, exec: Option<Exec>) -> Self {
        let (inside, board) = loopback::board(name(me));
        let ways = vec![(LinkId(0), Way::Broker(Box::new(link(url, me))))];
        let stage = Stage { board, ways, prefix: Prefix::default(), kin: None, minter: None, exec };
        let (node, running) = Node::start(identity(me, None), vec![mqtt::start(link(url, me), LinkId(0)), inside]);
        let settings = Settings { read_only, call_timeout: Duration::from_secs(10), link_names: vec!["mqtt".into()] };
        let plant = Plant::with_fakes(node.clone(), settings, None, Some(stage));
        node.network_when(PATIENCE, Network::is_settled).await;
        Self { plant, node, _running: running }
    }

    async fn start(&self, name: &str) -> Result<(), PlantError> {
        let request =
            StartFake { name: Some(name.into()), source: ContractSource::Inline(from_json(boiler())), script: None };
        let principal = Principal { client: "test".into(), read_only: false, entry: None };
        self.plant.start_fake(&principal, request, &CancellationToken::new()).await.map(drop)
    }

    fn fakes(&self) -> Vec<String> {
        self.plant.list_fakes().fakes.iter().map(|fake| fake.name.to_string()).collect()
    }
}

/// Another peer on the network, without any service.
fn stranger(url: &str, me: &str) -> Node {
    let identity = Identity { name: name(me), serving: Serving::default(), exposed: Vec::new() };
    Node::start(identity, vec![mqtt::start(link(url, me), LinkId(0))]).0
}

/// Another peer on the network, with a bell.
fn device(url: &str, me: &str) -> Node {
    let service = Arc::new(crate::node::Bell::default());
    Node::start(identity(me, Some(service)), vec![mqtt::start(link(url, me), LinkId(0))]).0
}

async fn sees(node: &Node, who: &str, there: bool) {
    let who = name(who);
    let seen = node.network_when(PATIENCE, |network| network.roster.get(&who).is_some() == there).await;
    assert_eq!(seen.roster.get(&who).is_some(), there, "{who}");
}

pub(crate) async fn until(what: impl Fn() -> bool) {
    let late = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < late, "it does not come to that");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn call(peer: &str, namespace: &str, method: &str, args: Vec<Value>) -> Call {
    Call {
        peer: name(peer),
        namespace: namespace.into(),
        method: method.into(),
        args,
        timeout: Some(PATIENCE),
        idempotency_key: None,
    }
}

pub(crate) fn boiler() -> Json {
    let number = json!({"kind": "number", "min": 0, "max": 200});
    json!({"schema": 1, "version": "1", "namespaces": {"boiler": {"version": "4", "capabilities": ["@acme/contracts/Heater"],
        "methods": {
            "read": {"params": [], "returns": number, "semantics": "query"},
            "setTarget": {"params": [number], "paramNames": ["celsius"], "returns": {"kind": "boolean"},
                          "semantics": "idempotent-command", "sets": "target"},
            "report": {"params": [], "returns": {"kind": "any"}, "semantics": "non-repeatable-command",
                       "deferred": {"result": {"kind": "number", "min": 7}, "progress": {"kind": "number"}}}},
        "events": {"alarm": {"params": [{"kind": "string"}]}},
        "component": {"snapshot": 1, "props": {"kind": "object", "fields": {}},
                      "state": {"kind": "object", "fields": {"target": {"type": {"kind": "number", "min": 10, "max": 90}}}}}}}})
}

/// The contract of the fake `double` can be read under its address, and is marked as that of a fake.
async fn shows_its_contract(client: &mut Client) {
    let served = client.ask("resources/read", &json!({"uri": "fake://double/contract"})).await["result"].take();
    assert_eq!(served["contents"][0]["mimeType"], "application/json", "{served}");
    let served: Json = serde_json::from_str(served["contents"][0]["text"].as_str().unwrap()).unwrap();
    let namespaces = &served["contract"]["namespaces"];
    assert_eq!(namespaces["boiler"]["methods"]["setTarget"]["sets"], "target", "{served}");
    assert_eq!(served["source"], json!({"peer": "double", "kind": "fake", "trust": "data"}));
}

/// One fake from its start to its end, through every tool that meets it.
#[tokio::test]
async fn a_fake_is_a_peer_like_any_other_and_says_what_it_is() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    let hmi = stranger(&broker.url(), "hmi");
    let mut client = client_of(bridge.plant.clone()).await;
    let script =
        json!({"returns": {"boiler.read": 21.5}, "emits": [{"event": "boiler.alarm", "every": 50, "params": ["hot"]}]});
    let started =
        good(&mut client, "start_fake", json!({"name": "double", "schema": boiler(), "script": script})).await;
    assert_eq!(
        (&started["peer"], &started["components"], &started["emits"]),
        (&json!("double"), &json!(["boiler"]), &json!(1))
    );
    assert_eq!((&started["source"]["kind"], started["warnings"].as_array().unwrap().len()), (&json!("fake"), 1));
    let warned = "require authority: boiler.setTarget, boiler.report run for everybody";
    assert!(started["warnings"][0].as_str().unwrap().contains(warned), "{started}");
    sees(&hmi, "double", true).await;

    let listed = good(&mut client, "list_peers", json!({"kind": "fake"})).await;
    assert_eq!((&listed["peers"], &listed["details"][0]["links"]), (&json!(["double"]), &json!(["mqtt", "loopback"])));
    let described = good(&mut client, "describe_peer", json!({"peer": "double"})).await;
    assert_eq!(described["source"]["kind"], "fake", "{described}");
    let found = good(&mut client, "find_capability", json!({"capability": "@acme/contracts/Heater"})).await;
    assert_eq!(found["matches"][0]["peer"], "double");
    let at = |method: &str| json!({"peer": "double", "namespace": "boiler", "method": method});
    let read = good(&mut client, "call_method", at("read")).await;
    assert_eq!(
        (&read["result"], &read["checked"], &read["source"]["kind"]),
        (&json!(21.5), &json!(true), &json!("fake"))
    );
    let report = json!({"peer": "double", "namespace": "boiler", "method": "report", "wait_seconds": 10});
    let report = good(&mut client, "call_method", report).await;
    assert_eq!((&report["ticket"]["state"], &report["result"]), (&json!("resolved"), &json!(7)), "{report}");
    let set = json!({"peer": "double", "namespace": "boiler", "path": "target", "value": 80, "verify_seconds": 5});
    assert_eq!(good(&mut client, "set_state", set).await["confirmed"], true);
    shows_its_contract(&mut client).await;
    let boiler_of = json!({"peer": "double", "namespace": "boiler"});
    assert_eq!(good(&mut client, "read_state", boiler_of).await["state"]["target"], 80);
    let watch = json!({"peer": "double", "namespace": "boiler", "event": "alarm", "seconds": 5, "max_events": 3});
    let heard = good(&mut client, "watch_events", watch).await;
    assert_eq!(heard["heard"].as_array().unwrap().len(), 3, "{heard}");
    let told = (&heard["heard"][0]["args"], &heard["loss_detail"]["verdict"]);
    assert_eq!(told, (&json!(["hot"]), &json!("first")), "{heard}");

    // Somebody else calls it over the network, and it is the same fake.
    let answer = hmi.call(call("double", "boiler", "read", vec![])).await.unwrap();
    assert_eq!(answer.value, Some(21.5.into()));
    let fakes = good(&mut client, "list_fakes", json!({})).await;
    assert_eq!((&fakes["fakes"][0]["peer"], &fakes["fakes"][0]["on_network"]), (&json!("double"), &json!(true)));
    assert!(
        fakes["fakes"][0]["calls"].as_u64().unwrap() >= 4 && fakes["fakes"][0]["events"].as_u64().unwrap() >= 3,
        "{fakes}"
    );

    assert_eq!(good(&mut client, "stop_fake", json!({"name": "double"})).await["stopped"], true);
    sees(&hmi, "double", false).await;
    sees(&bridge.node, "double", false).await;
    let unknown = bad(&mut client, "stop_fake", json!({"name": "double"})).await;
    assert_eq!((&unknown["code"], &unknown["outcome"]), (&json!("unknown_fake"), &json!("not_run")));
    assert_eq!(bad(&mut client, "call_method", at("read")).await["code"], "unknown_peer");
    assert_eq!(late_presence(&broker.url(), "double").await, None, "nothing is retained of it");
    // The name is free again, and a name is made up where none is given.
    good(&mut client, "start_fake", json!({"name": "double", "schema": boiler()})).await;
    let made_up = good(&mut client, "start_fake", json!({"from_peer": "double"})).await;
    assert!(made_up["peer"].as_str().unwrap().starts_with("fake-"), "{made_up}");
}

/// The contract with a store of one collection beside what it has.
fn with_a_store(mut contract: Json) -> Json {
    let fields = json!({"wall": {"type": {"kind": "record", "values": {"kind": "object", "fields": {
        "id": {"type": {"kind": "string"}}, "tag": {"type": {"kind": "string"}}}}}}});
    let any = json!({"kind": "any"});
    let verb = |params: Json| json!({"params": params, "returns": any});
    contract["namespaces"]["store"] = json!({"methods": {}, "component": {"snapshot": 1,
        "props": {"kind": "object", "fields": {}}, "state": {"kind": "object", "fields": fields}}});
    contract["namespaces"]["store.write"] = json!({"methods": {
        "writable": {"params": [], "returns": any, "semantics": "query"},
        "getOne": {"params": [any, any], "returns": any, "semantics": "query"},
        "create": verb(json!([any, any])), "update": verb(json!([any, any, any, any])),
        "delete": verb(json!([any, any, any]))}});
    contract
}

/// What is asked of the fake `double`, by every tool that gives its words.
fn asked_of_a_fake(contract: &Json) -> [(&'static str, Json); 15] {
    let boiler = |more: Json| {
        let mut arguments = json!({"peer": "double", "namespace": "boiler"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let store = |more: Json| {
        let mut arguments = json!({"peer": "double", "namespace": "store", "resource": "wall"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    [
        ("read_state", boiler(json!({}))),
        ("take_control", boiler(json!({"take": true}))),
        ("release_control", boiler(json!({}))),
        ("read_context", json!({"peer": "double", "node": "boiler", "token": "acme.site", "axis": "physical"})),
        ("describe_peer", json!({"peer": "double"})),
        ("check_peer", json!({"peer": "double", "schema": contract})),
        ("call_method", boiler(json!({"method": "read"}))),
        ("set_state", boiler(json!({"path": "target", "value": 20}))),
        ("set_state", boiler(json!({"path": "target", "value": 20, "expect": {"value": 77}}))),
        ("watch_events", boiler(json!({"event": "alarm", "seconds": 1}))),
        ("list_writable", json!({"peer": "double", "namespace": "store"})),
        ("list_rows", store(json!({}))),
        ("read_row", store(json!({"id": "1"}))),
        ("write_row", store(json!({"verb": "update", "id": "1", "row": {"tag": "N-25"}, "stamp": "old"}))),
        ("write_row", store(json!({"verb": "update", "id": "1", "row": {"tag": "N-25"}, "stamp": "old"}))),
    ]
}

/// S-126: whatever tool gives the words of a fake says that they are those of one, to the bridge that holds it and to
/// another that has asked it nothing before.
#[tokio::test]
async fn s126_every_tool_that_gives_the_words_of_a_fake_says_so() {
    let broker = Broker::start().await.unwrap();
    let holder = Bridge::join(&broker.url(), false).await;
    let mut starter = client_of(holder.plant.clone()).await;
    let contract = with_a_store(boiler());
    let script = json!({"rows": {"store.write": {"wall": {"1": {"id": "1", "tag": "N-24"}}}}});
    let started =
        good(&mut starter, "start_fake", json!({"name": "double", "schema": contract, "script": script})).await;
    assert_eq!(started["collections"], 1, "{started}");
    let asked = asked_of_a_fake(&contract);
    // Those that name a peer and give none of its words: what they begin is collected by another tool.
    let silent = ["start_watch", "watch_traffic"];
    for tool in starter.ask("tools/list", &json!({})).await["result"]["tools"].as_array().unwrap() {
        let takes_peer = tool["inputSchema"]["properties"].get("peer").is_some();
        let name = tool["name"].as_str().unwrap();
        let known = silent.contains(&name) || asked.iter().any(|(asked, _)| *asked == name);
        assert!(!takes_peer || known, "{name} is not held to it here");
    }
    for (at, (tool, arguments)) in asked.into_iter().enumerate() {
        // Each asks through a bridge that knows nothing of it yet.
        let other = Bridge::join_as(&format!("other-{at}"), &broker.url(), false).await;
        sees(&other.node, "double", true).await;
        let mut stranger = client_of(other.plant.clone()).await;
        for client in [&mut starter, &mut stranger] {
            let told = good(client, tool, arguments.clone()).await;
            let source = json!({"peer": "double", "kind": "fake", "trust": "data"});
            assert_eq!(told["source"], source, "{tool} {arguments}: {told}");
        }
        if tool == "read_state" {
            let watch =
                good(&mut stranger, "start_watch", json!({"peer": "double", "namespace": "boiler"})).await["watch"]
                    .clone();
            let read = good(&mut stranger, "read_watch", json!({"watch": watch})).await;
            assert_eq!(read["source"]["kind"], "fake", "{read}");
        }
        other.node.leave();
    }
}

/// S-111 and 10.3: a fake of a peer requires authority where the peer does; what later answers the peer does not describe is
/// said. A fake of the same contract without the peer requires none, and says so, even while the other one stands.
#[tokio::test]
async fn a_fake_of_a_peer_requires_authority_where_the_peer_does() {
    let demo = Demo::start().await.unwrap();
    let bridge = Bridge::join(demo.url(), false).await;
    let mut client = client_of(bridge.plant.clone()).await;
    let started = good(&mut client, "start_fake", json!({"name": "twin", "from_peer": "bakery"})).await;
    assert!(started["warnings"].to_string().contains("oven.bake: the peer answers with what looks like"), "{started}");
    let at = |peer: &str| json!({"peer": peer, "namespace": "oven", "method": "calibrate", "args": [1]});
    let refused = bad(&mut client, "call_method", at("twin")).await;
    assert_eq!((&refused["code"], &refused["outcome"]), (&json!("not_in_control"), &json!("not_run")), "{refused}");
    let described = |peer: &str| json!({"peer": peer, "namespace": "oven", "format": "detailed"});
    let twin = good(&mut client, "describe_peer", described("twin")).await;
    let real = good(&mut client, "describe_peer", described("bakery")).await;
    let authority = |told: &Json| {
        let methods = told["namespaces"][0]["methods"].as_array().unwrap().clone();
        methods
            .into_iter()
            .map(|method| (method["name"].clone(), method["requiresAuthority"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(authority(&twin), authority(&real));
    good(&mut client, "take_control", json!({"peer": "twin", "namespace": "oven"})).await;
    good(&mut client, "call_method", at("twin")).await;
    bridge.plant.stop_all_fakes().await;
    demo.stop().await;
}

/// What the broker retains of a peer, seen by one who comes later.
async fn late_presence(url: &str, who: &str) -> Option<()> {
    let late = stranger(url, "late-comer");
    let network = late.network_when(PATIENCE, Network::is_settled).await;
    assert!(network.is_settled());
    let there = network.roster.get(&name(who)).map(drop);
    late.leave();
    there
}

/// S-125, F-32, invariant 7: the bridge, its fakes and whoever is on the network keep their names.
#[tokio::test]
async fn s125_a_fake_takes_nobodys_name() {
    let demo = Demo::start().await.unwrap();
    let bridge = Bridge::join(demo.url(), false).await;
    let mut client = client_of(bridge.plant.clone()).await;
    let mut start = async |who: &str| {
        let result = client.call("start_fake", json!({"name": who, "schema": boiler()})).await;
        result["structuredContent"]["error"].clone()
    };
    assert_eq!(start("double").await, Json::Null);
    for (who, says) in
        [("bridge", "this bridge itself"), ("double", "already being served"), ("bakery", "already a peer")]
    {
        let error = start(who).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!("name_in_use"), &json!("not_run")), "{who}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    for unusable in ["a b", "a/b", "a#"] {
        assert_eq!(start(unusable).await["code"], "bad_argument", "{unusable}");
    }
    // The device was not touched: it is the oven that answers.
    let answer = bridge.node.call(call("bakery", "oven", "read", vec![])).await.unwrap();
    assert!(answer.value.unwrap().get("setpoint").is_some());
    assert_eq!(bridge.fakes(), ["double"]);
    bridge.plant.stop_all_fakes().await;
    demo.stop().await;
}

/// F-32: of two starts of one name at one instant exactly one wins, and the other left nothing.
#[tokio::test]
async fn f32_of_two_starts_of_one_name_one_wins() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    for round in 0..5 {
        let who = format!("double-{round}");
        let started = tokio::join!(bridge.start(&who), bridge.start(&who), bridge.start(&who));
        let started = [started.0, started.1, started.2];
        assert_eq!(started.iter().filter(|one| one.is_ok()).count(), 1, "{started:?}");
        let refused = |one: &Result<(), PlantError>| matches!(one, Err(PlantError::NameInUse { .. }));
        assert_eq!(started.iter().filter(|one| refused(one)).count(), 2, "{started:?}");
        assert!(bridge.node.call(call(&who, "boiler", "read", vec![])).await.is_ok());
    }
    assert_eq!(bridge.fakes().len(), 5);
}

/// The real one comes: the broker hands it the name, and the fake does not take it back.
#[tokio::test]
async fn a_fake_leaves_its_name_to_a_peer_that_comes_later() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    let mut client = client_of(bridge.plant.clone()).await;
    bridge.start("tower").await.unwrap();
    let real = device(&broker.url(), "tower");
    until(|| bridge.fakes().is_empty()).await;
    let gone = good(&mut client, "list_fakes", json!({})).await;
    assert_eq!((&gone["matched"], &gone["withdrawn"][0]["peer"]), (&json!(0), &json!("tower")));
    assert!(gone["withdrawn"][0]["reason"].as_str().unwrap().contains("another peer"));
    sees(&bridge.node, "tower", true).await;
    until(|| real.network().is_up()).await;
    // Who answers now is the real one, and it stays.
    let rung = bridge.node.call(call("tower", "bell", "echo", vec![5.into()])).await.unwrap();
    assert_eq!(rung.value, Some(5.into()));
    assert!(real.network().is_up());
    assert!(matches!(bridge.start("tower").await, Err(PlantError::NameInUse { .. })));
    assert_eq!(late_presence(&broker.url(), "tower").await, Some(()));
}

/// One that goes by another client id is not kept off by the broker; its presence says that it is there, and stays.
#[tokio::test]
async fn a_fake_leaves_its_name_to_a_presence_that_is_not_its_own() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    bridge.start("tower").await.unwrap();
    let address = broker.address();
    let options = MqttOptions::new("something-else", At::tcp(address.ip().to_string(), address.port()));
    let (client, mut events) = AsyncClient::builder(options).capacity(8).build();
    let pump = tokio::spawn(async move { while events.poll().await.is_ok() {} });
    let retained = PublishOptions::at_least_once().retain(true);
    client.publish("msgrpc/v2/presence/tower", "online".to_owned(), retained).await.unwrap();
    until(|| bridge.fakes().is_empty()).await;
    until(|| bridge.plant.list_fakes().withdrawn.len() == 1).await;
    assert_eq!(late_presence(&broker.url(), "tower").await, Some(()), "what it says of itself was left alone");
    pump.abort();
}

/// Its own bridge reaches a fake when the network is away, and says what it cannot see then.
#[tokio::test]
async fn the_bridge_reaches_its_fakes_without_any_network() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    let mut client = client_of(bridge.plant.clone()).await;
    good(&mut client, "start_fake", json!({"name": "double", "schema": boiler()})).await;
    broker.stop(Duration::from_secs(5)).await;
    bridge.node.network_when(PATIENCE, |network| !network.is_up()).await;
    let read = json!({"peer": "double", "namespace": "boiler", "method": "read"});
    assert_eq!(good(&mut client, "call_method", read).await["result"], 100);
    let set = json!({"peer": "double", "namespace": "boiler", "path": "target", "value": 20, "verify_seconds": 5});
    assert_eq!(good(&mut client, "set_state", set).await["confirmed"], true);
    let listed = good(&mut client, "list_peers", json!({})).await;
    assert_eq!((&listed["peers"], &listed["details"][0]["kind"]), (&json!(["double"]), &json!("fake")));
    assert!(listed["note"].as_str().unwrap().contains("away"), "{listed}");
    until(|| bridge.plant.list_fakes().fakes.iter().all(|fake| !fake.on_network)).await;
    // Nobody can know now who has a name, and nobody else can be reached.
    let refused = bad(&mut client, "start_fake", json!({"name": "another", "schema": boiler()})).await;
    assert_eq!(
        (&refused["code"], &refused["links"][0]["state"]),
        (&json!("network_unavailable"), &json!("down")),
        "{refused}"
    );
    let elsewhere = json!({"peer": "bakery", "namespace": "oven", "method": "read"});
    assert_eq!(bad(&mut client, "call_method", elsewhere).await["code"], "network_unavailable");
    let stopped = good(&mut client, "stop_fake", json!({"name": "double"})).await;
    assert_eq!((&stopped["stopped"], &stopped["on_network"]), (&json!(true), &json!(false)));
    assert_eq!(bad(&mut client, "list_peers", json!({})).await["code"], "network_unavailable");
}

/// A start that nobody waits for any more leaves nothing, at whatever point it was given up.
#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    for polls in [1, 2, 3, 5, 8, 13, 21] {
        {
            let mut start = std::pin::pin!(bridge.start("double"));
            for _ in 0..polls {
                let once = timeout(Duration::from_millis(1), start.as_mut()).await;
                if once.is_ok() {
                    break;
                }
            }
        }
        if bridge.fakes().is_empty() {
            // The name is held until the last of it is gone, and free then.
            let free = async {
                while let Err(error) = bridge.start("double").await {
                    assert!(matches!(error, PlantError::NameInUse { .. }), "{error:?}");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            timeout(PATIENCE, free).await.expect("the name is free again");
        }
        let principal = Principal { client: "test".into(), read_only: false, entry: None };
        bridge.plant.stop_fake(&principal, "double").await.unwrap();
        sees(&bridge.node, "double", false).await;
        assert_eq!(late_presence(&broker.url(), "double").await, None);
    }
}

/// S-071: who leaves the network no longer listens, though the fake itself hears of nobody.
#[tokio::test]
async fn s071_whoever_leaves_no_longer_listens_to_a_fake() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    bridge.start("double").await.unwrap();
    let hmi = stranger(&broker.url(), "hmi");
    sees(&hmi, "double", true).await;
    sees(&bridge.node, "hmi", true).await;
    let stream = Stream { peer: name("double"), namespace: "boiler".into(), event: "alarm".into() };
    let mut events = hmi.subscribe(stream).unwrap();
    while events.next().await != Some(Heard::Attached) {}
    let listening = async || {
        let answer = bridge.node.call(call("double", "msgrpc", "describe", vec![])).await.unwrap().value.unwrap();
        let namespaces = answer.get("namespaces").and_then(Value::as_array).unwrap().to_vec();
        let boiler = namespaces.iter().find(|one| one.get("name") == Some(&"boiler".into())).unwrap().clone();
        boiler.get("events").and_then(Value::as_array).unwrap()[0].get("subscribers").unwrap().as_i64().unwrap()
    };
    assert_eq!(listening().await, 1);
    // It goes without a word to the fake.
    hmi.leave();
    drop(events);
    sees(&bridge.node, "hmi", false).await;
    let late = Instant::now() + PATIENCE;
    while listening().await != 0 {
        assert!(Instant::now() < late, "it still counts as listening");
    }
}

/// What cannot be served is refused with where and what, before anything joins.
#[tokio::test]
async fn what_cannot_be_served_is_refused_with_where_and_what() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    let mut client = client_of(bridge.plant.clone()).await;
    let with = |node: Json| {
        json!({"schema": 1, "types": {"Node": {"kind": "object", "fields": {"next": {"type": {"kind": "ref", "name": "Node"}, "optional": true}}}},
               "namespaces": {"p": {"methods": {"m": {"params": [node], "returns": {"kind": "ref", "name": "Node"}}}}}})
    };
    for (contract, pointer) in [
        (json!({}), ""),
        (json!({"schema": 2, "namespaces": {}}), "/schema"),
        (json!({"schema": 1, "namespaces": []}), "/namespaces"),
        (json!({"schema": 1, "namespaces": {}}), "/namespaces"),
        (with(json!({"kind": "ref", "name": "toString"})), "/namespaces/p/methods/m/params/0"),
        (with(json!({"kind": "decimal"})), "/namespaces/p/methods/m/params/0"),
        (with(json!({"kind": "string", "pattern": "(?<=a)b"})), "/namespaces/p/methods/m/params/0/pattern"),
        (with(json!({"kind": "string", "pattern": "("})), "/namespaces/p/methods/m/params/0/pattern"),
    ] {
        let error = bad(&mut client, "start_fake", json!({"schema": contract})).await;
        assert_eq!(
            (&error["code"], &error["problems"][0]["pointer"]),
            (&json!("invalid_contract"), &json!(pointer)),
            "{error}"
        );
        assert_eq!(error["outcome"], "not_run");
    }
    for (levels, code) in [(40, "invalid_contract"), (80, "bad_argument")] {
        let mut deep = json!({"kind": "number"});
        for _ in 0..levels {
            deep = json!({"kind": "array", "items": deep});
        }
        assert_eq!(bad(&mut client, "start_fake", json!({"schema": with(deep)})).await["code"], code, "{levels}");
    }
    for (arguments, argument) in [
        (json!({}), "/schema"),
        (json!({"schema": boiler(), "from_peer": "x"}), "/from_peer"),
        (json!({"contract": "x", "from_peer": "x"}), "/from_peer"),
        (json!({"contract": "x", "schema": boiler()}), "/contract"),
        (json!({"contract": "../x"}), "/contract"),
        (json!({"schema": "boiler"}), "/schema"),
    ] {
        let error = bad(&mut client, "start_fake", arguments).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!(argument)), "{error}");
    }
    assert_eq!(bad(&mut client, "start_fake", json!({"from_peer": "nobody"})).await["code"], "unknown_peer");
    let script = json!({"returns": {"boiler.read": 900}, "emits": [{"event": "boiler.alarm", "every": 10}]});
    let error = bad(&mut client, "start_fake", json!({"schema": boiler(), "script": script})).await;
    let pointers: Vec<&Json> =
        error["problems"].as_array().unwrap().iter().map(|problem| &problem["pointer"]).collect();
    assert_eq!(
        (&error["code"], pointers),
        (&json!("invalid_script"), vec![&json!("/returns/boiler.read"), &json!("/emits/0/every")])
    );
    let script = json!({"handlers": {"boiler.read": "() => 1"}});
    let error = bad(&mut client, "start_fake", json!({"schema": boiler(), "script": script})).await;
    assert_eq!((&error["code"], &error["uses"]), (&json!("exec_disabled"), &json!(["handlers"])));
    assert!(bridge.fakes().is_empty());
    assert_eq!(bridge.node.network().roster.len(), 0, "nothing ever joined");
}

/// A type that is made of itself, and names that objects have by themselves, are served.
#[tokio::test]
async fn odd_types_and_names_are_served() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    let mut client = client_of(bridge.plant.clone()).await;
    let next = json!({"type": {"kind": "ref", "name": "Node"}, "optional": true});
    let odd = json!({"schema": 1, "types": {"Node": {"kind": "object", "fields": {"next": next}}}, "namespaces": {"__proto__": {
        "methods": {"toString": {"params": [], "returns": {"kind": "ref", "name": "Node"}, "semantics": "query"}}}}});
    good(&mut client, "start_fake", json!({"name": "odd", "schema": odd})).await;
    let asked = json!({"peer": "odd", "namespace": "__proto__", "method": "toString"});
    assert_eq!(good(&mut client, "call_method", asked).await["result"], json!({}));
}

/// A bridge that may only look stands nobody up; it may list them.
#[tokio::test]
async fn a_bridge_that_may_only_look_starts_no_fake() {
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), true).await;
    let mut client = client_of(bridge.plant.clone()).await;
    for (tool, arguments) in [("start_fake", json!({"schema": boiler()})), ("stop_fake", json!({"name": "x"}))] {
        let error = bad(&mut client, tool, arguments).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!("read_only"), &json!("not_run")));
    }
    assert_eq!(good(&mut client, "list_fakes", json!({})).await["fakes"], json!([]));
    // The gate holds by itself, whoever calls the verb.
    assert!(matches!(bridge.start("double").await, Err(PlantError::ReadOnly { .. })));
}

/// Sixty-four at once: every call is answered, and two seconds after the end nothing of any of them is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_fakes_answer_and_are_gone_at_the_end() {
    const MANY: usize = 64;
    let broker = Broker::start().await.unwrap();
    let bridge = Bridge::join(&broker.url(), false).await;
    let hmi = stranger(&broker.url(), "hmi");
    let names: Vec<String> = (0..MANY).map(|at| format!("double-{at:02}")).collect();
    let mut client =
        Client::over(bridge.plant.clone(), tools::all(), &Setup { offer: Offer::default(), ..Setup::default() });
    client.initialize("2025-06-18").await;
    let script = json!({"emits": [{"event": "boiler.alarm", "every": 1000}]});
    for who in &names {
        good(&mut client, "start_fake", json!({"name": who, "schema": boiler(), "script": script})).await;
    }
    let all =
        |network: &Network| network.roster.iter().filter(|(peer, _)| peer.as_str().starts_with("double-")).count();
    hmi.network_when(PATIENCE, |network| all(network) == MANY).await;
    for who in &names {
        for node in [&hmi, &bridge.node] {
            let answer = node.call(call(who, "boiler", "read", vec![])).await;
            assert_eq!(answer.unwrap().value, Some(100.into()), "{who}");
        }
    }
    assert_eq!(bridge.plant.list_fakes().fakes.iter().map(|fake| fake.calls).sum::<u64>(), 2 * MANY as u64);
    let ending = Instant::now();
    bridge.plant.stop_all_fakes().await;
    let gone = hmi.network_when(PATIENCE, |network| all(network) == 0).await;
    assert_eq!(all(&gone), 0);
    assert!(ending.elapsed() < Duration::from_secs(2), "{:?}", ending.elapsed());
    assert!(bridge.fakes().is_empty());
    let late = stranger(&broker.url(), "late-comer");
    let swept = late.network_when(PATIENCE, Network::is_settled).await;
    assert_eq!(all(&swept), 0, "nothing is retained");
    assert!(matches!(bridge.start("double").await, Err(PlantError::Unwanted)), "none is started any more");
}
