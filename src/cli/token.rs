//! What we present to a hub, and what vouches for our fakes there: from a file that others cannot read, else from the
//! environment. It is never shown.

use std::{
    env::{self, VarError},
    fs::File,
    io::Read,
    path::Path,
};

use serde::Deserialize;
use serde_json::Value as Json;
use zeroize::Zeroizing;

use super::{StartError, plain};
use crate::wire::{
    PeerName,
    signing::{Minter, Secret},
};

/// Where the environment holds it: ours first.
const VARIABLES: [&str; 2] = ["PLANTBRIDGE_TOKEN", "SOURCE_RPC_TOKEN"];
/// How large a file is read, in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// How long a token may be, in bytes.
const MAX_TOKEN: usize = 8 * 1024;

/// What a file given with `--auth` holds for us.
#[derive(Debug)]
pub(super) struct Auth {
    /// What we present; absent if the environment says it.
    pub(super) token: Option<Secret>,
    /// The secret by which the hub takes our word for our fakes.
    pub(super) derive: Option<Secret>,
}

/// The file, as far as it is read before it is known to be right. Unknown and doubled members are refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    token: Option<Json>,
    derive: Option<Json>,
    tokens: Option<Json>,
    issuers: Option<Json>,
}

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

/// Reads a file given with `--auth`. What is in it for those who let others in is refused: a bridge lets nobody in by it,
/// and has no business with the tokens of others.
pub(super) fn of_file(path: &Path) -> Result<Auth, StartError> {
    let refuse = |why: &dyn std::fmt::Display| StartError(format!("--auth {}: {why}", path.display()));
    let mut file = plain::open(path).map_err(|error| refuse(&error))?;
    if is_open_to_all(&file).map_err(|error| refuse(&error))? {
        return Err(refuse(&"everybody on this machine can read it; take that away with chmod o-rwx"));
    }
    let mut text = Zeroizing::new(Vec::new());
    file.by_ref().take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| refuse(&error))?;
    if text.len() as u64 > MAX_FILE {
        return Err(refuse(&format!("it is larger than {MAX_FILE} bytes")));
    }
    // A list would be read as the members in their order.
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(refuse(&WRITTEN));
    }
    // What a parser says may quote the text, so it is not repeated.
    let written: Written = serde_json::from_slice(&text).map_err(|error| {
        let why = if error.classify() == serde_json::error::Category::Data { WRITTEN } else { "it is not JSON" };
        refuse(&why)
    })?;
    if written.tokens.is_some() {
        return Err(refuse(
            &"`tokens` are those a hub lets others in by, and none of ours; write a file with our own `token` alone",
        ));
    }
    if written.issuers.is_some() {
        return Err(refuse(&"`issuers` are those a hub lets vouch for others; it belongs into the file of the hub"));
    }
    let read = |what: &str, value: Option<Json>| match value {
        Some(Json::String(text)) => checked(&text).map(Some).map_err(|why| refuse(&format!("its {what} {why}"))),
        Some(_) => Err(refuse(&format!("its {what} is no text"))),
        None => Ok(None),
    };
    let auth = Auth { token: read("token", written.token)?, derive: read("derive", written.derive)? };
    if auth.token.is_none() && auth.derive.is_none() {
        return Err(refuse(&"it holds no token to present; it is to be {\"token\": \"…\"}"));
    }
    Ok(auth)
}

const WRITTEN: &str = "it is to be an object with `token`, `derive` or both, each once, and nothing else";

/// What mints credentials of our programs, in the name that a hub lists.
pub(super) fn minter(
    derive: Option<Secret>,
    name: &PeerName,
    is_fakes: bool,
    chosen: bool,
) -> Result<Option<Minter>, StartError> {
    match derive {
        Some(_) if is_fakes => Err(StartError(NO_ISSUER.into())),
        Some(_) if !chosen => Err(StartError(NAMELESS_ISSUER.into())),
        derive => Ok(derive.map(|secret| Minter::new(secret, name.clone()))),
    }
}

const NO_ISSUER: &str = "--auth: `derive` makes credentials of fakes in the name of a bridge that the hub lists, and `serve` goes \
                         by no such name; have `plantbridge mcp` start the fake";
const NAMELESS_ISSUER: &str =
    "--auth: with `derive` we vouch for our fakes under the name by which the hub lists us, so give that as --name";

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
        let auth = read(r#"{"token":"hunter2","derive":"hunter2-of-fakes"}"#, 0o600).unwrap();
        assert!(auth.token.is_some() && auth.derive.is_some());
        assert!(!format!("{auth:?}").contains("hunter2"));
        assert!(read(r#"{"derive":"hunter2"}"#, 0o640).unwrap().token.is_none());
        for (text, expected) in [
            (r#"{"tokens":{"hunter2":"a"}}"#, "lets others in by"),
            (r#"{"token":"hunter2","issuers":["hunter2"]}"#, "file of the hub"),
            (r#"{"token":"hunter2","hunter2":1}"#, "and nothing else"),
            (r#"{"token":"a","token":"hunter2"}"#, "each once"),
            (r#"["hunter2",null,null,null]"#, "and nothing else"),
            ("{}", "no token to present"),
            (r#"{"derive":""}"#, "its derive is empty"),
            (r#"{"derive":["hunter2"]}"#, "its derive is no text"),
            (r#"{"token":"hunter2\n"}"#, "line break"),
            (r#"{"token":7}"#, "no text"),
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
