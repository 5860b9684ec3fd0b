//! One namespace against another (semantics 5.1), in the order of its rules.

use std::collections::HashMap;

use super::assign::Assignment;
use super::explain::{Explainer, pointer};
use super::report::{Breaking, Report, Unchecked};
use crate::contract::{Component, Deferred, Event, Method, Namespace, Sets, TypeNode, Types};

/// Where the other side is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A contract, which says everything.
    Contract,
    /// A live peer's description, which says nothing of later answers and need not say anything else.
    Description,
}

/// A comparison under way. What was found out about named types serves all namespaces.
pub(super) struct Comparison<'t> {
    /// Values of the caller, against what accepts them now.
    sent: (Assignment<'t>, Explainer),
    /// Values given now, against what the caller expects.
    given: (Assignment<'t>, Explainer),
    told: Told,
    pub(super) report: Report,
    namespace: String,
}

/// Which way values go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the caller.
    Sent,
    /// To the caller.
    Given,
}

impl<'t> Comparison<'t> {
    pub(super) fn new(caller: &'t Types, current: &'t Types, told: Told) -> Self {
        Self {
            sent: (Assignment::new(caller, current), Explainer::default()),
            given: (Assignment::new(current, caller), Explainer::default()),
            told,
            report: Report::default(),
            namespace: String::new(),
        }
    }

    /// Notes what of `caller` is broken by `current`.
    pub(super) fn namespace(&mut self, caller: &'t Namespace, current: &'t Namespace) {
        self.namespace.clone_from(&caller.name);
        let base = pointer("/namespaces", &caller.name);
        let methods: HashMap<&str, &Method> =
            current.methods.iter().map(|method| (method.name.as_str(), method)).collect();
        for method in caller.methods.iter() {
            let at = pointer(&format!("{base}/methods"), &method.name);
            match methods.get(method.name.as_str()) {
                None => self.breaks(method.name.clone(), "no longer exists", at),
                Some(now) => self.method(method, now, &at),
            }
        }
        let events: HashMap<&str, &Event> = current.events.iter().map(|event| (event.name.as_str(), event)).collect();
        for event in &caller.events {
            let at = pointer(&format!("{base}/events"), &event.name);
            match events.get(event.name.as_str()) {
                None => {
                    let reason = "is no longer emitted, so a subscription to it would never fire";
                    self.breaks(format!("event {}", event.name), reason, at);
                }
                Some(now) => self.event(event, now, &at),
            }
        }
        for (index, capability) in caller.capabilities.iter().enumerate() {
            if !current.capabilities.contains(capability) {
                let reason = "is no longer declared, so whatever found this peer by it will stop finding it";
                self.breaks(format!("capability {capability}"), reason, format!("{base}/capabilities/{index}"));
            }
        }
        if let Some(component) = &caller.component {
            self.component(component, current.component.as_ref(), &format!("{base}/component"));
        }
    }

    fn method(&mut self, caller: &'t Method, current: &'t Method, at: &str) {
        let name = &caller.name;
        match (&caller.params, &current.params) {
            (Some(was), Some(now)) => self.parameters(caller, current, (was, now), at),
            (Some(_), None) => self.unchecked(name.clone(), "is described without its parameters"),
            (None, _) => {}
        }
        match (&caller.returns, &current.returns) {
            (Some(was), Some(now)) => {
                let reason = "widened, so a value this contract may return is not one the caller expects";
                self.fit(Way::Given, (was, now), format!("{name} return"), reason, &format!("{at}/returns"));
            }
            (Some(_), None) if current.params.is_some() => {
                self.unchecked(format!("{name} return"), "is not declared any more");
            }
            _ => {}
        }
        self.deferred(caller, current, at);
        self.semantics(caller, current, at);
        self.effect(caller, current, at);
        self.sets(caller, current, at);
    }

    fn parameters(
        &mut self,
        caller: &'t Method,
        current: &'t Method,
        (was, now): (&'t [TypeNode], &'t [TypeNode]),
        at: &str,
    ) {
        let name = &caller.name;
        let params = format!("{at}/params");
        if current.rest.is_none() {
            if now.len() < was.len() {
                let (now, was) = (now.len(), was.len());
                let reason = format!("takes at most {now} arguments, but a caller may send {was}");
                self.breaks(name.clone(), reason, params.clone());
            } else if caller.rest.is_some() {
                let reason = format!("takes at most {} arguments, but a caller may send any number", now.len());
                self.breaks(name.clone(), reason, format!("{at}/rest"));
            }
        }
        let required = |nodes: &[TypeNode]| nodes.iter().filter(|node| !node.is_optional()).count();
        let (needs, needed) = (required(now), required(was));
        if needs > needed {
            let reason = format!("requires {needs} arguments, but a caller may send as few as {needed}");
            self.breaks(name.clone(), reason, params.clone());
        }
        let narrowed = "narrowed, so a value the caller may send is no longer accepted";
        for (index, was) in was.iter().enumerate() {
            if let Some(now) = now.get(index).or(current.rest.as_ref()) {
                self.fit(
                    Way::Sent,
                    (was, now),
                    format!("{name} argument {index}"),
                    narrowed,
                    &format!("{params}/{index}"),
                );
            }
        }
        if let Some(was_rest) = &caller.rest {
            let rest = format!("{at}/rest");
            for (index, now) in now.iter().enumerate().skip(was.len()) {
                self.fit(Way::Sent, (was_rest, now), format!("{name} argument {index}"), narrowed, &rest);
            }
            if let Some(now) = &current.rest {
                self.fit(Way::Sent, (was_rest, now), format!("{name} rest"), narrowed, &rest);
            }
        }
    }

    fn deferred(&mut self, caller: &'t Method, current: &'t Method, at: &str) {
        let name = &caller.name;
        if self.told == Told::Description {
            if caller.deferred.is_some() {
                let called = format!("{}.{name}", self.namespace);
                self.report
                    .notes
                    .push(format!("what {called} answers later is never described, so it was not compared"));
            }
            return;
        }
        let place = format!("{name} reply");
        match (&caller.deferred, &current.deferred) {
            (Some(was), Some(now)) => self.later(name, (was, now), &format!("{at}/deferred")),
            (None, Some(_)) => {
                self.breaks(place, "became deferred, so the result no longer arrives in the call", at.to_owned());
            }
            (Some(_), None) => {
                let reason = "stopped being deferred, so a caller holding a ticket has nothing to hold";
                self.breaks(place, reason, format!("{at}/deferred"));
            }
            (None, None) => {}
        }
    }

    fn later(&mut self, name: &str, (was, now): (&'t Deferred, &'t Deferred), at: &str) {
        let reason = "widened, so a value this contract may answer with is not one the caller expects";
        let place = format!("{name} deferred result");
        self.fit(Way::Given, (&was.result, &now.result), place, reason, &format!("{at}/result"));
        if let (Some(was), Some(now)) = (&was.progress, &now.progress) {
            let reason = "widened, so an update this contract may report is not one the caller expects";
            self.fit(Way::Given, (was, now), format!("{name} deferred progress"), reason, &format!("{at}/progress"));
        }
    }

    fn semantics(&mut self, caller: &Method, current: &Method, at: &str) {
        let Some(was) = caller.semantics else { return };
        let reason = match current.semantics {
            Some(now) if now > was => format!(
                "is now {} where the caller was told {}, so a retry the caller may already make is no longer safe",
                now.as_str(),
                was.as_str()
            ),
            None if was != crate::contract::Semantics::NonRepeatableCommand => format!(
                "no longer declares that it is {}, so a caller relying on that promise has nothing to rely on",
                was.as_str()
            ),
            Some(_) | None => return,
        };
        self.breaks(caller.name.clone(), reason, format!("{at}/semantics"));
    }

    fn effect(&mut self, caller: &Method, current: &Method, at: &str) {
        let Some(was) = caller.declared_effect else { return };
        let reason = match (current.declared_effect, self.told) {
            (None, Told::Contract) => format!(
                "no longer declares effect '{}', so it falls back to the default and a grant written against the \
                 declaration no longer matches",
                was.as_str()
            ),
            // A live peer tells the effect it enforces, and one that tells none enforces the default.
            (Some(_), _) | (None, Told::Description) if current.effect() > was => format!(
                "now has effect '{}' where the caller was told '{}', so a caller granted the lesser authority is refused",
                current.effect().as_str(),
                was.as_str()
            ),
            (Some(_) | None, _) => return,
        };
        self.breaks(caller.name.clone(), reason, format!("{at}/effect"));
    }

    fn sets(&mut self, caller: &Method, current: &Method, at: &str) {
        let Some(was) = &caller.sets else { return };
        let reason = match &current.sets {
            Some(now) if now == was => return,
            // A host that refuses to set any path does not describe that it could.
            None if *was == Sets::Any && self.told == Told::Description => {
                return self
                    .unchecked(caller.name.clone(), "may set any path by its contract, which a host need not tell");
            }
            Some(now) => format!(
                "sets '{}' where the caller was told '{}', so a change of that path finds another method or none",
                now.as_str(),
                was.as_str()
            ),
            None => format!(
                "no longer declares that it sets '{}', so a change of that path finds another method or none",
                was.as_str()
            ),
        };
        self.breaks(caller.name.clone(), reason, format!("{at}/sets"));
    }

    fn event(&mut self, caller: &'t Event, current: &'t Event, at: &str) {
        let name = &caller.name;
        let Some(was) = &caller.params else { return };
        let Some(now) = &current.params else {
            // It may be listed only because somebody is subscribed.
            return self.unchecked(format!("event {name}"), "is described without its arguments");
        };
        for (index, now) in now.iter().enumerate() {
            let place = format!("event {name} argument {index}");
            match was.get(index) {
                None => self.breaks(place, "is emitted but the caller does not expect it", at.to_owned()),
                Some(was) => {
                    let reason = "widened, so a value this contract may emit is not one the caller expects";
                    self.fit(Way::Given, (was, now), place, reason, &format!("{at}/params/{index}"));
                }
            }
        }
        for (index, _) in was.iter().enumerate().skip(now.len()).filter(|(_, node)| !node.is_optional()) {
            let reason = "is no longer emitted, so whoever listens finds nothing there";
            self.breaks(format!("event {name} argument {index}"), reason, format!("{at}/params/{index}"));
        }
    }

    fn component(&mut self, caller: &'t Component, current: Option<&'t Component>, at: &str) {
        let Some(current) = current else {
            let reason = "is no longer served, so an observer would wait forever for a snapshot";
            return self.breaks("component".into(), reason, at.to_owned());
        };
        let parts = [("props", &caller.props, &current.props), ("state", &caller.state, &current.state)];
        for (part, was, now) in parts {
            match (was, now) {
                (Some(was), Some(now)) => {
                    let reason = "widened, so a snapshot this contract may serve is not one the observer expects";
                    self.fit(Way::Given, (was, now), format!("component {part}"), reason, &format!("{at}/{part}"));
                }
                (Some(_), None) => self.unchecked(format!("component {part}"), "is described without its type"),
                (None, _) => {}
            }
        }
    }

    /// Notes a problem unless what goes one way between the caller's type and the one there is now fits.
    fn fit(&mut self, way: Way, (was, now): (&'t TypeNode, &'t TypeNode), place: String, reason: &str, at: &str) {
        let ((assignment, explainer), from, to) = match way {
            Way::Sent => (&mut self.sent, was, now),
            Way::Given => (&mut self.given, now, was),
        };
        if assignment.fits(from, to) {
            return;
        }
        // Explaining looks again; of very many problems the later ones do without.
        if self.report.problems.len() >= EXPLAINED {
            return self.breaks(place, reason, at.to_owned());
        }
        let found = explainer.explain(assignment, (from, at), (to, at));
        let (pointer, was, now) = match way {
            Way::Sent => (found.from_at, found.from, found.to),
            Way::Given => (found.to_at, found.to, found.from),
        };
        let note = found.note.map(|note| format!("; {note}")).unwrap_or_default();
        let detail = Some(format!("the contract has {was}, what is served has {now}{note}"));
        let (namespace, reason) = (self.namespace.clone(), reason.to_owned());
        self.report.problems.push(Breaking { namespace, place, reason, pointer, detail });
    }

    fn breaks(&mut self, place: String, reason: impl Into<String>, pointer: String) {
        let (namespace, reason) = (self.namespace.clone(), reason.into());
        self.report.problems.push(Breaking { namespace, place, reason, pointer, detail: None });
    }

    fn unchecked(&mut self, place: String, reason: &str) {
        let (namespace, reason) = (self.namespace.clone(), reason.to_owned());
        self.report.unchecked.push(Unchecked { namespace, place, reason });
    }
}

/// Problems of which is told where exactly the types part.
const EXPLAINED: usize = 256;
