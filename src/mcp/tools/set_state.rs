//! `set_state`: change one value by naming its path.

use std::{borrow::Cow, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value as Json;

use super::{PathArgument, TimeoutMs, WaitSeconds, plant_value, principal, shown, source, source_of};
use crate::{
    mcp::{CallContext, Hints, Need, Source, Spec, Tool, ToolError, tools::call_method::milliseconds},
    plant::{Confirmation, Expectation, Plant, SetState, StateSet},
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
    /// Which value: `a.b`, a JSON Pointer, or a list of segments for names that contain dots.
    path: PathArgument,
    /// What it is to be. Dates are {"$date": "…"}, byte strings {"$bytes": "base64"}.
    value: Json,
    /// What must hold before; if it does not, nothing is sent.
    expect: Option<Expect>,
    /// How long to wait for a snapshot that says whether the plant agreed. 0: do not wait.
    #[serde(default)]
    verify_seconds: WaitSeconds,
    /// How long the answer is awaited, in milliseconds.
    timeout_ms: Option<TimeoutMs>,
    /// How long to wait for the peer if it is not there.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

/// What must hold before a change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// The revision the component was seen at.
    revision: Option<i64>,
    /// The value the path was seen to have.
    value: Option<Json>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// Whether a method was called.
    applied: bool,
    /// `namespace.method`, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    called: Option<String>,
    path: String,
    /// What the method returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    returned: Option<Json>,
    /// How long the call took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
    /// Whether a snapshot shows the value: true, false, or "unknown" when none came that could tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed: Option<Confirmed>,
    /// What the path was last seen to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<Json>,
    /// The revision it was seen at.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<i64>,
    note: String,
    source: Source,
}

/// Three-valued: `true`, `false` or `"unknown"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Confirmed(Option<bool>);

impl Serialize for Confirmed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(known) => serializer.serialize_bool(known),
            None => serializer.serialize_str("unknown"),
        }
    }
}

impl JsonSchema for Confirmed {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Confirmed".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"enum": [true, false, "unknown"]})
    }
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "set_state",
        title: "Set one value",
        description: "Changes one value of a component by naming its path: finds the method that declares it sets the \
                      path, checks the value against the declared type, and calls it once. With verify_seconds it \
                      waits for the plant's own word: confirmed true, false (a device may clamp) or unknown. expect \
                      refuses the change if somebody was faster. It grants nothing beyond call_method."
            .into(),
        hints: Hints { idempotent: true, ..Hints::ACT },
        needs: &[Need::Changing],
    };
    Tool::new(spec, run)
}

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let path = args.path.segments("/path")?;
    let verify = args.verify_seconds.duration();
    context.progress.expect(verify);
    let expect = args.expect.map(Expect::read).transpose()?;
    let request = SetState {
        peer: args.peer.clone(),
        namespace: args.namespace,
        path: path.clone(),
        value: plant_value(args.value, "/value")?,
        expect,
        verify,
        timeout: args.timeout_ms.map(TimeoutMs::duration),
        wait: args.wait_seconds.duration(),
    };
    let set = plant.set_state(&principal(&context), request, &context.cancel).await?;
    let source = match &set {
        StateSet::Called { called, .. } => source(called.target.peer.as_str(), called.fake),
        StateSet::Unmet { seen, .. } => source_of(&plant, &seen.peer).await,
    };
    Ok(answer(path.to_string(), set, source))
}

impl Expect {
    fn read(self) -> Result<Expectation, ToolError> {
        let value = self.value.map(|value| plant_value(value, "/expect/value")).transpose()?;
        Ok(Expectation { revision: self.revision, value })
    }
}

fn answer(path: String, set: StateSet, source: Source) -> Answer {
    match set {
        StateSet::Called { called, confirmation } => {
            let note = note(called.took, confirmation.as_ref());
            let (confirmed, seen, revision) = match confirmation {
                Some(Confirmation { confirmed, seen, revision }) => (Some(Confirmed(confirmed)), seen, revision),
                None => (None, None, None),
            };
            Answer {
                applied: true,
                called: Some(format!("{}.{}", called.target.namespace, called.target.method)),
                path,
                returned: called.value.map(shown),
                ms: Some(milliseconds(called.took)),
                confirmed,
                seen: seen.map(shown),
                revision,
                note,
                source,
            }
        }
        StateSet::Unmet { seen, value } => Answer {
            applied: false,
            called: None,
            path,
            returned: None,
            ms: None,
            confirmed: None,
            seen: value.map(shown),
            revision: Some(seen.revision),
            note: "what was expected does not hold any more; nothing was sent. Read again and decide again.".into(),
            source,
        },
    }
}

fn note(took: Duration, confirmation: Option<&Confirmation>) -> String {
    let said = match confirmation.map(|confirmation| confirmation.confirmed) {
        Some(Some(true)) => "a snapshot shows the value",
        Some(Some(false)) => {
            "a snapshot shows another value: the device clamped it, refused it quietly, or is on its way"
        }
        Some(None) => "no snapshot came that could tell; read_state shows what the plant holds",
        None => "nothing was written locally; read_state shows what the plant agreed to",
    };
    format!("the method ran in {:.1} ms; {said}", took.as_secs_f64() * 1e3)
}
