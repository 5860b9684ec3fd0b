//! How a subcommand for people ends badly, and what it says then: on standard error, so that standard output holds results
//! alone.

use std::{fmt::Write as _, io::Write as _, process::ExitCode};

use serde_json::{Map, Value as Json, json};

use super::{StartError, fix};
use crate::{
    mcp::{ErrorCode, Outcome, ToolError, text},
    plant::PlantError,
};

/// Why it did not end well.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was asked for in a way that makes no sense.
    Usage(String),
    /// What was asked for was refused, or is in doubt.
    Refused(ToolError),
    /// It was done, and found something wrong, which was told.
    Finding,
    /// This side could not do its part.
    Broken(String),
    /// Whoever read standard output is gone: there is nobody to tell, and nothing wrong.
    Unread,
}

/// Exit code: what was asked for was refused, is in doubt, or found something wrong.
const REFUSED: u8 = 1;
/// Exit code: it was asked for in a way that makes no sense.
pub(super) const USAGE: u8 = 2;

impl From<PlantError> for Failure {
    fn from(error: PlantError) -> Self {
        Self::Refused(fix::for_people(error))
    }
}

impl From<StartError> for Failure {
    fn from(StartError(text): StartError) -> Self {
        Self::Usage(text)
    }
}

impl Failure {
    /// The person stopped a look, or something that has not begun.
    pub(super) fn interrupted() -> Self {
        let error = ToolError::new(ErrorCode::Cancelled, "interrupted").cause("it was interrupted; nothing was sent");
        Self::Refused(error.fix("nothing needs to be done").outcome(Outcome::NotRun))
    }

    /// Says it, and gives what the process ends with.
    pub(super) fn report(self, json: bool) -> ExitCode {
        let (text, code) = match self {
            Self::Unread => return ExitCode::SUCCESS,
            Self::Finding => return ExitCode::from(REFUSED),
            Self::Usage(text) => (plain(&text), USAGE),
            Self::Broken(text) => (plain(&text), REFUSED),
            Self::Refused(error) if json => (text::compact(&json!({"error": members(&error)})), REFUSED),
            Self::Refused(error) => (refusal(&error), REFUSED),
        };
        // With standard error closed there is nobody to tell.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
        ExitCode::from(code)
    }
}

/// One line, whatever stands in it.
fn plain(text: &str) -> String {
    format!("plantbridge: {}", text::one_line(text))
}

/// The members of an error that say something to a person: what a model would call next is no command of theirs.
fn members(error: &ToolError) -> Map<String, Json> {
    let mut members = error.to_json();
    members.shift_remove("settle_with");
    members
}

/// What happened, and below it what is known about it, one thing a line. No text of a peer can start a line of its own.
fn refusal(error: &ToolError) -> String {
    let mut out = plain(error.message());
    for (key, value) in &members(error) {
        let shown = match (key.as_str(), value) {
            // Said already, or said by the code.
            (
                "message" | "retryable" | "links" | "peer_error" | "signature" | "problem" | "argument" | "expected",
                _,
            ) => continue,
            ("problems", Json::Array(problems)) => problems.iter().map(pointed).collect(),
            (_, Json::String(text)) => text::one_line(text),
            (_, Json::Array(items)) if items.iter().all(Json::is_string) => {
                let names = items.iter().filter_map(Json::as_str).map(text::one_line);
                names.collect::<Vec<_>>().join(", ")
            }
            (_, value) => text::compact(value),
        };
        let space = if shown.starts_with('\n') { "" } else { " " };
        let _ = write!(out, "\n  {key}:{space}{shown}");
    }
    out
}

/// One thing wrong with a document, in a line of its own, and where in it.
fn pointed(problem: &Json) -> String {
    let part = |key: &str| problem.get(key).and_then(Json::as_str).map(text::one_line).unwrap_or_default();
    match part("pointer") {
        whole if whole.is_empty() => format!("\n    {}", part("problem")),
        pointer => format!("\n    {pointer}: {}", part("problem")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F-36: a peer's words start no line of their own and carry nothing a terminal obeys.
    #[test]
    fn a_refusal_is_plain_text_whatever_the_peer_said() {
        let error = ToolError::new(ErrorCode::PeerRefused, "no\n  outcome: not_run\u{1b}[2J")
            .peer_error("Forbidden", "no")
            .alternatives(["a\u{9b}31m", "b"])
            .outcome(Outcome::Ran);
        let said = refusal(&error);
        assert!(said.chars().all(|c| c == '\n' || !text::is_unsafe(c)), "{said:?}");
        let keys: Vec<_> = said.lines().skip(1).map(|line| line.trim_start().split(": ").next().unwrap()).collect();
        assert_eq!(keys, ["code", "cause", "fix", "outcome", "alternatives"]);
        assert!(said.starts_with("plantbridge: no\\n  outcome: not_run\\u001b[2J\n  code: peer_refused\n"), "{said}");
        assert!(said.ends_with("alternatives: a\\u009b31m, b"), "{said}");
    }
    /// Every problem of a document stands in a line of its own, after its pointer.
    #[test]
    fn each_problem_has_a_line() {
        let problems =
            json!([{"pointer": "/a\n  outcome: ran", "problem": "no\u{1b}"}, {"pointer": "", "problem": "empty"}]);
        let error = ToolError::new(ErrorCode::InvalidContract, "no").detail("problems", problems);
        let said = refusal(&error.outcome(Outcome::NotRun));
        let after = said.split_once("\n  problems:").unwrap().1;
        assert_eq!(after, "\n    /a\\n  outcome: ran: no\\u001b\n    empty", "{said}");
    }
}
