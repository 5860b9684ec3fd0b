//! The one thread that writes, and the one that has the disk keep what was written. Nobody else waits for a disk.

use std::{
    collections::VecDeque,
    fs::File,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    line::{Asked, Ending, Event, Names, Stranger},
    trail::Trail,
};

/// How often the disk is made to keep what was written, and a trail that could not be written is tried again.
const TICK: Duration = Duration::from_secs(1);
/// How long nothing is written of strangers of a kind once something was.
const QUIET: Duration = Duration::from_secs(10);

/// A place in the queue, for as long as a call may still have a line to write.
pub(super) type Place = OwnedSemaphorePermit;

/// What is to be written. Each but the last two holds a place, or is held by a call that does.
pub(super) enum Message {
    Begun {
        asked: Arc<Asked>,
        acknowledge: oneshot::Sender<Result<u64, String>>,
    },
    Ended {
        call: u64,
        asked: Arc<Asked>,
        addressed: Option<Names>,
        ending: Ending,
        us: u64,
        place: Place,
    },
    Refused {
        asked: Arc<Asked>,
        ending: Ending,
        us: u64,
        place: Place,
    },
    /// Strangers were counted.
    Look,
    /// Write the last line, and say when that is done.
    Close(oneshot::Sender<()>),
}

/// What the writer and those who give it work both see.
#[derive(Debug, Default)]
pub(super) struct Health {
    failing: Mutex<Option<Failing>>,
    /// Lines this process wrote.
    pub(super) lines: AtomicU64,
    /// Refusals that are in no line.
    pub(super) missed: AtomicU64,
    strangers: [AtomicU64; Stranger::ALL.len()],
}

#[derive(Clone, Debug)]
struct Failing {
    why: String,
    since: Instant,
}

impl Health {
    /// Why nothing can be written, if that is so.
    pub(super) fn failing(&self) -> Option<String> {
        self.lock().as_ref().map(|failing| failing.why.clone())
    }

    /// Counts one; true if it is the first since the last line about them.
    pub(super) fn turned_away(&self, stranger: Stranger) -> bool {
        let mut kinds = Stranger::ALL.iter().zip(&self.strangers);
        kinds.find(|(kind, _)| **kind == stranger).is_some_and(|(_, count)| count.fetch_add(1, Ordering::Relaxed) == 0)
    }

    fn fail(&self, why: &str) {
        let mut failing = self.lock();
        if failing.is_none() {
            tracing::error!(why, "the audit trail cannot be written; what could change the plant is refused");
            *failing = Some(Failing { why: why.to_owned(), since: Instant::now() });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call whose end could not be written yet. Each holds a place, so there are never more than places.
struct Ended {
    call: u64,
    asked: Arc<Asked>,
    addressed: Option<Names>,
    ending: Ending,
    us: u64,
    _place: Place,
}

impl Ended {
    fn event(&self) -> Event<'_> {
        let Self { call, asked, addressed, ending, us, .. } = self;
        let names = addressed.as_ref().unwrap_or(&asked.names);
        Event::Ended { call: *call, client: &asked.client, tool: &asked.tool, names, ending, us: *us }
    }
}

pub(super) struct Writer {
    trail: Trail,
    health: Arc<Health>,
    keeper: SyncSender<Arc<File>>,
    held: VecDeque<Ended>,
    /// Whether something was written that the disk may not have kept.
    dirty: bool,
    said: [Option<Instant>; Stranger::ALL.len()],
}

impl Writer {
    /// Begins both threads.
    pub(super) fn start(trail: Trail, health: Arc<Health>, messages: Receiver<Message>) -> std::io::Result<()> {
        let (keeper, files) = sync_channel::<Arc<File>>(1);
        let of_keeper = Arc::clone(&health);
        let keep = move || {
            for file in files {
                if let Err(problem) = file.sync_data() {
                    of_keeper.fail(&format!("the disk does not keep what is written: {problem}"));
                }
            }
        };
        std::thread::Builder::new().name("audit-sync".into()).spawn(keep)?;
        let writer = Self { trail, health, keeper, held: VecDeque::new(), dirty: true, said: Default::default() };
        std::thread::Builder::new().name("audit".into()).spawn(move || writer.run(&messages)).map(drop)
    }

    fn run(mut self, messages: &Receiver<Message>) {
        let mut due = Some(Instant::now() + TICK);
        loop {
            let next = match due {
                Some(due) => messages.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(Message::Close(closed)) => {
                    self.close();
                    // Whoever asked may have stopped waiting.
                    let _ = closed.send(());
                    return;
                }
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
            let now = Instant::now();
            match due {
                Some(at) if at <= now => due = self.tick(now).then(|| now + TICK),
                Some(_) => {}
                None => due = Some(now + TICK),
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            // Who waits no longer has not begun, and says so himself.
            Message::Begun { acknowledge, .. } if acknowledge.is_closed() => {}
            Message::Begun { asked, acknowledge } => self.begun(&asked, acknowledge),
            Message::Ended { call, asked, addressed, ending, us, place } => {
                let ended = Ended { call, asked, addressed, ending, us, _place: place };
                if self.write(&ended.event()).is_none() {
                    self.held.push_back(ended);
                }
            }
            Message::Refused { asked, ending, us, place } => {
                if self.write(&Event::Refused { asked: &asked, ending: &ending, us }).is_none() {
                    self.health.missed.fetch_add(1, Ordering::Relaxed);
                }
                drop(place);
            }
            Message::Look | Message::Close(_) => {}
        }
    }

    fn begun(&mut self, asked: &Asked, acknowledge: oneshot::Sender<Result<u64, String>>) {
        let written = self.write(&Event::Begun(asked));
        let answer = written.ok_or_else(|| self.health.failing().unwrap_or_default());
        if let (Err(Ok(call)), names) = (acknowledge.send(answer), &asked.names) {
            // It stopped waiting while this was written, and was not sent.
            let (client, tool) = (&asked.client, &asked.tool);
            self.write(&Event::Ended { call, client, tool, names, ending: &Ending::UNAUDITED, us: 0 });
        }
    }

    /// Writes a line, unless nothing can be written.
    fn write(&mut self, event: &Event<'_>) -> Option<u64> {
        if self.health.lock().is_some() {
            return None;
        }
        match self.trail.append(now(), event) {
            Ok(seq) => {
                self.health.lines.fetch_add(1, Ordering::Relaxed);
                self.dirty = true;
                Some(seq)
            }
            Err(problem) => {
                self.health.fail(&problem.to_string());
                None
            }
        }
    }

    /// What is done once in a while. True if there is something to come back for.
    fn tick(&mut self, now: Instant) -> bool {
        let failing = self.health.lock().clone();
        if let Some(failing) = failing
            && !self.resume(&failing)
        {
            return true;
        }
        self.tell_missed();
        let waiting = self.tell_of_strangers(now);
        // One that is still at it will be given the next.
        let handed = self.dirty && self.keeper.try_send(Arc::clone(self.trail.file())).is_ok();
        self.dirty &= !handed;
        handed || self.dirty || waiting
    }

    /// Tries whether the trail can be written again; then what waited is.
    fn resume(&mut self, failing: &Failing) -> bool {
        let missed = self.health.missed.swap(0, Ordering::Relaxed);
        let ms = u64::try_from(failing.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let event = Event::Resumed { why: &failing.why, ms, missed };
        let resumed = self.trail.file().sync_data().and_then(|()| self.trail.append(now(), &event));
        if resumed.is_err() {
            self.health.missed.fetch_add(missed, Ordering::Relaxed);
            return false;
        }
        self.health.lines.fetch_add(1, Ordering::Relaxed);
        self.dirty = true;
        *self.health.lock() = None;
        tracing::info!(missed, "the audit trail can be written again");
        while let Some(ended) = self.held.pop_front() {
            if self.write(&ended.event()).is_none() {
                self.held.push_front(ended);
                return false;
            }
        }
        true
    }

    fn tell_missed(&mut self) {
        let missed = self.health.missed.swap(0, Ordering::Relaxed);
        if missed > 0 && self.write(&Event::Resumed { why: "no place was free", ms: 0, missed }).is_none() {
            self.health.missed.fetch_add(missed, Ordering::Relaxed);
        }
    }

    /// A line of each kind, if there were any and the last is a while ago. True if some wait to be told.
    fn tell_of_strangers(&mut self, now: Instant) -> bool {
        let mut waiting = false;
        let health = Arc::clone(&self.health);
        for (at, why) in Stranger::ALL.into_iter().enumerate() {
            let (Some(count), Some(said)) = (health.strangers.get(at), self.said.get_mut(at)) else { continue };
            if count.load(Ordering::Relaxed) == 0 {
                continue;
            }
            waiting = true;
            if said.is_some_and(|said| now.duration_since(said) < QUIET) {
                continue;
            }
            *said = Some(now);
            let times = count.swap(0, Ordering::Relaxed);
            if self.write(&Event::TurnedAway { why, status: why.status(), times }).is_none() {
                count.fetch_add(times, Ordering::Relaxed);
            }
        }
        waiting
    }

    fn close(mut self) {
        self.said = Default::default();
        self.tick(Instant::now());
        self.write(&Event::Closed);
        if let Err(problem) = self.trail.file().sync_all() {
            self.health.fail(&format!("the disk does not keep what is written: {problem}"));
        }
        if !self.held.is_empty() {
            tracing::error!(calls = self.held.len(), "calls ended of which the audit trail does not say how");
        }
    }
}

/// The clock, in milliseconds since the epoch.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
