//! What may be written, and one row with its stamp.

use super::{Half, Plant, PlantError, Principal, Store, odd};
use crate::wire::{Map, PeerName, Value};

/// What a store lets callers change.
#[derive(Clone, Debug)]
pub struct Writable {
    /// Who answered.
    pub peer: PeerName,
    /// The write half.
    pub namespace: String,
    /// One entry a resource, as sent.
    pub resources: Vec<Value>,
    /// Whether it is a fake.
    pub fake: bool,
}

/// Which row somebody wants to see.
#[derive(Clone, Debug)]
pub struct RowQuery {
    /// In which store.
    pub store: Store,
    /// Which resource.
    pub resource: String,
    /// Which row: text or an integer, spelled as it was read.
    pub id: Value,
}

/// One row as it is now.
#[derive(Clone, Debug)]
pub struct Row {
    /// Who answered.
    pub peer: PeerName,
    /// The row and its stamp; `None` when there is none of that id.
    pub found: Option<(Map, Option<String>)>,
    /// Whether it is a fake.
    pub fake: bool,
}

impl Plant {
    /// Asks a store what may be written.
    pub async fn writable(&self, principal: &Principal, store: &Store) -> Result<Writable, PlantError> {
        let found = self.half(store, Half::Write).await?;
        let mut called = self.ask_store(principal, store, found, "writable", Vec::new()).await?;
        let Some(Value::Array(resources)) = called.value.take() else {
            return Err(odd(&called, "a list of resources", false));
        };
        let (target, fake) = (called.target, called.fake);
        Ok(Writable { peer: target.peer, namespace: target.namespace, resources, fake })
    }

    /// Reads one row, with the stamp that a change of it needs.
    pub async fn read_row(&self, principal: &Principal, query: RowQuery) -> Result<Row, PlantError> {
        let RowQuery { store, resource, id } = query;
        let args = vec![resource.as_str().into(), id.clone()];
        let half = self.half(&store, Half::Write).await?;
        let mut called = self.ask_store(principal, &store, half, "getOne", args).await?;
        let expected = "{status: ok, row, stamp} or {status: missing}";
        let Some(Value::Map(mut answer)) = called.value.take() else { return Err(odd(&called, expected, false)) };
        let status = answer.remove("status");
        let found = match (status.as_ref().and_then(Value::as_str), answer.remove("row")) {
            (Some("missing"), _) => None,
            (Some("ok"), Some(Value::Map(row))) => {
                // A stamp is opaque, and what is no text could not be given back as it came.
                let stamp = answer.remove("stamp").and_then(|stamp| stamp.as_str().map(str::to_owned));
                Some((row, stamp))
            }
            _ => return Err(odd(&called, expected, false)),
        };
        let (target, fake) = (called.target, called.fake);
        if let Some((_, Some(stamp))) = &found {
            self.shared.spent.renew(principal, &target, &resource, &id, stamp);
        }
        Ok(Row { peer: target.peer, found, fake })
    }
}
