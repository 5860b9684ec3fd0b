//! `release_control`: give control back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{WaitSeconds, principal, source_of};
use crate::{
    mcp::{CallContext, Hints, Need, Source, Spec, Tool, ToolError},
    plant::Plant,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which component.
    #[schemars(length(min = 1, max = 1024))]
    namespace: String,
    /// How long to wait for the peer if it is not there.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// `peer.namespace`.
    component: String,
    /// Whether the bridge was in control until now.
    released: bool,
    /// How control had been lost before, if it had.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
    note: &'static str,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "release_control",
        title: "Release control",
        description:
            "Gives command authority over a component back, so that others can take it. Released false means that \
                      the bridge was not in control any more; lost says how that came about."
                .into(),
        hints: Hints { idempotent: true, ..Hints::ACT },
        needs: &[Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let wait = args.wait_seconds.duration();
    let released = plant.release_control(&principal(&context), &args.peer, &args.namespace, wait).await?;
    let note = if released.held { "control is given back" } else { "the bridge was not in control" };
    Ok(Answer {
        component: format!("{}.{}", released.peer, args.namespace),
        released: released.held,
        lost: released.lost,
        note,
        source: source_of(&plant, &released.peer).await,
    })
}
