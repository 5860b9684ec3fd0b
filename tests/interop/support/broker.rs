//! A real mosquitto on a loopback port of its own.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};

use rustix::net::{self, AddressFamily, SocketType};

use super::{Authority, PATIENCE};

/// How the broker is configured. The default is a stock broker: Nagle on, its own queue bounds, no account.
#[derive(Clone, Default)]
pub(crate) struct BrokerOptions {
    /// `set_tcp_nodelay true`.
    pub(crate) tuned: bool,
    /// The one account there is, as user and password; without it everybody gets in.
    pub(crate) account: Option<(String, String)>,
    /// `max_packet_size`.
    pub(crate) max_packet_size: Option<u32>,
    /// `max_connections`.
    pub(crate) max_connections: Option<u16>,
    /// `acl_file`: who may read and write what.
    pub(crate) acl: Option<String>,
    /// `max_queued_messages`, which also bounds what waits for a slow connection; 0 for no bound.
    pub(crate) max_queued: Option<u32>,
    /// TLS with certificates of a private authority; clients must show one of its certificates too.
    pub(crate) tls: Option<Authority>,
    /// A second listener, for WebSockets.
    pub(crate) web: bool,
}

/// What a broker says while it runs.
#[derive(Default)]
struct Log {
    text: Mutex<String>,
    more: Condvar,
}

/// A running broker; killed when dropped.
pub(crate) struct Broker {
    port: u16,
    web_port: u16,
    scheme: &'static str,
    folder: tempfile::TempDir,
    process: Option<std::process::Child>,
    log: Arc<Log>,
    /// Keeps the port ours while the broker is down: bound, not listening, so that whoever connects is refused.
    placeholder: Option<OwnedFd>,
}

impl Broker {
    /// A stock broker.
    pub(crate) fn stock() -> Self {
        Self::start(&BrokerOptions::default())
    }

    /// Starts a broker and returns once it listens.
    pub(crate) fn start(options: &BrokerOptions) -> Self {
        let scheme = if options.tls.is_some() { "mqtts" } else { "mqtt" };
        Self::configured(scheme, &|folder, port, web_port| configuration(folder, port, web_port, options))
    }

    /// Starts one by the text that is given a folder of its own and two free ports, the first of them for peers.
    pub(super) fn configured(scheme: &'static str, text: &dyn Fn(&Path, u16, u16) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder can be made");
        // Between our look and the broker's bind somebody else may take the port: then another one is tried.
        for _ in 0..10 {
            let (port, web_port) = free_ports();
            let text = text(folder.path(), port, web_port);
            fs::write(folder.path().join("mosquitto.conf"), text).expect("the scratch folder can be written");
            if let Ok((process, log)) = launch(folder.path()) {
                return Self { port, web_port, scheme, folder, process: Some(process), log, placeholder: None };
            }
        }
        panic!("mosquitto does not start on any of ten free ports\n{}", log(folder.path()));
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// Where it listens for WebSockets, if it does.
    pub(crate) fn web_url(&self) -> String {
        self.second_url(if self.scheme == "mqtts" { "wss" } else { "ws" })
    }

    /// Its second listener, whatever that speaks.
    pub(super) fn second_url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.web_port)
    }

    /// Kills it: no DISCONNECT, no wills, and what it retained is forgotten.
    pub(crate) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it was started by us");
            process.wait().expect("it was started by us");
            self.placeholder = Some(occupy(self.port));
        }
    }

    /// Starts it again where it was.
    pub(crate) fn start_again(&mut self) {
        self.stop();
        let (process, log) =
            launch(self.folder.path()).unwrap_or_else(|log| panic!("mosquitto does not come back\n{log}"));
        self.process = Some(process);
        self.log = log;
        self.placeholder = None;
    }

    /// Waits until what it said since it started fulfils `wanted`; gives it.
    pub(crate) fn said(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let text = self.log.text.lock().expect("no reader panics");
        let waiting = self.log.more.wait_timeout_while(text, PATIENCE, |text| !wanted(text));
        let (text, _) = waiting.expect("no reader panics");
        assert!(wanted(&text), "the broker does not say {what}:\n{text}");
        text.clone()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Binds the port without listening on it; the broker, which shares addresses as we do here, can still bind it.
fn occupy(port: u16) -> OwnedFd {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket can be made");
    net::sockopt::set_socket_reuseaddr(&socket, true).expect("an address can be shared");
    net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).expect("the broker has just left it");
    socket
}

/// Two at once, so that they differ.
fn free_ports() -> (u16, u16) {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("loopback has a free port"));
    let [one, other] = listeners.map(|listener| listener.local_addr().expect("it is bound").port());
    (one, other)
}

fn configuration(folder: &Path, port: u16, web_port: u16, options: &BrokerOptions) -> String {
    let mut text = format!("listener {port} 127.0.0.1\npersistence false\nlog_dest stderr\nlog_type all\nuser root\n");
    if options.tuned {
        text.push_str("set_tcp_nodelay true\n");
    }
    if let Some(bytes) = options.max_packet_size {
        let _ = writeln!(text, "max_packet_size {bytes}");
    }
    if let Some(most) = options.max_connections {
        let _ = writeln!(text, "max_connections {most}");
    }
    if let Some(messages) = options.max_queued {
        let _ = writeln!(text, "max_queued_messages {messages}");
    }
    if let Some(acl) = &options.acl {
        let file = folder.join("acl");
        fs::write(&file, acl).expect("the scratch folder can be written");
        let _ = writeln!(text, "acl_file {}", file.display());
    }
    if let Some(authority) = &options.tls {
        let file = |name: &str| authority.file(name).display().to_string();
        let _ = writeln!(text, "cafile {}\ncertfile {}\nkeyfile {}", file("ca"), file("broker"), file("broker-key"));
        text.push_str("require_certificate true\n");
    }
    if options.web {
        text = with_websockets(&text, web_port);
    }
    if let Some((user, password)) = &options.account {
        let accounts = folder.join("accounts");
        let made = Command::new("mosquitto_passwd").args(["-b", "-c"]).arg(&accounts).args([user, password]).status();
        assert!(made.is_ok_and(|status| status.success()), "mosquitto_passwd fails: run `cargo xtask test`");
        let _ = writeln!(text, "allow_anonymous false\npassword_file {}", accounts.display());
    } else {
        text.push_str("allow_anonymous true\n");
    }
    text
}

/// The same settings for a second listener, which takes WebSockets. One alone would not start: this release counts only
/// the plain ones.
fn with_websockets(text: &str, port: u16) -> String {
    let of_listener = ["cafile", "certfile", "keyfile", "require_certificate"];
    let same = text.lines().filter(|line| of_listener.iter().any(|key| line.starts_with(key)));
    let same = same.collect::<Vec<_>>().join("\n");
    format!("{text}listener {port} 127.0.0.1\nprotocol websockets\n{same}\n")
}

/// Starts mosquitto and returns once it says that it runs; if it ends instead, its log is the error.
fn launch(folder: &Path) -> Result<(std::process::Child, Arc<Log>), String> {
    let mut command = Command::new(program());
    command.arg("-c").arg(folder.join("mosquitto.conf")).stdin(Stdio::null()).stdout(Stdio::null());
    let mut process = command.stderr(Stdio::piped()).spawn().expect("mosquitto can be started");
    let said = Arc::new(Log::default());
    let log = follow(&mut process, folder.join("log"), Arc::clone(&said));
    match log.recv_timeout(PATIENCE) {
        Ok(()) => Ok((process, said)),
        Err(why) => {
            // Ended already, or hopeless.
            let _ = process.kill();
            let _ = process.wait();
            assert_ne!(why, RecvTimeoutError::Timeout, "mosquitto says nothing\n{}", self::log(folder));
            Err(self::log(folder))
        }
    }
}

/// Keeps the log and signals once when the broker runs; the channel closes when the broker ends.
fn follow(process: &mut std::process::Child, file: PathBuf, said: Arc<Log>) -> Receiver<()> {
    let stderr = BufReader::new(process.stderr.take().expect("stderr is piped"));
    let (running, log) = channel();
    std::thread::spawn(move || {
        for line in stderr.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            let mut kept = said.text.lock().expect("nobody panics with it");
            let _ = writeln!(kept, "{line}");
            said.more.notify_all();
            if line.ends_with(" running") {
                let _ = running.send(());
            } else if line.contains("Error") {
                // The one line that explains a failed start.
                let _ = fs::write(&file, &*kept);
            }
        }
    });
    log
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/local/sbin")]);
    let found = folders.map(|folder| folder.join("mosquitto")).find(|file| file.is_file());
    found.expect("mosquitto is missing: run `cargo xtask test`, which installs it")
}
