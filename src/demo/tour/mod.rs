//! The tour: a real MCP client at the real stdio door, told step by step what to ask, and narrated for people.
//!
//! Every step states what its answer must be, so a tour that ends well is itself a test of the whole bridge.

mod context;
mod steps;
mod watching;

use std::{
    collections::BTreeMap as Map,
    io::{self, Write},
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation, JsonObject},
    service::{RunningService, serve_client},
};
use serde_json::Value as Json;
use tokio::{
    io::{duplex, split},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::steps::{KEPT, Step, steps};
use crate::{
    door::stdio::{self, StdioConfig},
    mcp::{Door, Server, text},
};

/// Why a tour did not reach its end.
#[derive(Debug, thiserror::Error)]
pub enum TourError {
    /// What it says cannot be written.
    #[error("the tour cannot be printed: {0}")]
    Print(#[source] io::Error),
    /// The client did not get into a session, or out of it.
    #[error("the session of the tour failed: {0}")]
    Session(String),
    /// A step did not give what it must.
    #[error("step {number} of the tour ({title}) went wrong: {problem}")]
    Step {
        /// Which, counted from 1.
        number: usize,
        /// What it was to show.
        title: &'static str,
        /// What it gave instead.
        problem: String,
    },
}

/// Walks through the bakery as a client of `server`, whose plant must be the demo, and tells `out` about it.
///
/// # Errors
///
/// The first step whose answer is not what it must be.
pub async fn run<W: Write + Send>(server: &Server, out: &mut W) -> Result<(), TourError> {
    let (ours, theirs) = duplex(PIPE);
    let (read, write) = split(theirs);
    let session = server.session("stdio", Door::Stdio);
    let serving = stdio::serve(read, write, session, StdioConfig::default(), CancellationToken::new());
    let walking = Box::pin(async {
        let me = Implementation::new("plantbridge-tour", env!("CARGO_PKG_VERSION"));
        let me = ClientConfig::new(ClientCapabilities::default(), me);
        let client = timeout(PATIENCE, serve_client(me, ours)).await;
        let client = client.map_err(|_| TourError::Session("it did not begin in time".into()))?;
        let client = client.map_err(|error| TourError::Session(error.to_string()))?;
        let walked = walk(&client, out).await;
        // Hanging up is what ends the server's side; how the client's task ended says nothing more.
        let _ = client.cancel().await;
        walked
    });
    let (_, walked) = tokio::join!(Box::pin(serving), walking);
    walked
}

async fn walk<W: Write + Send>(
    client: &RunningService<RoleClient, ClientConfig>,
    out: &mut W,
) -> Result<(), TourError> {
    let (steps, mut kept) = (steps(), Map::new());
    for (step, number) in steps.iter().zip(1..) {
        let mut arguments = (step.arguments)();
        for (name, stands_for_it) in KEPT {
            if let (Some(given), Some(kept)) = (arguments.get_mut(name), kept.get(name))
                && *given == stands_for_it
            {
                given.clone_from(kept);
            }
        }
        tell(out, format_args!("\n{number:>2}. {}\n    > {} {arguments}\n", step.title, step.tool))?;
        let failed = |problem: String| TourError::Step { number, title: step.title, problem };
        let answer = ask(client, step, arguments, &mut kept).await.map_err(failed)?;
        tell(out, format_args!("    < {}\n", text::printable(&answer, WIDTH)))?;
    }
    tell(out, format_args!("\nThat was the tour: {} steps, every answer as it must be.\n", steps.len()))
}

/// Makes the request of a step and reads its answer, in words. What a later step needs of it is kept.
async fn ask(
    client: &RunningService<RoleClient, ClientConfig>,
    step: &Step,
    arguments: Json,
    kept: &mut Map<&'static str, Json>,
) -> Result<String, String> {
    let arguments = match arguments {
        Json::Object(arguments) => arguments,
        _ => JsonObject::new(),
    };
    let request = CallToolRequestParams::new(step.tool).with_arguments(arguments);
    let answer = timeout(PATIENCE, client.call_tool(request)).await;
    let answer = answer.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))?;
    let CallToolResult { structured_content, is_error, .. } = answer.map_err(|error| error.to_string())?;
    let content = structured_content.ok_or("the answer has no structured content")?;
    kept.extend(KEPT.iter().filter_map(|(name, _)| Some((*name, content.get(*name)?.clone()))));
    (step.read)(is_error == Some(true), &content)
        .ok_or_else(|| format!("{} answered {}", step.tool, text::printable(&content.to_string(), SHOWN)))
}

/// Writes at once: a narration that comes in lumps is none.
fn tell<W: Write>(out: &mut W, words: std::fmt::Arguments<'_>) -> Result<(), TourError> {
    out.write_fmt(words).and_then(|()| out.flush()).map_err(TourError::Print)
}

/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes the pipes hold.
const PIPE: usize = 64 * 1024;
/// Characters of an answer that are shown.
const WIDTH: usize = 400;
/// Characters of an answer that is not what it must be.
const SHOWN: usize = 2000;

#[cfg(test)]
mod tests;
