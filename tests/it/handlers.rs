//! Code that the scripts of fakes bring along, run by the real binary: what it answers, what it cannot do, and that whatever
//! it does the fake goes on.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use plantbridge::demo::broker::Broker;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};
use tokio::time::{Instant, timeout};

use crate::{
    fakes::{Bridge, boiler, until},
    harness::Client,
    tools::{bad, client_of, good},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// The binary under a name of its own, by which its processes are known from those of other tests.
struct Program {
    path: PathBuf,
}

impl Program {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("plantbridge-{}", uuid::Uuid::new_v4()));
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_plantbridge"), &path).unwrap();
        Self { path }
    }

    /// Its processes.
    fn pids(&self) -> Vec<i32> {
        let begins = [self.path.to_str().unwrap().as_bytes(), b"\0"].concat();
        let of = |pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(&begins));
        processes().filter(of).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether there is a process of this number, one that nobody has waited for included.
fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A bridge that runs code, and a client of it.
struct Workshop {
    program: Program,
    client: Client,
    bridge: Bridge,
    _broker: Broker,
}

impl Workshop {
    async fn open() -> Self {
        let (broker, program) = (Broker::start().await.unwrap(), Program::new());
        let bridge = Bridge::join_to_run(&broker.url(), &program.path).await;
        let client = client_of(bridge.plant.clone()).await;
        Self { program, client, bridge, _broker: broker }
    }

    /// A fake called `double`, of a contract whose methods take and give anything.
    async fn double(&mut self, script: Json) -> Json {
        good(&mut self.client, "start_fake", json!({"name": "double", "schema": anything(), "script": script})).await
    }

    async fn call(&mut self, method: &str, args: Json) -> Result<Json, String> {
        let (namespace, method) = method.rsplit_once('.').unwrap();
        let call = json!({"peer": "double", "namespace": namespace, "method": method, "args": args});
        let answer = self.client.call("call_method", call).await;
        let told = &answer["structuredContent"];
        if answer["isError"] == true {
            let peer = &told["error"]["peer_error"];
            let text = |field: &str| peer[field].as_str().unwrap_or_else(|| panic!("{answer}"));
            return Err(format!("{}: {}", text("code"), text("message")));
        }
        Ok(told["result"].clone())
    }

    async fn stop(&mut self) {
        good(&mut self.client, "stop_fake", json!({"name": "double"})).await;
        assert!(self.program.pids().is_empty(), "nothing runs for a fake that is gone");
    }
}

/// Methods that take and give anything.
fn anything() -> Json {
    let any = json!({"kind": "any"});
    let query = json!({"params": [{"kind": "any", "optional": true}], "returns": any, "semantics": "query"});
    let mut methods = serde_json::Map::new();
    for name in ["bad", "fine", "count", "plain"] {
        methods.insert(name.into(), query.clone());
    }
    methods.insert("number".into(), json!({"params": [], "returns": {"kind": "number", "max": 5}, "semantics": "query"}));
    json!({"schema": 1, "namespaces": {"a": {"methods": methods}}})
}

/// What every fake in here can do beside what is bad.
fn with_bad(bad: &str) -> Json {
    json!({
        "handlers": {"a.bad": bad, "a.fine": "() => 'fine'", "a.count": "() => state.n = (state.n ?? 0) + 1"},
        "returns": {"a.plain": "plain"}
    })
}

/// What does not end by itself, in the language and in what the language is built of, is cut off; what was shared is still
/// there, and the next call is answered (F-26).
#[tokio::test]
async fn f26_what_does_not_end_is_cut_off_and_the_fake_goes_on() {
    let mut shop = Workshop::open().await;
    for endless in [
        "() => { for (;;) {} }",
        "() => { state.n = 'ruined'; for (;;) {} }",
        "() => /^(a+)+$/.test('a'.repeat(40) + 'b')",
        "() => Array.from({length: 1000}, (_, at) => at % 7).sort(() => { for (;;) {} })",
        "() => { for (;;) 'a'.repeat(2 ** 22).replaceAll('a', 'b').split('b') }",
        "async () => { for (;;) await null }",
        "() => { (async () => { for (;;) await null })(); return 'left alone' }",
        "() => ({get a() { for (;;) {} }})",
        "() => { throw {toString() { for (;;) {} }} }",
        "() => { state.x = {get a() { for (;;) {} }} }",
        "() => { const a = []; a[4294967294] = 1; return a.sort((a, b) => a - b).map((a) => a).fill(1) }",
    ] {
        shop.double(with_bad(endless)).await;
        assert_eq!(shop.call("a.count", json!([])).await, Ok(json!(1)), "{endless}");
        let began = Instant::now();
        let told = shop.call("a.bad", json!([])).await.unwrap_err();
        assert!(told.starts_with("Exception: "), "{endless}: {told}");
        assert!(told.contains("a.bad: did not answer within 200 ms") || told.contains("out of memory"), "{endless}: {told}");
        assert!(began.elapsed() < Duration::from_secs(10), "{endless}");
        assert_eq!(shop.call("a.fine", json!([])).await, Ok(json!("fine")), "{endless}");
        assert_eq!(shop.call("a.count", json!([])).await, Ok(json!(2)), "what was shared is still there: {endless}");
        shop.stop().await;
    }
}

/// What takes too much, gives what is no value, or throws what is no error, fails its call and nothing else.
#[tokio::test]
async fn what_goes_wrong_fails_its_call_and_nothing_else() {
    let mut shop = Workshop::open().await;
    for (wrong, holds) in [
        ("() => { const all = []; for (;;) all.push(new Array(1e6).fill(all.length)) }", "a.bad: "),
        ("() => { const f = () => f() + 1; return f() }", "call stack"),
        ("() => 'a'.repeat(2 ** 31)", "a.bad: "),
        ("() => new Promise(() => {})", "the promise it returned never settles"),
        ("() => { const a = {}; a.a = a; return a }", "holds itself"),
        ("() => 10n", "a big integer"),
        ("() => () => 1", "a function"),
        ("() => { throw 5 }", "a.bad: 5"),
        ("() => { throw undefined }", "a.bad: undefined"),
        ("() => { throw new TypeError('too hot') }", "a.bad: TypeError: too hot"),
        ("() => console.log('printed')", "console is not defined"),
        ("() => print('printed')", "print is not defined"),
        ("() => state.constructor.constructor('return process')()", "not a function"),
        ("() => import('fs')", "a.bad: "),
        ("() => 'x'.repeat(600000)", "more than 524288 bytes"),
        ("() => new Array(100000)", "more than 65536 values"),
        ("() => ({\"$date\": 5})", "it gave no value"),
    ] {
        shop.double(with_bad(wrong)).await;
        let told = shop.call("a.bad", json!([])).await.unwrap_err();
        assert!(told.starts_with("Exception: ") && told.contains(holds), "{wrong}: {told}");
        assert_eq!(shop.call("a.fine", json!([])).await, Ok(json!("fine")), "{wrong}");
        shop.stop().await;
    }
}

/// S-123: what does not compile, is no function, or runs something without end before it is one, refuses the fake, with
/// where. Nothing of it is on the network, and nothing of it runs.
#[tokio::test]
async fn s123_what_cannot_be_run_refuses_the_fake() {
    let mut shop = Workshop::open().await;
    let many: serde_json::Map<String, Json> = ["a.bad", "a.fine"].map(|name| (name.into(), json!("=>"))).into_iter().collect();
    let long = ["a.bad", "a.fine", "a.count", "a.plain", "a.number"].map(|name| (name.into(), json!("x".repeat(60_000))));
    let long: serde_json::Map<String, Json> = long.into_iter().collect();
    for (script, pointer, holds) in [
        (json!({"handlers": {"a.bad": "=>"}}), "/handlers/a.bad", "does not compile: SyntaxError"),
        (json!({"handlers": {"a.bad": "() => {\n  return 1 +;\n}"}}), "/handlers/a.bad", "(line 2, column 13)"),
        (json!({"handlers": {"a.bad": "5"}}), "/handlers/a.bad", "is not a function"),
        (json!({"handlers": {"a.bad": 5}}), "/handlers/a.bad", "the source of a function"),
        (json!({"handlers": {"a.none": "() => 1"}}), "/handlers/a.none", "no method 'none'"),
        (json!({"handlers": {"a.bad": "(() => { for (;;) {} })()"}}), "/handlers", "longer than 10 s"),
        (json!({"handlers": {"a.bad": "() => 1"}, "state": 5}), "/state", "expected an object"),
        (json!({"handlers": long}), "/handlers", "262144 is the most"),
        (json!({"handlers": many}), "/handlers/a.bad", "does not compile"),
    ] {
        let refused =
            bad(&mut shop.client, "start_fake", json!({"name": "double", "schema": anything(), "script": script})).await;
        assert_eq!((&refused["code"], &refused["outcome"]), (&json!("invalid_script"), &json!("not_run")), "{refused}");
        let first = &refused["problems"][0];
        assert_eq!(first["pointer"], pointer, "{refused}");
        assert!(first["problem"].as_str().unwrap().contains(holds), "{refused}");
        assert!(shop.program.pids().is_empty(), "{refused}");
        assert!(shop.bridge.plant.list_fakes().fakes.is_empty());
    }
}

/// What a handler gives is held against the contract, as every answer of a fake is; and what it is given was.
#[tokio::test]
async fn what_a_handler_gives_fits_the_contract_or_is_refused() {
    let mut shop = Workshop::open().await;
    shop.double(json!({"handlers": {"a.number": "() => state.next", "a.fine": "(x) => { state.next = x }"}, "state": {"next": 3}}))
        .await;
    assert_eq!(shop.call("a.number", json!([])).await, Ok(json!(3)));
    for forbidden in [json!(7), json!("text"), json!(null)] {
        assert_eq!(shop.call("a.fine", json!([forbidden])).await, Ok(json!(null)));
        let told = shop.call("a.number", json!([])).await.unwrap_err();
        assert!(told.contains("a.number returned a value its own schema forbids: result"), "{told}");
    }
}

/// The recorded calls of handlers, and the order of answers: fails, then handlers, then returns.
#[tokio::test]
async fn s013_the_recorded_calls_of_handlers() {
    let file: Json = serde_json::from_str(include_str!("../vectors/sem-fake-peer.json")).unwrap();
    let mut shop = Workshop::open().await;
    let number = json!({"kind": "number"});
    let contract = json!({"schema": 1, "namespaces": {"plant": {"methods": {
        "read": {"params": [], "returns": {"kind": "any"}, "semantics": "query"},
        "writeSetpoint": {"params": [number], "returns": number},
        "dispense": {"params": [], "returns": {"kind": "any"}}}}}});
    let script = json!({
        "state": {"n": 0},
        "handlers": {
            "plant.read": "() => ({celsius: ++state.n})",
            "plant.writeSetpoint": "(value) => { if (value > 5) throw new Error('too hot'); return value * 2 }",
            "plant.dispense": "() => 'never asked'"
        },
        "returns": {"plant.read": {"celsius": 99}},
        "fails": {"plant.dispense": "Exception"}
    });
    let started = good(&mut shop.client, "start_fake", json!({"name": "double", "schema": contract, "script": script})).await;
    assert_eq!(started["handlers"], 3);
    let calls = file["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 5);
    for row in calls {
        let told = shop.call(&format!("plant.{}", row["method"].as_str().unwrap()), row["args"].clone()).await;
        match row.get("message") {
            None => assert_eq!(told, Ok(row["result"].clone()), "{row}"),
            Some(message) => {
                let (code, text) = message.as_str().unwrap().split_once(": ").unwrap();
                let told = told.unwrap_err();
                assert!(told.starts_with(&format!("{code}: ")) && told.contains(text), "{row}: {told}");
            }
        }
    }
}

/// A handler that takes its time keeps nobody waiting but those who ask for handlers too, and of those only so many.
#[tokio::test]
async fn a_handler_keeps_nobody_else_waiting() {
    let mut shop = Workshop::open().await;
    shop.double(with_bad("() => { for (;;) {} }")).await;
    let asked = |method: &str| {
        let (node, call) = (shop.bridge.node.clone(), crate::fakes::call("double", "a", method, vec![]));
        async move { node.call(call).await }
    };
    let mut endless = Box::pin(asked("bad"));
    tokio::select! {
        biased;
        told = &mut endless => panic!("it ended first: {told:?}"),
        told = asked("plain") => assert_eq!(told.unwrap().value, Some("plain".into())),
    }
    assert!(timeout(PATIENCE, endless).await.unwrap().is_err());
    // More at once than may wait: the last ones are refused at once, and all are answered when the fake goes.
    let many: Vec<_> = (0..40).map(|_| tokio::spawn(asked("bad"))).collect();
    let (program, client) = (&shop.program, &mut shop.client);
    good(client, "call_method", json!({"peer": "double", "namespace": "a", "method": "plain"})).await;
    good(client, "stop_fake", json!({"name": "double"})).await;
    assert!(program.pids().is_empty());
    let mut refused = 0;
    for told in many {
        let told = format!("{:?}", timeout(PATIENCE, told).await.unwrap().unwrap().unwrap_err());
        refused += usize::from(told.contains("32 calls wait for its handlers already"));
    }
    assert!((6..=8).contains(&refused), "{refused}");
}

/// A method that sets something sets it when its handler has answered, and not when that failed; one that answers later
/// answers later what its handler gave.
#[tokio::test]
async fn a_handler_guards_what_its_method_sets() {
    let mut shop = Workshop::open().await;
    let script = json!({
        "handlers": {
            "boiler.setTarget": "(celsius) => { if (celsius > 80) throw new Error('too hot'); state.last = celsius; return true }",
            "boiler.report": "async () => 7 + state.last"
        },
        "state": {"last": 0},
        "components": {"boiler": {"target": 40}}
    });
    good(&mut shop.client, "start_fake", json!({"name": "double", "schema": boiler(), "script": script})).await;
    let target = async |client: &mut Client| {
        good(client, "read_state", json!({"peer": "double", "namespace": "boiler"})).await["state"]["target"].clone()
    };
    assert_eq!(target(&mut shop.client).await, 40);
    assert_eq!(shop.call("boiler.setTarget", json!([70])).await, Ok(json!(true)));
    let client = &mut shop.client;
    until_shown(client, 70).await;
    let told = shop.call("boiler.setTarget", json!([85])).await.unwrap_err();
    assert_eq!(told, "Exception: boiler.setTarget: Error: too hot");
    assert_eq!(target(&mut shop.client).await, 70, "nothing was set");
    let report = json!({"peer": "double", "namespace": "boiler", "method": "report", "wait_seconds": 10});
    let report = good(&mut shop.client, "call_method", report).await;
    assert_eq!((&report["ticket"]["state"], &report["result"]), (&json!("resolved"), &json!(77)), "{report}");
    shop.stop().await;
}

async fn until_shown(client: &mut Client, expected: i64) {
    let late = Instant::now() + PATIENCE;
    loop {
        let state = good(client, "read_state", json!({"peer": "double", "namespace": "boiler"})).await;
        if state["state"]["target"] == expected {
            return;
        }
        assert!(Instant::now() < late, "{state}");
    }
}

/// A process that somebody kills a thousand times: each next call is answered with what was shared, and no process and no
/// descriptor is left.
#[tokio::test]
async fn a_thousand_kills_leave_nothing_behind() {
    let mut shop = Workshop::open().await;
    shop.double(with_bad("() => 1")).await;
    let before = open_descriptors();
    let mut seen = Vec::new();
    for round in 1..=1_000 {
        assert_eq!(shop.call("a.count", json!([])).await, Ok(json!(round)));
        let pids = shop.program.pids();
        let [pid] = pids[..] else { panic!("{pids:?}") };
        kill(pid);
        until(|| !is_there(pid)).await;
        seen.push(pid);
    }
    let after = open_descriptors();
    assert!(after < before + 100, "one a kill would be a thousand: {before} before, {after} after");
    assert_eq!(shop.call("a.fine", json!([])).await, Ok(json!("fine")));
    shop.stop().await;
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 900, "they were processes of their own: {}", seen.len());
}
