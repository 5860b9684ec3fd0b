//! The folder that becomes an archive.

use std::fs;
use std::path::{Path, PathBuf};

use super::binary::{self, Binary};
use super::linked::Linked;
use super::target::Toolchain;
use super::{archive, papers, sbom, version};
use crate::command::first_line;
use crate::install::{copy, create, entries, repository};

/// What is in the repository and goes along as it is.
const ALONG: [&str; 9] =
    ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "contracts", "docker", "docs", "scripts", "systemd"];
/// What is there only once somebody used the folder, and nobody else's.
const NEVER: [&str; 6] = [".env", "secrets", "node_modules", ".runs", ".venv", ".gitignore"];
/// Each shell, and the name it looks for.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "plantbridge.bash"),
    ("zsh", "_plantbridge"),
    ("fish", "plantbridge.fish"),
    ("elvish", "plantbridge.elv"),
    ("powershell", "plantbridge.ps1"),
];
/// Folders of the images that their user may write, each for a volume.
const VOLUMES: [&str; 5] = ["runtime/state", "runtime/contracts", "dev/state", "dev/contracts", "dev/scripts"];

/// Fills `folder` anew.
pub(super) fn fill(
    folder: &Path,
    binary: &Binary,
    linked: &Linked,
    toolchain: &Toolchain,
    date: archive::Date,
) -> Result<PathBuf, String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    create(folder)?;
    binary::copy(binary, &folder.join("plantbridge"))?;
    for name in ALONG {
        let from = repository().join(name);
        if from.exists() {
            copy_tree(&from, &folder.join(name))?;
        }
    }
    for name in VOLUMES {
        create(&folder.join("docker/volumes").join(name))?;
    }
    create(&folder.join("completions"))?;
    for (shell, name) in SHELLS {
        write(&folder.join("completions").join(name), &binary.says(&["completions", shell])?)?;
    }
    let pages = folder.join("man/man1");
    binary.says(&["man", "--into", pages.to_str().ok_or("the target folder has no usable name")?])?;
    write(&folder.join("THIRD-PARTY.txt"), &papers::third_party(linked, &toolchain.musl_licence)?)?;
    copy(&papers::standard_library()?, &folder.join("THIRD-PARTY-std.html"))?;
    write(&folder.join("plantbridge.cdx.json"), &bill(binary, linked, date)?)?;
    Ok(folder.to_owned())
}

fn bill(binary: &Binary, linked: &Linked, date: archive::Date) -> Result<String, String> {
    let rust = first_line("rustc".as_ref(), &["--version"]).unwrap_or_default();
    let rust = rust.split_whitespace().nth(1).ok_or("rustc does not say its version")?;
    let bill = sbom::write(linked, &version()?, binary.triple, &archive::sum(&binary.bytes), rust, date);
    serde_json::to_string_pretty(&bill).map(|text| text + "\n").map_err(|error| error.to_string())
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    if from.is_file() {
        return copy(from, to);
    }
    create(to)?;
    for path in entries(from)? {
        let name = path.file_name().unwrap_or_default();
        if !NEVER.iter().any(|never| name == *never) {
            copy_tree(&path, &to.join(name))?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
