//! What a fake holds at first: rows and state, as its script says.

use super::{
    plan,
    rows::{Column, Fault, Key, Store, Table},
    script::{Reader, some},
};
use crate::{
    contract::{Field, Namespace, TypeNode, Types, validate},
    wire::{Map, Value},
};

/// The rows behind a namespace that writes them: `{resource: {id: row}}`.
pub(super) fn store(reader: &mut Reader<'_>, namespace: &Namespace, value: &Value) -> Option<Store> {
    let writes = ["getOne", "create", "update", "delete"];
    if !namespace.methods.iter().any(|method| writes.contains(&method.name.as_str())) {
        reader.problem(format!("{} has none of the methods of a store: {}", namespace.name, writes.join(", ")));
        return None;
    }
    let read_half = read_half(reader, namespace);
    let map = reader.map(value)?;
    let mut tables = Vec::new();
    for (resource, rows) in map.iter() {
        let declared = read_half.and_then(|state| row_type(state, resource, reader.types()));
        tables.extend(reader.at(resource, |reader| table(reader, resource, declared, rows)));
    }
    Some(Store::new(tables))
}

/// What a component holds: fields of its state that replace samples.
pub(super) fn state(reader: &mut Reader<'_>, namespace: &Namespace, value: &Value) -> Option<Map> {
    let Some(component) = &namespace.component else {
        let components = super::served(reader.contract).filter(|other| other.component.is_some());
        let components = some(components.map(|other| other.name.as_str()));
        reader.problem(format!("{} is no component, so it holds no state; components: {components}", namespace.name));
        return None;
    };
    let given = reader.map(value)?;
    let node = component.state.as_ref()?;
    // A date in the samples is any moment here: what is checked is what was given.
    let whole = plan::state_of(node, reader.types(), given, 0);
    if let Err(text) = validate::value(&whole.into(), node, reader.types(), "state") {
        reader.problem(format!("with the samples of the rest: {text}"));
        return None;
    }
    Some(given.clone())
}

/// The state of the namespace that shows the rows of this one, by convention called the same without `.write`.
fn read_half<'c>(reader: &Reader<'c>, writer: &Namespace) -> Option<&'c TypeNode> {
    let name = shown_by(&writer.name)?;
    super::served(reader.contract).find(|other| other.name == name)?.component.as_ref()?.state.as_ref()
}

/// The namespace that shows what `writer` writes.
pub(super) fn shown_by(writer: &str) -> Option<&str> {
    writer.strip_suffix(".write")
}

/// The fields of a row, if the read half declares the resource as a map of objects.
fn row_type<'t>(state: &'t TypeNode, resource: &str, types: &'t Types) -> Option<&'t TypeNode> {
    let TypeNode::Object { fields, .. } = types.resolve(state)? else { return None };
    let field = fields.iter().find(|field| field.name == resource)?;
    let TypeNode::Record { values, .. } = types.resolve(&field.node)? else { return None };
    Some(values)
}

fn table(reader: &mut Reader<'_>, resource: &str, declared: Option<&TypeNode>, value: &Value) -> Option<Table> {
    let rows = reader.map(value)?;
    let types = reader.types();
    let fields = match declared.and_then(|node| types.resolve(node)) {
        Some(TypeNode::Object { fields, .. }) => Some(fields.as_slice()),
        _ => None,
    };
    let key = if rows.iter().all(|(id, _)| is_number(id)) { Key::Integer } else { Key::Text };
    let shows_id = fields.is_some_and(|fields| fields.iter().any(|field| field.name == ID));
    let columns = fields.map_or_else(|| columns_of(rows), |fields| columns(fields, types));
    let mut table = Table::new(resource, key, shows_id, columns, 1);
    for (id, row) in rows.iter() {
        reader.at(id, |reader| place(reader, &mut table, declared, id, row));
    }
    Some(table)
}

fn place(reader: &mut Reader<'_>, table: &mut Table, declared: Option<&TypeNode>, id: &str, row: &Value) {
    let Some(row) = reader.map(row) else { return };
    let fault = match table.place(id, row.clone()) {
        Ok(()) => None,
        Err(Fault::Full) => Some("there are more rows than a collection has room for"),
        Err(Fault::Twice) => Some("another row has the same id"),
        Err(Fault::Id) => Some("that is no id"),
    };
    if let Some(fault) = fault {
        return reader.problem(fault);
    }
    let placed = table.row(id).cloned().map(Value::from);
    if let Some(Err(text)) = declared.zip(placed).map(|(node, row)| validate::value(&row, node, reader.types(), "row"))
    {
        reader.problem(text);
    }
}

/// The columns a row's type declares; its id is the store's.
fn columns(fields: &[Field], types: &Types) -> Vec<Column> {
    fields.iter().filter(|field| field.name != ID).map(|field| Column::declared(field, types)).collect()
}

/// The columns that are there, where no type says.
fn columns_of(rows: &Map) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for (name, _) in rows.iter().filter_map(|(_, row)| row.as_map()).flat_map(Map::iter) {
        if name != ID && !columns.iter().any(|column| column.name == name) && columns.len() < MAX_COLUMNS {
            columns.push(Column::anything(name));
        }
    }
    columns
}

/// A number as it is written canonically.
fn is_number(id: &str) -> bool {
    id.parse::<i64>().is_ok_and(|number| number.to_string() == id)
}

/// The field that holds the id of its row.
const ID: &str = "id";
/// Columns where no type says which there are.
const MAX_COLUMNS: usize = 256;
