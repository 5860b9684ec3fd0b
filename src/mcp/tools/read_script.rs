//! `read_script`: read a kept script.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    look,
    scripts::{ScriptArgs, Who},
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
    /// ts, mjs or py, if that is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    /// The program.
    text: String,
    bytes: usize,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "read_script",
        title: "Read a kept script",
        description: "Gives the text of a script as it stands in its file, which need not be the text of a run that began before it was \
                      saved again."
            .into(),
        hints: Hints::LOOK,
        needs: &[Need::Scripts],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: ScriptArgs, context: CallContext) -> Result<Answer, ToolError> {
    let who = Who::new(&context, args.node);
    let read = look(&context, async { Ok(plant.read_script(&who.at(), &args.name).await?) }).await?;
    Ok(Answer {
        script: args.name,
        node: who.other(&plant),
        language: read.language.map(|language| language.as_str().to_owned()),
        bytes: read.source.len(),
        text: read.source,
        source: who.source(&plant),
    })
}
