//! `plantbridge describe`: what a peer serves.

use clap::Args;
use serde_json::Value as Json;

use super::{
    ending::Failure,
    errand::{Errand, ErrandArgs},
    out::{Out, shown},
};
use crate::{
    mcp::{tagged, text, tools},
    plant::find_namespace,
};

#[derive(Clone, Debug, Args)]
pub(super) struct DescribeArgs {
    /// Which peer.
    #[arg(value_name = "PEER", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    peer: String,
    /// Only this namespace of it.
    #[arg(value_name = "NAMESPACE", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    #[command(flatten)]
    pub(super) errand: ErrandArgs,
}

/// Asks the peer, afresh. In JSON it is what the peer says, verbatim.
pub(super) async fn run(errand: &Errand, args: DescribeArgs) -> Result<(), Failure> {
    let described = errand.look(errand.plant.describe(&args.peer, errand.wait)).await?;
    let wanted = args.namespace.as_deref();
    if let Some(namespace) = wanted {
        find_namespace(&described.description, &described.peer, namespace)?;
    }
    if errand.out.json {
        let mut answer = tagged::to_json(described.answer);
        if let (Some(wanted), Some(Json::Array(namespaces))) = (wanted, answer.get_mut("namespaces")) {
            namespaces.retain(|namespace| namespace.get("name").and_then(Json::as_str) == Some(wanted));
        }
        return errand.out.say(&text::pretty(&answer));
    }
    errand.out.say(&written(&tools::outline(&described, wanted), errand.out))
}

/// An outline as lines of text.
fn written(outline: &Json, out: Out) -> String {
    let mut lines = vec![head(outline, out)];
    for namespace in list(outline, "namespaces") {
        let version = namespace.get("version").and_then(Json::as_str).map(|version| format!(" {}", shown(version)));
        lines.push(format!("\n{}{}", out.heading(&named(namespace)), version.unwrap_or_default()));
        let capabilities = list(namespace, "capabilities").iter().map(|line| format!("is {}", word(line)));
        let events = list(namespace, "events").iter().map(|line| format!("event {}", word(line)));
        let component = namespace.get("component").unwrap_or(&Json::Null);
        let paths = ["props", "state"].into_iter().flat_map(|part| part_lines(component, part));
        let resources = list(component, "resources").iter().map(|line| format!("rows {}", word(line)));
        let methods = list(namespace, "methods").iter().map(word);
        let all = capabilities.chain(methods).chain(events).chain(paths).chain(resources);
        lines.extend(all.map(|line| format!("  {line}")));
    }
    if let Some(Json::Object(types)) =
        outline.get("types").filter(|types| types.as_object().is_some_and(|t| !t.is_empty()))
    {
        lines.push(format!("\n{}", out.heading("types")));
        lines.extend(types.iter().map(|(name, node)| format!("  {}: {}", shown(name), word(node))));
    }
    lines.extend(list(outline, "problems").iter().map(|problem| format!("\nproblem: {}", word(problem))));
    lines.join("\n")
}

fn head(outline: &Json, out: Out) -> String {
    let mut head = out.heading(&named(outline));
    if let Some(version) = outline.get("version").and_then(Json::as_str) {
        head = format!("{head} {}", shown(version));
    }
    if outline.get("fake") == Some(&Json::Bool(true)) {
        head += ", a fake";
    }
    if outline.get("validating") == Some(&Json::Bool(false)) {
        head += ", which does not check arguments";
    }
    head
}

/// The paths of props or state, or that they are not described.
fn part_lines(component: &Json, part: &str) -> Vec<String> {
    match component.get(part) {
        Some(Json::Array(lines)) => lines.iter().map(|line| format!("{part} {}", word(line))).collect(),
        Some(other) => vec![format!("{part} {}", word(other))],
        None => Vec::new(),
    }
}

fn list<'a>(json: &'a Json, key: &str) -> &'a [Json] {
    json.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn named(json: &Json) -> String {
    shown(json.get("name").and_then(Json::as_str).unwrap_or_default())
}

/// A line of the outline, made harmless. Signatures may be long; what bounds them is the whole.
fn word(json: &Json) -> String {
    json.as_str().map_or_else(|| text::compact(json), text::one_line)
}
