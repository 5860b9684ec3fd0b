//! The hub link: one task that keeps one WebSocket to a Socket.IO hub, and joins the network anew on each.
//!
//! **Joining** is straight code (`joining`): socket, TLS, WebSocket, the hub's opening, our credentials. Only then is
//! there a connection (`connection`): we announce ourselves, the link is up, and the hub's list of who is there rebuilds
//! the roster. [`LinkEvent::Settled`] is that list, or the end of our patience with a hub that gives none.
//!
//! **What left.** A frame is encoded and measured first; then its claim is taken and it goes into the socket's buffer.
//! Nothing further is taken before that buffer is empty, so that what waits for a slow hub waits where its sender can
//! still withdraw it (W-081). A connection that ends takes its buffer along: nothing is sent on the next one.
//!
//! **What we present** ([`Passport`]) is one token for all connections, or one minted for each.
//!
//! **Looking first** ([`Config::looks`]). A hub gives a name to whoever announced it last. So before we announce ourselves
//! another connection, of no name, sees whether somebody goes by ours; while somebody does, we stay away. A hub that says
//! that we came, when we did not, tells that somebody else did: what is for us goes there, so the connection is ended, and
//! the next one begins with a look.
//!
//! **Who waits for whom** is as in [`mqtt`](super::mqtt): a receiver of [`LinkEvent`] that is behind stops the reading.

mod connection;
mod credential;
pub mod inspect;
mod joining;
mod look;
mod run;
mod sending;
mod socket;
mod trouble;
mod url;

use std::time::Duration;

use tokio::sync::{mpsc, watch};

use credential::Credential;
pub use credential::Passport;
pub use url::{HubUrl, HubUrlError};

pub use super::holder::LEFTOVER;
use super::tls::Tls;
use super::{Link, LinkEvent, LinkId, Outbound};
use crate::wire::PeerName;
use crate::wire::signing::Secret;

/// Joins the network behind a hub and stays joined until told to leave. Must be called inside a tokio runtime.
pub fn start(config: Config, id: LinkId) -> Link {
    let (outbound, commands) = mpsc::channel::<Outbound>(config.queue.max(1));
    let (reports, events) = mpsc::channel::<LinkEvent>(config.queue.max(1));
    tokio::spawn(run::run(config, commands, reports));
    Link { id, outbound, events }
}

/// How to join.
#[derive(Clone, Debug)]
pub struct Config {
    /// The hub.
    pub hub: HubUrl,
    /// Our name.
    pub me: PeerName,
    /// What we present to a hub that asks who we are.
    pub token: Option<Secret>,
    /// What is minted instead, anew for each connection.
    pub passport: Option<Passport>,
    /// Certificates for `https`. Absent: the roots of the system and no client certificate.
    pub tls: Option<Tls>,
    /// How long a connection attempt may take, from the name to the hub's acceptance.
    pub connect_timeout: Duration,
    /// The pause before the first retry.
    pub backoff_min: Duration,
    /// The pause that retries grow to.
    pub backoff_max: Duration,
    /// How long the hub may take to say who is there.
    pub sweep: Duration,
    /// The largest message taken, in bytes. A hub writes numbers its own way, so that what came in small enough may go out
    /// larger; beyond this the connection is given up.
    pub max_message: usize,
    /// How many commands and how many events may wait in the two channels.
    pub queue: usize,
    /// Whether to say who is there. A peer beside another one of this process learns that from it.
    pub hears: bool,
    /// Says when a connection may be attempted; absent: whenever. One that is there already stays. A sender that is gone
    /// has forbidden it for good.
    pub gate: Option<watch::Receiver<bool>>,
    /// Whether the name is left to whoever else announces itself under it: the link then ends instead of taking it back.
    pub yields: bool,
    /// Whether to look, before each connection, if somebody goes by our name already, and not to take it. For a name that
    /// somebody chose; one that was made up is nobody else's.
    pub looks: bool,
    /// Whether we are on a broker too, so that a peer on both may carry our name to the hub: there it has no shape then.
    pub carried: bool,
}

impl Config {
    /// The usual settings for `hub` as `me`: without token or certificates.
    pub const fn new(hub: HubUrl, me: PeerName) -> Self {
        Self {
            hub,
            me,
            token: None,
            passport: None,
            tls: None,
            connect_timeout: Duration::from_secs(10),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            sweep: Duration::from_secs(2),
            max_message: 4 * 1024 * 1024,
            queue: 1024,
            hears: true,
            gate: None,
            yields: false,
            looks: false,
            carried: false,
        }
    }
}
