//! The type language: one [`TypeNode`] per `kind`, and the named types they refer to (semantics 3).

use std::{collections::HashMap, sync::Arc};

use super::Pattern;

/// One node of the type language, read once, with its patterns compiled.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeNode {
    /// Accepts everything.
    Any,
    /// Accepts null only.
    Null,
    /// Accepts true and false.
    Boolean,
    /// Accepts numbers except NaN.
    Number {
        /// Whether a fraction is refused.
        integer: bool,
        /// The least value accepted.
        min: Option<f64>,
        /// The greatest value accepted.
        max: Option<f64>,
    },
    /// Accepts text.
    Text {
        /// Least length, in UTF-16 units (S-031).
        min_length: Option<u64>,
        /// Greatest length, in UTF-16 units.
        max_length: Option<u64>,
        /// What the text must contain.
        pattern: Option<Pattern>,
    },
    /// Accepts byte strings.
    Bytes {
        /// Greatest length, in bytes.
        max_bytes: Option<u64>,
    },
    /// Accepts valid instants.
    Date,
    /// Accepts exactly one value.
    Literal(Literal),
    /// Accepts lists.
    Array {
        /// The type of every item.
        items: Box<TypeNode>,
        /// Greatest number of items.
        max_items: Option<u64>,
    },
    /// Accepts lists of exactly this length.
    Tuple {
        /// The type of each item.
        items: Vec<TypeNode>,
    },
    /// Accepts maps with these fields.
    Object {
        /// The fields, in contract order, which is the order they are checked in (S-036).
        fields: Vec<Field>,
        /// Whether other keys are accepted.
        additional: bool,
    },
    /// Accepts maps from any key to one type of value.
    Record {
        /// The type of every value.
        values: Box<TypeNode>,
        /// What every key must contain.
        key_pattern: Option<Pattern>,
        /// Greatest number of entries.
        max_entries: Option<u64>,
    },
    /// Accepts what one of its options accepts.
    Union {
        /// The options, tried in order.
        options: Vec<TypeNode>,
    },
    /// Accepts what the named type accepts.
    Ref {
        /// The name, looked up in [`Types`].
        name: String,
    },
    /// A kind this build does not know; accepts nothing (S-034).
    Unknown {
        /// The kind as written.
        kind: String,
    },
    /// A node that is broken in itself; accepts nothing.
    Malformed {
        /// The kind as written, or a stand-in.
        kind: String,
        /// What is wrong with it.
        why: String,
    },
}

impl TypeNode {
    /// Whether a parameter of this type may be left out (S-035): `any`, or a union that directly holds literal null.
    pub fn is_optional(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Union { options } => options.iter().any(Self::is_null_literal),
            _ => false,
        }
    }

    /// Whether this is the literal null, which is not the same as the kind `null`.
    pub fn is_null_literal(&self) -> bool {
        matches!(self, Self::Literal(Literal::Null))
    }

    /// The kind as a contract writes it.
    pub fn kind(&self) -> &str {
        match self {
            Self::Any => "any",
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number { .. } => "number",
            Self::Text { .. } => "string",
            Self::Bytes { .. } => "bytes",
            Self::Date => "date",
            Self::Literal(_) => "literal",
            Self::Array { .. } => "array",
            Self::Tuple { .. } => "tuple",
            Self::Object { .. } => "object",
            Self::Record { .. } => "record",
            Self::Union { .. } => "union",
            Self::Ref { .. } => "ref",
            Self::Unknown { kind } | Self::Malformed { kind, .. } => kind,
        }
    }
}

/// One field of an object type.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The key.
    pub name: String,
    /// The type of its value.
    pub node: TypeNode,
    /// Whether the key may be absent. A present null is present, and checked.
    pub optional: bool,
}

/// The value a literal type accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// This text.
    Text(String),
    /// This number; minus zero equals zero.
    Number(f64),
    /// This truth value.
    Bool(bool),
    /// Null.
    Null,
}

/// Named types. A name finds what was declared under it and nothing else (S-037).
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// Shared until somebody adds to it: many may hold the types of one contract.
    named: Arc<HashMap<String, TypeNode>>,
    /// Types that many declare to the letter, held once.
    also: Option<&'static Self>,
}

impl Types {
    /// The type declared as `name`.
    pub fn get(&self, name: &str) -> Option<&TypeNode> {
        self.named.get(name).or_else(|| self.also?.get(name))
    }

    /// Declares a type; a later declaration replaces the earlier one.
    pub fn insert(&mut self, name: impl Into<String>, node: TypeNode) {
        Arc::make_mut(&mut self.named).insert(name.into(), node);
    }

    /// Declares what `others` declares too. A type declared here comes before one of them.
    pub(crate) fn share(&mut self, others: &'static Self) {
        self.also = Some(others);
    }

    /// Holds its types together with `others` who declares the same ones.
    pub(super) fn hold_with(&mut self, others: &Self) {
        if self.named == others.named {
            self.named = others.named.clone();
        }
    }

    /// How many types are declared.
    pub fn len(&self) -> usize {
        self.named.len() + self.also.map_or(0, Self::len)
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type at the end of a chain of references that starts at `node`; `None` for an unknown name or a ring.
    pub fn resolve<'a>(&'a self, node: &'a TypeNode) -> Option<&'a TypeNode> {
        let mut node = node;
        for _ in 0..MAX_CHAIN {
            match node {
                TypeNode::Ref { name } => node = self.get(name)?,
                other => return Some(other),
            }
        }
        None
    }
}

/// A chain of references longer than this never validates either (S-033).
const MAX_CHAIN: usize = 32;
