//! Standing watches: held here, whoever started them, until they are stopped or nobody read them for an hour. A lost
//! answer loses nothing: records stay until they fall off, and a reader says which answer arrived last.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Plant, PlantError, Principal, nearest,
    read_state::Snapshot,
    undeclared::{Declared, undeclared_is_not_gapless},
    verdict::Cursor,
    watch_events::{GRACE, cannot_watch},
    watch_log::{Gap, Log},
    watch_read::{Answering, Reached, ReadWatch, WatchLine, WatchRead, WatchTarget},
};
use crate::{
    link::now_ms,
    node::{CallError, Doubt as Unsure, Heard, SNAPSHOT, Stream, Subscription},
};

/// How many watches are held at once.
const MAX_WATCHES: usize = 64;
/// How long nobody reads a watch before it ends.
const IDLE: Duration = Duration::from_hours(1);
/// How long the answer to the subscription is awaited.
pub(super) const ATTACH_PATIENCE: Duration = Duration::from_secs(12);
/// How much of a peer's refusal is kept.
const MAX_WHY: usize = 256;
/// The longest part of an id that is taken from what is watched.
const MAX_LABEL: usize = 24;

/// A watch somebody wants held.
#[derive(Clone, Debug)]
pub struct StartWatch {
    /// On whom.
    pub peer: String,
    /// On which namespace.
    pub namespace: String,
    /// On what of it.
    pub target: WatchTarget,
    /// How long the peer is awaited, if it is not there.
    pub wait: Duration,
}

/// The watches there are.
#[derive(Debug, Default)]
pub(super) struct Watches {
    held: Mutex<BTreeMap<String, Watched>>,
    numbers: Mutex<u64>,
}

/// One watch, owned by the registry; its task ends with it.
#[derive(Debug)]
struct Watched {
    stream: Stream,
    target: WatchTarget,
    client: String,
    started_ms: i64,
    opened: Opened,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// How far the peer had counted when a watch began, and how many records had come by then.
#[derive(Clone, Debug, Default)]
struct Opened {
    cursor: Option<Cursor>,
    records: u64,
    /// What the peer says of the event.
    declared: Declared,
}

/// What a watch shares with its task, and with whoever waits for news of it.
#[derive(Debug)]
pub(super) struct Shared {
    log: Mutex<Log>,
    read: Mutex<Instant>,
    /// Something was written.
    pub(super) news: Notify,
    /// The watch has ended.
    pub(super) over: CancellationToken,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.over.cancel();
    }
}

impl Shared {
    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> Instant {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) + IDLE
    }

    fn was_read(&self) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn take(&self, heard: Heard, stream: &Stream) {
        let mut log = self.log();
        match heard {
            Heard::Event { args, stamp, at_ms } if stream.event == SNAPSHOT => {
                // The stamp of a snapshot means nothing: snapshots are not counted.
                let _ = stamp;
                if let Some(snapshot) = Snapshot::parse(&stream.peer, args, at_ms) {
                    log.snapshot(snapshot);
                }
            }
            Heard::Event { args, stamp, at_ms } => log.event(args, stamp, at_ms),
            Heard::Attached => {
                if !log.is_attached() {
                    log.gap(Gap::Attached, now_ms());
                }
            }
            Heard::Failed(error) => log.gap(Gap::Refused(error.to_string().chars().take(MAX_WHY).collect()), now_ms()),
            Heard::Interrupted => log.gap(Gap::Interrupted, now_ms()),
            Heard::Missed(missed) => log.gap(Gap::FellOff(missed), now_ms()),
        }
        drop(log);
        self.news.notify_waiters();
    }

    /// Hears until nobody has read for too long, or the node has left.
    async fn hear(self: Arc<Self>, mut subscription: Subscription, stream: Stream) {
        let _over = self.over.clone().drop_guard();
        loop {
            match timeout_at(self.ends(), subscription.next()).await {
                Ok(Some(heard)) => self.take(heard, &stream),
                Ok(None) => return,
                Err(_) if self.ends() <= Instant::now() => return,
                Err(_) => {}
            }
        }
    }
}

impl Watches {
    /// The watches, without those that have ended.
    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, watch| !watch.task.is_finished() && watch.shared.ends() > Instant::now());
        held
    }

    /// What a watch shares.
    pub(super) fn shared(&self, watch: &str) -> Result<Arc<Shared>, PlantError> {
        let held = self.held();
        held.get(watch).map(|watch| watch.shared.clone()).ok_or_else(|| Self::unknown(&held, watch))
    }

    /// Short, readable, and never that of another process's watch.
    fn id(&self, stream: &Stream) -> String {
        let mut number = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let what = if stream.event == SNAPSHOT { &stream.namespace } else { &stream.event };
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let label: String = what.chars().map(plain).take(MAX_LABEL).collect();
        let drawn = Uuid::new_v4().simple().to_string();
        format!("{label}-{number}-{}", drawn.get(..4).unwrap_or_default())
    }

    fn full(held: &BTreeMap<String, Watched>) -> Result<(), PlantError> {
        if held.len() < MAX_WATCHES {
            return Ok(());
        }
        Err(PlantError::TooManyWatches { limit: MAX_WATCHES, held: held.keys().cloned().collect() })
    }

    fn unknown(held: &BTreeMap<String, Watched>, watch: &str) -> PlantError {
        let alternatives = nearest(watch, held.keys().map(String::as_str));
        PlantError::UnknownWatch { watch: watch.into(), alternatives }
    }
}

impl Watched {
    fn line(&self, id: &str) -> WatchLine {
        let log = self.shared.log();
        let (declared, nearest) = self.opened.declared.parts();
        WatchLine {
            id: id.into(),
            stream: self.stream.clone(),
            target: self.target.clone(),
            client: self.client.clone(),
            started_ms: self.started_ms,
            written: log.written(),
            held: log.records().count(),
            attached: log.is_attached(),
            declared,
            nearest,
            lacking: Vec::new(),
            idle_left: self.shared.ends().saturating_duration_since(Instant::now()),
        }
    }
}

impl Plant {
    /// Begins a watch that is held until it is stopped.
    pub async fn start_watch(&self, principal: &Principal, request: StartWatch) -> Result<WatchLine, PlantError> {
        Watches::full(&self.shared.watches.held())?;
        let (stream, description) = match &request.target {
            WatchTarget::Event(event) => {
                self.event_stream(&request.peer, &request.namespace, event, request.wait).await?
            }
            WatchTarget::State(_) => {
                let (peer, _) = self.reach(&request.peer, request.wait).await?;
                (Stream { peer, namespace: request.namespace.clone(), event: SNAPSHOT.into() }, None)
            }
        };
        let paths = if let WatchTarget::State(paths) = &request.target { paths.clone() } else { Vec::new() };
        let shared = Arc::new(Shared {
            log: Mutex::new(Log::new(paths)),
            read: Mutex::new(Instant::now()),
            news: Notify::new(),
            over: CancellationToken::new(),
        });
        let opening = match self.node().subscribe(stream.clone()) {
            Ok(subscription) => self.opened(subscription, &shared, &stream).await,
            Err(error) => Err(error),
        };
        match opening {
            Ok((subscription, opened)) => {
                let declared = Declared::of(description.as_deref(), &stream);
                let lacking = self.lacking(&stream, &request.target).await;
                let opened = Opened { declared, ..opened };
                let line = self.hold(principal, (stream, request.target), shared, subscription, opened)?;
                Ok(WatchLine { lacking, ..line })
            }
            Err(error) => Err(cannot_watch(self, stream, description.as_deref(), error).await),
        }
    }

    fn hold(
        &self,
        principal: &Principal,
        (stream, target): (Stream, WatchTarget),
        shared: Arc<Shared>,
        subscription: Subscription,
        opened: Opened,
    ) -> Result<WatchLine, PlantError> {
        let id = self.shared.watches.id(&stream);
        let mut held = self.shared.watches.held();
        Watches::full(&held)?;
        let task = tokio::spawn(shared.clone().hear(subscription, stream.clone()));
        let client = principal.client.clone();
        let watch = Watched { stream, target, client, started_ms: now_ms(), opened, shared, task };
        let line = watch.line(&id);
        held.insert(id, watch);
        Ok(line)
    }

    /// Waits until the peer has the subscription and has said how far it counted; what comes meanwhile is kept.
    async fn opened(
        &self,
        mut subscription: Subscription,
        shared: &Shared,
        stream: &Stream,
    ) -> Result<(Subscription, Opened), CallError> {
        let attaching = async {
            loop {
                match subscription.next().await {
                    Some(Heard::Attached) => return Ok(()),
                    Some(Heard::Failed(error)) => return Err(error),
                    Some(heard) => shared.take(heard, stream),
                    None => return Err(CallError::UnknownOutcome(Unsure::Closing)),
                }
            }
        };
        let bound = CallError::UnknownOutcome(Unsure::Timeout(ATTACH_PATIENCE));
        timeout(ATTACH_PATIENCE, attaching).await.unwrap_or(Err(bound))?;
        shared.log().attached();
        if stream.event == SNAPSHOT {
            return Ok((subscription, Opened::default()));
        }
        let asking = self.event_cursor(stream);
        tokio::pin!(asking);
        let cursor = loop {
            tokio::select! {
                // What is there together with the answer may have come after it, and counts so.
                biased;
                cursor = &mut asking => break cursor,
                Some(heard) = subscription.next() => shared.take(heard, stream),
            }
        };
        let records = shared.log().written();
        Ok((subscription, Opened { cursor, records, ..Opened::default() }))
    }

    /// Every watch that is held, by id.
    pub fn list_watches(&self) -> Vec<WatchLine> {
        self.shared.watches.held().iter().map(|(id, watch)| watch.line(id)).collect()
    }

    /// Ends a watch; gives how it stood.
    pub fn stop_watch(&self, watch: &str) -> Result<WatchLine, PlantError> {
        let mut held = self.shared.watches.held();
        let Some(ended) = held.remove(watch) else { return Err(Watches::unknown(&held, watch)) };
        Ok(ended.line(watch))
    }

    /// Ends a watch and returns once its subscription is given up, for whoever leaves the network next.
    pub async fn end_watch(&self, watch: &str) -> Result<(), PlantError> {
        let removed = {
            let mut held = self.shared.watches.held();
            held.remove(watch).ok_or_else(|| Watches::unknown(&held, watch))
        };
        let mut ended = removed?;
        ended.task.abort();
        // It was aborted: that is all its end can say.
        let _ = (&mut ended.task).await;
        Ok(())
    }

    /// Whether there is a watch of this id.
    pub fn has_watch(&self, watch: &str) -> bool {
        self.shared.watches.held().contains_key(watch)
    }

    /// What a watch holds since an answer arrived, and what was missed since.
    pub async fn read_watch(&self, request: ReadWatch) -> Result<WatchRead, PlantError> {
        let (shared, stream, opened) = {
            let held = self.shared.watches.held();
            let watch = held.get(&request.watch).ok_or_else(|| Watches::unknown(&held, &request.watch))?;
            watch.shared.was_read();
            (watch.shared.clone(), watch.stream.clone(), watch.opened.clone())
        };
        let asked = shared.log().tally.highest_of_each();
        let cursor = if stream.event == SNAPSHOT { None } else { self.event_cursor(&stream).await };
        if let Some(cursor) = &cursor {
            shared.arrived(cursor).await;
        }
        let line = {
            let held = self.shared.watches.held();
            let watch = held.get(&request.watch).ok_or_else(|| Watches::unknown(&held, &request.watch))?;
            watch.line(&request.watch)
        };
        let distrusted = cursor.as_ref().is_some_and(|cursor| self.shared.baselines.distrusts(&stream, cursor));
        let doubt = asked.check(cursor.as_ref());
        let from = request.after.unwrap_or_else(|| Reached::beginning(opened.cursor.clone()));
        let answering = Answering {
            from,
            begun: opened.cursor,
            cursor,
            doubt,
            distrusted,
            opened: opened.records,
            most: request.most,
            most_bytes: request.most_bytes,
        };
        let (mut read, unreliable) = answering.read(&mut shared.log(), line);
        if let Some((epoch, until)) = unreliable {
            self.shared.baselines.distrust(&stream, &epoch, until);
        }
        let end = read.reached.cursor().cloned();
        undeclared_is_not_gapless(&mut read.loss, &stream, read.line.declared, end.as_ref());
        self.shared.meter.told(&read.loss);
        read.fake = self.speaks_as_fake(&stream.peer).await;
        Ok(read)
    }
}

impl Shared {
    /// Waits a little for what has fired and not arrived.
    async fn arrived(&self, cursor: &Cursor) {
        let deadline = Instant::now() + GRACE;
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if self.log().tally.highest(&cursor.epoch).unwrap_or(0) >= cursor.seq {
                return;
            }
            if timeout_at(deadline, news).await.is_err() {
                return;
            }
        }
    }
}
