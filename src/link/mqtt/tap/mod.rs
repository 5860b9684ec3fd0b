//! The tap: hears everything under the network's prefix, on a connection of its own (W-120). It is no peer: it has a client
//! id nobody else has, no presence, no will, takes everything at QoS 0 and publishes nothing.
//!
//! One connection however many watch: the first [`Tap::watch`] opens it, the last [`Watcher`] to be dropped closes it. A
//! watcher that is slow loses what its bounded queue does not hold, is told how much, and holds up nobody: neither the
//! other watchers, nor the broker, nor the link, which knows nothing of the tap.

mod queue;
mod run;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::queue::Queue;
use super::Config;
use crate::link::DownReason;
use crate::wire::Topics;
use crate::wire::mqtt::Publish;

pub use self::queue::Dropped;

/// A tap that can be opened. Clones are the same tap.
#[derive(Clone, Debug)]
pub struct Tap {
    shared: Arc<Shared>,
}

/// What a watcher hears.
#[derive(Clone, Debug)]
pub enum Tapped {
    /// The connection is there, and everything published from now on is heard.
    Up {
        /// Whether something was heard through it already. A broker may grant a subscription and then deliver nothing,
        /// because its access list forbids it.
        proven: bool,
    },
    /// It is not: what is published until the next [`Tapped::Up`] is not heard.
    Down(DownReason),
    /// Something was published.
    Publish {
        /// What.
        publish: Arc<Publish>,
        /// Whether the broker had kept it: then it was published before the connection was there.
        retained: bool,
        /// When it arrived here.
        at: Instant,
        /// The same, in milliseconds since the Unix epoch.
        at_ms: i64,
    },
}

/// Somebody who watches. Dropping it ends the watching.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    watchers: Vec<Arc<Queue>>,
    /// The connection there is, and which one it is.
    connection: Option<CancellationToken>,
    number: u64,
    /// What a watcher that comes now is told first.
    standing: Standing,
}

/// How the connection is.
#[derive(Clone, Debug, Default)]
enum Standing {
    #[default]
    Opening,
    Up {
        proven: bool,
    },
    Down(DownReason),
}

impl Tap {
    /// A tap on the network of this link, with the same account, certificates and socket options; nothing is opened yet.
    pub fn new(mut config: Config) -> Self {
        config.announce = false;
        config.requests = false;
        Self { shared: Arc::new(Shared { config, state: Mutex::default() }) }
    }

    /// The topics of the network.
    pub fn topics(&self) -> &Topics {
        &self.shared.config.topics
    }

    /// Begins to watch; opens the connection if nobody else watches. Must be called inside a tokio runtime.
    pub fn watch(&self) -> Watcher {
        let queue = Arc::new(Queue::default());
        let mut state = self.shared.state();
        state.watchers.push(queue.clone());
        match (&state.connection, &state.standing) {
            (None, _) => self.open(&mut state),
            (Some(_), Standing::Opening) => {}
            (Some(_), Standing::Up { proven }) => queue.push(Tapped::Up { proven: *proven }),
            (Some(_), Standing::Down(reason)) => queue.push(Tapped::Down(reason.clone())),
        }
        drop(state);
        Watcher { shared: self.shared.clone(), queue }
    }

    fn open(&self, state: &mut State) {
        let stop = CancellationToken::new();
        state.number += 1;
        state.standing = Standing::Opening;
        state.connection = Some(stop.clone());
        tokio::spawn(run::run(self.shared.clone(), state.number, stop));
    }
}

impl Watcher {
    /// What is heard next.
    pub async fn next(&mut self) -> Tapped {
        self.queue.next().await
    }

    /// What is heard already, without waiting.
    pub fn try_next(&mut self) -> Option<Tapped> {
        self.queue.pop()
    }

    /// What fell over the bounds of this watcher so far.
    pub fn dropped(&self) -> Dropped {
        self.queue.dropped()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.watchers.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        if state.watchers.is_empty()
            && let Some(stop) = state.connection.take()
        {
            stop.cancel();
        }
    }
}

impl Shared {
    /// Held for moments only, never across a wait.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells every watcher, if this connection is still the one they listen to.
    fn tell(&self, number: u64, tapped: &Tapped) {
        let mut state = self.state();
        if state.number != number {
            return;
        }
        match tapped {
            Tapped::Up { proven } => state.standing = Standing::Up { proven: *proven },
            Tapped::Down(reason) => state.standing = Standing::Down(reason.clone()),
            Tapped::Publish { .. } => {
                if let Standing::Up { proven } = &mut state.standing {
                    *proven = true;
                }
            }
        }
        for queue in &state.watchers {
            queue.push(tapped.clone());
        }
    }
}
