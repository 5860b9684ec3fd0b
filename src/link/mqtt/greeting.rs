//! The first word of a broker, looked at before the client library reads it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::link::socket::Below;

/// The stream of a connection, whose first bytes are looked at.
pub(super) struct Greeted {
    below: Box<dyn Below>,
    done: bool,
}

/// The first packet is the CONNACK of MQTT 3.1.1: two bytes long, one less than the shortest of MQTT 5. The client library
/// would wait for the rest, or for the end.
#[derive(Debug, thiserror::Error)]
#[error("the broker answers as one of MQTT 3.1.1")]
pub(super) struct OlderBroker;

impl Greeted {
    pub(super) fn new(below: Box<dyn Below>) -> Self {
        Self { below, done: false }
    }
}

impl AsyncRead for Greeted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.below).poll_read(cx, buffer))?;
        if !std::mem::replace(&mut self.done, true)
            && buffer.filled().get(before..).is_some_and(|first| first.starts_with(OLDER_CONNACK))
        {
            return Poll::Ready(Err(io::Error::other(OlderBroker)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Greeted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.below).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.below).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.below).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.below).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.below.is_write_vectored()
    }
}

/// How a CONNACK of MQTT 3.1.1 begins.
const OLDER_CONNACK: &[u8] = &[0x20, 2];
