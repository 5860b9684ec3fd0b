//! Packages of a directory of scripts: listed from its files, changed by the package managers themselves.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use super::{
    FileFault, Input, Limits, Plan, ScriptFault, Scripts, beside,
    folder::{Folder, Place},
    gather::{Gathered, gather},
    how,
    results::{Package, PackageList, Packager, PackagesChanged},
    specifier::{self, Wanted},
    store::{MANIFEST, file_fault, manifest},
    toolchain::venv,
};

/// One run of a package manager.
struct Work<'a> {
    manager: Packager,
    program: PathBuf,
    arguments: Vec<String>,
    directory: &'a Path,
}

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
        let store = self.shared.store.clone();
        let made = beside(move || manifest(&store.folder()?)).await?;
        let path = self.shared.store.path();
        let directory = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let output = match manager {
            Packager::Npm => self.npm(wanted, add, &directory, &note, stop).await?,
            Packager::Pip => self.pip(wanted, add, &directory, &note, stop).await?,
        };
        let mut notes: Vec<String> = made.into_iter().collect();
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
        // Nothing behind the dashes is a flag, whatever it looks like.
        arguments.extend(["--".to_owned(), wanted.spec.clone()]);
        self.run(Work { manager: Packager::Npm, program: node, arguments, directory }, note, stop).await
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
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
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
            self.run(work(&python.program, &["-m", "venv", ".venv"]), note, stop).await?;
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
        let output = self.run(work(&own, &arguments), note, stop).await?;
        let frozen =
            self.run(work(&own, &["-m", "pip", "--disable-pip-version-check", "freeze", "--local"]), note, stop);
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

    async fn run(&self, work: Work<'_>, note: &impl Fn(&str), stop: &CancellationToken) -> Result<String, ScriptFault> {
        let manager = work.manager.as_str();
        let inherited = &self.shared.config.inherited;
        let plan = Plan {
            program: work.program,
            arguments: work.arguments,
            environment: inherited.everybody.iter().chain(&inherited.packagers).cloned().collect(),
            directory: work.directory.to_owned(),
            input: Input::Closed,
            limits: Limits { run_ms: Some(BUDGET_MS), memory: Some(MEMORY), ..Limits::default() },
        };
        let failed = |why: String, output: &str| ScriptFault::Install { manager, why, output: tail(output) };
        let started = self.shared.config.supervisor.start(&plan).await;
        let process = started.map_err(|fault| failed(format!("could not be started: {fault}"), ""))?;
        let heard = |piece: &[u8]| {
            let text = String::from_utf8_lossy(piece);
            if let Some(line) = text.lines().rfind(|line| !line.trim().is_empty()) {
                let line: String = line.chars().take(200).collect();
                note(&without_places(&line, work.directory, inherited.home()));
            }
        };
        let Gathered { ended, text, too_much } = tokio::select! {
            gathered = gather(process, MOST_OUTPUT, heard) => gathered,
            // Dropped with its line, it is ended with all it began.
            () = stop.cancelled() => return Err(ScriptFault::Cancelled { manager }),
        };
        let text = without_places(&text, work.directory, inherited.home());
        match (too_much, ended.by, ended.code) {
            (true, ..) => Err(failed("wrote more than 8 MiB, and was ended".into(), &text)),
            (_, super::EndedBy::Time, _) => Err(failed("took more than 180 s, and was ended".into(), &text)),
            (_, _, Some(0)) => Ok(tail(&text)),
            _ => Err(failed(format!("failed, with {}", how(&ended)), &text)),
        }
    }
}

/// Of a package that was asked for, it is the installation that failed, and no script is at fault.
fn cannot_run(manager: Packager, fault: ScriptFault) -> ScriptFault {
    match fault {
        ScriptFault::Toolchain { why, fix } => ScriptFault::Packager { manager: manager.as_str(), why, fix },
        other => other,
    }
}

const NPM_FIX: &str = "ask a person to install npm where the bridge looks for it: with the Node it runs, or as `npm` in a folder of the PATH that the bridge was started with";

/// The npm that came with a Node.
fn npm_beside(node: &Path) -> Option<PathBuf> {
    let node = node.canonicalize().ok()?;
    let npm = node.parent()?.parent()?.join("lib/node_modules/npm/bin/npm-cli.js");
    npm.is_file().then_some(npm)
}

/// The script that a command called npm is.
fn npm_of(command: &Path) -> Option<PathBuf> {
    let script = command.canonicalize().ok()?;
    let is_script = script.extension().is_some_and(|ending| ending == "js" || ending == "cjs");
    is_script.then_some(script)
}

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
            let Some((name, version)) = name.strip_suffix(".dist-info").and_then(|name| name.rsplit_once('-')) else {
                continue;
            };
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

/// What a package manager wrote, without where things are on this machine.
fn without_places(text: &str, directory: &Path, home: &str) -> String {
    let directory = directory.to_string_lossy();
    let mut text = text.replace(&*directory, ".");
    if home.len() > 1 {
        text = text.replace(home, "~");
    }
    text
}

/// The end of what a package manager wrote.
fn tail(text: &str) -> String {
    let from = text.ceil_char_boundary(text.len().saturating_sub(SHOWN));
    text.get(from..).unwrap_or_default().trim().to_owned()
}

/// The library whose version matters to the network.
const LIBRARY: &str = "@source-repo/rpc";
/// Its major version that speaks as we do.
const SPOKEN: u32 = 5;
/// What Python's packages are, each with its version.
const REQUIREMENTS: &str = "requirements.txt";
/// How long a package manager may take, in milliseconds.
const BUDGET_MS: u64 = 180_000;
/// Bytes of memory it may use.
const MEMORY: u64 = 2 << 30;
/// Bytes it may write.
const MOST_OUTPUT: usize = 8 * 1024 * 1024;
/// Bytes of that which are shown.
const SHOWN: usize = 8 * 1024;
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

    /// results.md 2: a path of this machine never appears.
    #[test]
    fn where_things_are_is_not_told() {
        let told = without_places("log: /home/me/.npm/x.log\nin /srv/s/node_modules", Path::new("/srv/s"), "/home/me");
        assert_eq!(told, "log: ~/.npm/x.log\nin ./node_modules");
        assert_eq!(without_places("/a", Path::new("/srv"), "/"), "/a");
    }

    #[test]
    fn what_is_long_is_shown_from_its_end() {
        assert_eq!(tail(" ok \n"), "ok");
        let long = format!("{}ä{}", "x".repeat(100), "y".repeat(SHOWN - 1));
        assert_eq!(tail(&long).len(), SHOWN - 1);
    }
}
