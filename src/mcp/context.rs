//! What a tool is told about the call it serves.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    cursor::Cursors,
    error::ToolError,
    meter::Meter,
    standing::{Standing, standing},
};
use crate::plant::{Plant, audit::Entry};

/// Where a client came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Standard input and output.
    Stdio,
    /// The HTTP door.
    Http,
}

impl Door {
    /// Every door.
    pub const ALL: [Self; 2] = [Self::Stdio, Self::Http];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// The call a tool serves: who calls, whether somebody still waits, and what the process lends to every tool.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// Who calls: the name of a token, `stdio`, or one of its own for each connection without a token.
    pub client: Arc<str>,
    /// Where the call came in.
    pub door: Door,
    /// Whether this client may only look, whatever others may.
    pub read_only: bool,
    /// Whether this client comes back under its name. A connection without one does not: what it was told travels with it.
    pub comes_back: bool,
    /// The tool that is called.
    pub tool: &'static str,
    /// Cancelled once nobody waits for the answer any more. The tool closes what it opened and ends; a command that has
    /// left is not taken back.
    pub cancel: CancellationToken,
    /// What to tell a client that waits.
    pub progress: ProgressSink,
    /// When the call ends whatever it does, if the process bounds calls.
    pub deadline: Option<Instant>,
    /// Where the call is written down, if it could change something and there is a trail.
    pub entry: Option<Entry>,
    pub(super) shared: Arc<Shared>,
}

/// What the process lends to every tool.
pub(super) struct Shared {
    pub(super) cursors: Cursors,
    pub(super) incidents: Box<dyn Fn() -> String + Send + Sync>,
    pub(super) meter: Meter,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl CallContext {
    /// Makes and reads the cursors of pages.
    pub fn cursors(&self) -> &Cursors {
        &self.shared.cursors
    }

    /// How the bridge stands, as this client sees it.
    pub(super) fn standing(&self, plant: &Plant) -> Standing {
        standing(plant, &self.shared.meter, self.read_only)
    }

    /// A bug of ours: the detail goes to the log, an incident id to the client.
    pub fn internal(&self, detail: &dyn std::fmt::Display) -> ToolError {
        ToolError::internal(&(self.shared.incidents)(), detail)
    }
}

/// What a waiting client is told. Cheap and never waiting: only the newest words count, and they are sent once the call
/// has taken a second, at most four times a second, if the call carries a progress token (results.md 6).
#[derive(Clone, Debug)]
pub struct ProgressSink(Option<Arc<watch::Sender<Waiting>>>);

/// What a call waits for, as far as it said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Waiting {
    pub(super) total: Option<Duration>,
    pub(super) message: Option<String>,
}

impl ProgressSink {
    /// A sink nobody listens to.
    pub const fn silent() -> Self {
        Self(None)
    }

    /// A sink, and what comes out of it.
    pub(super) fn heard() -> (Self, watch::Receiver<Waiting>) {
        let (sender, receiver) = watch::channel(Waiting::default());
        (Self(Some(Arc::new(sender))), receiver)
    }

    /// Says how long the call will wait at most.
    pub fn expect(&self, total: Duration) {
        if let Some(sender) = &self.0 {
            sender.send_modify(|waiting| waiting.total = Some(total));
        }
    }

    /// Says what the call is doing now.
    pub fn note(&self, message: impl Into<String>) {
        if let Some(sender) = &self.0 {
            sender.send_modify(|waiting| waiting.message = Some(message.into()));
        }
    }
}
