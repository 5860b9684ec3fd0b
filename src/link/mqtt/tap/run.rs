//! The connection of a tap, and the next one when it is lost.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rumqttc::{AsyncClient, Event, EventLoop, Outgoing, Packet, Publish, QoS, SubscribeReasonCode};
use tokio::select;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Shared, Tapped};
use crate::link::backoff::{self, Backoff};
use crate::link::mqtt::connection::inbound;
use crate::link::mqtt::trouble::{self, Stage};
use crate::link::mqtt::{Tls, options, run};
use crate::link::seat::down;
use crate::link::{DownKind, DownReason, now_ms, socket};

/// How long each step of closing may take: the DISCONNECT, the broker's close.
const CLOSING: Duration = Duration::from_millis(330);
/// Room in the client library for what a tap sends: one SUBSCRIBE, one DISCONNECT.
const REQUESTS: usize = 8;
/// After how many messages others on this thread get their turn, however many more are there.
const TURN: u32 = 128;

/// Keeps a connection until it is stopped.
pub(super) async fn run(shared: Arc<Shared>, number: u64, stop: CancellationToken) {
    let config = &shared.config;
    // Random, so that two taps of one configuration neither share a client id nor retry in step.
    let seed = backoff::seed();
    let client_id = format!("msgrpc-{}-tap-{seed:016x}", config.topics.me());
    let mut backoff = Backoff::new(config.backoff_min, config.backoff_max, seed);
    let mut tls = config.tls.clone().filter(|_| config.broker.is_tls());
    let mut told = None;
    loop {
        let loaded = select! {
            loaded = run::certificates(config, &mut tls) => loaded,
            () = stop.cancelled() => return,
        };
        let (reason, up_for) = match loaded {
            Ok(()) => match connect(&shared, number, &client_id, tls.as_ref(), &stop).await {
                Some(broken) => broken,
                None => return,
            },
            Err(reason) => (reason, None),
        };
        let (pause, mut reason) = backoff.after(up_for, reason);
        reason.detail = format!("{}: {}", config.broker, reason.detail);
        if up_for.is_some() || told.as_ref() != Some(&reason) {
            shared.tell(number, &Tapped::Down(reason.clone()));
            told = Some(reason);
        }
        select! {
            () = sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// One connection. `None`: it was stopped, and is closed; else why it ended, and how long it had been up, if it was.
async fn connect(
    shared: &Shared,
    number: u64,
    client_id: &str,
    tls: Option<&Tls>,
    stop: &CancellationToken,
) -> Option<(DownReason, Option<Duration>)> {
    let parted = socket::Parted::default();
    let options = options::options(&shared.config, client_id, tls, parted.clone());
    let (client, mut network) = AsyncClient::builder(options).capacity(REQUESTS).build();
    let mut connection = Connection { shared, number, client, since: None, early: false, stage: Stage::Connecting };
    let end = select! {
        end = connection.listen(&mut network) => Some(end),
        () = stop.cancelled() => None,
    };
    let up_for = connection.since.map(|since| since.elapsed());
    if end.is_none() && connection.stage == Stage::Connected {
        // The poll that was given up may have lost something: nobody listens any more.
        let _ = timeout(CLOSING, connection.disconnect(&mut network)).await;
    }
    drop(network);
    if let (None, Some(stream)) = (&end, parted.take()) {
        socket::part(stream, CLOSING).await;
    }
    end.map(|reason| (reason, up_for))
}

struct Connection<'a> {
    shared: &'a Shared,
    number: u64,
    client: AsyncClient,
    /// Since when everything is heard.
    since: Option<Instant>,
    /// Whether something came before that was said.
    early: bool,
    stage: Stage,
}

impl Connection<'_> {
    /// Hears until the connection ends; says why.
    async fn listen(&mut self, network: &mut EventLoop) -> DownReason {
        let patience = self.shared.config.connect_timeout;
        let mut heard = 0_u32;
        loop {
            let event = if self.stage == Stage::Connected && self.since.is_none() {
                let Ok(event) = timeout(patience, pin!(network.poll())).await else {
                    return down(
                        DownKind::Unreachable,
                        "the broker did not acknowledge the tap's subscription in time",
                    );
                };
                event
            } else {
                network.poll().await
            };
            let step = match event {
                Ok(Event::Incoming(Packet::Publish(publish))) => {
                    self.heard(publish);
                    heard = heard.wrapping_add(1);
                    if heard.is_multiple_of(TURN) {
                        tokio::task::yield_now().await;
                    }
                    Ok(())
                }
                Ok(Event::Incoming(Packet::ConnAck(_))) => self.subscribe(),
                Ok(Event::Incoming(Packet::SubAck(ack))) => self.subscribed(&ack.return_codes),
                Ok(_) => Ok(()),
                Err(error) => Err(trouble::reason(&error, self.stage)),
            };
            if let Err(reason) = step {
                return reason;
            }
        }
    }

    /// QoS 0: a broker bounds what it queues for a subscriber at QoS 1, and drops the rest.
    fn subscribe(&mut self) -> Result<(), DownReason> {
        self.stage = Stage::Connected;
        let filter = self.shared.config.topics.everything();
        self.client.try_subscribe(filter, QoS::AtMostOnce).map_err(|error| down(DownKind::Lost, error.to_string()))
    }

    fn subscribed(&mut self, codes: &[SubscribeReasonCode]) -> Result<(), DownReason> {
        if let Some(code) = codes.iter().find(|code| !matches!(code, SubscribeReasonCode::Success(_))) {
            let filter = self.shared.config.topics.everything();
            let text = format!("the broker refused the subscription to {filter}: {code:?}");
            return Err(down(DownKind::Unauthorized, text));
        }
        self.since = Some(Instant::now());
        self.shared.tell(self.number, &Tapped::Up { proven: self.early });
        Ok(())
    }

    fn heard(&mut self, packet: Publish) {
        self.early |= self.since.is_none();
        let retained = packet.retain;
        let at_ms = now_ms();
        let Some(publish) = inbound(packet) else {
            // No broker lets a topic through that is no text.
            return tracing::debug!("a tap heard a topic that is not UTF-8");
        };
        let (publish, at) = (Arc::new(publish), Instant::now());
        self.shared.tell(self.number, &Tapped::Publish { publish, retained, at, at_ms });
    }

    /// Says goodbye; until it is written, nothing that arrives counts.
    async fn disconnect(&self, network: &mut EventLoop) {
        if self.client.try_disconnect_now().is_err() {
            return;
        }
        while let Ok(event) = network.poll().await {
            if matches!(event, Event::Outgoing(Outgoing::Disconnect)) {
                return;
            }
        }
    }
}
