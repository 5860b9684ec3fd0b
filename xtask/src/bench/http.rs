//! What the HTTP door costs and stands: a call over it beside one over the pipes, many clients at a pace and without one, and
//! clients that come and vanish.
//!
//! The clients are threads with a blocking socket each, four to a token, which write a request in one call and read its
//! answer; no HTTP library can do with less.

use std::fmt;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::bridge::Bridge;
use super::broker::{Broker, Kind, free_port};
use super::floor::Floor;
use super::peer::{DESCRIBED, Peers};
use super::placement::{Side, on};
use super::stats::{micros, percentile};
use super::{PAYLOAD, Plan};

/// Clients with a token of their own.
const CLIENTS: usize = 64;
/// Calls each has in flight, over as many connections.
const EACH: usize = 4;
/// Calls a second of all of them together, at a pace.
const PACE: u32 = 1_000;
/// How long the clients have to stand ready before the first call at a pace: what falls due while their threads still
/// start would be sent at once, and wait for itself.
const READY: Duration = Duration::from_millis(200);
/// Calls a second over the pipes meanwhile.
const STDIO_PACE: u32 = 200;

/// A call over HTTP may cost so much more than one over the pipes, at the median, in microseconds.
const MORE: f64 = 150.0;
/// The slowest hundredth of calls at a pace may take so many times the bare round trip.
const SLOWEST: f64 = 20.0;
/// Memory under all of them without a pace, in MiB.
const MEMORY: f64 = 32.0;
/// What memory may differ by that is flat, in MiB.
const FLAT: f64 = 0.5;

/// Everything, times in microseconds and memory in MiB.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    full: bool,
    floor: f64,
    stdio: f64,
    http: f64,
    alone: f64,
    meanwhile: f64,
    paced: Load,
    unpaced: Load,
    idle: f64,
    peak: f64,
    vanished: usize,
    descriptors: [usize; 2],
    after: [f64; 3],
}

/// What came of many clients.
#[derive(Clone, Copy, Debug)]
struct Load {
    calls: usize,
    took: Duration,
    p50: f64,
    p99: f64,
}

pub(super) fn measure(binary: &Path, plan: &Plan) -> Result<Measured, String> {
    let broker = on(Side::Plant, || Broker::start(Kind::Tuned))?;
    let _peers = on(Side::Plant, || Peers::join(broker.port, 0))?;
    let full = plan.rounds > 1;
    let time = Duration::from_secs(plan.seconds);
    let mut floor = on(Side::Callers, || Floor::join(broker.port))?;
    let tokens = Tokens::write()?;
    let mut door = Door::open(binary, broker.port, Some(&tokens))?;

    let (mut bare, mut piped, mut posted) = (Vec::new(), Vec::new(), Vec::new());
    let before = door.bridge.descriptors();
    let mut client = Client::connect(door.port, Some(0))?;
    for _ in 0..plan.blocks {
        on(Side::Callers, || {
            floor.sequential(plan.calls, &mut bare)?;
            door.bridge.sequential(DESCRIBED, plan.calls, &mut piped)?;
            (0..plan.calls).try_for_each(|_| client.call().map(|took| posted.push(took)))
        })?;
    }
    // The many take every place at the door.
    drop(client);
    door.settles(before)?;
    let mut quiet = Vec::new();
    on(Side::Callers, || at_a_pace(STDIO_PACE, time, || door.bridge.sequential(DESCRIBED, 1, &mut quiet)))?;
    let mut busy = Vec::new();
    let paced = many(door.port, Some(PACE), time, || {
        at_a_pace(STDIO_PACE, time, || door.bridge.sequential(DESCRIBED, 1, &mut busy))
    })?;
    drop(door);

    let door = Door::open(binary, broker.port, Some(&tokens))?;
    let idle = door.bridge.resident();
    let unpaced = many(door.port, None, time, || Ok(()))?;
    let peak = door.bridge.peak();
    drop(door);

    let door = Door::open(binary, broker.port, None)?;
    let (descriptors, after) = vanish(&door, plan.vanished)?;
    let middle = |samples: &mut Vec<Duration>| micros(percentile(samples, 0.5));
    Ok(Measured {
        full,
        floor: middle(&mut bare),
        stdio: middle(&mut piped),
        http: middle(&mut posted),
        alone: middle(&mut quiet),
        meanwhile: middle(&mut busy),
        paced,
        unpaced,
        idle,
        peak,
        vanished: plan.vanished,
        descriptors,
        after,
    })
}

/// Calls from every client until the time is over, while `beside` does something else.
fn many(
    port: u16,
    pace: Option<u32>,
    time: Duration,
    beside: impl FnOnce() -> Result<(), String>,
) -> Result<Load, String> {
    let mut clients =
        (0..CLIENTS * EACH).map(|at| Client::connect(port, Some(at / EACH))).collect::<Result<Vec<_>, _>>()?;
    for client in &mut clients {
        client.call()?;
    }
    let over = AtomicBool::new(false);
    let every = pace.map(|pace| Duration::from_secs(1) / pace);
    let (mut samples, took) = std::thread::scope(|scope| {
        let begun = Instant::now() + if pace.is_some() { READY } else { Duration::ZERO };
        let calling: Vec<_> = (0_u32..)
            .zip(&mut clients)
            .map(|(at, client)| {
                let over = &over;
                scope.spawn(move || {
                    on(Side::Callers, || client.keep_calling(every.map(|every| (every, at)), begun, over))
                })
            })
            .collect();
        std::thread::sleep(begun.saturating_duration_since(Instant::now()));
        let done = on(Side::Callers, beside);
        std::thread::sleep(time.saturating_sub(begun.elapsed()));
        over.store(true, Ordering::Relaxed);
        let mut samples = Vec::new();
        for calling in calling {
            samples.extend(calling.join().map_err(|_| "a client panicked")??);
        }
        done.map(|()| (samples, begun.elapsed()))
    })?;
    let calls = samples.len();
    let mut share = |share| micros(percentile(&mut samples, share));
    Ok(Load { calls, took, p50: share(0.5), p99: share(0.99) })
}

/// Does something so many times a second for a time; what is late is done at once.
fn at_a_pace(pace: u32, time: Duration, mut work: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let (begun, every) = (Instant::now(), Duration::from_secs(1) / pace);
    let mut next = begun;
    while next.duration_since(begun) < time {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        work()?;
        next += every;
    }
    Ok(())
}

/// Clients that connect and are gone, at whatever point. Gives the descriptors before and after, and the memory after a first
/// thousand, after all, and after as many again.
fn vanish(door: &Door, times: usize) -> Result<([usize; 2], [f64; 3]), String> {
    let begun = [
        Vec::new(),
        b"POST /mcp HTTP/1.1\r\nHost: 127.".to_vec(),
        request(None).into_bytes().split_last().map(|(_, rest)| rest.to_vec()).unwrap_or_default(),
        request(None).into_bytes(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec(),
    ];
    let before = door.bridge.descriptors();
    let mut after = [0.0; 3];
    for (memory, times) in after.iter_mut().zip([times / 10, times, times]) {
        for (_, begun) in (0..times).zip(begun.iter().cycle()) {
            let mut stream = connect(door.port)?;
            // It may have been turned away already.
            let _ = stream.write_all(begun);
        }
        door.settles(before)?;
        *memory = door.bridge.resident();
    }
    Ok(([before, door.bridge.descriptors()], after))
}

/// A bridge with an open door.
struct Door {
    bridge: Bridge,
    port: u16,
}

impl Door {
    fn open(binary: &Path, broker: u16, tokens: Option<&Tokens>) -> Result<Self, String> {
        let port = free_port().map_err(|error| format!("no free port: {error}"))?;
        let at = port.to_string();
        let mut more = vec!["--port", &at];
        if let Some(tokens) = tokens {
            more.extend([
                "--mcp-auth",
                tokens.0.to_str().ok_or("the folder for what is temporary has no usable name")?,
            ]);
        }
        let start = || Bridge::start_as(&mut std::process::Command::new(binary), broker, &more);
        let mut bridge = on(Side::Callers, start)?.0;
        bridge.tool("list_peers", "{}")?;
        bridge.sequential(DESCRIBED, 100, &mut Vec::new())?;
        Ok(Self { bridge, port })
    }

    /// Waits until it holds no more descriptors than before.
    fn settles(&self, before: usize) -> Result<(), String> {
        let until = Instant::now() + Duration::from_secs(10);
        while self.bridge.descriptors() > before {
            if Instant::now() > until {
                return Err(format!("{before} descriptors have become {}", self.bridge.descriptors()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// A file with a token for each client; gone when dropped.
struct Tokens(PathBuf);

impl Tokens {
    fn write() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("plantbridge-bench-{}.json", std::process::id()));
        let tokens: Vec<String> =
            (0..CLIENTS).map(|at| format!("\"token-{at}\":{{\"name\":\"client-{at}\"}}")).collect();
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let text = format!("{{\"tokens\":{{{}}}}}", tokens.join(","));
        let written = options.open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn connect(port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| format!("connect: {error}"))?;
    let set = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(Duration::from_secs(30))));
    set.map(|()| stream).map_err(|error| format!("connect: {error}"))
}

fn request(client: Option<usize>) -> String {
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"call_method\",\"arguments\":\
         {{\"peer\":\"{DESCRIBED}\",\"namespace\":\"bench\",\"method\":\"echo\",\"args\":[\"{PAYLOAD}\"]}}}}}}"
    );
    let token = client.map(|at| format!("Authorization: Bearer token-{at}\r\n")).unwrap_or_default();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n{token}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// One connection of a client.
struct Client {
    stream: TcpStream,
    request: String,
    inbox: Vec<u8>,
}

impl Client {
    fn connect(port: u16, client: Option<usize>) -> Result<Self, String> {
        Ok(Self { stream: connect(port)?, request: request(client), inbox: vec![0; 16 * 1024] })
    }

    fn call(&mut self) -> Result<Duration, String> {
        let begun = Instant::now();
        self.stream.write_all(self.request.as_bytes()).map_err(|error| format!("write to the door: {error}"))?;
        let mut there = 0;
        loop {
            let space = self.inbox.get_mut(there..).unwrap_or_default();
            match self.stream.read(space).map_err(|error| format!("read from the door: {error}"))? {
                0 => return Err("the door closed a connection".to_owned()),
                read => there += read,
            }
            let text = std::str::from_utf8(self.inbox.get(..there).unwrap_or_default()).unwrap_or_default();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if body.len() < length.ok_or_else(|| format!("an answer of no length: {text}"))? {
                continue;
            }
            let took = begun.elapsed();
            let good = head.starts_with("HTTP/1.1 200") && body.contains(PAYLOAD) && !body.contains("\"isError\":true");
            return if good { Ok(took) } else { Err(format!("a call failed: {text}")) };
        }
    }

    /// Calls until it is over: at its places in a pace, or one after another.
    fn keep_calling(
        &mut self,
        pace: Option<(Duration, u32)>,
        begun: Instant,
        over: &AtomicBool,
    ) -> Result<Vec<Duration>, String> {
        let mut samples = Vec::new();
        let all = u32::try_from(CLIENTS * EACH).unwrap_or(1);
        let mut next = pace.map(|(every, at)| begun + every * at);
        while !over.load(Ordering::Relaxed) {
            if let (Some(at), Some((every, _))) = (&mut next, pace) {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                *at += every * all;
            }
            samples.push(self.call()?);
        }
        Ok(samples)
    }
}

impl Measured {
    fn more(&self) -> f64 {
        self.http - self.stdio
    }

    /// Whether it is what is wanted. Times and memory of a development build decide nothing.
    pub(super) fn judge(&self) -> Result<(), String> {
        let [before, after] = self.descriptors;
        let mut missed = Vec::new();
        let mut wanted = |holds: bool, what: String| {
            if !holds {
                missed.push(what);
            }
        };
        wanted(before == after, format!("{before} descriptors became {after}"));
        if self.full {
            wanted(
                self.more() <= MORE,
                format!("a call over HTTP costs {:.0} µs more, {MORE} are wanted", self.more()),
            );
            let slowest = self.paced.p99 / self.floor;
            wanted(slowest <= SLOWEST, format!("p99 at a pace is {slowest:.1} times the floor, {SLOWEST} are wanted"));
            let slowed = self.meanwhile / self.alone;
            wanted(
                slowed <= 2.0,
                format!("a call over the pipes takes {slowed:.2} times as long meanwhile, 2 are wanted"),
            );
            wanted(self.peak <= MEMORY, format!("{:.1} MiB at the peak, {MEMORY} are wanted", self.peak));
            let [_, once, twice] = self.after;
            wanted(twice - once <= FLAT, format!("memory grows by {:.2} MiB with clients that vanish", twice - once));
        }
        if missed.is_empty() { Ok(()) } else { Err(missed.join("; ")) }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "| over HTTP | wanted | |")?;
        writeln!(out, "| --- | --- | --- |")?;
        let Self { floor, stdio, http, alone, meanwhile, paced, unpaced, idle, peak, .. } = self;
        let more = self.more();
        writeln!(out, "| one call at a time, p50: bare floor, pipes, HTTP | | {floor:.0}, {stdio:.0}, {http:.0} µs |")?;
        writeln!(out, "| HTTP over pipes | {MORE:.0} µs | **{more:.0} µs** |")?;
        #[expect(clippy::cast_precision_loss, reason = "some hundred thousand calls")]
        let rate = |load: &Load| load.calls as f64 / load.took.as_secs_f64();
        let (each, of_paced, of_unpaced) =
            (format!("{CLIENTS} clients with {EACH} calls in flight"), rate(paced), rate(unpaced));
        writeln!(
            out,
            "| {each}, {of_paced:.0} calls a second in all: p50, p99 | | {:.0}, {:.0} µs |",
            paced.p50, paced.p99
        )?;
        writeln!(out, "| p99 over the bare floor's p50 | {SLOWEST:.0} | **{:.1}** |", paced.p99 / floor)?;
        let slowed = meanwhile / alone;
        writeln!(
            out,
            "| {STDIO_PACE} calls a second over the pipes, p50: alone, meanwhile | doubled | {alone:.0}, {meanwhile:.0} µs: **{slowed:.2}** |"
        )?;
        writeln!(
            out,
            "| {each}, unpaced: calls a second, p50, p99 | none fails | {of_unpaced:.0}, {:.0}, {:.0} µs; none of {} failed |",
            unpaced.p50, unpaced.p99, unpaced.calls
        )?;
        writeln!(
            out,
            "| resident memory: with an open door, at the peak of that | {MEMORY:.0} MiB | {idle:.1}, **{peak:.1} MiB** |"
        )?;
        let ([before, after], [first, once, twice]) = (self.descriptors, self.after);
        writeln!(
            out,
            "| {} clients that vanish: descriptors before, after | the same | {before}, {after} |",
            2 * self.vanished + self.vanished / 10
        )?;
        let (few, some, all) = (self.vanished / 10, self.vanished, 2 * self.vanished);
        writeln!(
            out,
            "| resident memory after {few}, {some} and {all} more of them | flat | {first:.1}, {once:.1}, {twice:.1} MiB |"
        )
    }
}
