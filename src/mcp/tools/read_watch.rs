//! `read_watch`: what a standing watch holds since the last answer that arrived, and what was missed since.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{
    look,
    loss::{self, LossDetail, WatchShown},
    source,
};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        cursor::{Cursors, Position},
        error::NextCall,
        page::Limit,
    },
    plant::{Gap, Noted, Plant, Reached, ReadWatch, Record},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Its id, as start_watch gave it.
    #[schemars(length(min = 1, max = 256))]
    watch: String,
    /// `cursor` of the last answer that arrived. Without it, from the oldest record held.
    after: Option<String>,
    #[serde(default)]
    limit: Limit,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    #[serde(flatten)]
    watch: WatchShown,
    /// Oldest first: `{index, at, args, seq?}` of an event; `{index, at, epoch, revision, props, state}` of a snapshot;
    /// `{index, at, epoch, revision, changes: [{path, old?, new?}]}`; `{index, at, gap}` where something may be missing.
    records: Vec<Json>,
    /// Records that follow these.
    more: u64,
    /// Records that fell off before they were read.
    fell_off: u64,
    /// What was missed since the answer before, in words that begin with the verdict.
    loss: String,
    /// The same in numbers.
    loss_detail: LossDetail,
    /// Give it as `after` next time. If this answer is lost, give the one before again: nothing is lost with it.
    cursor: String,
    /// The exact next call.
    hint: NextCall,
    source: Source,
}

/// Bytes of records, about, that an answer holds.
const MOST_BYTES: usize = 16 * 1024;

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "read_watch",
        title: "Read a standing watch",
        description: "Gives what a standing watch recorded since the answer whose cursor you give as after, and what was \
                      missed since: on the way, and what fell off because nobody read it. Reading takes nothing away, so a \
                      lost answer can be asked for again."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let after = args.after.as_deref().map(|after| opened(&context, &args.watch, after)).transpose()?;
    let most = args.limit.entries();
    let request = ReadWatch { watch: args.watch.clone(), after, most, most_bytes: MOST_BYTES };
    let read = look(&context, async { Ok(plant.read_watch(request).await?) }).await?;
    let reached = serde_json::to_string(&read.reached).map_err(|problem| context.internal(&problem))?;
    let cursor = context.cursors().seal(context.tool, &args.watch, &Position::After(reached));
    let arguments = json!({"watch": args.watch, "after": cursor, "limit": args.limit});
    let arguments = if let Json::Object(arguments) = arguments { arguments } else { Map::new() };
    let source = source(read.line.stream.peer.as_str(), read.fake);
    Ok(Answer {
        watch: read.line.into(),
        records: read.records.into_iter().map(shown).collect(),
        more: read.more,
        fell_off: read.fell_off,
        loss: read.loss.sentence.clone(),
        loss_detail: LossDetail::from(&read.loss),
        cursor,
        hint: NextCall::new(context.tool, arguments),
        source,
    })
}

/// What a cursor says; only one of this process and of this watch says anything.
fn opened(context: &CallContext, watch: &str, cursor: &str) -> Result<Reached, ToolError> {
    let stale = |error: ToolError| {
        let fix = "read without `after`, from the oldest record held; what this cursor stood for is not known here";
        error.argument("/after").fix(fix)
    };
    match context.cursors().open(context.tool, &watch, cursor).map_err(stale)? {
        Position::After(reached) => serde_json::from_str(&reached).map_err(|_| stale(Cursors::stale())),
        Position::At { .. } => Err(stale(Cursors::stale())),
    }
}

fn shown(record: Record) -> Json {
    let mut entry = json!({"index": record.index, "at": record.at_ms});
    let too_large = json!({"truncated": true, "bytes": record.bytes});
    let more = match record.noted {
        Noted::Event { args, stamp } => {
            let args = args.map_or_else(|| json!([too_large]), |args| json!(loss::args(args)));
            stamp.map_or_else(|| json!({"args": args}), |stamp| json!({"args": args, "seq": stamp.seq}))
        }
        Noted::State { epoch, revision, held: Some((props, state)) } => {
            json!({"epoch": epoch, "revision": revision, "props": loss::value(props), "state": loss::value(state)})
        }
        Noted::State { epoch, revision, held: None } => {
            json!({"epoch": epoch, "revision": revision, "truncated": true, "bytes": record.bytes})
        }
        Noted::Changed { epoch, revision, changes } => {
            let changes = changes.into_iter().map(|change| {
                let mut shown = Map::new();
                shown.insert("path".into(), change.path.into());
                shown.extend(change.old.map(|old| ("old".into(), loss::value(old))));
                shown.extend(change.new.map(|new| ("new".into(), loss::value(new))));
                shown
            });
            json!({"epoch": epoch, "revision": revision, "changes": changes.collect::<Vec<_>>()})
        }
        Noted::Gap(Gap::Interrupted) => json!({"gap": "interrupted"}),
        Noted::Gap(Gap::Attached) => json!({"gap": "attached_again"}),
        Noted::Gap(Gap::Refused(why)) => json!({"gap": "refused", "why": why}),
        Noted::Gap(Gap::FellOff(missed)) => json!({"gap": "fell_off", "deliveries": missed}),
    };
    if let (Json::Object(entry), Json::Object(more)) = (&mut entry, more) {
        entry.extend(more);
    }
    entry
}
