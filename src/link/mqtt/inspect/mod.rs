//! What a broker is like and what it lets us do, found by trying: for a person who asks what is wrong with a network.
//!
//! Everything is tried on topics of our own name, at which nobody else listens, and only after a look that nobody goes by it.
//! What is sent there expires within seconds. There is no will and no presence, and what is retained is cleared again.

mod probe;
mod rights;
mod trips;

use std::time::Duration;

use tokio::time::Instant;

use super::run::certificates;
use super::{Config, Tls, look};
use crate::link::holder::Look;
use crate::link::reach::{Reach, reach};
use crate::link::{DownKind, DownReason};

use self::probe::Probe;

/// What was found at a broker. What a step before kept from being found is absent.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// How far one comes on the way there.
    pub reach: Reach,
    /// What it said when it let us in, or why it did not.
    pub greeting: Result<Greeting, DownReason>,
    /// Whether somebody else goes by our name.
    pub clash: Option<String>,
    /// What it lets us do.
    pub rights: Vec<Right>,
    /// Whether it keeps what is to be kept, if that could be tried.
    pub keeps: Option<bool>,
    /// How long a message to ourselves takes, if one arrives at all.
    pub trips: Option<Trips>,
    /// What ended the trying early.
    pub broken: Option<DownReason>,
}

/// What a broker says when it lets somebody in. Absent: it names no bound, which means the most there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Greeting {
    /// The largest packet it takes, in bytes.
    pub max_packet: Option<u32>,
    /// How many unacknowledged messages it takes.
    pub receive_max: Option<u16>,
    /// The highest QoS.
    pub max_qos: Option<u8>,
    /// Whether it keeps retained messages.
    pub retains: bool,
    /// Whether filters may hold wildcards.
    pub wildcards: bool,
    /// Whether there are shared subscriptions.
    pub shares: bool,
    /// How long we may be silent, in seconds, where it does not go by what we asked for.
    pub keep_alive: Option<u16>,
    /// How long it keeps a session, in seconds, where it does not go by what we asked for (nothing).
    pub session: Option<u32>,
}

/// Something a peer has to be allowed, and whether it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// The topic or filter.
    pub topic: String,
    /// What with it.
    pub need: Need,
    /// What became of it.
    pub found: Found,
}

/// What a peer does with a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It subscribes to it.
    Subscribe,
    /// It publishes to it.
    Publish,
    /// It publishes to it and hears what is published there.
    Both,
    /// It publishes to it, as to one of many: here to one that nobody has.
    Others,
}

/// What became of trying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is allowed.
    Allowed,
    /// It is refused; in the broker's words.
    Refused(String),
    /// Nobody refused it, and nothing arrived.
    Lost,
    /// It was not answered.
    Unanswered,
}

/// How long messages to ourselves take until they are both acknowledged and here, at the median.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trips {
    /// How many each.
    pub count: usize,
    /// While we acknowledge at once, as we do.
    pub hurried: Duration,
    /// While that is left to the kernel, as ordinary clients leave it; absent where it cannot be told apart.
    pub lazy: Option<Duration>,
}

/// Looks at the broker of this link, each step within `patience`, everything before `until`.
pub async fn inspect(config: &Config, patience: Duration, until: Instant) -> Inspection {
    let mut config = Config { announce: false, connect_timeout: patience, ..config.clone() };
    let mut tls = config.tls.clone().filter(|_| config.broker.is_tls());
    let loaded = certificates(&config, &mut tls).await;
    let named = config.server_name.clone().unwrap_or_else(|| config.broker.host().to_owned());
    let reach =
        reach(config.broker.host(), config.broker.port(), tls.as_ref().map(|tls| (tls, named.as_str())), patience);
    let mut inspection = Inspection {
        reach: reach.await,
        greeting: Ok(Greeting::default()),
        clash: None,
        rights: Vec::new(),
        keeps: None,
        trips: None,
        broken: None,
    };
    if let Err(reason) = loaded {
        inspection.greeting = Err(reason);
        return inspection;
    }
    if config.looks
        && let Err(reason) = look::is_free(&config, tls.as_ref(), Look::first(true), None).await
        && reason.kind == DownKind::NameTaken
    {
        inspection.clash = Some(reason.detail);
    }
    config.window = 16;
    visit(&config, tls.as_ref(), patience, until, &mut inspection).await;
    inspection
}

/// Connects, tries, and says goodbye.
async fn visit(config: &Config, tls: Option<&Tls>, patience: Duration, until: Instant, inspection: &mut Inspection) {
    // Under our client id, which an access list may go by; unless somebody has it.
    let mut probe = Probe::new(config, tls, inspection.clash.is_none(), patience, until);
    match probe.greeted().await {
        Ok(greeting) => inspection.greeting = Ok(greeting),
        Err(reason) => {
            inspection.greeting = Err(reason);
            return;
        }
    }
    if inspection.clash.is_none()
        && let Err(reason) = attempt(&mut probe, config, inspection).await
    {
        inspection.broken = Some(reason);
    }
    probe.goodbye().await;
}

async fn attempt(probe: &mut Probe, config: &Config, inspection: &mut Inspection) -> Result<(), DownReason> {
    let retains = inspection.greeting.as_ref().is_ok_and(|greeting| greeting.retains);
    rights::subscriptions(probe, &config.topics, &mut inspection.rights).await?;
    rights::publications(probe, &config.topics, retains, &mut inspection.rights).await?;
    if retains {
        inspection.keeps = rights::keeps(probe, &config.topics).await?;
    }
    inspection.trips = trips::measure(probe, &config.topics).await?;
    Ok(())
}
