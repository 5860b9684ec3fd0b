//! What the watching tools share: how loss, a cursor and a standing watch look in a result.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

use super::{moment, shown_within};
use crate::{
    contract::path::Segments,
    node::Stream,
    plant::{Cursor, Loss, WatchLine, WatchTarget},
    wire::Value,
};

/// What is known of loss.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LossDetail {
    /// `first`, `gapless` (proven), `missed`, `unknowable` (the peer restarted) or `unknown`.
    verdict: &'static str,
    /// The number of the first emission judged; null if none fired or none is numbered.
    from: Option<u64>,
    /// That of the last.
    to: Option<u64>,
    /// Those not heard, as first and last of each stretch.
    missing: Vec<(u64, u64)>,
    /// How many are missing in all.
    missed: u64,
    /// Stretches beyond those shown.
    #[serde(skip_serializing_if = "is_zero")]
    missing_not_shown: usize,
    /// Deliveries that repeated another.
    duplicates: u64,
    /// What each incarnation of the peer proves by itself, if there was more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    epochs: Vec<Incarnation>,
}

/// What one incarnation proves.
#[derive(Debug, Serialize, JsonSchema)]
struct Incarnation {
    epoch: String,
    from: u64,
    to: u64,
    missing: Vec<(u64, u64)>,
}

/// How far a peer has counted.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CursorShown {
    /// The incarnation of the peer.
    epoch: String,
    /// How many it emitted.
    seq: u64,
    /// Since when it counts, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
}

/// How many stretches a result shows.
const SHOWN: usize = 50;
/// More bytes than this of one entry are cut to a head.
const LARGEST: usize = 12_288;
/// What is left of it.
const HEAD: usize = 4_096;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference to what decides about skipping")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl From<&Loss> for LossDetail {
    fn from(loss: &Loss) -> Self {
        let shown = |missing: &[(u64, u64)]| missing.iter().take(SHOWN).copied().collect();
        let epochs = loss.epochs.iter().map(|epoch| Incarnation {
            epoch: epoch.epoch.clone(),
            from: epoch.from,
            to: epoch.to,
            missing: shown(&epoch.missing),
        });
        Self {
            verdict: loss.verdict.as_str(),
            from: loss.from,
            to: loss.to,
            missing: shown(&loss.missing),
            missed: loss.missed,
            missing_not_shown: loss.missing.len().saturating_sub(SHOWN),
            duplicates: loss.duplicates,
            epochs: epochs.collect(),
        }
    }
}

impl From<Cursor> for CursorShown {
    fn from(Cursor { epoch, seq, since }: Cursor) -> Self {
        Self { epoch, seq, since }
    }
}

/// The arguments of an event.
pub(super) fn args(args: Vec<Value>) -> Vec<Json> {
    match shown_within(Value::Array(args), LARGEST, HEAD) {
        Json::Array(args) => args,
        head => vec![head],
    }
}

/// What to know of an event that its peer does not declare.
pub(super) fn undeclared(declared: Option<bool>, nearest: &[String], stream: &Stream) -> Option<String> {
    let note = || {
        let Stream { peer, namespace, event } = stream;
        format!(
            "{peer} does not declare '{event}': {namespace} declares {}; what is not declared is counted only from the \
             first time somebody asks",
            listed(nearest)
        )
    };
    (declared == Some(false)).then(note)
}

/// What to know of paths that a component does not declare.
pub(super) fn lacking(paths: &[(String, Vec<String>)]) -> Option<String> {
    let each = paths.iter().map(|(path, there)| format!("'{path}' (there: {})", listed(there)));
    let each = each.collect::<Vec<_>>().join(", ");
    (!each.is_empty()).then(|| format!("the component does not declare {each}; nothing may ever change there"))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A value of an entry.
pub(super) fn value(value: Value) -> Json {
    shown_within(value, LARGEST, HEAD)
}

/// A standing watch.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WatchShown {
    /// Its id.
    pub(super) watch: String,
    /// `peer.namespace.event`, or `peer.namespace` for a component's state.
    of: String,
    /// `event`, `state` (every snapshot) or `changes` (what changes at the paths).
    kind: &'static str,
    /// The paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<String>,
    /// Who started it.
    started_by: String,
    started_at: String,
    /// Records written since then.
    written: u64,
    /// Records still held; older ones fell off.
    held: usize,
    /// Whether the peer has the subscription now, as far as is known.
    attached: bool,
    /// It ends after so many seconds unless somebody reads it.
    ends_in_seconds: u64,
}

impl From<WatchLine> for WatchShown {
    fn from(line: WatchLine) -> Self {
        let (stream, component) = (&line.stream, format!("{}.{}", line.stream.peer, line.stream.namespace));
        let (of, kind, paths) = match &line.target {
            WatchTarget::Event(_) => (format!("{component}.{}", stream.event), "event", Vec::new()),
            WatchTarget::State(paths) if paths.is_empty() => (component, "state", Vec::new()),
            WatchTarget::State(paths) => (component, "changes", paths.iter().map(Segments::to_string).collect()),
        };
        Self {
            watch: line.id,
            of,
            kind,
            paths,
            started_by: line.client,
            started_at: moment(line.started_ms),
            written: line.written,
            held: line.held,
            attached: line.attached,
            ends_in_seconds: line.idle_left.as_secs(),
        }
    }
}
