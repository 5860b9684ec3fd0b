//! What a program prints, on its way into the log: cut, counted, and never more of it than somebody could read.

use std::time::Duration;

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _},
    time::Instant,
};

/// Reads to the end. Nobody is kept waiting: what is too much is read and dropped.
pub(super) async fn forward(fake: String, mut from: impl AsyncBufRead + Unpin) {
    let mut told = Told { fake, since: Instant::now(), lines: 0, dropped: 0 };
    let mut held = Vec::new();
    while let Ok(chunk) = from.fill_buf().await {
        if chunk.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', chunk);
        let part = end.map_or(chunk, |end| chunk.get(..end).unwrap_or_default());
        held.extend(part.iter().take(LONGEST.saturating_sub(held.len())));
        let read = end.map_or(chunk.len(), |end| end + 1);
        from.consume(read);
        if end.is_some() {
            told.line(&held);
            held.clear();
        }
    }
    if !held.is_empty() {
        told.line(&held);
    }
    told.dropped();
}

struct Told {
    fake: String,
    since: Instant,
    lines: usize,
    dropped: u64,
}

impl Told {
    fn line(&mut self, line: &[u8]) {
        if self.since.elapsed() >= WINDOW {
            self.dropped();
            (self.since, self.lines) = (Instant::now(), 0);
        }
        if self.lines >= LINES {
            self.dropped += 1;
            return;
        }
        self.lines += 1;
        // Quoted, for it may hold anything.
        tracing::info!(fake = self.fake, "its program prints {:?}", String::from_utf8_lossy(line));
    }

    fn dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            tracing::warn!(fake = self.fake, "its program printed {dropped} more lines, which are not shown");
        }
    }
}

/// Bytes of one line; the rest of it is dropped.
const LONGEST: usize = 1 << 10;
/// Lines that are shown in each [`WINDOW`].
const LINES: usize = 100;
const WINDOW: Duration = Duration::from_secs(10);
