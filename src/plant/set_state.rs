//! Changing one value by naming its path: the method that declares it sets the path is found, the value is checked, the
//! method is called, and, when asked, the next snapshot says whether the plant agreed.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Arguments, CallRequest, Called, Plant, PlantError, Principal, Target,
    call::{Ready, check, find_namespace},
    read_state::{Observation, Snapshot},
    while_wanted,
};
use crate::{
    contract::{Description, Namespace, Segments, Setter, SetterFault, path, signature, validate},
    wire::{PeerName, Value},
};

/// A change somebody wants made.
#[derive(Clone, Debug)]
pub struct SetState {
    /// On whom.
    pub peer: String,
    /// In which component.
    pub namespace: String,
    /// What.
    pub path: Segments,
    /// To what.
    pub value: Value,
    /// What must hold before.
    pub expect: Option<Expectation>,
    /// How long the plant's word for it is awaited; zero: not at all.
    pub verify: Duration,
    /// How long the answer is awaited; `None`: as long as this process usually does.
    pub timeout: Option<Duration>,
    /// How long the peer is awaited, if it is not there.
    pub wait: Duration,
}

/// What must hold before a change is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// The revision the component was seen at.
    pub revision: Option<i64>,
    /// The value the path was seen to have.
    pub value: Option<Value>,
}

/// What became of a change.
#[derive(Debug)]
pub enum StateSet {
    /// The method ran.
    Called {
        /// The call.
        called: Box<Called>,
        /// What the plant says, if it was asked.
        confirmation: Option<Confirmation>,
    },
    /// What was to hold before does not: nothing was sent.
    Unmet {
        /// What the component holds.
        seen: Box<Snapshot>,
        /// What the path holds.
        value: Option<Value>,
    },
}

/// What the next snapshot says about a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    /// Whether the path holds the value; `None`: nothing was published that could tell.
    pub confirmed: Option<bool>,
    /// What the path was last seen to hold.
    pub seen: Option<Value>,
    /// The revision it was seen at.
    pub revision: Option<i64>,
}

/// How long a snapshot is awaited that must be there: the one every subscription is answered with.
const FIRST_SNAPSHOT: Duration = Duration::from_secs(2);
/// After a newer snapshot that disagrees, how long a further one may still agree: a device may take a moment.
const SECOND_THOUGHTS: Duration = Duration::from_secs(1);

impl Plant {
    /// Sets one value. Once `stop` is cancelled nothing is sent any more, and the plant's word is not waited for.
    pub async fn set_state(
        &self,
        principal: &Principal,
        request: SetState,
        stop: &CancellationToken,
    ) -> Result<StateSet, PlantError> {
        let Prepared { ready, observation, before } = while_wanted(stop, self.prepare(&request)).await?;
        if let (Some(expect), Some(before)) = (&request.expect, &before)
            && !expect.holds(before, &request.path)
        {
            let value = path::lookup(&before.state, &request.path).cloned();
            return Ok(StateSet::Unmet { seen: Box::new(before.clone()), value });
        }
        let timeout = request.timeout.unwrap_or(self.settings().call_timeout);
        let called = Box::new(self.send(principal, ready, timeout, None).await?);
        let confirmation = match observation {
            Some(mut observation) if !request.verify.is_zero() => {
                Some(confirm(&mut observation, before, &request, stop).await)
            }
            _ => None,
        };
        Ok(StateSet::Called { called, confirmation })
    }

    /// Everything that comes before the call.
    async fn prepare(&self, request: &SetState) -> Result<Prepared, PlantError> {
        let (peer, _) = self.reach(&request.peer, request.wait).await?;
        let description = self.description(&peer, self.settings().call_timeout).await?;
        let namespace = find_namespace(&description, &peer, &request.namespace)?;
        // Checked against the description the method was chosen from, whatever the peer announces meanwhile.
        let call = choose(&peer, &description, namespace, request)?;
        let ready = check(peer.clone(), call, Some(&description))?;
        let watches = !request.verify.is_zero() || request.expect.is_some();
        let mut observation = if watches { Some(self.observe(&peer, &request.namespace)?) } else { None };
        let before = match &mut observation {
            Some(observation) => first(observation, request).await?,
            None => None,
        };
        Ok(Prepared { ready, observation, before })
    }
}

/// A change that only has to be called.
struct Prepared {
    ready: Ready,
    observation: Option<Observation>,
    /// What the component held.
    before: Option<Snapshot>,
}

/// The call that sets the path, checked against the state's declared type.
fn choose(
    peer: &PeerName,
    description: &Description,
    namespace: &Namespace,
    request: &SetState,
) -> Result<CallRequest, PlantError> {
    let setter = Setter::choose(namespace, &request.path).map_err(|fault| match fault {
        SetterFault::NoSetter { claims } => PlantError::NoSetter {
            peer: peer.clone(),
            namespace: request.namespace.clone(),
            path: request.path.to_string(),
            claims: claims.into_iter().map(|claim| format!("{} (by {})", claim.path, claim.method)).collect(),
        },
        SetterFault::Ambiguous { first, second } => PlantError::AmbiguousSetter {
            peer: peer.clone(),
            namespace: request.namespace.clone(),
            path: request.path.to_string(),
            methods: (first, second),
        },
    })?;
    let state = namespace.component.as_ref().and_then(|component| component.state.as_ref());
    let node = state.and_then(|state| path::type_at(state, &request.path, &description.types));
    if let Some(node) = node {
        validate::value(&request.value, node, &description.types, "value").map_err(|problem| {
            let target =
                Target { peer: peer.clone(), namespace: request.namespace.clone(), method: setter.method.name.clone() };
            let signature = signature::line(setter.method);
            PlantError::InvalidParams { target, argument: "/value".into(), problem, signature }
        })?;
    }
    Ok(CallRequest {
        peer: request.peer.clone(),
        namespace: request.namespace.clone(),
        method: setter.method.name.clone(),
        arguments: Arguments::Positional(setter.arguments(&request.path, request.value.clone())),
        timeout: request.timeout,
        wait: Duration::ZERO,
        idempotency_key: None,
    })
}

/// What the component holds before the change. Without it an expectation cannot be judged, so then nothing is sent.
async fn first(observation: &mut Observation, request: &SetState) -> Result<Option<Snapshot>, PlantError> {
    let first = observation.next(FIRST_SNAPSHOT).await?;
    if first.is_none() && request.expect.is_some() {
        return Err(observation.no_snapshot(FIRST_SNAPSHOT));
    }
    Ok(first)
}

impl Expectation {
    fn holds(&self, before: &Snapshot, path: &Segments) -> bool {
        let revision = self.revision.is_none_or(|revision| revision == before.revision);
        let value = self.value.as_ref();
        revision && value.is_none_or(|value| path::lookup(&before.state, path).is_some_and(|seen| same(seen, value)))
    }
}

/// Waits for the plant's word: the first newer snapshot decides, unless it disagrees and another follows at once. The
/// method has run by now, so a look that fails only leaves the question open.
async fn confirm(
    observation: &mut Observation,
    before: Option<Snapshot>,
    request: &SetState,
    stop: &CancellationToken,
) -> Confirmation {
    let deadline = Instant::now() + request.verify;
    let mut newest = before.clone();
    let mut newer = false;
    loop {
        let seen = newest.as_ref().and_then(|snapshot| path::lookup(&snapshot.state, &request.path)).cloned();
        let agrees = seen.as_ref().is_some_and(|seen| same(seen, &request.value));
        let revision = newest.as_ref().map(|snapshot| snapshot.revision);
        if newer && agrees {
            return Confirmation { confirmed: Some(true), seen, revision };
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let patience = if newer { left.min(SECOND_THOUGHTS) } else { left };
        let next = tokio::select! {
            next = observation.next(patience) => next.ok(),
            () = stop.cancelled() => None,
        };
        if let Some(Some(snapshot)) = next {
            newer = newer || before.as_ref().is_none_or(|before| snapshot.is_newer_than(before));
            newest = Some(snapshot);
            continue;
        }
        // A value that was there before is still there if nothing newer came, as long as it would have come.
        let still = agrees && next.is_some() && observation.is_whole();
        return Confirmation { confirmed: (newer || still).then_some(agrees), seen, revision };
    }
}

/// Whether two values are the same to the plant: an integer may come back as a double.
#[expect(clippy::float_cmp, reason = "the plant has the value or it has another; near is another")]
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}
