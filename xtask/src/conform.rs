//! `cargo xtask conform`: the official MCP conformance suite, against a server that is our door, guards and registry with
//! the tools the suite asks for (`tests/conformance`), and, where it asks for none, against the binary itself.
//!
//! `tests/conformance/expected.txt` names each check that fails, with the reason. A check that fails and is not named there
//! fails the run, and so does one that is named and passes; a warning counts as a failure.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::command::run;
use crate::install;

/// What a revision requires, against the server of the suite.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Scenarios that need nothing of their own to be there, against the binary.
const OF_THE_BINARY: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &["server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection"],
    ),
    (
        "2026-07-28",
        &[
            "server-stateless",
            "tools-list",
            "resources-list",
            "prompts-list",
            "caching",
            "sep-2164-resource-not-found",
            "server-sse-multiple-streams",
            "dns-rebinding-protection",
            "http-header-validation",
            "input-required-result-unsupported-methods",
        ],
    ),
];

/// Runs everything and judges it.
pub(crate) fn all() -> Result<(), String> {
    let node = install::node_tree()?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(install::repository());
    run(cargo.args([
        "build",
        "--locked",
        "--features",
        "interop",
        "--bin",
        "plantbridge",
        "--example",
        "conformance",
    ]))?;
    let built = install::target()?.join("debug");
    let results = install::target()?.join("conformance");
    let suite = Suite { node: node.program, script: node.tree.join(SUITE), results };
    let mut checks = BTreeSet::new();
    {
        let server = Server::start(&mut Command::new(built.join("examples/conformance")), From::Output)?;
        for revision in REVISIONS {
            checks.append(&mut suite.run("fixture", revision, &server.url, &["--requirements", revision])?);
        }
    }
    let mut binary = Command::new(built.join("plantbridge"));
    binary.args(["mcp", "--broker", "mqtt://127.0.0.1:1", "--port", "0"]);
    let server = Server::start(&mut binary, From::Log)?;
    for (revision, scenarios) in OF_THE_BINARY {
        for scenario in scenarios {
            let words = ["--scenario", scenario, "--spec-version", revision];
            checks.append(&mut suite.run("binary", revision, &server.url, &words)?);
        }
    }
    let expected = install::repository().join("tests/conformance/expected.txt");
    let expected = fs::read_to_string(&expected).map_err(|error| format!("{}: {error}", expected.display()))?;
    judge(&checks, &expected)
}

/// Where the suite is in the Node tree.
const SUITE: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// One check of one run. Ids repeat: the worst of them counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Check {
    /// `server revision scenario id`.
    name: String,
    passed: bool,
    /// What the suite says of it.
    said: String,
}

struct Suite {
    node: PathBuf,
    script: PathBuf,
    results: PathBuf,
}

impl Suite {
    /// Runs the suite and reads what came of it. Its own verdict knows no reasons, so its exit code is not asked.
    fn run(&self, server: &str, revision: &str, url: &str, words: &[&str]) -> Result<BTreeSet<Check>, String> {
        let _ = fs::remove_dir_all(&self.results);
        let mut command = Command::new(&self.node);
        command.arg(&self.script).args(["server", "--url", url]).args(words).arg("--output-dir").arg(&self.results);
        let output = command.output().map_err(|error| format!("{}: {error}", self.node.display()))?;
        let mut checks = BTreeSet::new();
        let folders = fs::read_dir(&self.results)
            .map_err(|_| format!("the suite left no results: {}", String::from_utf8_lossy(&output.stderr)))?;
        for folder in folders.filter_map(Result::ok) {
            let scenario = scenario(&folder.file_name().to_string_lossy())?;
            let file = folder.path().join("checks.json");
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            checks.extend(read(&format!("{server} {revision} {scenario}"), &text)?);
        }
        let failed = checks.iter().filter(|check| !check.passed).count();
        println!("{server} {revision} {}: {} checks, {failed} failed", words.join(" "), checks.len());
        if checks.is_empty() { Err(format!("{server} {revision}: the suite checked nothing")) } else { Ok(checks) }
    }
}

/// The scenario of a folder of results, `server-<scenario>-<time>`.
fn scenario(folder: &str) -> Result<String, String> {
    let scenario = folder.strip_prefix("server-").and_then(|rest| rest.get(..rest.len().checked_sub(TIME)?));
    scenario.map(str::to_owned).ok_or_else(|| format!("{folder} is no folder of results"))
}

/// `-2026-11-30T16-05-41-845Z`.
const TIME: usize = 25;

/// The checks of one scenario.
fn read(name: &str, text: &str) -> Result<Vec<Check>, String> {
    let all: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|error| format!("{name}: {error}"))?;
    let checks = all.iter().map(|check| {
        let member = |member: &str| check[member].as_str().unwrap_or_default();
        let passed = !matches!(member("status"), "FAILURE" | "WARNING");
        let said = member("errorMessage").lines().next().unwrap_or_default();
        Check { name: format!("{name} {}", member("id")), passed, said: said.chars().take(200).collect() }
    });
    Ok(checks.collect())
}

/// What was not expected, in one text. A line of `expected` is `server revision scenario check: reason`, where `*` is every
/// check of a scenario.
fn judge(checks: &BTreeSet<Check>, expected: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut lines = Vec::new();
    for line in expected.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once(": ") {
            Some((name, reason)) if !reason.trim().is_empty() => lines.push(name),
            _ => wrong.push(format!("a line without a reason: {line}")),
        }
    }
    let covers = |line: &str, check: &Check| match line.strip_suffix('*') {
        Some(scenario) => check.name.starts_with(scenario),
        None => check.name == line,
    };
    let failed = || checks.iter().filter(|check| !check.passed);
    for check in failed().filter(|check| !lines.iter().any(|line| covers(line, check))) {
        wrong.push(format!("failed: {}: {}", check.name, check.said));
    }
    for line in lines.iter().filter(|line| !failed().any(|check| covers(line, check))) {
        wrong.push(format!("passed, or was not run, though it is expected to fail: {line}"));
    }
    if wrong.is_empty() {
        println!("conformance: as expected, {} known failures", failed().count());
        return Ok(());
    }
    Err(format!("conformance:\n  {}", wrong.join("\n  ")))
}

/// Where a server says its address.
#[derive(Clone, Copy, PartialEq)]
enum From {
    Output,
    Log,
}

/// A server under test; it ends with its standard input, or is killed.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(command: &mut Command, from: From) -> Result<Self, String> {
        let name = Path::new(command.get_program()).display().to_string();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if from == From::Log { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let lines: Option<Box<dyn BufRead + Send>> = match from {
            From::Output => child.stdout.take().map(|out| Box::new(BufReader::new(out)) as _),
            From::Log => child.stderr.take().map(|log| Box::new(BufReader::new(log)) as _),
        };
        let mut server = Self { child, url: String::new() };
        let mut lines = lines.ok_or("no pipe")?.lines();
        let found = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            Some(format!("http://{}", rest.split_whitespace().next()?))
        });
        server.url = found.ok_or_else(|| format!("{name} never said where it is"))?;
        // What else it says is read, or it would wait for somebody to read it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, passed: bool) -> Check {
        Check { name: name.into(), passed, said: "why".into() }
    }

    #[test]
    fn a_surprise_fails_whichever_it_is() {
        let checks = BTreeSet::from([check("f r one a", false), check("f r one b", true), check("f r two c", false)]);
        assert_eq!(judge(&checks, "# known\nf r one a: it has no session\nf r two *: likewise\n"), Ok(()));
        for (expected, why) in [
            ("f r one a: because\n", "failed: f r two c"),
            ("f r one a: because\nf r two c: because\nf r one b: because\n", "passed, or was not run"),
            ("f r one a: because\nf r two c: because\nf r three *: because\n", "passed, or was not run"),
            ("f r one a\nf r two c: because\n", "without a reason"),
        ] {
            let told = judge(&checks, expected).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn results_are_read() {
        assert_eq!(
            scenario("server-json-schema-2020-12-2026-11-30T16-05-41-845Z").as_deref(),
            Ok("json-schema-2020-12")
        );
        assert!(scenario("server-x").is_err() && scenario("else").is_err());
        let text = r#"[{"id": "a", "status": "SUCCESS"}, {"id": "b", "status": "WARNING", "errorMessage": "x\ny"},
            {"id": "a", "status": "FAILURE"}]"#;
        let read = read("f r s", text).unwrap();
        assert_eq!(read.iter().map(|check| check.passed).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!((read[1].name.as_str(), read[1].said.as_str()), ("f r s b", "x"));
    }
}
