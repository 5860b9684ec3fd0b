//! What the tools on rows of a store share: ids as they are spelled, the next call, refusals of a store.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{TimeoutMs, WaitSeconds};
use crate::{
    mcp::{ErrorCode, NextCall, ToolError},
    plant::{PlantError, Store},
    wire::{Value, value::MAX_SAFE_INTEGER},
};

/// The id of a row: text or an integer, given as it was read, because `2`, `"2"` and `"02"` are three ids to a stamp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum RowId {
    Text(String),
    Integer(i64),
}

impl RowId {
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Integer(number) => (*number).into(),
        }
    }
}

impl JsonSchema for RowId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RowId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": ["string", "integer"], "minimum": -MAX_SAFE_INTEGER, "maximum": MAX_SAFE_INTEGER
        })
    }
}

/// The store that arguments name.
pub(super) fn store(peer: &str, namespace: &str, timeout: Option<TimeoutMs>, wait: WaitSeconds) -> Store {
    Store {
        peer: peer.into(),
        namespace: namespace.into(),
        timeout: timeout.map(TimeoutMs::duration),
        wait: wait.duration(),
    }
}

/// A call of one of these tools.
pub(super) fn next(tool: &str, peer: &str, namespace: &str, more: &[(&str, Json)]) -> NextCall {
    let mut arguments = Map::new();
    arguments.insert("peer".into(), peer.into());
    arguments.insert("namespace".into(), namespace.into());
    arguments.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    NextCall::new(tool, arguments)
}

/// The same in a sentence.
pub(super) fn said(call: &NextCall) -> String {
    format!("{} {}", call.tool, json!(call.arguments))
}

/// What a store refused, with the way to what it would take; what is in doubt, with the read that settles it.
pub(super) fn refused(error: PlantError, peer: &str, namespace: &str, settle: Option<&NextCall>) -> ToolError {
    let error = ToolError::from(error);
    match (error.code(), settle) {
        (ErrorCode::PeerRefused, _) if error.get("peer_error").is_some() => {
            let next = next("list_writable", peer, namespace, &[]);
            error.fix(format!("{} shows what may be written here", said(&next)))
        }
        (ErrorCode::UnknownOutcome, Some(read)) => error
            .fix(format!("do not repeat it; see what the store holds: {}, and decide again", said(read)))
            .settle_with(read),
        _ => error,
    }
}
