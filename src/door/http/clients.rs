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
use tokio::{task::JoinSet, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{super::auth::Named, places::Seat};
use crate::mcp::{Door, Server, server::Session};

/// One client: its session, and which of its requests run.
pub(super) struct Caller {
    pub(super) name: Arc<str>,
    session: Session,
    running: Mutex<HashMap<u64, (RequestId, CancellationToken)>>,
    next: AtomicU64,
}

/// A request that runs; forgotten when dropped.
pub(super) struct Running {
    caller: Arc<Caller>,
    key: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.caller.running().remove(&self.key);
    }
}

impl Caller {
    fn new(name: Arc<str>, session: Session) -> Arc<Self> {
        Arc::new(Self { name, session, running: Mutex::default(), next: AtomicU64::new(0) })
    }

    /// The session its requests are served in.
    pub(super) fn session(&self) -> Session {
        self.session.clone()
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

    fn running(&self) -> MutexGuard<'_, HashMap<u64, (RequestId, CancellationToken)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clients with a name.
pub(super) struct Clients {
    server: Server,
    linger: Duration,
    /// The door closes: nothing is listened to any more.
    closing: CancellationToken,
    named: Mutex<HashMap<Arc<str>, Seen>>,
}

/// A client, and when its last request was.
struct Seen {
    caller: Arc<Caller>,
    last: Instant,
}

impl Clients {
    pub(super) fn new(server: Server, linger: Duration, closing: CancellationToken) -> Self {
        Self { server, linger, closing, named: Mutex::default() }
    }

    /// This client, whichever connection it comes over.
    pub(super) fn named(&self, named: &Named) -> Arc<Caller> {
        let mut all = self.all();
        let seen = all.entry(Arc::clone(&named.name)).or_insert_with(|| {
            tracing::info!(client = %named.name, read_only = named.read_only, "a client came in over HTTP");
            let session = self.server.session(&named.name, Door::Http).looking(named.read_only);
            let session = session.listening_until(self.closing.clone());
            Seen { caller: Caller::new(Arc::clone(&named.name), session), last: Instant::now() }
        });
        seen.last = Instant::now();
        Arc::clone(&seen.caller)
    }

    /// Ends the sessions of those that have not been here for a while and have nothing running.
    pub(super) fn sweep(&self, tasks: &TaskTracker) {
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
                tasks.spawn(async move { session.end().await });
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
    pub(super) fn anonymous(&self, server: &Server, closing: &CancellationToken) -> Arc<Caller> {
        let caller = self.caller.get_or_init(|| {
            let name: Arc<str> = format!("http-{}", self.seat.number).into();
            let session = server.session(&name, Door::Http).nameless().listening_until(closing.clone());
            Caller::new(name, session)
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
