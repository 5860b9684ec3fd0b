//! The read that settles an unknown outcome: one that can be made, or the word that there is none.

use serde_json::{Map, Value as Json};

use super::{NextCall, ToolError};
use crate::plant::{Plant, Shows, Target};

/// What to do when nothing of the namespace shows what became of a command.
pub(super) const NOTHING_SHOWS: &str =
    "do not repeat it; nothing this namespace declares shows what became of it: ask a person to look at the plant";

/// The read that shows what became of a command, if anything does.
pub(super) fn settling(plant: &Plant, target: &Target) -> Option<NextCall> {
    read_of(plant, target.peer.as_str(), &target.namespace)
}

fn read_of(plant: &Plant, peer: &str, namespace: &str) -> Option<NextCall> {
    match plant.what_shows(peer, namespace) {
        Shows::State => Some(read_state(peer, namespace)),
        Shows::Query(method) => {
            let mut read = read_state(peer, namespace);
            read.tool = "call_method".into();
            read.arguments.insert("method".into(), method.into());
            Some(read)
        }
        Shows::Nothing => None,
    }
}

pub(crate) fn read_state(peer: &str, namespace: &str) -> NextCall {
    let mut arguments = Map::new();
    arguments.insert("peer".into(), peer.into());
    arguments.insert("namespace".into(), namespace.into());
    NextCall::new("read_state", arguments)
}

/// What to do instead of repeating a command.
pub(super) fn instead(read: &NextCall) -> String {
    let arguments = Json::Object(read.arguments.clone());
    format!("do not repeat it; see what the plant holds: {} {arguments}", read.tool)
}

/// The same error, naming a read that its peer can answer. What a tool settles in its own way is left as it is.
pub(super) fn settled(plant: &Plant, error: ToolError) -> ToolError {
    let text = |name: &str| error.get("settle_with")?.pointer(name)?.as_str().map(str::to_owned);
    let by_state = text("/tool").is_some_and(|tool| tool == "read_state");
    let Some((peer, namespace)) = text("/arguments/peer").zip(text("/arguments/namespace")).filter(|_| by_state) else {
        return error;
    };
    match read_of(plant, &peer, &namespace) {
        Some(read) => error.fix(instead(&read)).settle_with(&read),
        None => error.fix(NOTHING_SHOWS).without("settle_with"),
    }
}
