//! Which messages a session takes, and when. Pure.
//!
//! The SDK ends a session for a notification before `initialize`, mixes up two requests that use one id at the same time,
//! and lets a session be initialized twice. Here such messages are absorbed or refused before it sees them.

use std::collections::{HashSet, VecDeque};

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta, JsonRpcMessage, ProtocolVersion, RequestId,
};

use super::guard::Refusal;
use crate::mcp::server::REVISIONS;

/// What becomes of a message.
#[derive(Debug)]
pub enum Admission {
    /// It is handed over.
    Pass(Box<ClientJsonRpcMessage>),
    /// It is answered here.
    Refuse(Refusal),
    /// It is dropped, for this reason.
    Absorb(&'static str),
}

/// The state of one session.
#[derive(Debug, Default)]
pub struct Gate {
    begun: Begun,
    open: HashSet<RequestId>,
    /// Requests that are answered when they are over, which nobody waits for at the end.
    lasting: HashSet<RequestId>,
    /// Ids whose request was cancelled: its handler may still end, and its answer must not pass for another's.
    cancelled: VecDeque<RequestId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Begun {
    /// Not yet.
    #[default]
    No,
    /// With `initialize`.
    Initialized,
    /// With a request that carries its own metadata (2026-07-28 and later).
    Inline,
}

impl Gate {
    /// Judges a message, and remembers it if it passes.
    pub fn admit(&mut self, message: Box<ClientJsonRpcMessage>) -> Admission {
        match &*message {
            JsonRpcMessage::Request(request) => {
                let id = request.id.clone();
                if let Some(refusal) = self.refusal(&id, &request.request) {
                    return Admission::Refuse(refusal);
                }
                let lasts = matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
                let requests = if lasts { &mut self.lasting } else { &mut self.open };
                requests.insert(id);
            }
            JsonRpcMessage::Notification(_) if self.begun == Begun::No => {
                return Admission::Absorb("a notification before initialize");
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification {
                    self.cancel(cancelled.params.request_id.as_ref());
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) if self.begun == Begun::No => {
                return Admission::Absorb("a response before initialize");
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Admission::Pass(message)
    }

    /// The request `id` has its answer.
    pub fn answered(&mut self, id: &RequestId) {
        self.open.remove(id);
        self.lasting.remove(id);
    }

    /// How many requests have no answer yet, those left out that last.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    fn refusal(&mut self, id: &RequestId, request: &ClientRequest) -> Option<Refusal> {
        let invalid = |message: &str| Some(Refusal::invalid(Some(id.clone().into_json_value()), message));
        if [&self.open, &self.lasting].iter().any(|requests| requests.contains(id)) || self.cancelled.contains(id) {
            return invalid("this id is in use by another request");
        }
        match request {
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => None,
            ClientRequest::InitializeRequest(_) if self.begun == Begun::No => {
                self.begun = Begun::Initialized;
                None
            }
            ClientRequest::InitializeRequest(_) => invalid("this session has begun already"),
            _ if self.begun != Begun::No => None,
            other => self.begin_inline(id, other),
        }
    }

    /// A first request that is not `initialize` begins a session if it carries the metadata of the revisions that have no
    /// `initialize`. Of a version nobody serves, the SDK tells which are, and the session has not begun.
    fn begin_inline(&mut self, id: &RequestId, request: &ClientRequest) -> Option<Refusal> {
        let meta = request.get_meta();
        let version = meta.protocol_version();
        if version.is_none() || !meta.missing_required_keys(&ProtocolVersion::NO_INITIALIZE).is_empty() {
            return Some(Refusal::params(
                id,
                "this session has not begun: send initialize first, or give _meta with the protocol version and the \
                 client's capabilities",
            ));
        }
        if version.is_some_and(|version| REVISIONS.contains(&version)) {
            self.begun = Begun::Inline;
        }
        None
    }

    fn cancel(&mut self, id: Option<&RequestId>) {
        let Some(id) = id else { return };
        if self.open.remove(id) || self.lasting.remove(id) {
            if self.cancelled.len() >= MAX_CANCELLED {
                self.cancelled.pop_front();
            }
            self.cancelled.push_back(id.clone());
        }
    }
}

/// How many cancelled ids are remembered. Their handlers end within milliseconds.
const MAX_CANCELLED: usize = 256;

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::door::guard::{Verdict, judge};

    fn offer(gate: &mut Gate, line: &Json) -> Result<(), Option<i32>> {
        let Verdict::Message(message) = judge(line.to_string().as_bytes()) else { panic!("{line}") };
        match gate.admit(message) {
            Admission::Pass(_) => Ok(()),
            Admission::Refuse(refusal) => Err(Some(refusal.code)),
            Admission::Absorb(_) => Err(None),
        }
    }

    fn request(id: i64, method: &str, params: &Json) -> Json {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    fn initialize(id: i64) -> Json {
        let info = json!({"name": "t", "version": "1"});
        request(id, "initialize", &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}))
    }

    fn inline(version: &str) -> Json {
        json!({"name": "x", "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {}
        }})
    }

    /// results.md 5: a notification or a response before `initialize` is absorbed, and the session goes on.
    #[test]
    fn what_comes_before_initialize_is_absorbed() {
        let mut gate = Gate::default();
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let response = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}});
        for line in [&notification, &response, &error] {
            assert_eq!(offer(&mut gate, line), Err(None));
        }
        assert_eq!(offer(&mut gate, &initialize(1)), Ok(()));
        for line in [&notification, &response, &error] {
            assert_eq!(offer(&mut gate, line), Ok(()));
        }
    }

    /// F-06: tool calls before `initialize` are refused; ping and discover are not; 2026-07-28 needs none.
    #[test]
    fn calls_before_initialize_are_refused() {
        let mut gate = Gate::default();
        assert_eq!(offer(&mut gate, &request(1, "ping", &json!({}))), Ok(()));
        assert_eq!(offer(&mut gate, &request(2, "server/discover", &json!({}))), Ok(()));
        assert_eq!(offer(&mut gate, &request(3, "tools/call", &json!({"name": "x"}))), Err(Some(-32602)));
        assert_eq!(offer(&mut gate, &request(4, "tools/list", &json!({}))), Err(Some(-32602)));
        assert_eq!(offer(&mut gate, &request(5, "tools/call", &inline("2099-01-01"))), Ok(()), "the SDK answers");
        assert_eq!(offer(&mut gate, &json!({"jsonrpc": "2.0", "method": "notifications/x"})), Err(None), "not begun");
        assert_eq!(offer(&mut gate, &request(6, "tools/call", &inline("2026-07-28"))), Ok(()));
        assert_eq!(offer(&mut gate, &json!({"jsonrpc": "2.0", "method": "notifications/x"})), Ok(()));
        assert_eq!(offer(&mut gate, &initialize(7)), Err(Some(-32600)), "begun already");
    }

    /// A request that lasts holds its id, and nobody waits for its end.
    #[test]
    fn what_lasts_is_not_waited_for() {
        let mut gate = Gate::default();
        let mut listen = inline("2026-07-28");
        listen["notifications"] = json!({"resourceSubscriptions": ["plant://status"]});
        let listen = request(1, "subscriptions/listen", &listen);
        assert_eq!(offer(&mut gate, &listen), Ok(()));
        assert_eq!(gate.open(), 0);
        assert_eq!(offer(&mut gate, &listen), Err(Some(-32600)), "its id is in use");
        gate.answered(&RequestId::Number(1));
        assert_eq!(offer(&mut gate, &listen), Ok(()));
    }

    /// Two requests under one id would leave one of them without its answer.
    #[test]
    fn an_id_in_use_is_refused() {
        let mut gate = Gate::default();
        assert_eq!(offer(&mut gate, &initialize(1)), Ok(()));
        gate.answered(&RequestId::Number(1));
        let call = request(2, "tools/call", &json!({"name": "x"}));
        assert_eq!(offer(&mut gate, &call), Ok(()));
        assert_eq!(offer(&mut gate, &call), Err(Some(-32600)));
        gate.answered(&RequestId::Number(2));
        assert_eq!(offer(&mut gate, &call), Ok(()));
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
        assert_eq!(offer(&mut gate, &cancel), Ok(()));
        assert_eq!(gate.open(), 0);
        assert_eq!(offer(&mut gate, &call), Err(Some(-32600)), "its handler may still end");
    }
}
