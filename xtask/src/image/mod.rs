//! `cargo xtask image`: builds the images without an engine, starts them the way an engine would, and holds them to what
//! docker/README.md says.
//!
//! Needs root, for the file systems of the images; buildah, and mmdebstrap for the base of the dev image, are installed.
#![expect(clippy::indexing_slicing, reason = "a member that JSON lacks reads as null")]

mod buildah;
mod dev;
mod door;
mod room;
mod runtime;

use std::path::PathBuf;

use crate::{dist, install};
use buildah::Buildah;

/// Who runs the images.
const USER: &str = "65532:65532";

/// What is to be built and tried.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    runtime: bool,
    dev: bool,
    /// An unpacked archive; without it one is made.
    release: Option<PathBuf>,
}

fn asked(words: &[String]) -> Result<Asked, String> {
    let mut asked = Asked { runtime: false, dev: false, release: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "runtime" => asked.runtime = true,
            "dev" => asked.dev = true,
            "--from" => asked.release = Some(words.next().map(PathBuf::from).ok_or("--from needs a folder")?),
            other => return Err(format!("image knows runtime, dev and --from FOLDER, not {other}")),
        }
    }
    if !asked.runtime && !asked.dev {
        (asked.runtime, asked.dev) = (true, true);
    }
    Ok(asked)
}

/// Builds and tries what is asked for: `runtime`, `dev`, or both if neither is; `--from FOLDER` takes an unpacked archive.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let Asked { runtime, dev, release } = asked(words)?;
    install::programs(&[("buildah", "buildah")])?;
    install::mosquitto()?;
    let release = release.map_or_else(|| dist::runtime().map(|made| made.folder), Ok)?;
    let scratch = folder()?;
    let buildah = Buildah::at(&scratch);
    if runtime {
        runtime::check(&buildah, &release, &scratch)?;
    }
    if dev {
        install::programs(&[("mmdebstrap", "mmdebstrap")])?;
        dev::check(&buildah, &release, &scratch)?;
    }
    Ok(())
}

fn folder() -> Result<PathBuf, String> {
    let folder = install::target()?.join("image");
    install::create(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_both_images_are_tried() {
        let read = |text: &str| asked(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let is = |runtime, dev, release: Option<&str>| Ok(Asked { runtime, dev, release: release.map(PathBuf::from) });
        assert_eq!(read(""), is(true, true, None));
        assert_eq!(read("dev"), is(false, true, None));
        assert_eq!(read("--from x runtime"), is(true, false, Some("x")));
        assert!(read("--from").is_err() && read("else").is_err());
    }
}
