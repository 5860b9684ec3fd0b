//! The dev image: Node 24, npm and Python beside the binary, and a program in TypeScript that runs there.
//!
//! Its base is what `BASE` names. No image can be pulled here, so one is made: a Debian by mmdebstrap, Node and npm from their
//! packages (docker/base).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use super::buildah::Buildah;
use super::door::{self, Door, PATIENCE, TOKEN};
use super::room::Room;
use super::runtime::says_what_it_must;
use crate::bench::broker::{Broker, Kind};
use crate::command::run;
use crate::dist;
use crate::install::{copy, create};

/// The name of the base that is made here.
const BASE: &str = "plantbridge-dev-base:local";
/// What the script prints, if its types were taken for what they are.
const SAID: &str = "typed 42";
const SCRIPT: &str = "const answer: number = 6 * 7;\nconsole.log(`typed ${answer satisfies number}`);\n";

/// Builds the image from an unpacked archive and tries it.
pub(super) fn check(buildah: &Buildah, release: &Path, scratch: &Path) -> Result<(), String> {
    let version = dist::version()?;
    let tag = format!("plantbridge-dev:{version}");
    base(buildah, release, &scratch.join("base"))?;
    let arguments = [format!("BASE={BASE}"), format!("VERSION={version}")];
    buildah.build(&tag, &release.join("docker/Dockerfile.dev"), release, &arguments.each_ref().map(String::as_str))?;
    let config = buildah.config(&tag)?;
    says_what_it_must(&config, "plantbridge-dev", &version)?;
    let unpacked = buildah.unpack(&tag)?;
    let writable = ["/scripts", "/state", "/tmp"];
    let room = Room::new(&unpacked.root, &scratch.join("dev"), &[], &writable, &config)?;
    for (words, begins) in [
        (["/usr/local/bin/node", "--version"], "v24."),
        (["/usr/local/bin/npm", "--version"], "11."),
        (["/usr/bin/python3", "--version"], "Python 3."),
    ] {
        let ended = room.run(&words, &[])?;
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        if !ended.status.success() || !said.starts_with(begins) {
            return Err(format!("{words:?}: {}: {said}{}", ended.status, String::from_utf8_lossy(&ended.stderr)));
        }
    }
    runs_typescript(&room)
}

/// Makes the base, unless it was made from the same before.
fn base(buildah: &Buildah, release: &Path, context: &Path) -> Result<(), String> {
    create(context)?;
    let debian: PathBuf = context.join("debian.tar");
    if !debian.is_file() {
        // Under another name until it is whole.
        let partial = context.join("partial.tar");
        run(Command::new("mmdebstrap").args(["--quiet", "--variant=minbase", "bookworm"]).arg(&partial))?;
        std::fs::rename(&partial, &debian).map_err(|error| format!("{}: {error}", debian.display()))?;
    }
    copy(&release.join("docker/base/package.json"), &context.join("package.json"))?;
    let mut npm = Command::new("npm");
    npm.current_dir(context).args(["install", "--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund"]);
    run(npm.arg("--loglevel=error"))?;
    buildah.build(BASE, &release.join("docker/base/Dockerfile"), context, &[])
}

/// A client writes a program, starts it and reads what it printed.
fn runs_typescript(room: &Room) -> Result<(), String> {
    let broker = Broker::start(Kind::Tuned)?;
    let (bridge, port) = door::open(room, &broker, "localhost", ["--scripts", "/scripts"])?;
    let door = Door { port, token: Some(TOKEN) };
    let tried = door.until("/mcp", |_| true).and_then(|()| {
        door.call("save_script", &json!({"name": "typed", "language": "ts", "source": SCRIPT}))?;
        door.call("start_script", &json!({"name": "typed"}))?;
        let until = Instant::now() + PATIENCE;
        loop {
            let output = door.call("script_output", &json!({"name": "typed"}))?.to_string();
            if output.contains(SAID) {
                println!("image: a script in TypeScript ran in the dev image");
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("the script never said {SAID:?}: {output}"));
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    tried.map_err(|error| format!("{error}: {}", bridge.end()))
}
