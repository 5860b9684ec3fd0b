//! The way to a broker: the socket, TLS on it where the address wants that, and a WebSocket on either where it says so.
//!
//! One piece of code for all four, so that what holds of one holds of all: no delay and quick acknowledgements below, the
//! certificates and names that were configured, our words for what goes wrong.

use std::io;
use std::time::Duration;

use super::greeting::Greeted;
use super::websocket;
use super::{BrokerUrl, Config, Tls};
use crate::link::socket::{self, Below, Lazy, Parted};
use crate::link::{DownReason, tls};

/// Where a connection goes, and how.
#[derive(Clone)]
pub(super) struct Route {
    broker: BrokerUrl,
    /// The name the certificate has to be for.
    named: String,
    tls: Option<Tls>,
    /// How long the names and sockets may take.
    budget: Duration,
    max_packet: u32,
    parted: Parted,
    lazy: Lazy,
}

impl Route {
    pub(super) fn new(config: &Config, tls: Option<&Tls>, parted: Parted, lazy: Lazy) -> Self {
        let named = config.server_name.as_deref().unwrap_or(config.broker.host());
        Self {
            broker: config.broker.clone(),
            named: named.to_owned(),
            tls: tls.filter(|_| config.broker.is_tls()).cloned(),
            budget: config.connect_timeout,
            max_packet: config.max_packet,
            parted,
            lazy,
        }
    }

    /// Goes there. The time it takes is bounded by whoever asks.
    ///
    /// # Errors
    /// Of the socket as they are; of what is on it as [`Stopped`].
    pub(super) async fn connect(self) -> io::Result<Greeted> {
        let stream = socket::connect(self.broker.host(), self.broker.port(), self.budget, self.parted, self.lazy);
        let stream = stream.await?;
        let below: Box<dyn Below> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(tls::secure(tls, &self.named, stream).await.map_err(stopped)?),
        };
        Ok(Greeted::new(match self.broker.path() {
            None => below,
            Some(_) => Box::new(websocket::open(&self.broker, below, self.max_packet).await.map_err(stopped)?),
        }))
    }
}

/// Why there is no connection, in our words, on its way through the client library.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.detail)]
pub(super) struct Stopped(pub(super) DownReason);

pub(super) fn stopped(reason: DownReason) -> io::Error {
    io::Error::other(Stopped(reason))
}
