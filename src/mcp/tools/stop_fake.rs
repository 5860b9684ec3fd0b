//! `stop_fake`: takes a fake off the network.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{list_fakes::FakeShown, principal};
use crate::{
    mcp::{CallContext, Hints, Need, Source, Spec, Tool, ToolError},
    plant::Plant,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Its name, as start_fake gave it.
    #[schemars(length(min = 1, max = 128))]
    name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// True.
    stopped: bool,
    /// How it stood.
    #[serde(flatten)]
    fake: FakeShown,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "stop_fake",
        title: "Stop a fake",
        description: "Takes a fake that this bridge started off the network, whoever started it: its presence, its \
                      subscribers, its rows and its state are gone when this answers. It stops nothing else."
            .into(),
        hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: true },
        needs: &[Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let fake = plant.stop_fake(&principal(&context), &args.name).await?;
    let mut fake = FakeShown::from(fake);
    fake.on_network = false;
    Ok(Answer { stopped: true, fake, source: Source::bridge() })
}
