//! Stamps that were used. A stamp serves one change: sent once more after it was taken, or while nobody knows whether it
//! was, it could only overwrite what nobody looked at. Reading the row again gives a stamp that serves, be it the same.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{Principal, Target};
use crate::{
    plant::traffic::Key,
    wire::{Value, json},
};

/// How many used stamps are remembered; of more, the one used longest ago may be sent again, and the store decides.
const CAPACITY: usize = 1024;

/// The stamps that were used.
#[derive(Debug, Default)]
pub(in super::super) struct Spent(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    used: HashMap<Key, Used>,
    /// Which were used, oldest first. One that serves again stays here under a number nobody has any more.
    order: VecDeque<(Key, u64)>,
    next: u64,
}

/// One stamp in one client's hands.
#[derive(Debug)]
struct Used {
    number: u64,
    /// The key of the command it was used for.
    command: Option<String>,
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
        let stamp = stamp_of(principal, target, resource, id, stamp);
        let mut table = self.table();
        if let Some(known) = table.used.get(&stamp) {
            return key.is_some() && known.command.as_deref() == key;
        }
        let number = table.next;
        table.next += 1;
        table.used.insert(stamp, Used { number, command: key.map(str::to_owned) });
        table.order.push_back((stamp, number));
        table.slim();
        true
    }

    /// The stamp serves again: it was read again, or the change it was used for certainly was not made.
    pub(super) fn renew(&self, principal: &Principal, target: &Target, resource: &str, id: &Value, stamp: &str) {
        let stamp = stamp_of(principal, target, resource, id, stamp);
        self.table().used.remove(&stamp);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Forgets the stamps used longest ago, and what stands in the order for none.
    fn slim(&mut self) {
        let is_used = |used: &HashMap<Key, Used>, (stamp, number): &(Key, u64)| {
            used.get(stamp).is_some_and(|used| used.number == *number)
        };
        while self.used.len() > CAPACITY {
            let Some(oldest) = self.order.pop_front() else { break };
            if is_used(&self.used, &oldest) {
                self.used.remove(&oldest.0);
            }
        }
        if self.order.len() > 2 * CAPACITY {
            self.order.retain(|entry| is_used(&self.used, entry));
        }
    }
}

/// What tells one stamp in one client's hands from every other.
fn stamp_of(principal: &Principal, target: &Target, resource: &str, id: &Value, stamp: &str) -> Key {
    let id = json::encode(id).unwrap_or_default();
    let at = [principal.client.as_str(), target.peer.as_str(), &target.namespace, resource, stamp].map(str::as_bytes);
    let [client, peer, namespace, resource, stamp] = at;
    Key::of(&[client, peer, namespace, resource, &id, stamp])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PeerName;

    #[test]
    fn a_stamp_serves_once_a_client_and_row_until_it_is_read_again() {
        let spent = Spent::default();
        let who = |client: &str| Principal { client: client.into(), read_only: false, entry: None };
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
        assert_eq!(spent.table().used.len(), CAPACITY);
        assert!(take(&ada, &one, None), "forgotten");
    }

    /// However often stamps are used and serve again, what is held stays within its bound.
    #[test]
    fn what_serves_again_leaves_nothing() {
        let spent = Spent::default();
        let who = Principal { client: "ada".into(), read_only: false, entry: None };
        let target =
            Target { peer: PeerName::mqtt("store").unwrap(), namespace: "sql.write".into(), method: "update".into() };
        let id = Value::Int(1);
        for _ in 0..10 * CAPACITY {
            assert!(spent.take(&who, &target, ("t", &id, "s"), None));
            spent.renew(&who, &target, "t", &id, "s");
        }
        assert!(spent.take(&who, &target, ("t", &id, "s"), None));
        assert!(!spent.take(&who, &target, ("t", &id, "s"), None), "what stood in the order before is not it");
        let table = spent.table();
        assert!(table.used.len() == 1 && table.order.len() <= 2 * CAPACITY + 1, "{}", table.order.len());
    }
}
