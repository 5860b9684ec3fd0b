//! What we answered, so that a request delivered twice never runs twice. Keyed by source and correlation: an answer is
//! handed to nobody but the peer that asked (W-060, S-008). Commands are remembered by their idempotency key too.

use std::collections::{HashMap, VecDeque};

use crate::wire::{Correlation, PeerName, RemoteError, ReplyRoute, Value, frame::Answer, frame::Ticket};

/// How many answers are remembered.
pub(super) const REMEMBERED: usize = 1000;
/// How much the large ones among them may take together, in bytes.
const MAX_WEIGHT: usize = 4 << 20;
/// The same of a peer that is one of many in its process: less than one description, which would be all it holds.
const HOSTED_WEIGHT: usize = 64 << 10;
/// From where on an answer counts as large.
const LARGE: usize = 1 << 10;

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
    attempts: Memory<Attempt>,
    commands: Memory<Command>,
}

impl Repeats {
    /// Less is remembered from now on, for a peer that is one of many in its process.
    pub(super) fn be_light(&mut self) {
        self.attempts.most = HOSTED_WEIGHT;
        self.commands.most = HOSTED_WEIGHT;
    }

    /// A request came: what is known of it.
    pub(super) fn arrive(&mut self, source: &PeerName, correlation: &Correlation) -> Seen {
        self.attempts.begin((source.clone(), correlation.clone()))
    }

    /// It is answered with this.
    pub(super) fn answered(
        &mut self,
        source: &PeerName,
        correlation: &Correlation,
        route: ReplyRoute,
        answer: &Answer,
    ) {
        self.attempts.end((source.clone(), correlation.clone()), route, answer);
    }

    /// What it was answered with could not be written: a repeat gets this instead.
    pub(super) fn replace(&mut self, source: &PeerName, correlation: &Correlation, answer: &Answer) {
        if let Some(Some((_, held))) = self.attempts.known.get_mut(&(source.clone(), correlation.clone())) {
            *held = answer.clone();
        }
    }

    /// It will never be answered: a repeat is dropped as while it runs, for as long as an answer would be remembered.
    pub(super) fn unanswered(&mut self, source: &PeerName, correlation: &Correlation, command: Option<Command>) {
        self.attempts.leave((source.clone(), correlation.clone()));
        if let Some(command) = command {
            self.commands.leave(command);
        }
    }

    /// It is not answered after all: somebody else's attempt at the same command answers.
    pub(super) fn forget(&mut self, source: &PeerName, correlation: &Correlation) {
        self.attempts.known.remove(&(source.clone(), correlation.clone()));
    }

    /// A keyed command came: what is known of it.
    pub(super) fn begin_command(&mut self, command: &Command) -> Seen {
        self.commands.begin(command.clone())
    }

    /// A keyed command ended with this.
    pub(super) fn end_command(&mut self, command: Command, answer: &Answer) {
        self.commands.end(command, ReplyRoute::default(), answer);
    }
}

/// The last answers, by what they answer. Bounded by number, and by weight: of an answer that weighs too much only that
/// it was given stays, so that what it answers is still not run again.
#[derive(Debug)]
struct Memory<K> {
    /// `None` while it runs.
    known: HashMap<K, Option<(ReplyRoute, Answer)>>,
    order: VecDeque<K>,
    large: VecDeque<(K, usize)>,
    weight: usize,
    most: usize,
}

impl<K> Default for Memory<K> {
    fn default() -> Self {
        Self { known: HashMap::new(), order: VecDeque::new(), large: VecDeque::new(), weight: 0, most: MAX_WEIGHT }
    }
}

impl<K: Clone + Eq + std::hash::Hash> Memory<K> {
    fn begin(&mut self, key: K) -> Seen {
        match self.known.get(&key) {
            Some(Some((route, answer))) => Seen::Answered(route.clone(), answer.clone()),
            Some(None) => Seen::Running,
            None => {
                self.known.insert(key, None);
                Seen::New
            }
        }
    }

    fn end(&mut self, key: K, route: ReplyRoute, answer: &Answer) {
        let weight = weigh(answer);
        // What is heavier than all that may be kept is not copied to be thrown away.
        let kept = if weight > self.most { lightened(answer) } else { answer.clone() };
        self.known.insert(key.clone(), Some((route, kept)));
        if weight > LARGE && weight <= self.most {
            self.large.push_back((key.clone(), weight));
            self.weight += weight;
        }
        self.leave(key);
        while self.weight > self.most
            && let Some((key, weight)) = self.large.pop_front()
        {
            self.weight -= weight;
            if let Some(Some((_, answer))) = self.known.get_mut(&key) {
                *answer = lightened(answer);
            }
        }
    }
}

impl<K: Clone + Eq + std::hash::Hash> Memory<K> {
    /// What is known of it stays as it is, until it is the oldest of too many.
    fn leave(&mut self, key: K) {
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
            if let Some((_, weight)) = self.large.pop_front_if(|(key, _)| *key == oldest) {
                self.weight -= weight;
            }
        }
    }
}

/// About how many bytes an answer holds.
fn weigh(answer: &Answer) -> usize {
    match answer {
        Answer::Value(value)
        | Answer::Deferred(value)
        | Answer::Ticket(Ticket::Progress(value) | Ticket::Resolved(value)) => value.as_ref().map_or(0, weigh_value),
        Answer::Error(error) | Answer::Ticket(Ticket::Rejected(error)) => error.message.len(),
    }
}

/// About how many bytes a value holds.
pub(in crate::node) fn weigh_value(value: &Value) -> usize {
    let inner = match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) | Value::Ext(_, bytes) => bytes.len(),
        Value::Array(items) => items.iter().map(weigh_value).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| 24 + key.len() + weigh_value(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Date(_) => 0,
    };
    size_of::<Value>() + inner
}

/// Leaves of an answer what it says about whether the method ran.
fn lightened(answer: &Answer) -> Answer {
    let code = match answer {
        Answer::Error(error) => error.code.clone(),
        Answer::Value(_) | Answer::Deferred(_) | Answer::Ticket(_) => "Exception".to_owned(),
    };
    let message = "this request was answered before, with more than is remembered of an answer".into();
    Answer::Error(RemoteError { code, name: "RpcError".into(), message })
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
        repeats.answered(&hmi, &id, ReplyRoute::default(), &answer(1));
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
            repeats.answered(&hmi, &id, ReplyRoute::default(), &answer(1));
        }
        assert_eq!(repeats.arrive(&hmi, &"c-0".into()), Seen::New, "the oldest fell out");
        assert!(matches!(repeats.arrive(&hmi, &"c-1".into()), Seen::Answered(..)));
        assert!(repeats.attempts.known.len() <= REMEMBERED + 1);
    }

    #[test]
    fn w060_the_memory_is_bounded_by_weight_and_what_is_too_heavy_still_never_runs_again() {
        let mut repeats = Repeats::default();
        let hmi = name("hmi");
        for n in 0..100 {
            let id = Correlation::from(format!("c-{n}"));
            repeats.arrive(&hmi, &id);
            let large = Answer::Value(Some("x".repeat(MAX_WEIGHT / 50).into()));
            repeats.answered(&hmi, &id, ReplyRoute::default(), &large);
        }
        assert!(repeats.attempts.weight <= MAX_WEIGHT);
        assert!(repeats.attempts.large.len() < 51);
        let Seen::Answered(_, Answer::Error(error)) = repeats.arrive(&hmi, &"c-0".into()) else { panic!("it runs") };
        assert_eq!(error.code, "Exception", "which says that it ran");
        assert!(matches!(repeats.arrive(&hmi, &"c-99".into()), Seen::Answered(_, Answer::Value(_))));
        for n in 0..2 * REMEMBERED {
            repeats.answered(&hmi, &format!("d-{n}").into(), ReplyRoute::default(), &answer(1));
        }
        assert_eq!((repeats.attempts.weight, repeats.attempts.large.len()), (0, 0), "what is forgotten weighs nothing");
    }
}
