//! Reads type nodes out of values, within bounds, and remembers what was wrong where.
//!
//! One reader serves both directions: a contract of ours is refused for any problem, a live peer's description keeps
//! what could be read and lists the problems beside it.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::pattern::{MAX_PROGRAM, PatternFault};
use super::problem::{Problem, push_token};
use super::validate::type_name;
use super::{Field, Literal, Pattern, TypeNode, Types};
use crate::wire::{Map, Value};

/// Reads one document. Bounds count over the whole of it, so that many small parts cannot add up to a large one.
#[derive(Default)]
pub(crate) struct Reader {
    pointer: String,
    problems: Vec<Problem>,
    unchecked: Vec<Problem>,
    omitted: usize,
    unchecked_omitted: usize,
    nodes: usize,
    patterns: HashMap<String, Pattern>,
    programs: usize,
}

/// What a finished [`Reader`] has to say.
pub(crate) struct Findings {
    /// Faults of the document.
    pub(crate) problems: Vec<Problem>,
    /// Patterns that are right but are not checked here, with the reason.
    pub(crate) unchecked: Vec<Problem>,
}

impl Reader {
    /// Runs `read` with `token` added to the pointer.
    pub(crate) fn at<T>(&mut self, token: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.pointer.len();
        push_token(&mut self.pointer, token);
        let out = read(self);
        self.pointer.truncate(length);
        out
    }

    /// Runs `read` with the place of an item of a list added to the pointer.
    pub(crate) fn at_index<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.pointer.len();
        let _ = write!(self.pointer, "/{index}");
        let out = read(self);
        self.pointer.truncate(length);
        out
    }

    /// Runs `read` on the member `key` of `map`, if it is there. Null reads as absent.
    pub(crate) fn member<T>(
        &mut self,
        map: &Map,
        key: &str,
        read: impl FnOnce(&mut Self, &Value) -> Option<T>,
    ) -> Option<T> {
        match map.get(key) {
            None | Some(Value::Null) => None,
            Some(value) => self.at(key, |reader| read(reader, value)),
        }
    }

    /// Notes that something is wrong here.
    pub(crate) fn problem(&mut self, what: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { pointer: self.pointer.clone(), what: what.into() });
        } else {
            self.omitted += 1;
        }
    }

    /// Notes that `value` is not what it should be.
    pub(crate) fn unexpected(&mut self, expected: &str, value: &Value) {
        self.problem(format!("expected {expected}, got {}", type_name(Some(value))));
    }

    /// The findings, each list with a last entry that counts what fell over its bound.
    pub(crate) fn finish(mut self) -> Findings {
        let rest = |omitted: usize, what: &str| {
            (omitted > 0)
                .then(|| Problem { pointer: String::new(), what: format!("{omitted} more {what} are not listed") })
        };
        self.problems.extend(rest(self.omitted, "problems"));
        self.unchecked.extend(rest(self.unchecked_omitted, "unchecked patterns"));
        Findings { problems: self.problems, unchecked: self.unchecked }
    }

    /// The map, or a problem.
    pub(crate) fn map<'v>(&mut self, value: &'v Value) -> Option<&'v Map> {
        if value.as_map().is_none() {
            self.unexpected("an object", value);
        }
        value.as_map()
    }

    /// The list up to `limit` entries; a problem when it is none or longer.
    pub(crate) fn list<'v>(&mut self, value: &'v Value, limit: usize) -> Option<&'v [Value]> {
        let Some(items) = value.as_array() else {
            self.unexpected("a list", value);
            return None;
        };
        if items.len() > limit {
            self.problem(format!("{} entries, and only {limit} are read", items.len()));
        }
        Some(items.get(..limit).unwrap_or(items))
    }

    /// The text, or a problem.
    pub(crate) fn text(&mut self, value: &Value) -> Option<String> {
        if value.as_str().is_none() {
            self.unexpected("text", value);
        }
        value.as_str().map(str::to_owned)
    }

    /// The truth value, or a problem.
    pub(crate) fn flag(&mut self, value: &Value) -> Option<bool> {
        if value.as_bool().is_none() {
            self.unexpected("true or false", value);
        }
        value.as_bool()
    }

    /// The texts of a list; entries that are none are problems and left out.
    pub(crate) fn texts(&mut self, value: &Value) -> Option<Vec<String>> {
        let items = self.list(value, MAX_LIST)?;
        let read = |(at, item): (usize, &Value)| self.at_index(at, |reader| reader.text(item));
        Some(items.iter().enumerate().filter_map(read).collect())
    }

    /// Named types.
    pub(crate) fn types(&mut self, value: &Value) -> Types {
        let mut types = Types::default();
        if let Some(map) = self.map(value) {
            for (name, node) in map.iter() {
                let node = self.at(name, |reader| reader.node(node));
                types.insert(name, node);
            }
        }
        types
    }

    /// Named types of a description. Every peer that can be described declares the types of introspection, and most declare
    /// them to the letter: those are not kept once a peer.
    pub(crate) fn described_types(&mut self, value: &Value) -> Types {
        let known = super::introspection();
        let mut types = Types::default();
        let Some(map) = self.map(value) else { return types };
        let (mut others, mut known_ones) = (Vec::new(), 0);
        for (name, node) in map.iter() {
            if known.types.get(name).is_some() && known.types_entry.get(name) == Some(node) {
                known_ones += 1;
            } else {
                others.push((name, node));
            }
        }
        // All of them or none: what a peer does not declare is not declared.
        let shared = known_ones == known.types.len();
        if shared {
            types.share(&known.types);
        }
        for (name, node) in if shared { others } else { map.iter().collect() } {
            let node = self.at(name, |reader| reader.node(node));
            types.insert(name, node);
        }
        types
    }

    /// One type node.
    pub(crate) fn node(&mut self, value: &Value) -> TypeNode {
        self.node_at(value, 0)
    }

    /// A list of type nodes.
    pub(crate) fn nodes(&mut self, value: &Value) -> Option<Vec<TypeNode>> {
        self.nodes_at(value, 0)
    }

    fn nodes_at(&mut self, value: &Value, depth: usize) -> Option<Vec<TypeNode>> {
        let items = self.list(value, MAX_LIST)?;
        let read = |(at, item): (usize, &Value)| self.at_index(at, |reader| reader.node_at(item, depth));
        Some(items.iter().enumerate().map(read).collect())
    }

    fn node_at(&mut self, value: &Value, depth: usize) -> TypeNode {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return self.malformed("type", format!("more than {MAX_NODES} types in one document"));
        }
        if depth > MAX_DEPTH {
            return self.malformed("type", format!("types nested deeper than {MAX_DEPTH} levels"));
        }
        let Some(map) = value.as_map() else {
            return self.malformed("type", format!("expected a type, got {}", type_name(Some(value))));
        };
        match map.get("kind").and_then(Value::as_str) {
            None => self.malformed("type", "a type needs a kind, as text".to_owned()),
            Some(kind) => self.of_kind(kind, map, depth + 1),
        }
    }

    fn of_kind(&mut self, kind: &str, map: &Map, below: usize) -> TypeNode {
        match kind {
            "any" => TypeNode::Any,
            "null" => TypeNode::Null,
            "boolean" => TypeNode::Boolean,
            "date" => TypeNode::Date,
            "number" => TypeNode::Number {
                integer: self.member(map, "integer", Self::flag).unwrap_or(false),
                min: self.member(map, "min", Self::number),
                max: self.member(map, "max", Self::number),
            },
            "string" => TypeNode::Text {
                min_length: self.member(map, "minLength", Self::count),
                max_length: self.member(map, "maxLength", Self::count),
                pattern: self.member(map, "pattern", Self::pattern),
            },
            "bytes" => TypeNode::Bytes { max_bytes: self.member(map, "maxBytes", Self::count) },
            "literal" => self.literal(map),
            "array" => match self.child(map, "items", below) {
                Some(items) => TypeNode::Array { items, max_items: self.member(map, "maxItems", Self::count) },
                None => self.malformed(kind, "an array needs `items`".to_owned()),
            },
            "record" => match self.child(map, "values", below) {
                Some(values) => TypeNode::Record {
                    values,
                    key_pattern: self.member(map, "keyPattern", Self::pattern),
                    max_entries: self.member(map, "maxEntries", Self::count),
                },
                None => self.malformed(kind, "a record needs `values`".to_owned()),
            },
            "tuple" => match self.children(map, "items", below) {
                Some(items) => TypeNode::Tuple { items },
                None => self.malformed(kind, "a tuple needs a list of `items`".to_owned()),
            },
            "union" => match self.children(map, "options", below) {
                Some(options) => TypeNode::Union { options },
                None => self.malformed(kind, "a union needs a list of `options`".to_owned()),
            },
            "object" => self.object(map, below),
            "ref" => match self.member(map, "name", Self::text) {
                Some(name) => TypeNode::Ref { name },
                None => self.malformed(kind, "a ref needs a `name`".to_owned()),
            },
            other => TypeNode::Unknown { kind: other.to_owned() },
        }
    }

    fn child(&mut self, map: &Map, key: &str, depth: usize) -> Option<Box<TypeNode>> {
        self.member(map, key, |reader, value| Some(Box::new(reader.node_at(value, depth))))
    }

    fn children(&mut self, map: &Map, key: &str, depth: usize) -> Option<Vec<TypeNode>> {
        self.member(map, key, |reader, value| reader.nodes_at(value, depth))
    }

    fn literal(&mut self, map: &Map) -> TypeNode {
        match map.get("value") {
            Some(Value::Null) => TypeNode::Literal(Literal::Null),
            Some(Value::Bool(bit)) => TypeNode::Literal(Literal::Bool(*bit)),
            Some(Value::Text(text)) => TypeNode::Literal(Literal::Text(text.clone())),
            Some(value) if value.as_f64().is_some_and(f64::is_finite) => {
                TypeNode::Literal(Literal::Number(value.as_f64().unwrap_or_default()))
            }
            _ => {
                self.malformed("literal", "a literal needs a `value`: text, a number, a truth value or null".to_owned())
            }
        }
    }

    fn object(&mut self, map: &Map, depth: usize) -> TypeNode {
        let fields = self.member(map, "fields", |reader, value| {
            let fields = reader.map(value)?;
            let read = |(name, field): (&str, &Value)| reader.at(name, |reader| reader.field(name, field, depth));
            Some(fields.iter().map(read).collect())
        });
        match fields {
            Some(fields) => {
                let additional = self.member(map, "additional", Self::flag).unwrap_or(false);
                TypeNode::Object { fields, additional }
            }
            None => self.malformed("object", "an object needs `fields`".to_owned()),
        }
    }

    fn field(&mut self, name: &str, value: &Value, depth: usize) -> Field {
        let name = name.to_owned();
        let node = value.as_map().and_then(|map| self.child(map, "type", depth));
        let Some(node) = node else {
            let node = self.malformed("type", "a field needs a `type`".to_owned());
            return Field { name, node, optional: false };
        };
        let optional = value.as_map().and_then(|map| self.member(map, "optional", Self::flag)).unwrap_or(false);
        Field { name, node: *node, optional }
    }

    fn number(&mut self, value: &Value) -> Option<f64> {
        let number = value.as_f64().filter(|number| !number.is_nan());
        if number.is_none() {
            self.unexpected("a number", value);
        }
        number
    }

    fn count(&mut self, value: &Value) -> Option<u64> {
        let count = value.as_i64().and_then(|count| u64::try_from(count).ok());
        if count.is_none() {
            self.problem("expected a whole number, zero or above");
        }
        count
    }

    fn pattern(&mut self, value: &Value) -> Option<Pattern> {
        let text = self.text(value)?;
        if let Some(known) = self.patterns.get(&text) {
            let known = known.clone();
            if let Some(why) = known.unchecked() {
                self.leave_unchecked(why);
            }
            return Some(known);
        }
        let pattern = self.compile(&text).unwrap_or_else(|fault| {
            let why = fault.to_string();
            match fault {
                PatternFault::Syntax { .. } => self.problem(why.clone()),
                PatternFault::Unsupported { .. } | PatternFault::TooLarge => self.leave_unchecked(&why),
            }
            Pattern::left_unchecked(text.clone(), why)
        });
        self.patterns.insert(text, pattern.clone());
        Some(pattern)
    }

    /// Compiles a pattern on the budget of the document: most are small, and a few may be large.
    fn compile(&mut self, text: &str) -> Result<Pattern, PatternFault> {
        match self.compile_within(text, SMALL_PROGRAM) {
            Err(PatternFault::TooLarge) => self.compile_within(text, MAX_PROGRAM),
            compiled => compiled,
        }
    }

    fn compile_within(&mut self, text: &str, size: usize) -> Result<Pattern, PatternFault> {
        if self.programs + size > MAX_PROGRAMS {
            return Err(PatternFault::TooLarge);
        }
        self.programs += size;
        Pattern::parse_within(text, size)
    }

    fn leave_unchecked(&mut self, why: &str) {
        if self.unchecked.len() < MAX_PROBLEMS {
            self.unchecked.push(Problem { pointer: self.pointer.clone(), what: why.to_owned() });
        } else {
            self.unchecked_omitted += 1;
        }
    }

    fn malformed(&mut self, kind: &str, why: String) -> TypeNode {
        self.problem(why.clone());
        TypeNode::Malformed { kind: kind.to_owned(), why }
    }
}

/// Types of one document. The introspection types alone are about 600.
const MAX_NODES: usize = 100_000;
/// Nesting of one type. Nothing deeper than 32 validates, but it must still be told so.
const MAX_DEPTH: usize = 64;
/// Entries of one list of types or texts.
pub(super) const MAX_LIST: usize = 4096;
/// Compiled size that most patterns stay under, in bytes.
const SMALL_PROGRAM: usize = 1 << 15;
/// Compiled size of all patterns of one document together, in bytes.
const MAX_PROGRAMS: usize = 8 << 20;
/// Problems listed for one document.
const MAX_PROBLEMS: usize = 64;
