//! A link is one connection to a network, as two channels: a sender for what leaves and a receiver for what happened.
//! Every transport returns the same [`Link`]; there is no trait, for two transports need no plug-ins.
//!
//! A link knows frames, presence and connections. It knows nothing of calls: what a lost frame means is the node's
//! business. It never sends anything later than it was asked to: what cannot be written now is rejected now.
//!
//! The order of events of one connection: [`LinkEvent::Up`], then what arrived (a link holds back what arrives while it is
//! still joining, so that no presence comes before the `Up` that voids the roster, and no request before it can be
//! answered), [`LinkEvent::Settled`] once, and [`LinkEvent::Down`]. Before the first `Up` there may be a `Down` for every
//! cause that keeps the link from it; the same cause is told once.
//!
//! Whoever holds a link must neither wait for room in `outbound` nor stop receiving `events` before they end: a link whose
//! events nobody takes stops reading. `events` ends when the link's task has ended, which is the way to join it.

mod authority;
mod backoff;
mod certificate;
mod clock;
mod holder;
pub mod hub;
pub mod loopback;
pub mod mqtt;
pub mod reach;
mod seat;
mod socket;
pub mod tls;
pub mod trust;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::mpsc;

pub use clock::now_ms;

use crate::wire::{Frame, PeerName};

/// Names one link of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u8);

impl LinkId {
    /// The link that leads to peers of this very process and to nobody else. It is up whatever becomes of a network, so
    /// that it being up says nothing of one.
    pub const INSIDE: Self = Self(u8::MAX);

    /// Whether it leads to peers of this very process only.
    pub fn is_inside(self) -> bool {
        self == Self::INSIDE
    }
}

/// One connection to a network, kept up for as long as this value lives.
#[derive(Debug)]
pub struct Link {
    /// Which one it is.
    pub id: LinkId,
    /// What is to leave. Bounded; a full queue is a refusal, never a wait.
    pub outbound: mpsc::Sender<Outbound>,
    /// What happened. Bounded; the link stops reading the network while the receiver is behind.
    pub events: mpsc::Receiver<LinkEvent>,
}

/// What a link is asked to do.
#[derive(Debug)]
pub enum Outbound {
    /// Write this frame now, or reject it. `id` is what a rejection names.
    Frame {
        /// The sender's own number for it.
        id: u64,
        /// The frame. Boxed, as in [`LinkEvent::Frame`]: a channel keeps room for many of its largest message, and there may be
        /// many links.
        frame: Box<Frame>,
        /// To be taken immediately before it is written, by a link that is up; if it is taken already, the frame is no
        /// longer wanted and is dropped without a word.
        claim: Option<Claim>,
    },
    /// Announce this surface from now on: at once if the link is up, and after every reconnect.
    Announce {
        /// The shape of what is served, if anything can be.
        shape: Option<String>,
    },
    /// Leave: announce the departure, flush, disconnect. [`LinkEvent::Closed`] follows, and then nothing.
    Leave,
    /// Leave without a word, because somebody else goes by our name: what is announced under it is theirs.
    Yield,
}

/// Decides, once and for all, whether a frame left or was withdrawn: whoever takes it first wins. The link takes it to
/// write the frame, the sender takes it back when the call has failed, so that nothing is sent after its call failed and
/// everything that was never taken certainly did not leave.
#[derive(Clone, Debug, Default)]
pub struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Takes it; true for the first and for nobody else.
    pub fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// What a link reports.
#[derive(Debug)]
pub enum LinkEvent {
    /// Connected, subscribed and announced. What was known of the roster is void: it is rebuilt from presence (W-041).
    Up,
    /// The connection is lost; the link is trying again by itself. What was accepted and not answered is in doubt.
    Down(DownReason),
    /// A frame arrived, addressed to us. Who sent it is what it claims.
    Frame(Box<Frame>),
    /// A frame arrived, addressed to us, and its source was verified.
    Verified(Box<Frame>),
    /// A peer is there, with the shape of its surface if it announces one.
    Online {
        /// Which.
        peer: PeerName,
        /// What it announced; `None` if it announces none.
        shape: Option<String>,
    },
    /// A peer is gone.
    Offline(PeerName),
    /// What is on the other side is a hub that goes by this name (W-106). At most once a connection, before it is settled.
    Hub(PeerName),
    /// The first sweep of presence after this connection is complete (W-042).
    Settled,
    /// Certainly nobody received the frame `id` or will: no byte of it was written, or the broker refused it. Of a frame
    /// whose claim was taken it comes before any `Down`.
    Rejected {
        /// The number given with [`Outbound::Frame`].
        id: u64,
        /// Why.
        why: Rejection,
    },
    /// Something arrived that was refused; nothing was sent about it (W-059). The text is for the log.
    Refused(String),
    /// The link has left the network and ends.
    Closed,
}

/// How sure it is who sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It says so, and nothing vouches for it but what the broker lets through.
    Claimed,
    /// It carries the signature of the key that is listed for its source.
    Verified,
}

/// Why a link is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownReason {
    /// What kind of trouble it is.
    pub kind: DownKind,
    /// The detail, for people; no secret is in it.
    pub detail: String,
}

/// What kind of trouble a link is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownKind {
    /// Not connected yet since the start.
    Joining,
    /// Nobody listens there, or the network is gone.
    Unreachable,
    /// The other side refused who we say we are.
    Unauthorized,
    /// The other side's certificate, or ours, was not accepted.
    Tls,
    /// Somebody else connected under our name.
    Displaced,
    /// Somebody else goes by our name, and we stay away so as not to displace them.
    NameTaken,
    /// The connection was there and ended.
    Lost,
    /// The other side does not speak our protocol.
    Protocol,
}

/// Why a frame certainly reached nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The link is down.
    #[error("the link is down")]
    Down,
    /// Too much is waiting to be written.
    #[error("too much is waiting to be written")]
    Full,
    /// The frame is larger than the other side accepts.
    #[error("the message is {bytes} bytes and the other side accepts {limit}")]
    TooLarge {
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The frame holds something that must not be sent.
    #[error("{0}")]
    Unsendable(String),
    /// The other side took the frame's bytes and said that it will not pass them on.
    #[error("the broker refused the message: {0}")]
    Refused(String),
}
