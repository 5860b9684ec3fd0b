//! One collection of rows.

use std::collections::BTreeMap;

use super::{Column, refuse, status, text_of};
use crate::{
    contract::stamp::stamp,
    node::Failure,
    wire::{Map, Value},
};

/// Rows by id.
#[derive(Clone, Debug)]
pub struct Table {
    resource: String,
    key: Key,
    /// Whether a row holds its own id.
    shows_id: bool,
    columns: Vec<Column>,
    rows: BTreeMap<RowId, Map>,
    next: i64,
}

/// What ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Whole numbers, however they are written.
    Integer,
    /// Text as it is.
    Text,
}

/// The id of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowId {
    /// A number.
    Number(i64),
    /// Text.
    Text(String),
}

/// Why a row cannot stand in a collection from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// As many rows are there as may be.
    Full,
    /// Another row has this id.
    Twice,
    /// The id is none of this collection's kind.
    Id,
}

impl Table {
    /// An empty collection whose first new row gets the number `next`.
    pub fn new(resource: &str, key: Key, shows_id: bool, columns: Vec<Column>, next: i64) -> Self {
        Self { resource: resource.to_owned(), key, shows_id, columns, rows: BTreeMap::new(), next }
    }

    /// What it is called.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// What its ids are.
    pub const fn key(&self) -> Key {
        self.key
    }

    /// Puts a row in as it is. New rows are numbered from beyond the highest number there is.
    ///
    /// # Errors
    /// When there is no place for it.
    pub fn place(&mut self, id: &str, mut row: Map) -> Result<(), Fault> {
        let id = self.id(&id.into()).map_err(|_| Fault::Id)?;
        if self.rows.len() >= ROOM {
            return Err(Fault::Full);
        }
        if self.rows.contains_key(&id) {
            return Err(Fault::Twice);
        }
        if let RowId::Number(number) = &id {
            self.next = self.next.max(number.wrapping_add(1));
        }
        if self.shows_id && row.get(ID).is_none() {
            row.insert(ID, id.to_value());
        }
        self.rows.insert(id, row);
        Ok(())
    }

    /// The row of this id.
    pub fn row(&self, id: &str) -> Option<&Map> {
        self.rows.get(&self.id(&id.into()).ok()?)
    }

    /// The row of this number, to change it behind everybody's back.
    pub fn row_mut(&mut self, number: i64) -> Option<&mut Map> {
        self.rows.get_mut(&RowId::Number(number))
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows, as a component shows them.
    pub fn shown(&self) -> Map {
        self.rows.iter().map(|(id, row)| (id.to_string(), row.clone().into())).collect()
    }

    pub(super) fn writable(&self) -> Value {
        let texts = |texts: &[&str]| Value::Array(texts.iter().map(|text| (*text).into()).collect());
        let mut resource = Map::new();
        resource.insert("resource", self.resource.as_str());
        resource.insert("verbs", texts(&["create", "delete", "update"]));
        resource.insert("columns", texts(&self.names()));
        resource.into()
    }

    pub(super) fn get_one(&self, id: &Value) -> Result<Value, Failure> {
        let Some(row) = self.rows.get(&self.id(id)?) else { return Ok(status("missing").into()) };
        let mut answer = status("ok");
        answer.insert("row", row.clone());
        answer.insert("stamp", self.stamp_of(id, row));
        Ok(answer.into())
    }

    pub(super) fn create(&mut self, row: &Value, complete: impl FnOnce(&mut Map)) -> Result<Value, Failure> {
        let fields = self.fields("create", row)?;
        let missing = |column: &&Column| column.required && fields.get(&column.name).is_none();
        let missing: Vec<&str> = self.columns.iter().filter(missing).map(|column| column.name.as_str()).collect();
        if !missing.is_empty() {
            return refuse(format!("{} requires {}", self.resource, missing.join(", ")));
        }
        if self.rows.len() >= ROOM {
            return refuse(format!("there is room for {ROOM} rows in {}, and they are there", self.resource));
        }
        let row = self.completed(fields.clone(), complete);
        let id = self.new_id();
        let own = self.shows_id.then(|| (ID.to_owned(), id.to_value()));
        let row: Map = own.into_iter().chain(row).collect();
        let written: Value = id.to_string().into();
        let mut answer = status("ok");
        answer.insert("stamp", self.stamp_of(&written, &row));
        answer.insert("id", written);
        self.rows.insert(id, row);
        Ok(answer.into())
    }

    /// The answer, and whether something was written.
    pub(super) fn update(&mut self, id: &Value, patch: &Value, stamp: &Value) -> Result<(Value, bool), Failure> {
        let (key, stamp, patch) = (self.id(id)?, given("update", stamp)?, self.fields("update", patch)?);
        if patch.is_empty() {
            return refuse("update was given no fields to change".into());
        }
        let Some(row) = self.rows.get(&key) else { return Ok((status("missing").into(), false)) };
        if self.stamp_of(id, row) != stamp {
            return Ok((status("conflict").into(), false));
        }
        let mut row = row.clone();
        for (name, value) in patch.iter() {
            row.insert(name, value.clone());
        }
        let mut answer = status("ok");
        answer.insert("id", id.clone());
        answer.insert("stamp", self.stamp_of(id, &row));
        self.rows.insert(key, row);
        Ok((answer.into(), true))
    }

    /// The answer, and whether something was removed.
    pub(super) fn delete(&mut self, id: &Value, stamp: &Value) -> Result<(Value, bool), Failure> {
        let (key, stamp) = (self.id(id)?, given("delete", stamp)?);
        let Some(row) = self.rows.get(&key) else { return Ok((status("missing").into(), false)) };
        if self.stamp_of(id, row) != stamp {
            return Ok((status("conflict").into(), false));
        }
        self.rows.remove(&key);
        let mut answer = status("ok");
        answer.insert("id", id.clone());
        Ok((answer.into(), true))
    }

    /// A new row: what was given, and what the store says of the rest.
    fn completed(&self, mut fields: Map, complete: impl FnOnce(&mut Map)) -> Map {
        let mut row = Map::new();
        for column in &self.columns {
            if let Some(value) = fields.remove(&column.name).or_else(|| column.otherwise.clone()) {
                row.insert(column.name.as_str(), value);
            }
        }
        complete(&mut row);
        row
    }

    /// An id nobody has.
    fn new_id(&mut self) -> RowId {
        loop {
            let number = self.next;
            self.next = number.wrapping_add(1);
            let id = match self.key {
                Key::Integer => RowId::Number(number),
                Key::Text => RowId::Text(number.to_string()),
            };
            // There are fewer rows than numbers.
            if !self.rows.contains_key(&id) {
                return id;
            }
        }
    }

    /// The id a value stands for; a number as key takes text as well.
    fn id(&self, id: &Value) -> Result<RowId, Failure> {
        let wrong = |holds: &str| format!("{} is not an id of id, which holds {holds}", text_of(id));
        match self.key {
            Key::Integer => {
                let number = id.as_str().map_or_else(|| id.as_i64(), |text| text.parse().ok());
                number.map(RowId::Number).ok_or_else(|| Failure::exception(wrong("INTEGER")))
            }
            Key::Text => {
                let text = id.as_str().map(str::to_owned).or_else(|| id.as_f64().map(|_| text_of(id)));
                text.map(RowId::Text).ok_or_else(|| Failure::exception(wrong("TEXT")))
            }
        }
    }

    /// Fields that may be written, each of its kind.
    fn fields<'a>(&self, verb: &str, row: &'a Value) -> Result<&'a Map, Failure> {
        let Some(fields) = row.as_map() else {
            return refuse(format!("{verb} takes an object of field names to values"));
        };
        for (name, value) in fields.iter() {
            let Some(column) = self.columns.iter().find(|column| column.name == name) else {
                let names = self.names().join(", ");
                return refuse(format!("{name} is not writable on {} - this node writes {names}", self.resource));
            };
            column.takes(value)?;
        }
        Ok(fields)
    }

    fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// The stamp of a row under an id as it is written: only what may be written counts.
    fn stamp_of(&self, id: &Value, row: &Map) -> String {
        let fields: Vec<(&str, Option<&Value>)> =
            self.columns.iter().map(|column| (column.name.as_str(), row.get(&column.name))).collect();
        stamp(&self.resource, id, &fields)
    }
}

impl RowId {
    fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
        }
    }
}

impl std::fmt::Display for RowId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) => out.write_str(text),
        }
    }
}

fn given<'a>(verb: &str, stamp: &'a Value) -> Result<&'a str, Failure> {
    let needs = || Failure::exception(format!("{verb} needs the stamp the row was read under - ask getOne for one"));
    stamp.as_str().ok_or_else(needs)
}

/// The field that holds the id of its row.
pub(super) const ID: &str = "id";
/// So many rows, and no more, fit into one collection.
const ROOM: usize = 1_000;
