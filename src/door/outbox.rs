//! Answers on their way out: one line each, in order, never half of one in between another.
//!
//! A line is put into the queue at once; whoever then flushes first writes all that is queued, so that several answers
//! ready together leave in one write. Flushing can be given up at any point and taken up by another: what was written is
//! counted where it is written.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::mcp::text;

/// A bounded queue of lines in front of a writer.
#[derive(Debug)]
pub struct Outbox<W> {
    queue: Mutex<Queue>,
    writer: tokio::sync::Mutex<Writer<W>>,
    broken: CancellationToken,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    lines: usize,
    /// What the writer has taken and not yet written.
    leaving: (usize, usize),
}

#[derive(Debug)]
struct Writer<W> {
    to: W,
    bytes: Vec<u8>,
    written: usize,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    /// A queue in front of `to`.
    pub fn new(to: W) -> Self {
        Self {
            queue: Mutex::default(),
            writer: tokio::sync::Mutex::new(Writer { to, bytes: Vec::new(), written: 0 }),
            broken: CancellationToken::new(),
        }
    }

    /// Queues one line.
    ///
    /// # Errors
    ///
    /// `message` has no JSON; nothing of it is queued.
    pub fn put(&self, message: &impl Serialize) -> Result<(), serde_json::Error> {
        let mut queue = self.queue();
        let before = queue.bytes.len();
        // What changes how text is shown is escaped here too: a line may end up before somebody's eyes.
        let written = text::write(&mut queue.bytes, message);
        if written.is_err() {
            queue.bytes.truncate(before);
            return written;
        }
        queue.bytes.push(b'\n');
        queue.lines += 1;
        Ok(())
    }

    /// Whether something waits to be written.
    pub fn pending(&self) -> bool {
        let queue = self.queue();
        queue.lines > 0 || queue.leaving.0 > 0
    }

    /// Whether so much waits that nothing more should be asked for: 256 lines or 8 MiB.
    pub fn full(&self) -> bool {
        let queue = self.queue();
        queue.lines + queue.leaving.0 >= MAX_LINES || queue.bytes.len() + queue.leaving.1 >= MAX_BYTES
    }

    /// Ends when the other side has gone.
    pub async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// Writes all that is queued.
    ///
    /// # Errors
    ///
    /// The other side has gone.
    pub async fn flush(&self) -> io::Result<()> {
        let mut writer = self.writer.lock().await;
        let flushed = self.write_all(&mut writer).await;
        if flushed.is_err() {
            self.broken.cancel();
        }
        flushed
    }

    async fn write_all(&self, writer: &mut Writer<W>) -> io::Result<()> {
        loop {
            while let Some(rest) = writer.bytes.get(writer.written..).filter(|rest| !rest.is_empty()) {
                // Given up here, either nothing of this was written or `written` knows of it.
                let written = writer.to.write(rest).await?;
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                writer.written += written;
            }
            writer.to.flush().await?;
            writer.written = 0;
            writer.bytes.clear();
            writer.bytes.shrink_to(KEPT);
            let mut queue = self.queue();
            std::mem::swap(&mut queue.bytes, &mut writer.bytes);
            queue.leaving = (queue.lines, writer.bytes.len());
            queue.lines = 0;
            if writer.bytes.is_empty() {
                return Ok(());
            }
        }
    }

    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines that may wait before no more is read.
pub const MAX_LINES: usize = 256;
/// Bytes that may wait before no more is read.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Room that is kept for the next answers.
const KEPT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Given up half-way, a flush loses and doubles nothing.
    #[tokio::test]
    async fn a_flush_can_be_taken_up_by_another() {
        let (near, mut far) = tokio::io::duplex(3);
        let outbox = Outbox::new(near);
        let lines: Vec<String> = (0..20).map(|at| format!("line {at}")).collect();
        for line in &lines {
            outbox.put(line).unwrap();
        }
        let mut read = String::new();
        let mut piece = [0; 2];
        while outbox.pending() {
            tokio::select! {
                biased;
                flushed = outbox.flush() => flushed.unwrap(),
                got = far.read(&mut piece) => read.push_str(std::str::from_utf8(&piece[..got.unwrap()]).unwrap()),
            }
        }
        drop(outbox);
        far.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, format!("\"{}\"\n", lines.join("\"\n\"")));
    }

    #[tokio::test]
    async fn it_is_full_in_lines_and_in_bytes() {
        let (near, mut far) = tokio::io::duplex(1 << 24);
        let outbox = Outbox::new(near);
        for _ in 0..MAX_LINES {
            assert!(!outbox.full());
            outbox.put(&"x").unwrap();
        }
        assert!(outbox.full());
        outbox.flush().await.unwrap();
        assert!(!outbox.full() && !outbox.pending());
        outbox.put(&"x".repeat(MAX_BYTES)).unwrap();
        assert!(outbox.full());
        outbox.flush().await.unwrap();
        far.read_exact(&mut [0; 4]).await.unwrap();
    }

    #[tokio::test]
    async fn a_reader_that_has_gone_is_noticed() {
        let (near, far) = tokio::io::duplex(8);
        let outbox = Outbox::new(near);
        drop(far);
        outbox.put(&"x").unwrap();
        assert!(outbox.flush().await.is_err());
        outbox.broken().await;
    }
}
