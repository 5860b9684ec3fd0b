//! A server with a few tools of its own, and a client that speaks lines to it through pipes in memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use plantbridge::{
    door::stdio::{Ended, StdioConfig, serve},
    mcp::{
        CallContext, Door, ErrorCode, Hints, Need, Offer, Registry, Server, Source, Spec, Tool, ToolError,
        load::Limits, page::Limit, server::Config,
    },
    node::{Identity, Node, Serving},
    plant::{Plant, Settings},
    wire::PeerName,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines},
    sync::{Semaphore, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::codes_of_tools;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EchoArgs {
    /// What to say.
    text: String,
    /// How often, at most.
    #[serde(default)]
    limit: Limit,
    /// Anything else.
    value: Option<Json>,
}

#[derive(Serialize, JsonSchema)]
struct Echo {
    /// What was said.
    text: String,
    limit: usize,
    source: Source,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArgs {}

#[derive(Serialize, JsonSchema)]
struct Done {
    done: bool,
}

/// What the tools of a test share with it.
pub(crate) struct Switches {
    /// Hears of every call of `block` and `press` that has begun.
    pub(crate) begun: mpsc::UnboundedReceiver<&'static str>,
    /// Lets one of them end.
    pub(crate) release: Arc<Semaphore>,
    /// Calls of `echo` that ran.
    pub(crate) echoed: Arc<AtomicUsize>,
    /// Calls of `block` and `press` that were told that nobody waits.
    pub(crate) told: mpsc::UnboundedReceiver<&'static str>,
}

fn spec(name: &'static str, hints: Hints, needs: &'static [Need]) -> Spec {
    let description = "A tool of the tests, which does what its name says and nothing else.".into();
    Spec { name, title: "A tool of the tests", description, hints, needs }
}

fn echo(echoed: Arc<AtomicUsize>) -> Tool {
    Tool::new(spec("echo", Hints::LOOK_INSIDE, &[]), move |_: Plant, args: EchoArgs, context: CallContext| {
        echoed.fetch_add(1, Ordering::SeqCst);
        async move {
            assert_eq!(context.tool, "echo");
            assert_eq!(context.door == Door::Stdio, &*context.client == "stdio");
            if args.text == "refuse" {
                return Err(ToolError::new(ErrorCode::UnknownPeer, "nobody").alternatives(["oven"]));
            }
            let _ = args.value;
            Ok(Echo { text: args.text, limit: args.limit.entries(), source: Source::bridge() })
        }
    })
}

/// Waits until it is released or nobody waits for it; `press` goes on even then.
fn waiting(
    name: &'static str,
    hints: Hints,
    begun: mpsc::UnboundedSender<&'static str>,
    told: mpsc::UnboundedSender<&'static str>,
    release: Arc<Semaphore>,
) -> Tool {
    Tool::new(spec(name, hints, &[]), move |_: Plant, _: NoArgs, context: CallContext| {
        let (begun, told, release) = (begun.clone(), told.clone(), release.clone());
        async move {
            begun.send(name).unwrap();
            context.progress.expect(Duration::from_mins(1));
            context.progress.note("waiting\nfor the test");
            tokio::select! {
                permit = release.acquire() => permit.unwrap().forget(),
                () = context.cancel.cancelled() => {
                    told.send(name).unwrap();
                    if name == "press" {
                        release.acquire().await.unwrap().forget();
                    }
                }
            }
            Ok(Done { done: true })
        }
    })
}

fn panicking() -> Tool {
    Tool::new(spec("panic", Hints::LOOK_INSIDE, &[]), |_: Plant, _: NoArgs, _: CallContext| async {
        assert!(std::hint::black_box(false), "the secret shelf fell");
        Ok(Done { done: false })
    })
}

fn needing(name: &'static str, needs: &'static [Need]) -> Tool {
    Tool::new(spec(name, Hints::ACT, needs), |_: Plant, _: NoArgs, _: CallContext| async { Ok(Done { done: true }) })
}

/// The tools of the tests.
pub(crate) fn tools() -> (Vec<Tool>, Switches) {
    let (begun_sender, begun) = mpsc::unbounded_channel();
    let (told_sender, told) = mpsc::unbounded_channel();
    let (release, echoed) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let tools = vec![
        echo(echoed.clone()),
        waiting("block", Hints::LOOK, begun_sender.clone(), told_sender.clone(), release.clone()),
        waiting("press", Hints::ACT, begun_sender, told_sender, release.clone()),
        panicking(),
        needing("change_it", &[Need::Changing]),
        needing("save_script", &[Need::Scripts]),
    ];
    (tools, Switches { begun, release, echoed, told })
}

/// How a session is set up.
pub(crate) struct Setup {
    pub(crate) offer: Offer,
    pub(crate) limits: Limits,
    pub(crate) stdio: StdioConfig,
    /// Bytes the pipe from the server holds.
    pub(crate) pipe: usize,
}

impl Default for Setup {
    fn default() -> Self {
        let stdio = StdioConfig { drain: Duration::from_secs(10), ..StdioConfig::default() };
        Self { offer: Offer::default(), limits: Limits::default(), stdio, pipe: 64 * 1024 }
    }
}

/// A plant without a network.
pub(crate) fn nowhere() -> Plant {
    let name = PeerName::configured("bridge").unwrap();
    let identity = Identity { name, serving: Serving::default(), exposed: Vec::new() };
    let settings = Settings { read_only: false, call_timeout: Duration::from_secs(1), link_names: Vec::new() };
    Plant::new(Node::start(identity, Vec::new()).0, settings)
}

/// A client at the other end of the pipes.
pub(crate) struct Client {
    pub(crate) input: Option<DuplexStream>,
    pub(crate) output: Option<Lines<BufReader<DuplexStream>>>,
    switches: Option<Switches>,
    pub(crate) server: Server,
    pub(crate) stop: CancellationToken,
    pub(crate) ended: JoinHandle<Ended>,
}

impl Client {
    pub(crate) fn new(setup: &Setup) -> Self {
        let (tools, switches) = tools();
        Self { switches: Some(switches), ..Self::over(nowhere(), tools, setup) }
    }

    /// A client of these tools over this plant.
    pub(crate) fn over(plant: Plant, tools: Vec<Tool>, setup: &Setup) -> Self {
        Self::of(plant, tools, setup, "stdio")
    }

    /// A client of this name, of the real tools.
    pub(crate) fn named(plant: Plant, client: &str) -> Self {
        Self::of(plant, plantbridge::mcp::tools::all(), &Setup::default(), client)
    }

    fn of(plant: Plant, tools: Vec<Tool>, setup: &Setup, client: &str) -> Self {
        let incidents = Box::new(|| "incident-1".to_owned());
        let config = Config { limits: setup.limits, longest_call: None, cursor_key: [1; 32], incidents };
        let server = Server::new(plant, Registry::new(tools, setup.offer), config);
        let (input, server_input) = tokio::io::duplex(64 * 1024);
        let (server_output, output) = tokio::io::duplex(setup.pipe);
        let stop = CancellationToken::new();
        let session = server.session(client, Door::Stdio);
        let ended = tokio::spawn(serve(server_input, server_output, session, setup.stdio, stop.clone()));
        let output = Some(BufReader::new(output).lines());
        Self { input: Some(input), output, switches: None, server, stop, ended }
    }

    /// What the tools of the tests share with them.
    pub(crate) fn switches(&mut self) -> &mut Switches {
        self.switches.as_mut().expect("a client of the tools of the tests")
    }

    /// A client whose session has begun.
    pub(crate) async fn begun(setup: &Setup) -> Self {
        let mut client = Self::new(setup);
        client.initialize("2025-06-18").await;
        client
    }

    pub(crate) async fn initialize(&mut self, version: &str) -> Json {
        let info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info});
        let answer = self.ask("initialize", &params).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Json) {
        self.send_bytes(format!("{message}\n").as_bytes()).await;
    }

    /// The next line as it was written.
    pub(crate) async fn line(&mut self) -> String {
        self.output.as_mut().unwrap().next_line().await.unwrap().expect("an answer, not the end")
    }

    pub(crate) async fn read(&mut self) -> Json {
        let line = self.line().await;
        serde_json::from_str(&line).expect("every line is one JSON object")
    }

    /// Sends a request under the id `id`.
    pub(crate) async fn request(&mut self, id: &str, method: &str, params: &Json) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    /// Calls a tool under the id `id`.
    pub(crate) async fn start(&mut self, id: &str, tool: &str, arguments: Json) {
        self.request(id, "tools/call", &json!({"name": tool, "arguments": arguments})).await;
    }

    /// Sends a request and reads its answer, which must be the next line.
    pub(crate) async fn ask(&mut self, method: &str, params: &Json) -> Json {
        self.request("ask", method, params).await;
        let answer = self.read().await;
        assert_eq!(answer["id"], "ask", "{answer}");
        answer
    }

    /// Calls a tool and reads its result, which must be the next line.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Json) -> Json {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": arguments})).await["result"].take();
        codes_of_tools::check(tool, &result);
        result
    }

    /// Nothing else was answered, and the session goes on.
    pub(crate) async fn still_there(&mut self) {
        let answer = self.ask("tools/list", &json!({})).await;
        assert!(answer["result"]["tools"].is_array(), "{answer}");
    }

    pub(crate) async fn ended(self) -> Ended {
        self.ended.await.unwrap()
    }
}

/// The parameters of a request of a revision without `initialize`, which says in each what others say once.
pub(crate) fn inline(version: &str, mut params: Json) -> Json {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    params
}

/// The same of the newest revision.
pub(crate) fn newest(params: Json) -> Json {
    inline("2026-07-28", params)
}
