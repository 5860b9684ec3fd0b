//! A deferred method that failed, or of which nothing came, as a failure of the call that waited for it.

use super::{
    ErrorCode, Outcome, ToolError,
    refusal::{refused, unknown_outcome},
    tools::judged,
};
use crate::{
    node::Certainty,
    plant::{TicketState, TicketView},
};

/// Why nothing comes of a ticket any more, if that is so.
pub(super) fn ticket_failed(ticket: &TicketView) -> Option<ToolError> {
    let (outcome, note) = judged(&ticket.state);
    match &ticket.state {
        TicketState::Pending | TicketState::Resolved(_) | TicketState::TooLarge(_) => None,
        TicketState::Rejected(error) => {
            let ran = outcome == Some(Outcome::Ran);
            let certainty = if ran { Certainty::Ran } else { Certainty::MayHaveRun };
            let error = refused(&ticket.target, error, certainty, ticket.observes);
            Some(error.cause("the method answered with a ticket, and the peer says that it failed later"))
        }
        TicketState::PeerGone | TicketState::Lapsed | TicketState::NotFollowed => {
            let message =
                format!("{} answered with a ticket, and no more: {}", ticket.target, note.unwrap_or_default());
            Some(if ticket.observes {
                ToolError::new(ErrorCode::DeadlineExceeded, message)
            } else {
                unknown_outcome(&ticket.target, message)
            })
        }
    }
}
