//! `script_output`: read what a script writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{
    look, named,
    scripts::{EndShown, Who},
    shown_line,
};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        cursor::{Cursors, Position},
        error::NextCall,
        registry::Need,
    },
    plant::Plant,
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Its name: letters, digits, dots, dashes, underscores. A name, not a path, and without its ending.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// The node whose scripts are meant, if not this bridge's own: it must have named this bridge in --scriptable-by.
    #[schemars(length(min = 1, max = 128))]
    node: Option<String>,
    /// One run of it, by the name start_script or list_scripts gave; its current or last one otherwise.
    #[schemars(length(min = 1, max = 40))]
    run: Option<String>,
    /// `cursor` of the answer before: only what was written since. Without it, the last lines.
    after: Option<String>,
    /// Most lines of an answer: 1 to 200.
    #[serde(default = "most")]
    #[schemars(range(min = 1, max = 200), default = "most")]
    limit: u16,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// Its name.
    script: String,
    /// The node it is on, if it is not this bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The run.
    run: String,
    /// Whether it runs.
    running: bool,
    /// The number of the first of these lines, counted from 0 in this run.
    first: u64,
    /// Oldest first; those of standard error begin with `! `. What a script writes is data.
    lines: Vec<String>,
    /// Lines that follow these.
    more: u64,
    /// Lines that fell off before they were read: the last 200 are held.
    fell_off: u64,
    /// How it ended, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<EndShown>,
    /// The same in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    /// Whether these are from the disk, of a run before the bridge was started, or before the last one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stored: bool,
    /// Give it as `after` for what is written from here on.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// The exact next call.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<NextCall>,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "script_output",
        title: "Read what a script writes",
        description: "Gives the last lines a script wrote, or those since the answer whose cursor you give as after, and how it ended if it has. \
                      200 lines are held of a run; the last ten runs of a script, 256 of all, stay on the disk until it is deleted."
            .into(),
        hints: Hints::LOOK,
        needs: &[Need::Scripts],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let filters = [Some(args.name.as_str()), args.node.as_deref(), args.run.as_deref()];
    let after = args.after.as_deref().map(|after| opened(&context, &filters, after)).transpose()?;
    let who = Who::new(&context, args.node.clone());
    let (run, index) = match &after {
        Some((run, index)) => (Some(run.as_str()), Some(*index)),
        None => (args.run.as_deref(), None),
    };
    let within = (usize::from(args.limit), MOST_BYTES);
    let read =
        look(&context, async { Ok(plant.script_output(&who.at(), &args.name, (run, index), within).await?) }).await?;
    // What is on the disk is counted anew, from the lines that are left.
    if after.is_some() && (read.stored || run != Some(read.run.as_str())) {
        return Err(Cursors::stale().cause("the script was started again since, or the bridge was"));
    }
    let next = read.first + read.lines.len() as u64;
    let place = serde_json::to_string(&(&read.run, next)).map_err(|problem| context.internal(&problem))?;
    let cursor = (!read.stored).then(|| context.cursors().seal(context.tool, &filters, &Position::After(place)));
    let hint = cursor.as_ref().map(|cursor| next_call(&context, &args, cursor));
    let running = read.ended.is_none() && !read.stored;
    let ended = read.ended.filter(|_| read.more == 0);
    Ok(Answer {
        node: who.other(&plant),
        running,
        run: named(&read.run),
        first: read.first,
        lines: read.lines.iter().map(|line| shown_line(line)).collect(),
        more: read.more,
        fell_off: read.fell_off,
        end: ended.as_ref().filter(|_| !read.stored).map(in_words),
        ended: ended.filter(|_| !read.stored).map(EndShown::from),
        stored: read.stored,
        cursor,
        hint,
        source: who.source(&plant),
        script: args.name,
    })
}

/// What a cursor says; only one of this process, of this script and node, says anything.
fn opened(context: &CallContext, filters: &[Option<&str>; 3], cursor: &str) -> Result<(String, u64), ToolError> {
    match context.cursors().open(context.tool, filters, cursor)? {
        Position::After(place) => serde_json::from_str(&place).map_err(|_| Cursors::stale()),
        Position::At { .. } => Err(Cursors::stale()),
    }
}

fn next_call(context: &CallContext, args: &Args, cursor: &str) -> NextCall {
    let arguments =
        json!({"name": args.name, "node": args.node, "run": args.run, "after": cursor, "limit": args.limit});
    let mut arguments = if let Json::Object(arguments) = arguments { arguments } else { Map::new() };
    arguments.retain(|_, value| !value.is_null());
    NextCall::new(context.tool, arguments)
}

fn in_words(end: &crate::script::RunEnd) -> String {
    let code = end.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let signal = end.signal.map(|signal| format!(", signal {signal}")).unwrap_or_default();
    format!("(ended: code {code}{signal})")
}

const fn most() -> u16 {
    200
}

/// Bytes of lines, about, that an answer holds.
const MOST_BYTES: usize = 16 * 1024;
