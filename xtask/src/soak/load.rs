//! What the clients do all the time, each on a thread of its own and as its own seed has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bridge::Bridge;
use super::device::SPACE;
use super::door::{Answered, Client, Door};
use super::peers::{PEERS, name};
use super::plan::Draw;
use super::record::{Record, Told};
use super::watching;

/// Clients that call, on the pipes and over HTTP each.
const CALLERS: u64 = 4;
/// Watches at a time.
const WATCHERS: usize = 4;
/// How long a command may wait for its answer, in milliseconds.
const PATIENCE: u64 = 3_000;
/// How long it is tried to give control back: longer than any line of a short run is bad.
const RELEASE: Duration = Duration::from_secs(12);
/// How long a ticket may be pending, which lapses after eight seconds.
const TICKET: Duration = Duration::from_secs(25);

/// The clients at work.
#[derive(Debug)]
pub(super) struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

/// Whether to go on.
#[derive(Clone, Debug)]
pub(super) struct Until(Arc<AtomicBool>);

impl Until {
    pub(super) fn over(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Load {
    pub(super) fn start(seed: u64, bridge: &Bridge, record: &Arc<Record>) -> Self {
        let until = Until(Arc::default());
        let over = until.0.clone();
        let pipe = || Client { door: Door::Pipe(bridge.pipe.clone()), record: record.clone() };
        let http = || Client { door: Door::Http { port: bridge.port, stream: None }, record: record.clone() };
        let mut seeds = Draw::new(seed ^ 0x10AD);
        let mut threads = Vec::new();
        let mut start = |client: Client, work: fn(Client, Draw, &Until) -> Vec<String>| {
            let (draw, until) = (Draw::new(seeds.next()), until.clone());
            threads.push(std::thread::spawn(move || work(client, draw, &until)));
        };
        for _ in 0..CALLERS {
            start(pipe(), call);
            start(http(), call);
        }
        start(pipe(), control);
        start(http(), fakes);
        for number in 0..WATCHERS {
            start(if number % 2 == 0 { pipe() } else { http() }, watching::watch);
        }
        Self { over, threads }
    }

    /// Lets everybody finish what they do and give back what they have. Gives what could not be given back.
    pub(super) fn stop(self) -> Vec<String> {
        self.over.store(true, Ordering::SeqCst);
        let ends = self.threads.into_iter().map(JoinHandle::join);
        ends.flat_map(|end| end.unwrap_or_else(|_| vec!["a client that panicked".to_owned()])).collect()
    }
}

/// Calls of every kind, one after another.
fn call(mut client: Client, mut draw: Draw, until: &Until) -> Vec<String> {
    let mut left = Vec::new();
    while !until.over() {
        let peer = name(draw.index(PEERS));
        match draw.between(0, 20) {
            0..=3 => drop(method(&mut client, &peer, "read", &json!([]), PATIENCE)),
            4..=8 => drop(command(&mut client, &peer, "run", None)),
            9..=11 => drop(command(&mut client, &peer, "slow", Some(json!(draw.between(0, 3_500))))),
            12 => refused(&mut client, &peer, &mut draw),
            13 => left.extend(ticket(&mut client, &peer, &mut draw)),
            14 => set(&mut client, &peer, &mut draw),
            15 => cancelled(&mut client, &peer, &mut draw),
            16 => drop(client.call("list_peers", &json!({"limit": 100}), Duration::ZERO)),
            17 => drop(client.call("describe_peer", &json!({"peer": peer}), Duration::ZERO)),
            18 => {
                let arguments = json!({"peer": peer, "namespace": SPACE, "seconds": 3});
                client.call("read_state", &arguments, Duration::from_secs(3));
            }
            _ => drop(method(&mut client, "nobody", "read", &json!([]), PATIENCE)),
        }
        std::thread::sleep(draw.millis(10, 120));
    }
    left
}

fn method(client: &mut Client, peer: &str, method: &str, arguments: &Value, timeout: u64) -> Answered {
    let call = json!({"peer": peer, "namespace": SPACE, "method": method, "args": arguments, "timeout_ms": timeout});
    client.call("call_method", &call, Duration::from_millis(timeout))
}

/// A command with a number of its own; what is said of it is written down.
fn command(client: &mut Client, peer: &str, name: &str, argument: Option<Value>) -> Answered {
    let number = client.record.with(|state| state.command(peer));
    let arguments: Vec<Value> = std::iter::once(json!(number)).chain(argument).collect();
    let answered = method(client, peer, name, &json!(arguments), PATIENCE);
    tell(client, number, &answered);
    answered
}

fn tell(client: &Client, number: u64, answered: &Answered) {
    client.record.with(|state| match answered.told {
        Some(told) => state.told(number, answered.call, told),
        None => {
            let what = format!("a failed command says no outcome: {}", answered.content);
            state.violate(Some(answered.call), what);
        }
    });
}

/// A command that its peer refuses, or that fails there: the code says which.
fn refused(client: &mut Client, peer: &str, draw: &mut Draw) {
    let codes = ["Busy", "Forbidden", "InvalidParams", "Superseded", "Exception"];
    let code = codes.get(draw.index(codes.len())).copied().unwrap_or_default();
    let answered = command(client, peer, "refuse", Some(json!(code)));
    if answered.told == Some(Told::Done) {
        let what = format!("a command refused with {code} was answered with a result");
        client.record.with(|state| state.violate(Some(answered.call), what));
    }
}

/// A command that is answered later: its ticket is collected to its end, which has to come.
fn ticket(client: &mut Client, peer: &str, draw: &mut Draw) -> Option<String> {
    let answered = command(client, peer, "later", Some(json!(draw.between(0, 4_000))));
    let id = answered.content.pointer("/ticket/id").and_then(Value::as_str)?.to_owned();
    let until = Instant::now() + TICKET;
    while Instant::now() < until {
        let read = client.call("read_ticket", &json!({"ticket": id, "wait_seconds": 2}), Duration::from_secs(2));
        match read.content.get("state").and_then(Value::as_str) {
            Some("pending") => {}
            Some(state) => {
                client.record.with(|record| record.outcome("a ticket's end", state));
                return None;
            }
            None => return Some(format!("ticket {id}, of which nothing is known: {}", read.content)),
        }
    }
    Some(format!("ticket {id}, pending after {TICKET:?}"))
}

/// An idempotent command through the state of a component.
fn set(client: &mut Client, peer: &str, draw: &mut Draw) {
    let arguments = json!({"peer": peer, "namespace": SPACE, "path": "level", "value": draw.between(0, 100),
        "timeout_ms": PATIENCE, "verify_seconds": 1});
    client.call("set_state", &arguments, Duration::from_millis(PATIENCE) + Duration::from_secs(1));
}

/// A command whose client stops waiting.
fn cancelled(client: &mut Client, peer: &str, draw: &mut Draw) {
    let number = client.record.with(|state| state.command(peer));
    let call = json!({"peer": peer, "namespace": SPACE, "method": "slow", "args": [number, 2_000],
        "timeout_ms": PATIENCE});
    if let Some(answered) = client.call_and_cancel("call_method", &call, draw.millis(0, 300)) {
        tell(client, number, &answered);
    }
}

/// Takes control of a component, uses it, and gives it back.
fn control(mut client: Client, mut draw: Draw, until: &Until) -> Vec<String> {
    let mut left = Vec::new();
    while !until.over() {
        let peer = name(draw.index(PEERS));
        let component = json!({"peer": peer, "namespace": SPACE});
        let mut take = component.clone();
        if let Some(take) = take.as_object_mut() {
            take.insert("seconds".to_owned(), json!(draw.between(2, 8)));
        }
        let taken = client.call("take_control", &take, Duration::ZERO);
        if taken.code == "ok" {
            for _ in 0..draw.between(1, 12) {
                command(&mut client, &peer, "guarded", None);
                std::thread::sleep(draw.millis(50, 500));
            }
        } else {
            // Without control its guarded methods refuse.
            command(&mut client, &peer, "guarded", None);
        }
        left.extend(release(&mut client, &component));
        std::thread::sleep(draw.millis(50, 500));
    }
    left
}

/// Control that cannot be given back is kept, and renewed: then it is tried again.
fn release(client: &mut Client, component: &Value) -> Option<String> {
    let until = Instant::now() + RELEASE;
    loop {
        let code = client.call("release_control", component, Duration::ZERO).code;
        if !["network_unavailable", "unknown_outcome", "unknown_peer"].contains(&code.as_str()) {
            return None;
        }
        if Instant::now() > until {
            // Of a peer that went for good nothing is held.
            return (code != "unknown_peer").then(|| format!("control of {component}, which cannot be given back"));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Stands fakes up, calls them and takes them down.
fn fakes(mut client: Client, mut draw: Draw, until: &Until) -> Vec<String> {
    let contract = json!({"schema": 1, "namespaces": {SPACE: {"methods":
        {"read": {"params": [], "returns": {"kind": "number", "min": 4, "max": 4}, "semantics": "query"}}}}});
    let (mut number, mut left) = (0, Vec::new());
    while !until.over() {
        number += 1;
        let fake = format!("{FAKE}{number}");
        let mut since = client.record.with(|state| state.age());
        let started = client.call("start_fake", &json!({"name": fake, "schema": contract}), START);
        if started.code == "ok" {
            for _ in 0..draw.between(1, 8) {
                method(&mut client, &fake, "read", &json!([]), PATIENCE);
                std::thread::sleep(draw.millis(50, 800));
            }
        }
        let mut off = false;
        if started.code == "ok" {
            since = client.record.with(|state| state.age());
            let listed = client.call("list_fakes", &json!({"limit": 10}), Duration::ZERO);
            let fakes = listed.content.get("fakes").and_then(Value::as_array).into_iter().flatten();
            off = fakes.into_iter().any(|fake| fake.get("on_network") == Some(&json!(false)));
        }
        // A start that failed has left nothing, and to stop it says so.
        let stopped = client.call("stop_fake", &json!({"name": fake}), START);
        let expected = if started.code == "ok" { "ok" } else { "unknown_fake" };
        if stopped.code != expected {
            left.push(format!("fake {fake}: its start said {}, its stop {}", started.code, stopped.code));
        }
        std::thread::sleep(draw.millis(100, 1_000));
        client.record.with(|state| state.taken_down(&fake, since, off));
    }
    left
}

/// How names of fakes begin.
pub(super) const FAKE: &str = "soak-fake-";
/// How long a fake may take to join and to leave.
const START: Duration = Duration::from_secs(10);
