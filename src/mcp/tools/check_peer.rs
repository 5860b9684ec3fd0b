//! `check_peer`: whether a live peer still satisfies a contract.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{
    WaitSeconds,
    contract_argument::{contract_source, copied},
    few, look, named, repeatable, source, unchanged,
};
use crate::{
    contract::compat::{Breaking, CompatibilityVerdict, Unchecked},
    mcp::{
        CallContext, Hints, Source, Spec, Tool, ToolError,
        page::{Format, Limit, PageInfo, Pager},
        registry::Need,
    },
    plant::Plant,
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// The contract itself: {"schema": 1, "types": {…}, "namespaces": {…}}.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Map<String, Json>>,
    /// The name of a contract that is kept here, instead of `schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    contract: Option<String>,
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
    peer: String,
    /// Whether all of the contract was compared and nothing breaks who was built against it.
    compatible: bool,
    /// `compatible`, `incompatible`, or `unchecked`: nothing wrong was found, but not everything could be compared.
    verdict: &'static str,
    /// How many findings break a caller.
    breaking: usize,
    /// Namespaces that were compared.
    checked: Vec<String>,
    /// Namespaces that are served without signatures: nothing about them was checked, and that is no pass.
    undescribed: Vec<String>,
    /// Namespaces of the contract that the peer does not serve.
    missing: Vec<String>,
    /// What breaks who was built against the contract: where, why, a JSON Pointer into the contract, and what stands on
    /// either side.
    problems: Vec<Json>,
    /// What could not be compared, because the peer says nothing of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unchecked: Vec<String>,
    /// What else there is to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    #[serde(flatten)]
    page: PageInfo,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "check_peer",
        title: "Check a peer against a contract",
        description: "Says whether a live peer still satisfies a contract, with the contract as what callers were built \
                      against: parameters may widen, results and events may narrow, promises about repeats, effects and \
                      set paths hold. What the peer does not describe is never a pass. A mismatch is a result with \
                      compatible: false, not an error."
            .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run).argument_needs("contract", Need::Contracts)
}

async fn run(plant: Plant, mut args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let document = args.schema.as_ref().map(copied);
    let contract = contract_source(document, args.contract.as_deref())?;
    let wait = args.wait_seconds.duration();
    let checked = look(&context, async { Ok(plant.check_peer(&args.peer, contract, wait).await?) }).await?;
    let report = &checked.report;
    let arguments = repeated(&mut args);
    let pager = Pager::of(&context, &arguments, args.limit, Format::Detailed, args.cursor.as_deref());
    let (problems, page) = pager.indexed(unchanged(report), report.problems.iter().map(breaking_shown))?;
    let mut notes = report.notes.clone();
    notes.extend(checked.silent.map(|unsaid| format!("{} could not be described: {}", checked.peer, unsaid.why)));
    notes.extend(checked.unread);
    let verdict = report.verdict();
    Ok(Answer {
        peer: checked.peer.to_string(),
        compatible: verdict == CompatibilityVerdict::Compatible,
        verdict: verdict.as_str(),
        breaking: report.breaking(),
        checked: few(&report.checked),
        undescribed: few(&report.undescribed),
        missing: few(&report.missing),
        problems,
        unchecked: few(&report.unchecked.iter().map(unchecked_words).collect::<Vec<_>>()),
        notes: few(&notes),
        page,
        source: source(checked.peer.as_str(), checked.fake),
    })
}

/// The arguments, as they are to be repeated for the next page. The contract among them may be large: it is moved there.
fn repeated(args: &mut Args) -> Map<String, Json> {
    let schema = args.schema.as_mut().map(std::mem::take);
    let mut arguments = repeatable(args);
    if let Some(schema) = schema {
        arguments.insert("schema".to_owned(), schema.into());
    }
    arguments
}

pub(crate) fn breaking_shown(problem: &Breaking) -> Json {
    let Breaking { namespace, place, reason, pointer, detail } = problem;
    let mut entry = json!({
        "namespace": named(namespace), "where": named(place), "reason": reason, "pointer": named(pointer)
    });
    if let (Some(detail), Some(entry)) = (detail, entry.as_object_mut()) {
        entry.insert("detail".into(), named(detail).into());
    }
    entry
}

pub(crate) fn unchecked_words(unchecked: &Unchecked) -> String {
    format!("{}.{} {}", unchecked.namespace, unchecked.place, unchecked.reason)
}
