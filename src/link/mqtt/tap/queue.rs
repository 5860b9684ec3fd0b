//! What waits for one watcher: bounded in frames and bytes, and what falls over is counted.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Tapped;
use crate::wire::mqtt::packet_size;

/// How many messages wait for a watcher.
const MAX_WAITING: usize = 16_384;
/// How many bytes of them.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// What a watcher did not get because it was slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Messages.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    tapped: VecDeque<Tapped>,
    bytes: usize,
    dropped: Dropped,
}

impl Queue {
    /// Adds it, or counts it as dropped. How the connection is, is never dropped: it is told at most as often as connections
    /// are tried.
    pub(super) fn push(&self, tapped: Tapped) {
        let size = size(&tapped);
        let mut waiting = self.waiting();
        let full = waiting.tapped.len() >= MAX_WAITING || waiting.bytes + size > MAX_BYTES;
        if full && matches!(tapped, Tapped::Publish { .. }) {
            waiting.dropped.frames += 1;
            waiting.dropped.bytes += size as u64;
            return;
        }
        waiting.bytes += size;
        waiting.tapped.push_back(tapped);
        drop(waiting);
        self.news.notify_one();
    }

    pub(super) fn pop(&self) -> Option<Tapped> {
        let mut waiting = self.waiting();
        let tapped = waiting.tapped.pop_front()?;
        waiting.bytes -= size(&tapped);
        Some(tapped)
    }

    /// One watcher waits at a time, and a word that came before it waits is kept: nothing is slept over.
    pub(super) async fn next(&self) -> Tapped {
        loop {
            if let Some(tapped) = self.pop() {
                return tapped;
            }
            self.news.notified().await;
        }
    }

    pub(super) fn dropped(&self) -> Dropped {
        self.waiting().dropped
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(tapped: &Tapped) -> usize {
    match tapped {
        Tapped::Publish { publish, .. } => packet_size(publish),
        Tapped::Up { .. } | Tapped::Down(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::link::{DownKind, DownReason};
    use crate::wire::mqtt::Publish;

    fn publish(bytes: usize) -> Tapped {
        let publish = Publish { topic: "t".into(), payload: vec![0; bytes].into(), ..Publish::default() };
        Tapped::Publish { publish: Arc::new(publish), retained: false, at: tokio::time::Instant::now(), at_ms: 0 }
    }

    /// Invariant 8: what falls over either bound is counted, to the last.
    #[test]
    fn what_falls_over_is_counted() {
        for (bytes, pushed) in [(0, MAX_WAITING + 10), (1 << 20, 40), (MAX_BYTES + 1, 1)] {
            let queue = Queue::default();
            (0..pushed).for_each(|_| queue.push(publish(bytes)));
            let dropped = queue.dropped();
            let mut kept = 0;
            while queue.pop().is_some() {
                kept += 1;
            }
            assert_eq!(kept + dropped.frames, pushed as u64);
            assert!(dropped.frames > 0 && dropped.bytes >= dropped.frames * bytes as u64, "{dropped:?}");
            assert_eq!(queue.waiting().bytes, 0);
            queue.push(publish(3));
            assert!(queue.pop().is_some(), "there is room again");
        }
    }

    #[test]
    fn how_the_connection_is_comes_through_a_full_queue() {
        let queue = Queue::default();
        (0..=MAX_WAITING).for_each(|_| queue.push(publish(0)));
        queue.push(Tapped::Down(DownReason { kind: DownKind::Lost, detail: String::new() }));
        let mut last = None;
        while let Some(tapped) = queue.pop() {
            last = Some(tapped);
        }
        assert!(matches!(last, Some(Tapped::Down(_))), "{last:?}");
    }
}
