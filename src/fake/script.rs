//! The script of a fake: what it answers, how it fails, what it emits by itself, and what it holds at first (semantics
//! 11.2). Read as strictly as a contract and against it, before anything joins a network (S-124): what names something
//! that the contract lacks would be heeded by nobody, and what contradicts it would be a lie.

use std::{collections::HashMap, time::Duration};

use super::{
    code::{self, Code},
    rows::Store,
    stock,
};
use crate::{
    contract::{Contract, Event, Method, Namespace, Problem, Types, validate},
    node::METHOD_CODES,
    wire::{Map, Value, json::ecma_number},
};

/// A script that fits its contract.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// What a method answers.
    pub(super) returns: HashMap<Target, Value>,
    /// How a method fails.
    pub(super) fails: HashMap<Target, Fails>,
    /// What is emitted by itself.
    pub(super) emits: Vec<Emit>,
    /// The rows behind a namespace that writes them.
    pub(super) stores: HashMap<String, Store>,
    /// What a component holds at first, besides its samples.
    pub(super) state: HashMap<String, Map>,
    /// What answers methods by itself.
    pub(super) code: Code,
}

/// A namespace and one of its methods.
pub(super) type Target = (String, String);

/// How a method fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fails {
    /// It never answers.
    Never,
    /// With this code.
    With(String),
}

/// An event that is emitted by itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Emit {
    pub(super) namespace: String,
    pub(super) event: String,
    pub(super) every: Duration,
    /// What it carries; absent: samples.
    pub(super) params: Option<Vec<Value>>,
}

/// Why a script is not played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScriptFault {
    /// It brings code along, named by its fields.
    Code(Vec<&'static str>),
    /// It does not fit.
    Problems(Vec<Problem>),
}

impl Script {
    /// Reads the script of a fake that serves `contract`. Code in it is refused, unless it `may_run`.
    pub(super) fn read(document: &Value, contract: &Contract, may_run: bool) -> Result<Self, ScriptFault> {
        let fields = code::fields(document);
        if !fields.is_empty() && !may_run {
            return Err(ScriptFault::Code(fields));
        }
        let mut reader =
            Reader { contract, brings_code: !fields.is_empty(), pointer: Vec::new(), problems: Vec::new(), omitted: 0 };
        let script = reader.script(document);
        if reader.omitted > 0 {
            let what = format!("{} more problems are not listed", reader.omitted);
            reader.problems.push(Problem { pointer: String::new(), what });
        }
        if reader.problems.is_empty() { Ok(script) } else { Err(ScriptFault::Problems(reader.problems)) }
    }
}

/// Reads one script.
pub(super) struct Reader<'c> {
    pub(super) contract: &'c Contract,
    /// Whether it brings code along: then `state` is what its handlers share, and components have a word of their own.
    brings_code: bool,
    pointer: Vec<String>,
    problems: Vec<Problem>,
    omitted: usize,
}

impl<'c> Reader<'c> {
    fn script(&mut self, document: &Value) -> Script {
        let mut script = Script::default();
        let Some(map) = self.map(document) else { return script };
        for (key, value) in map.iter() {
            self.at(key, |reader| match key {
                _ if *value == Value::Null => {}
                "returns" => script.returns = reader.targets(value, Self::returned),
                "fails" => script.fails = reader.targets(value, Self::fails),
                "emits" => script.emits = reader.emits(value),
                "rows" => script.stores = reader.namespaces(value, stock::store),
                "state" if reader.brings_code => script.code.state = code::state(reader, value),
                "components" if reader.brings_code => script.state = reader.namespaces(value, stock::state),
                "state" => script.state = reader.namespaces(value, stock::state),
                "handlers" => script.code.handlers = code::handlers(reader, value),
                "python" => script.code.python = code::python(reader, value),
                _ if reader.brings_code => reader.problem(
                    "a script that brings code along has returns, fails, emits, rows, components, state, handlers and \
                     python",
                ),
                _ => reader.problem("a script has returns, fails, emits, rows and state"),
            });
        }
        script
    }

    /// Entries by `namespace.method`.
    pub(super) fn targets<T>(
        &mut self,
        value: &Value,
        read: impl Fn(&mut Self, &'c Namespace, &'c Method, &Value) -> Option<T>,
    ) -> HashMap<Target, T> {
        let Some(map) = self.map(value) else { return HashMap::new() };
        let mut read_all = HashMap::new();
        for (target, value) in map.iter() {
            self.at(target, |reader| {
                let Some((namespace, method)) = reader.method(target) else { return };
                if let Some(read) = read(reader, namespace, method, value) {
                    read_all.insert((namespace.name.clone(), method.name.clone()), read);
                }
            });
        }
        read_all
    }

    /// Entries by namespace.
    fn namespaces<T>(
        &mut self,
        value: &Value,
        read: impl Fn(&mut Self, &'c Namespace, &Value) -> Option<T>,
    ) -> HashMap<String, T> {
        let Some(map) = self.map(value) else { return HashMap::new() };
        let mut read_all = HashMap::new();
        for (name, value) in map.iter() {
            self.at(name, |reader| {
                let Some(namespace) = reader.namespace(name) else { return };
                if let Some(read) = read(reader, namespace, value) {
                    read_all.insert(name.to_owned(), read);
                }
            });
        }
        read_all
    }

    fn returned(&mut self, namespace: &Namespace, method: &Method, value: &Value) -> Option<Value> {
        // What a deferred method returns at once is a receipt, which is nobody's to choose.
        let node = method.deferred.as_ref().map_or(method.returns.as_ref(), |deferred| Some(&deferred.result));
        if let Some(Err(text)) = node.map(|node| validate::value(value, node, self.types(), "result")) {
            let (ns, method) = (&namespace.name, &method.name);
            self.problem(format!("{ns}.{method} returned a value its own schema forbids: {text}"));
            return None;
        }
        Some(value.clone())
    }

    fn fails(&mut self, _: &Namespace, _: &Method, value: &Value) -> Option<Fails> {
        match value.as_str() {
            Some("Timeout") => Some(Fails::Never),
            Some(code) if code == EXCEPTION || METHOD_CODES.contains(&code) => Some(Fails::With(code.to_owned())),
            _ => {
                let codes = METHOD_CODES.join(", ");
                self.problem(format!(
                    "a method fails with {EXCEPTION} or one of {codes}; Timeout means that it never answers"
                ));
                None
            }
        }
    }

    fn emits(&mut self, value: &Value) -> Vec<Emit> {
        let Some(items) = value.as_array() else {
            self.problem("expected a list of {event, every, params?}");
            return Vec::new();
        };
        if items.len() > MAX_EMITS {
            self.problem(format!("{} entries, and a fake emits at most {MAX_EMITS} by itself", items.len()));
            return Vec::new();
        }
        let read = |(at, item): (usize, &Value)| self.at(&at.to_string(), |reader| reader.emit(item));
        items.iter().enumerate().filter_map(read).collect()
    }

    fn emit(&mut self, value: &Value) -> Option<Emit> {
        let map = self.map(value)?;
        for (key, _) in map.iter().filter(|(key, _)| !["event", "every", "params"].contains(key)) {
            self.at(key, |reader| reader.problem("an entry of emits has event, every and params"));
        }
        let every = self.at("every", |reader| reader.every(map.get("every")));
        let found = self.at("event", |reader| reader.event(map.get("event")));
        let (namespace, event) = found?;
        let params = map.get("params").filter(|params| **params != Value::Null);
        let params = match params {
            None => None,
            Some(params) => Some(self.at("params", |reader| reader.params(event, params))?),
        };
        Some(Emit { namespace: namespace.name.clone(), event: event.name.clone(), every: every?, params })
    }

    fn every(&mut self, value: Option<&Value>) -> Option<Duration> {
        let millis = value.and_then(Value::as_f64);
        match millis {
            Some(millis) if (SHORTEST..=LONGEST).contains(&millis) => Some(Duration::from_secs_f64(millis / 1000.0)),
            Some(millis) => {
                let given = ecma_number(millis);
                self.problem(format!("{given} ms; an event is emitted every {SHORTEST} ms at most, and within a day"));
                None
            }
            None => {
                self.problem("expected a number of milliseconds, 50 or more");
                None
            }
        }
    }

    fn event(&mut self, value: Option<&Value>) -> Option<(&'c Namespace, &'c Event)> {
        let Some(text) = value.and_then(Value::as_str) else {
            self.problem("expected `namespace.event`, as text");
            return None;
        };
        let (name, event) = split(text);
        let served = self.served().find(|namespace| namespace.name == name);
        let Some(namespace) = served else {
            self.problem(format!("nothing called '{name}' to emit {text} from; {}", self.choice_of_namespaces()));
            return None;
        };
        let Some(event) = namespace.event(event) else {
            let known = some(namespace.events.iter().map(|event| event.name.as_str()));
            self.problem(format!("{name} declares no event '{event}'; it declares {known}"));
            return None;
        };
        Some((namespace, event))
    }

    fn params(&mut self, event: &Event, value: &Value) -> Option<Vec<Value>> {
        let Some(params) = value.as_array() else {
            self.problem("expected a list of what the event carries");
            return None;
        };
        let carrier = Method { params: event.params.clone(), ..Method::undeclared(event.name.as_str()) };
        match validate::arguments(params, &carrier, self.types()) {
            Ok(()) => Some(params.to_vec()),
            Err(fault) => {
                self.problem(fault.text);
                None
            }
        }
    }

    /// The method that `namespace.method` names, told from its namespace at the last dot (S-001).
    pub(super) fn method(&mut self, target: &str) -> Option<(&'c Namespace, &'c Method)> {
        let (name, method) = split(target);
        let namespace = self.namespace(name)?;
        let Some(method) = namespace.method(method) else {
            let known = some(namespace.methods.iter().map(|method| method.name.as_str()));
            self.problem(format!("the contract has no method '{method}' in {name}; it has {known}"));
            return None;
        };
        Some((namespace, method))
    }

    fn namespace(&mut self, name: &str) -> Option<&'c Namespace> {
        let found = self.served().find(|namespace| namespace.name == name);
        if found.is_none() {
            self.problem(format!("the contract has no namespace '{name}'; {}", self.choice_of_namespaces()));
        }
        found
    }

    fn choice_of_namespaces(&self) -> String {
        format!("it has {}", some(self.served().map(|namespace| namespace.name.as_str())))
    }

    fn served(&self) -> impl Iterator<Item = &'c Namespace> + use<'c> {
        super::served(self.contract)
    }

    pub(super) fn types(&self) -> &'c Types {
        &self.contract.types
    }

    pub(super) fn map<'v>(&mut self, value: &'v Value) -> Option<&'v Map> {
        if value.as_map().is_none() {
            self.problem("expected an object");
        }
        value.as_map()
    }

    /// Runs `read` one step further down.
    pub(super) fn at<T>(&mut self, token: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.pointer.push(token.replace('~', "~0").replace('/', "~1"));
        let out = read(self);
        self.pointer.pop();
        out
    }

    /// Notes that something is wrong here.
    pub(super) fn problem(&mut self, what: impl Into<String>) {
        if self.problems.len() >= MAX_PROBLEMS {
            self.omitted += 1;
            return;
        }
        let pointer = self.pointer.iter().flat_map(|token| ["/", token]).collect();
        self.problems.push(Problem { pointer, what: what.into() });
    }
}

/// `ns.member` at the last dot. Without one there is no namespace.
fn split(target: &str) -> (&str, &str) {
    target.rsplit_once('.').unwrap_or(("", target))
}

/// A few names, for a sentence.
pub(super) fn some<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.len() {
        0 => "none".to_owned(),
        count if count > SHOWN => {
            let shown: Vec<&str> = names.into_iter().take(SHOWN).collect();
            format!("{} and {} more", shown.join(", "), count - SHOWN)
        }
        _ => names.join(", "),
    }
}

/// What a method fails with that chose no code.
const EXCEPTION: &str = "Exception";
/// The least pause between two emissions, in milliseconds.
const SHORTEST: f64 = 50.0;
/// The longest, in milliseconds: a day.
const LONGEST: f64 = 86_400_000.0;
/// Events one fake emits by itself.
const MAX_EMITS: usize = 64;
/// Problems that are told.
const MAX_PROBLEMS: usize = 50;
/// Names a sentence offers.
const SHOWN: usize = 12;
