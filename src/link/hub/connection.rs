//! One connection, from our announcement to its end: the loop, and what the hub says. [`sending`](super::sending) is the
//! rest.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use tokio::select;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use super::Config;
use super::run::Alarms;
use super::socket::{Socket, Turn};
use super::trouble::{self, Stage};
use crate::link::seat::{End, Seat, down};
use crate::link::{DownKind, DownReason, LinkEvent};
use crate::wire::flat::{self, Arrived, Known, MAX_BATCH, Presence};
use crate::wire::socketio::{Assembler, Engine, Got, Kind, Opening, Packet, PacketError};
use crate::wire::{Frame, Value};

/// One connection that the hub let in.
pub(super) struct Connection<'a> {
    pub(super) seat: &'a mut Seat<Config, Alarms>,
    pub(super) socket: Socket,
    pub(super) opening: Opening,
    assembler: Assembler,
    since: Instant,
    /// When the hub was last heard of.
    heard: Instant,
    /// Until when the hub may say who is there; none once it has.
    settles: Option<Instant>,
    /// Until when a farewell may take.
    pub(super) leaving: Option<Instant>,
    /// Refusals of batches that were too large, yet to be written.
    pub(super) owed: VecDeque<Frame>,
    /// Frames of the older layout.
    legacy: u64,
    /// Whether it was said that somebody else goes by our name.
    rivalled: bool,
}

impl<'a> Connection<'a> {
    pub(super) fn new(seat: &'a mut Seat<Config, Alarms>, socket: Socket, opening: Opening) -> Self {
        let now = Instant::now();
        let assembler = Assembler::new(seat.config.max_message);
        Self {
            settles: Some(now + seat.config.sweep),
            seat,
            socket,
            opening,
            assembler,
            since: now,
            heard: now,
            leaving: None,
            owed: VecDeque::new(),
            legacy: 0,
            rivalled: false,
        }
    }

    /// Announces us and serves until the end.
    pub(super) async fn run(mut self) -> End {
        let step = match self.announce() {
            Ok(()) => self.seat.tell(LinkEvent::Up).await,
            Err(end) => Err(end),
        };
        let end = match step {
            Ok(()) => self.serve().await,
            Err(end) => end,
        };
        if self.legacy > 0 {
            tracing::info!(count = self.legacy, "frames of the older layout were ignored on this connection");
        }
        end
    }

    async fn serve(&mut self) -> End {
        let events = self.seat.events.clone();
        let mut gone = pin!(events.closed());
        let mut timer = pin!(sleep_until(self.due()));
        loop {
            if let Err(end) = self.pay() {
                return end;
            }
            let due = self.due();
            if due != timer.deadline() {
                timer.as_mut().reset(due);
            }
            let takes = self.leaving.is_none() && self.socket.is_flushed();
            let step = select! {
                turn = self.socket.turn() => self.turned(turn).await,
                command = self.seat.commands.recv(), if takes => self.commands(command).await,
                () = timer.as_mut() => match self.socket.now().await {
                    // What has already arrived counts before the clock does.
                    Some(turn) => self.turned(turn).await,
                    None => self.overdue().await,
                },
                () = gone.as_mut() => Err(End::Abandoned),
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    async fn turned(&mut self, turn: Result<Turn, Error>) -> Result<(), End> {
        let message = match turn {
            Ok(Turn::Flushed) => return Ok(()),
            Ok(Turn::Message(message)) => message,
            Ok(Turn::Ended) => return Err(self.ended(trouble::closed(None, Stage::Joined))),
            Err(error) => return Err(self.failed(&error)),
        };
        self.heard = Instant::now();
        match message {
            Message::Text(text) => self.text(&text).await,
            Message::Binary(bytes) => self.binary(bytes).await,
            Message::Close(close) => Err(self.ended(trouble::closed(close.as_ref(), Stage::Joined))),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(()),
        }
    }

    async fn text(&mut self, text: &str) -> Result<(), End> {
        match Engine::parse(text) {
            Ok(Engine::Message(_)) => {
                let mut got = self.assembler.text(text);
                if got == Err(PacketError::Interrupted) {
                    self.refuse(PacketError::Interrupted.to_string()).await?;
                    got = self.assembler.text(text);
                }
                self.got(got).await
            }
            Ok(Engine::Ping(said)) => {
                let pong = Engine::Pong(said).write();
                self.socket.feed_text(pong).map_err(|error| self.failed(&error))
            }
            Ok(Engine::Close) => Err(self.ended(down(DownKind::Lost, "the hub ended the session"))),
            Ok(Engine::Pong(_) | Engine::Noop | Engine::Upgrade) => Ok(()),
            Ok(Engine::Open(_)) => self.refuse("the hub opened a second time").await,
            Err(error) => self.refuse(error.to_string()).await,
        }
    }

    async fn binary(&mut self, bytes: Bytes) -> Result<(), End> {
        let got = self.assembler.binary(bytes);
        self.got(got).await
    }

    async fn got(&mut self, got: Result<Option<Got>, PacketError>) -> Result<(), End> {
        match got {
            // Asked to leave: nobody waits for anything any more.
            Ok(Some(_)) if self.leaving.is_some() => Ok(()),
            Ok(None) => Ok(()),
            Ok(Some(Got::Frame(bytes))) => self.frame(&bytes).await,
            Ok(Some(Got::Packet(packet))) => self.packet(packet).await,
            Err(error) => self.refuse(error.to_string()).await,
        }
    }

    /// Reports what one attachment carries.
    async fn frame(&mut self, bytes: &Bytes) -> Result<(), End> {
        let arrived = match flat::decode(bytes) {
            Ok(arrived) => arrived,
            Err(_) if flat::legacy(bytes).is_some() => return self.older(bytes).await,
            Err(error) => return self.refuse(error.to_string()).await,
        };
        let me = &self.seat.config.me;
        if arrived.source == *me {
            // No frame of ours comes back: a hub relays it to others only.
            return self.rival("a frame came that says it is from us").await;
        }
        if arrived.batch && arrived.messages.len() > MAX_BATCH && arrived.target == *me {
            return self.refuse_batch(&arrived).await;
        }
        let Arrived { source, target, messages, .. } = arrived;
        for message in messages {
            let frame = Frame { source: source.clone(), target: target.clone(), message };
            self.seat.tell(LinkEvent::Frame(Box::new(frame))).await?;
        }
        Ok(())
    }

    /// Every request of a batch that is too large is refused by itself, so far as we remember them.
    async fn refuse_batch(&mut self, arrived: &Arrived) -> Result<(), End> {
        let carried = arrived.messages.len();
        let room = MAX_OWED.saturating_sub(self.owed.len());
        let me = &self.seat.config.me;
        let refusals =
            arrived.messages.iter().filter_map(|member| flat::overfull(me, &arrived.source, member, carried));
        self.owed.extend(refusals.take(room));
        let left = carried.saturating_sub(room);
        self.refuse(format!("a batch of {carried} from {:?}; {left} of them go unanswered", arrived.source.as_str()))
            .await
    }

    async fn packet(&mut self, packet: Packet) -> Result<(), End> {
        match packet.kind {
            Kind::Disconnect => return Err(self.ended(down(DownKind::Lost, "the hub sent us away"))),
            Kind::Refusal => {
                return Err(self.ended(down(DownKind::Unauthorized, "the hub took back that it had let us in")));
            }
            Kind::Connect | Kind::Ack => return Ok(()),
            Kind::Event => {}
        }
        let Some((name, arguments)) = packet.into_event() else { return Ok(()) };
        match (name.as_str(), <[Value; 1]>::try_from(arguments)) {
            ("presence", Ok([said])) => match flat::presence(said) {
                Ok(presence) => self.presence(presence).await,
                Err(why) => self.refuse(why).await,
            },
            ("message", Ok([Value::Bytes(bytes)])) => self.older(&bytes).await,
            _ => self.refuse(format!("an event {:?} that is none of ours", clip(&name))).await,
        }
    }

    async fn presence(&mut self, presence: Presence) -> Result<(), End> {
        match presence {
            Presence::Offline(peer) if peer == self.seat.config.me => Ok(()),
            // What we say of ourselves may come back by way of another network that the hub stands on.
            Presence::Online(known) if known.peer == self.seat.config.me && self.says_what_we_say(&known) => Ok(()),
            Presence::Online(known) if known.peer == self.seat.config.me => self.displaced().await,
            Presence::Offline(_) | Presence::Online(_) if !self.seat.config.hears => Ok(()),
            Presence::Offline(peer) => self.seat.tell(LinkEvent::Offline(peer)).await,
            Presence::Online(known) => self.online(known).await,
            Presence::Everybody { .. } if !self.seat.config.hears => self.settled().await,
            Presence::Everybody { hub, peers } => {
                let told = peers.len();
                if let (Some(hub), true) = (hub, self.settles.is_some()) {
                    self.seat.tell(LinkEvent::Hub(hub)).await?;
                }
                for known in peers.into_iter().take(MAX_PEERS) {
                    if known.peer != self.seat.config.me {
                        self.online(known).await?;
                    }
                }
                if told > MAX_PEERS {
                    self.refuse(format!("a list of {told} peers; only {MAX_PEERS} are kept")).await?;
                }
                self.settled().await
            }
        }
    }

    async fn settled(&mut self) -> Result<(), End> {
        if self.settles.take().is_some() { self.seat.tell(LinkEvent::Settled).await } else { Ok(()) }
    }

    async fn online(&mut self, known: Known) -> Result<(), End> {
        self.seat.tell(LinkEvent::Online { peer: known.peer, shape: known.shape }).await
    }

    /// A frame of the older layout: counted, and said now and then (W-130).
    async fn older(&mut self, bytes: &Bytes) -> Result<(), End> {
        self.legacy += 1;
        if !self.legacy.is_power_of_two() {
            return Ok(());
        }
        let from =
            flat::legacy(bytes).map_or_else(|| "nobody".to_owned(), |header| format!("{:?}", header.source.as_str()));
        self.refuse(format!("a frame of the older layout from {from}, number {} on this connection", self.legacy)).await
    }

    /// Whether somebody under our name announces the very surface that we do. Only a peer that would leave its name to
    /// others needs to know whether they are others.
    fn says_what_we_say(&self, known: &Known) -> bool {
        self.seat.config.yields && known.shape.is_some() && known.shape == self.seat.shape
    }

    /// Somebody came under our name: what is for us goes there from now on. A hub that says so of ourselves is not believed
    /// for ever.
    async fn displaced(&mut self) -> Result<(), End> {
        let sign = "the hub says that we came";
        if !self.seat.config.yields && !self.seat.guard.raise() {
            return self.rival(sign).await;
        }
        Err(self.ended(down(DownKind::Displaced, format!("{sign}: another peer goes by our name now"))))
    }

    /// Somebody else may go by our name; anybody can write that into a frame, so that it is said and no more.
    async fn rival(&mut self, sign: &'static str) -> Result<(), End> {
        if !std::mem::replace(&mut self.rivalled, true) {
            tracing::warn!("{sign}: another peer seems to go by our name on this hub, which then gets what is for us");
        }
        self.refuse(sign).await
    }

    async fn refuse(&mut self, why: impl Into<String>) -> Result<(), End> {
        let event = LinkEvent::Refused(why.into());
        self.seat.tell(event).await
    }

    /// The next moment at which something is due.
    fn due(&self) -> Instant {
        let silence = self.heard + self.opening.silence;
        [self.settles, self.leaving].into_iter().flatten().fold(silence, Instant::min)
    }

    async fn overdue(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if self.leaving.is_some_and(|until| until <= now) {
            return Err(End::Left);
        }
        if self.heard + self.opening.silence <= now {
            let text = format!("the hub was silent for {} ms", self.opening.silence.as_millis());
            return Err(self.ended(down(DownKind::Lost, text)));
        }
        if self.settles.is_some_and(|until| until <= now) {
            self.settles = None;
            self.refuse("the hub does not say who is there; does the token belong to another name?").await?;
            return self.seat.tell(LinkEvent::Settled).await;
        }
        Ok(())
    }

    pub(super) fn failed(&self, error: &Error) -> End {
        self.ended(trouble::reason(error, Stage::Joined))
    }

    fn ended(&self, reason: DownReason) -> End {
        match self.leaving {
            Some(_) => End::Left,
            None => End::Broken { reason, up_for: Some(self.since.elapsed()) },
        }
    }
}

fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}

/// How long each step of a farewell may take: what is to be written, the hub's close.
pub(super) const FAREWELL: Duration = Duration::from_millis(330);
/// How many peers of one list are told: as many as a roster holds.
const MAX_PEERS: usize = 10_000;
/// How many refusals may wait to be written.
const MAX_OWED: usize = 32_768;
