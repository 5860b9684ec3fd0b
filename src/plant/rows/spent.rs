//! Stamps that were used. A stamp serves one change: sent once more after it was taken, or while nobody knows whether it
//! was, it could only overwrite what nobody looked at. Reading the row again gives a stamp that serves, be it the same.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use super::{Principal, Target};
use crate::wire::{Value, json};

/// How many used stamps are remembered; of more, the one used longest ago may be sent again, and the store decides.
const CAPACITY: usize = 1024;

/// The stamps that were used, oldest first.
#[derive(Debug, Default)]
pub(in super::super) struct Spent(Mutex<VecDeque<(Used, Option<String>)>>);

/// One stamp in one client's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Used {
    client: String,
    peer: String,
    namespace: String,
    resource: String,
    id: String,
    stamp: String,
}

impl Used {
    fn new(principal: &Principal, target: &Target, resource: &str, id: &Value, stamp: &str) -> Self {
        let id = json::encode(id).unwrap_or_default();
        Self {
            client: principal.client.clone(),
            peer: target.peer.as_str().into(),
            namespace: target.namespace.clone(),
            resource: resource.into(),
            id: String::from_utf8_lossy(&id).into_owned(),
            stamp: stamp.into(),
        }
    }
}

impl Spent {
    /// Uses a stamp. False when it was used before, unless the same command is sent again under the key it had.
    pub(super) fn take(
        &self,
        principal: &Principal,
        target: &Target,
        (resource, id, stamp): (&str, &Value, &str),
        key: Option<&str>,
    ) -> bool {
        let used = Used::new(principal, target, resource, id, stamp);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = all.iter().find(|(known, _)| *known == used) {
            return key.is_some() && known.as_deref() == key;
        }
        if all.len() >= CAPACITY {
            all.pop_front();
        }
        all.push_back((used, key.map(str::to_owned)));
        true
    }

    /// The stamp serves again: it was read again, or the change it was used for certainly was not made.
    pub(super) fn renew(&self, principal: &Principal, target: &Target, resource: &str, id: &Value, stamp: &str) {
        let used = Used::new(principal, target, resource, id, stamp);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(known, _)| *known != used);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PeerName;

    #[test]
    fn a_stamp_serves_once_a_client_and_row_until_it_is_read_again() {
        let spent = Spent::default();
        let who = |client: &str| Principal { client: client.into(), read_only: false };
        let target =
            Target { peer: PeerName::mqtt("store").unwrap(), namespace: "sql.write".into(), method: "update".into() };
        let (ada, bob, one) = (who("ada"), who("bob"), Value::Int(1));
        let text = Value::from("1");
        let take = |who: &Principal, id: &Value, key: Option<&str>| spent.take(who, &target, ("t", id, "s"), key);
        assert!(take(&ada, &one, Some("k")));
        assert!(!take(&ada, &one, None) && !take(&ada, &one, Some("other")));
        assert!(take(&ada, &one, Some("k")), "the same command");
        assert!(take(&bob, &one, None) && take(&ada, &text, None), "another client, another id");
        spent.renew(&ada, &target, "t", &one, "s");
        assert!(take(&ada, &one, None) && !take(&bob, &one, None));
        for n in 0..i64::try_from(CAPACITY).unwrap() {
            spent.take(&ada, &target, ("t", &Value::Int(n), "x"), None);
        }
        assert_eq!(spent.0.lock().unwrap().len(), CAPACITY);
    }
}
