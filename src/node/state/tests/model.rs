//! The properties of design.md, over every schedule the generator thinks of: links that come and go and are noticed
//! late, frames that are lost, doubled and reordered, callers that give up, methods that take their time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::sim::{World, call};
use crate::node::{
    Certainty,
    error::CallError,
    state::{Call, CallId, Incoming},
};

const CALLER: usize = 0;
const SERVER: usize = 1;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Call { timeout_ms: u64 },
    Abandon(usize),
    Cut(usize),
    Join(usize),
    PumpLink(usize),
    PumpNode(usize),
    Deliver { index: usize, again: bool },
    Lose(usize),
    Finish(usize),
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let side = 0..2usize;
    prop_oneof![
        4 => (1..400u64).prop_map(|timeout_ms| Step::Call { timeout_ms }),
        1 => (0..20usize).prop_map(Step::Abandon),
        1 => side.clone().prop_map(Step::Cut),
        2 => side.clone().prop_map(Step::Join),
        8 => side.clone().prop_map(Step::PumpLink),
        8 => side.prop_map(Step::PumpNode),
        8 => (0..20usize, prop::bool::weighted(0.25)).prop_map(|(index, again)| Step::Deliver { index, again }),
        1 => (0..20usize).prop_map(Step::Lose),
        4 => (0..20usize).prop_map(Step::Finish),
        3 => (0..200u64).prop_map(Step::Advance),
    ]
}

/// What a reference observer writes down of each call.
#[derive(Debug, Default)]
struct Seen {
    resolved: Vec<Result<(), CallError>>,
    late: bool,
    runs: usize,
}

struct Run {
    world: World,
    calls: BTreeMap<u64, (Seen, std::time::Instant)>,
    waiting: Vec<Incoming>,
    next: u64,
}

impl Run {
    fn new() -> Self {
        let mut world = World::new(&["caller", "server"]);
        world.expose(
            SERVER,
            &serde_json::json!({"schema":1,"namespaces":{"pump":{"methods":{
            "start":{"params":[{"kind":"number"}],"semantics":"non-repeatable-command"}}}}}),
        );
        world.settle();
        Self { world, calls: BTreeMap::new(), waiting: Vec::new(), next: 0 }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Call { timeout_ms } => {
                let (id, now) = (self.next, self.world.now.at);
                self.next += 1;
                let timeout = std::time::Duration::from_millis(timeout_ms);
                let args = vec![i64::try_from(id).unwrap().into()];
                self.calls.insert(id, (Seen::default(), now + timeout));
                let call = Call { timeout: Some(timeout), ..call("server", "pump", "start", args) };
                self.world.call(CALLER, id, call);
            }
            Step::Abandon(n) if self.next > 0 => {
                let id = CallId(n as u64 % self.next);
                let now = self.world.now;
                self.world.turn(CALLER, |state| state.abandon(id, now));
            }
            Step::Cut(side) => self.world.cut(side),
            Step::Join(side) => self.world.join(side),
            Step::PumpLink(side) => {
                self.world.pump_link(side);
            }
            Step::PumpNode(side) => {
                self.world.pump_node(side);
            }
            Step::Deliver { index, again } if !self.world.flying.is_empty() => {
                let index = index % self.world.flying.len();
                self.world.deliver(index, again);
            }
            Step::Lose(index) if !self.world.flying.is_empty() => {
                let index = index % self.world.flying.len();
                self.world.flying.remove(index);
            }
            Step::Finish(n) if !self.waiting.is_empty() => {
                let run = self.waiting.remove(n % self.waiting.len());
                self.world.ran(SERVER, run.run, Ok(Some(true.into())));
            }
            Step::Advance(millis) => self.world.advance(millis),
            // Nothing is there to do it to.
            Step::Abandon(_) | Step::Deliver { .. } | Step::Lose(_) | Step::Finish(_) => {}
        }
        self.observe();
    }

    fn observe(&mut self) {
        for incoming in self.world.runs(SERVER) {
            let id = u64::try_from(incoming.args[0].as_i64().unwrap()).unwrap();
            self.calls.get_mut(&id).unwrap().0.runs += 1;
            self.waiting.push(incoming);
        }
        let now = self.world.now.at;
        for (id, outcome) in self.world.resolved(CALLER) {
            let (seen, deadline) = self.calls.get_mut(&id).unwrap();
            seen.late |= outcome.is_ok() && now > *deadline;
            seen.resolved.push(outcome.map(|_| ()));
        }
    }

    /// The calls whose request left the link.
    fn left(&self) -> BTreeSet<u64> {
        self.world.left.iter().filter_map(|(text, _)| text.strip_prefix("c-")?.parse().ok()).collect()
    }

    /// Everything heals, everything ends.
    fn finish(&mut self) {
        for side in [CALLER, SERVER] {
            self.world.join(side);
        }
        for _ in 0..3 {
            self.world.settle();
            self.observe();
            while let Some(run) = self.waiting.pop() {
                self.world.ran(SERVER, run.run, Ok(Some(true.into())));
                self.world.settle();
                self.observe();
            }
            self.world.advance(1000);
            self.observe();
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let left = self.left();
        for (id, (seen, _)) in &self.calls {
            prop_assert_eq!(seen.resolved.len(), 1, "call {} resolves exactly once: {:?}", id, seen);
            prop_assert!(seen.runs <= 1, "command {} runs at most once", id);
            prop_assert!(!seen.late, "no answer after the deadline");
            let certainty = match &seen.resolved[0] {
                Ok(()) => Certainty::Ran,
                Err(error) => error.certainty(),
            };
            match certainty {
                Certainty::Ran => prop_assert_eq!(seen.runs, 1, "call {} is said to have run", id),
                Certainty::DidNotRun => {
                    prop_assert_eq!(seen.runs, 0, "call {} is said not to have run: {:?}", id, seen);
                }
                Certainty::MayHaveRun => {
                    prop_assert!(left.contains(id), "call {} is in doubt and never left", id);
                }
            }
            let sent = !matches!(&seen.resolved[0], Err(CallError::NotSent(_)));
            prop_assert_eq!(sent, left.contains(id), "call {} left if and only if it is said to have", id);
        }
        prop_assert_eq!(self.world.sides[CALLER].state.pending(), 0);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// S-003, S-005, S-008, W-060, W-064, W-072, W-081: the properties at the head of this file.
    #[test]
    fn every_call_resolves_once_and_no_command_runs_twice(steps in prop::collection::vec(step(), 0..120)) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
        }
        run.finish();
        run.check()?;
    }
}
