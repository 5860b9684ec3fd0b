//! Queueing, expiry, withdrawal and repeats, against the recorded outcomes (sem-queue-and-repeats) and beyond them.

use serde_json::Value as Json;

use super::bench::{Bench, code, request};
use crate::{
    contract::{Method, Semantics, ServedNamespace, Surface},
    node::state::{Exposed, Failure, MAILBOX},
    wire::{Correlation, Message, Value, frame::Answer, vectors},
};

/// Rows of what this host does not do, by the reason.
const NOT_SERVED: [(&str, &str); 4] = [
    ("superseded while waiting", "no queue conflates: every command that was accepted runs"),
    ("runs first", "the conflating queue again"),
    ("newest runs", "the conflating queue again"),
    ("store cannot be reached", "keys are remembered in memory, which is always there"),
];

/// A namespace of commands with this much room.
fn namespace(name: &str, mailbox: usize) -> Exposed {
    let method = |name: &str, semantics| Method { semantics: Some(semantics), ..Method::undeclared(name) };
    Exposed {
        name: name.into(),
        surface: ServedNamespace {
            name: name.into(),
            emitter: true,
            methods: vec![
                method("slow", Semantics::IdempotentCommand),
                method("give", Semantics::NonRepeatableCommand),
                method("look", Semantics::Query),
            ]
            .into(),
            ..ServedNamespace::default()
        },
        validate: false,
        component: None,
        mailbox,
        path_writes: false,
    }
}

fn bench(namespaces: &[(&str, usize)]) -> Bench {
    let mut bench = Bench::new("host");
    bench.serve(&Surface::default(), namespaces.iter().map(|(name, mailbox)| namespace(name, *mailbox)).collect());
    bench
}

/// Ends the only method that runs, with its first argument.
fn finish(bench: &mut Bench) {
    let mut runs = bench.runs();
    let run = runs.pop().expect("nothing runs");
    assert!(runs.is_empty(), "commands of one namespace overlap: {runs:?}");
    bench.ran(run.run, Ok(run.args.first().cloned()));
}

/// What a row says, with the time that no two runs share masked.
fn recorded(label: &str) -> String {
    let rows = vectors::list("sem-queue-and-repeats.json", "calls");
    let row = rows.iter().find(|row| row["label"] == label).unwrap_or_else(|| panic!("no row {label}"));
    match row.get("result") {
        Some(result) => result.to_string(),
        None => row["message"].as_str().unwrap().to_owned(),
    }
}

fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Value(Some(Value::Int(number))) => number.to_string(),
        Answer::Error(error) => format!("{}: {}", error.code, error.message),
        other => panic!("{other:?}"),
    }
}

fn take(bench: &mut Bench, correlation: &Correlation) -> String {
    shown(&bench.take_answer(correlation).unwrap_or_else(|| panic!("{correlation:?} is not answered")))
}

fn timed(bench: &mut Bench, correlation: &str, path: &str, ttl: u64) -> Correlation {
    let mut request = request(correlation, path, "slow", vec![1.into()]);
    request.ttl = Some(ttl);
    bench.says("caller", Message::Request(request));
    correlation.into()
}

fn keyed(bench: &mut Bench, from: &str, correlation: &str, key: &str) -> Correlation {
    let mut request = request(correlation, "c", "give", vec![1.into()]);
    request.idempotency_key = Some(key.into());
    bench.says(from, Message::Request(request));
    correlation.into()
}

/// S-009, S-012, W-064: every row is played here or listed.
#[test]
fn every_recorded_queue_outcome() {
    let mut played: Vec<String> = NOT_SERVED.iter().map(|(label, _)| (*label).to_owned()).collect();
    let mut expect = |label: &str, ours: String| {
        assert_eq!(ours, recorded(label), "{label}");
        played.push(label.to_owned());
    };

    let mut queue = bench(&[("q", 1)]);
    let runs = queue.asked("caller", "q", "slow", vec![300.into()]);
    let waits = queue.asked("caller", "q", "slow", vec![10.into()]);
    let refused = queue.asked("caller", "q", "slow", vec![10.into()]);
    expect("mailbox full", take(&mut queue, &refused));
    finish(&mut queue);
    expect("runs", take(&mut queue, &runs));
    finish(&mut queue);
    expect("waits (mailbox of 1)", take(&mut queue, &waits));

    let mut spent = bench(&[("c", MAILBOX)]);
    let occupies = spent.asked("caller", "c", "slow", vec![400.into()]);
    let late = timed(&mut spent, "late", "c", 100);
    spent.advance(400);
    finish(&mut spent);
    expect("occupies the queue", take(&mut spent, &occupies));
    expect("ttl of 100 ms spent in the queue", take(&mut spent, &late).replace("300", "{n}"));
    assert!(spent.runs().is_empty());

    let mut retired = bench(&[("r", MAILBOX)]);
    let occupies = retired.asked("caller", "r", "slow", vec![300.into()]);
    let queued = retired.asked("caller", "r", "slow", vec![1.into()]);
    retired.turn(|machine, _| machine.withdraw("r"));
    expect("queued, then the namespace is withdrawn", take(&mut retired, &queued));
    finish(&mut retired);
    expect("occupies", take(&mut retired, &occupies));

    let mut once = bench(&[("c", MAILBOX)]);
    let first = keyed(&mut once, "caller", "k-1", "k1");
    finish(&mut once);
    expect("key k1", take(&mut once, &first));
    let again = keyed(&mut once, "caller", "k-2", "k1");
    assert!(once.runs().is_empty(), "a command under one key runs once");
    expect("key k1 again", take(&mut once, &again));

    let rows = vectors::list("sem-queue-and-repeats.json", "calls");
    let mut labels: Vec<String> = rows.iter().map(|row: &Json| row["label"].as_str().unwrap().to_owned()).collect();
    labels.sort();
    played.sort();
    assert_eq!(played, labels);
    // The other parts of the file are about fakes: a program behind one, and events without an interval.
    let parts = vectors::file("sem-queue-and-repeats.json");
    let mut parts: Vec<&String> = parts.as_object().unwrap().keys().collect();
    parts.sort();
    assert_eq!(parts, ["about", "calls", "eventsWithoutInterval", "python"]);
}

/// S-012: queries overlap with a command and with each other; commands of two namespaces do too.
#[test]
fn s012_only_commands_of_one_namespace_wait_for_each_other() {
    let mut bench = bench(&[("a", MAILBOX), ("b", MAILBOX)]);
    for (path, method) in [("a", "slow"), ("a", "look"), ("a", "look"), ("b", "slow"), ("a", "give"), ("b", "give")] {
        bench.asked("caller", path, method, vec![]);
    }
    let ran: Vec<_> = bench.runs().into_iter().map(|run| (run.namespace, run.method)).collect();
    let expected = [("a", "slow"), ("a", "look"), ("a", "look"), ("b", "slow")];
    assert_eq!(ran, expected.map(|(path, method)| (path.to_owned(), method.to_owned())));
}

/// W-064: a budget exactly used up still runs, one that is exceeded by a millisecond does not; a received expiry narrows
/// it, and one without a ttl sets none.
#[test]
fn w064_the_budget_is_checked_when_the_turn_comes() {
    for (ttl, expiry, waited, runs) in [
        (Some(50), None, 50, true),
        (Some(50), None, 51, false),
        (Some(5000), Some(1), 1000, true),
        (Some(5000), Some(1), 1001, false),
        (Some(50), Some(1), 51, false),
        (None, Some(1), 60_000, true),
        (None, None, 60_000, true),
    ] {
        let mut bench = bench(&[("c", MAILBOX)]);
        bench.asked("caller", "c", "slow", vec![]);
        let mut request = request("waits", "c", "slow", vec![]);
        (request.ttl, request.expiry) = (ttl, expiry);
        bench.says("caller", Message::Request(request));
        bench.advance(waited);
        finish(&mut bench);
        assert_eq!(bench.runs().len(), usize::from(runs), "{ttl:?} {expiry:?} {waited}");
        let refused = bench.take_answer(&"waits".into());
        assert_eq!(refused.as_ref().map(code), (!runs).then_some("Timeout"));
    }
}

/// S-112: while a keyed command runs, another attempt at it waits its turn, whoever makes it, and is then answered from
/// the record.
#[test]
fn s112_another_attempt_at_a_running_command_does_not_run() {
    let mut bench = bench(&[("c", MAILBOX)]);
    let first = keyed(&mut bench, "caller", "k-1", "k");
    let second = keyed(&mut bench, "other", "k-2", "k");
    let run = bench.runs().remove(0);
    assert!(bench.runs().is_empty(), "the second attempt waits in the queue, as any command does");
    let mut third = request("k-3", "c", "give", vec![]);
    third.idempotency_key = Some("another".into());
    bench.says("caller", Message::Request(third));
    bench.ran(run.run, Ok(Some(7.into())));
    assert_eq!(take(&mut bench, &first), "7");
    assert_eq!(take(&mut bench, &second), "7");
    assert_eq!(bench.runs().len(), 1, "what waited behind it runs");
    keyed(&mut bench, "other", "k-2", "k");
    assert_eq!(take(&mut bench, &second), "7", "from memory");
}

/// S-112: a key that failed is answered with the failure; a key of another method is another command; a query has none.
#[test]
fn s112_a_key_names_one_command_of_one_method() {
    let mut bench = bench(&[("c", MAILBOX)]);
    let first = keyed(&mut bench, "caller", "k-1", "k");
    let run = bench.runs().remove(0);
    bench.ran(run.run, Err(Failure::coded("Busy", "no")));
    assert_eq!(take(&mut bench, &first), "Exception: no", "S-013: `Busy` is not a method's to say");
    let again = keyed(&mut bench, "caller", "k-2", "k");
    assert_eq!(take(&mut bench, &again), "Exception: no");
    for method in ["slow", "look"] {
        let mut request = request(&format!("{method}-1"), "c", method, vec![]);
        request.idempotency_key = Some("k".into());
        bench.says("caller", Message::Request(request.clone()));
        assert_eq!(bench.runs().len(), 1);
    }
}

/// A namespace exposed in place of another: what waits is answered, for it certainly did not run; the command that runs
/// keeps those of the new one waiting, since it may move the same machine; then they run.
#[test]
fn what_waits_for_a_replaced_namespace_is_answered_and_commands_still_do_not_overlap() {
    let mut bench = bench(&[("r", MAILBOX)]);
    let running = bench.asked("caller", "r", "slow", vec![1.into()]);
    let queued = bench.asked("caller", "r", "slow", vec![2.into()]);
    let run = bench.runs().remove(0);
    bench.turn(|machine, now| machine.expose(namespace("r", MAILBOX), "instance-2".into(), now));
    assert!(take(&mut bench, &queued).starts_with("OwnershipChanged: r.slow was queued"));
    let next = bench.asked("caller", "r", "slow", vec![3.into()]);
    assert!(bench.runs().is_empty(), "two commands of one namespace would run");
    bench.ran(run.run, Ok(Some(1.into())));
    assert_eq!(take(&mut bench, &running), "1");
    finish(&mut bench);
    assert_eq!(take(&mut bench, &next), "3");
}

/// The same over a withdrawal and a return.
#[test]
fn a_namespace_that_returns_waits_for_the_command_of_the_one_before() {
    let mut bench = bench(&[("r", MAILBOX)]);
    bench.asked("caller", "r", "slow", vec![1.into()]);
    let run = bench.runs().remove(0);
    bench.turn(|machine, _| machine.withdraw("r"));
    bench.turn(|machine, now| machine.expose(namespace("r", MAILBOX), "instance-2".into(), now));
    bench.asked("caller", "r", "slow", vec![2.into()]);
    assert!(bench.runs().is_empty());
    bench.ran(run.run, Ok(None));
    assert_eq!(bench.runs().len(), 1);
}

/// No more methods run at once than are allowed, and the queue goes on when one ends.
#[test]
fn running_methods_are_bounded() {
    let mut bench = bench(&[("c", MAILBOX)]);
    for _ in 0..999 {
        bench.asked("caller", "c", "look", vec![]);
    }
    bench.asked("caller", "c", "slow", vec![]);
    let waiting = bench.asked("caller", "c", "slow", vec![9.into()]);
    let refused = bench.asked("caller", "c", "look", vec![]);
    assert_eq!(code(&bench.take_answer(&refused).unwrap()), "Busy");
    let command = bench.runs().pop().unwrap();
    assert_eq!(command.method, "slow");
    bench.ran(command.run, Ok(None));
    finish(&mut bench);
    assert_eq!(take(&mut bench, &waiting), "9");
}
