//! `call_method`: call and return.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{
    TimeoutMs, WaitSeconds, moment, plant_value, principal,
    read_ticket::{Standing, report, too_large},
    shown, source,
};
use crate::{
    contract::Semantics,
    mcp::{CallContext, Hints, Source, Spec, Tool, ToolError, check::bad_argument, refusal_tickets::ticket_failed},
    plant::{Arguments, CallRequest, Called, Plant, Ticket, TicketState, TicketView},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which of its namespaces.
    #[schemars(length(min = 1, max = 1024))]
    namespace: String,
    /// Which method.
    #[schemars(length(min = 1, max = 1024))]
    method: String,
    /// Arguments by position. Dates are {"$date": "2026-08-07T18:22:10.114Z"}, byte strings {"$bytes": "base64"}.
    args: Option<Vec<Json>>,
    /// Arguments by the names the peer gives its parameters; instead of `args`.
    named_args: Option<Map<String, Json>>,
    /// Names the command, so that the same intent, sent again, runs once where the peer keeps a record.
    #[schemars(length(min = 1, max = 256))]
    idempotency_key: Option<String>,
    /// How long the answer is awaited, in milliseconds.
    timeout_ms: Option<TimeoutMs>,
    /// How long to wait for the peer if it is not there, and for the later answer of a deferred method.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// What the method returned; null when it returned nothing, {truncated, bytes, head} when it is over 256 KiB.
    result: Json,
    /// Said when nothing was returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    /// How long the call took, in milliseconds.
    ms: f64,
    /// What the peer declares about a repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    semantics: Option<&'static str>,
    /// Which power the call exercised.
    effect: &'static str,
    /// Whether the arguments were checked against the peer's description before they left.
    checked: bool,
    /// The key the command carried.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    /// The later answer of a deferred method; `result` is the receipt until it is resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<TicketAnswer>,
    source: Source,
}

/// What became of a deferred answer.
#[derive(Debug, Serialize, JsonSchema)]
struct TicketAnswer {
    id: String,
    expires_at: String,
    #[serde(flatten)]
    standing: Standing,
    /// The last progress heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Json>,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "call_method",
        title: "Call a method",
        description: "Calls one method of a peer, once, and gives what it returned. The name and the arguments are \
                      checked against the peer's description first; what fails there was not sent. A failure says \
                      what may be concluded: not_run, ran or unknown. Never repeat a call whose outcome is unknown: \
                      make the read the error names. A method that answers later gives a ticket: read_ticket collects it."
            .into(),
        hints: Hints::ACT,
        needs: &[],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Input, context: CallContext) -> Result<Answer, ToolError> {
    let wait = args.wait_seconds.duration();
    let request = CallRequest {
        arguments: arguments(args.args, args.named_args)?,
        peer: args.peer,
        namespace: args.namespace,
        method: args.method,
        timeout: args.timeout_ms.map(TimeoutMs::duration),
        wait,
        idempotency_key: args.idempotency_key,
    };
    let mut called = plant.call(&principal(&context), request, &context.cancel).await?;
    let ticket = match called.ticket.take() {
        Some(ticket) => Some(follow(&ticket, wait, &context).await),
        None => None,
    };
    let failed = ticket.as_ref().and_then(ticket_failed);
    let answer = answer(&plant, called, ticket);
    let Some(error) = failed else { return Ok(answer) };
    let ticket = serde_json::to_value(&answer.ticket).map_err(|problem| context.internal(&problem))?;
    Err(error.keyed(answer.idempotency_key).detail("ticket", ticket))
}

fn arguments(args: Option<Vec<Json>>, named: Option<Map<String, Json>>) -> Result<Arguments, ToolError> {
    match (args, named) {
        (Some(_), Some(_)) => Err(bad_argument("/named_args", "either args or named_args", "both")),
        (None, Some(named)) => match plant_value(Json::Object(named), "/named_args")? {
            crate::wire::Value::Map(named) => Ok(Arguments::Named(named)),
            // A single argument whose name is a tag is written by position.
            _ => Err(bad_argument("/named_args", "parameter names", "a tagged value")),
        },
        (args, None) => {
            let args = args.unwrap_or_default().into_iter().enumerate();
            let values = args.map(|(at, json)| plant_value(json, &format!("/args/{at}")));
            Ok(Arguments::Positional(values.collect::<Result<_, _>>()?))
        }
    }
}

/// Waits for the later answer as long as the caller wanted, telling it what the peer says meanwhile.
async fn follow(ticket: &Ticket, wait: Duration, context: &CallContext) -> TicketView {
    context.progress.expect(wait);
    tokio::select! {
        view = ticket.wait(wait, |value| report(context, value)) => view,
        () = context.cancel.cancelled() => ticket.wait(Duration::ZERO, |_| {}).await,
    }
}

fn answer(plant: &Plant, called: Called, ticket: Option<TicketView>) -> Answer {
    let standing = ticket.as_ref().map(|ticket| Standing::of(plant, ticket));
    let (result, note) = match ticket.as_ref().map(|ticket| &ticket.state) {
        None if called.value.is_none() => (Json::Null, Some("the method ran and returned nothing")),
        Some(TicketState::Resolved(value)) => (value.clone().map_or(Json::Null, shown), None),
        Some(TicketState::TooLarge(bytes)) => (too_large(*bytes), None),
        None | Some(_) => (called.value.map_or(Json::Null, shown), None),
    };
    let ticket = ticket.zip(standing).map(|(view, standing)| TicketAnswer {
        id: view.id,
        expires_at: moment(view.expires_ms),
        standing,
        progress: view.progress.into_iter().next_back().map(|last| last.value.map_or(Json::Null, shown)),
    });
    Answer {
        result,
        note,
        ms: milliseconds(called.took),
        semantics: called.semantics.map(Semantics::as_str),
        effect: called.effect.as_str(),
        checked: called.checked,
        idempotency_key: called.idempotency_key,
        ticket,
        source: source(called.target.peer.as_str(), called.fake),
    }
}

/// Milliseconds to the microsecond; more digits are noise.
pub(crate) fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}
