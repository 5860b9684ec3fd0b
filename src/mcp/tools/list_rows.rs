//! `list_rows`: a page of one resource, to find a row by.

use std::hash::{DefaultHasher, Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{TimeoutMs, WaitSeconds, look, named, plant_value, principal, repeatable, rows, source};
use crate::{
    contract::data::{Filter, List, Order, Pagination, Sort},
    mcp::{
        CallContext, ErrorCode, Hints, NextCall, Source, Spec, Tool, ToolError,
        check::unusable_argument,
        page::{Format, Limit, Pager},
        tagged,
    },
    plant::{ListRows, Plant, Resource, RowPage},
};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which store: either half of it. Any component will do.
    #[schemars(length(min = 1, max = 1024))]
    namespace: String,
    /// Which resource: its name, `state.orders` for a map in a component's state, or a list of segments.
    resource: Named,
    /// Which rows: {"field", "op", "operand"}, {"all": [...]} or {"any": [...]}, at most 8 deep and 64 in all. op is one
    /// of startsWith, contains, eq, ne, lt, lte, gt, gte; the field `id` is the row's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<Map<String, Json>>,
    /// In which order; by id if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    sort: Option<SortBy>,
    /// Which page, from 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    page: u32,
    /// Rows of a page; 0 asks for the count alone.
    #[serde(default)]
    page_size: PageSize,
    /// Only these fields of each row; a dot leads into a nested one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    fields: Option<Vec<String>>,
    #[serde(default)]
    format: Format,
    /// Where to go on in a page that was too long: `next_cursor` of the answer before.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// How long the answer is awaited, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<TimeoutMs>,
    /// How long to wait for the peer if it is not there.
    #[serde(default, skip_serializing_if = "WaitSeconds::is_zero")]
    wait_seconds: WaitSeconds,
}

/// A resource by name or by path.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Named {
    /// Its name.
    Text(#[schemars(length(min = 1, max = 1024))] String),
    /// Its path.
    Path(#[schemars(length(min = 1, max = 64))] Vec<String>),
}

/// An order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SortBy {
    /// By which field; the id if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    field: Option<String>,
    #[serde(default)]
    order: Direction,
}

/// Which end first.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Direction {
    /// The least.
    #[default]
    Asc,
    /// The greatest.
    Desc,
}

/// How many rows a page has.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct PageSize(#[schemars(range(min = 0, max = 500))] u16);

impl Default for PageSize {
    fn default() -> Self {
        Self(50)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// The path that was asked for.
    resource: Vec<String>,
    /// Each with its `id` and the `row`.
    rows: Vec<Json>,
    page: u32,
    page_size: u16,
    /// Rows over all pages; left out when the peer does not know, which is not zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// Whether pages follow, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_more: Option<bool>,
    /// Rows of this answer.
    returned: usize,
    /// Whether something is missing: more rows, or parts of these.
    truncated: bool,
    /// The exact next call that shows more, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<NextCall>,
    /// Where this page goes on, if it was too long for one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    source: Source,
}

/// Said of an empty list that may be a misspelled name.
const MAYBE_NOT_THERE: &str = "this peer shows an empty list for a resource it does not have; describe_peer and \
                               read_state show what there is";
/// Said when the peer sent more than was asked for.
const TOO_MANY: &str = "the peer sent more rows than the page was to have; the rest of them is left out";

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "list_rows",
        title: "List rows",
        description:
            "Shows a page of one resource of a store, or of a map in any component's props or state: filtered, \
                      sorted, only the fields asked for. It is how a row is found; it carries no stamps, so read_row \
                      comes before write_row. A total that is left out is unknown."
                .into(),
        hints: Hints::LOOK,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let resource = match args.resource.clone() {
        Named::Text(text) => Resource::Named(text),
        Named::Path(path) => Resource::Path(path),
    };
    let store = rows::store(&args.peer, &args.namespace, args.timeout_ms, args.wait_seconds);
    let request = ListRows { store, resource, list: wanted(&args)? };
    let principal = principal(&context);
    let found = look(&context, async { plant.list_rows(&principal, request).await.map_err(refused(&args)) }).await?;
    answer(found, &args, &context)
}

fn refused(args: &Args) -> impl Fn(crate::plant::PlantError) -> ToolError {
    let peer = args.peer.clone();
    move |error| {
        let error = ToolError::from(error);
        if error.code() != ErrorCode::PeerRefused || error.get("peer_error").is_none() {
            return error;
        }
        let describe = json!({"peer": peer, "format": "detailed"});
        error.fix(format!("ask as the peer says; describe_peer {describe} shows the resources it declares"))
    }
}

/// Which member a condition lacks, here or inside.
fn missing(filter: &Map<String, Json>) -> Option<&'static str> {
    let inner = ["all", "any"].iter().find_map(|name| filter.get(*name));
    match inner {
        Some(filters) => filters.as_array()?.iter().find_map(|filter| missing(filter.as_object()?)),
        None if !filter.contains_key("field") => Some("field is missing"),
        None if !filter.contains_key("op") => Some("op is missing"),
        None => None,
    }
}

/// What stands where it would be passed over, here or inside: a store reads one group, or one condition.
fn passed_over(filter: &Map<String, Json>) -> Option<String> {
    let group = ["all", "any"].iter().find(|name| filter.contains_key(**name));
    let known: &[&str] = if group.is_some() { &["all", "any"] } else { &["field", "op", "operand"] };
    if let Some(unknown) = filter.keys().find(|key| !known.contains(&key.as_str())) {
        return Some(format!("{} has no place there", named(unknown)));
    }
    let group = group?;
    if filter.len() > 1 {
        return Some("all and any stand side by side: put one inside the other".into());
    }
    filter.get(*group)?.as_array()?.iter().find_map(|filter| passed_over(filter.as_object()?))
}

fn wanted(args: &Args) -> Result<List, ToolError> {
    let filter = args.filter.clone().map(|filter| {
        let expected = "a condition {field, op, operand}, {all: [...]} or {any: [...]}";
        if let Some(problem) = passed_over(&filter) {
            return Err(unusable_argument("/filter", expected, &problem));
        }
        let filter = plant_value(Json::Object(filter), "/filter")?;
        Filter::parse(&filter).map_err(|problem| {
            let missing = args.filter.as_ref().and_then(missing);
            unusable_argument("/filter", expected, missing.unwrap_or(&problem)).problem(problem)
        })
    });
    let sort = args.sort.clone().map(|SortBy { field, order }| Sort {
        field,
        order: match order {
            Direction::Asc => Order::Ascending,
            Direction::Desc => Order::Descending,
        },
    });
    let pagination = Some(Pagination { page: args.page.into(), size: args.page_size.0.into() });
    Ok(List { pagination, filter: filter.transpose()?, sort })
}

fn answer(found: RowPage, args: &Args, context: &CallContext) -> Result<Answer, ToolError> {
    let size = usize::from(args.page_size.0);
    let (came, generation) = (found.rows.len(), generation(&found));
    let source = source(found.peer.as_str(), found.fake);
    let entries = found.rows.into_iter().take(size).map(|(id, row)| {
        let row = tagged::to_json(row);
        json!({"id": id, "row": args.fields.as_ref().map_or_else(|| row.clone(), |fields| only(&row, fields))})
    });
    let arguments = repeatable(args);
    let pager = Pager::of(context, &arguments, Limit::MOST, args.format, args.cursor.as_deref());
    let (rows, info) = pager.indexed(generation, entries)?;
    let seen = u64::from(args.page).saturating_add(1).saturating_mul(u64::from(args.page_size.0));
    let has_more = found.more.or_else(|| found.total.map(|total| seen < total));
    // Of a peer that does not say, a full page may have another behind it.
    let another = size > 0 && has_more.unwrap_or(came >= size);
    let hint = info.hint.or_else(|| {
        let mut arguments = arguments.clone();
        arguments.insert("page".into(), (args.page + 1).into());
        another.then(|| NextCall::new(context.tool, arguments))
    });
    let note = match (came, found.total.unwrap_or(0)) {
        (0, 0) if size > 0 && !found.declared && args.filter.is_none() => Some(MAYBE_NOT_THERE),
        _ => (came > size).then_some(TOO_MANY),
    };
    Ok(Answer {
        resource: found.resource,
        returned: rows.len(),
        rows,
        page: args.page,
        page_size: args.page_size.0,
        total: found.total,
        has_more,
        truncated: info.truncated || another || came > size,
        hint,
        next_cursor: info.next_cursor,
        note,
        source,
    })
}

/// A row with these fields alone. What is no map has none, and is shown as it is.
fn only(row: &Json, fields: &[String]) -> Json {
    let Json::Object(members) = row else { return row.clone() };
    let at = |field: &String| {
        let dotted = || field.split('.').try_fold(row, |at, step| at.as_object()?.get(step));
        Some((field.clone(), members.get(field).or_else(dotted)?.clone()))
    };
    Json::Object(fields.iter().filter_map(at).collect())
}

/// Names the page that a cursor goes on in: the same rows in the same order.
fn generation(found: &RowPage) -> u64 {
    let mut hasher = DefaultHasher::new();
    found.rows.iter().for_each(|(id, _)| id.hash(&mut hasher));
    hasher.finish()
}
