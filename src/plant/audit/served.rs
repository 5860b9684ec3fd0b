//! A namespace of ours that other peers may call, written down like the calls of clients.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value as Json};

use super::{
    Audit, Stranger,
    line::{Ending, name},
};
use crate::{
    contract::Semantics,
    link::Origin,
    node::{Exposed, Failure, Incoming, Node, Service, ServiceFuture},
    wire::tagged,
};

/// The same service, which begins nothing that is not written down first, but what is declared to be a query.
///
/// Who is not known for sure is refused by every service that changes something, and could write a line as often as he likes:
/// he is counted, like a stranger at the door.
pub fn served(audit: Audit, exposed: &Exposed, service: Arc<dyn Service>) -> Arc<dyn Service> {
    let methods = exposed.surface.methods.iter();
    let changing = methods.filter(|method| method.semantics != Some(Semantics::Query));
    let changing = changing.map(|method| (method.name.clone(), method.param_names.clone())).collect();
    Arc::new(Served { audit, changing, service })
}

#[derive(Debug)]
struct Served {
    audit: Audit,
    /// The methods that are written down, with what their parameters are called.
    changing: BTreeMap<String, Vec<String>>,
    service: Arc<dyn Service>,
}

impl Service for Served {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        let Some(parameters) = self.changing.get(&call.method) else { return self.service.run(node, call) };
        if call.origin != Origin::Verified {
            self.audit.turned_away(Stranger::Peer);
            return self.service.run(node, call);
        }
        let client = format!("peer {}", call.caller);
        let tool = format!("{}.{}", call.namespace, call.method);
        let entry = self.audit.entry(&client, &tool, &arguments(parameters, &call));
        let service = Arc::clone(&self.service);
        Box::pin(async move {
            if let Err(why) = entry.begin().await {
                return Err(Failure::coded("Unavailable", format!("nothing was done: {why}")));
            }
            let answer = service.run(node, call).await;
            entry.end(answer.as_ref().map_or_else(ending, |_| Ending::OK));
            answer
        })
    }
}

/// By name where the parameters have names.
fn arguments(parameters: &[String], call: &Incoming) -> Map<String, Json> {
    let key = |at: usize| parameters.get(at).cloned().unwrap_or_else(|| at.to_string());
    call.args.iter().enumerate().map(|(at, value)| (key(at), tagged::to_json(value.clone()))).collect()
}

fn ending(failure: &Failure) -> Ending {
    Ending { outcome: "refused", code: Some(Cow::Owned(name(&failure.code))) }
}
