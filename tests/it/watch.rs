//! Watching: one event for a while, and standing watches, against a plant in memory and a peer played by hand.

use std::time::Duration;

use plantbridge::{
    link::{LinkEvent, Outbound},
    mcp::{Offer, tools},
    plant::Plant,
    wire::{Frame, Message, Request, Stamp, Value, frame::Answer, json::from_json},
};
use serde_json::{Value as Json, json};

use crate::{
    harness::{Client, Setup},
    over::{Over, over_both},
    plant::joined,
    silence::{ByHand, error_of, name, refusal},
};

over_both!(paused:
    one_watch_after_the_other,
    silence_of_an_undeclared_event_is_never_gapless,
    what_cannot_be_watched_is_refused,
    duplicates_and_order_are_nothing,
    a_straggler_is_waited_for,
    a_restart_in_the_middle_is_unknowable,
    offline_and_back_in_the_middle_is_told_exactly,
    a_replaced_instance_is_never_gapless,
    a_count_that_stands_still_is_not_believed_until_it_moves,
    without_a_count_nothing_is_known,
    a_full_watch_ends_early,
    a_cancelled_watch_leaves_nothing_behind,
    a_lost_answer_loses_nothing,
    a_watch_is_read_in_pages,
    what_falls_off_the_ring_is_reported,
    a_standing_watch_outlives_a_restart,
    a_standing_watch_distrusts_a_frozen_count,
);

over_both!(running:
    watches_are_bounded,
    a_watch_outlives_its_client,
    the_state_of_a_component_is_watched,
);

async fn client_of(plant: Plant) -> Client {
    let mut client = Client::over(plant, tools::all(), &Setup { offer: Offer::default(), ..Setup::default() });
    client.initialize("2025-06-18").await;
    client
}

fn good(result: &Json) -> Json {
    assert_eq!(result["isError"], Json::Null, "{result}");
    result["structuredContent"].clone()
}

fn error(result: &Json) -> Json {
    assert_eq!(result["isError"], true, "{result}");
    result["structuredContent"]["error"].clone()
}

fn siren(seconds: u64) -> Json {
    json!({"peer": "works", "namespace": "siren", "event": "wail", "seconds": seconds})
}

/// A counting peer, in the hands of the test.
struct Peer {
    hand: ByHand,
    epoch: &'static str,
    seq: u64,
}

impl Peer {
    async fn joined() -> (Client, Self) {
        let (client, hand) = ByHand::joined().await;
        (client, Self { hand, epoch: "A", seq: 0 })
    }

    /// The next request, of whatever kind; a description is refused on the way.
    async fn request(&mut self) -> Request {
        loop {
            let Some(Outbound::Frame { frame, claim, .. }) = self.hand.asked.recv().await else { continue };
            let Message::Request(request) = frame.message else { continue };
            assert!(claim.unwrap().take(), "a request is wanted when it is taken");
            if request.method != "describe" {
                return request;
            }
            self.hand.answer(&request, refusal("ClassNotFound", "msgrpc.describe is not exposed")).await;
        }
    }

    /// The next request, which must be this one.
    async fn asked(&mut self, method: &str) -> Request {
        let request = self.request().await;
        assert_eq!(request.method, method, "{request:?}");
        request
    }

    /// Answers the next request, which must be this one, as a counting peer does.
    async fn serve(&mut self, method: &str) {
        let request = self.asked(method).await;
        let cursor = json!({"epoch": self.epoch, "seq": self.seq, "since": 7});
        let answer = if method == "eventCursor" { from_json(cursor) } else { "ok".into() };
        self.hand.answer(&request, Answer::Value(Some(answer))).await;
    }

    async fn deliver(&self, payload: i64, stamp: Option<(&str, u64)>) {
        let message = Message::Event {
            path: Some("siren".into()),
            event: "wail".into(),
            args: vec![payload.into()],
            stamp: stamp.map(|(epoch, seq)| Stamp { epoch: epoch.into(), seq }),
        };
        self.hand
            .tell(LinkEvent::Frame(Box::new(Frame { source: name("works"), target: name("bridge"), message })))
            .await;
    }

    /// Emits once, and it arrives.
    async fn emit(&mut self) {
        self.seq += 1;
        self.deliver(self.seq.cast_signed(), Some((self.epoch, self.seq))).await;
    }

    /// Opens a watch under this id.
    async fn open(&mut self, client: &mut Client, id: &str, arguments: Json) {
        client.start(id, "watch_events", arguments).await;
        self.serve("on").await;
        self.serve("eventCursor").await;
    }

    /// Lets the time of the only watch pass, and gives what it says.
    async fn close(&mut self, client: &mut Client) -> Json {
        self.serve("eventCursor").await;
        self.serve("off").await;
        good(&client.read().await["result"])
    }

    /// A standing watch; gives its id.
    async fn stands(&mut self, client: &mut Client) -> String {
        let watch = json!({"peer": "works", "namespace": "siren", "event": "wail"});
        client.start("s", "start_watch", watch).await;
        self.serve("on").await;
        self.serve("eventCursor").await;
        good(&client.read().await["result"])["watch"].as_str().unwrap().to_owned()
    }

    async fn read(&mut self, client: &mut Client, watch: &str, after: Option<&Json>) -> Json {
        let mut arguments = json!({"watch": watch, "limit": 500});
        if let Some(after) = after {
            arguments["after"] = after["cursor"].clone();
        }
        client.start("r", "read_watch", arguments).await;
        self.serve("eventCursor").await;
        good(&client.read().await["result"])
    }
}

fn verdict(told: &Json) -> (&str, &Json) {
    let detail = &told["loss_detail"];
    let verdict = detail["verdict"].as_str().unwrap();
    assert!(told["loss"].as_str().unwrap().starts_with(verdict), "{told}");
    (verdict, &detail["missing"])
}

fn seqs(told: &Json, entries: &str) -> Vec<u64> {
    told[entries].as_array().unwrap().iter().filter_map(|entry| entry["seq"].as_u64()).collect()
}

/// tools.md 3.1: first, gapless, missed, over a real peer that counts.
async fn one_watch_after_the_other() {
    let (plant, _works, node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let weight = json!({"peer": "works", "namespace": "scale", "event": "weight", "seconds": 2});
    let told = good(&client.call("watch_events", weight.clone()).await);
    assert_eq!((&told["event"], &told["watchedFor"]), (&json!("works.scale.weight"), &json!(2)));
    assert_eq!((verdict(&told), &told["heard"]), (("first", &json!([])), &json!([])));
    assert_eq!((&told["cursor"]["seq"], &told["source"]["kind"]), (&json!(0), &json!("live")));
    assert_eq!(verdict(&good(&client.call("watch_events", weight.clone()).await)), ("gapless", &json!([])));
    for grams in 1..=3 {
        node.emit("scale", "weight", vec![Value::Int(grams)]).await;
    }
    let told = good(&client.call("watch_events", weight).await);
    if Over::chosen() == Over::Hub && !seqs(&told, "heard").is_empty() {
        // They were still on their way when it began: then it heard them, and says so.
        assert_eq!((verdict(&told), seqs(&told, "heard")), (("gapless", &json!([])), vec![1, 2, 3]), "{told}");
    } else {
        assert_eq!(verdict(&told), ("missed", &json!([[1, 3]])), "{told}");
        assert!(told["loss"].as_str().unwrap().starts_with("missed 3 - "), "{told}");
    }
    let adhoc = json!({"peer": "works", "namespace": "scale", "event": "creak", "seconds": 1});
    let told = good(&client.call("watch_events", adhoc).await);
    assert!(told["note"].as_str().unwrap().contains("does not declare"), "{told}");
}

/// A7, 6.4: of an event that the peer does not declare and nobody ever heard, nothing is proven, by either way of watching;
/// what is like it is named. Once one was heard it exists, and its count proves what it proves.
async fn silence_of_an_undeclared_event_is_never_gapless() {
    let (plant, _works, node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let misspelt = |seconds: Option<u8>| {
        let mut arguments = json!({"peer": "works", "namespace": "scale", "event": "wieght"});
        if let Some(seconds) = seconds {
            arguments["seconds"] = json!(seconds);
        }
        arguments
    };
    for _ in 0..3 {
        let told = good(&client.call("watch_events", misspelt(Some(1))).await);
        assert_ne!(verdict(&told).0, "gapless", "{told}");
        assert!(told["note"].as_str().unwrap().contains("scale declares weight"), "{told}");
    }
    let watch = good(&client.call("start_watch", misspelt(None)).await);
    assert!(watch["note"].as_str().unwrap().contains("scale declares weight"), "{watch}");
    let read = json!({"watch": watch["watch"]});
    let told = good(&client.call("read_watch", read.clone()).await);
    assert_eq!(verdict(&told).0, "unknown", "{told}");
    assert!(told["loss"].as_str().unwrap().contains("does not declare 'wieght'"), "{told}");
    node.emit("scale", "wieght", vec![Value::Int(1)]).await;
    let told = good(&client.call("read_watch", read).await);
    assert_eq!((verdict(&told), seqs(&told, "records")), (("gapless", &json!([])), vec![1]));
    let lacking = json!({"peer": "works", "namespace": "tank", "paths": ["nope.x"]});
    let told = good(&client.call("start_watch", lacking).await);
    assert!(told["note"].as_str().unwrap().contains("does not declare 'nope.x'"), "{told}");
}

/// tools.md 3.1: what cannot be watched is refused with what can.
async fn what_cannot_be_watched_is_refused() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let event = |namespace, event| json!({"peer": "works", "namespace": namespace, "event": event});
    let told = error(&client.call("watch_events", event("scales", "weight")).await);
    assert_eq!((&told["code"], &told["alternatives"]), (&json!("unknown_namespace"), &json!(["scale"])));
    for tool in ["watch_events", "start_watch"] {
        let told = error(&client.call(tool, event("scale", "$snapshot")).await);
        assert_eq!((&told["code"], &told["argument"]), (&json!("bad_argument"), &json!("/event")), "{told}");
    }
    let told = error(&client.call("start_watch", json!({"peer": "works", "namespace": "scale"})).await);
    assert_eq!((&told["code"], &told["alternatives"]), (&json!("not_a_component"), &json!(["tank"])));
    let (mut client, mut peer) = Peer::joined().await;
    client.start("w", "watch_events", siren(5)).await;
    let request = peer.asked("on").await;
    peer.hand.answer(&request, refusal("MethodNotFound", "siren.on is not exposed")).await;
    assert_eq!(error_of(&mut client).await["code"], "unknown_event");
}

/// S-067: a duplicate, a reordering and an event before the subscribe answer; none hides a loss, none is one.
async fn duplicates_and_order_are_nothing() {
    let (mut client, mut peer) = Peer::joined().await;
    client.start("w", "watch_events", siren(5)).await;
    let request = peer.asked("on").await;
    peer.emit().await;
    peer.hand.answer(&request, Answer::Value(Some("ok".into()))).await;
    peer.serve("eventCursor").await;
    for seq in [3, 2, 2, 4] {
        peer.deliver(seq, Some(("A", seq.cast_unsigned()))).await;
    }
    peer.seq = 4;
    let told = peer.close(&mut client).await;
    assert_eq!((verdict(&told), &told["loss_detail"]["duplicates"]), (("first", &json!([])), &json!(1)), "{told}");
    assert_eq!(seqs(&told, "heard"), [1, 3, 2, 4]);
    peer.open(&mut client, "w", siren(5)).await;
    for seq in [6, 6] {
        peer.deliver(seq, Some(("A", 6))).await;
    }
    peer.seq = 6;
    assert_eq!(verdict(&peer.close(&mut client).await), ("missed", &json!([[5, 5]])), "the reference says gapless");
}

/// semantics.md 6.4: what fires after the closing cursor is neither surplus nor missed, and a straggler is waited for.
async fn a_straggler_is_waited_for() {
    let (mut client, mut peer) = Peer::joined().await;
    peer.open(&mut client, "w", siren(5)).await;
    peer.seq = 1;
    peer.serve("eventCursor").await;
    peer.deliver(2, Some(("A", 2))).await;
    peer.deliver(1, Some(("A", 1))).await;
    peer.serve("off").await;
    let told = good(&client.read().await["result"]);
    assert_eq!((verdict(&told), seqs(&told, "heard")), (("first", &json!([])), vec![2, 1]));
    peer.seq = 2;
    peer.open(&mut client, "w", siren(5)).await;
    assert_eq!(verdict(&peer.close(&mut client).await), ("gapless", &json!([])), "2 was told already");
}

/// S-068: a restart in the middle of a watch: each incarnation is told, across it nothing is known.
async fn a_restart_in_the_middle_is_unknowable() {
    let (mut client, mut peer) = Peer::joined().await;
    peer.open(&mut client, "w", siren(30)).await;
    peer.emit().await;
    peer.hand.tell(LinkEvent::Offline(name("works"))).await;
    peer.hand.tell(LinkEvent::Online { peer: name("works"), shape: None }).await;
    (peer.epoch, peer.seq) = ("B", 0);
    peer.serve("on").await;
    peer.emit().await;
    let told = peer.close(&mut client).await;
    assert_eq!((verdict(&told).0, &told["interrupted"]), ("unknowable", &json!(1)), "{told}");
    assert_eq!(seqs(&told, "heard"), [1, 1], "what was heard is not thrown away");
    assert_eq!(told["loss_detail"]["epochs"][0]["epoch"], "A");
    peer.open(&mut client, "w", siren(1)).await;
    assert_eq!(verdict(&peer.close(&mut client).await).0, "gapless");
}

/// A peer that goes offline and is back, the same incarnation: what it emitted meanwhile is missing, by number.
async fn offline_and_back_in_the_middle_is_told_exactly() {
    let (mut client, mut peer) = Peer::joined().await;
    peer.open(&mut client, "w", siren(30)).await;
    peer.emit().await;
    peer.hand.tell(LinkEvent::Offline(name("works"))).await;
    peer.seq = 3;
    peer.hand.tell(LinkEvent::Online { peer: name("works"), shape: None }).await;
    peer.serve("on").await;
    peer.emit().await;
    assert_eq!(verdict(&peer.close(&mut client).await), ("missed", &json!([[2, 3]])));
}

/// S-066: a replaced instance freezes its count; that is unknown, and stays so until the peer restarts, for every client.
async fn a_replaced_instance_is_never_gapless() {
    let (mut client, mut peer) = Peer::joined().await;
    peer.seq = 4;
    peer.open(&mut client, "w", siren(5)).await;
    peer.deliver(1, Some(("A", 4))).await;
    peer.deliver(2, Some(("A", 4))).await;
    let told = peer.close(&mut client).await;
    assert_eq!((verdict(&told).0, told["heard"].as_array().unwrap().len()), ("unknown", 2));
    peer.open(&mut client, "w", siren(5)).await;
    assert_eq!(verdict(&peer.close(&mut client).await).0, "unknown", "a quiet watch proves no more");
    (peer.epoch, peer.seq) = ("B", 0);
    peer.open(&mut client, "w", siren(5)).await;
    assert_eq!(verdict(&peer.close(&mut client).await).0, "unknowable");
    peer.open(&mut client, "w", siren(5)).await;
    assert_eq!(verdict(&peer.close(&mut client).await).0, "gapless");
}

/// The same with payloads that tell nothing apart: unknown until the count moves, which a frozen one never does.
async fn a_count_that_stands_still_is_not_believed_until_it_moves() {
    let (mut client, mut peer) = Peer::joined().await;
    peer.seq = 4;
    peer.open(&mut client, "w", siren(5)).await;
    peer.deliver(1, Some(("A", 4))).await;
    assert_eq!(verdict(&peer.close(&mut client).await).0, "unknown");
    peer.open(&mut client, "w", siren(5)).await;
    assert_eq!(verdict(&peer.close(&mut client).await).0, "unknown", "a quiet watch proves no more");
    peer.open(&mut client, "w", siren(5)).await;
    peer.emit().await;
    assert_eq!(verdict(&peer.close(&mut client).await), ("gapless", &json!([])));
}

/// A peer that gives no cursor: unknown; unstamped beside stamped: unknown.
async fn without_a_count_nothing_is_known() {
    let (mut client, mut peer) = Peer::joined().await;
    client.start("w", "watch_events", siren(5)).await;
    peer.serve("on").await;
    let request = peer.asked("eventCursor").await;
    peer.hand.answer(&request, refusal("ClassNotFound", "msgrpc.eventCursor is not exposed")).await;
    peer.deliver(1, None).await;
    let request = peer.asked("eventCursor").await;
    let uncounted = from_json(json!({"epoch": "A", "seq": null}));
    peer.hand.answer(&request, Answer::Value(Some(uncounted))).await;
    peer.serve("off").await;
    let told = good(&client.read().await["result"]);
    assert_eq!((verdict(&told).0, &told["cursor"], &told["heard"][0]["args"]), ("unknown", &Json::Null, &json!([1])));
    peer.open(&mut client, "w", siren(5)).await;
    peer.emit().await;
    peer.deliver(9, None).await;
    assert_eq!(verdict(&peer.close(&mut client).await).0, "unknown");
}

/// `max_events`: an early return, and what was not shown is for the next watch.
async fn a_full_watch_ends_early() {
    let (mut client, mut peer) = Peer::joined().await;
    let mut arguments = siren(60);
    arguments["max_events"] = json!(2);
    peer.open(&mut client, "w", arguments).await;
    let started = tokio::time::Instant::now();
    for _ in 0..4 {
        peer.emit().await;
    }
    let told = peer.close(&mut client).await;
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!((&told["ended"], seqs(&told, "heard")), (&json!("full"), vec![1, 2]));
    assert_eq!((verdict(&told).0, &told["loss_detail"]["to"]), ("first", &json!(2)));
    peer.open(&mut client, "w", siren(1)).await;
    assert_eq!(verdict(&peer.close(&mut client).await), ("missed", &json!([[3, 4]])));
}

/// A flood: what was not shown is told by number, to the last; and a client that gave a progress token hears of the wait.
///
/// In memory only: how much falls off depends on how fast a link is.
#[tokio::test(start_paused = true)]
async fn a_flood_is_never_gapless() {
    let (plant, _works, node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let mut weight = json!({"peer": "works", "namespace": "scale", "event": "weight", "seconds": 5, "max_events": 500});
    let call = json!({"name": "watch_events", "arguments": weight, "_meta": {"progressToken": "p"}});
    client.request("w", "tools/call", &call).await;
    assert_eq!(client.read().await["method"], "notifications/progress", "it listens by now");
    for grams in 0..20_000 {
        node.emit("scale", "weight", vec![Value::Int(grams)]).await;
    }
    let mut answer = client.read().await;
    while answer["method"] == "notifications/progress" {
        answer = client.read().await;
    }
    let told = good(&answer["result"]);
    let heard = seqs(&told, "heard");
    assert!((1..=564).contains(&heard.len()) && told["ended"] == "full", "{}", heard.len());
    let judged = told["loss_detail"]["to"].as_u64().unwrap();
    let complete = (1..=judged).all(|seq| heard.contains(&seq));
    assert_eq!(verdict(&told).0 == "first", complete, "{}", told["loss_detail"]);
    weight["seconds"] = json!(1);
    let told = good(&client.call("watch_events", weight).await);
    assert_eq!(verdict(&told), ("missed", &json!([[judged + 1, 20_000]])));
}

/// A flood on a standing watch: nothing is lost without being reported, and the verdict is the emitter's own count.
///
/// In memory only: how much falls off depends on how fast a link is.
#[tokio::test(start_paused = true)]
async fn a_flood_on_a_standing_watch_is_accounted_for() {
    let (plant, _works, node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let watch = json!({"peer": "works", "namespace": "scale", "event": "weight"});
    let watch = good(&client.call("start_watch", watch).await)["watch"].clone();
    for grams in 0..50_000 {
        node.emit("scale", "weight", vec![Value::Int(grams)]).await;
    }
    let mut arguments = json!({"watch": watch, "limit": 500});
    let (mut shown, mut missed) = (0, 0);
    loop {
        let told = good(&client.call("read_watch", arguments).await);
        assert!(["missed", "gapless"].contains(&verdict(&told).0), "{}", told["loss"]);
        shown += seqs(&told, "records").len() as u64;
        missed += told["loss_detail"]["missed"].as_u64().unwrap();
        if told["more"] == 0 {
            break;
        }
        arguments = told["hint"]["arguments"].clone();
    }
    assert!(shown > 900, "{shown}");
    assert_eq!(shown + missed, 50_000);
}

/// F-21: two watches of one client that overlap judge each stretch once, and nobody is told of a loss that was none.
///
/// In memory only: an event and a request of the client, one right after the other, are put in order by the hand alone.
#[tokio::test(start_paused = true)]
async fn overlapping_watches_do_not_disturb_each_other() {
    let (mut client, mut peer) = Peer::joined().await;
    peer.open(&mut client, "w", siren(1)).await;
    peer.close(&mut client).await;
    peer.open(&mut client, "long", siren(10)).await;
    peer.emit().await;
    client.start("short", "watch_events", siren(2)).await;
    peer.serve("eventCursor").await;
    peer.emit().await;
    peer.serve("eventCursor").await;
    let short = client.read().await;
    assert_eq!(short["id"], "short");
    let told = good(&short["result"]);
    assert_eq!((verdict(&told), seqs(&told, "heard")), (("gapless", &json!([])), vec![2]));
    peer.emit().await;
    let told = peer.close(&mut client).await;
    assert_eq!((verdict(&told), seqs(&told, "heard")), (("gapless", &json!([])), vec![1, 2, 3]));
    peer.open(&mut client, "w", siren(1)).await;
    assert_eq!(verdict(&peer.close(&mut client).await), ("gapless", &json!([])));
}

/// F-08: cancelling unsubscribes at once, and changes nothing of what the next watch is compared with.
async fn a_cancelled_watch_leaves_nothing_behind() {
    let (mut client, mut peer) = Peer::joined().await;
    peer.open(&mut client, "w", siren(1)).await;
    peer.close(&mut client).await;
    peer.open(&mut client, "c", siren(60)).await;
    peer.emit().await;
    let started = tokio::time::Instant::now();
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}})).await;
    peer.serve("off").await;
    assert!(started.elapsed() < Duration::from_millis(100));
    client.still_there().await;
    peer.open(&mut client, "w", siren(1)).await;
    assert_eq!(verdict(&peer.close(&mut client).await), ("missed", &json!([[1, 1]])), "nobody was told of it");
}

/// A standing watch tells all that came; a lost answer is asked for again; what fell on the way is told by number.
async fn a_lost_answer_loses_nothing() {
    let (mut client, mut peer) = Peer::joined().await;
    let watch = peer.stands(&mut client).await;
    peer.emit().await;
    peer.emit().await;
    let first = peer.read(&mut client, &watch, None).await;
    assert_eq!((verdict(&first), seqs(&first, "records")), (("gapless", &json!([])), vec![1, 2]), "{first}");
    peer.seq += 1;
    peer.emit().await;
    let lost = peer.read(&mut client, &watch, Some(&first)).await;
    assert_eq!((verdict(&lost), seqs(&lost, "records")), (("missed", &json!([[3, 3]])), vec![4]));
    let again = peer.read(&mut client, &watch, Some(&first)).await;
    assert_eq!((verdict(&again), seqs(&again, "records")), (("missed", &json!([[3, 3]])), vec![4]));
    let next = peer.read(&mut client, &watch, Some(&again)).await;
    assert_eq!((verdict(&next), seqs(&next, "records")), (("gapless", &json!([])), vec![]));
    let stale = json!({"watch": "other", "after": next["cursor"]});
    let stale = error(&client.call("read_watch", stale).await);
    assert_eq!((&stale["code"], &stale["argument"]), (&json!("stale_cursor"), &json!("/after")), "{stale}");
    assert!(stale["fix"].as_str().unwrap().contains("without `after`"), "{stale}");
}

/// Pages: a read that is cut says how much follows, judges no further than it shows, and the next goes on there.
async fn a_watch_is_read_in_pages() {
    let (mut client, mut peer) = Peer::joined().await;
    let watch = peer.stands(&mut client).await;
    for _ in 0..5 {
        peer.emit().await;
    }
    let mut arguments = json!({"watch": watch, "limit": 2});
    let mut all = Vec::new();
    for more in [3, 1, 0] {
        client.start("r", "read_watch", arguments.clone()).await;
        peer.serve("eventCursor").await;
        let told = good(&client.read().await["result"]);
        assert_eq!((verdict(&told), &told["more"]), (("gapless", &json!([])), &json!(more)), "{told}");
        all.extend(seqs(&told, "records"));
        arguments = told["hint"]["arguments"].clone();
    }
    assert_eq!(all, [1, 2, 3, 4, 5]);
}

/// What falls off the ring is reported, with its numbers.
async fn what_falls_off_the_ring_is_reported() {
    let (mut client, mut peer) = Peer::joined().await;
    let watch = peer.stands(&mut client).await;
    for _ in 0..1_200 {
        peer.emit().await;
    }
    let told = peer.read(&mut client, &watch, None).await;
    assert_eq!((&told["fell_off"], &told["held"], &told["written"]), (&json!(200), &json!(1_000), &json!(1_200)));
    assert_eq!(verdict(&told), ("missed", &json!([[1, 200]])), "{}", told["loss"]);
    let mut told = told;
    let mut all = seqs(&told, "records");
    while told["more"] != 0 {
        told = peer.read(&mut client, &watch, Some(&told)).await;
        assert_eq!(verdict(&told), ("gapless", &json!([])));
        all.extend(seqs(&told, "records"));
    }
    assert_eq!(all, (201..=1_200).collect::<Vec<u64>>());
}

/// S-070: a standing watch outlives the peer's absence and its restart, and marks both.
async fn a_standing_watch_outlives_a_restart() {
    let (mut client, mut peer) = Peer::joined().await;
    let watch = peer.stands(&mut client).await;
    peer.emit().await;
    peer.hand.tell(LinkEvent::Offline(name("works"))).await;
    (peer.epoch, peer.seq) = ("B", 0);
    peer.hand.tell(LinkEvent::Online { peer: name("works"), shape: None }).await;
    peer.serve("on").await;
    peer.emit().await;
    let told = peer.read(&mut client, &watch, None).await;
    assert_eq!(verdict(&told).0, "unknowable");
    let gaps: Vec<_> = told["records"].as_array().unwrap().iter().filter_map(|record| record["gap"].as_str()).collect();
    assert_eq!((gaps, seqs(&told, "records")), (vec!["interrupted", "attached_again"], vec![1, 1]), "{told}");
    peer.emit().await;
    let told = peer.read(&mut client, &watch, Some(&told)).await;
    assert_eq!((verdict(&told), seqs(&told, "records")), (("gapless", &json!([])), vec![2]));
    client.start("x", "stop_watch", json!({"watch": watch})).await;
    peer.serve("off").await;
    assert_eq!(good(&client.read().await["result"])["stopped"], true);
    let told = error(&client.call("read_watch", json!({"watch": watch})).await);
    assert_eq!(told["code"], "unknown_watch");
}

/// S-066: contradictory stamps: unknown, also on a standing watch, until the peer restarts.
async fn a_standing_watch_distrusts_a_frozen_count() {
    for payloads in [[1, 1], [1, 2]] {
        let (mut client, mut peer) = Peer::joined().await;
        peer.seq = 4;
        let watch = peer.stands(&mut client).await;
        for payload in payloads {
            peer.deliver(payload, Some(("A", 4))).await;
        }
        let told = peer.read(&mut client, &watch, None).await;
        assert_eq!(verdict(&told).0, "unknown", "{told}");
    }
}

/// An hour without a read ends a watch, and its subscription with it; a read in between keeps it.
///
/// In memory only: an hour passes in it, and a hub that is silent so long is lost.
#[tokio::test(start_paused = true)]
async fn an_idle_watch_ends_by_itself() {
    let (mut client, mut peer) = Peer::joined().await;
    let watch = peer.stands(&mut client).await;
    tokio::time::advance(Duration::from_mins(59)).await;
    peer.read(&mut client, &watch, None).await;
    tokio::time::advance(Duration::from_mins(59)).await;
    let told = good(&client.call("list_watches", json!({})).await);
    assert_eq!((&told["watches"][0]["watch"], &told["watches"][0]["ends_in_seconds"]), (&json!(watch), &json!(60)));
    let read = tokio::time::Instant::now();
    peer.serve("off").await;
    assert_eq!(read.elapsed().as_secs(), 60);
    assert_eq!(good(&client.call("list_watches", json!({})).await)["watches"], json!([]));
    assert_eq!(error(&client.call("stop_watch", json!({"watch": watch})).await)["code"], "unknown_watch");
}

/// At most 64 watches; one more is refused with those there are.
async fn watches_are_bounded() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let watch = json!({"peer": "works", "namespace": "scale", "event": "weight"});
    for _ in 0..64 {
        good(&client.call("start_watch", watch.clone()).await);
    }
    let told = error(&client.call("start_watch", watch.clone()).await);
    assert_eq!((&told["code"], &told["limit"]), (&json!("limit_reached"), &json!(64)));
    let one = told["alternatives"][0].as_str().unwrap();
    let near = error(&client.call("stop_watch", json!({"watch": one.trim_end_matches(char::is_alphanumeric)})).await);
    assert_eq!((&near["code"], near["alternatives"].is_array()), (&json!("unknown_watch"), true), "{near}");
    good(&client.call("stop_watch", json!({"watch": one})).await);
    good(&client.call("start_watch", watch).await);
}

/// Watches outlive the client that started them: another session of the same plant reads and stops them.
async fn a_watch_outlives_its_client() {
    let (plant, _works, node) = joined(false, None).await;
    let mut client = client_of(plant.clone()).await;
    let watch = json!({"peer": "works", "namespace": "scale", "event": "weight"});
    let watch = good(&client.call("start_watch", watch).await)["watch"].clone();
    drop(client.input.take());
    client.ended().await;
    node.emit("scale", "weight", vec![Value::Int(5)]).await;
    let mut other = client_of(plant).await;
    let told = good(&other.call("read_watch", json!({"watch": watch})).await);
    assert_eq!((verdict(&told), &told["records"][0]["args"]), (("gapless", &json!([])), &json!([5])));
    assert_eq!(told["of"], "works.scale.weight");
}

/// The state of a component: every snapshot, or what changes at the paths named, old to new.
async fn the_state_of_a_component_is_watched() {
    let (plant, _works, _node) = joined(false, None).await;
    let mut client = client_of(plant).await;
    let mut ids = Vec::new();
    for paths in [json!([]), json!(["level", "zones.top"]), json!(["mode"])] {
        let watch = json!({"peer": "works", "namespace": "tank", "paths": paths});
        ids.push(good(&client.call("start_watch", watch).await)["watch"].clone());
    }
    let set = json!({"peer": "works", "namespace": "tank", "path": "level", "value": 30});
    good(&client.call("set_state", set).await);
    let read = async |client: &mut Client, id: &Json| good(&client.call("read_watch", json!({"watch": id})).await);
    let whole = read(&mut client, &ids[0]).await;
    let levels: Vec<&Json> =
        whole["records"].as_array().unwrap().iter().map(|record| &record["state"]["level"]).collect();
    assert_eq!((levels, &whole["kind"]), (vec![&json!(10), &json!(30)], &json!("state")));
    assert_eq!(verdict(&whole).0, "unknown", "a component may skip revisions");
    let paths = read(&mut client, &ids[1]).await;
    assert_eq!(paths["records"][1]["changes"], json!([{"path": "level", "old": 10, "new": 30}]), "{paths}");
    assert_eq!(paths["kind"], "changes");
    let other = read(&mut client, &ids[2]).await;
    assert_eq!(other["records"].as_array().unwrap().len(), 1, "only how it stood at first: {other}");
    let bad = json!({"peer": "works", "namespace": "tank", "event": "x", "paths": ["level"]});
    assert_eq!(error(&client.call("start_watch", bad).await)["argument"], "/paths");
    let bad = json!({"peer": "works", "namespace": "tank", "paths": ["level", "a..b"]});
    let bad = error(&client.call("start_watch", bad).await);
    assert_eq!(bad["argument"], "/paths/1");
    assert!(bad["message"].as_str().unwrap().starts_with("/paths/1: "), "{bad}");
}
