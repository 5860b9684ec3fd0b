//! One message and what comes of it. There are no sessions: each message stands for itself.

use std::task::{Context, Poll};

use rmcp::{
    Peer, RoleServer, ServerHandler,
    model::{
        ClientCapabilities, ClientJsonRpcMessage, ClientRequest, Implementation, InitializeRequestParams,
        JsonRpcMessage, JsonRpcRequest, ProtocolVersion, ServerJsonRpcMessage,
    },
    service::serve_directly_with_ct,
};
use tokio::sync::mpsc;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    clients::Running,
    straight::{self, Posted},
};
use crate::mcp::server::Session;

/// How a request says which revision it speaks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spoken {
    /// In itself: `initialize`, `server/discover`, and everything that carries its own metadata.
    ByItself,
    /// By its header; the client was told at `initialize`.
    Agreed(ProtocolVersion),
}

/// What comes of one message. Dropped before its end, nobody waits for it any more.
pub(super) struct Exchange {
    messages: mpsc::Receiver<Box<ServerJsonRpcMessage>>,
    over: bool,
    _waited_for: DropGuard,
    _running: Running,
}

impl Exchange {
    /// Hands a request to its handler. `nobody_waits` ends the waiting from elsewhere.
    pub(super) fn straight(
        session: Session,
        request: JsonRpcRequest<ClientRequest>,
        peer: Peer<RoleServer>,
        nobody_waits: CancellationToken,
        running: Running,
        tasks: &TaskTracker,
    ) -> Self {
        let (to, messages) = straight::queue();
        // A task of its own: a client that does not read what it is told does not stop its call.
        tasks.spawn(straight::serve(session, request, peer, nobody_waits.clone(), to));
        Self { messages, over: false, _waited_for: nobody_waits.drop_guard(), _running: running }
    }

    /// Hands `message` to the SDK, in a session of its own.
    pub(super) fn begin<H: ServerHandler>(
        session: H,
        message: ClientJsonRpcMessage,
        spoken: Spoken,
        nobody_waits: CancellationToken,
        running: Running,
        tasks: &TaskTracker,
    ) -> Self {
        let (transport, messages) = Posted::new(Some(message));
        let cancelled = nobody_waits.clone();
        tasks.spawn(async move {
            let running = match spoken {
                Spoken::Agreed(version) => {
                    let about = about(version);
                    Ok(serve_directly_with_ct(session, transport, Some(about), cancelled))
                }
                Spoken::ByItself => rmcp::service::serve_server_with_ct(session, transport, cancelled).await,
            };
            match running {
                Ok(running) => {
                    if let Err(problem) = running.waiting().await {
                        tracing::error!(%problem, "the task of a request failed");
                    }
                }
                // What was answered before a session began, such as ping, ends this way.
                Err(problem) => tracing::debug!(%problem, "no session began"),
            }
        });
        Self { messages, over: false, _waited_for: nobody_waits.drop_guard(), _running: running }
    }

    /// What comes next; `None` behind the answer.
    pub(super) async fn next(&mut self) -> Option<Box<ServerJsonRpcMessage>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The same, for a body.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Box<ServerJsonRpcMessage>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let message = std::task::ready!(self.messages.poll_recv(context));
        self.over = message.as_deref().is_none_or(is_answer);
        Poll::Ready(message)
    }
}

/// Whether this is the last of what comes.
pub(super) const fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
}

/// What is known of a client that was here before, or says so.
pub(super) fn about(version: ProtocolVersion) -> InitializeRequestParams {
    InitializeRequestParams::new(ClientCapabilities::default(), Implementation::default())
        .with_protocol_version(version)
}
