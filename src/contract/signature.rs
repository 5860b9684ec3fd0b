//! How types and methods read as one line: inside messages, in differences between peers and in short answers.

use std::fmt::Write as _;

use super::text::{ecma_number, write_json_text};
use super::{Literal, Method, TypeNode};

/// The method as one line, `name(a: number, b?: string): boolean` (semantics 5.5); `name(…)` when undescribed.
pub fn line(method: &Method) -> String {
    let mut out = method.name.clone();
    let Some(params) = &method.params else {
        out.push_str("(…)");
        return out;
    };
    out.push('(');
    for (at, node) in params.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        match method.param_name(at) {
            Some(name) => out.push_str(name),
            None => {
                let _ = write!(out, "argument {at}");
            }
        }
        if node.is_optional() {
            out.push('?');
        }
        out.push_str(": ");
        write_parameter(&mut out, node);
    }
    out.push(')');
    if let Some(returns) = &method.returns {
        out.push_str(": ");
        write_type(&mut out, returns, Style::Spelled);
    }
    out
}

/// The type as [`line()`] shows it, with objects spelled out and bounds of numbers, cut after `limit` characters with `…`.
pub fn concise(node: &TypeNode, limit: usize) -> String {
    let mut out = String::new();
    write_type(&mut out, node, Style::Spelled);
    if let Some((at, _)) = out.char_indices().nth(limit) {
        out.truncate(at);
        out.push('…');
    }
    out
}

/// The type as messages about unions show it (semantics 3, rendering): objects without fields, numbers without bounds.
pub fn render(node: &TypeNode) -> String {
    let mut out = String::new();
    write_type(&mut out, node, Style::Plain);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Spelled,
}

/// An optional parameter says so with `?` and does not repeat it as a null literal.
fn write_parameter(out: &mut String, node: &TypeNode) {
    match node {
        TypeNode::Union { options } if !options.iter().all(TypeNode::is_null_literal) => {
            let rest = options.iter().filter(|option| !option.is_null_literal());
            join(out, rest, " | ", |out, option| write_type(out, option, Style::Spelled));
        }
        other => write_type(out, other, Style::Spelled),
    }
}

fn write_type(out: &mut String, node: &TypeNode, style: Style) {
    match node {
        TypeNode::Literal(literal) => write_literal(out, literal),
        TypeNode::Array { items, .. } => {
            write_type(out, items, style);
            out.push_str("[]");
        }
        TypeNode::Tuple { items } => {
            out.push('[');
            join(out, items.iter(), ", ", |out, item| write_type(out, item, style));
            out.push(']');
        }
        TypeNode::Union { options } => join(out, options.iter(), " | ", |out, option| write_type(out, option, style)),
        TypeNode::Ref { name } => out.push_str(name),
        TypeNode::Record { values, .. } => {
            out.push_str("{ [key: string]: ");
            write_type(out, values, style);
            out.push_str(" }");
        }
        TypeNode::Object { fields, .. } if style == Style::Spelled && !fields.is_empty() => {
            out.push_str("{ ");
            join(out, fields.iter(), ", ", |out, field| {
                out.push_str(&field.name);
                out.push_str(if field.optional { "?: " } else { ": " });
                write_type(out, &field.node, style);
            });
            out.push_str(" }");
        }
        TypeNode::Object { .. } if style == Style::Spelled => out.push_str("{}"),
        TypeNode::Number { min, max, .. } if style == Style::Spelled && (min.is_some() || max.is_some()) => {
            let bound = |bound: &Option<f64>| bound.map(ecma_number).unwrap_or_default();
            let _ = write!(out, "number({}..{})", bound(min), bound(max));
        }
        other => out.push_str(other.kind()),
    }
}

/// Appends a literal as JSON.
pub(crate) fn write_literal(out: &mut String, literal: &Literal) {
    match literal {
        Literal::Text(text) => write_json_text(out, text),
        Literal::Number(number) => out.push_str(&ecma_number(*number)),
        Literal::Bool(bit) => out.push_str(if *bit { "true" } else { "false" }),
        Literal::Null => out.push_str("null"),
    }
}

fn join<T>(out: &mut String, items: impl Iterator<Item = T>, between: &str, write: impl Fn(&mut String, T)) {
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        write(out, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::testing::{described_method, node, vectors};

    /// S-053: signature lines come out as recorded, every one of them.
    #[test]
    fn s053_signature_lines_as_recorded() {
        let file = vectors(include_str!("../../tests/vectors/sem-signatures.json"));
        let cases = file["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 6);
        for case in cases {
            assert_eq!(line(&described_method(&case["method"])), case["expect"].as_str().unwrap());
        }
    }

    /// S-030: in messages about unions, types are rendered without their details.
    #[test]
    fn s030_rendering_in_messages_is_plain() {
        let node = node(
            r#"{"kind":"union","options":[{"kind":"object","fields":{"a":{"type":{"kind":"number"}}}},
            {"kind":"number","min":0},{"kind":"tuple","items":[{"kind":"literal","value":"x"},{"kind":"date"}]}]}"#,
        );
        assert_eq!(render(&node), "object | number | [\"x\", date]");
        assert_eq!(concise(&node, 200), "{ a: number } | number(0..) | [\"x\", date]");
        assert_eq!(concise(&node, 5), "{ a: …");
    }

    /// S-035: a union of nothing but null literals keeps its null.
    #[test]
    fn s035_a_lone_null_literal_stays_visible() {
        let mut method = Method::undeclared("f");
        method.params = Some(vec![node(r#"{"kind":"union","options":[{"kind":"literal","value":null}]}"#)]);
        assert_eq!(line(&method), "f(argument 0?: null)");
    }
}
