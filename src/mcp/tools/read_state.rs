//! `read_state`: what a component publishes, in one look.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{PathArgument, WaitSeconds, look, moment, named, repeatable, shown, source_of};
use crate::{
    contract::path::{self, Segments},
    mcp::{
        CallContext, ErrorCode, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
        tagged,
    },
    plant::{Plant, ReadState, Snapshot},
    wire::Value,
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which component.
    #[schemars(length(min = 1, max = 1024))]
    namespace: String,
    /// Only what the state holds here.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathArgument>,
    /// How long the first snapshot is awaited.
    #[serde(default)]
    seconds: Seconds,
    #[serde(default)]
    limit: Limit,
    /// Where the page of a large state starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// How long to wait for the peer if it is not there.
    #[serde(default, skip_serializing_if = "WaitSeconds::is_zero")]
    wait_seconds: WaitSeconds,
}

/// Seconds, ten if nothing is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct Seconds(#[schemars(range(min = 1, max = 60))] u8);

impl Default for Seconds {
    fn default() -> Self {
        Self(10)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// `peer.namespace`.
    component: String,
    /// `live`, or `stale` when the connection was lost after the snapshot arrived.
    status: &'static str,
    /// Which instance of the component.
    epoch: String,
    /// Rises with every change within one epoch.
    revision: i64,
    #[serde(rename = "receivedAt")]
    received_at: String,
    /// What its host sets; left out when a path was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    props: Option<Json>,
    /// What it holds; left out when a path was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Json>,
    /// The path that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// What stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Json>,
    /// Who is in control.
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<Json>,
    /// Of a state too large for one page: which of its members these are.
    #[serde(flatten)]
    page: Option<PageInfo>,
    source: Source,
}

/// The largest answer that is not paged.
const WHOLE: usize = 20_480;

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "read_state",
        title: "Read a component's state",
        description: "Takes one look at an observable component: its props and state now, whole or at one path. \
                      Nothing is left behind. A large state comes in pages of members. To change a value: set_state."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let at = args.path.clone().map(|path| path.segments("/path")).transpose()?;
    let request = ReadState {
        peer: args.peer.clone(),
        namespace: args.namespace.clone(),
        patience: Duration::from_secs(args.seconds.0.into()),
        wait: args.wait_seconds.duration(),
    };
    context.progress.expect(request.patience);
    let snapshot = look(&context, async { Ok(plant.read_state(request).await?) }).await?;
    let mut answer = Answer {
        component: format!("{}.{}", snapshot.peer, args.namespace),
        status: if snapshot.stale { "stale" } else { "live" },
        epoch: named(&snapshot.epoch),
        revision: snapshot.revision,
        received_at: moment(snapshot.received_ms),
        props: None,
        state: None,
        path: at.as_ref().map(Segments::to_string),
        value: None,
        authority: snapshot.authority.clone().map(shown),
        page: None,
        source: source_of(&plant, &snapshot.peer).await,
    };
    match at {
        Some(at) => {
            let value = there(&snapshot, &at)?.clone();
            let value = if value.as_map().is_some() { tagged::to_json(value) } else { shown(value) };
            (answer.value, answer.page) = paged(value, &snapshot, &args, &context)?;
        }
        None => {
            answer.props = Some(shown(snapshot.props.clone()));
            let state = tagged::to_json(snapshot.state.clone());
            (answer.state, answer.page) = paged(state, &snapshot, &args, &context)?;
        }
    }
    Ok(answer)
}

/// What stands at a path, or what does.
fn there<'a>(snapshot: &'a Snapshot, at: &Segments) -> Result<&'a Value, ToolError> {
    path::lookup(&snapshot.state, at).ok_or_else(|| {
        let members = snapshot.state.as_map().into_iter().flat_map(crate::wire::Map::iter).map(|(name, _)| name);
        ToolError::new(ErrorCode::BadArgument, format!("nothing stands at '{at}' in the state"))
            .argument("/path")
            .expected("a path of the state")
            .alternatives(members.take(50))
            .fix("read the state without path, or choose one of the alternatives")
    })
}

/// A value whole if it fits a page, else the members of this page.
fn paged(
    value: Json,
    snapshot: &Snapshot,
    args: &Args,
    context: &CallContext,
) -> Result<(Option<Json>, Option<PageInfo>), ToolError> {
    let members = match value {
        Json::Object(members) if args.cursor.is_some() || serialized(&members) > WHOLE => members,
        whole => return Ok((Some(whole), None)),
    };
    let arguments = repeatable(args);
    let pager = Pager::of(context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let entries = members.into_iter().map(|(key, value)| json!({"key": key, "value": value}));
    let (entries, page) = pager.indexed(generation(snapshot), entries)?;
    let shown: Map<String, Json> = entries.into_iter().filter_map(member).collect();
    Ok((Some(shown.into()), Some(page)))
}

fn member(entry: Json) -> Option<(String, Json)> {
    let Json::Object(mut entry) = entry else { return None };
    let key = entry.get("key")?.as_str()?.to_owned();
    // An entry cut to its head has no value of its own: its head stands for it.
    let value = entry.remove("value").unwrap_or_else(|| Json::Object(entry));
    Some((key, value))
}

fn serialized(members: &Map<String, Json>) -> usize {
    serde_json::to_vec(members).map_or(usize::MAX, |bytes| bytes.len())
}

/// Names one snapshot: a cursor into another one is stale.
fn generation(snapshot: &Snapshot) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&snapshot.epoch, snapshot.revision).hash(&mut hasher);
    hasher.finish()
}
