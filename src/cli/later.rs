//! The later answer of a deferred method, as `call` waits for it and tells of it. The ticket belongs to this peer, which
//! leaves when the command ends, so that nobody can collect it afterwards: that is said where it matters.

use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::{ending::Failure, errand::Errand, fix};
use crate::{
    mcp::{ErrorCode, Outcome, ToolError, tagged, text, ticket_state, tools},
    plant::{Target, Ticket, TicketState, TicketView},
    wire::{Value, instant},
};

/// A ticket as it stands when the command ends.
pub(super) type View = TicketView;

/// What is told of a call.
#[derive(Debug)]
pub(super) struct Told {
    /// What it returned, if anything.
    pub(super) result: Option<Json>,
    /// The ticket, if it gave one.
    pub(super) ticket: Option<Json>,
    /// What else to know.
    pub(super) notes: Vec<String>,
}

/// How long is waited before waiting again: the end of a ticket is its own bound.
const ROUND: Duration = Duration::from_hours(1);

/// The ticket as it stands.
pub(super) async fn now(ticket: &Ticket) -> View {
    ticket.wait(Duration::ZERO, |_| {}).await
}

/// Waits for the end, telling what the peer reports on the way.
pub(super) async fn end(errand: &Errand, ticket: &Ticket) -> Result<View, Failure> {
    let out = errand.out;
    let report = |value: Option<&Value>| {
        let value = value.cloned().map_or(Json::Null, tagged::to_json);
        out.report(&if out.json {
            text::compact(&json!({"progress": value}))
        } else {
            format!("progress: {}", text::compact(&value))
        });
    };
    loop {
        tokio::select! {
            biased;
            view = ticket.wait(ROUND, report) => {
                if view.state != TicketState::Pending {
                    return Ok(view);
                }
            }
            () = errand.stop.cancelled() => {
                let why = format!("interrupted: it runs on, and its ticket {} cannot be collected any more", ticket.id());
                return Err(in_doubt(parts(&now(ticket).await.target), &why));
            }
        }
    }
}

/// A failure whose outcome is not known; [`super::fix::settled`] says what would show it.
pub(super) fn in_doubt((peer, namespace, method): (&str, &str, &str), why: &str) -> Failure {
    let message = format!("{peer}.{namespace}.{method}: {why}");
    let error = ToolError::new(ErrorCode::UnknownOutcome, message).cause(why);
    Failure::Refused(fix::in_doubt(error, peer, namespace))
}

fn parts(target: &Target) -> (&str, &str, &str) {
    (target.peer.as_str(), &target.namespace, &target.method)
}

/// What is told of a call, from what it returned at once and its ticket, if it gave one.
pub(super) fn told(target: &Target, view: Option<View>, value: Option<Value>) -> Result<Told, Failure> {
    let Some(view) = view else {
        let notes = if value.is_none() { vec!["it ran and returned nothing".to_owned()] } else { Vec::new() };
        return Ok(Told { result: value.map(tagged::to_json), ticket: None, notes });
    };
    let (outcome, note) = tools::judged(&view.state);
    let (id, state) = (view.id.clone(), view.state);
    let mut ticket = Map::new();
    ticket.insert("id".into(), id.as_str().into());
    ticket.insert("expires_at".into(), instant::format(view.expires_ms).into());
    ticket.insert("state".into(), ticket_state(&state).into());
    ticket.extend(outcome.map(|outcome| ("outcome".into(), outcome.as_str().into())));
    if state == TicketState::Pending {
        let note = format!("it answers later; nobody can collect ticket {id}, as this peer leaves now");
        ticket.insert("collectable".into(), false.into());
        ticket.insert("note".into(), note.as_str().into());
        return Ok(Told { result: value.map(tagged::to_json), ticket: Some(ticket.into()), notes: vec![note] });
    }
    let ticket = Some(Json::Object(ticket));
    let notes = note.map(str::to_owned).into_iter().collect();
    match state {
        TicketState::Resolved(value) => Ok(Told { result: value.map(tagged::to_json), ticket, notes }),
        TicketState::TooLarge(bytes) => {
            Ok(Told { result: Some(json!({"truncated": true, "bytes": bytes})), ticket, notes })
        }
        TicketState::Rejected(error) => {
            let message = format!("{target} answered later {}: {}", error.code, error.message);
            let refused = ToolError::new(ErrorCode::PeerRefused, message).peer_error(&error.code, &error.message);
            let refused = refused.fix("change what the peer names, if anything");
            Err(Failure::Refused(refused.outcome(outcome.unwrap_or(Outcome::Unknown))))
        }
        TicketState::Pending | TicketState::PeerGone | TicketState::Lapsed | TicketState::NotFollowed => {
            Err(in_doubt(parts(target), note.unwrap_or("its end is not known")))
        }
    }
}
