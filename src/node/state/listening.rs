//! Listening to others: what the machine does for [`super::subscriptions`].

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{
    Call, NodeEvent, NodeState, Now, SubscriptionId,
    calls::{Pending, Purpose},
    stream::{Delivery, Stream},
    subscriptions::{Attempt, Joined, MAX_HELD, Step},
};
use crate::{
    node::error::{CallError, NotSent},
    wire::{Correlation, Value},
};

/// How long the answer to a subscription is awaited.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

impl NodeState {
    /// Listens to a stream. The listener hears [`Delivery::Attached`] or [`Delivery::Failed`] first, though an event may
    /// overtake the answer. `correlation` is used if something must be sent.
    pub fn subscribe(&mut self, id: SubscriptionId, stream: Stream, correlation: Correlation, now: Now) {
        let announces = self.roster.get(&stream.peer).is_some_and(|seen| seen.announced);
        match self.subscriptions.join(id, stream, announces) {
            Joined::Waiting(key) => self.step_with(key, correlation, now),
            Joined::Attached => self.out.event(NodeEvent::Delivery(id, Delivery::Attached)),
            Joined::Full => {
                let error = CallError::NotSent(NotSent::TooManyCalls { limit: MAX_HELD });
                self.out.event(NodeEvent::Delivery(id, Delivery::Failed(error)));
            }
        }
    }

    /// Stops listening. The last listener of a stream takes the remote subscription with it.
    pub fn unsubscribe(&mut self, id: SubscriptionId, correlation: Correlation, now: Now) {
        if let Some(key) = self.subscriptions.leave(id) {
            self.step_with(key, correlation, now);
        }
    }

    /// Makes the next request for each of these, if there is cause.
    pub(super) fn step_all(&mut self, keys: Vec<u64>, now: Now) {
        for key in keys {
            self.step(key, now);
        }
    }

    fn step(&mut self, key: u64, now: Now) {
        let correlation = self.own_correlation();
        self.step_with(key, correlation, now);
    }

    /// A correlation never used before that nobody can guess: an error may come from anybody (W-071), and whoever knew the
    /// next one could end an attempt that was never answered.
    fn own_correlation(&self) -> Correlation {
        let drawn = Sha256::new().chain_update(self.secret).chain_update(self.next_internal.to_be_bytes()).finalize();
        drawn.iter().take(16).fold(String::new(), |text, byte| format!("{text}{byte:02x}")).into()
    }

    fn step_with(&mut self, key: u64, correlation: Correlation, now: Now) {
        let Some(Step { stream, attach, attempt }) = self.subscriptions.step(key) else { return };
        let call = Call {
            peer: stream.peer,
            namespace: stream.namespace,
            method: if attach { "on" } else { "off" }.into(),
            args: vec![stream.event.into()],
            timeout: Some(SUBSCRIBE_TIMEOUT),
            idempotency_key: None,
        };
        let id = self.internal_id();
        self.request(id, call, correlation, Purpose::Subscription(key, attempt), now);
    }

    /// A request of a subscription has ended.
    pub(super) fn stepped(
        &mut self,
        key: u64,
        attempt: Attempt,
        pending: Option<&Pending>,
        outcome: Result<Option<Value>, CallError>,
        now: Now,
    ) {
        let fresh = outcome.map(|answer| answer.as_ref().and_then(Value::as_str) == Some("ok"));
        let link = pending.map(|pending| pending.link);
        for (listener, delivery) in self.subscriptions.ended(key, attempt, link, fresh, now.at) {
            self.out.event(NodeEvent::Delivery(listener, delivery));
        }
        self.step(key, now);
    }

    /// Peers that did not answer before, and are there, are asked once more.
    pub(super) fn retry_subscriptions(&mut self, now: Now) {
        let roster = &self.roster;
        let keys = self.subscriptions.retry(now.at, |peer| roster.get(peer).is_some());
        self.step_all(keys, now);
    }

    /// What is wanted and not there is asked for, over whichever link leads there.
    pub(super) fn attach_missing(&mut self, now: Now) {
        if self.links.any_up() {
            let roster = &self.roster;
            let keys = self.subscriptions.link_back(|peer| roster.get(peer).is_some());
            self.step_all(keys, now);
        }
    }
}
