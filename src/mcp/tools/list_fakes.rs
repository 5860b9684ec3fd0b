//! `list_fakes`: the fakes of this bridge.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{moment, repeatable};
use crate::{
    fake::{FakeKey, FakeLine},
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
    },
    plant::Plant,
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    limit: Limit,
    /// Where the page starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// By name: what each serves, since when, whether the network can reach it, calls it was given, events it emitted by
    /// itself; on a signed network its key, with what others list it with if that is no secret.
    fakes: Vec<Json>,
    #[serde(flatten)]
    page: PageInfo,
    /// Those that left their name to another peer, newest first; the last 64.
    withdrawn: Vec<WithdrawnShown>,
    source: Source,
}

/// One fake.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FakeShown {
    peer: String,
    namespaces: Vec<String>,
    since: String,
    /// Whether the network can reach it now. This bridge can in any case.
    pub(super) on_network: bool,
    /// Calls it was given.
    calls: u64,
    /// Events it emitted by itself.
    events: u64,
    /// What its frames are signed with, where frames are signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyShown>,
}

/// The key of a fake, as far as anybody may know it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct KeyShown {
    algorithm: &'static str,
    /// What peers that verify list it with. Of HMAC there is none: a person has the secret printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    public: Option<String>,
}

impl From<FakeKey> for KeyShown {
    fn from(key: FakeKey) -> Self {
        Self { algorithm: key.kind, public: key.public }
    }
}

/// A fake that is no more.
#[derive(Debug, Serialize, JsonSchema)]
struct WithdrawnShown {
    peer: String,
    at: String,
    reason: &'static str,
}

impl From<FakeLine> for FakeShown {
    fn from(fake: FakeLine) -> Self {
        Self {
            peer: fake.name.to_string(),
            namespaces: fake.namespaces,
            since: moment(fake.since_ms),
            on_network: fake.on_network,
            calls: fake.calls,
            events: fake.events,
            key: fake.key.map(KeyShown::from),
        }
    }
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "list_fakes",
        title: "List fakes",
        description:
            "Names the fakes this bridge serves, whoever started them, and those that withdrew because a peer \
                      of their name came."
                .into(),
        hints: Hints::LOOK_INSIDE,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let list = plant.list_fakes();
    let lines = list.fakes.into_iter().map(|fake| (fake.name.to_string(), FakeShown::from(fake)));
    let (fakes, page) = pager.keyed(lines)?;
    let withdrawn = list.withdrawn.into_iter().map(|fake| WithdrawnShown {
        peer: fake.name.to_string(),
        at: moment(fake.at_ms),
        reason: "another peer came under its name, and it was left to that one",
    });
    Ok(Answer { fakes, page, withdrawn: withdrawn.collect(), source: Source::bridge() })
}
