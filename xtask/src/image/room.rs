//! Starting a program of an image as an engine does: its files read-only as the root, as its user, without privileges or a way to
//! them, and with the few files an engine puts there.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value as Json;

use super::USER;
use crate::install::create;

/// Sets the room up in a mount namespace of its own and becomes the program: `root`, `writable` folders as `there=here`, a line
/// each, and the program. With `exec` all the way it stays one process.
const ENTER: &str = r#"
root=$1 writable=$2
shift 2
mount --bind "$root" "$root"
mount -o remount,bind,ro,nosuid "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
printf '%s' "$writable" | while IFS='=' read -r there here; do mount --bind "$here" "$root$there"; done
cd /
exec setpriv --no-new-privs chroot --userspec="$USER_OF_IMAGE" --groups= "$root" "$@"
"#;

/// An image whose programs can be started.
pub(super) struct Room {
    root: PathBuf,
    writable: Vec<(&'static str, PathBuf)>,
    environment: Vec<(String, String)>,
}

/// A program that runs in a room; killed when dropped.
pub(super) struct Running(pub(super) Child);

impl Room {
    /// Puts what an engine mounts into the files of an image, names `hosts` for this machine, gives the user these folders to
    /// write, each fresh and below `scratch`, and takes the environment from what the image says.
    pub(super) fn new(
        root: &Path,
        scratch: &Path,
        hosts: &[&str],
        writable: &[&'static str],
        config: &Json,
    ) -> Result<Self, String> {
        for folder in ["dev", "proc", "etc"] {
            create(&root.join(folder))?;
        }
        let hosts = format!("127.0.0.1 localhost {}\n", hosts.join(" "));
        fs::write(root.join("etc/hosts"), hosts).map_err(|error| format!("etc/hosts: {error}"))?;
        let fresh = |there: &&'static str| {
            let here = scratch.join(there.trim_start_matches('/'));
            if here.exists() {
                fs::remove_dir_all(&here).map_err(|error| format!("{}: {error}", here.display()))?;
            }
            create(&here)?;
            let owned = std::os::unix::fs::chown(&here, Some(65_532), Some(65_532));
            owned.map_err(|error| format!("{}: {error}", here.display()))?;
            Ok((*there, here))
        };
        let writable = writable.iter().map(fresh).collect::<Result<Vec<_>, String>>()?;
        let variables = config["Env"].as_array().into_iter().flatten().filter_map(Json::as_str);
        let pairs = variables.filter_map(|variable| variable.split_once('='));
        let environment = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(Self { root: root.to_owned(), writable, environment })
    }

    /// Where a folder of the room is for us.
    pub(super) fn outside(&self, there: &str) -> Option<&Path> {
        self.writable.iter().find(|(name, _)| *name == there).map(|(_, here)| here.as_path())
    }

    /// Starts a program that goes on; its standard error is a pipe.
    pub(super) fn start<W: AsRef<OsStr>>(&self, words: &[W], secrets: &[(&str, &str)]) -> Result<Running, String> {
        let mut command = self.command(words, secrets);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map(Running).map_err(|error| format!("unshare: {error}"))
    }

    /// Runs a program to its end.
    pub(super) fn run<W: AsRef<OsStr>>(&self, words: &[W], secrets: &[(&str, &str)]) -> Result<Output, String> {
        self.command(words, secrets).stdin(Stdio::null()).output().map_err(|error| format!("unshare: {error}"))
    }

    fn command<W: AsRef<OsStr>>(&self, words: &[W], secrets: &[(&str, &str)]) -> Command {
        let lines = self.writable.iter().map(|(there, here)| format!("{there}={}", here.display()));
        // Every line is ended, the last one too: the shell reads no other.
        let writable = lines.chain([String::new()]).collect::<Vec<_>>().join("\n");
        let mut command = Command::new("unshare");
        command.env_clear().env("USER_OF_IMAGE", USER);
        command.envs(self.environment.iter().cloned()).envs(secrets.iter().copied());
        command.args(["--mount", "--propagation", "private", "--", "sh", "-euc", ENTER, "room"]);
        command.arg(&self.root).arg(writable).args(words);
        command
    }
}

impl Running {
    /// Ends it and gives what it said on standard error.
    pub(super) fn end(mut self) -> String {
        let _ = self.0.kill();
        let mut said = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        said
    }

    /// A line of /proc/PID/status, without its name.
    pub(super) fn status(&self, name: &str) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
