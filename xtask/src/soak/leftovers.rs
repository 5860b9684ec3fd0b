//! What is there once the load is over, and once the bridge has gone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::bridge::Bridge;
use super::door::Client;
use super::load::FAKE;
use super::peers::{BRIDGE, Peers};
use super::record::Record;
use crate::bench::mqtt::Connection;

/// How long the list of peers may take to be true once nothing goes wrong any more.
pub(super) const ROSTER: Duration = Duration::from_secs(20);
/// How long whatever is to go may take to go.
const GONE: Duration = Duration::from_secs(15);

/// Waits until the bridge lists those peers that are there and nobody else, fakes apart. Says how long that took.
pub(super) fn roster(client: &mut Client, peers: &Peers) -> Result<Duration, String> {
    let begun = Instant::now();
    let expected = peers.names();
    let mut found = Vec::new();
    while begun.elapsed() < ROSTER {
        let listed = client.call("list_peers", &json!({"limit": 500}), Duration::ZERO);
        let listed = listed.content.get("peers").and_then(Value::as_array).cloned().unwrap_or_default();
        let names = listed.iter().filter_map(Value::as_str);
        found = names.filter(|name| !name.starts_with(FAKE)).map(str::to_owned).collect();
        found.sort_unstable();
        if found == expected {
            return Ok(begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let missing: Vec<_> = expected.iter().filter(|name| !found.contains(name)).collect();
    let surplus: Vec<_> = found.iter().filter(|name| !expected.contains(name)).collect();
    Err(format!("after {ROSTER:?} without faults the list of peers lacks {missing:?} and has {surplus:?} too many"))
}

/// What the bridge itself still lists that nobody has any more.
pub(super) fn listed(client: &mut Client) -> Vec<String> {
    let mut left = Vec::new();
    for (tool, what) in [("list_watches", "watches"), ("list_fakes", "fakes")] {
        let answered = client.call(tool, &json!({}), Duration::ZERO);
        match answered.content.get(what).and_then(Value::as_array) {
            Some(list) => left.extend(list.iter().map(|item| format!("of its {what}: {item}"))),
            None => left.push(format!("no {what}: {}", answered.content)),
        }
    }
    left
}

/// What peers still hold, once they had time to give it up.
pub(super) fn held(record: &Record) -> Vec<String> {
    let until = Instant::now() + GONE;
    loop {
        let held = record.with(|state| state.held());
        if held.is_empty() || Instant::now() > until {
            return held;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// How many descriptors the bridge holds once nobody uses it, when it held so many before; it may take its time.
pub(super) fn descriptors(bridge: &Bridge, before: usize) -> usize {
    let until = Instant::now() + GONE;
    loop {
        let now = bridge.sample().descriptors;
        if now <= before || Instant::now() > until {
            return now;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What a fresh subscriber finds at the broker when the bridge has gone: what is retained under its names, and how many
/// connections there are beyond those of `expected` and its own.
///
/// A fake whose line was bad when it was taken down died, as far as the network knows, and the broker keeps what it keeps of the
/// dead. Nothing else may be kept, but for the few whose farewell took longer than a farewell may.
pub(super) fn at_the_broker(port: u16, expected: usize, record: &Record) -> Result<(Vec<String>, i64), String> {
    let mut connection = Connection::open(port, "soak-looks")?;
    connection.paced(Duration::from_millis(100))?;
    connection.ask("msgrpc/v2/#");
    connection.ask("$SYS/broker/clients/connected");
    connection.flush()?;
    let expected = i64::try_from(expected).unwrap_or(i64::MAX) + 1;
    let (mut retained, mut connected) = (BTreeMap::new(), None);
    let until = Instant::now() + GONE;
    loop {
        connection.turn(|message, _| {
            let topic = String::from_utf8_lossy(message.topic).into_owned();
            let payload = String::from_utf8_lossy(message.payload).into_owned();
            if topic.starts_with("$SYS") {
                connected = payload.parse::<i64>().ok();
            } else if let Some(name) = topic.strip_prefix("msgrpc/v2/presence/") {
                if payload.is_empty() {
                    retained.remove(name);
                } else {
                    retained.insert(name.to_owned(), payload);
                }
            }
        })?;
        let ours = retained.iter().filter(|(name, _)| name.contains(BRIDGE) || name.contains(FAKE));
        let ours = ours.map(|(name, payload)| (name.clone(), payload.clone())).collect();
        let ours = record.with(|state| state.kept_wrongly(ours));
        let surplus = connected.map(|connected| connected - expected);
        // The broker counts once a second, and at first counts those that have just gone.
        let settled = ours.is_empty() && surplus.is_some_and(|surplus| surplus <= 0);
        if settled || Instant::now() > until {
            let surplus = surplus.ok_or("the broker does not say how many are connected")?;
            return Ok((ours, surplus));
        }
    }
}
