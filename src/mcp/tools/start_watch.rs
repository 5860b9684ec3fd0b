//! `start_watch`: a watch that is held here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    PathArgument, WaitSeconds, look,
    loss::{self, WatchShown},
    principal,
};
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError, check::bad_argument, error::NextCall},
    plant::{Plant, StartWatch, WatchTarget},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which namespace.
    #[schemars(length(min = 1, max = 1024))]
    namespace: String,
    /// Which event. Without it the state of the component is watched.
    #[schemars(length(min = 1, max = 1024))]
    event: Option<String>,
    /// Of a component: only what changes at these paths of its state. Without them, every snapshot.
    #[serde(default)]
    #[schemars(length(max = 32))]
    paths: Vec<PathArgument>,
    /// How long to wait for the peer if it is not there.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    #[serde(flatten)]
    watch: WatchShown,
    /// What else to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The exact next call.
    hint: NextCall,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "start_watch",
        title: "Start a standing watch",
        description: "Begins a watch that this bridge holds: on an event, or on a component's state (without event). It \
                      outlives this client and reconnects by itself. read_watch tells what came and what was missed. It \
                      holds the newest 1 000 records or 1 MiB, and ends after an hour without a read; stop_watch ends it \
                      earlier. Nothing on the plant changes."
            .into(),
        hints: Hints { read_only: false, destructive: false, idempotent: false, open_world: true },
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    if args.event.is_some() && !args.paths.is_empty() {
        return Err(bad_argument("/paths", "event or paths, not both", "both")
            .problem("paths are of a component's state; an event has none"));
    }
    let paths = args.paths.into_iter().enumerate().map(|(at, path)| path.segments(&format!("/paths/{at}")));
    let target = match args.event {
        Some(event) => WatchTarget::Event(event),
        None => WatchTarget::State(paths.collect::<Result<_, _>>()?),
    };
    let request = StartWatch { peer: args.peer, namespace: args.namespace, target, wait: args.wait_seconds.duration() };
    let client = principal(&context);
    let line = look(&context, async { Ok(plant.start_watch(&client, request).await?) }).await?;
    let arguments = [("watch".to_owned(), json!(line.id))].into_iter().collect();
    let hint = NextCall::new("read_watch", arguments);
    let note = loss::undeclared(line.declared, &line.nearest, &line.stream).or_else(|| loss::lacking(&line.lacking));
    Ok(Answer { watch: line.into(), note, hint, source: Source::bridge() })
}
