//! Resources and completion over a session: what is there, what is read, what is refused, and that a glance asks nobody.

use std::{collections::BTreeSet, fs, time::Duration};

use plantbridge::{
    link::{Link, LinkEvent, LinkId},
    mcp::{Offer, tools},
    plant::{Plant, Settings},
    wire::PeerName,
};
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;

use crate::{
    harness::{Client, Setup, newest, nowhere},
    plant::{bridge_over, joined},
    silence::ByHand,
};

const ALL: Offer = Offer { read_only: false, contracts: true, scripts: false, exec: false };

async fn client_of(plant: Plant, offer: Offer) -> Client {
    let mut client = Client::over(plant, tools::all(), &Setup { offer, ..Setup::default() });
    client.initialize("2025-11-25").await;
    client
}

/// What a resource reads, as text, with its type.
async fn read(client: &mut Client, uri: &str) -> (String, String) {
    let answer = client.ask("resources/read", &json!({"uri": uri})).await;
    let contents = answer["result"]["contents"].as_array().unwrap_or_else(|| panic!("{uri}: {answer}"));
    assert_eq!((contents.len(), &contents[0]["uri"]), (1, &json!(uri)));
    let text = |key: &str| contents[0][key].as_str().unwrap().to_owned();
    (text("mimeType"), text("text"))
}

async fn read_json(client: &mut Client, uri: &str) -> Json {
    let (mime, text) = read(client, uri).await;
    assert_eq!(mime, "application/json");
    serde_json::from_str(&text).unwrap()
}

async fn refused(client: &mut Client, uri: &str) -> Json {
    client.ask("resources/read", &json!({"uri": uri})).await["error"].take()
}

/// What is listed is offered, and each kind reads what its tool shows, marked as data.
#[tokio::test]
async fn each_kind_of_resource_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pump.types.json"), r#"{"schema": 1, "namespaces": {"pump": {"methods": {}}}}"#)
        .unwrap();
    let (ours, theirs) = plantbridge::link::loopback::pair(name("bridge"), name("works"));
    let _works = crate::plant::serve(theirs, &std::sync::Arc::default(), None);
    let (_, node) = bridge_over(vec![ours], false);
    let settings =
        Settings { read_only: false, call_timeout: Duration::from_secs(5), link_names: vec!["memory".into()] };
    let plant = Plant::with_contracts(node, settings, Some(folder.path().to_owned()));
    let mut client = client_of(plant, ALL).await;

    let (mime, guide) = read(&mut client, "plant://guide").await;
    assert!(mime == "text/markdown" && guide.contains("* `describe_peer`: "), "{guide}");
    let (_, errors) = read(&mut client, "plant://errors").await;
    assert!(errors.contains("| `unknown_outcome` | no |"));

    let described = read_json(&mut client, "peer://works/description").await;
    assert_eq!((&described["name"], &described["source"]["trust"]), (&json!("works"), &json!("data")));
    let state = read_json(&mut client, "peer://works/tank/state").await;
    assert_eq!((&state["component"], &state["state"]["level"]), (&json!("works.tank"), &json!(10)));
    let contract = read_json(&mut client, "contract://pump").await;
    assert_eq!(contract["document"]["namespaces"]["pump"], json!({"methods": {}}));
    let watch = json!({"peer": "works", "namespace": "scale", "event": "weight"});
    let id = client.call("start_watch", watch).await["structuredContent"]["watch"].as_str().unwrap().to_owned();
    let held = read_json(&mut client, &format!("watch://{id}")).await;
    assert_eq!((&held["watch"], &held["source"]["peer"]), (&json!(id), &json!("works")));
    let mut status = read_json(&mut client, "plant://status").await;
    let since = status["links"][0].as_object_mut().unwrap().remove("since");
    assert!(since.is_some_and(|since| since.is_string()), "{status}");
    assert_eq!(
        (&status["on_network"], &status["peers"], &status["watches"], &status["links"]),
        (&json!(true), &json!(1), &json!(1), &json!([{"name": "memory", "state": "up", "reconnects": 0}]))
    );

    let list = client.ask("resources/list", &json!({})).await["result"].take();
    let uris: Vec<_> = list["resources"].as_array().unwrap().iter().map(|one| one["uri"].clone()).collect();
    let watch = format!("watch://{id}");
    let expected =
        ["plant://guide", "plant://status", "plant://errors", &watch, "contract://pump", "peer://works/description"];
    assert_eq!(uris, expected, "{list}");
    assert!(
        list["resources"].as_array().unwrap().iter().all(|one| one["icons"].is_null() && one["mimeType"].is_string())
    );

    for uri in [
        "peer://nobody/description",
        "peer://works/tonk/state",
        "peer://works/scale/state",
        "contract://pomp",
        "watch://wail-1-0000",
        "fake://works/contract",
    ] {
        let error = refused(&mut client, uri).await;
        assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32002), &json!(uri)), "{error}");
        assert!(error["data"]["error"]["fix"].is_string(), "{error}");
    }
}

fn name(text: &str) -> PeerName {
    PeerName::configured(text).unwrap()
}

/// An address that is none names those there are; what hides something is none.
#[tokio::test]
async fn addresses_that_are_none_are_refused() {
    let mut client = client_of(nowhere(), Offer::default()).await;
    for uri in [
        "",
        "plant://gide",
        "file:///etc/passwd",
        "peer://a/%00/state",
        "peer://a/%E2%80%AE/state",
        "watch://a/b",
        "x\u{1b}[2J",
    ] {
        let error = refused(&mut client, uri).await;
        assert_eq!(error["code"], -32002, "{uri}: {error}");
        assert!(error["data"]["alternatives"].as_array().unwrap().contains(&json!("peer://{peer}/{namespace}/state")));
        assert!(!error["message"].as_str().unwrap().contains('\u{1b}'));
        let error = client.ask("resources/read", &newest(json!({"uri": uri}))).await["error"].take();
        assert_eq!(error["code"], -32602, "what the newest revision calls it");
    }
    let error = refused(&mut client, "contract://pump").await;
    assert_eq!(error["code"], -32002);
    assert!(error["message"].as_str().unwrap().contains("--contracts"), "{error}");
    let error = refused(&mut client, "peer://works/description").await;
    assert_eq!((&error["code"], &error["data"]["error"]["code"]), (&json!(-32603), &json!("network_unavailable")));
    for method in ["resources/read", "resources/list"] {
        let answer = client.ask(method, &json!({"uri": 5, "cursor": 5})).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

/// What is published of resources, to the letter.
#[tokio::test]
async fn the_templates_and_the_guide() {
    let mut client = client_of(nowhere(), ALL).await;
    let templates = client.ask("resources/templates/list", &json!({})).await["result"].take();
    insta::assert_json_snapshot!("resource_templates", templates);
    insta::assert_snapshot!("guide", read(&mut client, "plant://guide").await.1);
    let mut without = client_of(nowhere(), Offer { read_only: true, ..Offer::default() }).await;
    let fewer = without.ask("resources/templates/list", &json!({})).await["result"].take();
    assert_eq!(fewer["resourceTemplates"].as_array().unwrap().len(), 4);
    let (_, guide) = read(&mut without, "plant://guide").await;
    assert!(guide.contains("may only look") && !guide.contains("set_state") && !guide.contains("contract://{name}"));
}

/// A plant with these peers, in the hands of the test.
async fn crowd(peers: impl IntoIterator<Item = String>) -> (Plant, ByHand) {
    let (plant, hand) = ByHand::plant().await;
    for peer in peers {
        hand.tell(LinkEvent::Online { peer: PeerName::hub(&peer).unwrap(), shape: None }).await;
    }
    (plant, hand)
}

/// results.md 4: the list comes in pages, each resource once; a cursor is of this list and this process.
#[tokio::test]
async fn the_list_comes_in_pages() {
    let (plant, _hand) = crowd((0..180).map(|at| format!("p{at:03}")).chain(["ov\u{202e}en".to_owned()])).await;
    while plant.known_peers().len() < 182 {
        tokio::task::yield_now().await;
    }
    let mut client = client_of(plant, Offer::default()).await;
    let (mut uris, mut cursor, mut pages) = (Vec::new(), Json::Null, 0);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = client.ask("resources/list", &params).await["result"].take();
        let entries = page["resources"].as_array().unwrap();
        assert!(entries.len() <= 50 && page.to_string().len() < 24_000);
        uris.extend(entries.iter().map(|one| one["uri"].as_str().unwrap().to_owned()));
        pages += 1;
        if page["nextCursor"].is_null() {
            break;
        }
        cursor = page["nextCursor"].clone();
    }
    // The name that cannot be shown has no address.
    assert_eq!((uris.len(), uris.iter().collect::<BTreeSet<_>>().len(), pages), (184, 184, 4));
    assert_eq!(client.ask("resources/list", &json!({"cursor": "x"})).await["error"]["code"], -32602);
    assert_eq!(client.ask("resources/templates/list", &json!({"cursor": cursor})).await["error"]["code"], -32602);
    let page = client.ask("resources/list", &newest(json!({}))).await["result"].take();
    assert_eq!((&page["ttlMs"], &page["cacheScope"]), (&json!(0), &json!("private")));
    let guide = client.ask("resources/read", &newest(json!({"uri": "plant://guide"}))).await["result"].take();
    assert_eq!((&guide["ttlMs"], &guide["cacheScope"]), (&json!(3_600_000), &json!("private")));
    let status = client.ask("resources/read", &newest(json!({"uri": "plant://status"}))).await["result"].take();
    assert_eq!(status["ttlMs"], 0);
}

/// A state that is large is cut as read_state cuts it, with the exact next call.
#[tokio::test]
async fn a_large_state_is_a_page() {
    let state: serde_json::Map<_, _> = (0..400).map(|at| (format!("m{at}"), json!("x".repeat(400)))).collect();
    let (plant, _works, _node) = joined(false, Some(state.into())).await;
    let mut client = client_of(plant, Offer::default()).await;
    let (_, text) = read(&mut client, "peer://works/tank/state").await;
    assert!(text.len() < 32_000, "{}", text.len());
    let page: Json = serde_json::from_str(&text).unwrap();
    assert_eq!((&page["hint"]["tool"], &page["hint"]["arguments"]["peer"]), (&json!("read_state"), &json!("works")));
    let next = client.call("read_state", page["hint"]["arguments"].clone()).await;
    assert!(next["structuredContent"]["state"]["m399"].is_null() && next["isError"].is_null(), "{next}");
}

async fn complete(client: &mut Client, of: Json, argument: &str, typed: &str, before: Json) -> Json {
    let context = json!({"arguments": before});
    let params = json!({"ref": of, "argument": {"name": argument, "value": typed}, "context": context});
    client.ask("completion/complete", &params).await
}

fn prompt(name: &str) -> Json {
    json!({"type": "ref/prompt", "name": name})
}

fn template(uri: &str) -> Json {
    json!({"type": "ref/resource", "uri": uri})
}

/// Every argument of every prompt and every variable of every address can be completed; what is none is refused.
#[tokio::test]
async fn every_argument_can_be_completed() {
    let mut client = client_of(nowhere(), ALL).await;
    let prompts = client.ask("prompts/list", &json!({})).await["result"].take();
    for listed in prompts["prompts"].as_array().unwrap() {
        let name = listed["name"].as_str().unwrap();
        for argument in listed["arguments"].as_array().into_iter().flatten() {
            let answer = complete(&mut client, prompt(name), argument["name"].as_str().unwrap(), "", json!({})).await;
            assert_eq!(answer["result"]["completion"]["values"], json!([]), "{answer}");
        }
    }
    let templates = client.ask("resources/templates/list", &json!({})).await["result"].take();
    for listed in templates["resourceTemplates"].as_array().unwrap() {
        let uri = listed["uriTemplate"].as_str().unwrap();
        for variable in uri.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
            let answer = complete(&mut client, template(uri), variable, "", json!({})).await;
            assert_eq!(answer["result"]["completion"]["values"], json!([]), "{answer}");
        }
    }
    for (of, argument, typed) in [
        (prompt("no_such"), "peer", String::new()),
        (prompt("why_is_it"), "pear", String::new()),
        (template("peer://{peer}"), "peer", String::new()),
        (template("contract://{name}"), "peer", String::new()),
        (prompt("why_is_it"), "peer", "x".repeat(2_000)),
        (json!({"type": "ref/tool", "name": "x"}), "peer", String::new()),
    ] {
        let answer = complete(&mut client, of.clone(), argument, &typed, json!({})).await;
        assert_eq!(answer["error"]["code"], -32602, "{of}: {answer}");
    }
}

/// Completion, listing and the status come from what is known: no frame is sent. What a peer said once is remembered.
#[tokio::test]
async fn a_glance_asks_nobody() {
    let (plant, mut hand) = crowd(["oven-1".to_owned(), "oven-2".to_owned()]).await;
    while plant.known_peers().len() < 3 {
        tokio::task::yield_now().await;
    }
    let mut client = client_of(plant, ALL).await;
    let description = json!({"name": "works", "namespaces": [
        {"name": "press", "methods": [], "events": [], "component": {}}, {"name": "bell", "methods": [], "events": []}]});
    hand.describes = Some(description);
    client.start("d", "describe_peer", json!({"peer": "works"})).await;
    tokio::select! {
        answer = client.read() => assert_eq!(answer["result"]["structuredContent"]["name"], "works"),
        request = hand.request() => panic!("{request:?}"),
    }
    while hand.asked.try_recv().is_ok() {}
    let state = || template("peer://{peer}/{namespace}/state");
    let values = |answer: Json| answer["result"]["completion"]["values"].clone();
    let answer = complete(&mut client, state(), "peer", "ov", json!({})).await;
    assert_eq!(values(answer), json!(["oven-1", "oven-2"]));
    let answer = complete(&mut client, prompt("why_is_it"), "peer", "wroks", json!({})).await;
    assert_eq!(values(answer), json!(["works"]));
    for before in [json!({"peer": "works"}), json!({})] {
        assert_eq!(values(complete(&mut client, state(), "namespace", "", before).await), json!(["press"]));
    }
    let answer = complete(&mut client, state(), "namespace", "", json!({"peer": "oven-1"})).await;
    assert_eq!(values(answer), json!([]), "nobody has asked it");
    read(&mut client, "plant://status").await;
    read(&mut client, "plant://guide").await;
    for method in ["resources/list", "resources/templates/list", "prompts/list", "tools/list"] {
        client.ask(method, &json!({})).await;
    }
    assert!(hand.asked.try_recv().is_err(), "nothing was sent");
}

/// F-40: before any link is up the status says so at once.
#[tokio::test]
async fn the_status_is_told_without_a_network() {
    let (outbound, _asked) = mpsc::channel(4);
    let (events, received) = mpsc::channel(4);
    let (plant, _node) = bridge_over(vec![Link { id: LinkId(0), outbound, events: received }], true);
    let mut client = client_of(plant, Offer { read_only: true, ..Offer::default() }).await;
    let status = read_json(&mut client, "plant://status").await;
    assert_eq!((&status["on_network"], &status["read_only"]), (&json!(false), &json!(true)), "{status}");
    assert_eq!((&status["links"][0]["state"], &status["links"][0]["kind"]), (&json!("down"), &json!("joining")));
    drop(events);
}
