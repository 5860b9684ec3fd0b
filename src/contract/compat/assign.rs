//! Whether every value of one type fits another (semantics 5.2), each side's named types kept apart (S-056).
//!
//! Recursive types are compared by assumption: every pair of types that a reference leads to is taken to fit until it is
//! found not to, and then whatever leaned on it is looked at again. Nothing recurses through a reference, so that neither
//! depth nor rings cost any stack, and every pair is looked at a bounded number of times. All of it ends at a number of
//! steps, beyond which nothing is said to fit.
//!
//! Where the reference calls something compatible that is not, we do not: see the list beside the vectors' test.

use std::collections::HashMap;

use crate::contract::{Field, Literal, Pattern, TypeNode, Types};

/// Compares types of one side with types of the other. What is found out stays known.
#[derive(Debug)]
pub(super) struct Assignment<'t> {
    from: &'t Types,
    to: &'t Types,
    pairs: Vec<Pair<'t>>,
    index: HashMap<(*const TypeNode, *const TypeNode), usize>,
    /// Pairs to be looked at, or at again.
    queue: Vec<usize>,
    steps: usize,
    /// Whether what neither side can make anything of is the same where it reads the same.
    alike: bool,
}

/// Two types, of which at least one was referred to.
#[derive(Debug)]
struct Pair<'t> {
    from: &'t TypeNode,
    to: &'t TypeNode,
    /// Assumed until found otherwise, and then never again.
    fits: bool,
    /// Pairs whose finding leans on this one.
    leaning: Vec<usize>,
    queued: bool,
}

impl<'t> Assignment<'t> {
    /// Compares values described with the named types `from` with types described with `to`.
    pub(super) fn new(from: &'t Types, to: &'t Types) -> Self {
        Self { from, to, pairs: Vec::new(), index: HashMap::new(), queue: Vec::new(), steps: 0, alike: false }
    }

    /// The same to tell whether two sides differ: what cannot be understood on either is no difference if it reads the same.
    pub(super) fn between_alike(from: &'t Types, to: &'t Types) -> Self {
        Self { alike: true, ..Self::new(from, to) }
    }

    /// Whether every value of `from` fits `to`.
    pub(super) fn fits(&mut self, from: &'t TypeNode, to: &'t TypeNode) -> bool {
        loop {
            let fits = self.look(from, to, None);
            if self.queue.is_empty() {
                return fits && !self.is_spent();
            }
            self.settle();
        }
    }

    /// Whether it has done all the work that is done, and says of nothing more that it fits.
    pub(super) const fn is_spent(&self) -> bool {
        self.steps > MAX_STEPS
    }

    /// The named types of both sides.
    pub(super) const fn types(&self) -> (&'t Types, &'t Types) {
        (self.from, self.to)
    }

    /// Looks at every pair that waits, until none does.
    fn settle(&mut self) {
        while let Some(at) = self.queue.pop() {
            let Some(pair) = self.pairs.get_mut(at) else { continue };
            pair.queued = false;
            let (from, to) = (pair.from, pair.to);
            if !pair.fits || self.plain(from, to, Some(at)) {
                continue;
            }
            let Some(pair) = self.pairs.get_mut(at) else { continue };
            pair.fits = false;
            for leaning in std::mem::take(&mut pair.leaning) {
                self.enqueue(leaning);
            }
        }
    }

    fn enqueue(&mut self, at: usize) {
        if let Some(pair) = self.pairs.get_mut(at)
            && pair.fits
            && !pair.queued
        {
            pair.queued = true;
            self.queue.push(at);
        }
    }

    /// One pair, on behalf of the pair `asking`. What a reference leads to is assumed or known, not looked into.
    fn look(&mut self, from: &'t TypeNode, to: &'t TypeNode, asking: Option<usize>) -> bool {
        self.steps += 1;
        if self.is_spent() {
            return false;
        }
        let is_ref = |node: &TypeNode| matches!(node, TypeNode::Ref { .. });
        if !is_ref(from) && !is_ref(to) {
            return self.plain(from, to, asking);
        }
        let (Some(from), Some(to)) = (self.from.resolve(from), self.to.resolve(to)) else {
            return self.alike && reads_alike(from, to);
        };
        let at = match self.index.get(&(std::ptr::from_ref(from), std::ptr::from_ref(to))) {
            Some(at) => *at,
            None => self.assume(from, to),
        };
        let Some(pair) = self.pairs.get_mut(at) else { return false };
        if let Some(asking) = asking
            && pair.fits
            && pair.leaning.last() != Some(&asking)
        {
            pair.leaning.push(asking);
        }
        pair.fits
    }

    fn assume(&mut self, from: &'t TypeNode, to: &'t TypeNode) -> usize {
        let at = self.pairs.len();
        self.index.insert((std::ptr::from_ref(from), std::ptr::from_ref(to)), at);
        self.pairs.push(Pair { from, to, fits: true, leaning: Vec::new(), queued: true });
        self.queue.push(at);
        at
    }

    /// Neither is a reference.
    fn plain(&mut self, from: &'t TypeNode, to: &'t TypeNode, asking: Option<usize>) -> bool {
        match (from, to) {
            (_, TypeNode::Any)
            | (TypeNode::Null, TypeNode::Null)
            | (TypeNode::Boolean, TypeNode::Boolean)
            | (TypeNode::Date, TypeNode::Date) => true,
            (TypeNode::Union { options: from }, TypeNode::Union { options }) => {
                // Usually an option stands where it stood.
                from.iter().enumerate().all(|(at, from)| {
                    options.get(at).is_some_and(|same| self.look(from, same, asking)) || self.look(from, to, asking)
                })
            }
            (TypeNode::Union { options }, _) => options.iter().all(|option| self.look(option, to, asking)),
            (_, TypeNode::Union { options }) => options.iter().any(|option| self.look(from, option, asking)),
            (TypeNode::Any, _) => false,
            (TypeNode::Literal(from), TypeNode::Literal(to)) => from == to,
            (TypeNode::Literal(literal), _) => literal_fits(literal, to),
            (TypeNode::Number { .. }, TypeNode::Number { .. })
            | (TypeNode::Text { .. }, TypeNode::Text { .. })
            | (TypeNode::Bytes { .. }, TypeNode::Bytes { .. }) => bounds_fit(from, to),
            (TypeNode::Tuple { items: from }, TypeNode::Tuple { items: to }) => {
                from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.look(from, to, asking))
            }
            (TypeNode::Unknown { .. } | TypeNode::Malformed { .. }, _) => self.alike && reads_alike(from, to),
            _ => self.nested(from, to, asking),
        }
    }

    fn nested(&mut self, from: &'t TypeNode, to: &'t TypeNode, asking: Option<usize>) -> bool {
        match (from, to) {
            (
                TypeNode::Array { items: from, max_items: from_most },
                TypeNode::Array { items: to, max_items: to_most },
            ) => at_most(*from_most, *to_most) && (*from_most == Some(0) || self.look(from, to, asking)),
            (
                TypeNode::Record { values: from, key_pattern: from_keys, max_entries: from_most },
                TypeNode::Record { values: to, key_pattern: to_keys, max_entries: to_most },
            ) => {
                at_most(*from_most, *to_most)
                    && same_pattern(from_keys.as_ref(), to_keys.as_ref())
                    && self.look(from, to, asking)
            }
            (
                TypeNode::Object { fields: from, additional: from_open },
                TypeNode::Object { fields: to, additional: to_open },
            ) => self.objects((from, *from_open), (to, *to_open), asking),
            _ => false,
        }
    }

    fn objects(
        &mut self,
        (from, from_open): (&'t [Field], bool),
        (to, to_open): (&'t [Field], bool),
        asking: Option<usize>,
    ) -> bool {
        // What may hold any other key fits neither a closed object nor a field it does not declare.
        if from_open && !to_open {
            return false;
        }
        let known = Fields::of(from);
        let fits = to.iter().enumerate().all(|(at, field)| match known.find(at, &field.name) {
            None => field.optional && (!from_open || matches!(field.node, TypeNode::Any)),
            Some(known) => (field.optional || !known.optional) && self.look(&known.node, &field.node, asking),
        });
        if to_open || !fits {
            return fits;
        }
        let declared = Fields::of(to);
        from.iter().enumerate().all(|(at, field)| declared.find(at, &field.name).is_some())
    }
}

/// The fields of an object, to be found by name.
#[derive(Debug)]
pub(super) struct Fields<'t> {
    fields: &'t [Field],
    /// Of many: few are looked through faster than they are entered anywhere.
    by_name: Option<HashMap<&'t str, &'t Field>>,
}

impl<'t> Fields<'t> {
    pub(super) fn of(fields: &'t [Field]) -> Self {
        let many = fields.len() > FEW_FIELDS;
        let by_name = many.then(|| fields.iter().map(|field| (field.name.as_str(), field)).collect());
        Self { fields, by_name }
    }

    /// The field of this name, which usually stands at the same place on both sides.
    pub(super) fn find(&self, at: usize, name: &str) -> Option<&'t Field> {
        if let Some(same) = self.fields.get(at).filter(|field| field.name == name) {
            return Some(same);
        }
        match &self.by_name {
            Some(by_name) => by_name.get(name).copied(),
            None => self.fields.iter().find(|field| field.name == name),
        }
    }
}

/// Whether two types that mean nothing here are written alike.
fn reads_alike(from: &TypeNode, to: &TypeNode) -> bool {
    match (from, to) {
        (TypeNode::Ref { name: from }, TypeNode::Ref { name: to })
        | (TypeNode::Unknown { kind: from }, TypeNode::Unknown { kind: to })
        | (TypeNode::Malformed { why: from, .. }, TypeNode::Malformed { why: to, .. }) => from == to,
        _ => false,
    }
}

/// Whether one value fits a type that is neither a reference, nor a union, nor any, nor a literal.
pub(super) fn literal_fits(literal: &Literal, to: &TypeNode) -> bool {
    match (literal, to) {
        (Literal::Null, TypeNode::Null) | (Literal::Bool(_), TypeNode::Boolean) => true,
        (Literal::Number(number), TypeNode::Number { integer, min, max }) => {
            (!integer || number.fract() == 0.0)
                && min.is_none_or(|min| *number >= min)
                && max.is_none_or(|max| *number <= max)
        }
        (Literal::Text(text), TypeNode::Text { min_length, max_length, pattern }) => {
            let length = text.encode_utf16().count() as u64;
            min_length.is_none_or(|min| length >= min)
                && max_length.is_none_or(|max| length <= max)
                && pattern.as_ref().is_none_or(|pattern| pattern.unchecked().is_none() && pattern.matches(text))
        }
        _ => false,
    }
}

/// Whether the bounds of `from` imply those of `to`, both of one kind.
pub(super) fn bounds_fit(from: &TypeNode, to: &TypeNode) -> bool {
    match (from, to) {
        (
            TypeNode::Number { integer: from_integer, min: from_min, max: from_max },
            TypeNode::Number { integer, min, max },
        ) => {
            (*from_integer || !integer)
                && min.is_none_or(|min| from_min.is_some_and(|from| from >= min))
                && max.is_none_or(|max| from_max.is_some_and(|from| from <= max))
        }
        (
            TypeNode::Text { min_length: from_min, max_length: from_max, pattern: from_pattern },
            TypeNode::Text { min_length, max_length, pattern },
        ) => {
            min_length.is_none_or(|min| min == 0 || from_min.is_some_and(|from| from >= min))
                && at_most(*from_max, *max_length)
                && same_pattern(from_pattern.as_ref(), pattern.as_ref())
        }
        (TypeNode::Bytes { max_bytes: from }, TypeNode::Bytes { max_bytes: to }) => at_most(*from, *to),
        _ => false,
    }
}

/// Whether what has at most `from` of something has at most `to`.
pub(super) fn at_most(from: Option<u64>, to: Option<u64>) -> bool {
    to.is_none_or(|to| from.is_some_and(|from| from <= to))
}

/// Patterns are compared by their text: which of two accepts more is not asked.
pub(super) fn same_pattern(from: Option<&Pattern>, to: Option<&Pattern>) -> bool {
    to.is_none_or(|to| from.is_some_and(|from| from.as_str() == to.as_str()))
}

/// Up to this many fields are looked through.
const FEW_FIELDS: usize = 16;
/// Pairs that are looked at in one comparison of two documents.
const MAX_STEPS: usize = 8_000_000;
