//! Who is on the network, and over which links: a peer is gone when it is gone from every link.

use std::{collections::HashMap, sync::Arc};

use crate::{link::LinkId, wire::PeerName};

/// The peers we know of. Bounded: beyond 10 000 the one seen longest ago is forgotten.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    peers: HashMap<PeerName, Seen>,
    forgotten: u64,
}

/// What is known of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The links it is reachable over, lowest first; never empty.
    pub links: Vec<LinkId>,
    /// The shape of its surface as it last announced it.
    pub shape: Option<Arc<str>>,
    /// Whether it announced itself; one that only sent a frame is routable and no more.
    pub announced: bool,
    /// Of a peer of this very process, the shape that each network tells of who goes by its name; of others nothing.
    pub told: Vec<(LinkId, Option<Arc<str>>)>,
    /// When it was first seen in this stay, in milliseconds since the Unix epoch.
    pub since_ms: i64,
}

/// What an announcement changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It was not there before.
    Arrived,
    /// It was there, with another shape.
    Reshaped,
    /// Nothing.
    Repeated,
}

/// How many peers are remembered (wire.md 2).
pub(super) const CAPACITY: usize = 10_000;

impl Roster {
    /// What is known of `peer`.
    pub fn get(&self, peer: &PeerName) -> Option<&Seen> {
        self.peers.get(peer)
    }

    /// Everybody, in no order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&PeerName, &Seen)> {
        self.peers.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Whether nobody is there.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// How many were forgotten because too many were there.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// `peer` announced itself on `link`; also gives whether it was not known to be reachable over it.
    pub(super) fn online(
        &mut self,
        peer: PeerName,
        link: LinkId,
        shape: Option<String>,
        now_ms: i64,
    ) -> (Change, bool) {
        let shape: Option<Arc<str>> = shape.map(Into::into);
        if let Some(seen) = self.peers.get_mut(&peer) {
            let arrived = !seen.announced;
            let renewed = seen.tell(link, shape.as_ref());
            let rerouted = add_link(&mut seen.links, link) || renewed;
            seen.announced = true;
            // A link that carries no shapes does not take away what another told.
            let networks = seen.links.iter().filter(|link| !link.is_inside()).count();
            let keeps = shape.is_none() && networks > 1;
            let reshaped = !keeps && seen.shape != shape;
            if !keeps {
                seen.shape = shape;
            }
            let change = match (arrived, reshaped) {
                (true, _) => Change::Arrived,
                (false, true) => Change::Reshaped,
                (false, false) => Change::Repeated,
            };
            return (change, rerouted);
        }
        self.add(peer, Seen { links: vec![link], shape, announced: true, told: Vec::new(), since_ms: now_ms });
        (Change::Arrived, true)
    }

    /// A frame came from `peer` over `link`: it is routable, without having announced itself.
    pub(super) fn heard(&mut self, peer: &PeerName, link: LinkId, now_ms: i64) -> bool {
        if let Some(seen) = self.peers.get_mut(peer) {
            return add_link(&mut seen.links, link);
        }
        let seen = Seen { links: vec![link], shape: None, announced: false, told: Vec::new(), since_ms: now_ms };
        self.add(peer.clone(), seen);
        true
    }

    /// `peer` left `link`. True when it is gone altogether.
    pub(super) fn offline(&mut self, peer: &PeerName, link: LinkId) -> bool {
        let Some(seen) = self.peers.get_mut(peer) else { return false };
        seen.forget(link);
        let gone = seen.links.is_empty();
        if gone {
            self.peers.remove(peer);
        }
        gone
    }

    /// `link` starts afresh: what was known through it is void (W-041). Gives those that are gone altogether.
    pub(super) fn forget_link(&mut self, link: LinkId) -> Vec<PeerName> {
        let mut gone = Vec::new();
        self.peers.retain(|peer, seen| {
            seen.forget(link);
            if seen.links.is_empty() {
                gone.push(peer.clone());
            }
            !seen.links.is_empty()
        });
        gone
    }

    fn add(&mut self, peer: PeerName, seen: Seen) {
        if self.peers.len() >= CAPACITY {
            let oldest = self.peers.iter().min_by_key(|(_, seen)| (seen.announced, seen.since_ms));
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.peers.remove(&name);
                self.forgotten += 1;
            }
        }
        self.peers.insert(peer, seen);
    }
}

impl Seen {
    /// Keeps what a network tells of the name of a peer of this process. True when it told something else before.
    fn tell(&mut self, link: LinkId, shape: Option<&Arc<str>>) -> bool {
        if link.is_inside() || !self.links.contains(&LinkId::INSIDE) {
            return false;
        }
        match self.told.iter_mut().find(|(told_by, _)| *told_by == link) {
            Some((_, told)) if told.as_ref() == shape => false,
            Some((_, told)) => {
                *told = shape.cloned();
                true
            }
            None => {
                self.told.push((link, shape.cloned()));
                true
            }
        }
    }

    fn forget(&mut self, link: LinkId) {
        self.links.retain(|known| *known != link);
        self.told.retain(|(told_by, _)| *told_by != link);
    }
}

/// Adds `link`, keeping the order; true when it was not there.
fn add_link(links: &mut Vec<LinkId>, link: LinkId) -> bool {
    match links.binary_search(&link) {
        Ok(_) => false,
        Err(at) => {
            links.insert(at, link);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: LinkId = LinkId(0);
    const B: LinkId = LinkId(1);

    fn name(text: &str) -> PeerName {
        crate::node::testing::name(text)
    }

    #[test]
    fn a_departure_on_one_link_leaves_the_peer_on_the_other() {
        let mut roster = Roster::default();
        roster.online(name("oven"), A, None, 1);
        roster.online(name("oven"), B, None, 2);
        assert!(!roster.offline(&name("oven"), A));
        assert_eq!(roster.get(&name("oven")).unwrap().links, [B]);
        assert!(roster.offline(&name("oven"), B));
        assert!(roster.is_empty());
    }

    #[test]
    fn w041_a_link_that_starts_afresh_voids_what_was_known_through_it() {
        let mut roster = Roster::default();
        roster.online(name("both"), A, None, 1);
        roster.online(name("both"), B, None, 1);
        roster.online(name("only"), A, None, 1);
        assert_eq!(roster.forget_link(A), [name("only")]);
        assert_eq!(roster.len(), 1);
    }

    #[test]
    fn presence_repeats_and_reshapes_are_told_apart() {
        let mut roster = Roster::default();
        assert_eq!(roster.online(name("p"), A, None, 1).0, Change::Arrived);
        assert_eq!(roster.online(name("p"), A, None, 1).0, Change::Repeated);
        assert_eq!(roster.online(name("p"), A, Some("x".into()), 1).0, Change::Reshaped);
        assert!(roster.heard(&name("quiet"), A, 1));
        assert!(!roster.get(&name("quiet")).unwrap().announced);
        assert_eq!(roster.online(name("quiet"), A, None, 1).0, Change::Arrived);
    }

    #[test]
    fn a_link_without_shapes_takes_none_away() {
        let mut roster = Roster::default();
        roster.online(name("p"), A, Some("x".into()), 1);
        assert_eq!(roster.online(name("p"), B, None, 1), (Change::Repeated, true));
        assert_eq!(roster.get(&name("p")).unwrap().shape.as_deref(), Some("x"));
        assert_eq!(roster.online(name("p"), B, Some("y".into()), 1), (Change::Reshaped, false));
        roster.offline(&name("p"), B);
        assert_eq!(roster.online(name("p"), A, None, 1).0, Change::Reshaped);
    }

    /// Who goes by the name of a peer of this process is told apart by network, also where one network carries no shapes.
    #[test]
    fn what_each_network_tells_of_a_peer_of_this_process_is_kept() {
        let mut roster = Roster::default();
        let told = |roster: &Roster| {
            let told = &roster.get(&name("double")).unwrap().told;
            told.iter().map(|(link, shape)| (*link, shape.as_deref().map(str::to_owned))).collect::<Vec<_>>()
        };
        roster.online(name("double"), LinkId::INSIDE, Some("mine".into()), 1);
        assert_eq!(told(&roster), []);
        roster.online(name("double"), A, Some("mine".into()), 1);
        roster.online(name("double"), B, Some("mine".into()), 1);
        assert!(!roster.online(name("double"), B, Some("mine".into()), 1).1, "nothing new");
        assert_eq!(roster.online(name("double"), B, None, 1), (Change::Repeated, true), "somebody else, of no shape");
        assert_eq!(told(&roster), [(A, Some("mine".into())), (B, None)]);
        roster.offline(&name("double"), B);
        roster.forget_link(A);
        assert_eq!(told(&roster), []);
        roster.online(name("other"), A, Some("x".into()), 1);
        assert!(roster.get(&name("other")).unwrap().told.is_empty());
    }

    #[test]
    fn the_roster_is_bounded_and_says_what_it_forgot() {
        let mut roster = Roster::default();
        for n in 0..CAPACITY + 5 {
            roster.online(name(&format!("p{n}")), A, None, i64::try_from(n).unwrap());
        }
        assert_eq!(roster.len(), CAPACITY);
        assert_eq!(roster.forgotten(), 5);
        assert!(roster.get(&name("p0")).is_none());
    }
}
