//! One look at a component: subscribe, take the first snapshot, unsubscribe.

use std::time::Duration;

use super::{Plant, PlantError, Target, call::find_namespace};
use crate::{
    node::{CallError, Doubt, Heard, SNAPSHOT, Stream, Subscription},
    wire::{Map, PeerName, Value},
};

/// A look somebody wants to take.
#[derive(Clone, Debug)]
pub struct ReadState {
    /// At whom.
    pub peer: String,
    /// At which component.
    pub namespace: String,
    /// How long the first snapshot is awaited.
    pub patience: Duration,
    /// How long the peer is awaited, if it is not there.
    pub wait: Duration,
}

/// What a component published.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Which peer.
    pub peer: PeerName,
    /// Which instance of the component.
    pub epoch: String,
    /// Rises with every change within one epoch.
    pub revision: i64,
    /// What its host sets.
    pub props: Value,
    /// What it holds.
    pub state: Value,
    /// Who is in control.
    pub authority: Option<Value>,
    /// When it arrived here, in milliseconds since the Unix epoch.
    pub received_ms: i64,
    /// Whether the connection was lost after it arrived.
    pub stale: bool,
}

impl Snapshot {
    /// Whether this is newer than `other`: another instance always is.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        self.epoch != other.epoch || self.revision > other.revision
    }

    /// Reads the body of a snapshot. What lacks a member, or has one of another kind, is no snapshot.
    pub(super) fn parse(peer: &PeerName, args: Vec<Value>, received_ms: i64) -> Option<Self> {
        let Some(Value::Map(mut body)) = args.into_iter().next() else { return None };
        let epoch = body.get("epoch")?.as_str().filter(|epoch| !epoch.is_empty())?.to_owned();
        let revision = body.get("revision")?.as_i64().filter(|revision| *revision >= 0)?;
        let part = |body: &mut Map, name: &str| body.remove(name).filter(|part| part.as_map().is_some());
        let (props, state) = (part(&mut body, "props")?, part(&mut body, "state")?);
        let authority = body.remove("authority");
        Some(Self { peer: peer.clone(), epoch, revision, props, state, authority, received_ms, stale: false })
    }
}

/// An open look at a component: snapshots as they come. Dropping it closes it.
pub(super) struct Observation {
    plant: Plant,
    peer: PeerName,
    namespace: String,
    subscription: Subscription,
    /// Whether the peer took the subscription.
    attached: bool,
    /// Whether everything published since the last snapshot was heard.
    whole: bool,
}

/// How observing can end.
enum Ended {
    Refused(CallError),
    Gone,
}

impl Observation {
    /// The next snapshot within `patience`; `None` when the time is up.
    pub(super) async fn next(&mut self, patience: Duration) -> Result<Option<Snapshot>, PlantError> {
        match tokio::time::timeout(patience, self.snapshot()).await {
            Ok(Ok(snapshot)) => {
                self.plant.saw(&self.namespace, &snapshot);
                Ok(Some(snapshot))
            }
            Ok(Err(ended)) => Err(self.why(ended)),
            Err(_) => Ok(None),
        }
    }

    /// Whether nothing can have been missed since the last snapshot.
    pub(super) const fn is_whole(&self) -> bool {
        self.whole
    }

    /// Why there is no snapshot: the component accepted the subscription and said nothing, or not even that.
    pub(super) fn no_snapshot(&self, patience: Duration) -> PlantError {
        if !self.attached {
            return self.failed(CallError::UnknownOutcome(Doubt::Timeout(patience)));
        }
        let (peer, namespace) = (self.peer.clone(), self.namespace.clone());
        PlantError::NoSnapshot { peer, namespace, seconds: patience.as_secs() }
    }

    async fn snapshot(&mut self) -> Result<Snapshot, Ended> {
        while let Some(heard) = self.subscription.next().await {
            match heard {
                Heard::Event { args, at_ms, .. } => {
                    if let Some(snapshot) = Snapshot::parse(&self.peer, args, at_ms) {
                        self.whole = true;
                        return Ok(snapshot);
                    }
                }
                Heard::Failed(error) => return Err(Ended::Refused(error)),
                Heard::Interrupted | Heard::Missed(_) => self.whole = false,
                Heard::Attached => self.attached = true,
            }
        }
        Err(Ended::Gone)
    }

    fn why(&self, ended: Ended) -> PlantError {
        match ended {
            Ended::Refused(CallError::Refused(error)) if error.code == "ClassNotFound" => PlantError::NotAComponent {
                peer: self.peer.clone(),
                namespace: self.namespace.clone(),
                alternatives: Vec::new(),
            },
            Ended::Refused(error) => self.failed(error),
            Ended::Gone => self.failed(CallError::UnknownOutcome(Doubt::Closing)),
        }
    }

    fn failed(&self, error: CallError) -> PlantError {
        let target = Target { peer: self.peer.clone(), namespace: self.namespace.clone(), method: "on".into() };
        PlantError::Call { target, checked: false, observes: true, idempotency_key: None, error }
    }
}

impl Plant {
    /// Looks at a component once. Nothing is left behind, however it ends.
    pub async fn read_state(&self, request: ReadState) -> Result<Snapshot, PlantError> {
        let (peer, _) = self.reach(&request.peer, request.wait).await?;
        let looked = self.look(&peer, &request.namespace, request.patience).await;
        match looked {
            Err(PlantError::NotAComponent { .. }) => Err(self.not_a_component(peer, request.namespace).await),
            looked => looked,
        }
    }

    pub(super) async fn look(
        &self,
        peer: &PeerName,
        namespace: &str,
        patience: Duration,
    ) -> Result<Snapshot, PlantError> {
        let mut observation = self.observe(peer, namespace)?;
        observation.next(patience).await?.ok_or_else(|| observation.no_snapshot(patience))
    }

    /// Opens a look at a component.
    pub(super) fn observe(&self, peer: &PeerName, namespace: &str) -> Result<Observation, PlantError> {
        let stream = Stream { peer: peer.clone(), namespace: namespace.into(), event: SNAPSHOT.into() };
        let target = || Target { peer: peer.clone(), namespace: namespace.into(), method: "on".into() };
        let subscription = self.node().subscribe(stream).map_err(|error| PlantError::Call {
            target: target(),
            checked: false,
            observes: true,
            idempotency_key: None,
            error,
        })?;
        let (plant, peer, namespace) = (self.clone(), peer.clone(), namespace.into());
        Ok(Observation { plant, peer, namespace, subscription, attached: false, whole: true })
    }

    /// The refusal, with the components the peer does have.
    pub(super) async fn not_a_component(&self, peer: PeerName, namespace: String) -> PlantError {
        let description = self.description_if_any(&peer).await.ok().flatten();
        if let Some(description) = &description
            && let Err(unknown) = find_namespace(description, &peer, &namespace)
        {
            return unknown;
        }
        let components = description.iter().flat_map(|description| description.namespaces.iter());
        let components = components.filter(|known| known.component.is_some());
        let alternatives = components.map(|known| known.name.clone()).collect();
        PlantError::NotAComponent { peer, namespace, alternatives }
    }
}
