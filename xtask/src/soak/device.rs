//! A peer of the plant without its connection: what it answers, emits and remembers, after semantics.md and in code that the
//! bridge shares nothing with. What it does is written into the record, which is how the bridge's word is checked.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::pack;
use super::record::Record;
use super::say::{Reply, event, reply};
use crate::bench::mqtt::{Arrived, Outbox};

/// What a peer serves.
pub(super) const SPACE: &str = "work";
/// What it emits.
pub(super) const EVENT: &str = "tick";

/// The answers a name gave, under who asked and how; they outlive its incarnations, as a store does, so that what comes again
/// after a crash is known again.
pub(super) type Memory = Arc<Mutex<Answers>>;

#[derive(Debug, Default)]
pub(super) struct Answers {
    /// None while it is being worked on.
    known: HashMap<(Vec<u8>, Vec<u8>), Option<Reply>>,
    order: VecDeque<(Vec<u8>, Vec<u8>)>,
}

/// More than a peer must remember (W-060).
const REMEMBERED: usize = 4_000;

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
        if let Some(known) = self.known(&asker) {
            record.with(|state| state.repeats += 1);
            if let Some(known) = known {
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

    fn known(&self, asker: &Asker) -> Option<Option<Reply>> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.known.get(&(asker.source.clone(), asker.correlation.clone())).cloned()
    }

    fn note(&self, asker: &Asker, answer: Option<Reply>) {
        let key = (asker.source.clone(), asker.correlation.clone());
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.known.insert(key.clone(), answer).is_none() {
            memory.order.push_back(key);
        }
        if memory.order.len() > REMEMBERED
            && let Some(oldest) = memory.order.pop_front()
        {
            memory.known.remove(&oldest);
        }
    }

    fn give(&self, to: &Asker, answer: Reply, out: &mut Outbox) {
        reply(&to.topic, &to.correlation, &self.name, &answer, out);
        if answer.is_remembered() {
            self.note(to, Some(answer));
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
        let first = arguments.first().cloned().unwrap_or_default();
        let space = String::from_utf8_lossy(message.property(b"mr-path")).into_owned();
        let method = String::from_utf8_lossy(message.property(b"mr-method")).into_owned();
        let number = first.as_u64().unwrap_or_default();
        let wait = Duration::from_millis(arguments.get(1).and_then(Value::as_u64).unwrap_or_default());
        let ran = |ran| record.with(|state| state.arrived(number, ran));
        let now = Reply::result;
        let answer = match (space.as_str(), method.as_str()) {
            ("msgrpc", "describe") => now(description(&self.name)),
            ("msgrpc", "eventCursor") => now(json!({"epoch": self.epoch, "seq": self.count, "since": 1})),
            (SPACE, "on") => self.subscribe(&asker.source, first.as_str().unwrap_or_default(), out, record),
            (SPACE, "off") => {
                let (held, who) = if first == EVENT {
                    (self.subscribers.remove(&asker.source), EVENT)
                } else {
                    (self.observers.remove(&asker.source), "$snapshot")
                };
                self.holds(who, &asker.source, false, record);
                now(json!(if held { "ok" } else { "ok - was not subscribed" }))
            }
            (SPACE, "$acquire") => self.acquire(&asker.source, number, record),
            (SPACE, "$release") => self.release(&asker.source, record),
            (SPACE, "read") => now(json!({"peer": self.name, "level": self.level})),
            (SPACE, "setLevel") => {
                self.level = first;
                self.publish_state(out);
                now(self.level.clone())
            }
            (SPACE, "run") => {
                ran(true);
                now(json!({ "ran": number }))
            }
            (SPACE, "guarded") => {
                let may = self.holder().is_some_and(|holder| *holder == asker.source);
                ran(may);
                if may {
                    now(json!({ "ran": number }))
                } else {
                    Reply::error("NotInControl", "work requires authority")
                }
            }
            (SPACE, "refuse") => {
                let code = arguments.get(1).and_then(Value::as_str).unwrap_or("Exception");
                ran(code == "Exception");
                Reply::error(code, "as it was asked for")
            }
            (SPACE, "slow") => {
                ran(true);
                self.note(asker, None);
                return (None, vec![self.due(asker, wait, now(json!({ "ran": number })))]);
            }
            (SPACE, "later") => {
                ran(true);
                let id = String::from_utf8_lossy(&asker.correlation).into_owned();
                let expires = SystemTime::now() + TICKET;
                let expires = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                let receipt =
                    Reply::receipt(json!({"id": id, "expiresAt": u64::try_from(expires).unwrap_or_default()}));
                let progress = Reply::ticket("progress", json!(50));
                let end = Reply::ticket("resolved", json!({ "ran": number }));
                return (Some(receipt), vec![self.due(asker, wait / 2, progress), self.due(asker, wait, end)]);
            }
            (SPACE | "msgrpc", _) => Reply::error("MethodNotFound", &format!("{space}.{method} is not exposed")),
            _ => Reply::error("ClassNotFound", &format!("{space}.{method} is not exposed")),
        };
        (Some(answer), Vec::new())
    }

    fn due(&self, asker: &Asker, wait: Duration, reply: Reply) -> Due {
        Due { at: Instant::now() + wait, to: asker.clone(), reply }
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
        let expires = SystemTime::now() + life;
        let expires = expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Reply::result(json!({"holder": String::from_utf8_lossy(who),
            "expiresAt": u64::try_from(expires).unwrap_or_default(), "generation": self.generation}))
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

fn description(name: &str) -> Value {
    let number = json!({"kind": "number"});
    let text = json!({"kind": "string"});
    let method = |name: &str, params: &[&Value], semantics: &str| {
        json!({"name": name, "params": params, "returns": {"kind": "any"}, "semantics": semantics,
            "effect": if semantics == "query" { "observe" } else { "operate" }})
    };
    let command = "non-repeatable-command";
    let mut guarded = method("guarded", &[&number], command);
    let mut sets = method("setLevel", &[&number], "idempotent-command");
    if let (Some(guarded), Some(sets)) = (guarded.as_object_mut(), sets.as_object_mut()) {
        guarded.insert("requiresAuthority".to_owned(), json!(true));
        sets.insert("sets".to_owned(), json!("level"));
    }
    let methods = json!([
        guarded,
        method("later", &[&number, &number], command),
        method("read", &[], "query"),
        method("refuse", &[&number, &text], command),
        method("run", &[&number], command),
        sets,
        method("slow", &[&number, &number], command),
    ]);
    let state = json!({"kind": "object", "fields": {"level": {"type": number}}});
    let props = json!({"kind": "object", "fields": {}});
    json!({"name": name, "validating": false, "types": {}, "namespaces": [{
        "name": SPACE, "className": "Work", "created": false, "emitter": true, "methods": methods,
        "component": {"props": props, "state": state, "subscribers": 0},
        "events": [{"name": EVENT, "params": [text, number], "subscribers": 0}],
    }]})
}
