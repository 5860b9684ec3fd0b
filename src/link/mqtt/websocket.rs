//! MQTT through a WebSocket (MQTT 5, chapter 6): a stream of bytes in binary messages, whose borders mean nothing.
//!
//! A text message is refused, a ping is answered, and no message is larger than a packet may be.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures_util::{Sink as _, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::http::{HeaderValue, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::BrokerUrl;
use super::connect::stopped;
use crate::link::seat::down;
use crate::link::socket::Below;
use crate::link::tls::tls_cause;
use crate::link::{DownKind, DownReason};

/// The bytes of a WebSocket's binary messages.
pub(super) struct Binary {
    socket: WebSocketStream<Box<dyn Below>>,
    /// What came and was not read.
    rest: Bytes,
}

/// Asks for the WebSocket, and that MQTT is spoken in it.
pub(super) async fn open(broker: &BrokerUrl, below: Box<dyn Below>, max_packet: u32) -> Result<Binary, DownReason> {
    let mut request = broker.to_string().into_client_request().map_err(|error| refused(&error))?;
    request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("mqtt"));
    let most = usize::try_from(max_packet).unwrap_or(usize::MAX).saturating_add(ROOM);
    let settings = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(Some(most))
        .max_frame_size(Some(most));
    match client_async_with_config(request, below, Some(settings)).await {
        Ok((socket, _)) => Ok(Binary { socket, rest: Bytes::new() }),
        Err(error) => Err(refused(&error)),
    }
}

/// Why there is no WebSocket. Nothing of what the other side wrote is repeated: nobody checked what is in it.
fn refused(error: &Error) -> DownReason {
    match error {
        Error::Io(error) => match tls_cause(error) {
            Some(cause) => down(DownKind::Tls, cause),
            None => down(DownKind::Unreachable, format!("the WebSocket was not opened: {error}")),
        },
        Error::Http(response) => status(response.status().as_u16()),
        Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(_)) => down(
            DownKind::Protocol,
            "a WebSocket opens there, and MQTT is not spoken in it: it does not choose `mqtt`. Another port or path is the \
             broker's",
        ),
        Error::Protocol(ProtocolError::HandshakeIncomplete) | Error::ConnectionClosed => {
            down(DownKind::Protocol, format!("{NO_SOCKET}: it closed instead of answering"))
        }
        _ => down(DownKind::Protocol, format!("{NO_SOCKET}: its answer is none to that question")),
    }
}

/// What an answer other than the change of protocol says.
fn status(code: u16) -> DownReason {
    let (kind, says) = match code {
        401 | 403 => (DownKind::Unauthorized, "what stands before the broker refuses us"),
        404 | 405 => (DownKind::Protocol, "there is nothing at this path; brokers mostly listen at /mqtt, some at /"),
        300..=399 => {
            (DownKind::Protocol, "it points elsewhere, and nothing is followed; name the address it points at")
        }
        500..=599 => (DownKind::Unreachable, "what stands before the broker has trouble"),
        _ => (DownKind::Protocol, "that is a web server, or the broker's port for something else"),
    };
    down(kind, format!("{NO_SOCKET}: HTTP {code}; {says}"))
}

/// What goes wrong in an open one.
fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
            let text = format!("the broker sent a WebSocket message of {size} bytes, and {max_size} are taken");
            stopped(down(DownKind::Protocol, text))
        }
        other => stopped(down(DownKind::Protocol, format!("the WebSocket of the broker is not in order: {other}"))),
    }
}

impl Binary {
    /// The next bytes; none at the end.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        loop {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) if bytes.is_empty() => {}
                Some(Ok(Message::Binary(bytes))) => return Poll::Ready(Ok(bytes)),
                // Answered by the library, which writes the answer when it is read from again.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Text(_))) => {
                    let text = "the broker sent text through the WebSocket, where MQTT is bytes";
                    return Poll::Ready(Err(stopped(down(DownKind::Protocol, text))));
                }
                Some(
                    Ok(Message::Close(_))
                    | Err(
                        Error::ConnectionClosed
                        | Error::AlreadyClosed
                        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake),
                    ),
                )
                | None => return Poll::Ready(Ok(Bytes::new())),
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
            }
        }
    }
}

impl AsyncRead for Binary {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            self.rest = ready!(self.poll_bytes(cx))?;
        }
        let count = self.rest.len().min(buffer.remaining());
        buffer.put_slice(self.rest.get(..count).unwrap_or_default());
        self.rest.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Binary {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(broken)?;
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        let message = Message::Binary(Bytes::copy_from_slice(piece));
        Pin::new(&mut self.socket).start_send(message).map_err(broken)?;
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(broken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(cx).map_err(broken)
    }
}

const NO_SOCKET: &str = "no WebSocket opens there";
/// What is held for reading and for writing.
const BUFFER: usize = 16 * 1024;
/// Bytes of one message of ours: a large packet leaves in several, so that it is not held twice.
const PIECE: usize = 64 * 1024;
/// What a message of a broker may hold beside its largest packet: others that it sends along.
const ROOM: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Each answer has its sentence and its kind, so that nobody looks for a broken network where a path is wrong.
    #[test]
    fn an_answer_of_http_is_told() {
        for (code, kind, holds) in [
            (404, DownKind::Protocol, "/mqtt"),
            (403, DownKind::Unauthorized, "refuses us"),
            (302, DownKind::Protocol, "points elsewhere"),
            (503, DownKind::Unreachable, "trouble"),
            (200, DownKind::Protocol, "web server"),
        ] {
            let told = status(code);
            assert!(told.kind == kind && told.detail.contains(holds), "{code}: {told:?}");
        }
    }
}
