//! A peer of the plant without its connection: what it answers, emits and remembers, after semantics.md and in code that the
//! bridge shares nothing with. What it does is written into the record, which is how the bridge's word is checked.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::memory::{Before, Memory};
use super::pack;
use super::record::Record;
use super::say::{Reply, description, event, reply};
use crate::bench::mqtt::{Arrived, Outbox};

/// What a peer serves.
pub(super) const SPACE: &str = "work";
/// What it emits.
pub(super) const EVENT: &str = "tick";

#[derive(Debug)]
pub(super) struct Device {
    name: String,
    epoch: String,
    /// How often it emits, if it does, and when next.
    every: Option<Duration>,
    next: Instant,
    count: u64,
    /// Who listens to the event, and who to the state.
    subscribers: BTreeSet<Vec<u8>>,
    observers: BTreeSet<Vec<u8>>,
    revision: u64,
    level: Value,
    /// Who is in control and until when.
    lease: Option<(Vec<u8>, Instant)>,
    generation: u64,
    due: Vec<Due>,
    memory: Memory,
}

/// An answer that is given later.
#[derive(Debug)]
struct Due {
    at: Instant,
    to: Asker,
    reply: Reply,
}

/// Where an answer goes.
#[derive(Clone, Debug)]
struct Asker {
    source: Vec<u8>,
    topic: Vec<u8>,
    correlation: Vec<u8>,
}

impl Device {
    pub(super) fn new(name: &str, every: Option<Duration>, memory: Memory, record: &Record) -> Self {
        Self {
            name: name.to_owned(),
            epoch: record.with(super::record::State::epoch),
            every,
            next: Instant::now(),
            count: 0,
            subscribers: BTreeSet::new(),
            observers: BTreeSet::new(),
            revision: 0,
            level: json!(0),
            lease: None,
            generation: 0,
            due: Vec::new(),
            memory,
        }
    }

    /// Another incarnation: of this one nothing is left but what its store remembers.
    pub(super) fn reborn(&self, record: &Record) -> Self {
        record.with(|state| state.died(&self.name, &self.epoch));
        Self::new(&self.name, self.every, self.memory.clone(), record)
    }

    /// A message came: a request, or the presence of somebody who listens to us.
    pub(super) fn hear(&mut self, message: &Arrived<'_>, out: &mut Outbox, record: &Record) {
        if message.topic.starts_with(b"msgrpc/v2/presence/") {
            let who = message.topic.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            if message.payload == b"offline" {
                self.left(who, record);
            }
            return;
        }
        let asker = Asker {
            source: message.property(b"mr-src").to_vec(),
            topic: message.response_topic.to_vec(),
            correlation: message.correlation.to_vec(),
        };
        if let Some(known) = self.memory.known(&asker.source, &asker.correlation) {
            record.with(|state| state.repeats += 1);
            if let Before::Answered(known) = known {
                reply(&asker.topic, &asker.correlation, &self.name, &known, out);
            }
            return;
        }
        let (answer, later) = self.answer(message, &asker, out, record);
        if let Some(answer) = answer {
            self.give(&asker, answer, out);
        }
        self.due.extend(later);
    }

    /// What time brings: answers that are due, and events, which are counted whether or not anybody hears them.
    pub(super) fn tick(&mut self, now: Instant, mut out: Option<&mut Outbox>, record: &Record) {
        let (due, later) = std::mem::take(&mut self.due).into_iter().partition(|due| due.at <= now);
        self.due = later;
        let due: Vec<Due> = due;
        for Due { to, reply, .. } in due {
            // Without a connection the answer is lost, as it is on a real peer; it is remembered.
            match out.as_deref_mut() {
                Some(out) => self.give(&to, reply, out),
                None => self.give(&to, reply, &mut Outbox::default()),
            }
        }
        let Some(every) = self.every else { return };
        while self.next <= now {
            self.next += every;
            self.count += 1;
            record.with(|state| state.emitted(&self.name, &self.epoch, self.count));
            let body = json!([self.epoch, self.count]);
            for subscriber in &self.subscribers {
                if let Some(out) = out.as_deref_mut() {
                    event(subscriber, &self.name, EVENT, Some((&self.epoch, self.count)), &body, out);
                }
            }
        }
    }

    /// It counts no further.
    pub(super) const fn hush(&mut self) {
        self.every = None;
    }

    fn give(&self, to: &Asker, answer: Reply, out: &mut Outbox) {
        reply(&to.topic, &to.correlation, &self.name, &answer, out);
        if answer.is_remembered() {
            self.memory.note(&to.source, &to.correlation, Before::Answered(answer));
        }
    }

    /// A subscriber is gone, and so is what it had here (S-071).
    fn left(&mut self, who: &[u8], record: &Record) {
        if self.subscribers.remove(who) {
            self.holds(EVENT, who, false, record);
        }
        if self.observers.remove(who) {
            self.holds("$snapshot", who, false, record);
        }
    }

    fn holds(&self, what: &str, who: &[u8], holds: bool, record: &Record) {
        let what = format!("{what} for {}", String::from_utf8_lossy(who));
        record.with(|state| state.hold(&self.name, &self.epoch, &what, holds));
    }

    /// The answer, unless it comes later, and what comes later.
    fn answer(
        &mut self,
        message: &Arrived<'_>,
        asker: &Asker,
        out: &mut Outbox,
        record: &Record,
    ) -> (Option<Reply>, Vec<Due>) {
        let arguments = pack::list(message.payload);
        let (space, method) = (message.property(b"mr-path"), message.property(b"mr-method"));
        if space == b"msgrpc" {
            return (Some(self.introspect(method)), Vec::new());
        }
        if space != SPACE.as_bytes() {
            return (Some(Reply::error("ClassNotFound", "there is no such namespace")), Vec::new());
        }
        if let Some(later) = self.answer_later(method, &arguments, asker, record) {
            return later;
        }
        let built_in = self.built_in(method, &arguments, asker, out, record);
        let answer = built_in.or_else(|| self.work(method, &arguments, asker, out, record));
        let unknown = || Reply::error("MethodNotFound", "there is no such method");
        (Some(answer.unwrap_or_else(unknown)), Vec::new())
    }

    fn introspect(&self, method: &[u8]) -> Reply {
        match method {
            b"describe" => Reply::result(description(&self.name)),
            b"eventCursor" => Reply::result(json!({"epoch": self.epoch, "seq": self.count, "since": 1})),
            _ => Reply::error("MethodNotFound", "there is no such method"),
        }
    }

    /// What every component answers.
    fn built_in(
        &mut self,
        method: &[u8],
        arguments: &[Value],
        asker: &Asker,
        out: &mut Outbox,
        record: &Record,
    ) -> Option<Reply> {
        let first = arguments.first().cloned().unwrap_or_default();
        match method {
            b"on" => Some(self.subscribe(&asker.source, first.as_str().unwrap_or_default(), out, record)),
            b"off" => {
                let (held, what) = if first == EVENT {
                    (self.subscribers.remove(&asker.source), EVENT)
                } else {
                    (self.observers.remove(&asker.source), "$snapshot")
                };
                self.holds(what, &asker.source, false, record);
                Some(Reply::result(json!(if held { "ok" } else { "ok - was not subscribed" })))
            }
            b"$acquire" => Some(self.acquire(&asker.source, first.as_u64().unwrap_or_default(), record)),
            b"$release" => Some(self.release(&asker.source, record)),
            _ => None,
        }
    }

    /// What it is for. A command says by its first argument which one it is.
    fn work(
        &mut self,
        method: &[u8],
        arguments: &[Value],
        asker: &Asker,
        out: &mut Outbox,
        record: &Record,
    ) -> Option<Reply> {
        let first = arguments.first().cloned().unwrap_or_default();
        let ran = |ran| record.with(|state| state.arrived(number(arguments), ran));
        match method {
            b"read" => Some(Reply::result(json!({"peer": self.name, "level": self.level}))),
            b"setLevel" => {
                self.level = first;
                self.publish_state(out);
                Some(Reply::result(self.level.clone()))
            }
            b"run" => {
                ran(true);
                Some(Reply::result(json!({ "ran": first })))
            }
            b"guarded" => {
                let may = self.holder().is_some_and(|holder| *holder == asker.source);
                ran(may);
                let refusal = || Reply::error("NotInControl", "work requires authority");
                Some(if may { Reply::result(json!({ "ran": first })) } else { refusal() })
            }
            b"refuse" => {
                let code = arguments.get(1).and_then(Value::as_str).unwrap_or("Exception");
                ran(code == "Exception");
                Some(Reply::error(code, "as it was asked for"))
            }
            _ => None,
        }
    }

    /// The methods that run at once and answer after a while, with a ticket or without one.
    fn answer_later(
        &self,
        method: &[u8],
        arguments: &[Value],
        asker: &Asker,
        record: &Record,
    ) -> Option<(Option<Reply>, Vec<Due>)> {
        let wait = Duration::from_millis(arguments.get(1).and_then(Value::as_u64).unwrap_or_default());
        let due = |wait, reply| Due { at: Instant::now() + wait, to: asker.clone(), reply };
        let done = json!({ "ran": number(arguments) });
        let answer = match method {
            b"slow" => {
                self.memory.note(&asker.source, &asker.correlation, Before::Running);
                (None, vec![due(wait, Reply::result(done))])
            }
            b"later" => {
                let id = String::from_utf8_lossy(&asker.correlation).into_owned();
                let receipt = Reply::receipt(json!({"id": id, "expiresAt": in_millis(TICKET)}));
                let progress = due(wait / 2, Reply::ticket("progress", json!(50)));
                (Some(receipt), vec![progress, due(wait, Reply::ticket("resolved", done))])
            }
            _ => return None,
        };
        record.with(|state| state.arrived(number(arguments), true));
        Some(answer)
    }

    fn subscribe(&mut self, who: &[u8], event: &str, out: &mut Outbox, record: &Record) -> Reply {
        let fresh = match event {
            EVENT => self.subscribers.insert(who.to_vec()),
            "$snapshot" => {
                self.observers.insert(who.to_vec());
                self.snapshot(who, out);
                true
            }
            _ => return Reply::error("InvalidParams", "there is no such event"),
        };
        self.holds(event, who, true, record);
        Reply::result(json!(if fresh { "ok" } else { "ok - already exists" }))
    }

    fn publish_state(&mut self, out: &mut Outbox) {
        self.revision += 1;
        for observer in &self.observers {
            self.snapshot(observer, out);
        }
    }

    fn snapshot(&self, to: &[u8], out: &mut Outbox) {
        let state = json!({"level": self.level});
        let body = json!([{"epoch": self.epoch, "revision": self.revision, "props": {}, "state": state,
            "authority": {"generation": self.generation}}]);
        event(to, &self.name, "$snapshot", None, &body, out);
    }

    fn holder(&self) -> Option<&Vec<u8>> {
        self.lease.as_ref().filter(|(_, until)| *until > Instant::now()).map(|(holder, _)| holder)
    }

    fn acquire(&mut self, who: &[u8], millis: u64, record: &Record) -> Reply {
        match self.holder() {
            Some(holder) if holder != who => return Reply::error("NotInControl", "work is controlled by another"),
            Some(_) => {}
            None => self.generation += 1,
        }
        let life = Duration::from_millis(millis.clamp(1, 600_000));
        self.lease = Some((who.to_vec(), Instant::now() + life));
        self.holds("authority", who, true, record);
        let holder = String::from_utf8_lossy(who);
        Reply::result(json!({"holder": holder, "expiresAt": in_millis(life), "generation": self.generation}))
    }

    fn release(&mut self, who: &[u8], record: &Record) -> Reply {
        if self.holder().is_none_or(|holder| holder != who) {
            return Reply::result(json!("ok - was not holding"));
        }
        self.lease = None;
        self.generation += 1;
        self.holds("authority", who, false, record);
        Reply::result(json!("ok"))
    }

    /// Authority that has run out is held by nobody.
    pub(super) fn expire(&mut self, record: &Record) {
        if self.holder().is_none()
            && let Some((who, _)) = self.lease.take()
        {
            self.generation += 1;
            self.holds("authority", &who, false, record);
        }
    }
}

/// How long a later answer may take.
const TICKET: Duration = Duration::from_secs(8);

/// So long from now, in milliseconds since the Unix epoch.
fn in_millis(from_now: Duration) -> u64 {
    let then = (SystemTime::now() + from_now).duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(then.as_millis()).unwrap_or_default()
}

/// Which command it is.
fn number(arguments: &[Value]) -> u64 {
    arguments.first().and_then(Value::as_u64).unwrap_or_default()
}
