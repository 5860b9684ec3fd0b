//! The HTTP door: streamable HTTP at `/mcp`, without sessions, one message a request (tools.md 8).
//!
//! Each message is judged by the guard of the stdio door, then served as if it were a session of its own: by the SDK, or by
//! its handler straight (`straight.rs`). Who it comes from is the name of its token; where there are no tokens, the
//! connection it came over.
//!
//! Bounded are the connections, the time a head and a body may take, the bytes of a body and how many large ones are read
//! at once, and how long a client may take to read its answer. A client that hangs up ends the waiting for its call, and
//! the call finishes on its own. HTTP/1.1 and HTTP/2 are served alike; what differs is in `protocol.rs`.

mod answer;
mod clients;
mod exchange;
mod headers;
mod look;
mod meter;
mod places;
mod protocol;
mod quiet;
mod request;
mod rules;
mod slow;
mod straight;
mod streams;
mod tls;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use rmcp::ServerHandler;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::mcp::{Door, Server, server::Session};
use clients::{Clients, Connection};
pub use meter::Meters;
use meter::Purpose;
use places::{Place, Places};
use quiet::{Quiet, Refused};
#[doc(hidden)]
pub use request::judged;
use rules::Reader;
pub use rules::{Rules, RulesHandle};
use slow::Impatient;
use straight::Nobodies;
pub use tls::DoorTls;

/// The bounds of the door.
#[derive(Clone, Copy, Debug)]
pub struct HttpConfig {
    /// Connections at once. With one more, who asks nothing gives its place to the new one.
    pub connections: usize,
    /// How long a head may take, and how long a connection may be idle.
    pub head: Duration,
    /// How long a body may take.
    pub body: Duration,
    /// Bytes a body may have.
    pub longest_body: usize,
    /// How long a client may leave what we write unread.
    pub unread: Duration,
    /// How long a stream of events may be silent before a comment is written into it.
    pub quiet: Duration,
    /// How long the calls that run when the door closes may take to end.
    pub drain: Duration,
    /// How long a client with a name is remembered after its last request: what it controls is given back then.
    pub linger: Duration,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connections: 256,
            head: Duration::from_secs(30),
            body: Duration::from_secs(30),
            longest_body: 32 * 1024 * 1024,
            unread: Duration::from_secs(30),
            quiet: Duration::from_secs(15),
            drain: Duration::from_secs(10),
            linger: Duration::from_mins(5),
        }
    }
}

/// An open door.
#[derive(Debug)]
pub struct HttpDoor {
    listener: TcpListener,
    rules: RulesHandle,
    config: HttpConfig,
    meters: Meters,
}

/// Bytes a head may have, and headers.
const MAX_HEAD: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;
/// Large bodies that are read at once.
const LARGE_AT_ONCE: usize = 4;
/// Connections that are told at once that there is no room for them.
const FAREWELLS: usize = 32;
/// How long that may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long is waited when no connection can be accepted, for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long connections may take to end once their calls were given up.
const LAST: Duration = Duration::from_millis(250);

/// What all connections share. `H` is what the SDK is shown of a session.
struct Hall<H> {
    server: Server,
    show: Box<dyn Fn(Session) -> H + Send + Sync>,
    /// Whether it is shown just the session, so that a request can go to it straight.
    plain: bool,
    purpose: Purpose,
    meters: Meters,
    nobodies: Nobodies,
    rules: Reader,
    config: HttpConfig,
    clients: Clients,
    /// Tasks of connections and of their requests.
    tasks: TaskTracker,
    large: Semaphore,
    /// Connections that are being told that there is no room.
    farewells: Arc<Semaphore>,
    /// What is said of those who are turned away.
    quiet: Quiet,
    /// No more requests are taken.
    closing: CancellationToken,
    /// Nobody waits any more.
    over: CancellationToken,
}

impl HttpDoor {
    /// Binds the door; port 0 takes a free one.
    pub async fn bind(address: SocketAddr, rules: Rules, config: HttpConfig) -> io::Result<Self> {
        let (rules, meters) = (RulesHandle::new(rules), Meters::default());
        Ok(Self { listener: TcpListener::bind(address).await?, rules, config, meters })
    }

    /// What changes its rules, also while it is served.
    pub fn rules(&self) -> RulesHandle {
        self.rules.clone()
    }

    /// The same door, which counts where others of the process do.
    #[must_use]
    pub fn counted_in(self, meters: Meters) -> Self {
        Self { meters, ..self }
    }

    /// Where it is.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` asks for the end; then calls that run are waited for, within a bound, and what the plant holds
    /// for the clients is given back.
    pub async fn serve(self, server: Server, stop: CancellationToken) {
        self.open(server, |session| session, (Purpose::Mcp, true), stop).await;
    }

    /// The same, showing the SDK what `show` makes of a session: a server that the conformance suite is run against has
    /// more to show than ours, behind the same door.
    pub async fn serve_as<H: ServerHandler>(
        self,
        server: Server,
        show: impl Fn(Session) -> H + Send + Sync + 'static,
        stop: CancellationToken,
    ) {
        self.open(server, show, (Purpose::Mcp, false), stop).await;
    }

    /// Serves nothing but what watches the process: `/healthz`, `/readyz` and `/metrics`.
    pub async fn watch(self, server: Server, stop: CancellationToken) {
        self.open(server, |session| session, (Purpose::Watching, true), stop).await;
    }

    async fn open<H: ServerHandler>(
        self,
        server: Server,
        show: impl Fn(Session) -> H + Send + Sync + 'static,
        (purpose, plain): (Purpose, bool),
        stop: CancellationToken,
    ) {
        let Self { listener, rules, config, meters } = self;
        if purpose == Purpose::Mcp {
            server.opened(Door::Http);
        }
        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        let hall = Arc::new(Hall {
            clients: Clients::new(server.clone(), config.linger, closing.clone(), tasks.clone()),
            rules: rules.read(),
            server,
            show: Box::new(show),
            plain,
            purpose,
            meters,
            nobodies: Nobodies::default(),
            config,
            tasks,
            large: Semaphore::new(LARGE_AT_ONCE),
            farewells: Arc::new(Semaphore::new(FAREWELLS)),
            quiet: Quiet::default(),
            closing,
            over: CancellationToken::new(),
        });
        hall.accept(listener, &stop).await;
        hall.closing.cancel();
        hall.tasks.close();
        if timeout(config.drain, hall.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = hall.tasks.len(), "calls did not end in time; nobody waits for them any more");
        }
        hall.over.cancel();
        if timeout(LAST, hall.tasks.wait()).await.is_err() {
            tracing::warn!(tasks = hall.tasks.len(), "connections did not end in time");
        }
        hall.clients.end_all().await;
    }
}

impl<H: ServerHandler> Hall<H> {
    /// Takes connections until asked to stop; the listener is closed then.
    async fn accept(self: &Arc<Self>, listener: TcpListener, stop: &CancellationToken) {
        let places = Places::new(self.config.connections);
        let mut sweep = interval((self.config.linger / 4).max(Duration::from_millis(10)));
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut number: u64 = 0;
        let (mut rules, mut before) = (self.rules.clone(), self.rules.now());
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                changed = rules.changed() => {
                    self.clients.judge(&before.keys, &changed.keys);
                    before = changed;
                    continue;
                }
                _ = sweep.tick() => {
                    self.clients.sweep();
                    self.quiet.say_the_rest(Instant::now());
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            let (stream, from) = match accepted {
                Ok(accepted) => accepted,
                Err(problem) => {
                    tracing::warn!(%problem, "a connection was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            number += 1;
            match places.take(number, Instant::now()) {
                Some(place) => self.open_connection(stream, place),
                None => self.turn_away(stream, from),
            }
        }
    }

    fn open_connection(self: &Arc<Self>, stream: TcpStream, place: Place) {
        let (hall, connection) = (Arc::clone(self), Connection::new(place.seat()));
        self.tasks.spawn(async move {
            let meters = hall.meters.clone();
            let _connected = meters.of(hall.purpose).connected();
            tokio::select! {
                () = hall.connection(stream, Arc::clone(&connection)) => {}
                () = place.given_away() => {}
            }
            connection.end().await;
        });
    }

    /// Tells a connection that there is no room for it: every other one has a request open.
    fn turn_away(&self, stream: TcpStream, from: SocketAddr) {
        self.meters.of(self.purpose).turned_away();
        if let Some(times) = self.quiet.times(Refused::Connection, Instant::now()) {
            tracing::warn!(%from, times, connections = self.config.connections, "refused: too many connections");
        }
        // What is said in plain words is nothing to one that speaks TLS.
        let Ok(room) = Arc::clone(&self.farewells).try_acquire_owned() else { return };
        if self.rules.now().tls.is_some() {
            return;
        }
        let closing = self.closing.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                _ = timeout(FAREWELL, answer::turn_away(stream)) => {}
                () = closing.cancelled() => {}
            }
            drop(room);
        });
    }

    /// Serves one connection until it ends.
    async fn connection(self: Arc<Self>, stream: TcpStream, connection: Arc<Connection>) {
        // Without it an answer waits for the acknowledgement of the one before (44 ms).
        if let Err(problem) = stream.set_nodelay(true) {
            tracing::debug!(%problem, "Nagle stays on");
        }
        let stream = Impatient::new(stream, self.config.unread);
        let greeted = async {
            match &self.rules.now().tls {
                Some(tls) => protocol::greet(tls, stream).await,
                None => protocol::recognize(stream).await,
            }
        };
        let greeted = tokio::select! {
            greeted = timeout(self.config.head, greeted) => greeted,
            () = self.closing.cancelled() => return,
        };
        match greeted {
            Ok(Ok(opened)) => self.converse(opened, connection).await,
            Ok(Err(problem)) => tracing::debug!(%problem, "a connection did not get as far as a request"),
            Err(_) => tracing::debug!("a connection did not begin in time"),
        }
    }
}
