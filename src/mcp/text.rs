//! Text from the plant, made harmless to show (F-36).
//!
//! JSON already escapes the C0 controls. It lets through what changes how text is *shown* without being seen: DEL and the
//! C1 controls (terminal sequences), bidirectional marks and overrides, line and paragraph separators, invisible
//! operators, the byte order mark and the tag characters that hide a second text in the first. In every text form of ours
//! these are written as `\u` escapes. Inside a JSON document that changes nothing: it parses to the same value, so
//! `structuredContent` keeps the value exactly and the text form stays the same JSON. Zero-width joiners are left alone:
//! ordinary writing in several scripts needs them.

use std::{fmt::Write as _, io};

use serde::Serialize;
use serde_json::{
    Value as Json,
    ser::{CompactFormatter, Formatter, PrettyFormatter},
};

/// Whether `c` must not be shown as it is.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0x061C | 0x180E | 0x200B | 0x200E | 0x200F | 0x2028..=0x202E | 0x2060..=0x206F
            | 0xFEFF | 0xFFF9..=0xFFFB | 0xE0000..=0xE0FFF)
}

/// The JSON of `value`, two-space indented, with nothing unsafe in it.
pub fn pretty(value: &impl Serialize) -> String {
    write_with(value, Safe(PrettyFormatter::with_indent(b"  ")))
}

/// The JSON of `value` on one line, with nothing unsafe in it.
pub fn compact(value: &impl Serialize) -> String {
    write_with(value, Safe(CompactFormatter))
}

/// Writes the JSON of `value`, as [`compact`] does, behind what is there.
///
/// # Errors
///
/// `value` has no JSON; part of it may have been written.
pub fn write(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), serde_json::Error> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Safe(CompactFormatter)))
}

/// `text` on one line: unsafe characters and backslashes escaped, nothing cut.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if is_unsafe(c) => escape(&mut out, c),
            c => out.push(c),
        }
    }
    out
}

/// The first `most` characters of `text` that can be shown as they are; the others are left out. For log lines.
pub fn printable(text: &str, most: usize) -> String {
    text.chars().filter(|c| !is_unsafe(*c)).take(most).collect()
}

/// `text` cut to at most `bytes` bytes at a character boundary, with an ellipsis when something was cut.
pub fn cut(text: &str, bytes: usize) -> (&str, bool) {
    if text.len() <= bytes {
        return (text, false);
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(ELLIPSIS.len()));
    (text.get(..end).unwrap_or_default(), true)
}

/// What stands where something was cut.
pub const ELLIPSIS: &str = "…";

fn write_with(value: &impl Serialize, formatter: impl Formatter) -> String {
    let mut out = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(problem) => Json::String(format!("not representable: {problem}")).to_string(),
    }
}

fn escape(out: &mut String, c: char) {
    let mut units = [0; 2];
    for unit in c.encode_utf16(&mut units) {
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// A JSON formatter that escapes what [`is_unsafe`] names, on top of another that lays out the document.
struct Safe<F>(F);

impl<F: Formatter> Formatter for Safe<F> {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut escaped = String::with_capacity(fragment.len());
        for c in fragment.chars() {
            if is_unsafe(c) { escape(&mut escaped, c) } else { escaped.push(c) }
        }
        writer.write_all(escaped.as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F-36: control and invisible characters are escaped, and the document keeps its value.
    #[test]
    fn unsafe_characters_are_escaped_without_changing_the_value() {
        let hostile =
            "a\u{1b}[31m\u{9b}2J\u{7f}\u{202e}txt\u{2066}\u{2028}\u{feff}\u{e0041}\u{200b}é漢\u{200d}😀\"\\\n";
        let value = serde_json::json!({ hostile: [hostile, 1, {"k": hostile}] });
        for text in [pretty(&value), compact(&value)] {
            assert!(text.chars().all(|c| c == '\n' || !is_unsafe(c)), "{text}");
            assert!(text.contains("é漢\u{200d}😀"), "ordinary text stays readable");
            assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), value);
        }
    }

    /// results.md 1: two-space indented, laid out as everybody's pretty printer does.
    #[test]
    fn json_lays_out_as_usual() {
        let value = serde_json::json!({"a": [1, {"b": null}], "c": {}, "d": []});
        assert_eq!(pretty(&value), serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(compact(&value), value.to_string());
        let mut written = b"> ".to_vec();
        write(&mut written, &value).unwrap();
        assert_eq!(written, format!("> {value}").into_bytes());
    }

    #[test]
    fn cut_keeps_whole_characters() {
        assert_eq!(cut("abc", 3), ("abc", false));
        assert_eq!(cut("ééé", 5), ("é", true));
        assert_eq!(cut("abcdef", 1), ("", true));
    }

    #[test]
    fn printable_leaves_out_what_cannot_be_shown() {
        assert_eq!(printable("a\u{1b}b\u{202e}cd", 3), "abc");
    }
}
