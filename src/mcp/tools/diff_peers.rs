//! `diff_peers`: what two live peers expose differently.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{WaitSeconds, few, look, named, repeatable, unchanged};
use crate::{
    contract::compat::Difference,
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
    },
    plant::Plant,
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// One peer.
    #[schemars(length(min = 1, max = 256))]
    left: String,
    /// The other peer.
    #[schemars(length(min = 1, max = 256))]
    right: String,
    #[serde(default)]
    limit: Limit,
    /// Where the page starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// How long to wait for a peer that is not there.
    #[serde(default, skip_serializing_if = "WaitSeconds::is_zero")]
    wait_seconds: WaitSeconds,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    left: String,
    right: String,
    /// Whether they expose the same.
    same: bool,
    /// What differs: namespace, member, what each side has there (nothing where it is absent), and where types part a JSON
    /// Pointer into the left one's contract.
    differences: Vec<Json>,
    /// What of their descriptions could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "diff_peers",
        title: "Compare two peers",
        description: "Says what two live peers expose differently: namespaces, contract versions, signatures down to \
                      bounds inside named types, what methods declare about repeats, effects and set paths, events, \
                      capabilities, components. Useful for two devices that should be alike, or a device and its fake."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let wait = args.wait_seconds.duration();
    let compared = look(&context, async { Ok(plant.diff_peers(&args.left, &args.right, wait).await?) }).await?;
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let generation = unchanged(&compared.differences);
    let (differences, page) = pager.indexed(generation, compared.differences.iter().map(difference_shown))?;
    Ok(Answer {
        left: compared.left.to_string(),
        right: compared.right.to_string(),
        same: compared.differences.is_empty(),
        differences,
        notes: few(&compared.unread),
        page,
        // The words are those of two peers.
        source: Source::bridge(),
    })
}

pub(crate) fn difference_shown(difference: &Difference) -> Json {
    let Difference { namespace, member, left, right, pointer } = difference;
    let mut entry = Map::new();
    entry.insert("namespace".into(), named(namespace).into());
    for (key, value) in [("member", member), ("left", left), ("right", right), ("pointer", pointer)] {
        if let Some(value) = value {
            entry.insert(key.into(), named(value).into());
        }
    }
    entry.into()
}
