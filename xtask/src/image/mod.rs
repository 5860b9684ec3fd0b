//! `cargo xtask image`: builds the images without an engine, starts them the way an engine would, and holds them to what
//! docker/README.md says.
//!
//! Needs root, for the file systems of the images; buildah, and mmdebstrap for the base of the dev image, are installed.

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

/// Builds and tries what is asked for: `runtime`, `dev`, or both if nothing is.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let wanted = match words {
        [] => ["runtime", "dev"].as_slice(),
        [one] if one == "runtime" => &["runtime"],
        [one] if one == "dev" => &["dev"],
        _ => return Err("image knows runtime and dev, one of them or, with no word, both".to_owned()),
    };
    let mut packages = vec![("buildah", "buildah")];
    if wanted.contains(&"dev") {
        packages.push(("mmdebstrap", "mmdebstrap"));
    }
    install::programs(&packages)?;
    install::mosquitto()?;
    let made = dist::runtime()?;
    let scratch = folder()?;
    let buildah = Buildah::at(&scratch);
    if wanted.contains(&"runtime") {
        runtime::check(&buildah, &made.folder, &scratch)?;
    }
    if wanted.contains(&"dev") {
        dev::check(&buildah, &made.folder, &scratch)?;
    }
    Ok(())
}

fn folder() -> Result<PathBuf, String> {
    let folder = install::target()?.join("image");
    install::create(&folder)?;
    Ok(folder)
}
