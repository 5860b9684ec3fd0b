//! `bridge_status`: how the bridge itself stands.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    mcp::{CallContext, Hints, Spec, Tool, ToolError, standing::Standing},
    plant::Plant,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "bridge_status",
        title: "Show how the bridge stands",
        description: "Shows the bridge itself, whatever becomes of the network: each link with since when and why it was down, what \
                      it holds, calls and refusals since the start, how long answers took, clients, memory. Nobody is asked. When \
                      calls fail or are slow, look here before asking a person."
            .into(),
        hints: Hints::LOOK_INSIDE,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, _: Args, context: CallContext) -> Result<Standing, ToolError> {
    Ok(context.standing(&plant))
}
