//! Reading collections (semantics 9.1), pure: what a `$data` request may say, and what a map of rows answers to it.
//!
//! A request is read into a [`Request`] or refused with the text every peer gives (S-104); nothing is adjusted. The same
//! types say what we ask of others, so that what we send is what we would accept.

mod filter;
mod page;

pub use filter::{Condition, Filter, Operand, Operator};
pub use page::{Order, Page, Pagination, Sort, list, many, rows_at};

use super::Component;
use crate::wire::{Map, Value};

/// What is asked of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Which collection: segments of a path.
    pub resource: Vec<String>,
    /// What of it.
    pub verb: Verb,
}

/// The verbs every component answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// A page of rows.
    List(List),
    /// The rows of these keys, as far as there are any.
    Many(Vec<String>),
    /// A page of the rows that refer to another.
    Reference {
        /// The field that refers.
        target: String,
        /// To what; text or a number.
        id: Operand,
        /// The page.
        list: List,
    },
}

/// Which rows, in which order, how many.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    /// Which part of the whole; `None` is all of it.
    pub pagination: Option<Pagination>,
    /// Which rows; `None` is every one.
    pub filter: Option<Filter>,
    /// In which order; by key if nothing is said.
    pub sort: Option<Sort>,
}

/// Keys that may be asked for at once.
const MAX_IDS: usize = 1000;

impl Request {
    /// Reads the arguments of `$data`.
    ///
    /// # Errors
    ///
    /// The text of the refusal; its code is `InvalidParams`.
    pub fn parse(args: &[Value]) -> Result<Self, String> {
        // What is not there travels as null.
        let named = args.first().filter(|verb| **verb != Value::Null);
        let Some(verb @ ("getList" | "getMany" | "getManyReference")) = named.and_then(Value::as_str) else {
            return Err(format!(
                "$data: {} is not served here - this component answers getList, getMany, getManyReference",
                text_of(named)
            ));
        };
        let resource = resource(args.get(1))?;
        let nothing = Map::new();
        let params = match args.get(2) {
            None | Some(Value::Null) => &nothing,
            Some(Value::Map(params)) => params,
            Some(_) => return Err("$data: params is an object, or absent".into()),
        };
        let verb = match verb {
            "getList" => Verb::List(List::parse(params)?),
            "getMany" => Verb::Many(ids(params.get("ids"))?),
            _ => reference(params)?,
        };
        Ok(Self { resource, verb })
    }

    /// The arguments of `$data` that say this.
    pub fn to_args(&self) -> Vec<Value> {
        let texts = |texts: &[String]| Value::Array(texts.iter().map(|text| text.as_str().into()).collect());
        let (verb, params) = match &self.verb {
            Verb::List(list) => ("getList", list.to_params()),
            Verb::Many(ids) => ("getMany", [("ids".to_owned(), texts(ids))].into_iter().collect()),
            Verb::Reference { target, id, list } => {
                let mut params = list.to_params();
                params.insert("target", target.as_str());
                params.insert("id", id.to_value());
                ("getManyReference", params)
            }
        };
        vec![verb.into(), texts(&self.resource), params.into()]
    }
}

impl List {
    /// Reads the parameters of a page.
    ///
    /// # Errors
    ///
    /// The text of the refusal.
    pub fn parse(params: &Map) -> Result<Self, String> {
        Ok(Self {
            pagination: params.get("pagination").map(Pagination::parse).transpose()?.flatten(),
            filter: params.get("filter").map(Filter::parse).transpose()?,
            sort: params.get("sort").map(Sort::parse).transpose()?,
        })
    }

    fn to_params(&self) -> Map {
        let mut params = Map::new();
        if let Some(pagination) = &self.pagination {
            params.insert("pagination", pagination.to_value());
        }
        if let Some(filter) = &self.filter {
            params.insert("filter", filter.to_value());
        }
        if let Some(sort) = &self.sort {
            params.insert("sort", sort.to_value());
        }
        params
    }
}

/// The paths of the collections a component is described to have beside its maps.
pub fn resources(component: &Component) -> Vec<Vec<String>> {
    let entries = component.resources.as_ref().and_then(Value::as_array);
    let path = |entry: &Value| {
        let segments = entry.get("path")?.as_array()?.iter();
        segments.map(|segment| segment.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>()
    };
    entries.into_iter().flatten().filter_map(path).collect()
}

fn resource(given: Option<&Value>) -> Result<Vec<String>, String> {
    let segments = given.and_then(Value::as_array).filter(|segments| !segments.is_empty());
    let texts: Option<Vec<String>> =
        segments.and_then(|segments| segments.iter().map(|segment| segment.as_str().map(str::to_owned)).collect());
    texts.ok_or_else(|| {
        "$data: a resource is a non-empty path of string segments, such as [\"state\",\"tags\"]".to_owned()
    })
}

fn ids(given: Option<&Value>) -> Result<Vec<String>, String> {
    let all = given.and_then(Value::as_array).filter(|ids| !ids.is_empty());
    let texts: Option<Vec<String>> = all.and_then(|ids| ids.iter().map(|id| id.as_str().map(str::to_owned)).collect());
    let texts = texts.ok_or("$data: getMany takes a non-empty array of string ids")?;
    if texts.len() > MAX_IDS {
        return Err(format!("$data: getMany is bounded at {MAX_IDS} ids; ask for a page instead"));
    }
    Ok(texts)
}

fn reference(params: &Map) -> Result<Verb, String> {
    let target = params.get("target").and_then(Value::as_str).filter(|target| !target.is_empty());
    let target = target.ok_or("$data: getManyReference needs a target field to match on")?.to_owned();
    let id = match params.get("id") {
        Some(Value::Text(id)) => Operand::Text(id.clone()),
        Some(number) if number.as_f64().is_some() => Operand::Number(number.as_f64().unwrap_or_default()),
        _ => return Err("$data: getManyReference needs an id, as a string or a number".into()),
    };
    Ok(Verb::Reference { target, id, list: List::parse(params)? })
}

/// A value as ECMAScript peers put it into a sentence, or compare it as text.
fn text_of(value: Option<&Value>) -> String {
    match value {
        None => "undefined".into(),
        Some(Value::Null) => "null".into(),
        Some(Value::Bool(bit)) => bit.to_string(),
        Some(number @ (Value::Int(_) | Value::Float(_))) => {
            super::text::ecma_number(number.as_f64().unwrap_or(f64::NAN))
        }
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Date(at)) => crate::wire::json::iso_date(*at).unwrap_or_else(|| "Invalid Date".into()),
        Some(Value::Bytes(bytes) | Value::Ext(_, bytes)) => {
            bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(",")
        }
        Some(Value::Array(items)) => {
            // A null among others is nothing between its commas.
            let item = |item: &Value| if *item == Value::Null { String::new() } else { text_of(Some(item)) };
            items.iter().map(item).collect::<Vec<_>>().join(",")
        }
        Some(Value::Map(_)) => "[object Object]".into(),
    }
}

#[cfg(test)]
mod tests;
