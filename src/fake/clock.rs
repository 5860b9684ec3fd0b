//! What fakes emit by themselves: one task for all of them, which sleeps until the next event is due.
//!
//! An event that could not be emitted in its time is left out, not made up for: a fake that lagged does not flood.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::live::Live;

/// When what is due.
#[derive(Debug, Default)]
pub(super) struct Clock {
    due: Mutex<BinaryHeap<Reverse<Turn>>>,
    sooner: Notify,
}

/// One event of one fake.
#[derive(Debug)]
struct Turn {
    at: Instant,
    every: Duration,
    /// Gone when its fake is.
    fake: Weak<Live>,
    emit: usize,
}

impl Clock {
    /// Has a fake emit from now on: first when the first pause is over.
    pub(super) fn add(&self, fake: &std::sync::Arc<Live>) {
        let now = Instant::now();
        let turn = |(emit, every): (usize, Duration)| {
            Reverse(Turn { at: now + every, every, fake: std::sync::Arc::downgrade(fake), emit })
        };
        let turns: Vec<_> = fake.pauses().enumerate().map(turn).collect();
        if !turns.is_empty() {
            self.due().extend(turns);
            self.sooner.notify_one();
        }
    }

    /// Goes for as long as it is polled.
    pub(super) async fn run(&self) {
        loop {
            let next = self.due().peek().map(|Reverse(turn)| turn.at);
            let ripe = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ripe => {}
                () = self.sooner.notified() => continue,
            }
            while let Some(turn) = self.take(Instant::now()) {
                let Some(fake) = turn.fake.upgrade() else { continue };
                fake.emit(turn.emit).await;
                let (next, now) = (turn.at + turn.every, Instant::now());
                let next = if next < now { now + turn.every } else { next };
                self.due().push(Reverse(Turn { at: next, ..turn }));
            }
        }
    }

    fn take(&self, now: Instant) -> Option<Turn> {
        let mut due = self.due();
        due.peek().is_some_and(|Reverse(turn)| turn.at <= now).then(|| due.pop()).flatten().map(|Reverse(turn)| turn)
    }

    fn due(&self) -> MutexGuard<'_, BinaryHeap<Reverse<Turn>>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Turn {}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Turn {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}
