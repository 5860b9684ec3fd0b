//! Joining: the subscriptions, the announcement, and what arrives before both are done.

use rumqttc::{ConnAck, Publish, QoS, SubAck, SubscribeReasonCode};
use tokio::time::Instant;

use super::{Connection, Phase, QUIET};
use crate::link::mqtt::Hears;
use crate::link::seat::{End, down};
use crate::link::{DownKind, LinkEvent};

impl Connection<'_> {
    pub(super) fn connected(&mut self, ack: &ConnAck) -> Result<(), End> {
        if let Some(properties) = &ack.properties {
            self.ledger.limit(properties.receive_max);
            if let Some(limit) = properties.max_packet_size {
                self.limit = usize::try_from(limit).unwrap_or(usize::MAX);
            }
        }
        let until = Instant::now() + self.seat.config.connect_timeout;
        self.phase = Phase::Joining { step: 0, until };
        self.subscribe(0)
    }

    /// Sends subscription number `step`, one filter each.
    fn subscribe(&self, step: usize) -> Result<(), End> {
        let Some((filter, qos)) = self.filter(step) else { return Ok(()) };
        self.client.try_subscribe(filter, qos).map_err(|error| self.broken(down(DownKind::Lost, error.to_string())))
    }

    /// The subscriptions in order. Presence at QoS 0: a broker bounds what it queues for a subscriber at QoS 1 and drops
    /// the rest of a large sweep.
    fn filter(&self, step: usize) -> Option<(&str, QoS)> {
        let topics = &self.seat.config.topics;
        let own = [topics.requests(), topics.replies(), topics.events()];
        let skipped = usize::from(!self.seat.config.requests);
        if self.seat.config.hears == Hears::Nothing {
            return (step == 0).then_some((topics.requests(), QoS::AtLeastOnce));
        }
        match own.get(step + skipped) {
            Some(filter) => Some((filter, QoS::AtLeastOnce)),
            None => (step + skipped == own.len()).then_some((topics.presence_filter(), QoS::AtMostOnce)),
        }
    }

    pub(super) async fn subscribed(&mut self, ack: &SubAck) -> Result<(), End> {
        let Phase::Joining { step, until } = self.phase else { return Ok(()) };
        let Some((filter, qos)) = self.filter(step).map(|(filter, qos)| (filter.to_owned(), qos)) else {
            return Ok(());
        };
        let refusal = ack.return_codes.iter().find(|code| !matches!(code, SubscribeReasonCode::Success(_)));
        let text = refusal.map(|code| format!("the broker refused the subscription to {filter}: {code:?}"));
        if qos == QoS::AtMostOnce {
            return self.up(text).await;
        }
        if let Some(text) = text {
            // Without its own topics a peer would call and never hear the answer, or be called and never know.
            return Err(self.broken(down(DownKind::Unauthorized, text)));
        }
        if self.filter(step + 1).is_none() {
            return self.up(None).await;
        }
        self.phase = Phase::Joining { step: step + 1, until };
        self.subscribe(step + 1)
    }

    /// Announces us, says that the link is up, and then what was held back. A refused presence subscription is said; the
    /// sweep is over at once then (W-042).
    async fn up(&mut self, refusal: Option<String>) -> Result<(), End> {
        self.announce();
        let settled = refusal.is_some() || self.seat.config.hears == Hears::Nothing;
        self.phase = Phase::Up { since: Instant::now(), settles: None };
        self.seat.tell(LinkEvent::Up).await?;
        for publish in std::mem::take(&mut self.held) {
            self.deliver(publish).await?;
        }
        if let Some(text) = refusal {
            self.seat.tell(LinkEvent::Refused(text)).await?;
        }
        if settled {
            return self.seat.tell(LinkEvent::Settled).await;
        }
        if let Phase::Up { settles, .. } = &mut self.phase {
            *settles = Some(Instant::now() + QUIET);
        }
        Ok(())
    }

    /// Keeps what arrived for later.
    pub(super) fn hold(&mut self, publish: Publish) -> Result<(), End> {
        self.held_bytes += publish.size();
        if self.held.len() >= HELD || self.held_bytes > HELD_BYTES {
            let text = "too much arrived before all subscriptions were acknowledged";
            return Err(self.broken(down(DownKind::Lost, text)));
        }
        self.held.push(publish);
        Ok(())
    }
}

/// How many messages are held while joining: more than any sweep of presence that we would keep.
const HELD: usize = 16_384;
/// How many bytes are held while joining.
const HELD_BYTES: usize = 64 * 1024 * 1024;
