//! Who is at the door: clients with a name, for as long as they keep coming, and connections without one.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::model::RequestId;
use tokio::{sync::Notify, task::JoinSet, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    super::auth::{Became, Keys, Named},
    places::Seat,
};
use crate::mcp::{Door, Server, server::Session};

/// One client: its session, and which of its requests run.
pub(super) struct Caller {
    pub(super) name: Arc<str>,
    session: Session,
    /// Cancelled when what its requests listen to is to end.
    listening: Mutex<CancellationToken>,
    running: Mutex<HashMap<u64, (RequestId, CancellationToken)>>,
    /// Told when none runs any more.
    quiet: Notify,
    next: AtomicU64,
}

/// A request that runs; forgotten when dropped.
pub(super) struct Running {
    caller: Arc<Caller>,
    key: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = self.caller.running();
        running.remove(&self.key);
        if running.is_empty() {
            self.caller.quiet.notify_waiters();
        }
    }
}

impl Caller {
    fn new(name: Arc<str>, session: Session, listening: CancellationToken) -> Arc<Self> {
        let (listening, next) = (Mutex::new(listening), AtomicU64::new(0));
        Arc::new(Self { name, session, listening, running: Mutex::default(), quiet: Notify::new(), next })
    }

    /// The session its requests are served in.
    pub(super) fn session(&self) -> Session {
        self.session.clone().listening_until(self.listening().clone())
    }

    /// Whatever it listens to ends; what it asks for later listens until then.
    fn listen_until(&self, until: CancellationToken) {
        std::mem::replace(&mut *self.listening(), until).cancel();
    }

    /// Ends when none of its requests runs.
    async fn quiet(&self) {
        loop {
            // Before looking, so that what ends in between is heard of.
            let mut quiet = std::pin::pin!(self.quiet.notified());
            quiet.as_mut().enable();
            if self.running().is_empty() {
                return;
            }
            quiet.await;
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<u64, (RequestId, CancellationToken)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listening(&self) -> MutexGuard<'_, CancellationToken> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request, so that it can be cancelled.
    pub(super) fn begins(self: &Arc<Self>, id: RequestId, nobody_waits: CancellationToken) -> Running {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.running().insert(key, (id, nobody_waits));
        Running { caller: Arc::clone(self), key }
    }

    /// Ends the waiting for the request `id`. Two processes may come with one token and number alike: of two requests with
    /// one id none is cancelled.
    pub(super) fn cancel(&self, id: &RequestId) {
        let running = self.running();
        let mut same = running.values().filter(|(known, _)| known == id);
        match (same.next(), same.next()) {
            (Some((_, nobody_waits)), None) => nobody_waits.cancel(),
            (None, _) => tracing::debug!(client = %self.name, "nothing of this id runs"),
            (Some(_), Some(_)) => {
                tracing::warn!(client = %self.name, "two requests have this id; neither is cancelled");
            }
        }
    }
}

/// The clients with a name.
pub(super) struct Clients {
    server: Server,
    linger: Duration,
    /// The door closes: nothing is listened to any more.
    closing: CancellationToken,
    named: Mutex<HashMap<Arc<str>, Seen>>,
    /// Until when those without a name listen.
    nameless: Mutex<CancellationToken>,
    /// Where sessions end.
    tasks: TaskTracker,
}

/// A client, what it may do, and when its last request was.
struct Seen {
    caller: Arc<Caller>,
    read_only: bool,
    last: Instant,
}

impl Clients {
    pub(super) fn new(server: Server, linger: Duration, closing: CancellationToken, tasks: TaskTracker) -> Self {
        let nameless = Mutex::new(closing.child_token());
        Self { server, linger, closing, named: Mutex::default(), nameless, tasks }
    }

    /// This client, whichever connection it comes over.
    pub(super) fn named(&self, named: &Named) -> Arc<Caller> {
        let mut all = self.all();
        if all.get(&named.name).is_some_and(|seen| seen.read_only != named.read_only)
            && let Some(former) = all.remove(&named.name)
        {
            let gives_back = !former.read_only;
            self.retire(former, gives_back);
        }
        let seen = all.entry(Arc::clone(&named.name)).or_insert_with(|| {
            tracing::info!(client = %named.name, read_only = named.read_only, "a client came in over HTTP");
            let session = self.server.session(&named.name, Door::Http).looking(named.read_only);
            let caller = Caller::new(Arc::clone(&named.name), session, self.closing.child_token());
            Seen { caller, read_only: named.read_only, last: Instant::now() }
        });
        seen.last = Instant::now();
        Arc::clone(&seen.caller)
    }

    /// Whoever is at the door while it changes from one set of tokens to another. Requests that run are let run; what lasts until
    /// somebody ends it does not outlast the token it was asked for with.
    pub(super) fn judge(&self, before: &Keys, after: &Keys) {
        if before.is_open() && !after.is_open() {
            let mut nameless = self.nameless.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *nameless, self.closing.child_token()).cancel();
        }
        let mut all = self.all();
        let others = all.extract_if(|name, seen| match after.now(before, name) {
            Became::Same => false,
            Became::OtherToken { read_only } => {
                seen.caller.listen_until(self.closing.child_token());
                seen.read_only != read_only
            }
            Became::Nobody => true,
        });
        for (name, former) in others {
            tracing::info!(client = %name, "its token is gone, or lets it do something else");
            // Whoever could only look and may do more now holds nothing, unless it took that since.
            let gives_back = !former.read_only;
            self.retire(former, gives_back);
        }
    }

    /// Until when those without a name listen.
    fn nameless_until(&self) -> CancellationToken {
        self.nameless.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A former self of a client: what runs ends, and then its session. What it controls is given back, if it may not any more.
    fn retire(&self, former: Seen, gives_back: bool) {
        let caller = former.caller;
        caller.listen_until(CancellationToken::new());
        self.tasks.spawn(async move {
            caller.quiet().await;
            if gives_back {
                caller.session.give_back().await;
            }
            caller.session.end().await;
        });
    }

    /// Ends the sessions of those that have not been here for a while and have nothing running.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        let mut all = self.all();
        all.retain(|name, seen| {
            // Whoever serves a request of this client holds it as well.
            if Arc::strong_count(&seen.caller) > 1 {
                seen.last = now;
            }
            let stays = now.duration_since(seen.last) < self.linger;
            if !stays {
                tracing::info!(client = %name, "a client has not been here for a while");
                let session = seen.caller.session();
                self.tasks.spawn(async move { session.end().await });
            }
            stays
        });
    }

    /// Ends all sessions.
    pub(super) async fn end_all(&self) {
        let gone: Vec<Session> = self.all().drain().map(|(_, seen)| seen.caller.session()).collect();
        let mut ending = JoinSet::new();
        for session in gone {
            ending.spawn(async move { session.end().await });
        }
        while ending.join_next().await.is_some() {}
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Arc<str>, Seen>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection; where there are no tokens, a client of its own.
pub(super) struct Connection {
    seat: Seat,
    caller: OnceLock<Arc<Caller>>,
}

impl Connection {
    pub(super) fn new(seat: Seat) -> Arc<Self> {
        Arc::new(Self { seat, caller: OnceLock::new() })
    }

    /// Its place.
    pub(super) const fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Whoever holds this connection.
    pub(super) fn anonymous(&self, server: &Server, clients: &Clients) -> Arc<Caller> {
        let caller = self.caller.get_or_init(|| {
            let name: Arc<str> = format!("http-{}", self.seat.number).into();
            let session = server.session(&name, Door::Http).nameless();
            Caller::new(name, session, clients.nameless_until())
        });
        Arc::clone(caller)
    }

    /// It is closed.
    pub(super) async fn end(&self) {
        if let Some(caller) = self.caller.get() {
            caller.session().end().await;
        }
    }
}
