//! A store of rows, pure: collections that somebody else may change as well, so that a change needs the stamp its row was
//! read under (semantics 9.2). It speaks as a store does: what was written, what is missing and what is in conflict are
//! answers, what does not fit is refused in a sentence.
//!
//! Whoever serves one says what a row is ([`Column`]) and completes a new one.

mod column;
mod table;

pub use column::{Column, Holds};
pub use table::{Fault, Key, RowId, Table};

use crate::{
    node::Failure,
    wire::{Map, Value, json::ecma_number},
};

/// All collections of one store.
#[derive(Clone, Debug)]
pub struct Store {
    tables: Vec<Table>,
    changed: bool,
}

/// The methods a store answers.
pub const METHODS: [&str; 6] = ["writable", "getOne", "create", "update", "delete", "refresh"];

impl Store {
    /// A store of these collections.
    pub const fn new(tables: Vec<Table>) -> Self {
        Self { tables, changed: false }
    }

    /// The collections.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The collection called `resource`.
    pub fn table_mut(&mut self, resource: &str) -> Option<&mut Table> {
        self.tables.iter_mut().find(|table| table.resource() == resource)
    }

    /// Whether a row changed since this was last asked.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// A call of one of [`METHODS`]. `complete` adds to a new row what the store itself says of it.
    ///
    /// # Errors
    /// What a store refuses, in a sentence.
    pub fn call(&mut self, method: &str, args: &[Value], complete: impl FnOnce(&mut Map)) -> Result<Value, Failure> {
        let nothing = Value::Null;
        let arg = |at: usize| args.get(at).unwrap_or(&nothing);
        match method {
            "writable" => return Ok(self.tables.iter().map(Table::writable).collect::<Vec<_>>().into()),
            "refresh" => return Ok(self.refreshed()),
            _ => {}
        }
        let named = arg(0).as_str();
        let Some(table) = self.tables.iter_mut().find(|table| named == Some(table.resource())) else {
            let accepts: Vec<&str> = self.tables.iter().map(Table::resource).collect();
            let sentence = format!(
                "{} is not writable on this node - it accepts writes to {}",
                text_of(arg(0)),
                accepts.join(", ")
            );
            return refuse(sentence);
        };
        let (answer, changed) = match method {
            "getOne" => (table.get_one(arg(1))?, false),
            "create" => (table.create(arg(1), complete)?, true),
            "update" => table.update(arg(1), arg(2), arg(3))?,
            "delete" => table.delete(arg(1), arg(2))?,
            _ => return Err(Failure::coded("MethodNotFound", format!("{method} is not exposed"))),
        };
        self.changed |= changed;
        Ok(answer)
    }

    fn refreshed(&self) -> Value {
        let mut answer = Map::new();
        answer.insert("writable", i64::try_from(self.tables.len()).unwrap_or(i64::MAX));
        answer.insert("refused", Value::Array(Vec::new()));
        answer.into()
    }
}

fn status(word: &str) -> Map {
    let mut answer = Map::new();
    answer.insert("status", word);
    answer
}

fn refuse<T>(sentence: String) -> Result<T, Failure> {
    Err(Failure::exception(sentence))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.as_f64().map_or_else(|| kind(value).into(), ecma_number), str::to_owned)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) | Value::Float(_) => "number",
        Value::Text(_) => "string",
        Value::Date(_) => "date",
        Value::Bytes(_) | Value::Ext(..) => "byte string",
        Value::Array(_) => "list",
        Value::Map(_) => "object",
    }
}
