//! What becomes of an answer that cannot be written: whoever asked is told so, for silence would leave him to guess.

use std::collections::VecDeque;

use super::{super::Outputs, ERROR_NAME, Server};
use crate::{
    link::{LinkId, Rejection},
    wire::{Correlation, Frame, Message, PeerName, RemoteError, Reply, ReplyRoute, frame::Answer, frame::Ticket},
};

/// How many answers may be rejected after they were handed over; a link rejects within one turn, or a few.
const TRACKED: usize = 512;

/// The answers handed to links last, oldest first; their ids rise.
#[derive(Debug, Default)]
pub(super) struct Sent(VecDeque<(u64, Handed)>);

/// One answer, without what it says.
#[derive(Debug)]
struct Handed {
    to: PeerName,
    link: LinkId,
    correlation: Correlation,
    route: ReplyRoute,
    /// The code, if it was an error.
    code: Option<String>,
    /// Whether it ended a later answer: then the receipt is what is remembered.
    ends_ticket: bool,
}

impl Sent {
    pub(super) fn remember(
        &mut self,
        id: u64,
        to: &PeerName,
        link: LinkId,
        correlation: &Correlation,
        route: &ReplyRoute,
        answer: &Answer,
    ) {
        if matches!(answer, Answer::Ticket(Ticket::Progress(_))) {
            // Nobody misses one.
            return;
        }
        let code = match answer {
            Answer::Error(error) | Answer::Ticket(Ticket::Rejected(error)) => Some(error.code.clone()),
            Answer::Value(_) | Answer::Deferred(_) | Answer::Ticket(_) => None,
        };
        if self.0.len() >= TRACKED {
            self.0.pop_front();
        }
        let ends_ticket = matches!(answer, Answer::Ticket(_));
        let (to, correlation, route) = (to.clone(), correlation.clone(), route.clone());
        let handed = Handed { to, link, correlation, route, code, ends_ticket };
        self.0.push_back((id, handed));
    }

    fn take(&mut self, id: u64) -> Option<Handed> {
        let at = self.0.binary_search_by_key(&id, |(known, _)| *known).ok()?;
        self.0.remove(at).map(|(_, handed)| handed)
    }
}

impl Server {
    /// A link did not write the frame `id`. If it was an answer that no retry can carry, an error goes in its place, now
    /// and to whoever repeats the request. The error that stands in is not tracked: one that cannot be written either is
    /// given up. Only sizes and characters are told, so a link that is down is not written to again.
    pub(in super::super) fn rejected(&mut self, id: u64, why: &Rejection, out: &mut Outputs) {
        let Some(handed) = self.sent.take(id) else { return };
        match why {
            Rejection::TooLarge { .. } | Rejection::Unsendable(_) => {}
            Rejection::Down | Rejection::Full | Rejection::Refused(_) => return,
        }
        let Handed { to, link, correlation, route, code, ends_ticket } = handed;
        let (code, message) = match code {
            None => ("Exception".into(), format!("the method ran, and its answer could not be written: {why}")),
            Some(code) => (code, format!("the text of this error could not be written: {why}")),
        };
        let error = RemoteError { code, name: ERROR_NAME.into(), message };
        let answer = if ends_ticket { Answer::Ticket(Ticket::Rejected(error)) } else { Answer::Error(error) };
        if !ends_ticket {
            self.repeats.replace(&to, &correlation, &answer);
        }
        let reply = Reply { correlation, route, answer };
        let frame = Frame { source: self.me.clone(), target: to, message: Message::Reply(reply) };
        let id = self.frame_id();
        out.frame(link, id, frame);
    }
}
