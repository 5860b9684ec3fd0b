//! Which HTTP a connection speaks, and how each is served within its bounds. HTTP/2 is agreed on in the TLS greeting, and
//! without TLS by its preface. A request is answered in the same way whichever it came over.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes, BytesMut};
use hyper::{
    Request,
    body::Incoming,
    rt::Executor,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::ServerHandler;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::task::TaskTracker;

use super::{
    Hall, MAX_HEAD, MAX_HEADERS,
    clients::Connection,
    streams::{State, Streams},
    tls::DoorTls,
};

/// Requests one HTTP/2 connection may have open.
const MAX_STREAMS: u32 = 64;
/// Requests that were given up before anybody looked at them, after which a connection is closed.
const MAX_GIVEN_UP: usize = 32;
/// Bytes of one body that may arrive before they are read.
const STREAM_WINDOW: u32 = 64 * 1024;
/// Bytes of all bodies of a connection that may arrive before they are read.
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of an answer that wait for the client's window.
const SEND_BUFFER: usize = 64 * 1024;

/// What every HTTP/2 connection begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream of bytes, with TLS or without: one type, so that what serves it is compiled once.
trait Bytestream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytestream for S {}

/// A connection of which it is known what it speaks.
pub(super) struct Opened {
    stream: Begun,
    two: bool,
}

/// Greets a client that speaks TLS.
pub(super) async fn greet(
    tls: &DoorTls,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> io::Result<Opened> {
    let (stream, two) = tls.accept(stream).await?;
    Ok(Opened { stream: Begun { read: Bytes::new(), stream: Box::new(stream) }, two })
}

/// Reads until it is plain what a client speaks; no more is read than the preface has.
pub(super) async fn recognize(mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> io::Result<Opened> {
    let mut read = BytesMut::with_capacity(PREFACE.len());
    while read.len() < PREFACE.len() && PREFACE.starts_with(&read) {
        let left = (PREFACE.len() - read.len()) as u64;
        if (&mut stream).take(left).read_buf(&mut read).await? == 0 {
            break;
        }
    }
    let two = read == PREFACE;
    Ok(Opened { stream: Begun { read: read.freeze(), stream: Box::new(stream) }, two })
}

impl<H: ServerHandler> Hall<H> {
    /// Serves an opened connection until it ends.
    pub(super) async fn converse(self: Arc<Self>, opened: Opened, connection: Arc<Connection>) {
        let Opened { stream, two } = opened;
        let io = TokioIo::new(stream);
        let ended = if two { self.serve_two(io, &connection).await } else { self.serve_one(io, &connection).await };
        if let Err(problem) = ended {
            tracing::debug!(%problem, "a connection failed");
        }
    }

    async fn serve_one(self: &Arc<Self>, io: TokioIo<Begun>, connection: &Arc<Connection>) -> hyper::Result<()> {
        let served = service_fn(|request: Request<Incoming>| {
            let (hall, connection) = (Arc::clone(self), Arc::clone(connection));
            async move {
                let Some(open) = connection.seat().opens() else { return Err(GivenAway) };
                let response = hall.answer(&connection, request).await;
                Ok(response.map(|answer| open.until(answer)))
            }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.config.head);
        builder.max_header_size(MAX_HEAD).max_headers(MAX_HEADERS);
        let mut serving = std::pin::pin!(builder.serve_connection(io, served));
        tokio::select! {
            ended = serving.as_mut() => return ended,
            () = self.over.cancelled() => return Ok(()),
            () = self.closing.cancelled() => serving.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            ended = serving => ended,
            () = self.over.cancelled() => Ok(()),
        }
    }

    async fn serve_two(self: &Arc<Self>, io: TokioIo<Begun>, connection: &Arc<Connection>) -> hyper::Result<()> {
        let streams = Streams::new(Instant::now());
        let served = service_fn(|request: Request<Incoming>| {
            let (hall, connection, stream) = (Arc::clone(self), Arc::clone(connection), streams.begin());
            async move {
                let Some(open) = connection.seat().opens() else { return Err(GivenAway) };
                let response = hall.answer(&connection, request).await;
                Ok(response.map(|answer| open.until(stream.answered(answer))))
            }
        });
        let config = &self.config;
        let mut builder = http2::Builder::new(Tracked(self.tasks.clone()));
        builder.timer(TokioTimer::new()).keep_alive_interval(config.head).keep_alive_timeout(config.unread);
        builder.max_concurrent_streams(MAX_STREAMS).max_header_list_size(u32::try_from(MAX_HEAD).unwrap_or(u32::MAX));
        builder.max_pending_accept_reset_streams(MAX_GIVEN_UP).max_local_error_reset_streams(MAX_GIVEN_UP);
        builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        builder.max_send_buf_size(SEND_BUFFER);
        let mut serving = std::pin::pin!(builder.serve_connection(io, served));
        let mut look = interval((config.head.min(config.unread) / 4).max(LOOK_AT_LEAST));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leaving = false;
        loop {
            let leave = tokio::select! {
                ended = serving.as_mut() => return ended,
                () = self.over.cancelled() => return Ok(()),
                () = self.closing.cancelled(), if !leaving => true,
                now = look.tick() => match streams.state(now, config.unread) {
                    State::Used => false,
                    State::Idle(since) if since >= 2 * config.head => return Ok(()),
                    State::Idle(since) => since >= config.head,
                    State::Unread => {
                        tracing::debug!("an answer is left unread");
                        return Ok(());
                    }
                },
            };
            if leave && !leaving {
                leaving = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// However short the bounds are, a connection is not looked at more often.
const LOOK_AT_LEAST: std::time::Duration = std::time::Duration::from_millis(10);

/// Another connection has its place: nothing of it runs any more.
#[derive(Debug, thiserror::Error)]
#[error("its place was given to another connection")]
struct GivenAway;

/// Begins the tasks of HTTP/2 where they are waited for when the door closes.
#[derive(Clone)]
struct Tracked(TaskTracker);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tracked {
    fn execute(&self, task: F) {
        self.0.spawn(task);
    }
}

/// A stream of which the beginning was read already.
struct Begun {
    read: Bytes,
    stream: Box<dyn Bytestream>,
}

impl AsyncRead for Begun {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, into);
        }
        let now = self.read.len().min(into.remaining());
        into.put_slice(&self.read.copy_to_bytes(now));
        // With what follows: of a beginning alone, whoever reads doubles the room for the rest. How this ends is for the
        // next read to tell.
        if into.remaining() > 0 {
            let _ = Pin::new(&mut self.stream).poll_read(context, into);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Begun {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
