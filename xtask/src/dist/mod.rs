//! `cargo xtask dist`: what a release consists of, one archive a target below `target/dist`.
//!
//! An archive holds one static binary without the demo, and what goes with it: completions, manual pages, the licences of
//! everything linked, a bill of materials, and what an image is built from. The same inputs give the same bytes.

mod archive;
mod binary;
mod linked;
mod papers;
mod sbom;
mod stage;
mod target;

use std::path::PathBuf;

use crate::install;
use binary::Binary;
use target::{TARGETS, Target};

/// Where the binary of a plant runs, and so what the images are built for.
pub(crate) const RUNTIME: &str = "x86_64-unknown-linux-musl";

/// What is to be made.
struct Asked {
    targets: Vec<&'static Target>,
    profile: Profile,
    /// Packed instead of what would be built.
    binary: Option<PathBuf>,
}

/// How it is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    Release,
    /// Not for anybody's use: that it links, packs and starts is seen in a fifth of the time.
    Quick,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Quick => "quick",
        }
    }
}

/// An archive that was made.
pub(crate) struct Made {
    /// The same as a folder, for whoever builds an image of it.
    pub(crate) folder: PathBuf,
}

/// Makes the archives. Words: `--target TRIPLE`, which may be repeated, else all; `--quick`; `--binary FILE`, for one target.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let Asked { targets, profile, binary } = asked(words)?;
    for target in targets {
        make(target, profile, binary.clone())?;
    }
    archive::sums(&folder()?)
}

/// Makes the archive that the images are built from.
pub(crate) fn runtime() -> Result<Made, String> {
    let made = make(target::named(RUNTIME)?, Profile::Release, None)?;
    archive::sums(&folder()?)?;
    Ok(made)
}

/// The version of this package.
pub(crate) fn version() -> Result<String, String> {
    linked::version_of("plantbridge")
}

fn make(target: &Target, profile: Profile, given: Option<PathBuf>) -> Result<Made, String> {
    let dist = folder()?;
    let toolchain = target.prepare(&dist)?;
    let path = given.map_or_else(|| binary::build(target, profile, &toolchain), Ok)?;
    let binary = Binary::read(path, target)?;
    binary.prove(profile)?;
    let linked = linked::of(target.triple)?;
    let date = archive::date()?;
    let suffix = if profile == Profile::Quick { "-quick" } else { "" };
    let name = format!("plantbridge-{}-{}{suffix}", version()?, target.triple);
    let folder = stage::fill(&dist.join("stage").join(name), &binary, &linked, &toolchain, date)?;
    let archive = archive::pack(&folder, &dist, date)?;
    println!("dist: {} with {} crates: {}", binary.about(), linked.crates.len(), archive.display());
    Ok(Made { folder })
}

fn folder() -> Result<PathBuf, String> {
    let folder = install::target()?.join("dist");
    install::create(&folder)?;
    Ok(folder)
}

fn asked(words: &[String]) -> Result<Asked, String> {
    let mut asked = Asked { targets: Vec::new(), profile: Profile::Release, binary: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => asked.profile = Profile::Quick,
            "--target" => asked.targets.push(target::named(words.next().map_or("", String::as_str))?),
            "--binary" => asked.binary = Some(words.next().map(PathBuf::from).ok_or("--binary needs a file")?),
            other => return Err(format!("dist knows --quick, --target TRIPLE and --binary FILE, not {other}")),
        }
    }
    if asked.binary.is_some() && asked.targets.len() != 1 {
        return Err("--binary needs the one --target that the file is for".to_owned());
    }
    if asked.targets.is_empty() {
        asked.targets = TARGETS.iter().collect();
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn without_a_target_all_are_made() {
        let Asked { targets, profile, .. } = asked(&[]).unwrap();
        let triples: Vec<_> = targets.iter().map(|target| target.triple).collect();
        assert_eq!(triples, ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"]);
        assert_eq!(profile, Profile::Release);
        let Asked { targets, profile, .. } = asked(&words("--quick --target aarch64-unknown-linux-musl")).unwrap();
        assert_eq!((targets.len(), targets[0].triple, profile), (1, "aarch64-unknown-linux-musl", Profile::Quick));
        for wrong in ["--target", "--target sparc", "--fast", "--binary", "--binary x"] {
            assert!(asked(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
