//! How a call can end badly, organised by what the caller may conclude (S-005).

use std::time::Duration;

use crate::{link::Rejection, wire::RemoteError};

/// A call that gave no value. The variants say how much is known about whether the method ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No byte of it was written: it certainly did not run.
    #[error("{0}, before the request was sent")]
    NotSent(NotSent),
    /// The peer answered, with an error.
    #[error("{}: {}", .0.code, .0.message)]
    Refused(RemoteError),
    /// It left and nothing conclusive came back: it may or may not have run.
    #[error("{0}, after the request was sent - it may or may not have run")]
    UnknownOutcome(Doubt),
}

/// Why a request was certainly not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSent {
    /// No link is up.
    #[error("no link is up")]
    LinkDown,
    /// The link refused to write it.
    #[error("{0}")]
    Rejected(#[from] Rejection),
    /// Too many calls are waiting for an answer already.
    #[error("{limit} calls are waiting for an answer already")]
    TooManyCalls {
        /// How many may wait.
        limit: usize,
    },
    /// The node is leaving the network.
    #[error("the bridge is leaving the network")]
    Closing,
    /// The caller gave up before it was sent.
    #[error("the caller stopped waiting")]
    Abandoned,
    /// It could not be written in the time the caller gave it.
    #[error("the link took nothing for {} ms", .0.as_millis())]
    Timeout(Duration),
}

/// Why the outcome of a request that left is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// Nothing was heard in the time the caller gave it.
    #[error("no response within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The link was lost while the answer was awaited.
    #[error("the link was lost ({0})")]
    LinkLost(String),
    /// The caller stopped waiting.
    #[error("the caller stopped waiting")]
    Abandoned,
    /// The node left the network.
    #[error("the bridge left the network")]
    Closing,
}

/// What may be concluded about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It did not run.
    DidNotRun,
    /// It ran.
    Ran,
    /// It may or may not have run.
    MayHaveRun,
}

impl CallError {
    /// What the caller may conclude.
    pub fn certainty(&self) -> Certainty {
        match self {
            Self::NotSent(_) => Certainty::DidNotRun,
            Self::UnknownOutcome(_) => Certainty::MayHaveRun,
            Self::Refused(error) => remote_certainty(&error.code),
        }
    }
}

/// What a code sent by the peer says about whether the method ran (semantics.md 1.5). Codes are an open set: of one we
/// do not know, nothing is concluded.
fn remote_certainty(code: &str) -> Certainty {
    match code {
        "Exception" => Certainty::Ran,
        "ClassNotFound"
        | "MethodNotFound"
        | "Unauthorized"
        | "Forbidden"
        | "IncompatibleVersion"
        | "InvalidParams"
        | "NotInControl"
        | "OwnershipChanged"
        | "Busy"
        | "Superseded"
        | "Timeout"
        | "TransportError" => Certainty::DidNotRun,
        _ => Certainty::MayHaveRun,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> Certainty {
        CallError::Refused(RemoteError { code: code.into(), name: String::new(), message: String::new() }).certainty()
    }

    /// S-005: what each remote code says; W-074: an unknown code is tolerated and concludes nothing.
    #[test]
    fn s005_certainty_follows_the_code() {
        assert_eq!(refused("Exception"), Certainty::Ran);
        assert_eq!(refused("Timeout"), Certainty::DidNotRun);
        assert_eq!(refused("Busy"), Certainty::DidNotRun);
        assert_eq!(refused("UnknownOutcome"), Certainty::MayHaveRun);
        assert_eq!(refused("Weather"), Certainty::MayHaveRun);
        assert_eq!(CallError::NotSent(NotSent::LinkDown).certainty(), Certainty::DidNotRun);
        assert_eq!(CallError::UnknownOutcome(Doubt::Abandoned).certainty(), Certainty::MayHaveRun);
    }
}
