//! `start_script`: start a script.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, json};

use super::{
    named,
    scripts::{ScriptArgs, Who},
};
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError, error::NextCall, registry::Need},
    plant::Plant,
};

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// Its name.
    script: String,
    /// The node it is on, if it is not this bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Names this run.
    run: String,
    /// Its process id on its machine.
    pid: u32,
    /// What runs it.
    by: String,
    /// The name it is told to take on the network, in SOURCE_RPC_NAME.
    peer: String,
    /// What it is given to be let in with, in words.
    credential: String,
    /// What it writes.
    hint: NextCall,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "start_script",
        title: "Start a script",
        description: "Starts a script as a program with everything this bridge's own user may do: it can reach real devices, the disk and the \
                      network. One run a name. It gets SOURCE_RPC_BROKER, _HUB, _PREFIX and _NAME in its environment, \
                      never the bridge's own account or token. Returns once it runs. Next: script_output."
            .into(),
        hints: Hints::ACT,
        needs: &[Need::Scripts, Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: ScriptArgs, context: CallContext) -> Result<Answer, ToolError> {
    let who = Who::new(&context, args.node.clone());
    let started = plant.start_script(&who.at(), &args.name).await?;
    let mut arguments = Map::new();
    arguments.insert("name".into(), args.name.as_str().into());
    arguments.extend(args.node.map(|node| ("node".to_owned(), json!(node))));
    Ok(Answer {
        script: args.name,
        node: who.other(&plant),
        run: named(&started.run),
        pid: started.pid,
        by: named(&started.by),
        peer: named(&started.peer),
        credential: named(&started.credential),
        hint: NextCall::new("script_output", arguments),
        source: who.source(&plant),
    })
}
