//! Watching what peers say to each other for a while: on a broker through a tap that is no peer (wire.md 11.1), on a hub as
//! far as it mirrors what it passes on (11.2), and without that only who comes and goes. What can be seen is said.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::{
    Plant, PlantError, TapTrouble,
    hub_tap::{HubNews, HubTap, Wanted},
    overhearing::{Coming, Comings, News, Sources},
    traffic::{Moment, Onlooker, TrafficFilter, TrafficSeen, Volume},
};
use crate::{
    link::{DownKind, LinkId, now_ms},
    node::{LinkState, Network, Traffic, TrafficNews},
    wire::PeerName,
};

/// Traffic somebody wants to watch.
#[derive(Clone, Debug)]
pub struct WatchTraffic {
    /// For how long, unless it is full earlier.
    pub window: Duration,
    /// What is wanted of it.
    pub filter: TrafficFilter,
    /// How many messages are listed at most.
    pub most: usize,
    /// Whether what is not listed any more is counted to the end of the window.
    pub count_on: bool,
}

/// What was watched.
#[derive(Debug)]
pub struct TrafficWatched {
    /// What was seen.
    pub seen: TrafficSeen,
    /// What the broker had kept from before the window; not traffic.
    pub kept: Volume,
    /// What the broker delivered and we were too slow for: nothing is known of it.
    pub dropped: Volume,
    /// How long was watched.
    pub took: Duration,
    /// Whether it ended because it was full.
    pub full: bool,
    /// When nothing could be heard meanwhile.
    pub interruptions: Vec<Interruption>,
    /// Whether no peer said anything at all.
    pub quiet: bool,
    /// What can be seen of each link, by its number.
    pub views: Vec<View>,
}

/// What can be seen of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Which.
    pub link: LinkId,
    /// What of it.
    pub sees: Sees,
    /// The hub that mirrors it.
    pub by: Option<PeerName>,
    /// Why not more.
    pub why: Option<String>,
}

/// How much of a link can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Everything under the prefix that our account may read.
    Everything,
    /// What the hub passes on between two others: not what is to or from itself, not what enters from another hub, not
    /// what is in a batch.
    Relayed,
    /// Who comes and goes: of what others say to each other a hub shows a peer nothing.
    Presence,
    /// Nothing.
    Nothing,
}

/// A time in which nothing was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// On which link.
    pub link: LinkId,
    /// From when, in milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// To when; `None`: to the end.
    pub to_ms: Option<i64>,
    /// Why.
    pub why: String,
}

/// How long the connection of the tap may take; the link's own bounds are shorter together.
const OPEN_PATIENCE: Duration = Duration::from_secs(20);
/// How long a broker may take to deliver what it keeps, before it counts as delivering nothing.
const DEAF: Duration = Duration::from_secs(2);
/// After how many messages others get their turn.
const TURN: u64 = 64;
/// How often the progress is told.
const TELL: Duration = Duration::from_millis(250);
/// How many interruptions are told; more are one with the last.
const MAX_INTERRUPTIONS: usize = 16;

impl Plant {
    /// Watches the traffic of the network; the number is what the window can be read again by. Dropping the future closes
    /// the tap at once, unless somebody else watches.
    pub async fn watch_traffic(
        &self,
        request: WatchTraffic,
        progress: impl Fn(u64),
    ) -> Result<(u64, Arc<TrafficWatched>), PlantError> {
        let onlooker = Onlooker::new(self.name().as_str(), request.filter.clone(), request.most);
        let mut window = Window::new(onlooker);
        self.open(&mut window, &request).await?;
        let opened = Instant::now();
        let deadline = opened + request.window;
        window.until(deadline, request.count_on, &progress).await;
        let watched = Arc::new(window.finish(opened, request.count_on));
        Ok((self.shared.recordings.keep(watched.clone()), watched))
    }

    /// A window that was watched, while it is kept.
    pub fn watched_traffic(&self, number: u64) -> Option<Arc<TrafficWatched>> {
        self.shared.recordings.get(number)
    }

    /// Opens all that can be: of several links one that cannot be watched is said to be so, and the others are watched.
    async fn open(&self, window: &mut Window, request: &WatchTraffic) -> Result<(), PlantError> {
        let broker = self.node().overhear();
        let tapped = broker.as_ref().map(|(link, _)| *link);
        let others = async {
            let network = self.node().network();
            let outer = network.links.iter().filter(|(id, _)| !id.is_inside() && Some(*id) != tapped);
            // A process joins one hub.
            match outer.map(|(id, _)| *id).next() {
                Some(link) => Some(self.open_hub(link, request).await),
                None => None,
            }
        };
        let heard = async {
            match broker {
                Some((link, traffic)) => Some((link, window.open_broker(self, link, traffic, request.window).await)),
                None => None,
            }
        };
        let (heard, other) = tokio::join!(heard, others);
        if let Some((view, tap, comings)) = other {
            window.sources.hub = tap;
            window.sources.comings = comings;
            window.views.push(view);
        }
        let trouble = match heard {
            Some((link, Err(trouble))) => {
                let why = Some(trouble.to_string());
                window.views.push(View { link, sees: Sees::Nothing, by: None, why });
                trouble
            }
            Some((_, Ok(()))) | None => TapTrouble::NoLink,
        };
        window.views.sort_unstable_by_key(|view| view.link);
        let sees = window.views.iter().any(|view| view.sees != Sees::Nothing);
        match &window.views[..] {
            _ if sees => Ok(()),
            [] => Err(PlantError::TapUnavailable(trouble)),
            [only] if Some(only.link) == tapped => Err(PlantError::TapUnavailable(trouble)),
            _ => Err(self.unavailable(&self.node().network())),
        }
    }

    /// What can be seen of a hub, and how.
    async fn open_hub(&self, link: LinkId, request: &WatchTraffic) -> (View, Option<HubTap>, Option<Comings>) {
        let known = |network: &Network| state(network, link).is_some_and(|state| state.settled || is_refused(state));
        let network = self.node().network_when(super::SWEEP_WAIT, known).await;
        let state = state(&network, link);
        let view = |sees, by, why| View { link, sees, by, why };
        if let Some(down) = state.and_then(|state| state.down.as_ref()) {
            return (view(Sees::Nothing, None, Some(down.detail.clone())), None, None);
        }
        let comings = Some(Comings::new(link, self.node().watch_network()));
        let Some(hub) = state.and_then(|state| state.hub.clone()) else {
            let why = "nobody there says to be a hub".to_owned();
            return (view(Sees::Presence, None, Some(why)), None, comings);
        };
        let (peer, payloads) = (request.filter.peer.clone(), request.filter.payloads);
        let wanted = Wanted { peer, payloads, window: request.window };
        match HubTap::open(self, link, hub.clone(), wanted).await {
            Ok(tap) => (view(Sees::Relayed, Some(hub), None), Some(tap), comings),
            Err(why) => (view(Sees::Presence, None, Some(why)), None, comings),
        }
    }
}

fn state(network: &Network, link: LinkId) -> Option<&LinkState> {
    network.links.iter().find(|(id, _)| *id == link).map(|(_, state)| state)
}

/// Whether it is down for a reason that waiting a moment does not mend.
fn is_refused(state: &LinkState) -> bool {
    state.down.as_ref().is_some_and(|down| down.kind != DownKind::Joining)
}

/// A window while it is open.
struct Window {
    sources: Sources,
    views: Vec<View>,
    /// The link of the broker's tap.
    broker: LinkId,
    onlooker: Onlooker,
    began: Instant,
    kept: Volume,
    dropped: Volume,
    interruptions: Vec<Interruption>,
    turn: u64,
    told: Instant,
}

impl Window {
    fn new(onlooker: Onlooker) -> Self {
        let now = Instant::now();
        Self {
            sources: Sources::default(),
            views: Vec::new(),
            broker: LinkId(0),
            onlooker,
            began: now,
            kept: Volume::default(),
            dropped: Volume::default(),
            interruptions: Vec::new(),
            turn: 0,
            told: now,
        }
    }

    /// Listens to a broker, once everything is heard and it is seen to deliver.
    async fn open_broker(
        &mut self,
        plant: &Plant,
        link: LinkId,
        mut traffic: Traffic,
        window: Duration,
    ) -> Result<(), TapTrouble> {
        self.broker = link;
        let proven = self.opened(&mut traffic).await?;
        // What the broker keeps comes first, and our own presence is among it.
        let is_up = || plant.node().network().is_link_up(link);
        if !proven && !self.hears_within(&mut traffic, DEAF.min(window)).await && is_up() {
            return Err(TapTrouble::Deaf { filter: traffic.filter().to_owned() });
        }
        self.sources.broker = Some(traffic);
        self.views.push(View { link, sees: Sees::Everything, by: None, why: None });
        Ok(())
    }

    /// Waits until everything is heard. True if something was heard already, which proves that the broker delivers.
    async fn opened(&mut self, traffic: &mut Traffic) -> Result<bool, TapTrouble> {
        let deadline = self.began + OPEN_PATIENCE;
        loop {
            match timeout_at(deadline, traffic.next()).await {
                Ok(TrafficNews::Up { proven }) => return Ok(proven || self.has_heard()),
                Ok(TrafficNews::Down(reason)) => return Err(TapTrouble::Down(reason)),
                Ok(other) => self.take_broker(other),
                Err(_) => return Err(TapTrouble::Slow(OPEN_PATIENCE)),
            }
        }
    }

    /// Whether something comes in time.
    async fn hears_within(&mut self, traffic: &mut Traffic, patience: Duration) -> bool {
        match timeout_at(Instant::now() + patience, traffic.next()).await {
            Ok(news) => self.take_broker(news),
            Err(_) => return false,
        }
        true
    }

    const fn has_heard(&self) -> bool {
        self.kept.frames > 0 || self.onlooker.heard().frames > 0
    }

    /// Hears until the end. What had arrived by then counts, though it was not looked at yet.
    async fn until(&mut self, deadline: Instant, count_on: bool, progress: &impl Fn(u64)) {
        let mut over = false;
        while count_on || !self.onlooker.is_full() {
            let news =
                if over { self.sources.try_next() } else { timeout_at(deadline, self.sources.next()).await.ok() };
            match news {
                Some(news) if !is_later(&news, deadline) => self.take(news),
                None if !over => over = true,
                Some(_) | None => return,
            }
            self.turn += 1;
            if self.turn.is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
            if self.told.elapsed() >= TELL {
                self.told = Instant::now();
                progress(self.onlooker.heard().frames);
            }
        }
    }

    fn take(&mut self, news: News) {
        match news {
            News::Broker(news) => self.take_broker(news),
            News::Hub(news) => self.take_hub(news),
            News::Coming(news) => self.take_coming(news),
        }
    }

    fn take_broker(&mut self, news: TrafficNews) {
        match news {
            TrafficNews::Said { overheard, at, at_ms } => {
                let moment = Moment { us: self.us(at), unix_ms: at_ms, link: self.broker };
                self.onlooker.hears(overheard, moment);
            }
            TrafficNews::Kept { bytes } => self.kept.add(bytes),
            TrafficNews::Down(reason) => self.lost(self.broker, reason.detail),
            TrafficNews::Up { .. } => self.back(self.broker),
        }
    }

    fn take_hub(&mut self, news: HubNews) {
        let Some((link, hub)) = self.sources.hub.as_ref().map(|tap| (tap.link, tap.hub.clone())) else { return };
        match news {
            HubNews::Mirrored(mirrored) => self.onlooker.hears_mirrored(mirrored, self.now(link)),
            HubNews::Nonsense(problem) => self.onlooker.hears_nonsense(&hub, &problem, self.now(link)),
            HubNews::Dropped(frames) => self.dropped.frames += frames,
            HubNews::Down(why) => self.lost(link, why),
            HubNews::Up => self.back(link),
        }
    }

    fn take_coming(&mut self, news: Coming) {
        let Some(link) = self.sources.comings.as_ref().map(|comings| comings.link) else { return };
        let taps = self.sources.hub.is_some();
        match news {
            Coming::Came(peer) => self.onlooker.sees(&peer, "online", self.now(link)),
            Coming::Left(peer) => self.onlooker.sees(&peer, "offline", self.now(link)),
            // Where the hub mirrors, the tap knows better since when nothing is heard.
            Coming::Down(why) if !taps => self.lost(link, why),
            Coming::Up if !taps => self.back(link),
            Coming::Down(_) | Coming::Up => {}
        }
    }

    fn lost(&mut self, link: LinkId, why: String) {
        self.onlooker.lost(link, self.us(Instant::now()));
        let full = self.interruptions.len() >= MAX_INTERRUPTIONS;
        match self.interruptions.iter_mut().rev().find(|last| last.link == link) {
            // Tried in vain again: it is the same interruption.
            Some(last) if full || last.to_ms.is_none() => last.to_ms = None,
            _ if full => {}
            _ => self.interruptions.push(Interruption { link, from_ms: now_ms(), to_ms: None, why }),
        }
    }

    fn back(&mut self, link: LinkId) {
        if let Some(last) = self.interruptions.iter_mut().rev().find(|last| last.link == link) {
            last.to_ms = Some(now_ms());
        }
    }

    fn now(&self, link: LinkId) -> Moment {
        Moment { us: self.us(Instant::now()), unix_ms: now_ms(), link }
    }

    fn us(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }

    fn finish(self, opened: Instant, count_on: bool) -> TrafficWatched {
        let mut dropped = self.sources.dropped();
        dropped.frames += self.dropped.frames;
        let full = !count_on && self.onlooker.is_full();
        let quiet = !self.onlooker.heard_frames();
        // Nothing is heard from here on, also while the page is made.
        drop(self.sources);
        TrafficWatched {
            seen: self.onlooker.finish(),
            kept: self.kept,
            dropped,
            took: opened.elapsed(),
            full,
            interruptions: self.interruptions,
            quiet,
            views: self.views,
        }
    }
}

/// Whether a message arrived after the window was over.
fn is_later(news: &News, deadline: Instant) -> bool {
    matches!(news, News::Broker(TrafficNews::Said { at, .. }) if *at > deadline)
}
