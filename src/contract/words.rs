//! Words of a command line as values, read by what a method declares of its parameters (semantics 3.3).
//!
//! What is read here is checked afterwards like any other argument list; this only decides what a word means. Where the
//! words leave a choice, the one the contract accepts is taken. Stricter than recorded peers, because a word that is
//! misread moves a machine: an empty word is no number, numbers are decimal, an integer that no peer can hold exactly is
//! refused, and a date names its zone.

use super::text::ecma_number;
use super::{ArgumentFault, Literal, Method, TypeNode, Types, signature, validate};
use crate::wire::value::MAX_SAFE_INTEGER;
use crate::wire::{Value, instant, tagged};

/// The argument list that `words` stand for. A method that describes no parameters, or none at all, takes each word as JSON
/// if it is that, else as text.
///
/// # Errors
///
/// The first word that is not what its parameter needs, as `argument {i} ({name}): …`.
pub fn values(words: &[String], method: Option<&Method>, types: &Types) -> Result<Vec<Value>, ArgumentFault> {
    let read = |(at, word): (usize, &String)| {
        let node = method.and_then(|method| method.params.as_ref()?.get(at).or(method.rest.as_ref()));
        let read = node.map_or_else(|| loose(word), |node| value(word, node, types));
        read.map_err(|problem| {
            let name = method.and_then(|method| method.param_name(at)).map(|name| format!(" ({name})"));
            let text = format!("argument {at}{}: {problem}", name.unwrap_or_default());
            ArgumentFault { argument: Some(at), text }
        })
    };
    words.iter().enumerate().map(read).collect()
}

fn value(word: &str, node: &TypeNode, types: &Types) -> Result<Value, String> {
    // A name that leads nowhere accepts nothing; the check that follows says so.
    let Some(node) = types.resolve(node) else { return loose(word) };
    match node {
        TypeNode::Text { .. } => Ok(Value::Text(word.to_owned())),
        TypeNode::Number { .. } => number(word),
        TypeNode::Boolean => match word {
            "true" | "1" => Ok(Value::Bool(true)),
            "false" | "0" => Ok(Value::Bool(false)),
            _ => Err(format!("expected true or false, got '{word}'")),
        },
        TypeNode::Date => date(word).map(Value::Date).ok_or_else(|| format!("expected a date, got '{word}'")),
        TypeNode::Bytes { .. } => bytes(word).ok_or_else(|| format!("expected hex bytes, got '{word}'")),
        TypeNode::Literal(literal) => literal_of(word, literal).map_or_else(|| loose(word), Ok),
        TypeNode::Union { options } => union(word, node, options, types),
        TypeNode::Object { .. } | TypeNode::Array { .. } | TypeNode::Tuple { .. } | TypeNode::Record { .. } => {
            json(word).unwrap_or_else(|| Err(format!("expected {} as JSON, got '{word}'", signature::render(node))))
        }
        TypeNode::Any
        | TypeNode::Null
        | TypeNode::Ref { .. }
        | TypeNode::Unknown { .. }
        | TypeNode::Malformed { .. } => loose(word),
    }
}

/// A literal whose text this is; else what the word is by itself; else, where the contract would refuse that, the first
/// option that reads it and accepts what it read: `42` for an optional text is a text.
fn union(word: &str, node: &TypeNode, options: &[TypeNode], types: &Types) -> Result<Value, String> {
    let literals = options.iter().filter_map(|option| match types.resolve(option)? {
        TypeNode::Literal(literal) => literal_of(word, literal),
        _ => None,
    });
    if let Some(found) = literals.into_iter().next() {
        return Ok(found);
    }
    let plain = loose(word);
    let fits = |value: &Value| validate::value(value, node, types, "").is_ok();
    if plain.as_ref().is_ok_and(fits) {
        return plain;
    }
    // A union inside a union is read by itself, one level at a time; more of them are left to the check.
    let direct = options.iter().filter(|option| !matches!(types.resolve(option), Some(TypeNode::Union { .. }) | None));
    let read = direct.filter_map(|option| value(word, option, types).ok()).find(fits);
    read.map_or(plain, Ok)
}

fn literal_of(word: &str, literal: &Literal) -> Option<Value> {
    match literal {
        Literal::Text(text) => (word == text).then(|| Value::Text(text.clone())),
        Literal::Number(known) => (word == ecma_number(*known)).then(|| Value::Float(*known)),
        Literal::Bool(bit) => (word == if *bit { "true" } else { "false" }).then_some(Value::Bool(*bit)),
        Literal::Null => (word == "null").then_some(Value::Null),
    }
}

/// JSON if it is that, else text.
fn loose(word: &str) -> Result<Value, String> {
    json(word).unwrap_or_else(|| Ok(Value::Text(word.to_owned())))
}

/// The value a JSON text stands for, tags included; `None` if it is no JSON. JSON that no peer can hold is a mistake and
/// not a text.
fn json(word: &str) -> Option<Result<Value, String>> {
    let json = serde_json::from_str(word).ok()?;
    Some(tagged::from_json(json).map_err(|error| error.problem))
}

fn number(word: &str) -> Result<Value, String> {
    if let Ok(integer) = word.parse::<i128>() {
        let safe =
            i64::try_from(integer).ok().filter(|integer| integer.unsigned_abs() <= MAX_SAFE_INTEGER.unsigned_abs());
        return safe.map(Value::Int).ok_or_else(|| {
            format!("{word} is beyond {MAX_SAFE_INTEGER} (2^53-1), the greatest integer that keeps its digits")
        });
    }
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Value::Float(number)),
        Ok(_) | Err(_) => Err(format!("expected a number, got '{word}'")),
    }
}

/// An instant with its zone, or a day, which begins at midnight UTC.
fn date(word: &str) -> Option<i64> {
    instant::parse(word)
        .or_else(|| (word.len() == "2026-08-07".len()).then(|| instant::parse(&format!("{word}T00:00Z")))?)
}

/// Hex digits in pairs, `0x` before them or not.
fn bytes(word: &str) -> Option<Value> {
    let digits = word.strip_prefix("0x").unwrap_or(word).as_bytes();
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = digits.as_chunks::<2>();
    let read: Option<Vec<u8>> = pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    read.filter(|_| rest.is_empty()).map(|bytes| Value::Bytes(bytes.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contract::testing::{json as parsed, node, types_of};
    use crate::wire::Map;

    fn read(word: &str, kind: &str) -> Result<Value, String> {
        value(word, &node(kind), &Types::default())
    }

    fn map(key: &str, value: impl Into<Value>) -> Value {
        let mut map = Map::new();
        map.insert(key, value);
        map.into()
    }

    const NUMBER: &str = r#"{"kind":"number"}"#;
    const TEXT: &str = r#"{"kind":"string"}"#;

    /// Semantics 3.3, row by row: what each kind makes of a word, and how it refuses one.
    #[test]
    fn every_kind_reads_its_words() {
        let (boolean, date, bytes) = (r#"{"kind":"boolean"}"#, r#"{"kind":"date"}"#, r#"{"kind":"bytes"}"#);
        let array = r#"{"kind":"array","items":{"kind":"number"}}"#;
        for (word, kind, expected) in [
            ("5", TEXT, Value::Text("5".into())),
            ("", TEXT, Value::Text(String::new())),
            ("5", NUMBER, Value::Int(5)),
            ("-0.5", NUMBER, Value::Float(-0.5)),
            ("1e3", NUMBER, Value::Float(1000.0)),
            ("9007199254740991", NUMBER, Value::Int(MAX_SAFE_INTEGER)),
            ("true", boolean, Value::Bool(true)),
            ("0", boolean, Value::Bool(false)),
            ("2026-08-07T18:22:10.114Z", date, Value::Date(1_786_126_930_114)),
            ("1970-01-02", date, Value::Date(86_400_000)),
            ("0xFF00", bytes, Value::Bytes(vec![255, 0].into())),
            ("", bytes, Value::Bytes(Vec::new().into())),
            ("[1,2]", array, Value::Array(vec![Value::Int(1), Value::Int(2)])),
            (
                r#"{"a":{"$bytes":"AP+A"}}"#,
                r#"{"kind":"object","fields":{}}"#,
                map("a", Value::Bytes(vec![0, 255, 128].into())),
            ),
            ("x", r#"{"kind":"any"}"#, Value::Text("x".into())),
            ("[1]", r#"{"kind":"any"}"#, Value::Array(vec![Value::Int(1)])),
            ("null", r#"{"kind":"null"}"#, Value::Null),
        ] {
            assert_eq!(read(word, kind), Ok(expected), "{word} as {kind}");
        }
        for (word, kind, problem) in [
            ("", NUMBER, "expected a number, got ''"),
            ("NaN", NUMBER, "expected a number, got 'NaN'"),
            ("0x10", NUMBER, "expected a number, got '0x10'"),
            ("1e999", NUMBER, "expected a number, got '1e999'"),
            (
                "9007199254740993",
                NUMBER,
                "9007199254740993 is beyond 9007199254740991 (2^53-1), the greatest integer that keeps its digits",
            ),
            ("yes", boolean, "expected true or false, got 'yes'"),
            ("2026-08-07T18:22", date, "expected a date, got '2026-08-07T18:22'"),
            ("0xF", bytes, "expected hex bytes, got '0xF'"),
            ("xy", bytes, "expected hex bytes, got 'xy'"),
            ("1,2", array, "expected number[] as JSON, got '1,2'"),
            (
                "9007199254740993",
                r#"{"kind":"any"}"#,
                "9007199254740993 is beyond 9007199254740991 (2^53-1), the greatest integer that keeps its digits",
            ),
        ] {
            assert_eq!(read(word, kind), Err(problem.into()), "{word} as {kind}");
        }
    }

    /// Semantics 3.3: a union takes the literal of that text, else the word as it is; and, better than that, an option that
    /// reads the word where the contract would refuse what it is by itself.
    #[test]
    fn a_union_takes_its_literal_else_what_fits() {
        let union = |options: &str| format!(r#"{{"kind":"union","options":[{options}]}}"#);
        let literal = |value: &str| format!(r#"{{"kind":"literal","value":{value}}}"#);
        let ramp = union(&[literal(r#""slow""#), literal("2"), literal("true"), literal("null")].join(","));
        for (word, expected) in [
            ("slow", Value::Text("slow".into())),
            ("2", Value::Float(2.0)),
            ("true", Value::Bool(true)),
            ("null", Value::Null),
            ("brisk", Value::Text("brisk".into())),
        ] {
            assert_eq!(read(word, &ramp), Ok(expected), "{word}");
        }
        let optional = union(&[TEXT.to_owned(), literal("null")].join(","));
        assert_eq!(read("42", &optional), Ok(Value::Text("42".into())));
        assert_eq!(read(r#""42""#, &optional), Ok(Value::Text("42".into())));
        let either = union(&[TEXT, NUMBER].join(","));
        assert_eq!(read("42", &either), Ok(Value::Int(42)));
        let when = union(&[r#"{"kind":"date"}"#.to_owned(), literal("null")].join(","));
        assert_eq!(read("1970-01-02", &when), Ok(Value::Date(86_400_000)));
    }

    /// Names are followed, also in a ring; what follows the parameters is read by `rest`; a fault says where.
    #[test]
    fn words_are_read_by_their_parameters() {
        let types = types_of(&parsed(
            r#"{"Tag":{"kind":"string"},"Ring":{"kind":"union","options":[{"kind":"ref","name":"Ring"}]}}"#,
        ));
        let mut method = Method::undeclared("f");
        method.params = Some(vec![node(r#"{"kind":"ref","name":"Tag"}"#), node(r#"{"kind":"ref","name":"Ring"}"#)]);
        method.rest = Some(node(NUMBER));
        method.param_names = vec!["tag".into(), "ring".into()];
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let list = values(&words(&["7", "7", "7"]), Some(&method), &types).unwrap();
        assert_eq!(list, [Value::Text("7".into()), Value::Int(7), Value::Int(7)]);
        let fault = values(&words(&["7", "7", "x"]), Some(&method), &types).unwrap_err();
        assert_eq!((fault.argument, fault.text.as_str()), (Some(2), "argument 2: expected a number, got 'x'"));
        method.params = Some(vec![node(NUMBER)]);
        let fault = values(&words(&["x"]), Some(&method), &types).unwrap_err();
        assert_eq!(fault.text, "argument 0 (tag): expected a number, got 'x'");
        let list = values(&words(&["5", "x"]), None, &types).unwrap();
        assert_eq!(list, [Value::Int(5), Value::Text("x".into())]);
    }

    proptest! {
        /// No word panics, whatever it is read as; and a text stays what was typed.
        #[test]
        fn any_word_is_read_or_refused(word in "\\PC{0,24}") {
            for kind in [NUMBER, r#"{"kind":"boolean"}"#, r#"{"kind":"date"}"#, r#"{"kind":"bytes"}"#, r#"{"kind":"any"}"#] {
                let _ = read(&word, kind);
            }
            prop_assert_eq!(read(&word, TEXT), Ok(Value::Text(word)));
        }
    }
}
