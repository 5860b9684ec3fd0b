//! `stop_watch`: ends a standing watch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loss::WatchShown;
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError},
    plant::Plant,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Its id, as start_watch gave it.
    #[schemars(length(min = 1, max = 256))]
    watch: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// True.
    stopped: bool,
    /// How it stood.
    #[serde(flatten)]
    watch: WatchShown,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "stop_watch",
        title: "Stop a standing watch",
        description:
            "Ends a standing watch, whoever started it, with its subscription and the records it holds. Nothing \
                      on the plant changes."
                .into(),
        hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, _context: CallContext) -> Result<Answer, ToolError> {
    Ok(Answer { stopped: true, watch: plant.stop_watch(&args.watch)?.into(), source: Source::bridge() })
}
