//! Plays a fake: what it answers, in the order of semantics 11.2, and what that changes.
//!
//! The state is locked until what changed is told, so that states are told in the order they were in.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::Mutex;

use super::{
    code::Hands,
    deeds::{Deed, Deeds},
    plan::Plan,
    rows::{self, Store},
    script::Fails,
    setting,
    stock::shown_by,
};
use crate::{
    contract::{Deferred, Method, Namespace, Sets, samples::sample, validate},
    link::now_ms,
    node::{Commit, Exposed, Failure, Incoming, Node, Service, ServiceFuture},
    wire::{Map, PeerName, Value},
};

/// One fake at work. Clones are the same fake.
#[derive(Clone, Debug)]
pub(super) struct Actor(Arc<Playing>);

#[derive(Debug)]
struct Playing {
    name: PeerName,
    plan: Plan,
    holds: Mutex<Holds>,
    deeds: Deeds,
    /// What answers by itself, if its script brought something along.
    hands: Option<Hands>,
}

/// What it holds.
#[derive(Debug)]
struct Holds {
    /// The state of each component.
    states: HashMap<String, Map>,
    stores: HashMap<String, Store>,
}

impl Actor {
    /// A fake as it is at first.
    pub(super) fn new(name: PeerName, plan: Plan, hands: Option<Hands>) -> Self {
        let now = now_ms();
        let first = |namespace: &Namespace| Some((namespace.name.clone(), plan.first_state(namespace, now)?));
        let states = plan.namespaces().filter_map(first).collect();
        let holds = Mutex::new(Holds { states, stores: plan.script.stores.clone() });
        Self(Arc::new(Playing { name, plan, holds, deeds: Deeds::default(), hands }))
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// Calls given and events sent.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.0.deeds.counts()
    }

    /// Ends what answers by itself, and waits until nothing of that is left.
    pub(super) async fn rest(&self) {
        if let Some(hands) = &self.0.hands {
            hands.end().await;
        }
    }

    /// Everything it serves, each part with this behind it.
    pub(super) fn exposed(&self) -> Vec<(Exposed, Arc<dyn Service>)> {
        let (plan, now) = (self.plan(), now_ms());
        let exposed = plan.namespaces().map(|namespace| {
            let component = plan.props(namespace, now).zip(plan.first_state(namespace, now));
            (Plan::exposed(namespace, component), Arc::new(self.clone()) as Arc<dyn Service>)
        });
        exposed.collect()
    }

    /// Emits what the script has it emit by itself.
    pub(super) async fn emit_scripted(&self, node: &Node, at: usize) {
        let Some(emit) = self.plan().script.emits.get(at) else { return };
        let declared = || {
            let event = self.plan().namespace(&emit.namespace)?.event(&emit.event)?;
            let now = now_ms();
            Some(event.params.as_ref()?.iter().map(|node| sample(Some(node), self.plan().types(), now)).collect())
        };
        let args: Vec<Value> = emit.params.clone().or_else(declared).unwrap_or_default();
        self.0.deeds.note(&self.0.name, Deed::Event { namespace: &emit.namespace, event: &emit.event });
        node.emit(&emit.namespace, &emit.event, args).await;
    }

    async fn serve(&self, node: Node, call: Incoming) -> Result<Option<Value>, Failure> {
        let target = (call.namespace.clone(), call.method.clone());
        let fails = self.plan().script.fails.get(&target);
        if fails == Some(&Fails::Never) {
            self.note(&call, Some("Timeout"));
            node.leave_unanswered(call.run).await;
            return Ok(None);
        }
        let result = match fails {
            Some(Fails::With(code)) => {
                Err(Failure::coded(code.as_str(), format!("{}.{} is set to fail", call.namespace, call.method)))
            }
            _ => self.answer(&node, &call, &target).await,
        };
        self.note(&call, result.as_ref().err().map(|failure| failure.code.as_str()));
        result
    }

    async fn answer(&self, node: &Node, call: &Incoming, target: &(String, String)) -> Result<Option<Value>, Failure> {
        let plan = self.plan();
        let namespace = plan.namespace(&call.namespace);
        let Some((namespace, method)) = namespace.and_then(|ns| Some((ns, ns.method(&call.method)?))) else {
            return Err(Failure::coded("MethodNotFound", format!("{}.{} is not exposed", call.namespace, call.method)));
        };
        if let Some(hands) = self.0.hands.as_ref().filter(|_| plan.script.code.answers(target)) {
            return self.by_hand(node, namespace, method, call, hands).await;
        }
        let scripted = plan.script.returns.get(target);
        if scripted.is_none()
            && let Some(answer) = self.store(node, namespace, call).await
        {
            return answer.map(Some);
        }
        self.set(node, namespace, method, call).await?;
        if let Some(deferred) = &method.deferred {
            return self.later(node, call, deferred, scripted).await;
        }
        let generated = || sample(method.returns.as_ref(), plan.types(), now_ms());
        Ok(Some(scripted.cloned().unwrap_or_else(generated)))
    }

    /// Answers later: the receipt, one report of progress where that is declared, and the end (semantics 10.1).
    async fn later(
        &self,
        node: &Node,
        call: &Incoming,
        deferred: &Deferred,
        scripted: Option<&Value>,
    ) -> Result<Option<Value>, Failure> {
        let sampled = |node| sample(Some(node), self.plan().types(), now_ms());
        let later = node.answer_later(call.run, None).await?;
        if let Some(progress) = &deferred.progress {
            later.progress(sampled(progress)).await;
        }
        Ok(Some(scripted.cloned().unwrap_or_else(|| sampled(&deferred.result))))
    }

    /// Has code of the script answer. A method that declares what it sets sets it once its handler has answered, and not at
    /// all when that fails; what could not be set is refused before.
    async fn by_hand(
        &self,
        node: &Node,
        namespace: &Namespace,
        method: &Method,
        call: &Incoming,
        hands: &Hands,
    ) -> Result<Option<Value>, Failure> {
        let target = (call.namespace.clone(), call.method.clone());
        let plain = |text: String| Failure::exception(format!("{}.{}: {text}", target.0, target.1));
        self.settable(namespace, method, call).await?;
        if method.deferred.is_some() {
            node.answer_later(call.run, None).await?;
        }
        let answered = hands
            .call(&self.plan().script.code, &target, &call.args)
            .await
            .unwrap_or_else(|| Err("nothing answers it".into()));
        let value = answered.map_err(plain)?;
        let declared = method.deferred.as_ref().map_or(method.returns.as_ref(), |deferred| Some(&deferred.result));
        if let Some(Err(text)) = declared.map(|node| validate::value(&value, node, self.plan().types(), "result")) {
            let (ns, method) = &target;
            return Err(Failure::exception(format!("{ns}.{method} returned a value its own schema forbids: {text}")));
        }
        self.set(node, namespace, method, call).await?;
        Ok(Some(value))
    }

    /// A call of the store behind this namespace, if there is one that answers it.
    async fn store(&self, node: &Node, namespace: &Namespace, call: &Incoming) -> Option<Result<Value, Failure>> {
        if !rows::METHODS.contains(&call.method.as_str()) {
            return None;
        }
        let mut holds = self.0.holds.lock().await;
        let store = holds.stores.get_mut(&namespace.name)?;
        let answer = store.call(&call.method, &call.args, |_| {});
        if store.take_changed() {
            let rows: Vec<(String, Map)> =
                store.tables().iter().map(|table| (table.resource().to_owned(), table.shown())).collect();
            self.show_rows(node, &mut holds, namespace, rows).await;
        }
        Some(answer)
    }

    /// Rows changed: the component that shows them changes too.
    async fn show_rows(&self, node: &Node, holds: &mut Holds, writer: &Namespace, rows: Vec<(String, Map)>) {
        let reader = shown_by(&writer.name).and_then(|name| self.plan().namespace(name));
        let Some((reader, state)) = reader.and_then(|reader| Some((reader, holds.states.get_mut(&reader.name)?)))
        else {
            return;
        };
        for (resource, rows) in rows {
            if self.plan().shows(reader, &resource) {
                state.insert(resource, rows);
            }
        }
        self.show(node, &reader.name, state.clone()).await;
    }

    /// A method that declares what it sets sets it to its first argument, within the bounds of the state.
    async fn set(&self, node: &Node, namespace: &Namespace, method: &Method, call: &Incoming) -> Result<(), Failure> {
        let mut holds = self.0.holds.lock().await;
        let Some(state) = holds.states.get_mut(&namespace.name) else { return Ok(()) };
        if self.written(state, namespace, method, call)? {
            let state = state.clone();
            self.show(node, &namespace.name, state).await;
        }
        Ok(())
    }

    /// Whether that could be set.
    async fn settable(&self, namespace: &Namespace, method: &Method, call: &Incoming) -> Result<(), Failure> {
        let state = self.0.holds.lock().await.states.get(&namespace.name).cloned();
        state.map_or(Ok(()), |mut state| self.written(&mut state, namespace, method, call).map(drop))
    }

    /// Writes what the method sets into `state`; whether that changed it.
    fn written(
        &self,
        state: &mut Map,
        namespace: &Namespace,
        method: &Method,
        call: &Incoming,
    ) -> Result<bool, Failure> {
        let Some(Sets::Path(path)) = &method.sets else { return Ok(false) };
        let declared = namespace.component.as_ref().and_then(|component| component.state.as_ref());
        let Some((declared, path)) = declared.zip(setting::path(path)) else { return Ok(false) };
        let Some(value) = call.args.first() else { return Ok(false) };
        let written = setting::set(state, declared, self.plan().types(), &path, value.clone());
        written.map_err(|text| Failure::coded("InvalidParams", format!("{}.{}: {text}", call.namespace, call.method)))
    }

    async fn show(&self, node: &Node, namespace: &str, state: Map) {
        self.0.deeds.note(&self.0.name, Deed::State { namespace });
        node.commit(namespace, Commit::State(state)).await;
    }

    fn note(&self, call: &Incoming, failed: Option<&str>) {
        let Incoming { caller, namespace, method, .. } = call;
        self.0.deeds.note(&self.0.name, Deed::Call { caller, namespace, method, failed });
    }
}

impl Service for Actor {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        let this = self.clone();
        Box::pin(async move { this.serve(node, call).await })
    }
}
