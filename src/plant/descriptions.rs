//! What peers say of themselves, remembered for as long as it is likely to be true (semantics.md 2.3): half a minute,
//! less when the peer announces another shape.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{PeerKind, Plant, PlantError, Target};
use crate::{
    contract::Description,
    node::{Call, CallError, Doubt, NotSent},
    wire::{PeerName, Value},
};

/// What a peer said of itself, read and verbatim, or why it said nothing.
type Said = Result<(Arc<Description>, Value), Unsaid>;

/// Why a peer said nothing of itself.
#[derive(Clone, Debug)]
pub struct Unsaid {
    /// In its words where they are its own.
    pub why: String,
    /// Whether it did not answer at all: that may be the peer, and it may be that it does not believe us, or we it.
    pub unanswered: bool,
}

impl Unsaid {
    /// The same, for a verb that cannot do without.
    pub(crate) fn of(self, peer: &PeerName) -> PlantError {
        PlantError::Undescribed { peer: peer.clone(), unsaid: self }
    }
}

/// How long a description serves.
const FRESH: Duration = Duration::from_secs(30);
/// How many peers are remembered; of a plant with more, the ones asked longest ago are asked again.
const CAPACITY: usize = 256;
/// How heavy all that is remembered may be, in bytes.
const HEAVIEST: usize = 32 * 1024 * 1024;
/// How long a call that only wants to check itself waits for a description before it goes out unchecked.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is remembered. The lock on one peer's slot is held while it is asked, so that many callers ask once.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    slots: Mutex<HashMap<PeerName, Arc<Slot>>>,
}

#[derive(Debug, Default)]
struct Slot {
    asked: tokio::sync::Mutex<()>,
    known: Mutex<Option<Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    shape: Option<Arc<str>>,
    since: Instant,
    /// Why there is none is remembered as well: a minimal device is asked once, not before every call.
    said: Result<Arc<Description>, Unsaid>,
    /// How long an answer was awaited. Whoever would have waited longer is not told of silence.
    patience: Duration,
    /// How many bytes it takes, roughly.
    weight: usize,
}

impl Descriptions {
    /// What a peer is, from what it said last.
    pub(super) fn kind(&self, peer: &PeerName) -> PeerKind {
        let slot = self.slots().get(peer).cloned();
        let known = slot.and_then(|slot| slot.known());
        match known.map(|known| known.said) {
            Some(Ok(description)) if is_fake(&description) => PeerKind::Fake,
            Some(Ok(_)) => PeerKind::Device,
            Some(Err(_)) | None => PeerKind::Unknown,
        }
    }

    /// What a peer of this name said last, however long ago.
    pub(super) fn remembered(&self, peer: &str) -> Option<Arc<Description>> {
        let slot = self.slots().iter().find(|(name, _)| name.as_str() == peer).map(|(_, slot)| slot.clone());
        slot?.known()?.said.ok()
    }

    /// What every peer said last.
    pub(super) fn all_remembered(&self) -> Vec<Arc<Description>> {
        self.slots().values().filter_map(|slot| slot.known()?.said.ok()).collect()
    }

    /// What another peer said that announces the same shape, or else any other: all say the same of introspection.
    fn alike(&self, peer: &PeerName, shape: Option<&Arc<str>>) -> Option<Arc<Description>> {
        let mut any = None;
        for (_, slot) in self.slots().iter().filter(|(name, _)| *name != peer) {
            let Some(Known { shape: announced, said: Ok(said), .. }) = slot.known() else { continue };
            if shape.is_some() && announced.as_ref() == shape {
                return Some(said);
            }
            any = Some(said);
        }
        any
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<PeerName, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was asked longest ago until the rest is not too heavy; `newest` stays.
    fn slim(&self, newest: &PeerName) {
        let mut slots = self.slots();
        let weight = |slot: &Slot| slot.known().map_or(0, |known| known.weight);
        let mut total: usize = slots.values().map(|slot| weight(slot)).sum();
        while total > HEAVIEST {
            let others = slots.iter().filter(|(name, _)| *name != newest);
            let oldest = others.min_by_key(|(_, slot)| slot.known().map(|known| known.since));
            let Some((name, slot)) = oldest.map(|(name, slot)| (name.clone(), slot.clone())) else { return };
            total -= weight(&slot);
            slots.remove(&name);
        }
    }

    fn slot(&self, peer: &PeerName) -> Arc<Slot> {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(peer) {
            return slot.clone();
        }
        if slots.len() >= CAPACITY {
            let oldest = slots.iter().min_by_key(|(_, slot)| slot.known().map(|known| known.since));
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                slots.remove(&name);
            }
        }
        slots.entry(peer.clone()).or_default().clone()
    }
}

impl Known {
    fn new(shape: Option<Arc<str>>, said: &Said, patience: Duration) -> Self {
        let weight = said.as_ref().map_or_else(|unsaid| unsaid.why.len(), |(_, answer)| weight(answer));
        let said = said.as_ref().map(|(description, _)| description.clone()).map_err(Clone::clone);
        Self { shape, since: Instant::now(), said, patience, weight }
    }
}

/// How many bytes a value takes in memory, roughly.
fn weight(value: &Value) -> usize {
    let inner = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) | Value::Ext(_, bytes) => bytes.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| key.len() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Date(_) => 0,
    };
    size_of::<Value>() + inner
}

impl Slot {
    fn known(&self) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fresh(&self, shape: Option<&Arc<str>>, patience: Duration) -> Option<Result<Arc<Description>, Unsaid>> {
        let known = self.known()?;
        let fresh = known.since.elapsed() < FRESH && known.shape.as_ref() == shape;
        (fresh && (known.said.is_ok() || known.patience >= patience)).then_some(known.said)
    }

    fn remember(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }
}

impl Plant {
    /// What a peer is, as far as that is known without asking it.
    pub(super) fn kind(&self, peer: &PeerName) -> PeerKind {
        if self.fakes().is_one(peer) { PeerKind::Fake } else { self.shared.descriptions.kind(peer) }
    }

    /// Whether the words of this peer are those of a fake. One that announces a shape is asked, if it was not yet; of
    /// another nothing more than was heard is known.
    pub(crate) async fn speaks_as_fake(&self, peer: &PeerName) -> bool {
        let announces = self.node().network().roster.get(peer).is_some_and(|seen| seen.shape.is_some());
        if announces && self.kind(peer) == PeerKind::Unknown {
            let _ = self.description_if_any(peer).await;
        }
        self.kind(peer) == PeerKind::Fake
    }

    /// What a peer says of itself, from memory where that is fresh.
    pub(super) async fn description(&self, peer: &PeerName, timeout: Duration) -> Result<Arc<Description>, PlantError> {
        self.description_or_why(peer, timeout).await?.map_err(|unsaid| unsaid.of(peer))
    }

    /// The same for a verb that can do without: `None` when the peer says nothing of itself.
    pub(super) async fn description_if_any(&self, peer: &PeerName) -> Result<Option<Arc<Description>>, PlantError> {
        // A peer that announces a shape can describe itself, and is worth waiting for.
        let announces = self.node().network().roster.get(peer).is_some_and(|seen| seen.shape.is_some());
        let usual = self.settings().call_timeout;
        let patience = if announces { usual } else { PATIENCE.min(usual) };
        Ok(self.description_or_why(peer, patience).await?.ok())
    }

    async fn description_or_why(
        &self,
        peer: &PeerName,
        timeout: Duration,
    ) -> Result<Result<Arc<Description>, Unsaid>, PlantError> {
        let slot = self.shared.descriptions.slot(peer);
        let shape = || self.node().network().roster.get(peer).and_then(|seen| seen.shape.clone());
        if let Some(said) = slot.fresh(shape().as_ref(), timeout) {
            return Ok(said);
        }
        let _asking = slot.asked.lock().await;
        // S-022: the shape is noted before asking, so that a change on the way makes the next look ask again.
        let shape = shape();
        if let Some(said) = slot.fresh(shape.as_ref(), timeout) {
            return Ok(said);
        }
        let said = self.ask(peer, shape.as_ref(), timeout).await?;
        let known = Known::new(shape, &said, timeout);
        let said = known.said.clone();
        slot.remember(known);
        self.shared.descriptions.slim(peer);
        Ok(said)
    }

    /// Asks whatever is remembered, and remembers the answer.
    pub(super) async fn describe_afresh(
        &self,
        peer: &PeerName,
        timeout: Duration,
    ) -> Result<(Arc<Description>, Value), PlantError> {
        let slot = self.shared.descriptions.slot(peer);
        let shape = self.node().network().roster.get(peer).and_then(|seen| seen.shape.clone());
        let said = self.ask(peer, shape.as_ref(), timeout).await?;
        slot.remember(Known::new(shape, &said, timeout));
        self.shared.descriptions.slim(peer);
        said.map_err(|unsaid| unsaid.of(peer))
    }

    /// One question to a peer that announces `shape`. The inner error is the peer's silence or refusal, which is a fact about the peer; the outer one is
    /// ours.
    async fn ask(&self, peer: &PeerName, shape: Option<&Arc<str>>, timeout: Duration) -> Result<Said, PlantError> {
        let call = Call {
            peer: peer.clone(),
            namespace: "msgrpc".into(),
            method: "describe".into(),
            args: Vec::new(),
            timeout: Some(timeout),
            idempotency_key: None,
        };
        let value = match self.node().call(call).await {
            Ok(answer) => answer.value.unwrap_or(Value::Null),
            // That the link is down says nothing about the peer, and is not remembered as if it did.
            Err(CallError::NotSent(NotSent::LinkDown) | CallError::UnknownOutcome(Doubt::LinkLost(_))) => {
                return Err(self.unavailable(&self.node().network()));
            }
            Err(error @ CallError::NotSent(_)) => {
                let target = Target { peer: peer.clone(), namespace: "msgrpc".into(), method: "describe".into() };
                return Err(PlantError::Call { target, checked: false, observes: true, idempotency_key: None, error });
            }
            Err(error @ (CallError::Refused(_) | CallError::UnknownOutcome(_))) => {
                let unanswered = matches!(error, CallError::UnknownOutcome(Doubt::Timeout(_)));
                return Ok(Err(Unsaid { why: error.to_string(), unanswered }));
            }
        };
        let description = Description::parse(&value);
        let description = description.map_err(|problem| Unsaid { why: problem.to_string(), unanswered: false });
        let shared = description.map(|mut description| {
            if let Some(alike) = self.shared.descriptions.alike(peer, shape) {
                description.hold_with(&alike);
            }
            description.into()
        });
        Ok(shared.map(|description| (description, value)))
    }
}

/// Whether a peer says that it is a fake (S-126).
pub(crate) fn is_fake(description: &Description) -> bool {
    description.namespaces.iter().any(|namespace| namespace.class_name.as_deref() == Some("Fake"))
}
