//! The tools, one file each: what a verb of the plant looks like to a model. Adding one is a file and a line in [`all`].

mod add_package;
mod bridge_status;
mod call_method;
mod check_peer;
mod contract_argument;
mod delete_contract;
mod delete_script;
mod describe_peer;
mod diff_peers;
mod find_capability;
mod list_contracts;
mod list_fakes;
mod list_packages;
mod list_peers;
mod list_rows;
mod list_scripts;
mod list_watches;
mod list_writable;
mod loss;
mod read_context;
mod read_contract;
mod read_row;
mod read_script;
mod read_state;
mod read_ticket;
mod read_watch;
mod release_control;
mod remove_package;
mod rows;
mod save_contract;
mod save_script;
mod script_output;
mod scripts;
mod set_state;
mod start_fake;
mod start_script;
mod start_watch;
mod stop_fake;
mod stop_script;
mod stop_watch;
mod take_control;
mod traffic_views;
mod watch_events;
mod watch_traffic;
mod write_row;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{CallContext, ErrorCode, Source, Tool, ToolError, check::unusable_argument, tagged, text};
use crate::{
    contract::path::{PathFault, Segments},
    plant::{Plant, Principal},
    wire::{PeerName, Value, instant},
};

// The same things, as the subcommands for people show them.
pub(crate) use self::{
    call_method::milliseconds,
    check_peer::{breaking_shown, unchecked_words},
    describe_peer::outline,
    diff_peers::difference_shown,
    list_peers::peer_detail,
    loss::LossDetail,
    read_ticket::judged,
};

/// Every tool there is, in the order clients see them.
pub fn all() -> Vec<Tool> {
    vec![
        list_peers::tool(),
        describe_peer::tool(),
        find_capability::tool(),
        call_method::tool(),
        read_state::tool(),
        set_state::tool(),
        read_context::tool(),
        list_writable::tool(),
        list_rows::tool(),
        read_row::tool(),
        write_row::tool(),
        watch_events::tool(),
        start_watch::tool(),
        read_watch::tool(),
        list_watches::tool(),
        stop_watch::tool(),
        watch_traffic::tool(),
        read_ticket::tool(),
        take_control::tool(),
        release_control::tool(),
        check_peer::tool(),
        diff_peers::tool(),
        save_contract::tool(),
        list_contracts::tool(),
        read_contract::tool(),
        delete_contract::tool(),
        start_fake::tool(),
        stop_fake::tool(),
        list_fakes::tool(),
        save_script::tool(),
        list_scripts::tool(),
        read_script::tool(),
        start_script::tool(),
        script_output::tool(),
        stop_script::tool(),
        delete_script::tool(),
        list_packages::tool(),
        add_package::tool(),
        remove_package::tool(),
        bridge_status::tool(),
    ]
}

/// How long a call waits for a peer that is not there, or for an answer that follows later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct WaitSeconds(#[schemars(range(min = 0, max = 60))] u8);

impl WaitSeconds {
    fn duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference to what decides about skipping")]
    fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

/// How long an answer is awaited, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct TimeoutMs(#[schemars(range(min = 1, max = 60_000))] u32);

impl TimeoutMs {
    fn duration(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

/// A path into a component's state: `a.b.c`, a JSON Pointer, or a list of segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum PathArgument {
    /// Dots between segments, or a JSON Pointer beginning with a slash.
    Text(String),
    /// Segments as they are, for names that contain dots.
    Segments(Vec<String>),
}

impl PathArgument {
    /// The segments; `pointer` is where the path stands among the arguments.
    fn segments(self, pointer: &str) -> Result<Segments, ToolError> {
        let segments = match self {
            Self::Text(text) => Segments::parse(&text),
            Self::Segments(segments) => Segments::from_list(segments),
        };
        segments.map_err(|fault: PathFault| {
            let expected = "a.b.c, a JSON Pointer such as /a/b.c, or a list of segments";
            unusable_argument(pointer, expected, &fault.to_string())
        })
    }
}

/// On whose behalf a tool acts.
fn principal(context: &CallContext) -> Principal {
    Principal { client: context.client.to_string(), read_only: context.read_only, entry: context.entry.clone() }
}

/// A value of the plant from an argument.
fn plant_value(json: Json, pointer: &str) -> Result<Value, ToolError> {
    tagged::from_json(json).map_err(|error| {
        unusable_argument(&format!("{pointer}{}", error.pointer), "a value the plant can hold", &error.problem)
    })
}

/// The arguments of a call as they are to be repeated for the next page.
fn repeatable<A: Serialize>(args: &A) -> Map<String, Json> {
    match serde_json::to_value(args) {
        Ok(Json::Object(mut map)) => {
            map.shift_remove("cursor");
            map
        }
        _ => Map::new(),
    }
}

/// Does a look until it is done or nobody waits for it any more; then what it opened is closed by dropping it.
async fn look<T>(context: &CallContext, work: impl Future<Output = Result<T, ToolError>>) -> Result<T, ToolError> {
    tokio::select! {
        done = work => done,
        () = context.cancel.cancelled() => Err(ToolError::new(ErrorCode::Cancelled, "the client stopped waiting")),
    }
}

/// A value of the plant as a result shows it: whole up to a bound, beyond it the head of its text and its size. What a
/// model cannot hold helps it as little as what never came.
fn shown(value: Value) -> Json {
    shown_within(value, LARGEST_VALUE, SHOWN_HEAD)
}

/// The same with bounds of its own.
fn shown_within(value: Value, most: usize, head: usize) -> Json {
    cut(tagged::to_json(value), most, head)
}

/// The same of what is JSON already.
pub(in crate::mcp) fn whole_or_head(json: Json) -> Json {
    cut(json, LARGEST_VALUE, SHOWN_HEAD)
}

fn cut(json: Json, most: usize, head: usize) -> Json {
    let written = serde_json::to_string(&json).unwrap_or_default();
    if written.len() <= most {
        return json;
    }
    let (head, _) = text::cut(&written, head);
    serde_json::json!({"truncated": true, "bytes": written.len(), "head": head})
}

/// A name a peer gives something, cut where it is no name any more.
fn named(name: &str) -> String {
    match text::cut(name, LONGEST_NAME) {
        (head, true) => format!("{head}{}", text::ELLIPSIS),
        (whole, false) => whole.to_owned(),
    }
}

/// A line somebody's program wrote, cut where it is longer than an entry of a page may be.
fn shown_line(line: &str) -> String {
    match text::cut(line, LONGEST_LINE) {
        (head, true) => format!("{head}{}", text::ELLIPSIS),
        (whole, false) => whole.to_owned(),
    }
}

/// The first of many texts, each cut where it is no name any more, and how many are left out.
fn few(texts: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = texts.iter().take(FEW).map(|text| named(text)).collect();
    if texts.len() > FEW {
        shown.push(format!("{} and {} more", text::ELLIPSIS, texts.len() - FEW));
    }
    shown
}

/// A number that stays the same as long as what was found does: a list that is made anew for every page is bound to it.
fn unchanged(found: &impl std::fmt::Debug) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    format!("{found:?}").hash(&mut hasher);
    hasher.finish()
}

/// Texts of a list that stands beside a page.
const FEW: usize = 50;
/// The longest name that a result carries whole, in bytes.
const LONGEST_NAME: usize = 1_024;
/// The longest line of a program that a result carries whole, in bytes.
const LONGEST_LINE: usize = 12 * 1024;
/// The largest value, as JSON text, that a result carries whole.
const LARGEST_VALUE: usize = 256 * 1024;
/// How much of a larger one is shown.
const SHOWN_HEAD: usize = 12 * 1024;

/// Where a peer's words come from.
fn source(peer: &str, fake: bool) -> Source {
    if fake { Source::fake(peer) } else { Source::live(peer) }
}

/// The same, where the verb does not say what the peer is.
async fn source_of(plant: &Plant, peer: &PeerName) -> Source {
    source(peer.as_str(), plant.speaks_as_fake(peer).await)
}

/// A moment as results write it.
fn moment(unix_ms: i64) -> String {
    instant::format(unix_ms)
}
