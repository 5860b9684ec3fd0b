//! Contract documents: what namespaces declare (semantics 1.4 and 4).
//!
//! The same [`Namespace`], [`Method`], [`Event`] and [`Component`] also hold what a live peer says about itself, see
//! [`super::description`].

use std::sync::Arc;

use super::audit::audit;
use super::parse::{MAX_LIST, Reader};
use super::{Problem, TypeNode, Types};
use crate::wire::{Map, Value};

/// A contract document, read and checked.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    /// Version of the whole document.
    pub version: Option<String>,
    /// Named types, shared by all namespaces.
    pub types: Types,
    /// The named types as written, for a description that must not lose anything.
    pub types_entry: Arc<Map>,
    /// The namespaces, in the order written.
    pub namespaces: Vec<Namespace>,
    /// Patterns that are not checked here, with the reason. A contract we serve has none.
    pub unchecked: Vec<Problem>,
}

impl Contract {
    /// Reads a contract to compare with or to look things up in.
    ///
    /// # Errors
    ///
    /// Every problem found (up to a bound), each with a JSON Pointer. A `schema` number other than 1 is refused (S-050);
    /// unknown optional fields are not looked at (S-051).
    pub fn parse(document: &Value) -> Result<Self, Vec<Problem>> {
        Self::read(document, |_, _| {})
    }

    /// Reads a contract to judge others by: as [`Contract::parse`], and whatever in it contradicts itself or leads nowhere
    /// is a problem too, since nothing can be concluded from it.
    ///
    /// # Errors
    ///
    /// As for [`Contract::parse`].
    pub fn parse_to_compare(document: &Value) -> Result<Self, Vec<Problem>> {
        Self::read(document, |reader, contract| audit(reader, contract, document))
    }

    /// Reads a contract to serve or to keep: as [`Contract::parse_to_compare`], and a pattern that would go unchecked is a
    /// problem too, since we would accept arguments that the contract forbids (S-038).
    ///
    /// # Errors
    ///
    /// As for [`Contract::parse`].
    pub fn parse_to_serve(document: &Value) -> Result<Self, Vec<Problem>> {
        let contract = Self::parse_to_compare(document)?;
        if contract.unchecked.is_empty() { Ok(contract) } else { Err(contract.unchecked) }
    }

    fn read(document: &Value, also: impl FnOnce(&mut Reader, &Self)) -> Result<Self, Vec<Problem>> {
        let mut reader = Reader::default();
        let contract = read_contract(&mut reader, document);
        also(&mut reader, &contract);
        let findings = reader.finish();
        if findings.problems.is_empty() {
            return Ok(Self { unchecked: findings.unchecked, ..contract });
        }
        Err(findings.problems)
    }

    /// The namespace called `name`.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.iter().find(|namespace| namespace.name == name)
    }
}

/// One namespace: as a contract declares it, or as a live peer describes it.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    /// Its name, which may contain dots.
    pub name: String,
    /// Contract version.
    pub version: Option<String>,
    /// Methods, in the order written; shared by all who serve them or remember them.
    pub methods: Arc<Vec<Method>>,
    /// Events, in the order written.
    pub events: Vec<Event>,
    /// What it publishes as a component, if it is one.
    pub component: Option<Component>,
    /// Package-qualified interface names.
    pub capabilities: Vec<String>,
    /// Contract only: whether arguments are checked. True unless switched off.
    pub validate: bool,
    /// Contract only: older contracts of this namespace by version, as written.
    pub history: Option<Value>,
    /// Description only: class of the instance.
    pub class_name: Option<String>,
    /// Description only: whether it was made on request.
    pub created: bool,
    /// Description only: whether it can be subscribed to.
    pub emitter: bool,
    /// Description only: whether the host runs its calls one at a time.
    pub serialised: bool,
    /// Description only: its topology record, as sent.
    pub topology: Option<Value>,
}

impl Namespace {
    /// The method called `name`.
    pub fn method(&self, name: &str) -> Option<&Method> {
        self.methods.iter().find(|method| method.name == name)
    }

    /// The event called `name`.
    pub fn event(&self, name: &str) -> Option<&Event> {
        self.events.iter().find(|event| event.name == name)
    }
}

/// One method.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// Types of the parameters; `None` means undescribed, not that there are none (S-021).
    pub params: Option<Vec<TypeNode>>,
    /// Names of the parameters, for people; may be fewer.
    pub param_names: Vec<String>,
    /// Type of every argument beyond `params`.
    pub rest: Option<TypeNode>,
    /// Type of the result; `None` promises nothing.
    pub returns: Option<TypeNode>,
    /// Whether a caller may repeat it; `None` is unknown, do not repeat.
    pub semantics: Option<Semantics>,
    /// The effect as declared; see [`Method::effect`] for the one that counts.
    pub declared_effect: Option<Effect>,
    /// The path in component state that calling it changes.
    pub sets: Option<Sets>,
    /// Whether only the holder of the component's lease may call. Known from a live peer only.
    pub requires_authority: bool,
    /// Contract only: the real answer arrives later.
    pub deferred: Option<Deferred>,
    /// Contract only: the entry as written, which the shape prints in its stored order.
    pub entry: Option<Arc<Value>>,
}

impl Method {
    /// A method of which nothing is known but its name.
    pub fn undeclared(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The power that calling it exercises: as declared, else `observe` for a query and `operate` for everything else.
    pub fn effect(&self) -> Effect {
        let default = if self.semantics == Some(Semantics::Query) { Effect::Observe } else { Effect::Operate };
        self.declared_effect.unwrap_or(default)
    }

    /// The name of parameter `at`, if it has one.
    pub fn param_name(&self, at: usize) -> Option<&str> {
        self.param_names.get(at).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// The answer of a deferred method, which arrives after the call returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Deferred {
    /// Type of the result.
    pub result: TypeNode,
    /// Type of every report of progress.
    pub progress: Option<TypeNode>,
}

/// One event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Types of its parameters; `None` for one that is not declared and merely has subscribers.
    pub params: Option<Vec<TypeNode>>,
    /// Peers subscribed to it now, as far as a description or a surface of ours knows.
    pub subscribers: u64,
    /// Contract only: the entry as written.
    pub entry: Option<Arc<Value>>,
}

/// What a component publishes.
#[derive(Clone, Debug, Default)]
pub struct Component {
    /// Type of its props, if a contract says.
    pub props: Option<TypeNode>,
    /// Type of its state, if a contract says.
    pub state: Option<TypeNode>,
    /// Peers observing it now, as far as a description or a surface of ours knows.
    pub subscribers: u64,
    /// Description only: the collections it serves, as sent.
    pub resources: Option<Value>,
    /// Contract only: the entry as written.
    pub entry: Option<Arc<Value>>,
}

/// Whether a method may be repeated. Ordered by risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Semantics {
    /// Changes nothing.
    Query,
    /// Running it twice is the same as once.
    IdempotentCommand,
    /// Running it twice is not.
    NonRepeatableCommand,
}

impl Semantics {
    /// Reads the word of a contract; an unknown word is no declaration.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Query, Self::IdempotentCommand, Self::NonRepeatableCommand].into_iter().find(|s| s.as_str() == word)
    }

    /// The word of a contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::IdempotentCommand => "idempotent-command",
            Self::NonRepeatableCommand => "non-repeatable-command",
        }
    }
}

/// Which power a method exercises. Ordered from the least to the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Looks.
    Observe,
    /// Runs the plant.
    Operate,
    /// Changes how the plant runs.
    Program,
    /// Changes who may do what.
    SecurityAdmin,
}

impl Effect {
    /// Reads the word of a contract.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Observe, Self::Operate, Self::Program, Self::SecurityAdmin].into_iter().find(|e| e.as_str() == word)
    }

    /// The word of a contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Operate => "operate",
            Self::Program => "program",
            Self::SecurityAdmin => "security-admin",
        }
    }
}

/// The path in component state that a method changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sets {
    /// This field or dot path.
    Path(String),
    /// Whatever path it is given, as `(segments, value)`.
    Any,
}

impl Sets {
    /// Reads the text of a contract.
    pub fn parse(text: &str) -> Self {
        if text == "*" { Self::Any } else { Self::Path(text.to_owned()) }
    }

    /// The text of a contract.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Path(path) => path,
            Self::Any => "*",
        }
    }
}

fn read_contract(reader: &mut Reader, document: &Value) -> Contract {
    let Some(root) = reader.map(document) else { return Contract::default() };
    reader.member(root, "schema", |reader, schema| {
        match schema.as_f64() {
            Some(1.0) => {}
            Some(number) => {
                let number = super::text::ecma_number(number);
                reader.problem(format!("schema {number} is not known here; this build reads schema 1"));
            }
            None => reader.unexpected("the number 1", schema),
        }
        Some(())
    });
    let version = reader.member(root, "version", Reader::text);
    let types = reader.member(root, "types", |reader, types| Some(reader.types(types)));
    let types_entry = root.get("types").and_then(Value::as_map).cloned();
    let namespaces =
        reader.member(root, "namespaces", |reader, namespaces| Some(read_entries(reader, namespaces, read_namespace)));
    if root.get("namespaces").is_none_or(|value| *value == Value::Null) {
        reader.problem("a contract needs `namespaces`: {\"schema\":1,\"namespaces\":{…}}");
    }
    Contract {
        version,
        types: types.unwrap_or_default(),
        types_entry: Arc::new(types_entry.unwrap_or_default()),
        namespaces: namespaces.unwrap_or_default(),
        unchecked: Vec::new(),
    }
}

pub(super) fn read_namespace(reader: &mut Reader, name: &str, value: &Value) -> Namespace {
    let mut namespace = Namespace { name: name.to_owned(), validate: true, ..Namespace::default() };
    let Some(map) = reader.map(value) else { return namespace };
    namespace.version = reader.member(map, "version", Reader::text);
    match map.get("methods") {
        None | Some(Value::Null) => reader.problem("a namespace needs `methods`"),
        Some(methods) => namespace.methods = reader.at("methods", |at| read_entries(at, methods, read_method)).into(),
    }
    let events = reader.member(map, "events", |reader, events| Some(read_entries(reader, events, read_event)));
    namespace.events = events.unwrap_or_default();
    namespace.component = reader.member(map, "component", read_component);
    namespace.capabilities = reader.member(map, "capabilities", Reader::texts).unwrap_or_default();
    namespace.validate = reader.member(map, "validate", Reader::flag).unwrap_or(true);
    namespace.history = reader.member(map, "history", |reader, value| reader.map(value).map(|_| value.clone()));
    namespace
}

fn read_entries<T>(reader: &mut Reader, value: &Value, read: impl Fn(&mut Reader, &str, &Value) -> T) -> Vec<T> {
    let Some(map) = reader.map(value) else { return Vec::new() };
    let count = map.iter().len();
    if count > MAX_LIST {
        reader.problem(format!("{count} entries, and only {MAX_LIST} are read"));
    }
    map.iter().take(MAX_LIST).map(|(name, entry)| reader.at(name, |reader| read(reader, name, entry))).collect()
}

fn read_method(reader: &mut Reader, name: &str, value: &Value) -> Method {
    let Some(map) = reader.map(value) else { return Method::undeclared(name) };
    let mut method = read_declaration(reader, name, map);
    if method.params.is_none() && map.get("params").is_none_or(|params| *params == Value::Null) {
        reader.problem("a method needs `params`, a list of types");
    }
    method.declared_effect = reader.member(map, "effect", |reader, word| {
        let effect = reader.text(word).and_then(|word| Effect::parse(&word));
        if effect.is_none() {
            reader.problem("expected observe, operate, program or security-admin");
        }
        effect
    });
    method.deferred = reader.member(map, "deferred", |reader, deferred| {
        let map = reader.map(deferred)?;
        let result = reader.member(map, "result", |reader, node| Some(reader.node(node)));
        let progress = reader.member(map, "progress", |reader, node| Some(reader.node(node)));
        if result.is_none() {
            reader.problem("a deferred method needs the type of its `result`");
        }
        Some(Deferred { result: result?, progress })
    });
    method.entry = Some(Arc::new(value.clone()));
    method
}

/// What a contract and a description write alike about a method.
pub(crate) fn read_declaration(reader: &mut Reader, name: &str, map: &Map) -> Method {
    Method {
        name: name.to_owned(),
        params: reader.member(map, "params", Reader::nodes),
        param_names: reader.member(map, "paramNames", Reader::texts).unwrap_or_default(),
        rest: reader.member(map, "rest", |reader, node| Some(reader.node(node))),
        returns: reader.member(map, "returns", |reader, node| Some(reader.node(node))),
        semantics: reader.member(map, "semantics", Reader::text).and_then(|word| Semantics::parse(&word)),
        sets: reader.member(map, "sets", Reader::text).map(|text| Sets::parse(&text)),
        ..Method::default()
    }
}

fn read_event(reader: &mut Reader, name: &str, value: &Value) -> Event {
    let params = reader.map(value).and_then(|map| reader.member(map, "params", Reader::nodes));
    if params.is_none() {
        reader.problem("an event needs `params`, a list of types");
    }
    Event { name: name.to_owned(), params, entry: Some(Arc::new(value.clone())), ..Event::default() }
}

fn read_component(reader: &mut Reader, value: &Value) -> Option<Component> {
    let map = reader.map(value)?;
    let mut part = |key: &str| {
        let node = reader.member(map, key, |reader, node| Some(reader.node(node)));
        if node.is_none() {
            reader.problem(format!("a component needs the type of its `{key}`"));
        }
        node
    };
    let (props, state) = (part("props"), part("state"));
    Some(Component { props, state, entry: Some(Arc::new(value.clone())), ..Component::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::testing::{json, value, vectors};

    fn problems(document: &str) -> Vec<String> {
        let problems = Contract::parse(&value(&json(document))).map(|_| ()).unwrap_err();
        problems.iter().map(ToString::to_string).collect()
    }

    /// S-051: the worked example reads, and every declaration arrives.
    #[test]
    fn s051_the_worked_example_reads() {
        let file = vectors(include_str!("../../tests/vectors/sem-example-contract.json"));
        let contract = Contract::parse_to_serve(&value(&file["contract"])).unwrap();
        assert_eq!(contract.version.as_deref(), Some("2026.2"));
        assert_eq!(contract.types.len(), 2);
        let boiler = contract.namespace("boiler").unwrap();
        let read = boiler.method("read").unwrap();
        assert_eq!((read.effect(), read.semantics), (Effect::Observe, Some(Semantics::Query)));
        let set = boiler.method("setTarget").unwrap();
        assert_eq!((set.effect(), set.sets.as_ref().map(Sets::as_str)), (Effect::Operate, Some("target")));
        assert_eq!(
            set.entry.as_deref(),
            Some(&value(&file["contract"]["namespaces"]["boiler"]["methods"]["setTarget"]))
        );
        let report = boiler.method("report").unwrap();
        assert!(report.deferred.as_ref().is_some_and(|deferred| deferred.progress.is_some()));
        assert_eq!(boiler.event("alarm").unwrap().params.as_ref().unwrap().len(), 2);
        assert_eq!(boiler.capabilities, ["@acme/contracts/Heater"]);
        assert!(boiler.component.as_ref().is_some_and(|component| component.state.is_some()));
        assert!(boiler.history.is_some());
    }

    /// S-050: a schema number this build does not know is refused and named; none at all is accepted.
    #[test]
    fn s050_unknown_schema_numbers_are_refused() {
        let refused = ["/schema: schema 2 is not known here; this build reads schema 1"];
        assert_eq!(problems(r#"{"schema":2,"namespaces":{}}"#), refused);
        assert_eq!(problems(r#"{"schema":"1","namespaces":{}}"#), ["/schema: expected the number 1, got string"]);
        assert!(Contract::parse(&value(&json(r#"{"namespaces":{}}"#))).is_ok());
        assert!(Contract::parse(&value(&json(r#"{"schema":1.0,"namespaces":{}}"#))).is_ok());
    }

    /// S-051: unknown optional fields are ignored at every level.
    #[test]
    fn s051_unknown_fields_are_ignored() {
        let document = r#"{"schema":1,"x":1,"namespaces":{"a":{"x":1,"methods":{"m":{"params":[{"kind":"any","x":1}],
            "semantics":"someday","x":1}},"events":{"e":{"params":[],"x":1}}}}}"#;
        let contract = Contract::parse(&value(&json(document))).unwrap();
        let method = contract.namespace("a").unwrap().method("m").unwrap();
        assert_eq!((method.semantics, method.effect()), (None, Effect::Operate), "an unknown word declares nothing");
    }

    /// S-050: all problems are told, each with its place.
    #[test]
    fn s050_every_problem_has_a_pointer() {
        let document = r#"{"namespaces":{"a/b":{"methods":{
            "m":{"params":[{"kind":"array"},{"kind":"number","min":"x"},{"kind":"string","pattern":"("},5],
                 "effect":"wish","deferred":{}},
            "n":{}}, "events":{"e":{}}, "component":{"props":{"kind":"any"}}},
            "c":{}, "d":[]}, "types":{"T":{"kind":"ref"}}}"#;
        assert_eq!(
            problems(document),
            [
                "/types/T: a ref needs a `name`",
                "/namespaces/a~1b/methods/m/params/0: an array needs `items`",
                "/namespaces/a~1b/methods/m/params/1/min: expected a number, got string",
                "/namespaces/a~1b/methods/m/params/2/pattern: not a pattern: a group is not closed",
                "/namespaces/a~1b/methods/m/params/3: expected a type, got number",
                "/namespaces/a~1b/methods/m/effect: expected observe, operate, program or security-admin",
                "/namespaces/a~1b/methods/m/deferred: a deferred method needs the type of its `result`",
                "/namespaces/a~1b/methods/n: a method needs `params`, a list of types",
                "/namespaces/a~1b/events/e: an event needs `params`, a list of types",
                "/namespaces/a~1b/component: a component needs the type of its `state`",
                "/namespaces/c: a namespace needs `methods`",
                "/namespaces/d: expected an object, got array",
            ]
        );
        assert_eq!(problems("[]"), ["expected an object, got array"]);
        let whole = "a contract needs `namespaces`: {\"schema\":1,\"namespaces\":{…}}";
        assert_eq!(problems("{}"), [whole]);
    }

    /// S-038: a pattern that would go unchecked may be read, not served.
    #[test]
    fn s038_a_served_contract_has_no_unchecked_pattern() {
        let document =
            value(&json(r#"{"namespaces":{"a":{"methods":{"m":{"params":[{"kind":"string","pattern":"(?=x)"}]}}}}}"#));
        let read = Contract::parse(&document).unwrap();
        assert_eq!(read.unchecked[0].pointer, "/namespaces/a/methods/m/params/0/pattern");
        assert_eq!(Contract::parse_to_serve(&document).unwrap_err(), read.unchecked);
    }

    /// S-034: an unknown kind is kept, so that it can be named when a value meets it.
    #[test]
    fn s034_unknown_kinds_are_kept() {
        let document = r#"{"namespaces":{},"types":{"T":{"kind":"decimal"}}}"#;
        let contract = Contract::parse(&value(&json(document))).unwrap();
        assert!(matches!(contract.types.get("T"), Some(TypeNode::Unknown { kind }) if kind == "decimal"));
        assert!(contract.types.get("toString").is_none());
    }

    /// S-050: problems are bounded, and what is not listed is counted.
    #[test]
    fn s050_problems_are_bounded() {
        let methods: Vec<String> = (0..100).map(|at| format!("\"m{at}\":{{}}")).collect();
        let problems = problems(&format!("{{\"namespaces\":{{\"a\":{{\"methods\":{{{}}}}}}}}}", methods.join(",")));
        assert_eq!(problems.len(), 65);
        assert_eq!(problems[64], "36 more problems are not listed");
    }
}
