//! `scripting`: what another node may do with the scripts here (tools.md 6). It is served only where a person named who may,
//! and only to a caller whose signature was verified: whoever may write a program here may do whatever this bridge may.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Language, Packager, Said, ScriptFault, ScriptName, Scripts, Wanted, ring::LINES};
use crate::{
    contract::{Contract, ServedNamespace},
    node::{Exposed, Failure, Incoming, Node, Origin, Service, ServiceFuture, state::MAILBOX},
    wire::{PeerName, Value, json},
};

/// What the namespace is called.
pub const NAMESPACE: &str = "scripting";
const CONTRACT: &str = include_str!("scripting.types.json");

/// The namespace, for these peers and nobody else.
///
/// # Errors
///
/// When its own contract cannot be served.
pub fn served(scripts: Scripts, allowed: BTreeSet<PeerName>) -> Result<(Exposed, Arc<dyn Service>), String> {
    let document = json::decode(CONTRACT.as_bytes()).map_err(|error| error.to_string())?;
    let contract = Contract::parse_to_serve(&document)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let namespace = contract.namespace(NAMESPACE).ok_or("it declares no `scripting`")?;
    let exposed = Exposed {
        name: NAMESPACE.to_owned(),
        surface: ServedNamespace::declared(namespace, "Scripting"),
        validate: true,
        component: None,
        mailbox: MAILBOX,
        path_writes: false,
    };
    Ok((exposed, Arc::new(Scripting { scripts, allowed: Arc::new(allowed) })))
}

#[derive(Clone, Debug)]
struct Scripting {
    scripts: Scripts,
    allowed: Arc<BTreeSet<PeerName>>,
}

impl Service for Scripting {
    fn run(&self, node: Node, call: Incoming) -> ServiceFuture {
        let this = self.clone();
        Box::pin(async move {
            this.guard(&call)?;
            match call.method.as_str() {
                "addPackage" | "removePackage" => this.change_packages(node, &call).await,
                "list" | "packages" => this.look(&call).await,
                _ => this.one(&call).await,
            }
        })
    }
}

impl Scripting {
    /// Both must hold: who it is must be known for sure, and be one of those that were named.
    fn guard(&self, call: &Incoming) -> Result<(), Failure> {
        let refuse = |why: &str| {
            tracing::warn!(caller = %call.caller, method = call.method, "refused to be scripted: {why}");
            Err(Failure::coded("Forbidden", why))
        };
        if call.origin != Origin::Verified {
            return refuse(
                "scripting needs a verified identity: a signed frame on the broker, from a key this node lists",
            );
        }
        if !self.allowed.contains(&call.caller) {
            return refuse("this node has not named you in --scriptable-by");
        }
        tracing::info!(caller = %call.caller, method = call.method, "scripted");
        Ok(())
    }

    async fn look(&self, call: &Incoming) -> Result<Option<Value>, Failure> {
        match call.method.as_str() {
            "list" => answer(&self.scripts.list().await.map_err(failed)?.scripts),
            _ => answer(&self.scripts.packages().await.map_err(failed)?.packages),
        }
    }

    async fn one(&self, call: &Incoming) -> Result<Option<Value>, Failure> {
        let name = ScriptName::parse(text(call, 0)?).map_err(failed)?;
        let scripts = &self.scripts;
        match call.method.as_str() {
            "save" => {
                let language = optional(call, 2).and_then(Value::as_str).map(language).transpose()?;
                let source = text(call, 1)?.to_owned();
                answer(&scripts.save(&name, language.unwrap_or_default(), source).await.map_err(failed)?)
            }
            "read" => Ok(Some(scripts.read(&name).await.map_err(failed)?.source.into())),
            "remove" => answer(&scripts.delete(&name).await.map_err(failed)?),
            "start" => answer(&scripts.start(&name).await.map_err(failed)?),
            "stop" => answer(&scripts.stop(&name).await.map_err(failed)?),
            "output" => {
                let run = optional(call, 1).and_then(Value::as_str);
                let after = optional(call, 2).and_then(Value::as_i64).and_then(|after| u64::try_from(after).ok());
                answer(&scripts.output(&name, run, after, LINES, MOST_BYTES).await.map_err(failed)?)
            }
            other => Err(Failure::coded("MethodNotFound", format!("{NAMESPACE}.{other} is not exposed"))),
        }
    }

    /// Longer than anybody waits for an answer: a ticket, and what goes on as its progress (F-29).
    async fn change_packages(&self, node: Node, call: &Incoming) -> Result<Option<Value>, Failure> {
        let adds = call.method == "addPackage";
        let manager = optional(call, if adds { 2 } else { 1 }).and_then(Value::as_str);
        let wanted = Wanted {
            spec: text(call, 0)?.to_owned(),
            manager: if manager == Some(Packager::Pip.as_str()) { Packager::Pip } else { Packager::Npm },
            allow_install_scripts: adds && optional(call, 1).and_then(Value::as_bool) == Some(true),
        };
        wanted.check(adds).map_err(failed)?;
        let mut later = node.answer_later(call.run, Some(LIFE)).await?;
        let (stop, (notes, mut heard)) = (CancellationToken::new(), tokio::sync::watch::channel(String::new()));
        let note = move |line: &str| {
            notes.send_replace(line.to_owned());
        };
        let work = async {
            if adds {
                self.scripts.add_package(&wanted, note, &stop).await
            } else {
                self.scripts.remove_package(&wanted, note, &stop).await
            }
        };
        let mut work = std::pin::pin!(work);
        let mut waits = true;
        loop {
            tokio::select! {
                changed = &mut work => return answer(&changed.map_err(failed)?),
                () = later.caller_gone(), if waits => {
                    // Nobody is there to know that it is not finished.
                    waits = false;
                    stop.cancel();
                }
                Ok(()) = heard.changed(), if waits => {
                    let line = heard.borrow_and_update().clone();
                    later.progress(line.into()).await;
                }
            }
        }
    }
}

fn text(call: &Incoming, at: usize) -> Result<&str, Failure> {
    let text = call.args.get(at).and_then(Value::as_str);
    text.ok_or_else(|| Failure::coded("InvalidParams", format!("argument {at}: expected text")))
}

fn optional(call: &Incoming, at: usize) -> Option<&Value> {
    call.args.get(at).filter(|value| **value != Value::Null)
}

fn language(text: &str) -> Result<Language, Failure> {
    let known = Language::ALL.into_iter().find(|language| language.as_str() == text);
    known.ok_or_else(|| Failure::coded("InvalidParams", "argument 2: a language is ts, mjs or py"))
}

fn answer(result: &impl Serialize) -> Result<Option<Value>, Failure> {
    let json = serde_json::to_value(result).map_err(|error| Failure::exception(error.to_string()))?;
    Ok(Some(json::from_json(json)))
}

/// A fault in its own words, behind its kind. Which code says that it did not run is for arguments that are none.
#[expect(clippy::needless_pass_by_value, reason = "what `map_err` hands over")]
fn failed(fault: ScriptFault) -> Failure {
    let message = Said::written(&fault);
    match fault {
        ScriptFault::Name { .. }
        | ScriptFault::Spec { .. }
        | ScriptFault::Needed { .. }
        | ScriptFault::NotInstalled { .. } => Failure::coded("InvalidParams", message),
        _ => Failure::exception(message),
    }
}

/// Bytes of lines in one answer.
const MOST_BYTES: usize = 256 * 1024;
/// How long the ticket of an installation is good.
const LIFE: Duration = Duration::from_mins(10);
