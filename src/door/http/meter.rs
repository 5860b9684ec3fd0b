//! What the listeners of the HTTP door count: connections, and requests by the status they were answered with.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use hyper::StatusCode;

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::door) enum Purpose {
    /// MCP, and beside it what watches the process.
    Mcp,
    /// Nothing but what watches the process.
    Watching,
}

impl Purpose {
    const ALL: [Self; 2] = [Self::Mcp, Self::Watching];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Watching => "metrics",
        }
    }
}

/// The statuses this door answers with. Any other is counted as one.
const STATUSES: [u16; 15] = [200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 413, 415, 422, 500, 503];

/// The counts of all listeners of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Meters(Arc<[Meter; Purpose::ALL.len()]>);

/// The counts of one.
#[derive(Debug, Default)]
pub(super) struct Meter {
    begun: AtomicU64,
    ended: AtomicU64,
    turned_away: AtomicU64,
    statuses: [AtomicU64; STATUSES.len() + 1],
}

/// What a listener counted.
#[derive(Debug)]
pub(in crate::door) struct ListenerCounts {
    pub(in crate::door) listener: &'static str,
    /// Connections that were given a place.
    pub(in crate::door) connections: u64,
    /// Those of them that are open.
    pub(in crate::door) open: u64,
    /// Connections there was no room for.
    pub(in crate::door) turned_away: u64,
    /// Answers by status, those alone that there were.
    pub(in crate::door) answers: Vec<(Option<u16>, u64)>,
}

impl Meters {
    pub(super) fn of(&self, purpose: Purpose) -> &Meter {
        let [mcp, watching] = &*self.0;
        match purpose {
            Purpose::Mcp => mcp,
            Purpose::Watching => watching,
        }
    }

    /// What was counted so far.
    pub(in crate::door) fn counts(&self) -> impl Iterator<Item = ListenerCounts> {
        Purpose::ALL.into_iter().map(|purpose| self.of(purpose).counts(purpose.as_str()))
    }
}

impl Meter {
    /// A connection has a place, until what is given is dropped.
    pub(super) fn connected(&self) -> Connected<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Connected(self)
    }

    /// There was no room for a connection.
    pub(super) fn turned_away(&self) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    /// A request was answered.
    pub(super) fn answered(&self, status: StatusCode) {
        let at = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len());
        if let Some(count) = self.statuses.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts(&self, listener: &'static str) -> ListenerCounts {
        // Ends before beginnings: never more are closed than were opened.
        let ended = self.ended.load(Ordering::Relaxed);
        let connections = self.begun.load(Ordering::Relaxed);
        let known = STATUSES.into_iter().map(Some).chain([None]);
        let answers = known.zip(&self.statuses).map(|(status, count)| (status, count.load(Ordering::Relaxed)));
        ListenerCounts {
            listener,
            connections,
            open: connections.saturating_sub(ended),
            turned_away: self.turned_away.load(Ordering::Relaxed),
            answers: answers.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// A connection that is open.
pub(super) struct Connected<'a>(&'a Meter);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}
