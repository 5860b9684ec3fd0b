//! The runtime image: what is in it, as whom it runs, what it answers, and how soon.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use super::USER;
use super::buildah::Buildah;
use super::door::{self, Door, TOKEN};
use super::room::{Room, Running};
use crate::bench::broker::{Broker, Kind};
use crate::bench::stats::percentile;
use crate::{dist, install};

/// How soon after its start the door has to answer, at the median.
const COLD_START: Duration = Duration::from_millis(50);
const STARTS: usize = 15;
/// A name of this machine that only the file /etc/hosts of the image has.
const BROKER: &str = "broker.plant.example";
/// What makes a bridge do more than look and act as a peer. None may be in an image.
pub(super) const GRANTS: [&str; 7] =
    ["allow-exec", "scripts", "scriptable-by", "development", "insecure-tls", "allow-host", "allow-origin"];

/// Builds the image from an unpacked archive and tries it.
pub(super) fn check(buildah: &Buildah, release: &Path, scratch: &Path) -> Result<(), String> {
    let version = dist::version()?;
    let tag = format!("plantbridge:{version}");
    buildah.build(&tag, &release.join("docker/Dockerfile"), release, &[&format!("VERSION={version}")])?;
    let config = buildah.config(&tag)?;
    says_what_it_must(&config, "plantbridge", &version)?;
    let unpacked = buildah.unpack(&tag)?;
    holds_one_program(&unpacked.root)?;
    let writable = ["/state", "/contracts"];
    let room = Room::new(&unpacked.root, &scratch.join("runtime"), &[BROKER], &writable, &config)?;
    let broker = Broker::start(Kind::Tuned)?;
    serves(&room, &broker)?;
    refuses_without_a_token(&room, &broker)?;
    starts_soon(&room, &broker)
}

/// The user, the entry point, the health check, and an environment that grants nothing.
pub(super) fn says_what_it_must(config: &Json, title: &str, version: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (name, is, must) in [
        ("user", &config["User"], json!(USER)),
        ("entry point", &config["Entrypoint"], json!(["/plantbridge"])),
        ("signal to stop", &config["StopSignal"], json!("SIGTERM")),
        ("health check", &config["Healthcheck"]["Test"], json!(["CMD", "/plantbridge", "health"])),
        ("title", &config["Labels"]["org.opencontainers.image.title"], json!(title)),
        ("version", &config["Labels"]["org.opencontainers.image.version"], json!(version)),
        ("licences", &config["Labels"]["org.opencontainers.image.licenses"], json!("MIT OR Apache-2.0")),
    ] {
        if *is != must {
            wrong.push(format!("its {name} is {is}, not {must}"));
        }
    }
    if config["Cmd"].as_array().is_some_and(|words| !words.is_empty()) {
        wrong.push(format!("it starts with words of its own: {}", config["Cmd"]));
    }
    for variable in config["Env"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        let harmless = ["PATH=", "HOME=", "NODE_VERSION=", "YARN_VERSION=", "PLANTBRIDGE_HEALTH_URL=http://127.0.0.1:"];
        if !harmless.iter().any(|known| variable.starts_with(known)) {
            wrong.push(format!("it sets {variable}"));
        }
    }
    let words = config["Entrypoint"].to_string() + &config["Env"].to_string();
    wrong.extend(GRANTS.iter().filter(|grant| words.contains(*grant)).map(|grant| format!("it grants {grant}")));
    if wrong.is_empty() { Ok(()) } else { Err(format!("{title}: {}", wrong.join("; "))) }
}

/// The binary, the papers and the folders of volumes, and nothing else: so no shell and no package manager.
fn holds_one_program(root: &Path) -> Result<(), String> {
    let mut files = BTreeSet::new();
    walk(root, root, &mut files)?;
    let papers = ["LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.txt", "THIRD-PARTY-std.html", "plantbridge.cdx.json"];
    let mut must: BTreeSet<String> = papers.iter().map(|paper| format!("licences/{paper}")).collect();
    must.extend(["licences/", "state/", "contracts/", "plantbridge"].map(str::to_owned));
    if files != must {
        return Err(format!("the image holds {files:?}, and has to hold {must:?}"));
    }
    let mode = std::fs::metadata(root.join("plantbridge")).map_err(|error| error.to_string())?.permissions().mode();
    if mode & 0o7022 != 0 {
        Err(format!("others may change the program, or it lends rights: {mode:o}"))
    } else {
        Ok(())
    }
}

fn walk(root: &Path, folder: &Path, files: &mut BTreeSet<String>) -> Result<(), String> {
    for path in install::entries(folder)? {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if path.is_dir() && !path.is_symlink() {
            files.insert(format!("{name}/"));
            walk(root, &path, files)?;
        } else {
            files.insert(name);
        }
    }
    Ok(())
}

/// It joins a broker by a name of /etc/hosts and by `localhost`, is healthy, answers a client with the token and nobody else, writes
/// its volume and nothing else, and has no privileges.
fn serves(room: &Room, broker: &Broker) -> Result<(), String> {
    for host in [BROKER, "localhost"] {
        let (bridge, port) = start(room, broker, host)?;
        let door = Door { port, token: Some(TOKEN) };
        answers(&door).map_err(|error| format!("{host}: {error}: {}", bridge.end()))?;
    }
    let (bridge, port) = start(room, broker, BROKER)?;
    let door = Door { port, token: Some(TOKEN) };
    door.until("/mcp", |_| true)?;
    for token in [None, Some("another")] {
        let (status, _) = Door { port, token }.post("{}")?;
        if status != 401 {
            return Err(format!("with the token {token:?} the door answers {status}, not 401"));
        }
    }
    for (name, must) in [
        ("Uid", "65532 65532 65532 65532"),
        ("Gid", "65532 65532 65532 65532"),
        ("Groups", ""),
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("NoNewPrivs", "1"),
    ] {
        let is = bridge.status(name);
        if is != must {
            return Err(format!("{name} of the process is {is:?}, not {must:?}"));
        }
    }
    keeps_a_contract(room, &door)?;
    let healthy = room.run(&["/plantbridge", "health", "--url", &format!("http://127.0.0.1:{port}")], &[])?;
    if !healthy.status.success() {
        return Err(format!("health: {}: {}", healthy.status, String::from_utf8_lossy(&healthy.stderr)));
    }
    bridge.end();
    let sick = room.run(&["/plantbridge", "health", "--url", &format!("http://127.0.0.1:{port}")], &[])?;
    if sick.status.success() { Err("nobody is there any more, and it is healthy".to_owned()) } else { Ok(()) }
}

fn answers(door: &Door) -> Result<(), String> {
    door.until("/mcp", |_| true)?;
    let peers = door.call("list_peers", &json!({}))?;
    if peers["peers"].is_array() { Ok(()) } else { Err(format!("list_peers: {peers}")) }
}

fn keeps_a_contract(room: &Room, door: &Door) -> Result<(), String> {
    let text = std::fs::read_to_string(install::repository().join("contracts/bakery.types.json"));
    let contract: Json = text.ok().and_then(|text| serde_json::from_str(&text).ok()).ok_or("no contract to save")?;
    door.call("save_contract", &json!({"name": "oven", "schema": contract}))?;
    let kept: PathBuf = room.outside("/contracts").ok_or("no volume")?.join("oven.types.json");
    if kept.is_file() { Ok(()) } else { Err(format!("{} is not there", kept.display())) }
}

/// Without a token there is no door, and the process says so and ends.
fn refuses_without_a_token(room: &Room, broker: &Broker) -> Result<(), String> {
    let url = format!("mqtt://127.0.0.1:{}", broker.port);
    for words in [&["--require-token"][..], &["--host", "0.0.0.0"]] {
        let start = ["/plantbridge", "mcp", "--no-stdio", "--port", "0", "--broker", &url];
        let ended = room.run(&[&start, words].concat(), &[])?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        if ended.status.code() != Some(1) || !said.contains("token") {
            return Err(format!("{words:?} without a token: {}: {said}", ended.status));
        }
    }
    Ok(())
}

/// From the start of the process, and of the room around it, to the first answer of the door, and to being ready.
fn starts_soon(room: &Room, broker: &Broker) -> Result<(), String> {
    let (mut doors, mut ready) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let begun = Instant::now();
        let (bridge, port) = start(room, broker, BROKER)?;
        let door = Door { port, token: None };
        door.until("/mcp", |_| true)?;
        doors.push(begun.elapsed());
        door.until("/readyz", |status| status == 200)?;
        ready.push(begun.elapsed());
        drop(bridge);
    }
    let (door, ready) = (percentile(&mut doors, 0.5), percentile(&mut ready, 0.5));
    println!("image: {STARTS} cold starts, median: {door:.1?} to the first answer of the door, {ready:.1?} to ready");
    if door <= COLD_START { Ok(()) } else { Err(format!("a start takes {door:.1?}, {COLD_START:?} are wanted")) }
}

fn start(room: &Room, broker: &Broker, host: &str) -> Result<(Running, u16), String> {
    door::open(room, broker, host, ["--contracts", "/contracts"])
}
