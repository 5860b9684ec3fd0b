//! What we present to a hub: from a file that others cannot read, else from the environment. It is never shown.

use std::{
    env::{self, VarError},
    fs::File,
    io::Read,
    path::Path,
};

use serde_json::Value as Json;

use super::StartError;
use crate::{link::hub, wire::signing::Secret};

/// Where the environment holds it: ours first.
const VARIABLES: [&str; 2] = ["PLANTBRIDGE_TOKEN", "SOURCE_RPC_TOKEN"];
/// How large a file is read, in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// How long a token may be, in bytes.
const MAX_TOKEN: usize = 8 * 1024;

/// What the environment holds.
pub(super) fn of_environment() -> Result<Option<Secret>, StartError> {
    find(|name| env::var(name))
}

fn find(get: impl Fn(&str) -> Result<String, VarError>) -> Result<Option<Secret>, StartError> {
    for name in VARIABLES {
        match get(name) {
            Ok(text) => return checked(&text).map(Some).map_err(|why| StartError(format!("{name} {why}"))),
            Err(VarError::NotPresent) => {}
            Err(VarError::NotUnicode(_)) => return Err(StartError(format!("{name} is not UTF-8"))),
        }
    }
    Ok(None)
}

/// What a file given with `--auth` holds for us. Its other entries are for those who let others in.
#[derive(Debug)]
pub(super) struct AuthFile {
    /// What is presented to a hub.
    pub(super) token: Secret,
    /// What credentials of scripts are minted with.
    pub(super) derive: Option<Secret>,
}

/// Has what a file holds presented to the hub, or else what the environment held; gives what credentials are minted with.
pub(super) fn present(
    hub: Option<&mut hub::Config>,
    auth: Option<&Path>,
    otherwise: Option<Secret>,
) -> Result<Option<Secret>, StartError> {
    match (hub, auth) {
        (Some(link), file) => {
            let file = file.map(of_file).transpose()?;
            let (token, derive) = file.map_or((None, None), |file| (Some(file.token), file.derive));
            link.token = token.or(otherwise);
            Ok(derive)
        }
        (None, Some(_)) => Err(StartError("--auth is what is presented to a hub, and there is none".into())),
        (None, None) => Ok(None),
    }
}

/// Reads such a file.
pub(super) fn of_file(path: &Path) -> Result<AuthFile, StartError> {
    let refuse = |why: &dyn std::fmt::Display| StartError(format!("--auth {}: {why}", path.display()));
    let mut file = File::open(path).map_err(|error| refuse(&error))?;
    if is_open_to_all(&file).map_err(|error| refuse(&error))? {
        return Err(refuse(&"everybody on this machine can read it; take that away with chmod o-rwx"));
    }
    let mut text = Vec::new();
    file.by_ref().take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| refuse(&error))?;
    if text.len() as u64 > MAX_FILE {
        return Err(refuse(&format!("it is larger than {MAX_FILE} bytes")));
    }
    // What a parser says may quote the text, so it is not repeated.
    let json: Json = serde_json::from_slice(&text).map_err(|_| refuse(&"it is not JSON"))?;
    let derive = match json.get("derive") {
        None => None,
        Some(Json::String(secret)) => Some(checked(secret).map_err(|why| refuse(&format!("its derive secret {why}")))?),
        Some(_) => return Err(refuse(&"its derive secret is no text")),
    };
    match json.get("token") {
        Some(Json::String(token)) => {
            let token = checked(token).map_err(|why| refuse(&format!("its token {why}")))?;
            Ok(AuthFile { token, derive })
        }
        Some(_) => Err(refuse(&"its token is no text")),
        None => Err(refuse(&"it holds no token to present; it is to be {\"token\": \"…\"}")),
    }
}

fn checked(token: &str) -> Result<Secret, &'static str> {
    if token.is_empty() {
        return Err("is empty");
    }
    if token.len() > MAX_TOKEN {
        return Err("is longer than 8192 bytes");
    }
    if token.chars().any(char::is_control) {
        return Err("holds a line break or another control character");
    }
    if token.trim() != token {
        return Err("begins or ends with a blank");
    }
    Ok(Secret::new(token.to_owned()))
}

/// Whether anybody may read or write it. Asked of the open file, so that it is the one that is read.
#[cfg(unix)]
fn is_open_to_all(file: &File) -> std::io::Result<bool> {
    use std::os::unix::fs::PermissionsExt;
    Ok(file.metadata()?.permissions().mode() & 0o006 != 0)
}

#[cfg(not(unix))]
fn is_open_to_all(_: &File) -> std::io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(held: &[(&str, &str)]) -> Result<Option<Secret>, StartError> {
        find(|name| {
            let found = held.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
        })
    }

    #[test]
    fn ours_comes_first_and_a_bad_one_is_refused_without_being_shown() {
        assert!(found(&[]).unwrap().is_none());
        assert!(found(&[("SOURCE_RPC_TOKEN", "hunter2")]).unwrap().is_some());
        assert!(found(&[("PLANTBRIDGE_TOKEN", "good"), ("SOURCE_RPC_TOKEN", "")]).unwrap().is_some());
        for (token, expected) in
            [("", "is empty"), ("hunter2\n", "line break"), (" hunter2", "blank"), ("hun\u{7f}ter2", "control")]
        {
            let error = found(&[("PLANTBRIDGE_TOKEN", token)]).unwrap_err().0;
            assert!(error.starts_with("PLANTBRIDGE_TOKEN ") && error.contains(expected), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_file_is_read_if_it_is_ours_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("auth.json");
        let read = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            of_file(&path).map_err(|error| error.0)
        };
        assert!(read(r#"{"token":"hunter2","tokens":{}}"#, 0o600).is_ok());
        assert!(read(r#"{"token":"hunter2"}"#, 0o640).is_ok());
        for (text, expected) in [
            (r#"{"tokens":{"hunter2":"a"}}"#, "no token to present"),
            (r#"{"token":"hunter2\n"}"#, "line break"),
            (r#"{"token":7}"#, "no text"),
            (r#"{"token":"x","derive":7}"#, "derive secret is no text"),
            (r#"{"token":"x","derive":"hunter2\n"}"#, "derive secret holds a line break"),
            (r#"{"token":"hunter2"#, "not JSON"),
            ("hunter2", "not JSON"),
            (&format!("{{\"token\":\"{}\"}}", "x".repeat(70_000)), "larger than"),
        ] {
            let error = read(text, 0o600).unwrap_err();
            assert!(error.contains(expected) && error.contains("auth.json") && !error.contains("hunter2"), "{error}");
        }
        #[cfg(unix)]
        for mode in [0o644, 0o602] {
            assert!(read(r#"{"token":"hunter2"}"#, mode).unwrap_err().contains("everybody"));
        }
        assert!(of_file(&folder.path().join("missing")).is_err());
    }
}
