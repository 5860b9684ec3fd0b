//! `add_package`: install a package for scripts.

use schemars::JsonSchema;
use serde::Deserialize;

use super::scripts::{ManagerArgument, PackagesAnswer, change_packages};
use crate::{
    mcp::{CallContext, Hints, Spec, Tool, ToolError, registry::Need},
    plant::Plant,
    script::Wanted,
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

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<PackagesAnswer, ToolError> {
    let Args { spec, manager, allow_install_scripts, node } = args;
    let wanted = Wanted { spec, manager: manager.into(), allow_install_scripts };
    change_packages(&plant, &context, node, wanted, true).await
}
