//! Which crates a binary is linked from: what cargo builds for the target, without what only runs while it is built.
#![expect(clippy::indexing_slicing, reason = "a member that JSON lacks reads as null")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

use crate::install;

/// A crate, as its own manifest and our lock file tell of it.
#[derive(Clone, Debug)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) licence: String,
    /// SHA-256 of what the registry delivers, in hexadecimal.
    pub(super) checksum: String,
    pub(super) authors: Vec<String>,
    pub(super) folder: PathBuf,
    /// The keys of the crates it is linked with.
    pub(super) needs: Vec<Key>,
}

/// Name and version.
pub(super) type Key = (String, String);

impl Crate {
    pub(super) fn key(&self) -> Key {
        (self.name.clone(), self.version.clone())
    }
}

/// What a binary is linked from.
#[derive(Debug)]
pub(super) struct Linked {
    /// The keys of the crates that ours names itself.
    pub(super) direct: Vec<Key>,
    /// All but our own, by name and version.
    pub(super) crates: Vec<Crate>,
}

/// Asks cargo.
pub(super) fn of(triple: &str) -> Result<Linked, String> {
    let tree = cargo(&[
        "tree",
        "--locked",
        "--package",
        "plantbridge",
        "--no-default-features",
        "--target",
        triple,
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ])?;
    let wanted = tree.lines().filter_map(key_of_line).collect::<BTreeSet<_>>();
    let metadata = metadata()?;
    let checksums = checksums(&install::repository().join("Cargo.lock"))?;
    let ids = ids(&metadata);
    let (mut crates, mut direct) = (Vec::new(), None);
    for node in list(&metadata["resolve"]["nodes"]) {
        let Some(key) = ids.get(text(&node["id"])).filter(|key| wanted.contains(*key)) else { continue };
        let needs = list(&node["dependencies"]).filter_map(|id| ids.get(text(id)).filter(|key| wanted.contains(*key)));
        let needs: Vec<Key> = needs.cloned().collect();
        if key.0 == "plantbridge" {
            direct = Some(needs);
            continue;
        }
        let checksum =
            checksums.get(key).ok_or_else(|| format!("{} {} has no checksum in Cargo.lock", key.0, key.1))?;
        let package = list(&metadata["packages"]).find(|package| package["id"] == node["id"]);
        crates.push(read(package.unwrap_or(&Json::Null), checksum, needs)?);
    }
    crates.sort_by_key(Crate::key);
    let direct = direct.ok_or("cargo knows no package plantbridge")?;
    if crates.len() + 1 == wanted.len() {
        return Ok(Linked { direct, crates });
    }
    Err(format!("cargo links {} crates and describes {}", wanted.len() - 1, crates.len()))
}

/// The version of one of our own packages.
pub(super) fn version_of(name: &str) -> Result<String, String> {
    let metadata = cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"])?;
    let metadata: Json = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let package = list(&metadata["packages"]).find(|package| package["name"] == name);
    package.map(|package| text(&package["version"]).to_owned()).ok_or_else(|| format!("there is no package {name}"))
}

fn read(package: &Json, checksum: &str, needs: Vec<Key>) -> Result<Crate, String> {
    let name = text(&package["name"]);
    let folder = Path::new(text(&package["manifest_path"])).parent();
    // The form before SPDX expressions, which some still use.
    let licence = text(&package["license"]).replace(" / ", " OR ").replace('/', " OR ");
    if licence.is_empty() {
        return Err(format!("{name} does not say under which licence it is"));
    }
    Ok(Crate {
        name: name.to_owned(),
        version: text(&package["version"]).to_owned(),
        licence,
        checksum: checksum.to_owned(),
        authors: list(&package["authors"]).map(|author| text(author).to_owned()).collect(),
        folder: folder.ok_or_else(|| format!("{name} is nowhere"))?.to_owned(),
        needs,
    })
}

fn metadata() -> Result<Json, String> {
    let said = cargo(&["metadata", "--locked", "--format-version", "1"])?;
    serde_json::from_str(&said).map_err(|error| format!("cargo metadata: {error}"))
}

fn ids(metadata: &Json) -> BTreeMap<&str, Key> {
    let packages = list(&metadata["packages"]);
    packages
        .map(|package| (text(&package["id"]), (text(&package["name"]).into(), text(&package["version"]).into())))
        .collect()
}

/// What Cargo.lock says every crate has to be.
pub(super) fn checksums(lock: &Path) -> Result<BTreeMap<Key, String>, String> {
    let failed = |error: String| format!("{}: {error}", lock.display());
    let read = std::fs::read_to_string(lock).map_err(|error| failed(error.to_string()))?;
    let table: toml::Table = read.parse().map_err(|error: toml::de::Error| failed(error.to_string()))?;
    let packages = table.get("package").and_then(toml::Value::as_array).ok_or_else(|| failed("no packages".into()))?;
    let member = |package: &toml::Value, name: &str| package.get(name)?.as_str().map(str::to_owned);
    let pair = |package| Some(((member(package, "name")?, member(package, "version")?), member(package, "checksum")?));
    Ok(packages.iter().filter_map(pair).collect())
}

/// `name v1.2.3`, and perhaps something in parentheses.
fn key_of_line(line: &str) -> Option<Key> {
    let mut words = line.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
}

fn cargo(words: &[&str]) -> Result<String, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = cargo.current_dir(install::repository()).args(words).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|error| error.to_string());
    }
    Err(format!("cargo {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
}

fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Json) -> impl Iterator<Item = &Json> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_tree_names_a_crate() {
        let key = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(key_of_line("toml v1.2.2+spec-1.1.0"), key("toml", "1.2.2+spec-1.1.0"));
        assert_eq!(key_of_line("aho-corasick v1.1.5 (*)"), key("aho-corasick", "1.1.5"));
        assert_eq!(key_of_line("plantbridge v0.1.0 (/somewhere)"), key("plantbridge", "0.1.0"));
        assert_eq!(key_of_line(""), None);
    }

    /// What is linked is here, what is only used to build it, to test it or by the demo is not.
    #[test]
    fn what_is_linked_is_told_from_what_builds() {
        let linked = of(super::super::RUNTIME).unwrap();
        let has = |name: &str| linked.crates.iter().any(|linked| linked.name == name);
        for name in ["tokio", "ring", "rquickjs-sys", "serde", "libc"] {
            assert!(has(name), "{name}");
        }
        for name in ["cc", "syn", "serde_derive", "proptest", "mqtt5", "plantbridge", "windows-sys"] {
            assert!(!has(name), "{name}");
        }
        assert!(linked.direct.iter().any(|(name, _)| name == "rmcp"));
    }
}
