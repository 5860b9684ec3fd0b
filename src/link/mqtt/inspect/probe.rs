//! The connection things are tried on: one question at a time, each with an end.

use std::time::Duration;

use bytes::Bytes;
use rumqttc::{
    AsyncClient, ClientError, ConnAck, Event, EventLoop, Outgoing, Packet, PubAckReason, PublishOptions,
    PublishProperties, QoS, SubscribeReasonCode,
};
use tokio::time::{Instant, timeout, timeout_at};

use super::Greeting;
use crate::link::backoff;
use crate::link::mqtt::trouble::{self, Stage};
use crate::link::mqtt::{Config, Tls, options};
use crate::link::seat::down;
use crate::link::socket::{Lazy, Parted};
use crate::link::{DownKind, DownReason, socket};

pub(super) struct Probe {
    client: AsyncClient,
    network: EventLoop,
    parted: Parted,
    pub(super) lazy: Lazy,
    stage: Stage,
    patience: Duration,
    until: Instant,
    /// What tells our messages from each other, and from those of anybody else.
    seed: u64,
    sent: u32,
}

/// What became of a message to ourselves.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// What the broker said of it.
    pub(super) acknowledged: Option<PubAckReason>,
    /// Whether it arrived.
    pub(super) heard: bool,
}

impl Sent {
    pub(super) fn is_refused(&self) -> Option<PubAckReason> {
        self.acknowledged
            .filter(|reason| !matches!(reason, PubAckReason::Success | PubAckReason::NoMatchingSubscribers))
    }
}

impl Probe {
    /// Not connected yet. `as_ourselves`: under the client id of our name.
    pub(super) fn new(
        config: &Config,
        tls: Option<&Tls>,
        as_ourselves: bool,
        patience: Duration,
        until: Instant,
    ) -> Self {
        let seed = backoff::seed();
        let me = config.topics.me();
        let client_id = if as_ourselves { format!("msgrpc-{me}") } else { format!("msgrpc-{me}-doctor-{seed:016x}") };
        let parted = Parted::default();
        let lazy = Lazy::default();
        let options = options::unhurried(config, &client_id, tls, parted.clone(), lazy.clone());
        let (client, network) = AsyncClient::builder(options).capacity(REQUESTS).build();
        Self { client, network, parted, lazy, stage: Stage::Connecting, patience, until, seed, sent: 0 }
    }

    /// What happens next; nothing if it does not happen before `until`.
    async fn next(&mut self, until: Instant) -> Result<Option<Event>, DownReason> {
        match timeout_at(until.min(self.until), self.network.poll()).await {
            Ok(Ok(event)) => Ok(Some(event)),
            Ok(Err(error)) => Err(trouble::reason(&error, self.stage)),
            Err(_) => Ok(None),
        }
    }

    fn soon(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// Connects.
    pub(super) async fn greeted(&mut self) -> Result<Greeting, DownReason> {
        // Bounded by the client library too, which names what is late.
        let until = self.soon() + SPARE;
        loop {
            match self.next(until).await? {
                Some(Event::Incoming(Packet::ConnAck(ack))) => {
                    self.stage = Stage::Connected;
                    return Ok(greeting(&ack));
                }
                Some(_) => {}
                None => return Err(down(DownKind::Unreachable, "no answer in time")),
            }
        }
    }

    /// Subscribes; what the broker says to it, if it says anything.
    pub(super) async fn subscribe(
        &mut self,
        filter: &str,
        qos: QoS,
    ) -> Result<Option<SubscribeReasonCode>, DownReason> {
        self.client.try_subscribe(filter, qos).map_err(|error| full(&error))?;
        let until = self.soon();
        loop {
            match self.next(until).await? {
                Some(Event::Incoming(Packet::SubAck(ack))) => return Ok(ack.return_codes.first().copied()),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// Something that was never said before.
    pub(super) fn word(&mut self) -> Bytes {
        self.sent += 1;
        format!("plantbridge doctor {:016x}-{}", self.seed, self.sent).into()
    }

    /// Publishes, and waits until it is acknowledged, and here if it is to be; or refused.
    pub(super) async fn send(
        &mut self,
        topic: &str,
        word: Bytes,
        retain: bool,
        comes: bool,
    ) -> Result<Sent, DownReason> {
        let expiry = (!word.is_empty()).then_some(EXPIRY);
        let properties = PublishProperties { message_expiry_interval: expiry, ..PublishProperties::default() };
        let options = PublishOptions::at_least_once().retain(retain).properties(properties);
        self.client.try_publish(topic, word.clone(), options).map_err(|error| full(&error))?;
        let mut sent = Sent::default();
        let until = Instant::now() + self.patience.min(ARRIVES);
        while sent.acknowledged.is_none() || (comes && !sent.heard) {
            match self.next(until).await? {
                Some(Event::Incoming(Packet::PubAck(ack))) => sent.acknowledged = Some(ack.reason),
                Some(Event::Incoming(Packet::Publish(publish))) => {
                    sent.heard |= *publish.topic == *topic.as_bytes() && publish.payload == word;
                }
                Some(_) => {}
                None => break,
            }
            if sent.is_refused().is_some() {
                break;
            }
        }
        Ok(sent)
    }

    /// Waits for something the broker had kept.
    pub(super) async fn kept(&mut self, filter: &str, word: &Bytes) -> Result<bool, DownReason> {
        self.client.try_subscribe(filter, QoS::AtMostOnce).map_err(|error| full(&error))?;
        let until = Instant::now() + self.patience.min(ARRIVES);
        loop {
            match self.next(until).await? {
                Some(Event::Incoming(Packet::Publish(publish))) if publish.retain && publish.payload == *word => {
                    return Ok(true);
                }
                Some(_) => {}
                None => return Ok(false),
            }
        }
    }

    /// Leaves; what was subscribed to goes with the session.
    pub(super) async fn goodbye(mut self) {
        let said = async {
            if self.client.try_disconnect_now().is_err() {
                return;
            }
            while let Ok(event) = self.network.poll().await {
                if matches!(event, Event::Outgoing(Outgoing::Disconnect)) {
                    return;
                }
            }
        };
        let _ = timeout(CLOSING, said).await;
        drop(self.network);
        if let Some(stream) = self.parted.take() {
            socket::part(stream, CLOSING).await;
        }
    }
}

fn greeting(ack: &ConnAck) -> Greeting {
    let said = ack.properties.clone();
    let allows = |flag: Option<u8>| flag != Some(0);
    match said {
        None => Greeting { retains: true, wildcards: true, shares: true, ..Greeting::default() },
        Some(said) => Greeting {
            max_packet: said.max_packet_size,
            receive_max: said.receive_max,
            max_qos: said.max_qos,
            retains: allows(said.retain_available),
            wildcards: allows(said.wildcard_subscription_available),
            shares: allows(said.shared_subscription_available),
            keep_alive: said.server_keep_alive,
            session: said.session_expiry_interval,
        },
    }
}

fn full(error: &ClientError) -> DownReason {
    down(DownKind::Lost, error.to_string())
}

/// How long a message to ourselves is waited for at most.
const ARRIVES: Duration = Duration::from_secs(1);
/// How many seconds a broker may keep what was tried.
const EXPIRY: u32 = 10;
/// How long each step of closing may take: the DISCONNECT, the broker's close.
const CLOSING: Duration = Duration::from_millis(330);
/// How much longer than the client library a greeting is waited for.
const SPARE: Duration = Duration::from_millis(500);
/// Room in the client library: one question at a time.
const REQUESTS: usize = 8;
