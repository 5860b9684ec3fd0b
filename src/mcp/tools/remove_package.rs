//! `remove_package`: remove a package of scripts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    few,
    scripts::{ManagerArgument, Who},
};
use crate::{
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError, registry::Need},
    plant::Plant,
    script::{Packager, Wanted},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The package: its name alone, as list_packages shows it.
    #[schemars(length(min = 1, max = 214))]
    name: String,
    /// npm unless it says otherwise; pip for what .py scripts import.
    #[serde(default)]
    manager: ManagerArgument,
    /// The node whose scripts are meant, if not this bridge's own: it must have named this bridge in --scriptable-by.
    #[schemars(length(min = 1, max = 128))]
    node: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// What was asked for.
    package: String,
    /// The node it is on, if it is not this bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    manager: String,
    /// What the package manager wrote, its end if that is long.
    output: String,
    /// What is to be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "remove_package",
        title: "Remove a package of scripts",
        description: "Removes a package from the directory of scripts. Scripts that import it end with an error when they are started next."
            .into(),
        hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
        needs: &[Need::Scripts, Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let manager = Packager::from(args.manager);
    let wanted = Wanted { spec: args.name.clone(), manager, allow_install_scripts: false };
    let who = Who::new(&context, args.node);
    let progress = context.progress.clone();
    let note = |line: &str| progress.note(line);
    let changed = plant.change_packages(&who.at(), &wanted, false, note).await?;
    Ok(Answer {
        package: args.name,
        node: who.other(&plant),
        manager: manager.as_str().to_owned(),
        output: changed.output,
        notes: few(&changed.notes),
        source: who.source(&plant),
    })
}
