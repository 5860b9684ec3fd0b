//! A peer that stands beside another one of this process: it keeps no roster, may stay silent for ever, and what is inside
//! the process is reached past any network.

use super::{
    bench::{A, Bench, ok, request},
    serving::bell,
    sim::call,
};
use crate::{
    contract::{Method, Semantics, Surface},
    link::{LinkEvent, LinkId},
    node::{
        error::{CallError, NotSent},
        state::{Exposed, MAILBOX},
        testing::name,
    },
    wire::{Message, Value, frame::Answer},
};

fn hosted() -> Bench {
    let mut bench = Bench::down("double", &[A, LinkId::INSIDE]);
    bench.state.be_hosted();
    bench.serve(&Surface { introspection: true, ..Surface::default() }, vec![bell(true)]);
    bench.up(A);
    bench.up(LinkId::INSIDE);
    bench
}

fn reached(bench: &mut Bench) -> Vec<String> {
    bench.turn(|machine, _| machine.emit("bell", "ring", &[]));
    bench.take().iter().map(|given| given.frame.target.to_string()).collect()
}

/// S-071: it hears from its host who left, and from nobody else keeps who is there.
#[test]
fn s071_a_hosted_peer_keeps_no_roster_and_forgets_whom_its_host_says() {
    let mut bench = hosted();
    for from in ["hmi", "mes"] {
        bench.online(from, Some("s"));
        assert_eq!(bench.answered(from, "bell", "on", vec!["ring".into()]), ok("ok"));
    }
    assert!(bench.state.roster().is_empty());
    assert_eq!(reached(&mut bench), ["hmi", "mes"]);
    bench.turn(|machine, _| machine.departed(&name("hmi")));
    assert_eq!(reached(&mut bench), ["mes"]);
}

/// S-122, R-07: a call that is never answered keeps no other command waiting, and a repeat of it is dropped like one of a
/// command that runs; what is remembered of such calls is bounded.
#[test]
fn s122_a_call_that_is_never_answered_blocks_nobody() {
    let commands = ["hang", "ring"]
        .map(|name| Method { semantics: Some(Semantics::NonRepeatableCommand), ..Method::undeclared(name) });
    let mut exposed: Exposed = bell(true);
    exposed.surface.methods = Vec::from(commands).into();
    exposed.mailbox = MAILBOX;
    let mut bench = Bench::new("double");
    bench.serve(&Surface::default(), vec![exposed]);
    let hung = bench.asked("hmi", "bell", "hang", vec![]);
    bench.asked("hmi", "bell", "ring", vec![]);
    let runs = bench.runs();
    assert_eq!(runs.len(), 1, "the second waits");
    bench.turn(|machine, now| machine.leave_unanswered(runs[0].run, now));
    let next = bench.runs();
    assert_eq!(next.len(), 1, "it waits no more");
    assert_eq!(next[0].method, "ring");
    bench.ran(next[0].run, Ok(None));
    // What the hanging one still comes to is heard by nobody.
    bench.ran(runs[0].run, Ok(Some(1.into())));
    assert_eq!(bench.take().len(), 1, "one answer, of the second");
    let mut repeat = request("", "bell", "hang", vec![]);
    repeat.correlation = hung;
    bench.says("hmi", Message::Request(repeat.clone()));
    assert!(bench.runs().is_empty() && bench.take().is_empty(), "it is running, as far as anybody knows");
    for _ in 0..1000 {
        bench.asked("hmi", "bell", "hang", vec![]);
        let run = bench.runs().remove(0).run;
        bench.turn(|machine, now| machine.leave_unanswered(run, now));
    }
    bench.says("hmi", Message::Request(repeat));
    assert_eq!(bench.runs().len(), 1, "the oldest of a thousand is forgotten");
}

/// A keyed command that is never answered is not run again under its key either.
#[test]
fn s122_a_keyed_command_that_hangs_runs_once() {
    let hang = Method { semantics: Some(Semantics::NonRepeatableCommand), ..Method::undeclared("hang") };
    let mut exposed: Exposed = bell(true);
    exposed.surface.methods = vec![hang].into();
    let mut bench = Bench::new("double");
    bench.serve(&Surface::default(), vec![exposed]);
    for (attempt, expected) in [("c-1", 1), ("c-2", 0)] {
        let mut asked = request("", "bell", "hang", vec![]);
        asked.correlation = attempt.into();
        asked.idempotency_key = Some("k".into());
        bench.says("hmi", Message::Request(asked));
        let runs = bench.runs();
        assert_eq!(runs.len(), expected, "{attempt}");
        for run in runs {
            bench.turn(|machine, now| machine.leave_unanswered(run.run, now));
        }
    }
}

/// W-060: what we are is answered once and remembered, whatever changes meanwhile; so is anything else of `msgrpc`.
#[test]
fn w060_what_we_are_is_remembered_as_it_was_said() {
    let mut bench = Bench::new("tower");
    bench.serve(&Surface { introspection: true, ..Surface::default() }, vec![bell(true)]);
    for (correlation, method, args) in
        [("c-1", "describe", vec![]), ("c-2", "topology", vec![]), ("c-3", "eventCursor", vec!["bell", "ring"])]
    {
        let mut asked = request("", "msgrpc", method, args.into_iter().map(Value::from).collect());
        asked.correlation = correlation.into();
        bench.says("hmi", Message::Request(asked.clone()));
        let said = bench.take().pop().expect("an answer").answer().clone();
        assert!(matches!(said, Answer::Value(Some(_))), "{method}: {said:?}");
        bench.answered("hmi", "bell", "on", vec!["ring".into()]);
        bench.turn(|machine, _| machine.emit("bell", "ring", &[]));
        bench.take();
        bench.says("hmi", Message::Request(asked));
        assert_eq!(*bench.take().pop().expect("the same").answer(), said, "{method}");
        bench.answered("hmi", "bell", "off", vec!["ring".into()]);
    }
}

/// W-060: of a description too large for what a fake remembers, that it was given stays: it is not made a second time.
#[test]
fn w060_a_fake_remembers_that_it_described_itself() {
    let mut bench = hosted();
    let mut asked = request("", "msgrpc", "describe", vec![]);
    asked.correlation = "c-1".into();
    bench.says("hmi", Message::Request(asked.clone()));
    assert!(matches!(bench.take().pop().expect("an answer").answer(), Answer::Value(Some(_))));
    bench.says("hmi", Message::Request(asked));
    let again = bench.take().pop().expect("an answer");
    let Answer::Error(error) = again.answer() else { panic!("made anew: {again:?}") };
    assert_eq!(error.code, "Exception");
}

/// What is inside this process is called past the network, up or down; nobody else is looked for there.
#[test]
fn the_inside_is_reached_while_the_network_is_down() {
    let mut bench = Bench::down("bridge", &[A, LinkId::INSIDE]);
    bench.up(LinkId::INSIDE);
    bench.up(A);
    for link in [A, LinkId::INSIDE] {
        bench.link(link, LinkEvent::Online { peer: name("double"), shape: None });
    }
    bench.online("oven", None);
    bench.call(1, call("double", "p", "m", vec![]));
    bench.call(2, call("oven", "p", "m", vec![]));
    let links: Vec<LinkId> = bench.take().iter().map(|given| given.link).collect();
    assert_eq!(links, [LinkId::INSIDE, A]);
    bench.lost(A);
    let lost: Vec<u64> = bench.resolved().into_iter().map(|(id, _)| id).collect();
    assert_eq!(lost, [2], "the call inside goes on");
    bench.call(3, call("double", "p", "m", vec![]));
    assert_eq!(bench.take().remove(0).link, LinkId::INSIDE);
    for (id, peer) in [(4, "oven"), (5, "nobody")] {
        bench.call(id, call(peer, "p", "m", vec![]));
        assert_eq!(bench.resolved(), [(id, Err(CallError::NotSent(NotSent::LinkDown)))], "{peer}");
    }
}
