//! Calls over links that come and go: how each ends, and what answers count (W-070 to W-075, W-081).

use std::time::Duration;

use super::{
    bench::{A, B, Bench, error, ok, peer, reply, stream},
    sim::call,
};
use crate::{
    link::{DownKind, DownReason, LinkEvent, Rejection},
    node::{
        Certainty,
        error::{CallError, Doubt, NotSent},
        state::{Call, CallId, MAX_PENDING, NodeState, Note},
    },
    wire::Correlation,
};

fn start(id: u64, bench: &mut Bench) -> Correlation {
    bench.call(id, call("oven", "pump", "start", vec![]))
}

/// The only resolved call.
fn outcome(bench: &mut Bench) -> Result<(), CallError> {
    let mut resolved = bench.resolved();
    assert_eq!(resolved.len(), 1, "{resolved:?}");
    resolved.remove(0).1.map(|_| ())
}

/// W-072, W-075: at the loss of the link what the link took is in doubt at once, what it did not take did not leave, and
/// the link never takes it any more (W-081).
#[test]
fn w072_calls_in_flight_end_with_the_link() {
    let mut bench = Bench::new("hmi");
    start(1, &mut bench);
    bench.take();
    start(2, &mut bench);
    bench.lost(A);
    let resolved = bench.resolved();
    let cut = CallError::UnknownOutcome(Doubt::LinkLost("cut".into()));
    assert_eq!(resolved[0], (1, Err(cut)));
    assert_eq!(resolved[1], (2, Err(CallError::NotSent(NotSent::LinkDown))));
    assert!(bench.take().is_empty(), "nothing is sent after its call failed");
    assert_eq!(bench.state.pending(), 0);
    bench.says("oven", reply(&"c-1".into(), ok(1)));
    assert!(bench.resolved().is_empty());
    assert!(bench.notes().contains(&Note::LateReply(peer("oven"))));
}

/// W-081: with the link down a call fails at once and nothing is kept to be sent.
#[test]
fn w081_nothing_is_queued_for_a_link_that_is_down() {
    let mut bench = Bench::down("hmi", &[A]);
    start(1, &mut bench);
    assert_eq!(outcome(&mut bench), Err(CallError::NotSent(NotSent::LinkDown)));
    bench.up(A);
    assert!(bench.take().is_empty());
}

/// The link closed, or refused before it came up: the same ends.
#[test]
fn a_closed_link_ends_its_calls() {
    let mut bench = Bench::new("hmi");
    start(1, &mut bench);
    bench.take();
    bench.link(A, LinkEvent::Closed);
    assert_eq!(outcome(&mut bench).unwrap_err().certainty(), Certainty::MayHaveRun);
    let reason = DownReason { kind: DownKind::Unauthorized, detail: "no".into() };
    bench.link(A, LinkEvent::Down(reason.clone()));
    assert!(bench.resolved().is_empty(), "once");
    assert_eq!(bench.state.links().next().unwrap().1.down, Some(reason));
}

/// A call goes over a link its peer was seen on, another link's loss does not touch it, and a peer that is only on a
/// link that is down is not reached over another.
#[test]
fn calls_go_over_a_link_the_peer_is_on() {
    let mut bench = Bench::down("hmi", &[A, B]);
    bench.up(A);
    bench.up(B);
    bench.link(B, LinkEvent::Online { peer: peer("oven"), shape: None });
    start(1, &mut bench);
    assert_eq!(bench.take()[0].link, B);
    bench.lost(A);
    assert!(bench.resolved().is_empty());
    bench.says("oven", reply(&"c-1".into(), ok(1)));
    assert_eq!(outcome(&mut bench), Ok(()), "whichever link the answer comes over");
    bench.up(A);
    bench.lost(B);
    start(2, &mut bench);
    assert_eq!(outcome(&mut bench), Err(CallError::NotSent(NotSent::LinkDown)));
}

/// What the link certainly did not write was not sent, and says why.
#[test]
fn a_rejected_request_was_not_sent() {
    let large = Rejection::TooLarge { bytes: 2, limit: 1 };
    for (why, told) in [
        (Rejection::Down, NotSent::LinkDown),
        (Rejection::Full, NotSent::Rejected(Rejection::Full)),
        (large.clone(), NotSent::Rejected(large)),
    ] {
        let mut bench = Bench::new("hmi");
        start(1, &mut bench);
        let id = bench.take()[0].id;
        bench.rejected(id, why.clone());
        assert_eq!(outcome(&mut bench), Err(CallError::NotSent(told)));
        bench.rejected(id, why);
        bench.lost(A);
        assert!(bench.resolved().is_empty(), "once");
    }
}

/// W-071: an answer counts from the peer asked, an error from anybody.
#[test]
fn w071_who_may_answer() {
    let mut bench = Bench::new("hmi");
    start(1, &mut bench);
    bench.take();
    bench.says("stranger", reply(&"c-1".into(), ok(666)));
    assert!(bench.resolved().is_empty());
    assert!(bench.notes().contains(&Note::ForeignReply { asked: peer("oven"), from: peer("stranger") }));
    bench.says("oven", reply(&"c-9".into(), ok(666)));
    assert!(bench.resolved().is_empty(), "another correlation");
    bench.says("relay", reply(&"c-1".into(), error("TransportError")));
    assert_eq!(outcome(&mut bench).unwrap_err().certainty(), Certainty::DidNotRun);
}

/// W-074: an unknown code is tolerated, and nothing is concluded from it.
#[test]
fn w074_unknown_codes_are_tolerated() {
    let mut bench = Bench::new("hmi");
    start(1, &mut bench);
    bench.take();
    bench.says("oven", reply(&"c-1".into(), error("Weather")));
    let told = outcome(&mut bench).unwrap_err();
    assert_eq!(told.certainty(), Certainty::MayHaveRun);
    assert!(told.to_string().contains("Weather"));
}

/// A doubled answer resolves once; a late one not at all.
#[test]
fn doubled_and_late_answers() {
    let mut bench = Bench::new("hmi");
    start(1, &mut bench);
    bench.take();
    for _ in 0..2 {
        bench.says("oven", reply(&"c-1".into(), ok(1)));
    }
    assert_eq!(outcome(&mut bench), Ok(()));
    start(2, &mut bench);
    bench.take();
    bench.advance(10_000);
    let patience = Duration::from_secs(10);
    assert_eq!(outcome(&mut bench), Err(CallError::UnknownOutcome(Doubt::Timeout(patience))));
    bench.says("oven", reply(&"c-2".into(), ok(1)));
    assert!(bench.resolved().is_empty());
    assert_eq!(bench.notes().iter().filter(|note| **note == Note::LateReply(peer("oven"))).count(), 2);
}

/// A deadline falls when it is due, and not a millisecond before; in doubt only if the request left.
#[test]
fn deadlines_fall_when_due() {
    let mut bench = Bench::new("hmi");
    start(1, &mut bench);
    bench.advance(9_999);
    assert!(bench.resolved().is_empty());
    assert_eq!(bench.state.poll_timeout(bench.now), Some(bench.now.at + Duration::from_millis(1)));
    bench.advance(1);
    assert_eq!(outcome(&mut bench), Err(CallError::NotSent(NotSent::Timeout(Duration::from_secs(10)))));
    assert!(bench.take().is_empty(), "W-081");
    assert_eq!(bench.state.poll_timeout(bench.now), None);
}

/// S-003: the ttl is the caller's patience, and none without one; a patience beyond the clock is for ever.
#[test]
fn s003_the_ttl_is_what_the_caller_waits() {
    let mut bench = Bench::new("hmi");
    for (id, timeout) in [(1, None), (2, Some(Duration::from_millis(1500))), (3, Some(Duration::MAX))] {
        bench.call(id, Call { timeout, ..call("oven", "pump", "start", vec![]) });
    }
    let ttls: Vec<_> = bench.take().iter().map(|given| given.request().ttl).collect();
    assert_eq!(ttls, [None, Some(1500), Some(u64::MAX)]);
    bench.advance(86_400_000);
    assert_eq!(bench.resolved().len(), 1);
    bench.says("oven", reply(&"c-1".into(), ok(1)));
    assert_eq!(outcome(&mut bench), Ok(()), "a day later");
}

/// A caller that gives up: certain if the link has not taken the request, and it never will then.
#[test]
fn giving_up_before_and_after_it_left() {
    let mut bench = Bench::new("hmi");
    start(1, &mut bench);
    bench.turn(|machine, now| machine.abandon(CallId(1), now));
    assert_eq!(outcome(&mut bench), Err(CallError::NotSent(NotSent::Abandoned)));
    assert!(bench.take().is_empty());
    start(2, &mut bench);
    bench.take();
    bench.turn(|machine, now| machine.abandon(CallId(2), now));
    assert_eq!(outcome(&mut bench), Err(CallError::UnknownOutcome(Doubt::Abandoned)));
    bench.turn(|machine, now| machine.abandon(CallId(2), now));
    assert!(bench.resolved().is_empty());
}

/// What awaits an answer is bounded, and a place is free again when one ends.
#[test]
fn pending_calls_are_bounded() {
    let mut bench = Bench::new("hmi");
    for id in 0..MAX_PENDING as u64 {
        start(id, &mut bench);
    }
    assert_eq!(bench.state.pending(), MAX_PENDING);
    start(9999, &mut bench);
    assert_eq!(outcome(&mut bench), Err(CallError::NotSent(NotSent::TooManyCalls { limit: MAX_PENDING })));
    bench.take();
    bench.says("oven", reply(&"c-5".into(), ok(1)));
    assert_eq!(outcome(&mut bench), Ok(()));
    start(9999, &mut bench);
    assert!(bench.resolved().is_empty());
}

/// Leaving resolves everything, by whether it left, and nothing is taken any more.
#[test]
fn leaving_resolves_everything() {
    let mut bench = Bench::new("hmi");
    start(1, &mut bench);
    bench.take();
    start(2, &mut bench);
    bench.turn(NodeState::close);
    let resolved = bench.resolved();
    assert_eq!(resolved[0], (1, Err(CallError::UnknownOutcome(Doubt::Closing))));
    assert_eq!(resolved[1], (2, Err(CallError::NotSent(NotSent::Closing))));
    start(3, &mut bench);
    assert_eq!(outcome(&mut bench), Err(CallError::NotSent(NotSent::Closing)));
    assert!(bench.take().is_empty());
    assert_eq!((bench.state.pending(), bench.state.poll_timeout(bench.now)), (0, None));
}

/// A burst of presence is taken in whole; a repeat of it changes nothing; what leaves is gone.
#[test]
fn a_burst_of_presence() {
    let mut bench = Bench::new("hmi");
    bench.subscribe(1, stream("p7", "bell", "ring"));
    bench.take();
    for _ in 0..2 {
        for n in 0..2000 {
            bench.online(&format!("p{n}"), Some("shape"));
        }
    }
    assert_eq!((bench.state.roster().len(), bench.state.roster().forgotten()), (2000, 0));
    assert!(bench.take().len() <= 1, "at most the stream of p7 is asked for once more");
    for n in 0..2000 {
        bench.offline(&format!("p{n}"));
        bench.offline(&format!("never-seen-{n}"));
    }
    assert!(bench.state.roster().is_empty());
    bench.online("hmi", None);
    assert!(bench.state.roster().is_empty(), "W-040: we are not a peer of ours");
}

/// wire.md 4.1: two peers of one name displace each other for ever. It is told once, and again only when it is news.
#[test]
fn a_fight_over_our_name_is_told_once() {
    let mut bench = Bench::new("hmi");
    bench.notes();
    let down = |kind| LinkEvent::Down(DownReason { kind, detail: "why".into() });
    for _ in 0..5 {
        bench.link(A, down(DownKind::Displaced));
        bench.link(A, LinkEvent::Up);
    }
    let told = bench.notes();
    assert!(matches!(&told[..], [Note::Down(A, reason)] if reason.kind == DownKind::Displaced), "{told:?}");
    bench.link(A, down(DownKind::Lost));
    bench.link(A, LinkEvent::Up);
    assert_eq!(bench.notes().len(), 2, "another cause is news, and so is what follows it");
}

/// W-071: an error may come from anybody, so a correlation of our own making must not be guessed from what peers see.
#[test]
fn w071_correlations_of_our_own_are_not_guessed() {
    let mut bench = Bench::new("hmi");
    bench.online("oven", None);
    bench.subscribe(1, stream("oven", "pump", "alarm"));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        bench.take();
        bench.lost(A);
        bench.up(A);
        bench.online("oven", None);
        let again = bench.take();
        let text = String::from_utf8(again[0].request().correlation.0.to_vec()).unwrap();
        assert!(text.len() == 32 && !text.contains("epoch"), "{text}");
        seen.insert(text);
    }
    assert_eq!(seen.len(), 3, "none is used twice");
}
