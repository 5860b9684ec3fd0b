//! Which command a key names. A peer that remembers a key gives the answer of the command it first came with, so a key
//! that came with two commands would tell of the one what became of the other.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use sha2::{Digest, Sha256};

use super::{PlantError, Target};
use crate::wire::{Value, json};

/// How many keys are remembered; of more, the one used longest ago may come with another command.
const CAPACITY: usize = 4_096;

/// The keys that were sent, oldest first. All clients of this process share them: to a peer they are one caller.
#[derive(Debug, Default)]
pub(super) struct Keys(Mutex<VecDeque<(String, [u8; 32])>>);

impl Keys {
    /// Takes `key` for this command.
    ///
    /// # Errors
    ///
    /// When it was taken for another one.
    pub(super) fn take(&self, key: &str, target: &Target, args: &[Value]) -> Result<(), PlantError> {
        let command = command(target, args);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter().find(|(known, _)| known == key) {
            Some((_, known)) if *known == command => return Ok(()),
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
        if all.len() >= CAPACITY {
            all.pop_front();
        }
        all.push_back((key.to_owned(), command));
        Ok(())
    }
}

/// What tells two commands apart.
fn command(target: &Target, args: &[Value]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in [target.peer.as_str(), &target.namespace, &target.method] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    // What cannot be written down is not sent either.
    digest.update(json::encode_args(args).unwrap_or_default());
    digest.finalize().into()
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
        assert_eq!(keys.0.lock().unwrap().len(), CAPACITY);
        assert!(take("delete", &[1.into()]), "forgotten");
    }
}
