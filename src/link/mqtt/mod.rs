//! The MQTT 5 link: one task that keeps one connection to a broker, and joins the network anew on each.
//!
//! **One event loop per connection.** The client library re-sends what it holds after a reconnect and never subscribes
//! again, so a connection that ends takes its event loop, and everything queued in it, along. Clean start, session
//! expiry 0: the broker keeps nothing for us either. Nothing is sent later than it was asked for (W-081).
//!
//! **One task.** It polls the event loop and takes [`Outbound`] between polls; a message costs no hop between tasks. The
//! future of a poll is kept across commands and never cancelled while the connection lives.
//!
//! **Who waits for whom.** While the receiver of [`LinkEvent`] is behind, the task waits for it: it reads neither the
//! socket nor [`Outbound`]. Whoever owns the two must therefore never wait for room in `outbound` (a full queue is a
//! refusal) and never stop receiving before [`LinkEvent::Closed`]. Then nobody waits in a circle, and nothing is dropped.
//!
//! **The tap** ([`Tap`]) is another connection in another task; the two share settings and nothing else.
//!
//! **Looking first** ([`Config::looks`]). Before the first connection another one, of no name, sees whether somebody goes by
//! ours; while somebody does, we stay away. So it is after we were displaced, whoever chose our name; and after any other end of
//! a connection for whoever announces another shape than we do: a broker may throw us off without saying why.
//!
//! **What is below** (`connect`): the socket, TLS where the address wants it, and a WebSocket where it says so. The client
//! library is given the finished stream and knows of none of them.
//!
//! **The end.** [`Outbound::Leave`], or dropping the sender, leaves in order. Dropping the receiver cuts the connection,
//! and the broker tells the others. Either way the event channel ends when the task does, and the socket with it.

mod connect;
mod connection;
mod greeting;
pub mod inspect;
mod ledger;
mod look;
mod options;
mod run;
mod signing;
mod tap;
mod trouble;
mod url;
mod websocket;

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::authority::Fault;
use super::{Link, LinkEvent, LinkId, Outbound};
use crate::wire::Topics;

pub use super::holder::LEFTOVER;
pub use super::tls::{Tls, TlsFiles};
pub use super::trust::{Digest, Trust};
pub use signing::Signing;
pub use tap::{Dropped, Tap, Tapped, Watcher};
pub use url::BrokerUrl;

pub use crate::wire::signing::Secret;

/// Joins the network behind a broker and stays joined until told to leave. Must be called inside a tokio runtime.
pub fn start(config: Config, id: LinkId) -> Link {
    let (outbound, commands) = mpsc::channel::<Outbound>(config.queue.max(1));
    let (reports, events) = mpsc::channel::<LinkEvent>(config.queue.max(1));
    tokio::spawn(run::run(run::seat(config, commands, reports)));
    Link { id, outbound, events }
}

/// How to join.
#[derive(Clone, Debug)]
pub struct Config {
    /// The broker.
    pub broker: BrokerUrl,
    /// Prefix and own name, as topics. The client id is `msgrpc-<name>` (W-033).
    pub topics: Topics,
    /// The account at the broker.
    pub credentials: Option<Credentials>,
    /// How frames are signed and believed. Absent: neither.
    pub signing: Option<Signing>,
    /// Certificates for `mqtts` and `wss`. Absent: the roots of the system and no client certificate.
    pub tls: Option<Tls>,
    /// The name the broker's certificate has to be for, where that is not the host of its address.
    pub server_name: Option<String>,
    /// Whether to take requests, that is to subscribe to `req/<me>`. A pure caller does not.
    pub requests: bool,
    /// Whether to be seen: presence and a will (W-032, W-034). Only a [`Tap`] stays unseen.
    pub announce: bool,
    /// How long the link may be silent before it is probed; whole seconds.
    pub keep_alive: Duration,
    /// How long a connection attempt may take: name, socket, TLS and CONNACK together, then again for subscribing.
    pub connect_timeout: Duration,
    /// The pause before the first retry.
    pub backoff_min: Duration,
    /// The pause that retries grow to.
    pub backoff_max: Duration,
    /// How long the first sweep of presence may take. It ends then even if presence never falls silent: one peer that keeps
    /// coming and going must not keep everybody waiting.
    pub sweep: Duration,
    /// The largest packet taken, in bytes; the broker is told. Also the bound for sending where the broker names none.
    pub max_packet: u32,
    /// How many commands and how many events may wait in the two channels.
    pub queue: usize,
    /// How many messages may be unacknowledged, if the broker takes as many; room for them is kept.
    pub window: u16,
    /// What is subscribed to besides requests.
    pub hears: Hears,
    /// Says when a connection may be attempted; absent: whenever. One that is there already stays. A sender that is gone
    /// has forbidden it for good.
    pub gate: Option<watch::Receiver<bool>>,
    /// Whether to look, before each connection, if somebody goes by our name already, and not to throw them off the
    /// broker. For a name that somebody chose; one that was made up is nobody else's.
    pub looks: bool,
    /// Whether the name is left to whoever else connects under it: the link then ends instead of taking it back.
    pub yields: bool,
}

/// What a link subscribes to besides requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hears {
    /// Answers, events and presence: everything a caller needs.
    All,
    /// Nothing: for a peer that is only called, and learns from elsewhere who is there. Its sweep is over at once.
    Nothing,
}

impl Config {
    /// The usual settings for `broker` under `topics`: seen, taking requests, without account or certificates.
    pub const fn new(broker: BrokerUrl, topics: Topics) -> Self {
        Self {
            broker,
            topics,
            credentials: None,
            signing: None,
            tls: None,
            server_name: None,
            requests: true,
            announce: true,
            keep_alive: Duration::from_mins(1),
            connect_timeout: Duration::from_secs(10),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            sweep: Duration::from_secs(5),
            max_packet: 32 * 1024 * 1024,
            queue: 1024,
            window: 256,
            hears: Hears::All,
            gate: None,
            looks: false,
            yields: false,
        }
    }
}

/// An account at a broker.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user name.
    pub username: String,
    /// The password; some brokers want none.
    pub password: Option<Secret>,
}

/// What is wrong with the settings of a link. No text of a refused URL is in it: a password may stand there.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A scheme that is not spoken.
    #[error("a broker URL begins with mqtt://, tcp://, mqtts://, tls://, ssl://, ws:// or wss://")]
    Scheme,
    /// A path of a WebSocket that is none.
    #[error(
        "a WebSocket address ends with a plain path: ASCII, no spaces, no `?` and no `#`, for tokens are kept out of it"
    )]
    WebPath,
    /// A user or password in the URL.
    #[error("a broker URL carries no user and no password: process listings are public; use the environment")]
    UserInfo,
    /// No host, or one that cannot be a host.
    #[error("the broker URL names no usable host; an IPv6 address goes in brackets")]
    Host,
    /// A port that is none.
    #[error("the port of the broker URL is not a number from 1 to 65535")]
    Port,
    /// Something after the port.
    #[error("a broker URL ends after the port; the topic prefix is a setting of its own")]
    Path,
}

impl From<Fault> for ConfigError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::UserInfo => Self::UserInfo,
            Fault::Host => Self::Host,
            Fault::Port => Self::Port,
            Fault::Path => Self::Path,
        }
    }
}
