//! What becomes of deferred answers to calls of ours, kept for whoever asks, however late: nothing has to listen.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{sync::watch, time::Instant};

use super::state::{CallId, Now, TicketUpdate, weigh_value};
use crate::wire::Value;

/// How many progress values of a ticket are kept; the oldest falls off (wire.md 6.3).
const PROGRESS_KEPT: usize = 64;
/// What they may weigh together, in bytes.
const PROGRESS_WEIGHT: usize = 64 << 10;
/// What the answers that are kept may weigh, all tickets together, in bytes.
const ANSWERS_WEIGHT: usize = 64 << 20;

/// A deferred answer on its way, or there. Clones are of the same answer.
#[derive(Clone, Debug)]
pub struct TicketHandle {
    /// The correlation of the call, which names the ticket.
    pub id: String,
    /// When it lapses, in milliseconds since the Unix epoch.
    pub expires_ms: i64,
    /// What became of it so far.
    pub log: watch::Receiver<TicketLog>,
}

/// What became of a deferred answer so far.
#[derive(Debug, Default)]
pub struct TicketLog {
    /// What the peer reported last, oldest first.
    pub progress: VecDeque<Progress>,
    /// How many reports came in all.
    pub reports: u64,
    /// How it ended.
    pub ended: Option<Ended>,
    weight: usize,
    held: Option<Held>,
}

/// A report of a peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What it said.
    pub value: Option<Value>,
    /// When it arrived here, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// How a deferred answer ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The last update, which is a final one.
    pub update: TicketUpdate,
    /// The size of an answer that came and was too large to keep: the update is without it.
    pub too_large: Option<usize>,
    /// When.
    pub at: Instant,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: i64,
}

/// The weight of an answer that is kept, given back with it.
#[derive(Debug)]
struct Held {
    of: Arc<AtomicUsize>,
    weight: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

/// The driver's end of every [`TicketHandle`] that is not over.
#[derive(Debug, Default)]
pub(super) struct Followed {
    logs: HashMap<CallId, watch::Sender<TicketLog>>,
    held: Arc<AtomicUsize>,
}

impl Followed {
    /// A call was answered with a receipt.
    pub(super) fn begin(&mut self, id: CallId) -> watch::Receiver<TicketLog> {
        let (sender, log) = watch::channel(TicketLog::default());
        self.logs.insert(id, sender);
        log
    }

    /// News of a deferred answer.
    pub(super) fn update(&mut self, id: CallId, update: TicketUpdate, now: Now) {
        match update {
            TicketUpdate::Progress(value) => {
                if let Some(log) = self.logs.get(&id) {
                    log.send_modify(|log| log.report(Progress { value, at_ms: now.unix_ms }));
                }
            }
            end => {
                if let Some(log) = self.logs.remove(&id) {
                    log.send_modify(|log| log.end(end, now, &self.held));
                }
            }
        }
    }
}

impl TicketLog {
    fn report(&mut self, progress: Progress) {
        self.reports += 1;
        self.weight += weigh(progress.value.as_ref());
        self.progress.push_back(progress);
        while self.progress.len() > PROGRESS_KEPT || self.weight > PROGRESS_WEIGHT {
            let Some(oldest) = self.progress.pop_front() else { break };
            self.weight -= weigh(oldest.value.as_ref());
        }
    }

    fn end(&mut self, mut update: TicketUpdate, now: Now, of: &Arc<AtomicUsize>) {
        let weight = match &update {
            TicketUpdate::Resolved(value) => weigh(value.as_ref()),
            TicketUpdate::Rejected(error) => error.message.len() + error.name.len() + error.code.len(),
            _ => 0,
        };
        let fits = of.load(Ordering::Relaxed).saturating_add(weight) <= ANSWERS_WEIGHT;
        if fits {
            of.fetch_add(weight, Ordering::Relaxed);
            self.held = Some(Held { of: of.clone(), weight });
        } else {
            match &mut update {
                TicketUpdate::Resolved(value) => *value = None,
                TicketUpdate::Rejected(error) => error.message = "a text too large to keep".into(),
                _ => {}
            }
        }
        let (at, at_ms) = (Instant::from_std(now.at), now.unix_ms);
        self.ended = Some(Ended { update, too_large: (!fits).then_some(weight), at, at_ms });
    }
}

fn weigh(value: Option<&Value>) -> usize {
    value.map_or(0, weigh_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Now {
        Now { at: std::time::Instant::now(), unix_ms: 7 }
    }

    fn opened(followed: &mut Followed, id: u64) -> watch::Receiver<TicketLog> {
        followed.begin(CallId(id))
    }

    /// wire.md 6.3: at most 64 reports, the oldest falls off; also when few weigh much.
    #[test]
    fn progress_is_bounded_by_number_and_weight() {
        let mut followed = Followed::default();
        let log = opened(&mut followed, 1);
        for n in 0..100 {
            followed.update(CallId(1), TicketUpdate::Progress(Some(n.into())), now());
        }
        {
            let log = log.borrow();
            assert_eq!((log.progress.len(), log.reports), (64, 100));
            assert_eq!(log.progress[0].value, Some(36.into()));
        }
        let large = || TicketUpdate::Progress(Some("x".repeat(PROGRESS_WEIGHT / 2).into()));
        followed.update(CallId(1), large(), now());
        followed.update(CallId(1), large(), now());
        assert_eq!(log.borrow().progress.len(), 1);
        followed.update(CallId(1), TicketUpdate::Progress(Some("x".repeat(PROGRESS_WEIGHT).into())), now());
        let log = log.borrow();
        assert_eq!((log.progress.len(), log.weight, log.reports), (0, 0, 103));
    }

    /// What is kept of answers is bounded over all tickets; that one came is told all the same, and room comes back.
    #[test]
    fn answers_are_bounded_by_weight() {
        let mut followed = Followed::default();
        let logs: Vec<_> = (0..3).map(|id| opened(&mut followed, id)).collect();
        for id in 0..3 {
            let large = "x".repeat(ANSWERS_WEIGHT / 2 - 1000);
            followed.update(CallId(id), TicketUpdate::Resolved(Some(large.into())), now());
        }
        let too_large: Vec<bool> =
            logs.iter().map(|log| log.borrow().ended.as_ref().unwrap().too_large.is_some()).collect();
        assert_eq!(too_large, [false, false, true]);
        assert_eq!(logs[2].borrow().ended.as_ref().unwrap().update, TicketUpdate::Resolved(None));
        drop(logs);
        assert_eq!(followed.held.load(Ordering::Relaxed), 0);
    }

    /// Nothing follows the end.
    #[test]
    fn an_end_is_the_end() {
        let mut followed = Followed::default();
        let log = opened(&mut followed, 1);
        followed.update(CallId(1), TicketUpdate::PeerGone, now());
        followed.update(CallId(1), TicketUpdate::Progress(None), now());
        followed.update(CallId(1), TicketUpdate::Lapsed, now());
        assert_eq!(log.borrow().ended.as_ref().unwrap().update, TicketUpdate::PeerGone);
        assert!(followed.logs.is_empty());
    }
}
