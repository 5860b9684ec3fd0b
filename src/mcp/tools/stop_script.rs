//! `stop_script`: stop a script.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    named,
    scripts::{EndShown, ScriptArgs, Who},
};
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError, registry::Need},
    plant::Plant,
};

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// Its name.
    script: String,
    /// The node it is on, if it is not this bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The run that ended.
    run: String,
    /// How.
    ended: EndShown,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "stop_script",
        title: "Stop a script",
        description: "Asks a running script to end, waits two seconds, then kills it, with every process it began. What it did to the plant stays \
                      done."
            .into(),
        hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
        needs: &[Need::Scripts, Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: ScriptArgs, context: CallContext) -> Result<Answer, ToolError> {
    let who = Who::new(&context, args.node);
    let stopped = plant.stop_script(&who.at(), &args.name).await?;
    Ok(Answer {
        script: args.name,
        node: who.other(&plant),
        run: named(&stopped.run),
        ended: stopped.ended.into(),
        source: who.source(&plant),
    })
}
