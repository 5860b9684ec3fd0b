//! The book: every command that README.md and docs/ show is run, in order, in a scratch folder a page.
//!
//! * `sh`: the block runs as it stands and must end with 0. What is exported stays until the page ends.
//! * `console`: what stands behind `$ ` (and `> ` where it goes on) is run; standard output and standard error together must be
//!   what is shown, where `…` is anything. A command must end with 0, unless the next one is `echo $?`.
//! * `json` with `mcpServers` or `servers`: each server is started as its client would start it, or reached, and asked who is
//!   there.
//! * `json call TOOL`: the arguments of a call, whose result the next block, `json answer`, shows.
//! * `text`, `mermaid`: nothing to run. Any other block is a file, or shown for a reason that [`SHOWN`] lists.
//!
//! The marks are told in `page.rs`. Addresses on a page are examples: they become those of what the page itself has started, and
//! before it has, those of a bakery that the test starts. See [`Places`].

mod page;
mod places;
mod shell;
mod shown;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use self::page::{Block, Mark, blocks};
use self::places::Places;
use self::shell::Shell;
use self::shown::{Names, is_shown};
use crate::support::{Bridge, PLANTBRIDGE, structured};

/// Every block that is shown and not run: its page and its first line. One that is run by now must leave the list.
const SHOWN: [(&str, &str); 8] = [
    ("README.md", "cargo run --release -- demo --once"),
    ("README.md", "cargo xtask test"),
    ("README.md", "sha256sum --check SHA256SUMS"),
    (
        "docs/clients.md",
        "claude mcp add plantbridge -- /usr/local/bin/plantbridge mcp --broker mqtt://broker.plant.example:1883 --read-only",
    ),
    ("docs/deploying.md", "docker build --file docker/Dockerfile --build-arg VERSION=0.1.0 --tag plantbridge:0.1.0 ."),
    ("docs/deploying.md", "install -m 0755 plantbridge /usr/bin/plantbridge"),
    ("docs/security.md", "{"),
    ("docs/start.md", "cargo install --path ."),
];

/// One test a page, and the list of them.
macro_rules! pages {
    ($($name:ident $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $name() {
                Reader::new($page).read();
            }
        )*
    };
}

pages! {
    readme "README.md",
    contents "docs/README.md",
    clients "docs/clients.md",
    commands "docs/commands.md",
    deploying "docs/deploying.md",
    interoperability "docs/interoperability.md",
    security "docs/security.md",
    shell_verbs "docs/shell.md",
    start "docs/start.md",
    tools "docs/tools.md",
    troubleshooting "docs/troubleshooting.md",
    using "docs/using.md",
}

/// No page is left out, and nothing is skipped in silence.
#[test]
fn every_page_is_read_and_every_block_is_run_or_listed() {
    let docs = fs::read_dir(at("docs")).expect("there is a book").map(|entry| entry.expect("it can be read").path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let found = pages.map(|path| format!("docs/{}", path.file_name().expect("a file has a name").display()));
    let found: BTreeSet<String> = found.chain(["README.md".to_owned()]).collect();
    let read: BTreeSet<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
    assert_eq!(found, read, "pages there are (left) and pages read (right)");
    let mut shown = Vec::new();
    for page in PAGES {
        for block in blocks(page) {
            if let Some(Mark::NotRun(why)) = &block.mark {
                assert!(why.len() > 10, "{}: why not?", block.place);
                shown.push(((*page).to_owned(), block.first_line().to_owned()));
            }
        }
    }
    let mut listed: Vec<_> = SHOWN.map(|(page, line)| (page.to_owned(), line.to_owned())).into();
    shown.sort();
    listed.sort();
    assert_eq!(shown, listed, "blocks with a mark (left) and those known (right)");
}

/// Whoever does what a page says.
struct Reader {
    page: &'static str,
    folder: tempfile::TempDir,
    shell: Shell,
    places: Places,
    /// The flags of the bridge that is called, and it, once it was.
    flags: String,
    bridge: Option<Bridge>,
    names: Names,
}

impl Reader {
    fn new(page: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder can be made");
        for name in ["contracts", "scripts"] {
            copy(&at(name), &folder.path().join(name));
        }
        let shell = Shell::start(folder.path());
        let flags = "--demo".to_owned();
        Self { page, folder, shell, places: Places::default(), flags, bridge: None, names: Names::default() }
    }

    fn read(mut self) {
        let mut called: Option<Value> = None;
        for block in blocks(self.page) {
            match &block.mark {
                Some(Mark::NotRun(_)) => continue,
                Some(Mark::File(name)) => {
                    self.write(name, &block);
                    continue;
                }
                Some(Mark::StaysUp(words)) => {
                    self.stay(&block, words);
                    continue;
                }
                Some(Mark::For(flags)) => {
                    self.flags.clone_from(flags);
                    self.bridge = None;
                }
                None => {}
            }
            match block.kind.as_str() {
                "sh" => self.run(&block),
                "console" => self.compare(&block),
                "json" => self.attach(&block),
                "json answer" => {
                    let came = called.take().unwrap_or_else(|| panic!("{}: an answer to nothing", block.place));
                    let difference = self.names.difference(&json_of(&block), &came, "");
                    assert_eq!(difference, None, "{}: {came:#}", block.place);
                }
                "text" | "mermaid" => {}
                kind => match kind.strip_prefix("json call ") {
                    Some(tool) => called = Some(self.call(tool, &block)),
                    None => panic!("{}: nobody knows what becomes of a block {kind:?}", block.place),
                },
            }
        }
        self.shell.end();
    }

    fn write(&mut self, name: &str, block: &Block) {
        assert!(!name.contains('/') && !name.starts_with('.'), "{}: not beside the page", block.place);
        let text = self.places.put_into(&block.text);
        fs::write(self.folder.path().join(name), text).expect("the scratch folder can be written");
        if block.language() == "json" {
            json_of(block);
        }
    }

    fn stay(&mut self, block: &Block, words: &str) {
        let said = self.shell.stay(&self.places.put_into(&block.text), words);
        self.places.learn(&said);
    }

    fn run(&mut self, block: &Block) {
        let (said, code) = self.shell.run(&format!("set -e\n{}set +e", self.places.put_into(&block.text)));
        assert_eq!(code, 0, "{}: {said}", block.place);
    }

    fn compare(&mut self, block: &Block) {
        let exchanges = exchanges(&block.text);
        assert!(!exchanges.is_empty(), "{}: no line begins with `$ `", block.place);
        for (n, (command, shown)) in exchanges.iter().enumerate() {
            let (came, code) = self.shell.run(&self.places.put_into(command));
            let came = self.places.take_out(&came);
            assert!(is_shown(shown, &came), "{}: {command}\nshown:\n{shown}\ncame:\n{came}", block.place);
            let is_told = exchanges.get(n + 1).is_some_and(|(next, _)| next == "echo $?");
            assert!(code == 0 || is_told, "{}: {command} ended with {code}\n{came}", block.place);
        }
    }

    /// The servers of a client's configuration, as the client would take them.
    fn attach(&mut self, block: &Block) {
        let config = json_of(block);
        let servers = config.get("mcpServers").or_else(|| config.get("servers")).and_then(Value::as_object);
        let servers = servers.unwrap_or_else(|| panic!("{}: no configuration of a client, and no mark", block.place));
        assert!(!servers.is_empty(), "{}", block.place);
        for server in servers.values() {
            if server["url"].is_string() {
                self.knock(server, &block.place);
                continue;
            }
            assert_eq!(server["command"], "/usr/local/bin/plantbridge", "{}", block.place);
            let mut command = Command::new(PLANTBRIDGE);
            let arguments = server["args"].as_array().expect("a list of arguments");
            for argument in arguments {
                command.arg(self.places.put_into(argument.as_str().expect("a word")));
            }
            for (name, value) in server["env"].as_object().into_iter().flatten() {
                command.env(name, value.as_str().expect("a word"));
            }
            command.current_dir(self.folder.path());
            let mut bridge = Bridge::of(command);
            let told = bridge.call_once_joined("list_peers", &json!({}));
            let peers = structured(&told)["peers"].as_array().expect("a list");
            assert!(peers.contains(&json!("bakery")), "{}: {told}", block.place);
            assert!(bridge.hang_up().success(), "{}: {}", block.place, bridge.stderr());
        }
    }

    /// A server behind a door: what the client would send there is sent. A variable is that of the shell, whoever names it.
    fn knock(&mut self, server: &Value, place: &str) {
        let word = |value: &Value| value.as_str().expect("a word").replace("${env:", "${").replace("${input:", "${");
        let given = server["headers"].as_object().into_iter().flatten();
        let given: Vec<String> = given.map(|(name, value)| format!("--header \"{name}: {}\"", word(value))).collect();
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "book", "version": "0"}}});
        let command = format!(
            "curl --silent --show-error --fail {} {} --header 'Content-Type: application/json' \
             --header 'Accept: application/json, text/event-stream' --data '{hello}'",
            word(&server["url"]),
            given.join(" "),
        );
        let (said, code) = self.shell.run(&self.places.put_into(&command));
        assert!(code == 0 && said.contains("\"name\":\"plantbridge\""), "{place}: {said}");
    }

    fn call(&mut self, tool: &str, block: &Block) -> Value {
        let mut arguments = json_of(block);
        self.names.put_into(&mut arguments);
        let bridge = self.bridge.get_or_insert_with(|| {
            let mut command = Command::new(PLANTBRIDGE);
            command.arg("mcp").args(self.flags.split(' ')).current_dir(self.folder.path());
            Bridge::of(command)
        });
        let result = bridge.call_once_joined(tool, &arguments);
        result["structuredContent"].clone()
    }
}

/// The commands of a `console` block, each with what is shown after it.
fn exchanges(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), found.last_mut()) {
            (Some(command), _, _) => found.push((command.to_owned(), String::new())),
            (None, Some(more), Some((command, shown))) if shown.is_empty() => {
                command.push('\n');
                command.push_str(more);
            }
            (None, _, Some((_, shown))) => {
                shown.push_str(line);
                shown.push('\n');
            }
            (None, _, None) => panic!("output before any command: {line}"),
        }
    }
    found
}

fn json_of(block: &Block) -> Value {
    serde_json::from_str(&block.text).unwrap_or_else(|error| panic!("{}: no JSON: {error}", block.place))
}

fn at(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The files of a folder, not those of folders in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("the scratch folder can be written");
    for entry in fs::read_dir(from).expect("it is in the repository") {
        let entry = entry.expect("it can be read");
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("the scratch folder can be written");
        }
    }
}
