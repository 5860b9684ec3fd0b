//! Which rows: conditions on fields, and groups of them, bounded in depth and number.

use super::text_of;
use crate::{
    contract::text::by_code_unit,
    wire::{Map, Value},
};

/// Which rows are wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Those that meet a condition.
    Condition(Condition),
    /// Those that meet every one of these.
    All(Vec<Filter>),
    /// Those that meet one of these.
    Any(Vec<Filter>),
}

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Of what: a field, a dotted path into the row, `id` for its key; `None` for the row itself.
    pub field: Option<String>,
    /// How.
    pub operator: Operator,
    /// With what.
    pub operand: Operand,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The text of one begins with that of the other.
    StartsWith,
    /// The text of one holds that of the other.
    Contains,
    /// They are the same.
    Eq,
    /// They are not the same.
    Ne,
    /// Less.
    Lt,
    /// Less or the same.
    Lte,
    /// Greater.
    Gt,
    /// Greater or the same.
    Gte,
}

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// Null.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

/// Levels of a filter.
const MAX_DEPTH: usize = 8;
/// Conditions and groups of a filter.
const MAX_NODES: usize = 64;

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    ///
    /// The text of the refusal.
    pub fn parse(value: &Value) -> Result<Self, String> {
        read(value, 1, &mut 0)
    }

    /// The filter as it is sent.
    pub fn to_value(&self) -> Value {
        let group = |name: &str, filters: &[Self]| {
            let filters: Vec<Value> = filters.iter().map(Self::to_value).collect();
            let mut group = Map::new();
            group.insert(name, filters);
            group.into()
        };
        match self {
            Self::All(filters) => group("all", filters),
            Self::Any(filters) => group("any", filters),
            Self::Condition(condition) => {
                let mut out = Map::new();
                if let Some(field) = &condition.field {
                    out.insert("field", field.as_str());
                }
                out.insert("op", condition.operator.as_str());
                out.insert("operand", condition.operand.to_value());
                out.into()
            }
        }
    }

    /// Whether the row under `key` is wanted.
    pub fn matches(&self, key: &str, row: &Value) -> bool {
        match self {
            Self::All(filters) => filters.iter().all(|filter| filter.matches(key, row)),
            Self::Any(filters) => filters.iter().any(|filter| filter.matches(key, row)),
            Self::Condition(condition) => match condition.field.as_deref() {
                Some("id") => condition.holds(Some(&key.into())),
                field => condition.holds(field_of(row, field)),
            },
        }
    }
}

fn read(value: &Value, depth: usize, nodes: &mut usize) -> Result<Filter, String> {
    if depth > MAX_DEPTH {
        return Err(format!("$data: a filter nested deeper than {MAX_DEPTH} is refused"));
    }
    *nodes += 1;
    if *nodes > MAX_NODES {
        return Err(format!("$data: a filter of more than {MAX_NODES} conditions is refused"));
    }
    let Some(map) = value.as_map() else {
        return Err("$data: a filter is a condition, or { all: [...] }, or { any: [...] }".into());
    };
    if let Some(group) = map.get("all") {
        return read_group("all", group, depth, nodes).map(Filter::All);
    }
    if let Some(group) = map.get("any") {
        return read_group("any", group, depth, nodes).map(Filter::Any);
    }
    Condition::parse(map).map(Filter::Condition)
}

fn read_group(name: &str, group: &Value, depth: usize, nodes: &mut usize) -> Result<Vec<Filter>, String> {
    let filters = group.as_array().filter(|filters| !filters.is_empty());
    let filters = filters.ok_or_else(|| format!("$data: {name} is a non-empty array of filters"))?;
    filters.iter().map(|filter| read(filter, depth + 1, nodes)).collect()
}

impl Condition {
    fn parse(map: &Map) -> Result<Self, String> {
        let operator = map.get("op").and_then(Value::as_str).and_then(Operator::parse).ok_or_else(|| {
            let names: Vec<&str> = Operator::ALL.iter().map(|operator| operator.as_str()).collect();
            format!("$data: {} is not a comparison - one of {}", text_of(map.get("op")), names.join(", "))
        })?;
        let operand = map.get("operand").and_then(Operand::read);
        let operand = operand.ok_or("$data: an operand is a string, number, boolean or null")?;
        let field = match map.get("field") {
            None => None,
            Some(Value::Text(field)) if !field.is_empty() => Some(field.clone()),
            Some(_) => {
                let text = "$data: a condition field is a non-empty string, or absent to compare the row itself";
                return Err(text.into());
            }
        };
        Ok(Self { field, operator, operand })
    }

    /// Whether `value` meets it. What is not there meets only "is not".
    pub(super) fn holds(&self, value: Option<&Value>) -> bool {
        let Some(value) = value else { return self.operator == Operator::Ne };
        match self.operator {
            Operator::Eq => self.operand.is(value),
            Operator::Ne => !self.operand.is(value),
            Operator::StartsWith => text_of(Some(value)).starts_with(&self.operand.text()),
            Operator::Contains => text_of(Some(value)).contains(&self.operand.text()),
            Operator::Lt | Operator::Lte | Operator::Gt | Operator::Gte => self.ordered(value),
        }
    }

    /// An ordered comparison needs two numbers or two texts.
    fn ordered(&self, value: &Value) -> bool {
        let order = match (&self.operand, value) {
            (Operand::Number(operand), value) => value.as_f64().and_then(|value| value.partial_cmp(operand)),
            (Operand::Text(operand), Value::Text(value)) => Some(by_code_unit(value, operand)),
            _ => None,
        };
        order.is_some_and(|order| match self.operator {
            Operator::Lt => order.is_lt(),
            Operator::Lte => order.is_le(),
            Operator::Gt => order.is_gt(),
            _ => order.is_ge(),
        })
    }
}

impl Operator {
    /// All of them, in the order refusals list them.
    const ALL: [Self; 8] =
        [Self::StartsWith, Self::Contains, Self::Eq, Self::Ne, Self::Lt, Self::Lte, Self::Gt, Self::Gte];

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.as_str() == word)
    }

    /// The word of the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StartsWith => "startsWith",
            Self::Contains => "contains",
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::Lt => "lt",
            Self::Lte => "lte",
            Self::Gt => "gt",
            Self::Gte => "gte",
        }
    }
}

impl Operand {
    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Null),
            Value::Bool(bit) => Some(Self::Bool(*bit)),
            Value::Text(text) => Some(Self::Text(text.clone())),
            Value::Int(_) | Value::Float(_) => value.as_f64().map(Self::Number),
            Value::Bytes(_) | Value::Date(_) | Value::Ext(..) | Value::Array(_) | Value::Map(_) => None,
        }
    }

    /// As it is sent.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(bit) => (*bit).into(),
            Self::Number(number) => match Value::Float(*number).as_i64() {
                Some(integer) => integer.into(),
                None => (*number).into(),
            },
            Self::Text(text) => text.as_str().into(),
        }
    }

    #[expect(clippy::float_cmp, reason = "a row has the number or it has another; near is another")]
    fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(operand), Value::Bool(value)) => operand == value,
            (Self::Text(operand), Value::Text(value)) => operand == value,
            (Self::Number(operand), value) => value.as_f64().is_some_and(|value| value == *operand),
            _ => false,
        }
    }

    fn text(&self) -> String {
        text_of(Some(&self.to_value()))
    }
}

/// What stands in a row under a field: a member, or a dotted path of them; the row itself if no field is named.
pub(super) fn field_of<'v>(row: &'v Value, field: Option<&str>) -> Option<&'v Value> {
    field.map_or(Some(row), |field| field.split('.').try_fold(row, |at, step| at.get(step)))
}
