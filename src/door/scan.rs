//! What can be said of a line without parsing it: how deep it nests, how much it holds, which id it names. Pure, in one
//! pass and constant memory, so that it can run before the parser and over lines that are never kept.

use memchr::memchr2;
use serde_json::{Number, Value as Json};

/// Why a line is not worth parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// It nests deeper than [`MAX_DEPTH`].
    Depth,
    /// It holds more than [`MAX_VALUES`] values.
    Values,
}

/// How deep a line may nest. No valid message does, and the parser itself stops a little later.
pub const MAX_DEPTH: usize = 100;
/// How many values a line may hold: a small value takes thirty times its bytes once parsed, so 32 MiB of them would not be
/// a bound.
pub const MAX_VALUES: usize = 1_000_000;

/// Measures `line`; strings do not count.
///
/// # Errors
///
/// Why the line must not be parsed.
pub fn measure(line: &[u8]) -> Result<(), Excess> {
    let (mut depth, mut values) = (0_usize, 0_usize);
    let mut rest = line;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => rest = after_string(after),
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(Excess::Depth);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' => {
                values += 1;
                if values > MAX_VALUES {
                    return Err(Excess::Values);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// What follows the string that `rest` is inside of.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let escaped = rest.get(at) == Some(&b'\\');
        rest = rest.get(at + 1 + usize::from(escaped)..).unwrap_or_default();
        if !escaped {
            return rest;
        }
    }
    &[]
}

/// Finds the id a line names, reading it in pieces.
#[derive(Debug, Default)]
pub struct IdScan {
    depth: usize,
    within: Within,
    escaped: bool,
    /// At a place where a key of the outermost object may stand.
    at_key: bool,
    /// The key just read is `id`.
    is_id: bool,
    token: Vec<u8>,
    found: Option<Json>,
    done: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Within {
    #[default]
    Nothing,
    /// A string nobody needs.
    Other,
    Key,
    Text,
    Number,
}

impl IdScan {
    /// The id named by a whole line.
    pub fn of(line: &[u8]) -> Option<Json> {
        let mut scan = Self::default();
        scan.feed(line);
        scan.id()
    }

    /// Reads on.
    pub fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !self.done {
            // Most of a long line is strings and nesting that cannot hold the id.
            if self.within == Within::Other && !self.escaped {
                let Some(at) = memchr2(b'"', b'\\', rest) else { return };
                rest = rest.get(at..).unwrap_or_default();
            }
            let Some((byte, after)) = rest.split_first() else { return };
            rest = after;
            match self.within {
                Within::Other | Within::Key | Within::Text => self.in_string(*byte),
                Within::Nothing | Within::Number => self.outside(*byte),
            }
        }
    }

    /// The id, if one was named: a string or a number of sensible length.
    pub fn id(mut self) -> Option<Json> {
        self.end_number();
        self.found
    }

    fn in_string(&mut self, byte: u8) {
        if !self.escaped && byte == b'"' {
            self.end_string();
            return;
        }
        self.escaped = !self.escaped && byte == b'\\';
        self.keep(byte);
    }

    fn end_string(&mut self) {
        match self.within {
            Within::Key => self.is_id = self.token == b"id",
            Within::Text => {
                let mut quoted = vec![b'"'];
                quoted.extend_from_slice(&self.token);
                quoted.push(b'"');
                self.found = serde_json::from_slice(&quoted).ok().filter(|_| self.token.len() <= MAX_ID);
                self.done = true;
            }
            Within::Nothing | Within::Other | Within::Number => {}
        }
        self.within = Within::Nothing;
    }

    fn outside(&mut self, byte: u8) {
        if self.within == Within::Number && !byte.is_ascii_alphanumeric() && !b"+-.".contains(&byte) {
            self.end_number();
            return;
        }
        match byte {
            b'"' => self.begin_string(),
            b'{' | b'[' => {
                // A batch names no id, and neither does an id that is an object or a list.
                self.done = (self.depth == 0 && byte == b'[') || (self.depth == 1 && self.is_id);
                self.depth += 1;
                self.at_key = self.depth == 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.done = self.depth == 0;
            }
            b',' if self.depth == 1 => (self.at_key, self.is_id) = (true, false),
            b':' if self.depth == 1 => self.at_key = false,
            b'-' | b'0'..=b'9' if self.depth == 1 && self.is_id && self.within == Within::Nothing => {
                self.token.clear();
                self.within = Within::Number;
                self.keep(byte);
            }
            _ => self.keep(byte),
        }
    }

    fn begin_string(&mut self) {
        self.token.clear();
        self.within = match (self.depth, self.at_key, self.is_id) {
            (1, true, _) => Within::Key,
            (1, false, true) => Within::Text,
            _ => Within::Other,
        };
    }

    fn end_number(&mut self) {
        if self.within == Within::Number {
            self.found = serde_json::from_slice::<Number>(&self.token).ok().map(Json::Number);
            self.done = true;
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.within != Within::Other && self.within != Within::Nothing && self.token.len() <= MAX_ID {
            self.token.push(byte);
        }
    }
}

/// Bytes an id may have.
pub const MAX_ID: usize = 1_024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// results.md 5: 100 levels pass, 101 do not; brackets in strings are text.
    #[test]
    fn depth_is_measured_outside_strings() {
        let nest = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(measure(nest(100).as_bytes()), Ok(()));
        assert_eq!(measure(nest(101).as_bytes()), Err(Excess::Depth));
        assert_eq!(measure(format!("{{\"a\\\"{}\":\"\\\\\",\"b\":1}}", "[".repeat(200)).as_bytes()), Ok(()));
        assert_eq!(measure(format!("[\"\\\\\",{}]", nest(100)).as_bytes()), Err(Excess::Depth));
        assert_eq!(measure(b"]]]]\"unterminated [[["), Ok(()));
    }

    #[test]
    fn values_are_counted() {
        assert_eq!(measure("0,".repeat(MAX_VALUES).as_bytes()), Ok(()));
        assert_eq!(measure("0,".repeat(MAX_VALUES + 1).as_bytes()), Err(Excess::Values));
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        for (line, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"x"}"#, Some(json!(7))),
            (r#"{"params":{"id":1,"a":["id",{"id":2}]},"id":"a\"b\u00e9"}"#, Some(json!("a\"bé"))),
            (r#" { "x" : "id" , "id" : -1.5e3 } "#, Some(json!(-1500.0))),
            (r#"{"id":12"#, Some(json!(12))),
            (r#"{"id":null,"x":1}"#, None),
            (r#"{"id":{"id":1}}"#, None),
            (r#"[{"id":1}]"#, None),
            (r#"{"x":"\\","id":3}"#, Some(json!(3))),
            (r#"{"method":"id","y":5}"#, None),
            (r#"{"id":tru"#, None),
            (r#"{"id":"unterminated"#, None),
            ("", None),
        ] {
            assert_eq!(IdScan::of(line.as_bytes()), id, "{line}");
        }
        assert_eq!(IdScan::of(format!("{{\"id\":\"{}\"}}", "x".repeat(MAX_ID + 1)).as_bytes()), None);
    }

    proptest! {
        /// In pieces or whole, the same id; and no bytes panic.
        #[test]
        fn pieces_make_no_difference(line in prop::collection::vec(prop::sample::select(b"{}[],:\"\\id1 -x".to_vec()), 0..64), at in 0usize..64) {
            let (left, right) = line.split_at(at.min(line.len()));
            let mut scan = IdScan::default();
            scan.feed(left);
            scan.feed(right);
            prop_assert_eq!(scan.id(), IdScan::of(&line));
            let _ = measure(&line);
        }

        /// Every id of a well-formed request is found.
        #[test]
        fn every_id_is_found(id in prop_oneof![any::<i64>().prop_map(|id| json!(id)), ".{0,20}".prop_map(|id| json!(id))], before in any::<bool>()) {
            let params = json!({"arguments": {"id": [1, "id"], "text": "\"id\":5,{"}});
            let line = if before {
                format!("{{\"id\":{id},\"params\":{params}}}")
            } else {
                format!("{{\"params\":{params},\"id\":{id}}}")
            };
            prop_assert_eq!(IdScan::of(line.as_bytes()), Some(id));
        }
    }
}
