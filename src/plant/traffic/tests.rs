//! The onlooker against messages as a tap hands them over.

use std::collections::{HashMap, hash_map::Entry};

use proptest::prelude::*;

use super::{reading::Moment, *};
use crate::wire::{
    Correlation, Message, PeerName, RemoteError, Reply, ReplyRoute, Request, Stamp, Value,
    frame::{Answer, Ticket},
    mqtt::{Overheard, Said},
};

const BYTES: usize = 100;

fn name(text: &str) -> PeerName {
    PeerName::mqtt(text).unwrap()
}

fn at(us: u64) -> Moment {
    Moment { us, unix_ms: 1_000, link: LinkId(0) }
}

fn frame(source: &str, to: &str, thread: &str, message: Message) -> Overheard {
    let said = Said::Message { source: name(source), message, thread: thread.into(), read: true };
    Overheard { to: to.into(), bytes: BYTES, said }
}

fn call(caller: &str, target: &str, correlation: &str, path: &str, method: &str, args: Vec<Value>) -> Overheard {
    let request = Request {
        correlation: correlation.into(),
        path: path.into(),
        method: method.into(),
        args,
        version: None,
        ttl: Some(1000),
        expiry: None,
        idempotency_key: None,
        fence: None,
        reply: ReplyRoute::default(),
    };
    frame(caller, target, &format!("rsp/{caller}"), Message::Request(request))
}

fn read(caller: &str, target: &str, correlation: &str) -> Overheard {
    call(caller, target, correlation, "oven", "read", Vec::new())
}

fn answer(from: &str, caller: &str, correlation: &str, answer: Answer) -> Overheard {
    let correlation: Correlation = correlation.into();
    let reply = Reply { correlation, route: ReplyRoute::default(), answer };
    frame(from, caller, &format!("rsp/{caller}"), Message::Reply(reply))
}

fn result(from: &str, caller: &str, correlation: &str) -> Overheard {
    answer(from, caller, correlation, Answer::Value(Some(Value::Int(42))))
}

fn error(code: &str) -> RemoteError {
    RemoteError { code: code.into(), name: "Error".into(), message: "no".into() }
}

fn event(path: &str, event: &str, seq: u64) -> Overheard {
    let stamp = Some(Stamp { epoch: "e".into(), seq });
    let message = Message::Event { path: Some(path.into()), event: event.into(), args: vec![Value::Int(1)], stamp };
    frame("oven-1", "hmi", "", message)
}

fn onlooker(filter: TrafficFilter) -> Onlooker {
    Onlooker::new("bridge", filter, 100)
}

fn seen(filter: TrafficFilter, heard: impl IntoIterator<Item = Overheard>) -> TrafficSeen {
    let mut onlooker = onlooker(filter);
    for (overheard, us) in heard.into_iter().zip((1..).map(|step| step * 1000)) {
        onlooker.hears(overheard, at(us));
    }
    onlooker.finish()
}

fn everything(heard: impl IntoIterator<Item = Overheard>) -> TrafficSeen {
    seen(TrafficFilter::default(), heard)
}

/// Wire.md 11.1: a reply has the namespace, the method and the milliseconds of its call, and the call what became of it.
#[test]
fn an_answer_is_put_to_its_call() {
    let told = everything([
        read("hmi", "oven-1", "a"),
        read("hmi", "oven-1", "b"),
        result("oven-1", "hmi", "a"),
        answer("oven-1", "hmi", "b", Answer::Error(error("Busy"))),
        read("hmi", "oven-1", "c"),
    ]);
    let lines = &told.lines;
    let answers: Vec<_> = lines.iter().map(|line| line.answer).collect();
    let (success, failed) = (Some(Answered::Success), Some(Answered::Error));
    assert_eq!(answers, [success, failed, None, None, Some(Answered::Unanswered)]);
    assert_eq!((lines[2].kind, lines[2].took_us), (LineKind::Success, Some(2000)));
    assert_eq!((lines[2].namespace.as_deref(), lines[2].method.as_deref()), (Some("oven"), Some("read")));
    assert_eq!(
        (lines[3].kind, lines[3].code.as_deref(), lines[3].error.as_deref()),
        (LineKind::Error, Some("Busy"), Some("no"))
    );
    let counts = told.counts;
    assert_eq!((counts.calls, counts.answered, counts.unanswered, counts.errors), (3, 2, 1, 1));
    assert_eq!(
        (counts.frames, counts.bytes, told.heard),
        (5, 5 * BYTES as u64, Volume { frames: 5, bytes: 5 * BYTES as u64 })
    );
    let latency = told.latency.unwrap();
    assert_eq!((latency.pairs, latency.max.as_micros()), (2, 2000));
}

/// Each kind of message is told apart, and nothing is lost.
#[test]
fn everything_has_a_kind() {
    let subscribe = |method: &str| call("hmi", "oven-1", method, "oven", method, vec!["door".into()]);
    let odd = |said| Overheard { to: "x".into(), bytes: BYTES, said };
    let told = everything([
        subscribe("on"),
        subscribe("off"),
        subscribe("removeListener"),
        call("hmi", "oven-1", "d", "rows", "$data", Vec::new()),
        call("hmi", "oven-1", "e", "oven", "$acquire", Vec::new()),
        call("hmi", "oven-1", "f", "msgrpc", "describe", Vec::new()),
        result("oven-1", "hmi", "before"),
        answer("oven-1", "hmi", "before", Answer::Ticket(Ticket::Progress(None))),
        event("oven", "door", 1),
        event("oven", "door", 1),
        event("oven", "$snapshot", 1),
        event("oven", "$snapshot", 1),
        odd(Said::Presence { state: "offline" }),
        odd(Said::Foreign),
        odd(Said::Unreadable { source: None, problem: crate::wire::DecodeError::Reserved }),
    ]);
    let whats: Vec<_> = told.lines.iter().map(|line| line.what).collect();
    assert_eq!(
        whats,
        [
            "subscribe",
            "unsubscribe",
            "unsubscribe",
            "rows",
            "control",
            "introspection",
            "result",
            "progress",
            "event",
            "event",
            "snapshot",
            "snapshot",
            "offline",
            "foreign",
            "unreadable"
        ]
    );
    assert_eq!(told.lines[0].event.as_deref(), Some("door"), "a name is not a payload");
    let without: Vec<_> = told.lines.iter().map(|line| line.without_call).collect();
    assert_eq!(without.iter().filter(|without| **without).count(), 2);
    assert!(told.lines[9].repeat && !told.lines[8].repeat && !told.lines[11].repeat, "snapshots are not counted");
    assert!(told.lines.iter().all(|line| line.body.is_none()), "payloads are off");
    let counts = told.counts;
    assert_eq!((counts.events, counts.presence, counts.foreign, counts.unreadable), (4, 1, 1, 1));
    assert_eq!((counts.without_call, counts.repeats, counts.unanswered, told.unreadable), (2, 1, 6, 1));
}

/// W-071: only an error may come from somebody else; what anybody else says leaves the call open.
#[test]
fn a_stranger_answers_nothing() {
    let told = everything([read("hmi", "oven-1", "a"), result("stranger", "hmi", "a")]);
    assert_eq!((told.lines[1].without_call, told.lines[0].answer), (true, Some(Answered::Unanswered)));
    let unroutable = answer("hub", "hmi", "a", Answer::Error(error("TransportError")));
    let told = everything([read("hmi", "oven-1", "a"), unroutable]);
    assert_eq!(told.lines[0].answer, Some(Answered::Error));
}

/// Two callers may use one correlation: answers go by where they go.
#[test]
fn one_correlation_of_two_callers_is_two_calls() {
    let told = everything([
        read("hmi", "oven-1", "a"),
        read("mes", "oven-1", "a"),
        result("oven-1", "mes", "a"),
        result("oven-1", "hmi", "a"),
    ]);
    assert_eq!((told.lines[2].took_us, told.lines[3].took_us), (Some(1000), Some(3000)));
    assert_eq!((told.counts.calls, told.counts.answered), (2, 2));
}

/// A receipt is an answer; tickets belong to the same call.
#[test]
fn a_deferred_call_is_followed_to_its_end() {
    let told = everything([
        call("hmi", "oven-1", "a", "oven", "bake", Vec::new()),
        answer("oven-1", "hmi", "a", Answer::Deferred(None)),
        answer("oven-1", "hmi", "a", Answer::Ticket(Ticket::Progress(None))),
        answer("oven-1", "hmi", "a", Answer::Ticket(Ticket::Rejected(error("Exception")))),
        answer("oven-1", "hmi", "a", Answer::Ticket(Ticket::Resolved(None))),
    ]);
    assert_eq!(told.lines[0].answer, Some(Answered::Ticket));
    assert_eq!(told.lines[1].what, "receipt");
    assert!(told.lines[1..].iter().all(|line| line.method.as_deref() == Some("bake")));
    assert!(told.lines[4].repeat && !told.lines[3].repeat);
    assert_eq!((told.counts.answered, told.counts.tickets, told.latency.unwrap().pairs), (1, 3, 1));
}

#[test]
fn filters_follow_an_answer_to_its_call() {
    let heard = || {
        [
            read("hmi", "oven-1", "a"),
            call("mes", "line-1", "b", "line", "start", Vec::new()),
            result("oven-1", "hmi", "a"),
            result("line-1", "mes", "b"),
            result("line-1", "mes", "c"),
            event("oven", "door", 1),
        ]
    };
    let lines = |filter: TrafficFilter| {
        let told = seen(filter, heard());
        let left = told.not_listed;
        assert_eq!(told.lines.len() as u64 + left.filtered + left.other_kinds + left.over_limit, 6, "{told:?}");
        assert_eq!(told.counts.frames, 6 - left.filtered);
        told.lines.iter().map(|line| line.what).collect::<Vec<_>>()
    };
    let namespace = TrafficFilter { namespace: Some("oven".into()), ..TrafficFilter::default() };
    assert_eq!(lines(namespace), ["call", "result", "event"]);
    let peer = TrafficFilter { peer: Some("line-1".into()), ..TrafficFilter::default() };
    assert_eq!(lines(peer), ["call", "result", "result"]);
    let caller = TrafficFilter { peer: Some("hmi".into()), ..TrafficFilter::default() };
    assert_eq!(lines(caller.clone()), ["call", "result", "event"]);
    let kinds = TrafficFilter { kinds: vec![LineKind::Success], ..caller };
    assert_eq!(lines(kinds.clone()), ["result"]);
    let told = seen(kinds, heard());
    assert_eq!((told.counts.calls, told.counts.answered), (1, 1), "counts are not narrowed by kinds");
}

#[test]
fn our_own_frames_are_marked() {
    let told = everything([read("bridge", "oven-1", "a"), result("oven-1", "bridge", "a"), read("hmi", "oven-1", "b")]);
    assert_eq!(told.lines.iter().map(|line| line.own).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(told.counts.own, 2);
}

/// What had no answer when nothing could be heard may have been answered: that is not the same as unanswered.
#[test]
fn what_was_open_when_the_connection_was_lost_is_not_called_unanswered() {
    let mut onlooker = onlooker(TrafficFilter::default());
    onlooker.hears(read("hmi", "oven-1", "a"), at(1));
    onlooker.lost(LinkId(0), 5);
    onlooker.hears(read("hmi", "oven-1", "b"), at(9));
    let told = onlooker.finish();
    assert_eq!((told.lines[0].answer, told.lines[1].answer), (Some(Answered::Unheard), Some(Answered::Unanswered)));
    assert_eq!((told.counts.unheard, told.counts.unanswered), (1, 1));
}

/// Invariant 8: lines are bounded in number and in bytes, and what is beyond is counted.
#[test]
fn lines_are_bounded_and_the_rest_is_counted() {
    let told = everything((0..250).map(|seq| event("oven", "door", seq)));
    assert_eq!((told.lines.len(), told.not_listed.over_limit, told.counts.frames), (100, 150, 250));
    let payloads = TrafficFilter { payloads: true, ..TrafficFilter::default() };
    let mut onlooker = Onlooker::new("bridge", payloads, usize::MAX);
    let (large, huge) = ("x".repeat(10_000), "y".repeat(60_000));
    for (seq, text) in (0..1000).zip([large, huge].iter().cycle()) {
        let correlation = format!("{seq}");
        onlooker.hears(call("hmi", "oven-1", &correlation, "oven", "write", vec![text.as_str().into()]), at(seq));
    }
    assert!(onlooker.is_full());
    let told = onlooker.finish();
    let bytes: usize = told.lines.iter().map(Line::weight).sum();
    assert!(bytes < MAX_KEPT + 64 * 1024, "{bytes}");
    assert!(
        matches!(told.lines[0].body, Some(Body::Whole(_))) && matches!(told.lines[1].body, Some(Body::TooLarge(_)))
    );
    assert_eq!(told.lines.len() as u64 + told.not_listed.over_limit, 1000);
}

/// Hostile: names of any length, and with controls, are data and take bounded room.
#[test]
fn long_names_are_cut_and_still_told_apart() {
    let long = "n".repeat(60_000);
    let (one, other) = (format!("{long}1"), format!("{long}2"));
    let filter = TrafficFilter { namespace: Some(one.clone()), ..TrafficFilter::default() };
    let told = seen(
        filter,
        [
            call("hmi", "oven-1", &one, &one, "read\u{1b}[2J", Vec::new()),
            call("hmi", "oven-1", &other, &other, "read", Vec::new()),
            result("oven-1", "hmi", &one),
            result("oven-1", "hmi", &other),
        ],
    );
    assert_eq!((told.lines.len(), told.not_listed.filtered, told.counts.answered), (2, 2, 1));
    assert!(told.lines.iter().all(|line| line.weight() < 4096));
}

/// What a stranger would do by hand: a map from (who asked, correlation) to the first answer.
#[derive(Clone, Debug)]
enum Step {
    Ask(u8, u8),
    Answer(u8, u8, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ask = (0_u8..3, 0_u8..20).prop_map(|(caller, id)| Step::Ask(caller, id));
    let answer = (0_u8..3, 0_u8..20, 0_u8..2).prop_map(|(caller, id, from)| Step::Answer(caller, id, from));
    proptest::collection::vec(prop_oneof![ask, answer], 0..300)
}

proptest! {
    /// The counts and each pair agree with a plain map, and the sums always come out.
    #[test]
    fn pairing_agrees_with_a_plain_map(steps in steps()) {
        let mut onlooker = Onlooker::new("bridge", TrafficFilter::default(), usize::MAX);
        let mut calls: HashMap<(u8, u8), Option<u64>> = HashMap::new();
        let (mut repeats, mut without, mut pairs) = (0, 0, Vec::new());
        let heard = steps.len() as u64;
        for (step, us) in steps.into_iter().zip(1..) {
            match step {
                Step::Ask(caller, id) => {
                    onlooker.hears(read(&format!("hmi-{caller}"), "oven-0", &format!("{id}")), at(us));
                    match calls.entry((caller, id)) {
                        Entry::Occupied(_) => repeats += 1,
                        Entry::Vacant(new) => {
                            new.insert(Some(us));
                        }
                    }
                }
                Step::Answer(caller, id, from) => {
                    onlooker.hears(result(&format!("oven-{from}"), &format!("hmi-{caller}"), &format!("{id}")), at(us));
                    match calls.get_mut(&(caller, id)) {
                        Some(None) => repeats += 1,
                        Some(open) if from == 0 => pairs.extend(open.take().map(|asked| us - asked)),
                        None | Some(Some(_)) => without += 1,
                    }
                }
            }
        }
        let told = onlooker.finish();
        let took: Vec<u64> = told.lines.iter().filter_map(|line| line.took_us).collect();
        prop_assert_eq!(took, pairs.clone());
        let counts = told.counts;
        prop_assert_eq!((counts.repeats, counts.without_call), (repeats, without));
        prop_assert_eq!((counts.answered, counts.calls), (pairs.len() as u64, calls.len() as u64));
        prop_assert_eq!(counts.unanswered, counts.calls - counts.answered);
        prop_assert_eq!((counts.frames, told.heard.frames, told.lines.len() as u64), (heard, heard, heard));
    }
}
