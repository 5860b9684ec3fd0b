//! A value as peers exchange it: what MessagePack carries and JSON nearly does (wire.md 3).

use std::collections::HashMap;

use bytes::Bytes;

/// How deep a value may be nested, the innermost scalar counted: 99 lists round a nil pass, 100 do not (W-021).
pub const MAX_DEPTH: usize = 100;

/// How many list items, map keys and map values one payload may hold in all when read: what bounds the memory that a
/// small payload can claim.
pub const MAX_ITEMS: usize = 1 << 20;

/// The largest integer that every peer holds exactly, 2^53−1 (W-020).
pub const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// One value of a frame body.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nil; also what an undefined value becomes.
    Null,
    /// A truth value.
    Bool(bool),
    /// Any integer that fits 64 bits signed. Beyond ±(2^53−1) it is accepted on reading and refused on writing (W-020).
    Int(i64),
    /// Any other number, NaN and the infinities included.
    Float(f64),
    /// Text.
    Text(String),
    /// A byte string.
    Bytes(Bytes),
    /// An instant, in milliseconds since the Unix epoch.
    Date(i64),
    /// An extension this build does not interpret; kept so that a relay loses nothing.
    Ext(i8, Bytes),
    /// A list.
    Array(Vec<Value>),
    /// A map from text to value, in the order it was written.
    Map(Map),
}

/// One part of a map that is written without being built first.
#[derive(Clone, Debug)]
pub(super) enum Part<'a> {
    /// Text.
    Text(&'a str),
    /// A list.
    List(&'a [Value]),
    /// Anything.
    Value(std::borrow::Cow<'a, Value>),
}

impl Value {
    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(bit) = self { Some(*bit) } else { None }
    }

    /// The number as a double, whichever way it was encoded.
    #[expect(clippy::cast_precision_loss, reason = "peers hold numbers as doubles; so does this view of one")]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            Self::Null
            | Self::Bool(_)
            | Self::Text(_)
            | Self::Bytes(_)
            | Self::Date(_)
            | Self::Ext(..)
            | Self::Array(_)
            | Self::Map(_) => None,
        }
    }

    /// The number as an integer, if it has no fraction and fits, whichever way it was encoded (S-032).
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Float(number) if number.fract() == 0.0 && number.abs() < 9.3e18 => Some(*number as i64),
            Self::Float(_)
            | Self::Null
            | Self::Bool(_)
            | Self::Text(_)
            | Self::Bytes(_)
            | Self::Date(_)
            | Self::Ext(..)
            | Self::Array(_)
            | Self::Map(_) => None,
        }
    }

    /// The list, if this is one.
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The map, if this is one.
    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    /// The member `key` of a map; `None` for anything that is no map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_map().and_then(|map| map.get(key))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(bit: bool) -> Self {
        Self::Bool(bit)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::Array(items)
    }
}

/// A map from text to value that keeps the order of writing. Keys are unique; a later one replaces the value in place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    entries: Vec<(String, Value)>,
}

impl Map {
    /// An empty map.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// The value under `key`. Own members only: there is nothing else to find (S-037).
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value under `key`, to change it in place.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.entries.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Sets `key`, in place if it is there already.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        let (key, value) = (key.into(), value.into());
        match self.get_mut(&key) {
            Some(slot) => *slot = value,
            None => self.entries.push((key, value)),
        }
    }

    /// Removes `key` and gives back what it held.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(name, _)| name == key)?;
        Some(self.entries.remove(at).1)
    }

    /// The entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Up to this many entries a scan is cheaper than an index, and beyond it a scan would be quadratic.
const SCANNED: usize = 16;

impl FromIterator<(String, Value)> for Map {
    /// Collects entries; of two equal keys the later value wins, at the place of the first.
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        let mut map = Self { entries: Vec::with_capacity(entries.size_hint().0) };
        let mut index: HashMap<String, usize> = HashMap::new();
        for (key, value) in entries {
            if map.len() < SCANNED {
                map.insert(key, value);
                continue;
            }
            if index.is_empty() {
                index.extend(map.entries.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)));
            }
            match index.get(&key).and_then(|&at| map.entries.get_mut(at)) {
                Some((_, slot)) => *slot = value,
                None => {
                    index.insert(key.clone(), map.entries.len());
                    map.entries.push((key, value));
                }
            }
        }
        map
    }
}

impl IntoIterator for Map {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
