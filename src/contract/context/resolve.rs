//! How a reader joins the answers of the hosts along a chain (semantics 8.3): a fold over answers, bounded by the number
//! of refs, that says whom to ask next until it knows.

use super::{
    Axis, Ref, TokenId, Trouble, Version,
    answer::{AnswerFault, HostAnswer},
};
use crate::wire::Value;

/// Refs a chain may have, over all hosts.
pub const MAX_CHAIN: usize = 128;

/// One token of one node, on its way to be known.
#[derive(Clone, Debug)]
pub struct Resolution {
    token: TokenId,
    axis: Axis,
    at: Ref,
    refs: Vec<Ref>,
    hops: Vec<Ref>,
    found: Vec<Found>,
}

/// What a provider on the chain says.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Where it provides.
    pub provider: Ref,
    /// What.
    pub value: Value,
    /// Which state of it that is.
    pub version: Version,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Ask the peer of this ref about it.
    Ask(Ref),
    /// It is known.
    Done(Outcome),
}

/// What a whole chain says.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Somebody provides it: the nearest first.
    Live(Vec<Found>),
    /// Nobody on the chain provides it to us. A value that its provider keeps local looks the same (S-092).
    Missing,
    /// The chain does not hold: nothing may be concluded from what was found on it.
    Invalid(Invalid),
}

/// Why a chain does not hold, with the refs that show it: the ring, or what is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The word: `cycle`, `depth-exceeded`, `invalid-reference`.
    pub reason: &'static str,
    /// The refs that show it, where there are any.
    pub path: Vec<Ref>,
}

impl Resolution {
    /// Begins at `node`: its peer is asked first.
    pub const fn new(node: Ref, token: TokenId, axis: Axis) -> Self {
        Self { token, axis, at: node, refs: Vec::new(), hops: Vec::new(), found: Vec::new() }
    }

    /// Which token.
    pub const fn token(&self) -> &TokenId {
        &self.token
    }

    /// Whom to ask, about what.
    pub const fn at(&self) -> &Ref {
        &self.at
    }

    /// The refs that were asked about and answered, one a host, in order.
    pub fn hops(&self) -> &[Ref] {
        &self.hops
    }

    /// The refs of the chain so far, nearest first.
    pub fn chain(&self) -> &[Ref] {
        &self.refs
    }

    /// Takes the answer about [`Resolution::at`].
    ///
    /// # Errors
    ///
    /// Why it is none. Nothing has changed then.
    pub fn feed(&mut self, answer: &HostAnswer) -> Result<Step, AnswerFault> {
        let entries = answer.about(&self.at, &self.token, self.axis)?;
        let found = |entry: &super::Entry| Found {
            provider: entry.node.clone(),
            value: entry.value.clone(),
            version: entry.provider.clone(),
        };
        self.found.extend(entries.into_iter().map(found));
        self.hops.push(self.at.clone());
        self.refs.extend(answer.walked.of(self.axis).iter().cloned());
        Ok(self.next(answer))
    }

    fn next(&mut self, answer: &HostAnswer) -> Step {
        if let Some(trouble) = answer.trouble.of(self.axis) {
            return invalid(trouble.clone());
        }
        if self.refs.len() > MAX_CHAIN {
            return invalid(Trouble::DepthExceeded);
        }
        match answer.continues.of(self.axis) {
            // What was walked before is what a ring leads back to: a host never leaves for itself.
            Some(next) => match self.refs.iter().position(|walked| walked == next) {
                Some(ring) => invalid(Trouble::Cycle { path: self.refs.split_off(ring) }),
                None => {
                    self.at = next.clone();
                    Step::Ask(next.clone())
                }
            },
            None if self.found.is_empty() => Step::Done(Outcome::Missing),
            None => Step::Done(Outcome::Live(std::mem::take(&mut self.found))),
        }
    }
}

fn invalid(trouble: Trouble) -> Step {
    let reason = trouble.as_str();
    let path = match trouble {
        Trouble::Cycle { path } => path,
        Trouble::InvalidReference { at } => at.into_iter().collect(),
        Trouble::DepthExceeded => Vec::new(),
    };
    Step::Done(Outcome::Invalid(Invalid { reason, path }))
}
