//! What a fake does, in one place: every call it is given, every event it sends and every state it shows passes here, is
//! counted, and could be kept.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::wire::PeerName;

/// One thing a fake does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deed<'a> {
    /// It answers a call, or never will.
    Call {
        caller: &'a PeerName,
        namespace: &'a str,
        method: &'a str,
        /// How it fails, if it does.
        failed: Option<&'a str>,
    },
    /// It sends an event.
    Event { namespace: &'a str, event: &'a str },
    /// It shows another state.
    State { namespace: &'a str },
}

/// What a fake has done so far.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    calls: AtomicU64,
    events: AtomicU64,
}

impl Deeds {
    /// Notes what `fake` does.
    pub(super) fn note(&self, fake: &PeerName, deed: Deed<'_>) {
        match deed {
            Deed::Call { caller, namespace, method, failed } => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                tracing::trace!(%fake, %caller, namespace, method, failed, "called");
            }
            Deed::Event { namespace, event } => {
                self.events.fetch_add(1, Ordering::Relaxed);
                tracing::trace!(%fake, namespace, event, "emits");
            }
            Deed::State { namespace } => tracing::trace!(%fake, namespace, "shows another state"),
        }
    }

    /// Calls given and events sent.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.events.load(Ordering::Relaxed))
    }
}
