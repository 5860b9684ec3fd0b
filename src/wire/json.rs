//! JSON (wire.md 3.2): written as `JSON.stringify` writes it, read into bounded values.
//!
//! What JSON has no form for is refused rather than mangled: byte strings and extensions have none that every peer
//! reads back, so they go over MessagePack, or as text agreed by contract. Dates become ISO text and stay text when
//! read; NaN and the infinities become `null`.

use std::fmt::{self, Write as _};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::error::clip;
use super::value::{MAX_DEPTH, MAX_ITEMS, MAX_SAFE_INTEGER, Part};
use super::{DecodeError, EncodeError, Map, Value};

/// Encodes one value as UTF-8 text without white space.
///
/// # Errors
/// A byte string or an extension, an integer beyond ±(2^53−1) (W-020), or nesting beyond [`MAX_DEPTH`].
pub fn encode(value: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut out = String::with_capacity(ROOM);
    write(&mut out, value, 1)?;
    Ok(out.into_bytes())
}

/// Encodes arguments as one list (W-012), without building it as a value first. Errors as for [`encode`].
pub fn encode_args(args: &[Value]) -> Result<Vec<u8>, EncodeError> {
    let mut out = String::with_capacity(ROOM);
    write_array(&mut out, args, 1)?;
    Ok(out.into_bytes())
}

/// Encodes a map whose parts are borrowed, in the order given. Errors as for [`encode`].
pub(super) fn encode_parts(parts: &[(&'static str, Part<'_>)]) -> Result<Vec<u8>, EncodeError> {
    let mut out = String::with_capacity(ROOM * 2);
    for (at, (key, part)) in parts.iter().enumerate() {
        out.push(if at == 0 { '{' } else { ',' });
        write_text(&mut out, key);
        out.push(':');
        match part {
            Part::Text(text) => write_text(&mut out, text),
            Part::List(items) => write_array(&mut out, items, 2)?,
            Part::Value(value) => write(&mut out, value, 2)?,
        }
    }
    out.push_str(if parts.is_empty() { "{}" } else { "}" });
    Ok(out.into_bytes())
}

/// Decodes exactly one value. A number without fraction or exponent that fits is an integer, any other a double; of
/// two equal keys the later value wins.
///
/// # Errors
/// Text that is not JSON, and more nesting or items than [`MAX_DEPTH`] and [`MAX_ITEMS`] (W-021).
pub fn decode(payload: &[u8]) -> Result<Value, DecodeError> {
    // One more, for the value itself is read as an item too.
    let mut bounds = Bounds { items: MAX_ITEMS + 1, broken: None };
    let mut reader = serde_json::Deserializer::from_slice(payload);
    let read = Seed { bounds: &mut bounds, depth: 1 }.deserialize(&mut reader);
    let read = read.and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| bounds.broken.unwrap_or_else(|| DecodeError::Json(clip(&error.to_string()))))
}

/// Converts parsed JSON; nothing can go wrong. An integer beyond 64 bits signed becomes the nearest double.
pub fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(bit) => Value::Bool(bit),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::Text(text),
        serde_json::Value::Array(items) => Value::Array(items.into_iter().map(from_json).collect()),
        serde_json::Value::Object(map) => {
            Value::Map(map.into_iter().map(|(key, value)| (key, from_json(value))).collect())
        }
    }
}

/// Converts a value to what parsing its JSON text would give, by the rules and with the errors of [`encode`].
pub fn to_json(value: &Value) -> Result<serde_json::Value, EncodeError> {
    convert(value, 1)
}

/// The number as ECMAScript prints it: the shortest digits that read back as the same double.
///
/// ```
/// assert_eq!(plantbridge::wire::json::ecma_number(1e21), "1e+21");
/// assert_eq!(plantbridge::wire::json::ecma_number(-0.0), "0");
/// ```
pub fn ecma_number(number: f64) -> String {
    let mut out = String::new();
    write_number(&mut out, number);
    out
}

/// The instant as ISO text with milliseconds, `2026-07-27T21:30:32.623Z`; `None` beyond the 100 million days about the
/// epoch in which such text is defined.
pub fn iso_date(at: i64) -> Option<String> {
    if at.unsigned_abs() > MAX_DATE {
        return None;
    }
    let (year, month, day) = civil(at.div_euclid(DAY));
    let time = at.rem_euclid(DAY);
    let (hour, minute, second, milli) = (time / 3_600_000, time / 60_000 % 60, time / 1000 % 60, time % 1000);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        _ => format!("{year:+07}"),
    };
    Some(format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"))
}

/// What a small message needs, so that it is written into one allocation.
const ROOM: usize = 128;
/// A day in milliseconds.
const DAY: i64 = 86_400_000;
/// The farthest instant from the epoch that ISO text is written for, in milliseconds.
const MAX_DATE: u64 = 8_640_000_000_000_000;

fn write(out: &mut String, value: &Value, depth: usize) -> Result<(), EncodeError> {
    if depth > MAX_DEPTH {
        return Err(EncodeError::TooDeep);
    }
    match value {
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(number) => put(out, format_args!("{}", safe(*number)?)),
        Value::Float(number) if number.is_finite() => write_number(out, *number),
        Value::Null | Value::Float(_) => out.push_str("null"),
        Value::Text(text) => write_text(out, text),
        Value::Date(at) => match iso_date(*at) {
            Some(text) => write_text(out, &text),
            None => out.push_str("null"),
        },
        Value::Bytes(_) => return Err(NO_BYTES),
        Value::Ext(..) => return Err(NO_EXTENSION),
        Value::Array(items) => write_array(out, items, depth)?,
        Value::Map(map) => write_map(out, map, depth)?,
    }
    Ok(())
}

fn write_array(out: &mut String, items: &[Value], depth: usize) -> Result<(), EncodeError> {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item, depth + 1)?;
    }
    out.push(']');
    Ok(())
}

fn write_map(out: &mut String, map: &Map, depth: usize) -> Result<(), EncodeError> {
    out.push('{');
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_text(out, key);
        out.push(':');
        write(out, value, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c < ' ' || c == '"' || c == '\\') {
        let (plain, tail) = rest.split_at(at);
        let mut tail = tail.chars();
        out.push_str(plain);
        match tail.next() {
            Some(c @ ('"' | '\\')) => out.extend(['\\', c]),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\t') => out.push_str("\\t"),
            Some('\n') => out.push_str("\\n"),
            Some('\u{c}') => out.push_str("\\f"),
            Some('\r') => out.push_str("\\r"),
            Some(c) => put(out, format_args!("\\u{:04x}", u32::from(c))),
            None => {}
        }
        rest = tail.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// ECMAScript's layout of the shortest digits: plain up to 21 digits before the point and 6 zeros after it, else with
/// an exponent.
fn write_number(out: &mut String, number: f64) {
    if number.is_nan() {
        return out.push_str("NaN");
    }
    if number == 0.0 {
        return out.push('0');
    }
    if number < 0.0 {
        out.push('-');
    }
    if number.is_infinite() {
        return out.push_str("Infinity");
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits = mantissa.replace('.', "");
    // The value is 0.digits × 10^point.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    match usize::try_from(point) {
        Ok(before @ 1..=21) if count <= point => put(out, format_args!("{digits:0<before$}")),
        Ok(before @ 1..=21) => {
            let (whole, fraction) = digits.split_at(before);
            put(out, format_args!("{whole}.{fraction}"));
        }
        _ if (-5..=0).contains(&point) => {
            put(out, format_args!("0.{:0>1$}", digits, usize::try_from(count - point).unwrap_or(0)));
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            put(out, format_args!("{first}{dot}{rest}e{:+}", point - 1));
        }
    }
}

/// The Gregorian year, month and day, so many days after the epoch. Years are counted from March, so that the leap day
/// is the last of its year, and in eras of 400 years, which all have the same number of days.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march.div_euclid(ERA), from_march.rem_euclid(ERA));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Writing into text cannot fail.
fn put(out: &mut String, text: fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn safe(number: i64) -> Result<i64, EncodeError> {
    if number.unsigned_abs() > MAX_SAFE_INTEGER.unsigned_abs() {
        return Err(EncodeError::Integer(number));
    }
    Ok(number)
}

const NO_BYTES: EncodeError = EncodeError::NoJsonForm("a byte string");
const NO_EXTENSION: EncodeError = EncodeError::NoJsonForm("an extension");

fn convert(value: &Value, depth: usize) -> Result<serde_json::Value, EncodeError> {
    if depth > MAX_DEPTH {
        return Err(EncodeError::TooDeep);
    }
    Ok(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(bit) => (*bit).into(),
        Value::Int(number) => safe(*number)?.into(),
        Value::Float(number) if number.fract() == 0.0 => integral(*number),
        Value::Float(number) => (*number).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Date(at) => iso_date(*at).into(),
        Value::Bytes(_) => return Err(NO_BYTES),
        Value::Ext(..) => return Err(NO_EXTENSION),
        Value::Array(items) => {
            serde_json::Value::Array(items.iter().map(|item| convert(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let entry = |(key, value): (&str, &Value)| Ok((key.to_owned(), convert(value, depth + 1)?));
            serde_json::Value::Object(map.iter().map(entry).collect::<Result<_, _>>()?)
        }
    })
}

/// The integer that the printed double looks like, if one holds it.
fn integral(number: f64) -> serde_json::Value {
    let text = ecma_number(number);
    match (text.parse::<i64>(), text.parse::<u64>()) {
        (Ok(number), _) => number.into(),
        (_, Ok(number)) => number.into(),
        _ => number.into(),
    }
}

/// What is left of the bounds, and which one broke: the parser's own error type has no room for that.
struct Bounds {
    items: usize,
    broken: Option<DecodeError>,
}

/// Reads one value at `depth`.
struct Seed<'a> {
    bounds: &'a mut Bounds,
    depth: usize,
}

impl Seed<'_> {
    fn deeper(&mut self) -> Seed<'_> {
        Seed { bounds: self.bounds, depth: self.depth + 1 }
    }

    fn broken<E: serde::de::Error>(&mut self, error: DecodeError) -> E {
        let told = E::custom(&error);
        self.bounds.broken = Some(error);
        told
    }

    fn count<E: serde::de::Error>(&mut self) -> Result<(), E> {
        match self.bounds.items.checked_sub(1) {
            Some(left) => {
                self.bounds.items = left;
                Ok(())
            }
            None => Err(self.broken(DecodeError::TooMany)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(mut self, from: D) -> Result<Value, D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(self.broken(DecodeError::TooDeep));
        }
        self.count()?;
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, bit: bool) -> Result<Value, E> {
        Ok(Value::Bool(bit))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    #[expect(clippy::cast_precision_loss, reason = "beyond i64 peers read the nearest double, and so do we")]
    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Float(number as f64), Value::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(self.deeper())? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut from: A) -> Result<Value, A::Error> {
        let entries = std::iter::from_fn(|| {
            let key = from.next_key::<String>().transpose()?;
            Some(key.and_then(|key| {
                self.count::<A::Error>()?;
                Ok((key, from.next_value_seed(self.deeper())?))
            }))
        });
        Ok(Value::Map(entries.collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::vectors;

    /// Where we do better: bytes and extensions, whose recorded forms no peer reads back, are refused, and nothing at
    /// all, which the reference cannot write, is `null` (W-063).
    const DEVIATIONS: [&str; 8] = [
        "undefined-top-level",
        "bytes-empty",
        "bytes-3",
        "buffer-3",
        "bytes-256",
        "float64array",
        "nested",
        "ext-unknown",
    ];

    /// Every recorded value, as JSON text and back (wire.md 3.2).
    #[test]
    fn values_are_written_as_recorded() {
        let mut deviating = Vec::new();
        for vectors::Coded { name, value, vector } in vectors::coded() {
            let written = encode(&value);
            let recorded = vector["jsonText"].as_str();
            let length = vector["jsonByteLength"].as_u64();
            match (&written, recorded) {
                (Ok(text), Some(recorded)) if text == recorded.as_bytes() => {}
                (Ok(text), None) if Some(text.len() as u64) == length => {}
                (Ok(text), _) if name == "undefined-top-level" && text == b"null" => deviating.push(name.clone()),
                (Err(EncodeError::NoJsonForm(_)), _) => deviating.push(name.clone()),
                _ => panic!("{name}: {written:?}, recorded {recorded:?}"),
            }
            if let Ok(text) = &written {
                assert_eq!(decode(text), Ok(vectors::through_json(value.clone())), "{name}");
                assert_eq!(
                    to_json(&value).unwrap(),
                    serde_json::from_slice::<serde_json::Value>(text).unwrap(),
                    "{name}"
                );
            }
        }
        deviating.sort();
        let mut listed = DEVIATIONS;
        listed.sort_unstable();
        assert_eq!(deviating, listed);
    }

    /// Numbers as ECMAScript prints them, at every border of its layout.
    #[test]
    fn numbers_are_printed_as_ecmascript_does() {
        let table = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-2.25, "-2.25"),
            (0.1, "0.1"),
            (1e20, "100000000000000000000"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (1e21, "1e+21"),
            (1.5e21, "1.5e+21"),
            (1e-6, "0.000001"),
            (1.23e-6, "0.00000123"),
            (1e-7, "1e-7"),
            (1.5e-7, "1.5e-7"),
            (-1e-7, "-1e-7"),
            (1234.5678, "1234.5678"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (number, text) in table {
            assert_eq!(ecma_number(number), text);
        }
    }

    /// Instants as ISO text, leap days, borders of years and the borders of what is defined included.
    #[test]
    fn dates_are_iso_text() {
        let table = [
            (0, Some("1970-01-01T00:00:00.000Z")),
            (-1, Some("1969-12-31T23:59:59.999Z")),
            (951_782_400_000, Some("2000-02-29T00:00:00.000Z")),
            (951_868_800_000, Some("2000-03-01T00:00:00.000Z")),
            (1_785_187_832_623, Some("2026-07-27T21:30:32.623Z")),
            (253_402_300_799_999, Some("9999-12-31T23:59:59.999Z")),
            (253_402_300_800_000, Some("+010000-01-01T00:00:00.000Z")),
            (-62_167_219_200_000, Some("0000-01-01T00:00:00.000Z")),
            (-62_167_219_200_001, Some("-000001-12-31T23:59:59.999Z")),
            (8_640_000_000_000_000, Some("+275760-09-13T00:00:00.000Z")),
            (-8_640_000_000_000_000, Some("-271821-04-20T00:00:00.000Z")),
            (8_640_000_000_000_001, None),
            (i64::MIN, None),
        ];
        for (at, text) in table {
            assert_eq!(iso_date(at).as_deref(), text, "{at}");
        }
        assert_eq!(encode(&Value::Date(i64::MAX)).unwrap(), b"null");
    }

    /// Text is escaped where JSON demands it and nowhere else.
    #[test]
    fn text_is_escaped_as_stringify_does() {
        let text = "\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/\u{7f}\u{2028}é🎛";
        let json = r#""\u0000\b\t\n\u000b\f\r\u001f\"\\/"#.to_owned() + "\u{7f}\u{2028}é🎛\"";
        assert_eq!(String::from_utf8(encode(&text.into()).unwrap()).unwrap(), json);
        assert_eq!(decode(json.as_bytes()), Ok(text.into()));
    }

    /// W-020: an integer that would arrive changed is not sent in JSON either.
    #[test]
    fn integers_beyond_53_bits_are_refused() {
        for number in [MAX_SAFE_INTEGER + 1, -MAX_SAFE_INTEGER - 1, i64::MIN] {
            assert_eq!(encode(&Value::Int(number)), Err(EncodeError::Integer(number)));
            assert_eq!(to_json(&Value::Int(number)), Err(EncodeError::Integer(number)));
        }
    }

    /// Order is kept, of equal keys the later wins, and numbers are what they look like.
    #[test]
    fn maps_and_numbers_are_read_as_written() {
        let read = decode(br#" {"b":1,"a":2.5,"b":9223372036854775808,"__proto__":-0} "#).unwrap();
        let map = read.as_map().unwrap();
        assert_eq!(map.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["b", "a", "__proto__"]);
        assert_eq!(read.get("b"), Some(&Value::Float(9_223_372_036_854_775_808.0)));
        assert_eq!(read.get("a"), Some(&Value::Float(2.5)));
    }

    /// W-021, W-024: depth is bounded, and what is not exactly one value of JSON is refused.
    #[test]
    fn hostile_text_is_refused() {
        let nested = |depth: usize| ["[".repeat(depth), "null".into(), "]".repeat(depth)].concat();
        assert!(decode(nested(99).as_bytes()).is_ok());
        assert_eq!(decode(nested(100).as_bytes()), Err(DecodeError::TooDeep));
        assert_eq!(decode("[".repeat(1_000_000).as_bytes()), Err(DecodeError::TooDeep));
        assert_eq!(decode(r#"{"a":"#.repeat(1_000_000).as_bytes()), Err(DecodeError::TooDeep));
        let list = |items: usize| decode(format!("[{}0]", "0,".repeat(items - 1)).as_bytes());
        assert!(list(MAX_ITEMS).is_ok());
        assert_eq!(list(MAX_ITEMS + 1), Err(DecodeError::TooMany));
        let map = |entries: usize| decode(format!("{{{}\"a\":0}}", "\"a\":0,".repeat(entries - 1)).as_bytes());
        assert!(map(MAX_ITEMS / 2).is_ok());
        assert_eq!(map(MAX_ITEMS / 2 + 1), Err(DecodeError::TooMany));
        for bad in ["", "{oops", "1 2", "[1,]", "nul", "\"\\ud800\"", "01", "NaN", "'a'", "\"a"] {
            assert!(matches!(decode(bad.as_bytes()), Err(DecodeError::Json(_))), "{bad}");
        }
        assert!(matches!(decode(b"\"\xff\""), Err(DecodeError::Json(_))));
    }

    /// W-021: writing bounds depth as reading does.
    #[test]
    fn deep_values_are_not_written() {
        assert!(encode(&vectors::nested(99)).is_ok());
        assert_eq!(encode(&vectors::nested(100)), Err(EncodeError::TooDeep));
        assert_eq!(to_json(&vectors::nested(100)), Err(EncodeError::TooDeep));
    }

    proptest! {
        /// Whatever JSON can carry comes back, as a value and by way of parsed JSON.
        #[test]
        fn values_survive(value in vectors::any_value(vectors::Carrier::Json)) {
            let text = encode(&value).unwrap();
            let through = vectors::through_json(value.clone());
            prop_assert_eq!(decode(&text).unwrap(), through.clone());
            let parsed: serde_json::Value = serde_json::from_slice(&text).unwrap();
            prop_assert_eq!(to_json(&value).unwrap(), parsed.clone());
            prop_assert_eq!(from_json(parsed), through);
        }

        /// Printed numbers read back as the same double.
        #[test]
        fn numbers_survive(bits: u64) {
            let number = f64::from_bits(bits);
            if number.is_finite() {
                prop_assert_eq!(ecma_number(number).parse().ok(), Some(number));
                prop_assert_eq!(decode(ecma_number(number).as_bytes()).unwrap().as_f64(), Some(number));
            }
        }

        /// W-021: no bytes make the reader panic.
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, text in "[\\[\\]{}\",:0-9eE.\\\\u+ -]{0,64}") {
            let _ = decode(&bytes);
            let _ = decode(text.as_bytes());
        }
    }
}
