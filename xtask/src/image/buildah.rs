//! Building images and looking into them, by buildah: it needs no engine and no daemon.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

use crate::command::run;

/// buildah, with everything it keeps below one folder.
pub(super) struct Buildah {
    storage: PathBuf,
}

/// The files of an image, as a container of its own; gone when dropped.
pub(super) struct Unpacked<'a> {
    buildah: &'a Buildah,
    container: String,
    pub(super) root: PathBuf,
}

impl Buildah {
    pub(super) fn at(scratch: &Path) -> Self {
        Self { storage: scratch.join("storage") }
    }

    /// Builds `tag` by `file` from `context`, with these build arguments.
    pub(super) fn build(&self, tag: &str, file: &Path, context: &Path, arguments: &[&str]) -> Result<(), String> {
        let mut build = self.command();
        // Of the two formats only Docker's has a place for a health check.
        build.args(["build", "--isolation", "chroot", "--format", "docker", "--quiet", "--tag", tag]);
        for argument in arguments {
            build.args(["--build-arg", argument]);
        }
        run(build.arg("--file").arg(file).arg(context))
    }

    /// What the image says of itself.
    pub(super) fn config(&self, tag: &str) -> Result<Json, String> {
        let said = self.says(&["inspect", "--type", "image", tag])?;
        let image: Json = serde_json::from_str(&said).map_err(|error| format!("buildah inspect: {error}"))?;
        Ok(image["Docker"]["config"].clone())
    }

    /// The files of an image.
    pub(super) fn unpack(&self, tag: &str) -> Result<Unpacked<'_>, String> {
        let container = self.says(&["from", "--pull-never", tag])?;
        let mut unpacked = Unpacked { buildah: self, container, root: PathBuf::new() };
        unpacked.root = self.says(&["mount", &unpacked.container])?.into();
        Ok(unpacked)
    }

    fn says(&self, words: &[&str]) -> Result<String, String> {
        let output = self.command().args(words).output().map_err(|error| format!("buildah: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Err(format!("buildah {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
    }

    fn command(&self) -> Command {
        let mut command = Command::new("buildah");
        command.args(["--storage-driver", "vfs", "--root"]).arg(self.storage.join("root"));
        command.arg("--runroot").arg(self.storage.join("run"));
        command
    }
}

impl Drop for Unpacked<'_> {
    fn drop(&mut self) {
        // Left behind it takes room and nothing else.
        let _ = self.buildah.says(&["rm", &self.container]);
    }
}
