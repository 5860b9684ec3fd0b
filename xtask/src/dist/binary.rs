//! The binary of a release: built, and held to what is said of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::target::{Target, Toolchain, maps};
use super::{Profile, version};
use crate::command::run;
use crate::install;

/// A release is at most so large, in bytes.
const LARGEST: usize = 16 << 20;

/// A binary for one target.
pub(super) struct Binary {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) triple: &'static str,
    emulator: Option<&'static str>,
}

/// Builds it without the demo and its broker: nobody needs a bakery beside a plant.
pub(super) fn build(target: &Target, profile: Profile, toolchain: &Toolchain) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(install::repository()).envs(toolchain.environment.iter().cloned());
    cargo.args(["rustc", "--quiet", "--locked", "--package", "plantbridge", "--bin", "plantbridge"]);
    cargo.args(["--no-default-features", "--profile", profile.name(), "--target", target.triple]);
    // Names of functions are for a profiler: a sixth of the file.
    run(cargo.args(["--", "-Cstrip=symbols"]))?;
    Ok(install::target()?.join(target.triple).join(profile.name()).join("plantbridge"))
}

impl Binary {
    pub(super) fn read(path: PathBuf, target: &Target) -> Result<Self, String> {
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, bytes, triple: target.triple, emulator: target.emulator })
    }

    /// Runs it, under an emulator if need be, and gives what it prints.
    pub(super) fn says(&self, words: &[&str]) -> Result<String, String> {
        let mut command = match self.emulator {
            None => Command::new(&self.path),
            Some(emulator) => {
                let mut command = Command::new(emulator);
                command.arg(&self.path);
                command
            }
        };
        let output = command.args(words).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", self.path.display()))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{} {}: {}: {why}", self.path.display(), words.join(" "), output.status));
        }
        String::from_utf8(output.stdout).map_err(|error| error.to_string())
    }

    /// Fails unless it is static, small enough, starts, has no demo, and does not tell where it was built.
    pub(super) fn prove(&self, profile: Profile) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{}: {what}", self.path.display()));
        if !is_static(&self.bytes)? {
            return wrong("it is not static");
        }
        if profile == Profile::Release && self.bytes.len() > LARGEST {
            return wrong(&format!("{} bytes are more than {LARGEST}", self.bytes.len()));
        }
        for map in maps()? {
            let place = map.split('=').next().unwrap_or_default();
            if contains(&self.bytes, place.as_bytes()) {
                return wrong(&format!("it holds the path {place} of this machine"));
            }
        }
        let told = self.says(&["--version"])?;
        if !told.starts_with(&format!("plantbridge {} ", version()?)) {
            return wrong(&format!("its version is not that of this package: {told}"));
        }
        if !self.says(&["mcp", "--tools"])?.contains("`call_method`") {
            return wrong("its table of tools lacks `call_method`");
        }
        if self.says(&["help"])?.contains("bakery") {
            return wrong("it has the demo");
        }
        Ok(())
    }

    /// What and how large.
    pub(super) fn about(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "some ten million")]
        let size = self.bytes.len() as f64 / f64::from(1 << 20);
        format!("{}, {size:.1} MiB", self.triple)
    }
}

/// Whether an ELF of 64 bits, little end first, asks for no loader.
fn is_static(elf: &[u8]) -> Result<bool, String> {
    const INTERPRETER: u32 = 3;
    let short = || "it is no ELF of 64 bits".to_owned();
    let at = |at: usize, length: usize| elf.get(at..at + length).ok_or_else(short);
    let number = |from: usize, length: usize| -> Result<usize, String> {
        Ok(at(from, length)?.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    if at(0, 6)? != b"\x7fELF\x02\x01" {
        return Err(short());
    }
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let kinds = (0..count).map(|entry| number(table.saturating_add(entry * size), 4));
    let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
    Ok(!kinds.contains(&(INTERPRETER as usize)))
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len().max(1)).any(|window| window == wanted)
}

/// Where the binary goes, beside everything else.
pub(super) fn copy(binary: &Binary, to: &Path) -> Result<(), String> {
    fs::write(to, &binary.bytes).map_err(|error| format!("{}: {error}", to.display()))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(to, mode).map_err(|error| format!("{}: {error}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of this machine that needs a loader, and one that does not; what is neither is refused.
    #[test]
    fn a_loader_is_noticed() {
        let me = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(is_static(&me), Ok(!cfg!(target_env = "gnu")));
        let mut elf = me[..64].to_vec();
        elf[56..58].fill(0);
        assert_eq!(is_static(&elf), Ok(true), "it has no table at all");
        assert!(is_static(b"#!/bin/sh\n").is_err() && is_static(&me[..63]).is_err());
    }
}
