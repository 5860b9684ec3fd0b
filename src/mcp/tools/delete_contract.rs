//! `delete_contract`: removes a contract from the disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contract_argument::contract_name;
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError, registry::Need},
    plant::{Condition, Plant},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The name it is kept under.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// Only if what is there has this hash, as read_contract gave it.
    #[schemars(length(min = 64, max = 64))]
    expect_sha256: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// The name it was kept under.
    contract: String,
    /// True.
    deleted: bool,
    /// The hash of what was there.
    sha256: String,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "delete_contract",
        title: "Delete a kept contract",
        description: "Removes a contract from the bridge's disk. It is gone then: read_contract first if it may be \
                      wanted again. Nothing on the plant changes."
            .into(),
        hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
        needs: &[Need::Contracts, Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, _context: CallContext) -> Result<Answer, ToolError> {
    let name = contract_name(&args.name, "/name")?;
    let condition = Condition { absent: false, sha256: args.expect_sha256 };
    let sha256 = plant.delete_contract(&name, condition).await?;
    Ok(Answer { contract: name.to_string(), deleted: true, sha256, source: Source::bridge() })
}
