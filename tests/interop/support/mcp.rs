//! The binary under test as an MCP client without an SDK sees it: JSON-RPC lines over pipes.

use std::process::{Command, ExitStatus};
use std::time::Instant;

use serde_json::{Value, json};

use super::{Broker, Child, PATIENCE, PLANTBRIDGE};

/// The name our peer takes.
const NAME: &str = "bridge-test";

/// A running `plantbridge mcp`, initialised.
pub(crate) struct Bridge {
    child: Child,
    next: u64,
}

impl Bridge {
    /// Joins the broker as `bridge-test`, and returns once it has.
    pub(crate) fn join(broker: &Broker) -> Self {
        let mut bridge = Self::start(&["--broker", &broker.url(), "--name", NAME], &[]);
        bridge.call_once_joined("list_peers", &json!({}));
        bridge
    }

    /// Serves the bakery over an embedded broker, and returns where that listens.
    pub(crate) fn demo() -> (Self, String) {
        let mut bridge = Self::start(&["--demo"], &[]);
        bridge.call_once_joined("list_peers", &json!({}));
        let until = Instant::now() + PATIENCE;
        loop {
            // The address is part of what it tells its operator at the start; the call is only to wait by.
            if let Some(url) = broker_url(&bridge.stderr()) {
                return (bridge, url);
            }
            assert!(Instant::now() < until, "it does not say where its broker is\n{}", bridge.stderr());
            bridge.call("list_peers", &json!({}));
        }
    }

    /// Serves the bakery over both doors, with this environment, and returns the URL of the HTTP door.
    pub(crate) fn with_door(environment: &[(&str, &str)]) -> (Self, String) {
        Self::with_door_and(&[], environment)
    }

    /// The same with further flags.
    pub(crate) fn with_door_and(flags: &[&str], environment: &[(&str, &str)]) -> (Self, String) {
        let mut bridge = Self::start(&[&["--demo", "--port", "0"], flags].concat(), environment);
        bridge.call_once_joined("list_peers", &json!({}));
        // It was said before the first answer.
        let log = bridge.stderr();
        let (_, rest) = log.split_once("MCP over HTTP is at ").expect("it says where its door is");
        let url = rest.split_whitespace().next().expect("the URL").to_owned();
        (bridge, url)
    }

    /// Closes its standard input; whether it says so and stays.
    pub(crate) fn hang_up_but_stay(&mut self) -> bool {
        self.child.hang_up();
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.stderr().contains("the session of standard input is over") {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Calls `peer.namespace.method` with these positional arguments, waiting `timeout_ms` for the answer.
    pub(crate) fn call_method(&mut self, target: [&str; 3], args: &Value, timeout_ms: u64) -> Value {
        self.call("call_method", &call_arguments(target, args, timeout_ms))
    }

    /// Starts `plantbridge mcp` with these arguments and environment variables, and initialises it.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(PLANTBRIDGE);
        command.arg("mcp").args(arguments).envs(environment.iter().copied());
        Self::of(command)
    }

    /// Starts this command, which is a server on its pipes, and initialises it.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut bridge = Self { child: Child::start("plantbridge mcp", &mut command), next: 1 };
        let about = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "interop", "version": "0"},
        });
        let answer = bridge.request("initialize", &about);
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{answer}");
        bridge.notify("notifications/initialized", &json!({}));
        bridge
    }

    /// Calls a tool and returns its result, be it a failure or not.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        self.finish(id)
    }

    /// Calls a tool without waiting for it.
    pub(crate) fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.send("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// The result of a call that was begun.
    pub(crate) fn finish(&mut self, id: u64) -> Value {
        let answer = self.answer(id);
        assert!(answer["result"].is_object(), "a tool call was answered with an error: {answer}");
        answer["result"].clone()
    }

    /// The result of a call that was begun, if it is there.
    pub(crate) fn finished(&mut self, id: u64) -> Option<Value> {
        let answers = self.child.heard(|line| (line["id"] == id && line.get("method").is_none()).then(|| line.clone()));
        answers.first().map(|answer| answer["result"].clone())
    }

    /// Calls a tool again and again while the bridge says that the network is not there, which means that nothing was
    /// sent.
    pub(crate) fn call_once_joined(&mut self, tool: &str, arguments: &Value) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let result = self.call(tool, arguments);
            let code = &result["structuredContent"]["error"]["code"];
            if code != "network_unavailable" && code != "unknown_peer" {
                return result;
            }
            assert!(Instant::now() < until, "it does not come back: {result}\n{}", self.child.stderr());
        }
    }

    /// Sends a request and returns its answer, be it an error or not.
    pub(crate) fn request(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.send(method, parameters);
        self.answer(id)
    }

    /// Sends a notification.
    pub(crate) fn notify(&mut self, method: &str, parameters: &Value) {
        self.child.write(&json!({"jsonrpc": "2.0", "method": method, "params": parameters}).to_string());
    }

    /// What it wrote to standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.child.stderr()
    }

    /// Closes its standard input and waits for its end.
    pub(crate) fn hang_up(&mut self) -> ExitStatus {
        self.child.hang_up();
        self.child.wait()
    }

    /// Asks it to end, as an operator's tools do.
    pub(crate) fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Has it stand still, connections and all.
    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    /// Has it go on after [`Bridge::pause`].
    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    /// Ends it without a word.
    pub(crate) fn kill(&self) {
        self.signal("-KILL");
    }

    fn signal(&self, signal: &str) {
        self.child.signal(signal);
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait()
    }

    /// Everything it printed that nobody waited for.
    pub(crate) fn leftover(&mut self) -> Vec<Value> {
        self.child.heard(|line| Some(line.clone()))
    }

    fn send(&mut self, method: &str, parameters: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.child.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}).to_string());
        id
    }

    fn answer(&mut self, id: u64) -> Value {
        self.child.wait_for(&format!("answer {id}"), |line| {
            assert_eq!(line["jsonrpc"], "2.0", "standard output carries something else: {line}");
            (line["id"] == id && line.get("method").is_none()).then(|| line.clone())
        })
    }
}

/// The arguments of `call_method`.
pub(crate) fn call_arguments(target: [&str; 3], args: &Value, timeout_ms: u64) -> Value {
    let [peer, namespace, method] = target;
    json!({"peer": peer, "namespace": namespace, "method": method, "args": args, "timeout_ms": timeout_ms})
}

/// The first loopback broker address in a log.
fn broker_url(log: &str) -> Option<String> {
    let stem = "mqtt://127.0.0.1:";
    let (_, rest) = log.split_once(stem)?;
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    // A port that ends the text may still be growing.
    (port.len() < rest.len() && !port.is_empty()).then(|| format!("{stem}{port}"))
}

/// What a successful tool result says; its text must say the same (results.md 1).
pub(crate) fn structured(result: &Value) -> &Value {
    assert_ne!(result["isError"], true, "{result}");
    let content = &result["structuredContent"];
    assert!(content.is_object(), "no structured content: {result}");
    let text = result["content"][0]["text"].as_str().expect("the same as text");
    assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(content), "text and structure differ");
    content
}

/// The error object of a failed tool result (results.md 2).
pub(crate) fn error_of(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    let error = &result["structuredContent"]["error"];
    for member in ["code", "message", "cause", "fix"] {
        assert!(error[member].is_string(), "{member} is missing: {result}");
    }
    assert!(error["retryable"].is_boolean(), "retryable is missing: {result}");
    let text = result["content"][0]["text"].as_str().expect("the same as text");
    assert!(text.starts_with(&format!("code: {}", error["code"].as_str().unwrap_or_default())), "{text}");
    error
}
