//! What part of a component a subscriber wants to see (semantics.md 7.2).

use super::repeats::weigh_value;
use crate::wire::{Map, Value};

/// What part of a component a subscriber wants (semantics.md 7.2).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Projection {
    asked: Value,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    path: Vec<String>,
    slice: Option<(usize, Option<usize>)>,
}

/// What a projection leaves of a component.
pub(super) struct Narrowed {
    pub(super) props: Map,
    pub(super) state: Map,
    pub(super) slices: Vec<Value>,
}

/// How many entries a projection may have; each costs a walk on every commit.
const MAX_ENTRIES: usize = 256;
/// How many bytes a projection may hold; it is kept for as long as its subscriber listens, and sent with every snapshot.
const MAX_WEIGHT: usize = 64 << 10;

impl Projection {
    /// Reads what a subscriber asked for. Null or absent is everything.
    pub(super) fn parse(asked: Option<&Value>) -> Result<Option<Self>, String> {
        let asked = match asked {
            None | Some(Value::Null) => return Ok(None),
            Some(asked) => asked,
        };
        let list = asked
            .as_array()
            .ok_or("a component projection is an array of entries, each a path or a { path, offset, limit } slice")?;
        if list.is_empty() {
            return Err("a component projection naming no paths would subscribe to nothing; omit it to receive the \
                        whole snapshot"
                .into());
        }
        if list.len() > MAX_ENTRIES {
            return Err(format!("a component projection has at most {MAX_ENTRIES} entries"));
        }
        if weigh_value(asked) > MAX_WEIGHT {
            return Err(format!("a component projection has at most {MAX_WEIGHT} bytes"));
        }
        let entries = list.iter().map(Entry::parse).collect::<Result<_, _>>()?;
        Ok(Some(Self { asked: asked.clone(), entries }))
    }

    /// As it was asked for, verbatim.
    pub(super) const fn asked(&self) -> &Value {
        &self.asked
    }

    /// What it leaves.
    pub(super) fn narrow(&self, props: &Map, state: &Map) -> Narrowed {
        let mut narrowed = Narrowed { props: Map::new(), state: Map::new(), slices: Vec::new() };
        for entry in &self.entries {
            let Some((root, rest)) = entry.path.split_first() else { continue };
            let (source, target) = match root.as_str() {
                "props" => (props, &mut narrowed.props),
                "state" => (state, &mut narrowed.state),
                _ => continue,
            };
            match entry.slice {
                None => copy_path(source, target, rest),
                Some((offset, limit)) => {
                    narrowed.slices.push(copy_slice(source, target, rest, &entry.path, offset, limit));
                }
            }
        }
        narrowed
    }
}

impl Entry {
    fn parse(entry: &Value) -> Result<Self, String> {
        const BAD: &str = "a component projection entry is a path of string segments, or a slice naming one as `path`";
        let (path, slice) = match entry {
            Value::Array(_) => (entry, None),
            Value::Map(map) => {
                let path = map.get("path").ok_or(BAD)?;
                (path, Some((bound(map, "offset")?.unwrap_or(0), bound(map, "limit")?)))
            }
            _ => return Err(BAD.into()),
        };
        let segments = path.as_array().ok_or(BAD)?;
        let path = segments
            .iter()
            .map(|segment| segment.as_str().map(str::to_owned).ok_or_else(|| BAD.to_owned()))
            .collect::<Result<_, _>>()?;
        Ok(Self { path, slice })
    }
}

fn bound(slice: &Map, which: &str) -> Result<Option<usize>, String> {
    let Some(value) = slice.get(which) else { return Ok(None) };
    match value.as_i64().and_then(|number| usize::try_from(number).ok()) {
        Some(number) => Ok(Some(number)),
        None => Err(format!("a projection slice's {which} must be a non-negative integer, not {}", shown(value))),
    }
}

/// A value as the refusal above prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(bit) => bit.to_string(),
        Value::Null => "null".into(),
        Value::Bytes(_) | Value::Date(_) | Value::Ext(..) | Value::Array(_) | Value::Map(_) => "[object Object]".into(),
    }
}

/// The member of a map, or the item of a list under its index, written as indices are.
fn step<'a>(value: &'a Value, segment: &str) -> Option<&'a Value> {
    match value {
        Value::Map(map) => map.get(segment),
        Value::Array(items) => {
            let at = segment.parse::<usize>().ok().filter(|at| at.to_string() == segment)?;
            items.get(at)
        }
        _ => None,
    }
}

fn walk<'a>(source: &'a Map, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(source.get(first)?, |value, segment| step(value, segment))
}

/// Copies what `path` reaches; a path that reaches nothing leaves nothing behind.
fn copy_path(source: &Map, target: &mut Map, path: &[String]) {
    if path.is_empty() {
        for (name, value) in source.iter() {
            target.insert(name, value.clone());
        }
    } else if let Some(value) = walk(source, path) {
        place(target, path, value.clone());
    }
}

/// Copies a run of the keys of a map, in code-unit order, and reports what it took.
fn copy_slice(
    source: &Map,
    target: &mut Map,
    path: &[String],
    asked: &[String],
    offset: usize,
    limit: Option<usize>,
) -> Value {
    let whole = if path.is_empty() { Some(source) } else { walk(source, path).and_then(Value::as_map) };
    let mut keys: Vec<&str> = whole.map(|map| map.iter().map(|(name, _)| name).collect()).unwrap_or_default();
    keys.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
    let total = keys.len();
    let taken: Vec<&str> = keys.into_iter().skip(offset).take(limit.unwrap_or(usize::MAX)).collect();
    if let Some(map) = whole {
        for key in &taken {
            let full: Vec<String> = path.iter().cloned().chain([(*key).to_owned()]).collect();
            if let Some(value) = map.get(key) {
                place(target, &full, value.clone());
            }
        }
    }
    let mut report = Map::new();
    report.insert("path", asked.iter().map(|segment| segment.as_str().into()).collect::<Vec<Value>>());
    report.insert("offset", number(offset));
    report.insert("keys", taken.into_iter().map(Value::from).collect::<Vec<Value>>());
    report.insert("total", number(total));
    report.into()
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Puts `value` under `path`, making the maps on the way. What stands on the way and is no map gives way.
fn place(target: &mut Map, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        target.insert(first.as_str(), value);
        return;
    }
    if !matches!(target.get(first), Some(Value::Map(_))) {
        target.insert(first.as_str(), Map::new());
    }
    if let Some(Value::Map(inner)) = target.get_mut(first) {
        place(inner, rest, value);
    }
}
