//! Answers of ours that come later (wire.md 5.8): the caller gets a receipt now, and on the same correlation, route and
//! encoding any number of progress tickets and exactly one that ends it. A run that answers later is out of the queue: the
//! next command of its namespace starts. Nothing expires it here.

use std::{collections::HashMap, time::Duration};

use super::{
    super::{NodeEvent, Now, Outputs, repeats::Command},
    Accepted, Failure, RunId, Server,
};
use crate::{
    link::LinkId,
    wire::{Correlation, Map, PeerName, ReplyRoute, Value, frame::Answer, frame::Ticket},
};

/// How many answers of ours may be on their way. A method asks before it begins; one more is refused.
const MAX_LATER: usize = 1000;
/// How long a caller is told to wait for one, if the method says nothing (wire.md 5.8).
const LIFE: Duration = Duration::from_mins(30);

/// The runs that answer later.
#[derive(Debug, Default)]
pub(super) struct Later(HashMap<RunId, Owed>);

/// One answer that is owed.
#[derive(Debug)]
struct Owed {
    link: LinkId,
    source: PeerName,
    correlation: Correlation,
    route: ReplyRoute,
    command: Option<Command>,
    /// The method was told that its caller is gone.
    told: bool,
}

impl Server {
    /// The method that runs answers later: its caller gets the receipt, good for `life` from the call on.
    ///
    /// # Errors
    ///
    /// What the method is to fail with: too many answers are owed already, or this run is none that could.
    pub(in super::super) fn defer(
        &mut self,
        run: RunId,
        life: Option<Duration>,
        now: Now,
        out: &mut Outputs,
    ) -> Result<(), Failure> {
        if self.later.0.len() >= MAX_LATER {
            return Err(Failure::exception(format!("{MAX_LATER} later answers are on their way already")));
        }
        let Some(accepted) = self.running.remove(&run) else {
            return Err(Failure::exception("this run answers later already, or has answered"));
        };
        let Accepted { link, source, request, arrived, command, .. } = *accepted;
        let receipt = receipt(&request.correlation, arrived, life.unwrap_or(LIFE));
        self.answer(&source, link, &request, receipt, out);
        let (correlation, route) = (request.correlation, request.reply);
        self.later.0.insert(run, Owed { link, source, correlation, route, command, told: false });
        self.next_command(&request.path, run, now, out);
        Ok(())
    }

    /// The method that runs never answers. A repeat of its call is dropped as if it ran on.
    pub(in super::super) fn leave_unanswered(&mut self, run: RunId, now: Now, out: &mut Outputs) {
        let Some(accepted) = self.running.remove(&run) else { return };
        self.repeats.unanswered(&accepted.source, &accepted.request.correlation, accepted.command);
        self.next_command(&accepted.request.path, run, now, out);
    }

    /// News of an answer that is owed.
    pub(in super::super) fn progress(&mut self, run: RunId, value: Option<Value>, out: &mut Outputs) {
        let Some(owed) = self.later.0.get(&run) else { return };
        let (to, link, correlation, route) =
            (owed.source.clone(), owed.link, owed.correlation.clone(), owed.route.clone());
        self.send_reply(&to, link, correlation, route, Answer::Ticket(Ticket::Progress(value)), out);
    }

    /// A run that answers later has ended; of any other nothing is heard.
    pub(super) fn ran_later(&mut self, run: RunId, answer: Answer, out: &mut Outputs) {
        let Some(owed) = self.later.0.remove(&run) else { return };
        let ticket = Answer::Ticket(match answer {
            Answer::Value(value) | Answer::Deferred(value) => Ticket::Resolved(value),
            Answer::Error(error) => Ticket::Rejected(error),
            Answer::Ticket(ticket) => ticket,
        });
        if let Some(command) = owed.command {
            self.repeats.end_command(command, &ticket);
        }
        self.send_reply(&owed.source, owed.link, owed.correlation, owed.route, ticket, out);
    }

    /// A command that answered later comes again under its key: a receipt of its own, and the end at once.
    pub(super) fn answer_again(&mut self, accepted: &Accepted, answer: Answer, out: &mut Outputs) {
        let Accepted { link, source, request, arrived, .. } = accepted;
        if !matches!(answer, Answer::Ticket(_)) {
            return self.answer(source, *link, request, answer, out);
        }
        self.answer(source, *link, request, receipt(&request.correlation, *arrived, LIFE), out);
        self.send_reply(source, *link, request.correlation.clone(), request.reply.clone(), answer, out);
    }

    /// A peer is gone: the methods that owe it an answer are told, once. They may still answer.
    pub(super) fn caller_gone(&mut self, peer: &PeerName, out: &mut Outputs) {
        let mut gone: Vec<RunId> = Vec::new();
        for (run, owed) in &mut self.later.0 {
            if owed.source == *peer && !std::mem::replace(&mut owed.told, true) {
                gone.push(*run);
            }
        }
        gone.sort_by_key(|run| run.0);
        for run in gone {
            out.event(NodeEvent::CallerGone(run));
        }
    }
}

/// `{id, expiresAt}`: the id is the correlation.
fn receipt(correlation: &Correlation, arrived: Now, life: Duration) -> Answer {
    let life = i64::try_from(life.as_millis()).unwrap_or(i64::MAX);
    let mut receipt = Map::new();
    receipt.insert("id", &*String::from_utf8_lossy(&correlation.0));
    receipt.insert("expiresAt", arrived.unix_ms.saturating_add(life));
    Answer::Deferred(Some(receipt.into()))
}
