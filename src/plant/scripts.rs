//! Scripts: here, in the directory this bridge was given, or on another node that lets us, through its namespace `scripting`.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use super::{
    Arguments, CallRequest, Called, Plant, PlantError, Principal, Target, TicketState,
    gate::Action,
    script_trouble::{ScriptTrouble, explained, told},
};
use crate::{
    contract::{Effect, Semantics},
    script::{
        Language, NAMESPACE, Output, PackageList, Packager, PackagesChanged, SavedScript, ScriptList, ScriptName,
        ScriptText, Scripts, StartedScript, StoppedScript, Wanted,
    },
    wire::{Value, json},
};

/// Where scripts are, and on whose behalf something is done with them.
#[derive(Clone, Debug)]
pub struct At<'a> {
    /// The node; `None` is this bridge.
    pub node: Option<&'a str>,
    /// Who wants it.
    pub principal: &'a Principal,
    /// Cancelled when nobody waits for it any more.
    pub stop: &'a CancellationToken,
}

/// How long another node is waited for, if it is not there.
pub(super) const PRESENCE: Duration = Duration::from_secs(5);
/// How long an installation elsewhere may take: its own budget and some.
const FAR_INSTALL: Duration = Duration::from_mins(5);

impl Plant {
    /// Whether there are scripts of this bridge.
    pub fn keeps_scripts(&self) -> bool {
        self.shared.scripts.is_some()
    }

    /// What the directory of scripts is called, without where it is.
    pub fn scripts_directory(&self) -> Option<String> {
        self.shared.scripts.as_ref().map(Scripts::directory)
    }

    /// Ends every script of this bridge, and waits until each is gone.
    pub async fn stop_all_scripts(&self) {
        if let Some(scripts) = &self.shared.scripts {
            scripts.stop_all().await;
        }
    }

    /// Writes a script.
    ///
    /// # Errors
    ///
    /// As for every verb here: the name, the file, the other node.
    pub async fn save_script(
        &self,
        at: &At<'_>,
        name: &str,
        language: Language,
        source: String,
    ) -> Result<SavedScript, PlantError> {
        let name = ScriptName::parse(name)?;
        let Some(node) = self.far(at) else {
            return Ok(self.here(at, "save", true)?.save(&name, language, source).await?);
        };
        let args = vec![text(&name), source.into(), language.as_str().into()];
        let answer = self.far_call(at, node, "save", args).await?;
        Ok(lenient(answer.value.as_ref()))
    }

    /// The scripts there are.
    ///
    /// # Errors
    ///
    /// The directory, or the other node.
    pub async fn list_scripts(&self, at: &At<'_>) -> Result<ScriptList, PlantError> {
        let Some(node) = self.far(at) else { return Ok(self.here(at, "list", false)?.list().await?) };
        let answer = self.far_call(at, node, "list", Vec::new()).await?;
        Ok(ScriptList { scripts: strict(answer, "a list of scripts")?, junk: Vec::new() })
    }

    /// The text of a script.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    pub async fn read_script(&self, at: &At<'_>, name: &str) -> Result<ScriptText, PlantError> {
        let name = ScriptName::parse(name)?;
        let Some(node) = self.far(at) else { return Ok(self.here(at, "read", false)?.read(&name).await?) };
        let answer = self.far_call(at, node, "read", vec![text(&name)]).await?;
        Ok(ScriptText { language: None, source: strict(answer, "the text of a script")? })
    }

    /// Ends and removes a script; gives its file, if that is told.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be removed.
    pub async fn delete_script(&self, at: &At<'_>, name: &str) -> Result<Option<String>, PlantError> {
        let name = ScriptName::parse(name)?;
        let Some(node) = self.far(at) else {
            return Ok(Some(self.here(at, "remove", true)?.delete(&name).await?));
        };
        let answer = self.far_call(at, node, "remove", vec![text(&name)]).await?;
        Ok(answer.value.as_ref().and_then(Value::as_str).map(str::to_owned))
    }

    /// Starts a script. Given up before it runs, it does not run.
    ///
    /// # Errors
    ///
    /// Why it does not run.
    pub async fn start_script(&self, at: &At<'_>, name: &str) -> Result<StartedScript, PlantError> {
        let name = ScriptName::parse(name)?;
        let Some(node) = self.far(at) else {
            let scripts = self.here(at, "start", true)?;
            return tokio::select! {
                biased; // a start that is done is told, or nobody would know of it
                started = scripts.start(&name) => Ok(started?),
                () = at.stop.cancelled() => Err(PlantError::Unwanted),
            };
        };
        let answer = self.far_call(at, node, "start", vec![text(&name)]).await?;
        Ok(lenient(answer.value.as_ref()))
    }

    /// Ends a script, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// When it does not run there.
    pub async fn stop_script(&self, at: &At<'_>, name: &str) -> Result<StoppedScript, PlantError> {
        let name = ScriptName::parse(name)?;
        let Some(node) = self.far(at) else { return Ok(self.here(at, "stop", true)?.stop(&name).await?) };
        let answer = self.far_call(at, node, "stop", vec![text(&name)]).await?;
        Ok(lenient(answer.value.as_ref()))
    }

    /// What a script wrote, from line `after` of `run` on; without these the end of its last run.
    ///
    /// # Errors
    ///
    /// When nothing of it is kept.
    pub async fn script_output(
        &self,
        at: &At<'_>,
        name: &str,
        (run, after): (Option<&str>, Option<u64>),
        (most, bytes): (usize, usize),
    ) -> Result<Output, PlantError> {
        let name = ScriptName::parse(name)?;
        let Some(node) = self.far(at) else {
            return Ok(self.here(at, "output", false)?.output(&name, run, after, most, bytes).await?);
        };
        let after = after.and_then(|after| i64::try_from(after).ok());
        let mut args = vec![text(&name), run.map_or(Value::Null, Into::into), after.map_or(Value::Null, Into::into)];
        while args.last() == Some(&Value::Null) {
            args.pop();
        }
        let answer = self.far_call(at, node, "output", args).await?;
        Ok(within(strict(answer, "the output of a script")?, after.is_none(), most, bytes))
    }

    /// The packages of the directory.
    ///
    /// # Errors
    ///
    /// When the manifest cannot be read.
    pub async fn list_packages(&self, at: &At<'_>) -> Result<PackageList, PlantError> {
        let Some(node) = self.far(at) else { return Ok(self.here(at, "packages", false)?.packages().await?) };
        let answer = self.far_call(at, node, "packages", Vec::new()).await?;
        Ok(PackageList { packages: strict(answer, "a list of packages")?, notes: Vec::new() })
    }

    /// Installs a package, or removes it. `note` is told what goes on.
    ///
    /// # Errors
    ///
    /// In the package manager's own words.
    pub async fn change_packages(
        &self,
        at: &At<'_>,
        wanted: &Wanted,
        adds: bool,
        note: impl Fn(&str) + Send + Sync,
    ) -> Result<PackagesChanged, PlantError> {
        let method = if adds { "addPackage" } else { "removePackage" };
        let Some(node) = self.far(at) else {
            let scripts = self.here(at, method, true)?;
            return Ok(if adds {
                scripts.add_package(wanted, note, at.stop).await?
            } else {
                scripts.remove_package(wanted, note, at.stop).await?
            });
        };
        wanted.check(adds)?;
        let mut args = vec![Value::from(wanted.spec.as_str())];
        args.extend(adds.then(|| wanted.allow_install_scripts.into()));
        // One that knows npm alone is not asked in other words than it knows.
        args.extend((wanted.manager != Packager::Npm).then(|| wanted.manager.as_str().into()));
        let answer = self.far_call(at, node, method, args).await?;
        self.far_end(at, answer, note).await
    }

    /// The end of what takes longer than an answer is waited for.
    async fn far_end(
        &self,
        at: &At<'_>,
        answer: Called,
        note: impl Fn(&str) + Send + Sync,
    ) -> Result<PackagesChanged, PlantError> {
        let Called { target, value, ticket, .. } = answer;
        let Some(ticket) = ticket else { return Ok(lenient(value.as_ref())) };
        let heard = |value: Option<&Value>| note(value.and_then(Value::as_str).unwrap_or("at work"));
        let view = tokio::select! {
            view = ticket.wait(FAR_INSTALL, heard) => view,
            () = at.stop.cancelled() => {
                let why = format!("goes on; read_ticket {} tells its end", ticket.id());
                return Err(ScriptTrouble::FarEnd { target, why, refusal: None }.into());
            }
        };
        let end =
            |why: &str, refusal| Err(ScriptTrouble::FarEnd { target: target.clone(), why: why.into(), refusal }.into());
        match view.state {
            TicketState::Resolved(value) => Ok(lenient(value.as_ref())),
            TicketState::TooLarge(_) => Ok(PackagesChanged::default()),
            TicketState::Rejected(error) => {
                if let Some(told) = told(&target, &error) {
                    return Err(told.into());
                }
                let why = format!("failed: {}: {}", error.code, error.message);
                Err(ScriptTrouble::FarEnd { target, why, refusal: Some(error) }.into())
            }
            TicketState::PeerGone => end("was begun, and the node is gone: what became of it is not known", None),
            TicketState::Pending | TicketState::Lapsed | TicketState::NotFollowed => {
                end("was begun, and nothing was heard of its end", None)
            }
        }
    }

    /// The other node that is meant, if one is.
    fn far<'a>(&self, at: &At<'a>) -> Option<&'a str> {
        at.node.filter(|node| *node != self.name().as_str())
    }

    /// Our own scripts, if this may be done with them.
    fn here(&self, at: &At<'_>, method: &str, changes: bool) -> Result<&Scripts, PlantError> {
        let scripts = self.shared.scripts.as_ref().ok_or(ScriptTrouble::None)?;
        let target = Target { peer: self.name().clone(), namespace: NAMESPACE.into(), method: method.into() };
        let effect = if changes { Effect::Program } else { Effect::Observe };
        self.permit(at.principal, &Action { target, semantics: None, effect })?;
        Ok(scripts)
    }

    async fn far_call(&self, at: &At<'_>, node: &str, method: &str, args: Vec<Value>) -> Result<Called, PlantError> {
        let request = CallRequest {
            peer: node.to_owned(),
            namespace: NAMESPACE.into(),
            method: method.to_owned(),
            arguments: Arguments::Positional(args),
            timeout: None,
            wait: PRESENCE,
            idempotency_key: None,
        };
        let semantics = match method {
            "list" | "read" | "output" | "packages" => Semantics::Query,
            _ => Semantics::NonRepeatableCommand,
        };
        self.call(at.principal, request, at.stop).await.map_err(|error| explained(error, semantics))
    }
}

fn text(name: &ScriptName) -> Value {
    name.as_str().into()
}

/// What a node says beside having done it: as much as can be read.
fn lenient<T: DeserializeOwned + Default>(value: Option<&Value>) -> T {
    value.and_then(read).unwrap_or_default()
}

/// What a node was asked for: anything else is no answer.
fn strict<T: DeserializeOwned>(answer: Called, expected: &'static str) -> Result<T, PlantError> {
    let Called { target, value, .. } = answer;
    value.as_ref().and_then(read).ok_or(PlantError::OddAnswer { target, expected, changes: false })
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    let json: Json = json::to_json(value).ok()?;
    serde_json::from_value(json).ok()
}

/// As much of another node's output as was asked for: from its end, or from its beginning.
fn within(mut output: Output, from_the_end: bool, most: usize, bytes: usize) -> Output {
    let surplus = output.lines.len().saturating_sub(most);
    if from_the_end && surplus > 0 {
        output.lines.drain(..surplus);
        output.first += surplus as u64;
    }
    let mut size = 0;
    let fits = output.lines.iter().take(most).take_while(|line| {
        size += line.len();
        size <= bytes
    });
    let kept = fits.count().max(usize::from(!output.lines.is_empty()));
    output.more = output.more.saturating_add((output.lines.len() - kept) as u64);
    output.lines.truncate(kept);
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Map;

    #[test]
    fn another_nodes_output_is_cut_to_what_was_asked_for() {
        let lines: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let output = Output { first: 50, lines, more: 3, ..Output::default() };
        let end = within(output.clone(), true, 10, 10_000);
        assert_eq!((end.first, end.lines.len(), end.more), (140, 10, 3));
        let begin = within(output.clone(), false, 10, 10_000);
        assert_eq!((begin.first, begin.lines.len(), begin.more), (50, 10, 93));
        assert_eq!(within(output, false, 10, 0).lines.len(), 1);
    }

    /// A node that answers anything at all is read as far as that goes.
    #[test]
    fn what_a_node_says_beside_is_read_as_far_as_it_goes() {
        let started: StartedScript = lenient(Some(&Value::from("started, pid 7")));
        assert_eq!(started, StartedScript::default());
        let mut map = Map::new();
        map.insert("pid", 7);
        map.insert("surprise", true);
        let started: StartedScript = lenient(Some(&map.into()));
        assert_eq!(started.pid, 7);
    }
}
