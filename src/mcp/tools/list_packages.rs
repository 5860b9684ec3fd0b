//! `list_packages`: list packages of scripts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{few, look, named, repeatable, scripts::Who};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
        registry::Need,
    },
    plant::Plant,
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The node whose scripts are meant, if not this bridge's own: it must have named this bridge in --scriptable-by.
    #[schemars(length(min = 1, max = 128))]
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(default)]
    limit: Limit,
    /// Where the page starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// The node it is on, if it is not this bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// By manager and name: `{name, range, installed, manager}`; `installed` is null where it is declared and not there.
    packages: Vec<Json>,
    /// What is to be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "list_packages",
        title: "List packages of scripts",
        description: "Lists the packages that scripts can import: what the directory declares, and which version of it is installed."
            .into(),
        hints: Hints::LOOK,
        needs: &[Need::Scripts],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let who = Who::new(&context, args.node.clone());
    let list = look(&context, async { Ok(plant.list_packages(&who.at()).await?) }).await?;
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let mut entries: Vec<(String, Json)> = list
        .packages
        .iter()
        .map(|package| {
            let installed = package.installed.as_deref().map(named);
            let (name, range, manager) = (named(&package.name), named(&package.range), package.manager.as_str());
            let shown = json!({"name": name, "range": range, "installed": installed, "manager": manager});
            (format!("{manager} {name}"), shown)
        })
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let (packages, page) = pager.keyed(entries)?;
    let (node, source) = (who.other(&plant), who.source(&plant));
    Ok(Answer { node, packages, notes: few(&list.notes), page, source })
}
