//! What the door answers with: one piece of JSON, a stream of events, or nothing.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    HeaderMap, Response, StatusCode,
    body::{Body, Frame, SizeHint},
    header::{ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY, WWW_AUTHENTICATE},
};
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use serde::Serialize;
use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

use super::{super::guard::Refusal, exchange::Exchange};
use crate::mcp::text;

/// The body of an answer.
pub(super) enum Answer {
    /// Nothing, or what is left of one piece.
    Piece(Option<Bytes>),
    /// Messages as they come; the last one is the answer. Where none comes for a while, a comment does.
    Events { first: Option<Bytes>, rest: Exchange, quiet: Silence },
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Piece(piece) => Poll::Ready(piece.take().map(|piece| Ok(Frame::data(piece)))),
            Self::Events { first, rest, quiet } => {
                if let Some(first) = first.take() {
                    return Poll::Ready(Some(Ok(Frame::data(first))));
                }
                match rest.poll_next(context) {
                    Poll::Ready(message) => {
                        quiet.over();
                        Poll::Ready(message.map(|message| Ok(Frame::data(event(&message)))))
                    }
                    Poll::Pending => quiet.poll(context).map(|()| Some(Ok(Frame::data(Bytes::from_static(b":\n\n"))))),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Piece(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Piece(piece) => SizeHint::with_exact(piece.as_ref().map_or(0, |piece| piece.len() as u64)),
            Self::Events { .. } => SizeHint::default(),
        }
    }
}

/// A time in which nothing was written. What stands between us and a client would take a connection that is silent for long
/// for a dead one, and we a client that is gone for a patient one.
pub(super) struct Silence {
    most: Duration,
    since: Pin<Box<Sleep>>,
}

impl Silence {
    pub(super) fn at_most(most: Duration) -> Self {
        Self { most, since: Box::pin(sleep(most)) }
    }

    fn over(&mut self) {
        self.since.as_mut().reset(Instant::now() + self.most);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        std::task::ready!(self.since.as_mut().poll(context));
        self.over();
        Poll::Ready(())
    }
}

/// A status and nothing else.
pub(super) fn empty(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::Piece(None));
    *response.status_mut() = status;
    response
}

/// One JSON-RPC message.
pub(super) fn piece(status: StatusCode, message: &impl Serialize) -> Response<Answer> {
    let mut bytes = Vec::with_capacity(256);
    if let Err(problem) = text::write(&mut bytes, message) {
        tracing::error!(%problem, "an answer has no JSON");
        bytes = UNWRITABLE.to_vec();
    }
    let mut response = Response::new(Answer::Piece(Some(bytes.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A text, of a type that the caller says.
pub(super) fn text(bytes: Bytes) -> Response<Answer> {
    Response::new(Answer::Piece(Some(bytes)))
}

/// A stream of events that begins with `first`.
pub(super) fn events(first: &ServerJsonRpcMessage, rest: Exchange, quiet: Silence) -> Response<Answer> {
    let mut response = Response::new(Answer::Events { first: Some(event(first)), rest, quiet });
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // A proxy that collects the stream would keep progress until it is of no use.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// What is no message: its refusal, as JSON-RPC.
pub(super) fn refused(status: StatusCode, refusal: &Refusal) -> Response<Answer> {
    piece(status, &refusal.to_json())
}

/// A request that is turned away before its body is read.
pub(super) fn turned_away(status: StatusCode, why: &str) -> Response<Answer> {
    refused(status, &Refusal::invalid(None, why))
}

/// The answer to another verb.
pub(super) fn not_a_post() -> Response<Answer> {
    let mut response =
        turned_away(StatusCode::METHOD_NOT_ALLOWED, "only POST; there is no stream to GET and no session to DELETE");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// The answer to a client without a token, or with a wrong one.
pub(super) fn unauthorized(wrong: bool) -> Response<Answer> {
    let (why, challenge) = if wrong {
        ("this token is not known here", "Bearer realm=\"plantbridge\", error=\"invalid_token\"")
    } else {
        ("a token is needed: Authorization: Bearer <token>", "Bearer realm=\"plantbridge\"")
    };
    let mut response = turned_away(StatusCode::UNAUTHORIZED, why);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// What a browser asks before it lets a page that is let in speak to us.
pub(super) fn preflight() -> Response<Answer> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert("access-control-allow-methods", HeaderValue::from_static("POST"));
    headers.insert(
        "access-control-allow-headers",
        HeaderValue::from_static("authorization, content-type, accept, mcp-protocol-version, mcp-method, mcp-name"),
    );
    headers.insert("access-control-max-age", HeaderValue::from_static("600"));
    response
}

/// Lets a page that is let in read the answer.
pub(super) fn readable_by(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(VARY, HeaderValue::from_static("origin"));
}

/// The status of an answer. Clients of the revisions with `initialize` look for errors in the body only; later ones are
/// told by the status as well.
pub(super) fn status_of(answer: &ServerJsonRpcMessage, modern: bool) -> StatusCode {
    let JsonRpcMessage::Error(error) = answer else { return StatusCode::OK };
    match error.error.code {
        _ if !modern => StatusCode::OK,
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        | ErrorCode::HEADER_MISMATCH => StatusCode::BAD_REQUEST,
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// A JSON-RPC error about a request that was understood.
pub(super) fn error(status: StatusCode, id: Option<&RequestId>, error: &ErrorData) -> Response<Answer> {
    let id = id.map_or(Json::Null, |id| id.clone().into_json_value());
    piece(status, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

/// Tells a connection that there is no room for it. What it has sent is read as far as that goes, or closing would take
/// back what was said.
pub(super) async fn turn_away(mut stream: TcpStream) {
    let why = "every place of this door is taken by a request that runs; connect again in a second";
    let body = Refusal::invalid(None, why).to_json().to_string();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    if stream.write_all((head + &body).as_bytes()).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    let (mut scratch, mut left) = ([0; 1024], FAREWELL_READ);
    while left > 0 {
        match stream.read(&mut scratch).await {
            Ok(0) | Err(_) => return,
            Ok(read) => left = left.saturating_sub(read),
        }
    }
}

/// Bytes that are read of a connection there is no room for.
const FAREWELL_READ: usize = 64 * 1024;

/// One message as an event.
fn event(message: &ServerJsonRpcMessage) -> Bytes {
    let mut bytes = b"event: message\ndata: ".to_vec();
    // JSON has no newline of its own, so one `data` line holds it.
    if text::write(&mut bytes, message).is_err() {
        bytes.truncate(b"event: message\ndata: ".len());
        bytes.extend_from_slice(UNWRITABLE);
    }
    bytes.extend_from_slice(b"\n\n");
    bytes.into()
}

const UNWRITABLE: &[u8] =
    br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the answer cannot be written"}}"#;
