//! Writing one row. The stamp is the one the caller read the row under: fetching one here would compare the state with
//! itself and let somebody else's change be lost (S-100). Nothing is retried.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Called, Found, Half, Plant, PlantError, Principal, Store, Target, check, is_fake, no_store, odd, while_wanted,
};
use crate::{
    contract::Description,
    node::Certainty,
    wire::{Map, PeerName, Value, json},
};

/// A change of one row somebody wants made.
#[derive(Clone, Debug)]
pub struct WriteRow {
    /// In which store.
    pub store: Store,
    /// Which resource.
    pub resource: String,
    /// What.
    pub change: Change,
    /// Names the command; one is made if none is given.
    pub idempotency_key: Option<String>,
}

/// What is to become of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is made.
    Create {
        /// Its fields.
        row: Map,
    },
    /// Some of its fields change.
    Update {
        /// Which row.
        id: Value,
        /// The fields that change.
        patch: Map,
        /// What it was read under.
        stamp: String,
    },
    /// It goes.
    Delete {
        /// Which row.
        id: Value,
        /// What it was read under.
        stamp: String,
    },
}

/// What became of a change.
#[derive(Clone, Debug)]
pub struct RowWritten {
    /// Who answered.
    pub peer: PeerName,
    /// How it ended.
    pub written: Written,
    /// How long the call took; `None`: nothing was sent.
    pub took: Option<Duration>,
    /// The key the command carried.
    pub idempotency_key: Option<String>,
    /// Whether it is a fake.
    pub fake: bool,
}

/// How a change ended that the store decided on.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It was made.
    Done {
        /// The id of the row, as the store spells it.
        id: Option<Value>,
        /// What it can be changed under next.
        stamp: Option<String>,
    },
    /// The row is not what it was under the stamp: nothing was written.
    Conflict,
    /// The stamp was used before, and the row was not read since: nothing was sent.
    Spent,
    /// There is no such row: nothing was written.
    Missing,
}

impl Change {
    /// The method of the store.
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Delete { .. } => "delete",
        }
    }

    /// The row, if it is known before, and its stamp.
    pub fn row(&self) -> Option<(&Value, &str)> {
        match self {
            Self::Create { .. } => None,
            Self::Update { id, stamp, .. } | Self::Delete { id, stamp } => Some((id, stamp)),
        }
    }

    fn args(&self, resource: &str) -> Vec<Value> {
        let resource = Value::from(resource);
        match self.clone() {
            Self::Create { row } => vec![resource, row.into()],
            Self::Update { id, patch, stamp } => vec![resource, id, patch.into(), stamp.into()],
            Self::Delete { id, stamp } => vec![resource, id, stamp.into()],
        }
    }

    /// Where an argument of the method stands among those of the verb.
    fn pointer(&self, at: &str) -> &'static str {
        let names: &[&str] = match self {
            Self::Create { .. } => &["/resource", "/row"],
            Self::Update { .. } => &["/resource", "/id", "/row", "/stamp"],
            Self::Delete { .. } => &["/resource", "/id", "/stamp"],
        };
        let at = at.strip_prefix("/args/").and_then(|at| at.parse::<usize>().ok());
        at.and_then(|at| names.get(at)).copied().unwrap_or("")
    }
}

impl Plant {
    /// Changes one row, once. That it is not there any more, or not what it was, is an answer (S-101). Once `stop` is
    /// cancelled nothing is sent any more.
    pub async fn write_row(
        &self,
        principal: &Principal,
        request: WriteRow,
        stop: &CancellationToken,
    ) -> Result<RowWritten, PlantError> {
        let WriteRow { store, resource, change, idempotency_key } = request;
        let Found { peer, namespace, description } = while_wanted(stop, self.half(&store, Half::Write)).await?;
        let target = Target { peer: peer.clone(), namespace: namespace.clone(), method: change.verb().into() };
        let call = store.call(namespace, change.verb(), change.args(&resource));
        let ready = check(peer, call, description.as_ref())
            .map_err(|error| explained(error, &change, description.as_deref()))?;
        // S-112: named before it is sent, so that the same intent can be sent again whatever the peer declares.
        let key = idempotency_key.unwrap_or_else(|| Uuid::new_v4().hyphenated().to_string());
        // Before the stamp is used: what may not be sent, or comes with the key of another command, costs no stamp.
        let admitted = self.admit(principal, ready, Some(key.clone()))?;
        let used = change.row().map(|(id, stamp)| (resource.as_str(), id, stamp));
        let spent = &self.shared.spent;
        if let Some(used) = used
            && !spent.take(principal, &target, used, Some(&key))
        {
            return Ok(RowWritten {
                peer: target.peer,
                written: Written::Spent,
                took: None,
                idempotency_key: None,
                fake: description.as_deref().is_some_and(is_fake),
            });
        }
        let timeout = store.timeout.unwrap_or(self.settings().call_timeout);
        let done = self.dispatch(principal, admitted, timeout).await;
        let done = done.map_err(|error| explained(error, &change, description.as_deref())).and_then(|called| {
            let decided = decide(called.value.as_ref()).filter(|written| written.is_of(&change));
            let written = decided.ok_or_else(|| odd(&called, EXPECTED, true))?;
            let Called { target, took, idempotency_key, fake, .. } = called;
            Ok(RowWritten { peer: target.peer, written, took: Some(took), idempotency_key, fake })
        });
        if let Some((resource, id, stamp)) = used
            && serves_again(&done, &change, stamp)
        {
            spent.renew(principal, &target, resource, id, stamp);
        }
        done
    }
}

/// Whether the stamp may be sent once more: nothing came of it, or the row still has it. A store that says there is no such
/// row, or deleted it, says so again.
fn serves_again(done: &Result<RowWritten, PlantError>, change: &Change, stamp: &str) -> bool {
    match done {
        Ok(RowWritten { written: Written::Done { stamp: next, .. }, .. }) => {
            matches!(change, Change::Delete { .. }) || next.as_deref() == Some(stamp)
        }
        Ok(RowWritten { written: Written::Missing, .. }) => true,
        Ok(_) | Err(PlantError::OddAnswer { .. }) => false,
        Err(PlantError::Call { error, .. }) => error.certainty() != Certainty::MayHaveRun,
        Err(_) => true,
    }
}

impl Written {
    /// Whether this can be what became of `change`: what was written is the row that was named, however its id is spelled.
    fn is_of(&self, change: &Change) -> bool {
        let bare = |id: &Value| match id {
            Value::Text(text) => text.clone().into_bytes(),
            id => json::encode(id).unwrap_or_default(),
        };
        match (self, change.row()) {
            (Self::Done { id: Some(written), .. }, Some((asked, _))) => bare(written) == bare(asked),
            _ => true,
        }
    }
}

fn decide(answer: Option<&Value>) -> Option<Written> {
    let answer = answer?;
    match answer.get("status")?.as_str()? {
        "ok" => {
            let stamp = answer.get("stamp").and_then(Value::as_str).map(str::to_owned);
            Some(Written::Done { id: answer.get("id").filter(|id| **id != Value::Null).cloned(), stamp })
        }
        "conflict" => Some(Written::Conflict),
        "missing" => Some(Written::Missing),
        _ => None,
    }
}

/// A failure in terms of the verb: it changes rows whatever the peer declares of its method, and its arguments have names
/// of their own.
fn explained(error: PlantError, change: &Change, description: Option<&Description>) -> PlantError {
    match error {
        PlantError::Call { target, checked, idempotency_key, error, .. } => {
            PlantError::Call { target, checked, observes: false, idempotency_key, error }
        }
        PlantError::InvalidParams { target, argument, problem, signature } => {
            let argument = change.pointer(&argument).into();
            PlantError::InvalidParams { target, argument, problem, signature }
        }
        other => no_store(other, description),
    }
}

const EXPECTED: &str = "{status: ok, conflict or missing} for the row that was named";

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that tells of another row than the one that was named has not answered.
    #[test]
    fn what_was_written_is_the_row_that_was_named() {
        let answered = |id: Value| Written::Done { id: Some(id), stamp: None };
        let delete = |id: Value| Change::Delete { id, stamp: "s".into() };
        assert!(answered(1.into()).is_of(&delete(1.into())) && answered("1".into()).is_of(&delete(1.into())));
        assert!(!answered(2.into()).is_of(&delete(1.into())) && !answered("a".into()).is_of(&delete("b".into())));
        assert!(answered(7.into()).is_of(&Change::Create { row: Map::new() }), "the store names what it makes");
        assert!(
            Written::Done { id: None, stamp: None }.is_of(&delete(1.into()))
                && Written::Missing.is_of(&delete(1.into()))
        );
    }

    #[test]
    fn a_refused_argument_is_named_as_the_verb_names_it() {
        let update = Change::Update { id: 1.into(), patch: Map::new(), stamp: "s".into() };
        assert_eq!(
            ["/args/1", "/args/2", "/args/3", "/args"].map(|at| update.pointer(at)),
            ["/id", "/row", "/stamp", ""]
        );
        assert_eq!(Change::Create { row: Map::new() }.pointer("/args/1"), "/row");
    }
}
