//! Where two types part: the deepest place at which one does not fit the other, for whoever must put it right.

use std::collections::{HashMap, HashSet};

use super::assign::{Assignment, at_most, bounds_fit, same_pattern};
use crate::contract::{Field, TypeNode, signature};

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
        let mut steps = vec![Step { from, to, from_at: from_at.into(), to_at: to_at.into(), above: None }];
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
                let (parent, below) = (step.clone(), step.below(assignment));
                if below.is_empty() {
                    found = (at, None);
                    break;
                }
                steps.extend(below.into_iter().map(|below| parent.go(at, below)));
            }
            at += 1;
        }
        let (at, known) = found;
        let mismatch =
            known.unwrap_or_else(|| steps.get(at).map_or_else(Mismatch::nowhere, |step| step.here(assignment)));
        self.remember(&steps, at, &mismatch);
        mismatch
    }

    /// Every pair of named types on the way parts where the last one does.
    fn remember(&mut self, steps: &[Step<'_>], at: usize, mismatch: &Mismatch) {
        let mut at = Some(at);
        while let Some(step) = at.and_then(|at| steps.get(at)) {
            if step.from_at.starts_with("/types/") && step.to_at.starts_with("/types/") && step.is_whole() {
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

/// A place on the way down.
#[derive(Clone, Debug)]
struct Step<'t> {
    from: &'t TypeNode,
    to: &'t TypeNode,
    from_at: String,
    to_at: String,
    /// The place above it.
    above: Option<usize>,
}

/// A part of each side that does not fit, with where it is below.
type Below<'t> = ((&'t TypeNode, String), (&'t TypeNode, String));

impl<'t> Step<'t> {
    fn key(&self) -> Key {
        (std::ptr::from_ref(self.from), std::ptr::from_ref(self.to))
    }

    /// Whether both sides stand at the top of a named type.
    fn is_whole(&self) -> bool {
        let whole = |at: &str| at.strip_prefix("/types/").is_some_and(|name| !name.contains('/'));
        whole(&self.from_at) && whole(&self.to_at)
    }

    fn go(&self, at: usize, ((from, from_below), (to, to_below)): Below<'t>) -> Self {
        let (from_at, to_at) = (format!("{}{from_below}", self.from_at), format!("{}{to_below}", self.to_at));
        Self { from, to, from_at, to_at, above: Some(at) }
    }

    /// Goes to what references lead to; whether both sides are named types now.
    fn resolve(&mut self, assignment: &Assignment<'t>) -> bool {
        let (from_types, to_types) = assignment.types();
        for (node, at, types) in
            [(&mut self.from, &mut self.from_at, from_types), (&mut self.to, &mut self.to_at, to_types)]
        {
            for _ in 0..LONGEST {
                let TypeNode::Ref { name } = node else { break };
                let Some(named) = types.get(name) else { break };
                *node = named;
                *at = pointer("/types", name);
            }
        }
        self.is_whole()
    }

    /// The parts that do not fit; none if it is here that they part.
    fn below(&self, assignment: &mut Assignment<'t>) -> Vec<Below<'t>> {
        match (self.from, self.to) {
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
                    let place = format!("/options/{at}");
                    match same(at, option) {
                        Some(same) => ((option, place.clone()), (same, place)),
                        None => ((option, place), (to, String::new())),
                    }
                };
                wrong.into_iter().map(pair).collect()
            }
            (from, TypeNode::Union { options }) => {
                // Of several options only one of the same kind says where it was meant to fit.
                let kind = |node: &'t TypeNode| assignment.types().1.resolve(node).unwrap_or(node).kind();
                let mut alike = options.iter().enumerate().filter(|(_, option)| kind(option) == from.kind());
                match (alike.next(), alike.next()) {
                    (Some((at, option)), None) => vec![((from, String::new()), (option, format!("/options/{at}")))],
                    _ => Vec::new(),
                }
            }
            (TypeNode::Array { items: from, max_items: m }, TypeNode::Array { items: to, max_items: n })
                if at_most(*m, *n) =>
            {
                vec![((from, "/items".into()), (to, "/items".into()))]
            }
            (
                TypeNode::Record { values: from, max_entries: m, key_pattern: p },
                TypeNode::Record { values: to, max_entries: n, key_pattern: q },
            ) if at_most(*m, *n) && same_pattern(p.as_ref(), q.as_ref()) => {
                vec![((from, "/values".into()), (to, "/values".into()))]
            }
            (TypeNode::Tuple { items: from }, TypeNode::Tuple { items: to }) if from.len() == to.len() => {
                let wrong = from.iter().zip(to).enumerate().filter(|(_, (from, to))| !assignment.fits(from, to));
                let place = |at: usize| format!("/items/{at}");
                wrong.map(|(at, (from, to))| ((from, place(at)), (to, place(at)))).collect()
            }
            (TypeNode::Object { fields: from, .. }, TypeNode::Object { fields: to, .. })
                if missing(from, to).is_none() =>
            {
                let by_name: HashMap<&str, &Field> = from.iter().map(|field| (field.name.as_str(), field)).collect();
                let wrong = to.iter().filter_map(|to| {
                    let from = by_name.get(to.name.as_str())?;
                    let place = || format!("{}/type", pointer("/fields", &to.name));
                    (!assignment.fits(&from.node, &to.node)).then(|| ((&from.node, place()), (&to.node, place())))
                });
                wrong.collect()
            }
            _ => Vec::new(),
        }
    }

    fn here(&self, assignment: &Assignment<'t>) -> Mismatch {
        let note = if assignment.is_spent() {
            Some("the types are too large to be compared to the end".to_owned())
        } else {
            note(self.from, self.to)
        };
        Mismatch {
            from: signature::concise(self.from, SHOWN),
            to: signature::concise(self.to, SHOWN),
            from_at: self.from_at.clone(),
            to_at: self.to_at.clone(),
            note,
        }
    }
}

/// A field that is needed and may be absent, or one that is not expected.
fn missing(from: &[Field], to: &[Field]) -> Option<String> {
    to.iter().find_map(|to| match from.iter().find(|from| from.name == to.name) {
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
    let undeclared = |(field, others): (&Field, &[Field])| others.iter().all(|other| other.name != field.name);
    if !additional {
        if open {
            return Some("it may hold further fields, and none are expected".to_owned());
        }
        let field = from.iter().find(|field| undeclared((field, to)))?;
        return Some(format!("field '{}' is not expected", field.name));
    }
    let field = to.iter().find(|field| open && undeclared((field, from)))?;
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
    format!("{base}/{}", token.replace('~', "~0").replace('/', "~1"))
}

/// References in a row that are followed.
const LONGEST: usize = 64;
/// Options of a union that are looked into.
const SEVERAL: usize = 8;
/// Places that are looked at for the nearest one.
const MOST_LOOKED_AT: usize = 4_096;
/// Characters of a type that are shown.
const SHOWN: usize = 120;
