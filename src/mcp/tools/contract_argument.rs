//! A contract as tools take one: the document itself, or the name of one that is kept.

use serde_json::{Map, Value as Json};

use crate::{
    mcp::{ToolError, check::bad_argument},
    plant::{ContractName, ContractSource},
    wire::{Value, json::from_json},
};

/// The contract a call gives, by either of its two arguments.
pub(super) fn contract_source(schema: Option<Value>, contract: Option<&str>) -> Result<ContractSource, ToolError> {
    match (schema, contract) {
        (Some(schema), None) => Ok(ContractSource::Inline(schema)),
        (None, Some(name)) => Ok(ContractSource::Saved(contract_name(name, "/contract")?)),
        (Some(_), Some(_)) => {
            Err(bad_argument("/contract", "either `schema` or `contract`", "both").fix("leave one of them out"))
        }
        (None, None) => {
            Err(bad_argument("/schema", "a contract document, or `contract` with the name of one", "neither"))
        }
    }
}

/// A document as it came: in a contract nothing is tagged.
pub(super) fn document(schema: Map<String, Json>) -> Value {
    from_json(Json::Object(schema))
}

/// The same of a document that is still needed.
pub(super) fn copied(schema: &Map<String, Json>) -> Value {
    Value::Map(schema.iter().map(|(key, value)| (key.clone(), copy(value))).collect())
}

fn copy(json: &Json) -> Value {
    match json {
        Json::Array(items) => Value::Array(items.iter().map(copy).collect()),
        Json::Object(members) => copied(members),
        other => from_json(other.clone()),
    }
}

/// The name of a contract, given as the argument at `pointer`.
pub(super) fn contract_name(text: &str, pointer: &str) -> Result<ContractName, ToolError> {
    ContractName::parse(text).map_err(|fault| {
        bad_argument(pointer, "the name of a contract", "another text")
            .problem(format!("'{text}' is not a usable contract name: {fault}"))
            .fix("give a name such as oven or line-2.2026")
    })
}
