//! Secrets come from the environment, are read once before any thread starts, and are never printed.

use std::env::{self, VarError};

use super::{StartError, token};
use crate::{
    door::auth::Keys,
    link::mqtt::{Credentials, Secret},
};

/// What the environment holds.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// The account at the broker.
    pub(super) mqtt: Option<Credentials>,
    /// The token of the HTTP door, of which only a digest is kept.
    pub(super) door: Option<Keys>,
    /// What is presented to a hub, unless a file says otherwise.
    pub(super) token: Option<Secret>,
}

/// The prefixes under which the account is looked for: ours first. One source or the other, never a mixture.
const PREFIXES: [&str; 2] = ["PLANTBRIDGE", "SOURCE_RPC"];

/// Reads them.
pub(super) fn read() -> Result<Secrets, StartError> {
    let mut secrets = Secrets { token: token::of_environment()?, ..Secrets::default() };
    for prefix in PREFIXES {
        if secrets.mqtt.is_none() {
            secrets.mqtt = account(prefix, |name| env::var(name))?;
        }
        if secrets.door.is_none() {
            secrets.door = door(prefix, |name| env::var(name))?;
        }
    }
    Ok(secrets)
}

/// A token that is set and cannot be used must not be taken for none.
fn door(prefix: &str, get: impl Fn(&str) -> Result<String, VarError>) -> Result<Option<Keys>, StartError> {
    let name = format!("{prefix}_MCP_TOKEN");
    match get(&name) {
        Ok(token) => Keys::one(&token).map(Some).map_err(|fault| StartError(format!("{name}: {fault}"))),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(StartError(format!("{name} is not UTF-8"))),
    }
}

fn account(prefix: &str, get: impl Fn(&str) -> Result<String, VarError>) -> Result<Option<Credentials>, StartError> {
    let (user, pass) = (format!("{prefix}_MQTT_USERNAME"), format!("{prefix}_MQTT_PASSWORD"));
    let read = |name: &str| match get(name) {
        Ok(text) if text.is_empty() => Err(StartError(format!("{name} is set and empty"))),
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(StartError(format!("{name} is not UTF-8"))),
    };
    match (read(&user)?, read(&pass)?) {
        (Some(username), password) => Ok(Some(Credentials { username, password: password.map(Secret::new) })),
        (None, Some(_)) => Err(StartError(format!("{pass} is set and {user} is not"))),
        (None, None) => Ok(None),
    }
}

/// Keeps others of the same user from reading our memory and our environment, where the system knows how.
///
/// # Errors
///
/// The system's, for the log, which does not run yet.
pub(super) fn close_process() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account_of(held: &[(&str, &str)]) -> Result<Option<Credentials>, StartError> {
        account("X", |name| {
            let found = held.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
        })
    }

    /// F-34: an empty token is no token at all, and says so.
    #[test]
    fn a_token_is_used_or_refused() {
        let held = |value: Option<&str>| {
            door("X", |name| {
                assert_eq!(name, "X_MCP_TOKEN");
                value.map(str::to_owned).ok_or(VarError::NotPresent)
            })
        };
        assert!(held(None).unwrap().is_none());
        assert!(held(Some("hunter2")).unwrap().is_some_and(|keys| !keys.is_open()));
        for value in ["", "two words", "hunter2\n"] {
            assert!(held(Some(value)).is_err_and(|error| !error.0.contains("hunter2")), "{value:?}");
        }
    }

    #[test]
    fn a_name_may_stand_alone_and_a_password_may_not() {
        assert!(account_of(&[]).unwrap().is_none());
        let found = account_of(&[("X_MQTT_USERNAME", "u")]).unwrap().unwrap();
        assert!(found.password.is_none());
        let found = account_of(&[("X_MQTT_USERNAME", "u"), ("X_MQTT_PASSWORD", "hunter2")]).unwrap().unwrap();
        assert_eq!(found.username, "u");
        assert!(!format!("{found:?}").contains("hunter2"), "a secret is never printed");
        assert!(account_of(&[("X_MQTT_PASSWORD", "hunter2")]).is_err_and(|error| !error.0.contains("hunter2")));
        assert!(account_of(&[("X_MQTT_USERNAME", "")]).is_err());
    }
}
