//! How a contract stands in its file: as other tools write it, to the byte, so that a directory can be shared with them.
//!
//! That is JSON with two spaces a level and a newline at the end, numbers as ECMAScript prints them, and of the keys of a
//! map those that look like array indexes first, in the order of their numbers, because the maps of those tools keep them
//! so.

use super::text::{ecma_number, is_plain, write_json, write_json_text};
use crate::wire::{Map, Value};

/// The document as the text of its file.
pub fn to_text(document: &Value) -> String {
    let mut out = String::new();
    write(&mut out, document, 0);
    out.push('\n');
    out
}

/// Whether the text of its file has at most so many bytes; else how many it has. Only what comes near is written for it.
///
/// # Errors
///
/// The length of a text that is longer.
pub fn fits(document: &Value, most: u64) -> Result<(), u64> {
    if longest(document, 0) <= most {
        return Ok(());
    }
    let bytes = to_text(document).len() as u64;
    if bytes <= most { Ok(()) } else { Err(bytes) }
}

/// A length that the text of a value does not pass, with the newline after it.
fn longest(value: &Value, level: u64) -> u64 {
    let member = |value: &Value| 2 + 2 * (level + 1) + longest(value, level + 1);
    let around = 4 + 2 * level;
    match value {
        Value::Text(text) => longest_text(text),
        Value::Bytes(bytes) | Value::Ext(_, bytes) => 8 * bytes.len() as u64 + 3,
        Value::Array(items) => around + items.iter().map(member).sum::<u64>(),
        Value::Map(map) => around + map.iter().map(|(key, value)| longest_text(key) + 2 + member(value)).sum::<u64>(),
        Value::Null | Value::Bool(_) => 6,
        Value::Int(_) | Value::Float(_) | Value::Date(_) => 26,
    }
}

fn longest_text(text: &str) -> u64 {
    let each = if is_plain(text) { 1 } else { 6 };
    each * text.len() as u64 + 3
}

fn write(out: &mut String, value: &Value, level: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            let items = items.iter().map(|item| (None, item));
            write_members(out, ('[', ']'), items, level);
        }
        Value::Map(map) if !map.is_empty() => {
            let members = in_order(map).into_iter().map(|(key, value)| (Some(key), value));
            write_members(out, ('{', '}'), members, level);
        }
        Value::Float(number) if number.is_finite() => out.push_str(&ecma_number(*number)),
        other => write_json(out, other),
    }
}

fn write_members<'v>(
    out: &mut String,
    (open, close): (char, char),
    members: impl Iterator<Item = (Option<&'v str>, &'v Value)>,
    level: usize,
) {
    out.push(open);
    for (at, (key, value)) in members.enumerate() {
        if at > 0 {
            out.push(',');
        }
        new_line(out, level + 1);
        if let Some(key) = key {
            write_json_text(out, key);
            out.push_str(": ");
        }
        write(out, value, level + 1);
    }
    new_line(out, level);
    out.push(close);
}

fn new_line(out: &mut String, level: usize) {
    out.push('\n');
    for _ in 0..level {
        out.push_str("  ");
    }
}

/// The members in the order in which an ECMAScript object holds them.
fn in_order(map: &Map) -> Vec<(&str, &Value)> {
    let (mut indexes, mut names) = (Vec::new(), Vec::new());
    for (key, value) in map.iter() {
        match index(key) {
            Some(number) => indexes.push((number, (key, value))),
            None => names.push((key, value)),
        }
    }
    indexes.sort_by_key(|(number, _)| *number);
    indexes.into_iter().map(|(_, member)| member).chain(names).collect()
}

/// The number of a key that an ECMAScript object takes for an index.
fn index(key: &str) -> Option<u32> {
    let plain = key == "0" || (!key.starts_with('0') && key.bytes().all(|byte| byte.is_ascii_digit()));
    key.parse().ok().filter(|number| plain && *number < u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::from_json;

    fn written(json: &str) -> String {
        to_text(&from_json(serde_json::from_str(json).unwrap()))
    }

    /// semantics.md 4: two spaces, a newline at the end, and what is empty stays on its line. The right side is what
    /// `JSON.stringify(JSON.parse(left), null, 2)` gives.
    #[test]
    fn text_is_as_other_tools_write_it() {
        for (json, text) in [
            ("{}", "{}\n"),
            ("[]", "[]\n"),
            (
                r#"{"a":[1,{"b":[]}],"c":{}}"#,
                "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}\n",
            ),
            (
                "[1.0,1e21,1e-7,-0.0,0.1,9007199254740993]",
                "[\n  1,\n  1e+21,\n  1e-7,\n  0,\n  0.1,\n  9007199254740992\n]\n",
            ),
            (
                r#"{"b":1,"10":2,"9":3,"01":4,"-1":5}"#,
                "{\n  \"9\": 3,\n  \"10\": 2,\n  \"b\": 1,\n  \"01\": 4,\n  \"-1\": 5\n}\n",
            ),
            (r#"{"4294967295":1,"4294967294":2}"#, "{\n  \"4294967294\": 2,\n  \"4294967295\": 1\n}\n"),
            ("\"\\u00e5\\u2028\\u0001\\u007f\\/\\\"\"", "\"å\u{2028}\\u0001\u{7f}/\\\"\"\n"),
        ] {
            assert_eq!(written(json), text);
        }
    }

    /// The bound that spares the writing is never passed, and nowhere far above a contract.
    #[test]
    fn what_is_too_long_is_told_to_the_byte() {
        let packaging = include_str!("../../contracts/packaging.types.json");
        for json in
            [packaging, "[\"\\u0001\",1e21,-1.7976931348623157e308,{\"\":null,\"9\":[],\"a\":{}}]", "{}", "\"x\"", "5"]
        {
            let document = from_json(serde_json::from_str(json).unwrap());
            let exact = to_text(&document).len() as u64;
            assert_eq!((fits(&document, exact), fits(&document, exact - 1)), (Ok(()), Err(exact)), "{json}");
            assert!(longest(&document, 0) >= exact, "{json}");
        }
        let document = from_json(serde_json::from_str(packaging).unwrap());
        assert!(longest(&document, 0) < packaging.len() as u64 * 3 / 2);
    }

    /// What the repository's own contracts hold is what would be written.
    #[test]
    fn contracts_of_ours_are_as_written() {
        let text = include_str!("../../contracts/packaging.types.json");
        assert_eq!(written(text), text);
    }
}
