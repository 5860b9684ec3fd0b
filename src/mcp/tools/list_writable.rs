//! `list_writable`: what a store lets callers change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{TimeoutMs, WaitSeconds, look, principal, repeatable, rows, source};
use crate::{
    mcp::{
        CallContext, ErrorCode, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
        tagged,
    },
    plant::{Plant, PlantError},
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which store: the write half, called like the read half with `.write` behind, or the read half.
    #[schemars(length(min = 1, max = 1024))]
    namespace: String,
    /// How long the answer is awaited, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<TimeoutMs>,
    /// How long to wait for the peer if it is not there.
    #[serde(default, skip_serializing_if = "WaitSeconds::is_zero")]
    wait_seconds: WaitSeconds,
    #[serde(default)]
    limit: Limit,
    /// Where the page starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// `peer.namespace` of the write half.
    node: String,
    /// Each with its `resource`, `verbs` (create, update, delete), writable `columns` and, if known, the type of a `row`.
    resources: Vec<Json>,
    /// Said when nothing may be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

/// Said when the list is empty.
const NOTHING: &str = "nothing may be written here: whoever runs the store decides which resources are on the list, and \
                       one that is not on it may well exist";

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "list_writable",
        title: "List what may be written",
        description: "Asks a store-backed namespace which resources, verbs and columns it lets callers write. What is \
                      not on the list is not allowed; it may still exist, and list_rows may show it. To change a row: \
                      list_rows to find it, read_row for its stamp, write_row."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let store = rows::store(&args.peer, &args.namespace, args.timeout_ms, args.wait_seconds);
    let principal = principal(&context);
    let found = look(&context, async { plant.writable(&principal, &store).await.map_err(unable) }).await?;
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let entries: Vec<Json> = found.resources.into_iter().map(tagged::to_json).collect();
    let note = entries.is_empty().then_some(NOTHING);
    let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
    let (resources, page) = pager.indexed(count, entries)?;
    let node = format!("{}.{}", found.peer, found.namespace);
    Ok(Answer { node, resources, note, page, source: source(found.peer.as_str(), found.fake) })
}

fn unable(error: PlantError) -> ToolError {
    let error = ToolError::from(error);
    if error.code() != ErrorCode::PeerRefused || error.get("peer_error").is_none() {
        return error;
    }
    error.fix(
        "only the write half of a store says what may be written; it is called like the read half, with .write behind",
    )
}
