//! Checks values and argument lists against types, with the messages of semantics 3 to the byte (S-030).
//!
//! A check that passes allocates nothing: paths live on the stack and become text only when something failed, and the
//! options of a union are tried without text, since their reasons are not told.

use std::cell::Cell;
use std::fmt;

use super::signature::{render, write_literal};
use super::text::ecma_number;
use super::{Field, Literal, Method, Pattern, TypeNode, Types};
use crate::wire::{Map, Value};

/// Checks one value; `at` names it in the message, and stands for `value` when empty.
///
/// # Errors
///
/// The first failure, as the peer that checks it too would word it.
pub fn value(value: &Value, node: &TypeNode, types: &Types, at: &str) -> Result<(), String> {
    Check::new(types).top(Some(value), node, Root::Text(at))
}

/// Checks a value that is not there at all, which is not null.
///
/// # Errors
///
/// As for [`value`], with `undefined` as what was found.
pub fn absent(node: &TypeNode, types: &Types, at: &str) -> Result<(), String> {
    Check::new(types).top(None, node, Root::Text(at))
}

/// What is wrong with an argument list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ArgumentFault {
    /// Which argument failed, from 0; `None` when their number did.
    pub argument: Option<usize>,
    /// The message of semantics 3 and 3.1.
    pub text: String,
}

/// Checks the arguments of a call we serve (semantics 3.1). An undescribed method accepts every list (S-021).
///
/// # Errors
///
/// Arity first, then the first argument that fails, named `argument {i}`.
pub fn arguments(args: &[Value], method: &Method, types: &Types) -> Result<(), ArgumentFault> {
    check_arguments(args, method, types, |_| None)
}

/// Checks the arguments of a call we are about to send: like [`arguments`], with arguments named as the method names
/// them, and arity included (S-041).
///
/// # Errors
///
/// As for [`arguments`].
pub fn before_sending(args: &[Value], method: &Method, types: &Types) -> Result<(), ArgumentFault> {
    check_arguments(args, method, types, |at| method.param_name(at))
}

fn check_arguments<'m>(
    args: &[Value],
    method: &'m Method,
    types: &Types,
    name: impl Fn(usize) -> Option<&'m str>,
) -> Result<(), ArgumentFault> {
    let Some(params) = &method.params else { return Ok(()) };
    arity(args.len(), params, method.rest.is_some())?;
    let check = Check::new(types);
    for (at, argument) in args.iter().enumerate() {
        if let Some(node) = params.get(at).or(method.rest.as_ref()) {
            let root = name(at).map_or(Root::Argument(at), Root::Text);
            let checked = check.top(Some(argument), node, root);
            checked.map_err(|text| ArgumentFault { argument: Some(at), text })?;
        }
    }
    Ok(())
}

fn arity(given: usize, params: &[TypeNode], rest: bool) -> Result<(), ArgumentFault> {
    let required = params.iter().filter(|node| !node.is_optional()).count();
    if given < required {
        let plural = if required == 1 { "" } else { "s" };
        let text = format!("expected at least {required} argument{plural}, got {given}");
        return Err(ArgumentFault { argument: None, text });
    }
    if given > params.len() && !rest {
        let text = format!("expected at most {} arguments, got {given}", params.len());
        return Err(ArgumentFault { argument: None, text });
    }
    Ok(())
}

/// The name of a value's type as messages give it.
pub(crate) fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "undefined",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Int(_) | Value::Float(_)) => "number",
        Some(Value::Text(_)) => "string",
        Some(Value::Bytes(_)) => "bytes",
        Some(Value::Date(_)) => "date",
        Some(Value::Array(_)) => "array",
        Some(Value::Map(_) | Value::Ext(..)) => "object",
    }
}

/// One check: the types it resolves in and the steps it may still take inside unions.
struct Check<'t> {
    types: &'t Types,
    steps: Cell<u32>,
}

impl<'t> Check<'t> {
    fn new(types: &'t Types) -> Self {
        Self { types, steps: Cell::new(MAX_UNION_STEPS) }
    }

    fn top(&self, value: Option<&Value>, node: &TypeNode, root: Root<'_>) -> Result<(), String> {
        let place = Place { parent: None, step: Step::Root(root), depth: 0, told: true };
        let checked = self.check(value, node, &place);
        if self.steps.get() == 0 {
            return Err(format!("{place}: takes more than {MAX_UNION_STEPS} steps to check"));
        }
        checked
    }

    fn check(&self, value: Option<&Value>, node: &TypeNode, place: &Place<'_>) -> Result<(), String> {
        if place.depth > MAX_DEPTH {
            return place.fail(format_args!("nested deeper than {MAX_DEPTH} levels"));
        }
        if !place.told && !self.take_step() {
            return Err(String::new());
        }
        let expected = |what: &str| place.fail(format_args!("expected {what}, got {}", type_name(value)));
        match (node, value) {
            (TypeNode::Any, _)
            | (TypeNode::Null, Some(Value::Null))
            | (TypeNode::Boolean, Some(Value::Bool(_)))
            | (TypeNode::Date, Some(Value::Date(MIN_DATE..=MAX_DATE))) => Ok(()),
            (TypeNode::Null, _) => expected("null"),
            (TypeNode::Boolean, _) => expected("boolean"),
            (TypeNode::Date, _) => expected("a date"),
            (TypeNode::Number { integer, min, max }, Some(value)) => match value.as_f64() {
                Some(number) if !number.is_nan() => check_number(number, *integer, (*min, *max), place),
                _ => expected("number"),
            },
            (TypeNode::Number { .. }, None) => expected("number"),
            (TypeNode::Text { min_length, max_length, pattern }, Some(Value::Text(text))) => {
                check_text(text, (*min_length, *max_length), pattern.as_ref(), place)
            }
            (TypeNode::Text { .. }, _) => expected("string"),
            (TypeNode::Bytes { max_bytes }, Some(Value::Bytes(bytes))) => match over(bytes.len(), *max_bytes) {
                Some(most) => place.fail(format_args!("longer than {most} bytes")),
                None => Ok(()),
            },
            (TypeNode::Bytes { .. }, _) => expected("bytes"),
            (TypeNode::Literal(literal), value) => check_literal(value, literal, place),
            (TypeNode::Array { items, max_items }, Some(Value::Array(list))) => {
                self.check_array(list, items, *max_items, place)
            }
            (TypeNode::Array { .. }, _) => expected("an array"),
            (TypeNode::Tuple { items }, Some(Value::Array(list))) => self.check_tuple(list, items, place),
            (TypeNode::Tuple { .. }, _) => expected("a tuple"),
            (TypeNode::Object { fields, additional }, Some(Value::Map(map))) => {
                self.check_object(map, fields, *additional, place)
            }
            (TypeNode::Record { values, key_pattern, max_entries }, Some(Value::Map(map))) => {
                self.check_record(map, values, (key_pattern.as_ref(), *max_entries), place)
            }
            (TypeNode::Object { .. } | TypeNode::Record { .. }, _) => expected("an object"),
            (TypeNode::Union { options }, value) => self.check_union(value, node, options, place),
            (TypeNode::Ref { name }, value) => match self.types.get(name) {
                Some(named) => self.check(value, named, &place.below(Step::Same)),
                None => place.fail(format_args!("unknown type '{name}'")),
            },
            (TypeNode::Unknown { kind }, _) => place.fail(format_args!("unknown type kind '{kind}'")),
            (TypeNode::Malformed { why, .. }, _) => place.fail(format_args!("its declared type is broken: {why}")),
        }
    }

    /// Whether one more step may be taken inside a union; types that refer to themselves could ask for 2^32.
    fn take_step(&self) -> bool {
        let left = self.steps.get().saturating_sub(1);
        self.steps.set(left);
        left > 0
    }

    fn check_array(
        &self,
        list: &[Value],
        items: &TypeNode,
        most: Option<u64>,
        place: &Place<'_>,
    ) -> Result<(), String> {
        if let Some(most) = over(list.len(), most) {
            return place.fail(format_args!("more than {most} items"));
        }
        list.iter().enumerate().try_for_each(|(at, item)| self.check(Some(item), items, &place.below(Step::Index(at))))
    }

    fn check_tuple(&self, list: &[Value], items: &[TypeNode], place: &Place<'_>) -> Result<(), String> {
        if list.len() != items.len() {
            return place.fail(format_args!("expected {} elements, got {}", items.len(), list.len()));
        }
        let mut pairs = list.iter().zip(items).enumerate();
        pairs.try_for_each(|(at, (item, node))| self.check(Some(item), node, &place.below(Step::Index(at))))
    }

    fn check_object(&self, map: &Map, fields: &[Field], additional: bool, place: &Place<'_>) -> Result<(), String> {
        for field in fields {
            let below = place.below(Step::Key(&field.name));
            match map.get(&field.name) {
                Some(value) => self.check(Some(value), &field.node, &below)?,
                None if field.optional => {}
                None => return below.fail(format_args!("missing")),
            }
        }
        let declared = |key: &str| fields.iter().any(|field| field.name == key);
        match map.iter().find(|(key, _)| !additional && !declared(key)) {
            Some((key, _)) => place.below(Step::Key(key)).fail(format_args!("not part of this type")),
            None => Ok(()),
        }
    }

    fn check_record(
        &self,
        map: &Map,
        values: &TypeNode,
        (pattern, most): (Option<&Pattern>, Option<u64>),
        place: &Place<'_>,
    ) -> Result<(), String> {
        if let Some(most) = over(map.len(), most) {
            return place.fail(format_args!("more than {most} entries"));
        }
        for (key, value) in map.iter() {
            let below = place.below(Step::Key(key));
            if let Some(pattern) = pattern.filter(|pattern| !pattern.matches(key)) {
                return below.fail(format_args!("key does not match {}", pattern.as_str()));
            }
            self.check(Some(value), values, &below)?;
        }
        Ok(())
    }

    fn check_union(
        &self,
        value: Option<&Value>,
        union: &TypeNode,
        options: &[TypeNode],
        place: &Place<'_>,
    ) -> Result<(), String> {
        let untold = Place { told: false, ..place.below(Step::Same) };
        if options.iter().any(|option| self.check(value, option, &untold).is_ok()) {
            return Ok(());
        }
        if !place.told {
            return Err(String::new());
        }
        place.fail(format_args!("expected {}, got {}", render(union), type_name(value)))
    }
}

fn check_number(
    number: f64,
    integer: bool,
    (min, max): (Option<f64>, Option<f64>),
    place: &Place<'_>,
) -> Result<(), String> {
    if integer && (number.is_infinite() || number.fract() != 0.0) {
        return place.fail(format_args!("expected an integer, got {}", Number(number)));
    }
    if let Some(min) = min.filter(|min| number < *min) {
        return place.fail(format_args!("{} is below the minimum {}", Number(number), Number(min)));
    }
    if let Some(max) = max.filter(|max| number > *max) {
        return place.fail(format_args!("{} is above the maximum {}", Number(number), Number(max)));
    }
    Ok(())
}

fn check_text(
    text: &str,
    (min, max): (Option<u64>, Option<u64>),
    pattern: Option<&Pattern>,
    place: &Place<'_>,
) -> Result<(), String> {
    if min.is_some() || max.is_some() {
        let length = text.encode_utf16().count() as u64;
        if let Some(min) = min.filter(|min| length < *min) {
            return place.fail(format_args!("shorter than {min} characters"));
        }
        if let Some(max) = max.filter(|max| length > *max) {
            return place.fail(format_args!("longer than {max} characters"));
        }
    }
    match pattern.filter(|pattern| !pattern.matches(text)) {
        Some(pattern) => place.fail(format_args!("does not match {}", pattern.as_str())),
        None => Ok(()),
    }
}

fn check_literal(value: Option<&Value>, literal: &Literal, place: &Place<'_>) -> Result<(), String> {
    let equal = match (literal, value) {
        (Literal::Null, Some(Value::Null)) => true,
        (Literal::Bool(wanted), Some(Value::Bool(bit))) => wanted == bit,
        (Literal::Text(wanted), Some(Value::Text(text))) => wanted == text,
        #[expect(clippy::float_cmp, reason = "a literal is met by the same number and by no other")]
        (Literal::Number(wanted), Some(value)) => value.as_f64().is_some_and(|number| number == *wanted),
        _ => false,
    };
    if equal { Ok(()) } else { place.fail(format_args!("expected {}", Json(literal))) }
}

/// The bound, if `length` is above it.
fn over(length: usize, most: Option<u64>) -> Option<u64> {
    most.filter(|most| length as u64 > *most)
}

/// Where a check stands: a chain up the stack that is printed only on failure.
struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    step: Step<'p>,
    depth: u32,
    /// Whether a failure here reaches anybody. Inside a union it does not, and is not worded.
    told: bool,
}

enum Step<'p> {
    Root(Root<'p>),
    Key(&'p str),
    Index(usize),
    Same,
}

enum Root<'p> {
    Text(&'p str),
    Argument(usize),
}

impl Place<'_> {
    fn below<'p>(&'p self, step: Step<'p>) -> Place<'p> {
        Place { parent: Some(self), step, depth: self.depth + 1, told: self.told }
    }

    fn fail(&self, what: fmt::Arguments<'_>) -> Result<(), String> {
        Err(if self.told { format!("{self}: {what}") } else { String::new() })
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(out)?;
        }
        match self.step {
            Step::Root(Root::Text("")) => out.write_str("value"),
            Step::Root(Root::Text(at)) => out.write_str(at),
            Step::Root(Root::Argument(at)) => write!(out, "argument {at}"),
            Step::Key(key) => write!(out, ".{key}"),
            Step::Index(at) => write!(out, "[{at}]"),
            Step::Same => Ok(()),
        }
    }
}

/// Prints a number only when a message needs it.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&ecma_number(self.0))
    }
}

/// Prints a literal as JSON only when a message needs it.
struct Json<'l>(&'l Literal);

impl fmt::Display for Json<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_literal(&mut text, self.0);
        out.write_str(&text)
    }
}

/// Levels a check may go down (S-033).
const MAX_DEPTH: u32 = 32;
/// The last instant ECMAScript can hold, in milliseconds either side of the epoch; beyond it a date is not valid.
const MAX_DATE: i64 = 8_640_000_000_000_000;
const MIN_DATE: i64 = -MAX_DATE;
/// Steps inside unions for one check; about a tenth of a second.
const MAX_UNION_STEPS: u32 = 4_000_000;

#[cfg(test)]
mod tests;
