//! Settings from a file, with the real binary: what is wrong with them, what is in force, and what SIGHUP changes while clients are
//! there. And what a service manager is told.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    path::{Path, PathBuf},
    time::Duration,
};

use plantbridge::door::{auth::Keys, http::HttpConfig};
use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::{
    http::{Certificate, HOST, Open, PATIENCE, Process, TYPE, Wire, call, echo, post},
    people::{Ended, ended, plantbridge},
};

/// A folder of files that an operator keeps.
struct Kept(tempfile::TempDir);

impl Kept {
    fn new(files: &[(&str, &str)]) -> Self {
        let kept = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            kept.write(name, text);
        }
        kept
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file that only its owner reads, whole or not at all.
    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let (path, new) = (self.path(name), self.path("new"));
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(new, path).unwrap();
    }

    fn config(&self) -> String {
        self.path("plantbridge.toml").display().to_string()
    }

    /// `plantbridge config`, with the file of this folder.
    async fn asked(&self, what: &str, more: &[&str]) -> Ended {
        let config = self.config();
        let arguments = [&["config", what, "--config", &config], more].concat();
        ended(plantbridge(&arguments).env_remove("PLANTBRIDGE_HUB").env_remove("SOURCE_RPC_HUB")).await
    }

    fn started(&self, more: &[&str], environment: &[(&str, &str)]) -> Process {
        let config = self.config();
        Process::start(&[&["--config", &config], more].concat(), environment)
    }
}

const TOML: &str = "plantbridge.toml";

/// Everything that would keep it from starting is said at once, in the file and beyond it, and nothing is opened.
#[tokio::test]
async fn check_says_all_that_would_keep_it_from_starting() {
    let kept = Kept::new(&[(TOML, "broker = \"mqtt://127.0.0.1:1\"\nport = 0\nprefix = \"plant/x\"\n")]);
    let told = kept.asked("check", &[]).await;
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
    assert!(told.out.starts_with("nothing keeps `plantbridge mcp` from starting"), "{}", told.out);

    kept.write(TOML, "prot = 0\nbroker = \"mqtt://me:hunter2@plant\"\ntimeout = \"soon\"\n");
    let told = kept.asked("check", &[]).await;
    let at = |line: &str| line.strip_prefix(&kept.config()).unwrap().split(": ").next().unwrap().to_owned();
    assert_eq!(
        (told.code, told.out.lines().map(at).collect::<Vec<_>>()),
        (1, vec![":1:1".into(), ":2:10".into(), ":3:11".into()])
    );
    assert!(!told.out.contains("hunter2") && !told.err.contains("hunter2"), "{}", told.out);

    // The door and the network are looked at apart, and what is wrong beyond the file has the place that brought it in.
    kept.write(TOML, "broker = \"mqtts://plant\"\nca = \"missing.pem\"\nport = 0\nmcp_auth = \"missing.json\"\n");
    let told = kept.asked("check", &["--json"]).await;
    let (code, found) = (told.code, told.json());
    let problems: Vec<&str> = found["problems"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!((code, &found["ok"], problems.len()), (1, &json!(false), 2), "{found}");
    assert!(problems[0].starts_with(&format!("{}:4:1: --mcp-auth ", kept.config())), "{found}");
    assert!(problems[1].starts_with(&format!("{}:2:1: ", kept.config())), "{found}");
    assert!(problems[1].contains("missing.pem"), "{found}");

    kept.write(TOML, "scripts = \"programs\"\n");
    let told = kept.asked("check", &["--node"]).await;
    assert!(told.code == 1 && told.out.contains("--scriptable-by"), "{}", told.out);
    let told = kept.asked("check", &["--bogus"]).await;
    assert!(told.code == 1 && told.out.contains("--bogus"), "{}", told.out);
    assert_eq!(ended(&mut plantbridge(&["config", "chek"])).await.code, 2);
}

/// Where each setting came from; and what is printed is a file that says the same.
#[tokio::test]
async fn print_shows_what_is_in_force_and_from_where() {
    let text =
        "hub = \"http://file\"\nname = \"bridge\"\ncontracts = \"contracts\"\ndevelopment = true\nallow_exec = true\n";
    let kept = Kept::new(&[(TOML, text)]);
    let config = kept.config();
    let arguments = ["config", "print", "--config", &config, "--timeout", "5000"];
    let secret = ("PLANTBRIDGE_MQTT_PASSWORD", "hunter2");
    let with = |arguments: &[&str]| {
        let mut command = plantbridge(arguments);
        command.env(secret.0, secret.1).env("PLANTBRIDGE_MQTT_USERNAME", "plant");
        command.env("PLANTBRIDGE_HUB", "http://environment");
        command
    };
    let told = ended(&mut with(&arguments)).await;
    assert_eq!((told.code, told.err.as_str()), (0, ""), "{}", told.out);
    for line in [
        "hub = \"http://environment\" # environment".to_owned(),
        format!("name = \"bridge\" # file {config}:2:1"),
        format!("contracts = \"{}\" # file {config}:3:1", kept.path("contracts").display()),
        "timeout = 5000 # flag".to_owned(),
        "# prefix = \"msgrpc/v2\" # default".to_owned(),
        "# broker: not set".to_owned(),
        "#   allow_exec: fakes run code that their scripts bring along".to_owned(),
        "#   PLANTBRIDGE_MQTT_USERNAME: set".to_owned(),
        "#   PLANTBRIDGE_MCP_TOKEN: not set".to_owned(),
    ] {
        assert!(told.out.lines().any(|printed| printed == line), "{line}\n{}", told.out);
    }
    assert!(!told.out.contains("hunter2"));

    let values = |json: Json| {
        let all = json["settings"].as_array().unwrap().clone();
        all.into_iter().map(|it| (it["key"].clone(), it["value"].clone())).collect::<Vec<_>>()
    };
    let before = ended(&mut with(&[&arguments[..], &["--json"]].concat())).await.json();
    assert_eq!(
        (&before["opens"], &before["secrets"]["PLANTBRIDGE_MQTT_USERNAME"]),
        (&json!(["development", "allow_exec"]), &json!(true))
    );
    kept.write(TOML, &told.out);
    assert_eq!(values(kept.asked("print", &["--json"]).await.json()), values(before));
}

/// A file that is wrong keeps the process from starting, in one line.
#[tokio::test]
async fn a_file_that_is_wrong_is_refused_at_the_start() {
    let kept = Kept::new(&[(TOML, "read_onyl = true\ntoken = \"hunter2\"\n")]);
    for word in ["mcp", "node"] {
        let told = ended(&mut plantbridge(&[word, "--config", &kept.config()])).await;
        let begins = format!("plantbridge: {}:1:1: there is no setting read_onyl", kept.config());
        assert_eq!((told.code, told.err.lines().count()), (1, 1), "{}", told.err);
        assert!(told.err.starts_with(&begins) && !told.err.contains("hunter2"), "{}", told.err);
    }
}

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn ping(key: &str, more: &[&str]) -> Vec<u8> {
    let key = format!("Authorization: Bearer {key}");
    post(&[&[HOST, TYPE, &key], more].concat(), PING)
}

fn clients(named: &[(&str, &str)]) -> String {
    let tokens: serde_json::Map<String, Json> =
        named.iter().map(|(key, name)| ((*key).to_owned(), json!({"name": name}))).collect();
    json!({"tokens": tokens}).to_string()
}

/// Tokens, pages, names and the level of the log are taken; what is not is named; and with one thing wrong nothing is taken.
#[tokio::test]
async fn sighup_takes_what_can_be_taken_or_nothing() {
    let door = "port = 0\nno_stdio = true\nmcp_auth = \"clients.json\"\n";
    let kept = Kept::new(&[(TOML, door), ("clients.json", &clients(&[("key-a", "a"), ("key-b", "b")]))]);
    let mut process = kept.started(&[], &[]);
    let mut wire = process.connect().await;
    let page = ["Origin: https://console.example"];
    assert_eq!(wire.ask(&ping("key-a", &[])).await.status, 200);
    assert_eq!(wire.ask(&ping("key-a", &page)).await.status, 403);

    // A token goes, a page comes, and two things need a restart.
    kept.write("clients.json", clients(&[("key-b", "b")]));
    kept.write(
        TOML,
        format!("{door}allow_origin = [\"https://console.example\"]\ntimeout = 5000\nname = \"bridge\"\n"),
    );
    process.signal(Signal::HUP);
    process.says("these were taken: allow_origin").await;
    let later = process.says("not taken before a restart").await;
    assert!(later.ends_with(": name, timeout"), "{later}");
    assert_eq!(wire.ask(&ping("key-a", &[])).await.status, 401);
    let mut wire = Wire::at(wire.address()).await;
    assert_eq!(wire.ask(&ping("key-b", &page)).await.status, 200);

    // One wrong file, and the other is not taken either; nor is a door without the tokens it has to have.
    kept.write("clients.json", r#"{"tokens": {"hunter2": {"nam": "b"}}}"#);
    kept.write(TOML, door);
    process.signal(Signal::HUP);
    let why = process.says("the settings stay as they are, all of them").await;
    assert!(why.contains("plantbridge.toml:3:1: --mcp-auth") && !why.contains("hunter2"), "{why}");
    assert_eq!(wire.ask(&ping("key-b", &page)).await.status, 200);
    kept.write(TOML, format!("{door}prot = 1\n"));
    process.signal(Signal::HUP);
    process.says("the settings stay as they are, all of them: ").await;
    kept.write(TOML, "port = 0\nno_stdio = true\nrequire_token = true\n");
    process.signal(Signal::HUP);
    process.says("--require-token: there is no token").await;
    assert_eq!(wire.ask(&ping("key-b", &page)).await.status, 200);

    // All is well again; what was pending is not any more, and the log says more from now on.
    kept.write("clients.json", clients(&[("key-c", "c")]));
    kept.write(TOML, format!("{door}log_level = \"debug\"\n"));
    process.signal(Signal::HUP);
    process.says("these were taken: allow_origin, log_level").await;
    let mut wire = Wire::at(wire.address()).await;
    assert_eq!(wire.ask(&ping("key-c", &[])).await.status, 200);
    process.says("a request").await;
    process.terminate();
    assert_eq!(process.code().await, 0);
}

/// The door was opened at an address: rules that would do for another are no rules for it.
#[tokio::test]
async fn a_wide_door_does_not_lose_its_tokens_by_a_narrower_file() {
    let wide = "port = 0\nhost = \"0.0.0.0\"\nno_stdio = true\n";
    let kept = Kept::new(&[(TOML, &format!("{wide}mcp_auth = \"token\"\n")), ("token", "key-a")]);
    let mut process = kept.started(&[], &[]);
    let address = (std::net::Ipv4Addr::LOCALHOST, process.address().await.port()).into();
    kept.write(TOML, "port = 0\nhost = \"127.0.0.1\"\nno_stdio = true\n");
    process.signal(Signal::HUP);
    let why = process.says("the settings stay as they are, all of them").await;
    assert!(why.contains("--host"), "{why}");
    let mut wire = Wire::at(address).await;
    assert_eq!(wire.ask(&post(&[HOST, TYPE], PING)).await.status, 401);
}

/// Without a file of settings the files that flags name are read again; a certificate is shown to whoever comes from then on.
#[tokio::test]
async fn sighup_reads_tokens_and_certificates_without_a_file_of_settings() {
    let (old, new) = (Certificate::made(), Certificate::made());
    let kept = Kept::new(&[("token", "key-a")]);
    let show = |certificate: &Certificate| {
        kept.write("cert.pem", fs::read(&certificate.chain).unwrap());
        kept.write("key.pem", fs::read(&certificate.key).unwrap());
    };
    show(&old);
    let [token, cert, key] = ["token", "cert.pem", "key.pem"].map(|name| kept.path(name).display().to_string());
    let flags = ["--port", "0", "--no-stdio", "--mcp-auth", &token, "--door-cert", &cert, "--door-key", &key];
    let mut process = Process::start(&flags, &[]);
    let address = process.address().await;
    drop(old.connect(address, &[]).await);
    show(&new);
    process.signal(Signal::HUP);
    process.says("the settings were read again").await;
    drop(new.connect(address, &[]).await);
    kept.write("key.pem", fs::read(&old.key).unwrap());
    process.signal(Signal::HUP);
    process.says("the settings stay as they are, all of them: --door-cert").await;
    drop(new.connect(address, &[]).await);
}

/// A client in the middle of a call gets its answer, and is nobody at its next request.
#[tokio::test]
async fn a_token_that_is_gone_ends_with_the_call_that_runs() {
    let mut door = Open::for_named().await;
    let key = "Authorization: Bearer key-a";
    let mut wire = door.connect().await;
    wire.send(&post(&[HOST, TYPE, key], &call(&json!(1), "press", &json!({})))).await;
    assert_eq!(door.switches().begun.recv().await, Some("press"));
    door.rules.set(Open::letting_in(Keys::parse(&clients(&[("key-b", "b")])).unwrap()));
    let mut other = door.connect().await;
    assert_eq!(other.ask(&post(&[HOST, TYPE, key], &echo("x"))).await.status, 401);
    door.switches().release.add_permits(1);
    let told = wire.told().await;
    assert_eq!((told.status, &told.json()["result"]["structuredContent"]["done"]), (200, &json!(true)), "{told:?}");
    assert!(door.switches().told.try_recv().is_err(), "nobody was told that nobody waits");
    assert_eq!(wire.ask(&post(&[HOST, TYPE, key], &echo("x"))).await.status, 401);
    door.closed().await;
}

/// What a client may do is what its token says now, whichever session it had.
#[tokio::test]
async fn a_client_that_may_only_look_from_now_on_only_looks() {
    let door = Open::new(Keys::parse(&clients(&[("key-a", "a")])).unwrap(), HttpConfig::default()).await;
    let changing = post(&[HOST, TYPE, "Authorization: Bearer key-a"], &call(&json!(1), "change_it", &json!({})));
    let mut wire = door.connect().await;
    let refused = |told: Json| told["result"]["structuredContent"]["error"]["code"].clone();
    assert_eq!(refused(wire.ask(&changing).await.json()), Json::Null);
    let looking = r#"{"tokens": {"key-a": {"name": "a", "read_only": true}}}"#;
    door.rules.set(Open::letting_in(Keys::parse(looking).unwrap()));
    assert_eq!(refused(wire.ask(&changing).await.json()), "read_only");
    door.rules.set(Open::letting_in(Keys::parse(&clients(&[("key-a", "a")])).unwrap()));
    assert_eq!(refused(wire.ask(&changing).await.json()), Json::Null);
    door.closed().await;
}

/// What a service manager hears.
struct Manager(UnixDatagram);

impl Manager {
    /// The next message, of at most this many lines.
    fn heard(&self) -> String {
        let mut bytes = [0; 4_096];
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = self.0.recv(&mut bytes).expect("it is told something");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// The next message that is not about how we are or that we live.
    fn news(&self) -> String {
        loop {
            let heard = self.heard();
            if !heard.starts_with("STATUS=") && heard != "WATCHDOG=1" {
                return heard;
            }
        }
    }

    /// Waits until it hears this.
    fn hears(&self, what: &str) {
        while !self.heard().starts_with(what) {}
    }
}

/// Ready when the door is open, alive for as long as it is, and of a reload both ends; over a socket with a path.
#[tokio::test]
async fn a_service_manager_is_told() {
    let kept = Kept::new(&[(TOML, "port = 0\nno_stdio = true\n")]);
    let socket = kept.path("notify");
    let manager = Manager(UnixDatagram::bind(&socket).unwrap());
    let pace = Duration::from_secs(1).as_micros().to_string();
    let environment = [("NOTIFY_SOCKET", socket.to_str().unwrap()), ("WATCHDOG_USEC", &pace)];
    let mut process = kept.started(&[], &environment);
    assert_eq!(manager.heard(), "READY=1");
    drop(process.connect().await);
    manager.hears("STATUS=mqtt is not: ");
    manager.hears("WATCHDOG=1");
    manager.hears("WATCHDOG=1");
    for (text, said) in [("port = 0\nno_stdio = true\nlog_level = \"info\"\n", "were taken"), ("x", "stay as they are")]
    {
        kept.write(TOML, text);
        process.signal(Signal::HUP);
        let news = manager.news();
        let since = news.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_else(|| panic!("{news}"));
        assert!(since.parse::<u64>().unwrap() > 0);
        assert_eq!(manager.news(), "READY=1");
        process.says(said).await;
    }
    process.terminate();
    assert_eq!(manager.news(), "STOPPING=1");
    assert_eq!(process.code().await, 0);
}

/// The same over a socket that is in no file system, and of a node.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_service_manager_is_told_without_a_path() {
    use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
    let kept =
        Kept::new(&[(TOML, "broker = \"mqtt://127.0.0.1:1\"\nscripts = \"programs\"\nscriptable_by = [\"bench\"]\n")]);
    let name = format!("plantbridge-{}", uuid::Uuid::new_v4());
    let manager = Manager(UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap());
    let mut node = plantbridge(&["node", "--config", &kept.config()]);
    node.env("NOTIFY_SOCKET", format!("@{name}")).stderr(std::process::Stdio::null());
    let mut node = node.spawn().unwrap();
    assert_eq!(manager.heard(), "READY=1");
    let pid = rustix::process::Pid::from_raw(node.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    assert!(manager.news().starts_with("RELOADING=1\n"));
    assert_eq!(manager.news(), "READY=1");
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(manager.news(), "STOPPING=1");
    assert!(tokio::time::timeout(PATIENCE, node.wait()).await.unwrap().unwrap().success());
}

/// The example that stands beside the unit is a file that is accepted, and the unit starts us with it.
#[tokio::test]
async fn the_example_of_the_unit_is_accepted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    let kept = Kept::new(&[(TOML, &fs::read_to_string(folder.join(TOML)).unwrap()), ("mcp-tokens", "key-a")]);
    let tokens = kept.path("mcp-tokens").display().to_string();
    let told = kept.asked("check", &["--mcp-auth", &tokens]).await;
    assert_eq!(told.code, 0, "{}", told.out);
    let unit = fs::read_to_string(folder.join("plantbridge.service")).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert_eq!(start, "/usr/bin/plantbridge mcp --config /etc/plantbridge/plantbridge.toml --mcp-auth %d/mcp-tokens");
}
