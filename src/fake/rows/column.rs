//! What may be written into a row, field by field.

use super::{kind, refuse};
use crate::{
    contract::{Field, TypeNode, Types, validate},
    node::Failure,
    wire::Value,
};

/// A column that may be written.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub holds: Holds,
    /// Whether it may be null.
    pub nullable: bool,
    /// What a new row has in it that was not given one; absent: nothing at all.
    pub otherwise: Option<Value>,
    /// Whether a new row must be given one.
    pub required: bool,
    /// The type that a value must fit besides, with the types it refers to.
    pub declared: Option<(TypeNode, Types)>,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Text.
    Text,
    /// Whole numbers.
    Integer,
    /// Numbers.
    Number,
    /// True and false.
    Boolean,
    /// Instants.
    Date,
    /// Whatever its type says, or anything.
    Any,
}

impl Column {
    /// A column as a row's type declares it.
    pub fn declared(field: &Field, types: &Types) -> Self {
        let (node, nullable) = without_null(&field.node, types);
        let holds = match types.resolve(node) {
            Some(TypeNode::Text { .. }) => Holds::Text,
            Some(TypeNode::Number { integer: true, .. }) => Holds::Integer,
            Some(TypeNode::Number { .. }) => Holds::Number,
            Some(TypeNode::Boolean) => Holds::Boolean,
            Some(TypeNode::Date) => Holds::Date,
            _ => Holds::Any,
        };
        Self {
            name: field.name.clone(),
            holds,
            nullable,
            otherwise: (nullable && !field.optional).then_some(Value::Null),
            required: !field.optional && !nullable,
            declared: Some((field.node.clone(), types.clone())),
        }
    }

    /// A column of which nothing is declared.
    pub fn anything(name: &str) -> Self {
        let (holds, name) = (Holds::Any, name.to_owned());
        Self { name, holds, nullable: true, otherwise: None, required: false, declared: None }
    }

    /// Whether `value` may be written.
    ///
    /// # Errors
    /// Why not, in a sentence.
    pub(super) fn takes(&self, value: &Value) -> Result<(), Failure> {
        let name = &self.name;
        let word = self.holds.word();
        match (self.holds, value) {
            (_, Value::Null) if self.nullable => return Ok(()),
            (_, Value::Null) => return refuse(format!("{name} cannot be null - it is declared {word} not null")),
            (Holds::Text, Value::Text(text)) if text.len() > LONGEST => {
                return refuse(format!("{name} holds at most {LONGEST} bytes"));
            }
            (Holds::Any, _)
            | (Holds::Text, Value::Text(_))
            | (Holds::Boolean, Value::Bool(_))
            | (Holds::Date, Value::Date(_)) => {}
            (Holds::Integer, number) if number.as_i64().is_some() => {}
            (Holds::Number, number) if number.as_f64().is_some() => {}
            (_, other) => return refuse(format!("{name} holds {word} and was given a {}", kind(other))),
        }
        let Some((node, types)) = &self.declared else { return Ok(()) };
        validate::value(value, node, types, name).map_err(Failure::exception)
    }
}

impl Holds {
    const fn word(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::Integer => "INTEGER",
            Self::Number => "REAL",
            Self::Boolean => "BOOLEAN",
            Self::Date => "DATE",
            Self::Any => "ANY",
        }
    }
}

/// The type without the null it may also be, and whether it may.
fn without_null<'t>(node: &'t TypeNode, types: &'t Types) -> (&'t TypeNode, bool) {
    let is_null = |node: &&TypeNode| matches!(node, TypeNode::Null) || node.is_null_literal();
    match types.resolve(node) {
        Some(TypeNode::Union { options }) if options.iter().any(|option| is_null(&option)) => {
            let mut others = options.iter().filter(|option| !is_null(option));
            let only = others.next().filter(|_| others.next().is_none());
            (only.unwrap_or(node), true)
        }
        Some(TypeNode::Any | TypeNode::Null) => (node, true),
        _ => (node, false),
    }
}

/// Bytes of a text.
const LONGEST: usize = 4_096;
