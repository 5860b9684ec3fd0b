//! Scripting another node: only if it named us, only if it can be sure that it is us, and what else comes of it. F-29, F-30.

use std::{collections::BTreeSet, time::Duration};

use plantbridge::{
    demo::broker::Broker,
    link::{
        LinkId,
        mqtt::{self, Signing},
    },
    mcp::{Offer, tools},
    node::{Call, CallError, Identity, Network, Node, Serving},
    plant::{Plant, Settings},
    script::{NAMESPACE, Scripts, served},
    wire::{PeerName, Prefix, Topics, Value, signing::KeyFile},
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    harness::{Client, Setup},
    scripts::{With, scripts},
    tools::{bad, good},
};

const PATIENCE: Duration = Duration::from_secs(20);
/// Everybody of these tests, each with a secret that all others know.
const PEERS: [&str; 4] = ["bench", "hall", "guest", "quiet"];

fn name(text: &str) -> PeerName {
    PeerName::mqtt(text).unwrap()
}

fn link(url: &str, me: &str, signs: bool) -> mqtt::Config {
    let topics = Topics::new(&Prefix::default(), name(me)).unwrap();
    let mut config = mqtt::Config::new(mqtt::BrokerUrl::parse(url).unwrap(), topics);
    if signs {
        let secret = |peer: &str| format!("the secret of {peer}, of some length");
        let peers: serde_json::Map<String, Json> =
            PEERS.iter().map(|peer| ((*peer).to_owned(), secret(peer).into())).collect();
        let file = json!({"name": me, "secret": secret(me), "peers": peers}).to_string();
        config.signing = Some(Signing::from(KeyFile::parse(&file).unwrap()));
    }
    config
}

/// A node with scripts that these may reach.
async fn hall(url: &str, me: &str, signs: bool, allowed: &[&str]) -> (Node, Scripts, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let scripts = scripts(folder.path(), &With::default());
    let allowed: BTreeSet<PeerName> = allowed.iter().map(|peer| name(peer)).collect();
    let exposed = (!allowed.is_empty()).then(|| served(scripts.clone(), allowed).unwrap());
    let serving = Serving { introspection: true, ..Serving::default() };
    let identity = Identity { name: name(me), serving, exposed: exposed.into_iter().collect() };
    let node = Node::start(identity, vec![mqtt::start(link(url, me, signs), LinkId(0))]).0;
    node.network_when(PATIENCE, Network::is_settled).await;
    (node, scripts, folder)
}

/// A bridge without scripts of its own, and a client of it.
async fn bench(url: &str, me: &str, signs: bool, read_only: bool) -> (Client, Node) {
    patient_bench(url, me, signs, read_only, Duration::from_secs(10)).await
}

/// The same, waiting for an answer as long as this.
async fn patient_bench(url: &str, me: &str, signs: bool, read_only: bool, call_timeout: Duration) -> (Client, Node) {
    let identity = Identity { name: name(me), serving: Serving::default(), exposed: Vec::new() };
    let node = Node::start(identity, vec![mqtt::start(link(url, me, signs), LinkId(0))]).0;
    node.network_when(PATIENCE, Network::is_settled).await;
    let settings = Settings { read_only, call_timeout, link_names: vec!["mqtt".into()] };
    let offer = Offer { read_only, scripts: true, ..Offer::default() };
    let plant = Plant::new(node.clone(), settings);
    let mut client = Client::over(plant, tools::all(), &Setup { offer, ..Setup::default() });
    client.initialize("2025-06-18").await;
    (client, node)
}

/// A signed node that named us is scripted as if it were here.
#[tokio::test]
async fn a_node_that_named_us_is_scripted_from_afar() {
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    let (_hall, scripts, folder) = hall(&url, "hall", true, &["bench"]).await;
    let (mut client, _node) = bench(&url, "bench", true, false).await;
    let at = |more: Json| {
        let mut arguments = json!({"node": "hall"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let described = good(&mut client, "describe_peer", json!({"peer": "hall"})).await.to_string();
    assert!(described.contains(NAMESPACE) && described.contains("program"), "{described}");

    let text = "echo from afar; while :; do sleep 0.01; done";
    let saved = good(&mut client, "save_script", at(json!({"name": "pump", "source": text, "language": "mjs"}))).await;
    assert_eq!((&saved["file"], &saved["node"]), (&json!("pump.mjs"), &json!("hall")));
    assert_eq!(saved["source"], json!({"peer": "hall", "kind": "live", "trust": "data"}));
    let started = good(&mut client, "start_script", at(json!({"name": "pump"}))).await;
    assert_eq!((&started["peer"], started["pid"].as_u64().unwrap() > 0), (&json!("pump@bridge"), true));
    let output = loop {
        let output = good(&mut client, "script_output", at(json!({"name": "pump"}))).await;
        if output["lines"] == json!(["from afar"]) {
            break output;
        }
    };
    let since = good(&mut client, "script_output", output["hint"]["arguments"].clone()).await;
    assert_eq!((&since["lines"], &since["first"], &since["running"]), (&json!([]), &json!(1), &json!(true)));
    let listed = good(&mut client, "list_scripts", at(json!({}))).await;
    assert_eq!((&listed["node"], &listed["directory"]), (&json!("hall"), &Json::Null));
    assert_eq!((&listed["scripts"][0]["name"], &listed["scripts"][0]["running"]), (&json!("pump"), &json!(true)));
    let read = good(&mut client, "read_script", at(json!({"name": "pump"}))).await;
    assert_eq!(read["text"], format!("{text}\n"));
    let twice = bad(&mut client, "start_script", at(json!({"name": "pump"}))).await;
    assert_eq!((&twice["code"], &twice["outcome"]), (&json!("already_running"), &json!("not_run")), "{twice}");
    assert!(!twice["message"].as_str().unwrap().contains('['), "{twice}");
    assert!(twice["message"].as_str().unwrap().contains("running already"), "{twice}");
    let stopped = good(&mut client, "stop_script", at(json!({"name": "pump"}))).await;
    assert_eq!(stopped["ended"]["signal"], 15);

    // An installation takes longer than an answer: its end comes later, whatever its words say (F-29).
    let npm = folder.path().join("npm-cli.js");
    std::fs::write(&npm, "#!/bin/sh\necho '403 Forbidden'; for last; do :; done; [ \"$last\" = fine ]").unwrap();
    std::os::unix::fs::symlink(&npm, folder.path().join("bin/npm")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&npm, mode).unwrap();
    let added = good(&mut client, "add_package", at(json!({"spec": "fine"}))).await;
    assert_eq!(added["output"], "403 Forbidden");
    let failed = bad(&mut client, "add_package", at(json!({"spec": "not-fine"}))).await;
    assert_eq!(failed["code"], "install_failed", "{failed}");
    let problem = failed["problem"].as_str().unwrap();
    assert!(problem.contains("403 Forbidden") && !problem.contains('['), "{failed}");
    assert_ne!(failed["outcome"], "not_run", "{failed}");
    assert_eq!(good(&mut client, "list_packages", at(json!({}))).await["packages"], json!([]));
    good(&mut client, "delete_script", at(json!({"name": "pump"}))).await;
    assert!(scripts.list().await.unwrap().scripts.is_empty());
}

/// What another node refuses is told as it is here: by its code, and that nothing ran.
#[tokio::test]
async fn a_refusal_from_afar_keeps_its_code() {
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    let _hall = hall(&url, "hall", true, &["bench"]).await;
    let (mut client, _node) = bench(&url, "bench", true, false).await;
    let at = |mut arguments: Json| {
        arguments["node"] = "hall".into();
        arguments
    };
    for (tool, arguments) in [
        ("read_script", json!({"name": "nope"})),
        ("start_script", json!({"name": "nope"})),
        ("stop_script", json!({"name": "nope"})),
        ("delete_script", json!({"name": "nope"})),
        ("script_output", json!({"name": "nope"})),
    ] {
        let error = bad(&mut client, tool, at(arguments)).await;
        assert_eq!(
            (&error["code"], &error["outcome"]),
            (&json!("unknown_script"), &json!("not_run")),
            "{tool}: {error}"
        );
        assert!(error["fix"].as_str().unwrap().contains(r#"list_scripts {"node":"hall"}"#), "{tool}: {error}");
    }
    // What is no package is not sent; no npm there is told as that.
    for (tool, arguments) in [("add_package", json!({"spec": "--x"})), ("remove_package", json!({"name": "a@1"}))] {
        let error = bad(&mut client, tool, at(arguments)).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!("bad_argument"), &json!("not_run")), "{tool}: {error}");
        assert_eq!(error["peer_error"], Json::Null, "{tool}: {error}");
    }
}

/// Not named, not signed, not scriptable, not there: each is told apart, and nothing ran.
#[tokio::test]
async fn a_node_that_refuses_says_why() {
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    let (_hall, _, folder) = hall(&url, "hall", true, &["bench"]).await;
    let (_quiet, ..) = hall(&url, "quiet", true, &[]).await;
    let save = |node: &str| json!({"node": node, "name": "x", "source": "echo"});

    let (mut guest, guest_node) = bench(&url, "guest", true, false).await;
    let error = bad(&mut guest, "save_script", save("hall")).await;
    assert_eq!((&error["code"], &error["outcome"]), (&json!("peer_refused"), &json!("not_run")), "{error}");
    assert_eq!(error["peer_error"]["code"], "Forbidden");
    assert!(error["fix"].as_str().unwrap().contains("--scriptable-by"), "{error}");
    let error = bad(&mut guest, "list_scripts", json!({"node": "hall"})).await;
    assert_eq!(error["peer_error"]["code"], "Forbidden", "looking is guarded as well");
    // Without the flag the namespace does not exist.
    let error = bad(&mut guest, "start_script", json!({"node": "quiet", "name": "x"})).await;
    assert_eq!((&error["code"], &error["outcome"]), (&json!("unknown_namespace"), &json!("not_run")));
    assert!(error["cause"].as_str().unwrap().contains("--scriptable-by"), "{error}");
    let call = Call {
        peer: name("quiet"),
        namespace: NAMESPACE.into(),
        method: "list".into(),
        args: Vec::new(),
        timeout: Some(PATIENCE),
        idempotency_key: None,
    };
    let Err(CallError::Refused(error)) = guest_node.call(call).await else { panic!("it answered") };
    assert_eq!(error.code, "ClassNotFound");
    assert!(!folder.path().join("scripts").exists());

    // A look at programs is more than a look.
    let (mut looking, _node) = bench(&url, "bench", true, true).await;
    let error = bad(&mut looking, "list_scripts", json!({"node": "hall"})).await;
    assert_eq!((&error["code"], &error["effect"]), (&json!("read_only"), &json!("program")));
}

/// Where nothing is signed nobody is anybody: whoever says a name that was named is refused like all others.
#[tokio::test]
async fn a_name_alone_opens_nothing() {
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    let (_hall, _, folder) = hall(&url, "hall", false, &["bench"]).await;
    let (mut client, _node) = bench(&url, "bench", false, false).await;
    for (tool, arguments) in [
        ("save_script", json!({"node": "hall", "name": "x", "source": "echo"})),
        ("start_script", json!({"node": "hall", "name": "x"})),
        ("list_scripts", json!({"node": "hall"})),
        ("add_package", json!({"node": "hall", "spec": "x"})),
    ] {
        let error = bad(&mut client, tool, arguments).await;
        assert_eq!(
            (&error["code"], &error["peer_error"]["code"]),
            (&json!("peer_refused"), &json!("Forbidden")),
            "{tool}"
        );
        assert!(error["peer_error"]["message"].as_str().unwrap().contains("verified identity"), "{error}");
    }
    assert!(!folder.path().join("scripts").exists());

    // One who signs with another's name, and not with its key, is not heard at all where frames are verified.
    let (_signed, _, signed_folder) = hall(&url, "quiet", true, &["bench"]).await;
    let (mut client, _node) = patient_bench(&url, "guest", false, false, Duration::from_millis(300)).await;
    // What only looks may be asked again, and of all the rest the outcome is in doubt; both name what is likely wrong.
    for (tool, arguments, code, settling) in [
        ("list_scripts", json!({}), "deadline_exceeded", Json::Null),
        ("read_script", json!({"name": "x"}), "deadline_exceeded", Json::Null),
        ("script_output", json!({"name": "x"}), "deadline_exceeded", Json::Null),
        ("list_packages", json!({}), "deadline_exceeded", Json::Null),
        ("save_script", json!({"name": "x", "source": "echo"}), "unknown_outcome", json!("list_scripts")),
        ("start_script", json!({"name": "x"}), "unknown_outcome", json!("list_scripts")),
        ("add_package", json!({"spec": "x"}), "unknown_outcome", json!("list_packages")),
    ] {
        let mut arguments = arguments;
        arguments["node"] = "quiet".into();
        let error = bad(&mut client, tool, arguments).await;
        let retryable = code == "deadline_exceeded";
        assert_eq!((&error["code"], &error["retryable"]), (&json!(code), &json!(retryable)), "{tool}: {error}");
        assert_eq!(error["settle_with"]["tool"], settling, "{tool}: {error}");
        let (cause, fix) = (error["cause"].as_str().unwrap(), error["fix"].as_str().unwrap());
        assert!(cause.contains("signed") && cause.contains("key file"), "{tool}: {error}");
        assert!(fix.contains("--sign ") && fix.contains("--scriptable-by"), "{tool}: {error}");
        assert_eq!(fix.contains("do not repeat it"), !retryable, "{tool}: {error}");
    }
    assert!(!signed_folder.path().join("scripts").exists());
}

/// A node that vanishes while it works: what became of it is not known, and that is said.
#[tokio::test]
async fn a_node_that_vanishes_leaves_it_in_doubt() {
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    let (hall, _, folder) = hall(&url, "hall", true, &["bench"]).await;
    let (mut client, node) = bench(&url, "bench", true, false).await;
    let npm = folder.path().join("npm-cli.js");
    std::fs::write(&npm, "#!/bin/sh\necho begun; : > begun; while :; do sleep 0.01; done").unwrap();
    std::os::unix::fs::symlink(&npm, folder.path().join("bin/npm")).unwrap();
    std::fs::set_permissions(&npm, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    client.start("long", "add_package", json!({"node": "hall", "spec": "x"})).await;
    let begun = folder.path().join("scripts/begun");
    tokio::time::timeout(PATIENCE, async {
        while !begun.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    hall.leave();
    let answer = client.read().await;
    let error = &answer["result"]["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["retryable"]), (&json!("unknown_outcome"), &json!(false)), "{error}");
    assert!(error["fix"].as_str().unwrap().contains("list_packages"), "{error}");
    node.network_when(PATIENCE, |network| network.roster.get(&name("hall")).is_none()).await;
    let error = bad(&mut client, "list_scripts", json!({"node": "hall"})).await;
    assert_eq!(error["code"], "unknown_peer");
}

/// A peer that serves `scripting` and answers whatever comes to its mind.
#[tokio::test]
async fn a_node_that_answers_nonsense_is_not_believed() {
    #[derive(Debug)]
    struct Nonsense;
    impl plantbridge::node::Service for Nonsense {
        fn run(&self, _: Node, call: plantbridge::node::Incoming) -> plantbridge::node::ServiceFuture {
            let value = match call.method.as_str() {
                "list" => Value::from("all of them"),
                "read" => Value::from(7),
                "packages" => Value::Null,
                _ => Value::from("done, whatever it was"),
            };
            Box::pin(std::future::ready(Ok(Some(value))))
        }
    }
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    let scripts = scripts(tempfile::tempdir().unwrap().path(), &With::default());
    let (exposed, _) = served(scripts, BTreeSet::new()).unwrap();
    let serving = Serving { introspection: true, ..Serving::default() };
    let exposed = vec![(exposed, std::sync::Arc::new(Nonsense) as std::sync::Arc<dyn plantbridge::node::Service>)];
    let identity = Identity { name: name("hall"), serving, exposed };
    let node = Node::start(identity, vec![mqtt::start(link(&url, "hall", false), LinkId(0))]).0;
    node.network_when(PATIENCE, Network::is_settled).await;
    let (mut client, _node) = bench(&url, "bench", false, false).await;
    for (tool, arguments) in [
        ("list_scripts", json!({"node": "hall"})),
        ("list_packages", json!({"node": "hall"})),
        ("read_script", json!({"node": "hall", "name": "x"})),
        ("script_output", json!({"node": "hall", "name": "x"})),
    ] {
        let error = bad(&mut client, tool, arguments).await;
        assert_eq!(error["code"], "peer_refused", "{tool}: {error}");
    }
    // What was done is told as done; what cannot be read of it is left out.
    let started = good(&mut client, "start_script", json!({"node": "hall", "name": "x"})).await;
    assert_eq!((&started["pid"], &started["run"]), (&json!(0), &json!("")));
}
