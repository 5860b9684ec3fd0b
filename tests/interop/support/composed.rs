//! The broker of docker/compose.yml: its configuration and rules as they are, with secrets that docker/secrets.sh made, on ports
//! of the test; and accounts at it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::broker::Broker;
use super::foreign::node;
use super::{Child, source};

/// A running broker with its secrets.
pub(crate) struct Composed {
    broker: Broker,
    secrets: tempfile::TempDir,
}

impl Composed {
    /// Makes accounts for these peers beside that of the bridge, and starts it.
    pub(crate) fn start(peers: &[&str]) -> Self {
        let secrets = tempfile::tempdir().expect("a scratch folder can be made");
        let docker = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker");
        // The last of them later, as somebody does who adds a peer.
        for added in [&peers[..peers.len() - 1], peers] {
            let mut script = Command::new(docker.join("secrets.sh"));
            let made = script.env("PLANTBRIDGE_SECRETS", secrets.path()).args(added).output().expect("a shell");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        let text = fs::read_to_string(docker.join("mosquitto/mosquitto.conf")).expect("it is in the repository");
        let (own, rules) = (secrets.path().join("secrets"), docker.join("mosquitto"));
        let configured = |folder: &Path, port: u16, health: u16| {
            let placed = text
                .replace("/run/secrets/", &format!("{}/", own.display()))
                .replace("/mosquitto/config/", &format!("{}/", rules.display()))
                .replace("/mosquitto/data/", &format!("{}/", folder.display()))
                .replace("listener 8883", &format!("listener {port} 127.0.0.1"))
                .replace("listener 1880", &format!("listener {health}"));
            // In its image it is a user of its own from the start.
            placed + "user root\n"
        };
        Self { broker: Broker::configured("mqtts", &configured), secrets }
    }

    /// Where peers reach it.
    pub(crate) fn url(&self) -> String {
        self.broker.url()
    }

    /// The folder the secrets are below.
    pub(crate) fn folder(&self) -> &Path {
        self.secrets.path()
    }

    /// A file that docker/secrets.sh made.
    pub(crate) fn secret(&self, name: &str) -> PathBuf {
        self.secrets.path().join("secrets").join(name)
    }

    /// The password of an account.
    pub(crate) fn password(&self, account: &str) -> String {
        let read = fs::read_to_string(self.secret(&format!("{account}.password")));
        read.expect("the account was made").trim().to_owned()
    }
}

/// `account.mjs`: a connection of one account.
pub(crate) struct Account(Child);

impl Account {
    /// Comes in under this account.
    pub(crate) fn join(broker: &Composed, name: &str) -> Self {
        let (account, is_in) = Self::try_join(broker, Some((name, name)));
        assert!(is_in, "{name} is not let in");
        account
    }

    /// Comes in where the health check does.
    pub(crate) fn of_health(broker: &Composed) -> Self {
        let mut command = node();
        let url = broker.broker.second_url("mqtt");
        command.arg(source("account.mjs")).args(["--url", &url]);
        Self(Child::start("account.mjs", &mut command))
    }

    /// Whether the broker lets a name in with the password of another account.
    pub(crate) fn is_let_in(broker: &Composed, who: Option<(&str, &str)>) -> bool {
        Self::try_join(broker, who).1
    }

    fn try_join(broker: &Composed, who: Option<(&str, &str)>) -> (Self, bool) {
        let mut command = node();
        command.arg(source("account.mjs")).args(["--url", &broker.url(), "--ca"]).arg(broker.secret("ca.pem"));
        if let Some((name, password_of)) = who {
            let file = broker.secret(&format!("{password_of}.password"));
            command.args(["--user", name, "--password-file"]).arg(file);
        }
        let mut child = Child::start("account.mjs", &mut command);
        let is_in = child.wait_for("whether it is in", |line| line["in"].as_bool());
        (Self(child), is_in)
    }

    /// Says something; whether the broker took it.
    pub(crate) fn says(&mut self, topic: &str, text: &str) -> bool {
        self.0.write(&json!({"say": topic, "text": text}).to_string());
        self.0
            .wait_for("answer of the broker", |line| if line["said"] == topic { line["taken"].as_bool() } else { None })
    }

    /// Listens, and returns once the broker knows.
    pub(crate) fn hears(&mut self, filter: &str) {
        self.0.write(&json!({"hear": filter}).to_string());
        self.0.wait_for("subscription", |line| (line["hears"] == filter).then_some(()));
    }

    /// Waits until something is heard on this topic; gives the topics of all that was heard, in order, with it as the last.
    pub(crate) fn heard_until(&mut self, topic: &str) -> Vec<String> {
        let mut heard = Vec::new();
        self.0.wait_for(&format!("message on {topic}"), |line| {
            let on = line["heard"].as_str()?;
            heard.push(on.to_owned());
            (on == topic).then_some(())
        });
        heard
    }
}
