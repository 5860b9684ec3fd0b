//! Every code an error of ours can have, with what it means (results.md 2). Later tools need all of them, so the list is
//! whole from the start.

use std::fmt::Write as _;

use super::error::Outcome;

/// When the same call, unchanged, may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retryable {
    /// Never: something has to change first.
    No,
    /// After a while.
    Yes,
    /// If it certainly did not run.
    IfNotRun,
}

impl Retryable {
    /// Whether it holds for an error with this outcome.
    pub fn holds(self, outcome: Option<Outcome>) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
            Self::IfNotRun => outcome == Some(Outcome::NotRun),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Yes => "yes",
            Self::IfNotRun => "only if `not_run`",
        }
    }
}

macro_rules! codes {
    ($($variant:ident $text:literal $retry:ident, $when:literal, $fix:literal, $adds:literal;)*) => {
        /// What kind of failure it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = $when] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the published table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code as it stands in the error object.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// When the same call may succeed later.
            pub const fn retryable(self) -> Retryable {
                match self { $(Self::$variant => Retryable::$retry,)* }
            }

            /// When this happens, in one line.
            pub const fn when(self) -> &'static str {
                match self { $(Self::$variant => $when,)* }
            }

            /// What usually helps; a tool that knows better says so.
            pub const fn usual_fix(self) -> &'static str {
                match self { $(Self::$variant => $fix,)* }
            }

            /// Which members it adds to the error object.
            const fn adds(self) -> &'static str {
                match self { $(Self::$variant => $adds,)* }
            }
        }
    };
}

codes! {
    BadArgument "bad_argument" No, "an argument is missing, unknown, of the wrong type or out of range", "correct the argument named in `argument` and call again", "`argument` (JSON Pointer), `expected`, `got`";
    UnknownTool "unknown_tool" No, "no tool of that name is offered here; one that needs a flag names the flag", "call one of `alternatives`, or list the tools", "`alternatives`";
    Busy "busy" Yes, "this client has too many calls running", "wait for running calls to end, then call again", "`retry_after_ms`";
    Cancelled "cancelled" IfNotRun, "the client stopped waiting; what had been opened is closed", "read the state before doing it again", "`outcome`";
    DeadlineExceeded "deadline_exceeded" Yes, "a read was not answered in time", "call again, with more time if the tool takes it", "";
    NetworkUnavailable "network_unavailable" Yes, "the link to the network is down or still joining", "wait, then call again; the bridge reconnects by itself", "`links`, `retry_after_ms`";
    UnknownPeer "unknown_peer" Yes, "nobody of that name answered within the wait", "list_peers shows who is there; give wait_seconds to wait for one that is coming", "`alternatives`";
    PeerUndescribed "peer_undescribed" No, "the peer publishes no introspection and this tool cannot do without", "call_method reaches it unchecked, if its methods are known", "";
    ReadOnly "read_only" No, "this bridge, or this client, may only look", "ask a person to start the bridge without --read-only", "the method and its declared effect";
    NotInControl "not_in_control" No, "the component's authority is held by another or by nobody", "take_control, if that is right, and call again", "`holder?`";
    UnknownNamespace "unknown_namespace" No, "the peer's description has no such namespace", "use one of `alternatives`; describe_peer shows them", "`alternatives`";
    UnknownMethod "unknown_method" No, "the peer's description has no such method", "use one of `alternatives`; describe_peer shows them", "`alternatives`";
    UnknownEvent "unknown_event" No, "the peer's description has no such event", "use one of `alternatives`; describe_peer shows them", "`alternatives`";
    InvalidParams "invalid_params" No, "the peer's contract does not allow these values; nothing was sent", "correct the value named in `argument`", "`outcome: not_run`, `argument`, `problem`";
    PeerRefused "peer_refused" No, "the peer answered with an error", "read `peer_error` and change what it names", "`peer_error`";
    PeerBusy "peer_busy" Yes, "the peer has too much waiting; it did not run", "wait, then call again", "`peer_error`, `retry_after_ms`";
    Superseded "superseded" No, "a newer call replaced it; it did not run", "decide from the present state whether it is still wanted", "`peer_error`";
    UnknownOutcome "unknown_outcome" No, "it left and nothing came back: it may have run", "make the read in `settle_with` before deciding anything; do not repeat the call", "`outcome: unknown`, `settle_with`";
    OwnershipChanged "ownership_changed" No, "the authority over the component changed; it did not run", "read again, then decide again", "`peer_error`";
    NotAComponent "not_a_component" No, "the namespace publishes no snapshot", "use one of `alternatives`", "`alternatives` (the peer's components)";
    NoSnapshot "no_snapshot" Yes, "the subscription was accepted and nothing was published in the time given", "call again with more seconds", "";
    NoSetter "no_setter" No, "nothing declares that it sets this path", "use a path or a method of `alternatives`", "`alternatives` (paths and methods that exist)";
    AmbiguousSetter "ambiguous_setter" No, "two methods claim the path", "call the right one with call_method", "`alternatives` (both methods)";
    UnknownFake "unknown_fake" No, "no fake of that name is served here", "use one of `alternatives`; list_fakes shows them", "`alternatives`";
    NameInUse "name_in_use" No, "a peer, another fake or the bridge itself answers to that name", "choose another name", "";
    InvalidContract "invalid_contract" No, "the contract is not a valid one", "correct what `problems` points at", "`problems` (with JSON Pointers)";
    InvalidScript "invalid_script" No, "the script names what the contract lacks, or cannot run", "correct what `problems` points at", "`problems`";
    ExecDisabled "exec_disabled" No, "a script brings code along, and this bridge runs none", "leave `handlers` and `python` out, or have the bridge started with `--allow-exec`", "`uses`";
    FakeFailed "fake_failed" Yes, "the fake could not join or did not answer", "start it again", "";
    UnknownContract "unknown_contract" No, "no contract of that name is stored", "use one of `alternatives`", "`alternatives`";
    UnknownScript "unknown_script" No, "no script of that name is stored", "use one of `alternatives`", "`alternatives`";
    UnknownWatch "unknown_watch" No, "no watch of that id is running", "use one of `alternatives`", "`alternatives`";
    UnknownTicket "unknown_ticket" No, "no ticket of that id is known", "use one of `alternatives`", "`alternatives`";
    LimitReached "limit_reached" Yes, "a bound of the bridge is reached", "end one of what is running, then call again", "`limit`";
    AlreadyRunning "already_running" No, "a script of that name is running", "stop it first, or read its output", "";
    InstallFailed "install_failed" No, "the package manager refused", "read `problem` and change what it names", "`problem` (the package manager's words, cut)";
    AuditUnavailable "audit_unavailable" Yes, "the audit trail cannot be written, so changing calls are refused", "ask a person to make the audit trail writable", "";
    CannotRead "cannot_read" No, "a file cannot be read", "correct the file named in `message`", "the name, never the path above the directory";
    CannotWrite "cannot_write" No, "a file cannot be written, or is not what was expected of it", "correct the file named in `message`", "the name, never the path above the directory";
    TapUnavailable "tap_unavailable" Yes, "nothing here can watch traffic", "wait for a link that can, then call again", "";
    StaleCursor "stale_cursor" No, "the cursor belongs to another tool, other filters, another process or an older generation", "start again without `cursor`", "";
    Internal "internal" No, "a bug of the bridge; the details are in its log only", "give the incident id to a person", "`incident`";
}

impl ErrorCode {
    /// What the code alone says about the plant.
    pub(super) fn implied_outcome(self) -> Option<Outcome> {
        if self == Self::UnknownOutcome {
            return Some(Outcome::Unknown);
        }
        let certain = [Self::InvalidParams, Self::PeerBusy, Self::Superseded, Self::OwnershipChanged];
        certain.contains(&self).then_some(Outcome::NotRun)
    }
}

/// The table of all codes in Markdown, for `plantbridge mcp --errors`.
pub fn errors_table() -> String {
    let mut out = String::from("| code | retryable | when | adds |\n| --- | --- | --- | --- |\n");
    for code in ErrorCode::ALL {
        let (name, retry, when, adds) = (code.as_str(), code.retryable().as_str(), code.when(), code.adds());
        let _ = writeln!(out, "| `{name}` | {retry} | {when} | {adds} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// results.md 2: the published list, by code and by what may be repeated.
    const PUBLISHED: &[(&str, &str)] = &[
        ("bad_argument", "no"),
        ("unknown_tool", "no"),
        ("busy", "yes"),
        ("cancelled", "only if `not_run`"),
        ("deadline_exceeded", "yes"),
        ("network_unavailable", "yes"),
        ("unknown_peer", "yes"),
        ("peer_undescribed", "no"),
        ("read_only", "no"),
        ("not_in_control", "no"),
        ("unknown_namespace", "no"),
        ("unknown_method", "no"),
        ("unknown_event", "no"),
        ("invalid_params", "no"),
        ("peer_refused", "no"),
        ("peer_busy", "yes"),
        ("superseded", "no"),
        ("unknown_outcome", "no"),
        ("ownership_changed", "no"),
        ("not_a_component", "no"),
        ("no_snapshot", "yes"),
        ("no_setter", "no"),
        ("ambiguous_setter", "no"),
        ("unknown_fake", "no"),
        ("name_in_use", "no"),
        ("invalid_contract", "no"),
        ("invalid_script", "no"),
        ("exec_disabled", "no"),
        ("fake_failed", "yes"),
        ("unknown_contract", "no"),
        ("unknown_script", "no"),
        ("unknown_watch", "no"),
        ("unknown_ticket", "no"),
        ("limit_reached", "yes"),
        ("already_running", "no"),
        ("install_failed", "no"),
        ("audit_unavailable", "yes"),
        ("cannot_read", "no"),
        ("cannot_write", "no"),
        ("tap_unavailable", "yes"),
        ("stale_cursor", "no"),
        ("internal", "no"),
    ];

    /// results.md 2: `--errors` prints this table from the code, and this test holds the two together.
    #[test]
    fn the_table_lists_the_published_codes_and_no_other() {
        let table = errors_table();
        let rows: Vec<Vec<&str>> = table.lines().skip(2).map(|row| row.split(" | ").collect()).collect();
        assert_eq!(rows.len(), ErrorCode::ALL.len());
        let listed: Vec<(&str, &str)> =
            rows.iter().map(|row| (row[0].trim_start_matches("| ").trim_matches('`'), row[1])).collect();
        assert_eq!(listed, PUBLISHED);
        for row in &rows {
            assert!(!row[2].is_empty() && row.len() >= 3, "{row:?} says when");
        }
    }

    /// Every code has advice of its own to start from.
    #[test]
    fn every_code_has_a_usual_fix() {
        for code in ErrorCode::ALL {
            assert!(code.usual_fix().len() > 10, "{code:?}");
            assert!(!code.usual_fix().ends_with('.') && !code.when().ends_with('.'), "{code:?}");
        }
    }
}
