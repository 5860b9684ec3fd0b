//! One connection: from CONNECT to its end. Here is the loop, and what the network says; [`joining`] and [`sending`] are
//! the rest.
//!
//! Joining is a sequence: CONNACK, one SUBSCRIBE after another (W-031), retained `online` (W-034), then
//! [`LinkEvent::Up`]. What arrives meanwhile is held back: the roster is void as of `Up`, so presence told before it would
//! be lost, and a request could not be answered yet. The hold is bounded; beyond it the connection is given up.

mod joining;
mod sending;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use rumqttc::{AsyncClient, ConnectionError, Event, EventLoop, Outgoing, Packet, PubAck, PubAckReason, Publish};
use tokio::select;
use tokio::time::{Instant, Sleep, sleep_until};

use super::ledger::Ledger;
use super::signing::Guard;
use super::trouble::{self, Stage};
use super::{Config, Tls, options};
use crate::link::seat::{End, Seat, down};
use crate::link::{DownKind, DownReason, LinkEvent, Rejection, socket};
use crate::wire;

/// Connects, joins and serves until the end.
pub(super) async fn serve(seat: &mut Seat<Config, Guard>, tls: Option<&Tls>) -> End {
    let parted = socket::Parted::default();
    let client_id = format!("msgrpc-{}", seat.config.topics.me());
    let options = options::options(&seat.config, &client_id, tls, parted.clone());
    let (client, mut network) = AsyncClient::builder(options).capacity(usize::from(seat.config.window) + SPARE).build();
    // Room for 128 events is kept otherwise, some 50 KiB a connection; what is needed grows by itself.
    network.state.events.shrink_to(0);
    let end = Connection::new(seat, client).run(&mut network).await;
    drop(network);
    if let (End::Left, Some(stream)) = (&end, parted.take()) {
        socket::part(stream, FAREWELL).await;
    }
    end
}

/// One connection.
struct Connection<'a> {
    seat: &'a mut Seat<Config, Guard>,
    client: AsyncClient,
    phase: Phase,
    ledger: Ledger,
    /// The largest packet the broker takes.
    limit: usize,
    /// What arrived while joining, and how large it is.
    held: Vec<Publish>,
    held_bytes: usize,
    /// Whether [`Seat::shape`] is still to be announced.
    unannounced: bool,
}

/// Where a connection stands.
#[derive(Debug)]
enum Phase {
    /// Waiting for CONNACK; the client library bounds it.
    Connecting,
    /// Waiting for the acknowledgement of subscription number `step`.
    Joining { step: usize, until: Instant },
    /// On the network. `settles`: when the first sweep of presence counts as complete.
    Up { since: Instant, settles: Option<Instant> },
    /// Saying farewell. `said`: whether the DISCONNECT is on its way.
    Leaving { until: Instant, said: bool },
}

impl<'a> Connection<'a> {
    fn new(seat: &'a mut Seat<Config, Guard>, client: AsyncClient) -> Self {
        let (limit, window) = (seat.config.max_packet as usize, seat.config.window);
        Self {
            seat,
            client,
            phase: Phase::Connecting,
            ledger: Ledger::new(window),
            limit,
            held: Vec::new(),
            held_bytes: 0,
            unannounced: false,
        }
    }

    /// Serves until the end.
    async fn run(&mut self, network: &mut EventLoop) -> End {
        let events = self.seat.events.clone();
        let mut gone = pin!(events.closed());
        let mut timer = pin!(sleep_until(Instant::now()));
        loop {
            let step = match self.next(network, timer.as_mut(), gone.as_mut()).await {
                Ok(event) => self.arrived(event).await,
                Err(end) => Err(end),
            };
            if let Err(end) = step {
                return self.ended(end).await;
            }
        }
    }

    /// What the network says next; until then commands are taken and the clock is kept. The future of a poll lives until it is
    /// ready: dropping it half-way could lose an acknowledgement inside the client library.
    async fn next(
        &mut self,
        network: &mut EventLoop,
        mut timer: Pin<&mut Sleep>,
        mut gone: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Event, End> {
        let mut poll = pin!(network.poll());
        let arrived = loop {
            let due = self.due();
            if let Some(due) = due.filter(|due| *due != timer.deadline()) {
                timer.as_mut().reset(due);
            }
            select! {
                arrived = poll.as_mut() => break arrived,
                command = self.seat.commands.recv(), if !self.is_leaving() => self.commands(command).await?,
                () = timer.as_mut(), if due.is_some() => match once(poll.as_mut()).await {
                    // What has already arrived counts before the clock does.
                    Poll::Ready(arrived) => break arrived,
                    Poll::Pending => self.overdue().await?,
                },
                () = gone.as_mut() => return Err(End::Abandoned),
            }
        };
        arrived.map_err(|error| self.failed(&error))
    }

    async fn arrived(&mut self, event: Event) -> Result<(), End> {
        match event {
            Event::Incoming(Packet::Publish(publish)) => match self.phase {
                Phase::Up { .. } => self.deliver(publish).await,
                Phase::Connecting | Phase::Joining { .. } => self.hold(publish),
                // Asked to leave: nobody waits for anything any more.
                Phase::Leaving { .. } => Ok(()),
            },
            Event::Incoming(Packet::PubAck(ack)) => self.acknowledged(&ack).await,
            Event::Incoming(Packet::ConnAck(ack)) => self.connected(&ack),
            // Aside: joining is large and happens once, and there may be many links.
            Event::Incoming(Packet::SubAck(ack)) => Box::pin(self.subscribed(&ack)).await,
            Event::Outgoing(Outgoing::Publish(packet)) => {
                self.ledger.written(packet);
                Ok(())
            }
            Event::Outgoing(Outgoing::Disconnect) if self.is_leaving() => Err(End::Left),
            _ => Ok(()),
        }
    }

    /// Reports what arrived. The payload moves; only the topic is copied.
    async fn deliver(&mut self, publish: Publish) -> Result<(), End> {
        let Some(publish) = inbound(publish) else {
            return self.seat.tell(LinkEvent::Refused("a topic that is not UTF-8".into())).await;
        };
        let topics = &self.seat.config.topics;
        let presence = topics.presence_filter().trim_end_matches('+');
        let event = if publish.topic.starts_with(presence) {
            wire::mqtt::presence(&publish.topic, &publish.payload, &publish.user_properties, topics).map(Into::into)
        } else {
            Some(self.seat.guard.read(publish, topics))
        };
        let was_frame = matches!(event, Some(LinkEvent::Frame(_) | LinkEvent::Verified(_) | LinkEvent::Refused(_)));
        if let Some(event) = event {
            self.seat.tell(event).await?;
        }
        if let (false, Phase::Up { since, settles: Some(settles) }) = (was_frame, &mut self.phase) {
            *settles = (Instant::now() + QUIET).min(*since + self.seat.config.sweep);
        }
        Ok(())
    }

    async fn acknowledged(&mut self, ack: &PubAck) -> Result<(), End> {
        let frame = self.ledger.acknowledged(ack.pkid);
        let accepted = matches!(ack.reason, PubAckReason::Success | PubAckReason::NoMatchingSubscribers);
        match (frame, accepted) {
            (_, true) => {}
            (Some(id), false) => self.reject(id, Rejection::Refused(format!("{:?}", ack.reason))).await?,
            (None, false) => {
                let text = format!("the broker refused our presence: {:?}", ack.reason);
                self.seat.tell(LinkEvent::Refused(text)).await?;
            }
        }
        if let Phase::Leaving { said: false, .. } = self.phase {
            if self.ledger.is_settled() {
                self.disconnect();
            }
            return Ok(());
        }
        while let Some(next) = self.ledger.next() {
            if let Err(why) = self.hand_over(next.id, next.publish, next.claim.as_ref()) {
                self.reject(next.id, why).await?;
            }
        }
        if self.unannounced {
            self.announce();
        }
        Ok(())
    }

    /// The next moment at which something is due.
    fn due(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Connecting => None,
            Phase::Joining { until, .. } | Phase::Leaving { until, .. } => Some(*until),
            Phase::Up { settles, .. } => *settles,
        };
        match (phase, self.ledger.deadline()) {
            (Some(phase), Some(ledger)) => Some(phase.min(ledger)),
            (phase, ledger) => phase.or(ledger),
        }
    }

    async fn overdue(&mut self) -> Result<(), End> {
        let now = Instant::now();
        while let Some(id) = self.ledger.expired(now) {
            self.reject(id, Rejection::Full).await?;
        }
        match &mut self.phase {
            Phase::Joining { until, .. } if *until <= now => {
                let text = "the broker did not acknowledge a subscription in time";
                Err(self.broken(down(DownKind::Unreachable, text)))
            }
            Phase::Up { settles, .. } if settles.is_some_and(|settles| settles <= now) => {
                *settles = None;
                self.seat.tell(LinkEvent::Settled).await
            }
            Phase::Leaving { until, said: true } if *until <= now => Err(End::Left),
            Phase::Leaving { until, said: false } if *until <= now => {
                self.disconnect();
                Ok(())
            }
            Phase::Connecting | Phase::Joining { .. } | Phase::Up { .. } | Phase::Leaving { .. } => Ok(()),
        }
    }

    fn failed(&self, error: &ConnectionError) -> End {
        let stage = if matches!(self.phase, Phase::Connecting) { Stage::Connecting } else { Stage::Connected };
        if self.is_leaving() { End::Left } else { self.broken(trouble::reason(error, stage)) }
    }

    fn broken(&self, reason: DownReason) -> End {
        let up_for = match &self.phase {
            Phase::Up { since, .. } => Some(since.elapsed()),
            Phase::Connecting | Phase::Joining { .. } | Phase::Leaving { .. } => None,
        };
        End::Broken { reason, up_for }
    }

    /// Rejects what still waits: of that, certainly nothing was written.
    async fn ended(&mut self, end: End) -> End {
        for id in self.ledger.abandon().collect::<Vec<_>>() {
            if let Err(end) = self.reject(id, Rejection::Down).await {
                return end;
            }
        }
        end
    }

    async fn reject(&self, id: u64, why: Rejection) -> Result<(), End> {
        self.seat.tell(LinkEvent::Rejected { id, why }).await
    }

    const fn is_leaving(&self) -> bool {
        matches!(self.phase, Phase::Leaving { .. })
    }
}

impl From<wire::mqtt::Presence> for LinkEvent {
    fn from(presence: wire::mqtt::Presence) -> Self {
        match presence {
            wire::mqtt::Presence::Online { peer, shape } => Self::Online { peer, shape },
            wire::mqtt::Presence::Offline(peer) => Self::Offline(peer),
        }
    }
}

/// A packet of the client library as ours; `None` if its topic is no text.
pub(super) fn inbound(packet: Publish) -> Option<wire::mqtt::Publish> {
    let properties = packet.properties.unwrap_or_default();
    Some(wire::mqtt::Publish {
        topic: String::from_utf8(packet.topic.into()).ok()?,
        payload: packet.payload,
        payload_format: properties.payload_format_indicator,
        content_type: properties.content_type,
        correlation: properties.correlation_data,
        response_topic: properties.response_topic,
        expiry: properties.message_expiry_interval,
        user_properties: properties.user_properties,
    })
}

/// Polls a future once, without waiting.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// The silence of presence that ends the first sweep (W-042).
const QUIET: Duration = Duration::from_millis(250);
/// How long each step of a farewell may take: the acknowledgements, the DISCONNECT, the broker's close.
const FAREWELL: Duration = Duration::from_millis(330);
/// Room in the client library for presence, beside the frames.
const SPARE: usize = 16;
