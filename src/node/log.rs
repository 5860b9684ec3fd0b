//! What of the network stands in the log.

use super::state::Note;
use crate::{link::LinkId, wire::PeerName};

/// Logs what happened and changed nothing.
pub(super) fn note(note: &Note) {
    match note {
        Note::Up(link) => tracing::info!(link = named(*link), "the link is up"),
        Note::Down(link, reason) => {
            let link = named(*link);
            tracing::warn!(target: "plantbridge::links", link, kind = ?reason.kind, "the link is down: {}", reason.detail);
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

/// The number of a link; the one inside this process has none worth telling.
fn named(link: LinkId) -> String {
    if link.is_inside() { "inside".into() } else { link.0.to_string() }
}

/// The same of a peer beside ours, whose host has a log of its own.
pub(super) fn note_of_hosted(me: &PeerName, note: &Note) {
    tracing::debug!(peer = %me, ?note);
}
