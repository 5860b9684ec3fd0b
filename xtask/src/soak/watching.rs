//! Clients that hold standing watches: each is read again and again, and each answer is held against the emitter's own count.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::device::{EVENT, SPACE};
use super::door::Client;
use super::ledger::{Answer, Ledger};
use super::load::Until;
use super::peers::{EMITTERS, name};
use super::plan::Draw;

/// How long after its emitter has stopped a watch may take to have told everything.
const SETTLE: Duration = Duration::from_secs(20);

/// Starts a watch, reads it for a while and stops it, until it is over; the last one is read to its end.
pub(super) fn watch(mut client: Client, mut draw: Draw, until: &Until) -> Vec<String> {
    let mut left = Vec::new();
    while !until.over() {
        let peer = name(draw.index(EMITTERS));
        let of = json!({"peer": peer, "namespace": SPACE, "event": EVENT});
        let started = client.call("start_watch", &of, Duration::from_secs(5));
        let Some(watch) = started.content.get("watch").and_then(Value::as_str).map(str::to_owned) else {
            std::thread::sleep(draw.millis(200, 1_000));
            continue;
        };
        let mut reader = Reader { client: &mut client, watch, peer, after: None, ledger: Ledger::default() };
        let end = Instant::now() + draw.millis(4_000, 40_000);
        while Instant::now() < end && !until.over() {
            reader.read();
            std::thread::sleep(draw.millis(50, 700));
        }
        if until.over() {
            left.extend(reader.settle());
        }
        let Reader { watch, ledger, .. } = reader;
        client.record.with(|state| {
            state.shown += ledger.shown_in_all;
            state.missed += ledger.missed_in_all;
        });
        let stopped = client.call("stop_watch", &json!({"watch": watch}), Duration::from_secs(5));
        if stopped.code != "ok" {
            left.push(format!("watch {watch}, which could not be stopped: {}", stopped.code));
        }
    }
    left
}

/// One watch being read.
struct Reader<'a> {
    client: &'a mut Client,
    watch: String,
    peer: String,
    after: Option<Value>,
    ledger: Ledger,
}

impl Reader<'_> {
    /// Reads what came, and gives the answer and how much follows it; nothing if it could not be read.
    fn read(&mut self) -> Option<(Answer, u64)> {
        let mut arguments = json!({"watch": self.watch, "limit": 200});
        if let (Some(arguments), Some(after)) = (arguments.as_object_mut(), self.after.clone()) {
            arguments.insert("after".to_owned(), after);
        }
        let answered = self.client.call("read_watch", &arguments, Duration::ZERO);
        if answered.code != "ok" {
            let what = format!("watch {} could not be read: {}", self.watch, answered.content);
            self.client.record.with(|state| state.violate(Some(answered.call), what));
            return None;
        }
        let answer = Answer::read(&answered.content);
        self.after = answered.content.get("cursor").cloned();
        let (peer, ledger) = (&self.peer, &mut self.ledger);
        self.client.record.with(|state| {
            state.outcome("a watch's verdict", &answer.verdict);
            let wrong = ledger.take(&answer, |epoch| state.count(peer, epoch));
            for wrong in wrong {
                let what = format!("watch {} on {peer}: {wrong}; {}", self.watch, answered.content);
                state.violate(Some(answered.call), what.chars().take(2_000).collect());
            }
        });
        let more = answered.content.get("more").and_then(Value::as_u64)?;
        Some((answer, more))
    }

    /// Nobody emits any more: what was emitted has to be told to the last, as shown or as missed.
    fn settle(&mut self) -> Option<String> {
        let until = Instant::now() + SETTLE;
        let mut last = None;
        while Instant::now() < until {
            let read = self.read();
            let (epoch, number) = self.client.record.with(|state| state.last_emitted(&self.peer))?;
            let reached = self.ledger.reached(&epoch);
            // Nothing was emitted since the watch began, or since all was said of the incarnation before.
            let nothing = |answer: &Answer| reached.is_none() && answer.verdict == "gapless" && answer.to.is_none();
            let all = |answer: &Answer| reached == Some(number) || nothing(answer);
            if read.is_some_and(|(answer, more)| more == 0 && all(&answer)) {
                return None;
            }
            last = Some((epoch, number, reached));
            std::thread::sleep(Duration::from_millis(250));
        }
        let what = "whose emitter counted, and which was judged up to, so far";
        Some(format!("watch {} on {}, {what}: {last:?}", self.watch, self.peer))
    }
}
