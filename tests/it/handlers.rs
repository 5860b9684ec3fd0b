//! Code that the scripts of fakes bring along, run by the real binary: what it answers, what it cannot do, and that whatever
//! it does the fake goes on.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use plantbridge::{
    demo::broker::Broker,
    mcp::{Offer, Registry, tools},
};
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
    methods
        .insert("number".into(), json!({"params": [], "returns": {"kind": "number", "max": 5}, "semantics": "query"}));
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
        assert!(
            told.contains("a.bad: did not answer within 200 ms") || told.contains("out of memory"),
            "{endless}: {told}"
        );
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
        ("() => new Map([['a', 1]])", "it gave a Map, which is no value peers exchange"),
        ("() => ({ inner: [new Set([1])] })", "it gave a Set, which is no value peers exchange"),
        ("() => { const Kept = Map; Map = Object; return new Kept([['a', 1]]) }", "it gave a Map"),
        ("() => { state.all = new Map([['a', 1]]) }", "it gave a Map"),
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
    let many: serde_json::Map<String, Json> =
        ["a.bad", "a.fine"].map(|name| (name.into(), json!("=>"))).into_iter().collect();
    let long =
        ["a.bad", "a.fine", "a.count", "a.plain", "a.number"].map(|name| (name.into(), json!("x".repeat(60_000))));
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
            bad(&mut shop.client, "start_fake", json!({"name": "double", "schema": anything(), "script": script}))
                .await;
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
    let started =
        good(&mut shop.client, "start_fake", json!({"name": "double", "schema": contract, "script": script})).await;
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

/// A program whose functions do what is bad, beside one that is fine.
fn program(bad: &str) -> Json {
    let program = format!(
        "import os, sys, time\ncount = 0\n\n@rpc('a.bad')\ndef bad(x=None):\n{bad}\n\n@rpc('a.fine')\ndef fine(x=None):\n    return 'fine'\n\n\
         @rpc('a.count')\ndef more(x=None):\n    global count\n    count += 1\n    return count\n"
    );
    json!({"python": {"program": program, "targets": ["a.bad", "a.fine", "a.count"]}, "returns": {"a.plain": "plain"}})
}

/// Functions of a Python program answer, with what they keep; JavaScript goes before them. They are told nothing of where
/// they run but what is named, and begin in an empty directory of their own (F-25).
#[tokio::test]
async fn f25_a_python_program_answers_and_is_told_little() {
    let mut shop = Workshop::open().await;
    let mut script = program(
        "    import datetime\n    made = sorted(os.environ)\n    open('left', 'w').write('x')\n    \
         return {'names': made, 'cwd': os.getcwd(), 'there': os.listdir('.'), 'at': x, 'argv': sys.argv, 'fd': sys.stdin.read()}",
    );
    script["handlers"] = json!({"a.number": "() => 4", "a.fine": "() => 'of JavaScript'"});
    let started = shop.double(script).await;
    assert_eq!(started["handlers"], 4);
    for expected in 1..=3 {
        assert_eq!(shop.call("a.count", json!([])).await, Ok(json!(expected)));
    }
    assert_eq!(shop.call("a.fine", json!([])).await, Ok(json!("of JavaScript")));
    assert_eq!(shop.call("a.plain", json!([])).await, Ok(json!("plain")));
    let at = json!({"$date": "2026-08-07T18:22:10.114Z"});
    let told = shop.call("a.bad", json!([at])).await.unwrap();
    // A shim of a Python may add its own; of what there is around this test nothing goes along.
    let names: Vec<&str> = told["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(
        std::env::var_os("CARGO_MANIFEST_DIR").is_some() && ["HOME", "TMPDIR"].iter().all(|own| names.contains(own))
    );
    assert!(!names.iter().any(|name| name.starts_with("CARGO") || *name == "USER"), "{names:?}");
    assert_eq!((&told["there"], &told["at"], &told["fd"]), (&json!(["left"]), &at, &json!("")));
    let directory = PathBuf::from(told["cwd"].as_str().unwrap());
    assert!(directory.is_dir());
    shop.stop().await;
    assert!(!directory.exists(), "its directory is gone with it");
}

/// Whatever a program does, its call fails and the fake goes on.
#[tokio::test]
async fn whatever_a_program_does_the_fake_goes_on() {
    let mut shop = Workshop::open().await;
    for (bad, holds) in [
        ("    raise ValueError('too hot')", "Exception: a.bad: ValueError: too hot"),
        ("    return {1, 2}", "it gave a set, which is no value peers exchange"),
        ("    return float('nan')", "ValueError"),
        ("    a = []; a.append(a); return a", "a.bad: "),
        ("    return 'x' * (8 << 20)", "more than 3145728 bytes"),
        ("    return bytearray(1 << 30)", "MemoryError"),
        ("    def f(): return f()\n    return f()", "RecursionError"),
        ("    class E(Exception):\n        def __str__(self): raise E()\n    raise E()", "Exception: a.bad: E"),
        ("    sys.exit(3)", "its process ended in the middle of the call"),
        ("    os._exit(0)", "its process ended in the middle of the call"),
        ("    os.kill(os.getpid(), 9)", "its process ended in the middle of the call"),
        // Nobody holds it any more, and what it gives then is no answer; nor is what a fork of it gives, or nothing at all.
        (
            "    p = os.getppid(); os.kill(p, 9)\n    while os.getppid() == p: time.sleep(0.001)\n    return None",
            "its process ended in the middle of the call",
        ),
        ("    if os.fork(): os.kill(os.getpid(), 9)\n    return None", "its process ended in the middle of the call"),
        (
            "    for fd in range(3, 20):\n        try: os.write(fd, b'{\"id\": 1}\\n')\n        except OSError: pass\n    time.sleep(60)",
            "what its process said is no answer",
        ),
        ("    os.closerange(3, 64); time.sleep(60)", "a.bad: "),
        (
            "    for fd in range(3, 20):\n        try: os.write(fd, b'garbage\\n')\n        except OSError: pass\n    time.sleep(60)",
            "what its process said is no answer",
        ),
    ] {
        shop.double(program(bad)).await;
        let told = shop.call("a.bad", json!([])).await.unwrap_err();
        assert!(told.starts_with("Exception: ") && told.contains(holds), "{bad}: {told}");
        assert_eq!(shop.call("a.fine", json!([])).await, Ok(json!("fine")), "{bad}");
        shop.stop().await;
    }
    // What it prints is no answer, however much it is, and wherever it prints it.
    shop.double(program(
        "    print('{\"id\": 1, \"result\": 7}')\n    os.write(1, b'{\"id\": 1}\\n')\n    sys.stdout.buffer.write(b'\\xff\\x1b[2J\\n')\n    \
         os.system('echo from a shell')\n    [print('x' * 3000) for _ in range(20000)]\n    return 'printed'",
    ))
    .await;
    assert_eq!(shop.call("a.bad", json!([])).await, Ok(json!("printed")));
    assert_eq!(shop.call("a.fine", json!([])).await, Ok(json!("fine")));
    shop.stop().await;
}

/// A program that hangs, though it is asked to end, is ended after five seconds; what it forked is gone with it, whatever
/// session that is in.
#[tokio::test]
async fn a_program_that_hangs_is_ended_with_all_it_forked() {
    let mut shop = Workshop::open().await;
    shop.double(program(
        "    import signal\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    pid = os.fork()\n    if pid == 0:\n        \
         os.setsid()\n        while True: time.sleep(60)\n    if x == 'hang':\n        open('/proc/self/fd/2', 'w').write('hangs')\n        \
         while True: pass\n    return pid",
    ))
    .await;
    let forked = shop.call("a.bad", json!([])).await.unwrap().as_i64().unwrap();
    let forked = i32::try_from(forked).unwrap();
    assert!(is_there(forked));
    let told = shop.call("a.bad", json!(["hang"])).await.unwrap_err();
    assert_eq!(told, "Exception: a.bad: did not answer within 5000 ms");
    assert_eq!(shop.call("a.fine", json!([])).await, Ok(json!("fine")));
    until(|| !is_there(forked)).await;
    shop.stop().await;
}

/// S-123: a program that cannot be run refuses the fake, with where; and so does a Python that is none.
#[tokio::test]
async fn s123_a_program_that_cannot_be_run_refuses_the_fake() {
    let mut shop = Workshop::open().await;
    let of = |program: &str| json!({"program": program, "targets": ["a.fine"]});
    let fine = "@rpc('a.fine')\ndef f(): return 1";
    for (python, pointer, holds) in [
        (of("def f(:"), "/python/program", "it does not compile: SyntaxError: "),
        (of("x = 1\nraise KeyError('a')"), "/python/program", "KeyError: 'a' (line 2)"),
        (of("import sys\nsys.exit(1)"), "/python/program", "SystemExit"),
        (of("import os\nos._exit(1)"), "/python", "it ended before it had read anything"),
        (of("@rpc('a.bad')\ndef f(): pass"), "/python/targets", "@rpc('a.fine')"),
        (json!({"program": fine, "targets": []}), "/python/targets", "the methods the program answers"),
        (json!({"program": fine, "targets": ["a.none"]}), "/python/targets/0", "no method 'none'"),
        (json!({"program": 5, "targets": ["a.fine"]}), "/python/program", "a program, as text"),
        (
            json!({"program": fine, "targets": ["a.fine"], "shell": true}),
            "/python/shell",
            "program, targets and interpreter",
        ),
        (
            json!({"program": fine, "targets": ["a.fine"], "interpreter": "no-such-python"}),
            "/python/interpreter",
            "no such program",
        ),
        (
            json!({"program": fine, "targets": ["a.fine"], "interpreter": "true"}),
            "/python/interpreter",
            "no Python 3.8 or later",
        ),
        (
            json!({"program": fine, "targets": ["a.fine"], "interpreter": "../python"}),
            "/python/interpreter",
            "a name such as",
        ),
        (json!({"program": fine, "targets": ["a.fine"], "interpreter": "-c"}), "/python/interpreter", "a name such as"),
    ] {
        let start = json!({"name": "double", "schema": anything(), "script": {"python": python}});
        let refused = bad(&mut shop.client, "start_fake", start).await;
        assert_eq!((&refused["code"], &refused["outcome"]), (&json!("invalid_script"), &json!("not_run")), "{refused}");
        assert_eq!(refused["problems"][0]["pointer"], pointer, "{refused}");
        assert!(refused["problems"][0]["problem"].as_str().unwrap().contains(holds), "{refused}");
        assert!(shop.program.pids().is_empty(), "{refused}");
    }
    shop.double(json!({"python": {"program": fine, "targets": ["a.fine"], "interpreter": "python3"}})).await;
    assert_eq!(shop.call("a.fine", json!([])).await, Ok(json!(1)));
}

/// A bridge that is killed leaves no process behind, not one that runs in circles either.
#[tokio::test]
async fn a_killed_bridge_leaves_no_process_behind() {
    let broker = Broker::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, document: &Json| {
        let path = folder.path().join(name);
        fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // It does not clear up behind itself when it is asked to end.
    let circles = "    import signal\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    while True: pass";
    let mut script = program(circles);
    script["handlers"] = json!({"a.number": "() => { for (;;) {} }"});
    let (contract, script) = (written("double.types.json", &anything()), written("script.json", &script));
    let arguments = ["serve", "--allow-exec", "--development", "--contract", &contract, "--script", &script];
    let mut command = crate::people::plantbridge(&arguments);
    let command =
        command.env("PLANTBRIDGE_BROKER", broker.url()).stderr(std::process::Stdio::piped()).kill_on_drop(true);
    let mut serve = command.spawn().unwrap();
    let pid = i32::try_from(serve.id().unwrap()).unwrap();
    let mut notes = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(serve.stderr.take().unwrap()));
    let mut said = String::new();
    while !said.contains("is on the network") {
        let line = timeout(PATIENCE, notes.next_line()).await.unwrap().unwrap();
        said += &line.unwrap_or_else(|| panic!("it ended: {said}"));
    }
    assert!(said.contains("--allow-exec: FAKES RUN CODE"), "it is said loudly: {said}");
    let below = descendants(pid);
    assert_eq!(below.len(), 3, "handlers, a supervisor and a Python: {below:?}");
    // Both run in circles by then, or are about to: requests of one peer arrive in their order.
    let bridge = Bridge::join_to_run(&broker.url(), Path::new("none")).await;
    bridge.node.network_when(PATIENCE, |network| network.roster.len() > 1).await;
    let call = |method: &str| {
        let (node, call) = (bridge.node.clone(), crate::fakes::call("double", "a", method, vec![]));
        tokio::spawn(async move { node.call(call).await })
    };
    let (bad, number) = (call("bad"), call("number"));
    let plain = bridge.node.call(crate::fakes::call("double", "a", "plain", vec![])).await;
    assert_eq!(plain.unwrap().value, Some("plain".into()));
    let directories: Vec<PathBuf> = below
        .iter()
        .filter_map(|pid| fs::read_link(format!("/proc/{pid}/cwd")).ok())
        .filter(|at| is_scratch(at))
        .collect();
    assert_eq!(directories.len(), 1, "that of the Python");
    kill(pid);
    serve.wait().await.unwrap();
    until(|| directories.iter().all(|directory| !directory.exists())).await;
    until(|| below.iter().all(|pid| !is_running(*pid))).await;
    bad.abort();
    number.abort();
}

fn is_scratch(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name.to_str().is_some_and(|name| name.starts_with("plantbridge-")))
}

/// The processes below this one.
fn descendants(of: i32) -> Vec<i32> {
    let children: Vec<i32> = processes().filter(|pid| stat(*pid).is_some_and(|(_, parent)| parent == of)).collect();
    children.iter().copied().chain(children.iter().flat_map(|child| descendants(*child))).collect()
}

/// How a process is, and whose child.
fn stat(pid: i32) -> Option<(String, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

/// Whether it runs; one that only waits to be waited for by whoever adopted it does not.
fn is_running(pid: i32) -> bool {
    stat(pid).is_some_and(|(how, _)| how != "Z")
}

/// What would be refused is not offered: only a bridge that runs code says how it is given.
#[test]
fn code_is_offered_where_it_is_run() {
    let told = |exec: bool| {
        let registry = Registry::new(tools::all(), Offer { exec, ..Offer::default() });
        registry.find("start_fake").unwrap().listed().description.unwrap().into_owned()
    };
    assert!(!told(false).contains("JavaScript") && !told(false).contains("@rpc"), "{}", told(false));
    assert!(told(true).contains("handlers") && told(true).contains("@rpc(\"ns.method\")"), "{}", told(true));
}
