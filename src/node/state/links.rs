//! How our links are, and which of them leads to a peer.

use std::collections::{BTreeMap, BTreeSet};

use super::Seen;
use crate::link::{DownKind, DownReason, LinkId};
use crate::wire::PeerName;

/// One link, as the node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Why it is down; `None` while it is up.
    pub down: Option<DownReason>,
    /// Whether the sweep of presence of this connection is complete (W-042).
    pub settled: bool,
    /// The name of the hub at its other end, as it gave it on this connection (W-106); of other links nothing.
    pub hub: Option<PeerName>,
    /// Since when it is up or down, in milliseconds since the Unix epoch; `None` if it has been down from the start.
    pub since_ms: Option<i64>,
    /// How often it came up.
    pub ups: u64,
    /// Why it was down last; `None` if it was nothing but joining.
    pub last_down: Option<DownReason>,
}

impl LinkState {
    /// One that is still joining for the first time.
    fn fresh() -> Self {
        let joining = DownReason { kind: DownKind::Joining, detail: "still joining the network".into() };
        Self { down: Some(joining), settled: false, hub: None, since_ms: None, ups: 0, last_down: None }
    }

    /// How often it came back.
    pub const fn reconnects(&self) -> u64 {
        self.ups.saturating_sub(1)
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Links {
    links: BTreeMap<LinkId, LinkState>,
    /// Those over which somebody else uses our name. Both sides reconnect for ever, which is worth one line in a log.
    contested: BTreeSet<LinkId>,
}

impl Links {
    pub(super) fn new(ids: impl IntoIterator<Item = LinkId>) -> Self {
        Self { links: ids.into_iter().map(|id| (id, LinkState::fresh())).collect(), contested: BTreeSet::new() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LinkId, &LinkState)> {
        self.links.iter().map(|(id, state)| (*id, state))
    }

    pub(super) fn up(&mut self, link: LinkId, now_ms: i64) {
        if let Some(state) = self.links.get_mut(&link) {
            if state.down.take().is_some() {
                state.since_ms = Some(now_ms);
                state.ups += 1;
            }
            state.settled = false;
            state.hub = None;
        }
    }

    /// Marks it down. True when it was up until now.
    pub(super) fn down(&mut self, link: LinkId, reason: DownReason, now_ms: i64) -> bool {
        let Some(state) = self.links.get_mut(&link) else { return false };
        state.last_down = Some(reason.clone());
        let was_up = state.down.replace(reason).is_none();
        if was_up {
            state.since_ms = Some(now_ms);
        }
        was_up
    }

    /// Marks it down for good. Of one that somebody else displaced, that stays the reason.
    pub(super) fn closed(&mut self, link: LinkId, reason: DownReason) {
        let Some(state) = self.links.get_mut(&link) else { return };
        if state.down.as_ref().is_none_or(|down| down.kind != DownKind::Displaced) {
            state.down = Some(reason);
        }
    }

    /// Whether it being up is news: not while a fight over our name goes on.
    pub(super) fn up_is_news(&self, link: LinkId) -> bool {
        !self.contested.contains(&link)
    }

    /// Whether it being down for this reason is news.
    pub(super) fn down_is_news(&mut self, link: LinkId, reason: &DownReason) -> bool {
        if reason.kind == DownKind::Displaced {
            return self.contested.insert(link);
        }
        self.contested.remove(&link);
        true
    }

    pub(super) fn hub(&mut self, link: LinkId, name: PeerName) {
        if let Some(state) = self.links.get_mut(&link) {
            state.hub = Some(name);
        }
    }

    pub(super) fn settled(&mut self, link: LinkId) {
        if let Some(state) = self.links.get_mut(&link) {
            state.settled = true;
        }
    }

    pub(super) fn is_up(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|state| state.down.is_none())
    }

    /// Whether a link to a network is up.
    pub(super) fn any_up(&self) -> bool {
        self.links.iter().any(|(id, state)| !id.is_inside() && state.down.is_none())
    }

    /// The link to use for a peer: the first up one it was seen on, and the one inside this process before all others; for
    /// a peer never seen, the first to a network that is up.
    pub(super) fn route(&self, seen: Option<&Seen>) -> Option<LinkId> {
        let up = |id: &LinkId| self.links.get(id).is_some_and(|state| state.down.is_none());
        match seen {
            Some(seen) if seen.links.contains(&LinkId::INSIDE) && up(&LinkId::INSIDE) => Some(LinkId::INSIDE),
            Some(seen) => seen.links.iter().copied().find(up),
            None => self.links.keys().copied().filter(|id| !id.is_inside()).find(up),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Since when it is as it is, how often it came back, and why it was away: what is only tried again changes none but the last.
    #[test]
    fn a_link_remembers_when_it_changed_and_why() {
        let id = LinkId(0);
        let mut links = Links::new([id]);
        let state = |links: &Links| links.links[&id].clone();
        let reason = |detail: &str| DownReason { kind: DownKind::Lost, detail: detail.into() };
        assert_eq!((state(&links).since_ms, state(&links).reconnects()), (None, 0));
        assert!(!links.down(id, reason("nobody there"), 5), "it was not up");
        assert_eq!((state(&links).since_ms, state(&links).last_down), (None, Some(reason("nobody there"))));
        links.up(id, 10);
        links.up(id, 15);
        assert_eq!((state(&links).since_ms, state(&links).ups, state(&links).reconnects()), (Some(10), 1, 0));
        assert!(links.down(id, reason("cut"), 20));
        assert!(!links.down(id, reason("refused"), 30));
        assert_eq!((state(&links).since_ms, state(&links).last_down), (Some(20), Some(reason("refused"))));
        links.up(id, 40);
        let up = state(&links);
        assert_eq!((up.since_ms, up.reconnects()), (Some(40), 1));
        assert_eq!((up.down, up.last_down), (None, Some(reason("refused"))));
    }
}
