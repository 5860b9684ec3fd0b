//! `save_contract`: keeps a contract on disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::contract_argument::{contract_name, document};
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError, check::bad_argument, registry::Need},
    plant::{Condition, Plant},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What to keep it as: letters, digits, dots, dashes, underscores. A name, not a path, and without .types.json.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// The contract: {"schema": 1, "types": {…}, "namespaces": {…}}.
    schema: Map<String, Json>,
    /// Only if no contract of that name is there.
    #[serde(default)]
    if_absent: bool,
    /// Only if what is there has this hash, as read_contract gave it.
    #[schemars(length(min = 64, max = 64))]
    expect_sha256: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// The name it is kept under.
    contract: String,
    /// The file in the directory of contracts.
    file: String,
    /// What names exactly these bytes; give it as expect_sha256 to change just this.
    sha256: String,
    bytes: u64,
    /// The hash of what was there before and is gone, if something was.
    #[serde(skip_serializing_if = "Option::is_none")]
    overwrote: Option<String>,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "save_contract",
        title: "Keep a contract",
        description: "Checks a contract and keeps it on the bridge's disk as <name>.types.json, whole or not at all. \
                      What was there under the name is overwritten unless if_absent or expect_sha256 says otherwise. \
                      Nothing on the plant changes. Next: check_peer with contract."
            .into(),
        hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
        needs: &[Need::Contracts, Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, _context: CallContext) -> Result<Answer, ToolError> {
    let name = contract_name(&args.name, "/name")?;
    if args.if_absent && args.expect_sha256.is_some() {
        return Err(bad_argument("/expect_sha256", "either if_absent or expect_sha256", "both"));
    }
    let condition = Condition { absent: args.if_absent, sha256: args.expect_sha256 };
    let saved = plant.save_contract(&name, document(args.schema), condition).await?;
    Ok(Answer {
        contract: name.to_string(),
        file: name.file(),
        sha256: saved.sha256,
        bytes: saved.bytes,
        overwrote: saved.overwrote,
        source: Source::bridge(),
    })
}
