//! `watch_traffic`: what peers say to each other, for a while.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{
    look, repeatable,
    traffic_views::{interruptions, note, seen, sources},
};
use crate::{
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        cursor::Cursors,
        page::{Format, Limit, PageInfo, Pager},
        tagged,
    },
    plant::{Answered, Body, Line, LineKind, Plant, TrafficFilter, TrafficWatched, WatchTraffic},
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// How long to watch.
    #[serde(default)]
    seconds: Seconds,
    /// Only what this peer sends or is sent.
    #[schemars(length(min = 1, max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// Only what concerns this namespace, of whichever peer.
    #[schemars(length(min = 1, max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// Lists only these kinds; counts stay over all.
    #[schemars(length(min = 1, max = 8))]
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<Vec<Kind>>,
    /// Shows arguments, results and what is emitted.
    #[serde(default)]
    payloads: bool,
    /// Ends once so many frames are listed.
    #[serde(default)]
    max_frames: MaxFrames,
    /// After max_frames, goes on counting to the end of the time.
    #[serde(default)]
    count_on: bool,
    #[serde(default)]
    limit: Limit,
    #[serde(default)]
    format: Format,
    /// `next_cursor` of the page before: more of the same window, nothing is watched again.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
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

/// Frames, five hundred if nothing is said.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct MaxFrames(#[schemars(range(min = 1, max = LARGEST_WINDOW))] u16);

/// How many frames of a window are listed at most.
const LARGEST_WINDOW: u16 = 5000;

impl Default for MaxFrames {
    fn default() -> Self {
        Self(500)
    }
}

/// What kind of message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    Post,
    Success,
    Error,
    Ticket,
    Event,
    Presence,
    Batch,
    Unreadable,
    Foreign,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// Seconds watched, rounded up.
    #[serde(rename = "watchedFor")]
    watched_for: u64,
    /// Who watched: this process, and a hub that mirrors what it passes on.
    sources: Vec<String>,
    /// What could be seen of each link: `{link, sees, by?, why?}`. `sees` is `everything` (a broker: all this account may
    /// read), `relayed` (a hub that mirrors: what it passes on between two others; not what is to or from itself, not what
    /// enters from another hub, not what is in a batch), `presence` (only who comes and goes: a hub shows a peer nothing
    /// else of others) or `nothing`.
    links: Vec<Json>,
    /// `{at, link, source?, target, kind, what, namespace?, method?, event?, id?, seq?, bytes?, ms?, answer?, without_call?,
    /// repeat?, own?, code?, error?, params?, result?}`, as they came. `ms`, and of an answer `namespace` and `method`, come
    /// from the call it answers; `answer` is what became of a call.
    frames: Vec<Json>,
    /// All that passed peer and namespace, listed or not.
    counts: Counts,
    /// From call to first answer, as heard here.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Latency>,
    not_shown: NotShown,
    /// `time`, or `full` when it ended early because max_frames were listed.
    ended: &'static str,
    /// `{link, from, to?, why}`: when nothing was heard because the connection was lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    interruptions: Vec<Json>,
    /// What else to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Counts {
    frames: u64,
    bytes: u64,
    /// Requests, repeats left out.
    calls: u64,
    /// Calls that were answered.
    pairs: u64,
    /// Calls that were not, to the end.
    unanswered: u64,
    /// Calls whose answer may have come while nothing was heard.
    unheard: u64,
    errors: u64,
    tickets: u64,
    events: u64,
    presence: u64,
    /// Several requests in one, which a hub does not open: their answers are without a call.
    batches: u64,
    /// Answers to calls from before the window, or that nobody was seen to make.
    without_call: u64,
    /// What was heard before.
    repeats: u64,
    /// What cannot be read, whatever peer and namespace.
    unreadable: u64,
    /// Topics under the prefix that are none of the network's.
    foreign: u64,
    /// Sent by this bridge, or to it.
    own: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Latency {
    pairs: u64,
    /// Within two per cent.
    median_ms: f64,
    max_ms: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NotShown {
    /// Heard, and of another peer or namespace.
    filtered: u64,
    /// Heard, and of other kinds.
    other_kinds: u64,
    /// Heard after max_frames were listed.
    over_limit: u64,
    /// Delivered by the broker and dropped here unread because this bridge was too slow.
    dropped: u64,
    dropped_bytes: u64,
    /// Retained by the broker from before; not traffic.
    retained: u64,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "watch_traffic",
        title: "Watch the traffic",
        description: "Listens for some seconds to what peers say to each other and pairs answers with their calls: who called \
                      what, how long it took, what failed, what was never answered. On a broker nobody notices; a hub is \
                      asked to mirror what it passes on, and where it does not only who comes and goes is seen: `links` \
                      says which. Narrow it by peer, namespace and kinds; payloads are left out unless asked for. \
                      This bridge's own frames are marked."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, args.format, args.cursor.as_deref());
    let (number, watched) = match pager.generation()? {
        Some(number) => (number, plant.watched_traffic(number).ok_or_else(Cursors::stale)?),
        None => {
            let request = args.request();
            context.progress.expect(request.window);
            let tell = |frames: u64| context.progress.note(format!("{frames} frames heard"));
            look(&context, async { Ok(plant.watch_traffic(request, tell).await?) }).await?
        }
    };
    let (frames, mut page) = pager.indexed(number, watched.seen.lines.iter().map(|line| shown(&plant, line)))?;
    if let Some(hint) = page.hint.as_mut().filter(|hint| !hint.arguments.contains_key("cursor")) {
        // The same frames in full, not those of another window.
        hint.arguments.insert("cursor".into(), pager.again(number)?.into());
    }
    let seconds = args.seconds.0.into();
    Ok(Answer {
        watched_for: u64::try_from(watched.took.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).min(seconds),
        sources: sources(&watched),
        links: watched.views.iter().map(|view| seen(&plant, view)).collect(),
        frames,
        counts: counts(&watched),
        latency: watched.seen.latency.map(|seen| Latency {
            pairs: seen.pairs,
            median_ms: millis(seen.median),
            max_ms: millis(seen.max),
        }),
        not_shown: not_shown(&watched),
        ended: if watched.full { "full" } else { "time" },
        interruptions: interruptions(&plant, &watched),
        note: note(&plant, &watched),
        page,
        source: Source::bridge(),
    })
}

impl Args {
    fn request(&self) -> WatchTraffic {
        let kinds = self.kinds.iter().flatten().map(|kind| kind.listed()).collect();
        let filter = TrafficFilter {
            peer: self.peer.clone(),
            namespace: self.namespace.clone(),
            kinds,
            payloads: self.payloads,
        };
        WatchTraffic {
            window: Duration::from_secs(self.seconds.0.into()),
            filter,
            most: self.max_frames.0.into(),
            count_on: self.count_on,
        }
    }
}

impl Kind {
    const fn listed(self) -> LineKind {
        match self {
            Self::Post => LineKind::Post,
            Self::Success => LineKind::Success,
            Self::Error => LineKind::Error,
            Self::Ticket => LineKind::Ticket,
            Self::Event => LineKind::Event,
            Self::Presence => LineKind::Presence,
            Self::Batch => LineKind::Batch,
            Self::Unreadable => LineKind::Unreadable,
            Self::Foreign => LineKind::Foreign,
        }
    }

    const fn of(listed: LineKind) -> Self {
        match listed {
            LineKind::Post => Self::Post,
            LineKind::Success => Self::Success,
            LineKind::Error => Self::Error,
            LineKind::Ticket => Self::Ticket,
            LineKind::Event => Self::Event,
            LineKind::Presence => Self::Presence,
            LineKind::Batch => Self::Batch,
            LineKind::Unreadable => Self::Unreadable,
            LineKind::Foreign => Self::Foreign,
        }
    }
}

fn counts(watched: &TrafficWatched) -> Counts {
    let seen = watched.seen.counts;
    Counts {
        frames: seen.frames,
        bytes: seen.bytes,
        calls: seen.calls,
        pairs: seen.answered,
        unanswered: seen.unanswered,
        unheard: seen.unheard,
        errors: seen.errors,
        tickets: seen.tickets,
        events: seen.events,
        presence: seen.presence,
        batches: watched.seen.batches,
        without_call: seen.without_call,
        repeats: seen.repeats,
        unreadable: watched.seen.unreadable,
        foreign: seen.foreign,
        own: seen.own,
    }
}

fn not_shown(watched: &TrafficWatched) -> NotShown {
    let left = watched.seen.not_listed;
    NotShown {
        filtered: left.filtered,
        other_kinds: left.other_kinds,
        over_limit: left.over_limit,
        dropped: watched.dropped.frames,
        dropped_bytes: watched.dropped.bytes,
        retained: watched.kept.frames,
    }
}

fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// One frame; what does not apply is left out.
fn shown(plant: &Plant, line: &Line) -> Json {
    let mut shown = Map::new();
    let mut add = |key: &str, value: Option<Json>| shown.extend(value.map(|value| (key.to_owned(), value)));
    let text = |text: &Option<String>| text.as_deref().map(Json::from);
    let flag = |set: bool| set.then_some(Json::Bool(true));
    add("at", Some(line.at_ms.into()));
    add("link", Some(plant.link_name(line.link).into()));
    add("source", text(&line.source));
    add("target", Some(line.target.as_str().into()));
    add("kind", serde_json::to_value(Kind::of(line.kind)).ok());
    add("what", Some(line.what.into()));
    add("namespace", text(&line.namespace));
    add("method", text(&line.method));
    add("event", text(&line.event));
    add("id", text(&line.id));
    add("seq", line.seq.map(Json::from));
    add("bytes", (line.bytes > 0).then(|| line.bytes.into()));
    add("ms", line.took_us.map(|us| millis(Duration::from_micros(us)).into()));
    add("answer", line.answer.map(|answer| became(answer).into()));
    add("without_call", flag(line.without_call));
    add("repeat", flag(line.repeat));
    add("own", flag(line.own));
    add("code", text(&line.code));
    add("error", text(&line.error));
    let carries = if matches!(line.kind, LineKind::Post | LineKind::Event) { "params" } else { "result" };
    add(carries, line.body.as_ref().map(body));
    Json::Object(shown)
}

const fn became(answer: Answered) -> &'static str {
    match answer {
        Answered::Success => "SUCCESS",
        Answered::Error => "ERROR",
        Answered::Receipt => "receipt",
        Answered::Ticket => "TICKET",
        Answered::Unanswered => "unanswered",
        Answered::Unheard => "unheard",
    }
}

fn body(body: &Body) -> Json {
    match body {
        Body::Whole(value) => tagged::to_json(value.clone()),
        Body::TooLarge(bytes) => json!({"truncated": true, "bytes": bytes}),
    }
}
