//! What a page shows against what came. `…` is whatever came there: within a line a part of it, alone on a line any number of
//! lines; in JSON a value, and as the last member or element any more of them. `<name>` in JSON is remembered.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

const ANYTHING: &str = "…";

/// Whether `came` is what is `shown`.
pub(super) fn is_shown(shown: &str, came: &str) -> bool {
    let mut pattern = String::from("^");
    for line in shown.lines() {
        if line.trim() == ANYTHING {
            pattern.push_str("(?:.*\n)*?");
        } else {
            let parts: Vec<String> = line.trim_end().split(ANYTHING).map(regex::escape).collect();
            pattern.push_str(&parts.join(".*"));
            pattern.push_str("[ \t]*\n");
        }
    }
    let whole = came.lines().chain([""]).collect::<Vec<_>>().join("\n");
    Regex::new(&(pattern + "$")).expect("all but the wildcard is escaped").is_match(&whole)
}

/// What the names in the answers of a page stand for.
#[derive(Default)]
pub(super) struct Names(BTreeMap<String, Value>);

impl Names {
    /// The arguments of a call, with what its names stand for.
    pub(super) fn put_into(&self, arguments: &mut Value) {
        match arguments {
            Value::String(text) => {
                if let Some(value) = self.0.get(text) {
                    *arguments = value.clone();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.put_into(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.put_into(member)),
            _ => {}
        }
    }

    /// The first place where `came` is not what is `shown`.
    pub(super) fn difference(&mut self, shown: &Value, came: &Value, at: &str) -> Option<String> {
        match (shown, came) {
            (Value::String(name), _) if name == ANYTHING => None,
            (Value::String(name), _) if name.starts_with('<') && name.ends_with('>') => {
                let known = self.0.entry(name.clone()).or_insert_with(|| came.clone());
                (known != came).then(|| format!("{at}: {name} was {known} and is {came}"))
            }
            (Value::Array(shown), Value::Array(came)) => self.elements(shown, came, at),
            (Value::Object(shown), Value::Object(came)) => {
                let open = shown.contains_key(ANYTHING);
                if let Some(more) = came.keys().find(|key| !open && !shown.contains_key(*key)) {
                    return Some(format!("{at}/{more} is not shown"));
                }
                let named = shown.iter().filter(|(key, _)| *key != ANYTHING);
                let mut differences = named.map(|(key, shown)| {
                    let place = format!("{at}/{key}");
                    let Some(came) = came.get(key) else { return Some(format!("{place} did not come")) };
                    self.difference(shown, came, &place)
                });
                differences.find_map(|difference| difference)
            }
            (Value::String(text), Value::String(came)) if text.contains(ANYTHING) => {
                (!is_shown(text, came)).then(|| format!("{at}: {came:?} is not {text:?}"))
            }
            _ => (shown != came).then(|| format!("{at}: {came} is not {shown}")),
        }
    }

    fn elements(&mut self, shown: &[Value], came: &[Value], at: &str) -> Option<String> {
        let open = shown.last().is_some_and(|last| last == ANYTHING);
        let named = if open { &shown[..shown.len() - 1] } else { shown };
        if came.len() < named.len() || (!open && came.len() > named.len()) {
            return Some(format!("{at} has {} elements", came.len()));
        }
        let pairs = named.iter().zip(came).enumerate();
        let mut differences = pairs.map(|(n, (shown, came))| self.difference(shown, came, &format!("{at}/{n}")));
        differences.find_map(|difference| difference)
    }
}

#[test]
fn what_is_not_shown_is_told_from_what_is() {
    for (shown, came) in [("a\n", "a"), ("a … c\n", "a b c"), ("…\nc\n", "a\nb\nc\n"), ("a\n…\n", "a\n"), ("", "")]
    {
        assert!(is_shown(shown, came), "{shown:?} {came:?}");
    }
    for (shown, came) in
        [("a\n", "b"), ("a\n", "a\nb"), ("a … c\n", "a b\nc"), ("a.c\n", "abc"), ("", "a"), ("a\n", "")]
    {
        assert!(!is_shown(shown, came), "{shown:?} {came:?}");
    }
    let differs = |shown: &str, came: &str| {
        let [shown, came] = [shown, came].map(|text| serde_json::from_str::<Value>(text).expect("it is JSON"));
        Names::default().difference(&shown, &came, "").is_some()
    };
    for (shown, came) in [
        (r#"{"a": "…"}"#, r#"{"a": 1}"#),
        (r#"{"a": 1, "…": "…"}"#, r#"{"a": 1, "b": 2}"#),
        (r#"[1, "…"]"#, "[1, 2, 3]"),
        (r#"["<x>", "<x>"]"#, "[1, 1]"),
        (r#""1 of …""#, r#""1 of 5""#),
    ] {
        assert!(!differs(shown, came), "{shown} {came}");
    }
    for (shown, came) in [
        (r#"{"a": 1}"#, r#"{"a": 1, "b": 2}"#),
        (r#"{"a": 1, "…": "…"}"#, r#"{"a": 2}"#),
        (r#"{"a": "…"}"#, "{}"),
        ("[1]", "[1, 2]"),
        (r#"[1, "…"]"#, "[]"),
        (r#"["<x>", "<x>"]"#, "[1, 2]"),
    ] {
        assert!(differs(shown, came), "{shown} {came}");
    }
}
