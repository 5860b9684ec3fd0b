//! `list_watches`: the standing watches this bridge holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{loss::WatchShown, repeatable};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
    },
    plant::Plant,
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    limit: Limit,
    /// Where the page starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// By id: what each is on, who started it, how many records it wrote and holds, when it ends unread.
    watches: Vec<Json>,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "list_watches",
        title: "List standing watches",
        description:
            "Names the standing watches this bridge holds, whoever started them: what each is on, how many records \
                      it holds, and when it ends unless somebody reads it."
                .into(),
        hints: Hints::LOOK_INSIDE,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let lines = plant.list_watches().into_iter().map(|line| (line.id.clone(), WatchShown::from(line)));
    let (watches, page) = pager.keyed(lines)?;
    Ok(Answer { watches, page, source: Source::bridge() })
}
