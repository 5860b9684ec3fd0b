//! The namespace `msgrpc`: what we are, how far our events are counted, where we stand (semantics.md 2).

use super::{super::Now, Server, authority::Refusal};
use crate::{
    contract::{Event, ServedNamespace, Surface, describe, introspection, shape, validate},
    wire::{Map, Request, Value},
};

impl Server {
    /// A call of `msgrpc`.
    pub(super) fn introspect(&mut self, request: &Request, now: Now) -> Result<Value, Refusal> {
        let method = request.method.as_str();
        let contract = introspection();
        let declared = contract.namespace("msgrpc");
        let Some(known) = declared.and_then(|declared| declared.method(method)) else {
            return Err(("MethodNotFound", format!("msgrpc.{method} is not exposed")));
        };
        if self.validates() {
            validate::arguments(&request.args, known, &contract.types)
                .map_err(|fault| ("InvalidParams", fault.text))?;
        }
        self.fenced(request)?;
        match method {
            "describe" => Ok(describe(&self.surface())),
            "eventCursor" => Ok(self.event_cursor(&request.args, now)),
            "topology" => Ok(self.topology()),
            _ => Err((
                "Exception",
                "this host does not accept remote topology mutation - it is enabled with \
                 topology.allowRemoteMutation, and gated by authorize() like any call"
                    .into(),
            )),
        }
    }

    /// The shape we announce; it changes when the surface does.
    pub(in super::super) fn shape(&self) -> String {
        shape::shape(&self.surface())
    }

    fn validates(&self) -> bool {
        let mut methods = self.namespaces.values().flat_map(|served| served.exposed.surface.methods.iter());
        methods.any(|method| method.params.is_some())
    }

    fn surface(&self) -> Surface {
        let namespaces = self.namespaces.values().map(|served| {
            let name = served.exposed.name.as_str();
            let mut surface = served.exposed.surface.clone();
            self.count_subscribers(name, &mut surface);
            surface
        });
        Surface {
            name: self.me.as_str().into(),
            version: self.serving.version.clone(),
            validating: self.validates(),
            namespaces: namespaces.collect(),
            introspection: self.serving.introspection,
            places: Some(self.topology.places().clone()),
            path_writes: self.namespaces.values().all(|served| served.exposed.path_writes),
            types: self.serving.types_entry.clone(),
        }
    }

    /// Adds who listens: declared events and those somebody happens to watch.
    fn count_subscribers(&self, name: &str, surface: &mut ServedNamespace) {
        for declared in &mut surface.events {
            declared.subscribers = self.streams.subscribers(name, &declared.name);
        }
        for event in self.streams.events(name) {
            if !surface.events.iter().any(|known| known.name == event) {
                let subscribers = self.streams.subscribers(name, event);
                surface.events.push(Event { name: event.into(), subscribers, ..Event::default() });
            }
        }
        if let Some(component) = &mut surface.component {
            component.subscribers = self.streams.subscribers(name, super::super::SNAPSHOT);
        }
    }

    /// How far an event is counted. Asking starts the count of one that nobody declared.
    fn event_cursor(&mut self, args: &[Value], now: Now) -> Value {
        let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (namespace, event) = (text(0), text(1));
        let emits = self.namespaces.get(&namespace).is_some_and(|served| served.exposed.surface.emitter);
        if emits && !event.is_empty() {
            self.counters.start(&namespace, &event, now.unix_ms);
        }
        let mut cursor = Map::new();
        cursor.insert("epoch", self.counters.epoch());
        // A namespace that is gone may have counts still, for its return (S-066); it has no cursor meanwhile.
        match self.counters.cursor(&namespace, &event).filter(|_| emits) {
            Some((seq, since_ms)) => {
                cursor.insert("seq", i64::try_from(seq).unwrap_or(i64::MAX));
                cursor.insert("since", since_ms);
            }
            None => cursor.insert("seq", Value::Null),
        }
        cursor.into()
    }

    /// Where our instances stand.
    fn topology(&self) -> Value {
        let mut topology = self.topology.places().to_map();
        let described = describe(&Surface::default());
        if let Some(capabilities) = described.get("host").and_then(|host| host.get("capabilities")) {
            topology.insert("capabilities", capabilities.clone());
        }
        topology.into()
    }
}
