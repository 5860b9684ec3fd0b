//! How far one comes with a hub: the way there, its opening, its acceptance. Nothing is announced: a hub gives a name to
//! whoever used it last, and this is not to take anybody's.

use std::time::Duration;

use tokio::time::timeout;

use super::connection::FAREWELL;
use super::{Config, joining};
use crate::link::reach::{Reach, reach};
use crate::link::tls::Tls;
use crate::link::{DownReason, socket};

/// What was found at a hub.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// How far one comes on the way there.
    pub reach: Reach,
    /// What it said when it let us in, or why it did not.
    pub greeting: Result<Greeting, DownReason>,
}

/// What a hub says when it opens and lets somebody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The largest message it takes, in bytes.
    pub max_payload: usize,
    /// How long it may be silent.
    pub silence: Duration,
}

/// Looks at the hub of this link, each step within `patience`.
pub async fn inspect(config: &Config, patience: Duration) -> Inspection {
    let config = Config { connect_timeout: patience, ..config.clone() };
    let mut tls = config.tls.clone().filter(|_| config.hub.is_tls());
    let loaded = if config.hub.is_tls() && tls.is_none() { Tls::of_the_system().await.map(Some) } else { Ok(None) };
    let host = config.hub.host();
    match loaded {
        Ok(loaded) => tls = tls.or(loaded),
        Err(reason) => {
            let reach = reach(host, config.hub.port(), None, patience).await;
            return Inspection { reach, greeting: Err(reason) };
        }
    }
    let reach = reach(host, config.hub.port(), tls.as_ref().map(|tls| (tls, host)), patience).await;
    let parted = socket::Parted::default();
    let joined = joining::join(&config, &mut tls, parted.clone()).await;
    let greeting = match joined {
        Ok((socket, opening)) => {
            let _ = timeout(FAREWELL, socket.close()).await;
            if let Some(stream) = parted.take() {
                socket::part(stream, FAREWELL).await;
            }
            Ok(Greeting { max_payload: opening.max_payload, silence: opening.silence })
        }
        Err(reason) => Err(reason),
    };
    Inspection { reach, greeting }
}
