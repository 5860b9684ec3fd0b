//! A mosquitto of our own, on a loopback port of its own.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

/// A running broker; killed when dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) port: u16,
    process: Child,
}

impl Broker {
    /// Starts one and returns once it accepts connections.
    pub(crate) fn start(kind: Kind) -> Result<Self, String> {
        // Between our look and the broker's bind somebody else may take the port: then another one is tried.
        for _ in 0..5 {
            let port = free_port().map_err(|error| format!("no free port: {error}"))?;
            let mut broker = Self { port, process: launch(port, kind)? };
            if broker.accepts() {
                return Ok(broker);
            }
        }
        Err("mosquitto does not start on any of five free ports".to_owned())
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
fn launch(port: u16, kind: Kind) -> Result<Child, String> {
    let program = find("mosquitto").ok_or("mosquitto is not installed: run `cargo xtask install`")?;
    let mut command = Command::new(program);
    command.args(["-c", "/dev/stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().map_err(|error| format!("mosquitto: {error}"))?;
    let tuned = match kind {
        Kind::Tuned => "set_tcp_nodelay true\n",
        Kind::Stock => "",
        Kind::Unbounded => "max_queued_messages 0\n",
    };
    let text = format!("listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nuser root\n{tuned}");
    let written = process.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    written.unwrap_or(Ok(())).map_err(|error| format!("mosquitto: {error}"))?;
    Ok(process)
}

/// A port that is free at the moment.
pub(crate) fn free_port() -> std::io::Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address| address.port())
}
