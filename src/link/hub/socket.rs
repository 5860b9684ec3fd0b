//! The WebSocket of a connection, and what was written to it and has not left.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{Sink, Stream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::link::socket::Below;
use crate::wire::socketio::FRAME;

/// The WebSocket.
pub(super) struct Socket {
    stream: WebSocketStream<Box<dyn Below>>,
    unflushed: bool,
}

/// What happened to it.
#[derive(Debug)]
pub(super) enum Turn {
    /// A message came.
    Message(Message),
    /// Everything written has left.
    Flushed,
    /// The other side has closed.
    Ended,
}

impl Socket {
    pub(super) const fn new(stream: WebSocketStream<Box<dyn Below>>) -> Self {
        Self { stream, unflushed: false }
    }

    /// Whether everything written has left.
    pub(super) const fn is_flushed(&self) -> bool {
        !self.unflushed
    }

    /// Writes a message into the buffer; [`Socket::turn`] sends it.
    pub(super) fn feed(&mut self, message: Message) -> Result<(), Error> {
        self.unflushed = true;
        Pin::new(&mut self.stream).start_send(message)
    }

    /// Writes a text.
    pub(super) fn feed_text(&mut self, text: String) -> Result<(), Error> {
        self.feed(Message::Text(text.into()))
    }

    /// Writes a frame: the text that announces it and, directly after it, its bytes (W-103).
    pub(super) fn feed_frame(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.feed(Message::Text(FRAME_TEXT.clone()))?;
        self.feed(Message::Binary(Bytes::from(bytes)))
    }

    /// Sends what was written and waits for what comes. Nothing is lost when this is dropped before its end.
    pub(super) async fn turn(&mut self) -> Result<Turn, Error> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Says that nothing follows, and closes.
    pub(super) async fn close(mut self) {
        let _ = poll_fn(|context| Pin::new(&mut self.stream).poll_close(context)).await;
    }

    /// Looks whether something is there already.
    pub(super) async fn now(&mut self) -> Option<Result<Turn, Error>> {
        poll_fn(|context| {
            Poll::Ready(match self.poll(context) {
                Poll::Ready(turn) => Some(turn),
                Poll::Pending => None,
            })
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Turn, Error>> {
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(context)
        {
            self.unflushed = false;
            return Poll::Ready(flushed.map(|()| Turn::Flushed));
        }
        Poll::Ready(match ready!(Pin::new(&mut self.stream).poll_next(context)) {
            Some(Ok(message)) => {
                // The answers to these are written by the library and leave with the next flush.
                self.unflushed |= matches!(message, Message::Ping(_) | Message::Close(_));
                Ok(Turn::Message(message))
            }
            Some(Err(error)) => Err(error),
            None => Ok(Turn::Ended),
        })
    }
}

/// The settings of the WebSocket: nothing larger than `max_message` comes in, and little memory is held for nothing.
pub(super) fn settings(max_message: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(BUFFER)
        .max_message_size(Some(max_message))
        .max_frame_size(Some(max_message))
}

/// What is held for reading and for writing.
const BUFFER: usize = 16 * 1024;

/// The text before a frame, shared by all.
static FRAME_TEXT: tokio_tungstenite::tungstenite::Utf8Bytes =
    tokio_tungstenite::tungstenite::Utf8Bytes::from_static(FRAME);
