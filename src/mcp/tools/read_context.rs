//! `read_context`: what a node inherits along its chain of parents or owners.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{WaitSeconds, look, moment, named, shown_within, source_of};
use crate::{
    contract::context::{Axis, Found, Ref},
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError},
    plant::{ContextRead, ContextStatus, Plant, ReadContext},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The peer of the node.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which of its instances: a namespace, as describe_peer names it, or `$host` for the peer itself.
    #[schemars(length(min = 1, max = 1024))]
    node: String,
    /// The id of the token, which contains a dot, such as `acme.site`.
    #[schemars(length(min = 1, max = 256))]
    token: String,
    /// Along which chain. It belongs to the token: there is no search of the other one.
    axis: AxisArgument,
    /// The schema version of the token you were built for. Hosts do not say theirs: it is only told back.
    #[schemars(range(min = 1, max = 1_000_000))]
    schema_version: Option<u32>,
    /// How long hosts that do not answer are asked again.
    #[serde(default)]
    seconds: Seconds,
    /// How long to wait for the peer if it is not there.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum AxisArgument {
    /// Where something is: parents.
    Physical,
    /// Whom something serves: owners.
    Logical,
}

impl From<AxisArgument> for Axis {
    fn from(axis: AxisArgument) -> Self {
        match axis {
            AxisArgument::Physical => Self::Physical,
            AxisArgument::Logical => Self::Logical,
        }
    }
}

/// Seconds, ten if nothing is said.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
struct Seconds(#[schemars(range(min = 1, max = 60))] u8);

impl Default for Seconds {
    fn default() -> Self {
        Self(10)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// `peer/instance`.
    node: String,
    token: String,
    axis: AxisArgument,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u32>,
    /// `live`; `stale`: a host of the chain was lost after it answered; `missing`: nobody on the whole chain provides it to
    /// us, which proves nothing; `initializing`: a host has not answered, so nothing is known; `invalid`: the chain does
    /// not hold, and nothing may be decided by it.
    status: &'static str,
    /// What the status means here.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(rename = "staleSince", skip_serializing_if = "Option::is_none")]
    stale_since: Option<String>,
    /// `cycle`, `depth-exceeded` or `invalid-reference`.
    #[serde(rename = "invalidReason", skip_serializing_if = "Option::is_none")]
    invalid_reason: Option<&'static str>,
    /// The ring, or what is not there; each `peer/instance`.
    #[serde(rename = "invalidPath", skip_serializing_if = "Option::is_none")]
    invalid_path: Option<Vec<String>>,
    /// What providers say, the nearest first: that one holds, unless the token is one that is collected.
    entries: Vec<Entry>,
    /// Entries that did not fit behind these.
    #[serde(skip_serializing_if = "is_zero")]
    entries_left_out: usize,
    /// The hosts that answered, each by the ref it was asked about.
    hops: Vec<String>,
    /// The chain as far as it is known, the nearest first.
    chain: Vec<String>,
    /// Refs of the chain in all.
    chain_length: usize,
    source: Source,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// `peer/instance`.
    provider: String,
    /// {truncated, bytes, head} when it is over 12 KiB.
    value: Json,
    /// One registration of the provider.
    epoch: String,
    /// Rises with every change of the value.
    revision: i64,
}

/// Bytes of the values of an answer, about.
const MOST_BYTES: usize = 16 * 1024;
/// Bytes of one of them.
const LARGEST: usize = 12 * 1024;
/// How much of a larger one is shown.
const HEAD: usize = 2 * 1024;
/// How many refs of a chain are named.
const REFS: usize = 64;

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "read_context",
        title: "Read what a node inherits",
        description: "Resolves one token of ambient data for one node, along its parents (physical) or owners (logical), \
                      from host to host, and names every provider. missing, stale, initializing and invalid are answers \
                      about the plant, not errors. No tool lists tokens, on purpose: a value kept local by its provider \
                      looks like one nobody provides, so no list could be whole. Learn ids from the plant's documents."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let request = ReadContext {
        peer: args.peer,
        node: args.node,
        token: args.token.clone(),
        axis: args.axis.into(),
        patience: Duration::from_secs(args.seconds.0.into()),
        wait: args.wait_seconds.duration(),
    };
    context.progress.expect(request.patience);
    let asking = |at: &Ref| context.progress.note(format!("asking about {at}"));
    let read = look(&context, async { Ok(plant.read_context(request, asking).await?) }).await?;
    let note = note(&read);
    let source = source_of(&plant, &read.node.peer).await;
    let (status, stale_since, invalid) = match read.status {
        ContextStatus::Live => ("live", None, None),
        ContextStatus::Stale { since_ms, .. } => ("stale", Some(moment(since_ms)), None),
        ContextStatus::Missing => ("missing", None, None),
        ContextStatus::Initializing { .. } => ("initializing", None, None),
        ContextStatus::Invalid(why) => ("invalid", None, Some(why)),
    };
    let (entries, entries_left_out) = fitting(read.entries);
    Ok(Answer {
        source,
        node: named(&read.node.to_string()),
        token: args.token,
        axis: args.axis,
        schema_version: args.schema_version,
        status,
        note,
        stale_since,
        invalid_reason: invalid.as_ref().map(|why| why.reason),
        invalid_path: invalid.filter(|why| !why.path.is_empty()).map(|why| refs(&why.path)),
        entries,
        entries_left_out,
        hops: refs(&read.hops),
        chain_length: read.chain.len(),
        chain: refs(&read.chain),
    })
}

/// What a reader must not get wrong.
fn note(read: &ContextRead) -> Option<String> {
    Some(match &read.status {
        ContextStatus::Live => return None,
        ContextStatus::Stale { lost, .. } => {
            format!("{} went away after it answered; the values are of before", named(lost.peer.as_str()))
        }
        ContextStatus::Missing => {
            "nobody on this chain provides it to other hosts; it does not follow that nobody has \
                                   it: a provider may keep it local, or it may belong to the other axis"
                .into()
        }
        ContextStatus::Invalid(_) if read.instances.is_some() => nowhere(read),
        ContextStatus::Invalid(_) => "the chain does not hold, so nothing may be decided by what is on it".into(),
        ContextStatus::Initializing { awaited } => {
            format!("{} has not answered for its part of the chain; this is not missing", named(&awaited.to_string()))
        }
    })
}

/// That the node itself is not there, which is more likely a slip than a fault of the plant.
fn nowhere(read: &ContextRead) -> String {
    let (peer, node) = (named(read.node.peer.as_str()), named(&read.node.instance));
    let others = read.instances.iter().flatten().map(|name| format!(", {}", named(name)));
    let known = others.collect::<String>();
    format!(
        "{peer} says that it has no place called '{node}': it has $host, for the peer itself{known}; this is no answer \
         about the token"
    )
}

/// The entries that fit an answer, at least one; and how many do not.
fn fitting(found: Vec<Found>) -> (Vec<Entry>, usize) {
    let (all, mut left) = (found.len(), MOST_BYTES);
    let mut entries = Vec::new();
    for found in found {
        let value = shown_within(found.value, LARGEST, HEAD);
        let provider = named(&found.provider.to_string());
        let bytes = value.to_string().len() + provider.len();
        if bytes > left && !entries.is_empty() {
            break;
        }
        left = left.saturating_sub(bytes);
        let (epoch, revision) = (named(&found.version.epoch), found.version.revision);
        entries.push(Entry { provider, value, epoch, revision });
    }
    let left_out = all - entries.len();
    (entries, left_out)
}

fn refs(refs: &[Ref]) -> Vec<String> {
    refs.iter().take(REFS).map(|at| named(&at.to_string())).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference to what decides about skipping")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
