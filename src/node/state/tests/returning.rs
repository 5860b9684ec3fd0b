//! Listening over links and to peers that go and come back: attached again exactly once, taken back when nobody listens
//! (S-070, W-080).

use super::{
    bench::{A, B, Bench, error, ok, peer, reply, stream},
    listening::{OFF, ON, answers, attached, listen, nothing, one},
};
use crate::{
    link::{LinkEvent, Rejection},
    node::{
        error::{CallError, Doubt},
        state::Delivery,
    },
};

/// W-080: after the link is back every held stream is asked for again, once: when its peer is seen, or when the sweep is
/// complete without it.
#[test]
fn w080_held_subscriptions_are_replayed() {
    let mut bench = attached();
    bench.subscribe(2, stream("quiet", "bell", "ring"));
    let on = one(&mut bench, "on bell.ring of quiet");
    bench.says("quiet", reply(&on, ok("ok")));
    assert_eq!(bench.deliveries(), [(2, Delivery::Attached)]);
    bench.lost(A);
    assert_eq!(bench.deliveries(), [(1, Delivery::Interrupted), (2, Delivery::Interrupted)]);
    bench.link(A, LinkEvent::Up);
    nothing(&mut bench);
    bench.online("tower", Some("shape"));
    let on = one(&mut bench, ON);
    bench.link(A, LinkEvent::Settled);
    let quiet = one(&mut bench, "on bell.ring of quiet");
    answers(&mut bench, &on, ok("ok"));
    bench.says("quiet", reply(&quiet, ok("ok - already exists")));
    assert_eq!(bench.deliveries(), [(1, Delivery::Attached), (2, Delivery::Attached)]);
    nothing(&mut bench);
}

/// W-080: a link lost while attaching: the listener is told of it once, and attached when the link is back.
#[test]
fn w080_a_link_lost_while_attaching() {
    let mut bench = Bench::new("hmi");
    bench.online("tower", None);
    listen(&mut bench, 1);
    let stale = one(&mut bench, ON);
    bench.lost(A);
    let lost = Delivery::Failed(CallError::UnknownOutcome(Doubt::LinkLost("cut".into())));
    assert_eq!(bench.deliveries(), [(1, lost)]);
    bench.link(A, LinkEvent::Up);
    bench.online("tower", None);
    let on = one(&mut bench, ON);
    answers(&mut bench, &stale, ok("ok"));
    assert_eq!(bench.deliveries(), [], "an answer to what was given up counts no more");
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(1, Delivery::Attached)]);
}

/// S-070: the peer returns, or comes under another shape: asked for again, exactly once.
#[test]
fn s070_a_peer_that_returns_is_asked_again_once() {
    let mut bench = attached();
    bench.offline("tower");
    assert_eq!(bench.deliveries(), [(1, Delivery::Interrupted)]);
    nothing(&mut bench);
    for _ in 0..3 {
        bench.online("tower", Some("shape"));
    }
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(1, Delivery::Attached)]);
    bench.online("tower", Some("another"));
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok - already exists"));
    assert_eq!(bench.deliveries(), [], "it had kept it: nothing was missed");
    bench.online("tower", Some("a third"));
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok"));
    let expected = [(1, Delivery::Interrupted), (1, Delivery::Attached)];
    assert_eq!(bench.deliveries(), expected, "it had forgotten: something may have been missed");
    nothing(&mut bench);
}

/// S-070: a peer that arrives while an `on` that it never got is awaited is asked again when that has failed.
#[test]
fn s070_a_peer_that_arrives_while_attaching_is_asked_again() {
    let mut bench = Bench::new("hmi");
    listen(&mut bench, 1);
    one(&mut bench, ON);
    bench.advance(5_000);
    bench.online("tower", None);
    nothing(&mut bench);
    bench.advance(5_000);
    assert!(matches!(&bench.deliveries()[..], [(1, Delivery::Failed(CallError::UnknownOutcome(_)))]));
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(1, Delivery::Attached)]);
}

/// A failure of an attempt that was given up is not told of the one that followed it.
#[test]
fn a_stale_failure_is_not_told() {
    let mut bench = Bench::new("hmi");
    bench.online("tower", None);
    listen(&mut bench, 1);
    one(&mut bench, ON);
    bench.advance(5_000);
    bench.offline("tower");
    assert_eq!(bench.deliveries(), [(1, Delivery::Interrupted)]);
    bench.online("tower", None);
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(1, Delivery::Attached)]);
    bench.advance(6_000);
    assert_eq!(bench.deliveries(), []);
    bench.unsubscribe(1);
    one(&mut bench, OFF);
}

/// A look leaves nothing behind at a peer, or over a link, that was away when the last listener went.
#[test]
fn what_nobody_wants_any_more_is_told_when_it_can_be() {
    let mut bench = attached();
    bench.offline("tower");
    bench.unsubscribe(1);
    // Whoever asks gets no answer of an absent peer; it is told when it is back.
    bench.take();
    bench.advance(10_000);
    bench.advance(60_000);
    nothing(&mut bench);
    bench.online("tower", Some("shape"));
    let off = one(&mut bench, OFF);
    answers(&mut bench, &off, ok("ok"));
    assert_eq!(bench.state.subscriptions.held(), 0);

    let mut bench = attached();
    bench.lost(A);
    bench.unsubscribe(1);
    nothing(&mut bench);
    bench.link(A, LinkEvent::Up);
    bench.online("tower", Some("shape"));
    let off = one(&mut bench, OFF);
    bench.link(A, LinkEvent::Settled);
    nothing(&mut bench);
    answers(&mut bench, &off, ok("ok - was not subscribed"));
    assert_eq!(bench.state.subscriptions.held(), 0);
}

/// The same when `on` was not answered in time: the peer may have it all the same.
#[test]
fn what_may_be_there_is_taken_back() {
    let mut bench = Bench::new("hmi");
    bench.online("tower", None);
    listen(&mut bench, 1);
    one(&mut bench, ON);
    bench.advance(10_000);
    assert_eq!(bench.deliveries().len(), 1);
    bench.unsubscribe(1);
    one(&mut bench, OFF);
}

/// `on` that is not answered is asked again while the peer is there: a watch is not dead because a peer was slow. The
/// listener is told of the failure once, and then that it is attached.
#[test]
fn on_is_repeated_until_it_is_answered() {
    let mut bench = Bench::new("hmi");
    bench.online("tower", None);
    listen(&mut bench, 1);
    one(&mut bench, ON);
    bench.advance(10_000);
    assert!(matches!(&bench.deliveries()[..], [(1, Delivery::Failed(CallError::UnknownOutcome(_)))]));
    nothing(&mut bench);
    bench.advance(10_000);
    one(&mut bench, ON);
    bench.advance(10_000);
    assert_eq!(bench.deliveries(), []);
    bench.advance(10_000);
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(1, Delivery::Attached)]);

    let mut bench = Bench::new("hmi");
    listen(&mut bench, 1);
    one(&mut bench, ON);
    bench.advance(10_000);
    bench.advance(100_000);
    nothing(&mut bench);
    assert_eq!(bench.state.poll_timeout(bench.now), None, "nobody asks a peer that is not there");
}

/// `off` that is not answered, or not written, is said again while the peer is there, with ten seconds between.
#[test]
fn off_is_repeated_until_it_is_answered() {
    let mut bench = attached();
    bench.unsubscribe(1);
    let id = bench.take()[0].id;
    bench.rejected(id, Rejection::Full);
    bench.advance(9_999);
    nothing(&mut bench);
    assert_eq!(bench.state.poll_timeout(bench.now), Some(bench.now.at + std::time::Duration::from_millis(1)));
    bench.advance(1);
    one(&mut bench, OFF);
    bench.advance(10_000);
    nothing(&mut bench);
    bench.advance(10_000);
    let off = one(&mut bench, OFF);
    answers(&mut bench, &off, error("Timeout"));
    bench.advance(10_000);
    let off = one(&mut bench, OFF);
    answers(&mut bench, &off, error("Forbidden"));
    bench.advance(100_000);
    nothing(&mut bench);
    assert_eq!((bench.state.subscriptions.held(), bench.state.poll_timeout(bench.now)), (0, None));
}

/// A stream moves to another link of its peer when its own is lost, on either side.
#[test]
fn a_stream_moves_to_another_link() {
    let mut bench = Bench::down("hmi", &[A, B]);
    bench.up(A);
    bench.up(B);
    bench.online("tower", None);
    bench.link(B, LinkEvent::Online { peer: peer("tower"), shape: None });
    listen(&mut bench, 1);
    let given = bench.take();
    assert_eq!(given[0].link, A);
    answers(&mut bench, &given[0].request().correlation.clone(), ok("ok"));
    bench.deliveries();
    bench.offline("tower");
    assert_eq!(bench.deliveries(), [(1, Delivery::Interrupted)]);
    let given = bench.take();
    assert_eq!((given.len(), given[0].link), (1, B));
    answers(&mut bench, &given[0].request().correlation.clone(), ok("ok - already exists"));
    bench.deliveries();
    bench.online("tower", None);
    bench.take();
    bench.lost(B);
    assert_eq!(bench.deliveries(), [(1, Delivery::Interrupted)]);
    assert_eq!(bench.take()[0].link, A);
}

/// W-080: the broker restarts and we are back before the peer: a peer that announces itself is asked when it does, and not
/// before, for that request would reach nobody and its answer be awaited in vain.
#[test]
fn w080_a_peer_that_announces_is_asked_when_it_is_back() {
    let mut bench = attached();
    bench.lost(A);
    bench.deliveries();
    bench.up(A);
    nothing(&mut bench);
    bench.online("tower", Some("shape"));
    let on = one(&mut bench, ON);
    answers(&mut bench, &on, ok("ok"));
    assert_eq!(bench.deliveries(), [(1, Delivery::Attached)]);
}
