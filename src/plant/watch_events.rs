//! Listening to one event for a while, and saying what was missed (semantics.md 6.4).

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Plant, PlantError, Principal, Target,
    baselines::{Baselines, Window},
    call::find_namespace,
    descriptions::is_fake,
    listening::{fingerprint, weigh},
    undeclared::{Declared, undeclared_is_not_gapless},
    verdict::{Against, Cursor, Doubt, Loss, Novelty, Tally, Verdict},
};
use crate::{
    contract::Description,
    node::{CallError, Doubt as Unsure, Heard, SNAPSHOT, Stream, Subscription},
    wire::{PeerName, Stamp, Value},
};

/// An event somebody wants to listen to.
#[derive(Clone, Debug)]
pub struct WatchEvents {
    /// Whose.
    pub peer: String,
    /// Of which namespace.
    pub namespace: String,
    /// Which.
    pub event: String,
    /// For how long, unless it is full earlier.
    pub window: Duration,
    /// How many are heard at most.
    pub most: usize,
    /// How many bytes, about.
    pub most_bytes: usize,
    /// How long the peer is awaited, if it is not there.
    pub wait: Duration,
    /// Where it is remembered up to where the client was told.
    pub memory: Memory,
}

/// Where it is remembered up to where a client was told of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Memory {
    /// Here, under the client's name.
    Here,
    /// With the client, which brings what the watch before gave it.
    Brought(Option<Cursor>),
}

/// An event as it was heard.
#[derive(Clone, Debug, PartialEq)]
pub struct HeardEvent {
    /// When it arrived here, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// What it carries.
    pub args: Vec<Value>,
    /// Its count, where the peer counts.
    pub stamp: Option<Stamp>,
}

/// What was heard.
#[derive(Debug)]
pub struct EventsWatched {
    /// Of whom.
    pub stream: Stream,
    /// The events, as they came; repeats are left out.
    pub heard: Vec<HeardEvent>,
    /// What was missed.
    pub loss: Loss,
    /// How far the peer had counted at the end.
    pub cursor: Option<Cursor>,
    /// Up to where the client is told with this.
    pub told: Option<Cursor>,
    /// How long was listened.
    pub took: Duration,
    /// Whether it ended because it was full.
    pub full: bool,
    /// How often link or peer went away meanwhile.
    pub interrupted: u32,
    /// Whether the peer declares the event; `None`: it says nothing of itself.
    pub declared: Option<bool>,
    /// Of an event that is not declared: declared ones like it.
    pub nearest: Vec<String>,
    /// Whether the peer says that it is a fake.
    pub fake: bool,
}

/// How long the answer to the subscription is awaited; the node's own bound is shorter unless the peer goes away meanwhile.
const ATTACH_PATIENCE: Duration = Duration::from_secs(12);
/// How long events that fired before the closing cursor may still take to arrive.
pub(super) const GRACE: Duration = Duration::from_millis(250);
/// More bytes of one event than this are not shown, so they do not fill a watch.
const MAX_SHOWN: usize = 12_288;
/// More than ever wait for a listener.
const REST: usize = 2048;
/// How many late ones may join a watch that is full.
const LATE: usize = 64;

/// A subscription, and what it heard.
struct Listening {
    subscription: Subscription,
    tally: Tally,
    heard: Vec<HeardEvent>,
    most: usize,
    bytes_left: usize,
    full: bool,
    attached: bool,
    failed: Option<CallError>,
    gone: bool,
    interrupted: u32,
}

impl Plant {
    /// Listens to an event. Dropping the future ends the subscription at once, and nobody was told anything.
    pub async fn watch_events(
        &self,
        principal: &Principal,
        request: WatchEvents,
        progress: impl Fn(usize),
    ) -> Result<EventsWatched, PlantError> {
        let (stream, description) =
            self.event_stream(&request.peer, &request.namespace, &request.event, request.wait).await?;
        let window = match &request.memory {
            Memory::Here => self.shared.baselines.begin(&principal.client, &stream),
            Memory::Brought(cursor) => Baselines::brought(cursor.clone()),
        };
        let mut listening = Listening::open(self, &stream, &request)?;
        let attached = tokio::time::timeout(ATTACH_PATIENCE, listening.attached()).await;
        if let Err(error) = attached.unwrap_or(Err(CallError::UnknownOutcome(Unsure::Timeout(ATTACH_PATIENCE)))) {
            return Err(cannot_listen(stream, description.as_deref(), error));
        }
        let before = listening.while_hearing(self.event_cursor(&stream)).await;
        listening.tally.opened(before);
        let started = Instant::now();
        listening.until(started + request.window, &progress).await;
        let took = started.elapsed();
        let full = listening.full;
        let asked = listening.tally.highest_of_each();
        let after = listening.while_hearing(self.event_cursor(&stream)).await;
        if let Some(doubt) = asked.check(after.as_ref()) {
            listening.tally.doubt(doubt);
        }
        listening.stragglers(after.as_ref()).await;
        let (mut loss, told) = self.told(window, &stream, &mut listening, after.as_ref());
        let Listening { heard, interrupted, .. } = listening;
        let (declared, nearest) = Declared::of(description.as_deref(), &stream).parts();
        undeclared_is_not_gapless(&mut loss, &stream, declared, after.as_ref());
        self.shared.meter.told(&loss);
        let fake = description.is_some_and(|known| is_fake(&known));
        let cursor = after;
        Ok(EventsWatched { stream, heard, loss, cursor, told, took, full, interrupted, declared, nearest, fake })
    }

    /// Judges, and notes what the client is told.
    fn told(
        &self,
        window: Window<'_>,
        stream: &Stream,
        listening: &mut Listening,
        after: Option<&Cursor>,
    ) -> (Loss, Option<Cursor>) {
        let brought = window.baseline.as_ref().map(|known| known.cursor.clone());
        let baselines = &self.shared.baselines;
        if after.is_some_and(|after| baselines.distrusts(stream, after)) {
            listening.tally.doubt(Doubt::Known);
        }
        let highest = after.and_then(|after| listening.tally.highest(&after.epoch));
        let judged = listening.tally.judge(Against {
            baseline: window.baseline.as_ref(),
            overlapped: window.overlapped,
            after,
            end: listening.full.then(|| highest.unwrap_or(0)),
            since: "the previous watch",
        });
        if let (Some(after), Some(until)) = (after, judged.distrust) {
            baselines.distrust(stream, &after.epoch, until);
        }
        // What came after the cursor and beyond a hole is for the next watch: it was not judged here.
        if let Some(next) = judged.next.as_ref().filter(|_| after.is_some()) {
            let later = |stamp: &Stamp| stamp.epoch == next.epoch && stamp.seq > next.seq;
            listening
                .heard
                .retain(|event| !event.stamp.as_ref().is_some_and(later) || judged.loss.verdict == Verdict::Unknown);
        }
        window.finish(&judged);
        (judged.loss, judged.next.or(brought))
    }

    /// The stream of an event, and what its peer says of itself.
    pub(super) async fn event_stream(
        &self,
        peer: &str,
        namespace: &str,
        event: &str,
        wait: Duration,
    ) -> Result<(Stream, Option<std::sync::Arc<Description>>), PlantError> {
        if event == SNAPSHOT {
            return Err(PlantError::BadArgument {
                argument: "/event".into(),
                expected: "an event; read_state looks at a component, start_watch without event watches one".into(),
                problem: format!("{SNAPSHOT} is the channel of a component, not an event"),
            });
        }
        let (peer, _) = self.reach(peer, wait).await?;
        let description = self.description_if_any(&peer).await?;
        if let Some(description) = &description {
            find_namespace(description, &peer, namespace)?;
        }
        Ok((Stream { peer, namespace: namespace.into(), event: event.into() }, description))
    }
}

/// Why a peer would not let us listen.
fn cannot_listen(stream: Stream, description: Option<&Description>, error: CallError) -> PlantError {
    let code = if let CallError::Refused(error) = &error { error.code.as_str() } else { "" };
    match code {
        "MethodNotFound" => PlantError::UnknownEvent {
            alternatives: events(description),
            peer: stream.peer,
            namespace: stream.namespace,
            event: stream.event,
        },
        _ => subscribing_failed(&stream.peer, stream.namespace, error),
    }
}

/// Why a peer would not let us watch, an event or what a component holds.
pub(super) async fn cannot_watch(
    plant: &Plant,
    stream: Stream,
    description: Option<&Description>,
    error: CallError,
) -> PlantError {
    if stream.event != SNAPSHOT {
        return cannot_listen(stream, description, error);
    }
    let absent = matches!(&error, CallError::Refused(error) if error.code == "ClassNotFound");
    if absent {
        return plant.not_a_component(stream.peer, stream.namespace).await;
    }
    subscribing_failed(&stream.peer, stream.namespace, error)
}

/// The failure of a subscription.
fn subscribing_failed(peer: &PeerName, namespace: String, error: CallError) -> PlantError {
    let target = Target { peer: peer.clone(), namespace, method: "on".into() };
    PlantError::Call { target, checked: false, observes: true, idempotency_key: None, error }
}

/// Every event a peer declares.
fn events(description: Option<&Description>) -> Vec<String> {
    let namespaces = description.into_iter().flat_map(|description| &description.namespaces);
    let named = |namespace: &crate::contract::Namespace| {
        let names = namespace.events.iter().map(|event| format!("{}.{}", namespace.name, event.name));
        names.collect::<Vec<_>>()
    };
    namespaces.filter(|namespace| namespace.name != "msgrpc").flat_map(named).take(50).collect()
}

impl Listening {
    fn open(plant: &Plant, stream: &Stream, request: &WatchEvents) -> Result<Self, PlantError> {
        let subscription = plant
            .node()
            .subscribe(stream.clone())
            .map_err(|error| subscribing_failed(&stream.peer, stream.namespace.clone(), error))?;
        Ok(Self {
            subscription,
            tally: Tally::default(),
            heard: Vec::new(),
            most: request.most,
            bytes_left: request.most_bytes,
            full: false,
            attached: false,
            failed: None,
            gone: false,
            interrupted: 0,
        })
    }

    /// Waits until the peer has the subscription.
    async fn attached(&mut self) -> Result<(), CallError> {
        while !self.attached {
            let heard = self.subscription.next().await;
            self.take(heard);
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if self.gone {
                return Err(CallError::UnknownOutcome(Unsure::Closing));
            }
        }
        Ok(())
    }

    fn take(&mut self, heard: Option<Heard>) {
        match heard {
            None => self.gone = true,
            Some(Heard::Attached) => self.attached = true,
            Some(Heard::Failed(error)) => self.failed = Some(error),
            Some(Heard::Interrupted) => self.interrupted += 1,
            // What a full watch leaves unread is left to the next one.
            Some(Heard::Missed(missed)) if !self.full => self.tally.fell_off(missed),
            Some(Heard::Missed(_)) => {}
            Some(Heard::Event { args, stamp, at_ms }) => self.event(HeardEvent { at_ms, args, stamp }),
        }
    }

    fn event(&mut self, event: HeardEvent) {
        if self.full && !self.is_late(event.stamp.as_ref()) {
            return;
        }
        if self.tally.hear(event.stamp.as_ref(), fingerprint(&event.args)) == Novelty::Repeated {
            return;
        }
        let bytes = event.args.iter().map(weigh).sum::<usize>().min(MAX_SHOWN) + 64;
        self.heard.push(event);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.full |= self.heard.len() >= self.most || self.bytes_left == 0;
    }

    /// Whether an event fills a hole before the last one of a full watch.
    fn is_late(&self, stamp: Option<&Stamp>) -> bool {
        let before_the_end =
            |stamp: &Stamp| self.tally.highest(&stamp.epoch).is_some_and(|highest| stamp.seq < highest);
        self.heard.len() < self.most + LATE && stamp.is_some_and(before_the_end)
    }

    /// Does `work`, hearing meanwhile. What is there together with its end may have come after it, and is heard after it.
    async fn while_hearing<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                heard = self.subscription.next(), if !self.gone => self.take(heard),
            }
        }
    }

    async fn until(&mut self, deadline: Instant, progress: &impl Fn(usize)) {
        while !self.full && !self.gone {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(deadline) => return,
                heard = self.subscription.next() => {
                    self.take(heard);
                    progress(self.heard.len());
                }
            }
        }
    }

    /// Hears what is there already.
    async fn rest(&mut self) {
        for _ in 0..REST {
            let Ok(heard) = tokio::time::timeout(Duration::ZERO, self.subscription.next()).await else { return };
            self.take(heard);
            if self.gone {
                return;
            }
        }
    }

    /// Waits a little for what has fired and not arrived.
    async fn stragglers(&mut self, after: Option<&Cursor>) {
        self.rest().await;
        let Some(after) = after else { return };
        let deadline = Instant::now() + GRACE;
        let end = |listening: &Self| match listening.tally.highest(&after.epoch) {
            Some(highest) if listening.full => Cursor { seq: highest.min(after.seq), ..after.clone() },
            _ => after.clone(),
        };
        while !self.gone && !self.tally.complete(&end(self)) {
            tokio::select! {
                biased;
                heard = self.subscription.next() => self.take(heard),
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }
}
