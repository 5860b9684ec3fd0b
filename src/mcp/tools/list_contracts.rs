//! `list_contracts`: the contracts on disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{few, look, named, repeatable};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
        registry::Need,
    },
    plant::{ListedContract, Plant},
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
    /// What the directory is called.
    directory: String,
    /// By name: namespaces, version, hash and size, or why it cannot be read.
    contracts: Vec<Json>,
    /// What else lies in the directory and is left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    junk: Vec<String>,
    /// Whether the directory holds more than is looked at.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more_in_directory: bool,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "list_contracts",
        title: "List kept contracts",
        description: "Lists the contracts on the bridge's disk with their namespaces, and what else lies in that \
                      directory. Next: read_contract, or check_peer with contract."
            .into(),
        hints: Hints::LOOK_INSIDE,
        needs: &[Need::Contracts],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let listing = look(&context, async { Ok(plant.list_contracts().await?) }).await?;
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let entries = listing.contracts.iter().map(|listed| (listed.name.as_str(), shown(listed)));
    let (contracts, page) = pager.keyed(entries)?;
    let junk: Vec<String> = listing.junk.iter().map(|junk| format!("{}: {}", junk.file, junk.why)).collect();
    Ok(Answer {
        directory: plant.contracts_directory().unwrap_or_default(),
        contracts,
        junk: few(&junk),
        more_in_directory: listing.more,
        page,
        source: Source::bridge(),
    })
}

fn shown(listed: &ListedContract) -> Json {
    let name = listed.name.as_str();
    match &listed.summary {
        Ok(summary) => {
            let mut entry = json!({
                "contract": name,
                "namespaces": few(&summary.namespaces),
                "sha256": summary.sha256,
                "bytes": summary.bytes,
            });
            if let (Some(version), Some(entry)) = (&summary.version, entry.as_object_mut()) {
                entry.insert("version".into(), named(version).into());
            }
            entry
        }
        Err(why) => json!({"contract": name, "namespaces": [], "unreadable": why}),
    }
}
