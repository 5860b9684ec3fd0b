//! Files that are wrong, in every way we know of; which layer is stronger; and that what is printed can be read again.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory};
use proptest::prelude::*;

use super::{
    keys::{self, Key, NO_SETTINGS, Value},
    secret,
    settings::{Origin, Settings},
    shown, whole,
};
use crate::cli::{
    Cli,
    args::{self, Parsed},
    environment::Environment,
};

/// A folder with one file of settings in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(text: impl AsRef<[u8]>) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::write(folder.file(), text).unwrap();
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("plantbridge.toml")
    }

    /// What is typed to have it read, and these flags besides.
    fn typed(&self, word: &str, flags: &[&str]) -> Vec<OsString> {
        let own = ["plantbridge", word, "--config"].map(OsString::from);
        own.into_iter().chain([self.file().into()]).chain(flags.iter().map(OsString::from)).collect()
    }

    /// What is wrong with it, without the name of the folder.
    fn problems(&self, word: &str) -> Vec<String> {
        let refused = whole(&self.typed(word, &[]), None).expect_err("it is refused");
        refused.iter().map(|problem| self.bare(problem)).collect()
    }

    fn bare(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }

    /// The settings in force.
    fn settings(&self, flags: &[&str], environment: &Environment) -> Settings {
        let line = whole(&self.typed("mcp", flags), Some(environment)).unwrap();
        match args::parse(&line.arguments) {
            Parsed::Run(_) => Settings::of(&line, environment),
            Parsed::Wrong(why, _) => panic!("{}", line.blame(why)),
            Parsed::Say(said) => panic!("{said}"),
        }
    }
}

fn mcp() -> Command {
    Cli::command().find_subcommand("mcp").unwrap().clone()
}

/// A new flag is a setting at once, or says why it is none; and none is of a secret.
#[test]
fn every_flag_is_a_setting_or_says_why_not() {
    let mut excused = BTreeSet::new();
    for word in ["mcp", "node"] {
        let command = Cli::command().find_subcommand(word).unwrap().clone();
        let settable = keys::of(&command);
        for flag in command.get_arguments() {
            let long = flag.get_long().unwrap_or_else(|| panic!("{} has no name", flag.get_id()));
            let is_excused = NO_SETTINGS.iter().any(|(name, _)| *name == long);
            assert_ne!(settable.iter().any(|key| key.long == long), is_excused, "--{long} of {word}");
            excused.extend(is_excused.then(|| long.to_owned()));
        }
        let secrets: Vec<_> = settable.iter().filter(|key| secret::of_key(&key.name).is_some()).collect();
        assert!(secrets.iter().all(|key| key.name == "require_token"), "a flag takes a secret: {secrets:?}");
    }
    assert_eq!(excused, NO_SETTINGS.map(|(name, _)| name.to_owned()).into(), "an excuse that nothing needs");
}

/// Each says where it is, what is wrong and, where there is something, what was meant.
#[test]
fn what_is_wrong_with_a_file_is_said_with_its_place() {
    let cases = [
        ("port = 1\nread_onyl = true\n", "2:1: there is no setting read_onyl; did you mean read_only?"),
        ("read-only = true", "1:1: there is no setting read-only; did you mean read_only?"),
        (
            "zzzzzzzz = 1",
            "1:1: there is no setting zzzzzzzz; `plantbridge mcp --help` lists the flags; a key is one, with _ for -",
        ),
        ("port = \"8080\"", "1:8: port: expected a whole number, and there is a text"),
        ("timeout = 1.5", "1:11: timeout: expected a whole number, and there is a number with a point"),
        ("read_only = 1", "1:13: read_only: expected true or false, and there is a whole number"),
        ("  name = [\"a\"]", "1:10: name: expected a text in quotes, and there is a list"),
        ("ca = true", "1:6: ca: expected a path in quotes, and there is true or false"),
        ("name = 2024-01-01", "1:8: name: expected a text in quotes, and there is a date or a time"),
        (
            "allow_origin = \"https://a\"",
            "1:16: allow_origin: expected a list of texts, as [\"a\", \"b\"], and there is a text",
        ),
        (
            "allow_origin = [\"https://a\", 7]",
            "1:30: allow_origin: expected a list of texts, as [\"a\", \"b\"], and there is a whole number",
        ),
        ("port = 1\n\nport = 2", "3:1: port stands twice"),
        ("port = 70000", "1:8: port: 70000 is not in 0..=65535"),
        ("timeout = 0", "1:11: timeout: 0 is not in 1..=600000"),
        ("timeout = 99999999999999999999", "1:11: timeout: it is too large"),
        ("# ü\nhost = \"plant\"", "2:8: host: expected an address of this machine, such as 127.0.0.1, ::1 or 0.0.0.0"),
        (
            "log_level = \"loud\"",
            "1:13: log_level: invalid value 'loud' for '--log-level <LEVEL>' [possible values: error, warn, info, debug, trace]",
        ),
        ("name = \"\"", "1:8: name: it is empty; leave the line out"),
        ("ca = \"a\\u0000b\"", "1:6: ca: there is a NUL in it"),
        ("[door]\nport = 1", "1:2: door: there are no tables here; every setting stands at the top"),
        ("config = \"x.toml\"", "1:1: config cannot be set in a file: a file of settings names no other"),
        ("tools = true", "1:1: tools cannot be set in a file: it prints a table and ends"),
    ];
    for (text, wanted) in cases {
        let folder = Folder::with(text);
        assert_eq!(folder.problems("mcp"), [format!("plantbridge.toml:{wanted}")], "{text}");
    }
    let folder = Folder::with("port = 1");
    let wanted = "plantbridge.toml:1:1: port is a setting of `plantbridge mcp` and not of `plantbridge node`";
    assert_eq!(folder.problems("node"), [wanted]);
}

/// What is no TOML is told with its place and without the line, which may hold anything.
#[test]
fn what_is_no_toml_is_not_quoted() {
    for text in [
        "name = hunter2",
        "name = \"hunter2",
        "name 'hunter2'",
        "port = 1 hunter2",
        "= 'hunter2'",
        "name = \"hunter2\\q\"",
    ] {
        let folder = Folder::with(text);
        let problems = folder.problems("mcp");
        assert!(problems[0].starts_with("plantbridge.toml:1:"), "{problems:?}");
        assert!(!problems.iter().any(|problem| problem.contains("hunter2")), "{problems:?}");
    }
}

/// A secret is refused, is told where it belongs, and is never repeated.
#[test]
fn a_secret_in_a_file_is_refused_and_not_repeated() {
    let cases = [
        ("mqtt_password = \"hunter2\"", "PLANTBRIDGE_MQTT_PASSWORD"),
        ("password = \"hunter2\"", "PLANTBRIDGE_MQTT_PASSWORD"),
        ("username = \"hunter2\"", "PLANTBRIDGE_MQTT_USERNAME"),
        ("token = \"hunter2\"", "`auth`"),
        ("hub_token = \"hunter2\"", "PLANTBRIDGE_TOKEN"),
        ("mcp_token = \"hunter2\"", "`mcp_auth`"),
        ("PLANTBRIDGE_MCP_TOKEN = \"hunter2\"", "`mcp_auth`"),
        ("signing_secret = \"hunter2\"", "keygen"),
        ("derive = \"hunter2\"", "`auth`"),
        ("[mqtt]\naccount = {password = \"hunter2\"}", "PLANTBRIDGE_MQTT_PASSWORD"),
        ("broker = \"mqtt://plant:hunter2@broker\"", "PLANTBRIDGE_MQTT_PASSWORD"),
        ("hub = \"https://hunter2@hub\"", "`auth`"),
        ("allow_origin = [\"https://user:hunter2@page\"]", "no password"),
    ];
    for (text, wanted) in cases {
        let problems = Folder::with(text).problems("mcp");
        let [problem] = problems.as_slice() else { panic!("{text}: {problems:?}") };
        assert!(problem.contains(wanted) && problem.starts_with("plantbridge.toml:1:"), "{problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

/// All that is wrong with a file is told at once, in its order.
#[test]
fn everything_is_found_at_once() {
    let folder =
        Folder::with("port = 70000\nnaem = \"x\"\ntoken = \"x\"\nname = 7\nread_only = true\nread_only = true\n");
    let problems = folder.problems("mcp");
    let lines: Vec<&str> = problems.iter().map(|problem| problem.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["1", "2", "3", "4", "6"], "{problems:?}");
    let told = super::in_one_line(&problems);
    assert!(told.contains("(and 4 more; `plantbridge config check`") && !told.contains('\n'), "{told}");
}

/// What is no file of settings at all.
#[test]
fn what_cannot_be_read_is_refused() {
    let told = |folder: &Folder| {
        let problems = folder.problems("mcp");
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].strip_prefix("--config plantbridge.toml: ").expect(&problems[0]).to_owned()
    };
    assert_eq!(told(&Folder::with(b"\n# \xff\n")), "it is not UTF-8, from line 2 on");
    assert_eq!(told(&Folder::with(" ".repeat(256 * 1024 + 1))), "it is over 262144 bytes");
    assert!(whole(&Folder::with(" ".repeat(256 * 1024)).typed("mcp", &[]), None).is_ok());
    let nowhere = Folder::with("");
    fs::remove_file(nowhere.file()).unwrap();
    assert_eq!(told(&nowhere), "there is no such file");
    fs::create_dir(nowhere.file()).unwrap();
    assert!(told(&nowhere).contains("plain file"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let open = Folder::with("read_only = true");
        fs::set_permissions(open.file(), fs::Permissions::from_mode(0o646)).unwrap();
        assert!(told(&open).starts_with("everybody on this machine can change it"));
        fs::set_permissions(open.file(), fs::Permissions::from_mode(0o664)).unwrap();
        assert!(whole(&open.typed("mcp", &[]), None).is_ok());
    }
}

/// Two values that a setting takes, as a file writes them and as the command line does.
fn samples(key: &Key) -> [(String, String); 2] {
    const TEXTS: [&str; 10] = ["one", "two", "127.0.0.1", "::1", "warn", "debug", "text", "json", ONES, TWOS];
    const ONES: &str = "1111111111111111111111111111111111111111111111111111111111111111";
    const TWOS: &str = "2222222222222222222222222222222222222222222222222222222222222222";
    let typed: Vec<&str> = match key.value {
        Value::Switch => return [("true".into(), "true".into()), ("true".into(), "true".into())],
        Value::Number => vec!["100", "200"],
        Value::Path => vec!["/one", "/two"],
        Value::Text => TEXTS.to_vec(),
    };
    let taken = |value: &&str| {
        let flag = format!("--{}={value}", key.long);
        keys::without_rules(&mcp()).try_get_matches_from([flag]).is_ok()
    };
    let mut taken = typed.into_iter().filter(taken).map(|value| {
        let quoted = if key.value == Value::Number { value.to_owned() } else { format!("\"{value}\"") };
        (if key.many { format!("[{quoted}]") } else { quoted }, value.to_owned())
    });
    [taken.next(), taken.next()].map(|sample| sample.unwrap_or_else(|| panic!("no two samples of {}", key.name)))
}

/// A flag is stronger than the file, and the file than a default: every one of them.
#[test]
fn every_flag_is_stronger_than_the_file_and_the_file_than_a_default() {
    let command = mcp();
    let keys = keys::of(&command);
    assert!(keys.len() > 25, "{} settings", keys.len());
    for key in keys {
        let [(filed, of_file), (_, of_flag)] = samples(&key);
        let folder = Folder::with(format!("{} = {filed}\n", key.name));
        let in_force = |flags: &[&str]| {
            let line = whole(&folder.typed("mcp", flags), Some(&Environment::default())).unwrap();
            let read = keys::without_rules(&command).try_get_matches_from(&line.arguments[2..]).unwrap();
            match key.value {
                Value::Switch => vec![read.get_flag(&key.id).to_string()],
                _ => read.get_raw(&key.id).unwrap().map(|value| value.to_str().unwrap().to_owned()).collect(),
            }
        };
        // What is in the environment of the tests themselves is stronger than the file.
        if key.name != "log_level" || std::env::var_os("RUST_LOG").is_none() {
            assert_eq!(in_force(&[]), [of_file], "{}", key.name);
        }
        let flag =
            if key.value == Value::Switch { format!("--{}", key.long) } else { format!("--{}={of_flag}", key.long) };
        assert_eq!(in_force(&[&flag]), [of_flag], "{}", key.name);
    }
}

/// The environment stands between them; and where we are is one setting of two flags.
#[test]
fn the_environment_is_stronger_than_the_file_and_weaker_than_a_flag() {
    let folder = Folder::with("broker = \"mqtt://file\"\nhub = \"http://file\"\nread_only = false\n");
    let empty = Environment::default();
    let environment =
        Environment { broker: Some("mqtt://environment".into()), read_only: true, ..Environment::default() };
    let is = |settings: &Settings, name: &str| {
        let setting = settings.get(name).unwrap();
        let value = setting.values.first().map_or("", |value| value.to_str().unwrap()).to_owned();
        let origin = setting.origin.to_string();
        (value, origin.split(' ').next().unwrap().to_owned())
    };
    let told = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());

    let filed = folder.settings(&[], &empty);
    assert_eq!(is(&filed, "broker"), told("mqtt://file", "file"));
    assert_eq!(is(&filed, "hub"), told("http://file", "file"));
    assert_eq!(is(&filed, "read_only"), told("", "default"));

    let environed = folder.settings(&[], &environment);
    assert_eq!(is(&environed, "broker"), told("mqtt://environment", "environment"));
    assert_eq!(is(&environed, "hub"), told("", "default"), "the hub of the file was of another place");
    assert_eq!(is(&environed, "read_only"), told("true", "environment"), "a guard is not taken off by a file");

    let flagged = folder.settings(&["--hub", "http://flag"], &environment);
    assert_eq!(is(&flagged, "hub"), told("http://flag", "flag"));
    assert_eq!(is(&flagged, "broker"), told("", "default"));
}

/// One parser holds the rules, whichever side of one stands where; and it is said where that is.
#[test]
fn rules_hold_between_a_flag_and_a_file() {
    let refused = |text: &str, flags: &[&str]| {
        let folder = Folder::with(text);
        let line = whole(&folder.typed("mcp", flags), None).unwrap();
        match args::parse(&line.arguments) {
            Parsed::Wrong(why, _) => Some(folder.bare(&line.blame(why))),
            _ => None,
        }
    };
    assert_eq!(refused("port = 0", &["--no-stdio"]), None);
    assert_eq!(refused("no_stdio = true", &["--port", "0"]), None);
    assert_eq!(refused("allow_exec = true\nread_only = false", &["--development"]), None);
    let told = refused("name = \"x\"\nno_stdio = true", &[]).unwrap();
    assert!(told.starts_with("plantbridge.toml:2:1: ") && told.contains("--port"), "{told}");
    let told = refused("development = true\nallow_exec = true", &["--read-only"]).unwrap();
    assert!(told.starts_with("plantbridge.toml:2:1: ") && told.contains("cannot be used with"), "{told}");
    let told = refused("read_only = true", &["--bogus"]).unwrap();
    assert!(told.starts_with("unexpected argument '--bogus'"), "{told}");
}

/// A path is meant from where the file is; a flag's, as ever, from where the process was started.
#[test]
fn paths_are_relative_to_the_file() {
    let folder = Folder::with("contracts = \"contracts\"\nca = \"/etc/ca.pem\"\n");
    let settings = folder.settings(&["--broker", "mqtts://plant"], &Environment::default());
    let path = |name: &str| Path::new(&settings.get(name).unwrap().values[0]).to_owned();
    assert_eq!(path("contracts"), folder.0.path().join("contracts"));
    assert_eq!(path("ca"), Path::new("/etc/ca.pem"));
    assert!(matches!(settings.get("ca").unwrap().origin, Origin::File(_)));
}

/// What opens something is told above everything else, and a secret nowhere.
#[test]
fn what_opens_something_is_told_plainly() {
    let folder = Folder::with("development = true\nallow_exec = true\nscripts = \"programs\"\n");
    let printed = shown::as_toml(&folder.settings(&[], &Environment::default()), "mcp", &[("PLANTBRIDGE_TOKEN", true)]);
    let (head, rest) = printed.split_once("\n\n").unwrap();
    assert!(head.contains("# WHAT IS SWITCHED ON:"), "{head}");
    for name in ["development", "allow_exec", "scripts"] {
        assert!(head.contains(&format!("#   {name}: ")) && rest.contains(&format!("\n{name} = ")), "{printed}");
    }
    assert!(!head.contains("insecure_tls") && rest.contains("# insecure_tls = false # default"), "{printed}");
    assert!(rest.ends_with("#   PLANTBRIDGE_TOKEN: set"), "{printed}");
    let folder = Folder::with("");
    let printed = folder.settings(&["--broker", "mqtt://plant:hunter2@broker"], &Environment::default());
    assert!(!shown::as_toml(&printed, "mcp", &[]).contains("hunter2"));
}

fn text() -> impl Strategy<Value = String> {
    let written = |text: &String| !text.is_empty() && !text.contains('\0') && secret::of_url(text).is_none();
    any::<String>().prop_filter("it can be written", written)
}

proptest! {
    /// What is printed is a file of settings that says the same.
    #[test]
    fn what_is_printed_can_be_read_again(
        name in proptest::option::of(text()),
        prefix in proptest::option::of(text()),
        contracts in proptest::option::of(text()),
        origins in proptest::collection::vec(text(), 0..3),
        timeout in proptest::option::of(1_u32..=600_000),
        port in any::<u16>(),
        read_only in any::<bool>(),
        hub in proptest::option::of(text()),
    ) {
        let mut flags = vec![format!("--port={port}")];
        let valued = [("name", name), ("prefix", prefix), ("contracts", contracts), ("timeout", timeout.map(|ms| ms.to_string()))];
        flags.extend(valued.into_iter().filter_map(|(flag, value)| Some(format!("--{flag}={}", value?))));
        flags.extend(origins.iter().map(|origin| format!("--allow-origin={origin}")));
        flags.extend(read_only.then(|| "--read-only".to_owned()));
        let environment = Environment { hub, ..Environment::default() };
        let typed: Vec<&str> = flags.iter().map(String::as_str).collect();
        let before = Folder::with("").settings(&typed, &environment);
        let again = Folder::with(shown::as_toml(&before, "mcp", &[])).settings(&[], &Environment::default());
        prop_assert_eq!(before.differ(&again), Vec::<&str>::new());
        prop_assert_eq!(before.0.len(), again.0.len());
    }
}
