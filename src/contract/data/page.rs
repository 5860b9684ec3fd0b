//! Filter, sort, cut: a page of a map of rows.

use std::{cmp::Ordering, collections::HashMap};

use super::{
    List, Request, Verb,
    filter::{Condition, Filter, Operator, field_of},
    text_of,
};
use crate::{
    contract::text::by_code_unit,
    wire::{Map, Value},
};

/// Which part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pagination {
    /// Which page, from 0.
    pub page: u64,
    /// How many rows a page has; 0 asks for the count alone.
    pub size: u64,
}

/// In which order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    /// By which field; `None` is the key.
    pub field: Option<String>,
    /// Which end first.
    pub order: Order,
}

/// Which end comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The least.
    #[default]
    Ascending,
    /// The greatest.
    Descending,
}

/// A page of rows, or the rows that were asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<'a> {
    /// Their keys and themselves.
    pub rows: Vec<(&'a str, &'a Value)>,
    /// How many there are in all, and whether some follow; not of rows asked for by key.
    pub whole: Option<(u64, bool)>,
}

impl Pagination {
    /// `None` when neither is said, which means all.
    pub(super) fn parse(value: &Value) -> Result<Option<Self>, String> {
        let Some(map) = value.as_map() else { return Err("$data: pagination is { page, pageSize }".into()) };
        let count = |name: &str| match map.get(name) {
            None => Ok(None),
            Some(value) => match value.as_i64().and_then(|count| u64::try_from(count).ok()) {
                Some(count) => Ok(Some(count)),
                None => {
                    let given = text_of(Some(value));
                    Err(format!("$data: pagination.{name} must be a non-negative integer, not {given}"))
                }
            },
        };
        match (count("page")?, count("pageSize")?) {
            (Some(_), None) => {
                let text =
                    "$data: pagination.page needs a pageSize - a page number alone does not say how big a page is";
                Err(text.into())
            }
            (page, size) => Ok(size.map(|size| Self { page: page.unwrap_or(0), size })),
        }
    }

    pub(super) fn to_value(self) -> Value {
        let mut out = Map::new();
        out.insert("page", i64::try_from(self.page).unwrap_or(i64::MAX));
        out.insert("pageSize", i64::try_from(self.size).unwrap_or(i64::MAX));
        out.into()
    }
}

impl Sort {
    /// Reads an order.
    ///
    /// # Errors
    ///
    /// The text of the refusal.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let Some(map) = value.as_map() else { return Err("$data: sort is { field, order }".into()) };
        let field = match map.get("field") {
            None => None,
            Some(Value::Text(field)) if !field.is_empty() => Some(field.clone()),
            Some(_) => return Err("$data: sort.field is a non-empty string, or absent for the id".into()),
        };
        let order = match map.get("order") {
            None => Order::Ascending,
            Some(order) => match order.as_str() {
                Some("ASC") => Order::Ascending,
                Some("DESC") => Order::Descending,
                _ => return Err(format!("$data: sort.order is ASC or DESC, not {}", text_of(Some(order)))),
            },
        };
        Ok(Self { field, order })
    }

    pub(super) fn to_value(&self) -> Value {
        let mut out = Map::new();
        if let Some(field) = &self.field {
            out.insert("field", field.as_str());
        }
        out.insert("order", if self.order == Order::Ascending { "ASC" } else { "DESC" });
        out.into()
    }
}

impl Request {
    /// What a map of rows answers.
    pub fn answer<'a>(&self, rows: &'a Map) -> Page<'a> {
        match &self.verb {
            Verb::List(wanted) => list(rows, wanted),
            Verb::Many(ids) => many(rows, ids),
            Verb::Reference { target, id, list: wanted } => {
                let field = Some(target.clone());
                let refers = Condition { field, operator: Operator::Eq, operand: id.clone() };
                let refers = Filter::Condition(refers);
                let filter = match wanted.filter.clone() {
                    None => refers,
                    Some(filter) => Filter::All(vec![refers, filter]),
                };
                list(rows, &List { filter: Some(filter), ..wanted.clone() })
            }
        }
    }
}

/// A page of `rows`.
pub fn list<'a>(rows: &'a Map, wanted: &List) -> Page<'a> {
    let fits = |(key, row): &(&str, &Value)| wanted.filter.as_ref().is_none_or(|filter| filter.matches(key, row));
    let mut found: Vec<(&str, &Value)> = rows.iter().filter(fits).collect();
    let sort = wanted.sort.clone().unwrap_or_default();
    match sort.field.as_deref() {
        None | Some("id") => found.sort_by(|left, right| by_code_unit(left.0, right.0)),
        Some(field) => {
            let keyed = |(key, row): (&'a str, &'a Value)| (Rank::of(field_of(row, Some(field))), key, row);
            let mut ranked: Vec<_> = found.into_iter().map(keyed).collect();
            ranked.sort_by(|left, right| left.0.compare(&right.0).then_with(|| by_code_unit(left.1, right.1)));
            found = ranked.into_iter().map(|(_, key, row)| (key, row)).collect();
        }
    }
    if sort.order == Order::Descending {
        found.reverse();
    }
    let total = u64::try_from(found.len()).unwrap_or(u64::MAX);
    let Some(Pagination { page, size }) = wanted.pagination else {
        return Page { rows: found, whole: Some((total, false)) };
    };
    let (first, after) = (page.saturating_mul(size), page.saturating_add(1).saturating_mul(size));
    let part = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let rows = found.into_iter().skip(part(first)).take(part(size)).collect();
    Page { rows, whole: Some((total, after < total)) }
}

/// The rows of these keys, in the order asked, those that are not there left out.
pub fn many<'a>(rows: &'a Map, ids: &[String]) -> Page<'a> {
    let known: HashMap<&str, &Value> = rows.iter().collect();
    let found = ids.iter().filter_map(|id| known.get_key_value(id.as_str()).map(|(key, row)| (*key, *row)));
    Page { rows: found.collect(), whole: None }
}

/// The map that stands at a resource, if one does.
pub fn rows_at<'a>(parts: &[(&str, &'a Map)], resource: &[String]) -> Option<&'a Map> {
    let (part, path) = resource.split_first()?;
    let (_, root) = parts.iter().find(|(name, _)| name == part)?;
    path.iter().try_fold(*root, |at, step| at.get(step)?.as_map())
}

/// Where a row sorts. Numbers come before texts, and what is not there after all: a column of both kinds has an order
/// that holds whichever two are compared.
enum Rank {
    Number(f64),
    Text(String),
    Absent,
}

impl Rank {
    fn of(value: Option<&Value>) -> Self {
        match value {
            None => Self::Absent,
            // Adding zero takes the sign off a zero.
            Some(value) => value.as_f64().map_or_else(|| Self::Text(text_of(Some(value))), |n| Self::Number(n + 0.0)),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => left.total_cmp(right),
            (Self::Text(left), Self::Text(right)) => by_code_unit(left, right),
            (left, right) => left.kind().cmp(&right.kind()),
        }
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Number(_) => 0,
            Self::Text(_) => 1,
            Self::Absent => 2,
        }
    }
}
