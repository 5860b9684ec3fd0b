//! What is refused because only looking is allowed, and by whom: the bridge for everybody, or the token of one client.

use super::{ErrorCode, Outcome, ToolError};
use crate::{contract::Effect, plant::Target};

/// A tool that changes something.
pub(super) fn no_tool(name: &str, of_client: bool) -> ToolError {
    let who = if of_client { "the token of this client" } else { "this bridge" };
    let error = ToolError::new(ErrorCode::ReadOnly, format!("{name} changes something, and {who} may only look"))
        .cause("the bridge was started with --read-only")
        .detail("tool", name);
    told(error, of_client)
}

/// A call that does more than look.
pub(super) fn no_call(target: &Target, effect: Effect, of_client: bool, message: String) -> ToolError {
    let error = ToolError::new(ErrorCode::ReadOnly, message)
        .detail("method", target.to_string())
        .detail("effect", effect.as_str());
    told(error, of_client)
}

/// Starting the bridge in another way is no help to a client whose token is what holds it.
fn told(error: ToolError, of_client: bool) -> ToolError {
    let error = error.outcome(Outcome::NotRun);
    if !of_client {
        return error;
    }
    error.cause("the token of this client is `read_only` in the bridge's file of tokens").fix(
        "ask the person who gave out the token for one without `read_only`, or to take that off this one; the bridge itself \
         changes things for other clients",
    )
}
