//! Windows of traffic that were watched, kept so that their further pages show the same window.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use super::TrafficWatched;

/// How many windows are kept for their further pages.
const MAX_RECORDINGS: usize = 4;

/// The windows whose further pages may be asked for; the oldest falls off.
#[derive(Debug, Default)]
pub(super) struct Recordings(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    windows: VecDeque<(u64, Arc<TrafficWatched>)>,
}

impl Recordings {
    /// Keeps a window; says under which number.
    pub(super) fn keep(&self, watched: Arc<TrafficWatched>) -> u64 {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let number = kept.last;
        kept.windows.push_back((number, watched));
        if kept.windows.len() > MAX_RECORDINGS {
            kept.windows.pop_front();
        }
        number
    }

    pub(super) fn get(&self, number: u64) -> Option<Arc<TrafficWatched>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.windows.iter().find(|(known, _)| *known == number).map(|(_, watched)| watched.clone())
    }
}
