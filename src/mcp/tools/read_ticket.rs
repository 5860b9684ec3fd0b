//! `read_ticket`: collect a later answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{WaitSeconds, look, moment, principal, shown, source};
use crate::{
    mcp::{
        CallContext, Hints, NextCall, Outcome, Source, Spec, Tool, ToolError,
        refusal::ticket_state,
        settling::{NOTHING_SHOWS, settling},
    },
    node::{CallError, Certainty, Progress},
    plant::{Plant, TicketState, TicketView},
    wire::{RemoteError, Value},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// `id` of the ticket that call_method gave.
    #[schemars(length(min = 1, max = 256))]
    ticket: String,
    /// How long to wait for the answer, if it is not there yet.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    ticket: String,
    /// `namespace.method`.
    called: String,
    #[serde(flatten)]
    standing: Standing,
    /// What the method returned, once it is resolved; null when it returned nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    /// What the peer reported last, oldest first; at most 64.
    progress: Vec<Report>,
    /// How many older reports are no longer kept.
    #[serde(skip_serializing_if = "is_zero")]
    progress_dropped: u64,
    called_at: String,
    /// When it lapses, if nothing comes.
    expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    source: Source,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Report {
    at: String,
    value: Json,
}

/// Where a ticket stands, and what may be concluded from it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Standing {
    /// pending, resolved, rejected, peer_gone or lapsed.
    state: &'static str,
    /// What the peer said when it rejected it: {code, message}.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Json>,
    /// Once it ended: ran or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    /// The read that collects it, while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<NextCall>,
    /// The read that shows what the plant holds, when the outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    settle_with: Option<NextCall>,
    /// What to do when no read shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'static str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference to what decides about skipping")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "read_ticket",
        title: "Collect a later answer",
        description:
            "Collects the later answer of a call that gave a ticket: pending, resolved with the result, rejected \
                      with the peer's words, peer_gone or lapsed, and what the peer reported on the way. Reading takes \
                      nothing away: read it again, from any session, up to an hour after its end. With wait_seconds it \
                      waits; a wait that is cancelled loses nothing."
                .into(),
        hints: Hints::LOOK_INSIDE,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let ticket = plant.ticket(&principal(&context), &args.ticket)?;
    let wait = args.wait_seconds.duration();
    context.progress.expect(wait);
    let view = look(&context, async { Ok(ticket.wait(wait, |value| report(&context, value)).await) }).await?;
    Ok(answer(&plant, view))
}

/// Tells a client that waits what the peer reports.
pub(super) fn report(context: &CallContext, value: Option<&Value>) {
    let value = value.cloned().map_or(Json::Null, shown);
    context.progress.note(format!("the peer reports {value}"));
}

fn answer(plant: &Plant, view: TicketView) -> Answer {
    let standing = Standing::of(plant, &view);
    let result = match view.state {
        TicketState::Resolved(value) => Some(value.map_or(Json::Null, shown)),
        TicketState::TooLarge(bytes) => Some(too_large(bytes)),
        _ => None,
    };
    let report = |Progress { value, at_ms }| Report { at: moment(at_ms), value: value.map_or(Json::Null, shown) };
    Answer {
        ticket: view.id,
        called: format!("{}.{}", view.target.namespace, view.target.method),
        standing,
        result,
        progress: view.progress.into_iter().map(report).collect(),
        progress_dropped: view.fell_off,
        called_at: moment(view.called_ms),
        expires_at: moment(view.expires_ms),
        ended_at: view.ended_ms.map(moment),
        source: source(view.target.peer.as_str(), view.fake),
    }
}

/// What stands in for an answer that was too large to keep.
pub(super) fn too_large(bytes: usize) -> Json {
    json!({"truncated": true, "bytes": bytes})
}

impl Standing {
    /// Where this ticket stands.
    pub(super) fn of(plant: &Plant, view: &TicketView) -> Self {
        let (outcome, note) = judged(&view.state);
        let error = match &view.state {
            TicketState::Rejected(RemoteError { code, message, .. }) => Some(json!({"code": code, "message": message})),
            _ => None,
        };
        let pending = view.state == TicketState::Pending;
        let in_doubt = outcome == Some(Outcome::Unknown) && !view.observes;
        let settle_with = if in_doubt { settling(plant, &view.target) } else { None };
        Self {
            state: ticket_state(&view.state),
            error,
            outcome: outcome.map(Outcome::as_str),
            note,
            next: pending.then(|| next(&view.id)),
            fix: (in_doubt && settle_with.is_none()).then_some(NOTHING_SHOWS),
            settle_with,
        }
    }
}

/// What may be concluded about the method.
pub(crate) fn judged(state: &TicketState) -> (Option<Outcome>, Option<&'static str>) {
    match state {
        TicketState::Pending => (None, None),
        TicketState::Resolved(Some(_)) => (Some(Outcome::Ran), None),
        TicketState::Resolved(None) => (Some(Outcome::Ran), Some("the method ran and returned nothing")),
        TicketState::TooLarge(_) => (Some(Outcome::Ran), Some("the method ran; its answer was too large to keep")),
        TicketState::Rejected(error) => {
            let outcome = match CallError::Refused(error.clone()).certainty() {
                Certainty::Ran => Outcome::Ran,
                // The receipt came from the method: whatever the code says, it had begun.
                Certainty::DidNotRun | Certainty::MayHaveRun => Outcome::Unknown,
            };
            (Some(outcome), None)
        }
        TicketState::PeerGone => {
            (Some(Outcome::Unknown), Some("the peer went away before answering; do not repeat the call, look first"))
        }
        TicketState::Lapsed => {
            (Some(Outcome::Unknown), Some("its time passed with no answer; do not repeat the call, look first"))
        }
        TicketState::NotFollowed => (
            Some(Outcome::Unknown),
            Some("the bridge does not follow it, as too many tickets are open; what came of it is not known here"),
        ),
    }
}

fn next(id: &str) -> NextCall {
    let mut arguments = Map::new();
    arguments.insert("ticket".into(), id.into());
    arguments.insert("wait_seconds".into(), 60.into());
    NextCall::new("read_ticket", arguments)
}
