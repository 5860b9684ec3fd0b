//! What of the network stands in the log.

use super::state::Note;

/// Logs what happened and changed nothing.
pub(super) fn note(note: &Note) {
    match note {
        Note::Up(link) => tracing::info!(link = link.0, "the link is up"),
        Note::Down(link, reason) => {
            tracing::warn!(link = link.0, kind = ?reason.kind, "the link is down: {}", reason.detail);
        }
        Note::LateReply(from) => tracing::debug!(%from, "an answer came late, or to nothing we asked"),
        Note::ForeignReply { asked, from } => {
            tracing::warn!(%asked, %from, "an answer came from a peer we did not ask");
        }
        Note::StrayTicket(from) => tracing::debug!(%from, "a ticket came for no call of ours"),
        Note::Refused(why) => tracing::debug!("a frame was refused: {why}"),
        Note::Unwritten(why) => tracing::warn!("an answer or event of ours could not be written: {why}"),
    }
}
