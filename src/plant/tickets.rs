//! Later answers of deferred calls, kept for whoever asks: they outlive the client that made the call.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{Plant, PlantError, Principal, Target};
use crate::{
    link::now_ms,
    node::{Progress, TicketHandle, TicketUpdate},
    wire::{RemoteError, Value},
};

/// How many tickets are kept, open and ended. Beyond it the one that ended first is forgotten.
const KEPT: usize = 1_000;
/// How long after its end a ticket is kept.
const KEPT_FOR: Duration = Duration::from_hours(1);
/// How many others are named when one is not known.
const NAMED: usize = 8;

/// The tickets of every client.
#[derive(Debug, Default)]
pub(super) struct Tickets(Mutex<VecDeque<Arc<Ticket>>>);

/// A later answer, on its way or there.
#[derive(Debug)]
pub struct Ticket {
    handle: TicketHandle,
    target: Target,
    /// Who made the call.
    client: String,
    called_ms: i64,
    /// Whether the peer declares that the call changes nothing.
    observes: bool,
    fake: bool,
}

/// A ticket as it stands.
#[derive(Clone, Debug)]
pub struct TicketView {
    /// Names it.
    pub id: String,
    /// What was called.
    pub target: Target,
    /// When the call was answered with it, in milliseconds since the Unix epoch.
    pub called_ms: i64,
    /// When it lapses.
    pub expires_ms: i64,
    /// Where it stands.
    pub state: TicketState,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// What the peer reported last, oldest first.
    pub progress: Vec<Progress>,
    /// How many reports are no longer kept.
    pub fell_off: u64,
    /// Whether the peer declares that the call changes nothing.
    pub observes: bool,
    /// Whether the peer says that it is a fake.
    pub fake: bool,
}

/// Where a ticket stands.
#[derive(Clone, Debug, PartialEq)]
pub enum TicketState {
    /// Nothing final yet.
    Pending,
    /// The answer.
    Resolved(Option<Value>),
    /// The answer came and was too large to keep; about so many bytes.
    TooLarge(usize),
    /// The peer says that it failed.
    Rejected(RemoteError),
    /// The peer went away before answering.
    PeerGone,
    /// Its time passed with no answer.
    Lapsed,
    /// It is not followed: too many are open, or we have left the network.
    NotFollowed,
}

impl Tickets {
    /// Keeps a ticket.
    fn keep(&self, ticket: Arc<Ticket>) {
        let mut kept = self.swept();
        if kept.len() >= KEPT {
            // Of those that ended, the one kept longest; if none has, the new one is not followed either.
            let Some(at) = kept.iter().position(|kept| kept.has_ended()) else { return };
            kept.remove(at);
        }
        kept.push_back(ticket);
    }

    fn find(&self, id: &str) -> Option<Arc<Ticket>> {
        self.swept().iter().find(|kept| kept.handle.id == id).cloned()
    }

    /// Those of one client, open ones first, newest first.
    fn of(&self, client: &str) -> Vec<TicketView> {
        let kept = self.swept();
        let mine = || kept.iter().rev().filter(|kept| kept.client == client);
        let open = mine().filter(|kept| !kept.has_ended());
        open.chain(mine().filter(|kept| kept.has_ended())).take(NAMED).map(|kept| kept.view()).collect()
    }

    /// How many are open, and how many are kept.
    pub(super) fn count(&self) -> (usize, usize) {
        let kept = self.swept();
        (kept.iter().filter(|ticket| !ticket.has_ended()).count(), kept.len())
    }

    /// What is kept, without what was kept long enough.
    fn swept(&self) -> MutexGuard<'_, VecDeque<Arc<Ticket>>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        kept.retain(|ticket| {
            let ended = ticket.handle.log.borrow().ended.as_ref().map(|ended| ended.at);
            ended.is_none_or(|at| now.saturating_duration_since(at) < KEPT_FOR)
        });
        kept
    }
}

impl Ticket {
    /// Names it.
    pub fn id(&self) -> &str {
        &self.handle.id
    }

    /// Waits for the end, at most `wait`, and gives the ticket as it stands then. `progress` hears what the peer reports
    /// meanwhile. Dropping the future loses nothing.
    pub async fn wait(&self, wait: Duration, progress: impl Fn(Option<&Value>)) -> TicketView {
        let deadline = Instant::now() + wait;
        let mut log = self.handle.log.clone();
        let mut heard = 0;
        loop {
            {
                let log = log.borrow_and_update();
                if log.reports > heard
                    && let Some(last) = log.progress.back()
                {
                    progress(last.value.as_ref());
                }
                heard = log.reports;
                if log.ended.is_some() {
                    break;
                }
            }
            if !matches!(timeout_at(deadline, log.changed()).await, Ok(Ok(()))) {
                break;
            }
        }
        self.view()
    }

    fn has_ended(&self) -> bool {
        self.handle.log.borrow().ended.is_some() || self.is_abandoned()
    }

    /// Whether the node that followed it is gone.
    fn is_abandoned(&self) -> bool {
        self.handle.log.has_changed().is_err()
    }

    fn view(&self) -> TicketView {
        let log = self.handle.log.borrow();
        let state = match &log.ended {
            None if self.is_abandoned() => TicketState::NotFollowed,
            None => TicketState::Pending,
            Some(ended) => match (&ended.update, ended.too_large) {
                (TicketUpdate::Resolved(_), Some(bytes)) => TicketState::TooLarge(bytes),
                (TicketUpdate::Resolved(value), None) => TicketState::Resolved(value.clone()),
                (TicketUpdate::Rejected(error), _) => TicketState::Rejected(error.clone()),
                (TicketUpdate::PeerGone, _) => TicketState::PeerGone,
                (TicketUpdate::Lapsed, _) => TicketState::Lapsed,
                (TicketUpdate::Dropped | TicketUpdate::Progress(_), _) => TicketState::NotFollowed,
            },
        };
        TicketView {
            id: self.handle.id.clone(),
            target: self.target.clone(),
            called_ms: self.called_ms,
            expires_ms: self.handle.expires_ms,
            state,
            ended_ms: log.ended.as_ref().map(|ended| ended.at_ms),
            progress: log.progress.iter().cloned().collect(),
            fell_off: log.reports - u64::try_from(log.progress.len()).unwrap_or(0),
            observes: self.observes,
            fake: self.fake,
        }
    }
}

impl Plant {
    /// A call was answered with a ticket: it is kept.
    pub(super) fn keep_ticket(
        &self,
        principal: &Principal,
        target: &Target,
        handle: TicketHandle,
        (observes, fake): (bool, bool),
    ) -> Arc<Ticket> {
        let (target, client, called_ms) = (target.clone(), principal.client.clone(), now_ms());
        let ticket = Arc::new(Ticket { handle, target, client, called_ms, observes, fake });
        self.shared.tickets.keep(ticket.clone());
        ticket
    }

    /// The ticket of this id, whoever made the call: an id is known to whoever was given it.
    ///
    /// # Errors
    ///
    /// `UnknownTicket`, with those of this client.
    pub fn ticket(&self, principal: &Principal, id: &str) -> Result<Arc<Ticket>, PlantError> {
        let tickets = &self.shared.tickets;
        tickets
            .find(id)
            .ok_or_else(|| PlantError::UnknownTicket { ticket: id.into(), tickets: tickets.of(&principal.client) })
    }
}
