//! Contracts through the tools: kept on disk, held against live peers, and peers against each other.

use std::{fs, sync::Arc, time::Duration};

use plantbridge::{
    contract::{Contract, ServedNamespace},
    link::{Link, LinkId, loopback},
    mcp::{Offer, tools},
    node::{Exposed, Identity, Incoming, Node, Service, ServiceFuture, Serving, state::MAILBOX},
    plant::{ContractSource, Plant, PlantError, Purpose, Settings},
    wire::{Map, PeerName, json::from_json},
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    harness::{Client, Setup},
    tools::{bad, good},
};

/// Serves what a contract declares and does nothing.
#[derive(Debug)]
struct Idle;

impl Service for Idle {
    fn run(&self, _: Node, _: Incoming) -> ServiceFuture {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A peer that serves `contract`, and our end of the link to it. Without introspection it says nothing of itself.
fn peer(name: &str, contract: &Json, introspection: bool) -> (Link, Node) {
    let named = |text| PeerName::configured(text).unwrap();
    let (ours, theirs) = loopback::pair(named("bridge"), named(name));
    let contract = Contract::parse(&from_json(contract.clone())).unwrap();
    let exposed = contract.namespaces.iter().map(|namespace| {
        let exposed = Exposed {
            name: namespace.name.clone(),
            surface: ServedNamespace::declared(namespace, "Pump"),
            validate: true,
            component: namespace.component.as_ref().map(|_| (Map::new(), Map::new())),
            mailbox: MAILBOX,
            path_writes: false,
        };
        let service: Arc<dyn Service> = Arc::new(Idle);
        (exposed, service)
    });
    let serving = Serving {
        version: contract.version.clone(),
        types: contract.types.clone(),
        types_entry: contract.types_entry.clone(),
        introspection,
        ..Serving::default()
    };
    let identity = Identity { name: named(name), serving, exposed: exposed.collect() };
    (ours, Node::start(identity, vec![theirs]).0)
}

/// A pump's contract with a bound inside a named type.
fn pump(max: u32) -> Json {
    json!({"schema": 1, "version": "3",
        "types": {"Rate": {"kind": "number", "min": 0, "max": max},
            "Flow": {"kind": "object", "fields": {"rate": {"type": {"kind": "ref", "name": "Rate"}}, "at": {"type": {"kind": "date"}}}}},
        "namespaces": {"pump": {"version": "2", "capabilities": ["@plant/contracts/Pump"],
            "methods": {
                "setRate": {"params": [{"kind": "ref", "name": "Rate"}], "paramNames": ["rate"], "semantics": "idempotent-command",
                    "effect": "operate", "sets": "rate"},
                "flow": {"params": [], "returns": {"kind": "ref", "name": "Flow"}, "semantics": "query"}},
            "events": {"tripped": {"params": [{"kind": "string"}]}},
            "component": {"snapshot": 1, "props": {"kind": "object", "fields": {}},
                "state": {"kind": "object", "fields": {"rate": {"type": {"kind": "ref", "name": "Rate"}}}}}}}})
}

struct Scene {
    client: Client,
    folder: TempDir,
    plant: Plant,
    _nodes: Vec<Node>,
}

impl Scene {
    /// A bridge with a directory of contracts, and these peers.
    async fn new(peers: Vec<(Link, Node)>, read_only: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (mut links, nodes): (Vec<Link>, Vec<Node>) = peers.into_iter().unzip();
        for (link, number) in links.iter_mut().zip(0..) {
            link.id = LinkId(number);
        }
        let identity = Identity {
            name: PeerName::configured("bridge").unwrap(),
            serving: Serving::default(),
            exposed: Vec::new(),
        };
        let link_names = links.iter().map(|_| "memory".to_owned()).collect();
        let settings = Settings { read_only, call_timeout: Duration::from_secs(5), link_names };
        let directory = Some(folder.path().join("contracts"));
        let plant = Plant::with_contracts(Node::start(identity, links).0, settings, directory);
        let setup = Setup { offer: Offer { read_only, contracts: true, ..Offer::default() }, ..Setup::default() };
        let mut client = Client::over(plant.clone(), tools::all(), &setup);
        client.initialize("2025-06-18").await;
        Self { client, folder, plant, _nodes: nodes }
    }

    fn put(&self, file: &str, text: &str) {
        let folder = self.folder.path().join("contracts");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.folder.path().join("contracts").join(file)).unwrap()
    }
}

/// tools.md 3.5: saved, listed, read back and deleted; a directory that is not there is an empty list.
#[tokio::test]
async fn a_contract_goes_to_the_disk_and_back() {
    let mut scene = Scene::new(Vec::new(), false).await;
    let client = &mut scene.client;
    let empty = good(client, "list_contracts", json!({})).await;
    assert_eq!((&empty["directory"], &empty["contracts"]), (&json!("contracts"), &json!([])));
    let saved = good(client, "save_contract", json!({"name": "pump", "schema": pump(40)})).await;
    assert_eq!((&saved["file"], &saved["overwrote"]), (&json!("pump.types.json"), &Json::Null));
    let again = json!({"name": "pump", "schema": pump(50), "expect_sha256": saved["sha256"]});
    let again = good(client, "save_contract", again).await;
    assert_eq!(again["overwrote"], saved["sha256"]);
    let listed = good(client, "list_contracts", json!({})).await;
    let line = json!({"contract": "pump", "namespaces": ["pump"], "version": "3", "sha256": again["sha256"], "bytes": again["bytes"]});
    assert_eq!(listed["contracts"], json!([line]));
    let concise = good(client, "read_contract", json!({"name": "pump"})).await;
    insta::assert_json_snapshot!("read_contract_concise", concise);
    let detailed =
        good(client, "read_contract", json!({"name": "pump", "format": "detailed", "namespace": "pump"})).await;
    assert_eq!(detailed["document"], pump(50), "fit to be changed and saved again");
    let gone = good(client, "delete_contract", json!({"name": "pump", "expect_sha256": again["sha256"]})).await;
    assert_eq!((&gone["deleted"], &gone["sha256"]), (&json!(true), &again["sha256"]));
    let error = bad(client, "read_contract", json!({"name": "pump"})).await;
    assert_eq!(error["code"], "unknown_contract");
}

/// F-27, S-052: names are not paths; nothing is overwritten that was not expected; nothing invalid is written.
#[tokio::test]
async fn what_is_not_to_be_written_is_not() {
    let mut scene = Scene::new(Vec::new(), false).await;
    let client = &mut scene.client;
    for name in ["../x", "a/b", ".x", "con", "x.", "x.types.json"] {
        let error = bad(client, "save_contract", json!({"name": name, "schema": pump(1)})).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!("/name")), "{name}");
    }
    let first = good(client, "save_contract", json!({"name": "pump", "schema": pump(1), "if_absent": true})).await;
    for condition in [json!({"if_absent": true}), json!({"expect_sha256": "0".repeat(64)})] {
        let mut arguments = json!({"name": "pump", "schema": pump(2)});
        arguments.as_object_mut().unwrap().extend(condition.as_object().unwrap().clone());
        let error = bad(client, "save_contract", arguments).await;
        assert_eq!((&error["code"], &error["sha256"]), (&json!("cannot_write"), &first["sha256"]));
        assert_eq!((&error["outcome"], &error["retryable"]), (&json!("not_run"), &json!(false)));
    }
    let mut broken = pump(1);
    broken["types"]["Flow"]["fields"]["at"]["type"] = json!({"kind": "ref", "name": "toString"});
    broken["namespaces"]["pump"]["methods"]["flow"]["params"] = json!([{"kind": "string", "pattern": "(?=x)"}]);
    let error = bad(client, "save_contract", json!({"name": "broken", "schema": broken})).await;
    assert_eq!(error["code"], "invalid_contract");
    assert_eq!(
        error["problems"],
        json!([{"pointer": "/types/Flow/fields/at/type", "problem": "unknown type \"toString\""}])
    );
    broken["types"] = pump(1)["types"].clone();
    let error = bad(client, "save_contract", json!({"name": "broken", "schema": broken})).await;
    assert_eq!(error["problems"][0]["pointer"], "/namespaces/pump/methods/flow/params/0/pattern");
    let error = bad(client, "delete_contract", json!({"name": "pmp"})).await;
    assert_eq!((&error["code"], &error["alternatives"]), (&json!("unknown_contract"), &json!(["pump"])));
    let hash = json!({"name": "pump", "expect_sha256": "0".repeat(64)});
    assert_eq!(bad(client, "delete_contract", hash).await["code"], "cannot_write");
    let listed = good(client, "list_contracts", json!({})).await;
    assert_eq!((&listed["matched"], &listed["contracts"][0]["sha256"]), (&json!(1), &first["sha256"]));
    assert!(scene.text("pump.types.json").ends_with("}\n"));
}

/// A file of another tool is read as it is; one with faults is shown with what is wrong, and is not compared with.
#[tokio::test]
async fn files_of_others_are_read_and_faults_are_told() {
    let mut scene = Scene::new(vec![peer("p1", &pump(40), true)], false).await;
    scene.put("theirs.types.json", &format!("{}\n", serde_json::to_string_pretty(&pump(40)).unwrap()));
    scene.put("half.types.json", "{\"schema\":1,");
    scene.put(
        "ring.types.json",
        r#"{"schema":1,"types":{"A":{"kind":"ref","name":"A"}},"namespaces":{"pump":{"methods":{}}}}"#,
    );
    scene.put("notes.txt", "hello");
    let client = &mut scene.client;
    let listed = good(client, "list_contracts", json!({})).await;
    let names: Vec<&str> =
        listed["contracts"].as_array().unwrap().iter().map(|line| line["contract"].as_str().unwrap()).collect();
    assert_eq!(names, ["half", "ring", "theirs"]);
    assert!(listed["contracts"][0]["unreadable"].as_str().unwrap().starts_with("not JSON"));
    assert_eq!(listed["junk"], json!(["notes.txt: not a contract: its name does not end in .types.json"]));
    let told = good(client, "check_peer", json!({"peer": "p1", "contract": "theirs"})).await;
    assert_eq!(told["compatible"], true, "{told}");
    let ring = good(client, "read_contract", json!({"name": "ring"})).await;
    let problems = ring["problems"].as_array().unwrap();
    assert!(problems.len() == 1 && problems[0].as_str().unwrap().contains("refers to itself without end"), "{ring}");
    assert_eq!(bad(client, "check_peer", json!({"peer": "p1", "contract": "ring"})).await["code"], "invalid_contract");
    let error = bad(client, "check_peer", json!({"peer": "p1", "contract": "half"})).await;
    assert_eq!(error["code"], "cannot_read");
    assert!(!error.to_string().contains(scene.folder.path().to_str().unwrap()), "no path of this machine: {error}");
}

/// F-19, F-20, S-054 to S-056: a peer that serves the contract is compatible with it, a bound that changed inside a named
/// type is found, and what is not there is missing.
#[tokio::test]
async fn a_live_peer_is_held_against_a_contract() {
    let mut scene = Scene::new(vec![peer("p1", &pump(40), true)], false).await;
    let client = &mut scene.client;
    let same = good(client, "check_peer", json!({"peer": "p1", "schema": pump(40)})).await;
    assert_eq!((&same["compatible"], &same["verdict"]), (&json!(true), &json!("compatible")));
    assert_eq!((&same["checked"], &same["undescribed"], &same["missing"]), (&json!(["pump"]), &json!([]), &json!([])));
    let mut older = pump(2000);
    older["namespaces"]["valve"] = json!({"methods": {}});
    older["namespaces"]["pump"]["methods"]["prime"] = json!({"params": []});
    let told = good(client, "check_peer", json!({"peer": "p1", "schema": older})).await;
    insta::assert_json_snapshot!("check_peer_incompatible", told);
    let error = bad(client, "check_peer", json!({"peer": "ghost", "schema": pump(1)})).await;
    assert_eq!(error["code"], "unknown_peer");
    let error = bad(client, "check_peer", json!({"peer": "p1", "schema": {"schema": 2, "namespaces": {}}})).await;
    assert_eq!((&error["code"], &error["problems"][0]["pointer"]), (&json!("invalid_contract"), &json!("/schema")));
    for (arguments, argument) in [
        (json!({"peer": "p1"}), "/schema"),
        (json!({"peer": "p1", "schema": pump(1), "contract": "x"}), "/contract"),
        (json!({"peer": "p1", "contract": "../x"}), "/contract"),
        (json!({"peer": "p1", "schema": "{}"}), "/schema"),
    ] {
        let error = bad(client, "check_peer", arguments).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!(argument)));
    }
}

/// S-020, S-054: a peer that says nothing of itself is undescribed, and that is no pass.
#[tokio::test]
async fn a_peer_without_introspection_never_passes() {
    let mut scene = Scene::new(vec![peer("mute", &pump(40), false)], false).await;
    let told = good(&mut scene.client, "check_peer", json!({"peer": "mute", "schema": pump(40)})).await;
    assert_eq!((&told["compatible"], &told["verdict"]), (&json!(false), &json!("unchecked")));
    assert_eq!((&told["undescribed"], &told["checked"], &told["breaking"]), (&json!(["pump"]), &json!([]), &json!(0)));
    assert!(told["notes"][0].as_str().unwrap().starts_with("mute could not be described: "), "{told}");
    let error = bad(&mut scene.client, "diff_peers", json!({"left": "mute", "right": "mute"})).await;
    assert_eq!(error["code"], "peer_undescribed");
}

/// A finding a line, page by page, bound to what was found.
#[tokio::test]
async fn findings_are_paged() {
    let mut scene = Scene::new(vec![peer("p1", &pump(40), true)], false).await;
    let mut stored = pump(40);
    for at in 0..120 {
        stored["namespaces"]["pump"]["methods"][format!("m{at}")] = json!({"params": []});
    }
    let arguments = json!({"peer": "p1", "schema": stored});
    let first = good(&mut scene.client, "check_peer", arguments.clone()).await;
    assert_eq!((&first["breaking"], &first["matched"], &first["returned"]), (&json!(120), &json!(120), &json!(50)));
    assert!(first.to_string().len() < 20_480, "a page is bounded, whatever it was asked with");
    assert_eq!(first["hint"]["repeat"], json!(["schema"]));
    let mut next = first["hint"]["arguments"].clone();
    next["schema"] = arguments["schema"].clone();
    let second = good(&mut scene.client, "check_peer", next).await;
    assert_eq!(second["problems"][0]["where"], "m50");
    let mut other = arguments;
    other["schema"]["namespaces"]["pump"]["methods"]["m0"]["params"] = json!([{"kind": "any"}]);
    other["cursor"] = first["next_cursor"].clone();
    assert_eq!(bad(&mut scene.client, "check_peer", other).await["code"], "stale_cursor");
}

/// F-20: two live peers, down to what a named type holds.
#[tokio::test]
async fn two_live_peers_are_held_against_each_other() {
    let mut other = pump(50);
    other["namespaces"]["pump"]["methods"]["flow"]["effect"] = json!("program");
    other["namespaces"]["valve"] = json!({"methods": {"close": {"params": []}}});
    let peers = vec![peer("p1", &pump(40), true), peer("p2", &other, true)];
    let mut scene = Scene::new(peers, false).await;
    let told = good(&mut scene.client, "diff_peers", json!({"left": "p1", "right": "p2"})).await;
    insta::assert_json_snapshot!("diff_peers", told);
    let same = good(&mut scene.client, "diff_peers", json!({"left": "p1", "right": "p1"})).await;
    assert_eq!((&same["same"], &same["differences"]), (&json!(true), &json!([])));
    let error = bad(&mut scene.client, "diff_peers", json!({"left": "p1", "right": "p3"})).await;
    assert_eq!(error["code"], "unknown_peer");
}

/// tools.md 1.5: what the process does not offer is not shown, and refused by naming what it needs.
#[tokio::test]
async fn the_directory_decides_what_is_offered() {
    let (link, _node) = peer("p1", &pump(40), true);
    let mut client = crate::tools::client_of(crate::plant::bridge(vec![link], false)).await;
    let listed = client.ask("tools/list", &json!({})).await["result"]["tools"].take();
    let tool = |name: &str| listed.as_array().unwrap().iter().find(|tool| tool["name"] == name).cloned();
    assert!(tool("save_contract").is_none() && tool("list_contracts").is_none() && tool("read_contract").is_none());
    let properties = tool("check_peer").unwrap()["inputSchema"]["properties"].clone();
    assert!(properties.get("contract").is_none() && properties.get("schema").is_some());
    let error = bad(&mut client, "check_peer", json!({"peer": "p1", "contract": "pump"})).await;
    assert_eq!(error["code"], "bad_argument");
    assert!(error["fix"].as_str().unwrap().contains("--contracts"), "{error}");
    let error = bad(&mut client, "list_contracts", json!({})).await;
    assert_eq!(error["code"], "unknown_tool");
    assert!(error["message"].as_str().unwrap().contains("--contracts"), "{error}");
    assert_eq!(good(&mut client, "check_peer", json!({"peer": "p1", "schema": pump(40)})).await["compatible"], true);
}

/// Under --read-only contracts are read and compared with, and none is written or deleted.
#[tokio::test]
async fn a_bridge_that_may_only_look_writes_no_contract() {
    let mut scene = Scene::new(vec![peer("p1", &pump(40), true)], true).await;
    scene.put("pump.types.json", &pump(40).to_string());
    let client = &mut scene.client;
    for (tool, arguments) in
        [("save_contract", json!({"name": "x", "schema": pump(1)})), ("delete_contract", json!({"name": "pump"}))]
    {
        let error = bad(client, tool, arguments).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!("read_only"), &json!("not_run")));
    }
    assert_eq!(good(client, "check_peer", json!({"peer": "p1", "contract": "pump"})).await["compatible"], true);
    assert_eq!(good(client, "read_contract", json!({"name": "pump"})).await["version"], "3");
}

/// One source of contracts for whoever needs one: given, kept, or rebuilt from a live peer.
#[tokio::test]
async fn a_contract_comes_from_wherever_it_is() {
    let scene = Scene::new(vec![peer("p1", &pump(40), true)], false).await;
    scene.put("pump.types.json", &pump(40).to_string());
    let saved = plantbridge::plant::ContractName::parse("pump").unwrap();
    let wait = Duration::ZERO;
    let sources = [
        ContractSource::Inline(from_json(pump(40))),
        ContractSource::Saved(saved.clone()),
        ContractSource::Peer { peer: "p1".into(), wait },
    ];
    let mut labels = Vec::new();
    for source in sources {
        let sourced = scene.plant.contract(source, Purpose::Serve).await.unwrap();
        let pump = sourced.contract.namespace("pump").unwrap();
        assert_eq!((pump.methods.len(), pump.events.len(), pump.component.is_some()), (2, 1, true));
        assert_eq!((sourced.contract.types.len(), sourced.left_out.len()), (2, 0));
        labels.push(sourced.label);
    }
    assert_eq!(labels, ["the contract given", "contract 'pump'", "what p1 says of itself"]);
    let pattern = json!({"schema": 1, "namespaces": {"n": {"methods": {"m": {"params": [{"kind": "string", "pattern": "(a)\\1"}]}}}}});
    let inline = ContractSource::Inline(from_json(pattern));
    scene.plant.contract(inline.clone(), Purpose::Compare).await.unwrap();
    let error = scene.plant.contract(inline, Purpose::Serve).await.unwrap_err();
    assert!(matches!(error, PlantError::InvalidContract { .. }), "{error}");
    let bare = crate::plant::bridge(Vec::new(), false);
    let error = bare.contract(ContractSource::Saved(saved), Purpose::Compare).await.unwrap_err();
    assert!(matches!(error, PlantError::NoContracts), "{error}");
    let large = json!({"schema": 1, "namespaces": {}, "x": "y".repeat(5 * 1024 * 1024)});
    let error = scene.plant.contract(ContractSource::Inline(from_json(large)), Purpose::Compare).await.unwrap_err();
    assert!(matches!(error, PlantError::InvalidContract { .. }), "{error}");
}
