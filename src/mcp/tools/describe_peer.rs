//! `describe_peer`: one peer's surface, short by default, verbatim on demand.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use tokio::time::{Instant, timeout_at};

use super::{WaitSeconds, cut, look, moment, named, repeatable, shown_within, source};
use crate::{
    contract::{
        Description, Effect, Event, Method, Namespace, Sets, TypeNode, Types, context::Ref, data, path, signature,
    },
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
        tagged,
    },
    plant::{Described, KnownAuthority, Plant, find_namespace, is_fake},
    wire::{PeerName, Value},
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Only this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    namespace: Option<String>,
    /// Concise: one line a method. Detailed: what the peer says, verbatim, with the named types it refers to.
    #[serde(default)]
    format: Format,
    #[serde(default)]
    limit: Limit,
    /// Where the page starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// How long to wait for the peer if it is not there.
    #[serde(default, skip_serializing_if = "WaitSeconds::is_zero")]
    wait_seconds: WaitSeconds,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Whether the peer checks arguments against what it declares.
    validating: bool,
    /// Whether it says that it is a fake.
    fake: bool,
    /// Its namespaces, sorted. `msgrpc`, which every describable peer serves, is shown when asked for.
    namespaces: Vec<Json>,
    /// The named types that these namespaces refer to.
    #[serde(skip_serializing_if = "Map::is_empty")]
    types: Map<String, Json>,
    /// Powers that are open on it beyond the usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    elevated: Option<Json>,
    /// Where it stands in the plant.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<Json>,
    /// What of its description could not be read, or cannot be checked here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

/// How many state paths of a component are named.
const PATHS: usize = 64;
/// How long a type may be written in a concise answer.
const TYPE_CHARS: usize = 120;
/// How many problems are told.
const PROBLEMS: usize = 20;
/// How long the hosts of components are asked who is in control.
const LOOKS: Duration = Duration::from_secs(2);
/// How many bytes what stands beside the namespaces may have each: beyond that a part of it is shown.
const ASIDE: usize = 4 * 1024;
/// How many bytes of named types one page carries.
const TYPE_BYTES: usize = 8 * 1024;

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "describe_peer",
        title: "Describe a peer",
        description: "Says what a peer serves: per namespace one signature line a method (with what it declares about \
                      repeats, effect and the state path it sets), events, and a component's state paths with the \
                      methods that set them. Asks the peer afresh. format: detailed gives the description verbatim. \
                      Next: read_state, call_method, set_state, list_rows."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let wait = args.wait_seconds.duration();
    let described = look(&context, async { Ok(plant.describe(&args.peer, wait).await?) }).await?;
    let description = &described.description;
    if let Some(namespace) = &args.namespace {
        find_namespace(description, &described.peer, namespace)?;
    }
    let mut served: Vec<&Namespace> = description.namespaces.iter().filter(|known| args.shows(known)).collect();
    served.sort_by(|a, b| a.name.cmp(&b.name));
    let mut authorities = authorities(&plant, &described.peer, &served).await;
    let entries = served.iter().map(|namespace| {
        let entry = match args.format {
            Format::Concise => {
                let authority = authorities.remove(namespace.name.as_str());
                concise(namespace, &description.types, authority)
            }
            Format::Detailed => verbatim(&described, &namespace.name),
        };
        (namespace.name.as_str(), entry)
    });
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let (namespaces, page) = pager.keyed(entries)?;
    let types = types(&described, &namespaces, args.format);
    Ok(Answer {
        name: described.peer.to_string(),
        version: description.version.as_deref().map(named),
        validating: description.validating,
        fake: is_fake(description),
        namespaces,
        types,
        elevated: description.elevated.clone().map(|value| shown_within(value, ASIDE, ASIDE / 4)),
        host: place(description),
        problems: problems(description),
        page,
        source: source(described.peer.as_str(), is_fake(description)),
    })
}

/// Who is in control of the components that ask for it. Their hosts are asked, for a moment.
async fn authorities<'a>(
    plant: &Plant,
    peer: &PeerName,
    served: &[&'a Namespace],
) -> BTreeMap<&'a str, KnownAuthority> {
    let mut known = BTreeMap::new();
    let asks = |namespace: &&&Namespace| {
        namespace.component.is_some() && namespace.methods.iter().any(|method| method.requires_authority)
    };
    let deadline = Instant::now() + LOOKS;
    for namespace in served.iter().filter(asks) {
        let name = namespace.name.as_str();
        let authority = match timeout_at(deadline, plant.authority_now(peer, name)).await {
            Ok(authority) => authority,
            Err(_) => plant.authority(peer, name),
        };
        known.extend(authority.map(|authority| (name, authority)));
    }
    known
}

/// A peer's surface in short, whole: all of its namespaces, or the one that is wanted.
pub(crate) fn outline(described: &Described, wanted: Option<&str>) -> Json {
    let description = &described.description;
    let shows = |namespace: &&Namespace| wanted.map_or(namespace.name != "msgrpc", |wanted| namespace.name == wanted);
    let mut served: Vec<&Namespace> = description.namespaces.iter().filter(shows).collect();
    served.sort_by(|a, b| a.name.cmp(&b.name));
    let entry = |namespace: &&Namespace| concise(namespace, &description.types, None);
    let namespaces: Vec<Json> = served.iter().map(entry).collect();
    let types = types(described, &namespaces, Format::Concise);
    json!({
        "name": described.peer.as_str(),
        "version": description.version,
        "validating": description.validating,
        "fake": is_fake(description),
        "namespaces": namespaces,
        "types": types,
        "problems": problems(description),
    })
}

impl Args {
    fn shows(&self, namespace: &Namespace) -> bool {
        match &self.namespace {
            Some(wanted) => namespace.name == *wanted,
            None => namespace.name != "msgrpc",
        }
    }
}

fn concise(namespace: &Namespace, types: &Types, authority: Option<KnownAuthority>) -> Json {
    let mut entry = Map::new();
    entry.insert("name".into(), namespace.name.as_str().into());
    if let Some(version) = &namespace.version {
        entry.insert("version".into(), version.as_str().into());
    }
    if !namespace.capabilities.is_empty() {
        entry.insert("capabilities".into(), json!(namespace.capabilities));
    }
    entry.insert("methods".into(), namespace.methods.iter().map(method_line).collect());
    if !namespace.events.is_empty() {
        entry.insert("events".into(), namespace.events.iter().map(event_line).collect());
    }
    if let Some(place) = namespace.topology.as_ref().map(placed).filter(|place| !place.is_empty()) {
        entry.insert("topology".into(), place.into());
    }
    if let Some(component) = &namespace.component {
        let mut shown = Map::new();
        shown.insert("props".into(), paths(component.props.as_ref(), types, None));
        shown.insert("state".into(), paths(component.state.as_ref(), types, Some(namespace)));
        let resources: Vec<Json> =
            data::resources(component).iter().take(PATHS).map(|path| path.join(".").into()).collect();
        if !resources.is_empty() {
            shown.insert("resources".into(), resources.into());
        }
        if let Some(known) = authority {
            shown.insert("authority".into(), in_control(known));
        }
        entry.insert("component".into(), shown.into());
    }
    entry.into()
}

/// What a namespace is part of and what it serves, each as `peer/instance`: where read_context begins.
fn placed(topology: &Value) -> Map<String, Json> {
    let place = |key: &str| {
        let at = Ref::parse(topology.get(key)?)?;
        Some((key.to_owned(), named(&at.to_string()).into()))
    };
    ["parent", "owner"].into_iter().filter_map(place).collect()
}

/// Who is in control, as far as it is known here: of what we hold ourselves, or from the last snapshot seen.
fn in_control(known: KnownAuthority) -> Json {
    let mut shown = Map::new();
    shown.insert("holder".into(), known.authority.holder.map_or(Json::Null, Json::from));
    if let Some(at) = known.authority.expires_ms {
        shown.insert("expires_at".into(), moment(at).into());
    }
    if let Some(client) = known.client {
        shown.insert("client".into(), client.into());
    }
    shown.insert("seen_seconds_ago".into(), known.age.as_secs().into());
    shown.into()
}

/// One method on one line: its signature, and behind it what a caller must know before calling.
pub(super) fn method_line(method: &Method) -> Json {
    let mut line = signature::line(method);
    let mut notes: Vec<String> = Vec::new();
    if let Some(semantics) = method.semantics {
        notes.push(semantics.as_str().into());
    }
    if method.declared_effect.is_some_and(|effect| effect > Effect::Operate) {
        notes.push(format!("effect {}", method.effect().as_str()));
    }
    match &method.sets {
        Some(Sets::Path(path)) => notes.push(format!("sets {path}")),
        Some(Sets::Any) => notes.push("sets any path".into()),
        None => {}
    }
    if method.requires_authority {
        notes.push("requires authority".into());
    }
    if !notes.is_empty() {
        line.push_str("  - ");
        line.push_str(&notes.join(", "));
    }
    line.into()
}

pub(super) fn event_line(event: &Event) -> Json {
    match &event.params {
        Some(params) => {
            let params: Vec<String> = params.iter().map(|node| signature::concise(node, TYPE_CHARS)).collect();
            format!("{}({})", event.name, params.join(", ")).into()
        }
        None => event.name.as_str().into(),
    }
}

/// The paths of a component with their types, and who sets each.
pub(super) fn paths(node: Option<&TypeNode>, types: &Types, setters: Option<&Namespace>) -> Json {
    let Some(node) = node else { return json!("not described") };
    let found = path::paths(node, types, PATHS);
    let mut lines: Vec<Json> = found
        .paths
        .iter()
        .map(|(segments, node)| {
            let line = format!("{segments}: {}", signature::concise(node, TYPE_CHARS));
            let setter = setters.and_then(|namespace| path::Setter::choose(namespace, segments).ok());
            match setter {
                Some(setter) => format!("{line}  - set by {}", setter.method.name).into(),
                None => line.into(),
            }
        })
        .collect();
    if found.truncated {
        lines.push("…".into());
    }
    lines.into()
}

/// One namespace as the peer wrote it.
fn verbatim(described: &Described, name: &str) -> Json {
    let namespaces = described.answer.get("namespaces").and_then(Value::as_array).unwrap_or_default();
    let found = namespaces.iter().find(|known| known.get("name").and_then(Value::as_str) == Some(name));
    found.cloned().map_or(Json::Null, tagged::to_json)
}

/// The named types that the namespaces of this page refer to, and those refer to in turn, up to a bound.
fn types(described: &Described, page: &[Json], format: Format) -> Map<String, Json> {
    let mut wanted = BTreeSet::new();
    for name in page.iter().filter_map(|namespace| namespace.get("name")?.as_str()) {
        refs(&verbatim(described, name), &mut wanted);
    }
    let declared = described.answer.get("types").and_then(Value::as_map);
    let (mut types, mut bytes) = (Map::new(), 0);
    while let Some(name) = wanted.pop_first() {
        let node = declared.and_then(|declared| declared.get(&name)).filter(|_| !types.contains_key(&name));
        let Some(node) = node.cloned().map(tagged::to_json) else { continue };
        refs(&node, &mut wanted);
        let shown = match (format, described.description.types.get(&name)) {
            (Format::Concise, Some(node)) => signature::concise(node, TYPE_CHARS).into(),
            (Format::Concise | Format::Detailed, _) => node,
        };
        bytes += name.len() + shown.to_string().len();
        if bytes > TYPE_BYTES {
            types.insert("…".into(), json!({"truncated": true, "bytes": TYPE_BYTES}));
            break;
        }
        types.insert(name, shown);
    }
    types
}

fn refs(json: &Json, wanted: &mut BTreeSet<String>) {
    match json {
        Json::Object(map) => {
            if map.get("kind").is_some_and(|kind| kind == "ref")
                && let Some(name) = map.get("name").and_then(Json::as_str)
            {
                wanted.insert(name.to_owned());
            }
            for value in map.values() {
                refs(value, wanted);
            }
        }
        Json::Array(items) => {
            for item in items {
                refs(item, wanted);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Where the peer stands, without what is the same for every host.
fn place(description: &Description) -> Option<Json> {
    let Json::Object(mut host) = tagged::to_json(description.host.clone()?) else { return None };
    host.retain(|key, value| matches!(key.as_str(), "parent" | "owner" | "place" | "label") && !value.is_null());
    (!host.is_empty()).then(|| cut(host.into(), ASIDE, ASIDE / 4))
}

fn problems(description: &Description) -> Vec<String> {
    let unread = description.problems.iter().map(ToString::to_string);
    let unchecked = description.unchecked.iter().map(|problem| format!("not checked here: {problem}"));
    unread.chain(unchecked).take(PROBLEMS).map(|problem| named(&problem)).collect()
}
