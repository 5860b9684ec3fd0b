//! A mosquitto of our own, on a loopback port of its own.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::command::find;

/// How the broker is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `set_tcp_nodelay true`.
    Tuned,
    /// As it comes: Nagle's algorithm holds the second of two small packets back until the first is acknowledged.
    Stock,
    /// Stock, with `max_queued_messages 0`: what waits for one connection is not bounded, so that the broker delivers all.
    Unbounded,
}

impl Kind {
    const fn settings(self) -> &'static str {
        match self {
            Self::Tuned => "persistence false\nset_tcp_nodelay true\n",
            Self::Stock => "persistence false\n",
            Self::Unbounded => "persistence false\nmax_queued_messages 0\n",
        }
    }
}

/// A running broker; killed when dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) port: u16,
    settings: String,
    process: Child,
}

impl Broker {
    /// Starts one and returns once it accepts connections.
    pub(crate) fn start(kind: Kind) -> Result<Self, String> {
        Self::on(free_port, kind.settings())
    }

    /// One that keeps in a folder what it retains and what it logs, and can be started again on its port.
    pub(crate) fn lasting(folder: &Path) -> Result<Self, String> {
        let place = folder.display();
        let settings = format!(
            "persistence true\npersistence_location {place}/\nautosave_interval 1\nsys_interval 1\n\
             log_dest file {place}/mosquitto.log\nlog_type error\nlog_type warning\nlog_type notice\n"
        );
        Self::on(quiet_port, &settings)
    }

    fn on(port: fn() -> std::io::Result<u16>, settings: &str) -> Result<Self, String> {
        // Between our look and the broker's bind somebody else may take the port: then another one is tried.
        for _ in 0..5 {
            let port = port().map_err(|error| format!("no free port: {error}"))?;
            let mut broker = Self { port, settings: settings.to_owned(), process: launch(port, settings)? };
            if broker.accepts() {
                return Ok(broker);
            }
        }
        Err("mosquitto does not start on any of five free ports".to_owned())
    }

    /// Ends it, in order or by killing it.
    pub(crate) fn stop(&mut self, killed: bool) -> Result<(), String> {
        let signal = if killed { Signal::KILL } else { Signal::TERM };
        kill_process(Pid::from_child(&self.process), signal).map_err(|error| format!("mosquitto: {error}"))?;
        self.process.wait().map(drop).map_err(|error| format!("mosquitto: {error}"))
    }

    /// Starts it again where it was.
    pub(crate) fn again(&mut self) -> Result<(), String> {
        for _ in 0..5 {
            self.process = launch(self.port, &self.settings)?;
            if self.accepts() {
                return Ok(());
            }
        }
        Err(format!("mosquitto does not start again on port {}", self.port))
    }

    fn accepts(&mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until && matches!(self.process.try_wait(), Ok(None)) {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The configuration goes in as standard input: nothing is left on the disk.
fn launch(port: u16, settings: &str) -> Result<Child, String> {
    let program = find("mosquitto").ok_or("mosquitto is not installed: run `cargo xtask install`")?;
    let mut command = Command::new(program);
    command.args(["-c", "/dev/stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().map_err(|error| format!("mosquitto: {error}"))?;
    let text = format!("listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n{settings}");
    let written = process.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    written.unwrap_or(Ok(())).map_err(|error| format!("mosquitto: {error}"))?;
    Ok(process)
}

/// A port that is free at the moment.
pub(crate) fn free_port() -> std::io::Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address| address.port())
}

/// A port that is free and that the system gives to nobody who does not ask for it, so that it is free again after a restart,
/// and so that nobody who connects while nobody listens there is given the port itself and meets itself.
fn quiet_port() -> std::io::Result<u16> {
    let first = 10_000 + u16::try_from(std::process::id() % 10_000).unwrap_or_default();
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (first..first + 2_000).find(free).map_or_else(free_port, Ok)
}
