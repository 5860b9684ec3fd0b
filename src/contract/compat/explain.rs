//! Where two types part: the deepest place at which one does not fit the other, for whoever must put it right.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::assign::{Assignment, Fields, at_most, bounds_fit, same_pattern};
use crate::contract::{Field, TypeNode, Types, problem::push_token, signature};

/// Where two types part, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// JSON Pointer into the document of the values.
    pub(super) from_at: String,
    /// JSON Pointer into the document of what they were to fit.
    pub(super) to_at: String,
    /// The type of the values there.
    pub(super) from: String,
    /// The type they were to fit.
    pub(super) to: String,
    /// What the two lines above do not show.
    pub(super) note: Option<String>,
}

/// Finds where types part. What two named types part at is found once.
#[derive(Debug, Default)]
pub(super) struct Explainer {
    known: HashMap<Key, Mismatch>,
}

/// Two types by where they are held.
type Key = (*const TypeNode, *const TypeNode);

impl Explainer {
    /// Why values of `from` do not fit `to`, which was found before: the nearest place at which they part.
    pub(super) fn explain<'t>(
        &mut self,
        assignment: &mut Assignment<'t>,
        (from, from_at): (&'t TypeNode, &str),
        (to, to_at): (&'t TypeNode, &str),
    ) -> Mismatch {
        let mut steps = vec![Step { from: Side::root(from, from_at), to: Side::root(to, to_at), above: None }];
        let mut seen = HashSet::new();
        let mut at = 0;
        let mut found = (0, None);
        while let Some(step) = steps.get_mut(at).filter(|_| at < MOST_LOOKED_AT) {
            let named = step.resolve(assignment);
            if let Some(known) = named.then(|| self.known.get(&step.key())).flatten() {
                found = (at, Some(known.clone()));
                break;
            }
            if seen.insert(step.key()) {
                let (whole, below) = ((step.from.whole, step.to.whole), step.below(assignment));
                if below.is_empty() {
                    found = (at, None);
                    break;
                }
                steps.extend(below.into_iter().map(|below| Step::go(at, whole, below)));
            }
            at += 1;
        }
        let (at, known) = found;
        let mismatch =
            known.unwrap_or_else(|| here(&steps, at, (from_at, to_at), assignment).unwrap_or_else(Mismatch::nowhere));
        self.remember(&steps, at, &mismatch);
        mismatch
    }

    /// Every pair of named types on the way parts where the last one does.
    fn remember(&mut self, steps: &[Step<'_>], at: usize, mismatch: &Mismatch) {
        let mut at = Some(at);
        while let Some(step) = at.and_then(|at| steps.get(at)) {
            if step.is_whole() {
                self.known.entry(step.key()).or_insert_with(|| mismatch.clone());
            }
            at = step.above;
        }
    }
}

impl Mismatch {
    fn nowhere() -> Self {
        let (from_at, to_at, from, to) = (String::new(), String::new(), String::new(), String::new());
        Self { from_at, to_at, from, to, note: None }
    }
}

/// A place on the way down. Where it is, is written when it is the one that is told.
#[derive(Clone, Copy, Debug)]
struct Step<'t> {
    from: Side<'t>,
    to: Side<'t>,
    /// The place above it.
    above: Option<usize>,
}

/// One of the two types of a place.
#[derive(Clone, Copy, Debug)]
struct Side<'t> {
    node: &'t TypeNode,
    /// The way from the place above.
    down: Down<'t>,
    /// The name, if a reference led here.
    named: Option<&'t str>,
    /// Whether it stands at the top of a named type.
    whole: bool,
}

/// One step into a type.
#[derive(Clone, Copy, Debug)]
enum Down<'t> {
    /// None: it is the other side that goes down.
    Nowhere,
    Items,
    Values,
    Item(usize),
    Choice(usize),
    Field(&'t str),
}

/// A part of each side that does not fit, with where it is below.
type Below<'t> = ((&'t TypeNode, Down<'t>), (&'t TypeNode, Down<'t>));

impl Down<'_> {
    fn write(self, out: &mut String) {
        let _ = match self {
            Self::Nowhere => Ok(()),
            Self::Items => out.write_str("/items"),
            Self::Values => out.write_str("/values"),
            Self::Item(at) => write!(out, "/items/{at}"),
            Self::Choice(at) => write!(out, "/options/{at}"),
            Self::Field(name) => {
                out.push_str("/fields");
                push_token(out, name);
                out.write_str("/type")
            }
        };
    }
}

impl<'t> Side<'t> {
    fn root(node: &'t TypeNode, at: &str) -> Self {
        let whole = at.strip_prefix("/types/").is_some_and(|name| !name.contains('/'));
        Self { node, down: Down::Nowhere, named: None, whole }
    }

    fn resolve(&mut self, types: &'t Types) {
        for _ in 0..LONGEST {
            let TypeNode::Ref { name } = self.node else { break };
            let Some(named) = types.get(name) else { break };
            (self.node, self.named, self.whole) = (named, Some(name.as_str()), true);
        }
    }
}

/// The JSON Pointer of a place, on one of its sides.
fn pointer_of<'t>(steps: &[Step<'t>], at: usize, root: &str, side: fn(&Step<'t>) -> Side<'t>) -> String {
    let (mut ways, mut above) = (Vec::new(), Some(at));
    let mut out = loop {
        let Some(step) = above.and_then(|at| steps.get(at)) else { break root.to_owned() };
        let Side { down, named, .. } = side(step);
        if let Some(name) = named {
            break pointer("/types", name);
        }
        ways.push(down);
        above = step.above;
    };
    ways.into_iter().rev().for_each(|down| down.write(&mut out));
    out
}

impl<'t> Step<'t> {
    fn key(&self) -> Key {
        (std::ptr::from_ref(self.from.node), std::ptr::from_ref(self.to.node))
    }

    /// Whether both sides stand at the top of a named type.
    const fn is_whole(&self) -> bool {
        self.from.whole && self.to.whole
    }

    /// The place below the one at `at`, whose sides are whole types or not.
    fn go(at: usize, whole: (bool, bool), (from, to): Below<'t>) -> Self {
        let side = |(node, down): (&'t TypeNode, Down<'t>), whole: bool| Side {
            node,
            down,
            named: None,
            whole: whole && matches!(down, Down::Nowhere),
        };
        Self { from: side(from, whole.0), to: side(to, whole.1), above: Some(at) }
    }

    /// Goes to what references lead to; whether both sides are named types now.
    fn resolve(&mut self, assignment: &Assignment<'t>) -> bool {
        let (from_types, to_types) = assignment.types();
        self.from.resolve(from_types);
        self.to.resolve(to_types);
        self.is_whole()
    }

    /// The parts that do not fit; none if it is here that they part.
    fn below(&self, assignment: &mut Assignment<'t>) -> Vec<Below<'t>> {
        match (self.from.node, self.to.node) {
            (TypeNode::Union { options }, to) => {
                let wrong = options.iter().enumerate().filter(|(_, option)| !assignment.fits(option, to));
                // Of a long enumeration a few are enough.
                let wrong: Vec<_> = wrong.take(SEVERAL).collect();
                // Usually an option stands where it stood.
                let kind = |node: &TypeNode| std::mem::discriminant(node);
                let same = |at: usize, option: &TypeNode| match to {
                    TypeNode::Union { options } if !matches!(option, TypeNode::Literal(_)) => {
                        options.get(at).filter(|same| kind(same) == kind(option))
                    }
                    _ => None,
                };
                let pair = |(at, option): (usize, &'t TypeNode)| {
                    let place = Down::Choice(at);
                    match same(at, option) {
                        Some(same) => ((option, place), (same, place)),
                        None => ((option, place), (to, Down::Nowhere)),
                    }
                };
                wrong.into_iter().map(pair).collect()
            }
            (from, TypeNode::Union { options }) => {
                // Of several options only one of the same kind says where it was meant to fit.
                let kind = |node: &'t TypeNode| assignment.types().1.resolve(node).unwrap_or(node).kind();
                let mut alike = options.iter().enumerate().filter(|(_, option)| kind(option) == from.kind());
                match (alike.next(), alike.next()) {
                    (Some((at, option)), None) => vec![((from, Down::Nowhere), (option, Down::Choice(at)))],
                    _ => Vec::new(),
                }
            }
            (TypeNode::Array { items: from, max_items: m }, TypeNode::Array { items: to, max_items: n })
                if at_most(*m, *n) =>
            {
                vec![((from, Down::Items), (to, Down::Items))]
            }
            (
                TypeNode::Record { values: from, max_entries: m, key_pattern: p },
                TypeNode::Record { values: to, max_entries: n, key_pattern: q },
            ) if at_most(*m, *n) && same_pattern(p.as_ref(), q.as_ref()) => {
                vec![((from, Down::Values), (to, Down::Values))]
            }
            (TypeNode::Tuple { items: from }, TypeNode::Tuple { items: to }) if from.len() == to.len() => {
                let wrong = from.iter().zip(to).enumerate().filter(|(_, (from, to))| !assignment.fits(from, to));
                wrong.map(|(at, (from, to))| ((from, Down::Item(at)), (to, Down::Item(at)))).collect()
            }
            (TypeNode::Object { fields: from, .. }, TypeNode::Object { fields: to, .. })
                if missing(from, to).is_none() =>
            {
                let known = Fields::of(from);
                let wrong = to.iter().enumerate().filter_map(|(at, to)| {
                    let from = known.find(at, &to.name)?;
                    let place = Down::Field(&to.name);
                    (!assignment.fits(&from.node, &to.node)).then_some(((&from.node, place), (&to.node, place)))
                });
                wrong.collect()
            }
            _ => Vec::new(),
        }
    }
}

/// What stands at a place; `None` if there is no such place.
fn here(
    steps: &[Step<'_>],
    at: usize,
    (from_root, to_root): (&str, &str),
    assignment: &Assignment<'_>,
) -> Option<Mismatch> {
    let (from, to) = steps.get(at).map(|step| (step.from.node, step.to.node))?;
    let spent = || Some("the types are too large to be compared to the end".to_owned());
    Some(Mismatch {
        from: signature::concise(from, SHOWN),
        to: signature::concise(to, SHOWN),
        from_at: pointer_of(steps, at, from_root, |step| step.from),
        to_at: pointer_of(steps, at, to_root, |step| step.to),
        note: if assignment.is_spent() { spent() } else { note(from, to) },
    })
}

/// A field that is needed and may be absent, or one that is not expected.
fn missing(from: &[Field], to: &[Field]) -> Option<String> {
    let known = Fields::of(from);
    to.iter().enumerate().find_map(|(at, to)| match known.find(at, &to.name) {
        None if !to.optional => Some(format!("field '{}' is needed, and is not there", to.name)),
        Some(from) if from.optional && !to.optional => {
            Some(format!("field '{}' is needed, and may be absent", to.name))
        }
        _ => None,
    })
}

/// What the types as shown do not say.
fn note(from: &TypeNode, to: &TypeNode) -> Option<String> {
    let unknown = [from, to].into_iter().find_map(|node| match node {
        TypeNode::Ref { name } => Some(format!("type '{name}' is not declared")),
        TypeNode::Unknown { kind } => Some(format!("kind '{kind}' is not known here")),
        TypeNode::Malformed { why, .. } => Some(why.clone()),
        _ => None,
    });
    unknown.or_else(|| match (from, to) {
        (TypeNode::Object { fields: from, additional: open }, TypeNode::Object { fields: to, additional }) => {
            missing(from, to).or_else(|| extra(from, to, *open, *additional))
        }
        (TypeNode::Number { integer: from_integer, .. }, TypeNode::Number { integer: true, .. }) if !from_integer => {
            Some("a whole number is needed".to_owned())
        }
        (TypeNode::Text { .. }, TypeNode::Text { .. })
        | (TypeNode::Bytes { .. }, TypeNode::Bytes { .. })
        | (TypeNode::Array { .. }, TypeNode::Array { .. })
        | (TypeNode::Record { .. }, TypeNode::Record { .. })
            if !bounds_fit(from, to) =>
        {
            Some(format!("{} against {}", limits(from), limits(to)))
        }
        (TypeNode::Literal(_), TypeNode::Text { .. }) => Some(format!("against {}", limits(to))),
        _ => None,
    })
}

fn extra(from: &[Field], to: &[Field], open: bool, additional: bool) -> Option<String> {
    let undeclared = |(at, field): (usize, &Field), others: &Fields<'_>| others.find(at, &field.name).is_none();
    if !additional {
        if open {
            return Some("it may hold further fields, and none are expected".to_owned());
        }
        let others = Fields::of(to);
        let (_, field) = from.iter().enumerate().find(|field| undeclared(*field, &others))?;
        return Some(format!("field '{}' is not expected", field.name));
    }
    let others = Fields::of(from);
    let (_, field) = to.iter().enumerate().find(|field| open && undeclared(*field, &others))?;
    Some(format!("a further field may be called '{}' and be of another type", field.name))
}

/// The bounds of a type, which its one-line form leaves out.
pub(super) fn limits(node: &TypeNode) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut count = |what: &str, bound: Option<u64>| parts.extend(bound.map(|bound| format!("{what} {bound}")));
    let pattern = match node {
        TypeNode::Text { min_length, max_length, pattern } => {
            count("at least", *min_length);
            count("at most", *max_length);
            pattern.as_ref()
        }
        TypeNode::Bytes { max_bytes } => {
            count("at most", *max_bytes);
            None
        }
        TypeNode::Array { max_items, .. } => {
            count("at most", *max_items);
            None
        }
        TypeNode::Record { max_entries, key_pattern, .. } => {
            count("at most", *max_entries);
            key_pattern.as_ref()
        }
        _ => None,
    };
    parts.extend(pattern.map(|pattern| format!("pattern {}", pattern.as_str())));
    if parts.is_empty() { "no bound".to_owned() } else { parts.join(", ") }
}

/// `base` with one more token.
pub(super) fn pointer(base: &str, token: &str) -> String {
    let mut pointer = String::with_capacity(base.len() + 1 + token.len());
    pointer.push_str(base);
    push_token(&mut pointer, token);
    pointer
}

/// References in a row that are followed.
const LONGEST: usize = 64;
/// Options of a union that are looked into.
const SEVERAL: usize = 8;
/// Places that are looked at for the nearest one.
const MOST_LOOKED_AT: usize = 4_096;
/// Characters of a type that are shown.
const SHOWN: usize = 120;
