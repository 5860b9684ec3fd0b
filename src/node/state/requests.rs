//! Requests of ours, from leaving to the end, and what frames say.

use super::{
    Answered, Call, CallId, Delivery, NodeEvent, NodeState, Note, Now, Send, SendWhat,
    calls::{self, Pending, Purpose},
};
use crate::{
    link::{Claim, LinkId, Origin, Rejection},
    node::error::{CallError, NotSent},
    wire::{Correlation, Frame, Message, PeerName, Reply, ReplyRoute, Request, frame::Answer},
};

impl NodeState {
    pub(super) fn request(&mut self, id: CallId, call: Call, correlation: Correlation, purpose: Purpose, now: Now) {
        if let Err(why) = self.try_request(id, call, correlation, purpose, now) {
            self.tell(id, purpose, None, Err(CallError::NotSent(why)), now);
        }
    }

    fn try_request(
        &mut self,
        id: CallId,
        call: Call,
        correlation: Correlation,
        purpose: Purpose,
        now: Now,
    ) -> Result<(), NotSent> {
        if self.closing {
            return Err(NotSent::Closing);
        }
        let link = self.links.route(self.roster.get(&call.peer)).ok_or(NotSent::LinkDown)?;
        let claim = Claim::default();
        let pending = Pending {
            purpose,
            peer: call.peer.clone(),
            correlation: correlation.clone(),
            link,
            claim: claim.clone(),
            ttl: call.timeout,
            // One that reaches beyond the clock never comes.
            deadline: call.timeout.and_then(|timeout| now.at.checked_add(timeout)),
        };
        self.calls.insert(id, pending)?;
        let request = Request {
            correlation,
            path: call.namespace,
            method: call.method,
            args: call.args,
            version: None,
            ttl: call.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            expiry: None,
            idempotency_key: call.idempotency_key,
            fence: None,
            reply: ReplyRoute::default(),
        };
        let frame = Frame { source: self.me.clone(), target: call.peer, message: Message::Request(request) };
        self.out
            .sends
            .push_back(Send { link, what: SendWhat::Frame { id: id.0, frame: Box::new(frame), claim: Some(claim) } });
        Ok(())
    }

    pub(super) fn internal_id(&mut self) -> CallId {
        self.next_internal += 1;
        CallId(self.next_internal)
    }

    pub(super) fn rejected(&mut self, id: u64, why: Rejection, now: Now) {
        match self.calls.take(CallId(id)) {
            Some(pending) => self.resolve(CallId(id), &pending, Err(calls::rejected(why)), now),
            None => {
                self.server.rejected(id, &why, &mut self.out);
                self.out.note(Note::Unwritten(why));
            }
        }
    }

    /// A request taken out of the table is told to whoever made it.
    pub(super) fn resolve(&mut self, id: CallId, pending: &Pending, outcome: Result<Answered, CallError>, now: Now) {
        if outcome.as_ref().map_or(true, |answered| answered.ticket_expires_ms.is_none()) {
            self.tickets.forget_early(&pending.correlation);
        }
        self.tell(id, pending.purpose, Some(pending), outcome, now);
    }

    fn tell(
        &mut self,
        id: CallId,
        purpose: Purpose,
        pending: Option<&Pending>,
        outcome: Result<Answered, CallError>,
        now: Now,
    ) {
        match purpose {
            Purpose::Caller => self.out.event(NodeEvent::Resolved(id, outcome)),
            Purpose::Subscription(key, attempt) => {
                self.stepped(key, attempt, pending, outcome.map(|answered| answered.value), now);
            }
        }
    }
}

// What frames say.
impl NodeState {
    pub(super) fn frame(&mut self, link: LinkId, frame: Frame, origin: Origin, now: Now) {
        if frame.source != self.me && !self.hosted && self.roster.heard(&frame.source, link, now.unix_ms) {
            self.out.event(NodeEvent::NetworkChanged);
        }
        let Frame { source, target, message } = frame;
        match message {
            Message::Request(request) if target == self.me => {
                self.server.request((link, origin), source, request, now, &mut self.out);
            }
            Message::Request(request) => self.server.no_route(link, &source, &target, request, &mut self.out),
            Message::Reply(_) | Message::Event { .. } if target != self.me => {}
            Message::Reply(reply) => self.reply(&source, reply, now),
            Message::Event { path, event, args, stamp } => {
                let mut listeners = self.subscriptions.listeners(&source, path, event);
                let last = listeners.pop();
                for id in listeners {
                    let delivery = Delivery::Event { args: args.clone(), stamp: stamp.clone(), at_ms: now.unix_ms };
                    self.out.event(NodeEvent::Delivery(id, delivery));
                }
                if let Some(id) = last {
                    self.out.event(NodeEvent::Delivery(id, Delivery::Event { args, stamp, at_ms: now.unix_ms }));
                }
            }
        }
    }

    fn reply(&mut self, from: &PeerName, reply: Reply, now: Now) {
        let Reply { correlation, answer, .. } = reply;
        let Some((id, pending)) = self.calls.find(&correlation) else {
            return self.unmatched(from, &correlation, answer);
        };
        // W-071: an error may come from a relay in between; anything else only from the peer that was asked.
        if !matches!(answer, Answer::Error(_)) && pending.peer != *from {
            let asked = pending.peer.clone();
            return self.out.note(Note::ForeignReply { asked, from: from.clone() });
        }
        if let Answer::Ticket(ticket) = answer {
            return self.tickets.hold(&correlation, ticket);
        }
        let Some(pending) = self.calls.take(id) else { return };
        match answer {
            Answer::Value(value) => {
                self.resolve(id, &pending, Ok(Answered { value, ticket_expires_ms: None }), now);
            }
            Answer::Deferred(receipt) => {
                let (at, updates) = self.tickets.open(id, &correlation, &pending.peer, receipt.as_ref(), now);
                self.resolve(id, &pending, Ok(Answered { value: receipt, ticket_expires_ms: Some(at) }), now);
                for (call, update) in updates {
                    self.out.event(NodeEvent::Ticket(call, update));
                }
            }
            Answer::Error(error) => self.resolve(id, &pending, Err(CallError::Refused(error)), now),
            Answer::Ticket(_) => {}
        }
    }

    /// An answer to nothing that waits: a ticket for an open one, or late.
    fn unmatched(&mut self, from: &PeerName, correlation: &Correlation, answer: Answer) {
        let Answer::Ticket(ticket) = answer else {
            return self.out.note(Note::LateReply(from.clone()));
        };
        match self.tickets.update(correlation, from, ticket) {
            Some((call, update)) => self.out.event(NodeEvent::Ticket(call, update)),
            None => self.out.note(Note::StrayTicket(from.clone())),
        }
    }
}
