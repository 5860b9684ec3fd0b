//! The JSON Schemas a tool publishes, from the structs it works with: closed, short, readable by every client.
//!
//! Inputs are JSON Schema 2020-12 with everything inlined and no combinator at the top (some clients refuse the whole list
//! otherwise). An optional argument is left out, not sent as null. Outputs are one object in which the success fields and
//! the `error` object stand side by side, and nothing is required at the top that a failure would lack (results.md 1).

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value as Json, json};

/// The schema of the arguments `A`.
pub fn input<A: JsonSchema>() -> Map<String, Json> {
    let mut schema = object(SchemaSettings::draft2020_12(), A::json_schema_of);
    tidy_members(&mut schema, Side::Input);
    schema.remove("description");
    schema
}

/// The schema of the structured content: the result `R`, or an error.
pub fn output<R: JsonSchema>() -> Map<String, Json> {
    let mut schema = object(SchemaSettings::draft2020_12().for_serialize(), R::json_schema_of);
    tidy_members(&mut schema, Side::Output);
    for key in ["description", "required", "additionalProperties"] {
        schema.remove(key);
    }
    schema.insert("type".to_owned(), "object".into());
    if let Json::Object(properties) = schema.entry("properties").or_insert_with(|| json!({})) {
        properties.insert("error".to_owned(), error());
    }
    schema
}

/// Whether any of `keys` stands at the top of `schema`.
pub fn combinator_at_top(schema: &Map<String, Json>) -> Option<&'static str> {
    ["oneOf", "anyOf", "allOf", "not", "if", "enum", "$ref"].into_iter().find(|key| schema.contains_key(*key))
}

trait SchemaOf: JsonSchema {
    fn json_schema_of(settings: SchemaSettings) -> Json {
        settings.into_generator().into_root_schema_for::<Self>().to_value()
    }
}

impl<T: JsonSchema + ?Sized> SchemaOf for T {}

fn object(settings: SchemaSettings, generate: impl FnOnce(SchemaSettings) -> Json) -> Map<String, Json> {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    match generate(settings) {
        Json::Object(members) => members,
        _ => Map::new(),
    }
}

/// What a failure looks like. Short, because it stands in every tool.
fn error() -> Json {
    json!({
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "cause": {"type": "string"},
            "fix": {"type": "string"},
            "retryable": {"type": "boolean"},
            "outcome": {"type": "string", "enum": ["not_run", "ran", "unknown"]}
        },
        "required": ["code", "message", "cause", "fix", "retryable"]
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Input,
    Output,
}

fn tidy(schema: &mut Json, side: Side) {
    match schema {
        Json::Object(members) => tidy_members(members, side),
        // Anything goes; some clients do not know that a schema can be a boolean.
        Json::Bool(true) => *schema = json!({}),
        _ => {}
    }
}

fn tidy_members(members: &mut Map<String, Json>, side: Side) {
    for key in ["$schema", "title", "format"] {
        members.shift_remove(key);
    }
    if let Some(items) = members.get_mut("items") {
        tidy(items, side);
    }
    if let Some(Json::Object(values)) = members.get_mut("additionalProperties") {
        tidy_members(values, side);
    }
    if let Some(Json::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(|property| tidy(property, side));
    }
    for key in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        if let Some(Json::Array(options)) = members.get_mut(key) {
            for option in options {
                tidy(option, side);
            }
        }
    }
    if let Some(Json::String(description)) = members.get_mut("description") {
        *description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    merge_constants(members);
    if side == Side::Input {
        drop_null(members);
    }
}

/// A choice of constants, each with its own description, becomes one `enum`.
fn merge_constants(members: &mut Map<String, Json>) {
    let Some(Json::Array(options)) = members.get("oneOf") else { return };
    let mut names = Vec::new();
    for option in options {
        match (option.get("const"), option.get("enum")) {
            (Some(name), None) => names.push(name.clone()),
            (None, Some(Json::Array(more))) => names.extend(more.iter().cloned()),
            _ => return,
        }
    }
    if names.iter().all(Json::is_string) {
        members.shift_remove("oneOf");
        members.insert("type".to_owned(), "string".into());
        members.insert("enum".to_owned(), names.into());
    }
}

/// What may be left out need not be null.
fn drop_null(members: &mut Map<String, Json>) {
    if members.get("default") == Some(&Json::Null) {
        members.shift_remove("default");
    }
    if let Some(Json::Array(types)) = members.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(Json::Array(names)) = members.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    let Some(Json::Array(options)) = members.get_mut("anyOf") else { return };
    options.retain(|option| option.get("type").is_none_or(|kind| kind != "null"));
    if let [Json::Object(only)] = options.as_slice() {
        let only = only.clone();
        members.shift_remove("anyOf");
        for (key, value) in only {
            members.entry(key).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::mcp::page::{Format, Limit, PageInfo};

    /// What it is for.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its schema is read")]
    struct Args {
        /// Which
        /// peer.
        peer: String,
        #[serde(default)]
        limit: Limit,
        #[serde(default)]
        format: Format,
        seconds: Option<u8>,
        choice: Option<Format>,
        title: Option<Vec<String>>,
        value: Option<Json>,
    }

    #[derive(Serialize, JsonSchema)]
    struct Answer {
        peers: Vec<String>,
        #[serde(flatten)]
        page: PageInfo,
        note: Option<String>,
    }

    /// results.md 3: closed, everything inlined, no null for what may be left out.
    #[test]
    fn inputs_are_closed_and_short() {
        assert_eq!(
            Json::Object(input::<Args>()),
            json!({
                "type": "object",
                "properties": {
                    "peer": {"description": "Which peer.", "type": "string"},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50,
                              "description": "Most entries of a page."},
                    "format": {"description": "How much of each entry to show.", "type": "string",
                               "enum": ["concise", "detailed"], "default": "concise"},
                    "seconds": {"type": "integer", "minimum": 0, "maximum": 255},
                    "choice": {"description": "How much of each entry to show.", "type": "string",
                               "enum": ["concise", "detailed"]},
                    "title": {"type": "array", "items": {"type": "string"}},
                    "value": {}
                },
                "required": ["peer"],
                "additionalProperties": false
            })
        );
    }

    /// results.md 1: success fields and `error` side by side; nothing required that an error lacks.
    #[test]
    fn outputs_hold_success_or_error() {
        let schema = output::<Answer>();
        assert_eq!(schema["type"], "object");
        assert!(combinator_at_top(&schema).is_none() && !schema.contains_key("required"));
        let properties = schema["properties"].as_object().unwrap();
        let keys: Vec<_> = properties.keys().map(String::as_str).collect();
        for key in ["peers", "note", "matched", "returned", "truncated", "hint", "next_cursor", "error"] {
            assert!(keys.contains(&key), "{keys:?}");
        }
    }
}
