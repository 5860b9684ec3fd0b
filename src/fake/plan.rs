//! What a fake is to be: its contract and its script, checked against each other before anything joins a network.

use std::sync::Arc;

use super::{
    script::{Script, ScriptFault},
    served, setting,
    stock::shown_by,
};
use crate::{
    contract::{
        Contract, Method, Namespace, Problem, Segments, ServedNamespace, Sets, Surface, TypeNode, Types, path::type_at,
        samples::sample, shape::shape, validate,
    },
    node::{Exposed, Serving, state::MAILBOX},
    wire::{Map, Value},
};

/// A fake that can be started.
#[derive(Debug)]
pub struct Plan {
    contract: Arc<Contract>,
    pub(super) script: Script,
    warnings: Vec<String>,
}

/// Why a fake cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// There is nothing in the contract.
    #[error("the contract describes no namespaces to serve")]
    NothingToServe,
    /// The script brings code along.
    #[error("this script uses {}, which run code it supplied", .0.join(" and "))]
    Code(Vec<&'static str>),
    /// The script does not fit the contract.
    #[error("the script does not fit the contract: {}", .0.first().map(ToString::to_string).unwrap_or_default())]
    Script(Vec<Problem>),
}

impl Plan {
    /// A fake of this contract that follows this script. `now_ms` is what dates in its samples are. Code in the script is
    /// refused, unless it `may_run`.
    ///
    /// # Errors
    /// When it cannot be served as it is asked for.
    pub fn new(contract: Arc<Contract>, script: Option<&Value>, now_ms: i64, may_run: bool) -> Result<Self, PlanFault> {
        if served(&contract).next().is_none() {
            return Err(PlanFault::NothingToServe);
        }
        let script = match script.filter(|script| **script != Value::Null) {
            None => Script::default(),
            Some(script) => Script::read(script, &contract, may_run).map_err(|fault| match fault {
                ScriptFault::Code(uses) => PlanFault::Code(uses),
                ScriptFault::Problems(problems) => PlanFault::Script(problems),
            })?,
        };
        let warnings = Doubts::of(&contract, &script, now_ms);
        Ok(Self { contract, script, warnings })
    }

    /// What it serves, in the order of the contract.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        served(&self.contract)
    }

    /// What of it may surprise whoever meets it.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How many events it emits by itself.
    pub fn emits(&self) -> usize {
        self.script.emits.len()
    }

    /// How many collections of rows it holds.
    pub fn collections(&self) -> usize {
        self.script.stores.values().map(|store| store.tables().len()).sum()
    }

    /// How many methods code of the script answers.
    pub fn handlers(&self) -> usize {
        self.script.code.count()
    }

    pub(super) fn types(&self) -> &Types {
        &self.contract.types
    }

    pub(super) fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces().find(|namespace| namespace.name == name)
    }

    /// What is said of it as a whole.
    pub(super) fn serving(&self) -> Serving {
        Serving {
            version: self.contract.version.clone(),
            types: self.contract.types.clone(),
            types_entry: self.contract.types_entry.clone(),
            introspection: true,
            ..Serving::default()
        }
    }

    /// One namespace as it is served: it says that it is a fake (S-126).
    pub(super) fn exposed(namespace: &Namespace, component: Option<(Map, Map)>) -> Exposed {
        Exposed {
            name: namespace.name.clone(),
            surface: ServedNamespace::declared(namespace, CLASS),
            validate: namespace.validate,
            component,
            mailbox: MAILBOX,
            path_writes: false,
        }
    }

    /// The shape it announces.
    pub(super) fn shape(&self) -> String {
        shape(&Surface {
            introspection: true,
            namespaces: self.namespaces().map(|namespace| ServedNamespace::declared(namespace, CLASS)).collect(),
            types: self.contract.types_entry.clone(),
            ..Surface::default()
        })
    }

    /// The props of a component.
    pub(super) fn props(&self, namespace: &Namespace, now_ms: i64) -> Option<Map> {
        let component = namespace.component.as_ref()?;
        let props = component.props.as_ref().map(|node| state_of(node, self.types(), &Map::new(), now_ms));
        Some(props.unwrap_or_default())
    }

    /// The first state of a component: samples, what the script says instead, and the rows it shows.
    pub(super) fn first_state(&self, namespace: &Namespace, now_ms: i64) -> Option<Map> {
        let node = namespace.component.as_ref()?.state.as_ref();
        let given = self.script.state.get(&namespace.name).cloned().unwrap_or_default();
        let mut state = node.map_or_else(Map::new, |node| state_of(node, self.types(), &given, now_ms));
        let shown = self.script.stores.iter().filter(|(writer, _)| shown_by(writer) == Some(&namespace.name));
        for table in shown.flat_map(|(_, store)| store.tables()) {
            if self.shows(namespace, table.resource()) && given.get(table.resource()).is_none() {
                state.insert(table.resource(), table.shown());
            }
        }
        Some(state)
    }

    /// Whether the state of a component has this field.
    pub(super) fn shows(&self, namespace: &Namespace, field: &str) -> bool {
        let state = namespace.component.as_ref().and_then(|component| component.state.as_ref());
        let path = Segments::from_list(vec![field.to_owned()]);
        state.zip(path.ok()).is_some_and(|(state, path)| type_at(state, &path, self.types()).is_some())
    }
}

/// What a component of this type holds at first: a sample, and what is given instead.
pub(super) fn state_of(node: &TypeNode, types: &Types, given: &Map, now_ms: i64) -> Map {
    let mut state = match sample(Some(node), types, now_ms) {
        Value::Map(map) => map,
        _ => Map::new(),
    };
    for (name, value) in given.iter() {
        state.insert(name, value.clone());
    }
    state
}

/// Looks for what may surprise: samples that break the contract (S-128), setters without anything to set.
struct Doubts<'p> {
    contract: &'p Contract,
    now_ms: i64,
    found: Vec<String>,
    more: usize,
}

impl<'p> Doubts<'p> {
    fn of(contract: &'p Contract, script: &Script, now_ms: i64) -> Vec<String> {
        let mut doubts = Self { contract, now_ms, found: Vec::new(), more: 0 };
        let methods = served(contract).flat_map(|ns| ns.methods.iter().map(move |method| (ns, method)));
        for (namespace, method) in methods.take(LOOKED_AT) {
            doubts.method(namespace, method, script);
        }
        for emit in script.emits.iter().filter(|emit| emit.params.is_none()) {
            let event = contract.namespace(&emit.namespace).and_then(|namespace| namespace.event(&emit.event));
            for node in event.and_then(|event| event.params.as_ref()).into_iter().flatten() {
                doubts.sampled(&format!("{}.{}", emit.namespace, emit.event), "what it carries", Some(node));
            }
        }
        for namespace in served(contract).take(LOOKED_AT) {
            let component = namespace.component.as_ref();
            doubts.sampled(&namespace.name, "its first props", component.and_then(|one| one.props.as_ref()));
            if !script.state.contains_key(&namespace.name) {
                doubts.sampled(&namespace.name, "its first state", component.and_then(|one| one.state.as_ref()));
            }
        }
        if doubts.more > 0 {
            let more = format!("and {} more of this kind", doubts.more);
            doubts.found.push(more);
        }
        doubts.found
    }

    fn method(&mut self, namespace: &Namespace, method: &Method, script: &Script) {
        let (ns, name) = (&namespace.name, &method.name);
        let target = (ns.clone(), name.clone());
        let stored = script.stores.contains_key(ns) && super::rows::METHODS.contains(&name.as_str());
        let answered = script.returns.contains_key(&target) || script.code.answers(&target);
        if !answered && !script.fails.contains_key(&target) && !stored {
            let node = method.deferred.as_ref().map_or(method.returns.as_ref(), |deferred| Some(&deferred.result));
            self.sampled(&format!("{ns}.{name}"), "its generated answer", node);
        }
        let Some(Sets::Path(path)) = &method.sets else { return };
        let state = namespace.component.as_ref().and_then(|component| component.state.as_ref());
        let node = state.zip(setting::path(path));
        if node.and_then(|(state, path)| type_at(state, &path, &self.contract.types)).is_none() {
            self.doubt(format!("{ns}.{name} declares that it sets '{path}', which nothing here has: it sets nothing"));
        }
    }

    fn sampled(&mut self, of: &str, what: &str, node: Option<&TypeNode>) {
        let Some(node) = node else { return };
        let value = sample(Some(node), &self.contract.types, self.now_ms);
        if let Err(text) = validate::value(&value, node, &self.contract.types, "") {
            self.doubt(format!("{of}: {what} breaks the contract ({text}); a script can say better"));
        }
    }

    fn doubt(&mut self, text: String) {
        if self.found.len() < TOLD { self.found.push(text) } else { self.more += 1 }
    }
}

/// The class every namespace of a fake says it is of.
const CLASS: &str = "Fake";
/// Methods and namespaces whose samples are looked at.
const LOOKED_AT: usize = 1_000;
/// Warnings that are told.
const TOLD: usize = 20;
