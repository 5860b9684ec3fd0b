//! What we answered, so that a request delivered twice never runs twice. Keyed by source and correlation: an answer is
//! handed to nobody but the peer that asked (W-060, S-008). Commands are remembered by their idempotency key too.

use std::collections::{HashMap, VecDeque};

use crate::wire::{Correlation, PeerName, ReplyRoute, frame::Answer};

/// How many answers are remembered.
pub(super) const REMEMBERED: usize = 1000;

/// What is known of a request that came.
#[derive(Debug, PartialEq)]
pub(super) enum Seen {
    /// It is new, and now counts as running.
    New,
    /// It is running; the running one answers.
    Running,
    /// It was answered, with this.
    Answered(ReplyRoute, Answer),
}

/// Names one attempt, whoever makes it.
type Attempt = (PeerName, Correlation);
/// Names one command of one method: namespace, method, key.
pub(super) type Command = (String, String, String);

/// The answers remembered and the requests running.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    attempts: HashMap<Attempt, Option<(ReplyRoute, Answer)>>,
    attempts_order: VecDeque<Attempt>,
    commands: HashMap<Command, Option<Answer>>,
    commands_order: VecDeque<Command>,
}

impl Repeats {
    /// A request came: what is known of it.
    pub(super) fn arrive(&mut self, source: &PeerName, correlation: &Correlation) -> Seen {
        let attempt = (source.clone(), correlation.clone());
        match self.attempts.get(&attempt) {
            Some(Some((route, answer))) => Seen::Answered(route.clone(), answer.clone()),
            Some(None) => Seen::Running,
            None => {
                self.attempts.insert(attempt, None);
                Seen::New
            }
        }
    }

    /// It is answered with this.
    pub(super) fn answered(&mut self, source: &PeerName, correlation: &Correlation, route: ReplyRoute, answer: Answer) {
        let attempt = (source.clone(), correlation.clone());
        self.attempts.insert(attempt.clone(), Some((route, answer)));
        self.attempts_order.push_back(attempt);
        if self.attempts_order.len() > REMEMBERED
            && let Some(oldest) = self.attempts_order.pop_front()
        {
            self.attempts.remove(&oldest);
        }
    }

    /// It is not answered after all: somebody else's attempt at the same command answers.
    pub(super) fn forget(&mut self, source: &PeerName, correlation: &Correlation) {
        self.attempts.remove(&(source.clone(), correlation.clone()));
    }

    /// A keyed command came: `None` when it is new and now counts as running.
    pub(super) fn begin_command(&mut self, command: &Command) -> Option<Option<Answer>> {
        match self.commands.get(command) {
            Some(known) => Some(known.clone()),
            None => {
                self.commands.insert(command.clone(), None);
                None
            }
        }
    }

    /// A keyed command ended with this.
    pub(super) fn end_command(&mut self, command: Command, answer: Answer) {
        self.commands.insert(command.clone(), Some(answer));
        self.commands_order.push_back(command);
        if self.commands_order.len() > REMEMBERED
            && let Some(oldest) = self.commands_order.pop_front()
        {
            self.commands.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::name;

    fn answer(number: i64) -> Answer {
        Answer::Value(Some(number.into()))
    }

    #[test]
    fn w060_a_repeat_is_answered_from_memory_and_only_to_its_own_source() {
        let mut repeats = Repeats::default();
        let (hmi, other, id) = (name("hmi"), name("other"), Correlation::from("c-1"));
        assert_eq!(repeats.arrive(&hmi, &id), Seen::New);
        assert_eq!(repeats.arrive(&hmi, &id), Seen::Running);
        repeats.answered(&hmi, &id, ReplyRoute::default(), answer(1));
        assert_eq!(repeats.arrive(&hmi, &id), Seen::Answered(ReplyRoute::default(), answer(1)));
        assert_eq!(repeats.arrive(&other, &id), Seen::New, "another peer never gets somebody else's answer");
    }

    #[test]
    fn w060_at_least_a_thousand_answers_are_remembered_and_the_memory_is_bounded() {
        let mut repeats = Repeats::default();
        let hmi = name("hmi");
        for n in 0..=REMEMBERED {
            let id = Correlation::from(format!("c-{n}"));
            repeats.arrive(&hmi, &id);
            repeats.answered(&hmi, &id, ReplyRoute::default(), answer(1));
        }
        assert_eq!(repeats.arrive(&hmi, &"c-0".into()), Seen::New, "the oldest fell out");
        assert!(matches!(repeats.arrive(&hmi, &"c-1".into()), Seen::Answered(..)));
        assert!(repeats.attempts.len() <= REMEMBERED + 1);
    }
}
