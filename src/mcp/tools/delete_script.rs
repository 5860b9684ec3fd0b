//! `delete_script`: delete a script.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{named, scripts::Who};
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError, registry::Need},
    plant::Plant,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Its name: letters, digits, dots, dashes, underscores. A name, not a path, and without its ending.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// The node whose scripts are meant, if not this bridge's own: it must have named this bridge in --scriptable-by.
    #[schemars(length(min = 1, max = 128))]
    node: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// The name it was kept under.
    script: String,
    /// The node it is on, if it is not this bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Its file, if that is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// True.
    deleted: bool,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "delete_script",
        title: "Delete a script",
        description: "Stops a script if it runs, and removes its file and the output that is kept of its runs. It is gone then: read_script first if it may be wanted again."
            .into(),
        hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
        needs: &[Need::Scripts, Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let who = Who::new(&context, args.node);
    let file = plant.delete_script(&who.at(), &args.name).await?;
    Ok(Answer {
        script: args.name,
        node: who.other(&plant),
        file: file.map(|file| named(&file)),
        deleted: true,
        source: who.source(&plant),
    })
}
