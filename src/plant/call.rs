//! Calling a method: found in the peer's description, checked against it, permitted, sent once.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Plant, PlantError, Principal, Target, Ticket, descriptions::is_fake, gate::Action, nearest, while_wanted};
use crate::{
    contract::{
        ArgumentFault, Description, Effect, Method, Namespace, Semantics, TypeNode, Types, signature, validate, words,
    },
    node::{Answer, Call},
    wire::{Map, PeerName, Value},
};

/// A call somebody wants made.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// Whom.
    pub peer: String,
    /// Which namespace.
    pub namespace: String,
    /// Which method.
    pub method: String,
    /// With what.
    pub arguments: Arguments,
    /// How long the answer is awaited; `None`: as long as this process usually does.
    pub timeout: Option<Duration>,
    /// How long the peer is awaited, if it is not there.
    pub wait: Duration,
    /// Names the command; one is made for a command that must not be repeated.
    pub idempotency_key: Option<String>,
}

/// The arguments of a call.
#[derive(Clone, Debug)]
pub enum Arguments {
    /// By position.
    Positional(Vec<Value>),
    /// By the names the peer gives its parameters.
    Named(Map),
    /// As typed, by position: what each means is for the peer's description to say.
    Words(Vec<String>),
}

/// A call that was answered.
#[derive(Debug)]
pub struct Called {
    /// What was called.
    pub target: Target,
    /// What the method returned; `None` is "nothing".
    pub value: Option<Value>,
    /// How long it took.
    pub took: Duration,
    /// What is declared about a repeat.
    pub semantics: Option<Semantics>,
    /// The effect that was enforced.
    pub effect: Effect,
    /// Whether the arguments were checked against the peer's description before they left.
    pub checked: bool,
    /// The key it carried.
    pub idempotency_key: Option<String>,
    /// The answer that follows, of a deferred method.
    pub ticket: Option<Arc<Ticket>>,
    /// Whether the answer came from a peer that says it is a fake.
    pub fake: bool,
}

/// What is to be called, once it was found and checked.
pub(super) struct Ready {
    target: Target,
    args: Vec<Value>,
    semantics: Option<Semantics>,
    effect: Effect,
    checked: bool,
    fake: bool,
    /// Whether whoever calls it must be in control.
    needs_control: bool,
}

/// What may be called: it is permitted, and its key, if it has one, names this command and no other.
pub(super) struct Admitted {
    ready: Ready,
    key: Option<String>,
}

impl Plant {
    /// Calls a method and gives what it returned. Once `stop` is cancelled nothing is sent any more; what has been sent is
    /// still answered.
    pub async fn call(
        &self,
        principal: &Principal,
        request: CallRequest,
        stop: &CancellationToken,
    ) -> Result<Called, PlantError> {
        let timeout = request.timeout.unwrap_or(self.settings().call_timeout);
        let key = request.idempotency_key.clone();
        let ready = while_wanted(stop, self.ready(request)).await?;
        self.send(principal, ready, timeout, key).await
    }

    async fn ready(&self, request: CallRequest) -> Result<Ready, PlantError> {
        let (peer, _) = self.reach(&request.peer, request.wait).await?;
        let description = self.description_if_any(&peer).await?;
        check(peer, request, description.as_ref())
    }

    /// Sends what was found and checked, if it is permitted.
    pub(super) async fn send(
        &self,
        principal: &Principal,
        ready: Ready,
        timeout: Duration,
        key: Option<String>,
    ) -> Result<Called, PlantError> {
        let admitted = self.admit(principal, ready, key)?;
        self.dispatch(principal, admitted, timeout).await
    }

    /// Decides whether it may be called. Every verb that can change a plant comes through here.
    pub(super) fn admit(
        &self,
        principal: &Principal,
        ready: Ready,
        key: Option<String>,
    ) -> Result<Admitted, PlantError> {
        let Ready { target, args, semantics, effect, needs_control, .. } = &ready;
        self.permit(principal, &Action { target: target.clone(), semantics: *semantics, effect: *effect })?;
        if *needs_control {
            self.not_on_anothers_control(principal, target)?;
        }
        if let Some(key) = &key {
            self.shared.keys.take(key, target, args)?;
        }
        Ok(Admitted { ready, key })
    }

    /// Sends what may be called, once.
    pub(super) async fn dispatch(
        &self,
        principal: &Principal,
        admitted: Admitted,
        timeout: Duration,
    ) -> Result<Called, PlantError> {
        let Admitted { ready, key } = admitted;
        let Ready { target, args, semantics, effect, checked, fake, .. } = ready;
        let made = || Uuid::new_v4().hyphenated().to_string();
        let idempotency_key = key.or_else(|| (semantics == Some(Semantics::NonRepeatableCommand)).then(made));
        let call = Call {
            peer: target.peer.clone(),
            namespace: target.namespace.clone(),
            method: target.method.clone(),
            args,
            timeout: Some(timeout),
            idempotency_key: idempotency_key.clone(),
        };
        let started = Instant::now();
        match self.node().call(call).await {
            Ok(Answer { value, ticket }) => {
                let took = started.elapsed();
                let facts = (effect == Effect::Observe, fake);
                let ticket = ticket.map(|handle| self.keep_ticket(principal, &target, handle, facts));
                Ok(Called { target, value, took, semantics, effect, checked, idempotency_key, ticket, fake })
            }
            Err(error) => {
                Err(self.call_failed(principal, target, (checked, effect == Effect::Observe), idempotency_key, error))
            }
        }
    }
}

/// Finds what is to be called in the peer's description and checks the arguments against it. A peer that says nothing of
/// itself is called unchecked, and that counts as operating it.
pub(super) fn check(
    peer: PeerName,
    request: CallRequest,
    description: Option<&Arc<Description>>,
) -> Result<Ready, PlantError> {
    let target = Target { peer, namespace: request.namespace, method: request.method };
    let Some(description) = description else {
        let args = positional(&target, request.arguments, None, &Types::default())?;
        let (semantics, effect) = (None, Effect::Operate);
        let needs_control = matches!(target.method.as_str(), "$acquire" | "$release");
        let (checked, fake) = (false, false);
        return Ok(Ready { target, args, semantics, effect, checked, fake, needs_control });
    };
    let namespace = find_namespace(description, &target.peer, &target.namespace)?;
    let fake = is_fake(description);
    let Some(method) = namespace.method(&target.method) else {
        return built_in(target, request.arguments, namespace, fake);
    };
    let args = positional(&target, request.arguments, Some(method), &description.types)?;
    let checked = method.params.is_some();
    arguments(&target, method, &description.types, &args)?;
    let (semantics, effect, needs_control) = (method.semantics, method.effect(), method.requires_authority);
    Ok(Ready { target, args, semantics, effect, checked, fake, needs_control })
}

/// The built-ins of a component count as described; everything else that is not in the description is refused here.
fn built_in(target: Target, arguments: Arguments, namespace: &Namespace, fake: bool) -> Result<Ready, PlantError> {
    let component = namespace.component.is_some();
    let (semantics, effect) = match target.method.as_str() {
        "$acquire" | "$release" if component => (None, Effect::Operate),
        "$data" if component => (Some(Semantics::Query), Effect::Observe),
        name => {
            return Err(PlantError::UnknownMethod {
                alternatives: nearest(name, namespace.methods.iter().map(|method| method.name.as_str())),
                hint: hint(name),
                peer: target.peer,
                namespace: target.namespace,
                method: target.method,
            });
        }
    };
    let args = positional(&target, arguments, None, &Types::default())?;
    let needs_control = effect != Effect::Observe;
    Ok(Ready { target, args, semantics, effect, checked: false, fake, needs_control })
}

fn hint(method: &str) -> &'static str {
    match method {
        "on" | "off" | "removeListener" | "once" | "addListener" => {
            "; subscriptions are not called: read_state looks at a component once"
        }
        _ => "",
    }
}

/// The namespace of this name, or what there is instead.
pub(crate) fn find_namespace<'a>(
    description: &'a Description,
    peer: &PeerName,
    namespace: &str,
) -> Result<&'a Namespace, PlantError> {
    description.namespace(namespace).ok_or_else(|| PlantError::UnknownNamespace {
        peer: peer.clone(),
        namespace: namespace.into(),
        alternatives: nearest(namespace, description.namespaces.iter().map(|known| known.name.as_str())),
    })
}

/// Puts named arguments in the order of the parameters, and reads words by them.
fn positional(
    target: &Target,
    arguments: Arguments,
    method: Option<&Method>,
    types: &Types,
) -> Result<Vec<Value>, PlantError> {
    let named = match arguments {
        Arguments::Positional(args) => return Ok(args),
        Arguments::Words(words) => {
            return words::values(&words, method, types).map_err(|fault| invalid(target, method, fault));
        }
        Arguments::Named(named) => named,
    };
    let names = method.map(|method| method.param_names.as_slice()).unwrap_or_default();
    if names.is_empty() && !named.is_empty() {
        return Err(PlantError::BadArgument {
            argument: "/named_args".into(),
            expected: "positional arguments in `args`".into(),
            problem: format!("{target} does not say how its parameters are called"),
        });
    }
    if let Some((unknown, _)) = named.iter().find(|(name, _)| !names.iter().any(|known| known == name)) {
        return Err(PlantError::BadArgument {
            argument: format!("/named_args/{}", pointer_token(unknown)),
            expected: format!("one of {}", names.join(", ")),
            problem: format!("{target} has no parameter '{unknown}'"),
        });
    }
    let given = names.iter().rposition(|name| named.get(name).is_some()).map_or(0, |last| last + 1);
    let value = |name: &String| named.get(name).cloned().unwrap_or(Value::Null);
    let mut args = Vec::with_capacity(given);
    for (at, name) in names.iter().take(given).enumerate() {
        let optional = method.and_then(|method| method.params.as_ref()?.get(at)).is_none_or(TypeNode::is_optional);
        if named.get(name).is_none() && !optional {
            return Err(PlantError::BadArgument {
                argument: format!("/named_args/{}", pointer_token(name)),
                expected: "a value".into(),
                problem: format!("{target} requires '{name}'"),
            });
        }
        args.push(value(name));
    }
    Ok(args)
}

/// Checks arguments as the peer would.
fn arguments(target: &Target, method: &Method, types: &Types, args: &[Value]) -> Result<(), PlantError> {
    validate::before_sending(args, method, types).map_err(|fault| invalid(target, Some(method), fault))
}

fn invalid(target: &Target, method: Option<&Method>, ArgumentFault { argument, text }: ArgumentFault) -> PlantError {
    PlantError::InvalidParams {
        target: target.clone(),
        argument: argument.map_or_else(|| "/args".into(), |at| format!("/args/{at}")),
        problem: text,
        signature: method.map_or_else(|| format!("{}(…)", target.method), signature::line),
    }
}

/// A name as one token of a JSON Pointer.
fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
