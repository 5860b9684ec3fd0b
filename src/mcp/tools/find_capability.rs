//! `find_capability`: who implements an interface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{look, repeatable};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
    },
    plant::{Capabilities, Plant},
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The package-qualified name, such as `@scope/contracts/Oven`. A bare name matches nothing.
    #[schemars(length(min = 1, max = 256))]
    capability: String,
    #[serde(default)]
    limit: Limit,
    /// Where the page starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    capability: String,
    /// Namespaces that declare it, by peer and namespace. None is an answer.
    matches: Vec<Json>,
    /// What else to know where nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Where nothing was found: what is declared and called like it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nearest: Vec<String>,
    /// Peers that did not answer in time or describe nothing, so that nothing is known of them.
    unanswered: Vec<String>,
    /// How many those are in all.
    unanswered_count: usize,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

/// How many unanswered peers are named.
const NAMED: usize = 50;

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "find_capability",
        title: "Find a capability",
        description: "Finds the namespaces that declare a capability, by its exact package-qualified name, among all \
                      peers. Parents are expanded already, so searching for a parent finds its children. Whether the \
                      peer may be asked to act is another question."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let found = look(&context, async { Ok(plant.find_capability(&args.capability).await?) }).await?;
    let entries = found.matches.iter().map(|found| {
        let mut entry = Map::new();
        entry.insert("peer".into(), found.peer.as_str().into());
        entry.insert("namespace".into(), found.namespace.as_str().into());
        if let Some(version) = &found.version {
            entry.insert("version".into(), version.as_str().into());
        }
        entry.insert("capabilities".into(), json!(found.capabilities));
        // A byte that no name holds keeps peer and namespace apart.
        (format!("{}\u{0}{}", found.peer, found.namespace), entry)
    });
    let note = found.matches.is_empty().then(|| note(&args.capability, &found));
    let nearest = found.nearest;
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Concise, args.cursor.as_deref());
    let (matches, page) = pager.keyed(entries)?;
    let unanswered_count = found.unanswered.len();
    let unanswered = found.unanswered.into_iter().take(NAMED).map(|peer| peer.to_string()).collect();
    let capability = args.capability;
    Ok(Answer { capability, matches, note, nearest, unanswered, unanswered_count, page, source: Source::bridge() })
}

/// Why nothing may have been found.
fn note(capability: &str, found: &Capabilities) -> String {
    let mut note = if capability.contains('/') {
        "no peer that answered declares exactly this name".to_owned()
    } else {
        "this name has no package: a capability is declared with one, such as @scope/contracts/Oven".to_owned()
    };
    if !found.nearest.is_empty() {
        note += "; `nearest` has what is declared and called like it";
    }
    if !found.unanswered.is_empty() {
        note += "; of those in `unanswered` nothing is known";
    }
    note
}
