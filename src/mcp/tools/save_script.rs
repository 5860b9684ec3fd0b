//! `save_script`: keep a script.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scripts::{LanguageArgument, Who};
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
    /// The program, up to 256 KiB. TypeScript loses its types and nothing else: no decorators, no enums.
    #[schemars(length(max = 262_144))]
    source: String,
    /// ts unless it says otherwise.
    #[serde(default)]
    language: LanguageArgument,
    /// The node whose scripts are meant, if not this bridge's own: it must have named this bridge in --scriptable-by.
    #[schemars(length(min = 1, max = 128))]
    node: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// The name it is kept under.
    script: String,
    /// The node it is on, if it is not this bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Its file in the directory of scripts.
    file: String,
    bytes: u64,
    /// Whether a script of that name was there before and is gone.
    overwrote: bool,
    /// The files of that name in other languages that are gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<String>,
    /// Whether one of that name is running.
    running: bool,
    /// What is to be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "save_script",
        title: "Keep a script",
        description: "Writes a program into the directory of scripts, whole or not at all, and does not start it. What was there under the name, in \
                      any language, is gone. A run of it goes on with the text it was started with. Next: start_script."
            .into(),
        hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
        needs: &[Need::Scripts, Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let who = Who::new(&context, args.node);
    let saved = plant.save_script(&who.at(), &args.name, args.language.into(), args.source).await?;
    let mut notes: Vec<String> = saved.manifest.into_iter().collect();
    if saved.running {
        notes.push("it is running: the old text runs on until it is stopped and started again".to_owned());
    }
    Ok(Answer {
        script: args.name,
        node: who.other(&plant),
        file: saved.file,
        bytes: saved.bytes,
        overwrote: saved.overwrote,
        removed: saved.removed,
        running: saved.running,
        notes,
        source: who.source(&plant),
    })
}
