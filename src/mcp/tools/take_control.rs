//! `take_control`: become the one who may call what requires authority.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{WaitSeconds, moment, principal, source_of};
use crate::{
    mcp::{CallContext, ErrorCode, Hints, Need, Outcome, Source, Spec, Tool, ToolError},
    plant::{Plant, TakeControl},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Which peer.
    #[schemars(length(min = 1, max = 256))]
    peer: String,
    /// Which component.
    #[schemars(length(min = 1, max = 1024))]
    namespace: String,
    /// How long control lasts if the bridge is gone; while it is there, it renews in time.
    #[serde(default)]
    seconds: Seconds,
    /// Take it from whoever has it. Ask a person first.
    #[serde(default)]
    take: bool,
    /// How long to wait for the peer if it is not there.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

/// The life of a lease.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct Seconds(#[schemars(range(min = 2, max = 3_600))] u16);

impl Default for Seconds {
    fn default() -> Self {
        Self(60)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// `peer.namespace`.
    controlled: String,
    /// Us, as peers know us.
    holder: String,
    /// When it lapses if it is not renewed, by the clock of the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Rises whenever control changes hands.
    generation: i64,
    note: &'static str,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "take_control",
        title: "Take control",
        description: "Takes command authority over a component, which methods marked \"requires authority\" need. The \
                      bridge renews it until release_control, or until this client or the bridge goes; then it is given \
                      back. If another is in control it is refused with the holder, unless take is true. Control that is \
                      lost is not taken again by itself: the next call says not_in_control."
            .into(),
        hints: Hints { idempotent: true, ..Hints::ACT },
        needs: &[Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let principal = principal(&context);
    let request = TakeControl {
        peer: args.peer.clone(),
        namespace: args.namespace.clone(),
        life: Duration::from_secs(args.seconds.0.into()),
        take: args.take,
        wait: args.wait_seconds.duration(),
        stop: context.cancel.clone(),
    };
    let control = plant.take_control(&principal, request).await?;
    if context.cancel.is_cancelled() && !control.renewed {
        // Nobody knows of this control, so nobody would give it back.
        let given_back = plant.release_control(&principal, &args.peer, &args.namespace, Duration::ZERO).await;
        let outcome = if given_back.is_ok() { Outcome::NotRun } else { Outcome::Unknown };
        return Err(ToolError::new(ErrorCode::Cancelled, "the client stopped waiting").outcome(outcome));
    }
    Ok(Answer {
        controlled: format!("{}.{}", control.peer, args.namespace),
        holder: plant.name().to_string(),
        expires_at: control.authority.expires_ms.map(moment),
        generation: control.authority.generation,
        note: "renewed until release_control, or until this client or the bridge goes",
        source: source_of(&plant, &control.peer).await,
    })
}
