//! Scripts through the tools: kept, run, watched, ended, and what each bad input gets. What runs them here is a shell that
//! calls itself `node`, so that nothing needs to be installed; the interop tests run real ones.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use plantbridge::{
    mcp::{Offer, tools},
    node::{Identity, Node, Serving},
    plant::{Plant, Settings},
    script::{Bounds, Inherited, Packager, ScriptFault, Scripts, ScriptsConfig, Supervisor, Wanted, Whereabouts},
    wire::{
        PeerName,
        signing::{Minter, Secret},
    },
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    harness::{Client, Setup},
    tools::{bad, good},
};

/// A directory of scripts, programs that run them, and a client.
pub(crate) struct Shed {
    folder: TempDir,
    pub(crate) client: Client,
    pub(crate) scripts: Scripts,
}

/// How a shed differs from the usual.
pub(crate) struct With {
    pub(crate) node: Option<&'static str>,
    pub(crate) bounds: Bounds,
    pub(crate) derive: bool,
    pub(crate) read_only: bool,
}

impl Default for With {
    fn default() -> Self {
        Self { node: Some("v24.1.0"), bounds: Bounds::default(), derive: false, read_only: false }
    }
}

/// Writes a program of the shell.
fn program(path: &Path, text: &str) {
    // Renamed into place, or a fork of another test that still holds it open for writing would keep it from being run.
    let temporary = path.with_extension("new");
    fs::write(&temporary, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&temporary, path).unwrap();
}

/// The scripts of a directory in `folder`, as a bridge called `bridge` has them.
pub(crate) fn scripts(folder: &Path, with: &With) -> Scripts {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    if let Some(version) = with.node {
        program(
            &bin.join("node"),
            &format!("[ \"$1\" = --version ] && {{ echo {version}; exit; }}\nexec /bin/sh \"$@\""),
        );
    }
    program(&bin.join("python3"), "[ \"$1\" = --version ] && { echo Python 3.11.7; exit; }\nexec /bin/sh \"$@\"");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let secrets = ["PLANTBRIDGE_TOKEN", "SOURCE_RPC_MQTT_PASSWORD", "SOURCE_RPC_TOKENS", "AWS_SECRET_ACCESS_KEY"];
    let secrets = secrets.map(|name| (name.to_owned(), "hunter2".to_owned()));
    Scripts::new(ScriptsConfig {
        directory: folder.join("scripts"),
        supervisor: Supervisor::at(env!("CARGO_BIN_EXE_plantbridge").into()),
        inherited: Inherited::of([("PATH".to_owned(), path)].into_iter().chain(secrets)),
        place: Whereabouts { broker: Some("mqtt://plant:1883".into()), hub: None, prefix: "msgrpc/v2".into() },
        bridge: "bridge".into(),
        minter: with
            .derive
            .then(|| Minter::new(Secret::new("issuer-secret".into()), PeerName::configured("bridge").unwrap())),
        bounds: with.bounds,
    })
}

impl Shed {
    pub(crate) async fn open() -> Self {
        Self::with(With::default()).await
    }

    pub(crate) async fn with(with: With) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::again(folder, with).await
    }

    /// Another bridge on the same directory.
    async fn again(folder: TempDir, with: With) -> Self {
        let scripts = scripts(folder.path(), &with);
        let name = PeerName::configured("bridge").unwrap();
        let identity = Identity { name, serving: Serving::default(), exposed: Vec::new() };
        let call_timeout = Duration::from_secs(1);
        let settings = Settings { read_only: with.read_only, call_timeout, link_names: Vec::new() };
        let node = Node::start(identity, Vec::new()).0;
        let plant = Plant::with_scripts(node, settings, None, None, Some(scripts.clone()));
        let offer = Offer { read_only: with.read_only, scripts: true, ..Offer::default() };
        let mut client = Client::over(plant, tools::all(), &Setup { offer, ..Setup::default() });
        client.initialize("2025-06-18").await;
        Self { folder, client, scripts }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("scripts")
    }

    async fn good(&mut self, tool: &str, arguments: Json) -> Json {
        good(&mut self.client, tool, arguments).await
    }

    async fn bad(&mut self, tool: &str, arguments: Json) -> Json {
        bad(&mut self.client, tool, arguments).await
    }

    async fn save(&mut self, name: &str, text: &str) -> Json {
        self.good("save_script", json!({"name": name, "source": text})).await
    }

    async fn start(&mut self, name: &str, text: &str) -> Json {
        self.save(name, text).await;
        self.good("start_script", json!({"name": name})).await
    }

    /// What a script wrote, once `done` holds of it.
    async fn output(&mut self, name: &str, done: impl Fn(&Json) -> bool) -> Json {
        tokio::time::timeout(Duration::from_secs(30), async {
            loop {
                let output = self.good("script_output", json!({"name": name})).await;
                if done(&output) {
                    return output;
                }
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{name} did not get there"))
    }

    /// Runs a script to its own end; gives what it wrote.
    async fn run(&mut self, name: &str, text: &str) -> Json {
        self.start(name, text).await;
        self.output(name, |output| output["running"] == false).await
    }
}

/// Whether some line of an output is this one.
fn says(line: &'static str) -> impl Fn(&Json) -> bool {
    move |output| output["lines"].as_array().unwrap().iter().any(|said| said == line)
}

fn lines(output: &Json) -> Vec<&str> {
    output["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_script_is_kept_run_watched_stopped_and_deleted() {
    let mut shed = Shed::open().await;
    let empty = shed.good("list_scripts", json!({})).await;
    assert_eq!((&empty["scripts"], &empty["directory"]), (&json!([]), &json!("scripts")));
    assert!(!shed.directory().exists(), "a look makes nothing");

    let saved = shed.save("pump", "echo up; echo down >&2; while :; do sleep 0.01; done").await;
    assert_eq!(
        (&saved["file"], &saved["overwrote"], &saved["running"]),
        (&json!("pump.ts"), &json!(false), &json!(false))
    );
    let manifest: Json = serde_json::from_slice(&fs::read(shed.directory().join("package.json")).unwrap()).unwrap();
    assert_eq!(manifest, json!({"name": "source-rpc-scripts", "private": true, "type": "module"}));
    let read = shed.good("read_script", json!({"name": "pump"})).await;
    assert_eq!((&read["language"], read["text"].as_str().unwrap().ends_with("done\n")), (&json!("ts"), true));

    let started = shed.good("start_script", json!({"name": "pump"})).await;
    assert_eq!((&started["peer"], &started["by"]), (&json!("pump@bridge"), &json!("node 24.1")));
    assert_eq!(started["hint"], json!({"tool": "script_output", "arguments": {"name": "pump"}}));
    let both = |output: &Json| says("up")(output) && says("! down")(output);
    let output = shed.output("pump", both).await;
    assert_eq!((&output["running"], &output["run"]), (&json!(true), &started["run"]));
    let listed = &shed.good("list_scripts", json!({})).await["scripts"][0];
    assert_eq!(
        (&listed["name"], &listed["language"], &listed["running"]),
        (&json!("pump"), &json!("ts"), &json!(true))
    );
    let twice = shed.bad("start_script", json!({"name": "pump"})).await;
    assert_eq!((&twice["code"], &twice["outcome"]), (&json!("already_running"), &json!("not_run")));

    let stopped = shed.good("stop_script", json!({"name": "pump"})).await;
    assert_eq!((&stopped["ended"]["signal"], &stopped["run"]), (&json!(15), &started["run"]));
    assert_eq!(shed.bad("stop_script", json!({"name": "pump"})).await["code"], "unknown_script");
    let after = shed.good("script_output", json!({"name": "pump"})).await;
    assert_eq!((&after["end"], &after["running"]), (&json!("(ended: code none, signal 15)"), &json!(false)));
    let deleted = shed.good("delete_script", json!({"name": "pump"})).await;
    assert_eq!((&deleted["file"], &deleted["deleted"]), (&json!("pump.ts"), &json!(true)));
    assert_eq!(shed.bad("read_script", json!({"name": "pump"})).await["code"], "unknown_script");
}

/// F-27: names that climb, hide, are devices or end in a dot, wherever one is taken.
#[tokio::test]
async fn a_name_is_not_a_path() {
    let mut shed = Shed::open().await;
    for name in ["../x", "a/b", "a\\b", "..", ".hidden", "con", "NUL.x", "com1", "x.", "x.ts", "x.PY", "a b", "-x", "ä"]
    {
        for tool in ["read_script", "start_script", "stop_script", "delete_script", "script_output"] {
            let error = shed.bad(tool, json!({"name": name})).await;
            assert_eq!(
                (&error["code"], &error["argument"]),
                (&json!("bad_argument"), &json!("/name")),
                "{tool} {name}"
            );
        }
        assert_eq!(shed.bad("save_script", json!({"name": name, "source": ""})).await["code"], "bad_argument");
    }
    for name in [json!(""), json!("x".repeat(65)), json!(7), Json::Null] {
        assert_eq!(shed.bad("save_script", json!({"name": name, "source": ""})).await["code"], "bad_argument");
    }
    assert!(!shed.directory().exists());
    let long = json!({"name": "x", "source": "x".repeat(262_145)});
    assert_eq!(shed.bad("save_script", long).await["code"], "bad_argument");
}

/// F-27: a link leads nowhere, whoever put it there.
#[tokio::test]
async fn links_are_not_followed() {
    let mut shed = Shed::open().await;
    shed.save("first", "exit").await;
    let outside = shed.folder.path().join("outside");
    fs::write(&outside, "precious").unwrap();
    for file in ["link.ts", "link.mjs"] {
        symlink(&outside, shed.directory().join(file)).unwrap();
        for (tool, more) in
            [("read_script", json!({})), ("start_script", json!({})), ("save_script", json!({"source": "x"}))]
        {
            let mut arguments = more;
            arguments["name"] = "link".into();
            if file == "link.mjs" && tool == "save_script" {
                arguments["language"] = "mjs".into();
            }
            let error = shed.bad(tool, arguments).await;
            let code = if tool == "save_script" { "cannot_write" } else { "cannot_read" };
            assert_eq!(error["code"], code, "{tool} {error}");
            assert!(error["message"].as_str().unwrap().contains("symbolic link"), "{error}");
        }
        let listed = shed.good("list_scripts", json!({})).await;
        assert_eq!(listed["matched"], 1);
        assert!(listed["junk"][0].as_str().unwrap().contains("symbolic link"), "{listed}");
        fs::remove_file(shed.directory().join(file)).unwrap();
    }
    // The directory where output is kept is one of ours or none.
    symlink(shed.folder.path(), shed.directory().join(".runs")).unwrap();
    let error = shed.bad("start_script", json!({"name": "first"})).await;
    assert!(error["message"].as_str().unwrap().contains("symbolic link"), "{error}");
    assert_eq!(fs::read_to_string(outside).unwrap(), "precious");
    fs::remove_file(shed.directory().join(".runs")).unwrap();
    shed.good("start_script", json!({"name": "first"})).await;
}

/// Another language takes the place of the one before; a run goes on with its text, and that is said.
#[tokio::test]
async fn a_save_says_what_it_replaces_and_what_runs_on() {
    let mut shed = Shed::open().await;
    shed.start("pump", "echo old; while :; do sleep 0.01; done").await;
    shed.output("pump", says("old")).await;
    let saved = shed.good("save_script", json!({"name": "pump", "source": "echo new", "language": "mjs"})).await;
    assert_eq!(
        (&saved["overwrote"], &saved["removed"], &saved["running"]),
        (&json!(true), &json!(["pump.ts"]), &json!(true))
    );
    assert!(saved["notes"][0].as_str().unwrap().contains("old text runs on"), "{saved}");
    shed.good("stop_script", json!({"name": "pump"})).await;
    shed.good("start_script", json!({"name": "pump"})).await;
    shed.output("pump", says("new")).await;
    assert_eq!(fs::read_to_string(shed.directory().join("pump.mjs")).unwrap(), "echo new\n");
    let twin = shed.bad("save_script", json!({"name": "PUMP", "source": ""})).await;
    assert_eq!(twin["code"], "cannot_write");
    // Deleting stops.
    shed.start("other", "while :; do sleep 0.01; done").await;
    shed.good("delete_script", json!({"name": "other"})).await;
    assert_eq!(shed.bad("stop_script", json!({"name": "other"})).await["code"], "unknown_script");
}

/// What runs is the text at the start, however soon after it a save, another language or a removal comes.
#[tokio::test]
async fn a_save_right_after_a_start_changes_nothing_of_the_run() {
    let mut shed = Shed::open().await;
    // What plays Node takes its time to open the file.
    let slow =
        "[ \"$1\" = --version ] && { echo v24.1.0; exit; }\nuntil [ -e go ]; do sleep 0.01; done\nexec /bin/sh \"$@\"";
    program(&shed.folder.path().join("bin/node"), slow);
    shed.start("pump", ". ./beside; echo old").await;
    fs::write(shed.directory().join("beside"), "echo beside\n").unwrap();
    shed.save("pump", "echo new").await;
    shed.good("save_script", json!({"name": "pump", "source": "echo newer", "language": "mjs"})).await;
    let listed = shed.good("list_scripts", json!({})).await;
    assert_eq!((&listed["matched"], &listed["junk"]), (&json!(1), &Json::Null), "its own text is not listed: {listed}");
    fs::write(shed.directory().join("go"), "").unwrap();
    let output = shed.output("pump", |output| output["running"] == false).await;
    assert_eq!(lines(&output), ["beside", "old"], "what lies beside it is found");
    assert_eq!(pinned(&shed), [""; 0], "its text goes with it");

    // One that a killed bridge left is removed by the next start; one that another bridge runs is not.
    let (left, held) = (".gone.20260101000000000-abcd.ts", ".other.20260101000000000-abcd.py");
    fs::write(shed.directory().join(left), "x").unwrap();
    let other = fs::File::create(shed.directory().join(held)).unwrap();
    other.lock().unwrap();
    shed.good("start_script", json!({"name": "pump"})).await;
    shed.output("pump", |output| output["running"] == false).await;
    assert_eq!(pinned(&shed), [held]);
}

/// The texts of runs that lie in the directory.
fn pinned(shed: &Shed) -> Vec<String> {
    let files = fs::read_dir(shed.directory()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    files.filter(|file| file.starts_with('.') && file != ".runs").collect()
}

/// A Python name that would take the place of a module for every script.
#[tokio::test]
async fn no_script_takes_the_place_of_a_module_of_python() {
    let mut shed = Shed::open().await;
    for name in ["json", "tokenize", "os", "typing"] {
        let error = shed.bad("save_script", json!({"name": name, "source": "", "language": "py"})).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!("/name")), "{error}");
        assert!(error["message"].as_str().unwrap().contains("Python's own library"), "{error}");
    }
    assert!(!shed.directory().exists());
    shed.good("save_script", json!({"name": "json", "source": "", "language": "mjs"})).await;
    shed.good("save_script", json!({"name": "poll", "source": "", "language": "py"})).await;
}

/// What cannot be read says so, and not that it could not be written.
#[tokio::test]
async fn what_cannot_be_read_is_said_to_be_unreadable() {
    let mut shed = Shed::open().await;
    shed.save("first", "exit").await;
    fs::write(shed.directory().join("large.ts"), "x".repeat(262_145)).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(shed.directory().join("pipe.ts")).status().unwrap();
    assert!(pipe.success());
    fs::create_dir(shed.directory().join("folder.ts")).unwrap();
    for (name, why) in [("large", "262145 bytes"), ("pipe", "not a plain file"), ("folder", "not a plain file")] {
        for tool in ["read_script", "start_script"] {
            let error = shed.bad(tool, json!({"name": name})).await;
            assert_eq!(
                (&error["code"], &error["outcome"]),
                (&json!("cannot_read"), &json!("not_run")),
                "{tool} {error}"
            );
            assert!(error["message"].as_str().unwrap().contains(why), "{tool} {error}");
        }
    }
    fs::write(shed.directory().join("binary.ts"), [0xff, 0xfe]).unwrap();
    assert_eq!(shed.bad("read_script", json!({"name": "binary"})).await["code"], "cannot_read");
    assert_eq!(shed.bad("delete_script", json!({"name": "pipe"})).await["code"], "cannot_write");
}

/// F-25: what a script is given is named, and no secret of the bridge is among it.
#[tokio::test]
async fn a_script_is_given_no_secret_of_the_bridge() {
    let mut shed = Shed::open().await;
    let started = shed.start("env", "env | sort; pwd").await;
    assert!(started["credential"].as_str().unwrap().starts_with("none: "), "{started}");
    let output = shed.output("env", |output| output["running"] == false).await;
    let names: Vec<&str> = lines(&output).iter().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let shell = ["OLDPWD", "PWD", "SHLVL", "_"];
    let names: Vec<&str> = names.into_iter().filter(|name| !shell.contains(name)).collect();
    let told = ["PATH", "PLANTBRIDGE_BROKER", "PLANTBRIDGE_NAME", "PLANTBRIDGE_PREFIX", "PYTHONUNBUFFERED"];
    let theirs = ["SOURCE_RPC_BROKER", "SOURCE_RPC_NAME", "SOURCE_RPC_PREFIX"];
    assert_eq!(names, told.into_iter().chain(theirs).collect::<Vec<_>>());
    assert!(!output.to_string().contains("hunter2"));
    assert_eq!(*lines(&output).last().unwrap(), shed.directory().canonicalize().unwrap().to_str().unwrap());

    let mut minting = Shed::with(With { derive: true, ..With::default() }).await;
    let started = minting.start("env", "echo $SOURCE_RPC_TOKEN").await;
    assert!(started["credential"].as_str().unwrap().starts_with("a token of its own"), "{started}");
    let output = minting.output("env", |output| output["running"] == false).await;
    let token = lines(&output)[0].strip_prefix("srpc-d1.").unwrap().split_once('.').unwrap().0;
    let claims = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, token).unwrap();
    let claims: Json = serde_json::from_slice(&claims).unwrap();
    assert_eq!(
        (&claims["subject"], &claims["issuer"], &claims["generation"]),
        (&json!("env@bridge"), &json!("bridge"), &json!(2))
    );
    assert_eq!(claims["expiresAt"].as_i64().unwrap() - claims["issuedAt"].as_i64().unwrap(), 4 * 60 * 60 * 1000);
    assert!(!started.to_string().contains("srpc-d1"), "a token is not shown");
}

/// F-28: of two starts at once one goes on, whatever is awaited in between.
#[tokio::test]
async fn of_two_starts_at_once_one_goes_on() {
    let mut shed = Shed::open().await;
    shed.save("pump", "echo up; while :; do sleep 0.01; done").await;
    for id in ["a", "b", "c"] {
        shed.client.start(id, "start_script", json!({"name": "pump"})).await;
    }
    let mut good = 0;
    for _ in 0..3 {
        let answer = shed.client.read().await;
        match answer["result"]["structuredContent"]["error"]["code"].as_str() {
            None => good += 1,
            Some(code) => assert_eq!(code, "already_running"),
        }
    }
    assert_eq!(good, 1);
    // One that never came to run is not taken for running.
    shed.save("broken", "exit").await;
    fs::remove_file(shed.directory().join("broken.ts")).unwrap();
    for _ in 0..2 {
        assert_eq!(shed.bad("start_script", json!({"name": "broken"})).await["code"], "unknown_script");
    }
    shed.scripts.stop_all().await;
}

/// Eight run at most, unless the flag says otherwise; one that ends makes room.
#[tokio::test]
async fn no_more_run_than_may() {
    let bounds = Bounds { running: 2, ..Bounds::default() };
    let mut shed = Shed::with(With { bounds, ..With::default() }).await;
    for name in ["a", "b"] {
        shed.start(name, "while :; do sleep 0.01; done").await;
    }
    shed.save("c", "exit").await;
    let error = shed.bad("start_script", json!({"name": "c"})).await;
    assert_eq!(
        (&error["code"], &error["limit"], &error["retryable"]),
        (&json!("limit_reached"), &json!(2), &json!(true))
    );
    shed.good("stop_script", json!({"name": "a"})).await;
    shed.good("start_script", json!({"name": "c"})).await;
    shed.scripts.stop_all().await;
    assert_eq!(shed.bad("start_script", json!({"name": "a"})).await["code"], "cancelled", "the bridge is ending");
}

/// Binary, nothing, for ever without an end of line, and an end at once.
#[tokio::test]
async fn whatever_is_written_is_lines_of_data() {
    let mut shed = Shed::open().await;
    let output = shed.run("binary", "printf 'a\\377\\000b\\033[31m\\n'; printf 'no end'").await;
    assert_eq!(lines(&output), ["a\u{fffd}\0b\u{1b}[31m", "no end"]);
    assert_eq!((&output["ended"]["code"], &output["end"]), (&json!(0), &json!("(ended: code 0)")));
    assert_eq!(output["source"], json!({"kind": "bridge", "trust": "data"}));

    let output = shed.run("nothing", "exit 3").await;
    assert_eq!((lines(&output).len(), &output["ended"]["code"]), (0, &json!(3)));

    let output = shed.run("endless", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo next").await;
    assert_eq!(lines(&output).len(), 1, "a long line fills an answer: {}", output["more"]);
    let rest = shed.good("script_output", json!({"name": "endless", "limit": 1})).await;
    assert_eq!(lines(&rest), ["next"]);
    assert!(lines(&output)[0].len() <= 12 * 1024, "{}", lines(&output)[0].len());

    shed.start("for-ever", "while :; do head -c 100000 /dev/zero; done").await;
    shed.output("for-ever", |output| output["lines"].as_array().unwrap().len() == 1).await;
    shed.good("stop_script", json!({"name": "for-ever"})).await;
}

/// A cursor gives what came since; of another run, or of a bridge before, it is stale.
#[tokio::test]
async fn output_goes_on_where_it_was_left() {
    let mut shed = Shed::open().await;
    let output = shed.run("count", "seq 1 500").await;
    assert_eq!((&output["first"], lines(&output).len(), &output["fell_off"]), (&json!(300), 200, &json!(0)));
    let few = shed.good("script_output", json!({"name": "count", "limit": 3})).await;
    assert_eq!((lines(&few), &few["first"]), (vec!["498", "499", "500"], &json!(497)));
    let hint = few["hint"]["arguments"].clone();
    let none = shed.good("script_output", hint.clone()).await;
    assert_eq!((lines(&none).len(), &none["first"], &none["end"]), (0, &json!(500), &json!("(ended: code 0)")));

    let slow = "seq 1 1000; while :; do sleep 0.01; done";
    shed.start("slow", "echo first; while [ ! -f go ]; do sleep 0.01; done; seq 1 1000; while :; do sleep 0.01; done")
        .await;
    let first = shed.output("slow", says("first")).await;
    fs::write(shed.directory().join("go"), "").unwrap();
    shed.output("slow", says("1000")).await;
    let since = shed.good("script_output", first["hint"]["arguments"].clone()).await;
    assert_eq!((&since["fell_off"], &since["first"]), (&json!(800), &json!(801)), "what fell off is said");

    for changed in [json!({"name": "count"}), json!({"name": "slow", "node": "other"})] {
        let mut arguments = changed;
        arguments["after"] = first["cursor"].clone();
        assert_eq!(shed.bad("script_output", arguments).await["code"], "stale_cursor");
    }
    shed.good("stop_script", json!({"name": "slow"})).await;
    shed.start("slow", slow).await;
    assert_eq!(shed.bad("script_output", first["hint"]["arguments"].clone()).await["code"], "stale_cursor");
    assert_eq!(shed.bad("script_output", json!({"name": "never"})).await["code"], "unknown_script");
    shed.scripts.stop_all().await;
}

/// F-28: the last ten runs stay on the disk, each of bounded size, and can be read after the bridge was started again.
#[tokio::test]
async fn the_last_runs_stay_on_the_disk() {
    let mut shed = Shed::open().await;
    let mut runs = Vec::new();
    for number in 0..12 {
        let output = shed.run("pump", &format!("echo run {number}")).await;
        runs.push(output["run"].as_str().unwrap().to_owned());
    }
    shed.run("flood", "yes 0123456789012345678901234567890123456789 | head -n 100000; echo last").await;
    let size = |name: &str| {
        let files = fs::read_dir(shed.directory().join(".runs")).unwrap().map(|entry| entry.unwrap());
        let of = files.filter(|entry| entry.file_name().to_str().unwrap().starts_with(name));
        of.map(|entry| entry.metadata().unwrap().len()).collect::<Vec<_>>()
    };
    assert_eq!(size("pump.").len(), 10);
    assert!(size("flood.").iter().all(|bytes| (500_000..1_048_576).contains(bytes)), "{:?}", size("flood."));
    let earlier = shed.good("script_output", json!({"name": "pump", "run": runs[5]})).await;
    assert_eq!((lines(&earlier), &earlier["stored"]), (vec!["run 5", "(ended: code 0)"], &json!(true)));
    assert_eq!(shed.bad("script_output", json!({"name": "pump", "run": runs[0]})).await["code"], "unknown_script");
    assert_eq!(
        shed.bad("script_output", json!({"name": "pump", "run": "../../etc/passwd"})).await["code"],
        "unknown_script"
    );

    let Shed { folder, .. } = shed;
    let mut shed = Shed::again(folder, With::default()).await;
    let last = shed.good("script_output", json!({"name": "pump"})).await;
    assert_eq!((&last["run"], &last["stored"], &last["running"]), (&json!(runs[11]), &json!(true), &json!(false)));
    let flood = shed.good("script_output", json!({"name": "flood", "limit": 2})).await;
    assert_eq!(lines(&flood), ["last", "(ended: code 0)"]);
}

/// Records are bounded over all names, those of runs that go on stay, and a script takes its own along.
#[tokio::test]
async fn records_do_not_grow_without_bound() {
    let mut shed = Shed::open().await;
    shed.start("first", "echo up; while :; do sleep 0.01; done").await;
    shed.output("first", says("up")).await;
    let runs = shed.directory().join(".runs");
    for number in 0..300 {
        fs::write(runs.join(format!("old{number}.20990101000000{number:03}-abcd.log")), "x").unwrap();
    }
    fs::write(runs.join("note.txt"), "of a person").unwrap();
    let of = |name: &str| {
        let files = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        files.filter(|file| file.starts_with(name) && file != "note.txt").count()
    };
    shed.run("pump", "echo one").await;
    assert_eq!((of(""), of("first."), of("pump.")), (256, 1, 1), "the oldest goes on, and is kept");
    assert!(!runs.join("old0.20990101000000000-abcd.log").exists());
    assert!(runs.join("old299.20990101000000299-abcd.log").exists() && runs.join("note.txt").exists());

    shed.run("pump.x", "echo two").await;
    shed.good("delete_script", json!({"name": "pump"})).await;
    assert_eq!((of("pump.2"), of("pump.x.")), (0, 1), "those of another name stay");
    assert_eq!(shed.bad("script_output", json!({"name": "pump"})).await["code"], "unknown_script");
    shed.good("delete_script", json!({"name": "first"})).await;
    assert_eq!(of("first."), 0);
}

/// A missing, old or broken Node, and a Python.
#[tokio::test]
async fn what_runs_a_script_is_explained_when_it_cannot() {
    let mut old = Shed::with(With { node: Some("v20.20.2"), ..With::default() }).await;
    old.save("pump", "echo hello").await;
    let error = old.bad("start_script", json!({"name": "pump"})).await;
    assert_eq!(error["code"], "invalid_script");
    assert!(
        error["message"].as_str().unwrap().contains("20.20") && error["fix"].as_str().unwrap().contains("mjs"),
        "{error}"
    );
    assert!(error["fix"].as_str().unwrap().contains("PATH"), "{error}");
    old.good("save_script", json!({"name": "pump", "source": "echo hello", "language": "mjs"})).await;
    old.good("start_script", json!({"name": "pump"})).await;
    old.output("pump", says("hello")).await;

    let mut told = Shed::with(With { node: Some("v22.6.0"), ..With::default() }).await;
    // The shell that plays Node says what it was told.
    program(&told.folder.path().join("bin/node"), "[ \"$1\" = --version ] && { echo v22.6.0; exit; }\necho \"$@\"");
    let output = told.run("pump", "x").await;
    assert_eq!(
        lines(&output),
        [format!("--experimental-strip-types .pump.{}.ts", output["run"].as_str().unwrap())],
        "its text is that of the run"
    );

    for (text, holds) in [("exit 127", "exit code 127"), ("echo v", "no version"), ("kill -11 $$", "signal 11")] {
        let mut broken = Shed::open().await;
        program(&broken.folder.path().join("bin/node"), text);
        broken.save("pump", "x").await;
        let error = broken.bad("start_script", json!({"name": "pump"})).await;
        assert!(error["message"].as_str().unwrap().contains(holds), "{text}: {error}");
        assert!(error["fix"].as_str().unwrap().contains("install Node 23.6"), "{text}: {error}");
        // A package that was asked for is no script, and nothing of it was begun.
        let error = broken.bad("add_package", json!({"spec": "mqtt"})).await;
        assert_eq!((&error["code"], &error["outcome"]), (&json!("install_failed"), &json!("not_run")), "{error}");
        assert!(error["problem"].as_str().unwrap().contains(holds), "{text}: {error}");
        assert!(error["fix"].as_str().unwrap().contains("PATH"), "{text}: {error}");
        assert!(!error.to_string().contains("/bin/node"), "no path of this machine: {error}");
    }

    let mut shed = Shed::open().await;
    shed.good("save_script", json!({"name": "poll", "source": "echo \"$0\"", "language": "py"})).await;
    let started = shed.good("start_script", json!({"name": "poll"})).await;
    assert_eq!(started["by"], "python 3.11");
    let output = shed.output("poll", |output| output["running"] == false).await;
    assert_eq!(lines(&output), [format!(".poll.{}.py", started["run"].as_str().unwrap())]);
}

/// A missing Node is missing, whatever else the machine has.
#[tokio::test]
async fn a_missing_node_is_said_to_be_missing() {
    let mut shed = Shed::with(With { node: None, ..With::default() }).await;
    // The usual places may hold one; this bridge has another PATH.
    let only = shed.folder.path().join("bin");
    let config = ScriptsConfig {
        directory: shed.directory(),
        supervisor: Supervisor::at(env!("CARGO_BIN_EXE_plantbridge").into()),
        inherited: Inherited::of([("PATH".to_owned(), only.display().to_string())].into_iter()),
        place: Whereabouts::default(),
        bridge: "bridge".into(),
        minter: None,
        bounds: Bounds::default(),
    };
    shed.save("pump", "x").await;
    let scripts = Scripts::new(config);
    let name = plantbridge::script::ScriptName::parse("pump").unwrap();
    let ScriptFault::Toolchain { why, fix } = scripts.start(&name).await.unwrap_err() else { panic!("another fault") };
    assert!(why.contains("no `node`") && fix.contains("23.6") && fix.contains("PATH"), "{why} {fix}");
    fs::remove_file(only.join("python3")).unwrap();
    for (manager, holds) in [(Packager::Npm, "no `node`"), (Packager::Pip, "3.8 or later")] {
        let wanted = Wanted { spec: "mqtt".into(), manager, allow_install_scripts: false };
        let stop = tokio_util::sync::CancellationToken::new();
        let fault = scripts.add_package(&wanted, |_| {}, &stop).await.unwrap_err();
        let ScriptFault::Packager { why, fix, .. } = fault else { panic!("{fault}") };
        assert!((why + &fix).contains(holds), "{fix}");
        assert!(fix.contains("PATH"), "{fix}");
    }
}

/// Time, memory, the size of files; a script that ignores the signal.
#[tokio::test]
async fn a_run_that_is_cut_short_says_by_what() {
    let bounds = Bounds { run: Some(Duration::from_millis(300)), ..Bounds::default() };
    let mut shed = Shed::with(With { bounds, ..With::default() }).await;
    let output = shed.run("slow", "while :; do sleep 0.01; done").await;
    assert!(output["ended"]["note"].as_str().unwrap().contains("time was over"), "{output}");

    let mut shed = Shed::open().await;
    let output = shed.run("full", "exec truncate -s 300M full").await;
    assert_eq!(output["ended"]["signal"], 25);
    assert!(output["ended"]["note"].as_str().unwrap().contains("file larger"), "{output}");
    assert!(shed.directory().join("full").metadata().map_or(0, |about| about.len()) <= 256 << 20);

    shed.start("deaf", "trap '' TERM; echo deaf; while :; do sleep 0.01; done").await;
    shed.output("deaf", says("deaf")).await;
    let stopped = shed.good("stop_script", json!({"name": "deaf"})).await;
    assert_eq!(stopped["ended"]["signal"], 9);
    assert!(stopped["ended"]["note"].as_str().unwrap().contains("two seconds"), "{stopped}");
    let output = shed.run("forks", "setsid sleep 1000 & exit 0").await;
    assert!(output["ended"]["note"].as_str().unwrap().contains("left behind"), "{output}");
}

/// A script that keeps its supervisor from doing its work, or kills it, holds up neither `stop_script` nor the end.
#[tokio::test]
async fn a_script_that_turns_on_its_supervisor_is_ended_and_told() {
    let mut shed = Shed::open().await;
    let stops = "trap '' TERM\nuntil rm go 2>/dev/null; do :; done\nkill -STOP $PPID\necho ready\nwhile :; do kill -STOP $PPID; done";
    // Before its supervisor has said that it runs, it would not have been started at all.
    shed.start("stops", stops).await;
    fs::write(shed.directory().join("go"), "").unwrap();
    shed.output("stops", says("ready")).await;
    let stopped = tokio::time::timeout(Duration::from_secs(20), shed.good("stop_script", json!({"name": "stops"})))
        .await
        .unwrap();
    let note = stopped["ended"]["note"].as_str().unwrap();
    assert!(note.starts_with("its supervisor did not end it in time"), "{stopped}");

    shed.start("kills", "until rm go 2>/dev/null; do :; done\nsetsid sleep 1000 &\nkill -9 $PPID\nsleep 1000").await;
    fs::write(shed.directory().join("go"), "").unwrap();
    let kills = shed.output("kills", |output| output["running"] == false).await;
    let note = kills["ended"]["note"].as_str().unwrap();
    assert!(note.starts_with("its supervisor was killed, so it was killed too; "), "{kills}");
    shed.start("stops", stops).await;
    fs::write(shed.directory().join("go"), "").unwrap();
    shed.output("stops", says("ready")).await;
    tokio::time::timeout(Duration::from_secs(20), shed.scripts.stop_all()).await.unwrap();
}

/// npm, played by a shell that says what it was told.
fn npm(shed: &Shed, text: &str) {
    let script = shed.folder.path().join("npm-cli.js");
    program(&script, text);
    let command = shed.folder.path().join("bin/npm");
    let _ = fs::remove_file(&command);
    symlink(script, command).unwrap();
}

#[tokio::test]
async fn packages_are_asked_for_by_argument_and_listed_from_the_files() {
    let mut shed = Shed::open().await;
    assert_eq!(shed.good("list_packages", json!({})).await["packages"], json!([]));
    npm(&shed, "for word; do echo \"<$word>\"; done; pwd; env");
    let added = shed.good("add_package", json!({"spec": "mqtt@^5 || 6"})).await;
    let output = added["output"].as_str().unwrap();
    assert!(output.starts_with("<install>\n<--save>\n"), "{output}");
    assert!(output.contains("<--ignore-scripts>\n<--git=git>\n<--no-global>\n<-->\n<mqtt@^5 || 6>\n"), "{output}");
    assert!(!output.contains("hunter2"), "{output}");
    assert!(output.contains("\n.\n") && !output.contains(shed.directory().to_str().unwrap()), "no path: {output}");
    assert!(shed.directory().join("package.json").exists(), "F-38: the directory is made");
    fs::write(shed.directory().join(".npmrc"), "git=/bin/false\n").unwrap();
    let allowed = shed.good("add_package", json!({"spec": "@a/b", "allowInstallScripts": true})).await;
    assert!(allowed["notes"].to_string().contains("npm obeyed the .npmrc"), "{allowed}");
    assert!(!allowed["output"].as_str().unwrap().contains("--ignore-scripts"), "{allowed}");
    // What is not there is not said to be removed, and nothing is asked to.
    let error = shed.bad("remove_package", json!({"name": "@a/b"})).await;
    assert_eq!((&error["code"], &error["outcome"]), (&json!("bad_argument"), &json!("not_run")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("nothing to remove"), "{error}");
    fs::create_dir_all(shed.directory().join("node_modules/@a/b")).unwrap();
    let removed = shed.good("remove_package", json!({"name": "@a/b"})).await;
    assert!(removed["output"].as_str().unwrap().starts_with("<uninstall>\n<--save>\n"), "{removed}");
    for spec in
        ["https://x/y.tgz", "git+ssh://x", "-g", "--prefix=/tmp", "../up", "file:x", "a/b", "mqtt@file:x", "x;y"]
    {
        let error = shed.bad("add_package", json!({"spec": spec})).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!("/spec")), "{spec}");
    }
    assert_eq!(shed.bad("remove_package", json!({"name": "mqtt@5"})).await["code"], "bad_argument");

    let manifest =
        json!({"type": "module", "dependencies": {"mqtt": "^5.1", "@source-repo/rpc": "^4.0.0", "../x": "1"}});
    fs::write(shed.directory().join("package.json"), manifest.to_string()).unwrap();
    let there = shed.directory().join("node_modules/mqtt");
    fs::create_dir_all(&there).unwrap();
    fs::write(there.join("package.json"), r#"{"version": "5.1.2"}"#).unwrap();
    fs::write(shed.directory().join("requirements.txt"), "# lock\npaho-mqtt==2.1.0\n-r other\n").unwrap();
    fs::create_dir_all(shed.directory().join(".venv/lib/python3.11/site-packages/paho_mqtt-2.1.0.dist-info")).unwrap();
    let listed = shed.good("list_packages", json!({})).await;
    assert_eq!(
        listed["packages"],
        json!([
            {"name": "@source-repo/rpc", "range": "^4.0.0", "installed": null, "manager": "npm"},
            {"name": "mqtt", "range": "^5.1", "installed": "5.1.2", "manager": "npm"},
            {"name": "paho-mqtt", "range": "==2.1.0", "installed": "2.1.0", "manager": "pip"},
        ])
    );
    let notes = listed["notes"].to_string();
    assert!(notes.contains("rpc 4 is declared") && notes.contains("no package"), "{notes}");
}

/// A real Python: what lies in the directory, called like a module that pip and venv import, is not run by them.
#[tokio::test]
async fn pip_runs_nothing_of_the_directory() {
    let mut shed = Shed::open().await;
    let path = std::env::var_os("PATH").unwrap();
    let mut real = std::env::split_paths(&path).map(|path| path.join("python3"));
    let real = real.find(|path| path.is_file()).expect("a Python is on the PATH");
    program(&shed.folder.path().join("bin/python3"), &format!("exec '{}' \"$@\"", real.display()));
    fs::create_dir(shed.directory()).unwrap();
    for module in ["tokenize", "json", "pip", "venv", "ensurepip", "sitecustomize"] {
        let text = format!("import os\nopen({:?}, 'a').write('{module}')\n", shed.directory().join("ran"));
        fs::write(shed.directory().join(format!("{module}.py")), text).unwrap();
    }
    // No registry is asked: the name is refused by pip itself, after all of its modules are read.
    let error = shed.bad("add_package", json!({"spec": "pump~1", "manager": "pip"})).await;
    assert_eq!(error["code"], "install_failed", "{error}");
    assert!(error["problem"].as_str().unwrap().contains("pump~1"), "{error}");
    assert!(shed.directory().join(".venv/bin/python").exists());
    let ran = fs::read_to_string(shed.directory().join("ran"));
    assert!(ran.is_err(), "{ran:?} of the directory ran inside the package manager");
}

/// What installs the others stays, and what is not there is not said to be removed.
#[tokio::test]
async fn pip_does_not_remove_itself() {
    let mut shed = Shed::open().await;
    for name in ["pip", "setuptools", "Wheel"] {
        let error = shed.bad("remove_package", json!({"name": name, "manager": "pip"})).await;
        assert_eq!((&error["code"], &error["argument"]), (&json!("bad_argument"), &json!("/name")), "{error}");
        assert!(error["message"].as_str().unwrap().contains("and stays"), "{error}");
    }
    let error = shed.bad("remove_package", json!({"name": "paho-mqtt", "manager": "pip"})).await;
    assert!(error["message"].as_str().unwrap().contains("nothing to remove"), "{error}");
    assert!(!shed.directory().exists(), "a refusal makes nothing");
    let installed = shed.directory().join(".venv/lib/python3.11/site-packages/paho_mqtt-2.1.0.dist-info");
    fs::create_dir_all(installed).unwrap();
    fs::create_dir_all(shed.directory().join(".venv/bin")).unwrap();
    program(&shed.directory().join(".venv/bin/python"), "echo \"$@\"; pwd");
    let removed = shed.good("remove_package", json!({"name": "paho.MQTT", "manager": "pip"})).await;
    let said = "-I -m pip --disable-pip-version-check --no-input uninstall --yes -- paho.MQTT\n/";
    assert_eq!(removed["output"], said);
}

/// npm that is absent, fails, says too much, and one that is given up.
#[tokio::test]
async fn a_package_manager_that_fails_is_quoted() {
    let mut shed = Shed::open().await;
    npm(&shed, "echo working; echo 'npm error code ENOTFOUND' >&2; exit 7");
    let error = shed.bad("add_package", json!({"spec": "mqtt"})).await;
    assert_eq!((&error["code"], &error["retryable"]), (&json!("install_failed"), &json!(false)));
    assert!(error["message"].as_str().unwrap().contains("exit code 7"), "{error}");
    assert!(error["problem"].as_str().unwrap().contains("ENOTFOUND"), "{error}");
    npm(&shed, "yes");
    let error = shed.bad("add_package", json!({"spec": "mqtt"})).await;
    assert!(error["message"].as_str().unwrap().contains("8 MiB"), "{error}");

    // Cancelled, it is ended with all it began, and the next one is not kept waiting.
    npm(&shed, "echo $$ > pid; echo begun; while :; do sleep 0.01; done");
    shed.client.start("long", "add_package", json!({"spec": "mqtt"})).await;
    let pid = shed.directory().join("pid");
    let begun = async {
        while fs::read_to_string(&pid).unwrap_or_default().trim().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), begun).await.unwrap();
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}});
    shed.client.send(&cancel).await;
    npm(&shed, "echo quick");
    let next = shed.good("add_package", json!({"spec": "mqtt"})).await;
    assert_eq!(next["output"], "quick");
    let process = Path::new("/proc").join(fs::read_to_string(&pid).unwrap().trim());
    let gone = async {
        while fs::read_to_string(process.join("stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
}

/// Under --read-only what changes is not there, and looking is.
#[tokio::test]
async fn a_bridge_that_may_only_look_starts_nothing() {
    let mut shed = Shed::with(With { read_only: true, ..With::default() }).await;
    for (tool, arguments) in [
        ("save_script", json!({"name": "x", "source": ""})),
        ("start_script", json!({"name": "x"})),
        ("stop_script", json!({"name": "x"})),
        ("delete_script", json!({"name": "x"})),
        ("add_package", json!({"spec": "x"})),
        ("remove_package", json!({"name": "x"})),
    ] {
        assert_eq!(shed.bad(tool, arguments).await["code"], "read_only", "{tool}");
    }
    assert_eq!(shed.good("list_scripts", json!({})).await["scripts"], json!([]));
    assert_eq!(shed.good("list_packages", json!({})).await["packages"], json!([]));
    assert!(!shed.directory().exists());
}

/// Neither process nor descriptor nor file is left by many runs; the longer one is a benchmark.
#[tokio::test]
async fn many_runs_leave_nothing() {
    let mut shed = Shed::open().await;
    shed.run("pump", "echo up").await;
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let name = plantbridge::script::ScriptName::parse("pump").unwrap();
    shed.save("pump", "echo up; while :; do sleep 0.01; done").await;
    let before = descriptors();
    for _ in 0..25 {
        let started = shed.scripts.start(&name).await.unwrap();
        shed.scripts.stop(&name).await.unwrap();
        assert!(!Path::new(&format!("/proc/{}", started.pid)).exists());
    }
    assert!(descriptors() <= before + 2, "{before} {}", descriptors());
    assert_eq!(fs::read_dir(shed.directory().join(".runs")).unwrap().count(), 10);
}

/// Without a directory of its own a bridge may still script other nodes, and says what is missing for its own.
#[tokio::test]
async fn without_a_directory_a_node_must_be_named() {
    let plant = crate::harness::nowhere();
    let offer = Offer { scripts: true, ..Offer::default() };
    let mut client = Client::over(plant, tools::all(), &Setup { offer, ..Setup::default() });
    client.initialize("2025-06-18").await;
    let error = bad(&mut client, "list_scripts", json!({})).await;
    assert_eq!(error["code"], "cannot_read");
    assert!(error["fix"].as_str().unwrap().contains("node"), "{error}");
    let error = bad(&mut client, "list_scripts", json!({"node": "far"})).await;
    assert_eq!(error["code"], "network_unavailable");
}
