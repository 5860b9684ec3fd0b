//! Subscribers, answers that cannot be written, leases, and the bounds of what others can make us hold.

use super::{
    bench::{A, B, Bench, code, error, event, ok, peer, reply, request},
    recorded::{exposed, oven_values},
};
use crate::{
    contract::{Event, ServedNamespace, Surface, testing::surfaces},
    link::{LinkEvent, Origin, Rejection},
    node::state::{Exposed, Failure, MAILBOX, Note},
    wire::{Correlation, Frame, Message, Value, frame::Answer},
};

pub(super) fn bell(emitter: bool) -> Exposed {
    Exposed {
        name: "bell".into(),
        surface: ServedNamespace {
            name: "bell".into(),
            emitter,
            events: vec![Event { name: "ring".into(), ..Event::default() }],
            methods: vec![crate::contract::Method::undeclared("pull")].into(),
            ..ServedNamespace::default()
        },
        validate: false,
        component: None,
        mailbox: MAILBOX,
        path_writes: false,
    }
}

fn bells() -> Bench {
    let mut bench = Bench::new("tower");
    bench.serve(&Surface { introspection: true, ..Surface::default() }, vec![bell(true)]);
    bench
}

fn listens(bench: &mut Bench, from: &str, name: &str) -> Answer {
    bench.answered(from, "bell", "on", vec![name.into()])
}

/// Whom an emission reaches.
fn reached(bench: &mut Bench, name: &str) -> Vec<String> {
    bench.turn(|machine, _| machine.emit("bell", name, &[]));
    bench.take().iter().map(|given| given.frame.target.to_string()).collect()
}

/// Has one answer of a method in the hands of the link; gives its number and its correlation.
fn pulled(bench: &mut Bench, result: Result<Option<Value>, Failure>) -> (u64, Correlation) {
    let correlation = bench.asked("caller", "bell", "pull", vec![]);
    let run = bench.runs().remove(0);
    bench.ran(run.run, result);
    (bench.take().pop().unwrap().id, correlation)
}

/// The request that [`pulled`] made is delivered once more.
fn repeats(bench: &mut Bench, correlation: &Correlation) {
    let mut request = request("", "bell", "pull", vec![]);
    request.correlation = correlation.clone();
    bench.says("caller", Message::Request(request));
}

/// Whether a caller was verified comes with the call it made, and with no other (wire.md 8.4).
#[test]
fn w094_a_call_tells_whether_its_caller_was_verified() {
    let mut bench = bells();
    let mut say = |correlation: &str, event: fn(Box<Frame>) -> LinkEvent| {
        let message = Message::Request(request(correlation, "bell", "pull", vec![]));
        let frame = Frame { source: peer("hmi"), target: peer("tower"), message };
        bench.link(A, event(Box::new(frame)));
        bench.runs().remove(0).origin
    };
    assert_eq!(say("1", LinkEvent::Verified), Origin::Verified);
    assert_eq!(say("2", LinkEvent::Frame), Origin::Claimed);
    assert_eq!(say("3", LinkEvent::Verified), Origin::Verified);
}

/// W-068, S-071, S-062: a peer that left hears nothing; the others go on.
#[test]
fn w068_a_departed_peer_loses_its_subscriptions() {
    let mut bench = bells();
    for from in ["hmi", "mes"] {
        bench.online(from, None);
        assert_eq!(listens(&mut bench, from, "ring"), ok("ok"));
        assert_eq!(listens(&mut bench, from, "ring"), ok("ok - already exists"));
    }
    assert_eq!(reached(&mut bench, "ring"), ["hmi", "mes"]);
    bench.offline("hmi");
    assert_eq!(reached(&mut bench, "ring"), ["mes"]);
    assert_eq!(listens(&mut bench, "hmi", "ring"), ok("ok"), "it was forgotten");
}

/// W-068: also one that never announced itself, and one that we had no room to remember.
#[test]
fn w068_a_peer_that_fell_out_of_the_roster_still_departs() {
    let mut bench = bells();
    listens(&mut bench, "quiet", "ring");
    for n in 0..10_000 {
        bench.online(&format!("p{n}"), None);
    }
    assert!(bench.state.roster().get(&peer("quiet")).is_none(), "it fell out");
    assert_eq!(reached(&mut bench, "ring"), ["quiet"]);
    bench.offline("quiet");
    assert_eq!(reached(&mut bench, "ring"), Vec::<String>::new());
}

/// W-041: our own blip drops nobody who is there when the sweep is complete, and everybody who is not.
#[test]
fn w041_a_blip_of_our_link_drops_the_absent_only() {
    let mut bench = bells();
    for from in ["stays", "goes"] {
        bench.online(from, None);
        listens(&mut bench, from, "ring");
    }
    bench.lost(A);
    bench.link(A, LinkEvent::Up);
    assert_eq!(bench.state.roster().len(), 0, "the roster is rebuilt");
    bench.online("stays", None);
    assert_eq!(reached(&mut bench, "ring"), ["goes", "stays"], "until the sweep is complete nobody is absent");
    bench.link(A, LinkEvent::Settled);
    assert_eq!(reached(&mut bench, "ring"), ["stays"]);
}

/// W-041, W-068: a blip of one link is judged by the sweep of that link; a peer that is on another meanwhile stays.
#[test]
fn w041_each_link_waits_for_its_own_sweep() {
    let mut bench = Bench::down("tower", &[A, B]);
    bench.serve(&Surface::default(), vec![bell(true)]);
    bench.up(A);
    bench.link(B, LinkEvent::Up);
    for from in ["late", "moves"] {
        bench.online(from, None);
        listens(&mut bench, from, "ring");
    }
    bench.lost(A);
    bench.link(A, LinkEvent::Up);
    bench.link(B, LinkEvent::Settled);
    assert_eq!(reached(&mut bench, "ring"), ["late", "moves"], "the sweep of the other link says nothing of this one");
    bench.link(B, LinkEvent::Online { peer: peer("moves"), shape: None });
    bench.offline("moves");
    bench.online("late", None);
    bench.link(A, LinkEvent::Settled);
    assert_eq!(reached(&mut bench, "ring"), ["late", "moves"], "it left one link and is on the other");
}

/// Another's subscription follows it to the link it asks over last.
#[test]
fn events_go_over_the_link_the_subscriber_asked_over_last() {
    let mut bench = Bench::down("tower", &[A, B]);
    bench.serve(&Surface::default(), vec![bell(true)]);
    bench.up(A);
    bench.up(B);
    listens(&mut bench, "hmi", "ring");
    let on = request("again", "bell", "on", vec!["ring".into()]);
    let frame = Frame { source: peer("hmi"), target: peer("tower"), message: Message::Request(on) };
    bench.link(B, LinkEvent::Frame(Box::new(frame)));
    bench.take();
    bench.turn(|machine, _| machine.emit("bell", "ring", &[]));
    assert_eq!(bench.take().iter().map(|given| given.link).collect::<Vec<_>>(), [B]);
}

/// Subscribers are bounded in number; the one over the bound is told and leaves no trace.
#[test]
fn subscribers_are_bounded_and_the_refused_leave_no_trace() {
    let mut bench = bells();
    for n in 0..10_000 {
        assert_eq!(listens(&mut bench, &format!("p{}", n % 100), &format!("e{}", n / 100)), ok("ok"));
    }
    for n in 0..50 {
        assert_eq!(code(&listens(&mut bench, "more", &format!("new{n}"))), "Busy");
    }
    assert_eq!(bench.state.server.subscriptions(), (10_000, 100));
    assert_eq!(listens(&mut bench, "p1", "e1"), ok("ok - already exists"), "who is there may ask again");
    bench.offline("p7");
    assert_eq!(bench.state.server.subscriptions(), (9900, 100));
    assert_eq!(listens(&mut bench, "more", "new"), ok("ok"));
    bench.turn(|machine, _| machine.withdraw("bell"));
    assert_eq!(bench.state.server.subscriptions(), (0, 0));
}

/// W-076, W-067: what is no name of an event is refused, and an end is never refused.
#[test]
fn w076_an_event_is_named_by_a_short_text() {
    let mut bench = bells();
    for bad in [vec![], vec![5.into()], vec!["".into()], vec![Value::Null], vec!["x".repeat(1025).into()]] {
        assert_eq!(code(&bench.answered("hmi", "bell", "on", bad.clone())), "InvalidParams");
        assert_eq!(bench.answered("hmi", "bell", "off", bad), ok("ok - was not subscribed"));
    }
    assert_eq!(bench.state.server.subscriptions(), (0, 0));
}

/// S-065: a namespace that is gone has no cursor, and its count goes on when it returns (S-066).
#[test]
fn s065_a_namespace_that_is_gone_has_no_cursor() {
    let mut bench = bells();
    let seq = |bench: &mut Bench| {
        let Answer::Value(Some(cursor)) =
            bench.answered("hmi", "msgrpc", "eventCursor", vec!["bell".into(), "ring".into()])
        else {
            panic!("no cursor")
        };
        cursor.get("seq").cloned()
    };
    reached(&mut bench, "ring");
    assert_eq!(seq(&mut bench), Some(1.into()));
    bench.turn(|machine, _| machine.withdraw("bell"));
    assert_eq!(seq(&mut bench), Some(Value::Null));
    bench.turn(|machine, now| machine.expose(bell(true), "instance-2".into(), now));
    assert_eq!(seq(&mut bench), Some(1.into()));
}

/// A namespace in place of another keeps its listeners, tells observers its state at once, and retires what it has not.
#[test]
fn a_replaced_namespace_keeps_the_listeners_it_can_serve() {
    let mut bench = Bench::new("dev");
    let oven = exposed(&surfaces()["component"]).remove(0);
    bench.serve(&Surface::default(), vec![oven.clone()]);
    for name in ["chime", "$snapshot"] {
        bench.answered("hmi", "oven", "on", vec![name.into()]);
    }
    bench.given.clear();
    bench.turn(|machine, now| machine.expose(oven.clone(), "instance-2".into(), now));
    let given = bench.take();
    let Message::Event { event, args, .. } = &given[0].frame.message else { panic!("{given:?}") };
    assert_eq!((event.as_str(), given.len()), ("$snapshot", 1));
    assert_eq!(args[0].get("epoch"), Some(&"instance-2".into()));
    bench.turn(|machine, now| machine.expose(Exposed { component: None, ..oven }, "instance-3".into(), now));
    let given = bench.take();
    assert!(matches!(&given[0].frame.message, Message::Event { event, .. } if event == "$retired"), "{given:?}");
    assert_eq!((given.len(), bench.state.server.subscriptions()), (1, (1, 1)), "the chime goes on");
}

/// The method ran, its answer cannot be written: the caller is told so, and so is whoever repeats the request.
#[test]
fn an_answer_that_cannot_be_written_is_answered_with_what_is_known() {
    let too_large = Rejection::TooLarge { bytes: 20, limit: 10 };
    for why in [Rejection::Unsendable("an integer beyond 2^53".into()), too_large] {
        let mut bench = bells();
        let (id, correlation) = pulled(&mut bench, Ok(Some(i64::MAX.into())));
        bench.rejected(id, why.clone());
        let given = bench.take();
        let Answer::Error(told) = given[0].answer() else { panic!("{given:?}") };
        assert_eq!((given.len(), told.code.as_str()), (1, "Exception"), "which says that it ran");
        assert_eq!(told.message, format!("the method ran, and its answer could not be written: {why}"));
        repeats(&mut bench, &correlation);
        assert!(bench.runs().is_empty(), "it does not run again");
        let again = bench.take();
        assert_eq!(again[0].answer(), given[0].answer());
        // One that cannot be written either is given up: nothing turns in a circle.
        bench.rejected(given[0].id, why.clone());
        assert!(bench.take().is_empty());
        assert!(bench.notes().iter().any(|note| matches!(note, Note::Unwritten(_))));
    }
}

/// The same of an error: it keeps its code, which says whether the method ran.
#[test]
fn an_error_whose_text_cannot_be_written_keeps_its_code() {
    let mut bench = bells();
    let (id, _) = pulled(&mut bench, Err(Failure::coded("Forbidden", "x".repeat(50))));
    bench.rejected(id, Rejection::TooLarge { bytes: 50, limit: 10 });
    assert_eq!(code(bench.take()[0].answer()), "Forbidden");
}

/// A link that is down or full is not written to once more; the answer is there for a repeat.
#[test]
fn an_answer_lost_with_the_link_is_kept_for_a_repeat() {
    for why in [Rejection::Down, Rejection::Full, Rejection::Refused("no".into())] {
        let mut bench = bells();
        let (id, correlation) = pulled(&mut bench, Ok(Some(7.into())));
        bench.rejected(id, why);
        assert!(bench.take().is_empty());
        repeats(&mut bench, &correlation);
        assert_eq!(*bench.take()[0].answer(), ok(7));
    }
}

/// Only the last answers are tracked, and a rejection of one that is not, or of an event, changes nothing.
#[test]
fn tracked_answers_are_bounded() {
    let mut bench = bells();
    let (first, _) = pulled(&mut bench, Ok(Some(1.into())));
    let ids: Vec<u64> = (0..512).map(|_| pulled(&mut bench, Ok(Some(1.into()))).0).collect();
    let why = Rejection::Unsendable("odd".into());
    bench.rejected(first, why.clone());
    assert!(bench.take().is_empty(), "it is forgotten");
    bench.rejected(ids[0], why.clone());
    assert_eq!(bench.take().len(), 1);
    bench.rejected(ids[0], why.clone());
    listens(&mut bench, "hmi", "ring");
    bench.take();
    bench.turn(|machine, _| machine.emit("bell", "ring", &[]));
    let id = bench.take()[0].id;
    bench.rejected(id, why);
    assert!(bench.take().is_empty());
}

/// Semantics 10.3: a lease is over when its time is, whether or not the timer was heard first.
#[test]
fn a_lease_whose_time_has_passed_binds_nobody() {
    let mut bench = Bench::new("dev");
    bench.serve(&Surface::default(), exposed(&surfaces()["component"]));
    bench.answered("first", "oven", "$acquire", vec![1000.into()]);
    bench.now.unix_ms += 1000;
    assert_eq!(code(&bench.answered("first", "oven", "hold", vec![])), "NotInControl");
    let Answer::Value(Some(lease)) = bench.answered("second", "oven", "$acquire", vec![1000.into()]) else {
        panic!("refused")
    };
    assert_eq!((lease.get("holder"), lease.get("generation")), (Some(&"second".into()), Some(&3.into())));
    assert_eq!(oven_values().0.iter().len(), 2);
}

/// Authority is checked once more when a command's turn comes (wire.md 5.1, row 14).
#[test]
fn authority_lost_in_the_queue_refuses() {
    let mut bench = Bench::new("dev");
    bench.serve(&Surface::default(), exposed(&surfaces()["component"]));
    bench.answered("first", "oven", "$acquire", vec![60_000.into()]);
    bench.asked("first", "oven", "setMode", vec!["idle".into()]);
    let waits = bench.asked("first", "oven", "hold", vec![]);
    let mut take = crate::wire::Map::new();
    take.insert("take", true);
    bench.answered("second", "oven", "$acquire", vec![Value::Null, take.into()]);
    let run = bench.runs().remove(0);
    bench.ran(run.run, Ok(None));
    assert_eq!(code(&bench.take_answer(&waits).unwrap()), "NotInControl");
}

/// What is addressed to somebody else changes nothing here, and only a request of it is answered (wire.md 4.5).
#[test]
fn frames_for_others_are_not_ours() {
    let mut bench = bells();
    let to_ghost = |message| Frame { source: peer("hmi"), target: peer("ghost"), message };
    for message in [event(Some("bell"), "ring", vec![]), reply(&"c-1".into(), error("Busy"))] {
        bench.link(A, LinkEvent::Frame(Box::new(to_ghost(message))));
    }
    assert!(bench.take().is_empty());
    bench.link(A, LinkEvent::Frame(Box::new(to_ghost(Message::Request(request("r", "bell", "pull", vec![]))))));
    assert_eq!(code(bench.take()[0].answer()), "TransportError");
    assert!(bench.runs().is_empty());
}

/// W-030: everything is exposed, and announced, before any link is up; what arrives with the link is served.
#[test]
fn w030_exposed_before_the_link_is_up() {
    let mut bench = Bench::down("tower", &[A]);
    bench.serve(&Surface::default(), vec![bell(true)]);
    assert!(matches!(bench.announced.last(), Some(Some(shape)) if shape.len() == 16));
    bench.link(A, LinkEvent::Up);
    bench.asked("hmi", "bell", "pull", vec![]);
    assert_eq!(bench.runs().len(), 1);
}

/// S-067 and W-066 of a namespace that cannot emit.
#[test]
fn a_namespace_that_cannot_emit_is_not_subscribable() {
    let mut bench = Bench::new("tower");
    bench.serve(&Surface::default(), vec![bell(false)]);
    for method in ["on", "off", "removeListener"] {
        assert_eq!(code(&bench.answered("hmi", "bell", method, vec!["ring".into()])), "MethodNotFound");
    }
}
