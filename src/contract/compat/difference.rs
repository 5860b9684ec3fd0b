//! What two peers, or two contracts, expose differently (semantics 5.5), down to the named types (F-20).
//!
//! Types differ when some value fits one and not the other. An event that is only listed because somebody is subscribed
//! to it is no part of what is exposed.

use std::collections::{BTreeMap, BTreeSet};

use super::assign::Assignment;
use super::explain::{Explainer, Mismatch, pointer};
use crate::contract::text::by_code_unit;
use crate::contract::{Component, Contract, Description, Event, Method, Namespace, TypeNode, Types, signature};

/// One thing that differs. A side that is absent has nothing there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// In which namespace.
    pub namespace: String,
    /// Which member of it; none for the namespace itself.
    pub member: Option<String>,
    /// What the left side has.
    pub left: Option<String>,
    /// What the right side has.
    pub right: Option<String>,
    /// JSON Pointer to it in the left side's contract, where types part below the member.
    pub pointer: Option<String>,
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Exposed<'t> {
    namespaces: &'t [Namespace],
    types: &'t Types,
}

impl<'t> From<&'t Contract> for Exposed<'t> {
    fn from(contract: &'t Contract) -> Self {
        Self { namespaces: &contract.namespaces, types: &contract.types }
    }
}

impl<'t> From<&'t Description> for Exposed<'t> {
    fn from(description: &'t Description) -> Self {
        Self { namespaces: &description.namespaces, types: &description.types }
    }
}

/// What the two expose differently: namespaces in the order of their names, within one its version, methods, events,
/// capabilities and component.
pub fn differences<'t>(left: impl Into<Exposed<'t>>, right: impl Into<Exposed<'t>>) -> Vec<Difference> {
    let (left, right) = (left.into(), right.into());
    let mut search = Search {
        there: (Assignment::between_alike(left.types, right.types), Explainer::default()),
        back: (Assignment::between_alike(right.types, left.types), Explainer::default()),
        found: Vec::new(),
        namespace: String::new(),
    };
    let of = |side: Exposed<'t>| {
        let shown = side.namespaces.iter().filter(|namespace| namespace.name != "msgrpc");
        shown.map(|namespace| (Name(&namespace.name), namespace)).collect::<BTreeMap<_, _>>()
    };
    for (name, sides) in both(&of(left), &of(right)) {
        name.clone_into(&mut search.namespace);
        match sides {
            (Some(left), Some(right)) => search.namespace(left, right),
            (left, right) => search.note(None, left.map(|_| "served".into()), right.map(|_| "served".into())),
        }
    }
    search.found
}

struct Search<'t> {
    there: (Assignment<'t>, Explainer),
    back: (Assignment<'t>, Explainer),
    found: Vec<Difference>,
    namespace: String,
}

impl<'t> Search<'t> {
    fn namespace(&mut self, left: &'t Namespace, right: &'t Namespace) {
        let version = |namespace: &Namespace| namespace.version.clone().unwrap_or_else(|| "none".into());
        self.words("contract version", &version(left), &version(right));
        let methods = |namespace: &'t Namespace| {
            namespace.methods.iter().map(|method| (Name(&method.name), method)).collect::<BTreeMap<_, _>>()
        };
        for (name, sides) in both(&methods(left), &methods(right)) {
            match sides {
                (Some(left), Some(right)) => self.method(left, right),
                (left, right) => {
                    self.note(Some(name.into()), left.map(signature::line), right.map(signature::line));
                }
            }
        }
        let events = |namespace: &'t Namespace| {
            let declared = namespace.events.iter().filter(|event| event.params.is_some());
            declared.map(|event| (Name(&event.name), event)).collect::<BTreeMap<_, _>>()
        };
        for (name, sides) in both(&events(left), &events(right)) {
            match sides {
                (Some(left), Some(right)) => self.event(left, right),
                (left, right) => {
                    let emitted = |_| "emitted".to_owned();
                    self.note(Some(format!("event {name}")), left.map(emitted), right.map(emitted));
                }
            }
        }
        self.capabilities(left, right);
        self.component(left.component.as_ref(), right.component.as_ref());
    }

    fn method(&mut self, left: &'t Method, right: &'t Method) {
        let name = &left.name;
        let lines = [left, right].map(signature::line);
        let base = self.pointer("methods", name);
        if lines[0] == lines[1] {
            self.signature(left, right, &base);
        } else {
            let [left, right] = lines;
            self.note(Some(name.clone()), Some(left), Some(right));
        }
        let semantics = |method: &Method| method.semantics.map_or("none", super::super::Semantics::as_str);
        self.words(&format!("{name} semantics"), semantics(left), semantics(right));
        self.words(&format!("{name} effect"), left.effect().as_str(), right.effect().as_str());
        let sets = |method: &'t Method| method.sets.as_ref().map_or("none", |sets| sets.as_str());
        self.words(&format!("{name} sets"), sets(left), sets(right));
        let authority = |method: &Method| if method.requires_authority { "required" } else { "none" };
        self.words(&format!("{name} authority"), authority(left), authority(right));
    }

    /// What lies below two signatures that read alike.
    fn signature(&mut self, left: &'t Method, right: &'t Method, base: &str) {
        let name = &left.name;
        let lists = [&left.params, &right.params].map(|params| params.as_deref().unwrap_or_default());
        for (at, (left, right)) in lists[0].iter().zip(lists[1]).enumerate() {
            self.types(format!("{name} argument {at}"), Some(left), Some(right), &format!("{base}/params/{at}"));
        }
        self.types(format!("{name} rest"), left.rest.as_ref(), right.rest.as_ref(), &format!("{base}/rest"));
        self.types(format!("{name} return"), left.returns.as_ref(), right.returns.as_ref(), &format!("{base}/returns"));
        let later = [left, right].map(|method| method.deferred.as_ref());
        let [was, now] = later.map(|later| later.map(|later| &later.result));
        self.types(format!("{name} deferred result"), was, now, &format!("{base}/deferred/result"));
        let [was, now] = later.map(|later| later.and_then(|later| later.progress.as_ref()));
        self.types(format!("{name} deferred progress"), was, now, &format!("{base}/deferred/progress"));
    }

    fn event(&mut self, left: &'t Event, right: &'t Event) {
        let name = &left.name;
        let lists = [left, right].map(|event| event.params.as_deref().unwrap_or_default());
        let base = self.pointer("events", name);
        for at in 0..lists[0].len().max(lists[1].len()) {
            let [left, right] = lists.map(|params| params.get(at));
            self.types(format!("event {name} argument {at}"), left, right, &format!("{base}/params/{at}"));
        }
    }

    fn capabilities(&mut self, left: &Namespace, right: &Namespace) {
        let [left, right] = [left, right].map(|namespace| namespace.capabilities.iter().collect::<BTreeSet<_>>());
        let declared = |there: bool| there.then(|| "declared".to_owned());
        for name in left.symmetric_difference(&right) {
            let sides = (declared(left.contains(*name)), declared(right.contains(*name)));
            self.note(Some(format!("capability {name}")), sides.0, sides.1);
        }
    }

    fn component(&mut self, left: Option<&'t Component>, right: Option<&'t Component>) {
        let (Some(left), Some(right)) = (left, right) else {
            let served = |component: Option<&Component>| component.map(|_| "served".to_owned());
            if left.is_some() != right.is_some() {
                self.note(Some("component".into()), served(left), served(right));
            }
            return;
        };
        let base = pointer("/namespaces", &self.namespace);
        let parts = [("props", &left.props, &right.props), ("state", &left.state, &right.state)];
        for (part, left, right) in parts {
            let at = format!("{base}/component/{part}");
            self.types(format!("component {part}"), left.as_ref(), right.as_ref(), &at);
        }
    }

    fn types(&mut self, member: String, left: Option<&'t TypeNode>, right: Option<&'t TypeNode>, at: &str) {
        let (Some(left), Some(right)) = (left, right) else {
            let shown = |node: Option<&TypeNode>| node.map(|node| signature::concise(node, SHOWN));
            if left.is_some() != right.is_some() {
                self.note(Some(member), shown(left), shown(right));
            }
            return;
        };
        let fits = self.there.0.fits(left, right);
        if fits && self.back.0.fits(right, left) {
            return;
        }
        if self.found.len() >= EXPLAINED {
            return self.note(Some(member), Some("another type".into()), Some("another type".into()));
        }
        let (left, right, place, note) = if fits {
            let Mismatch { from, to, to_at, note, .. } = self.back.1.explain(&mut self.back.0, (right, at), (left, at));
            (to, from, to_at, note)
        } else {
            let Mismatch { from, to, from_at, note, .. } =
                self.there.1.explain(&mut self.there.0, (left, at), (right, at));
            (from, to, from_at, note)
        };
        // What reads alike differs in what the line does not show.
        let note = note.filter(|_| left == right).map(|note| format!(" ({note})")).unwrap_or_default();
        let (namespace, right) = (self.namespace.clone(), format!("{right}{note}"));
        let (left, right) = (Some(left), Some(right));
        self.found.push(Difference { namespace, member: Some(member), left, right, pointer: Some(place) });
    }

    fn words(&mut self, member: &str, left: &str, right: &str) {
        if left != right {
            self.note(Some(member.to_owned()), Some(left.to_owned()), Some(right.to_owned()));
        }
    }

    fn note(&mut self, member: Option<String>, left: Option<String>, right: Option<String>) {
        self.found.push(Difference { namespace: self.namespace.clone(), member, left, right, pointer: None });
    }

    fn pointer(&self, part: &str, name: &str) -> String {
        pointer(&format!("{}/{part}", pointer("/namespaces", &self.namespace)), name)
    }
}

/// A name, in the order in which peers list names (S-026).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Name<'t>(&'t str);

impl Ord for Name<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        by_code_unit(self.0, other.0)
    }
}

impl PartialOrd for Name<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// What each side has under a name.
type Sides<'t, T> = (Option<&'t T>, Option<&'t T>);

/// Every name of either side, in order, with what each side has under it.
fn both<'t, T>(left: &BTreeMap<Name<'t>, &'t T>, right: &BTreeMap<Name<'t>, &'t T>) -> Vec<(&'t str, Sides<'t, T>)> {
    let names: BTreeSet<Name<'t>> = left.keys().chain(right.keys()).copied().collect();
    names.into_iter().map(|name| (name.0, (left.get(&name).copied(), right.get(&name).copied()))).collect()
}

/// Characters of a type that are shown.
const SHOWN: usize = 120;
/// Differences of which is told where exactly the types part.
const EXPLAINED: usize = 256;
