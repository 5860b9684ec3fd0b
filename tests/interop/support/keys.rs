//! Key files of one network, made by the binary under test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Map, Value, json};

use super::PLANTBRIDGE;

/// What kind of keys a network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A secret a peer.
    Hmac,
    /// A key pair a peer.
    Ed25519,
}

/// The files; they live as long as this does.
pub(crate) struct Keys {
    folder: tempfile::TempDir,
    files: BTreeMap<String, Value>,
}

impl Keys {
    /// A key for each name, and every other one as the peers of its file.
    pub(crate) fn of(kind: Kind, names: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder can be made");
        let mut keys = Self { folder, files: BTreeMap::new() };
        for name in names {
            let path = keys.path(name);
            let flag = if kind == Kind::Hmac { "--hmac" } else { "--ed25519" };
            let made = Command::new(PLANTBRIDGE).arg("keygen").arg(&path).args(["--name", name, flag]).output();
            let made = made.expect("the binary can be started");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let text = std::fs::read_to_string(&path).expect("the file was made");
            let file: Value = serde_json::from_str(&text).expect("the file is JSON");
            for secret in secrets_in(&file) {
                assert!(!String::from_utf8_lossy(&made.stdout).contains(&secret), "keygen prints a secret");
            }
            keys.files.insert((*name).to_owned(), file);
        }
        for name in names {
            keys.believe(name, names);
        }
        keys
    }

    /// Makes `name` believe these and nobody else.
    pub(crate) fn believe(&mut self, name: &str, names: &[&str]) {
        let entry = |other: &&str| ((*other).to_owned(), entry(&self.files[*other]));
        let peers: Map<String, Value> = names.iter().filter(|other| **other != name).map(entry).collect();
        let mut file = self.files[name].clone();
        file["peers"] = Value::Object(peers);
        // The mode of the file stays as it was made.
        std::fs::write(self.path(name), file.to_string()).expect("the scratch folder can be written");
    }

    /// Makes `name` believe these beside whom it believes already.
    pub(crate) fn list(&self, name: &str, entries: &Value) {
        let text = std::fs::read_to_string(self.path(name)).expect("it was made");
        let mut file: Value = serde_json::from_str(&text).expect("it is JSON");
        let peers = file["peers"].as_object_mut().expect("it lists peers");
        peers.extend(entries.as_object().expect("entries").clone());
        std::fs::write(self.path(name), file.to_string()).expect("the scratch folder can be written");
    }

    /// What others list the fake of this name with that the bridge of the file of `bridge` starts.
    pub(crate) fn of_fake(&self, bridge: &str, fake: &str) -> Value {
        let told = Command::new(PLANTBRIDGE).args(["keygen", "--for-fake", fake]).arg(self.path(bridge)).output();
        let told = told.expect("the binary can be started");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        serde_json::from_slice(&told.stdout).expect("the entry, and nothing beside it")
    }

    /// Where the file of `name` is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.json"))
    }

    /// The same as text.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Every secret there is.
    pub(crate) fn secrets(&self) -> Vec<String> {
        self.files.values().flat_map(secrets_in).collect()
    }
}

fn secrets_in(file: &Value) -> Vec<String> {
    [&file["secret"], &file["ed25519"]["seed"]].into_iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What others list of a file.
fn entry(file: &Value) -> Value {
    match file["secret"].as_str() {
        Some(secret) => json!(secret),
        None => json!({"public": file["ed25519"]["public"]}),
    }
}
