//! What happened, as the clients, the peers and the broker each saw it. Everybody writes into it; [`check`](super::check) reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a client was told of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It ran, and here is its result.
    Done,
    /// It ran and failed.
    Ran,
    /// It was sent, or may have been, and the peer refused it.
    Refused,
    /// It never left.
    NotSent,
    /// It may have run.
    Unknown,
}

/// One command, which carries a number that no other carries.
#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    pub(super) peer: String,
    pub(super) call: u64,
    pub(super) told: Option<Told>,
    /// Under how many correlations it came to a peer.
    pub(super) arrived: u32,
    /// How often it ran.
    pub(super) ran: u32,
    /// Whether it ran or arrived after its client was told that it was not sent.
    pub(super) late: bool,
}

/// A call that has no answer yet.
#[derive(Clone, Debug)]
struct Open {
    what: String,
    begun: Instant,
    bound: Duration,
    cancelled: bool,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// From the beginning of the run.
    pub(super) at: Duration,
    pub(super) call: Option<u64>,
    pub(super) what: String,
}

/// What the process of the bridge took up at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) mib: f64,
    pub(super) descriptors: usize,
}

/// What is there when everybody has gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Left {
    /// What the bridge itself still lists: watches, fakes, and tickets that did not end.
    pub(super) listed: Vec<String>,
    /// What peers still hold for it: subscriptions and authority.
    pub(super) held: Vec<String>,
    /// Retained presence of its names: topic and payload.
    pub(super) retained: Vec<String>,
    /// Descriptors of the bridge before the load and after it.
    pub(super) descriptors: (usize, usize),
    /// Connections at the broker beyond those of the peers and of who looks.
    pub(super) connections: i64,
}

/// Whether something is bad now, and when it last was.
#[derive(Clone, Copy, Debug, Default)]
struct Ailing {
    now: bool,
    last: Option<Duration>,
}

/// How a fake came to its end that could not take leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// Its line was bad: the broker publishes its will, and keeps that.
    CutOff,
    /// There was no broker, which knows its retained presence again when it is back, and nothing of its will.
    WithoutBroker,
}

/// Everything.
#[derive(Debug)]
pub(super) struct State {
    begun: Instant,
    next: u64,
    open: BTreeMap<u64, Open>,
    pub(super) commands: HashMap<u64, Command>,
    /// By tool and outcome.
    pub(super) outcomes: BTreeMap<(String, String), u64>,
    /// By kind, how often.
    pub(super) faults: BTreeMap<&'static str, u64>,
    /// By peer and epoch, the last number.
    emitted: HashMap<(String, String), u64>,
    /// By peer, the incarnation that emitted last.
    emitting: HashMap<String, String>,
    epochs: u64,
    pub(super) shown: u64,
    pub(super) missed: u64,
    /// The line of the bridge, apart from the broker, and the broker.
    ailing: Ailing,
    brokerless: Ailing,
    /// Fakes that may have died instead of leaving, because their line was bad then.
    pub(super) dead_fakes: BTreeMap<String, Death>,
    /// All that were taken down.
    taken_down: BTreeSet<String>,
    /// How often the broker keeps `offline` of a dead fake, `online` of one, and `offline` of one whose farewell took too long.
    pub(super) kept: (usize, usize, usize),
    /// Requests that came to a peer again and were answered from memory.
    pub(super) repeats: u64,
    /// By peer and epoch, what it holds for somebody.
    held: BTreeSet<(String, String, String)>,
    pub(super) slowest: Duration,
    pub(super) samples: Vec<Sample>,
    pub(super) violations: Vec<Violation>,
    /// Beyond those kept.
    pub(super) more_violations: u64,
}

/// The state, for many threads.
#[derive(Debug)]
pub(super) struct Record(Mutex<State>);

/// How far from a fault its effects reach.
const ABOUT: Duration = Duration::from_secs(2);
/// How many violations are kept.
const MOST: usize = 100;
/// How many samples: beyond it every second one is dropped, so that hours take no more room than minutes.
const SAMPLES: usize = 4_096;

impl Record {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State::new()))
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            next: 0,
            open: BTreeMap::new(),
            commands: HashMap::new(),
            outcomes: BTreeMap::new(),
            faults: BTreeMap::new(),
            emitted: HashMap::new(),
            emitting: HashMap::new(),
            epochs: 0,
            shown: 0,
            missed: 0,
            ailing: Ailing::default(),
            brokerless: Ailing::default(),
            dead_fakes: BTreeMap::new(),
            taken_down: BTreeSet::new(),
            kept: (0, 0, 0),
            repeats: 0,
            held: BTreeSet::new(),
            slowest: Duration::ZERO,
            samples: Vec::new(),
            violations: Vec::new(),
            more_violations: 0,
        }
    }

    /// From the beginning of the run.
    pub(super) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(super) fn violate(&mut self, call: Option<u64>, what: String) {
        if self.violations.len() < MOST {
            self.violations.push(Violation { at: self.age(), call, what });
        } else {
            self.more_violations += 1;
        }
    }

    /// A call begins; its number is given.
    pub(super) fn begin(&mut self, what: String, bound: Duration) -> u64 {
        self.next += 1;
        self.open.insert(self.next, Open { what, begun: Instant::now(), bound, cancelled: false });
        self.next
    }

    /// An answer came. Each call has one, in time.
    pub(super) fn answered(&mut self, call: u64) {
        let Some(open) = self.open.remove(&call) else {
            let known = if call <= self.next { "a second time" } else { "though nobody made it" };
            return self.violate(Some(call), format!("call {call} was answered {known}"));
        };
        let took = open.begun.elapsed();
        self.slowest = self.slowest.max(took);
        if took > open.bound {
            self.violate(
                Some(call),
                format!("{} was answered after {took:?}; {:?} is its bound", open.what, open.bound),
            );
        }
    }

    /// The client does not wait any longer, having said so: an answer may come or not.
    pub(super) fn cancelled(&mut self, call: u64) {
        if let Some(open) = self.open.get_mut(&call) {
            open.cancelled = true;
        }
    }

    /// The client does not wait any longer, because its time is long over.
    pub(super) fn given_up(&mut self, call: u64) {
        if let Some(open) = self.open.get(&call).filter(|open| !open.cancelled) {
            let what = format!("{} was not answered within {:?}", open.what, open.begun.elapsed());
            self.violate(Some(call), what);
        }
    }

    /// Those without an answer that should have one.
    pub(super) fn unanswered(&self) -> Vec<(u64, String)> {
        let waiting = self.open.iter().filter(|(_, open)| !open.cancelled);
        waiting.map(|(call, open)| (*call, open.what.clone())).collect()
    }

    pub(super) fn outcome(&mut self, tool: &str, outcome: &str) {
        *self.outcomes.entry((tool.to_owned(), outcome.to_owned())).or_default() += 1;
    }

    /// A new command for a peer; its number is given.
    pub(super) fn command(&mut self, peer: &str) -> u64 {
        let number = self.commands.len() as u64 + 1;
        self.commands.insert(number, Command { peer: peer.to_owned(), ..Command::default() });
        number
    }

    pub(super) fn told(&mut self, number: u64, call: u64, told: Told) {
        if let Some(command) = self.commands.get_mut(&number) {
            command.call = call;
            command.told = Some(told);
        }
    }

    /// A command came to a peer under a correlation that it had not seen, and ran or did not.
    pub(super) fn arrived(&mut self, number: u64, ran: bool) {
        if let Some(command) = self.commands.get_mut(&number) {
            command.arrived += 1;
            command.ran += u32::from(ran);
            command.late |= command.told == Some(Told::NotSent);
        }
    }

    /// A name for another incarnation of a peer.
    pub(super) fn epoch(&mut self) -> String {
        self.epochs += 1;
        format!("e{}", self.epochs)
    }

    pub(super) fn emitted(&mut self, peer: &str, epoch: &str, number: u64) {
        self.emitted.insert((peer.to_owned(), epoch.to_owned()), number);
        if self.emitting.get(peer).is_none_or(|known| known != epoch) {
            self.emitting.insert(peer.to_owned(), epoch.to_owned());
        }
    }

    /// The incarnation of a peer that emitted last, and how far it has counted.
    pub(super) fn last_emitted(&self, peer: &str) -> Option<(String, u64)> {
        let epoch = self.emitting.get(peer)?;
        Some((epoch.clone(), self.count(peer, epoch)))
    }

    /// How far a peer has counted in an incarnation.
    pub(super) fn count(&self, peer: &str, epoch: &str) -> u64 {
        self.emitted.get(&(peer.to_owned(), epoch.to_owned())).copied().unwrap_or_default()
    }

    /// How many events there were.
    pub(super) fn emissions(&self) -> u64 {
        self.emitted.values().sum()
    }

    /// The line of the bridge is bad from now on, or good again; `broker`: because there is no broker.
    pub(super) fn ails(&mut self, bad: bool, broker: bool) {
        let ailing = if broker { &mut self.brokerless } else { &mut self.ailing };
        *ailing = Ailing { now: bad, last: Some(self.begun.elapsed()) };
    }

    /// A fake was taken down since then. If its line was bad about that time, or it had not joined again after that (`off`), it
    /// could not take leave: to the network it died.
    pub(super) fn taken_down(&mut self, fake: &str, since: Duration, off: bool) {
        self.taken_down.insert(fake.to_owned());
        let reaches = |ailing: Ailing| ailing.now || ailing.last.is_some_and(|last| last + ABOUT >= since);
        if reaches(self.brokerless) {
            self.dead_fakes.insert(fake.to_owned(), Death::WithoutBroker);
        } else if off || reaches(self.ailing) {
            self.dead_fakes.insert(fake.to_owned(), Death::CutOff);
        }
    }

    /// Of what is retained under names of ours, name and payload, what must not be; the rest is counted.
    pub(super) fn kept_wrongly(&mut self, retained: Vec<(String, String)>) -> Vec<String> {
        let (expected, rest): (Vec<_>, Vec<_>) = retained.into_iter().partition(|(name, payload)| {
            let death = self.dead_fakes.get(name);
            death == Some(&Death::WithoutBroker) || death.is_some() && payload == "offline"
        });
        // A farewell waits a third of a second for the broker, and then leaves it to the will. On a busy machine that happens;
        // if it happens often, farewells do not work.
        let slow = |(name, payload): &&(String, String)| self.taken_down.contains(name) && payload == "offline";
        let tardy = rest.iter().filter(slow).count();
        let few = tardy <= self.taken_down.len() / 10 + 2;
        let wrong: Vec<_> = rest.iter().filter(|kept| !few || !slow(kept)).collect();
        let offline = expected.iter().filter(|(_, payload)| payload == "offline").count();
        self.kept = (offline, expected.len() - offline, tardy);
        wrong.into_iter().map(|(name, payload)| format!("{payload} of {name}")).collect()
    }

    /// A peer holds something for somebody, or does not any more.
    pub(super) fn hold(&mut self, peer: &str, epoch: &str, what: &str, holds: bool) {
        let what = (peer.to_owned(), epoch.to_owned(), what.to_owned());
        if holds {
            self.held.insert(what);
        } else {
            self.held.remove(&what);
        }
    }

    /// An incarnation is no more, and nothing of what it held.
    pub(super) fn died(&mut self, peer: &str, epoch: &str) {
        self.held.retain(|(held, of, _)| held != peer || of != epoch);
    }

    /// What peers hold for somebody.
    pub(super) fn held(&self) -> Vec<String> {
        self.held.iter().map(|(peer, _, what)| format!("{peer} holds {what}")).collect()
    }

    pub(super) fn sample(&mut self, sample: Sample) {
        if self.samples.len() == SAMPLES {
            let mut at = 0_usize;
            self.samples.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        self.samples.push(sample);
    }
}
