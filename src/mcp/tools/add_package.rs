//! `add_package`: install a package for scripts.

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
    /// The package: a name or @scope/name, with @range for npm or ==version for pip if wanted. No flag, path or address.
    #[schemars(length(min = 1, max = 214))]
    spec: String,
    /// npm unless it says otherwise; pip for what .py scripts import.
    #[serde(default)]
    manager: ManagerArgument,
    /// Whether programs that come with a package may run while it is installed. Off, because whoever wrote the package wrote them.
    #[serde(default, rename = "allowInstallScripts")]
    allow_install_scripts: bool,
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
        name: "add_package",
        title: "Install a package for scripts",
        description: "Installs a package from the registry of npm or pip into the directory of scripts, and keeps its exact version in a lock \
                      file. May take three minutes; cancelled, the package manager is ended."
            .into(),
        hints: Hints { read_only: false, destructive: false, idempotent: true, open_world: true },
        needs: &[Need::Scripts, Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let manager = Packager::from(args.manager);
    let wanted = Wanted { spec: args.spec.clone(), manager, allow_install_scripts: args.allow_install_scripts };
    let who = Who::new(&context, args.node);
    let progress = context.progress.clone();
    let note = |line: &str| progress.note(line);
    let changed = plant.change_packages(&who.at(), &wanted, true, note).await?;
    Ok(Answer {
        package: args.spec,
        node: who.other(&plant),
        manager: manager.as_str().to_owned(),
        output: changed.output,
        notes: few(&changed.notes),
        source: who.source(&plant),
    })
}
