//! The places of the door: how many connections there may be, and who leaves when one more comes. Somebody who opens
//! connections and asks nothing shuts nobody out: when all places are taken, the connection that was never let in and is there
//! longest gives its place to the new one, or else the one that has been idle longest. One with a request open keeps its place.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// All places.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    taken: Mutex<BTreeMap<u64, Held>>,
}

#[derive(Debug)]
struct Held {
    /// Whether a request of it was let in.
    known: bool,
    /// Requests that are open, until their answers were handed over.
    open: usize,
    /// Since when none is.
    idle: Instant,
    leave: CancellationToken,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A place for the connection of this number, which no other has; `None` while every one has a request open.
    pub(super) fn take(self: &Arc<Self>, number: u64, now: Instant) -> Option<Place> {
        let mut taken = self.taken();
        if taken.len() >= self.most {
            let spare = taken.iter().filter(|(_, held)| held.open == 0);
            let first = spare.min_by_key(|(number, held)| (held.known, held.idle, **number)).map(|(number, _)| *number);
            taken.remove(&first?)?.leave.cancel();
            tracing::debug!(connection = first, "gave its place to another");
        }
        let leave = CancellationToken::new();
        taken.insert(number, Held { known: false, open: 0, idle: now, leave: leave.clone() });
        Some(Place { seat: Seat { places: Arc::clone(self), number }, leave })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<u64, Held>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place that is taken; free when dropped.
pub(super) struct Place {
    seat: Seat,
    leave: CancellationToken,
}

impl Place {
    /// To say what happens at it.
    pub(super) fn seat(&self) -> Seat {
        self.seat.clone()
    }

    /// Ends when another has it.
    pub(super) async fn given_away(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.seat.places.taken().remove(&self.seat.number);
    }
}

/// What is told of a place.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    places: Arc<Places>,
    /// Which connection it is.
    pub(super) number: u64,
}

impl Seat {
    /// A request has come. `None` if the place is another's by now: then nothing of it may run, for nobody would be told.
    pub(super) fn opens(&self) -> Option<Open> {
        self.places.taken().get_mut(&self.number)?.open += 1;
        Some(Open(self.clone()))
    }

    /// A request of it was let in.
    pub(super) fn is_known(&self) {
        if let Some(held) = self.places.taken().get_mut(&self.number) {
            held.known = true;
        }
    }
}

/// A request that is open; over when dropped.
pub(super) struct Open(Seat);

impl Open {
    /// The body of its answer, with which it ends.
    pub(super) const fn until<B>(self, body: B) -> Lasting<B> {
        Lasting { body, _open: self }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(held) = self.0.places.taken().get_mut(&self.0.number) {
            held.open = held.open.saturating_sub(1);
            held.idle = Instant::now();
        }
    }
}

/// A body that keeps its request open until it was handed over.
pub(super) struct Lasting<B> {
    body: B,
    _open: Open,
}

impl<B: Body<Error = Infallible> + Unpin> Body for Lasting<B> {
    type Data = B::Data;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Who was never let in leaves first, the oldest of them; then who is idle longest; who has something open stays.
    #[tokio::test(start_paused = true)]
    async fn who_asks_nothing_makes_room() {
        let places = Places::new(3);
        let take = |number| places.take(number, Instant::now());
        let pass = || tokio::time::advance(Duration::from_secs(1));
        let gone = |place: &Place| place.leave.is_cancelled();
        let known = take(1).unwrap();
        drop(known.seat().opens().unwrap());
        known.seat().is_known();
        pass().await;
        let (silent, later) = (take(2).unwrap(), take(3).unwrap());
        let fourth = take(4).unwrap();
        assert_eq!((gone(&known), gone(&silent), gone(&later)), (false, true, false));
        assert!(silent.seat().opens().is_none(), "its place is another's");
        drop(silent);
        let fifth = take(5).unwrap();
        assert!(gone(&later) && !gone(&known) && !gone(&fourth));
        let (first_open, fourth_open, fifth_open) =
            (known.seat().opens().unwrap(), fourth.seat().opens().unwrap(), fifth.seat().opens().unwrap());
        assert!(take(6).is_none(), "each has a request open");
        fourth.seat().is_known();
        fifth.seat().is_known();
        drop(fifth_open);
        pass().await;
        drop((first_open, fourth_open));
        let seventh = take(7).unwrap();
        assert!(gone(&fifth) && !gone(&known) && !gone(&fourth), "it was idle longest");
        drop(known);
        let _eighth = take(8).unwrap();
        assert!(!gone(&fourth) && !gone(&seventh), "there was room");
    }
}
