//! One thing that was looked at, and what came of it: a mark, a sentence, the figures, and what to do.

use serde_json::{Map, Value as Json, json};

use crate::mcp::text;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// As it should be.
    Fine,
    /// It works, and is worth knowing.
    Warning,
    /// It does not work, or costs more than it should.
    Wrong,
    /// It could not be looked at.
    Unchecked,
}

impl Mark {
    /// As it is written.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
            Self::Unchecked => "not checked",
        }
    }
}

/// What was looked at, and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// What was looked at: the place and the thing, `broker.stall`.
    pub(super) check: String,
    /// What came of it.
    pub(super) mark: Mark,
    /// In a sentence.
    pub(super) said: String,
    /// What to do about it.
    pub(super) next: Option<String>,
    /// What it was concluded from.
    evidence: Map<String, Json>,
}

impl Finding {
    pub(super) fn new(mark: Mark, check: &str, said: impl Into<String>) -> Self {
        Self { check: check.to_owned(), mark, said: said.into(), next: None, evidence: Map::new() }
    }

    pub(super) fn fine(check: &str, said: impl Into<String>) -> Self {
        Self::new(Mark::Fine, check, said)
    }

    pub(super) fn warning(check: &str, said: impl Into<String>) -> Self {
        Self::new(Mark::Warning, check, said)
    }

    pub(super) fn wrong(check: &str, said: impl Into<String>) -> Self {
        Self::new(Mark::Wrong, check, said)
    }

    pub(super) fn unchecked(check: &str, why: impl Into<String>) -> Self {
        Self::new(Mark::Unchecked, check, why)
    }

    /// What to do about it.
    pub(super) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// A figure it was concluded from.
    pub(super) fn figure(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.evidence.insert(name.to_owned(), value.into());
        self
    }

    fn json(&self) -> Json {
        let mut out = Map::new();
        out.insert("check".into(), self.check.as_str().into());
        out.insert("mark".into(), self.mark.as_str().into());
        out.insert("said".into(), self.said.as_str().into());
        out.extend(self.next.as_deref().map(|next| ("next".into(), next.into())));
        out.extend((!self.evidence.is_empty()).then(|| ("evidence".into(), self.evidence.clone().into())));
        out.into()
    }
}

/// A line each, the next step below it, and how many there are of each kind. Nothing of a network starts a line of its own.
pub(super) fn written(findings: &[Finding]) -> String {
    let mut lines = Vec::new();
    for finding in findings {
        let (mark, check, said) = (finding.mark.as_str(), &finding.check, text::one_line(&finding.said));
        lines.push(format!("{mark:<MARK$}  {check:<CHECK$}  {said}"));
        if let Some(next) = &finding.next {
            lines.push(format!("{:<MARK$}  {:<CHECK$}  next: {}", "", "", text::one_line(next)));
        }
    }
    let count = |mark| findings.iter().filter(|finding| finding.mark == mark).count();
    let warnings = match count(Mark::Warning) {
        1 => "1 warning".to_owned(),
        more => format!("{more} warnings"),
    };
    lines.push(format!(
        "{} wrong, {warnings}, {} not checked, {} ok",
        count(Mark::Wrong),
        count(Mark::Unchecked),
        count(Mark::Fine)
    ));
    lines.join("\n")
}

/// The same as JSON.
pub(super) fn document(places: &str, name: &str, findings: &[Finding]) -> Json {
    let count = |mark| findings.iter().filter(|finding| finding.mark == mark).count();
    json!({
        "network": places,
        "name": name,
        "wrong": count(Mark::Wrong),
        "warnings": count(Mark::Warning),
        "not_checked": count(Mark::Unchecked),
        "ok": count(Mark::Fine),
        "findings": findings.iter().map(Finding::json).collect::<Vec<_>>(),
    })
}

/// Whether anything is wrong.
pub(super) fn is_wrong(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.mark == Mark::Wrong)
}

const MARK: usize = 11;
const CHECK: usize = 18;
