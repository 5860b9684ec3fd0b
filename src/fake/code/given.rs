//! The code that the script of a fake brings along, read against its contract as everything in a script is.

use std::collections::BTreeMap;

use super::super::script::{Reader, Target};
use crate::{
    contract::{Method, Namespace},
    wire::{Map, Value},
};

/// What a script brings along, and what it is for.
#[derive(Clone, Debug, Default)]
pub(in crate::fake) struct Code {
    /// The source of each JavaScript handler.
    pub(in crate::fake) handlers: BTreeMap<Target, String>,
    /// What handlers share at first.
    pub(in crate::fake) state: Map,
}

impl Code {
    /// Whether this method is answered by code.
    pub(in crate::fake) fn answers(&self, target: &Target) -> bool {
        self.handlers.contains_key(target)
    }

    /// How many methods are.
    pub(in crate::fake) fn count(&self) -> usize {
        self.handlers.len()
    }
}

/// Which fields of a script bring code along (semantics 11.3). Empty handlers are none.
pub(in crate::fake) fn fields(document: &Value) -> Vec<&'static str> {
    let present = |key: &str| document.get(key).filter(|value| **value != Value::Null);
    let handlers = present("handlers").is_some_and(|handlers| handlers.as_map().is_none_or(|map| !map.is_empty()));
    let uses = [("handlers", handlers), ("python", present("python").is_some())];
    uses.into_iter().filter(|(_, used)| *used).map(|(name, _)| name).collect()
}

/// `{"ns.method": source}`.
pub(in crate::fake) fn handlers(reader: &mut Reader<'_>, value: &Value) -> BTreeMap<Target, String> {
    let read = reader.targets(value, source);
    let total: usize = read.values().map(String::len).sum();
    if total > MAX_SOURCES {
        reader.problem(format!("{total} bytes of source, and {MAX_SOURCES} is the most"));
    }
    read.into_iter().collect()
}

fn source(reader: &mut Reader<'_>, _: &Namespace, _: &Method, value: &Value) -> Option<String> {
    let source = value.as_str();
    if source.is_none() {
        reader.problem("expected the source of a function, as text: \"(a, b) => …\"");
    }
    source.map(str::to_owned)
}

/// What handlers share at first.
pub(in crate::fake) fn state(reader: &mut Reader<'_>, value: &Value) -> Map {
    let state = reader.map(value).cloned().unwrap_or_default();
    let size = crate::wire::json::encode(&Value::from(state.clone())).map_or(0, |text| text.len());
    if size > MAX_STATE {
        reader.problem(format!("{size} bytes, and handlers share {MAX_STATE} at most"));
    }
    state
}

/// Source of all handlers of a fake, in bytes.
const MAX_SOURCES: usize = 256 << 10;
/// What they share at first, as JSON.
const MAX_STATE: usize = 256 << 10;
