//! docker/compose.yml and the broker it describes: the file as Docker Compose reads it, and the very configuration, rules and
//! secrets on a real mosquitto. No engine is needed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Account, Bridge, Composed, PLANTBRIDGE, installed, structured};

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Docker Compose on our file, with this environment and none of a `.env`.
fn compose(environment: &[(&str, &str)]) -> Output {
    let none = tempfile::NamedTempFile::new().expect("a scratch file can be made");
    let mut command = Command::new("docker-compose");
    command.env_clear().env("PATH", std::env::var_os("PATH").expect("there is a PATH"));
    command.envs(environment.iter().copied()).arg("--env-file").arg(none.path());
    let output = command.arg("--file").arg(repository("docker/compose.yml")).arg("config").output();
    output.expect("docker-compose is missing: run `cargo xtask test`, which installs it")
}

/// What Compose makes of our file.
fn composed() -> Value {
    let output = compose(&[("PLANTBRIDGE_MCP_TOKEN", "t"), ("PLANTBRIDGE_MQTT_PASSWORD", "p")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))";
    let scratch = tempfile::NamedTempFile::new().expect("a scratch file can be made");
    std::fs::write(scratch.path(), output.stdout).expect("it can be written");
    let file = std::fs::File::open(scratch.path()).expect("it was written");
    let read = Command::new(installed("venv").join("bin/python")).args(["-c", script]).stdin(file).output();
    let read = read.expect("Python starts");
    serde_json::from_slice(&read.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&read.stderr)))
}

fn words(of: &Value) -> Vec<&str> {
    of.as_array().expect("a list").iter().map(|word| word.as_str().expect("a word")).collect()
}

/// Neither has a default, and an empty one is none.
#[test]
fn without_a_token_or_a_password_nothing_starts() {
    let (token, password) = ("PLANTBRIDGE_MCP_TOKEN", "PLANTBRIDGE_MQTT_PASSWORD");
    for (environment, missing) in [
        (&[][..], token),
        (&[(password, "p")], token),
        (&[(token, ""), (password, "p")], token),
        (&[(token, "t")], password),
    ] {
        let output = compose(environment);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(missing) && said.contains("docker/secrets.sh"), "{said}");
    }
}

#[test]
fn both_services_are_shut_in() {
    let file = composed();
    for name in ["broker", "bridge"] {
        let service = &file["services"][name];
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
        assert_eq!(service["security_opt"], json!(["no-new-privileges:true"]), "{name}");
        assert!(service["healthcheck"]["test"].is_array(), "{name}");
        for loose in ["privileged", "cap_add", "network_mode", "pid", "devices", "extra_hosts"] {
            assert!(service[loose].is_null(), "{name}: {loose}");
        }
        for mount in service["volumes"].as_array().expect("volumes") {
            assert!(!mount.to_string().contains("docker.sock"), "{name}: {mount}");
        }
    }
    assert_eq!(file["networks"]["plant"]["internal"], true);
    assert_eq!(file["services"]["bridge"]["healthcheck"]["test"], json!(["CMD", "/plantbridge", "health"]));
    assert_eq!(file["services"]["bridge"]["depends_on"]["broker"]["condition"], "service_healthy");
}

/// The door wants its token and is on this machine alone; nothing is granted; a bridge looks until somebody decides otherwise.
#[test]
fn the_bridge_is_granted_nothing() {
    let file = composed();
    let bridge = &file["services"]["bridge"];
    let command = words(&bridge["command"]);
    for word in ["mcp", "--no-stdio", "--require-token", "--broker=mqtts://broker:8883", "--contracts=/contracts"] {
        assert!(command.contains(&word), "{word}");
    }
    for grant in ["allow", "script", "development", "insecure", "demo"] {
        assert!(!bridge["command"].to_string().contains(grant), "{grant}");
    }
    let environment = bridge["environment"].as_object().expect("variables");
    let names: BTreeSet<&str> = environment.keys().map(String::as_str).collect();
    let known =
        ["PLANTBRIDGE_MCP_TOKEN", "PLANTBRIDGE_MQTT_PASSWORD", "PLANTBRIDGE_MQTT_USERNAME", "PLANTBRIDGE_READ_ONLY"];
    assert_eq!(names, known.into());
    assert_eq!(environment["PLANTBRIDGE_READ_ONLY"], "1");
    for port in words(&bridge["ports"]) {
        assert!(port.starts_with("127.0.0.1:"), "{port}");
    }
}

/// Whoever copies a line out of the documents gets what was released.
#[test]
fn the_documents_name_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(composed()["services"]["bridge"]["image"], format!("plantbridge:{version}"));
    let archive = format!("plantbridge-{version}-x86_64-unknown-linux-musl.tar.gz");
    for document in ["README.md", "docker/README.md"] {
        let text = std::fs::read_to_string(repository(document)).expect("it is in the repository");
        assert!(text.contains(&archive), "{document} names another version than {version}");
    }
}

/// Each account says only what is its own to say: what it says in another's place is refused, and nobody hears it.
#[test]
fn the_broker_lets_each_account_say_only_what_is_its_own() {
    let broker = Composed::start(&["oven-1", "pump-2"]);
    let mut oven = Account::join(&broker, "oven-1");
    let mut bridge = Account::join(&broker, "bridge");
    for (topic, taken) in [
        ("presence/oven-1", true),
        ("rsp/bridge", true),
        ("evt/pump-2", true),
        ("presence/pump-2", false),
        ("presence/bridge", false),
        ("req/pump-2", false),
        ("req/oven-1", false),
        ("rsp/bridge/deeper", false),
        ("tap/oven-1", false),
    ] {
        assert_eq!(oven.says(&format!("msgrpc/v2/{topic}"), "x"), taken, "oven-1: {topic}");
    }
    for topic in ["plant/oven-1", "$SYS/broker/uptime", "msgrpc/v1/rsp/bridge"] {
        assert!(!oven.says(topic, "x"), "{topic}");
    }
    for (topic, taken) in [
        ("req/oven-1", true),
        ("req/pump-2", true),
        ("presence/bridge", true),
        ("rsp/oven-1", true),
        ("presence/oven-1", false),
        ("req/oven-1/deeper", false),
    ] {
        assert_eq!(bridge.says(&format!("msgrpc/v2/{topic}"), "x"), taken, "bridge: {topic}");
    }
}

/// Each account hears what is meant for it and who is there, whatever it subscribes to.
#[test]
fn the_broker_lets_each_account_hear_only_what_is_meant_for_it() {
    let broker = Composed::start(&["oven-1", "pump-2"]);
    let [mut oven, mut pump, mut bridge] = ["oven-1", "pump-2", "bridge"].map(|name| Account::join(&broker, name));
    for account in [&mut oven, &mut pump, &mut bridge] {
        account.hears("#");
    }
    for topic in ["req/oven-1", "req/pump-2", "rsp/oven-1"] {
        assert!(bridge.says(&format!("msgrpc/v2/{topic}"), "from the bridge"), "{topic}");
    }
    for topic in ["rsp/bridge", "evt/bridge", "evt/pump-2"] {
        assert!(oven.says(&format!("msgrpc/v2/{topic}"), "from the oven"), "{topic}");
    }
    // The last that is said, and everybody hears it: what was said before it has arrived where it was going to.
    assert!(pump.says("msgrpc/v2/presence/pump-2", "online"));
    for (account, heard) in [
        (&mut oven, &["req/oven-1", "rsp/oven-1", "presence/pump-2"][..]),
        (&mut pump, &["req/pump-2", "evt/pump-2", "presence/pump-2"]),
        (&mut bridge, &["rsp/bridge", "evt/bridge", "presence/pump-2"]),
    ] {
        let heard: Vec<String> = heard.iter().map(|topic| format!("msgrpc/v2/{topic}")).collect();
        assert_eq!(account.heard_until("msgrpc/v2/presence/pump-2"), heard);
    }
}

/// Without the right password nobody gets in; what the health check uses knows one topic, and says nothing.
#[test]
fn the_broker_lets_in_whoever_has_an_account() {
    let broker = Composed::start(&["oven-1"]);
    assert!(!Account::is_let_in(&broker, None));
    assert!(!Account::is_let_in(&broker, Some(("oven-1", "bridge"))), "with the password of another");
    assert!(!Account::is_let_in(&broker, Some(("pump-2", "oven-1"))), "a name that has no account");
    assert!(Account::is_let_in(&broker, Some(("oven-1", "oven-1"))));

    let mut health = Account::of_health(&broker);
    health.hears("$SYS/broker/uptime");
    assert_eq!(health.heard_until("$SYS/broker/uptime"), ["$SYS/broker/uptime"]);
    for topic in ["$SYS/broker/uptime", "msgrpc/v2/req/oven-1", "x"] {
        assert!(!health.says(topic, "x"), "{topic}");
    }
}

/// What a bridge needs of a broker, by its own examination under its own account: nothing of it is missing.
#[test]
fn the_rules_leave_the_bridge_what_it_needs() {
    let broker = Composed::start(&["oven-1"]);
    let mut doctor = Command::new(PLANTBRIDGE);
    doctor.args(["doctor", "--json", "--name", "bridge", "--broker", &broker.url(), "--ca"]);
    doctor.arg(broker.secret("ca.pem")).env("PLANTBRIDGE_MQTT_USERNAME", "bridge");
    let told = doctor.env("PLANTBRIDGE_MQTT_PASSWORD", broker.password("bridge")).output().expect("the bridge starts");
    let said: Value = serde_json::from_slice(&told.stdout).expect("its findings, as JSON");
    let findings = said["findings"].as_array().expect("a list");
    // Not how fast it is: that is for a machine that does nothing else.
    for check in ["broker.tls", "broker.credentials", "broker.name", "broker.access", "broker.retained"] {
        let found = findings.iter().find(|finding| finding["check"] == check);
        assert_eq!(found.expect("it was looked at")["mark"], "ok", "{said}");
    }
}

/// The bridge as Compose starts it, but for where things are: it joins over TLS under its account, and its rules are enough.
#[test]
fn the_bridge_of_the_file_joins_its_broker() {
    let broker = Composed::start(&["oven-1"]);
    let mut oven = Account::join(&broker, "oven-1");
    assert!(oven.says("msgrpc/v2/presence/oven-1", "online"));
    let ca = format!("--ca={}", broker.secret("ca.pem").display());
    let url = format!("--broker={}", broker.url());
    let contracts = format!("--contracts={}", broker.folder().join("contracts").display());
    let file = composed();
    let placed = words(&file["services"]["bridge"]["command"]).into_iter().skip(1).filter_map(|word| {
        Some(match word.split('=').next()? {
            // The test speaks to it by standard input, on this machine, on any port.
            "--no-stdio" => return None,
            "--port" => "--port=0",
            "--host" => "--host=127.0.0.1",
            "--broker" => &url,
            "--ca" => &ca,
            "--contracts" => &contracts,
            _ => word,
        })
    });
    let password = broker.password("bridge");
    let environment = [
        ("PLANTBRIDGE_MCP_TOKEN", "a-token"),
        ("PLANTBRIDGE_MQTT_USERNAME", "bridge"),
        ("PLANTBRIDGE_MQTT_PASSWORD", password.as_str()),
        ("PLANTBRIDGE_READ_ONLY", "1"),
    ];
    let mut bridge = Bridge::start(&placed.collect::<Vec<_>>(), &environment);
    let peers = bridge.call_once_joined("list_peers", &json!({}));
    assert_eq!(structured(&peers)["peers"], json!(["oven-1"]), "{peers}");
    // It reaches the oven, which is nobody who answers.
    oven.hears("msgrpc/v2/req/oven-1");
    bridge.begin("describe_peer", &json!({"peer": "oven-1"}));
    assert_eq!(oven.heard_until("msgrpc/v2/req/oven-1").last().map(String::as_str), Some("msgrpc/v2/req/oven-1"));
}
