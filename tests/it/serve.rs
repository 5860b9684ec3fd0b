//! `plantbridge serve`: the real binary stands a fake up on an embedded broker, and other commands meet it there.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use plantbridge::{
    demo::{Demo, broker::Broker},
    link::{LinkId, mqtt},
    node::{Identity, Network, Node, Serving},
    wire::{PeerName, Prefix, Topics},
};
use rumqttc::{AsyncClient, Broker as At, Event, MqttOptions, Packet, QoS};
use rustix::process::Signal;
use serde_json::{Value as Json, json};
use tokio::{net::TcpListener, process::Command, time::timeout};

use crate::hub::Hub;
use crate::people::{Ended, Lasting, PATIENCE, ended, line, plantbridge, unread};

/// A contract of this repository.
fn sample(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts").join(format!("{name}.types.json"));
    file.to_str().unwrap().to_owned()
}

fn written(folder: &Path, name: &str, document: &Json) -> String {
    let path = folder.join(name);
    std::fs::File::create(&path).unwrap().write_all(document.to_string().as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn at(url: &str, arguments: &[&str]) -> Command {
    let mut command = plantbridge(arguments);
    command.env("PLANTBRIDGE_BROKER", url);
    command
}

async fn run(url: &str, arguments: &[&str]) -> Ended {
    ended(&mut at(url, arguments)).await
}

async fn call(url: &str, peer: &str, words: &[&str]) -> Json {
    run(url, &[&["call", peer], words, &["--json"]].concat()).await.json()
}

async fn refused(url: &str, peer: &str, words: &[&str]) -> Json {
    run(url, &[&["call", peer], words, &["--json"]].concat()).await.refusal()
}

/// A fake that stands.
struct Serve {
    running: Lasting,
    said: String,
}

impl Serve {
    async fn up(url: &str, arguments: &[&str]) -> Self {
        let mut running = Lasting::begun(at(url, &[&["serve"], arguments].concat()));
        let said = line(&mut running.notes).await.unwrap();
        assert!(said.contains(" is on the network: a fake that serves "), "{said}");
        Self { running, said }
    }

    async fn interrupted(self) -> (Vec<String>, Vec<String>) {
        self.running.signal(Signal::INT);
        let (code, lines, notes) = self.running.end().await;
        assert_eq!(code, 0, "{notes:?}");
        (lines, notes)
    }
}

/// Every topic the broker retains something under.
async fn retained(url: &str) -> Vec<String> {
    let address = url.strip_prefix("mqtt://").unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    let options = MqttOptions::new("auditor", At::tcp(host.to_owned(), port.parse().unwrap()));
    let (client, mut events) = AsyncClient::builder(options).capacity(8).build();
    client.subscribe("#", QoS::AtLeastOnce).await.unwrap();
    let mut topics = Vec::new();
    loop {
        match timeout(PATIENCE, events.poll()).await.expect("the broker answers").unwrap() {
            // What is retained came before what was published after the subscription.
            Event::Incoming(Packet::SubAck(_)) => {
                client.publish("auditor/done", Vec::new(), rumqttc::PublishOptions::at_least_once()).await.unwrap();
            }
            Event::Incoming(Packet::Publish(publish)) => {
                let topic = String::from_utf8(publish.topic.to_vec()).unwrap();
                match topic.as_str() {
                    "auditor/done" => break,
                    _ if publish.retain => topics.push(topic),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    topics.sort();
    topics
}

fn device(url: &str, me: &str) -> Node {
    let name = || PeerName::mqtt(me).unwrap();
    let topics = Topics::new(&Prefix::default(), name()).unwrap();
    let link = mqtt::start(mqtt::Config::new(mqtt::BrokerUrl::parse(url).unwrap(), topics), LinkId(0));
    let identity = Identity { name: name(), serving: Serving::default(), exposed: Vec::new() };
    Node::start(identity, vec![link]).0
}

/// tools.md 10: a fake is a peer for as long as the command runs; interrupted, it leaves nothing on the broker.
#[tokio::test]
async fn a_fake_is_there_until_it_is_interrupted() {
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    for signal in [Signal::INT, Signal::TERM] {
        let mut serve = Serve::up(&url, &["--contract", &sample("boiler"), "--json"]).await;
        assert_eq!(serve.said, "boiler is on the network: a fake that serves boiler, burner, shiftLog, shiftLog.write");
        let up: Json = serde_json::from_str(&line(&mut serve.running.lines).await.unwrap()).unwrap();
        assert_eq!((&up["up"], &up["fake"]), (&json!("boiler"), &json!(true)));
        assert_eq!((&up["namespaces"][3], &up["components"][1]), (&json!("shiftLog.write"), &json!("burner")));
        let told = call(&url, "boiler", &["boiler.setPressure", "8"]).await;
        assert_eq!((&told["source"]["kind"], &told["result"]), (&json!("fake"), &json!(7.5)));
        let wrong = refused(&url, "boiler", &["boiler.setPressure", "99"]).await;
        assert_eq!((&wrong["code"], &wrong["outcome"]), (&json!("invalid_params"), &json!("not_run")));
        serve.running.signal(signal);
        let (code, lines, notes) = serve.running.end().await;
        let last: Json = serde_json::from_str(&lines.concat()).unwrap();
        assert_eq!((code, &last["ended"], &last["peer"]), (0, &json!("interrupted"), &json!("boiler")), "{notes:?}");
        assert_eq!((&last["calls"], &last["events"]), (&json!(1), &json!(0)));
        assert_eq!(retained(&url).await, Vec::<String>::new());
    }
    let serve = Serve::up(&url, &["--contract", &sample("boiler"), "--name", "steam"]).await;
    assert!(serve.said.starts_with("steam is on the network"), "{}", serve.said);
    let (lines, notes) = serve.interrupted().await;
    assert_eq!(lines, Vec::<String>::new(), "without --json nothing is said on standard output");
    assert_eq!(notes.last().unwrap(), "ended (interrupted): 0 calls answered, 0 events emitted by itself");
}

/// S-122, semantics 11.2: the script is played, and what the command line says of failing goes before it.
#[tokio::test]
async fn a_script_is_played_and_fail_goes_before_it() {
    let broker = Broker::start().await.unwrap();
    let (url, folder) = (broker.url(), tempfile::tempdir().unwrap());
    let script = json!({
        "returns": {"boiler.setPressure": 4.5},
        "fails": {"burner.enable": "Exception", "boiler.setLevel": "Unauthorized"},
        "emits": [{"event": "boiler.lowWater", "every": 50}],
    });
    let script = written(folder.path(), "script.json", &script);
    let arguments = ["--contract", &sample("boiler"), "--script", &script, "--fail", "burner.enable=Forbidden"];
    let serve = Serve::up(&url, &[&arguments[..], &["--fail", "burner.state=Timeout", "--json"]].concat()).await;
    assert_eq!(call(&url, "boiler", &["boiler.setPressure", "8"]).await["result"], 4.5);
    for (words, code) in [(["boiler.setLevel", "50"], "Unauthorized"), (["burner.enable", "true"], "Forbidden")] {
        let wrong = refused(&url, "boiler", &words).await;
        assert_eq!(wrong["peer_error"]["code"], code, "{wrong}");
    }
    let silent = refused(&url, "boiler", &["burner.state", "--timeout", "300"]).await;
    assert_eq!(silent["code"], "deadline_exceeded", "{silent}");
    let watch = run(&url, &["watch", "boiler", "boiler.lowWater", "--max-events", "2"]).await;
    assert_eq!((watch.code, watch.out.lines().count()), (0, 2), "{}", watch.err);
    let (lines, _) = serve.interrupted().await;
    let last: Json = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert!(last["calls"] == 4 && last["events"].as_u64().unwrap() >= 2, "{last}");
}

/// Every contract of this repository can be served, and what is served satisfies it.
#[tokio::test]
async fn every_sample_contract_is_served_and_holds() {
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    for name in ["bakery", "boiler", "conveyor-cell", "packaging", "pump-skid"] {
        let file = sample(name);
        let serve = Serve::up(&url, &["--contract", &file]).await;
        let check = run(&url, &["check", "--peer", name, "--against", &file, "--json"]).await;
        assert_eq!(check.code, 0, "{name}: {}{}", check.out, check.err);
        let (served, document) = (check.json(), std::fs::read_to_string(&file).unwrap());
        let document: Json = serde_json::from_str(&document).unwrap();
        assert_eq!((&served["missing"], &served["problems"]), (&json!([]), &json!([])), "{name}");
        assert_eq!(
            served["checked"].as_array().unwrap().len(),
            document["namespaces"].as_object().unwrap().len(),
            "{name}: {served}"
        );
        let diff = run(&url, &["diff", name, &file]).await;
        assert_eq!(diff.code, 0, "{name}: {}{}", diff.out, diff.err);
        serve.interrupted().await;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("contracts");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 5, "each of them is served here");
    assert_eq!(retained(&url).await, Vec::<String>::new());
}

/// S-124, S-125: what cannot be served is refused with all that is wrong, and nobody notices.
#[tokio::test]
async fn s125_what_cannot_be_served_leaves_nothing() {
    let demo = Demo::start().await.unwrap();
    let (url, folder) = (demo.url(), tempfile::tempdir().unwrap());
    let before = retained(url).await;
    let boiler = sample("boiler");
    let method = |kind: Json| json!({"methods": {"m": {"params": [kind], "semantics": "query"}}});
    let (a, b) = (json!({"kind": "ref", "name": "Nope"}), json!({"kind": "number", "min": 2, "max": 1}));
    let invalid = json!({"schema": 1, "namespaces": {"a": method(a), "b": method(b)}});
    let invalid = written(folder.path(), "invalid.types.json", &invalid);
    let empty = written(folder.path(), "empty.types.json", &json!({"schema": 1, "namespaces": {}}));
    let script = json!({"returns": {"boiler.nope": 1}, "emits": [{"event": "nope.x", "every": 1}]});
    let script = written(folder.path(), "script.json", &script);
    let twice = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let twins = twice("twins.types.json", r#"{"schema": 1, "namespaces": {"a": {"methods": {"m": 1, "m": 2}}}}"#);
    let twice = twice("twice.json", r#"{"returns": {"boiler.read": 1, "boiler.read": 2}}"#);
    let code = written(folder.path(), "code.json", &json!({"handlers": {"boiler.read": "() => 1"}}));
    let cases: [(&[&str], &str, &[&str]); 11] = [
        (&["--contract", &boiler, "--name", "bakery"], "name_in_use", &["'bakery' is already a peer", "--name"]),
        (
            &["--contract", &invalid],
            "invalid_contract",
            &["invalid.types.json", "\n    /namespaces/a/", "\n    /namespaces/b/"],
        ),
        (
            &["--contract", &twins],
            "invalid_contract",
            &["twins.types.json", "/namespaces/a/methods/m: this key stands"],
        ),
        (&["--contract", &boiler, "--script", &twice], "invalid_script", &["/returns/boiler.read: this key stands"]),
        (&["--contract", &empty], "invalid_contract", &["empty.types.json", "no namespaces to serve"]),
        (&["--contract", "nowhere.json"], "cannot_read", &["nowhere.json"]),
        (&["--contract", &boiler, "--script", "nowhere.json"], "cannot_read", &["nowhere.json"]),
        (
            &["--contract", &boiler, "--script", &script],
            "invalid_script",
            &["/returns/boiler.nope", "/emits/0/event", "/emits/0/every"],
        ),
        (&["--contract", &boiler, "--script", &code], "exec_disabled", &["handlers"]),
        (
            &["--contract", &boiler, "--fail", "boiler.nope=Timeout"],
            "invalid_script",
            &["--fail boiler.nope=Timeout: ", "it has read"],
        ),
        (
            &["--contract", &boiler, "--fail", "boiler.read=Nope"],
            "invalid_script",
            &["--fail boiler.read=Nope: ", "Timeout"],
        ),
    ];
    for (arguments, code, words) in cases {
        let told = run(url, &[&["serve"], arguments].concat()).await;
        assert_eq!((told.code, told.out.as_str()), (1, ""), "{arguments:?}: {}", told.err);
        let code = format!("\n  code: {code}\n");
        for words in words.iter().chain([&code.as_str(), &"\n  outcome: not_run"]) {
            assert!(told.err.contains(words), "{words:?}: {}", told.err);
        }
    }
    assert_eq!(retained(url).await, before);
}

/// What is typed wrongly, and a bridge that may only look, serve nothing either.
#[tokio::test]
async fn what_is_typed_wrongly_serves_nothing() {
    let demo = Demo::start().await.unwrap();
    let (url, boiler) = (demo.url(), sample("boiler"));
    let before = retained(url).await;
    for (arguments, words) in [
        (&["--contract", &boiler, "--name", "a/b"][..], "--name"),
        (&["--contract", &boiler, "--fail", "a.b=Exception", "--fail", "a.b=Timeout"], "--fail: a.b"),
        (&["--contract", &boiler, "--broker", "http://x"], "--broker"),
    ] {
        let told = run(url, &[&["serve"], arguments].concat()).await;
        assert_eq!((told.code, told.out.as_str(), told.err.lines().count()), (2, "", 1), "{}", told.err);
        assert!(told.err.contains(words), "{}", told.err);
    }
    let guarded = ended(at(url, &["serve", "--contract", &boiler, "--json"]).env("PLANTBRIDGE_READ_ONLY", "1")).await;
    assert_eq!(guarded.refusal()["code"], "read_only");
    assert_eq!(retained(url).await, before);
}

/// Invariant 7: a device that comes later has its name; the command says so and ends with 1.
#[tokio::test]
async fn a_fake_leaves_its_name_to_the_device_and_ends() {
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    for json in [true, false] {
        let contract = sample("boiler");
        let arguments = ["--contract", &contract, "--json"];
        let serve = Serve::up(&url, &arguments[..if json { 3 } else { 2 }]).await;
        let device = device(&url, "boiler");
        let (code, lines, notes) = serve.running.end().await;
        assert_eq!(code, 1, "{notes:?}");
        let told = "another peer goes by the name 'boiler' now: the fake left it to that one";
        assert!(notes.iter().any(|note| note == told), "{notes:?}");
        if json {
            let last: Json = serde_json::from_str(lines.last().unwrap()).unwrap();
            assert_eq!((lines.len(), &last["ended"]), (2, &json!("withdrawn")));
        }
        assert_eq!(retained(&url).await, ["msgrpc/v2/presence/boiler"], "what the device shows is its own");
        assert!(device.network_when(PATIENCE, Network::is_up).await.is_up());
        device.leave();
        while !retained(&url).await.is_empty() {}
    }
}

/// Whoever stops reading ends it quietly; the fake is gone with it.
#[tokio::test]
async fn a_closed_pipe_takes_the_fake_down() {
    let broker = Broker::start().await.unwrap();
    let url = broker.url();
    let told = unread(&mut at(&url, &["serve", "--contract", &sample("boiler"), "--json"])).await;
    assert!(told.code == 0 && !told.err.contains("ipe"), "{}", told.err);
    assert_eq!(retained(&url).await, Vec::<String>::new());
}

/// The key file of a device names the fake that stands in for it; our own peer takes another name.
#[tokio::test]
async fn a_key_file_names_the_fake() {
    let broker = Broker::start().await.unwrap();
    let (url, folder) = (broker.url(), tempfile::tempdir().unwrap());
    let key: PathBuf = folder.path().join("steam.json");
    let key = key.to_str().unwrap();
    assert_eq!(ended(&mut plantbridge(&["keygen", key, "--name", "steam"])).await.code, 0);
    let serve = Serve::up(&url, &["--contract", &sample("boiler"), "--sign", key]).await;
    assert!(serve.said.starts_with("steam is on the network"), "{}", serve.said);
    assert_eq!(call(&url, "steam", &["boiler.setLevel", "50"]).await["source"]["kind"], "fake");
    serve.interrupted().await;
    let told = run(&url, &["serve", "--contract", &sample("boiler"), "--sign", key, "--name", "boiler"]).await;
    assert!(told.code == 2 && told.err.contains("steam"), "{}", told.err);
}

/// A broker that is not there is waited for as long as was said.
#[tokio::test]
async fn a_broker_that_is_not_there_is_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    drop(listener);
    let began = Instant::now();
    let told = run(&url, &["serve", "--contract", &sample("boiler"), "--wait", "1200", "--json"]).await;
    assert_eq!(told.refusal()["code"], "network_unavailable");
    assert!(began.elapsed() >= Duration::from_millis(1200), "{:?}", began.elapsed());
}

/// On a hub as on a broker, and where both are, on both; and nothing of it is left.
#[tokio::test]
async fn a_fake_is_served_on_a_hub_too() {
    let (hub, broker) = (Hub::start().await, Broker::start().await.unwrap());
    let (url, contract) = (broker.url(), sample("boiler"));
    for places in [&["--hub", &hub.url][..], &["--hub", &hub.url, "--broker", &url]] {
        let arguments = [&["--contract", &contract, "--name", "steam"][..], places].concat();
        let serve = Serve::up(&url, &arguments).await;
        for place in places.chunks(2) {
            let words = [&["call", "steam", "boiler.setLevel", "50", "--json"][..], place].concat();
            assert_eq!(ended(&mut plantbridge(&words)).await.json()["source"]["kind"], "fake", "{place:?}");
        }
        serve.interrupted().await;
        for place in places.chunks(2) {
            let told = ended(&mut plantbridge(&[&["peers", "--json"][..], place].concat())).await;
            assert!(!told.json().to_string().contains("steam"), "{place:?}: {}", told.json());
        }
    }
}
