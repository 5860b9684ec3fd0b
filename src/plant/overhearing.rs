//! All that can be heard on our links at once: a tap on the broker, what a hub mirrors, and who comes and goes on a hub.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use tokio::sync::watch;

use super::{
    hub_tap::{HubNews, HubTap},
    traffic::Volume,
};
use crate::{
    link::LinkId,
    node::{Network, Traffic, TrafficNews},
    wire::PeerName,
};

/// What there is to listen to.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) broker: Option<Traffic>,
    pub(super) hub: Option<HubTap>,
    pub(super) comings: Option<Comings>,
}

/// What one of them says.
pub(super) enum News {
    Broker(TrafficNews),
    Hub(HubNews),
    Coming(Coming),
}

/// What everybody on a link is told.
pub(super) enum Coming {
    Came(PeerName),
    Left(PeerName),
    /// The link is up again, and it is known who is there.
    Up,
    /// The link is down, and why.
    Down(String),
}

impl Sources {
    /// What is heard next. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> News {
        let (broker, hub, comings) = (&mut self.broker, &mut self.hub, &mut self.comings);
        tokio::select! {
            Some(news) = async { Some(broker.as_mut()?.next().await) } => News::Broker(news),
            Some(news) = async { Some(hub.as_mut()?.next().await) } => News::Hub(news),
            Some(news) = async { comings.as_mut()?.next().await } => News::Coming(news),
            else => std::future::pending().await,
        }
    }

    /// What is heard already, without waiting.
    pub(super) fn try_next(&mut self) -> Option<News> {
        let broker = self.broker.as_mut().and_then(Traffic::try_next).map(News::Broker);
        let hub = || self.hub.as_mut().and_then(HubTap::try_next).map(News::Hub);
        let comings = || self.comings.as_mut().and_then(Comings::try_next).map(News::Coming);
        broker.or_else(hub).or_else(comings)
    }

    /// What the broker delivered and we were too slow for.
    pub(super) fn dropped(&self) -> Volume {
        let dropped = self.broker.as_ref().map(Traffic::dropped).unwrap_or_default();
        Volume { frames: dropped.frames, bytes: dropped.bytes }
    }
}

/// Who comes and goes on one link, as our roster shows it.
pub(super) struct Comings {
    pub(super) link: LinkId,
    network: watch::Receiver<Arc<Network>>,
    known: HashSet<PeerName>,
    /// Whether `known` is what is there: not while the link is down, or does not know yet.
    valid: bool,
    waiting: VecDeque<Coming>,
}

impl Comings {
    pub(super) fn new(link: LinkId, network: watch::Receiver<Arc<Network>>) -> Self {
        let mut comings = Self { link, network, known: HashSet::new(), valid: false, waiting: VecDeque::new() };
        comings.look();
        // What is so at the beginning is no news.
        comings.waiting.clear();
        comings
    }

    /// `None` once our peer is gone.
    async fn next(&mut self) -> Option<Coming> {
        loop {
            if let Some(coming) = self.waiting.pop_front() {
                return Some(coming);
            }
            self.network.changed().await.ok()?;
            self.look();
        }
    }

    fn try_next(&mut self) -> Option<Coming> {
        if self.waiting.is_empty() && self.network.has_changed().unwrap_or(false) {
            self.look();
        }
        self.waiting.pop_front()
    }

    fn look(&mut self) {
        let network = self.network.borrow_and_update().clone();
        let Some((_, state)) = network.links.iter().find(|(id, _)| *id == self.link) else { return };
        if let Some(down) = &state.down {
            if std::mem::replace(&mut self.valid, false) {
                self.waiting.push_back(Coming::Down(down.detail.clone()));
            }
            return;
        }
        if !state.settled {
            return;
        }
        let here = |(peer, seen): (&PeerName, &crate::node::Seen)| {
            (seen.announced && seen.links.contains(&self.link)).then(|| peer.clone())
        };
        let here: HashSet<PeerName> = network.roster.iter().filter_map(here).collect();
        if !std::mem::replace(&mut self.valid, true) {
            self.waiting.push_back(Coming::Up);
        }
        let mut news: Vec<(PeerName, bool)> = here.difference(&self.known).map(|peer| (peer.clone(), true)).collect();
        news.extend(self.known.difference(&here).map(|peer| (peer.clone(), false)));
        news.sort_unstable();
        self.waiting
            .extend(news.into_iter().map(|(peer, came)| if came { Coming::Came(peer) } else { Coming::Left(peer) }));
        self.known = here;
    }
}
