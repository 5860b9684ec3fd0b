//! What is taken from the environment, read once before any thread starts. A flag that says the same wins.

use std::env::{self, VarError};

use super::{
    StartError,
    log::LogFormat,
    secrets::{self, Secrets},
};
use crate::script::Inherited;

/// What the environment holds.
#[derive(Debug, Default)]
pub(super) struct Environment {
    /// What is never printed.
    pub(super) secrets: Secrets,
    /// The broker, where no flag names one.
    pub(super) broker: Option<String>,
    /// The hub, likewise.
    pub(super) hub: Option<String>,
    /// Whether this place may only look, whatever a command says.
    pub(super) read_only: bool,
    /// How the log is written, where no flag says so.
    pub(super) log: Option<LogFormat>,
    /// Where `health` asks, where no flag says so.
    pub(super) health: Option<String>,
}

/// The variables a broker is looked for in: ours first.
const BROKER: [&str; 2] = ["PLANTBRIDGE_BROKER", "SOURCE_RPC_BROKER"];
/// The variables a hub is looked for in, likewise.
const HUB: [&str; 2] = ["PLANTBRIDGE_HUB", "SOURCE_RPC_HUB"];
const READ_ONLY: &str = "PLANTBRIDGE_READ_ONLY";
const LOG: &str = "PLANTBRIDGE_LOG";
const HEALTH: &str = "PLANTBRIDGE_HEALTH_URL";

impl Environment {
    /// What of it settings that are read again are read beside.
    pub(super) fn of_settings(&self) -> Self {
        let secrets = Secrets { door: self.secrets.door.clone(), ..Secrets::default() };
        let (broker, hub) = (self.broker.clone(), self.hub.clone());
        Self { secrets, broker, hub, read_only: self.read_only, log: self.log, health: None }
    }
}

/// What of it may be passed on to programs. What is no text is passed on to nobody.
pub(super) fn inherited() -> Inherited {
    Inherited::of(
        env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
    )
}

/// Reads it.
pub(super) fn read() -> Result<Environment, StartError> {
    let get = |name: &str| env::var(name);
    let secrets = secrets::read()?;
    let (broker, hub) = (first(BROKER, get)?, first(HUB, get)?);
    let (log, health) = (format(get)?, text(HEALTH, get)?);
    Ok(Environment { secrets, broker, hub, read_only: guard(get)?, log, health })
}

fn first(names: [&str; 2], get: impl Fn(&str) -> Result<String, VarError>) -> Result<Option<String>, StartError> {
    let [ours, others] = names;
    Ok(text(ours, &get)?.or(text(others, &get)?))
}

fn text(name: &str, get: impl Fn(&str) -> Result<String, VarError>) -> Result<Option<String>, StartError> {
    match get(name) {
        Ok(text) if text.is_empty() => Err(StartError(format!("{name} is set and empty"))),
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(StartError(format!("{name} is not UTF-8"))),
    }
}

fn format(get: impl Fn(&str) -> Result<String, VarError>) -> Result<Option<LogFormat>, StartError> {
    match text(LOG, get)?.as_deref() {
        None => Ok(None),
        Some("text") => Ok(Some(LogFormat::Text)),
        Some("json") => Ok(Some(LogFormat::Json)),
        Some(_) => Err(StartError(format!("{LOG} is text or json, or not set"))),
    }
}

/// A guard that is misspelt must not be taken for none.
fn guard(get: impl Fn(&str) -> Result<String, VarError>) -> Result<bool, StartError> {
    match text(READ_ONLY, get)?.as_deref() {
        None | Some("0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(_) => Err(StartError(format!("{READ_ONLY} is 1 or true, 0 or false, or not set"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded(held: Option<&str>) -> Option<bool> {
        guard(|_| held.map(str::to_owned).ok_or(VarError::NotPresent)).ok()
    }

    #[test]
    fn a_guard_that_is_misspelt_is_refused() {
        assert_eq!([None, Some("0"), Some("1"), Some("true")].map(guarded), [false, false, true, true].map(Some));
        assert_eq!([Some(""), Some("yes"), Some("TRUE")].map(guarded), [None; 3]);
    }
}
