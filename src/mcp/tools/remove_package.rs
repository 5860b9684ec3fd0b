//! `remove_package`: remove a package of scripts.

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

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<PackagesAnswer, ToolError> {
    let Args { name, manager, node } = args;
    let wanted = Wanted { spec: name, manager: manager.into(), allow_install_scripts: false };
    change_packages(&plant, &context, node, wanted, false).await
}
