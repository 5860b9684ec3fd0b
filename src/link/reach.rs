//! How far one comes on the way to an address, step by step: the name, the socket, TLS. For telling what is wrong, not for
//! traffic: nothing is said in what is opened, and it is closed at once.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::certificate;
use super::socket::{self, Lazy, Parted};
use super::tls::{self, Tls};
use super::trust::Digest;

/// What was found. A step after one that failed was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// How many addresses the name has, and how long it took to learn that; or why none was learned.
    pub found: Result<(usize, Duration), String>,
    /// How long the socket took to open.
    pub opened: Option<Result<Duration, String>>,
    /// What TLS came to, where the address wants it.
    pub secured: Option<Result<Secured, String>>,
}

impl Reach {
    /// Whether the whole way is open.
    pub fn is_open(&self) -> bool {
        matches!(self.opened, Some(Ok(_))) && !matches!(self.secured, Some(Err(_)))
    }
}

/// What TLS came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured {
    /// Its version.
    pub version: &'static str,
    /// When the certificate ends, in milliseconds since the Unix epoch, if that can be read.
    pub ends_ms: Option<i64>,
    /// The digest of the certificate, as it would be pinned.
    pub digest: Option<Digest>,
}

/// Goes there, each step within `patience`.
pub(super) async fn reach(host: &str, port: u16, tls: Option<(&Tls, &str)>, patience: Duration) -> Reach {
    let began = Instant::now();
    let found = match timeout(patience, socket::lookup(host, port)).await {
        Ok(Ok(addresses)) if addresses.is_empty() => Err("the name has no address".to_owned()),
        Ok(Ok(addresses)) => Ok((addresses.len(), began.elapsed())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the name was not looked up in time".to_owned()),
    };
    let mut reach = Reach { found, opened: None, secured: None };
    if reach.found.is_err() {
        return reach;
    }
    let began = Instant::now();
    let opening = socket::connect(host, port, patience, Parted::default(), Lazy::default());
    let stream = match timeout(patience, opening).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            reach.opened = Some(Err(error.to_string()));
            return reach;
        }
        Err(_) => {
            reach.opened = Some(Err("no answer in time".to_owned()));
            return reach;
        }
    };
    reach.opened = Some(Ok(began.elapsed()));
    if let Some((tls, name)) = tls {
        reach.secured = Some(match timeout(patience, tls::secure(tls, name, stream)).await {
            Ok(Ok(stream)) => Ok(secured(stream.get_ref().1)),
            Ok(Err(reason)) => Err(reason.detail),
            Err(_) => Err("TLS was not agreed on in time".to_owned()),
        });
    }
    reach
}

fn secured(connection: &tls::ClientConnection) -> Secured {
    let shown = connection.peer_certificates().and_then(|chain| chain.first());
    let version = match connection.protocol_version() {
        Some(tls::ProtocolVersion::TLSv1_3) => "1.3",
        Some(tls::ProtocolVersion::TLSv1_2) => "1.2",
        _ => "unknown",
    };
    Secured { version, ends_ms: shown.and_then(|der| certificate::ends(der)), digest: shown.map(Digest::of) }
}
