//! The bridge under test, and a client of it on its pipes that has many calls in flight.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::peers::BRIDGE;
use super::record::{Record, Sample};
use crate::bench::bridge::{descriptors, resident};
use crate::bench::broker::free_port;

/// How long a call waits for its answer unless it says otherwise, in milliseconds; so long a description is awaited.
pub(super) const TIMEOUT: u64 = 4_000;

/// A running `plantbridge mcp` with a door on HTTP beside its pipes; killed when dropped.
#[derive(Debug)]
pub(super) struct Bridge {
    process: Child,
    /// Of the door.
    pub(super) port: u16,
    log: PathBuf,
    pub(super) pipe: Pipe,
}

/// The pipes, for many threads.
#[derive(Clone, Debug)]
pub(super) struct Pipe {
    input: Arc<Mutex<ChildStdin>>,
    waiting: Arc<Mutex<HashMap<u64, Sender<Value>>>>,
}

impl Bridge {
    /// Starts it on a broker and begins a session; what it says on standard error goes into a file of the folder.
    pub(super) fn start(binary: &Path, broker: u16, folder: &Path, record: &Arc<Record>) -> Result<Self, String> {
        let port = free_port().map_err(|error| format!("no free port: {error}"))?;
        let log = folder.join("bridge.log");
        let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(binary);
        command.args(["mcp", "--name", BRIDGE, "--broker", &format!("mqtt://127.0.0.1:{broker}")]);
        command.args(["--port", &port.to_string(), "--timeout", &TIMEOUT.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut process = command.spawn().map_err(|error| format!("{}: {error}", binary.display()))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or("the bridge has no pipes")?;
        let pipe = Pipe { input: Arc::new(Mutex::new(input)), waiting: Arc::default() };
        let (waiting, heard) = (pipe.waiting.clone(), record.clone());
        std::thread::spawn(move || hear(output, &waiting, &heard));
        let bridge = Self { process, port, log, pipe };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "soak", "version": "0"}});
        let call = record.with(|state| state.begin("initialize".to_owned(), START));
        let answer = bridge.pipe.ask(call, "initialize", &hello)?.recv_timeout(START);
        answer.map_err(|_| "the bridge does not begin a session".to_owned())?;
        bridge.pipe.tell("notifications/initialized", &json!({}))?;
        Ok(bridge)
    }

    /// What it takes up now.
    pub(super) fn sample(&self) -> Sample {
        let process = self.process.id();
        Sample { mib: resident(process), descriptors: descriptors(process) }
    }

    /// Asks it to end and waits for that, which has to be in order and in time.
    pub(super) fn end(&mut self, within: Duration) -> Result<Duration, String> {
        let asked = Instant::now();
        kill_process(Pid::from_child(&self.process), Signal::TERM).map_err(|error| format!("the bridge: {error}"))?;
        while asked.elapsed() < within {
            match self.process.try_wait().map_err(|error| format!("the bridge: {error}"))? {
                Some(status) if status.success() => return Ok(asked.elapsed()),
                Some(status) => return Err(format!("the bridge ended with {status}")),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        Err(format!("the bridge did not end within {within:?}"))
    }

    /// What it said on standard error so far.
    pub(super) fn log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Pipe {
    /// Sends a request; its answer comes on the channel.
    pub(super) fn ask(&self, call: u64, method: &str, params: &Value) -> Result<Receiver<Value>, String> {
        let (answer, receiver) = channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(call, answer);
        self.write(&json!({"jsonrpc": "2.0", "id": call, "method": method, "params": params}))?;
        Ok(receiver)
    }

    pub(super) fn tell(&self, method: &str, params: &Value) -> Result<(), String> {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    fn write(&self, message: &Value) -> Result<(), String> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        input.write_all(format!("{message}\n").as_bytes()).map_err(|error| format!("write to the bridge: {error}"))
    }
}

/// Reads answers until the bridge ends. Each is written down, also one that nobody waits for.
fn hear(output: ChildStdout, waiting: &Mutex<HashMap<u64, Sender<Value>>>, record: &Record) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            record.with(|state| state.violate(None, format!("no JSON on standard output: {line}")));
            continue;
        };
        if message.get("method").is_some() {
            continue;
        }
        let Some(call) = message.get("id").and_then(Value::as_u64) else {
            record.with(|state| state.violate(None, format!("an answer to nothing: {line}")));
            continue;
        };
        record.with(|state| state.answered(call));
        let waits = waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&call);
        // Whoever does not wait any longer has said so.
        let _ = waits.map(|waits| waits.send(message));
    }
}

/// How long a session may take to begin.
const START: Duration = Duration::from_secs(30);
