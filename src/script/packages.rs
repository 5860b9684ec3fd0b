//! Packages of a directory of scripts: listed from its files, changed by the package managers themselves.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use super::{
    FileFault, ScriptFault, Scripts, beside,
    folder::{Folder, Place},
    packager::{Work, npm_beside, npm_of},
    results::{Package, PackageList, Packager, PackagesChanged},
    specifier::{self, Wanted},
    store::{MANIFEST, file_fault, manifest},
    toolchain::venv,
};

impl Scripts {
    /// What is declared, and what is there.
    ///
    /// # Errors
    ///
    /// When the manifest cannot be read.
    pub async fn packages(&self) -> Result<PackageList, ScriptFault> {
        let store = self.shared.store.clone();
        beside(move || {
            let Some(folder) = store.folder_if_there()? else { return Ok(PackageList::default()) };
            let mut list = PackageList::default();
            npm_packages(&folder, store.path(), &mut list)?;
            pip_packages(&folder, store.path(), &mut list)?;
            list.notes.extend(skew(&list.packages));
            Ok(list)
        })
        .await
        .map_err(ScriptFault::of_reading)
    }

    /// Installs a package, and keeps what was asked for and what came. `note` is told what goes on. Cancelled, the package manager
    /// is ended.
    ///
    /// # Errors
    ///
    /// Why not, in the package manager's own words.
    pub async fn add_package(
        &self,
        wanted: &Wanted,
        note: impl Fn(&str),
        stop: &CancellationToken,
    ) -> Result<PackagesChanged, ScriptFault> {
        wanted.check(true)?;
        self.change(wanted, true, note, stop).await
    }

    /// Removes a package.
    ///
    /// # Errors
    ///
    /// As [`Scripts::add_package`].
    pub async fn remove_package(
        &self,
        wanted: &Wanted,
        note: impl Fn(&str),
        stop: &CancellationToken,
    ) -> Result<PackagesChanged, ScriptFault> {
        wanted.check(false)?;
        if wanted.manager == Packager::Pip && NEEDED.contains(&plain(&wanted.spec).as_str()) {
            return Err(ScriptFault::Needed { name: wanted.spec.clone() });
        }
        self.change(wanted, false, note, stop).await
    }

    async fn change(
        &self,
        wanted: &Wanted,
        add: bool,
        note: impl Fn(&str),
        stop: &CancellationToken,
    ) -> Result<PackagesChanged, ScriptFault> {
        let manager = wanted.manager;
        let cancelled = || ScriptFault::Cancelled { manager: manager.as_str() };
        let _alone = tokio::select! {
            alone = self.shared.installing.lock() => alone,
            () = stop.cancelled() => return Err(cancelled()),
        };
        let (store, name) = (self.shared.store.clone(), wanted.spec.clone());
        let made = beside(move || {
            let there = store.folder_if_there()?;
            if !add && !there.is_some_and(|folder| is_there(&folder, store.path(), &name, manager)) {
                return Err(ScriptFault::NotInstalled { name, manager: manager.as_str() });
            }
            let folder = store.folder()?;
            let mut notes = Vec::from_iter(manifest(&folder)?);
            let own = manager == Packager::Npm && folder.kind(NPMRC).is_ok_and(|kind| kind.is_some());
            notes.extend(
                own.then(|| format!("npm obeyed the {NPMRC} in the directory: where packages came from is in it")),
            );
            Ok(notes)
        });
        let mut notes = made.await?;
        let path = self.shared.store.path();
        let directory = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let output = match manager {
            Packager::Npm => self.npm(wanted, add, &directory, &note, stop).await?,
            Packager::Pip => self.pip(wanted, add, &directory, &note, stop).await?,
        };
        notes.extend(skew(&self.packages().await?.packages));
        Ok(PackagesChanged { output, notes })
    }

    async fn npm(
        &self,
        wanted: &Wanted,
        add: bool,
        directory: &Path,
        note: &impl Fn(&str),
        stop: &CancellationToken,
    ) -> Result<String, ScriptFault> {
        let (node, _) = self.shared.toolchain.node().await.map_err(|fault| cannot_run(Packager::Npm, fault))?;
        let npm =
            npm_beside(&node).or_else(|| npm_of(self.shared.toolchain.which("npm")?.as_path())).ok_or_else(|| {
                ScriptFault::Packager {
                    manager: Packager::Npm.as_str(),
                    why: "no npm is beside the bridge's Node, nor on its PATH".into(),
                    fix: NPM_FIX.into(),
                }
            })?;
        let mut arguments = vec![npm.to_string_lossy().into_owned()];
        arguments.push(if add { "install" } else { "uninstall" }.into());
        arguments
            .extend(["--save", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress"].map(str::to_owned));
        if !(add && wanted.allow_install_scripts) {
            arguments.push("--ignore-scripts".into());
        }
        // What stands here wins over an .npmrc of the directory, which could name a program for it.
        arguments.extend(["--git=git", "--no-global"].map(str::to_owned));
        // Nothing behind the dashes is a flag, whatever it looks like.
        arguments.extend(["--".to_owned(), wanted.spec.clone()]);
        // It works on the package.json it is started beside; Node itself looks for nothing there.
        let work = Work { manager: Packager::Npm, program: node, arguments, from: directory, directory };
        self.run_packager(work, note, stop).await
    }

    async fn pip(
        &self,
        wanted: &Wanted,
        add: bool,
        directory: &Path,
        note: &impl Fn(&str),
        stop: &CancellationToken,
    ) -> Result<String, ScriptFault> {
        let own = venv(directory);
        let work = |program: &Path, arguments: &[&str]| Work {
            manager: Packager::Pip,
            program: program.to_owned(),
            // Isolated, and started where nobody keeps modules or settings: a script called like a module of Python would
            // be that module to it, and see what package managers alone are given.
            arguments: ["-I"].iter().chain(arguments).map(|argument| (*argument).to_owned()).collect(),
            from: Path::new("/"),
            directory,
        };
        if !own.exists() {
            if !add {
                return Err(ScriptFault::Content {
                    file: ".venv".into(),
                    why: "no Python package is installed here".into(),
                });
            }
            let python = self.shared.toolchain.python(directory).await;
            let python = python.map_err(|fault| cannot_run(Packager::Pip, fault))?;
            note("making .venv, where packages of Python go");
            let place = directory.join(".venv");
            let place = place.to_str().ok_or_else(|| ScriptFault::Content {
                file: ".venv".into(),
                why: "the path of the directory of scripts is not UTF-8, and Python is not told it".into(),
            })?;
            self.run_packager(work(&python.program, &["-m", "venv", place]), note, stop).await?;
        }
        let mut arguments = vec!["-m", "pip", "--disable-pip-version-check", "--no-input"];
        if add {
            arguments.push("install");
            if !wanted.allow_install_scripts {
                // What is not built yet is built by a program of its own.
                arguments.push("--only-binary=:all:");
            }
        } else {
            arguments.extend(["uninstall", "--yes"]);
        }
        arguments.extend(["--", wanted.spec.as_str()]);
        let output = self.run_packager(work(&own, &arguments), note, stop).await?;
        let freeze = ["-m", "pip", "--disable-pip-version-check", "freeze", "--local"];
        let frozen = self.run_packager(work(&own, &freeze), note, stop);
        let frozen = frozen.await?;
        let store = self.shared.store.clone();
        beside(move || {
            let temporary = format!(".{REQUIREMENTS}.{}.tmp", uuid::Uuid::new_v4().simple());
            let written = store.folder()?.write(REQUIREMENTS, &temporary, frozen.as_bytes(), Place::Any);
            written.map_err(|fault| file_fault(REQUIREMENTS, fault))
        })
        .await?;
        Ok(output)
    }
}

/// Whether there is such a package to remove: declared, or installed.
fn is_there(folder: &Folder, path: &Path, name: &str, manager: Packager) -> bool {
    if manager == Packager::Pip {
        return pip_installed(path).contains_key(&plain(name));
    }
    let manifest = folder.read(MANIFEST, LARGEST).ok().and_then(|text| serde_json::from_slice::<Json>(&text).ok());
    let declared = |kind: &str| manifest.as_ref()?.get(kind)?.get(name);
    let kinds = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];
    kinds.into_iter().any(|kind| declared(kind).is_some()) || path.join("node_modules").join(name).exists()
}

/// Of a package that was asked for, it is the installation that failed, and no script is at fault.
fn cannot_run(manager: Packager, fault: ScriptFault) -> ScriptFault {
    match fault {
        ScriptFault::Toolchain { why, fix } => ScriptFault::Packager { manager: manager.as_str(), why, fix },
        other => other,
    }
}

const NPM_FIX: &str = "ask a person to install npm where the bridge looks for it: with the Node it runs, or as `npm` in a folder of the PATH that the bridge was started with";

fn npm_packages(folder: &Folder, path: &Path, list: &mut PackageList) -> Result<(), ScriptFault> {
    let text = match folder.read(MANIFEST, LARGEST) {
        Ok(text) => text,
        Err(FileFault::Missing) => return Ok(()),
        Err(fault) => return Err(file_fault(MANIFEST, fault)),
    };
    let manifest: Json = serde_json::from_slice(&text)
        .map_err(|_| ScriptFault::Content { file: MANIFEST.into(), why: "it is not JSON".into() })?;
    let mut declared = BTreeMap::new();
    for kind in ["devDependencies", "dependencies"] {
        declared.extend(manifest.get(kind).and_then(Json::as_object).into_iter().flatten());
    }
    for (name, range) in declared.into_iter().take(MOST_PACKAGES) {
        let range = range.as_str().unwrap_or_default().to_owned();
        if !specifier::is_name(name, Packager::Npm) {
            list.notes.push(format!("{MANIFEST} names a dependency that is no package: {name:.80}"));
            continue;
        }
        let installed = installed(&path.join("node_modules").join(name).join(MANIFEST));
        list.packages.push(Package { name: name.clone(), range, installed, manager: Packager::Npm });
    }
    Ok(())
}

/// The version a package's own manifest names.
fn installed(manifest: &Path) -> Option<String> {
    let about = manifest.metadata().ok()?;
    if !about.is_file() || about.len() > LARGEST {
        return None;
    }
    let manifest: Json = serde_json::from_slice(&std::fs::read(manifest).ok()?).ok()?;
    manifest.get("version")?.as_str().map(|version| version.chars().take(80).collect())
}

fn pip_packages(folder: &Folder, path: &Path, list: &mut PackageList) -> Result<(), ScriptFault> {
    let text = match folder.read(REQUIREMENTS, LARGEST) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(FileFault::Missing) => return Ok(()),
        Err(fault) => return Err(file_fault(REQUIREMENTS, fault)),
    };
    let there = pip_installed(path);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '-']));
    let mut packages: Vec<Package> = Vec::new();
    for line in lines.take(MOST_PACKAGES) {
        let at = line.find(['=', '<', '>', '!', '~', ' ']).unwrap_or(line.len());
        let (name, range) = line.split_at(at);
        if specifier::is_name(name, Packager::Pip) {
            let installed = there.get(&plain(name)).cloned();
            packages.push(Package { name: name.into(), range: range.trim().into(), installed, manager: Packager::Pip });
        }
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    list.packages.append(&mut packages);
    Ok(())
}

/// What is installed in the directory's own Python, by its name.
fn pip_installed(path: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Ok(versions) = path.join(".venv/lib").read_dir() else { return found };
    for version in versions.flatten().take(8) {
        let Ok(entries) = version.path().join("site-packages").read_dir() else { continue };
        for entry in entries.flatten().take(MOST_PACKAGES) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let stem = name.strip_suffix(".dist-info").or_else(|| name.strip_suffix(".egg-info"));
            let Some((name, version)) = stem.and_then(|stem| stem.split_once('-')) else { continue };
            found.insert(plain(name), version.to_owned());
        }
    }
    found
}

/// A name as Python compares names.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// One line if the library that scripts use is of another major version than what is spoken here. Never a refusal.
pub(super) fn skew(packages: &[Package]) -> Option<String> {
    let library = packages.iter().find(|package| package.manager == Packager::Npm && package.name == LIBRARY)?;
    let (version, what) = match &library.installed {
        Some(installed) => (installed.as_str(), "is installed"),
        None => (library.range.as_str(), "is declared"),
    };
    let major = major(version)?;
    (major != SPOKEN).then(|| {
        format!("{LIBRARY} {major} {what} in the directory of scripts, and this bridge speaks as version {SPOKEN} does")
    })
}

/// The major version of a version or of a plain range; nothing of an alias, a file or an address.
fn major(range: &str) -> Option<u32> {
    let digits = range.trim_start_matches(['^', '~', '=', '>', '<', 'v', ' ']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let plain = range.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"^~=<>.-+* |".contains(&byte));
    if plain { digits.get(..end)?.parse().ok() } else { None }
}

/// The library whose version matters to the network.
const LIBRARY: &str = "@source-repo/rpc";
/// Its major version that speaks as we do.
const SPOKEN: u32 = 5;
/// What installs everything else of Python.
const NEEDED: [&str; 3] = ["pip", "setuptools", "wheel"];
/// Settings of npm, as a person may keep them in the directory.
const NPMRC: &str = ".npmrc";
/// What Python's packages are, each with its version.
const REQUIREMENTS: &str = "requirements.txt";
/// Bytes of a manifest.
const LARGEST: u64 = 1024 * 1024;
/// Packages that are listed.
const MOST_PACKAGES: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn library(range: &str, installed: Option<&str>) -> Vec<Package> {
        let (name, installed) = (LIBRARY.to_owned(), installed.map(str::to_owned));
        vec![Package { name, range: range.into(), installed, manager: Packager::Npm }]
    }

    /// F-38: a range is read as one, and what is none says nothing.
    #[test]
    fn another_major_is_told_and_an_alias_is_not_read_as_one() {
        assert_eq!(skew(&library("^5.1.0", None)), None);
        assert_eq!(skew(&library("^4.0.0", Some("5.0.2"))), None);
        assert!(skew(&library("^5", Some("4.2.0"))).unwrap().contains("rpc 4 is installed"));
        assert!(skew(&library("~4.2", None)).unwrap().contains("rpc 4 is declared"));
        for odd in ["file:../4", "npm:other@4.0.0", "https://x/4.tgz", "latest", "*", ""] {
            assert_eq!(skew(&library(odd, None)), None, "{odd}");
        }
        assert_eq!(skew(&[]), None);
    }
}
