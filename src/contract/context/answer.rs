//! What one host answers about one node (semantics 8.2), as it is written and as it is read from a host that may say
//! anything.

use super::{Axis, PerAxis, Ref, TokenId};
use crate::wire::{Map, Value};

/// A host's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct HostAnswer {
    /// What it is about.
    pub node: Ref,
    /// The refs on this host, nearest first, beginning with the node.
    pub walked: PerAxis<Vec<Ref>>,
    /// Where the chain goes on, on another host.
    pub continues: PerAxis<Option<Ref>>,
    /// Why the chain does not hold.
    pub trouble: PerAxis<Option<Trouble>>,
    /// The epochs of the links walked: what names this mount.
    pub chain_key: PerAxis<String>,
    /// One for each token asked for, in order.
    pub tokens: Vec<TokenAnswer>,
    /// Rises within a subscription.
    pub seq: i64,
}

/// Why a chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It leads to something that is not there.
    InvalidReference {
        /// What.
        at: Option<Ref>,
    },
    /// It leads back into itself.
    Cycle {
        /// The ring, once round.
        path: Vec<Ref>,
    },
    /// It is longer than a chain may be.
    DepthExceeded,
}

impl Trouble {
    /// The word on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::InvalidReference { .. } => INVALID_REFERENCE,
            Self::Cycle { .. } => CYCLE,
            Self::DepthExceeded => DEPTH_EXCEEDED,
        }
    }
}

/// What a host's providers say about one token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenAnswer {
    /// Its id, as it was asked for.
    pub id: String,
    /// Physical before logical, nearest first.
    pub entries: Vec<Entry>,
}

/// What one provider says.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where it provides.
    pub node: Ref,
    /// On which axis.
    pub axis: Axis,
    /// What.
    pub value: Value,
    /// Which state of the provider that is.
    pub provider: Version,
}

/// Names one state of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// One registration of it.
    pub epoch: String,
    /// Rises with every change of the value.
    pub revision: i64,
}

/// What is wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnswerFault(String);

impl AnswerFault {
    fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// The word for a chain that leads to what is not there.
pub const INVALID_REFERENCE: &str = "invalid-reference";
const CYCLE: &str = "cycle";
const DEPTH_EXCEEDED: &str = "depth-exceeded";
/// Refs of one axis in an answer that is read. A host stops at 129.
const MAX_WALKED: usize = 256;
/// Tokens in an answer that is read.
const MAX_TOKENS: usize = 64;
/// Entries of one token in an answer that is read: one for each ref of both axes.
const MAX_ENTRIES: usize = 2 * MAX_WALKED;
/// Bytes of a text that names a state.
const MAX_KEY: usize = 64 << 10;
/// About so many bytes of values may be in an answer that is read. Hosts give 16 KiB for one unless told otherwise.
const MAX_VALUES: usize = 1 << 20;

// Written.
impl HostAnswer {
    /// The answer as it travels.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        out.insert("node", self.node.to_value());
        out.insert("walked", both(|axis| refs(self.walked.of(axis))));
        let continues = Axis::ALL.into_iter().filter_map(|axis| Some((axis, self.continues.of(axis).as_ref()?)));
        out.insert("continues", continues.map(|(axis, at)| (axis.as_str().into(), at.to_value())).collect::<Map>());
        let troubles = Axis::ALL.into_iter().filter_map(|axis| Some((axis, self.trouble.of(axis).as_ref()?)));
        out.insert("trouble", troubles.map(|(axis, trouble)| write_trouble(axis, trouble)).collect::<Vec<_>>());
        out.insert("chainKey", both(|axis| self.chain_key.of(axis).as_str().into()));
        out.insert("tokens", self.tokens.iter().map(write_token).collect::<Vec<_>>());
        out.insert("seq", self.seq);
        out.into()
    }

    /// The same answer without values: two that are equal say the same, because a version names a value.
    pub(crate) fn outline(&self) -> Self {
        let mut outline = Self { seq: 0, ..self.clone() };
        for entry in outline.tokens.iter_mut().flat_map(|token| &mut token.entries) {
            entry.value = Value::Null;
        }
        outline
    }
}

fn both(of: impl Fn(Axis) -> Value) -> Map {
    Axis::ALL.into_iter().map(|axis| (axis.as_str().to_owned(), of(axis))).collect()
}

fn refs(refs: &[Ref]) -> Value {
    refs.iter().map(Ref::to_value).collect::<Vec<_>>().into()
}

fn write_trouble(axis: Axis, trouble: &Trouble) -> Value {
    let mut out = Map::new();
    out.insert("axis", axis.as_str());
    out.insert("status", trouble.as_str());
    match trouble {
        Trouble::InvalidReference { at: Some(at) } => out.insert("at", at.to_value()),
        Trouble::Cycle { path } => out.insert("path", refs(path)),
        Trouble::InvalidReference { at: None } | Trouble::DepthExceeded => {}
    }
    out.into()
}

fn write_token(token: &TokenAnswer) -> Value {
    let entries = token.entries.iter().map(|entry| {
        let mut provider = Map::new();
        provider.insert("epoch", entry.provider.epoch.as_str());
        provider.insert("revision", entry.provider.revision);
        let mut out = Map::new();
        out.insert("node", entry.node.to_value());
        out.insert("axis", entry.axis.as_str());
        out.insert("value", entry.value.clone());
        out.insert("provider", provider);
        Value::from(out)
    });
    let mut out = Map::new();
    out.insert("tokenId", token.id.as_str());
    out.insert("entries", entries.collect::<Vec<_>>());
    out.into()
}

// Read.
impl HostAnswer {
    /// Reads an answer. What has no meaning here is ignored; what has one and is not what it must be is refused.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn parse(answer: &Value) -> Result<Self, AnswerFault> {
        if answer.as_map().is_none() {
            return Err(AnswerFault::new("it is no map"));
        }
        let walked = part(answer, "walked");
        let key = part(answer, "chainKey");
        Ok(Self {
            node: place(part(answer, "node"), "node")?,
            walked: PerAxis::try_each(|axis| places(part(walked, axis.as_str()), "walked"))?,
            continues: PerAxis::try_each(|axis| going_on(part(part(answer, "continues"), axis.as_str())))?,
            trouble: read_trouble(part(answer, "trouble"))?,
            chain_key: PerAxis::try_each(|axis| text(part(key, axis.as_str()), "chainKey"))?,
            tokens: read_tokens(part(answer, "tokens"))?,
            seq: count(part(answer, "seq"), "seq")?,
        })
    }

    /// Checks that this is what `asked` was to answer about `token` on `axis`; gives the entries, nearest first.
    ///
    /// # Errors
    ///
    /// Why it is not.
    pub fn about(&self, asked: &Ref, token: &TokenId, axis: Axis) -> Result<Vec<&Entry>, AnswerFault> {
        if self.node != *asked {
            return Err(AnswerFault::new(format!("it is about {}, and {asked} was asked for", self.node)));
        }
        let (walked, trouble) = (self.walked.of(axis), self.trouble.of(axis));
        match (walked.first(), trouble) {
            (Some(first), _) if first == asked => {}
            (None, Some(_)) => {}
            (Some(first), _) => return Err(AnswerFault::new(format!("its chain begins with {first}, not {asked}"))),
            (None, None) => return Err(AnswerFault::new("its chain is empty, and nothing says why")),
        }
        if let Some(foreign) = walked.iter().find(|at| at.peer != asked.peer) {
            return Err(AnswerFault::new(format!("it answers for {foreign}, which is not its own")));
        }
        if let Some(own) = self.continues.of(axis).as_ref().filter(|at| at.peer == asked.peer) {
            return Err(AnswerFault::new(format!("it says that the chain leaves it for {own}, which is its own")));
        }
        self.entries(token, axis)
    }

    /// The entries of a token on an axis, each from a provider on the chain.
    fn entries(&self, token: &TokenId, axis: Axis) -> Result<Vec<&Entry>, AnswerFault> {
        let found = self.tokens.iter().find(|answered| answered.id == token.as_str());
        let found = found.ok_or_else(|| AnswerFault::new(format!("it says nothing about {token}")))?;
        let walked = self.walked.of(axis);
        let mut entries = Vec::new();
        for entry in found.entries.iter().filter(|entry| entry.axis == axis) {
            let at = walked.iter().position(|at| *at == entry.node);
            let at = at.ok_or_else(|| AnswerFault::new(format!("{} provides and is not on the chain", entry.node)))?;
            entries.push((at, entry));
        }
        entries.sort_by_key(|(at, _)| *at);
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }
}

/// A member, or nothing.
fn part<'a>(map: &'a Value, key: &str) -> &'a Value {
    map.get(key).unwrap_or(&Value::Null)
}

fn place(value: &Value, what: &str) -> Result<Ref, AnswerFault> {
    Ref::parse(value).ok_or_else(|| AnswerFault::new(format!("its {what} is no ref of a peer and an instance")))
}

fn places(value: &Value, what: &str) -> Result<Vec<Ref>, AnswerFault> {
    list(value, MAX_WALKED, what)?.iter().map(|item| place(item, what)).collect()
}

fn going_on(value: &Value) -> Result<Option<Ref>, AnswerFault> {
    if *value == Value::Null { Ok(None) } else { place(value, "continues").map(Some) }
}

fn list<'a>(value: &'a Value, most: usize, what: &str) -> Result<&'a [Value], AnswerFault> {
    let items = value.as_array().ok_or_else(|| AnswerFault::new(format!("its {what} is no list")))?;
    if items.len() > most {
        return Err(AnswerFault::new(format!("its {what} has {} entries, and may have {most}", items.len())));
    }
    Ok(items)
}

fn text(value: &Value, what: &str) -> Result<String, AnswerFault> {
    let text = value.as_str().filter(|text| text.len() <= MAX_KEY);
    text.map(str::to_owned).ok_or_else(|| AnswerFault::new(format!("its {what} is no text, or too long")))
}

fn count(value: &Value, what: &str) -> Result<i64, AnswerFault> {
    let number = value.as_i64().filter(|number| *number >= 0);
    number.ok_or_else(|| AnswerFault::new(format!("its {what} is no count")))
}

/// The first trouble of each axis. A status that is not known here is no reason to trust the chain.
fn read_trouble(value: &Value) -> Result<PerAxis<Option<Trouble>>, AnswerFault> {
    let mut found = PerAxis::default();
    if *value == Value::Null {
        return Ok(found);
    }
    for trouble in list(value, 2, "trouble")? {
        let axis = part(trouble, "axis").as_str().and_then(Axis::parse);
        let slot = match axis {
            Some(Axis::Physical) => &mut found.physical,
            Some(Axis::Logical) => &mut found.logical,
            None => return Err(AnswerFault::new("it has trouble on no axis there is")),
        };
        let read = match part(trouble, "status").as_str() {
            Some(INVALID_REFERENCE) => Trouble::InvalidReference { at: Ref::parse(part(trouble, "at")) },
            Some(CYCLE) if *part(trouble, "path") == Value::Null => Trouble::Cycle { path: Vec::new() },
            Some(CYCLE) => Trouble::Cycle { path: places(part(trouble, "path"), "path")? },
            Some(DEPTH_EXCEEDED) => Trouble::DepthExceeded,
            _ => return Err(AnswerFault::new("it has trouble of a kind that is not known here")),
        };
        slot.get_or_insert(read);
    }
    Ok(found)
}

fn read_tokens(value: &Value) -> Result<Vec<TokenAnswer>, AnswerFault> {
    let mut left = MAX_VALUES;
    let tokens = list(value, MAX_TOKENS, "tokens")?.iter();
    let tokens = tokens.map(|token| {
        let entries = list(part(token, "entries"), MAX_ENTRIES, "entries")?.iter();
        let entries = entries.map(|entry| read_entry(entry, &mut left)).collect::<Result<_, _>>()?;
        Ok(TokenAnswer { id: text(part(token, "tokenId"), "tokenId")?, entries })
    });
    tokens.collect()
}

fn read_entry(entry: &Value, left: &mut usize) -> Result<Entry, AnswerFault> {
    let value = part(entry, "value");
    *left = left
        .checked_sub(weight(value))
        .ok_or_else(|| AnswerFault::new(format!("its values have more than {MAX_VALUES} bytes")))?;
    let axis = part(entry, "axis").as_str().and_then(Axis::parse);
    let provider = part(entry, "provider");
    Ok(Entry {
        node: place(part(entry, "node"), "entry")?,
        axis: axis.ok_or_else(|| AnswerFault::new("an entry of it is on no axis there is"))?,
        value: value.clone(),
        provider: Version {
            epoch: text(part(provider, "epoch"), "provider")?,
            revision: count(part(provider, "revision"), "provider")?,
        },
    })
}

/// About how many bytes a value takes. What was read from a link is nested within its bound.
fn weight(value: &Value) -> usize {
    const SCALAR: usize = 8;
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Date(_) => SCALAR,
        Value::Text(text) => SCALAR + text.len(),
        Value::Bytes(bytes) | Value::Ext(_, bytes) => SCALAR + bytes.len(),
        Value::Array(items) => SCALAR + items.iter().map(weight).sum::<usize>(),
        Value::Map(map) => SCALAR + map.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>(),
    }
}
