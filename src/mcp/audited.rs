//! Which calls are written down, and what is written of their ends. What changes nothing is not; what is no tool might have.

use serde_json::{Map, Value as Json};

use super::{
    codes::ErrorCode,
    error::{Outcome, ToolError},
    load::Work,
    registry::Registry,
    server::Session,
};
use crate::plant::audit::{Ending, Entry, Unavailable};

impl Session {
    /// The entry of a call, if there is a trail and the call could change something.
    pub(super) fn entry(&self, tool: &str, arguments: Option<&Map<String, Json>>) -> Option<Entry> {
        let audit = self.front.plant.audit()?;
        let none = Map::new();
        let entry = || audit.entry(&self.client, tool, arguments.unwrap_or(&none));
        may_change(&self.front.registry, tool).then(entry)
    }
}

/// Whether a call of this name could change something: it is of a tool that says so, there or not, or of none we know.
fn may_change(registry: &Registry, name: &str) -> bool {
    let tool = registry.all().iter().find(|tool| tool.spec().name == name);
    tool.is_none_or(|tool| !tool.spec().hints.read_only)
}

/// The same work, begun once that is written down.
pub(super) fn audited(entry: Entry, work: Work) -> Work {
    Box::pin(async move {
        entry.begin().await.map_err(|why| unavailable(&why))?;
        let answer = work.await;
        entry.end(answer.as_ref().map_or_else(ending, |_| Ending::OK));
        answer
    })
}

/// What is written of a refusal.
pub(super) fn ending(error: &ToolError) -> Ending {
    Ending { outcome: error.certainty().map_or("refused", Outcome::as_str), code: Some(error.code().as_str().into()) }
}

fn unavailable(why: &Unavailable) -> ToolError {
    let error = ToolError::new(ErrorCode::AuditUnavailable, why.to_string()).outcome(Outcome::NotRun);
    match why {
        Unavailable::Failing(_) => error.fix(
            "ask a person to make the directory of --audit writable again: room on its disk, its rights, its files where they were; \
             the bridge tries it every second. What only looks goes on",
        ),
        Unavailable::Full | Unavailable::Slow => error.fix("call again in a while; ask a person if it stays so"),
        Unavailable::Ended => error.fix("the bridge is ending; call again once it is back"),
    }
}
