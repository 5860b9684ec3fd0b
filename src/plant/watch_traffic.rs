//! Watching what peers say to each other for a while, through a tap that is no peer (wire.md 11.1).

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{
    Plant, PlantError,
    traffic::{Moment, Onlooker, TrafficFilter, TrafficSeen, Volume},
};
use crate::{
    link::{DownReason, now_ms},
    node::{Traffic, TrafficNews},
};

/// Why the traffic of others cannot be heard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapTrouble {
    /// No link of ours goes to a broker.
    #[error("that needs an MQTT broker, and this bridge has no link to one")]
    NoBroker,
    /// The connection for it does not come about.
    #[error("{}", .0.detail)]
    Down(DownReason),
    /// It does not come about, and nobody says why.
    #[error("no connection for it within {} s", .0.as_secs())]
    Slow(Duration),
    /// The broker takes the subscription and delivers nothing.
    #[error(
        "the broker granted the subscription to {filter} and delivers nothing, not even the presence of this bridge, \
         which it keeps"
    )]
    Deaf {
        /// What was subscribed to.
        filter: String,
    },
}

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
}

/// A time in which nothing was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
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
/// How many windows are kept for their further pages.
const MAX_RECORDINGS: usize = 4;

/// The windows whose further pages may be asked for; the oldest falls off.
#[derive(Debug, Default)]
pub(super) struct Recordings(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    windows: VecDeque<(u64, Arc<TrafficWatched>)>,
}

impl Recordings {
    /// Keeps a window; says under which number.
    fn keep(&self, watched: Arc<TrafficWatched>) -> u64 {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let number = kept.last;
        kept.windows.push_back((number, watched));
        if kept.windows.len() > MAX_RECORDINGS {
            kept.windows.pop_front();
        }
        number
    }

    fn get(&self, number: u64) -> Option<Arc<TrafficWatched>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.windows.iter().find(|(known, _)| *known == number).map(|(_, watched)| watched.clone())
    }
}

impl Plant {
    /// Watches the traffic of the network; the number is what the window can be read again by. Dropping the future closes
    /// the tap at once, unless somebody else watches.
    pub async fn watch_traffic(
        &self,
        request: WatchTraffic,
        progress: impl Fn(u64),
    ) -> Result<(u64, Arc<TrafficWatched>), PlantError> {
        let traffic = self.node().overhear().ok_or(PlantError::TapUnavailable(TapTrouble::NoBroker))?;
        let onlooker = Onlooker::new(self.name().as_str(), request.filter.clone(), request.most);
        let mut window = Window::new(traffic, onlooker);
        let proven = window.opened().await.map_err(PlantError::TapUnavailable)?;
        let opened = Instant::now();
        let deadline = opened + request.window;
        // What the broker keeps comes first, and our own presence is among it.
        if !proven && !window.hears_within(DEAF, deadline).await && self.node().network().is_up() {
            let filter = window.traffic.filter().to_owned();
            return Err(PlantError::TapUnavailable(TapTrouble::Deaf { filter }));
        }
        window.until(deadline, request.count_on, &progress).await;
        let watched = Arc::new(window.finish(opened, request.count_on));
        Ok((self.shared.recordings.keep(watched.clone()), watched))
    }

    /// A window that was watched, while it is kept.
    pub fn watched_traffic(&self, number: u64) -> Option<Arc<TrafficWatched>> {
        self.shared.recordings.get(number)
    }
}

/// A window while it is open.
struct Window {
    traffic: Traffic,
    onlooker: Onlooker,
    began: Instant,
    kept: Volume,
    interruptions: Vec<Interruption>,
    turn: u64,
    told: Instant,
}

impl Window {
    fn new(traffic: Traffic, onlooker: Onlooker) -> Self {
        let now = Instant::now();
        Self { traffic, onlooker, began: now, kept: Volume::default(), interruptions: Vec::new(), turn: 0, told: now }
    }

    /// Waits until everything is heard. True if something was heard already, which proves that the broker delivers.
    async fn opened(&mut self) -> Result<bool, TapTrouble> {
        let deadline = self.began + OPEN_PATIENCE;
        loop {
            match timeout_at(deadline, self.traffic.next()).await {
                Ok(TrafficNews::Up { proven }) => return Ok(proven || self.has_heard()),
                Ok(TrafficNews::Down(reason)) => return Err(TapTrouble::Down(reason)),
                Ok(other) => self.take(other),
                Err(_) => return Err(TapTrouble::Slow(OPEN_PATIENCE)),
            }
        }
    }

    /// Whether something comes in time.
    async fn hears_within(&mut self, patience: Duration, deadline: Instant) -> bool {
        let until = deadline.min(Instant::now() + patience);
        match timeout_at(until, self.traffic.next()).await {
            Ok(news) => self.take(news),
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
                if over { self.traffic.try_next() } else { timeout_at(deadline, self.traffic.next()).await.ok() };
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

    fn take(&mut self, news: TrafficNews) {
        match news {
            TrafficNews::Said { overheard, at, at_ms } => {
                let moment = Moment { us: self.us(at), unix_ms: at_ms };
                self.onlooker.hears(overheard, moment);
            }
            TrafficNews::Kept { bytes } => self.kept.add(bytes),
            TrafficNews::Down(reason) => {
                self.onlooker.lost(self.us(Instant::now()));
                // Tried in vain again: it is the same interruption.
                let open = self.interruptions.last().is_some_and(|last| last.to_ms.is_none());
                if open || self.interruptions.len() >= MAX_INTERRUPTIONS {
                    if let Some(last) = self.interruptions.last_mut() {
                        last.to_ms = None;
                    }
                } else {
                    self.interruptions.push(Interruption { from_ms: now_ms(), to_ms: None, why: reason.detail });
                }
            }
            TrafficNews::Up { .. } => {
                if let Some(last) = self.interruptions.last_mut() {
                    last.to_ms = Some(now_ms());
                }
            }
        }
    }

    fn us(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_micros()).unwrap_or(u64::MAX)
    }

    fn finish(self, opened: Instant, count_on: bool) -> TrafficWatched {
        let dropped = self.traffic.dropped();
        let full = !count_on && self.onlooker.is_full();
        let quiet = !self.onlooker.heard_frames();
        // Nothing is heard from here on, also while the page is made.
        drop(self.traffic);
        TrafficWatched {
            seen: self.onlooker.finish(),
            kept: self.kept,
            dropped: Volume { frames: dropped.frames, bytes: dropped.bytes },
            took: opened.elapsed(),
            full,
            interruptions: self.interruptions,
            quiet,
        }
    }
}

/// Whether a message arrived after the window was over.
fn is_later(news: &TrafficNews, deadline: Instant) -> bool {
    matches!(news, TrafficNews::Said { at, .. } if *at > deadline)
}
