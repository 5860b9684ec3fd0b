//! The audit trail: what leaves a line and what does not, what no line says, and what happens when none can be written.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use plantbridge::{
    door::{auth::Keys, http::HttpConfig},
    mcp::{Offer, tools},
    plant::{
        Plant,
        audit::{Audit, Keep, Shown, Unusable, show, verify},
    },
};
use serde_json::{Value as Json, json};

use crate::{
    harness::{Client, Setup, nowhere},
    http::{BOTH, HOST, Open, TYPE, post},
    plant::joined,
    tools::{bad, good},
};

const KEEP: Keep = Keep { days: 90, bytes: 1 << 30 };
/// How long anything may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);
/// Stands in every argument that is no name, and must stand in no file.
const SECRET: &str = "5ecret-7731";

/// A directory with a trail that is being written.
struct Kept {
    _folder: tempfile::TempDir,
    path: PathBuf,
    audit: Audit,
}

impl Kept {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trail");
        let audit = Audit::open(&path, KEEP).unwrap();
        Self { _folder: folder, path, audit }
    }

    /// A client of this plant, where every tool is offered.
    async fn client(&self, plant: &Plant) -> Client {
        let offer = Offer { read_only: false, contracts: true, scripts: true, exec: true };
        let plant = plant.clone().audited(self.audit.clone());
        let mut client = Client::over(plant, tools::all(), &Setup { offer, ..Setup::default() });
        client.initialize("2025-06-18").await;
        client
    }

    /// Every line, once all are written; they are as they were written.
    async fn lines(&self) -> Vec<Shown> {
        self.audit.close().await;
        verify(&self.path, None).unwrap();
        lines(&self.path)
    }
}

fn lines(path: &Path) -> Vec<Shown> {
    let mut lines = Vec::new();
    let unread = show(path, false, |line| {
        lines.push(line);
        Ok::<_, Unusable>(())
    });
    assert_eq!(unread.unwrap(), 0);
    lines
}

/// The events of a tool, in order, with how each ended.
fn of(lines: &[Shown], tool: &str) -> Vec<String> {
    let own = lines.iter().filter(|line| line.text("tool") == tool);
    let told = own.map(|line| [line.text("event"), line.text("outcome"), line.text("code")].join(" "));
    told.map(|told| told.trim_end().to_owned()).collect()
}

/// How many calls there were, begun or refused.
fn entries(lines: &[Shown], tool: &str) -> usize {
    of(lines, tool).iter().filter(|told| !told.starts_with("ended")).count()
}

fn call(method: &str, args: Json) -> Json {
    json!({"peer": "works", "namespace": "tank", "method": method, "args": args})
}

/// Arguments that fit the schema of a tool that changes something; of one that is new, none.
fn fitting(tool: &str) -> Json {
    let store = json!({"peer": "works", "namespace": "tank"});
    let with = |more: Json| {
        let mut all = store.as_object().unwrap().clone();
        all.extend(more.as_object().unwrap().clone());
        Json::Object(all)
    };
    match tool {
        "call_method" => with(json!({"method": "refuse", "args": [SECRET]})),
        "set_state" => with(json!({"path": "mode", "value": SECRET})),
        "write_row" => with(json!({"resource": SECRET, "verb": "create", "row": {"a": SECRET}})),
        "take_control" | "release_control" => store,
        "start_watch" => with(json!({"event": "moved"})),
        "save_contract" => json!({"name": "c", "schema": {"x": SECRET}}),
        "save_script" => json!({"name": "s", "source": SECRET, "language": "py"}),
        "start_fake" => json!({"name": "f", "schema": {"x": SECRET}}),
        "start_script" | "stop_script" | "delete_script" => json!({"script": "s"}),
        "stop_watch" => json!({"watch": "w"}),
        "delete_contract" | "stop_fake" => json!({"name": "n"}),
        "add_package" => json!({"spec": SECRET, "manager": "npm"}),
        _ => json!({}),
    }
}

/// Of every tool there is, by what it says of itself: a call of one that could change something is one entry, whatever comes of
/// it, and a look is none. No line holds what a client gave that is not a name.
#[tokio::test]
async fn every_call_that_could_change_something_is_one_entry() {
    let (plant, _works, _node) = joined(false, None).await;
    let kept = Kept::new();
    let mut client = kept.client(&plant).await;
    for tool in tools::all() {
        let name = tool.spec().name;
        client.call(name, json!({"nonsense": SECRET})).await;
        client.call(name, json!([SECRET])).await;
        client.call(name, fitting(name)).await;
    }
    client.call("no_such_tool", json!({"x": SECRET})).await;
    good(&mut client, "call_method", call("setLevel", json!([77.125]))).await;
    good(&mut client, "set_state", json!({"peer": "works", "namespace": "tank", "path": "level", "value": 66.125}))
        .await;
    let lines = kept.lines().await;
    for tool in tools::all() {
        let spec = tool.spec();
        let more = usize::from(["call_method", "set_state"].contains(&spec.name));
        let wanted = if spec.hints.read_only { 0 } else { 3 + more };
        assert_eq!(entries(&lines, spec.name), wanted, "{}: {:?}", spec.name, of(&lines, spec.name));
    }
    assert_eq!(of(&lines, "no_such_tool"), ["refused refused unknown_tool"]);
    let begun = lines.iter().filter(|line| line.text("event") == "begun").count();
    let ended = lines.iter().filter(|line| line.text("event") == "ended").count();
    assert!(begun == ended && begun > 10, "{begun} begun, {ended} ended");
    for entry in fs::read_dir(&kept.path).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for value in [SECRET, "77.125", "66.125"] {
            assert!(!text.contains(value), "{value}");
        }
    }
}

/// The end of a call says what became of it, and names what was addressed; a refusal has its code.
#[tokio::test]
async fn a_line_says_who_did_what_and_what_came_of_it() {
    let (plant, _works, _node) = joined(false, None).await;
    let kept = Kept::new();
    let mut client = kept.client(&plant).await;
    good(&mut client, "set_state", json!({"peer": "works", "namespace": "tank", "path": "level", "value": 5})).await;
    let busy = json!({"peer": "works", "namespace": "scale", "method": "refuse", "args": ["Busy"]});
    bad(&mut client, "call_method", busy).await;
    bad(&mut client, "call_method", json!({"peer": "nobody", "namespace": "n", "method": "m\u{1b}\n"})).await;
    let lines = kept.lines().await;
    assert_eq!(of(&lines, "set_state"), ["begun", "ended ok"]);
    let told = of(&lines, "call_method");
    assert_eq!(told, ["begun", "ended ran peer_refused", "begun", "ended not_run unknown_peer"]);
    let ended = lines.iter().find(|line| line.text("event") == "ended").unwrap();
    let said = ["client", "peer", "namespace", "method"].map(|key| ended.text(key));
    assert_eq!(said, ["stdio", "works", "tank", "setLevel"], "the setter that was found");
    assert_eq!(ended.fields["call"], 2);
    assert!(ended.fields["us"].is_u64());
    let args: Vec<&str> = lines.iter().map(|line| line.text("args")).filter(|args| !args.is_empty()).collect();
    assert!(args.len() == 3 && args.iter().all(|args| args.len() == 64), "{args:?}");
}

/// What this bridge may not do is refused, and that is a line.
#[tokio::test]
async fn what_is_not_permitted_is_a_line() {
    let (plant, works, _node) = joined(true, None).await;
    let kept = Kept::new();
    let plant = plant.audited(kept.audit.clone());
    let offer = Offer { read_only: true, ..Offer::default() };
    let mut client = Client::over(plant, tools::all(), &Setup { offer, ..Setup::default() });
    client.initialize("2025-06-18").await;
    assert_eq!(bad(&mut client, "call_method", call("setLevel", json!([1]))).await["code"], "read_only");
    assert_eq!(bad(&mut client, "write_row", json!({})).await["code"], "read_only");
    good(&mut client, "read_state", json!({"peer": "works", "namespace": "tank"})).await;
    let lines = kept.lines().await;
    assert_eq!(of(&lines, "call_method"), ["begun", "ended not_run read_only"]);
    assert_eq!(of(&lines, "write_row"), ["refused not_run read_only"]);
    assert_eq!(lines.len(), 5, "opened, those, closed");
    assert!(works.ran.lock().unwrap().is_empty());
}

/// What began stands in the file before it is sent: whoever dies then leaves word of what he was about to do.
#[tokio::test]
async fn what_is_sent_is_in_the_file_already() {
    let (plant, works, _node) = joined(false, None).await;
    works.holds.store(true, Ordering::Relaxed);
    let kept = Kept::new();
    let mut client = kept.client(&plant).await;
    let arguments = json!({"peer": "works", "namespace": "scale", "method": "tare", "timeout_ms": 60_000});
    client.start("held", "call_method", arguments).await;
    until(|| !works.ran.lock().unwrap().is_empty()).await;
    assert_eq!(of(&lines(&kept.path), "call_method"), ["begun"], "and its end is not known");
    assert_eq!(kept.audit.status().queue, 1);
}

/// A call that nobody waits for goes on, and its line says how it really ended.
#[tokio::test]
async fn a_call_that_was_given_up_ends_as_it_ends() {
    let kept = Kept::new();
    let (tools, mut switches) = crate::harness::tools();
    let mut client = Client::over(nowhere().audited(kept.audit.clone()), tools, &Setup::default());
    client.initialize("2025-06-18").await;
    client.start("press", "press", json!({})).await;
    assert_eq!(switches.begun.recv().await, Some("press"));
    client
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "press"}}))
        .await;
    assert_eq!(switches.told.recv().await, Some("press"));
    switches.release.add_permits(1);
    client.server.settled().await;
    assert_eq!(of(&kept.lines().await, "press"), ["begun", "ended ok"]);
}

async fn until(done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "it never came about");
        tokio::task::yield_now().await;
    }
}

/// While nothing can be written, nothing that could change the plant is sent, and looking goes on; then it is as before.
#[tokio::test]
async fn what_cannot_be_written_down_is_not_sent() {
    let (plant, works, _node) = joined(false, None).await;
    let kept = Kept::new();
    let mut client = kept.client(&plant).await;
    let away = kept.path.with_extension("away");
    fs::rename(&kept.path, &away).unwrap();
    for _ in 0..3 {
        let error = bad(&mut client, "call_method", call("setLevel", json!([1]))).await;
        let said = ["code", "outcome", "retryable"].map(|key| error[key].clone());
        assert_eq!(said, [json!("audit_unavailable"), json!("not_run"), json!(true)]);
        assert!(error["fix"].as_str().unwrap().contains("--audit"), "{error}");
    }
    assert!(works.ran.lock().unwrap().is_empty(), "the peer saw no call");
    good(&mut client, "read_state", json!({"peer": "works", "namespace": "tank"})).await;
    assert!(kept.audit.status().failing.is_some() && plant.audit_status().on);
    fs::rename(&away, &kept.path).unwrap();
    let audit = kept.audit.clone();
    until(|| audit.status().failing.is_none()).await;
    good(&mut client, "call_method", call("setLevel", json!([1]))).await;
    let lines = kept.lines().await;
    let resumed: Vec<&Shown> = lines.iter().filter(|line| line.text("event") == "resumed").collect();
    assert!(resumed.len() == 1 && resumed[0].fields["missed"] == 3, "{resumed:?}");
    assert_eq!(of(&lines, "call_method"), ["begun", "ended ok"]);
}

/// A call that was sent while the trail could be written, and answered while it could not, has its end once it can.
#[tokio::test]
async fn an_end_that_could_not_be_written_is_written_later() {
    let kept = Kept::new();
    let entry = kept.audit.entry("a", "call_method", &serde_json::Map::new());
    entry.begin().await.unwrap();
    let away = kept.path.with_extension("away");
    fs::rename(&kept.path, &away).unwrap();
    entry.end(plantbridge::plant::audit::Ending::OK);
    let audit = kept.audit.clone();
    until(|| audit.status().failing.is_some()).await;
    fs::rename(&away, &kept.path).unwrap();
    until(|| audit.status().failing.is_none()).await;
    assert_eq!(of(&kept.lines().await, "call_method"), ["begun", "ended ok"]);
}

/// As many calls as there are places for may be on their way; one more is refused, and counted.
#[tokio::test]
async fn more_calls_than_places_are_refused() {
    let kept = Kept::new();
    let none = serde_json::Map::new();
    let mut begun = Vec::new();
    for _ in 0..1_024 {
        let entry = kept.audit.entry("a", "t", &none);
        entry.begin().await.unwrap();
        begun.push(entry);
    }
    let refused = kept.audit.entry("a", "t", &none).begin().await.unwrap_err();
    assert!(refused.to_string().contains("1024"), "{refused}");
    drop(begun);
    let lines = kept.lines().await;
    let told = of(&lines, "t");
    assert_eq!(told.iter().filter(|told| *told == "ended unknown internal").count(), 1_024, "dropped without a word");
    let missed: Vec<&Json> = lines.iter().filter_map(|line| line.fields.get("missed")).collect();
    assert_eq!(missed, [&json!(1)]);
}

/// Who is turned away at the door is counted: however many try, the lines are few.
#[tokio::test]
async fn a_flood_of_strangers_is_a_line() {
    let kept = Kept::new();
    let client = Client::over(nowhere().audited(kept.audit.clone()), Vec::new(), &Setup::default());
    let keys = Keys::parse(r#"{"tokens": {"key-a": {"name": "a"}}}"#).unwrap();
    let door = Open::of(client.server.clone(), keys, HttpConfig::default()).await;
    let ping = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for at in 0..40 {
        let token = format!("Authorization: Bearer {SECRET}-{at}");
        let mut wire = door.connect().await;
        assert_eq!(wire.ask(&post(&[HOST, TYPE, BOTH, &token], ping)).await.status, 401);
    }
    let mut wire = door.connect().await;
    assert_eq!(wire.ask(&post(&["Host: elsewhere.example", TYPE, BOTH], ping)).await.status, 403);
    door.closed().await;
    let lines = kept.lines().await;
    let told = |why: &str| {
        let own: Vec<&Shown> = lines.iter().filter(|line| line.text("why") == why).collect();
        (
            own.len(),
            own.iter().filter_map(|line| line.fields["times"].as_u64()).sum::<u64>(),
            own[0].fields["status"].clone(),
        )
    };
    let (many, times, status) = told("token");
    assert!(many <= 2 && times == 40 && status == 401, "{many} lines of {times}");
    assert_eq!(told("host"), (1, 1, json!(403)));
    assert!(!lines.iter().any(|line| line.line.contains(SECRET)));
}

#[cfg(all(unix, feature = "demo"))]
mod binary {
    use std::process::Stdio;

    use tokio::{
        io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
        process::{Child, ChildStdin, ChildStdout, Command},
        time::timeout,
    };

    use super::*;
    use crate::people::{ended, plantbridge};

    /// The binary on its own demo, asked line by line.
    struct Bridge {
        child: Child,
        input: ChildStdin,
        output: Lines<BufReader<ChildStdout>>,
    }

    impl Bridge {
        async fn begun(command: &mut Command) -> Self {
            let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = piped.kill_on_drop(true).spawn().unwrap();
            let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let mut bridge = Self { child, input, output: BufReader::new(output).lines() };
            let info = json!({"name": "test", "version": "1"});
            let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
            bridge.ask("initialize", params).await;
            bridge
        }

        async fn ask(&mut self, method: &str, params: Json) -> Json {
            let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
            self.input.write_all(line.as_bytes()).await.unwrap();
            let answer = timeout(PATIENCE, self.output.next_line()).await.unwrap().unwrap().unwrap();
            serde_json::from_str::<Json>(&answer).unwrap()["result"].take()
        }

        async fn call(&mut self, tool: &str, arguments: Json) -> Json {
            let mut answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
            answer["structuredContent"].take()
        }

        async fn set_door(&mut self, to: &str) -> Json {
            let wait =
                json!({"peer": "bakery", "namespace": "oven", "method": "setDoor", "args": [to], "wait_seconds": 10});
            self.call("call_method", wait).await
        }

        async fn over(mut self) {
            drop(self.input);
            assert!(timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap().success());
        }
    }

    fn text(path: &Path) -> &str {
        path.to_str().unwrap()
    }

    /// A trail from the binary, checked and shown by it, over a restart and after a change.
    #[tokio::test]
    async fn a_trail_is_checked_and_shown() {
        let folder = tempfile::tempdir().unwrap();
        let trail = folder.path().join("trail");
        for _ in 0..2 {
            let mut bridge = Bridge::begun(&mut plantbridge(&["mcp", "--demo", "--audit", text(&trail)])).await;
            assert_eq!(bridge.set_door("open").await["result"], "open");
            assert_eq!(bridge.call("stop_fake", json!({"name": "nobody"})).await["error"]["code"], "unknown_fake");
            bridge.over().await;
        }
        let said = ended(&mut plantbridge(&["audit", "verify", text(&trail)])).await;
        assert_eq!(said.code, 0, "{}", said.out);
        assert!(said.out.starts_with("ok\t12 lines in ") && said.err.contains("cut off"), "{} {}", said.out, said.err);
        let head = said.out.lines().find_map(|line| line.strip_prefix("head\t")).unwrap().to_owned();
        let noted = ended(&mut plantbridge(&["audit", "verify", text(&trail), "--head", &head])).await;
        assert_eq!(noted.code, 0, "{}", noted.out);
        let rows = ended(&mut plantbridge(&["audit", "show", text(&trail), "--client", "stdio"])).await.out;
        let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split('\t').collect()).collect();
        assert_eq!(rows.len(), 4, "{rows:?}");
        assert_eq!(rows[0][1..5], ["stdio", "call_method", "bakery oven setDoor", "ok"]);
        assert_eq!(rows[1][2..5], ["stop_fake", "nobody fake stop nobody", "not_run unknown_fake"]);
        for (filter, many) in [
            (["--refused"].as_slice(), 2),
            (&["--peer", "bakery"], 2),
            (&["--tool", "stop_fake"], 2),
            (&["--until", "2001-01-01"], 0),
            (&["--since", "2001-01-01", "--json"], 12),
        ] {
            let shown = ended(&mut plantbridge(&[&["audit", "show", text(&trail)], filter].concat())).await;
            assert_eq!((shown.code, shown.out.lines().count()), (0, many), "{filter:?}: {}", shown.out);
        }
        let file = fs::read_dir(&trail).unwrap().map(|entry| entry.unwrap().path());
        let file = file.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "jsonl")).unwrap();
        let changed = fs::read_to_string(&file).unwrap().replacen("bakery", "bakerx", 1);
        fs::write(&file, changed).unwrap();
        let found = ended(&mut plantbridge(&["audit", "verify", text(&trail)])).await;
        assert_eq!(found.code, 1);
        assert!(found.out.starts_with("broken\t") && found.out.contains(".jsonl:2: it was edited"), "{}", found.out);
    }

    /// A disk that is full: a part of a line is taken back, what could change something is refused, looking goes on.
    #[tokio::test]
    async fn a_full_disk_stops_what_changes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let trail = folder.path().join("trail");
        // A file of this process may have so many blocks; what is over that is refused as on a full disk.
        let limited = r#"trap "" XFSZ; ulimit -f 8; exec "$@""#;
        let mut command = Command::new("sh");
        command.args([
            "-c",
            limited,
            "sh",
            env!("CARGO_BIN_EXE_plantbridge"),
            "mcp",
            "--demo",
            "--audit",
            text(&trail),
        ]);
        let mut bridge = Bridge::begun(&mut command).await;
        let mut done = 0;
        let refused = loop {
            let answer = bridge.set_door(if done % 2 == 0 { "open" } else { "closed" }).await;
            match answer.get("error") {
                None => done += 1,
                Some(error) => break error.clone(),
            }
            assert!(done < 1_000);
        };
        assert!(done > 3, "{done}: {refused}");
        assert_eq!((&refused["code"], &refused["outcome"]), (&json!("audit_unavailable"), &json!("not_run")));
        let state = bridge.call("read_state", json!({"peer": "bakery", "namespace": "oven"})).await;
        assert!(state["error"].is_null() && state["state"].is_object(), "{state}");
        bridge.over().await;
        let verified = verify(&trail, None).unwrap();
        assert_eq!(verified.notes, [""; 0], "no part of a line is left");
        let whole = lines(&trail);
        assert_eq!(whole.len() as u64, verified.lines);
        assert!(entries(&whole, "call_method") >= done);
    }

    /// One directory, one bridge; and a directory that cannot be used is said before anything is joined.
    #[tokio::test]
    async fn a_directory_that_cannot_be_used_ends_the_start() {
        let kept = Kept::new();
        let link = kept.path.with_extension("link");
        std::os::unix::fs::symlink(&kept.path, &link).unwrap();
        // Nobody makes a file there, not even who may do everything.
        let fixed = Path::new("/proc/self/fdinfo");
        let mut cases = vec![(kept.path.as_path(), "another plantbridge writes its trail"), (&link, "symbolic link")];
        if cfg!(target_os = "linux") {
            cases.push((fixed, "nothing can be written into the directory"));
        }
        for (path, says) in cases {
            for verb in ["mcp", "node"] {
                let scripts =
                    if verb == "node" { vec!["--scripts", "nowhere", "--scriptable-by", "bench"] } else { Vec::new() };
                let told = [&[verb, "--broker", "mqtt://127.0.0.1:1", "--audit", text(path)], &scripts[..]].concat();
                let said = ended(&mut plantbridge(&told)).await;
                assert_eq!((said.code, said.out.as_str()), (1, ""), "{}", said.err);
                assert!(said.err.contains("--audit ") && said.err.contains(says), "{}", said.err);
            }
        }
    }
}
