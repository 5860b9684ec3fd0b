//! Which command a key names. A peer that remembers a key gives the answer of the command it first came with, so a key
//! that came with two commands would tell of the one what became of the other.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use super::{PlantError, Target, traffic::Key};
use crate::wire::{Value, json};

/// How many keys are remembered; of more, the one used longest ago may come with another command.
const CAPACITY: usize = 4_096;

/// The keys that were sent. All clients of this process share them: to a peer they are one caller.
#[derive(Debug, Default)]
pub(super) struct Keys(Mutex<Sent>);

#[derive(Debug, Default)]
struct Sent {
    commands: HashMap<String, Key>,
    /// The keys, oldest first.
    order: VecDeque<String>,
}

impl Keys {
    /// Takes `key` for this command.
    ///
    /// # Errors
    ///
    /// When it was taken for another one.
    pub(super) fn take(&self, key: &str, target: &Target, args: &[Value]) -> Result<(), PlantError> {
        let command = command(target, args);
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match sent.commands.get(key) {
            Some(known) if *known == command => return Ok(()),
            Some(_) => {
                return Err(PlantError::BadArgument {
                    argument: "/idempotency_key".into(),
                    expected: "a key that no other command had: leave it out, and one is made".into(),
                    problem: "this key was sent with another command, and would be answered with what became of that"
                        .into(),
                });
            }
            None => {}
        }
        if sent.order.len() >= CAPACITY
            && let Some(oldest) = sent.order.pop_front()
        {
            sent.commands.remove(&oldest);
        }
        sent.order.push_back(key.to_owned());
        sent.commands.insert(key.to_owned(), command);
        Ok(())
    }
}

/// What tells two commands apart.
fn command(target: &Target, args: &[Value]) -> Key {
    // What cannot be written down is not sent either.
    let args = json::encode_args(args).unwrap_or_default();
    Key::of(&[target.peer.as_str().as_bytes(), target.namespace.as_bytes(), target.method.as_bytes(), &args])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PeerName;

    #[test]
    fn a_key_names_one_command() {
        let keys = Keys::default();
        let target = |method: &str| Target {
            peer: PeerName::mqtt("store").unwrap(),
            namespace: "sql.write".into(),
            method: method.into(),
        };
        let take = |method: &str, args: &[Value]| keys.take("k", &target(method), args).is_ok();
        assert!(take("update", &[1.into()]) && take("update", &[1.into()]), "the same command");
        assert!(!take("update", &[2.into()]), "another argument");
        assert!(!take("update", &["1".into()]), "an argument of another type");
        assert!(!take("delete", &[1.into()]), "another method");
        assert!(keys.take("other", &target("delete"), &[1.into()]).is_ok());
        for number in 0..CAPACITY {
            keys.take(&number.to_string(), &target("update"), &[]).unwrap();
        }
        {
            let sent = keys.0.lock().unwrap();
            assert_eq!((sent.commands.len(), sent.order.len()), (CAPACITY, CAPACITY));
        }
        assert!(take("delete", &[1.into()]), "forgotten");
    }
}
