//! Two links that come and go in every order, and peers on either or both: who is there, over which link a call goes, and
//! that it goes once (F-18, W-072, W-081).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{
    bench::{A, B, Bench, ok, peer, reply},
    sim::call,
};
use crate::{
    link::{LinkEvent, LinkId},
    node::Certainty,
    wire::Correlation,
};

const PEERS: [&str; 3] = ["oven", "press", "scale"];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Up(LinkId),
    Down(LinkId),
    Online(LinkId, usize),
    Offline(LinkId, usize),
    Settled(LinkId),
    Call(usize),
    /// The links take what they were given.
    Take,
    /// A call that left is answered.
    Answer(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let link = || prop_oneof![Just(A), Just(B)];
    prop_oneof![
        2 => link().prop_map(Step::Up),
        1 => link().prop_map(Step::Down),
        4 => (link(), 0..PEERS.len()).prop_map(|(link, who)| Step::Online(link, who)),
        2 => (link(), 0..PEERS.len()).prop_map(|(link, who)| Step::Offline(link, who)),
        1 => link().prop_map(Step::Settled),
        4 => (0..PEERS.len()).prop_map(Step::Call),
        3 => Just(Step::Take),
        2 => (0..8usize).prop_map(Step::Answer),
    ]
}

/// What an onlooker writes down.
#[derive(Default)]
struct Model {
    up: BTreeSet<LinkId>,
    /// Who announced himself on which connection that is up.
    there: BTreeSet<(LinkId, usize)>,
    /// Calls, by number: who is called, and over which link it left.
    calls: BTreeMap<u64, (usize, Option<LinkId>)>,
    resolved: BTreeSet<u64>,
}

struct Run {
    bench: Bench,
    model: Model,
    next: u64,
}

impl Run {
    fn new() -> Self {
        Self { bench: Bench::down("hmi", &[A, B]), model: Model::default(), next: 0 }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Up(link) if !self.model.up.contains(&link) => {
                self.model.up.insert(link);
                self.bench.link(link, LinkEvent::Up);
            }
            Step::Down(link) if self.model.up.remove(&link) => {
                self.model.there.retain(|(on, _)| *on != link);
                self.bench.lost(link);
                self.lost(link);
            }
            Step::Online(link, who) if self.model.up.contains(&link) => {
                self.model.there.insert((link, who));
                self.bench.link(link, LinkEvent::Online { peer: peer(PEERS[who]), shape: None });
            }
            Step::Offline(link, who) if self.model.up.contains(&link) => {
                self.model.there.remove(&(link, who));
                self.bench.link(link, LinkEvent::Offline(peer(PEERS[who])));
            }
            Step::Settled(link) if self.model.up.contains(&link) => self.bench.link(link, LinkEvent::Settled),
            Step::Call(who) => {
                self.next += 1;
                self.model.calls.insert(self.next, (who, None));
                self.bench.call(self.next, call(PEERS[who], "pump", "start", vec![]));
            }
            Step::Take => self.take(),
            Step::Answer(which) => self.answer(which),
            Step::Up(_) | Step::Down(_) | Step::Online(..) | Step::Offline(..) | Step::Settled(_) => {}
        }
        self.resolve();
        self.look();
    }

    /// A link takes a frame only while it is up; each call leaves once, over a link that leads to its peer.
    fn take(&mut self) {
        for given in self.bench.take() {
            let text = String::from_utf8(given.request().correlation.0.to_vec()).unwrap();
            let number: u64 = text.trim_start_matches("c-").parse().unwrap();
            let (_, left) = self.model.calls.get_mut(&number).unwrap();
            assert_eq!(*left, None, "call {number} left a second time");
            assert!(!self.model.resolved.contains(&number), "call {number} left after it had failed");
            assert!(self.model.up.contains(&given.link), "call {number} left over a link that is down");
            *left = Some(given.link);
        }
    }

    fn answer(&mut self, which: usize) {
        let open = |(number, (_, left)): &(&u64, &(usize, Option<LinkId>))| {
            left.is_some() && !self.model.resolved.contains(number)
        };
        let open: Vec<u64> = self.model.calls.iter().filter(open).map(|(number, _)| *number).collect();
        let Some(number) = open.get(which % open.len().max(1)) else { return };
        let (who, left) = self.model.calls[number];
        let target = self.bench.state.name().clone();
        let message = reply(&Correlation::from(format!("c-{number}")), ok(1));
        let frame = crate::wire::Frame { source: peer(PEERS[who]), target, message };
        self.bench.link(left.unwrap(), LinkEvent::Frame(Box::new(frame)));
        // A frame shows that its sender can be reached.
        self.model.there.insert((left.unwrap(), who));
        assert!(self.resolve().contains(number), "an answer resolves its call");
    }

    /// What was on its way over the link is in doubt; what never left did not run; what goes over the other goes on.
    fn lost(&mut self, link: LinkId) {
        let before = self.model.resolved.clone();
        let failed = self.resolve();
        for (number, (_, left)) in &self.model.calls {
            let open = !before.contains(number);
            if open && *left == Some(link) {
                assert!(failed.contains(number), "call {number} waits for a link that is gone");
            }
            if open && left.is_some_and(|left| left != link) {
                assert!(!failed.contains(number), "call {number} goes over the other link");
            }
        }
    }

    fn resolve(&mut self) -> BTreeSet<u64> {
        let mut now = BTreeSet::new();
        for (number, outcome) in self.bench.resolved() {
            assert!(self.model.resolved.insert(number), "call {number} resolved twice");
            let left = self.model.calls[&number].1;
            match outcome.map_err(|error| error.certainty()) {
                Ok(_) => assert!(left.is_some()),
                Err(Certainty::MayHaveRun) => assert!(left.is_some(), "call {number} certainly did not leave"),
                Err(certainty) => assert!(left.is_none(), "call {number} left, and {certainty:?} is said"),
            }
            now.insert(number);
        }
        now
    }

    /// F-18: whoever is there on a link that is up is known to be, whatever happens on the other.
    fn look(&self) {
        let roster = self.bench.state.roster();
        for (who, text) in PEERS.iter().enumerate() {
            let known = roster.get(&peer(text)).map(|seen| seen.links.clone()).unwrap_or_default();
            for link in &self.model.up {
                let there = self.model.there.contains(&(*link, who));
                assert_eq!(known.contains(link), there, "{text} on {link:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn f18_w072_a_call_goes_once_and_a_peer_is_where_it_is(steps in prop::collection::vec(step(), 1..120)) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
        // Every call ends when both links do.
        for link in [A, B] {
            run.step(&Step::Down(link));
        }
        prop_assert_eq!(run.model.resolved.len(), run.model.calls.len());
    }
}

/// W-072: the peer is on both, the link its call went over goes down: in doubt, and nothing goes over the other.
#[test]
fn w072_a_call_in_flight_stays_where_it_is() {
    for (first, second) in [(A, B), (B, A)] {
        let mut bench = Bench::down("hmi", &[A, B]);
        bench.up(first);
        bench.link(first, LinkEvent::Online { peer: peer("oven"), shape: None });
        bench.call(1, call("oven", "pump", "start", vec![]));
        assert_eq!(bench.take()[0].link, first);
        bench.up(second);
        bench.link(second, LinkEvent::Online { peer: peer("oven"), shape: None });
        bench.lost(first);
        let resolved = bench.resolved();
        assert_eq!(resolved[0].1.as_ref().unwrap_err().certainty(), Certainty::MayHaveRun);
        assert!(bench.take().is_empty(), "it went over the other link");
        bench.call(2, call("oven", "pump", "start", vec![]));
        assert_eq!(bench.take()[0].link, second);
    }
}
