//! The stdio door: one JSON-RPC object a line, in and out (results.md 5).
//!
//! A transport of our own under the SDK's service loop, so that every line is parsed exactly once. Reading stops in two
//! cases only: when 256 answers or 8 MiB of them wait for a client that does not read them, and when 1024 requests have no
//! answer. Slow calls never get there: a client has at most 160 of them, and everything else is answered at once.
//!
//! At the end of input the calls that run are waited for, within a bound; then their waits end and the session with them.
//! When nobody reads the output any more, the session ends at once and in silence.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    service::ServerInitializeError,
    transport::Transport,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    gate::{Admission, Gate},
    guard::{Refusal, Verdict, judge},
    lines::{Line, Lines},
    outbox::Outbox,
};
use crate::mcp::{server::Session, text};

/// The bounds of a session.
#[derive(Clone, Copy, Debug)]
pub struct StdioConfig {
    /// Bytes a line may have.
    pub longest_line: usize,
    /// How long the calls that run at the end of input may take to end.
    pub drain: Duration,
    /// How long the last answers may take to be read.
    pub flush: Duration,
}

impl Default for StdioConfig {
    fn default() -> Self {
        Self { longest_line: 32 * 1024 * 1024, drain: Duration::from_secs(10), flush: Duration::from_secs(1) }
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client closed our input.
    EndOfInput,
    /// Nobody reads our output any more.
    OutputClosed,
    /// We were asked to.
    Stopped,
}

/// Standard input and output, without a thread between them and us where the platform allows it.
pub fn pipes() -> (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static) {
    rmcp::transport::io::stdio_pipes()
}

/// Serves `session` until its input ends, its output is closed, or `stop` asks for the end. What the plant holds for the
/// client is given back before this returns.
pub async fn serve<R, W>(read: R, write: W, session: Session, config: StdioConfig, stop: CancellationToken) -> Ended
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ended = Arc::new(Mutex::new(None));
    let transport = StdioTransport {
        read,
        lines: Lines::new(config.longest_line),
        gate: Gate::default(),
        out: Arc::new(Outbox::new(write)),
        refusals: VecDeque::new(),
        input: Input::Open,
        config,
        stop,
        closing: session.closing(),
        ended: Arc::clone(&ended),
    };
    let over = session.clone();
    match rmcp::serve_server(session, transport).await {
        Ok(running) => {
            if let Err(problem) = running.waiting().await {
                tracing::error!(%problem, "the session's task failed");
            }
        }
        Err(ServerInitializeError::ConnectionClosed(_)) => {}
        Err(problem) => tracing::debug!(%problem, "the session never began"),
    }
    over.end().await;
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
    ended.unwrap_or(Ended::OutputClosed)
}

struct StdioTransport<R, W> {
    read: R,
    lines: Lines,
    gate: Gate,
    out: Arc<Outbox<W>>,
    /// Answers to refused lines that have no room in the queue yet.
    refusals: VecDeque<Refusal>,
    input: Input,
    config: StdioConfig,
    stop: CancellationToken,
    closing: CancellationToken,
    ended: Arc<Mutex<Option<Ended>>>,
}

#[derive(Clone, Copy, Debug)]
enum Input {
    Open,
    /// Ended; the calls that run are waited for until then.
    Ended(Ended, Instant),
}

enum Step {
    Read(io::Result<usize>),
    Flushed,
    Stop,
    DrainedLongEnough,
    Broken,
}

impl<R, W> Transport<RoleServer> for StdioTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let id = answered_id(&message).cloned();
        if let Err(problem) = self.out.put(&message) {
            tracing::error!(%problem, "an answer has no JSON");
            let apology: ServerJsonRpcMessage =
                JsonRpcMessage::error(ErrorData::internal_error("the answer cannot be written", None), id.clone());
            let _ = self.out.put(&apology);
        }
        if let Some(id) = id {
            self.gate.answered(&id);
        }
        let out = Arc::clone(&self.out);
        // An output that is closed ends the session through `receive`; told here, the SDK would complain of each answer.
        async move {
            let _ = out.flush().await;
            Ok(())
        }
    }

    /// Given up and taken up again for every event of the service loop; nothing is lost in between, because every await is
    /// on something that keeps its own place.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            tokio::task::coop::consume_budget().await;
            self.answer_refused();
            if self.may_take()
                && let Some(line) = self.next_line()
            {
                match self.take(line) {
                    Some(message) => return Some(message),
                    None => continue,
                }
            }
            if let Input::Ended(why, _) = self.input
                && self.refusals.is_empty()
                && self.gate.open() == 0
                && !self.out.pending()
            {
                return self.end(why);
            }
            match self.step().await {
                Step::Read(Ok(read)) if read > 0 => {}
                Step::Read(result) => {
                    if let Err(problem) = result {
                        tracing::debug!(%problem, "standard input failed");
                    }
                    self.begin_end(Ended::EndOfInput);
                }
                Step::Flushed => {}
                Step::Stop => self.begin_end(Ended::Stopped),
                Step::DrainedLongEnough => {
                    let Input::Ended(why, _) = self.input else { continue };
                    tracing::warn!(
                        calls = self.gate.open(),
                        "calls did not end in time; nobody waits for them any more"
                    );
                    return self.end(why);
                }
                Step::Broken => return self.end(Ended::OutputClosed),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        let _ = timeout(self.config.flush, self.out.flush()).await;
        Ok(())
    }
}

impl<R, W> StdioTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Waits for the one thing that lets the session go on.
    async fn step(&mut self) -> Step {
        let may_read = matches!(self.input, Input::Open) && self.may_take();
        let Self { read, lines, out, input, stop, .. } = self;
        let deadline = match input {
            Input::Open => None,
            Input::Ended(_, deadline) => Some(*deadline),
        };
        tokio::select! {
            () = out.broken() => Step::Broken,
            _ = out.flush(), if out.pending() => Step::Flushed,
            result = read.read_buf(lines.room()), if may_read => Step::Read(result),
            () = stop.cancelled(), if deadline.is_none() => Step::Stop,
            () = until(deadline) => Step::DrainedLongEnough,
        }
    }

    /// Whether there is room for what one more line brings about.
    fn may_take(&self) -> bool {
        self.refusals.is_empty() && !self.out.full() && self.gate.open() < MAX_OPEN
    }

    fn next_line(&mut self) -> Option<Line> {
        match self.input {
            Input::Ended(Ended::Stopped | Ended::OutputClosed, _) => None,
            Input::Open => self.lines.next_line(),
            Input::Ended(Ended::EndOfInput, _) => self.lines.next_line().or_else(|| self.lines.last_line()),
        }
    }

    /// The message of a line, or nothing and its refusals are queued.
    fn take(&mut self, line: Line) -> Option<ClientJsonRpcMessage> {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong { id, head } => {
                let longest = self.config.longest_line;
                self.refuse(&head, vec![Refusal::invalid(id, format!("the line is over {longest} bytes"))]);
                return None;
            }
        };
        match judge(&line) {
            Verdict::Message(message) => match self.gate.admit(message) {
                Admission::Pass(message) => return Some(*message),
                Admission::Refuse(refusal) => self.refuse(&line, vec![refusal]),
                Admission::Absorb(why) => absorbed(&line, why),
            },
            Verdict::Refused(refusals) => self.refuse(&line, refusals),
            Verdict::Absorbed(Some(why)) => absorbed(&line, why),
            Verdict::Absorbed(None) => {}
        }
        None
    }

    fn refuse(&mut self, line: &[u8], refusals: Vec<Refusal>) {
        if let Some(first) = refusals.first() {
            tracing::warn!(code = first.code, line = %head(line), "refused: {}", text::printable(&first.message, 200));
        }
        self.refusals.extend(refusals);
    }

    fn answer_refused(&mut self) {
        while !self.out.full() {
            let Some(refusal) = self.refusals.pop_front() else { return };
            let _ = self.out.put(&refusal.to_json());
        }
    }

    fn begin_end(&mut self, why: Ended) {
        self.input = Input::Ended(why, Instant::now() + self.config.drain);
    }

    fn end<T>(&mut self, why: Ended) -> Option<T> {
        self.closing.cancel();
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        None
    }
}

/// Waits for that moment; for ever, and without asking the clock, if there is none.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn answered_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

fn absorbed(line: &[u8], why: &str) {
    tracing::warn!(line = %head(line), "not executed: {why}");
}

/// The beginning of a line, for the log.
fn head(line: &[u8]) -> String {
    // Eighty characters are at most 320 bytes; a few more are read past what cannot be shown.
    let beginning = line.get(..line.len().min(640)).unwrap_or_default();
    text::printable(&String::from_utf8_lossy(beginning), 80)
}

/// Requests without an answer beyond which no more is read.
const MAX_OPEN: usize = 1_024;
