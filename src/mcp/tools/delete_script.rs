//! `delete_script`: delete a script.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    named,
    scripts::{ScriptArgs, Who},
};
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError, registry::Need},
    plant::Plant,
};

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

async fn run(plant: Plant, args: ScriptArgs, context: CallContext) -> Result<Answer, ToolError> {
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
