//! Keys that stand twice in the text of one object. Every reader keeps another of the two, so that a document with such a
//! key does not say which contract it is.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Problem;
use super::problem::push_token;

/// How many are told.
const MOST: usize = 64;

/// The keys of this JSON text that stand more than once in their object, each with where. Text that is not JSON has those
/// found before it broke: whoever reads it tells the rest.
pub fn repeated_keys(text: &[u8]) -> Vec<Problem> {
    let (mut at, mut found) = (String::new(), Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(text);
    // What is not JSON, or more than is told, ends the reading.
    let _ = Walk { at: &mut at, found: &mut found }.deserialize(&mut reader);
    found
}

/// Reads one value, which stands at `at`.
struct Walk<'a> {
    at: &'a mut String,
    found: &'a mut Vec<Problem>,
}

impl Walk<'_> {
    fn part(&mut self, token: &str) -> Walk<'_> {
        push_token(self.at, token);
        Walk { at: self.at, found: self.found }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (mut known, here) = (HashSet::new(), self.at.len());
        while let Some(key) = map.next_key::<String>()? {
            let walk = self.part(&key);
            if known.contains(&key) {
                let what = "this key stands more than once in its object".to_owned();
                walk.found.push(Problem { pointer: walk.at.clone(), what });
                if walk.found.len() >= MOST {
                    return Err(A::Error::custom("enough"));
                }
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(walk)?;
                known.insert(key);
            }
            self.at.truncate(here);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let (mut number, here) = (0_usize, self.at.len());
        while list.next_element_seed(self.part(&number.to_string()))?.is_some() {
            self.at.truncate(here);
            number += 1;
        }
        self.at.truncate(here);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repeated_key_has_a_pointer() {
        let text = br#"{"a": {"x": 1, "y/~": [0, {"k": null, "k": {"k": 1}}], "x": 2.5}, "b": {"k": true}, "a": "s"}"#;
        let found: Vec<String> = repeated_keys(text).into_iter().map(|problem| problem.pointer).collect();
        assert_eq!(found, ["/a/y~1~0/1/k", "/a/x", "/a"]);
        assert!(repeated_keys(br#"{"a": {"k": 1}, "b": [{"k": -1}, {"k": 1e9}]}"#).is_empty());
    }

    /// The same key, however it is escaped.
    #[test]
    fn an_escaped_key_is_the_same_key() {
        assert_eq!(repeated_keys(br#"{"ab": 1, "a\u0062": 2}"#).len(), 1);
    }

    #[test]
    fn broken_and_endless_text_ends() {
        assert_eq!(repeated_keys(br#"{"a": 1, "a": 2, "#).len(), 1);
        let deep = format!("{}{}", r#"{"a":"#.repeat(100_000), "1");
        assert!(repeated_keys(deep.as_bytes()).is_empty());
        let many = format!("{{{}}}", vec![r#""a": 1"#; 10_000].join(","));
        assert_eq!(repeated_keys(many.as_bytes()).len(), MOST);
    }
}
