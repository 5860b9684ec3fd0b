//! What was handed to the client library and is not acknowledged, and what waits for its turn.
//!
//! A broker says how many unacknowledged messages it takes (a stock one: 20). The client library would queue the rest
//! itself and send it whenever. We keep the rest here instead, where it can still be refused with certainty.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::link::Claim;
use crate::wire::mqtt::Publish;

/// The messages of one connection that are on their way.
#[derive(Debug)]
pub(super) struct Ledger {
    /// How many we allow ourselves to be unacknowledged at once.
    most: usize,
    /// How many may be.
    window: usize,
    /// Handed over, without a packet number yet, oldest first. `None` is presence.
    handed: VecDeque<Option<u64>>,
    /// Written under this packet number, not acknowledged.
    open: HashMap<u16, Option<u64>>,
    /// Not handed over, oldest first.
    waiting: VecDeque<Waiting>,
}

/// A frame that waits for an acknowledgement of earlier ones.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: u64,
    pub(super) publish: Publish,
    /// To be taken when its turn comes.
    pub(super) claim: Option<Claim>,
    /// When it is too late to send it.
    pub(super) until: Instant,
}

impl Ledger {
    /// One for at most so many unacknowledged messages.
    pub(super) fn new(most: u16) -> Self {
        let most = usize::from(most).max(1);
        Self { most, window: most, handed: VecDeque::new(), open: HashMap::new(), waiting: VecDeque::new() }
    }

    /// Heeds how many unacknowledged messages the broker takes.
    pub(super) fn limit(&mut self, receive_maximum: Option<u16>) {
        self.window = receive_maximum.map_or(self.most, |limit| usize::from(limit).clamp(1, self.most));
    }

    /// Whether one more may be handed over now. Nothing overtakes what waits.
    pub(super) fn has_room(&self) -> bool {
        self.handed.len() + self.open.len() < self.window
    }

    /// Whether something waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether everything handed over is acknowledged.
    pub(super) fn is_settled(&self) -> bool {
        self.handed.is_empty() && self.open.is_empty()
    }

    /// Notes what was handed over.
    pub(super) fn hand(&mut self, id: Option<u64>) {
        self.handed.push_back(id);
    }

    /// Notes that the oldest one handed over is being written as `packet`.
    pub(super) fn written(&mut self, packet: u16) {
        if let Some(id) = self.handed.pop_front() {
            self.open.insert(packet, id);
        }
    }

    /// Notes an acknowledgement, and says which frame it was for.
    pub(super) fn acknowledged(&mut self, packet: u16) -> Option<u64> {
        self.open.remove(&packet).flatten()
    }

    /// Lets a frame wait, or gives it back if too many do.
    pub(super) fn wait(&mut self, id: u64, publish: Publish, claim: Option<Claim>, now: Instant) -> bool {
        if self.waiting.len() >= WAITING {
            return false;
        }
        self.waiting.push_back(Waiting { id, publish, claim, until: now + PATIENCE });
        true
    }

    /// The next one to hand over, if there is room.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        if self.has_room() { self.waiting.pop_front() } else { None }
    }

    /// When the oldest one waiting has waited too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|oldest| oldest.until)
    }

    /// One that has waited too long.
    pub(super) fn expired(&mut self, now: Instant) -> Option<u64> {
        self.waiting.pop_front_if(|oldest| oldest.until <= now).map(|late| late.id)
    }

    /// All that wait, when the connection will not carry them any more.
    pub(super) fn abandon(&mut self) -> impl Iterator<Item = u64> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.id)
    }
}

/// How many frames may wait for their turn.
const WAITING: usize = 256;
/// How long a frame may wait for its turn before it is refused: short against any call's own patience.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn publish() -> Publish {
        Publish {
            topic: String::new(),
            payload: bytes::Bytes::new(),
            payload_format: None,
            content_type: None,
            correlation: None,
            response_topic: None,
            expiry: None,
            user_properties: Vec::new(),
        }
    }

    #[test]
    fn a_packet_number_leads_back_to_its_frame() {
        let mut ledger = Ledger::new(256);
        ledger.hand(Some(10));
        ledger.hand(None);
        ledger.written(1);
        ledger.written(2);
        assert!(!ledger.is_settled());
        assert_eq!(ledger.acknowledged(2), None);
        assert_eq!(ledger.acknowledged(1), Some(10));
        assert_eq!(ledger.acknowledged(1), None);
        assert!(ledger.is_settled());
    }

    #[test]
    fn the_broker_bounds_what_is_open_and_nothing_overtakes() {
        let mut ledger = Ledger::new(256);
        ledger.limit(Some(1));
        ledger.hand(Some(1));
        assert!(!ledger.has_room());
        assert!(ledger.wait(2, publish(), None, Instant::now()));
        assert!(ledger.wait(3, publish(), None, Instant::now()));
        assert!(ledger.next().is_none());
        ledger.written(9);
        ledger.acknowledged(9);
        assert_eq!(ledger.next().unwrap().id, 2);
        ledger.hand(Some(2));
        assert!(ledger.next().is_none());
        assert_eq!(ledger.abandon().collect::<Vec<_>>(), [3]);
        assert!(!ledger.has_waiting());
    }

    #[test]
    fn waiting_is_bounded_in_number_and_time() {
        let mut ledger = Ledger::new(256);
        let now = Instant::now();
        assert!((0..WAITING as u64).all(|id| ledger.wait(id, publish(), None, now)));
        assert!(!ledger.wait(999, publish(), None, now));
        assert_eq!(ledger.deadline(), Some(now + PATIENCE));
        assert_eq!(ledger.expired(now), None);
        assert_eq!(ledger.expired(now + PATIENCE), Some(0));
        assert_eq!(ledger.expired(now + PATIENCE), Some(1));
    }
}
