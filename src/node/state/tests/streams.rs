//! The properties of listening, over every schedule the generator thinks of: links that come and go and are noticed late,
//! requests, answers and events that overtake each other, frames that are doubled, listeners that come and go. Once all is
//! well again, every listener is attached exactly once, nothing else is, and each emission is heard once.
//!
//! Frames of one kind between two peers keep their order, as those of one topic do at a broker; a doubled one may come
//! again at any time. Nothing is lost but what is addressed to a link that is down.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{bench::stream, sim::World};
use crate::{
    node::state::{Delivery, NodeEvent, SubscriptionId},
    wire::{Frame, Message, Value},
};

const LISTENER: usize = 0;
const EMITTER: usize = 1;
const EVENTS: [&str; 3] = ["ring", "hum", "crack"];

#[derive(Clone, Debug)]
enum Step {
    Listen(usize),
    Leave(usize),
    Emit(usize),
    Cut(usize),
    Join(usize),
    PumpLink(usize),
    PumpNode(usize),
    Deliver { index: usize, again: bool },
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let side = 0..2usize;
    prop_oneof![
        3 => (0..EVENTS.len()).prop_map(Step::Listen),
        3 => (0..10usize).prop_map(Step::Leave),
        2 => (0..EVENTS.len()).prop_map(Step::Emit),
        1 => side.clone().prop_map(Step::Cut),
        2 => side.clone().prop_map(Step::Join),
        8 => side.clone().prop_map(Step::PumpLink),
        8 => side.prop_map(Step::PumpNode),
        8 => (0..20usize, prop::bool::weighted(0.25)).prop_map(|(index, again)| Step::Deliver { index, again }),
        1 => (0..12_000u64).prop_map(Step::Advance),
    ]
}

struct Run {
    world: World,
    live: BTreeMap<u64, &'static str>,
    next: u64,
    emitted: i64,
    /// Frames that came once already.
    doubles: Vec<Frame>,
}

/// What keeps its order: the kind of a frame and who sends it.
fn lane(frame: &Frame) -> (u8, &str) {
    let kind = match frame.message {
        Message::Request(_) => 0,
        Message::Reply(_) => 1,
        Message::Event { .. } => 2,
    };
    (kind, frame.source.as_str())
}

impl Run {
    fn new() -> Self {
        let mut world = World::new(&["listener", "emitter"]);
        world.expose(
            EMITTER,
            &serde_json::json!({"schema":1,"namespaces":{"bell":{"methods":{},"events":{"ring":{"params":[]}}}}}),
        );
        world.settle();
        Self { world, live: BTreeMap::new(), next: 0, emitted: 0, doubles: Vec::new() }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Listen(event) => {
                let (id, now) = (self.next, self.world.now);
                self.next += 1;
                self.live.insert(id, EVENTS[event]);
                let stream = stream("emitter", "bell", EVENTS[event]);
                let correlation = format!("s-{id}").into();
                self.world.turn(LISTENER, |state| state.subscribe(SubscriptionId(id), stream, correlation, now));
            }
            Step::Leave(nth) => {
                let id = self.live.keys().nth(nth % self.live.len().max(1)).copied();
                if let Some(id) = id {
                    self.leave(id);
                }
            }
            Step::Emit(event) => self.emit(EVENTS[event]),
            Step::Cut(side) => self.world.cut(side),
            Step::Join(side) => self.world.join(side),
            Step::PumpLink(side) => {
                self.world.pump_link(side);
            }
            Step::PumpNode(side) => {
                self.world.pump_node(side);
            }
            Step::Deliver { index, again } => self.deliver(index, again),
            Step::Advance(millis) => self.world.advance(millis),
        }
    }

    fn leave(&mut self, id: u64) {
        self.live.remove(&id);
        let now = self.world.now;
        self.world.turn(LISTENER, |state| state.unsubscribe(SubscriptionId(id), format!("u-{id}").into(), now));
    }

    fn emit(&mut self, event: &str) {
        self.emitted += 1;
        let args = [self.emitted.into()];
        self.world.turn(EMITTER, |state| state.emit("bell", event, &args));
    }

    /// The first of a lane, or one that came before.
    fn deliver(&mut self, index: usize, again: bool) {
        if again && !self.doubles.is_empty() {
            let frame = self.doubles[index % self.doubles.len()].clone();
            self.world.flying.push(frame);
            let last = self.world.flying.len() - 1;
            return self.world.deliver(last, false);
        }
        if self.world.flying.is_empty() {
            return;
        }
        let wanted = index % self.world.flying.len();
        let of = lane(&self.world.flying[wanted]);
        let first = self.world.flying.iter().position(|frame| lane(frame) == of).unwrap();
        let frame = &self.world.flying[first];
        let arrives = self.world.sides.iter().any(|side| side.up && *side.state.name() == frame.target);
        // Only what came can come again. An event that is doubled is heard twice, the network's doing (semantics 6.1).
        if arrives && !matches!(frame.message, Message::Event { .. }) {
            self.doubles.push(frame.clone());
        }
        self.world.deliver(first, false);
    }

    /// All is well again, and stays so for a minute.
    fn heal(&mut self) {
        for side in [LISTENER, EMITTER] {
            self.world.join(side);
        }
        for _ in 0..30 {
            self.world.settle();
            self.world.advance(2_000);
        }
        self.world.settle();
        self.world.sides[LISTENER].events.clear();
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let wanted: BTreeSet<&str> = self.live.values().copied().collect();
        let held = |event: &&&str| self.world.sides[EMITTER].state.server.subscribers("bell", event) == 1;
        let at_emitter: BTreeSet<&str> = EVENTS.iter().filter(held).copied().collect();
        prop_assert_eq!(&at_emitter, &wanted, "what is listened to is attached, and nothing else");
        prop_assert_eq!(self.world.sides[EMITTER].state.server.subscriptions().0, wanted.len());
        prop_assert_eq!(self.world.sides[LISTENER].state.subscriptions.held(), wanted.len());
        prop_assert_eq!(self.world.sides[LISTENER].state.pending(), 0);
        let before = self.emitted;
        for event in EVENTS {
            self.emit(event);
            self.emit(event);
        }
        self.world.settle();
        let mut heard: BTreeMap<u64, Vec<i64>> = BTreeMap::new();
        for event in std::mem::take(&mut self.world.sides[LISTENER].events) {
            if let NodeEvent::Delivery(id, Delivery::Event { args, .. }) = event {
                heard.entry(id.0).or_default().push(args.first().and_then(Value::as_i64).unwrap());
            }
        }
        for (id, event) in &self.live {
            let nth = i64::try_from(EVENTS.iter().position(|known| known == event).unwrap()).unwrap();
            let expected = vec![before + 2 * nth + 1, before + 2 * nth + 2];
            prop_assert_eq!(heard.remove(id), Some(expected), "listener {} hears each emission once", id);
        }
        prop_assert!(heard.is_empty(), "{:?}", heard);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// S-060, S-061, S-062, S-070, S-071, W-041, W-068, W-080: the properties at the head of this file.
    #[test]
    fn every_listener_is_attached_once_and_nothing_is_left_behind(steps in prop::collection::vec(step(), 0..120)) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
        run.heal();
        run.check()?;
        for id in run.live.keys().copied().collect::<Vec<_>>() {
            run.leave(id);
        }
        run.heal();
        run.check()?;
    }
}
