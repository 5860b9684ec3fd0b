//! `write_row`: create, update or delete one row.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{
    TimeoutMs, WaitSeconds,
    call_method::milliseconds,
    plant_value, principal,
    rows::{self, RowId},
    source,
};
use crate::{
    mcp::{CallContext, Hints, Need, NextCall, Source, Spec, Tool, ToolError, check::bad_argument, tagged},
    plant::{Change, Plant, RowWritten, WriteRow, Written},
    wire::Value,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which store: either half of it.
    #[schemars(length(min = 1, max = 1024))]
    namespace: String,
    /// Which resource, as list_writable names it.
    #[schemars(length(min = 1, max = 1024))]
    resource: String,
    /// create takes row alone; update takes id, row (the fields that change) and stamp; delete takes id and stamp.
    verb: Verb,
    /// Fields and their values. Dates are ISO 8601 text.
    row: Option<Map<String, Json>>,
    /// Which row, spelled as it was read.
    id: Option<RowId>,
    /// What the row was read under: of read_row, or of the write_row before.
    #[schemars(length(min = 1, max = 65_536))]
    stamp: Option<String>,
    /// Names the command, so that the same intent, sent again, runs once where the peer keeps a record.
    #[schemars(length(min = 1, max = 256))]
    idempotency_key: Option<String>,
    /// How long the answer is awaited, in milliseconds.
    timeout_ms: Option<TimeoutMs>,
    /// How long to wait for the peer if it is not there.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Verb {
    Create,
    Update,
    Delete,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    resource: String,
    /// Of a created row, the id the store gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Json>,
    verb: Verb,
    /// `ok`; `conflict` when the row is not what it was under the stamp; `missing` when there is no such row. Nothing was
    /// written unless it is ok.
    status: &'static str,
    /// What the row can be changed under next; only with ok, and not of a deleted row.
    #[serde(skip_serializing_if = "Option::is_none")]
    stamp: Option<String>,
    note: String,
    /// How long the call took, in milliseconds; left out when nothing was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
    /// The key the command carried.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "write_row",
        title: "Write one row",
        description:
            "Creates, updates or deletes one row of a store, once. update and delete need the stamp the row was \
                      read under; it is never fetched here, because it proves that whoever decides has seen the row. \
                      conflict and missing are results: nothing was written, so read_row again and decide again. A \
                      create that was not answered may have run: make the read that settle_with names before creating \
                      anything. What may be written: list_writable."
                .into(),
        hints: Hints::ACT,
        needs: &[Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let (resource, verb, id) = (args.resource.clone(), args.verb, args.id.clone());
    let (peer, namespace) = (args.peer.clone(), args.namespace.clone());
    let store = rows::store(&peer, &namespace, args.timeout_ms, args.wait_seconds);
    let idempotency_key = args.idempotency_key.clone();
    let request = WriteRow { store, resource: resource.clone(), change: change(args)?, idempotency_key };
    let read = settling(&peer, &namespace, &resource, id.as_ref());
    let written = plant.write_row(&principal(&context), request, &context.cancel).await;
    let written = written.map_err(|error| rows::refused(error, &peer, &namespace, Some(&read)))?;
    Ok(answer(resource, verb, id, &read, written))
}

/// The arguments as a change, or what is wrong with their shape: nothing was sent.
fn change(args: Args) -> Result<Change, ToolError> {
    let Args { verb, row, id, stamp, .. } = args;
    let shape = match verb {
        Verb::Create => "create takes row, and neither id nor stamp: the store gives the id",
        Verb::Update => "update takes id, row (the fields that change) and the stamp of read_row",
        Verb::Delete => "delete takes id and the stamp of read_row, and no row",
    };
    let wrong = |argument: &str, got: &str| {
        let error = bad_argument(argument, shape, got);
        if argument == "/stamp" && got == "nothing" {
            error.fix("read the row with read_row, look at it, and give the stamp it came with")
        } else {
            error
        }
    };
    let (takes_row, takes_id) = (verb != Verb::Delete, verb != Verb::Create);
    for (argument, there, wanted) in
        [("/row", row.is_some(), takes_row), ("/id", id.is_some(), takes_id), ("/stamp", stamp.is_some(), takes_id)]
    {
        if there != wanted {
            return Err(wrong(argument, if wanted { "nothing" } else { "a value" }));
        }
    }
    let fields = match row.map(|row| plant_value(Json::Object(row), "/row")).transpose()? {
        None => crate::wire::Map::new(),
        Some(Value::Map(fields)) => fields,
        Some(_) => return Err(wrong("/row", "a tagged value")),
    };
    match (verb, id, stamp) {
        (Verb::Update, Some(id), Some(stamp)) => Ok(Change::Update { id: id.value(), patch: fields, stamp }),
        (Verb::Delete, Some(id), Some(stamp)) => Ok(Change::Delete { id: id.value(), stamp }),
        _ => Ok(Change::Create { row: fields }),
    }
}

/// The read that shows what became of a change.
fn settling(peer: &str, namespace: &str, resource: &str, id: Option<&RowId>) -> NextCall {
    let resource = ("resource", Json::from(resource));
    match id {
        None => rows::next("list_rows", peer, namespace, &[resource]),
        Some(id) => rows::next("read_row", peer, namespace, &[resource, ("id", serde_json::json!(id))]),
    }
}

fn answer(resource: String, verb: Verb, id: Option<RowId>, read: &NextCall, written: RowWritten) -> Answer {
    let given = id.map(|id| serde_json::json!(id));
    let again = || rows::said(read);
    let (status, id, stamp, note) = match written.written {
        Written::Done { id, stamp } => {
            let id = id.map(tagged::to_json).or(given);
            let stamp = stamp.filter(|_| verb != Verb::Delete);
            let note = match (verb, &stamp) {
                (Verb::Delete, _) => "the row is deleted",
                (_, Some(_)) => "written; this stamp allows the next change of this row without a read",
                (_, None) => "written; read_row gives the stamp for the next change",
            };
            ("ok", id, stamp, note.to_owned())
        }
        Written::Conflict => {
            let note = format!(
                "nothing was written: the row is not what it was when it was read, or the id is not of the \
                 type it was read with (1001 is not \"1001\"). Do not retry; read it again, see \
                 what somebody else changed, and decide again: {}",
                again()
            );
            ("conflict", given, None, note)
        }
        Written::Spent => {
            let note = format!(
                "nothing was sent: this stamp was used in a change before, and serves one. Read the row again, see what \
                 it is now, and decide again: {}",
                again()
            );
            ("conflict", given, None, note)
        }
        Written::Missing => {
            let note = "nothing was written: there is no such row, or not any more; list_rows shows which there are";
            ("missing", given, None, note.to_owned())
        }
    };
    Answer {
        resource,
        id,
        verb,
        status,
        stamp,
        note,
        ms: written.took.map(milliseconds),
        idempotency_key: written.idempotency_key,
        source: source(written.peer.as_str(), written.fake),
    }
}
