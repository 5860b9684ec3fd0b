//! The subcommands for people: the real binary, the embedded broker, the bakery, and a peer that means no good.

use std::{
    collections::BTreeSet,
    process::{Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use plantbridge::{
    contract::{Event, Method, ServedNamespace},
    demo::Demo,
    link::{LinkId, mqtt},
    node::{Exposed, Failure, Identity, Incoming, Node, Service, ServiceFuture, Serving},
    wire::{PeerName, Prefix, Topics, Value},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    net::TcpListener,
    process::{Child, ChildStderr, ChildStdout, Command},
    time::timeout,
};

/// How long anything may take before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The binary, with none of what the environment of the test may say.
pub(crate) fn plantbridge(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plantbridge"));
    for name in ["BROKER", "READ_ONLY", "MQTT_USERNAME", "MQTT_PASSWORD", "LOG", "HEALTH_URL"] {
        command.env_remove(format!("PLANTBRIDGE_{name}")).env_remove(format!("SOURCE_RPC_{name}"));
    }
    command.env_remove("RUST_LOG").args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// How it ended, and what it said.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }

    /// A refusal: nothing on standard output, exit code 1.
    pub(crate) fn refusal(&self) -> Json {
        assert_eq!((self.code, self.out.as_str()), (1, ""), "{}", self.err);
        let told: Json = serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {}", self.err));
        told["error"].clone()
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

pub(crate) async fn ended(command: &mut Command) -> Ended {
    timeout(PATIENCE, command.output()).await.expect("it ends").unwrap().into()
}

/// The same, with nobody who reads its standard output.
pub(crate) async fn unread(command: &mut Command) -> Ended {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let process = command.stdout(Stdio::from(writer)).stderr(Stdio::piped()).spawn().unwrap();
    timeout(PATIENCE, process.wait_with_output()).await.expect("it ends").unwrap().into()
}

/// The bakery, and the commands somebody types at it.
struct Shop {
    demo: Demo,
}

impl Shop {
    async fn open() -> Self {
        Self { demo: Demo::start().await.unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = plantbridge(arguments);
        command.env("PLANTBRIDGE_BROKER", self.demo.url());
        command
    }

    async fn run(&self, arguments: &[&str]) -> Ended {
        ended(&mut self.command(arguments)).await
    }

    /// A watch on the oven's door that has begun.
    async fn watch(&self, options: &[&str]) -> Lasting {
        let arguments = [&["watch", "bakery", "oven.doorChanged"], options].concat();
        let mut watch = Lasting::begun(self.command(&arguments));
        assert_eq!(line(&mut watch.notes).await.as_deref(), Some("watching bakery.oven.doorChanged"));
        watch
    }

    async fn door(&self, position: &str) {
        let set = self.run(&["call", "bakery", "oven.setDoor", position]).await;
        assert_eq!((set.code, set.out), (0, format!("\"{position}\"\n")), "{}", set.err);
    }

    /// How many the oven tells of its door.
    async fn subscribers(&self) -> u64 {
        let told = self.run(&["describe", "bakery", "oven", "--json"]).await.json();
        let events = told["namespaces"][0]["events"].as_array().unwrap();
        events.iter().find(|event| event["name"] == "doorChanged").unwrap()["subscribers"].as_u64().unwrap()
    }
}

/// A command that runs until it is told to end, and what it says.
pub(crate) struct Lasting {
    process: Child,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
    pub(crate) notes: Lines<BufReader<ChildStderr>>,
}

pub(crate) async fn line<R: tokio::io::AsyncRead + Unpin>(lines: &mut Lines<BufReader<R>>) -> Option<String> {
    timeout(PATIENCE, lines.next_line()).await.expect("a line, or the end").unwrap()
}

impl Lasting {
    pub(crate) fn begun(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let notes = BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, lines, notes }
    }

    async fn event(&mut self) -> Json {
        serde_json::from_str(&line(&mut self.lines).await.expect("an event")).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.process.id().unwrap().try_into().unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Its exit code, and what it still said on both.
    pub(crate) async fn end(mut self) -> (i32, Vec<String>, Vec<String>) {
        let (mut lines, mut notes) = (Vec::new(), Vec::new());
        while let Some(said) = line(&mut self.lines).await {
            lines.push(said);
        }
        while let Some(said) = line(&mut self.notes).await {
            notes.push(said);
        }
        let status = timeout(PATIENCE, self.process.wait()).await.expect("it ends").unwrap();
        (status.code().unwrap(), lines, notes)
    }
}

/// tools.md 10: names by line in a pipe, everything known in JSON.
#[tokio::test]
async fn peers_lists_who_is_there() {
    let shop = Shop::open().await;
    let told = shop.run(&["peers"]).await;
    let names: Vec<&str> = told.out.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!((told.code, names, told.err.as_str()), (0, vec!["bakery", "packaging"], ""));
    let told = shop.run(&["peers", "--json"]).await.json();
    assert_eq!(told["peers"], json!(["bakery", "packaging"]));
    assert_eq!((&told["details"][0]["name"], &told["details"][0]["links"]), (&json!("bakery"), &json!(["mqtt"])));
}

/// tools.md 10: signatures for people, the description verbatim in JSON; what is not there is named with what is.
#[tokio::test]
async fn describe_shows_what_a_peer_serves() {
    let shop = Shop::open().await;
    let told = shop.run(&["describe", "bakery"]).await;
    assert_eq!((told.code, told.err.as_str()), (0, ""));
    for words in ["bakery 1", "setSetpoint(celsius: Celsius): Celsius", "event doorChanged(Door)", "set by setSetpoint"]
    {
        assert!(told.out.contains(words), "{words}: {}", told.out);
    }
    assert!(!told.out.contains('\u{1b}'), "a pipe has no colours");
    let told = shop.run(&["describe", "packaging", "workOrders.write", "--json"]).await.json();
    assert_eq!(told["namespaces"].as_array().map(Vec::len), Some(1));
    assert_eq!((&told["name"], &told["namespaces"][0]["name"]), (&json!("packaging"), &json!("workOrders.write")));
    let refused = shop.run(&["describe", "bakery", "ovn", "--json"]).await.refusal();
    assert_eq!((&refused["code"], &refused["alternatives"][0]), (&json!("unknown_namespace"), &json!("oven")));
}

/// Semantics 3.3: words become what the contract says they are; the result is alone on standard output.
#[tokio::test]
async fn call_reads_its_words_by_the_contract() {
    let shop = Shop::open().await;
    let told = shop.run(&["call", "bakery", "oven.setSetpoint", "181.5"]).await;
    assert_eq!((told.code, told.out.as_str()), (0, "181.5\n"), "{}", told.err);
    assert!(told.err.starts_with("bakery.oven.setSetpoint: ") && told.err.contains(" ms"), "{}", told.err);
    let lot = shop.run(&["call", "bakery", "oven.stampLot", "2026-08-07", "0xFF00"]).await.json();
    assert_eq!(lot["baked"], json!({"$date": "2026-08-07T00:00:00.000Z"}));
    assert_eq!(lot["label"], json!({"$bytes": "/wA="}));
    let args = r#"[{"$date": "2026-08-07T00:00:00Z"}, {"$bytes": "AA=="}]"#;
    let lot = shop.run(&["call", "bakery", "oven.stampLot", "--args", args, "--json"]).await.json();
    assert_eq!((&lot["result"]["label"], &lot["effect"]), (&json!({"$bytes": "AA=="}), &json!("observe")));
    assert_eq!((&lot["checked"], &lot["source"]["trust"]), (&json!(true), &json!("data")));
    let nothing = shop.run(&["call", "bakery", "oven.blinkLamp"]).await;
    assert_eq!((nothing.code, nothing.out.as_str()), (0, "null\n"), "{}", nothing.err);
}

/// results.md 2: a refusal says what happened, why, what to do, and what may be concluded; exit code 1.
#[tokio::test]
async fn a_refusal_says_what_may_be_concluded() {
    let shop = Shop::open().await;
    let set = ["call", "bakery", "oven.setSetpoint"];
    let told = shop.run(&[&set[..], &["warm"]].concat()).await;
    assert_eq!((told.code, told.out.as_str()), (1, ""));
    for words in
        ["argument 0 (celsius): expected a number, got 'warm'", "code: invalid_params", "outcome: not_run", "fix: "]
    {
        assert!(told.err.contains(words), "{words}: {}", told.err);
    }
    for (arguments, code, outcome) in [
        (&["call", "bakery", "oven.setSetpoint", "warm"][..], "invalid_params", "not_run"),
        (&["call", "bakery", "oven.setSetpoint"], "invalid_params", "not_run"),
        (&["call", "bakery", "oven.setSetpoint", "-5"], "invalid_params", "not_run"),
        (&["call", "bakery", "oven.setMode", "holding"], "invalid_params", "not_run"),
        (&["call", "bakery", "oven.startBatch", "rye", "10"], "peer_refused", "not_run"),
        (&["call", "bakery", "oven.calibrate", "1"], "not_in_control", "not_run"),
        (&["call", "bakery", "oven.nope"], "unknown_method", "not_run"),
        (&["call", "bakery", "oven.setSetpoint", "20", "--read-only"], "read_only", "not_run"),
        (&["call", "nobody", "oven.read", "--wait", "0"], "unknown_peer", "not_run"),
    ] {
        let refused = shop.run(&[arguments, &["--json"]].concat()).await.refusal();
        assert_eq!((&refused["code"], &refused["outcome"]), (&json!(code), &json!(outcome)), "{refused}");
        assert!(refused["cause"].is_string() && refused["fix"].is_string(), "{refused}");
    }
    let guarded =
        ended(shop.command(&["call", "bakery", "oven.setSetpoint", "20"]).env("PLANTBRIDGE_READ_ONLY", "1")).await;
    assert!(guarded.code == 1 && guarded.err.contains("code: read_only"), "{}", guarded.err);
    let misspelt = ended(shop.command(&["peers"]).env("PLANTBRIDGE_READ_ONLY", "yes")).await;
    assert!(misspelt.code == 2 && misspelt.err.contains("PLANTBRIDGE_READ_ONLY"), "{}", misspelt.err);
}

/// The bakery's own contract, changed.
fn contract(change: impl FnOnce(&mut Json)) -> tempfile::TempPath {
    let mut document: Json = serde_json::from_str(include_str!("../../contracts/bakery.types.json")).unwrap();
    change(&mut document);
    let file = tempfile::Builder::new().suffix(".types.json").tempfile().unwrap();
    serde_json::to_writer(&file, &document).unwrap();
    file.into_temp_path()
}

/// S-057: what breaks a caller ends with 1; what is compatible, and what could not be compared, does not.
#[tokio::test]
async fn s057_check_holds_a_peer_against_a_contract() {
    let shop = Shop::open().await;
    let check = async |peer: &str, file: &std::path::Path, more: &[&str]| {
        let file = file.to_str().unwrap();
        shop.run(&[&["check", "--peer", peer, "--against", file], more].concat()).await
    };
    let same = contract(|_| {});
    let told = check("bakery", &same, &[]).await;
    let last = format!("bakery serves oven, faults compatibly with {}", same.display());
    assert_eq!((told.code, told.out.lines().last()), (0, Some(last.as_str())), "{}", told.err);
    // A caller that may send more than the oven takes is broken by it.
    let wider = contract(|document| {
        let method = &mut document["namespaces"]["oven"]["methods"]["setMode"];
        method["params"] = json!([{"kind": "string"}]);
        document["namespaces"]["mixer"] = json!({"methods": {}});
    });
    let told = check("bakery", &wider, &[]).await;
    assert_eq!(told.code, 1);
    assert!(
        told.out.contains("  mixer is not served\n") && told.out.contains("  oven.setMode argument 0 narrowed"),
        "{}",
        told.out
    );
    assert!(told.out.lines().last().unwrap().starts_with("2 breaking changes between "), "{}", told.out);
    let told = check("bakery", &wider, &["--json"]).await;
    let json = told.json();
    assert_eq!((told.code, &json["breaking"], &json["missing"]), (1, &json!(2), &json!(["mixer"])));
    assert_eq!((&json["compatible"], &json["problems"][0]["where"]), (&json!(false), &json!("setMode argument 0")));
    for (file, code) in [
        ("nowhere.json", "cannot_read"),
        ("Cargo.toml", "cannot_read"),
        ("tests/vectors/names.json", "invalid_contract"),
    ] {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        assert_eq!(check("bakery", &file, &["--json"]).await.refusal()["code"], code, "{}", file.display());
    }
    assert_eq!(check("nobody", &same, &["--json", "--wait", "0"]).await.refusal()["code"], "unknown_peer");
}

/// Semantics 5.5: a difference ends with 1; two files need no broker; a peer and its own contract do not differ.
#[tokio::test]
async fn diff_compares_peers_and_files() {
    let shop = Shop::open().await;
    let (same, other) = (contract(|_| {}), contract(|document| document["namespaces"]["oven"]["version"] = json!("2")));
    let (same, other) = (same.to_str().unwrap(), other.to_str().unwrap());
    for (left, right, code) in
        [("bakery", same, 0), (same, "bakery", 0), ("bakery", "peer:bakery", 0), ("bakery", other, 1)]
    {
        let told = shop.run(&["diff", left, right]).await;
        assert_eq!(told.code, code, "{left} {right}: {}{}", told.out, told.err);
    }
    let told = ended(&mut plantbridge(&["diff", same, other, "--json"])).await;
    let json = told.json();
    assert_eq!((told.code, &json["same"]), (1, &json!(false)));
    assert_eq!(
        json["differences"],
        json!([{"namespace": "oven", "member": "contract version", "left": "1", "right": "2"}])
    );
    let told = shop.run(&["diff", "bakery", "packaging"]).await;
    assert!(told.code == 1 && told.out.contains("  oven: served | -\n"), "{}", told.out);
    assert_eq!(
        ended(&mut plantbridge(&["diff", same, "nowhere.json", "--json"])).await.refusal()["code"],
        "cannot_read"
    );
    assert_eq!(ended(&mut plantbridge(&["diff", same, "bakery"])).await.code, 2);
}

/// Control belongs to a name, so it is taken and used under one.
#[tokio::test]
async fn control_is_taken_and_used_under_one_name() {
    let shop = Shop::open().await;
    let nobody = shop.run(&["call", "bakery", "oven.$acquire", "60000"]).await;
    assert_eq!((nobody.code, nobody.out.as_str(), nobody.err.lines().count()), (2, "", 1), "{}", nobody.err);
    assert!(nobody.err.contains("--name"), "{}", nobody.err);
    let taken = shop.run(&["call", "bakery", "oven.$acquire", "60000", "--name", "hand"]).await.json();
    assert_eq!(taken["holder"], "hand");
    let used = shop.run(&["call", "bakery", "oven.calibrate", "-1", "--name", "hand"]).await;
    assert_eq!((used.code, used.out.as_str()), (0, "-1\n"), "{}", used.err);
    let refused = shop.run(&["call", "bakery", "oven.calibrate", "2", "--json"]).await.refusal();
    assert_eq!((&refused["code"], &refused["outcome"]), (&json!("not_in_control"), &json!("not_run")));
    assert!(refused["fix"].as_str().unwrap().contains("call bakery 'oven.$acquire' 60000 --name ME"), "{refused}");
}

/// A broker ends the older of two connections of one name (W-033), so whoever looks around under the name of a device would
/// throw it off: nothing that joins under a name in use does, whatever it is for.
#[tokio::test]
async fn a_name_in_use_is_refused_and_its_holder_stays() {
    let shop = Shop::open().await;
    let url = mqtt::BrokerUrl::parse(shop.demo.url()).unwrap();
    let topics = |name: &str| Topics::new(&Prefix::default(), PeerName::mqtt(name).unwrap()).unwrap();
    let mut heard = mqtt::Tap::new(mqtt::Config::new(url, topics("ear"))).watch();
    let file = contract(|_| {});
    let file = file.to_str().unwrap();
    let verbs: [&[&str]; 6] = [
        &["peers"],
        &["describe", "packaging"],
        &["call", "packaging", "oven.read"],
        &["watch", "packaging", "oven.doorChanged"],
        &["check", "--peer", "packaging", "--against", file],
        &["diff", "bakery", "packaging"],
    ];
    let (wait, name) = (["--wait", "0", "--json"], ["--name", "bakery"]);
    let refused = verbs.map(|verb| [verb, &wait, &name].concat());
    let refused = futures_util::future::join_all(refused.iter().map(|verb| shop.run(verb))).await;
    for (refused, verb) in refused.iter().zip(verbs) {
        let told = refused.refusal();
        assert_eq!((&told["code"], &told["links"][0]["kind"]), (&json!("network_unavailable"), &json!("name_taken")));
        let message = told["message"].as_str().unwrap();
        assert!(
            message.contains("a peer named bakery is on the network; a second one would throw it"),
            "{verb:?}: {told}"
        );
        assert_eq!(told["fix"], "another peer may hold this name; choose another --name");
    }
    // What serves others goes on answering, and says why it is not there.
    let mut bridge = shop.command(&["mcp", "--name", "bakery"]);
    let mut bridge = bridge.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(bridge.stderr.take().unwrap()).lines();
    while !line(&mut log).await.expect("it says so").contains("a peer named bakery is on the network") {}
    drop(bridge.stdin.take());
    assert_eq!(timeout(PATIENCE, bridge.wait()).await.expect("it ends").unwrap().code(), Some(0));
    assert_eq!(shop.run(&["peers", "--name", "last"]).await.code, 0);
    let (holder, last) = (topics("bakery"), topics("last"));
    loop {
        let next = timeout(PATIENCE, heard.next()).await.expect("the last one comes");
        if let mqtt::Tapped::Publish { publish, retained: false, .. } = next {
            assert_ne!(publish.topic, holder.presence(), "the holder of the name was thrown off: {publish:?}");
            if publish.topic == last.presence() {
                break;
            }
        }
    }
}

/// W-032: what a process that died left under its name is gone in a moment, and is waited for.
#[tokio::test]
async fn a_name_whose_holder_died_is_free_again() {
    let shop = Shop::open().await;
    for _ in 0..3 {
        let mut watch = shop.watch(&["--name", "hand"]).await;
        watch.signal(Signal::KILL);
        let told = shop.run(&["call", "bakery", "oven.read", "--name", "hand"]).await;
        assert_eq!(told.code, 0, "{}", told.err);
        let _ = watch.process.wait().await;
    }
}

/// Where one side signs and the other does not, nobody answers: that is no peer without a description, and why a frame was dropped
/// is said.
#[tokio::test]
async fn a_peer_that_is_not_believed_has_not_answered() {
    let shop = Shop::open().await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let keys = json!({"secret": "a secret of some length", "peers": {"bakery": "another secret of some length"}});
    std::io::Write::write_all(&mut file, keys.to_string().as_bytes()).unwrap();
    let contract = contract(|_| {});
    let (file, contract) = (file.path().to_str().unwrap(), contract.to_str().unwrap());
    for verb in [
        &["describe", "bakery"][..],
        &["check", "--peer", "bakery", "--against", contract],
        &["diff", "bakery", contract],
    ] {
        let told = shop.run(&[verb, &["--sign", file, "--timeout", "500"]].concat()).await;
        assert_eq!((told.code, told.out.as_str()), (1, ""), "{verb:?}: {}", told.err);
        assert!(told.err.contains("a frame was not believed"), "{verb:?}: {}", told.err);
        assert!(told.err.contains("\n  code: deadline_exceeded\n"), "{verb:?}: {}", told.err);
        assert!(told.err.contains("it may take only signed frames") && told.err.contains("--sign"), "{}", told.err);
    }
}

/// S-110: the later answer is waited for, with what the peer reports on the way; or the ticket is given.
#[tokio::test]
async fn a_later_answer_is_waited_for() {
    let shop = Shop::open().await;
    let told = shop.run(&["call", "bakery", "oven.bake", "rye"]).await;
    assert_eq!((told.code, &told.json()["recipe"]), (0, &json!("rye")), "{}", told.err);
    assert!(told.err.contains("progress: 0\n") && told.err.contains("progress: 100\n"), "{}", told.err);
    let told = shop.run(&["call", "bakery", "oven.bake", "rye", "--no-wait", "--json"]).await.json();
    let ticket = &told["ticket"];
    assert_eq!((&ticket["state"], &ticket["id"]), (&json!("pending"), &told["result"]["id"]));
    // Nobody can collect it, in words and for programs.
    let note = ticket["note"].as_str().unwrap();
    assert!(ticket["collectable"] == false && note.contains("nobody can collect"), "{ticket}");
    let shop = Shop::open().await;
    let told = shop.run(&["call", "bakery", "oven.bake", "rye", "--no-wait"]).await;
    assert!(told.err.contains("nobody can collect"), "{}", told.err);
}

/// tools.md 10: one line an event; interrupted, it leaves no subscription and says what it heard.
#[tokio::test]
async fn watch_tells_each_event_and_leaves_nothing_behind() {
    let shop = Shop::open().await;
    for (signal, options) in [(Signal::INT, &[][..]), (Signal::TERM, &["--json"])] {
        let mut watch = shop.watch(options).await;
        assert_eq!(shop.subscribers().await, 1);
        for position in ["open", "closed"] {
            shop.door(position).await;
            assert_eq!(watch.event().await["args"], json!([position]));
        }
        watch.signal(signal);
        let (code, lines, notes) = watch.end().await;
        assert_eq!(code, 0, "{notes:?}");
        match options {
            [] => assert_eq!((lines.len(), notes), (0, vec!["ended (interrupted): 2 heard, gapless".to_owned()])),
            _ => assert_eq!(
                serde_json::from_str::<Json>(&lines.concat()).unwrap(),
                json!({"ended": "interrupted", "heard": 2, "missed": 0, "verdict": "gapless"})
            ),
        }
        assert_eq!(shop.subscribers().await, 0);
    }
}

#[tokio::test]
async fn watch_ends_when_it_has_heard_enough_or_long_enough() {
    let shop = Shop::open().await;
    let watch = shop.watch(&["--max-events", "1"]).await;
    shop.door("open").await;
    let (code, lines, notes) = watch.end().await;
    assert_eq!((code, lines.len()), (0, 1), "{notes:?}");
    let (code, lines, notes) = shop.watch(&["--seconds", "1"]).await.end().await;
    assert_eq!((code, lines.len(), notes), (0, 0, vec!["ended (time): 0 heard, gapless".to_owned()]));
    assert_eq!(shop.subscribers().await, 0);
    let told = shop.run(&["watch", "bakery", "oven.dorChanged", "--seconds", "1"]).await;
    assert_eq!((told.code, told.out.as_str()), (1, ""), "nothing was heard of what is not declared: {}", told.err);
    assert!(told.err.contains("bakery.oven declares no event dorChanged; it has doorChanged"), "{}", told.err);
    let refused = shop.run(&["watch", "packaging", "nope.x", "--json"]).await.refusal();
    assert_eq!(refused["code"], "unknown_namespace");
    let refused = shop.run(&["watch", "bakery", "oven.$snapshot", "--json"]).await.refusal();
    assert_eq!(refused["code"], "bad_argument");
}

/// A reader that goes away ends every command quietly, and the watch without a subscription left.
#[tokio::test]
async fn a_closed_pipe_ends_quietly() {
    let shop = Shop::open().await;
    for arguments in
        [&["peers"][..], &["describe", "bakery"], &["call", "bakery", "oven.read"], &["man"], &["completions", "bash"]]
    {
        let told = unread(&mut shop.command(arguments)).await;
        assert_eq!(told.code, 0, "{arguments:?}: {}", told.err);
        assert!(!told.err.contains("panic") && !told.err.contains("ipe"), "{}", told.err);
    }
    let mut watch = shop.watch(&[]).await;
    drop(watch.lines);
    shop.door("open").await;
    let status = timeout(PATIENCE, watch.process.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(shop.subscribers().await, 0);
}

/// A broker that is not there is waited for as long as was said, and named; nothing is said on standard output.
#[tokio::test]
async fn a_broker_that_is_not_there_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mqtt://{}", listener.local_addr().unwrap());
    drop(listener);
    let began = Instant::now();
    let told = ended(&mut plantbridge(&["call", "bakery", "oven.read", "--broker", &url, "--wait", "1200"])).await;
    assert_eq!((told.code, told.out.as_str()), (1, ""));
    assert!(began.elapsed() >= Duration::from_millis(1200), "{:?}", began.elapsed());
    assert!(told.err.contains("code: network_unavailable") && told.err.contains("outcome: not_run"), "{}", told.err);
    assert!(told.err.starts_with("plantbridge: the plant network is not reachable: "), "{}", told.err);
    let told = ended(&mut plantbridge(&["peers"])).await;
    assert_eq!((told.code, told.out.as_str(), told.err.lines().count()), (2, "", 1), "{}", told.err);
    assert!(told.err.contains("--broker") && told.err.contains("PLANTBRIDGE_BROKER"), "{}", told.err);
    let told = ended(plantbridge(&["peers"]).env("PLANTBRIDGE_BROKER", "http://x")).await;
    assert!(told.code == 2 && told.err.starts_with("plantbridge: PLANTBRIDGE_BROKER: "), "{}", told.err);
    for flags in [
        &["--broker", "http://x"][..],
        &["--broker", "mqtt://h", "--name", "a/b"],
        &["--broker", "mqtt://h", "--ca", "x.pem"],
    ] {
        let told = ended(&mut plantbridge(&[&["peers"], flags].concat())).await;
        assert_eq!((told.code, told.out.as_str(), told.err.lines().count()), (2, "", 1), "{}", told.err);
        assert!(told.err.contains(flags[flags.len() - 2]), "{}", told.err);
    }
}

/// What serves others keeps its exit code for whatever keeps it from starting.
#[tokio::test]
async fn wrong_usage_is_one_line_and_its_exit_code_depends_on_whom_it_is_for() {
    for (arguments, code) in [(&["call", "x"][..], 2), (&["nonsense"], 2), (&["mcp", "--bogus"], 1), (&["mcp"], 1)] {
        let told = ended(&mut plantbridge(arguments)).await;
        assert_eq!((told.code, told.out.as_str(), told.err.lines().count()), (code, "", 1), "{}", told.err);
    }
    let told = ended(&mut plantbridge(&["mcp"])).await;
    assert!(told.err.contains("PLANTBRIDGE_BROKER") && told.err.contains("PLANTBRIDGE_HUB"), "{}", told.err);
}

#[tokio::test]
async fn completions_and_the_manual_come_from_the_command_line() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let told = ended(&mut plantbridge(&["completions", shell])).await;
        assert!(told.code == 0 && told.out.contains("describe") && told.out.contains("idempotency-key"), "{shell}");
    }
    let told = ended(&mut plantbridge(&["man"])).await;
    assert!(told.code == 0 && told.out.contains(".TH plantbridge 1") && told.out.contains("plantbridge\\-watch(1)"));
    let told = ended(&mut plantbridge(&["man", "call"])).await;
    assert!(told.code == 0 && told.out.contains("\\-\\-idempotency\\-key"), "{}", told.out);
    for section in [".SH ENVIRONMENT\n", "PLANTBRIDGE_MQTT_PASSWORD", "PLANTBRIDGE_HUB", ".SH EXIT STATUS\n"] {
        assert!(told.out.contains(section), "{section}");
    }
    assert_eq!(ended(&mut plantbridge(&["man", "nope"])).await.code, 2);
}

/// What a package installs: a page of everything, one a subcommand, and none of what only a bridge starts.
#[tokio::test]
async fn every_page_of_the_manual_can_be_written() {
    let scratch = tempfile::tempdir().expect("a scratch folder can be made");
    let folder = scratch.path().join("made/by/it");
    let into = folder.to_str().expect("it is text");
    let told = ended(&mut plantbridge(&["man", "--into", into])).await;
    assert_eq!((told.code, told.out.as_str(), told.err.as_str()), (0, "", ""));
    let pages = std::fs::read_dir(&folder).expect("it was made");
    let pages: BTreeSet<String> =
        pages.map(|page| page.expect("it can be read").file_name().to_string_lossy().into_owned()).collect();
    for page in ["plantbridge.1", "plantbridge-mcp.1", "plantbridge-call.1", "plantbridge-man.1"] {
        assert!(pages.contains(page), "{pages:?}");
    }
    for page in ["plantbridge-help.1", "plantbridge-supervise.1", "plantbridge-handlers.1"] {
        assert!(!pages.contains(page), "{pages:?}");
    }
    let call = std::fs::read_to_string(folder.join("plantbridge-call.1")).expect("it is there");
    assert_eq!(call, ended(&mut plantbridge(&["man", "call"])).await.out, "the page is the one that is printed");

    let told = ended(&mut plantbridge(&["man", "call", "--into", into])).await;
    assert!(told.code == 2 && told.err.contains("--into"), "{}", told.err);
    let file = folder.join("plantbridge.1");
    let told = ended(&mut plantbridge(&["man", "--into", file.to_str().expect("it is text")])).await;
    assert!(told.code == 1 && told.err.contains("plantbridge.1"), "{}", told.err);
}

/// Everything a terminal would obey, and a line that pretends to be ours.
const RUDE: &str = "\u{1b}[2J\u{9b}31m\n  outcome: not_run\r\u{202e}\u{7}";

/// A peer all of whose words are rude.
#[derive(Debug)]
struct Rude;

impl Service for Rude {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        Box::pin(async move {
            match call.method.as_str() {
                "shout" => {
                    node.emit("mouth", "word", vec![RUDE.into()]).await;
                    Ok(Some(RUDE.into()))
                }
                _ => Err(Failure::exception(RUDE)),
            }
        })
    }
}

fn rude(url: &str) -> Node {
    let name = || PeerName::mqtt("rude").unwrap();
    let topics = Topics::new(&Prefix::default(), name()).unwrap();
    let link = mqtt::start(mqtt::Config::new(mqtt::BrokerUrl::parse(url).unwrap(), topics), LinkId(0));
    let surface = ServedNamespace {
        name: "mouth".into(),
        version: Some(RUDE.into()),
        class_name: RUDE.into(),
        emitter: true,
        methods: Vec::from(["shout", "fail", RUDE].map(Method::undeclared)).into(),
        events: ["word", RUDE].map(|name| Event { name: name.into(), ..Event::default() }).into(),
        capabilities: vec![RUDE.into()],
        ..ServedNamespace::default()
    };
    let exposed =
        Exposed { name: "mouth".into(), surface, validate: false, component: None, mailbox: 10, path_writes: false };
    let serving = Serving { introspection: true, version: Some(RUDE.into()), ..Serving::default() };
    let identity = Identity { name: name(), serving, exposed: vec![(exposed, Arc::new(Rude))] };
    Node::start(identity, vec![link]).0
}

/// F-36: whatever a peer says is data on a terminal: escaped, and never a line of its own.
#[tokio::test]
async fn nothing_a_peer_says_reaches_the_terminal_as_it_is() {
    let shop = Shop::open().await;
    let peer = rude(shop.demo.url());
    let harmless = |text: &str| text.chars().all(|c| matches!(c, '\n' | '\t') || !plantbridge::mcp::text::is_unsafe(c));
    for (arguments, code) in [
        (&["peers"][..], 0),
        (&["describe", "rude"], 0),
        (&["describe", "rude", "--json"], 0),
        (&["describe", "rude", "mouthy"], 1),
        (&["call", "rude", "mouth.shout"], 0),
        (&["call", "rude", "mouth.shout", "--json"], 0),
        (&["call", "rude", "mouth.fail"], 1),
        (&["call", "rude", "mouth.fail", "--json"], 1),
        (&["call", "rude", "mouth.nope"], 1),
        (&["call", "\u{1b}[31m", "mouth.nope", "--wait", "0"], 1),
    ] {
        let told = shop.run(arguments).await;
        assert_eq!(told.code, code, "{arguments:?}: {}{}", told.out, told.err);
        assert!(harmless(&told.out) && harmless(&told.err), "{arguments:?}: {:?}{:?}", told.out, told.err);
        let forged = told.err.lines().filter(|line| line.starts_with("  outcome: not_run\\r")).count();
        assert_eq!(forged, 0, "{}", told.err);
    }
    let failed = shop.run(&["call", "rude", "mouth.fail"]).await;
    assert!(failed.err.contains("\n  outcome: ran\n") || failed.err.ends_with("\n  outcome: ran\n"), "{}", failed.err);
    let shouted: Value = plantbridge::wire::json::from_json(shop.run(&["call", "rude", "mouth.shout"]).await.json());
    assert_eq!(shouted, RUDE.into(), "escaped, and still the same value");
    peer.leave();
}
