//! The binary under measurement as an MCP client sees it: JSON-RPC lines over pipes.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::PAYLOAD;

/// A running `plantbridge mcp`, initialised; killed when dropped.
#[derive(Debug)]
pub(super) struct Bridge {
    process: Child,
    /// Gone once the session is over.
    to: Option<ChildStdin>,
    from: ChildStdout,
    /// Where one read goes.
    piece: Vec<u8>,
    inbox: Vec<u8>,
    next: u64,
    began: Instant,
    /// Dropped with the bridge; until then, a bridge that hangs is killed when its time is over.
    _watchdog: Sender<()>,
}

/// From the start of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub(super) first_answer: Duration,
}

impl Bridge {
    /// Starts the binary on a broker, and asks it to begin a session.
    pub(super) fn start(binary: &Path, port: u16) -> Result<(Self, Start), String> {
        Self::start_as(&mut Command::new(binary), port, &[])
    }

    /// The same, where `command` is what runs the binary up to its arguments, and `more` are further arguments.
    pub(super) fn start_as(command: &mut Command, port: u16, more: &[&str]) -> Result<(Self, Start), String> {
        let broker = format!("mqtt://127.0.0.1:{port}");
        Self::begin(command, &[&["--broker", &broker], more].concat())
    }

    /// The same at another place.
    pub(super) fn start_at(binary: &Path, place: &[&str]) -> Result<Self, String> {
        Self::begin(&mut Command::new(binary), place).map(|(bridge, _)| bridge)
    }

    fn begin(command: &mut Command, arguments: &[&str]) -> Result<(Self, Start), String> {
        command.arg("mcp").args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let began = Instant::now();
        let mut process = command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (to, from) = pipes.ok_or("the bridge has no pipes")?;
        let watchdog = watch(process.id());
        let mut bridge = Self {
            process,
            to: Some(to),
            from,
            piece: vec![0; 64 * 1024],
            inbox: Vec::new(),
            next: 1,
            began,
            _watchdog: watchdog,
        };
        let answer = bridge.request("initialize", INITIALIZE)?;
        let first_answer = began.elapsed();
        if !answer.contains("\"protocolVersion\"") {
            return Err(format!("the session did not begin: {answer}"));
        }
        bridge.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok((bridge, Start { first_answer }))
    }

    /// How long ago it was started.
    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Calls a tool and gives its answer, which must be a success.
    pub(super) fn tool(&mut self, name: &str, arguments: &str) -> Result<String, String> {
        let answer = self.request("tools/call", &format!("{{\"name\":\"{name}\",\"arguments\":{arguments}}}"))?;
        if answer.contains("\"isError\":true") || !answer.contains("\"structuredContent\"") {
            return Err(format!("{name} failed: {answer}"));
        }
        Ok(answer)
    }

    /// Calls `peer` one time after another; how long each call took goes to `samples`.
    pub(super) fn sequential(&mut self, peer: &str, calls: usize, samples: &mut Vec<Duration>) -> Result<(), String> {
        for _ in 0..calls {
            let line = self.call_line(peer);
            let begun = Instant::now();
            self.write(&line)?;
            let answer = self.line()?;
            samples.push(begun.elapsed());
            is_echo(&answer)?;
        }
        Ok(())
    }

    /// The same with any tool.
    pub(super) fn repeated(
        &mut self,
        tool: &str,
        arguments: &str,
        times: usize,
        samples: &mut Vec<Duration>,
    ) -> Result<(), String> {
        for _ in 0..times {
            let begun = Instant::now();
            self.tool(tool, arguments)?;
            samples.push(begun.elapsed());
        }
        Ok(())
    }

    /// Calls `peer` with so many in flight, and says how long all calls took.
    pub(super) fn flight(&mut self, peer: &str, calls: usize, in_flight: usize) -> Result<Duration, String> {
        let begun = Instant::now();
        let mut started = in_flight.min(calls);
        let first: String = (0..started).map(|_| self.call_line(peer)).collect();
        self.write(&first)?;
        let mut ended = 0;
        let mut more = String::new();
        while ended < calls {
            more.clear();
            while let Some(answer) = self.buffered() {
                is_echo(&answer)?;
                ended += 1;
                if started < calls {
                    started += 1;
                    more.push_str(&self.call_line(peer));
                }
            }
            if !more.is_empty() {
                self.write(&more)?;
            }
            if ended < calls {
                self.read()?;
            }
        }
        Ok(begun.elapsed())
    }

    /// Closes its input and waits for its end, which must be a good one. Says how long that took.
    pub(super) fn end(&mut self) -> Result<Duration, String> {
        let asked = Instant::now();
        self.to = None;
        let status = self.process.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(asked.elapsed()) } else { Err(format!("the bridge ended with {status}")) }
    }

    /// Its resident memory in MiB; nothing where the system does not say.
    pub(super) fn resident(&self) -> f64 {
        resident(self.process.id())
    }

    /// How many descriptors it holds; none where the system does not say.
    pub(super) fn descriptors(&self) -> usize {
        descriptors(self.process.id())
    }

    /// What it has computed, on all its threads; nothing where the system does not say.
    pub(super) fn processor(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        // The 14th and the 15th of all fields, in the hundredths of a second that Linux counts in.
        let ticks = after.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
        Duration::from_millis(10 * ticks.sum::<u64>())
    }

    /// The most it ever was.
    pub(super) fn peak(&self) -> f64 {
        memory(self.process.id(), "VmHWM:")
    }

    /// How many processes it has begun that are still there.
    pub(super) fn children(&self) -> usize {
        let parent = format!(" {} ", self.process.id());
        let stats = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats
            .filter(|stat| {
                stat.rsplit_once(')')
                    .is_some_and(|(_, rest)| rest.get(2..).is_some_and(|rest| rest.starts_with(&parent)))
            })
            .count()
    }

    fn call_line(&mut self, peer: &str) -> String {
        let id = self.id();
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"call_method\",\
             \"arguments\":{{\"peer\":\"{peer}\",\"namespace\":\"bench\",\"method\":\"echo\",\"args\":[\"{PAYLOAD}\"]}}}}}}\n"
        )
    }

    /// Asks anything and gives the line that answers.
    pub(super) fn request(&mut self, method: &str, params: &str) -> Result<String, String> {
        let id = self.id();
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n");
        self.write(&line)?;
        self.line()
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        let to = self.to.as_mut().ok_or("the session is over")?;
        to.write_all(text.as_bytes()).map_err(|error| format!("write to the bridge: {error}"))
    }

    fn line(&mut self) -> Result<String, String> {
        loop {
            if let Some(line) = self.buffered() {
                return Ok(line);
            }
            self.read()?;
        }
    }

    fn buffered(&mut self) -> Option<String> {
        let end = self.inbox.iter().position(|byte| *byte == b'\n')?;
        let line = self.inbox.drain(..=end).collect();
        String::from_utf8(line).ok()
    }

    fn read(&mut self) -> Result<(), String> {
        let count = self.from.read(&mut self.piece).map_err(|error| format!("read from the bridge: {error}"))?;
        if count == 0 {
            return Err("the bridge ended, or took too long and was killed".to_owned());
        }
        self.inbox.extend_from_slice(self.piece.get(..count).unwrap_or_default());
        Ok(())
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The resident memory of a process in MiB; nothing where the system does not say.
pub(crate) fn resident(process: u32) -> f64 {
    memory(process, "VmRSS:")
}

/// How many descriptors a process holds; none where the system does not say.
pub(crate) fn descriptors(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

fn memory(process: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}

/// Kills the process if it lives longer than any measurement takes, so that a bridge that hangs ends a read.
fn watch(pid: u32) -> Sender<()> {
    let (alive, over) = channel::<()>();
    std::thread::spawn(move || {
        if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            // What cannot be killed has ended.
            let _ = Command::new("kill").arg("-KILL").arg(pid.to_string()).status();
        }
    });
    alive
}

fn is_echo(answer: &str) -> Result<(), String> {
    let holds = answer.contains(concat!("\"structuredContent\":{\"result\":\"", "0123456789"));
    if holds { Ok(()) } else { Err(format!("a call failed: {answer}")) }
}

const INITIALIZE: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"0"}}"#;

/// How long one bridge may live. No measurement takes this long when all is well.
const PATIENCE: Duration = Duration::from_mins(5);
