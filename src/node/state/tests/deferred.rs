//! Later answers, as their caller meets them: receipt, tickets early and late, foreign, lapsed, and of a peer that went.

use serde_json::Value as Json;

use super::{
    bench::{A, Bench, ok, progress, reply},
    sim::call,
};
use crate::{
    contract::testing::value,
    node::state::{NodeState, Note, TicketUpdate, tests::bench::peer},
    wire::{
        Correlation, Message, RemoteError,
        frame::{Answer, Reply, Ticket},
        vectors,
    },
};

const HALF_AN_HOUR: u64 = 30 * 60 * 1000;

fn receipt(correlation: &Correlation, expires_ms: i64) -> Answer {
    let mut receipt = crate::wire::Map::new();
    receipt.insert("id", String::from_utf8(correlation.0.to_vec()).unwrap());
    receipt.insert("expiresAt", expires_ms);
    Answer::Deferred(Some(receipt.into()))
}

fn resolved(value: i64) -> Answer {
    Answer::Ticket(Ticket::Resolved(Some(value.into())))
}

/// A caller whose call `id` to the peer `jobs` left.
fn called(bench: &mut Bench, id: u64) -> Correlation {
    let correlation = bench.call(id, call("jobs", "jobs", "start", vec![]));
    assert_eq!(bench.take().len(), 1);
    correlation
}

/// A caller that holds a receipt good for a minute.
fn deferred() -> (Bench, Correlation) {
    let mut bench = Bench::new("observer");
    bench.online("jobs", None);
    let correlation = called(&mut bench, 1);
    let expires_ms = bench.now.unix_ms + 60_000;
    bench.says("jobs", reply(&correlation, receipt(&correlation, expires_ms)));
    let answered = bench.resolved().remove(0).1.unwrap();
    assert_eq!(answered.ticket_expires_ms, Some(expires_ms));
    (bench, correlation)
}

/// The recorded answers of the peer, fed to the caller: it sees what the recorded caller saw (S-110, wire.md 6.3).
#[test]
fn every_recorded_deferred_call() {
    let seen = vectors::list("sem-deferred.json", "callerSees");
    let scenes = vectors::list("sem-deferred.json", "scenes");
    assert_eq!((scenes.len(), seen.len()), (2, 2));
    for (scene, seen) in scenes.iter().zip(seen) {
        let mut bench = Bench::new("observer");
        let mut sent = scene["messages"].as_array().unwrap().iter().map(|message| &message["payload"]);
        let asked = sent.next().unwrap();
        let id = asked["id"].as_str().unwrap();
        bench.turn(|machine, now| {
            let call = call("jobs", asked["path"].as_str().unwrap(), asked["method"].as_str().unwrap(), vec![]);
            machine.call(crate::node::state::CallId(1), call, id.into(), now);
        });
        bench.take();
        bench.now.unix_ms = 1_796_024_908_900;
        for payload in sent {
            bench.says("jobs", read(id, payload));
        }
        let (receipt, end) = match seen.get("ticket") {
            Some(ticket) => (Some(ticket), TicketUpdate::Resolved(Some(value(&seen["result"])))),
            None => (None, TicketUpdate::Rejected(remote(&seen))),
        };
        let answered = bench.resolved().remove(0).1.unwrap();
        assert!(answered.ticket_expires_ms.is_some());
        if let Some(receipt) = receipt {
            assert_eq!(answered.value, Some(value(receipt)));
        }
        assert_eq!(bench.tickets(), [(1, TicketUpdate::Progress(Some(50.into()))), (1, end)]);
    }
}

fn remote(error: &Json) -> RemoteError {
    let text = |key: &str| error[key].as_str().unwrap().to_owned();
    RemoteError { code: "Exception".into(), name: text("name"), message: text("message") }
}

fn read(id: &str, payload: &Json) -> Message {
    let given = |key: &str| payload.get(key).map(value);
    let answer = match (payload["type"].as_str().unwrap(), payload["outcome"].as_str()) {
        ("SUCCESS", None) => Answer::Deferred(given("result")),
        ("TICKET", Some("progress")) => Answer::Ticket(Ticket::Progress(given("value"))),
        ("TICKET", Some("resolved")) => Answer::Ticket(Ticket::Resolved(given("value"))),
        ("TICKET", Some("rejected")) => Answer::Ticket(Ticket::Rejected(remote(&payload["error"]))),
        other => panic!("{other:?}"),
    };
    reply(&id.into(), answer)
}

/// W-070: tickets that overtake the receipt are held, in order, and only of the peer that was called.
#[test]
fn w070_early_tickets_are_held_until_the_receipt() {
    let mut bench = Bench::new("observer");
    let correlation = called(&mut bench, 1);
    for n in 1..=70 {
        bench.says("jobs", reply(&correlation, progress(n)));
    }
    bench.says("stranger", reply(&correlation, resolved(666)));
    bench.says("jobs", reply(&correlation, resolved(99)));
    bench.says("jobs", reply(&correlation, progress(1000)));
    assert_eq!((bench.tickets(), bench.resolved()), (vec![], vec![]));
    bench.says("jobs", reply(&correlation, receipt(&correlation, i64::MAX)));
    assert_eq!(bench.resolved().len(), 1);
    let updates = bench.tickets();
    assert_eq!(updates.len(), 64, "the oldest fell off, the end did not");
    assert_eq!(updates[0].1, TicketUpdate::Progress(Some(8.into())));
    assert_eq!(updates[63].1, TicketUpdate::Resolved(Some(99.into())));
    assert!(bench.notes().contains(&Note::ForeignReply { asked: peer("jobs"), from: peer("stranger") }));
}

/// What overtook an answer that is no receipt goes nowhere, and nothing of it is kept.
#[test]
fn early_tickets_of_a_plain_answer_are_dropped() {
    let mut bench = Bench::new("observer");
    for (id, answer) in [(1, ok(1)), (2, super::bench::error("Busy"))] {
        let correlation = called(&mut bench, id);
        bench.says("jobs", reply(&correlation, progress(1)));
        bench.says("jobs", reply(&correlation, answer));
        assert_eq!((bench.tickets().len(), bench.resolved().len()), (0, 1));
    }
    assert_eq!(bench.state.tickets.early(), 0);
    called(&mut bench, 3);
    bench.says("jobs", reply(&"c-3".into(), progress(1)));
    bench.advance(10_000);
    assert_eq!((bench.resolved().len(), bench.state.tickets.early()), (1, 0), "nor of one that timed out");
}

/// W-070, S-110: a ticket of another peer, of no call of ours, or after the end is reported and dropped.
#[test]
fn w070_foreign_and_stray_tickets_change_nothing() {
    let (mut bench, correlation) = deferred();
    bench.says("stranger", reply(&correlation, resolved(666)));
    bench.says("jobs", reply(&"nobody-asked".into(), resolved(666)));
    assert_eq!(bench.tickets(), []);
    bench.says("jobs", reply(&correlation, progress(1)));
    bench.says("jobs", reply(&correlation, resolved(2)));
    bench.says("jobs", reply(&correlation, resolved(3)));
    let expected = [TicketUpdate::Progress(Some(1.into())), TicketUpdate::Resolved(Some(2.into()))];
    assert_eq!(bench.tickets(), expected.map(|update| (1, update)));
    let strays = bench.notes().into_iter().filter(|note| matches!(note, Note::StrayTicket(_))).count();
    assert_eq!(strays, 3);
}

/// S-111: the ticket lapses at its time and not before; a blip of the link does not end it; one without a readable time
/// lives half an hour.
#[test]
fn s111_a_ticket_lapses_at_its_time() {
    let (mut bench, _) = deferred();
    bench.lost(A);
    bench.link(A, crate::link::LinkEvent::Up);
    bench.online("jobs", None);
    bench.link(A, crate::link::LinkEvent::Settled);
    bench.advance(59_999);
    assert_eq!(bench.tickets(), []);
    assert_eq!(bench.state.poll_timeout(bench.now), Some(bench.now.at + std::time::Duration::from_millis(1)));
    bench.advance(1);
    assert_eq!(bench.tickets(), [(1, TicketUpdate::Lapsed)]);

    for odd in [Answer::Deferred(None), Answer::Deferred(Some("x".into())), receipt(&"c-1".into(), 5)] {
        let mut bench = Bench::new("observer");
        let correlation = called(&mut bench, 1);
        bench.says("jobs", reply(&correlation, odd));
        bench.advance(HALF_AN_HOUR - 1);
        assert_eq!(bench.tickets(), []);
        bench.advance(1);
        assert_eq!(bench.tickets(), [(1, TicketUpdate::Lapsed)]);
    }
}

/// S-111: the peer goes, and its tickets with it; also when it is found absent after a blip of ours.
#[test]
fn s111_a_ticket_ends_with_its_peer() {
    let (mut bench, _) = deferred();
    bench.offline("somebody");
    assert_eq!(bench.tickets(), []);
    bench.offline("jobs");
    assert_eq!(bench.tickets(), [(1, TicketUpdate::PeerGone)]);

    let (mut bench, _) = deferred();
    bench.lost(A);
    bench.up(A);
    assert_eq!(bench.tickets(), [(1, TicketUpdate::PeerGone)]);
}

/// A time beyond every clock does no harm.
#[test]
fn a_receipt_for_ever_is_no_panic() {
    for never in [i64::MAX, i64::MAX - 1] {
        let mut bench = Bench::new("observer");
        let correlation = called(&mut bench, 1);
        bench.says("jobs", reply(&correlation, receipt(&correlation, never)));
        assert!(bench.state.poll_timeout(bench.now).is_some());
        bench.advance(1_000_000);
        assert_eq!(bench.tickets(), []);
    }
}

/// Open tickets are bounded; the one over the bound is said not to be followed. Leaving ends all the others.
#[test]
fn open_tickets_are_bounded_and_end_with_us() {
    let mut bench = Bench::new("observer");
    for id in 0..=1000 {
        let correlation = called(&mut bench, id);
        let expires_ms = bench.now.unix_ms + 1000;
        bench.says("jobs", reply(&correlation, receipt(&correlation, expires_ms)));
    }
    assert_eq!(bench.tickets(), [(1000, TicketUpdate::Dropped)]);
    assert_eq!(bench.resolved().len(), 1001, "every call has its receipt all the same");
    bench.turn(NodeState::close);
    let ended = bench.tickets();
    assert_eq!((ended.len(), &ended[0].1), (1000, &TicketUpdate::Dropped));
}

/// Only the mark makes a receipt, never the form of a result (semantics 10.1).
#[test]
fn a_result_that_looks_like_a_receipt_is_a_result() {
    let mut bench = Bench::new("observer");
    let correlation = called(&mut bench, 1);
    let Answer::Deferred(body) = receipt(&correlation, i64::MAX) else { panic!() };
    let message = Message::Reply(Reply {
        correlation: correlation.clone(),
        route: crate::wire::ReplyRoute::default(),
        answer: Answer::Value(body.clone()),
    });
    bench.says("jobs", message);
    let answered = bench.resolved().remove(0).1.unwrap();
    assert_eq!((answered.value, answered.ticket_expires_ms), (body, None));
}
