//! What a listener is handed, without ever waiting for it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::mpsc;

use super::{Heard, state::Delivery};

/// The driver's end of a [`super::Subscription`].
pub(super) struct Listener {
    pub(super) deliveries: mpsc::Sender<Heard>,
    pub(super) missed: Arc<AtomicU64>,
}

impl Listener {
    /// Hands over without waiting; false if there was no room. What falls off is told of at the place where it is missing.
    pub(super) fn deliver(&self, heard: Heard) -> bool {
        let missed = self.missed.swap(0, Ordering::Relaxed);
        if missed > 0 && self.deliveries.try_send(Heard::Missed(missed)).is_err() {
            self.missed.fetch_add(missed + 1, Ordering::Relaxed);
            return false;
        }
        let fits = self.deliveries.try_send(heard).is_ok();
        if !fits {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }
}

impl From<Delivery> for Heard {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Attached => Heard::Attached,
            Delivery::Failed(error) => Heard::Failed(error),
            Delivery::Event { args, stamp, at_ms } => Heard::Event { args, stamp, at_ms },
            Delivery::Interrupted => Heard::Interrupted,
        }
    }
}
