//! Later answers, as whoever serves them gives them: receipt, tickets, repeats, bounds, and callers that went.

use super::{
    bench::{A, Bench, code, progress, request},
    serving::bell,
};
use crate::{
    contract::{Method, Semantics, Surface, testing::value},
    link::Rejection,
    node::state::{Failure, NodeEvent, NodeState, RunId},
    wire::{
        Correlation, Encoding, Message, RemoteError, ReplyRoute, Request, Value,
        frame::{Answer, Ticket},
        vectors,
    },
};

const HALF_AN_HOUR: i64 = 30 * 60 * 1000;

/// A bell whose methods are a plain one and two commands, one of which must not be repeated.
fn jobs() -> Bench {
    let mut exposed = bell(true);
    exposed.name = "jobs".into();
    let method = |name, semantics| Method { semantics, ..Method::undeclared(name) };
    exposed.surface.methods = vec![
        method("start", None),
        method("slow", Some(Semantics::IdempotentCommand)),
        method("once", Some(Semantics::NonRepeatableCommand)),
    ]
    .into();
    let mut bench = Bench::new("tower");
    bench.serve(&Surface::default(), vec![exposed]);
    bench.online("caller", None);
    bench
}

fn ask(bench: &mut Bench, request: Request) -> Vec<RunId> {
    bench.says("caller", Message::Request(request));
    bench.runs().into_iter().map(|run| run.run).collect()
}

fn defer(bench: &mut Bench, run: RunId) {
    bench.turn(|machine, now| machine.defer(run, None, now)).unwrap();
}

fn answers(bench: &mut Bench) -> Vec<Answer> {
    bench.take().iter().map(|given| given.answer().clone()).collect()
}

/// A call that has its receipt.
fn owed(bench: &mut Bench, correlation: &str, method: &str) -> RunId {
    let run = ask(bench, request(correlation, "jobs", method, vec![])).remove(0);
    defer(bench, run);
    assert!(matches!(answers(bench)[..], [Answer::Deferred(_)]));
    run
}

fn gone(bench: &mut Bench) -> Vec<RunId> {
    let events = std::mem::take(&mut bench.events);
    events
        .into_iter()
        .filter_map(|event| if let NodeEvent::CallerGone(run) = event { Some(run) } else { None })
        .collect()
}

fn resolved(value: impl Into<Value>) -> Answer {
    Answer::Ticket(Ticket::Resolved(Some(value.into())))
}

/// wire.md 5.8: what the recorded peer sent is what ours sends: receipt, progress, end.
#[test]
fn every_recorded_deferred_answer() {
    let scenes = vectors::list("sem-deferred.json", "scenes");
    assert_eq!(scenes.len(), 2);
    for scene in scenes {
        let mut bench = jobs();
        let mut messages = scene["messages"].as_array().unwrap().iter().map(|message| &message["payload"]);
        let asked = messages.next().unwrap();
        let id = asked["id"].as_str().unwrap();
        let args = asked["params"].as_array().unwrap().iter().map(value).collect();
        let request = request(id, asked["path"].as_str().unwrap(), asked["method"].as_str().unwrap(), args);
        let mut run = None;
        for sent in messages {
            let expected = match (sent["type"].as_str().unwrap(), sent["outcome"].as_str()) {
                ("SUCCESS", None) => {
                    assert_eq!(sent["deferred"], true);
                    bench.now.unix_ms = sent["result"]["expiresAt"].as_i64().unwrap() - HALF_AN_HOUR;
                    run = Some(ask(&mut bench, request.clone()).remove(0));
                    defer(&mut bench, run.unwrap());
                    Answer::Deferred(Some(value(&sent["result"])))
                }
                ("TICKET", Some("progress")) => {
                    bench.turn(|machine, _| machine.progress(run.unwrap(), Some(value(&sent["value"]))));
                    Answer::Ticket(Ticket::Progress(Some(value(&sent["value"]))))
                }
                ("TICKET", Some("resolved")) => {
                    bench.ran(run.unwrap(), Ok(Some(value(&sent["value"]))));
                    Answer::Ticket(Ticket::Resolved(Some(value(&sent["value"]))))
                }
                ("TICKET", Some("rejected")) => {
                    let text = |key: &str| sent["error"][key].as_str().unwrap().to_owned();
                    bench.ran(run.unwrap(), Err(Failure::exception(text("message"))));
                    let (code, name) = ("Exception".into(), text("name"));
                    Answer::Ticket(Ticket::Rejected(RemoteError { code, name, message: text("message") }))
                }
                other => panic!("{other:?}"),
            };
            let given = bench.take();
            assert_eq!(given.len(), 1, "{sent}");
            let Message::Reply(reply) = &given[0].frame.message else { panic!("{given:?}") };
            assert_eq!((&reply.correlation, &reply.answer), (&Correlation::from(id), &expected));
        }
    }
}

/// wire.md 5.8: receipt and tickets go where the request asked to be answered, in its encoding.
#[test]
fn tickets_keep_correlation_route_and_encoding() {
    let mut bench = jobs();
    let route = ReplyRoute { topic: Some("msgrpc/v2/rsp/caller".into()), encoding: Encoding::Json };
    let run = ask(&mut bench, Request { reply: route.clone(), ..request("c", "jobs", "start", vec![]) }).remove(0);
    defer(&mut bench, run);
    bench.turn(|machine, _| machine.progress(run, Some(1.into())));
    bench.ran(run, Ok(None));
    let given = bench.take();
    assert_eq!(given.len(), 3);
    for given in given {
        let Message::Reply(reply) = given.frame.message else { panic!() };
        assert_eq!((reply.correlation, reply.route, given.link), ("c".into(), route.clone(), A));
    }
}

/// W-060: a repeat of a request whose answer comes later gets the receipt again and runs nothing.
#[test]
fn w060_a_receipt_is_remembered_for_repeats() {
    let mut bench = jobs();
    let asked = request("c", "jobs", "start", vec![]);
    let run = ask(&mut bench, asked.clone()).remove(0);
    assert_eq!((ask(&mut bench, asked.clone()), answers(&mut bench)), (vec![], vec![]), "it runs");
    defer(&mut bench, run);
    let receipt = answers(&mut bench);
    assert_eq!((ask(&mut bench, asked.clone()), answers(&mut bench)), (vec![], receipt.clone()));
    bench.ran(run, Ok(Some(7.into())));
    assert_eq!(answers(&mut bench), [resolved(7)]);
    assert_eq!((ask(&mut bench, asked), answers(&mut bench)), (vec![], receipt));
}

/// A command that must not be repeated does not run again under its key: while it is on its way the new attempt is dropped,
/// and afterwards it gets a receipt of its own and the end.
#[test]
fn a_keyed_command_that_answered_later_is_answered_again() {
    let mut bench = jobs();
    let keyed = |correlation: &str| Request {
        idempotency_key: Some("k".into()),
        ..request(correlation, "jobs", "once", vec![])
    };
    let run = ask(&mut bench, keyed("c-1")).remove(0);
    defer(&mut bench, run);
    bench.take();
    assert_eq!((ask(&mut bench, keyed("c-2")), answers(&mut bench)), (vec![], vec![]));
    bench.ran(run, Ok(Some(7.into())));
    bench.take();
    assert_eq!(ask(&mut bench, keyed("c-3")), []);
    let again = answers(&mut bench);
    let [Answer::Deferred(Some(receipt)), end] = &again[..] else { panic!("{again:?}") };
    assert_eq!((receipt.get("id").and_then(Value::as_str), end), (Some("c-3"), &resolved(7)));
}

/// A command that answers later is out of the queue: the next one starts with the receipt, not with the end.
#[test]
fn the_queue_goes_on_with_the_receipt() {
    let mut bench = jobs();
    let first = ask(&mut bench, request("c-1", "jobs", "slow", vec![])).remove(0);
    assert_eq!(ask(&mut bench, request("c-2", "jobs", "slow", vec![])), []);
    defer(&mut bench, first);
    let second = bench.runs().remove(0).run;
    bench.ran(first, Ok(None));
    assert_eq!(bench.runs().len(), 0);
    bench.ran(second, Ok(None));
    assert_eq!(bench.take().len(), 3);
}

/// wire.md 5.8: whoever owes an answer is told once that its caller is gone, and may still answer.
#[test]
fn a_method_is_told_that_its_caller_is_gone() {
    let mut bench = jobs();
    let run = owed(&mut bench, "c", "start");
    bench.online("other", None);
    bench.offline("other");
    assert_eq!(gone(&mut bench), []);
    bench.offline("caller");
    assert_eq!(gone(&mut bench), [run]);
    bench.online("caller", None);
    bench.offline("caller");
    assert_eq!(gone(&mut bench), [], "once");
    bench.ran(run, Ok(Some(1.into())));
    assert_eq!(answers(&mut bench), [resolved(1)]);
}

/// After the end nothing is sent, and a run cannot answer later twice.
#[test]
fn exactly_one_end() {
    let mut bench = jobs();
    let run = owed(&mut bench, "c", "start");
    assert!(bench.turn(|machine, now| machine.defer(run, None, now)).is_err());
    bench.ran(run, Ok(None));
    bench.ran(run, Ok(None));
    bench.turn(|machine, _| machine.progress(run, None));
    assert_eq!(answers(&mut bench), [Answer::Ticket(Ticket::Resolved(None))]);
    assert!(bench.turn(|machine, now| machine.defer(run, None, now)).is_err());
}

/// Answers that are owed are bounded; the one over the bound fails as a method does, and room comes back with each end.
#[test]
fn owed_answers_are_bounded() {
    let mut bench = jobs();
    let mut runs: Vec<RunId> = (0..1000).map(|n| owed(&mut bench, &format!("c-{n}"), "start")).collect();
    let over = ask(&mut bench, request("over", "jobs", "start", vec![])).remove(0);
    let refused = bench.turn(|machine, now| machine.defer(over, None, now)).unwrap_err();
    bench.ran(over, Err(refused));
    assert_eq!(answers(&mut bench).iter().map(code).collect::<Vec<_>>(), ["Exception"]);
    bench.ran(runs.remove(0), Ok(None));
    bench.take();
    owed(&mut bench, "room", "start");
}

/// An end that no link can carry is a rejection; progress that none can carry is missed by nobody; the receipt is what a
/// repeat gets.
#[test]
fn an_end_that_cannot_be_written_is_a_rejection() {
    let mut bench = jobs();
    let run = owed(&mut bench, "c", "start");
    let too_large = || Rejection::TooLarge { bytes: 9, limit: 5 };
    bench.turn(|machine, _| machine.progress(run, Some(1.into())));
    let given = bench.take().remove(0);
    assert_eq!(given.answer(), &progress(1));
    bench.rejected(given.id, too_large());
    assert_eq!(answers(&mut bench), []);
    bench.ran(run, Ok(Some("large".into())));
    let id = bench.take().remove(0).id;
    bench.rejected(id, too_large());
    let ends = answers(&mut bench);
    let [Answer::Ticket(Ticket::Rejected(error))] = &ends[..] else { panic!("{ends:?}") };
    assert_eq!(error.code, "Exception");
    assert_eq!(ask(&mut bench, request("c", "jobs", "start", vec![])), []);
    assert!(matches!(answers(&mut bench)[..], [Answer::Deferred(_)]));
}

/// Leaving says nothing of what is owed: that we are offline says it.
#[test]
fn leaving_ends_what_is_owed_in_silence() {
    let mut bench = jobs();
    owed(&mut bench, "c", "start");
    bench.turn(NodeState::close);
    assert_eq!(answers(&mut bench), []);
}
