//! Arguments against the schema that was published, before anything else happens (results.md 3, F-05).
//!
//! The checker understands exactly the keywords our schemas use and reports any other, so that none is ignored by
//! accident. It is ours because the `jsonschema` crate does not speak of `argument`, `expected` and `got`, and because it
//! costs much for so little: thirty crates, and for forty small schemas, in an unoptimized build, 7 ms to compile them and
//! 6 MB more resident (1 MB of it heap), in a process that may take 10 ms to its first answer and 8 MiB in all. Nothing is
//! coerced and nothing is clamped.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use super::{codes::ErrorCode, error::ToolError, text};

/// One compiled schema.
#[derive(Debug, Default)]
pub struct Checker {
    kinds: Vec<Kind>,
    properties: Vec<(String, Checker)>,
    required: Vec<String>,
    closed: bool,
    values: Option<Box<Checker>>,
    items: Option<Box<Checker>>,
    choices: Vec<Json>,
    options: Vec<Checker>,
    least: Option<f64>,
    most: Option<f64>,
    shortest: Option<usize>,
    longest: Option<usize>,
    fewest: Option<usize>,
    fullest: Option<usize>,
}

/// A schema keyword this checker does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported(pub String);

impl Checker {
    /// Compiles `schema`; what it does not understand is reported, never skipped in silence.
    pub fn compile(schema: &Map<String, Json>) -> (Self, Vec<Unsupported>) {
        let mut unsupported = Vec::new();
        (compile(schema, &mut unsupported), unsupported)
    }

    /// Checks the arguments of a call.
    ///
    /// # Errors
    ///
    /// `bad_argument` for the first thing that is wrong.
    pub fn check(&self, arguments: &Map<String, Json>) -> Result<(), ToolError> {
        self.members(arguments, &Path::Root, 1).map_err(Problem::into_error)
    }

    fn value(&self, value: &Json, at: &Path<'_>, depth: usize) -> Result<(), Problem> {
        if depth > MAX_DEPTH {
            return Err(Problem::new(at, format!("at most {MAX_DEPTH} levels of nesting"), "more".to_owned()));
        }
        let kind_fits = self.kinds.is_empty() || self.kinds.iter().any(|kind| kind.holds(value));
        if !kind_fits || !(self.choices.is_empty() || self.choices.contains(value)) {
            return Err(Problem::new(at, self.describe(), got(value)));
        }
        if !self.options.is_empty() && !self.options.iter().any(|option| option.value(value, at, depth).is_ok()) {
            Self::default().value(value, at, depth)?;
            return Err(Problem::new(at, self.describe(), got(value)));
        }
        match value {
            Json::String(text) => self.text(text, at),
            Json::Number(number) => self.number(number, at),
            Json::Array(items) => self.list(items, at, depth),
            Json::Object(members) => self.members(members, at, depth),
            Json::Null | Json::Bool(_) => Ok(()),
        }
    }

    fn text(&self, text: &str, at: &Path<'_>) -> Result<(), Problem> {
        // A schema that allows more than the general bound says so with its own maxLength.
        let bound = self.longest.map_or(MAX_TEXT, |longest| longest.max(MAX_TEXT));
        if text.len() > bound {
            return Err(Problem::new(at, format!("at most {bound} bytes"), format!("{} bytes", text.len())));
        }
        let within = |bound: Option<usize>, fits: fn(usize, usize) -> bool| {
            bound.is_none_or(|bound| fits(text.chars().count(), bound))
        };
        if within(self.shortest, |length, bound| length >= bound)
            && within(self.longest, |length, bound| length <= bound)
        {
            return Ok(());
        }
        Err(Problem::new(at, self.describe(), got(&Json::String(text.to_owned()))))
    }

    fn number(&self, number: &serde_json::Number, at: &Path<'_>) -> Result<(), Problem> {
        let value = number.as_f64().unwrap_or(f64::NAN);
        let fits = self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most);
        if fits { Ok(()) } else { Err(Problem::new(at, self.describe(), number.to_string())) }
    }

    fn list(&self, items: &[Json], at: &Path<'_>, depth: usize) -> Result<(), Problem> {
        let few = self.fewest.is_some_and(|fewest| items.len() < fewest);
        if few || self.fullest.is_some_and(|fullest| items.len() > fullest) {
            return Err(Problem::new(at, self.describe(), format!("{} items", items.len())));
        }
        let item_checker = self.items.as_deref().unwrap_or(&ANYTHING);
        items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| item_checker.value(item, &Path::Index(at, index), depth + 1))
    }

    fn members(&self, members: &Map<String, Json>, at: &Path<'_>, depth: usize) -> Result<(), Problem> {
        for (key, value) in members {
            let here = Path::Key(at, key);
            if key.len() > MAX_TEXT {
                return Err(Problem::new(
                    at,
                    format!("keys of at most {MAX_TEXT} bytes"),
                    format!("{} bytes", key.len()),
                ));
            }
            let known = self.properties.iter().find(|(name, _)| name == key).map(|(_, checker)| checker);
            match known.or(self.values.as_deref()) {
                Some(checker) => checker.value(value, &here, depth + 1)?,
                None if self.closed => {
                    return Err(Problem::new(&here, self.known_names(), got(value)));
                }
                None => ANYTHING.value(value, &here, depth + 1)?,
            }
        }
        match self.required.iter().find(|name| !members.contains_key(*name)) {
            None => Ok(()),
            Some(missing) => {
                let expected = self.properties.iter().find(|(name, _)| name == missing);
                let expected = expected.map_or_else(|| "a value".to_owned(), |(_, checker)| checker.describe());
                Err(Problem::new(&Path::Key(at, missing), expected, "nothing".to_owned()))
            }
        }
    }

    fn known_names(&self) -> String {
        if self.properties.is_empty() {
            return "no arguments".to_owned();
        }
        let names: Vec<_> = self.properties.iter().map(|(name, _)| name.as_str()).collect();
        format!("only {}", names.join(", "))
    }

    fn describe(&self) -> String {
        if !self.choices.is_empty() {
            let choices: Vec<_> = self.choices.iter().map(Json::to_string).collect();
            return format!("one of {}", choices.join(", "));
        }
        if !self.options.is_empty() {
            return self.options.iter().map(Self::describe).collect::<Vec<_>>().join(" or ");
        }
        let kinds: Vec<_> = self.kinds.iter().map(|kind| kind.as_str()).collect();
        let mut out = if kinds.is_empty() { "a value".to_owned() } else { kinds.join(" or ") };
        bounds(&mut out, "", self.least, self.most);
        bounds(&mut out, " characters", self.shortest, self.longest);
        bounds(&mut out, " items", self.fewest, self.fullest);
        out
    }
}

fn bounds<T: std::fmt::Display>(out: &mut String, unit: &str, least: Option<T>, most: Option<T>) {
    let _ = match (least, most) {
        (Some(least), Some(most)) => write!(out, " from {least} to {most}{unit}"),
        (Some(least), None) => write!(out, ", at least {least}{unit}"),
        (None, Some(most)) => write!(out, ", at most {most}{unit}"),
        (None, None) => Ok(()),
    };
}

fn compile(schema: &Map<String, Json>, unsupported: &mut Vec<Unsupported>) -> Checker {
    let mut checker = Checker::default();
    for (keyword, value) in schema {
        if !checker.keyword(keyword, value, unsupported) {
            unsupported.push(Unsupported(format!("{keyword}: {value}")));
        }
    }
    checker
}

impl Checker {
    /// Takes in one keyword; false if it is not understood.
    fn keyword(&mut self, keyword: &str, value: &Json, unsupported: &mut Vec<Unsupported>) -> bool {
        match (keyword, value) {
            ("description" | "default" | "examples", _) => {}
            ("type", Json::String(kind)) if Kind::of(kind).is_some() => self.kinds.extend(Kind::of(kind)),
            ("type", Json::Array(names)) => {
                self.kinds.extend(names.iter().filter_map(Json::as_str).filter_map(Kind::of));
                return self.kinds.len() == names.len();
            }
            ("properties", Json::Object(properties)) => {
                for (name, property) in properties {
                    self.properties.push((name.clone(), compile_value(property, unsupported)));
                }
            }
            ("required", Json::Array(names)) => {
                self.required.extend(names.iter().filter_map(Json::as_str).map(str::to_owned));
            }
            ("additionalProperties", Json::Bool(open)) => self.closed = !open,
            ("additionalProperties", values) => self.values = Some(Box::new(compile_value(values, unsupported))),
            ("items", items) => self.items = Some(Box::new(compile_value(items, unsupported))),
            ("enum", Json::Array(choices)) => self.choices.extend(choices.iter().cloned()),
            ("const", choice) => self.choices.push(choice.clone()),
            ("anyOf" | "oneOf", Json::Array(options)) => {
                self.options.extend(options.iter().map(|option| compile_value(option, unsupported)));
            }
            _ => return self.bound(keyword, value),
        }
        true
    }

    fn bound(&mut self, keyword: &str, value: &Json) -> bool {
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        match keyword {
            "minimum" => self.least = value.as_f64(),
            "maximum" => self.most = value.as_f64(),
            "minLength" => self.shortest = count,
            "maxLength" => self.longest = count,
            "minItems" => self.fewest = count,
            "maxItems" => self.fullest = count,
            _ => return false,
        }
        value.is_number()
    }
}

fn compile_value(schema: &Json, unsupported: &mut Vec<Unsupported>) -> Checker {
    match schema {
        Json::Object(members) => compile(members, unsupported),
        Json::Bool(true) => Checker::default(),
        other => {
            unsupported.push(Unsupported(other.to_string()));
            Checker::default()
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        let all = [Self::Null, Self::Boolean, Self::Integer, Self::Number, Self::String, Self::Array, Self::Object];
        all.into_iter().find(|kind| kind.as_str() == name)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    fn holds(self, value: &Json) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

/// Where a value stands, kept on the stack: the pointer is only written down when something is wrong.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn write(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Key(parent, key) => {
                parent.write(out);
                let (key, _) = text::cut(key, MAX_SHOWN);
                let _ = write!(out, "/{}", text::one_line(&key.replace('~', "~0").replace('/', "~1")));
            }
            Self::Index(parent, index) => {
                parent.write(out);
                let _ = write!(out, "/{index}");
            }
        }
    }
}

struct Problem(Box<(String, String, String)>);

impl Problem {
    fn new(at: &Path<'_>, expected: String, got: String) -> Self {
        let mut pointer = String::new();
        at.write(&mut pointer);
        Self(Box::new((pointer, expected, got)))
    }

    fn into_error(self) -> ToolError {
        let (pointer, expected, got) = *self.0;
        bad_argument(&pointer, &expected, &got)
    }
}

/// The refusal of an argument.
pub fn bad_argument(pointer: &str, expected: &str, got: &str) -> ToolError {
    let name = if pointer.is_empty() { "the arguments" } else { pointer };
    ToolError::new(ErrorCode::BadArgument, format!("{name}: expected {expected}, got {got}"))
        .argument(pointer)
        .expected(expected)
        .got(got)
}

/// An argument of the right JSON type that cannot be used, with what is wrong with it.
pub fn unusable_argument(pointer: &str, expected: &str, problem: &str) -> ToolError {
    ToolError::new(ErrorCode::BadArgument, format!("{pointer}: {problem}; expected {expected}"))
        .argument(pointer)
        .expected(expected)
        .problem(problem)
}

/// A value as an error shows it: short, on one line.
pub fn got(value: &Json) -> String {
    match value {
        Json::String(long) => {
            let (kept, cut) = text::cut(long, MAX_SHOWN);
            let end = if cut { text::ELLIPSIS } else { "" };
            format!("string {}", text::compact(&format!("{kept}{end}")))
        }
        Json::Array(items) => format!("array of {}", items.len()),
        Json::Object(members) => format!("object of {}", members.len()),
        Json::Null | Json::Bool(_) | Json::Number(_) => value.to_string(),
    }
}

static ANYTHING: Checker = Checker {
    kinds: Vec::new(),
    properties: Vec::new(),
    required: Vec::new(),
    closed: false,
    values: None,
    items: None,
    choices: Vec::new(),
    options: Vec::new(),
    least: None,
    most: None,
    shortest: None,
    longest: None,
    fewest: None,
    fullest: None,
};

/// Bytes a string may have, unless its schema allows more.
const MAX_TEXT: usize = 64 * 1024;
/// Levels arguments may nest.
const MAX_DEPTH: usize = 64;
/// Bytes of a value that an error shows.
const MAX_SHOWN: usize = 80;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checker() -> Checker {
        let schema = json!({
            "type": "object",
            "properties": {
                "peer": {"type": "string", "minLength": 1, "maxLength": 8, "description": "x"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
                "ratio": {"type": "number"},
                "format": {"type": "string", "enum": ["concise", "detailed"]},
                "args": {"type": "array", "items": {}, "maxItems": 3},
                "path": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
                "named": {"type": "object", "additionalProperties": {"type": "integer"}},
                "any": true,
                "source": {"type": "string", "maxLength": 262_144}
            },
            "required": ["peer"],
            "additionalProperties": false
        });
        let (checker, unsupported) = Checker::compile(schema.as_object().unwrap());
        assert_eq!(unsupported, []);
        checker
    }

    fn refusal(arguments: &Json) -> (String, String, String) {
        let error = checker().check(arguments.as_object().unwrap()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::BadArgument);
        let field = |key| error.get(key).unwrap().as_str().unwrap().to_owned();
        (field("argument"), field("expected"), field("got"))
    }

    #[test]
    fn what_fits_passes() {
        for arguments in [
            json!({"peer": "oven"}),
            json!({"peer": "oven", "limit": 500, "ratio": 1, "format": "concise", "args": [1, null, {}]}),
            json!({"peer": "ö", "path": "a"}),
            json!({"peer": "ö", "path": ["a", "b"], "named": {"x": 1}, "any": {"y": [null]}}),
            json!({"peer": "x", "source": "y".repeat(262_144)}),
        ] {
            checker().check(arguments.as_object().unwrap()).unwrap();
        }
    }

    /// results.md 3, F-05: each kind of wrong argument is refused, and the error says which, what and instead of what.
    #[test]
    fn what_does_not_fit_is_named() {
        for (arguments, pointer, expected, got) in [
            (json!({}), "/peer", "string from 1 to 8 characters", "nothing"),
            (json!({"peer": 5}), "/peer", "string from 1 to 8 characters", "5"),
            (json!({"peer": null}), "/peer", "string from 1 to 8 characters", "null"),
            (json!({"peer": ""}), "/peer", "string from 1 to 8 characters", "string \"\""),
            (json!({"peer": "x", "limit": 0}), "/limit", "integer from 1 to 500", "0"),
            (json!({"peer": "x", "limit": 501}), "/limit", "integer from 1 to 500", "501"),
            (json!({"peer": "x", "limit": 1.5}), "/limit", "integer from 1 to 500", "1.5"),
            (json!({"peer": "x", "limit": "5"}), "/limit", "integer from 1 to 500", "string \"5\""),
            (json!({"peer": "x", "format": "full"}), "/format", "one of \"concise\", \"detailed\"", "string \"full\""),
            (json!({"peer": "x", "args": "a"}), "/args", "array, at most 3 items", "string \"a\""),
            (json!({"peer": "x", "args": {"0": 1}}), "/args", "array, at most 3 items", "object of 1"),
            (json!({"peer": "x", "args": [1, 2, 3, 4]}), "/args", "array, at most 3 items", "4 items"),
            (json!({"peer": "x", "path": 7}), "/path", "string or array", "7"),
            (json!({"peer": "x", "named": {"a/b": "c"}}), "/named/a~1b", "integer", "string \"c\""),
        ] {
            assert_eq!(refusal(&arguments), (pointer.into(), expected.into(), got.into()), "{arguments}");
        }
    }

    /// results.md 3: an unknown key is refused, and the error names the known ones.
    #[test]
    fn an_unknown_argument_is_refused() {
        let (pointer, expected, _) = refusal(&json!({"peer": "x", "peeer": 1}));
        assert_eq!(pointer, "/peeer");
        assert!(expected.starts_with("only peer, limit"), "{expected}");
    }

    /// results.md 3: a string over 64 KiB and nesting over 64 levels are refused wherever they stand.
    #[test]
    fn size_and_depth_are_bounded_everywhere() {
        let (pointer, expected, _) = refusal(&json!({"peer": "x", "any": [{"k": "y".repeat(65_537)}]}));
        assert_eq!((pointer.as_str(), expected.as_str()), ("/any/0/k", "at most 65536 bytes"));
        let nest = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let deepest = json!({"peer": "x", "any": nest(62)});
        checker().check(deepest.as_object().unwrap()).unwrap();
        let (pointer, expected, _) = refusal(&json!({"peer": "x", "any": nest(64)}));
        assert!(pointer.starts_with("/any/0/0") && expected.contains("64 levels"), "{pointer} {expected}");
    }

    /// A keyword this checker does not know is reported, so that a schema cannot promise what nobody enforces.
    #[test]
    fn an_unknown_keyword_is_reported() {
        let schema = json!({"properties": {"a": {"type": "string", "pattern": "^x$"}, "b": {"type": "text"}}, "uniqueItems": true});
        let (_, unsupported) = Checker::compile(schema.as_object().unwrap());
        assert_eq!(unsupported.len(), 3, "{unsupported:?}");
    }
}
