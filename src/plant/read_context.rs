//! What a node inherits of one token, along one chain (semantics 8.3): the host of the node is asked first, then the host
//! its chain goes on to, until the chain is whole. Hosts are asked with `read` alone, so that nothing is held anywhere: a
//! look that ends, however it ends, has nothing to close.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::{Plant, PlantError, Target, nearest};
use crate::{
    contract::context::{Axis, Found, HostAnswer, INVALID_REFERENCE, Invalid, Outcome, Ref, Resolution, Step, TokenId},
    link::now_ms,
    node::{Call, CallError, Doubt, Network, NotSent},
    wire::{PeerName, RemoteError, Value},
};

/// A look at what a node inherits.
#[derive(Clone, Debug)]
pub struct ReadContext {
    /// The peer of the node.
    pub peer: String,
    /// Which of its instances; `$host` is the peer itself.
    pub node: String,
    /// Which token, by its id.
    pub token: String,
    /// Along which chain.
    pub axis: Axis,
    /// How long hosts that do not answer are asked again.
    pub patience: Duration,
    /// How long the peer is awaited, if it is not there.
    pub wait: Duration,
}

/// What a node inherits.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextRead {
    /// Of which node.
    pub node: Ref,
    /// What may be concluded.
    pub status: ContextStatus,
    /// What providers say, the nearest first; only when it is live or stale.
    pub entries: Vec<Found>,
    /// The refs that hosts answered about, one a host, in the order they were asked.
    pub hops: Vec<Ref>,
    /// The chain as far as it is known, nearest first.
    pub chain: Vec<Ref>,
    /// Where the peer says that there is no such node: those it describes, the most alike first. Only a peer that announces a
    /// shape is asked.
    pub instances: Option<Vec<String>>,
}

/// What may be concluded from a chain (S-091).
#[derive(Clone, Debug, PartialEq)]
pub enum ContextStatus {
    /// The chain is whole, and somebody on it provides the token.
    Live,
    /// It was whole, and since then a host of it was lost.
    Stale {
        /// Which host.
        lost: Ref,
        /// When that was noticed, in milliseconds since the Unix epoch.
        since_ms: i64,
    },
    /// The chain is whole, and nobody on it provides the token to us.
    Missing,
    /// The chain does not hold.
    Invalid(Invalid),
    /// A host along the chain has not answered.
    Initializing {
        /// Which host, and about what.
        awaited: Ref,
    },
}

/// How long one host is waited for before it is asked again; twice as long the next time, for one that is slow.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How long is waited before a host is asked again that could not be asked or was busy.
const PAUSE: Duration = Duration::from_millis(250);
/// How often a chain is walked whose hosts come and go.
const ROUNDS: usize = 3;

/// One walk along a chain.
struct Walk {
    resolution: Resolution,
    /// `None`: the host that is next has not answered.
    outcome: Option<Outcome>,
    /// Since when each host was there, when it was asked.
    stays: Vec<(Ref, Option<i64>)>,
}

impl Plant {
    /// Resolves one token of one node, the nearest provider first. `asking` hears whom is asked.
    pub async fn read_context(&self, request: ReadContext, asking: impl Fn(&Ref)) -> Result<ContextRead, PlantError> {
        let token = token(&request.token)?;
        let node =
            |peer| Ref::new(peer, &request.node).map_err(|fault| bad("/node", "the name of an instance", &fault));
        // What is no name is refused before anybody is asked.
        node(self.name().clone())?;
        let (peer, _) = self.reach(&request.peer, request.wait).await?;
        let (node, until) = (node(peer)?, Instant::now() + request.patience);
        let mut round = 1;
        loop {
            let resolution = Resolution::new(node.clone(), token.clone(), request.axis);
            let walk = self.walk(resolution, until, &asking).await?;
            let lost = self.lost(&walk.stays);
            let again = match (&walk.outcome, &lost) {
                (Some(Outcome::Live(_)), Some(lost)) => self.stay(&lost.peer).is_some(),
                // Only a complete and fresh chain lacks something.
                (Some(Outcome::Missing), Some(_)) => true,
                _ => false,
            };
            if !again || round == ROUNDS || Instant::now() >= until {
                let mut read = concluded(node, walk, lost);
                if is_nowhere(&read) {
                    read.instances = Some(self.instances(&read.node).await?);
                }
                return Ok(read);
            }
            round += 1;
        }
    }

    /// What a peer has that is called like this node.
    async fn instances(&self, node: &Ref) -> Result<Vec<String>, PlantError> {
        let announces = self.node().network().roster.get(&node.peer).is_some_and(|seen| seen.shape.is_some());
        let description = if announces { self.description_if_any(&node.peer).await? } else { None };
        let namespaces = description.iter().flat_map(|known| &known.namespaces);
        let placed = namespaces.filter(|known| known.topology.is_some()).map(|known| known.name.as_str());
        Ok(nearest(&node.instance, placed))
    }

    async fn walk(
        &self,
        mut resolution: Resolution,
        until: Instant,
        asking: &impl Fn(&Ref),
    ) -> Result<Walk, PlantError> {
        let mut stays = Vec::new();
        loop {
            let at = resolution.at().clone();
            asking(&at);
            let Some((stay, answer)) = self.ask_host(until, &resolution).await? else {
                return Ok(Walk { resolution, outcome: None, stays });
            };
            stays.push((at.clone(), stay));
            match HostAnswer::parse(&answer).and_then(|answer| resolution.feed(&answer)) {
                Ok(Step::Ask(_)) => {}
                Ok(Step::Done(outcome)) => return Ok(Walk { resolution, outcome: Some(outcome), stays }),
                Err(fault) => return Err(no_context(&at, &resolution, format!("its answer is none: {fault}"), None)),
            }
        }
    }

    /// Asks one host until it answers or the time is up. With its answer, since when it was there.
    async fn ask_host(
        &self,
        until: Instant,
        resolution: &Resolution,
    ) -> Result<Option<(Option<i64>, Value)>, PlantError> {
        let (at, mut attempt) = (resolution.at(), ATTEMPT);
        if at.peer == *self.name() {
            let problem = "the chain leads to this bridge, which has no place in a plant";
            return Err(no_context(at, resolution, problem.into(), None));
        }
        while let Some(bound) = left(until) {
            let peer = &at.peer;
            self.node().network_when(bound, |network| network.is_up() && network.roster.get(peer).is_some()).await;
            let stay = self.stay(&at.peer);
            let Some(left) = left(until) else { break };
            if stay.is_none() {
                pause(until).await;
                continue;
            }
            let call = Call {
                peer: at.peer.clone(),
                namespace: "$context".into(),
                method: "read".into(),
                args: vec![at.instance.as_str().into(), vec![resolution.token().as_str().into()].into()],
                timeout: Some(left.min(attempt)),
                idempotency_key: None,
            };
            let answered = tokio::select! {
                answered = self.node().call(call) => answered,
                // One that left does not answer what it was asked; if it returns, it is asked again.
                () = self.leaves(&at.peer, stay, until) => continue,
            };
            match answered {
                Ok(answer) => return Ok(Some((stay, answer.value.unwrap_or(Value::Null)))),
                Err(CallError::UnknownOutcome(Doubt::Timeout(_))) => attempt = attempt.saturating_mul(2),
                Err(error) if passes(&error) => pause(until).await,
                Err(CallError::Refused(error)) => return Err(refused(resolution, error)),
                Err(error) => return Err(failed(at, error)),
            }
        }
        Ok(None)
    }

    /// Since when a peer is there, while it can be reached.
    fn stay(&self, peer: &PeerName) -> Option<i64> {
        let network = self.node().network();
        let seen = network.roster.get(peer).filter(|_| network.is_up())?;
        Some(seen.since_ms)
    }

    /// Ends when the stay of a peer does, and not before the deadline otherwise.
    async fn leaves(&self, peer: &PeerName, stay: Option<i64>, until: Instant) {
        let bound = left(until).unwrap_or_default();
        let ended = |network: &Network| network.roster.get(peer).map(|seen| seen.since_ms) != stay;
        let network = self.node().network_when(bound, ended).await;
        if !ended(&network) {
            // The time is up, or the node is gone: the call itself ends then.
            std::future::pending::<()>().await;
        }
    }

    /// The first host that was there when it answered and is not there any more, or again.
    fn lost(&self, stays: &[(Ref, Option<i64>)]) -> Option<Ref> {
        stays.iter().find(|(at, stay)| self.stay(&at.peer) != *stay).map(|(at, _)| at.clone())
    }
}

/// Whether the chain ends before it begins: its first ref is the one that is not there.
fn is_nowhere(read: &ContextRead) -> bool {
    let missing = |why: &Invalid| why.reason == INVALID_REFERENCE && why.path.iter().all(|at| *at == read.node);
    read.chain.is_empty() && matches!(&read.status, ContextStatus::Invalid(why) if missing(why))
}

/// What a walk comes to. An invalid chain goes before one that is not known, and that before one that is not fresh.
fn concluded(node: Ref, walk: Walk, lost: Option<Ref>) -> ContextRead {
    let Walk { resolution, outcome, .. } = walk;
    let (status, entries) = match (outcome, lost) {
        (Some(Outcome::Invalid(why)), _) => (ContextStatus::Invalid(why), Vec::new()),
        (None, _) => (ContextStatus::Initializing { awaited: resolution.at().clone() }, Vec::new()),
        (Some(Outcome::Missing), Some(awaited)) => (ContextStatus::Initializing { awaited }, Vec::new()),
        (Some(Outcome::Missing), None) => (ContextStatus::Missing, Vec::new()),
        (Some(Outcome::Live(found)), None) => (ContextStatus::Live, found),
        (Some(Outcome::Live(found)), Some(lost)) => (ContextStatus::Stale { lost, since_ms: now_ms() }, found),
    };
    let (hops, chain) = (resolution.hops().to_vec(), resolution.chain().to_vec());
    ContextRead { node, status, entries, hops, chain, instances: None }
}

fn token(id: &str) -> Result<TokenId, PlantError> {
    TokenId::parse(id).map_err(|fault| bad("/token", "a token id, which contains a dot, as in acme.site", &fault))
}

fn bad(argument: &str, expected: &str, fault: &dyn std::fmt::Display) -> PlantError {
    let problem = format!("{} is not {expected}: {fault}", argument.trim_start_matches('/'));
    PlantError::BadArgument { argument: argument.into(), expected: expected.into(), problem }
}

/// What is left until the deadline, if anything is.
fn left(until: Instant) -> Option<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    // A wait under a millisecond is none to a peer, which is told whole ones.
    (left >= Duration::from_millis(1)).then_some(left)
}

/// A moment, or less if the deadline comes first.
async fn pause(until: Instant) {
    let _ = timeout_at(until, sleep(PAUSE)).await;
}

/// Whether asking again may help.
fn passes(error: &CallError) -> bool {
    match error {
        CallError::Refused(error) => ["Busy", "Timeout", "Superseded"].contains(&error.code.as_str()),
        CallError::UnknownOutcome(doubt) => matches!(doubt, Doubt::LinkLost(_) | Doubt::Timeout(_)),
        CallError::NotSent(NotSent::LinkDown | NotSent::Timeout(_)) => true,
        CallError::NotSent(NotSent::Rejected(why)) => {
            matches!(why, crate::link::Rejection::Down | crate::link::Rejection::Full)
        }
        CallError::NotSent(NotSent::TooManyCalls { .. } | NotSent::Closing | NotSent::Abandoned) => false,
    }
}

fn refused(resolution: &Resolution, error: RemoteError) -> PlantError {
    let why = match error.code.as_str() {
        "ClassNotFound" | "MethodNotFound" => "it serves no $context that could be read",
        _ => "it refused",
    };
    let problem = format!("{why}: {}: {}", error.code, error.message);
    no_context(resolution.at(), resolution, problem, Some(error))
}

fn no_context(at: &Ref, resolution: &Resolution, problem: String, refusal: Option<RemoteError>) -> PlantError {
    PlantError::NoContext { at: at.clone(), hops: resolution.hops().to_vec(), problem, refusal }
}

fn failed(at: &Ref, error: CallError) -> PlantError {
    let target = Target { peer: at.peer.clone(), namespace: "$context".into(), method: "read".into() };
    PlantError::Call { target, checked: false, observes: true, idempotency_key: None, error }
}
