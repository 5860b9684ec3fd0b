//! Where the instances of one host stand (semantics 8.1): the records a host declares, and the walk of the part of a
//! chain that is its own.

use std::collections::BTreeMap;

use super::{Axis, IdFault, MAX_INSTANCE, PerAxis, ROOT, Ref, TokenId, Trouble, check};
use crate::wire::{Map, PeerName, Value};

/// Refs of one host that a walk takes before it gives up.
const MAX_LOCAL: usize = 129;
/// Instances a host places.
const MAX_PLACES: usize = 1_000;

/// The places of a host, without what they provide: nothing here is a value (S-025).
#[derive(Clone, Debug)]
pub struct Places {
    host: PeerName,
    /// What epochs are made of: drawn by chance, once for every start of the host.
    seed: String,
    minted: u64,
    /// Boxed: a tree has room for eleven where there is one.
    records: BTreeMap<String, Box<Record>>,
    at: Vec<String>,
}

/// One record.
#[derive(Clone, Debug)]
struct Record {
    links: PerAxis<Link>,
    epoch: String,
    revision: u64,
    label: Option<String>,
}

/// Where one axis goes on from a record.
#[derive(Clone, Debug, Default)]
struct Link {
    to: Option<Ref>,
    epoch: String,
}

/// An instance to declare.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Which.
    pub instance: String,
    /// What it is part of; `None`: it stands alone.
    pub parent: Option<Ref>,
    /// What it serves.
    pub owner: Option<Ref>,
    /// What people call it.
    pub label: Option<String>,
}

/// Why a topology cannot be so (semantics 2.2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyFault {
    /// There is no such instance.
    #[error("topology: {0} is not declared here")]
    Unknown(String),
    /// It is there already.
    #[error("topology: {0} is declared already")]
    Declared(String),
    /// A physical edge between hosts that is not from root to root.
    #[error("topology: {0} cannot have a remote physical parent - only the $host root may, root to root")]
    RemoteParent(String),
    /// It is part of itself.
    #[error("topology: {0} cannot be its own parent")]
    OwnParent(String),
    /// It is part of a part of itself.
    #[error("topology: parenting {0} under {1} closes a physical cycle")]
    Cycle(String, String),
    /// It serves itself.
    #[error("topology: {0} cannot own itself")]
    OwnOwner(String),
    /// The root is part of something of its own.
    #[error("topology: the $host root's parent is another host's root, not something on this host")]
    RootUnderOwn,
    /// The root is part of something that is no root.
    #[error("topology: a host root's parent must be another host root - physical edges cross hosts only root to root")]
    RootUnderPart,
    /// A name that is none.
    #[error("topology: {what}: {why}")]
    Name {
        /// Of what.
        what: &'static str,
        /// What is wrong with it.
        why: IdFault,
    },
    /// As many as there may be.
    #[error("topology: there are {limit} {what}, and no more can be")]
    Full {
        /// Of what.
        what: &'static str,
        /// How many may be.
        limit: usize,
    },
    /// A value that is too large, or that JSON cannot hold.
    #[error("topology: the value of {token} {why}")]
    Value {
        /// Of what.
        token: TokenId,
        /// What is wrong with it.
        why: String,
    },
}

// The places.
impl Places {
    pub(super) fn new(host: PeerName, seed: &str) -> Self {
        let mut places = Self { host, seed: seed.into(), minted: 0, records: BTreeMap::new(), at: Vec::new() };
        let root = places.record(None, None, None);
        places.records.insert(ROOT.into(), Box::new(root));
        places
    }

    /// Says where the host is, from the widest to the narrowest.
    pub(super) fn put_at(&mut self, place: &[&str]) {
        self.at = place.iter().map(|part| (*part).to_owned()).collect();
    }

    pub(super) fn has(&self, instance: &str) -> bool {
        self.records.contains_key(instance)
    }

    pub(super) fn mint(&mut self) -> String {
        self.minted += 1;
        format!("{}.{}", self.seed, self.minted)
    }

    fn record(&mut self, parent: Option<Ref>, owner: Option<Ref>, label: Option<String>) -> Record {
        let physical = Link { to: parent, epoch: self.mint() };
        let logical = Link { to: owner, epoch: self.mint() };
        Record { links: PerAxis { physical, logical }, epoch: self.mint(), revision: 0, label }
    }

    /// Whether a link may be so. What it leads to need not be declared: a walk says that it is not.
    fn check_link(&self, instance: &str, axis: Axis, to: &Ref) -> Result<(), TopologyFault> {
        let own = to.peer == self.host;
        let itself = own && to.instance == instance;
        match (axis, instance == ROOT) {
            (Axis::Logical, _) if itself => Err(TopologyFault::OwnOwner(instance.into())),
            (Axis::Physical, true) if own => Err(TopologyFault::RootUnderOwn),
            (Axis::Physical, true) if to.instance != ROOT => Err(TopologyFault::RootUnderPart),
            (Axis::Physical, false) if !own => Err(TopologyFault::RemoteParent(instance.into())),
            (Axis::Physical, false) if itself => Err(TopologyFault::OwnParent(instance.into())),
            (Axis::Physical, false) if self.leads_to(&to.instance, instance) => {
                Err(TopologyFault::Cycle(instance.into(), to.instance.clone()))
            }
            (Axis::Logical | Axis::Physical, _) => Ok(()),
        }
    }

    /// Whether the parents of one instance lead to another, declared or not.
    fn leads_to(&self, from: &str, instance: &str) -> bool {
        let Walk { walked, trouble, .. } = self.walk(from, Axis::Physical);
        let lost = match trouble {
            Some(Trouble::InvalidReference { at }) => at,
            Some(Trouble::Cycle { .. } | Trouble::DepthExceeded) | None => None,
        };
        walked.iter().chain(&lost).any(|at| at.instance == instance)
    }

    pub(super) fn declare(&mut self, place: Place) -> Result<(), TopologyFault> {
        let Place { instance, parent, owner, label } = place;
        named("an instance", &instance)?;
        if let Some(label) = &label {
            named("a label", label)?;
        }
        // The root is there from the start, and is told where it stands.
        if instance != ROOT && self.records.contains_key(&instance) {
            return Err(TopologyFault::Declared(instance));
        }
        if self.records.len() >= MAX_PLACES {
            return Err(TopologyFault::Full { what: "places", limit: MAX_PLACES });
        }
        for (axis, to) in [(Axis::Physical, &parent), (Axis::Logical, &owner)] {
            to.iter().try_for_each(|to| self.check_link(&instance, axis, to))?;
        }
        let record = self.record(parent, owner, label);
        self.records.insert(instance, Box::new(record));
        Ok(())
    }

    /// Points a link elsewhere. It gets a fresh epoch even if it points where it pointed.
    pub(super) fn link(&mut self, instance: &str, axis: Axis, to: Option<Ref>) -> Result<(), TopologyFault> {
        if !self.records.contains_key(instance) {
            return Err(TopologyFault::Unknown(instance.into()));
        }
        to.iter().try_for_each(|to| self.check_link(instance, axis, to))?;
        let epoch = self.mint();
        let Some(record) = self.records.get_mut(instance) else { return Ok(()) };
        record.revision += 1;
        let link = match axis {
            Axis::Physical => &mut record.links.physical,
            Axis::Logical => &mut record.links.logical,
        };
        *link = Link { to, epoch };
        Ok(())
    }

    /// The part of a chain that is on this host.
    pub(super) fn walk(&self, from: &str, axis: Axis) -> Walk<'_> {
        let mut walk = Walk::default();
        let mut instance = from;
        loop {
            let at = Ref { peer: self.host.clone(), instance: instance.into() };
            let Some(record) = self.records.get(instance) else {
                walk.trouble = Some(Trouble::InvalidReference { at: Some(at) });
                break;
            };
            if let Some(ring) = walk.walked.iter().position(|walked| *walked == at) {
                walk.trouble = Some(Trouble::Cycle { path: walk.walked.iter().skip(ring).cloned().collect() });
                break;
            }
            if walk.walked.len() == MAX_LOCAL {
                walk.trouble = Some(Trouble::DepthExceeded);
                break;
            }
            let link = record.links.of(axis);
            walk.walked.push(at);
            walk.epochs.push(&link.epoch);
            match &link.to {
                Some(next) if next.peer == self.host => instance = &next.instance,
                next => {
                    walk.continues.clone_from(next);
                    break;
                }
            }
        }
        walk
    }

    /// What a description says of an instance, if it has a record.
    pub(crate) fn described(&self, instance: &str) -> Option<Map> {
        let record = self.records.get(instance)?;
        let mut out = Map::new();
        record.write_links(&mut out);
        if let Some(label) = &record.label {
            out.insert("label", label.as_str());
        }
        Some(out)
    }

    /// What a description says of the host, besides what every host has.
    pub(crate) fn describe_host(&self, host: &mut Map) {
        let Some(root) = self.records.get(ROOT) else { return };
        host.insert("parent", or_null(root.links.physical.to.as_ref()));
        if let Some(owner) = &root.links.logical.to {
            host.insert("owner", owner.to_value());
        }
        if let Some(place) = self.placement() {
            host.insert("place", place);
        }
        if let Some(label) = &root.label {
            host.insert("label", label.as_str());
        }
    }

    fn placement(&self) -> Option<Value> {
        let at: Vec<Value> = self.at.iter().map(|part| part.as_str().into()).collect();
        (!at.is_empty()).then(|| at.into())
    }

    /// The records and the placement of the host, as `msgrpc.topology` answers them; the root first.
    pub(crate) fn to_map(&self) -> Map {
        let root = self.records.get_key_value(ROOT);
        let others = self.records.iter().filter(|(instance, _)| *instance != ROOT);
        let records = root.into_iter().chain(others).map(|(instance, record)| {
            let mut out = Map::new();
            out.insert("ref", Ref { peer: self.host.clone(), instance: instance.clone() }.to_value());
            record.write_links(&mut out);
            let mut version = Map::new();
            version.insert("epoch", record.epoch.as_str());
            version.insert("revision", signed(record.revision));
            out.insert("version", version);
            if let Some(label) = &record.label {
                out.insert("label", label.as_str());
            }
            Value::from(out)
        });
        let mut out = Map::new();
        out.insert("records", records.collect::<Vec<_>>());
        if let Some(place) = self.placement() {
            out.insert("place", place);
        }
        out
    }

    /// The owner generation of an instance, if it has a record.
    pub(crate) fn owner_epoch(&self, instance: &str) -> Option<&str> {
        Some(self.records.get(instance)?.links.logical.epoch.as_str())
    }
}

impl Record {
    fn write_links(&self, out: &mut Map) {
        out.insert("parent", or_null(self.links.physical.to.as_ref()));
        out.insert("owner", or_null(self.links.logical.to.as_ref()));
        out.insert("parentEpoch", self.links.physical.epoch.as_str());
        out.insert("ownerEpoch", self.links.logical.epoch.as_str());
    }
}

/// A walk of one host's part of a chain.
#[derive(Debug, Default)]
pub(super) struct Walk<'a> {
    pub(super) walked: Vec<Ref>,
    pub(super) epochs: Vec<&'a str>,
    pub(super) continues: Option<Ref>,
    pub(super) trouble: Option<Trouble>,
}

fn named(what: &'static str, text: &str) -> Result<(), TopologyFault> {
    check(text, MAX_INSTANCE).map_err(|why| TopologyFault::Name { what, why })
}

fn or_null(to: Option<&Ref>) -> Value {
    to.map_or(Value::Null, Ref::to_value)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
