//! The fakes of this process: which names they hold, which of them stand, and how each of them ends.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    clock::Clock,
    code::{CodeFault, Hands, MOST_WITH_CODE},
    contracts::Contracts,
    lines::{FakeLine, Over, Withdrawn},
    live::{Live, Why},
    names,
    plan::Plan,
    standing::{Standing, on_the_network, part},
    usher,
    ways::Stage,
};
use crate::{
    contract::{Contract, Problem},
    link::now_ms,
    node::{LinkState, Node, Running},
    wire::{PeerName, Value},
};

/// The fakes of this process. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct Fakes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    host: Node,
    stage: Option<Stage>,
    book: Mutex<Book>,
    /// Counts changes of the book.
    changed: watch::Sender<u64>,
    closing: CancellationToken,
    contracts: Contracts,
    clock: Clock,
    /// Whether clock and usher go.
    staffed: AtomicBool,
}

#[derive(Debug, Default)]
struct Book {
    slots: BTreeMap<PeerName, Slot>,
    /// Those that left their name to somebody else, oldest first.
    past: VecDeque<Withdrawn>,
}

#[derive(Debug)]
enum Slot {
    /// Somebody is about to stand there.
    Reserved,
    Live(Arc<Live>),
}

/// Holds a name until it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    shared: Arc<Shared>,
    name: PeerName,
    held: bool,
}

/// Who has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A peer that the key file lists, be it there or not.
    Listed,
    /// The peer beside which fakes stand.
    Bridge,
    /// Another fake of this process.
    Fake,
    /// A peer on the network.
    Peer,
}

/// Why a fake was not started. Nothing of it is on the network then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartFault {
    /// Somebody answers to the name.
    #[error("the name is taken")]
    NameTaken(Taken),
    /// The name cannot be used on this network.
    #[error("the name cannot be used: {0}")]
    Name(String),
    /// As many as may be are there.
    #[error("there are {MOST} fakes, and no more can be")]
    TooMany,
    /// The network is away, so that nobody knows who has the name.
    #[error("the network is not reachable")]
    Offline(Vec<LinkState>),
    /// It could not join.
    #[error("{0}")]
    Failed(String),
    /// The network would not have it, and that lasts until somebody changes what is named.
    #[error("{0}")]
    Barred(String),
    /// The code of its script cannot be run as it is.
    #[error("the code of its script cannot be run: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Code(Vec<Problem>),
    /// As many fakes as may run code do.
    #[error("{MOST_WITH_CODE} fakes run code, and no more can")]
    TooManyRunCode,
    /// This process is leaving.
    #[error("this process is leaving the network")]
    Closing,
}

/// Fakes of one process.
pub const MOST: usize = 512;
/// Withdrawn fakes that are remembered.
const PAST: usize = 64;
/// How long the first sweep of presence is awaited before a name counts as free.
const SWEEP: Duration = Duration::from_secs(6);

impl Fakes {
    /// No fakes yet, beside `host`. Without a stage there never are any.
    pub fn new(host: Node, stage: Option<Stage>) -> Self {
        let shared = Shared {
            host,
            stage,
            book: Mutex::default(),
            changed: watch::Sender::new(0),
            closing: CancellationToken::new(),
            contracts: Contracts::default(),
            clock: Clock::default(),
            staffed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The contract that was read from this document, as fakes share it: one for all that are made of the same.
    pub fn share(&self, document: &Value, contract: Contract) -> Arc<Contract> {
        self.shared.contracts.share(document, contract)
    }

    /// Whether code that scripts bring along may be run here.
    pub fn run_code(&self) -> bool {
        self.shared.stage.as_ref().is_some_and(|stage| stage.exec.is_some())
    }

    /// A name for one that was given none.
    pub fn fresh_name(&self) -> String {
        names::name("fake", Uuid::new_v4().as_u128())
    }

    /// Stands a fake up. When this returns it is on the network; when it fails, or is no longer waited for, nothing of it
    /// stays there.
    ///
    /// # Errors
    /// Why it is not there.
    pub async fn start(&self, name: PeerName, plan: Plan) -> Result<FakeLine, StartFault> {
        let Some(stage) = &self.shared.stage else {
            return Err(StartFault::Failed("this bridge has nowhere to stand fakes up".into()));
        };
        let reserved = self.shared.reserve(&name)?;
        let starting = async {
            if stage.is_listed(&name) {
                return Err(StartFault::NameTaken(Taken::Listed));
            }
            self.shared.is_free(&name).await?;
            let hands = hands(stage, &name, &plan).await?;
            let standing = Standing::up(stage, reserved, &name, plan, hands)?;
            if let Err(fault) = standing.joined(stage, &self.shared.host).await {
                standing.fall(&self.shared.host).await;
                return Err(fault);
            }
            let (live, running, reserved) = standing.stays().ok_or(StartFault::Closing)?;
            Ok(self.shared.stand(live, running, reserved))
        };
        tokio::select! {
            biased; // what is begun while we leave is taken down
            () = self.shared.closing.cancelled() => Err(StartFault::Closing),
            started = starting => started,
        }
    }

    /// As whom a fake of this name is on the network, as far as that may surprise.
    pub fn terms(&self, name: &PeerName) -> Vec<String> {
        self.shared.stage.as_ref().map(|stage| stage.terms(name)).unwrap_or_default()
    }

    /// Takes a fake off the network, and waits until it is gone.
    ///
    /// # Errors
    /// None of that name was started here; with the names there are.
    pub async fn stop(&self, name: &str) -> Result<FakeLine, Vec<String>> {
        let lives = self.shared.lives();
        let Some(live) = lives.iter().find(|live| live.name().as_str() == name && !live.is_over()) else {
            return Err(lives.iter().map(|live| live.name().to_string()).collect());
        };
        let line = FakeLine::of(live);
        live.end(Why::Asked);
        self.shared.until(|book| !book.has(live)).await;
        Ok(line)
    }

    /// What comes when a fake that stands now is off the network, however that comes about; `None` if none has that name.
    pub fn over(&self, name: &PeerName) -> Option<impl Future<Output = Over> + Send + use<>> {
        let live = self.shared.lives().into_iter().find(|live| live.name() == name)?;
        let shared = self.shared.clone();
        Some(async move {
            shared.until(|book| !book.has(&live)).await;
            Over { last: FakeLine::of(&live), withdrawn: live.is_taken() }
        })
    }

    /// Takes all of them off the network, those that are being started too, and starts none any more.
    pub async fn stop_all(&self) {
        self.shared.closing.cancel();
        for live in self.shared.lives() {
            live.end(Why::Asked);
        }
        self.shared.until(|book| book.slots.is_empty()).await;
    }

    /// Those there are, by name, and those that left their name to somebody else, newest first.
    pub fn list(&self) -> (Vec<FakeLine>, Vec<Withdrawn>) {
        let lines = self.shared.lives().iter().filter(|live| !live.is_over()).map(|live| FakeLine::of(live)).collect();
        (lines, self.shared.book().past.iter().rev().cloned().collect())
    }

    /// Whether a fake of this process goes by this name.
    pub fn is_one(&self, name: &PeerName) -> bool {
        matches!(self.shared.book().slots.get(name), Some(Slot::Live(_)))
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that stand.
    pub(super) fn lives(&self) -> Vec<Arc<Live>> {
        let live = |slot: &Slot| if let Slot::Live(live) = slot { Some(live.clone()) } else { None };
        self.book().slots.values().filter_map(live).collect()
    }

    /// Takes a name at once, or says who has it here: of two that want one name, one gets it.
    fn reserve(self: &Arc<Self>, name: &PeerName) -> Result<Reservation, StartFault> {
        if self.closing.is_cancelled() {
            return Err(StartFault::Closing);
        }
        if name == self.host.name() {
            return Err(StartFault::NameTaken(Taken::Bridge));
        }
        let mut book = self.book();
        if book.slots.contains_key(name) {
            return Err(StartFault::NameTaken(Taken::Fake));
        }
        if book.slots.len() >= MOST {
            return Err(StartFault::TooMany);
        }
        book.slots.insert(name.clone(), Slot::Reserved);
        Ok(Reservation { shared: self.clone(), name: name.clone(), held: true })
    }

    /// Nobody on the network has the name. Only a network that is there and was swept can say so.
    async fn is_free(&self, name: &PeerName) -> Result<(), StartFault> {
        let network = self.host.network();
        let network = if network.is_up() && !network.is_settled() {
            self.host.network_when(SWEEP, |network| network.is_settled() || !network.is_up()).await
        } else {
            network
        };
        if !network.is_settled() {
            let outer = network.links.iter().filter(|(id, _)| !id.is_inside());
            return Err(StartFault::Offline(outer.map(|(_, link)| link.clone()).collect()));
        }
        if on_the_network(&network, name) { Err(StartFault::NameTaken(Taken::Peer)) } else { Ok(()) }
    }

    /// A fake that is on the network stays until it is over.
    fn stand(self: &Arc<Self>, live: Live, running: Running, mut reserved: Reservation) -> FakeLine {
        let live = Arc::new(live);
        reserved.held = false;
        self.book().slots.insert(live.name().clone(), Slot::Live(live.clone()));
        if !self.staffed.swap(true, Ordering::AcqRel) {
            let (clockwork, shared) = (self.clone(), Arc::downgrade(self));
            tokio::spawn(usher::run(shared, self.host.watch_network()));
            tokio::spawn(async move {
                tokio::select! {
                    () = clockwork.clock.run() => {}
                    () = clockwork.closing.cancelled() => {}
                }
            });
        }
        self.clock.add(&live);
        // What changed on the network meanwhile may not be told again.
        usher::look(&live, &self.host.network());
        if self.closing.is_cancelled() {
            live.end(Why::Asked);
        }
        let line = FakeLine::of(&live);
        tokio::spawn(keep(self.clone(), live, running));
        line
    }

    /// Waits until the book is as it is wanted.
    async fn until(&self, done: impl Fn(&Book) -> bool) {
        let mut changed = self.changed.subscribe();
        // Its sender is here.
        let _ = changed.wait_for(|_| done(&self.book())).await;
    }

    fn free(&self, name: &PeerName, withdrawn: bool) {
        {
            let mut book = self.book();
            book.slots.remove(name);
            if withdrawn {
                if book.past.len() >= PAST {
                    book.past.pop_front();
                }
                book.past.push_back(Withdrawn { name: name.clone(), at_ms: now_ms() });
            }
        }
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Book {
    fn has(&self, live: &Arc<Live>) -> bool {
        matches!(self.slots.get(live.name()), Some(Slot::Live(known)) if Arc::ptr_eq(known, live))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.held {
            self.shared.free(&self.name, false);
        }
    }
}

/// Owns a fake until it is over, and takes it off the network then.
async fn keep(shared: Arc<Shared>, live: Arc<Live>, running: Running) {
    let why = live.until_over().await;
    if why == Why::Taken {
        tracing::warn!(fake = %live.name(), "another peer goes by its name: the fake leaves it to that one");
    }
    let theirs = usher::others(&shared.host.network(), live.name(), &live.terms.shape);
    part(&live.node, running, theirs).await;
    live.actor.rest().await;
    shared.free(live.name(), why == Why::Taken);
}

/// What answers for the fake by itself, if its script brings something along.
async fn hands(stage: &Stage, name: &PeerName, plan: &Plan) -> Result<Option<Hands>, StartFault> {
    let Some(exec) = stage.exec.as_ref().filter(|_| plan.handlers() > 0) else { return Ok(None) };
    let started = exec.start(name.as_str(), &plan.script.code).await;
    started.map(Some).map_err(|fault| match fault {
        CodeFault::TooMany => StartFault::TooManyRunCode,
        CodeFault::Problems(problems) => StartFault::Code(problems),
    })
}
