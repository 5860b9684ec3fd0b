//! What is open on one HTTP/2 connection. There a client can leave an answer unread without anything being waited for on
//! the socket, and can keep a connection without ever asking anything, so both are told from here.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::answer::Answer;

/// Bytes of an answer that are handed over at once: what is handed over waits where nobody counts it.
const PIECE: usize = 16 * 1024;

/// The streams of one connection.
#[derive(Debug)]
pub(super) struct Streams(Mutex<Open>);

#[derive(Debug)]
struct Open {
    next: u64,
    /// Since when an answer waits to be read; `None` while there is none, or while it is a stream of events, which waits
    /// for what happens.
    waiting: HashMap<u64, Option<Instant>>,
    /// Since when there is none.
    idle: Instant,
}

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    Used,
    /// Nobody has asked anything for so long.
    Idle(Duration),
    /// Somebody leaves an answer unread.
    Unread,
}

impl Streams {
    pub(super) fn new(now: Instant) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Open { next: 0, waiting: HashMap::new(), idle: now })))
    }

    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Stream {
        let mut open = self.open();
        open.next += 1;
        let key = open.next;
        open.waiting.insert(key, None);
        Stream { streams: Arc::clone(self), key }
    }

    /// How it is, where an answer may wait for `patience`.
    pub(super) fn state(&self, now: Instant, patience: Duration) -> State {
        let open = self.open();
        if open.waiting.is_empty() {
            return State::Idle(now.duration_since(open.idle));
        }
        let late = |since: &Instant| now.duration_since(*since) >= patience;
        if open.waiting.values().flatten().any(late) { State::Unread } else { State::Used }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request and its answer; over when dropped.
pub(super) struct Stream {
    streams: Arc<Streams>,
    key: u64,
}

impl Stream {
    /// The answer, on its way.
    pub(super) fn answered(self, answer: Answer) -> Watched {
        if matches!(answer, Answer::Piece(_)) {
            self.streams.open().waiting.insert(self.key, Some(Instant::now()));
        }
        Watched { answer, rest: Bytes::new(), _stream: self }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut open = self.streams.open();
        open.waiting.remove(&self.key);
        if open.waiting.is_empty() {
            open.idle = Instant::now();
        }
    }
}

/// The body of an answer, handed over in pieces as it is read.
pub(super) struct Watched {
    answer: Answer,
    rest: Bytes,
    _stream: Stream,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.answer).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                None => return Poll::Ready(None),
                Some(Err(never)) => match never {},
            }
        }
        let piece = PIECE.min(self.rest.len());
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        self.answer.size_hint().exact().map_or_else(SizeHint::default, |more| SizeHint::with_exact(more + rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHILE: Duration = Duration::from_secs(1);

    /// A connection is idle with nothing open, and is not while something is asked or answered; an answer that nobody takes
    /// is told after a while, and taken in pieces it is whole.
    #[tokio::test(start_paused = true)]
    async fn what_is_open_is_known() {
        let begin = Instant::now();
        let streams = Streams::new(begin);
        assert_eq!(streams.state(begin + WHILE, WHILE), State::Idle(WHILE));
        let stream = streams.begin();
        assert_eq!(streams.state(begin + 9 * WHILE, WHILE), State::Used, "a call may take its time");
        let text = Bytes::from(vec![b'x'; 2 * PIECE + 1]);
        let mut body = stream.answered(Answer::Piece(Some(text.clone())));
        assert_eq!(body.size_hint().exact(), Some(text.len() as u64));
        assert_eq!(streams.state(begin + WHILE / 2, WHILE), State::Used);
        assert_eq!(streams.state(begin + WHILE, WHILE), State::Unread);
        let (mut pieces, mut context) = (Vec::new(), Context::from_waker(std::task::Waker::noop()));
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
            pieces.push(frame.into_data().unwrap());
        }
        assert!(body.is_end_stream());
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE, PIECE, 1]);
        assert_eq!(pieces.concat(), text);
        drop(body);
        assert!(matches!(streams.state(begin + 9 * WHILE, WHILE), State::Idle(_)));
    }
}
