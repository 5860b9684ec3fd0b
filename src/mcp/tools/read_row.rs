//! `read_row`: one row and its stamp.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{
    TimeoutMs, WaitSeconds, look, principal,
    rows::{self, RowId},
    shown, source,
};
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError},
    plant::{Plant, RowQuery},
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
    /// Which row: its id as list_rows gives it. `2`, `"2"` and `"02"` are not the same.
    id: RowId,
    /// How long the answer is awaited, in milliseconds.
    timeout_ms: Option<TimeoutMs>,
    /// How long to wait for the peer if it is not there.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    resource: String,
    id: RowId,
    /// `ok`, or `missing` when there is no such row.
    status: &'static str,
    /// The row; {truncated, bytes, head} when it is over 256 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<Json>,
    /// Names this state of this row. It is opaque, and write_row takes it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    stamp: Option<String>,
    note: String,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "read_row",
        title: "Read one row",
        description:
            "Reads one row of a store by its id, with the stamp a change of it needs. The stamp belongs to this \
                      state of this row: give it to write_row with the same id, once, and read again before the next \
                      change. A row that is not there is status missing. To find ids: list_rows."
                .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let store = rows::store(&args.peer, &args.namespace, args.timeout_ms, args.wait_seconds);
    let query = RowQuery { store, resource: args.resource.clone(), id: args.id.value() };
    let principal = principal(&context);
    let found = look(&context, async {
        let found = plant.read_row(&principal, query).await;
        found.map_err(|error| rows::refused(error, &args.peer, &args.namespace, None))
    })
    .await?;
    let source = source(found.peer.as_str(), found.fake);
    let Args { peer, namespace, resource, id, .. } = args;
    let (status, row, stamp, note) = match found.found {
        None => {
            let list = rows::next("list_rows", &peer, &namespace, &[("resource", resource.as_str().into())]);
            ("missing", None, None, format!("there is no such row; {} shows which there are", rows::said(&list)))
        }
        Some((row, Some(stamp))) => ("ok", Some(row), Some(stamp), CHANGEABLE.to_owned()),
        Some((row, None)) => ("ok", Some(row), None, UNSTAMPED.to_owned()),
    };
    Ok(Answer { resource, id, status, row: row.map(|row| shown(row.into())), stamp, note, source })
}

const CHANGEABLE: &str = "write_row changes this row under this stamp, once, if nobody changes it before";
const UNSTAMPED: &str = "the store gave no stamp it could be changed under";
