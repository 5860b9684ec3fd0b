//! Text as ECMAScript peers print it: numbers, JSON and the order of names.
//!
//! Messages and the shape hash must come out equal on both sides to the byte, and those sides print with ECMAScript.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::wire::Value;

/// Compares two names by UTF-16 code unit, which is not the order of Rust strings above U+FFFF (S-026).
pub(crate) fn by_code_unit(left: &str, right: &str) -> Ordering {
    left.encode_utf16().cmp(right.encode_utf16())
}

/// A number as ECMAScript prints it: the shortest digits that read back, minus zero as `0`.
pub(crate) fn ecma_number(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
    if number.fract() == 0.0 && number.abs() < PLAIN {
        // Most numbers of a contract.
        return (number as i64).to_string();
    }
    let sign = if number < 0.0 { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}Infinity");
    }
    let (digits, exponent) = shortest(number.abs());
    format!("{sign}{}", lay_out(&digits, exponent))
}

/// The shortest digits that read back, and the power of ten of the first.
///
/// Not those of Rust's own formatting: of two candidates equally near, ECMAScript engines take the even one, Rust the
/// greater (1889028162979489.25 is the least surprising example).
fn shortest(number: f64) -> (String, i32) {
    let text = serde_json::to_string(&number).unwrap_or_default();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let skipped = digits.len() - significant.len();
    let place = |count: usize| i32::try_from(count).unwrap_or(0);
    let exponent: i32 = exponent.parse().unwrap_or(0);
    (significant.trim_end_matches('0').to_owned(), exponent + place(whole.len()) - 1 - place(skipped))
}

/// Places the point among `digits`, whose first stands for 10^`exponent`.
fn lay_out(digits: &str, exponent: i32) -> String {
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let point = exponent + 1;
    if (1..=21).contains(&point) {
        if count <= point {
            return format!("{digits}{}", zeros(point - count));
        }
        let (whole, fraction) = digits.split_at_checked(usize::try_from(point).unwrap_or(0)).unwrap_or((digits, ""));
        return format!("{whole}.{fraction}");
    }
    if (-5..=0).contains(&point) {
        return format!("0.{}{digits}", zeros(-point));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, ""));
    let dot = if rest.is_empty() { "" } else { "." };
    format!("{first}{dot}{rest}e{sign}{}", exponent.unsigned_abs())
}

/// Whole numbers below it are exact, and print as integers do.
const PLAIN: f64 = 9e15;

/// Appends text as a JSON string, escaped exactly where ECMAScript escapes.
pub(crate) fn write_json_text(out: &mut String, text: &str) {
    out.push('"');
    if is_plain(text) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whether nothing in the text is escaped in JSON.
pub(super) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
}

/// Appends a value as compact JSON. Contracts hold JSON alone; what JSON lacks prints as something that still differs
/// when the value does.
pub(crate) fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(bit) => out.push_str(if *bit { "true" } else { "false" }),
        Value::Int(_) | Value::Float(_) => match value.as_f64() {
            Some(number) if number.is_finite() => out.push_str(&ecma_number(number)),
            _ => out.push_str("null"),
        },
        Value::Text(text) => write_json_text(out, text),
        Value::Bytes(bytes) | Value::Ext(_, bytes) => write_json_text(out, &bytes.escape_ascii().to_string()),
        Value::Date(ms) => {
            let _ = write!(out, "{ms}");
        }
        Value::Array(items) => write_json_list(out, items.iter(), write_json),
        Value::Map(map) => {
            out.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json_text(out, key);
                out.push(':');
                write_json(out, value);
            }
            out.push('}');
        }
    }
}

/// Appends a JSON list, each item with `write`.
pub(crate) fn write_json_list<T>(out: &mut String, items: impl Iterator<Item = T>, write: impl Fn(&mut String, T)) {
    out.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S-030: numbers print as ECMAScript prints them.
    #[test]
    fn s030_numbers_print_like_ecmascript() {
        let table: &[(f64, &str)] = &[
            (3.0, "3"),
            (-0.0, "0"),
            (3.5, "3.5"),
            (-2.25, "-2.25"),
            (1e21, "1e+21"),
            (1e20, "100000000000000000000"),
            (1.5e300, "1.5e+300"),
            (1e-7, "1e-7"),
            (1.25e-7, "1.25e-7"),
            (1e-6, "0.000001"),
            (0.1, "0.1"),
            (123_456.789, "123456.789"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
            (5e-324, "5e-324"),
            (-7_556_112_651_917_957.0 / 4.0, "-1889028162979489.2"),
            (1e23, "1e+23"),
            (0.000_012_5, "0.0000125"),
            (f64::MAX, "1.7976931348623157e+308"),
        ];
        for (number, text) in table {
            assert_eq!(ecma_number(*number), *text);
        }
    }

    /// S-026: astral characters sort by their surrogates, before the end of the basic plane.
    #[test]
    fn s026_names_sort_by_code_unit() {
        assert_eq!(by_code_unit("\u{1F600}", "\u{FF5E}"), Ordering::Less);
        assert_eq!("\u{1F600}".cmp("\u{FF5E}"), Ordering::Greater);
    }

    /// S-027: escapes of the projection are those of ECMAScript, since it is hashed.
    #[test]
    fn s027_json_text_escapes_like_ecmascript() {
        let mut out = String::new();
        write_json_text(&mut out, "a\"\\\n\u{1}\u{7f}\u{2028}å/");
        assert_eq!(out, "\"a\\\"\\\\\\n\\u0001\u{7f}\u{2028}å/\"");
    }
}
