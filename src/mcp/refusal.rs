//! What a verb could not do, as the error object of results.md 2: the one place where both vocabularies meet.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{
    ErrorCode, Outcome, ToolError, looking,
    refusal_documents::{of_contracts, of_fakes},
    refusal_scripts::of_scripts,
    settling::{instead, read_state},
};
use crate::{
    contract::context::Ref,
    link::{DownKind, DownReason},
    node::{CallError, Certainty, Doubt, LinkState, NotSent},
    plant::{PlantError, TapTrouble, Target, TicketState, TicketView},
    wire::RemoteError,
};

/// How long to wait before the network is tried again.
pub(super) const LINK_RETRY: Duration = Duration::from_secs(1);
/// How many hosts of a chain an error names.
const HOPS: usize = 32;
/// How long to wait before a peer that was busy is asked again.
const PEER_RETRY: Duration = Duration::from_millis(500);

impl From<PlantError> for ToolError {
    #[expect(clippy::too_many_lines, reason = "one arm a variant: a table that is read from top to bottom")]
    fn from(error: PlantError) -> Self {
        let message = error.to_string();
        match error {
            PlantError::BadArgument { argument, expected, problem } => Self::new(ErrorCode::BadArgument, problem)
                .argument(argument)
                .expected(expected)
                .outcome(Outcome::NotRun),
            PlantError::NetworkUnavailable { links } => unavailable(&links, message),
            PlantError::UnknownPeer { alternatives, .. } => unknown_peer(alternatives, message),
            PlantError::Undescribed { unsaid, .. } if unsaid.unanswered => Self::new(ErrorCode::DeadlineExceeded, message)
                .cause("it did not answer; it may take only signed frames, or send some that are not believed here")
                .fix("call again with more time; where the network is signed, the bridge needs --sign with a key that the peer lists"),
            PlantError::Undescribed { peer, .. } => Self::new(ErrorCode::PeerUndescribed, message)
                .fix(format!("call_method works without a description; ask whoever runs {peer} what it serves"))
                .outcome(Outcome::NotRun),
            PlantError::UnknownNamespace { peer, alternatives, .. } => Self::new(ErrorCode::UnknownNamespace, message)
                .alternatives(alternatives)
                .fix(describe_peer(peer.as_str()))
                .outcome(Outcome::NotRun),
            PlantError::UnknownMethod { peer, alternatives, .. } => Self::new(ErrorCode::UnknownMethod, message)
                .alternatives(alternatives)
                .fix(describe_peer(peer.as_str()))
                .outcome(Outcome::NotRun),
            PlantError::NoStore { peer, stores, .. } => no_store(peer.as_str(), stores, message),
            PlantError::UnknownEvent { peer, alternatives, .. } => {
                Self::new(ErrorCode::UnknownEvent, message).alternatives(alternatives).fix(describe_peer(peer.as_str()))
            }
            PlantError::UnknownWatch { alternatives, .. } => Self::new(ErrorCode::UnknownWatch, message)
                .cause("it was stopped, nobody read it for an hour, or the bridge was started again")
                .fix("use one of `alternatives`, or start it again with start_watch")
                .alternatives(alternatives),
            PlantError::TooManyWatches { limit, held } => Self::new(ErrorCode::LimitReached, message)
                .fix("end one that is not needed: list_watches {}, then stop_watch")
                .detail("limit", limit)
                .alternatives(held),
            PlantError::InvalidParams { argument, problem, signature, .. } => {
                Self::new(ErrorCode::InvalidParams, format!("InvalidParams, before sending: {problem}"))
                    .argument(argument)
                    .fix(format!("the signature is {signature}{}", how_written(&problem)))
                    .problem(problem)
                    .detail("signature", signature)
                    .outcome(Outcome::NotRun)
            }
            PlantError::ReadOnly { target, effect, of_client } => {
                looking::no_call(&target, effect, of_client, message)
            }
            PlantError::NotALook { target, effect } => looking::no_call(&target, effect, false, message)
                .cause("this tool only looks")
                .fix("call_method calls it, if that is wanted"),
            PlantError::OddAnswer { target, changes, .. } => odd_answer(&target, changes, message),
            PlantError::NoContext { at, hops, refusal, .. } => no_context(&at, &hops, refusal, message),
            PlantError::NotAComponent { alternatives, .. } => {
                Self::new(ErrorCode::NotAComponent, message).alternatives(alternatives)
            }
            PlantError::NoSnapshot { .. } => Self::new(ErrorCode::NoSnapshot, message),
            PlantError::NoSetter { claims, .. } => {
                let message = if claims.is_empty() { format!("{message}, or any other") } else { message };
                Self::new(ErrorCode::NoSetter, message).alternatives(claims).outcome(Outcome::NotRun)
            }
            PlantError::AmbiguousSetter { methods: (first, second), .. } => {
                Self::new(ErrorCode::AmbiguousSetter, message).alternatives([first, second]).outcome(Outcome::NotRun)
            }
            PlantError::UnknownTicket { ticket, tickets } => unknown_ticket(&ticket, &tickets, message),
            PlantError::NotInControl { target, holder, other_client, lost, refusal } => {
                let error = not_in_control(&target, holder, other_client, message);
                let error = if let Some(why) = lost { error.detail("lost", why) } else { error };
                let Some(RemoteError { code, message, .. }) = refusal else { return error };
                error.peer_error(&code, &message)
            }
            error @ (PlantError::NoContracts
            | PlantError::UnknownContract { .. }
            | PlantError::InvalidContract { .. }
            | PlantError::ContractChanged { .. }
            | PlantError::CannotRead { .. }
            | PlantError::CannotWrite { .. }) => of_contracts(error, message),
            error @ (PlantError::NameInUse { .. }
            | PlantError::InvalidScript { .. }
            | PlantError::ExecDisabled { .. }
            | PlantError::FakeFailed { .. }
            | PlantError::UnknownFake { .. }) => of_fakes(error, message),
            PlantError::Script(trouble) => of_scripts(trouble, message),
            PlantError::TapUnavailable(trouble) => tap_unavailable(&trouble, message),
            PlantError::Unwanted => Self::new(ErrorCode::Cancelled, message).outcome(Outcome::NotRun),
            PlantError::LimitReached { limit, .. } => {
                Self::new(ErrorCode::LimitReached, message).detail("limit", limit).outcome(Outcome::NotRun)
            }
            PlantError::Call { target, checked, observes, idempotency_key, error } => {
                call_failed(&target, checked, observes, error).keyed(idempotency_key)
            }
        }
    }
}

impl ToolError {
    /// The key the command carried, where its outcome is unknown.
    pub(super) fn keyed(self, key: Option<String>) -> Self {
        match key {
            Some(key) if self.code() == ErrorCode::UnknownOutcome => self.detail("idempotency_key", key),
            Some(_) | None => self,
        }
    }
}

/// How a value is written for which JSON has no type, where one was expected.
fn how_written(problem: &str) -> &'static str {
    let expected = |what: &str| problem.contains(&format!("expected {what}, got"));
    if expected("a date") {
        r#"; a date is written {"$date": "2026-08-07T18:22:10.114Z"}"#
    } else if expected("bytes") {
        r#"; a byte string is written {"$bytes": "base64"}"#
    } else {
        ""
    }
}

/// What came back says nothing: of a read, that is all; of a change, it is in doubt.
fn odd_answer(target: &Target, changes: bool, message: String) -> ToolError {
    if changes {
        return unknown_outcome(target, message);
    }
    ToolError::new(ErrorCode::PeerRefused, message)
        .cause("the peer answered, and what it said is not what a store says")
        .fix("call_method shows the answer as it is")
}

/// A host along a chain that says nothing a chain is made of: what was on the way there is told, and concludes nothing.
fn no_context(at: &Ref, hops: &[Ref], refusal: Option<RemoteError>, message: String) -> ToolError {
    let hops: Vec<Json> = hops.iter().take(HOPS).map(|hop| hop.to_string().into()).collect();
    let error = ToolError::new(ErrorCode::PeerRefused, message)
        .cause("a chain is known only when every host along it has answered for its part")
        .fix(format!(
            "nothing may be concluded about the token; ask whoever runs {}, or read a node whose chain does not lead there",
            at.peer
        ))
        .detail("at", at.to_string())
        .detail("hops", hops);
    match refusal {
        Some(RemoteError { code, message, .. }) => error.peer_error(&code, &message),
        None => error,
    }
}

/// A namespace without the methods of a store: there are others, or there is none on this peer.
fn no_store(peer: &str, stores: Vec<String>, message: String) -> ToolError {
    let fix = if stores.is_empty() {
        format!("no namespace that {peer} describes is a store; {} for what there is", describe_peer(peer))
    } else {
        "use one of `alternatives`, which are stores".to_owned()
    };
    ToolError::new(ErrorCode::UnknownMethod, message).alternatives(stores).fix(fix).outcome(Outcome::NotRun)
}

fn describe_peer(peer: &str) -> String {
    format!("call describe_peer {}", json!({ "peer": peer }))
}

fn unknown_peer(alternatives: Vec<String>, message: String) -> ToolError {
    ToolError::new(ErrorCode::UnknownPeer, message)
        .alternatives(alternatives)
        .fix("call list_peers {} for who is there; to wait for it, make the same call with \"wait_seconds\": 10")
        .outcome(Outcome::NotRun)
}

fn unknown_ticket(ticket: &str, tickets: &[TicketView], message: String) -> ToolError {
    let known: Vec<Json> = tickets
        .iter()
        .map(|known| json!({"ticket": known.id, "called": known.target.to_string(), "state": ticket_state(&known.state)}))
        .collect();
    let ids = tickets.iter().map(|known| known.id.as_str()).filter(|id| *id != ticket);
    let error = ToolError::new(ErrorCode::UnknownTicket, message).alternatives(ids);
    if known.is_empty() { error } else { error.detail("tickets", known) }
}

/// Nothing ran: the next step is to take control, from whoever has it if that is right.
fn not_in_control(target: &Target, holder: Option<String>, client: Option<String>, message: String) -> ToolError {
    let mut next = json!({"peer": target.peer.as_str(), "namespace": target.namespace});
    let taken = holder.is_some() || client.is_some() || target.method == "$acquire";
    if taken && let Some(next) = next.as_object_mut() {
        next.insert("take".into(), true.into());
    }
    let fix = if taken {
        format!("if it is right to take control from whoever has it: take_control {next}; then call again")
    } else {
        format!("take_control {next}, if that is right, then call again; release_control when done")
    };
    let mut error = ToolError::new(ErrorCode::NotInControl, message).fix(fix).outcome(Outcome::NotRun);
    if let Some(holder) = holder {
        error = error.detail("holder", holder);
    }
    match client {
        Some(client) => error.detail("client", client),
        None => error,
    }
}

/// Where a ticket stands, in one word.
pub(crate) const fn ticket_state(state: &TicketState) -> &'static str {
    match state {
        TicketState::Pending => "pending",
        TicketState::Resolved(_) | TicketState::TooLarge(_) => "resolved",
        TicketState::Rejected(_) => "rejected",
        TicketState::PeerGone => "peer_gone",
        TicketState::Lapsed | TicketState::NotFollowed => "lapsed",
    }
}

fn unavailable(links: &[(String, LinkState)], message: String) -> ToolError {
    let refused =
        links.iter().find(|(_, link)| link.down.as_ref().is_some_and(|down| down.kind == DownKind::Unauthorized));
    let is = |kinds: &[DownKind]| {
        links.iter().any(|(_, link)| link.down.as_ref().is_some_and(|down| kinds.contains(&down.kind)))
    };
    let fix = match refused {
        None if is(&[DownKind::Displaced, DownKind::NameTaken]) => {
            "another peer may hold this name: a person must start the bridge with another --name"
        }
        Some((name, _)) if name == "hub" => {
            "the hub refuses this bridge: a person must set PLANTBRIDGE_TOKEN, or name a file with --auth"
        }
        Some(_) => {
            "the broker refuses this bridge: a person must set PLANTBRIDGE_MQTT_USERNAME and PLANTBRIDGE_MQTT_PASSWORD"
        }
        None if is(&[DownKind::Tls]) => {
            "certificates do not fit: a person must name the authority with --ca, the name with --server-name, or the certificate with --pin"
        }
        None => "the bridge keeps trying; call again, or ask a person whether the broker or the hub runs",
    };
    let states: Vec<Json> = links.iter().map(|(name, link)| link_state(name, link.down.as_ref())).collect();
    ToolError::new(ErrorCode::NetworkUnavailable, message)
        .fix(fix)
        .detail("links", states)
        .retry_after(LINK_RETRY)
        .outcome(Outcome::NotRun)
}

fn tap_unavailable(trouble: &TapTrouble, message: String) -> ToolError {
    let error = ToolError::new(ErrorCode::TapUnavailable, message);
    let allow = "a person must allow this account, in the broker's access list, to read everything under the prefix";
    match trouble {
        TapTrouble::NoLink => error
            .cause("there is no network whose peers could say something to each other")
            .fix("a person must start the bridge with --broker or --hub"),
        TapTrouble::Down(down) if down.kind == DownKind::Unauthorized => {
            error.cause("the broker does not let this account watch").fix(allow).detail("link", down_word(down.kind))
        }
        TapTrouble::Down(down) => error
            .cause("watching takes a connection of its own, and it does not come about")
            .fix("call again, or ask a person whether the broker runs and takes another connection")
            .detail("link", down_word(down.kind))
            .retry_after(LINK_RETRY),
        TapTrouble::Slow(_) => error
            .cause("watching takes a connection of its own, and it does not come about")
            .fix("call again")
            .retry_after(LINK_RETRY),
        TapTrouble::Deaf { filter } => error
            .cause("probably its access list does not let this account read that")
            .fix(allow)
            .detail("filter", &**filter),
    }
}

/// How a link is.
pub(super) fn link_state(name: &str, down: Option<&DownReason>) -> Json {
    match down {
        None => json!({"name": name, "state": "up"}),
        Some(down) => json!({"name": name, "state": "down", "kind": down_word(down.kind), "detail": down.detail}),
    }
}

/// What is wrong with a link, in a word.
pub(super) const fn down_word(kind: DownKind) -> &'static str {
    match kind {
        DownKind::Joining => "joining",
        DownKind::Unreachable => "unreachable",
        DownKind::Unauthorized => "unauthorized",
        DownKind::Tls => "tls",
        DownKind::Displaced => "displaced",
        DownKind::NameTaken => "name_taken",
        DownKind::Lost => "lost",
        DownKind::Protocol => "protocol",
    }
}

/// A call that ended badly. What it may have changed decides between a read that was not answered and a command whose
/// outcome is unknown.
fn call_failed(target: &Target, checked: bool, observes: bool, error: CallError) -> ToolError {
    let certainty = match &error {
        // What fitted the peer's own description and is refused all the same may be the result, and then the method ran.
        CallError::Refused(remote) if checked && remote.code == "InvalidParams" => Certainty::MayHaveRun,
        error => error.certainty(),
    };
    let message = format!("{target} failed: {error}");
    match error {
        CallError::NotSent(why) => not_sent(&why, message),
        CallError::Refused(error) => refused(target, &error, certainty, observes),
        CallError::UnknownOutcome(doubt) if observes => unanswered(&doubt, message),
        CallError::UnknownOutcome(_) => unknown_outcome(target, message),
    }
}

fn not_sent(why: &NotSent, message: String) -> ToolError {
    let code = match why {
        NotSent::LinkDown | NotSent::Rejected(_) | NotSent::Closing | NotSent::Timeout(_) => {
            ErrorCode::NetworkUnavailable
        }
        NotSent::TooManyCalls { .. } => ErrorCode::Busy,
        NotSent::Abandoned => ErrorCode::Cancelled,
    };
    let error = ToolError::new(code, message).outcome(Outcome::NotRun);
    match why {
        NotSent::Rejected(crate::link::Rejection::TooLarge { .. } | crate::link::Rejection::Unsendable(_)) => {
            let (cause, fix) = ("the message cannot be sent as it is", "send less, or other characters");
            ToolError::new(ErrorCode::BadArgument, error.message()).cause(cause).fix(fix).outcome(Outcome::NotRun)
        }
        NotSent::Abandoned => error,
        NotSent::LinkDown
        | NotSent::Rejected(_)
        | NotSent::Closing
        | NotSent::Timeout(_)
        | NotSent::TooManyCalls { .. } => error.retry_after(LINK_RETRY),
    }
}

fn unanswered(doubt: &Doubt, message: String) -> ToolError {
    match doubt {
        Doubt::Timeout(_) | Doubt::Abandoned => ToolError::new(ErrorCode::DeadlineExceeded, message),
        Doubt::LinkLost(_) | Doubt::Closing => {
            ToolError::new(ErrorCode::NetworkUnavailable, message).retry_after(LINK_RETRY)
        }
    }
}

pub(super) fn unknown_outcome(target: &Target, message: String) -> ToolError {
    let read = read_state(target.peer.as_str(), &target.namespace);
    ToolError::new(ErrorCode::UnknownOutcome, message)
        .cause("the request left and nothing conclusive came back")
        .fix(instead(&read))
        .settle_with(&read)
}

/// A refusal by the peer, in its own words.
pub(super) fn refused(target: &Target, error: &RemoteError, certainty: Certainty, observes: bool) -> ToolError {
    let code = match error.code.as_str() {
        "Busy" => ErrorCode::PeerBusy,
        "Superseded" => ErrorCode::Superseded,
        "NotInControl" => ErrorCode::NotInControl,
        "OwnershipChanged" => ErrorCode::OwnershipChanged,
        "UnknownOutcome" if !observes => ErrorCode::UnknownOutcome,
        _ => ErrorCode::PeerRefused,
    };
    let outcome = match certainty {
        Certainty::DidNotRun => Outcome::NotRun,
        Certainty::Ran => Outcome::Ran,
        Certainty::MayHaveRun => Outcome::Unknown,
    };
    let message = format!("{target} answered {}: {}", error.code, error.message);
    let failed = match code {
        ErrorCode::UnknownOutcome => unknown_outcome(target, message),
        ErrorCode::PeerBusy => ToolError::new(code, message).retry_after(PEER_RETRY),
        code => ToolError::new(code, message),
    };
    let failed = failed.peer_error(&error.code, &error.message);
    if observes && outcome == Outcome::Ran { failed } else { failed.outcome(outcome) }
}
