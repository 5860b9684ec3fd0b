//! Listening to others: one remote subscription for all listeners, kept while anybody listens and not longer (S-060,
//! S-061, S-070, W-073, W-080).

use super::bench::{A, Bench, error, event, ok, reply, stream};
use crate::{
    node::{
        error::{CallError, NotSent},
        state::{Delivery, SNAPSHOT},
    },
    wire::{Correlation, Message, Stamp, Value, frame::Answer},
};

/// What was asked of peers, by what it was; and the correlations.
pub(super) fn asked(bench: &mut Bench) -> Vec<(String, Correlation)> {
    let told = |given: &super::bench::Given| {
        let request = given.request();
        let event = request.args[0].as_str().unwrap();
        (format!("{} {}.{event} of {}", request.method, request.path, given.frame.target), request.correlation.clone())
    };
    bench.take().iter().map(told).collect()
}

/// The only thing asked.
pub(super) fn one(bench: &mut Bench, expected: &str) -> Correlation {
    let mut all = asked(bench);
    assert_eq!(all.iter().map(|(what, _)| what.as_str()).collect::<Vec<_>>(), [expected]);
    all.remove(0).1
}

pub(super) fn nothing(bench: &mut Bench) {
    let all = asked(bench);
    assert!(all.is_empty(), "{all:?}");
}

pub(super) fn answers(bench: &mut Bench, correlation: &Correlation, answer: Answer) {
    bench.says("tower", reply(correlation, answer));
}

pub(super) fn listen(bench: &mut Bench, id: u64) {
    bench.subscribe(id, stream("tower", "bell", "ring"));
}

pub(super) fn rings(bench: &mut Bench) -> Vec<(u64, Delivery)> {
    bench.says("tower", event(Some("bell"), "ring", vec![1.into()]));
    bench.deliveries()
}

pub(super) fn rang(id: u64, bench: &Bench) -> (u64, Delivery) {
    (id, Delivery::Event { args: vec![1.into()], stamp: None, at_ms: bench.now.unix_ms })
}

pub(super) const ON: &str = "on bell.ring of tower";
pub(super) const OFF: &str = "off bell.ring of tower";

/// A listener attached at a peer that announced itself.
pub(super) fn attached() -> Bench {
    let mut bench = Bench::new("hmi");
    bench.online("tower", Some("shape"));
    listen(&mut bench, 1);
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(1, Delivery::Attached)]);
    bench
}

/// S-060: listeners share one subscription, each hears once, and the last one takes it with it.
#[test]
fn s060_listeners_share_one_remote_subscription() {
    let mut bench = attached();
    listen(&mut bench, 2);
    nothing(&mut bench);
    assert_eq!(bench.deliveries(), [(2, Delivery::Attached)]);
    let expected = [rang(1, &bench), rang(2, &bench)];
    assert_eq!(rings(&mut bench), expected);
    bench.unsubscribe(1);
    nothing(&mut bench);
    bench.unsubscribe(2);
    let off = one(&mut bench, OFF);
    answers(&mut bench, &off, ok("ok"));
    assert_eq!(rings(&mut bench), []);
    assert_eq!(bench.state.subscriptions.held(), 0);
    bench.unsubscribe(2);
    nothing(&mut bench);
}

/// S-060: whoever comes while `on` is under way waits for its answer; an event may overtake it.
#[test]
fn s060_an_event_may_overtake_the_answer() {
    let mut bench = Bench::new("hmi");
    listen(&mut bench, 1);
    let on = one(&mut bench, ON);
    listen(&mut bench, 2);
    nothing(&mut bench);
    let expected = [rang(1, &bench), rang(2, &bench)];
    assert_eq!(rings(&mut bench), expected);
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(1, Delivery::Attached), (2, Delivery::Attached)]);
}

/// S-061, W-073: by peer, namespace and event; without a namespace to all of that peer and event.
#[test]
fn s061_events_are_routed_by_peer_namespace_and_event() {
    let mut bench = Bench::new("hmi");
    let streams =
        [("tower", "bell", "ring"), ("tower", "gong", "ring"), ("tower", "bell", "hum"), ("hall", "bell", "ring")];
    for (id, (peer, namespace, event)) in streams.into_iter().enumerate() {
        bench.subscribe(id as u64, stream(peer, namespace, event));
    }
    let mut heard = |from: &str, path: Option<&str>, name: &str| {
        bench.says(from, event(path, name, vec![]));
        bench.deliveries().into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(heard("tower", Some("bell"), "ring"), [0]);
    assert_eq!(heard("tower", Some("gong"), "ring"), [1]);
    assert_eq!(heard("hall", Some("bell"), "ring"), [3]);
    assert_eq!(heard("tower", None, "ring"), [0, 1]);
    assert_eq!(heard("stranger", Some("bell"), "ring"), [0; 0]);
    assert_eq!(heard("tower", Some("bell"), "fall"), [0; 0]);
    let stamp = Some(Stamp { epoch: "e".into(), seq: 3 });
    let stamped = Message::Event { path: Some("bell".into()), event: "hum".into(), args: vec![], stamp: stamp.clone() };
    bench.says("tower", stamped);
    assert!(matches!(&bench.deliveries()[..], [(2, Delivery::Event { stamp: given, .. })] if *given == stamp));
}

/// A listener that goes while `on` is under way: `off` follows at once, and once more if the answers change places.
#[test]
fn s060_off_is_sent_even_while_attaching() {
    for on_first in [true, false] {
        let mut bench = Bench::new("hmi");
        bench.online("tower", None);
        listen(&mut bench, 1);
        let on = one(&mut bench, ON);
        bench.unsubscribe(1);
        let off = one(&mut bench, OFF);
        if on_first {
            answers(&mut bench, &on, ok("ok"));
            nothing(&mut bench);
            answers(&mut bench, &off, ok("ok"));
        } else {
            answers(&mut bench, &off, ok("ok - was not subscribed"));
            answers(&mut bench, &on, ok("ok"));
            let again = one(&mut bench, OFF);
            answers(&mut bench, &again, ok("ok"));
        }
        nothing(&mut bench);
        assert_eq!((bench.state.subscriptions.held(), bench.deliveries()), (0, vec![]));
    }
}

/// A listener that comes while `off` is under way gets an `on` of its own, after the answer: they cannot change places.
#[test]
fn on_never_overtakes_off() {
    let mut bench = attached();
    bench.unsubscribe(1);
    let off = one(&mut bench, OFF);
    listen(&mut bench, 2);
    nothing(&mut bench);
    assert_eq!(bench.deliveries(), []);
    answers(&mut bench, &off, ok("ok"));
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(2, Delivery::Attached)]);

    // The same while the first `on` is still under way: its answer is not for the newcomer.
    let mut bench = Bench::new("hmi");
    listen(&mut bench, 1);
    let first = one(&mut bench, ON);
    bench.unsubscribe(1);
    let off = one(&mut bench, OFF);
    listen(&mut bench, 2);
    answers(&mut bench, &first, ok("ok"));
    assert_eq!(bench.deliveries(), [], "`off` follows it");
    answers(&mut bench, &off, ok("ok"));
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(2, Delivery::Attached)]);
}

/// The peer refuses, or is not reached: the listener is told once, and nothing is left at the peer.
#[test]
fn a_listener_that_is_refused_is_told() {
    let mut bench = Bench::new("hmi");
    listen(&mut bench, 1);
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, error("ClassNotFound"));
    assert!(matches!(&bench.deliveries()[..], [(1, Delivery::Failed(CallError::Refused(_)))]));
    bench.unsubscribe(1);
    nothing(&mut bench);
    assert_eq!(bench.state.subscriptions.held(), 0);

    let mut bench = Bench::down("hmi", &[A]);
    listen(&mut bench, 1);
    let failed = Delivery::Failed(CallError::NotSent(NotSent::LinkDown));
    assert_eq!(bench.deliveries(), [(1, failed)]);
    bench.unsubscribe(1);
    bench.up(A);
    nothing(&mut bench);
}

/// Semantics 7.1: every `on` of a component is answered with a snapshot, so whoever comes later asks for one of his own,
/// also when the one before is still under way; the others are not told anything.
#[test]
fn a_new_observer_asks_for_a_snapshot_of_its_own() {
    let mut bench = Bench::new("hmi");
    let on = "on oven.$snapshot of tower";
    let observe = |bench: &mut Bench, id| bench.subscribe(id, stream("tower", "oven", SNAPSHOT));
    observe(&mut bench, 1);
    let first = one(&mut bench, on);
    bench.says("tower", event(Some("oven"), SNAPSHOT, vec![Value::Null]));
    observe(&mut bench, 2);
    answers(&mut bench, &first, ok("ok"));
    let second = one(&mut bench, on);
    answers(&mut bench, &second, ok("ok - already exists"));
    bench.deliveries();
    observe(&mut bench, 3);
    let third = one(&mut bench, on);
    answers(&mut bench, &third, error("Busy"));
    assert!(matches!(&bench.deliveries()[..], [(3, Delivery::Failed(_))]), "the others have it still");
    for id in [1, 2, 3] {
        bench.unsubscribe(id);
    }
    one(&mut bench, "off oven.$snapshot of tower");
}

/// Held streams and listeners are bounded; one that nobody listens to any more gives way.
#[test]
fn held_streams_and_listeners_are_bounded() {
    let mut bench = Bench::new("hmi");
    let nth = |n: u64| stream("tower", "bell", &format!("e{n}"));
    for n in 0..1000 {
        bench.subscribe(n, nth(n));
    }
    bench.subscribe(1000, nth(1000));
    assert!(matches!(&bench.deliveries()[..], [(1000, Delivery::Failed(CallError::NotSent(_)))]));
    bench.unsubscribe(1000);
    bench.take();
    bench.lost(A);
    bench.unsubscribe(5);
    bench.deliveries();
    assert_eq!(bench.state.subscriptions.held(), 1000, "it may be there still");
    bench.subscribe(1001, nth(1001));
    assert_eq!(bench.state.subscriptions.held(), 1000, "it gave way");
    for n in 2000..12_000 {
        bench.subscribe(n, nth(1));
    }
    let refused = |(_, delivery): &(u64, Delivery)| {
        matches!(delivery, Delivery::Failed(CallError::NotSent(NotSent::TooManyCalls { .. })))
    };
    assert_eq!(bench.deliveries().iter().filter(|delivery| refused(delivery)).count(), 1000);
}
