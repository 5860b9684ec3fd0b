//! News of what somebody looks at again and again: that it may have changed, never what it is now.

use std::{sync::Arc, time::Duration};

use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::{
    Plant, PlantError, Status, nearest,
    read_state::Snapshot,
    verdict::MAX_EPOCH,
    watch_events::cannot_watch,
    watches::{ATTACH_PATIENCE, Shared},
};
use crate::{
    node::{CallError, Doubt, Heard, SNAPSHOT, Stream, Subscription},
    wire::PeerName,
};

/// What there can be news of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// What a component holds.
    State {
        /// Whose.
        peer: String,
        /// Which.
        namespace: String,
    },
    /// How the bridge stands.
    Status,
    /// What a standing watch holds.
    Watch(String),
}

/// News of one subject, for as long as it is held.
#[derive(Debug)]
pub struct News(Kind);

#[derive(Debug)]
enum Kind {
    State(Box<StateNews>),
    Status(StatusNews),
    Watch(WatchNews),
}

impl News {
    /// Waits until the subject may be another than it was; `false` if it is for the last time. Giving up the wait loses
    /// nothing.
    pub async fn moved(&mut self) -> bool {
        match &mut self.0 {
            Kind::State(news) => news.moved().await,
            Kind::Status(news) => news.moved().await,
            Kind::Watch(news) => news.moved().await,
        }
    }
}

/// A component, listened to. All that listen to one share one subscription at its host, which ends with the last.
#[derive(Debug)]
struct StateNews {
    plant: Plant,
    stream: Stream,
    subscription: Subscription,
    /// The newest snapshot that came, by its instance and revision.
    known: Option<(String, i64)>,
}

impl StateNews {
    async fn moved(&mut self) -> bool {
        while let Some(heard) = self.subscription.next().await {
            if self.is_news(heard) {
                return true;
            }
        }
        false
    }

    /// Whether a look may show something else now. That nobody listens there any more, or that something was not heard, is
    /// news too: what it holds is not known.
    fn is_news(&mut self, heard: Heard) -> bool {
        match heard {
            Heard::Event { args, at_ms, .. } => {
                let snapshot = Snapshot::parse(&self.stream.peer, args, at_ms);
                snapshot.is_some_and(|snapshot| self.is_newer(snapshot))
            }
            Heard::Attached => false,
            Heard::Failed(_) | Heard::Interrupted | Heard::Missed(_) => true,
        }
    }

    /// Every subscription is answered with a snapshot, so the same one may come again.
    fn is_newer(&mut self, snapshot: Snapshot) -> bool {
        self.plant.saw(&self.stream.namespace, &snapshot);
        let known = self.known.as_ref();
        let newer = known.is_none_or(|(epoch, revision)| *epoch != snapshot.epoch || *revision < snapshot.revision);
        if newer && snapshot.epoch.len() <= MAX_EPOCH {
            self.known = Some((snapshot.epoch, snapshot.revision));
        }
        newer
    }

    /// Waits until the host has the subscription and has said how it stands, which is no news.
    async fn begun(&mut self) -> Result<(), PlantError> {
        let attached = timeout(ATTACH_PATIENCE, self.attached()).await;
        let too_long = CallError::UnknownOutcome(Doubt::Timeout(ATTACH_PATIENCE));
        if let Err(error) = attached.unwrap_or(Err(too_long)) {
            return Err(cannot_watch(&self.plant, self.stream.clone(), None, error).await);
        }
        if self.known.is_none() {
            let _ = timeout(FIRST, self.moved()).await;
        }
        Ok(())
    }

    async fn attached(&mut self) -> Result<(), CallError> {
        loop {
            match self.subscription.next().await {
                Some(Heard::Attached) => return Ok(()),
                Some(Heard::Failed(error)) => return Err(error),
                Some(heard) => {
                    self.is_news(heard);
                }
                None => return Err(CallError::UnknownOutcome(Doubt::Closing)),
            }
        }
    }
}

/// The bridge itself: looked at once a second, which costs nothing and asks nobody.
#[derive(Debug)]
struct StatusNews {
    plant: Plant,
    last: Status,
    tick: Interval,
}

impl StatusNews {
    async fn moved(&mut self) -> bool {
        loop {
            self.tick.tick().await;
            let now = self.plant.status();
            if now != self.last {
                self.last = now;
                return true;
            }
        }
    }
}

/// A standing watch.
#[derive(Debug)]
struct WatchNews {
    shared: Arc<Shared>,
    /// Records that had been written.
    seen: u64,
}

impl WatchNews {
    async fn moved(&mut self) -> bool {
        loop {
            let news = self.shared.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let written = self.shared.log().written();
            if written > self.seen {
                self.seen = written;
                return true;
            }
            tokio::select! {
                () = news => {}
                () = self.shared.over.cancelled() => return false,
            }
        }
    }
}

impl Plant {
    /// News of a subject. Of a component, the first snapshot that comes is news as well: what was before it is not known.
    ///
    /// # Errors
    ///
    /// What is no name of a peer, a watch that is not there, or no room to listen.
    pub fn news(&self, subject: &Subject) -> Result<News, PlantError> {
        Ok(News(match subject {
            Subject::State { peer, namespace } => Kind::State(Box::new(self.state_news(peer, namespace)?)),
            Subject::Status => Kind::Status(self.status_news()),
            Subject::Watch(id) => {
                let shared = self.shared.watches.shared(id)?;
                let seen = shared.log().written();
                Kind::Watch(WatchNews { shared, seen })
            }
        }))
    }

    /// The same, once it is certain that nothing from now on is missed without being told.
    ///
    /// # Errors
    ///
    /// As for [`Plant::news`], and when the peer is not there, or does not take the subscription.
    pub async fn news_from_now(&self, subject: &Subject) -> Result<News, PlantError> {
        if let Subject::State { peer, .. } = subject {
            self.reach(peer, Duration::ZERO).await?;
        }
        let mut news = self.news(subject)?;
        if let Kind::State(state) = &mut news.0 {
            state.begun().await?;
        }
        Ok(news)
    }

    /// Waits until a watch holds a record beyond `index`. Dropping the future loses nothing.
    pub async fn watch_moved(&self, watch: &str, index: u64) -> Result<(), PlantError> {
        let shared = self.shared.watches.shared(watch)?;
        let mut news = WatchNews { shared, seen: index };
        if news.moved().await { Ok(()) } else { self.shared.watches.shared(watch).map(drop) }
    }

    fn state_news(&self, peer: &str, namespace: &str) -> Result<StateNews, PlantError> {
        let name = PeerName::mqtt(peer).or_else(|_| PeerName::hub(peer)).map_err(|_| {
            let known = self.known_peers();
            PlantError::UnknownPeer { peer: peer.into(), alternatives: nearest(peer, known.iter().map(String::as_str)) }
        })?;
        let stream = Stream { peer: name, namespace: namespace.into(), event: SNAPSHOT.into() };
        let subscription = self.node().subscribe(stream.clone()).map_err(|error| {
            let target = super::Target { peer: stream.peer.clone(), namespace: namespace.into(), method: "on".into() };
            PlantError::Call { target, checked: false, observes: true, idempotency_key: None, error }
        })?;
        Ok(StateNews { plant: self.clone(), stream, subscription, known: None })
    }

    fn status_news(&self) -> StatusNews {
        let mut tick = interval(LOOK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        StatusNews { plant: self.clone(), last: self.status(), tick }
    }
}

/// How often the bridge is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long the first snapshot is awaited once the host has the subscription.
const FIRST: Duration = Duration::from_secs(1);
