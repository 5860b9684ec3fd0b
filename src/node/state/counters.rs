//! How often each event was emitted (semantics.md 6.2): declared ones from exposure, others from the first time anybody
//! subscribes or asks. The count rises before delivery, heard or not.

use std::collections::HashMap;

use crate::wire::Stamp;

/// How many undeclared events are counted in one process; anybody may ask for any name (S-065).
const MAX_AD_HOC: usize = 1000;
/// How many bytes the name of an event may have that others ask for: it is kept and listed.
pub(super) const MAX_NAME: usize = 1024;

/// The counters of what we serve.
#[derive(Debug)]
pub(super) struct Counters {
    epoch: String,
    counts: HashMap<(String, String), Count>,
    ad_hoc: usize,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    seq: u64,
    since_ms: i64,
}

impl Counters {
    /// Counters of one incarnation. The epoch is drawn by the caller, at least 64 random bits (S-064).
    pub(super) fn new(epoch: String) -> Self {
        Self { epoch, counts: HashMap::new(), ad_hoc: 0 }
    }

    /// The incarnation.
    pub(super) fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Starts counting a declared event. A namespace exposed again under its name goes on counting (S-066).
    pub(super) fn declare(&mut self, namespace: &str, event: &str, now_ms: i64) {
        self.counts.entry((namespace.into(), event.into())).or_insert(Count { seq: 0, since_ms: now_ms });
    }

    /// Somebody subscribed to this event, or asked for it: it is counted from now on, if it can be.
    pub(super) fn start(&mut self, namespace: &str, event: &str, now_ms: i64) {
        let key = (namespace.to_owned(), event.to_owned());
        if !countable(event) || event.len() > MAX_NAME || self.counts.contains_key(&key) || self.ad_hoc >= MAX_AD_HOC {
            return;
        }
        self.ad_hoc += 1;
        self.counts.insert(key, Count { seq: 0, since_ms: now_ms });
    }

    /// Counts one emission. `None` where it is not counted.
    pub(super) fn emitted(&mut self, namespace: &str, event: &str) -> Option<Stamp> {
        if !countable(event) {
            return None;
        }
        let count = self.counts.get_mut(&(namespace.to_owned(), event.to_owned()))?;
        count.seq += 1;
        Some(Stamp { epoch: self.epoch.clone(), seq: count.seq })
    }

    /// How far the count is, and since when.
    pub(super) fn cursor(&self, namespace: &str, event: &str) -> Option<(u64, i64)> {
        self.counts.get(&(namespace.to_owned(), event.to_owned())).map(|count| (count.seq, count.since_ms))
    }
}

/// The channels of components, context and withdrawal are never counted.
fn countable(event: &str) -> bool {
    !matches!(event, "$snapshot" | "$context" | "$retired")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s063_the_first_counted_emission_carries_one_subscribed_or_not() {
        let mut counters = Counters::new("e".into());
        counters.declare("oven", "chime", 5);
        assert_eq!(counters.cursor("oven", "chime"), Some((0, 5)));
        assert_eq!(counters.emitted("oven", "chime"), Some(Stamp { epoch: "e".into(), seq: 1 }));
        assert_eq!(counters.emitted("oven", "adhoc"), None, "nobody asked for it yet");
        counters.start("oven", "adhoc", 6);
        assert_eq!(counters.emitted("oven", "adhoc").map(|stamp| stamp.seq), Some(1));
    }

    #[test]
    fn s066_a_namespace_exposed_again_goes_on_counting() {
        let mut counters = Counters::new("e".into());
        counters.declare("oven", "chime", 5);
        counters.emitted("oven", "chime");
        counters.declare("oven", "chime", 9);
        assert_eq!(counters.emitted("oven", "chime").map(|stamp| stamp.seq), Some(2));
    }

    #[test]
    fn s065_asking_for_names_is_bounded_and_channels_are_never_counted() {
        let mut counters = Counters::new("e".into());
        counters.start("oven", "$snapshot", 1);
        assert_eq!(counters.cursor("oven", "$snapshot"), None);
        for n in 0..MAX_AD_HOC + 10 {
            counters.start("oven", &format!("e{n}"), 1);
        }
        assert_eq!(counters.counts.len(), MAX_AD_HOC);
        assert_eq!(counters.cursor("oven", &format!("e{}", MAX_AD_HOC + 1)), None);
    }
}
