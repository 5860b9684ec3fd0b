//! What is wrong with a document, and where.

use std::fmt;

/// One thing wrong with a document, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON Pointer to the part that is wrong; empty for the whole.
    pub pointer: String,
    /// What is wrong, as one clause.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            return out.write_str(&self.what);
        }
        write!(out, "{}: {}", self.pointer, self.what)
    }
}

/// Goes on with one more token of a JSON Pointer.
pub(super) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    if !token.contains(['~', '/']) {
        return pointer.push_str(token);
    }
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}
