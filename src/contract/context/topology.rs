//! What the instances of one host provide to what is below them, and what other hosts are answered (semantics 8.2).

use std::collections::BTreeMap;

use super::{
    Axis, Entry, HostAnswer, PerAxis, Ref, TokenAnswer, TokenId, Version,
    places::{Place, Places, TopologyFault},
};
use crate::wire::{PeerName, Value, json};

/// Providers of a host.
const MAX_PROVIDERS: usize = 1_000;
/// Bytes of a provided value, as JSON.
const MAX_VALUE: usize = 16 << 10;
/// Bytes of all provided values of a host, as JSON: what bounds an answer.
const MAX_VALUES: usize = 256 << 10;

/// The places of a host and what is provided there.
#[derive(Clone, Debug)]
pub struct Topology {
    places: Places,
    providers: BTreeMap<(String, String, Axis), Provider>,
    weight: usize,
}

#[derive(Clone, Debug)]
struct Provider {
    value: Value,
    local: bool,
    version: Version,
    weight: usize,
}

/// Something that is provided.
#[derive(Clone, Debug, PartialEq)]
pub struct Provided {
    /// What it is.
    pub token: TokenId,
    /// Which instance provides it to what is below.
    pub instance: String,
    /// The axis it is inherited along.
    pub axis: Axis,
    /// Its value.
    pub value: Value,
    /// Whether it is kept from other hosts.
    pub local: bool,
}

/// A change of a topology that is served.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// An instance gets a place, or the root is told where it stands.
    Declare(Place),
    /// The instance is part of another, or of none.
    Parent(String, Option<Ref>),
    /// The instance serves another, or none.
    Owner(String, Option<Ref>),
    /// A value is provided, or another than before.
    Provide(Provided),
    /// It is provided no longer.
    Withdraw {
        /// Which token.
        token: TokenId,
        /// By which instance.
        instance: String,
        /// On which axis.
        axis: Axis,
    },
}

impl Topology {
    /// A host with its root and nothing else. `seed` is random, and fresh for every start of the host.
    pub fn new(host: PeerName, seed: &str) -> Self {
        Self { places: Places::new(host, seed), providers: BTreeMap::new(), weight: 0 }
    }

    /// Says where the host is, from the widest to the narrowest.
    #[must_use]
    pub fn at(mut self, place: &[&str]) -> Self {
        self.places.put_at(place);
        self
    }

    /// The places.
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// Adds a place, or says where the root stands.
    ///
    /// # Errors
    ///
    /// Why it cannot be so.
    pub fn declare(&mut self, place: Place) -> Result<(), TopologyFault> {
        self.places.declare(place)
    }

    /// Makes a change.
    ///
    /// # Errors
    ///
    /// Why it cannot be so; nothing has changed then.
    pub fn apply(&mut self, change: Change) -> Result<(), TopologyFault> {
        match change {
            Change::Declare(place) => self.declare(place),
            Change::Parent(instance, to) => self.places.link(&instance, Axis::Physical, to),
            Change::Owner(instance, to) => self.places.link(&instance, Axis::Logical, to),
            Change::Provide(provided) => self.provide(provided),
            Change::Withdraw { token, instance, axis } => {
                let was = self.providers.remove(&(token.as_str().to_owned(), instance, axis));
                self.weight -= was.map_or(0, |provider| provider.weight);
                Ok(())
            }
        }
    }

    fn provide(&mut self, provided: Provided) -> Result<(), TopologyFault> {
        let Provided { token, instance, axis, value, local } = provided;
        if !self.places.has(&instance) {
            return Err(TopologyFault::Unknown(instance));
        }
        let fault = |why: String| TopologyFault::Value { token: token.clone(), why };
        let weight = json::encode(&value).map_err(|error| fault(error.to_string()))?.len();
        if weight > MAX_VALUE {
            return Err(fault(format!("has {weight} bytes as JSON, and may have {MAX_VALUE}")));
        }
        let key = (token.as_str().to_owned(), instance, axis);
        let known = self.providers.get(&key);
        let weighed = self.weight - known.map_or(0, |known| known.weight) + weight;
        if weighed > MAX_VALUES {
            return Err(fault(format!("is one too many: all values together may have {MAX_VALUES} bytes as JSON")));
        }
        let version = match known {
            Some(known) => Version { epoch: known.version.epoch.clone(), revision: known.version.revision + 1 },
            None if self.providers.len() >= MAX_PROVIDERS => {
                return Err(TopologyFault::Full { what: "providers", limit: MAX_PROVIDERS });
            }
            None => Version { epoch: self.places.mint(), revision: 0 },
        };
        self.weight = weighed;
        self.providers.insert(key, Provider { value, local, version, weight });
        Ok(())
    }

    /// What another host is answered about `node`: what is local is left out.
    pub fn answer(&self, node: Ref, tokens: &[String]) -> HostAnswer {
        let walks = PerAxis::each(|axis| self.places.walk(&node.instance, axis));
        let tokens = tokens.iter().map(|id| {
            let all = Axis::ALL.into_iter().flat_map(|axis| walks.of(axis).walked.iter().map(move |at| (axis, at)));
            TokenAnswer { id: id.clone(), entries: all.filter_map(|(axis, at)| self.entry(id, at, axis)).collect() }
        });
        HostAnswer {
            tokens: tokens.collect(),
            continues: PerAxis::each(|axis| walks.of(axis).continues.clone()),
            trouble: PerAxis::each(|axis| walks.of(axis).trouble.clone()),
            chain_key: PerAxis::each(|axis| walks.of(axis).epochs.join("\0")),
            walked: PerAxis { physical: walks.physical.walked, logical: walks.logical.walked },
            node,
            seq: 0,
        }
    }

    fn entry(&self, token: &str, at: &Ref, axis: Axis) -> Option<Entry> {
        let provider = self.providers.get(&(token.to_owned(), at.instance.clone(), axis))?;
        (!provider.local).then(|| Entry {
            node: at.clone(),
            axis,
            value: provider.value.clone(),
            provider: provider.version.clone(),
        })
    }
}
