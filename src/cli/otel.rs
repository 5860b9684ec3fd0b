//! With the feature `otel`: where spans go. A thread of its own sends them to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, in
//! OTLP over HTTP. Nothing of it runs on the thread that drives the plant; what the collector does not take in time falls off.

use std::{env, io, time::Duration};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, SpanData, SpanExporter},
};
use tokio::runtime::{Builder, Runtime};

use super::StartError;

/// Spans that wait to be sent; one more falls off.
const QUEUE: usize = 2_048;
/// Spans that are sent at once.
const AT_ONCE: usize = 256;
/// How long they wait for company.
const GATHER: Duration = Duration::from_secs(1);
/// How long a collector may take for some of them.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the last ones may take at the end.
const LAST: Duration = Duration::from_secs(1);

/// The variables a collector is looked for in, with what is to be appended.
const COLLECTOR: [(&str, &str); 2] =
    [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""), ("OTEL_EXPORTER_OTLP_ENDPOINT", "/v1/traces")];

/// Where spans go.
pub(super) struct Export(SdkTracerProvider);

impl Export {
    /// To the collector of the environment, if it names one.
    pub(super) fn wanted() -> Result<Option<Self>, StartError> {
        let found = COLLECTOR.into_iter().find_map(|(name, path)| {
            let value = env::var_os(name).filter(|value| !value.is_empty())?;
            Some((name, value.into_string().ok(), path))
        });
        let Some((name, address, path)) = found else { return Ok(None) };
        // What is wrong with it is not repeated: an address may hold a password.
        let no = || StartError(format!("{name}: expected http://host:port of a collector; it is reached without TLS"));
        let address = address.filter(|address| address.starts_with("http://")).ok_or_else(no)?;
        Self::to(&format!("{}{path}", address.trim_end_matches('/')), GATHER, QUEUE).map(Some).ok_or_else(no)
    }

    /// To this address, where so many may wait.
    fn to(address: &str, gather: Duration, queue: usize) -> Option<Self> {
        let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary);
        let exporter = exporter.with_endpoint(address).with_timeout(PATIENCE).build().ok()?;
        let exporter = Aside { runtime: runtime().ok()?, exporter };
        let bounds =
            BatchConfigBuilder::default().with_max_queue_size(queue).with_max_export_batch_size(AT_ONCE.min(queue));
        let bounds = bounds.with_scheduled_delay(gather).build();
        let waiting = BatchSpanProcessor::builder(exporter).with_batch_config(bounds).build();
        let about = Resource::builder().with_service_name("plantbridge").build();
        Some(Self(SdkTracerProvider::builder().with_resource(about).with_span_processor(waiting).build()))
    }

    /// What makes spans that go there.
    pub(super) fn tracer(&self) -> SdkTracer {
        self.0.tracer("plantbridge")
    }

    /// Sends what is left, for a moment. Not to be called from within a runtime.
    pub(super) fn end(self) {
        if self.0.shutdown_with_timeout(LAST).is_err() {
            tracing::warn!("the last spans did not reach the collector");
        }
    }
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// An exporter with a runtime of its own: the thread that sends has none, and the exporter waits for a socket.
#[derive(Debug)]
struct Aside {
    runtime: Runtime,
    exporter: opentelemetry_otlp::SpanExporter,
}

impl SpanExporter for Aside {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        // Called by the thread of the queue alone, which does nothing else.
        self.runtime.block_on(self.exporter.export(batch))
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::{Value as Json, json};
    use tokio::{
        io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines},
        net::TcpListener,
        sync::mpsc,
        time::timeout,
    };
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        cli::mcp::front,
        door::stdio,
        mcp::Door,
        node::{Identity, Node, Serving},
        plant::{Plant, Settings},
        wire::PeerName,
    };

    const A_LOT: Duration = Duration::from_secs(20);

    /// A collector that takes what comes, and answers unless it hangs.
    async fn collector(answers: bool) -> (String, mpsc::UnboundedReceiver<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let (taken, came) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let taken = taken.clone();
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    while stream.read_buf(&mut read).await.is_ok_and(|count| count > 0) {
                        let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                        let head = String::from_utf8(read[..at].to_vec()).unwrap().to_lowercase();
                        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                        if read.len() < at + 4 + length.parse::<usize>().unwrap() {
                            continue;
                        }
                        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
                        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
                        let _ = taken.send(std::mem::take(&mut read).split_off(at + 4));
                        if answers {
                            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
                        }
                    }
                });
            }
        });
        (address, came)
    }

    /// A client of a bridge without a network, whose spans go where `export` says.
    struct Client {
        input: DuplexStream,
        output: Lines<BufReader<DuplexStream>>,
    }

    impl Client {
        async fn of(export: &Export) -> Self {
            let name = PeerName::configured("bridge").unwrap();
            let identity = Identity { name, serving: Serving::default(), exposed: Vec::new() };
            let settings = Settings { read_only: false, call_timeout: A_LOT, link_names: Vec::new() };
            let server = front(Plant::new(Node::start(identity, Vec::new()).0, settings), false);
            server.trace_with(export.tracer());
            let (input, theirs) = tokio::io::duplex(64 * 1024);
            let (their_output, output) = tokio::io::duplex(1024 * 1024);
            let (session, stop) = (server.session("stdio", Door::Stdio), CancellationToken::new());
            tokio::spawn(stdio::serve(theirs, their_output, session, stdio::StdioConfig::default(), stop));
            let mut client = Self { input, output: BufReader::new(output).lines() };
            let about = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            client.ask("initialize", about).await;
            client.input.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").await.unwrap();
            client
        }

        async fn ask(&mut self, method: &str, params: Json) -> Json {
            let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            let line = timeout(A_LOT, self.output.next_line()).await.expect("an answer").unwrap().unwrap();
            serde_json::from_str(&line).unwrap()
        }
    }

    fn contains(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    /// A span arrives with what was called and how it ended, as the child of the client's own.
    #[tokio::test]
    async fn a_call_arrives_as_a_span_of_its_clients_trace() {
        let (address, mut came) = collector(true).await;
        let export = Export::to(&address, Duration::from_millis(10), QUEUE).unwrap();
        let mut client = Client::of(&export).await;
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let arguments = json!({"peer": "oven-7\n", "namespace": "oven", "method": "open"});
        client
            .ask("tools/call", json!({"name": "call_method", "arguments": arguments, "_meta": {"traceparent": parent}}))
            .await;
        let sent = timeout(A_LOT, came.recv()).await.expect("it arrives").unwrap();
        let trace = hex::decode("0af7651916cd43dd8448eb211c80319c").unwrap();
        let span = hex::decode("b7ad6b7169203331").unwrap();
        assert!(contains(&sent, &trace) && contains(&sent, &span), "a child of the client's span");
        for part in
            ["plantbridge", "tools/call call_method", "oven-7", "open", "plantbridge.outcome", "not_run", "error.type"]
        {
            assert!(contains(&sent, part.as_bytes()), "{part}: {}", String::from_utf8_lossy(&sent));
        }
        // What is no trace is no parent, and a call that ends well is one too.
        client
            .ask("tools/call", json!({"name": "bridge_status", "arguments": {}, "_meta": {"traceparent": "00-x-y-01"}}))
            .await;
        let sent = timeout(A_LOT, came.recv()).await.expect("it arrives").unwrap();
        assert!(contains(&sent, b"tools/call bridge_status") && contains(&sent, b"ok") && !contains(&sent, &trace));
        tokio::task::spawn_blocking(|| export.end()).await.unwrap();
    }

    /// A collector that takes and never answers delays no call, even when more wait for it than may; nor does it hold up the end.
    #[tokio::test]
    async fn a_collector_that_hangs_delays_nobody() {
        let (address, mut came) = collector(false).await;
        let export = Export::to(&address, Duration::from_millis(1), 4).unwrap();
        let mut client = Client::of(&export).await;
        let call = json!({"name": "no_such", "arguments": {}});
        client.ask("tools/call", json!({"name": "bridge_status", "arguments": {}})).await;
        timeout(A_LOT, came.recv()).await.expect("it hangs with the first").unwrap();
        let begun = Instant::now();
        for _ in 0..32 {
            client.ask("tools/call", json!({"name": "list_watches", "arguments": {}})).await;
        }
        let with = begun.elapsed();
        assert!(client.ask("tools/call", call).await["result"]["isError"] == true);
        // The collector is given five seconds each time: had one call waited for it, this would show.
        assert!(with < PATIENCE, "{with:?}");
        let begun = Instant::now();
        tokio::task::spawn_blocking(|| export.end()).await.unwrap();
        assert!(begun.elapsed() < LAST + PATIENCE, "{:?}", begun.elapsed());
    }
}
