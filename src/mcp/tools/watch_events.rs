//! `watch_events`: one event, for a while, and what was missed.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    WaitSeconds, look,
    loss::{self, CursorShown, LossDetail},
    principal, source,
};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        cursor::{Cursors, Position},
    },
    plant::{Cursor, HeardEvent, Memory, Plant, WatchEvents},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which namespace.
    #[schemars(length(min = 1, max = 1024))]
    namespace: String,
    /// Which event; one that is not declared is watched all the same.
    #[schemars(length(min = 1, max = 1024))]
    event: String,
    /// How long to listen.
    #[serde(default)]
    seconds: Seconds,
    /// Ends earlier, once so many were heard.
    #[serde(default)]
    max_events: MaxEvents,
    /// How long to wait for the peer if it is not there.
    #[serde(default)]
    wait_seconds: WaitSeconds,
    /// `told` of an earlier watch of this event: what was missed since that one, instead of since this client's previous one.
    after: Option<String>,
}

/// Seconds, five if nothing is said.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct Seconds(#[schemars(range(min = 1, max = 60))] u8);

impl Default for Seconds {
    fn default() -> Self {
        Self(5)
    }
}

/// Events, a hundred if nothing is said.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct MaxEvents(#[schemars(range(min = 1, max = 500))] u16);

impl Default for MaxEvents {
    fn default() -> Self {
        Self(100)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// Seconds listened, rounded up.
    #[serde(rename = "watchedFor")]
    watched_for: u64,
    /// `peer.namespace.event`.
    event: String,
    /// What was heard, as it came; repeats are left out.
    heard: Vec<Entry>,
    /// What was missed since this client's previous watch of this event, in words that begin with the verdict.
    loss: String,
    /// The same in numbers.
    loss_detail: LossDetail,
    /// How far the peer had counted at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<CursorShown>,
    /// Give it as `after` next time. Only there when this client has no name under which that is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<String>,
    /// `time`, or `full` when it ended early because enough was heard.
    ended: &'static str,
    /// How often the connection or the peer went away meanwhile.
    interrupted: u32,
    /// What else to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    source: Source,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// When it arrived here, in milliseconds since the Unix epoch.
    at: i64,
    args: Vec<Json>,
    /// Its number, where the peer counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
}

impl From<HeardEvent> for Entry {
    fn from(event: HeardEvent) -> Self {
        Self { at: event.at_ms, args: loss::args(event.args), seq: event.stamp.map(|stamp| stamp.seq) }
    }
}

/// Bytes of events, about, after which a watch is full.
const MOST_BYTES: usize = 16 * 1024;

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "watch_events",
        title: "Watch an event",
        description: "Listens to one event of a peer for some seconds and says what was missed: inside, and since your \
                      previous watch of it. \"gapless\" is said only when the peer's count proves it. Ends early once \
                      max_events were heard; what follows is then reported by the next watch as missed, so for all of a \
                      fast event, or to miss nothing between calls: start_watch."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let window = Duration::from_secs(args.seconds.0.into());
    let travels = args.after.is_some() || !context.comes_back;
    let filters = [args.peer.clone(), args.namespace.clone(), args.event.clone()];
    let brought = args.after.as_deref().map(|after| opened(&context, &filters, after)).transpose()?;
    let request = WatchEvents {
        peer: args.peer,
        namespace: args.namespace,
        event: args.event,
        window,
        most: args.max_events.0.into(),
        most_bytes: MOST_BYTES,
        wait: args.wait_seconds.duration(),
        memory: if travels { Memory::Brought(brought) } else { Memory::Here },
    };
    context.progress.expect(window);
    let tell = |heard: usize| context.progress.note(format!("{heard} heard"));
    let client = principal(&context);
    let watched = look(&context, async { Ok(plant.watch_events(&client, request, tell).await?) }).await?;
    let stream = &watched.stream;
    Ok(Answer {
        watched_for: watched
            .took
            .as_millis()
            .div_ceil(1000)
            .min(window.as_millis() / 1000)
            .try_into()
            .unwrap_or(u64::MAX),
        event: format!("{}.{}.{}", stream.peer, stream.namespace, stream.event),
        loss: watched.loss.sentence.clone(),
        loss_detail: LossDetail::from(&watched.loss),
        cursor: watched.cursor.map(CursorShown::from),
        told: watched.told.filter(|_| travels).map(|told| sealed(&context, &filters, &told)),
        ended: if watched.full { "full" } else { "time" },
        interrupted: watched.interrupted,
        note: loss::undeclared(watched.declared, &watched.nearest, stream),
        source: source(stream.peer.as_str(), watched.fake),
        heard: watched.heard.into_iter().map(Entry::from).collect(),
    })
}

/// Up to where a client was told, for it to carry.
fn sealed(context: &CallContext, filters: &[String; 3], Cursor { epoch, seq, since }: &Cursor) -> String {
    let text = json!([epoch, seq, since]).to_string();
    context.cursors().seal("watch_events", filters, &Position::After(text))
}

/// The same, as it was given out here.
fn opened(context: &CallContext, filters: &[String; 3], after: &str) -> Result<Cursor, ToolError> {
    let Position::After(text) = context.cursors().open("watch_events", filters, after)? else {
        return Err(Cursors::stale());
    };
    let (epoch, seq, since) = serde_json::from_str(&text).map_err(|_| Cursors::stale())?;
    Ok(Cursor { epoch, seq, since })
}
