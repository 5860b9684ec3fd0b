//! `start_fake`: a peer that stands in for a device, on this network.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{
    WaitSeconds,
    contract_argument::{contract_source, document},
    list_fakes::KeyShown,
    moment, plant_value, principal,
};
use crate::{
    mcp::{CallContext, Hints, Need, Source, Spec, Tool, ToolError, check::bad_argument},
    plant::{ContractSource, Plant, StartFake},
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Its name on the network; one is made up otherwise. A name that anybody answers to is refused.
    #[schemars(length(min = 1, max = 128))]
    name: Option<String>,
    /// Its contract: {"schema": 1, "namespaces": {…}, "types"?: {…}}.
    schema: Option<Map<String, Json>>,
    /// Instead: the name of a saved contract.
    #[schemars(length(min = 1, max = 64))]
    contract: Option<String>,
    /// Instead: as this live peer describes itself now.
    #[schemars(length(min = 1, max = 128))]
    from_peer: Option<String>,
    /// What it does in particular, each part optional: returns {"ns.method": value}; fails {"ns.method": code}, where
    /// Timeout never answers; emits [{"event": "ns.event", "every": ms, "params"?: […]}]; state {"ns": {field: value}} of a
    /// component at first; rows {"ns.write": {resource: {id: row}}}. Everything must fit the contract.
    script: Option<Map<String, Json>>,
    /// How long to wait for the peer of from_peer if it is not there.
    #[serde(default)]
    wait_seconds: WaitSeconds,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Answer {
    /// Its name.
    peer: String,
    /// What it serves.
    namespaces: Vec<String>,
    /// Those of them that are components: read_state shows them.
    components: Vec<String>,
    /// How many events it emits by itself.
    emits: usize,
    /// How many collections of rows it holds.
    collections: usize,
    /// How many methods code of the script answers.
    handlers: usize,
    since: String,
    /// What its frames are signed with, where frames are signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyShown>,
    /// What of it may surprise, such as samples that break a pattern, or that others do not believe it yet.
    warnings: Vec<String>,
    note: &'static str,
    source: Source,
}

pub(super) fn tool() -> Tool {
    let spec = Spec {
        name: "start_fake",
        title: "Start a fake",
        description:
            "Stands up a peer that plays a device from its contract, to try things out without the device: it \
                      checks arguments, answers samples or what the script says, shows components, keeps rows, emits \
                      events, and says everywhere that it is a fake. Everybody on the network sees it. It never takes \
                      the name of a peer that is there, and leaves its name to one that comes later. It ends with \
                      stop_fake, or with the bridge. Next: describe_peer, call_method."
                .into(),
        hints: Hints { read_only: false, destructive: false, idempotent: false, open_world: true },
        needs: &[Need::Changing],
    };
    Tool::new(spec, run).says_where(Need::Exec, CODE)
}

/// What is said where code is run.
const CODE: &str = " This bridge runs code that a script brings along: handlers {\"ns.method\": \"(a, b) => …\"}, JavaScript \
                    functions that share the object `state`, which is the script's state {…} at first (what components hold \
                    is components {\"ns\": {field: value}} then); and python {program, targets: [\"ns.method\"], \
                    interpreter?}, functions registered with @rpc(\"ns.method\"). What they throw is the caller's Exception; \
                    a call is cut off after 200 ms, in Python after 5 s.";

async fn run(plant: Plant, args: Args, context: CallContext) -> Result<Answer, ToolError> {
    let source = source(args.schema, args.contract, args.from_peer, args.wait_seconds.duration())?;
    let script = args.script.map(|script| plant_value(Json::Object(script), "/script")).transpose()?;
    let request = StartFake { name: args.name, source, script };
    let started = plant.start_fake(&principal(&context), request, &context.cancel).await?;
    let peer = started.fake.name.to_string();
    Ok(Answer {
        source: Source::fake(peer.as_str()),
        peer,
        namespaces: started.fake.namespaces,
        components: started.components,
        emits: started.emits,
        collections: started.collections,
        handlers: started.handlers,
        since: moment(started.fake.since_ms),
        key: started.fake.key.map(KeyShown::from),
        warnings: started.warnings,
        note: "it is a fake: what it answers says nothing about any device. It is there until stop_fake, or until the \
               bridge ends",
    })
}

/// The one of three that is given.
fn source(
    schema: Option<Map<String, Json>>,
    saved: Option<String>,
    peer: Option<String>,
    wait: Duration,
) -> Result<ContractSource, ToolError> {
    match (schema, saved, peer) {
        (None, None, Some(peer)) => Ok(ContractSource::Peer { peer, wait }),
        (None, None, None) => Err(bad_argument("/schema", "one of schema, contract and from_peer", "none of them")),
        (schema, saved, None) => contract_source(schema.map(document), saved.as_deref()),
        (_, _, Some(_)) => Err(bad_argument("/from_peer", "one of schema, contract and from_peer", "more than one")),
    }
}
