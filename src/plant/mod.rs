//! The verbs: what the bridge can do to a plant, one file each, as plain async functions over [`Node`]. [`Plant`] is
//! what they share, once per process, whichever door a client came through.

pub mod audit;
mod baselines;
mod call;
mod capability;
mod census;
mod check;
mod contracts;
mod control;
mod describe;
mod descriptions;
mod error;
mod fake_limits;
mod fakes;
mod gate;
mod holdings;
mod hub_tap;
mod keys;
mod known;
mod leases;
mod listening;
mod news;
mod overhearing;
mod peers;
mod read_context;
mod read_state;
mod recordings;
mod rows;
mod script_trouble;
mod scripts;
mod set_state;
mod shows;
mod tap_trouble;
mod tickets;
mod traffic;
mod undeclared;
mod verdict;
mod watch_events;
mod watch_log;
mod watch_paths;
mod watch_read;
mod watch_traffic;
mod watches;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

pub(crate) use call::find_namespace;
pub use call::{Arguments, CallRequest, Called};
pub use capability::{Capabilities, CapabilityMatch};
pub use census::{Census, CensusAnswer, Counted};
pub(crate) use check::said_of_a_fake;
pub use check::{Checked, Compared};
pub use contracts::{
    Condition, ContractName, ContractSource, FileFault, Inspected, Junk, ListedContract, Listing, NameFault, Purpose,
    Saved, Sourced, StoredFile, Summary,
};
pub use control::{Control, Released, TakeControl};
pub use describe::Described;
use descriptions::Descriptions;
pub use descriptions::Unsaid;
pub(crate) use descriptions::is_fake;
pub use error::{PlantError, Target};
pub use fakes::{FakeList, FakeStarted, StartFake};
pub use gate::Principal;
pub use holdings::Holdings;
pub use known::Status;
use leases::Leases;
pub use leases::{Authority, KnownAuthority};
pub use news::{News, Subject};
pub use peers::{PeerKind, PeerLine, Peers};
pub use read_context::{ContextRead, ContextStatus, ReadContext};
pub use read_state::{ReadState, Snapshot};
pub use rows::{Change, ListRows, Resource, Row, RowPage, RowQuery, RowWritten, Store, Writable, WriteRow, Written};
pub use script_trouble::ScriptTrouble;
pub use scripts::At;
pub use set_state::{Confirmation, Expectation, SetState, StateSet};
pub(crate) use shows::Shows;
pub use tap_trouble::TapTrouble;
use tickets::Tickets;
pub use tickets::{Ticket, TicketState, TicketView};
pub use traffic::{
    Answered, Body, LatencySeen, Line, LineKind, NotListed, TrafficCounts, TrafficFilter, TrafficSeen, Volume,
};
pub use verdict::{Cursor, EpochLoss, Loss, Verdict};
pub use watch_events::{EventsWatched, HeardEvent, Memory, WatchEvents};
pub use watch_log::{Gap, Noted, PathChange, Record};
pub use watch_read::{Reached, ReadWatch, WatchLine, WatchRead, WatchTarget};
pub use watch_traffic::{Interruption, Sees, TrafficWatched, View, WatchTraffic};
pub use watches::StartWatch;

use crate::{
    fake::{Fakes, Stage},
    link::LinkId,
    node::{LinkState, Network, Node, Seen},
    script::Scripts,
    wire::PeerName,
};

/// What the verbs share. Clones are the same plant.
#[derive(Clone, Debug)]
pub struct Plant {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    node: Node,
    settings: Settings,
    descriptions: Descriptions,
    spent: rows::Spent,
    keys: keys::Keys,
    baselines: baselines::Baselines,
    watches: watches::Watches,
    tickets: Tickets,
    leases: Leases,
    contracts: contracts::Contracts,
    fakes: Fakes,
    scripts: Option<Scripts>,
    recordings: recordings::Recordings,
    audit: OnceLock<audit::Audit>,
    meter: holdings::Meter,
}

/// How this process looks at its plant.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether nothing may be changed, whoever asks.
    pub read_only: bool,
    /// How long a call waits for its answer unless it says otherwise.
    pub call_timeout: Duration,
    /// How the links are called in results, in the order of their numbers.
    pub link_names: Vec<String>,
}

/// How long the first sweep of presence is waited for before an answer about who is there is given without it.
const SWEEP_WAIT: Duration = Duration::from_secs(1);
/// How many names like the one that was not found are offered.
const ALTERNATIVES: usize = 8;

impl Plant {
    /// A plant as seen through `node`.
    pub fn new(node: Node, settings: Settings) -> Self {
        Self::with_contracts(node, settings, None)
    }

    /// The same, with a directory where contracts are kept.
    pub fn with_contracts(node: Node, settings: Settings, directory: Option<std::path::PathBuf>) -> Self {
        Self::with_fakes(node, settings, directory, None)
    }

    /// The same, with a place where fakes may stand.
    pub fn with_fakes(
        node: Node,
        settings: Settings,
        directory: Option<std::path::PathBuf>,
        stage: Option<Stage>,
    ) -> Self {
        Self::with_scripts(node, settings, directory, stage, None)
    }

    /// The same, with scripts of its own.
    pub fn with_scripts(
        node: Node,
        settings: Settings,
        directory: Option<std::path::PathBuf>,
        stage: Option<Stage>,
        scripts: Option<Scripts>,
    ) -> Self {
        let (descriptions, spent) = (Descriptions::default(), rows::Spent::default());
        let (baselines, watches) = (baselines::Baselines::default(), watches::Watches::default());
        let (tickets, leases) = (Tickets::default(), Leases::default());
        let (contracts, fakes) = (contracts::Contracts::in_directory(directory), Fakes::new(node.clone(), stage));
        let recordings = recordings::Recordings::default();
        let shared = Shared {
            node,
            settings,
            descriptions,
            spent,
            keys: keys::Keys::default(),
            baselines,
            watches,
            tickets,
            leases,
            contracts,
            fakes,
            scripts,
            recordings,
            audit: OnceLock::new(),
            meter: holdings::Meter::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The same, writing down whatever could change it, if there is a trail. Only the first one counts.
    #[must_use]
    pub fn audited(self, trail: impl Into<Option<audit::Audit>>) -> Self {
        if let Some(trail) = trail.into() {
            // Of a second one nobody hears.
            let _ = self.shared.audit.set(trail);
        }
        self
    }

    /// The trail, if there is one.
    pub fn audit(&self) -> Option<&audit::Audit> {
        self.shared.audit.get()
    }

    /// How the trail is; off if there is none.
    pub fn audit_status(&self) -> audit::AuditStatus {
        self.audit().map(audit::Audit::status).unwrap_or_default()
    }

    /// Our own name on the network.
    pub fn name(&self) -> &PeerName {
        self.shared.node.name()
    }

    /// How this process looks at its plant.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Whether a link to the plant is up.
    pub fn is_on_network(&self) -> bool {
        self.node().network().is_up()
    }

    fn node(&self) -> &Node {
        &self.shared.node
    }

    fn fakes(&self) -> &Fakes {
        &self.shared.fakes
    }

    /// The network, once the first sweep is complete: at most a second is waited for that. A link that is down for a
    /// reason is an answer at once; one that is still joining is worth the wait.
    async fn network(&self) -> Result<Arc<Network>, PlantError> {
        let network = self.node().network();
        let network = if network.is_settled() {
            network
        } else {
            let done = |network: &Network| network.is_settled() || !may_settle(network);
            self.node().network_when(SWEEP_WAIT, done).await
        };
        if network.is_up() { Ok(network) } else { Err(self.unavailable(&network)) }
    }

    /// The peer of this name, if it is there. With `wait` it may still arrive. A fake of this bridge is there whatever
    /// becomes of the network.
    async fn reach(&self, name: &str, wait: Duration) -> Result<(PeerName, Seen), PlantError> {
        if let Some(fake) = self.fake(name) {
            return Ok(fake);
        }
        let find = |network: &Network| {
            let peer = PeerName::mqtt(name).or_else(|_| PeerName::hub(name)).ok()?;
            network.roster.get(&peer).cloned().map(|seen| (peer, seen))
        };
        let reachable = |network: &Network| find(network).filter(|(_, seen)| network.reaches(seen));
        // Who is there already is not kept waiting for a link that he is not on.
        if let Some(found) = reachable(&self.node().network()) {
            return Ok(found);
        }
        let network = self.network().await?;
        if let Some(found) = reachable(&network) {
            return Ok(found);
        }
        let network = if wait.is_zero() {
            network
        } else {
            self.node().network_when(wait, |network| reachable(network).is_some()).await
        };
        if let Some(found) = reachable(&network) {
            return Ok(found);
        }
        if !network.is_up() || find(&network).is_some() {
            return Err(self.unavailable(&network));
        }
        let alternatives = nearest(name, network.roster.iter().map(|(peer, _)| peer.as_str()));
        Err(PlantError::UnknownPeer { peer: name.into(), alternatives })
    }

    /// How a link is called.
    pub fn link_name(&self, link: LinkId) -> String {
        if link.is_inside() {
            return "loopback".into();
        }
        let name = self.settings().link_names.get(usize::from(link.0)).cloned();
        name.unwrap_or_else(|| format!("link-{}", link.0))
    }

    fn unavailable(&self, network: &Network) -> PlantError {
        PlantError::NetworkUnavailable { links: self.links(network) }
    }

    /// Every link to a network by its name, and how it is.
    fn links(&self, network: &Network) -> Vec<(String, LinkState)> {
        let outer = network.links.iter().filter(|(id, _)| !id.is_inside());
        outer.map(|(id, link)| (self.link_name(*id), link.clone())).collect()
    }
}

impl Plant {
    /// The fake of this bridge that has this name, if one has.
    fn fake(&self, name: &str) -> Option<(PeerName, Seen)> {
        let name = PeerName::configured(name).ok().filter(|name| self.fakes().is_one(name))?;
        let network = self.node().network();
        let seen = network.roster.get(&name)?;
        seen.links.iter().any(|link| link.is_inside()).then(|| (name.clone(), seen.clone()))
    }
}

/// Does what comes before anything is sent, for as long as somebody wants it: what was given up is not sent later.
async fn while_wanted<T>(
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, PlantError>>,
) -> Result<T, PlantError> {
    tokio::select! {
        biased; // given up just before the work was done is given up
        () = stop.cancelled() => Err(PlantError::Unwanted),
        done = work => done,
    }
}

fn may_settle(network: &Network) -> bool {
    use crate::link::DownKind;
    let mut outer = network.links.iter().filter(|(id, _)| !id.is_inside());
    outer.any(|(_, link)| link.down.as_ref().is_none_or(|down| down.kind == DownKind::Joining))
}

/// The names most like `wanted`, best first; if none is, some of those there are.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let (scored, close) = scored(wanted, names);
    let shown = if close > 0 { close } else { scored.len() };
    scored.into_iter().take(shown.min(ALTERNATIVES)).map(|(_, name)| name.to_owned()).collect()
}

/// The names that are like `wanted`, best first, and no others.
pub(crate) fn like<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let (scored, close) = scored(wanted, names);
    scored.into_iter().take(close.min(ALTERNATIVES)).map(|(_, name)| name.to_owned()).collect()
}

/// The names with how unlike `wanted` each is, and how many of the first are like it.
fn scored<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> (Vec<(usize, &'a str)>, usize) {
    let mut scored: Vec<(usize, &str)> = names.map(|name| (distance(wanted, name), name)).collect();
    scored.sort_unstable();
    let close = scored.iter().take_while(|(_, name)| is_close(wanted, name)).count();
    (scored, close)
}

/// Whether one name may have been meant by the other.
fn is_close(wanted: &str, name: &str) -> bool {
    distance(wanted, name) * 2 <= wanted.len().max(name.len())
}

/// How unlike two names are: edits between them, with one inside the other counting for much.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let (short, long) = if a.len() < b.len() { (&a, &b) } else { (&b, &a) };
    if short.len() >= 3 && long.contains(short.as_str()) {
        return (long.len() - short.len()) / 4;
    }
    // Names on the network are at most 128 units; what a client sends may be longer, and is as unlike as its length.
    if a.len() > 256 {
        return a.len();
    }
    strsim::damerau_levenshtein(&a, &b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_are_the_near_ones_or_else_some_of_those_there_are() {
        let names = ["bakery", "packaging", "oven-1", "oven-2"];
        assert_eq!(nearest("bakerie", names.into_iter()), ["bakery"]);
        assert_eq!(nearest("oven", names.into_iter()), ["oven-1", "oven-2"]);
        assert_eq!(nearest("x", names.into_iter()).len(), 4);
        assert_eq!(nearest(&"x".repeat(100_000), names.into_iter()).len(), 4);
        assert!(nearest("x", std::iter::empty()).is_empty());
    }
}
