//! `read_contract`: one contract from the disk, as lines or as it stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    contract_argument::contract_name,
    describe_peer::{event_line, method_line, paths},
    few, look, named, repeatable, whole_or_head,
};
use crate::{
    contract::{Contract, Namespace, Types},
    mcp::{
        CallContext, ErrorCode, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
        registry::Need,
    },
    plant::{Inspected, Plant, StoredFile, nearest},
    wire::json::to_json,
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The name it is kept under.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// Only this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    namespace: Option<String>,
    /// Concise: one line a method. Detailed: the document as it stands, fit to be changed and saved again.
    #[serde(default)]
    format: Format,
    #[serde(default)]
    limit: Limit,
    /// Where the page starts: `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    contract: String,
    /// What names exactly these bytes; give it as expect_sha256 to change just this.
    sha256: String,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Its namespaces, by name, a line a method and event.
    namespaces: Vec<Json>,
    /// The names of its types.
    types: Vec<String>,
    /// What is wrong with it: with this it is neither served nor compared with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// The document itself, when asked for in detail; a very large one as its head.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Json>,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "read_contract",
        title: "Read a kept contract",
        description:
            "Shows a contract from the bridge's disk: per namespace one line a method and event, with its hash. \
                      format: detailed gives the document itself. Says what is wrong with one that cannot be used."
                .into(),
        hints: Hints::LOOK_INSIDE,
        needs: &[Need::Contracts],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let name = contract_name(&args.name, "/name")?;
    let Inspected { stored, contract, problems } =
        look(&context, async { Ok(plant.inspect_contract(&name).await?) }).await?;
    if let Some(wanted) = &args.namespace {
        knows(&contract, &stored, wanted)?;
    }
    let mut shown: Vec<&Namespace> = contract.namespaces.iter().filter(|known| args.shows(&known.name)).collect();
    shown.sort_by(|a, b| a.name.cmp(&b.name));
    let arguments = repeatable(&args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let (namespaces, page) =
        pager.keyed(shown.iter().map(|known| (known.name.as_str(), lines(known, &contract.types))))?;
    let types: Vec<String> = contract.types_entry.iter().map(|(name, _)| name.to_owned()).collect();
    Ok(Answer {
        contract: name.to_string(),
        document: (args.format == Format::Detailed).then(|| whole_or_head(args.part(&stored))),
        sha256: stored.sha256,
        bytes: stored.bytes,
        version: contract.version.as_deref().map(named),
        namespaces,
        types: few(&types),
        problems: few(&problems.iter().map(ToString::to_string).collect::<Vec<_>>()),
        page,
        source: Source::bridge(),
    })
}

impl Args {
    fn shows(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
    }

    /// The document, with the other namespaces left out where one was asked for.
    fn part(&self, stored: &StoredFile) -> Json {
        let mut document = to_json(&stored.document).unwrap_or_else(|_| json!({}));
        if let Some(namespaces) = document.get_mut("namespaces").and_then(Json::as_object_mut) {
            namespaces.retain(|name, _| self.shows(name));
        }
        document
    }
}

/// A namespace in lines, as describe_peer shows one of a live peer.
fn lines(namespace: &Namespace, types: &Types) -> Json {
    let mut entry = json!({
        "name": namespace.name,
        "methods": namespace.methods.iter().map(method_line).collect::<Vec<_>>(),
        "events": namespace.events.iter().map(event_line).collect::<Vec<_>>(),
    });
    if let (Some(component), Some(entry)) = (&namespace.component, entry.as_object_mut()) {
        let state = paths(component.state.as_ref(), types, Some(namespace));
        entry
            .insert("component".into(), json!({"props": paths(component.props.as_ref(), types, None), "state": state}));
    }
    entry
}

/// Refuses a namespace that the contract does not have.
fn knows(contract: &Contract, stored: &StoredFile, wanted: &str) -> Result<(), ToolError> {
    let written = stored.document.get("namespaces").and_then(|namespaces| namespaces.get(wanted));
    if written.is_some() {
        return Ok(());
    }
    let names = contract.namespaces.iter().map(|namespace| namespace.name.as_str());
    let message = format!("the contract has no namespace '{}'", named(wanted));
    Err(ToolError::new(ErrorCode::UnknownNamespace, message).alternatives(nearest(wanted, names)))
}
