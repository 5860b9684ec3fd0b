//! The code that the script of a fake brings along, read against its contract as everything in a script is.

use std::collections::{BTreeMap, BTreeSet};

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
    /// A program that registers functions.
    pub(in crate::fake) python: Option<Python>,
}

/// A Python program, and the methods it answers.
#[derive(Clone, Debug)]
pub(in crate::fake) struct Python {
    pub(super) program: String,
    pub(super) targets: BTreeSet<Target>,
    /// What runs it, where that is not the Python there is.
    pub(super) interpreter: Option<String>,
}

impl Code {
    /// Whether this method is answered by code.
    pub(in crate::fake) fn answers(&self, target: &Target) -> bool {
        self.handlers.contains_key(target) || self.python.as_ref().is_some_and(|python| python.targets.contains(target))
    }

    /// How many methods are.
    pub(in crate::fake) fn count(&self) -> usize {
        let python = self.python.iter().flat_map(|python| &python.targets);
        self.handlers.len() + python.filter(|target| !self.handlers.contains_key(*target)).count()
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

/// `{program, targets, interpreter?}`.
pub(in crate::fake) fn python(reader: &mut Reader<'_>, value: &Value) -> Option<Python> {
    let map = reader.map(value)?;
    for (key, _) in map.iter().filter(|(key, _)| !["program", "targets", "interpreter"].contains(key)) {
        reader.at(key, |reader| reader.problem("python has program, targets and interpreter"));
    }
    let program = reader.at("program", |reader| {
        let program = map.get("program").and_then(Value::as_str).filter(|program| program.len() <= MAX_SOURCES);
        if program.is_none() {
            reader.problem(format!("expected a program, as text of {MAX_SOURCES} bytes at most"));
        }
        program.map(str::to_owned)
    });
    let targets = reader.at("targets", |reader| targets(reader, map.get("targets")));
    let interpreter = reader.at("interpreter", |reader| interpreter(reader, map.get("interpreter")));
    Some(Python { program: program?, targets, interpreter })
}

fn targets(reader: &mut Reader<'_>, value: Option<&Value>) -> BTreeSet<Target> {
    let Some(items) = value.and_then(Value::as_array).filter(|items| !items.is_empty()) else {
        reader.problem("expected the methods the program answers: [\"ns.method\", …]");
        return BTreeSet::new();
    };
    let mut read = BTreeSet::new();
    for (at, item) in items.iter().enumerate().take(MAX_TARGETS) {
        reader.at(&at.to_string(), |reader| {
            let Some(target) = item.as_str() else {
                reader.problem("expected `namespace.method`, as text");
                return;
            };
            read.extend(reader.method(target).map(|(ns, method)| (ns.name.clone(), method.name.clone())));
        });
    }
    if items.len() > MAX_TARGETS {
        reader.problem(format!("{} methods, and {MAX_TARGETS} is the most", items.len()));
    }
    read
}

/// A name that is looked for on the PATH, or where a file is; no flags and no shell.
fn interpreter(reader: &mut Reader<'_>, value: Option<&Value>) -> Option<String> {
    let value = value.filter(|value| **value != Value::Null)?;
    let plain = |text: &&str| {
        let usable = !text.is_empty() && text.len() <= MAX_INTERPRETER && !text.contains(char::is_control);
        usable && !text.starts_with('-') && (text.starts_with('/') || !text.contains(['/', '\\']))
    };
    let found = value.as_str().filter(plain);
    if found.is_none() {
        reader.problem("expected a Python: a name such as python3.12, or where it is, from / on");
    }
    found.map(str::to_owned)
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
/// Methods that one program answers.
const MAX_TARGETS: usize = 256;
/// Bytes of the name of an interpreter.
const MAX_INTERPRETER: usize = 256;
