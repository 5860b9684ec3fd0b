//! The house, kept tidy: what the top of `src/lib.rs`, ARCHITECTURE.md and README.md claim is read off the tree here.
//!
//! Nothing is compiled for these checks; they read files. Source is read with comments and literals blanked, so that a
//! word in a sentence is never mistaken for code. `UPDATE_README=1 cargo test --test it tidy` rewrites the generated
//! parts of README.md and of the book.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use plantbridge::mcp::{codes, registry, tools};

/// The layers, lowest first. A layer names itself and what stands before it.
const LAYERS: [&str; 11] =
    ["wire", "contract", "link", "node", "script", "fake", "plant", "mcp", "door", "demo", "cli"];

/// Lines a file may have without its tests.
const MAX_LINES: usize = 400;

/// Files that are longer, each with the reason. One that has become shorter must leave the list.
const LONGER: [(&str, &str); 0] = [];

// ---------------------------------------------------------------------------------------------------------------------
// Layers and crates
// ---------------------------------------------------------------------------------------------------------------------

/// `wire < contract < link < node < script < fake < plant < mcp < door < demo < cli`, and no arrow runs the other way, not in tests either.
#[test]
fn no_layer_reaches_up() {
    let mut wrong = Vec::new();
    for source in sources() {
        let Some(own) = rank(&source) else { continue };
        for path in source.crate_paths() {
            let head = path.first().cloned().unwrap_or_default();
            match LAYERS.iter().position(|layer| *layer == head) {
                Some(other) if other > own => wrong.push(format!("{} names {}", source.path, path.join("::"))),
                Some(_) => {}
                None => wrong.push(format!("{} names crate::{head}, which is no layer", source.path)),
            }
        }
    }
    assert_none(&wrong);
}

/// Every folder of `src` is a layer, and every layer is a folder.
#[test]
fn every_folder_is_a_layer() {
    let found: BTreeSet<String> = sources().iter().filter_map(Source::layer).collect();
    // The demo can be left out of a build, and of a source tree; everything else must be there.
    let needed: BTreeSet<String> =
        LAYERS.iter().filter(|layer| **layer != "demo").map(|layer| (*layer).into()).collect();
    let known: BTreeSet<String> = LAYERS.iter().map(|layer| (*layer).into()).collect();
    assert!(found.is_superset(&needed) && found.is_subset(&known), "{found:?}");
}

/// Invariant 2: each foreign protocol crate is named in one place.
#[test]
fn each_protocol_crate_is_named_in_one_place() {
    let homes: [(&str, &[&str]); 14] = [
        ("rumqttc", &["src/link/mqtt/"]),
        ("tokio_tungstenite", &["src/link/hub/", "src/link/mqtt/websocket.rs"]),
        ("tokio_rustls", &["src/link/tls.rs", "src/link/trust.rs", "src/door/http/tls.rs"]),
        ("mqtt5", &["src/demo/broker.rs"]),
        ("rmcp", &["src/mcp/", "src/door/", "src/demo/tour"]),
        ("opentelemetry", &["src/mcp/spans.rs", "src/cli/otel.rs"]),
        ("opentelemetry_sdk", &["src/mcp/spans.rs", "src/cli/otel.rs"]),
        ("opentelemetry_otlp", &["src/cli/otel.rs"]),
        ("hyper", &["src/door/http"]),
        ("hyper_util", &["src/door/http"]),
        ("http_body_util", &["src/door/http"]),
        ("toml", &["src/cli/config/"]),
        ("ed25519_dalek", &["src/wire/signing/key.rs"]),
        // Only the process that runs the code of a fake comes there.
        ("rquickjs", &["src/fake/code/engine.rs", "src/fake/code/convert.rs"]),
    ];
    let mut wrong = Vec::new();
    for source in sources() {
        for (name, allowed) in homes {
            if source.words().any(|word| word == name) && !source.is_below(allowed) {
                wrong.push(format!("{} names {name}", source.path));
            }
        }
    }
    assert_none(&wrong);
}

/// Invariant 1: what is pure reads no clock, waits for nothing, spawns nothing, draws no randomness, touches no system.
#[test]
fn the_pure_parts_are_pure() {
    let forbidden = [
        "Instant::now",
        "elapsed",
        "SystemTime",
        "sleep",
        "rand",
        "getrandom",
        "Uuid",
        "RandomState",
        "spawn",
        "tokio",
        "std::fs",
        "std::net",
        "std::env",
        "std::thread",
        "std::process",
    ];
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| {
        source.is_below(&[
            "src/wire/",
            "src/contract/",
            "src/node/state/",
            "src/plant/verdict/",
            "src/plant/traffic/",
            "src/door/auth.rs",
            "src/door/hosts.rs",
            "src/door/http/headers.rs",
        ])
    }) {
        let production = source.production();
        for name in forbidden.iter().filter(|name| contains_name(&production, name)) {
            wrong.push(format!("{} names {name}", source.path));
        }
    }
    assert_none(&wrong);
}

/// Every task has an owner that joins or bounds it, so tasks begin in few places.
#[test]
fn tasks_begin_in_few_places() {
    let homes = [
        "src/cli/",
        "src/link/",
        "src/door/",
        "src/node/driver.rs",
        // One a fake, which owns it to its end; one clock and one usher for all of them; and whoever takes a fake down that
        // nobody waits for any more.
        "src/fake/host.rs",
        "src/fake/standing.rs",
        // One a fake whose script brings code along: it owns the process that runs that.
        "src/fake/code/",
        // Programs, each in a process of its own under a supervisor and read by a task that ends with it; a disk that is waited for.
        "src/script/",
        "src/mcp/load.rs",
        // One a resource that is listened to, owned by the session or the request that listens, which ends it.
        "src/mcp/subscriptions.rs",
        "src/plant/capability.rs",
        // One a peer that is asked what it is; the set of them ends with the census.
        "src/plant/census.rs",
        // The registry of standing watches owns their tasks: they outlive the call that starts them.
        "src/plant/watches.rs",
        // One a lease, which ends with it; giving back, within a second.
        "src/plant/control.rs",
        // A tap that nobody waits for any more is given back to its hub, within two seconds a step.
        "src/plant/hub_tap.rs",
        // Two threads a trail: nobody else waits for its disk.
        "src/plant/audit/writer.rs",
        // A disk that is waited for, and a comparison that takes its time: each beside the task that drives the network.
        "src/plant/contracts/",
        "src/demo/",
    ];
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_below(&homes)) {
        let production = source.production();
        for word in words(&production).filter(|word| word.starts_with("spawn")) {
            wrong.push(format!("{} calls {word}", source.path));
        }
    }
    assert_none(&wrong);
}

/// Invariant 3: standard output is touched by the stdio door, and where nothing is served by what prints for people: the
/// tables, help and version (`cli/mod.rs`), the results of the subcommands for people (`cli/out.rs`, all of them through it,
/// so that what a plant says is escaped in one place) and the demo.
#[test]
fn standard_output_has_one_owner() {
    let homes = [
        "src/door/stdio.rs",
        "src/cli/mod.rs",
        "src/cli/out.rs",
        "src/cli/demo.rs",
        "src/demo/tour",
        // That of a child.
        "src/script/process.rs",
        "src/fake/code/running.rs",
        // Its end of that.
        "src/fake/code/child.rs",
    ];
    let names = ["stdout", "stdio_pipes", "println", "print"];
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_below(&homes)) {
        let production = source.production();
        let written =
            words(&production).filter(|word| names.contains(word) && !production.contains(&format!("fn {word}")));
        wrong.extend(written.map(|word| format!("{} names {word}", source.path)));
    }
    assert_none(&wrong);
}

/// Invariant 4: a tool does not see the node, a verb does not see past it.
#[test]
fn tools_stop_at_the_plant_and_verbs_at_the_node() {
    let walls: [(&[&str], &[&str]); 2] = [
        (&["src/mcp/", "src/door/"], &["Node", "NodeState", "Outbound", "LinkEvent"]),
        (&["src/plant/", "src/fake/"], &["NodeState", "Outbound", "LinkEvent", "Frame"]),
    ];
    let mut wrong = Vec::new();
    for source in sources() {
        let production = source.production();
        for (_, names) in walls.iter().filter(|(places, _)| source.is_below(places)) {
            let seen = words(&production).filter(|word| names.contains(word));
            wrong.extend(seen.map(|word| format!("{} names {word}", source.path)));
        }
    }
    assert_none(&wrong);
}

// ---------------------------------------------------------------------------------------------------------------------
// Files
// ---------------------------------------------------------------------------------------------------------------------

/// Files that do not say what they are. One that does must leave the list.
const SILENT: [&str; 0] = [];

/// Every file says what it is before anything else.
#[test]
fn every_file_says_what_it_is() {
    let silent = sources().into_iter().filter(|source| !source.text.starts_with("//! "));
    let silent: BTreeSet<String> = silent.map(|source| source.path).collect();
    assert_eq!(silent, SILENT.map(str::to_owned).into(), "files without //! (left) and those known to be (right)");
}

/// Files stay short enough to be read in one go.
#[test]
fn files_stay_short() {
    let exceptions: BTreeMap<&str, &str> = LONGER.into_iter().collect();
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test) {
        let lines = source.production_lines();
        match exceptions.contains_key(source.path.as_str()) {
            false if lines > MAX_LINES => wrong.push(format!("{} has {lines} lines", source.path)),
            true if lines <= MAX_LINES => wrong.push(format!("{} is no exception any more: {lines}", source.path)),
            _ => {}
        }
    }
    let all: HashSet<String> = sources().into_iter().map(|source| source.path).collect();
    wrong.extend(exceptions.keys().filter(|path| !all.contains(**path)).map(|path| format!("{path} is gone")));
    assert_none(&wrong);
}

/// The compiler does not look at a file that no `mod` line names, and a test in it would never run.
#[test]
fn no_file_is_forgotten() {
    let mut wrong = Vec::new();
    for folder in ["src", "tests/it", "tests/interop"] {
        for path in rust_files(folder) {
            let file = Path::new(&path);
            let root = file.parent() == Some(Path::new(folder));
            let name = match file.file_stem().and_then(|stem| stem.to_str()) {
                Some("main" | "lib") if root => continue,
                Some("mod") => file.parent().and_then(Path::file_name),
                _ => file.file_stem(),
            };
            let name = name.and_then(|name| name.to_str()).unwrap();
            let above = if path.ends_with("/mod.rs") { file.parent().unwrap().parent() } else { file.parent() };
            let above = above.unwrap();
            let parents: Vec<PathBuf> = ["mod.rs", "lib.rs", "main.rs"]
                .iter()
                .map(|parent| above.join(parent))
                .filter(|p| at(p).is_file())
                .collect();
            let declared = parents.iter().any(|parent| {
                let code = blank(&fs::read_to_string(at(parent)).unwrap());
                contains_name(&code, &format!("mod {name};"))
            });
            if !declared {
                wrong.push(format!("no `mod {name};` for {path}"));
            }
        }
    }
    assert_none(&wrong);
}

/// The project stands alone: nothing in it points to a place outside, and no manifest names where packages come from.
#[test]
fn nothing_points_outside() {
    // Put together here, or this file would be the first to be found.
    let places =
        [["/ro", "ot/"].concat(), ["/wo", "rk"].concat(), ["/tmp/", "wt"].concat(), ["../sha", "red"].concat()];
    let registries = [["\"reso", "lved\":"].concat(), ["index-", "url"].concat(), ["regis", "try="].concat()];
    let crates_io = "registry+https://github.com/rust-lang/crates.io-index";
    let mut wrong = Vec::new();
    for path in files(Path::new("")) {
        let Ok(text) = fs::read_to_string(at(&path)) else { continue };
        let path = path.display();
        for (line, number) in text.lines().zip(1..) {
            if places.iter().any(|place| contains_path(line, place))
                || registries.iter().any(|name| line.contains(name))
            {
                wrong.push(format!("{path}:{number}: {line}"));
            }
            if line.starts_with("source = ") && !line.contains(crates_io) {
                wrong.push(format!("{path}:{number}: {line}"));
            }
        }
    }
    assert_none(&wrong);
}

// ---------------------------------------------------------------------------------------------------------------------
// Documents
// ---------------------------------------------------------------------------------------------------------------------

/// README.md shows the tools and the error codes that the binary has.
#[test]
fn the_tables_of_the_readme_are_fresh() {
    keep_fresh("README.md", &[("tools", registry::tools_table(&tools::all())), ("errors", codes::errors_table())]);
}

/// What a document holds between `<!-- NAME: begin -->` and `<!-- NAME: end -->` is as given; UPDATE_README makes it so.
pub(crate) fn keep_fresh(document: &str, parts: &[(&str, String)]) {
    let path = at(document);
    let written = fs::read_to_string(&path).unwrap();
    let mut fresh = written.clone();
    for (name, part) in parts {
        let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
        let (before, rest) = fresh.split_once(&begin).unwrap_or_else(|| panic!("{document} lacks {begin}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{document} lacks {end}"));
        fresh = format!("{before}{begin}{}\n{end}{after}", part.trim_end());
    }
    if std::env::var_os("UPDATE_README").is_some() {
        fs::write(path, fresh).unwrap();
        return;
    }
    assert!(written == fresh, "{document} is stale; UPDATE_README=1 cargo test --test it tidy rewrites its tables");
}

/// A path in a document exists, and so does a test it cites as `file::name`.
#[test]
fn the_documents_point_at_what_is_there() {
    let roots = ["src/", "tests/", "benches/", "xtask/", "docker/", ".ci/", ".config/"];
    // Written by others, and there only once they are.
    let mut wrong = Vec::new();
    for document in documents() {
        for quoted in quoted(&fs::read_to_string(at(&document)).unwrap()) {
            let (path, name) =
                quoted.split_once("::").map_or((quoted.as_str(), None), |(path, name)| (path, Some(name)));
            if !roots.iter().any(|root| path.starts_with(root)) {
                continue;
            }
            let there = at(path).exists() && !path.contains(['<', '…']);
            let defines = |name: &str| {
                let text = fs::read_to_string(at(path)).unwrap_or_default();
                contains_name(&blank(&text), &format!("fn {name}"))
            };
            if !there || name.is_some_and(|name| !defines(name)) {
                wrong.push(format!("{document}: {quoted}"));
            }
        }
    }
    assert_none(&wrong);
}

/// The table of bounds in ARCHITECTURE.md says of each constant what the code says.
#[test]
fn the_bounds_are_as_told() {
    let text = fs::read_to_string(at("ARCHITECTURE.md")).unwrap();
    let (_, rest) = text.split_once("<!-- bounds: begin -->").expect("the bounds begin");
    let (table, _) = rest.split_once("<!-- bounds: end -->").expect("the bounds end");
    let mut wrong = Vec::new();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!(rows.len() > 30, "the table was not read: {} rows", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, _, value, name, file, _, _] = cells[..] else {
            wrong.push(format!("another number of cells: {row}"));
            continue;
        };
        let [value, name, file] = [value, name, file].map(|cell| cell.trim_matches('`'));
        let source = fs::read_to_string(at(file)).unwrap_or_default();
        let told = match name.split_once('.') {
            // A field of a settings struct, at its default.
            Some((_, field)) => source.contains(&format!("{field}: {value}")),
            None => source.lines().any(|line| {
                let line = line.trim_start();
                let declared = line.split_once("const ").map(|(_, rest)| rest);
                declared
                    .is_some_and(|rest| rest.starts_with(&format!("{name}:")) && rest.ends_with(&format!("= {value};")))
            }),
        };
        if !told {
            wrong.push(row.to_owned());
        }
    }
    assert_none(&wrong);
}

// ---------------------------------------------------------------------------------------------------------------------
// Rules
// ---------------------------------------------------------------------------------------------------------------------

/// The rules of the wire, the tap of a hub left out, as first and last of each row of neighbours.
const RULES: [(u16, u16); 12] = [
    (1, 3),
    (10, 12),
    (20, 24),
    (30, 35),
    (40, 43),
    (50, 59),
    (60, 77),
    (80, 82),
    (90, 96),
    (100, 110),
    (120, 120),
    (130, 130),
];

/// Rules no test cites. One that is cited by now must leave the list.
const UNCITED: [u16; 0] = [];

/// Every rule of the wire is cited by a test, so that a change that breaks it has a name to break.
#[test]
fn every_rule_has_a_test_that_cites_it() {
    let own = ["tests/it/tidy.rs"];
    let mut tests: String = sources().iter().map(Source::tests).collect();
    for path in ["tests/it", "tests/interop"].into_iter().flat_map(rust_files) {
        if !own.contains(&path.as_str()) {
            tests.push_str(&fs::read_to_string(at(&path)).unwrap());
        }
    }
    let rules: BTreeSet<u16> = RULES.into_iter().flat_map(|(first, last)| first..=last).collect();
    let missing: BTreeSet<u16> = rules.into_iter().filter(|rule| !cites(&tests, *rule)).collect();
    assert_eq!(missing, BTreeSet::from(UNCITED), "rules without a test (left) and those known to be (right)");
}

fn cites(text: &str, rule: u16) -> bool {
    // In a comment, or at the beginning of a test's name.
    contains_name(text, &format!("W-{rule:03}"))
        || text.contains(&format!("fn w{rule:03}_"))
        || text.contains(&format!("_w{rule:03}_"))
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading
// ---------------------------------------------------------------------------------------------------------------------

/// One file of `src`.
struct Source {
    /// From the repository on, with slashes.
    path: String,
    text: String,
    /// The same, byte for byte as long, with comments and literals blanked.
    code: String,
    /// Where `#[cfg(test)]` items are.
    test_spans: Vec<Range<usize>>,
    /// Whether all of it is.
    is_test: bool,
}

impl Source {
    fn read(path: String) -> Self {
        let text = fs::read_to_string(at(&path)).unwrap();
        let code = blank(&text);
        let test_spans = test_spans(&code);
        Self { path, text, code, test_spans, is_test: false }
    }

    /// The folder below `src`.
    fn layer(&self) -> Option<String> {
        let (layer, _) = self.path.strip_prefix("src/")?.split_once('/')?;
        Some(layer.to_owned())
    }

    /// The module this file is, from the root of the crate on.
    fn module(&self) -> Vec<String> {
        let path = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        path.split('/').filter(|part| *part != "mod").map(str::to_owned).collect()
    }

    fn is_below(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        words(&self.code)
    }

    /// The code without tests.
    fn production(&self) -> String {
        if self.is_test { String::new() } else { without(&self.code, &self.test_spans) }
    }

    fn production_lines(&self) -> usize {
        let in_tests: usize = self.test_spans.iter().map(|span| self.code[span.clone()].lines().count()).sum();
        self.text.lines().count() - in_tests
    }

    /// The text of the tests, comments included.
    fn tests(&self) -> String {
        if self.is_test {
            return self.text.clone();
        }
        self.test_spans.iter().map(|span| &self.text[span.clone()]).collect()
    }

    /// Every path in it that is one of this crate, from the root on.
    fn crate_paths(&self) -> Vec<Vec<String>> {
        let bytes = self.code.as_bytes();
        let mut found = Vec::new();
        for start in ["crate::", "super::"] {
            for (begin, _) in self.code.match_indices(start) {
                let before = self.code[..begin].trim_end();
                let goes_on = before.ends_with("::") || bytes[..begin].last().is_some_and(|byte| is_word(*byte));
                if !goes_on {
                    expand(&mut Vec::new(), &self.code[begin..], &mut found);
                }
            }
        }
        let module = self.module();
        found.into_iter().filter_map(|path| from_root(path, &module)).collect()
    }
}

/// A path as from the root of the crate on; nothing if it stays within its own module.
fn from_root(path: Vec<String>, module: &[String]) -> Option<Vec<String>> {
    if path.first().is_some_and(|first| first == "crate") {
        return Some(path[1..].to_vec());
    }
    let climbs = path.iter().take_while(|part| *part == "super").count();
    let above = module.len().checked_sub(climbs)?;
    let rest = path[climbs..].to_vec();
    // A test module inside a file is one deeper than the file: what it finds at the root of the crate is its own file's.
    let is_layer = rest.first().is_some_and(|first| LAYERS.contains(&first.as_str()));
    (above == 0 && is_layer).then_some(rest)
}

/// Writes a path, or every path of a `use` tree, into `found`; gives what follows it.
fn expand<'a>(prefix: &mut Vec<String>, text: &'a str, found: &mut Vec<Vec<String>>) -> &'a str {
    let mut rest = text.trim_start();
    let depth = prefix.len();
    loop {
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner.trim_start();
            while !rest.is_empty() && !rest.starts_with('}') {
                let after = expand(prefix, rest, found);
                // Whatever is no path, such as `as name`, ends at the next comma or brace.
                let next = after.find([',', '}']).unwrap_or(after.len());
                rest = after[next..].trim_start_matches(',').trim_start();
            }
            prefix.truncate(depth);
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        let end = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        if end > 0 {
            prefix.push(rest[..end].to_owned());
        }
        match rest[end..].strip_prefix("::") {
            Some(after) if end > 0 => rest = after.trim_start(),
            _ => {
                found.push(prefix.clone());
                prefix.truncate(depth);
                return &rest[end..];
            }
        }
    }
}

fn rank(source: &Source) -> Option<usize> {
    let layer = source.layer()?;
    LAYERS.iter().position(|known| *known == layer)
}

/// Every file of `src`; those that only tests are built with are marked.
fn sources() -> Vec<Source> {
    let mut sources: Vec<Source> = rust_files("src").into_iter().map(Source::read).collect();
    assert!(sources.len() > 50, "the sources were not found");
    let test_modules: Vec<String> = sources.iter().flat_map(test_modules).collect();
    for source in &mut sources {
        let below =
            |module: &String| source.path == format!("{module}.rs") || source.path.starts_with(&format!("{module}/"));
        source.is_test = test_modules.iter().any(below);
    }
    sources
}

/// The modules in files of their own that `source` only declares for tests, as paths without an ending.
fn test_modules(source: &Source) -> Vec<String> {
    let folder = Path::new(&source.path).parent().unwrap().display().to_string();
    let declared = source.test_spans.iter().filter_map(|span| {
        let item = source.code[span.clone()].trim_end();
        let name = item.strip_suffix(';')?.rsplit_once("mod ")?.1;
        Some(format!("{folder}/{name}"))
    });
    declared.collect()
}

/// Where the items under `#[cfg(test)]` are.
fn test_spans(code: &str) -> Vec<Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (begin, _) in code.match_indices(MARK) {
        if spans.last().is_some_and(|last| last.contains(&begin)) {
            continue;
        }
        let body = begin + MARK.len();
        let opens = code[body..].find(['{', ';']).map_or(code.len(), |at| body + at);
        let end = if code[opens..].starts_with('{') { closing(code, opens) } else { opens };
        spans.push(begin..(end + 1).min(code.len()));
    }
    spans
}

/// Where the brace that `opens` is closed.
fn closing(code: &str, opens: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(opens) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn without(text: &str, spans: &[Range<usize>]) -> String {
    let mut out = String::new();
    let mut from = 0;
    for span in spans {
        out.push_str(&text[from..span.start]);
        from = span.end;
    }
    out + &text[from..]
}

/// Source with comments and the insides of literals replaced by blanks, as long as before and with its lines.
fn blank(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let end = at + literal_or_comment(rest, out[..at].last().copied()).unwrap_or(0);
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = if end > at { end } else { at + rest.chars().next().map_or(1, char::len_utf8) };
    }
    String::from_utf8(out).unwrap()
}

/// How long the comment or literal is that `rest` begins with; `before` is the byte before it.
fn literal_or_comment(rest: &str, before: Option<u8>) -> Option<usize> {
    let to = |end: Option<usize>| Some(end.unwrap_or(rest.len()));
    if rest.starts_with("//") {
        return to(rest.find('\n'));
    }
    if rest.starts_with("/*") {
        return to(rest.find("*/").map(|at| at + 2));
    }
    let quoted = rest.trim_start_matches(['b', 'c']);
    if let Some(raw) = quoted.strip_prefix('r').filter(|_| !before.is_some_and(is_word)) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let opened = rest.len() - raw.len() + hashes + 1;
            return to(rest[opened..].find(&close).map(|at| opened + at + close.len()));
        }
    }
    if let Some(inside) = rest.strip_prefix('"') {
        return to(unescaped(inside, b'"').map(|at| at + 2));
    }
    let inside = rest.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    let is_char = first == '\\' || inside[first.len_utf8()..].starts_with('\'');
    if is_char { to(unescaped(inside, b'\'').map(|at| at + 2)) } else { None }
}

/// Where `end` first stands without a backslash before it.
fn unescaped(text: &str, end: u8) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let found = byte == end && !escaped;
        escaped = byte == b'\\' && !escaped;
        found
    })
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|letter: char| !letter.is_ascii() || !is_word(letter as u8)).filter(|word| !word.is_empty())
}

/// Whether `name` stands in `text` as a whole.
fn contains_name(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text.as_bytes()[..at].last().is_some_and(|byte| is_word(*byte));
        let after = text.as_bytes().get(at + name.len()).is_some_and(|byte| is_word(*byte));
        !before && !after
    })
}

/// Whether the path `place`, or something below it, stands in `line`.
fn contains_path(line: &str, place: &str) -> bool {
    let part = |byte: u8| is_word(byte) || byte == b'-' || byte == b'.';
    line.match_indices(place).any(|(at, _)| {
        let before = line.as_bytes()[..at].last().is_some_and(|byte| part(*byte));
        let after = line.as_bytes().get(at + place.len()).is_some_and(|byte| part(*byte));
        !before && !after
    })
}

/// What stands between backquotes or as the target of a link.
fn quoted(text: &str) -> Vec<String> {
    let code = text.split('`').skip(1).step_by(2).map(str::to_owned);
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()).map(str::to_owned);
    code.chain(links).collect()
}

/// What is written for people: what stands at the root, and the book.
pub(crate) fn documents() -> Vec<String> {
    let markdown = |path: &Path| path.extension().is_some_and(|end| end == "md");
    let book = files(Path::new("docs")).into_iter().filter(|path| markdown(path));
    let book = book.map(|path| path.to_str().unwrap().replace('\\', "/"));
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(str::to_owned)
        .into_iter()
        .chain(book)
        .collect()
}

pub(crate) fn at(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn rust_files(folder: &str) -> Vec<String> {
    let found = files(Path::new(folder)).into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    found.map(|path| path.to_str().unwrap().replace('\\', "/")).collect()
}

/// Every file below `folder`, from the repository on; what is built or belongs to git is left out.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(at(folder)).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let path = folder.join(&name);
        if ["target", ".git", "node_modules"].iter().any(|left_out| name == *left_out) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() { out.extend(files(&path)) } else { out.push(path) }
    }
    out
}

#[track_caller]
pub(crate) fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The reader of the house is held to what it must tell apart.
#[test]
fn the_reader_tells_code_from_words() {
    let source =
        "// spawn\nlet a = \"spawn \\\" spawn\"; let b = r#\"spawn\"#; let c = b'\\''; 'l: loop {} /* spawn */ go();\n";
    let code = blank(source);
    assert_eq!(code.len(), source.len());
    assert_eq!(words(&code).collect::<Vec<_>>(), ["let", "a", "let", "b", "let", "c", "b", "l", "loop", "go"]);

    let with_tests = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\nfn c() {}\n";
    assert_eq!(words(&without(with_tests, &test_spans(with_tests))).collect::<Vec<_>>(), ["fn", "a", "fn", "c"]);

    let mut found = Vec::new();
    expand(&mut Vec::new(), "crate::{link::{Link, mqtt::Config as C}, wire::Name}; rest", &mut found);
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["crate::link::Link", "crate::link::mqtt::Config", "crate::wire::Name"]);
    let module = ["node".to_owned(), "driver".to_owned()];
    let climb = ["super", "super", "mcp", "Tool"].map(str::to_owned).to_vec();
    assert_eq!(from_root(climb, &module), Some(vec!["mcp".to_owned(), "Tool".to_owned()]));
}
