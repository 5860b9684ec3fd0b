//! What we are asked to do: frames, announcements, the farewell.

use rumqttc::{ClientError, PublishOptions, PublishProperties};
use tokio::time::Instant;

use super::{Connection, FAREWELL, Phase};
use crate::link::mqtt::options::BATCH;
use crate::link::seat::End;
use crate::link::{Claim, Outbound, Rejection};
use crate::wire::{self, Frame};

impl Connection<'_> {
    /// Takes a command and the ones right behind it, so that they leave in one write.
    pub(super) async fn commands(&mut self, first: Option<Outbound>) -> Result<(), End> {
        self.command(first).await?;
        for _ in 1..BATCH {
            if self.is_leaving() {
                break;
            }
            match self.seat.commands.try_recv() {
                Ok(command) => self.command(Some(command)).await?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    async fn command(&mut self, command: Option<Outbound>) -> Result<(), End> {
        match command {
            Some(Outbound::Frame { id, frame, claim }) => match self.frame(id, &frame, claim) {
                Ok(()) => Ok(()),
                Err(why) => self.reject(id, why).await,
            },
            Some(Outbound::Announce { shape }) => {
                self.seat.shape = shape;
                if matches!(self.phase, Phase::Up { .. }) {
                    self.announce();
                }
                Ok(())
            }
            Some(Outbound::Leave) | None => self.leave(Farewell::Announced).await,
            Some(Outbound::Yield) => self.leave(Farewell::Silent).await,
        }
    }

    fn frame(&mut self, id: u64, frame: &Frame, claim: Option<Claim>) -> Result<(), Rejection> {
        if !matches!(self.phase, Phase::Up { .. }) {
            return Err(Rejection::Down);
        }
        let mut publish = wire::mqtt::encode(frame, &self.seat.config.topics)
            .map_err(|error| Rejection::Unsendable(error.to_string()))?;
        self.seat.guard.sign(&mut publish)?;
        let bytes = wire::mqtt::packet_size(&publish);
        if bytes > self.limit {
            return Err(Rejection::TooLarge { bytes, limit: self.limit });
        }
        if self.ledger.has_waiting() || !self.ledger.has_room() {
            let waits = self.ledger.wait(id, publish, claim, Instant::now());
            return if waits { Ok(()) } else { Err(Rejection::Full) };
        }
        self.hand_over(id, publish, claim.as_ref())
    }

    /// Gives a frame to the client library, unless it was withdrawn. From here on it counts as sent (W-075).
    pub(super) fn hand_over(
        &mut self,
        id: u64,
        publish: wire::mqtt::Publish,
        claim: Option<&Claim>,
    ) -> Result<(), Rejection> {
        if claim.is_some_and(|claim| !claim.take()) {
            return Ok(());
        }
        match self.publish_as(publish, Retain::No) {
            Ok(()) => {
                self.ledger.hand(Some(id));
                Ok(())
            }
            Err(ClientError::InvalidRequest(_)) => {
                Err(Rejection::Unsendable("the topic cannot be published to".into()))
            }
            Err(_) => Err(Rejection::Full),
        }
    }

    /// Announces us as the seat's shape says; tried again after the next acknowledgement if there is no room.
    pub(super) fn announce(&mut self) {
        if !self.seat.config.announce {
            return;
        }
        let topics = &self.seat.config.topics;
        let online = wire::mqtt::online(self.seat.shape.as_deref(), topics).or_else(|error| {
            tracing::warn!(%error, "the shape cannot be announced; announcing none");
            wire::mqtt::online(None, topics)
        });
        self.unannounced = online.is_ok_and(|online| !self.presence(online));
    }

    /// Publishes our presence, retained. Says whether the client library took it.
    fn presence(&mut self, publish: wire::mqtt::Publish) -> bool {
        let taken = self.publish_as(publish, Retain::Yes).is_ok();
        if taken {
            self.ledger.hand(None);
        }
        taken
    }

    fn publish_as(&self, publish: wire::mqtt::Publish, retain: Retain) -> Result<(), ClientError> {
        let properties = PublishProperties {
            payload_format_indicator: publish.payload_format,
            message_expiry_interval: publish.expiry,
            topic_alias: None,
            response_topic: publish.response_topic,
            correlation_data: publish.correlation,
            user_properties: publish.user_properties,
            subscription_identifiers: Vec::new(),
            content_type: publish.content_type,
        };
        let options = PublishOptions::at_least_once().retain(retain == Retain::Yes).properties(properties);
        self.client.try_publish(publish.topic, publish.payload, options)
    }

    /// Begins the farewell: `offline`, then an empty payload that clears it, then DISCONNECT once both are acknowledged
    /// (W-035). What waits for its turn is not sent any more.
    async fn leave(&mut self, farewell: Farewell) -> Result<(), End> {
        let until = Instant::now() + FAREWELL;
        let before = std::mem::replace(&mut self.phase, Phase::Leaving { until, said: false });
        for id in self.ledger.abandon().collect::<Vec<_>>() {
            self.reject(id, Rejection::Down).await?;
        }
        match before {
            Phase::Connecting => Err(End::Left),
            Phase::Up { .. } if self.seat.config.announce && farewell == Farewell::Announced => {
                let (offline, cleared) = {
                    let topics = &self.seat.config.topics;
                    (wire::mqtt::offline(topics), wire::mqtt::cleared(topics))
                };
                self.presence(offline);
                self.presence(cleared);
                Ok(())
            }
            Phase::Up { .. } | Phase::Joining { .. } | Phase::Leaving { .. } => {
                if self.ledger.is_settled() {
                    self.disconnect();
                }
                Ok(())
            }
        }
    }

    pub(super) fn disconnect(&mut self) {
        let said = self.client.try_disconnect_now().is_ok();
        if let Phase::Leaving { until, said: already } = &mut self.phase {
            *already = said;
            *until = Instant::now() + FAREWELL;
        }
    }
}

/// Whether the network is told that we leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Farewell {
    /// Our presence is taken back.
    Announced,
    /// What stands under our name is somebody else's by now. The DISCONNECT keeps the broker from publishing the will.
    Silent,
}

/// Whether the broker keeps a message for those who come later.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retain {
    /// A frame.
    No,
    /// Presence.
    Yes,
}
