//! What a comparison found.

use std::fmt;

/// What a comparison of a contract with another one, or with a live peer, found. Lists are in the order of the contract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Namespaces that were compared.
    pub checked: Vec<String>,
    /// Namespaces of the contract that are not served at all.
    pub missing: Vec<String>,
    /// Namespaces that are served without a word about their methods: nothing about them was checked (S-054).
    pub undescribed: Vec<String>,
    /// What breaks a caller who was built against the contract.
    pub problems: Vec<Breaking>,
    /// What could not be compared, because the other side says nothing of it.
    pub unchecked: Vec<Unchecked>,
    /// What is never told by a live peer.
    pub notes: Vec<String>,
}

/// One thing that breaks a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaking {
    /// In which namespace.
    pub namespace: String,
    /// Which member of it: `m`, `m argument 0`, `event e`, `component state` …
    pub place: String,
    /// What is wrong, as a clause that follows the place.
    pub reason: String,
    /// JSON Pointer to it in the contract, as deep as is known.
    pub pointer: String,
    /// What the contract has there and what the other side has, where types part.
    pub detail: Option<String>,
}

/// One thing that was not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchecked {
    /// In which namespace.
    pub namespace: String,
    /// Which member of it.
    pub place: String,
    /// Why, as a clause that follows the place.
    pub reason: String,
}

/// What may be concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompatibilityVerdict {
    /// All of the contract was compared, and nothing breaks a caller.
    Compatible,
    /// Something does.
    Incompatible,
    /// Nothing was found, but not everything could be compared: no pass.
    Unchecked,
}

impl CompatibilityVerdict {
    /// The word of results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Incompatible => "incompatible",
            Self::Unchecked => "unchecked",
        }
    }
}

impl Report {
    /// How many things break a caller; a command line ends badly if there is one (S-057).
    pub fn breaking(&self) -> usize {
        self.problems.len() + self.missing.len()
    }

    /// What may be concluded.
    pub fn verdict(&self) -> CompatibilityVerdict {
        if self.breaking() > 0 {
            CompatibilityVerdict::Incompatible
        } else if self.undescribed.is_empty() && self.unchecked.is_empty() {
            CompatibilityVerdict::Compatible
        } else {
            CompatibilityVerdict::Unchecked
        }
    }

    /// The findings, a line each, without a last line that counts them.
    pub fn lines(&self) -> Vec<String> {
        let missing = self.missing.iter().map(|namespace| format!("{namespace} is not served"));
        let undescribed = self
            .undescribed
            .iter()
            .map(|namespace| format!("{namespace} is served without a contract, so nothing about it was checked"));
        let problems = self.problems.iter().map(ToString::to_string);
        let unchecked = self.unchecked.iter().map(|Unchecked { namespace, place, reason }| {
            format!("{namespace}.{place} {reason}, so it was not checked")
        });
        missing.chain(problems).chain(undescribed).chain(unchecked).chain(self.notes.iter().cloned()).collect()
    }
}

impl fmt::Display for Breaking {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{} {}", self.namespace, self.place, self.reason)?;
        self.detail.as_ref().map_or(Ok(()), |detail| write!(out, " ({}: {detail})", self.pointer))
    }
}

/// What a server says to a caller who declares a version that it is not compatible with (semantics 5.4). `current` is the
/// version served, if it has one. Nothing where nothing breaks it.
pub fn incompatible_version(
    namespace: &str,
    declared: &str,
    current: Option<&str>,
    problems: &[Breaking],
) -> Option<String> {
    let current = current.unwrap_or("current");
    let problems: Vec<String> =
        problems.iter().map(|problem| format!("{} {}", problem.place, problem.reason)).collect();
    let refusal =
        || format!("{namespace}@{declared} is not compatible with {namespace}@{current}: {}", problems.join("; "));
    (!problems.is_empty()).then(refusal)
}
