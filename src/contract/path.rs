//! Paths into component state: how they are written, what stands at them, and which method sets them (semantics 7.4).

use std::fmt;

use super::{Method, Namespace, Sets, TypeNode, Types};
use crate::wire::Value;

/// A path as its segments, at least one, none empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segments(Vec<String>);

/// Why something is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// No segments at all.
    #[error("a path names at least one member")]
    Empty,
    /// Nothing between two separators.
    #[error("a path has no empty segments")]
    EmptySegment,
    /// A pointer escape other than `~0` and `~1`.
    #[error("in a JSON Pointer `~` is followed by 0 or 1")]
    Escape,
    /// More segments than any state is deep.
    #[error("a path has at most {MAX_SEGMENTS} segments")]
    TooLong,
    /// Neither text nor a list of texts.
    #[error("a path is text or a list of texts")]
    NotAPath,
}

impl Segments {
    /// Reads `a.b.c`, or a JSON Pointer when the text begins with a slash.
    ///
    /// # Errors
    ///
    /// When it is empty, too long, or has a segment that is.
    pub fn parse(text: &str) -> Result<Self, PathFault> {
        match text.strip_prefix('/') {
            Some(pointer) => {
                // Bounded before it is unescaped: a path of a million slashes costs no more than a short one.
                let tokens = pointer.split('/').take(MAX_SEGMENTS + 1).map(unescape);
                Self::from_list(tokens.collect::<Result<_, _>>()?)
            }
            None if text.is_empty() => Err(PathFault::Empty),
            None => Self::from_list(text.split('.').take(MAX_SEGMENTS + 1).map(str::to_owned).collect()),
        }
    }

    /// Takes segments as they are, so that one may contain dots.
    ///
    /// # Errors
    ///
    /// As for [`Segments::parse`].
    pub fn from_list(segments: Vec<String>) -> Result<Self, PathFault> {
        match segments.len() {
            0 => Err(PathFault::Empty),
            length if length > MAX_SEGMENTS => Err(PathFault::TooLong),
            _ if segments.iter().any(String::is_empty) => Err(PathFault::EmptySegment),
            _ => Ok(Self(segments)),
        }
    }

    /// Reads text as [`Segments::parse`] does, or a list of texts.
    ///
    /// # Errors
    ///
    /// As for [`Segments::parse`], and when it is neither.
    pub fn from_value(value: &Value) -> Result<Self, PathFault> {
        if let Some(text) = value.as_str() {
            return Self::parse(text);
        }
        let items = value.as_array().ok_or(PathFault::NotAPath)?.iter().take(MAX_SEGMENTS + 1);
        let texts: Option<Vec<String>> = items.map(|item| item.as_str().map(str::to_owned)).collect();
        Self::from_list(texts.ok_or(PathFault::NotAPath)?)
    }

    /// The segments.
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    fn child(&self, name: &str) -> Self {
        Self(self.0.iter().cloned().chain([name.to_owned()]).collect())
    }
}

impl fmt::Display for Segments {
    /// Dots where that reads back, a JSON Pointer where a segment has a dot itself.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.iter().any(|segment| segment.contains('.') || segment.starts_with('/')) {
            return out.write_str(&self.0.join("."));
        }
        self.0.iter().try_for_each(|segment| write!(out, "/{}", segment.replace('~', "~0").replace('/', "~1")))
    }
}

fn unescape(token: &str) -> Result<String, PathFault> {
    let mut out = String::with_capacity(token.len());
    let mut chars = token.chars();
    while let Some(c) = chars.next() {
        match c {
            '~' => match chars.next() {
                Some('0') => out.push('~'),
                Some('1') => out.push('/'),
                _ => return Err(PathFault::Escape),
            },
            c => out.push(c),
        }
    }
    Ok(out)
}

/// What stands at a path in a value: members of maps, and items of lists by their index.
pub fn lookup<'v>(value: &'v Value, segments: &Segments) -> Option<&'v Value> {
    segments.0.iter().try_fold(value, |value, segment| match value {
        Value::Map(map) => map.get(segment),
        Value::Array(items) => items.get(index(segment)?),
        _ => None,
    })
}

/// An index as it is written canonically: `01` and `+1` are keys, not indices.
fn index(segment: &str) -> Option<usize> {
    segment.parse().ok().filter(|index: &usize| index.to_string() == segment)
}

/// The type at a path below `state`, through references, fields, record values and array items; `None` is unknown, and a
/// value for it is sent unchecked.
pub fn type_at<'t>(state: &'t TypeNode, segments: &Segments, types: &'t Types) -> Option<&'t TypeNode> {
    segments.0.iter().try_fold(state, |node, segment| match types.resolve(node)? {
        TypeNode::Object { fields, .. } => fields.iter().find(|field| field.name == *segment).map(|field| &field.node),
        TypeNode::Record { values, .. } => Some(&**values),
        TypeNode::Array { items, .. } => Some(&**items),
        _ => None,
    })
}

/// How a setter takes its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetterForm {
    /// `(value)`.
    Value,
    /// `(segments, value)`.
    PathAndValue,
}

/// The method that sets a path.
#[derive(Clone, Copy, Debug)]
pub struct Setter<'n> {
    /// The method.
    pub method: &'n Method,
    /// How it takes its arguments.
    pub form: SetterForm,
}

/// One declared claim: this method sets that path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The path as declared; `*` for any.
    pub path: String,
    /// The method.
    pub method: String,
}

/// Why no setter was chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetterFault {
    /// Nothing declares that it sets the path, in a form that can be called.
    #[error("no method declares that it sets this path")]
    NoSetter {
        /// What is declared instead.
        claims: Vec<Claim>,
    },
    /// Two methods claim the path equally; which one is meant only the caller knows.
    #[error("both {first} and {second} declare that they set this path")]
    Ambiguous {
        /// One of them.
        first: String,
        /// Another.
        second: String,
    },
}

impl<'n> Setter<'n> {
    /// Chooses the method that sets `segments` by what is declared and nothing else (S-087): one that claims exactly this
    /// path, else one that claims any.
    ///
    /// # Errors
    ///
    /// When nothing claims it, or two claim it equally.
    pub fn choose(namespace: &'n Namespace, segments: &Segments) -> Result<Self, SetterFault> {
        let exact = |method: &Method| match &method.sets {
            Some(Sets::Path(path)) => path.split('.').eq(segments.0.iter().map(String::as_str)) && takes(method, 1),
            Some(Sets::Any) | None => false,
        };
        let any = |method: &Method| method.sets == Some(Sets::Any) && takes(method, 2);
        if let Some(method) = only(namespace, exact)? {
            return Ok(Self { method, form: SetterForm::Value });
        }
        if let Some(method) = only(namespace, any)? {
            return Ok(Self { method, form: SetterForm::PathAndValue });
        }
        Err(SetterFault::NoSetter { claims: claims(namespace) })
    }

    /// The arguments that set `segments` to `value`.
    pub fn arguments(&self, segments: &Segments, value: Value) -> Vec<Value> {
        match self.form {
            SetterForm::Value => vec![value],
            SetterForm::PathAndValue => {
                let path = segments.0.iter().map(|segment| Value::from(segment.as_str())).collect();
                vec![Value::Array(path), value]
            }
        }
    }
}

/// What the methods of a namespace claim to set.
pub fn claims(namespace: &Namespace) -> Vec<Claim> {
    let claim = |method: &Method| {
        let path = method.sets.as_ref()?.as_str().to_owned();
        Some(Claim { path, method: method.name.clone() })
    };
    namespace.methods.iter().filter_map(claim).collect()
}

/// Whether a method takes exactly `count` arguments, or does not say.
fn takes(method: &Method, count: usize) -> bool {
    method.params.as_ref().is_none_or(|params| params.len() == count)
}

fn only(namespace: &Namespace, wanted: impl Fn(&Method) -> bool) -> Result<Option<&Method>, SetterFault> {
    let mut found = namespace.methods.iter().filter(|method| wanted(method));
    match (found.next(), found.next()) {
        (Some(first), Some(second)) => {
            Err(SetterFault::Ambiguous { first: first.name.clone(), second: second.name.clone() })
        }
        (first, _) => Ok(first),
    }
}

/// The paths of a component's state, for a short description.
#[derive(Debug)]
pub struct StatePaths<'t> {
    /// Path and type of everything that is not itself an object, in contract order.
    pub paths: Vec<(Segments, &'t TypeNode)>,
    /// Whether there are more than were asked for.
    pub truncated: bool,
}

/// Lists up to `limit` paths below `state`. Objects are opened, references to them too; everything else is one path.
pub fn paths<'t>(state: &'t TypeNode, types: &'t Types, limit: usize) -> StatePaths<'t> {
    let mut found = StatePaths { paths: Vec::new(), truncated: false };
    list_paths(&mut found, state, None, types, limit);
    found
}

fn list_paths<'t>(
    found: &mut StatePaths<'t>,
    node: &'t TypeNode,
    at: Option<&Segments>,
    types: &'t Types,
    limit: usize,
) {
    let depth = at.map_or(0, |at| at.0.len());
    match (types.resolve(node), at) {
        (Some(TypeNode::Object { fields, .. }), _) if !fields.is_empty() && depth < MAX_LISTED_DEPTH => {
            for field in fields {
                if found.truncated {
                    return;
                }
                let below = at.map_or_else(|| Segments(vec![field.name.clone()]), |at| at.child(&field.name));
                list_paths(found, &field.node, Some(&below), types, limit);
            }
        }
        (_, Some(_)) if found.paths.len() >= limit => found.truncated = true,
        (_, Some(at)) => found.paths.push((at.clone(), node)),
        (_, None) => {}
    }
}

/// Segments of one path. Values are not checked deeper than 32.
const MAX_SEGMENTS: usize = 64;
/// Levels of state that a list of paths opens; a type that holds itself would never end.
const MAX_LISTED_DEPTH: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contract::testing::{described_method, json, node, types_of, value};

    fn segments(text: &str) -> Segments {
        Segments::parse(text).unwrap()
    }

    /// S-087: paths are written with dots, as pointers or as lists; empty segments are refused in each.
    #[test]
    fn s087_three_ways_to_write_a_path() {
        assert_eq!(segments("zones.top").as_slice(), ["zones", "top"]);
        assert_eq!(segments("/zones/top"), segments("zones.top"));
        assert_eq!(segments("/tags/B.1~1x~0").as_slice(), ["tags", "B.1/x~"]);
        let list = value(&json(r#"["tags","B.1"]"#));
        assert_eq!(Segments::from_value(&list).unwrap().to_string(), "/tags/B.1");
        for text in ["a..b", ".a", "a.", ".", "/", "/a//b", "//"] {
            assert_eq!(Segments::parse(text), Err(PathFault::EmptySegment), "{text}");
        }
        assert_eq!(Segments::parse(""), Err(PathFault::Empty));
        assert_eq!(Segments::parse("/a~2"), Err(PathFault::Escape));
        assert_eq!(Segments::parse(&"a.".repeat(100_000)), Err(PathFault::TooLong));
        for (list, fault) in [
            ("[]", PathFault::Empty),
            ("[1]", PathFault::NotAPath),
            ("5", PathFault::NotAPath),
            ("[\"\"]", PathFault::EmptySegment),
        ] {
            assert_eq!(Segments::from_value(&value(&json(list))), Err(fault), "{list}");
        }
    }

    /// S-037: only own members are found, and only canonical indices are indices.
    #[test]
    fn s037_lookup_finds_own_members_only() {
        let state = value(&json(r#"{"a":{"b.c":[1,{"d":null}]}}"#));
        assert_eq!(lookup(&state, &segments("/a/b.c/0")), Some(&Value::Int(1)));
        assert_eq!(lookup(&state, &segments("/a/b.c/1/d")), Some(&Value::Null));
        for missing in
            ["constructor", "a.toString", "/a/b.c/length", "/a/b.c/01", "/a/b.c/-1", "/a/b.c/2", "/a/b.c/0/x"]
        {
            assert_eq!(lookup(&state, &segments(missing)), None, "{missing}");
        }
    }

    /// S-087: the type at a path is found through refs, fields, records and arrays, and is unknown otherwise.
    #[test]
    fn s087_types_at_paths() {
        let types = types_of(&json(
            r#"{"Zone":{"kind":"object","fields":{"setpoint":{"type":{"kind":"number"}},"self":{"type":{"kind":"ref","name":"Zone"}}}},
                "Loop":{"kind":"ref","name":"Loop"}}"#,
        ));
        let state = node(
            r#"{"kind":"object","additional":true,"fields":{"zones":{"type":{"kind":"record","values":{"kind":"ref","name":"Zone"}}},
                "list":{"type":{"kind":"array","items":{"kind":"string"}}},"pair":{"type":{"kind":"tuple","items":[{"kind":"any"}]}},
                "loop":{"type":{"kind":"ref","name":"Loop"}},"gone":{"type":{"kind":"ref","name":"Gone"}},
                "either":{"type":{"kind":"union","options":[{"kind":"ref","name":"Zone"}]}}}}"#,
        );
        let kind = |text: &str| type_at(&state, &segments(text), &types).map(TypeNode::kind);
        assert_eq!(kind("zones.top.setpoint"), Some("number"));
        assert_eq!(kind("zones.top.self.self.setpoint"), Some("number"));
        assert_eq!(kind("zones.toString"), Some("ref"));
        assert_eq!(kind("list.anything"), Some("string"));
        assert_eq!(kind("either"), Some("union"));
        for unknown in ["other", "pair.0", "loop.x", "gone.x", "either.setpoint", "list.0.x", "constructor"] {
            assert_eq!(kind(unknown), None, "{unknown}");
        }
    }

    fn namespace(methods: &str) -> Namespace {
        let methods = json(methods).as_array().unwrap().iter().map(described_method).collect::<Vec<_>>().into();
        Namespace { methods, ..Namespace::default() }
    }

    /// S-087: setters are chosen by declaration: the exact claim first, then the one that takes any path.
    #[test]
    fn s087_setters_are_chosen_by_declaration() {
        let oven = namespace(
            r#"[{"name":"setMode","sets":"mode","params":[{"kind":"string"}]},{"name":"setTop","sets":"zones.top"},
                {"name":"two","sets":"pair","params":[{"kind":"any"},{"kind":"any"}]},{"name":"set","sets":"*"}]"#,
        );
        let choose = |text: &str| Setter::choose(&oven, &segments(text)).unwrap();
        assert_eq!((choose("mode").method.name.as_str(), choose("mode").form), ("setMode", SetterForm::Value));
        assert_eq!(choose("zones.top").method.name, "setTop");
        let other = choose("pair");
        assert_eq!((other.method.name.as_str(), other.form), ("set", SetterForm::PathAndValue));
        let list = value(&json(r#"["zones","x"]"#));
        assert_eq!(other.arguments(&segments("zones.x"), Value::Int(1)), [list, Value::Int(1)]);
        assert_eq!(choose("mode").arguments(&segments("mode"), Value::Null), [Value::Null]);
        let dotted = Segments::from_list(vec!["zones.top".to_owned()]).unwrap();
        assert_eq!(Setter::choose(&oven, &dotted).unwrap().method.name, "set", "one segment is not two");
    }

    /// S-087: without a claim the claims are listed, and of two equal claims neither is chosen.
    #[test]
    fn s087_missing_and_equal_claims_are_refused() {
        let oven = namespace(
            r#"[{"name":"a","sets":"mode"},{"name":"b","sets":"mode"},{"name":"c","sets":"*","params":[{"kind":"any"}]}]"#,
        );
        let ambiguous = Setter::choose(&oven, &segments("mode")).unwrap_err();
        assert_eq!(ambiguous, SetterFault::Ambiguous { first: "a".to_owned(), second: "b".to_owned() });
        let claim = |path: &str, method: &str| Claim { path: path.to_owned(), method: method.to_owned() };
        let claims = vec![claim("mode", "a"), claim("mode", "b"), claim("*", "c")];
        assert_eq!(Setter::choose(&oven, &segments("other")).unwrap_err(), SetterFault::NoSetter { claims });
        let any = namespace(r#"[{"name":"a","sets":"*"},{"name":"b","sets":"*"}]"#);
        assert!(matches!(Setter::choose(&any, &segments("x")), Err(SetterFault::Ambiguous { .. })));
    }

    /// S-033: paths of a state are listed within bounds, also when a type holds itself.
    #[test]
    fn s033_state_paths_are_bounded() {
        let types = types_of(&json(
            r#"{"N":{"kind":"object","fields":{"v":{"type":{"kind":"number"}},"n":{"type":{"kind":"ref","name":"N"}}}}}"#,
        ));
        let state = node(
            r#"{"kind":"object","fields":{"mode":{"type":{"kind":"string"}},"a.b":{"type":{"kind":"record","values":{"kind":"ref","name":"N"}}},
                "n":{"type":{"kind":"ref","name":"N"}}}}"#,
        );
        let listed = paths(&state, &types, 100);
        let texts: Vec<String> = listed.paths.iter().map(|(path, node)| format!("{path}: {}", node.kind())).collect();
        assert_eq!(texts[..4], ["mode: string", "/a.b: record", "n.v: number", "n.n.v: number"]);
        assert_eq!((texts.len(), listed.truncated), (10, false));
        assert_eq!(texts[9], "n.n.n.n.n.n.n.n: ref");
        let few = paths(&state, &types, 2);
        assert_eq!((few.paths.len(), few.truncated), (2, true));
    }

    proptest! {
        /// S-087: a path reads back as it was written.
        #[test]
        fn s087_paths_read_back(list in prop::collection::vec("[a-c./~]{1,4}", 1..5)) {
            let path = Segments::from_list(list).unwrap();
            prop_assert_eq!(Segments::parse(&path.to_string()).unwrap(), path);
        }
    }
}
