//! Requests that go to their handler straight, without a session of the SDK around each.
//!
//! Such a session takes two tasks and 100 KiB of queues, for messages either way that a client over HTTP cannot send and
//! for questions that we do not ask. What is asked here has an answer and at most progress, and the handler gives both.

use std::sync::{Mutex, PoisonError};

use rmcp::{
    Peer, RoleServer, Service, ServiceError,
    model::{
        ClientJsonRpcMessage, ClientRequest, GetExtensions, GetMeta, JsonRpcMessage, JsonRpcRequest, ProtocolVersion,
        ServerJsonRpcMessage,
    },
    service::{RequestContext, serve_directly_with_ct},
    transport::Transport,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::exchange::{Spoken, about};
use crate::mcp::{ProgressTo, server::Session};

/// Whether a request can go straight: what has no session to begin or to last in. What says its revision itself must say
/// one without `initialize`: of the others the SDK knows more than is told here.
pub(super) fn goes_straight(request: &ClientRequest, spoken: &Spoken) -> bool {
    let plain = matches!(
        request,
        ClientRequest::CallToolRequest(_)
            | ClientRequest::CompleteRequest(_)
            | ClientRequest::GetPromptRequest(_)
            | ClientRequest::ListPromptsRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_)
            | ClientRequest::ListToolsRequest(_)
            | ClientRequest::ReadResourceRequest(_)
    );
    let known = match spoken {
        Spoken::Agreed(_) => true,
        Spoken::ByItself => request.get_meta().protocol_version().is_some_and(|version| !version.has_initialize()),
    };
    plain && known
}

/// Serves a request and gives its answer to `to`, behind the progress it was asked for.
pub(super) async fn serve(
    session: Session,
    request: JsonRpcRequest<ClientRequest>,
    peer: Peer<RoleServer>,
    nobody_waits: CancellationToken,
    to: mpsc::Sender<Box<ServerJsonRpcMessage>>,
) {
    let JsonRpcRequest { id, mut request, .. } = request;
    let mut context = RequestContext::new(id.clone(), peer);
    context.ct = nobody_waits;
    // As the SDK does: the handler reads both from its context.
    std::mem::swap(&mut context.meta, request.get_meta_mut());
    std::mem::swap(&mut context.extensions, request.extensions_mut());
    context.extensions.insert(ProgressTo(to.clone()));
    let answer = match session.handle_request(request, context).await {
        Ok(result) => JsonRpcMessage::response(result, id),
        Err(error) => JsonRpcMessage::error(error, Some(id)),
    };
    // Nobody may wait for it any more.
    let _ = to.send(Box::new(answer)).await;
}

/// What handlers are shown for a client: one for each revision, of which they read that revision. Nothing can be sent to
/// it.
#[derive(Default)]
pub(super) struct Nobodies(Mutex<Vec<(Spoken, Peer<RoleServer>)>>);

impl Nobodies {
    /// The one of this revision, made of `service` when it is first asked for.
    pub(super) fn speaking<S: Service<RoleServer>>(
        &self,
        spoken: &Spoken,
        service: impl FnOnce() -> S,
    ) -> Peer<RoleServer> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, peer)) = known.iter().find(|(of, _)| of == spoken) {
            return peer.clone();
        }
        let over = CancellationToken::new();
        over.cancel();
        let about = match spoken {
            Spoken::Agreed(version) => Some(about(ProtocolVersion::clone(version))),
            Spoken::ByItself => None,
        };
        let (transport, _) = Posted::new(None);
        let peer = serve_directly_with_ct(service(), transport, about, over).peer().clone();
        known.push((spoken.clone(), peer.clone()));
        peer
    }
}

/// The transport of a session that gets one message and sends what comes of it: the SDK's own keeps room for 32 messages,
/// this one for 32 addresses.
pub(super) struct Posted {
    message: Option<ClientJsonRpcMessage>,
    to: mpsc::Sender<Box<ServerJsonRpcMessage>>,
    answered: CancellationToken,
}

/// Messages that wait to be written.
const WAITING: usize = 16;

/// A queue of what comes of a message.
pub(super) fn queue() -> (mpsc::Sender<Box<ServerJsonRpcMessage>>, mpsc::Receiver<Box<ServerJsonRpcMessage>>) {
    mpsc::channel(WAITING)
}

impl Posted {
    pub(super) fn new(message: Option<ClientJsonRpcMessage>) -> (Self, mpsc::Receiver<Box<ServerJsonRpcMessage>>) {
        let (to, messages) = queue();
        (Self { message, to, answered: CancellationToken::new() }, messages)
    }
}

impl Transport<RoleServer> for Posted {
    type Error = ServiceError;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = Result<(), ServiceError>> + Send + 'static {
        let (to, answered) = (self.to.clone(), self.answered.clone());
        let last = super::exchange::is_answer(&item);
        let item = Box::new(item);
        async move {
            to.send(item).await.map_err(|_| ServiceError::TransportClosed)?;
            if last {
                answered.cancel();
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if let Some(message) = self.message.take() {
            return Some(message);
        }
        self.answered.cancelled().await;
        None
    }

    async fn close(&mut self) -> Result<(), ServiceError> {
        self.message = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn asked(method: &str, params: &Json) -> ClientRequest {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        match serde_json::from_value(line).unwrap() {
            ClientJsonRpcMessage::Request(request) => request.request,
            other => panic!("{other:?}"),
        }
    }

    /// What begins a session or lasts is the SDK's, and so is what speaks of itself in the way of an older revision.
    #[test]
    fn what_needs_a_session_has_one() {
        let agreed = Spoken::Agreed(ProtocolVersion::V_2025_11_25);
        let inline = |version: &str| {
            json!({"name": "x", "uri": "plant://status", "notifications": {}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {}
            }})
        };
        let (modern, older) = (inline("2026-07-28"), inline("2025-06-18"));
        let client = json!({"name": "t", "version": "1"});
        let begin = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        for (method, params, spoken, straight) in [
            ("tools/call", &json!({"name": "x"}), &agreed, true),
            ("resources/read", &json!({"uri": "plant://status"}), &agreed, true),
            ("tools/call", &modern, &Spoken::ByItself, true),
            ("tools/call", &older, &Spoken::ByItself, false),
            ("subscriptions/listen", &modern, &Spoken::ByItself, false),
            ("server/discover", &modern, &Spoken::ByItself, false),
            ("initialize", &begin, &Spoken::ByItself, false),
            ("ping", &json!({}), &agreed, false),
        ] {
            assert_eq!(goes_straight(&asked(method, params), spoken), straight, "{method} {params}");
        }
    }
}
