//! `list_scripts`: list kept scripts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{few, look, moment, named, repeatable, scripts::Who};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
        registry::Need,
    },
    plant::Plant,
    script::ScriptLine,
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
    /// What the directory is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    /// The node it is on, if it is not this bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// By name: `{name, language, running, run?, ended?: {code, signal, at, note?}}`.
    scripts: Vec<Json>,
    /// What else lies in the directory and cannot be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    junk: Vec<String>,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "list_scripts",
        title: "List kept scripts",
        description: "Lists the scripts of the directory: their language, whether they run, and how their last run ended. Next: read_script, \
                      start_script, script_output."
            .into(),
        hints: Hints::LOOK,
        needs: &[Need::Scripts],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let who = Who::new(&context, args.node.clone());
    let list = look(&context, async { Ok(plant.list_scripts(&who.at()).await?) }).await?;
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let mut lines = list.scripts;
    lines.sort_by(|a, b| a.name.cmp(&b.name));
    let (scripts, page) = pager.keyed(lines.iter().map(|line| (line.name.as_str(), shown(line))))?;
    let node = who.other(&plant);
    Ok(Answer {
        directory: plant.scripts_directory().filter(|_| node.is_none()),
        node,
        scripts,
        junk: few(&list.junk),
        page,
        source: who.source(&plant),
    })
}

fn shown(line: &ScriptLine) -> Json {
    let mut entry = json!({"name": named(&line.name), "language": line.language, "running": line.running});
    if let Some(entry) = entry.as_object_mut() {
        entry.extend(line.run.as_ref().map(|run| ("run".to_owned(), named(run).into())));
        entry.extend(line.ended.as_ref().map(|end| {
            let mut shown = json!({"code": end.code, "signal": end.signal, "at": moment(end.at)});
            if let (Some(note), Some(shown)) = (&end.note, shown.as_object_mut()) {
                shown.insert("note".to_owned(), named(note).into());
            }
            ("ended".to_owned(), shown)
        }));
    }
    entry
}
