//! Many fakes in one bridge on one stock broker, each with a component and an event a second: how long they take to start,
//! what each of them holds, whether every call to them is answered, and how soon nothing of them is left.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::bridge::Bridge;
use super::broker::{Broker, Kind};
use super::mqtt::{Closer, Connection, Publish};

/// What many fakes cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fakes {
    pub(super) count: usize,
    /// All starts, one after another.
    pub(super) started: Duration,
    /// Resident memory with the first alone and with all of them after some seconds of events, in MiB.
    pub(super) first: f64,
    pub(super) all: f64,
    /// A call to each, through the bridge and past the network.
    pub(super) inside: Duration,
    /// A call to each from another peer, all at once, through the broker.
    pub(super) outside: Duration,
    /// From the end of the bridge's input to the end of its process.
    pub(super) ended: Duration,
    /// From the end of the bridge's input until nothing is retained of any of them.
    pub(super) gone: Duration,
}

impl Fakes {
    /// What each fake beyond the first holds, in KiB.
    pub(super) fn each(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "some hundreds of fakes")]
        let others = self.count.saturating_sub(1) as f64;
        (self.all - self.first) * 1024.0 / others
    }

    /// What was not reached of what is wanted. `sized`: whether the memory of this build is one to judge.
    pub(super) fn missed(&self, sized: bool) -> Vec<String> {
        let mut missed = Vec::new();
        let mut want = |holds: bool, what: String| {
            if !holds {
                missed.push(what);
            }
        };
        want(
            self.started <= START,
            format!("{} fakes started in {:?}, and not in {START:?}", self.count, self.started),
        );
        let each = self.each();
        want(!sized || each <= EACH, format!("a fake holds {each:.0} KiB, and not {EACH:.0}"));
        want(self.gone <= GONE, format!("the last of them was gone after {:?}, and not {GONE:?}", self.gone));
        missed
    }
}

/// Starts so many, calls them, and ends the bridge. A call without an answer is an error.
pub(super) fn measure(binary: &Path, count: usize) -> Result<Fakes, String> {
    let broker = Broker::start(Kind::Stock)?;
    let witness = Witness::join(broker.port)?;
    let mut bridge = Bridge::start(binary, broker.port)?.0;
    bridge.tool("list_peers", "{}")?;
    let begun = Instant::now();
    start(&mut bridge, 0)?;
    let first = bridge.resident();
    for number in 1..count {
        start(&mut bridge, number)?;
    }
    let started = begun.elapsed();
    witness.until(count)?;
    let begun = Instant::now();
    for number in 0..count {
        let answer = bridge.tool(
            "call_method",
            &format!("{{\"peer\":\"{}\",\"namespace\":\"boiler\",\"method\":\"read\"}}", name(number)),
        )?;
        if !answer.contains("\"result\":100") {
            return Err(format!("{} answered something else: {answer}", name(number)));
        }
    }
    let inside = begun.elapsed();
    let outside = call_all(broker.port, count)?;
    // Each emits a few times more, so that what that takes is taken.
    std::thread::sleep(Duration::from_secs(5));
    let all = bridge.resident();
    let begun = Instant::now();
    let ended = bridge.end()?;
    witness.until(0)?;
    let gone = begun.elapsed();
    nothing_retained(broker.port)?;
    Ok(Fakes { count, started, first, all, inside, outside, ended, gone })
}

fn name(number: usize) -> String {
    format!("double-{number:03}")
}

fn start(bridge: &mut Bridge, number: usize) -> Result<(), String> {
    let script = r#"{"emits":[{"event":"boiler.alarm","every":1000}]}"#;
    let arguments = format!("{{\"name\":\"{}\",\"schema\":{CONTRACT},\"script\":{script}}}", name(number));
    bridge.tool("start_fake", &arguments).map(drop)
}

/// Calls each fake over the broker, all at once, and waits for every answer.
fn call_all(port: u16, count: usize) -> Result<Duration, String> {
    let mut caller = Connection::open(port, "bench-caller")?;
    caller.subscribe("msgrpc/v2/rsp/bench-caller")?;
    let begun = Instant::now();
    let mut open = BTreeSet::new();
    for number in 0..count {
        let user: [(&[u8], &[u8]); 6] = [
            (b"mr-v", b"3"),
            (b"mr-src", b"bench-caller"),
            (b"mr-kind", b"call"),
            (b"mr-path", b"boiler"),
            (b"mr-method", b"read"),
            (b"mr-ttl", b"10000"),
        ];
        let correlation = name(number);
        caller.out().publish(&Publish {
            topic: format!("msgrpc/v2/req/{correlation}").as_bytes(),
            response_topic: b"msgrpc/v2/rsp/bench-caller",
            correlation: correlation.as_bytes(),
            content_type: b"application/msgpack",
            user: &user,
            payload: &[0x90],
            ..Publish::default()
        });
        open.insert(correlation);
    }
    caller.flush()?;
    let mut wrong = None;
    while !open.is_empty() {
        caller.turn(|answer, _| {
            let correlation = String::from_utf8_lossy(answer.correlation).into_owned();
            if answer.property(b"mr-kind") != b"result" {
                wrong = Some(format!("{correlation} answered {}", String::from_utf8_lossy(answer.payload)));
            }
            open.remove(&correlation);
        })?;
    }
    wrong.map_or(Ok(begun.elapsed()), Err)
}

/// Whoever comes now is shown nothing of them, not even that they left.
fn nothing_retained(port: u16) -> Result<(), String> {
    let mut late = Connection::open(port, "bench-late")?;
    let mut left = Vec::new();
    late.subscribe("msgrpc/v2/presence/+")?;
    // What is retained comes with the acknowledgement or right behind it; a message of our own comes after it.
    let topic = "msgrpc/v2/presence/bench-late";
    late.out().publish(&Publish { topic: topic.as_bytes(), payload: b"last", ..Publish::default() });
    late.flush()?;
    let mut last = false;
    while !last {
        late.turn(|message, _| {
            let topic = String::from_utf8_lossy(message.topic);
            last |= topic.ends_with("bench-late");
            if topic.contains("/double-") {
                left.push(topic.into_owned());
            }
        })?;
    }
    if left.is_empty() { Ok(()) } else { Err(format!("{} presences are still retained", left.len())) }
}

/// Sees who is there.
struct Witness {
    there: Arc<Mutex<BTreeSet<String>>>,
    closer: Option<Closer>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Witness {
    fn join(port: u16) -> Result<Self, String> {
        let mut connection = Connection::open(port, "bench-witness")?;
        connection.subscribe("msgrpc/v2/presence/+")?;
        let closer = connection.closer()?;
        let there = Arc::<Mutex<BTreeSet<String>>>::default();
        let seen = there.clone();
        let watch = move || {
            while connection
                .turn(|message, _| {
                    let topic = String::from_utf8_lossy(message.topic).into_owned();
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    match message.payload {
                        b"online" if topic.contains("/double-") => {
                            seen.insert(topic);
                        }
                        // Only what is cleared is gone: a departure that stays retained is none.
                        b"" => {
                            seen.remove(&topic);
                        }
                        _ => {}
                    }
                })
                .is_ok()
            {}
        };
        Ok(Self { there, closer: Some(closer), thread: Some(std::thread::spawn(watch)) })
    }

    fn until(&self, count: usize) -> Result<(), String> {
        let late = Instant::now() + Duration::from_secs(20);
        loop {
            let there = self.there.lock().unwrap_or_else(PoisonError::into_inner).len();
            if there == count {
                return Ok(());
            }
            if Instant::now() > late {
                return Err(format!("{there} fakes are seen, and not {count}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        drop(self.closer.take());
        // A thread that panicked has said so itself.
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

const CONTRACT: &str = r#"{"schema":1,"version":"1","namespaces":{"boiler":{"version":"4","methods":{"read":{"params":[],"returns":{"kind":"number","min":0,"max":200},"semantics":"query"},"setTarget":{"params":[{"kind":"number","min":0,"max":200}],"paramNames":["celsius"],"returns":{"kind":"boolean"},"semantics":"idempotent-command","sets":"target"}},"events":{"alarm":{"params":[{"kind":"string"},{"kind":"number"}]}},"component":{"snapshot":1,"props":{"kind":"object","fields":{"unit":{"type":{"kind":"string"}}}},"state":{"kind":"object","fields":{"target":{"type":{"kind":"number","min":0,"max":200}},"mode":{"type":{"kind":"string"}}}}}}}}"#;

/// How long all starts may take.
const START: Duration = Duration::from_secs(20);
/// What each may hold, in KiB.
const EACH: f64 = 100.0;
/// How soon after the end nothing may be left.
const GONE: Duration = Duration::from_secs(2);
