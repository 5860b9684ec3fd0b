//! A component we serve: two maps, a revision that rises with every commit, an authority, and snapshots of all that,
//! whole or narrowed (semantics.md 7).

use super::projection::Projection;
use crate::wire::{Map, Value};

/// One observable component.
#[derive(Debug)]
pub(super) struct Component {
    epoch: String,
    revision: i64,
    props: Map,
    state: Map,
    authority: Authority,
    /// A commit was made that nobody was told of yet: commits of one turn are published once.
    dirty: bool,
}

/// Who may call what requires authority.
#[derive(Debug, Default)]
pub(super) struct Authority {
    generation: i64,
    lease: Option<Lease>,
}

/// Who holds it, until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) holder: String,
    pub(super) expires_ms: i64,
}

/// What a commit changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Commit {
    /// The state, whole.
    State(Map),
    /// The props, whole.
    Props(Map),
}

impl Component {
    /// A component as its host sets it up. The epoch names this instance.
    pub(super) fn new(epoch: String, props: Map, state: Map) -> Self {
        Self { epoch, revision: 0, props, state, authority: Authority::default(), dirty: false }
    }

    /// Takes a change in; it is told at the end of the turn.
    pub(super) fn commit(&mut self, change: Commit) {
        match change {
            Commit::State(state) => self.state = state,
            Commit::Props(props) => self.props = props,
        }
        self.touch();
    }

    /// Whether somebody must be told; asking takes the mark away.
    pub(super) fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    /// The authority.
    pub(super) const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Grants, renews or takes the lease (semantics.md 10.3).
    pub(super) fn acquire(&mut self, holder: &str, expires_ms: i64) -> bool {
        let renewed = self.authority.lease.as_ref().is_some_and(|lease| lease.holder == holder);
        if !renewed {
            self.authority.generation += 1;
        }
        self.authority.lease = Some(Lease { holder: holder.into(), expires_ms });
        self.touch();
        renewed
    }

    /// Gives the lease up; `None` when nobody holds it.
    pub(super) fn release(&mut self) -> Option<Lease> {
        let lease = self.authority.lease.take()?;
        self.authority.generation += 1;
        self.touch();
        Some(lease)
    }

    /// The snapshot, whole or as `projection` narrows it.
    pub(super) fn snapshot(&self, projection: Option<&Projection>) -> Value {
        let mut snapshot = Map::new();
        snapshot.insert("epoch", self.epoch.as_str());
        snapshot.insert("revision", self.revision);
        let Some(projection) = projection else {
            snapshot.insert("props", self.props.clone());
            snapshot.insert("state", self.state.clone());
            snapshot.insert("authority", self.authority.to_value());
            return snapshot.into();
        };
        let narrowed = projection.narrow(&self.props, &self.state);
        snapshot.insert("props", narrowed.props);
        snapshot.insert("state", narrowed.state);
        snapshot.insert("authority", self.authority.to_value());
        snapshot.insert("projection", projection.asked().clone());
        if !narrowed.slices.is_empty() {
            snapshot.insert("slices", narrowed.slices);
        }
        snapshot.into()
    }

    /// The maps that are read as collections, by name.
    pub(super) fn parts(&self) -> [(&'static str, &Map); 2] {
        [("props", &self.props), ("state", &self.state)]
    }

    /// Which instance this is, and how often it changed.
    pub(super) fn version(&self) -> (&str, i64) {
        (&self.epoch, self.revision)
    }

    /// Has whoever observes told at the end of the turn: a new instance stands in the place of another.
    pub(super) fn tell(&mut self) {
        self.dirty = true;
    }

    fn touch(&mut self) {
        self.revision += 1;
        self.tell();
    }
}

impl Authority {
    /// Who holds it, if anybody does.
    pub(super) const fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// As it stands in snapshots and `authorityChanged`.
    pub(super) fn to_value(&self) -> Value {
        let mut value = Map::new();
        if let Some(lease) = &self.lease {
            value.insert("holder", lease.holder.as_str());
            value.insert("expiresAt", lease.expires_ms);
        }
        value.insert("generation", self.generation);
        value.into()
    }
}
