//! Watching at a rate: the traffic of others, and one event of a peer. Not how fast, but whether all of it is accounted for.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Plan;
use super::bridge::Bridge;
use super::broker::{Broker, Kind};
use super::mqtt::{Arrived, Closer, Connection, Outbox, Publish};

/// Frames that are listed; the rest is counted.
const LISTED: u64 = 500;
/// How long a watch may take to begin before others speak.
const LEAD: Duration = Duration::from_secs(1);
/// How often something is sent.
const TICK: Duration = Duration::from_millis(5);
/// How long a connection stays after its last word: one that closes with acknowledgements unread takes what the broker has
/// not read yet with it.
const LINGER: Duration = Duration::from_secs(1);
/// How long the last events may take to be judged.
const PATIENCE: Duration = Duration::from_secs(30);
/// The peer whose event is watched, and whom it is sent to.
const SIREN: &str = "siren";
const BRIDGE: &str = "bench-bridge";

/// What came of it.
#[derive(Debug)]
pub(super) struct Watching {
    traffic: Vec<Traffic>,
    floods: Vec<Flood>,
}

/// Calls of others, watched.
#[derive(Clone, Copy, Debug)]
struct Traffic {
    broker: Kind,
    sent: Sent,
    frames: u64,
    pairs: u64,
    unanswered: u64,
    dropped: u64,
    listed: u64,
    over_limit: u64,
    idle: f64,
    peak: f64,
}

/// An event, watched by a standing watch that is read while it fires.
#[derive(Clone, Copy, Debug)]
struct Flood {
    broker: Kind,
    sent: Sent,
    shown: u64,
    missed: u64,
    reads: u64,
    gapless: bool,
    idle: f64,
    peak: f64,
}

/// What a generator did.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    took: Duration,
}

impl Sent {
    fn rate(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
        let number = self.number as f64;
        number / self.took.as_secs_f64()
    }
}

pub(super) fn measure(binary: &Path, plan: &Plan) -> Result<Watching, String> {
    let kinds = [Kind::Unbounded, Kind::Stock];
    let traffic = kinds.into_iter().map(|kind| traffic(binary, plan, kind)).collect::<Result<_, _>>()?;
    let floods = kinds.into_iter().map(|kind| flood(binary, plan, kind)).collect::<Result<_, _>>()?;
    Ok(Watching { traffic, floods })
}

fn traffic(binary: &Path, plan: &Plan, kind: Kind) -> Result<Traffic, String> {
    let broker = Broker::start(kind)?;
    let mut bridge = Bridge::start_as(binary, broker.port, BRIDGE)?;
    bridge.tool("list_peers", "{}")?;
    let idle = bridge.resident();
    let (rate, seconds, port) = (plan.pairs, plan.seconds, broker.port);
    let talking = std::thread::spawn(move || talk(port, rate, seconds));
    let window = LEAD.as_secs() + seconds + 4;
    let arguments = format!("{{\"seconds\":{window},\"max_frames\":{LISTED},\"count_on\":true}}");
    let answer = bridge.tool("watch_traffic", &arguments)?;
    let sent = talking.join().map_err(|_| "the talkers failed")??;
    let (counts, left) = (part(&answer, "counts")?, part(&answer, "not_shown")?);
    Ok(Traffic {
        broker: kind,
        sent,
        frames: figure(counts, "frames")?,
        pairs: figure(counts, "pairs")?,
        unanswered: figure(counts, "unanswered")?,
        dropped: figure(left, "dropped")?,
        over_limit: figure(left, "over_limit")?,
        listed: figure(content(&answer)?, "matched")?,
        idle,
        peak: bridge.peak(),
    })
}

/// Two peers that exist only as frames: one calls, and a tick later the other has answered.
fn talk(port: u16, rate: u64, seconds: u64) -> Result<Sent, String> {
    let mut connection = Connection::open(port, "bench-talkers")?;
    let _unheard = connection.unheard()?;
    std::thread::sleep(LEAD);
    let (mut asked, mut answered) = (0, 0);
    let sent = paced(rate, seconds, |total| {
        let out = connection.out();
        for number in answered..asked {
            put(out, number, false);
        }
        answered = asked;
        for number in asked..total {
            put(out, number, true);
        }
        asked = total;
        connection.flush()
    })?;
    for number in answered..asked {
        put(connection.out(), number, false);
    }
    connection.flush()?;
    std::thread::sleep(LINGER);
    Ok(sent)
}

fn put(out: &mut Outbox, number: u64, call: bool) {
    let correlation = format!("talk-{number:08}");
    let user: &[(&[u8], &[u8])] = if call {
        &[
            (b"mr-v", b"3"),
            (b"mr-src", b"talker"),
            (b"mr-kind", b"call"),
            (b"mr-path", b"press"),
            (b"mr-method", b"close"),
            (b"mr-ttl", b"10000"),
        ]
    } else {
        &[(b"mr-v", b"3"), (b"mr-src", b"listener"), (b"mr-kind", b"result")]
    };
    let (topic, response_topic, payload): (&[u8], &[u8], &[u8]) = if call {
        (b"msgrpc/v2/req/listener", b"msgrpc/v2/rsp/talker", b"\x92\x07\xa8how much")
    } else {
        (b"msgrpc/v2/rsp/talker", b"", b"\xa9this much")
    };
    out.publish(&Publish {
        topic,
        unacknowledged: true,
        response_topic,
        correlation: correlation.as_bytes(),
        content_type: b"application/msgpack",
        user,
        payload,
        ..Publish::default()
    });
}

/// Calls `step` every tick with how many should have been sent by then.
fn paced(rate: u64, seconds: u64, mut step: impl FnMut(u64) -> Result<(), String>) -> Result<Sent, String> {
    let (began, whole) = (Instant::now(), Duration::from_secs(seconds));
    let number = rate * seconds;
    let mut total = 0;
    while total < number {
        let passed = began.elapsed().min(whole);
        total = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX).saturating_mul(rate) / 1_000_000;
        step(total)?;
        std::thread::sleep(TICK);
    }
    Ok(Sent { number, took: began.elapsed() })
}

fn flood(binary: &Path, plan: &Plan, kind: Kind) -> Result<Flood, String> {
    let broker = Broker::start(kind)?;
    let siren = Siren::join(broker.port)?;
    let mut bridge = Bridge::start_as(binary, broker.port, BRIDGE)?;
    bridge.tool("list_peers", "{}")?;
    let idle = bridge.resident();
    let watch = format!("{{\"peer\":\"{SIREN}\",\"namespace\":\"siren\",\"event\":\"wail\"}}");
    let answer = bridge.tool("start_watch", &watch)?;
    let watch = text(&answer, "watch")?.to_owned();
    let (rate, seconds, port, fired) = (plan.events, plan.seconds, broker.port, siren.fired.clone());
    let firing = std::thread::spawn(move || wail(port, rate, seconds, &fired));
    let (mut shown, mut missed, mut reads, mut gapless) = (0, 0, 0, true);
    let (mut judged, mut ended) = (0, None);
    let mut arguments = format!("{{\"watch\":\"{watch}\",\"limit\":500}}");
    loop {
        let over = firing.is_finished();
        if over {
            ended.get_or_insert_with(Instant::now);
        }
        let answer = bridge.tool("read_watch", &arguments)?;
        let content = content(&answer)?;
        shown += content.matches("\"seq\":").count() as u64;
        let loss = part(&answer, "loss_detail")?;
        missed += figure(loss, "missed")?;
        gapless &= loss.contains("\"verdict\":\"gapless\"") || loss.contains("\"verdict\":\"first\"");
        reads += 1;
        arguments = format!("{{\"watch\":\"{watch}\",\"limit\":500,\"after\":\"{}\"}}", text(&answer, "cursor")?);
        // Where the peer did not say in time how far it counted, the end is not judged yet: it is asked again.
        judged = judged.max(figure(loss, "to").unwrap_or(0));
        let known = judged == rate * seconds || ended.is_some_and(|ended: Instant| ended.elapsed() > PATIENCE);
        if over && known && figure(content, "more")? == 0 {
            break;
        }
    }
    let sent = firing.join().map_err(|_| "the siren failed")??;
    Ok(Flood { broker: kind, sent, shown, missed, reads, gapless, idle, peak: bridge.peak() })
}

/// Fires the event, counted before it is sent.
fn wail(port: u16, rate: u64, seconds: u64, fired: &AtomicU64) -> Result<Sent, String> {
    let mut connection = Connection::open(port, "bench-siren-events")?;
    let _unheard = connection.unheard()?;
    let topic = format!("msgrpc/v2/evt/{BRIDGE}");
    let sent = paced(rate, seconds, |total| {
        for seq in fired.load(Ordering::SeqCst) + 1..=total {
            fired.store(seq, Ordering::SeqCst);
            let number = seq.to_string();
            let user: [(&[u8], &[u8]); 7] = [
                (b"mr-v", b"3"),
                (b"mr-src", SIREN.as_bytes()),
                (b"mr-kind", b"event"),
                (b"mr-path", b"siren"),
                (b"mr-event", b"wail"),
                (b"mr-seq", number.as_bytes()),
                (b"mr-epoch", b"e1"),
            ];
            connection.out().publish(&Publish {
                topic: topic.as_bytes(),
                content_type: b"application/msgpack",
                user: &user,
                payload: b"\x91\x01",
                ..Publish::default()
            });
        }
        connection.flush()
    })?;
    std::thread::sleep(LINGER);
    Ok(sent)
}

/// The peer that fires: what it is asked it answers on a thread of its own.
struct Siren {
    fired: Arc<AtomicU64>,
    closer: Option<Closer>,
    thread: Option<JoinHandle<()>>,
}

impl Siren {
    fn join(port: u16) -> Result<Self, String> {
        let mut connection = Connection::open(port, "bench-siren")?;
        connection.subscribe(&format!("msgrpc/v2/req/{SIREN}"))?;
        let presence = format!("msgrpc/v2/presence/{SIREN}");
        let online = Publish { topic: presence.as_bytes(), retain: true, payload: b"online", ..Publish::default() };
        connection.publish(&online)?;
        let (closer, fired) = (connection.closer()?, Arc::new(AtomicU64::new(0)));
        let count = fired.clone();
        let serve = move || while connection.turn(|request, out| answer(request, out, &count)).is_ok() {};
        Ok(Self { fired, closer: Some(closer), thread: Some(std::thread::spawn(serve)) })
    }
}

impl Drop for Siren {
    fn drop(&mut self) {
        drop(self.closer.take());
        // A thread that panicked has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(request: &Arrived<'_>, out: &mut Outbox, fired: &AtomicU64) {
    let cursor = format!("{{\"epoch\":\"e1\",\"seq\":{},\"since\":1}}", fired.load(Ordering::SeqCst));
    let (kind, payload): (&[u8], &[u8]) = match request.property(b"mr-method") {
        b"on" | b"off" => (b"result", b"\"ok\""),
        b"eventCursor" => (b"result", cursor.as_bytes()),
        _ => (b"error", br#"{"name":"ClassNotFound","message":"there is no such thing"}"#),
    };
    let code: &[(&[u8], &[u8])] = if kind == b"error" { &[(b"mr-code", b"ClassNotFound")] } else { &[] };
    let user: [(&[u8], &[u8]); 3] = [(b"mr-v", b"3"), (b"mr-src", SIREN.as_bytes()), (b"mr-kind", kind)];
    out.publish(&Publish {
        topic: request.response_topic,
        correlation: request.correlation,
        user: &[&user[..], code].concat(),
        content_type: b"application/json",
        payload,
        ..Publish::default()
    });
}

impl Watching {
    /// What must be so on any machine, and at any rate.
    pub(super) fn judge(&self) -> Result<(), String> {
        let mut wrong = Vec::new();
        let mut must = |so: bool, what: String| {
            if !so {
                wrong.push(what);
            }
        };
        for Traffic { broker, sent, frames, pairs, unanswered, dropped, listed, over_limit, .. } in &self.traffic {
            let number = 2 * sent.number;
            // What a stock broker does not deliver nobody can count but the broker.
            let all = *broker == Kind::Unbounded;
            must(frames + dropped <= number, format!("{frames} heard and {dropped} dropped of {number}"));
            must(!all || frames + dropped == number, format!("only {frames} heard and {dropped} dropped of {number}"));
            // What is dropped on a machine that is too slow is counted, and nothing is said about its pairs.
            let all = all && *dropped == 0;
            let paired = *pairs == sent.number && *unanswered == 0;
            must(!all || paired, format!("{pairs} of {} calls were paired", sent.number));
            must(listed + over_limit == *frames && *listed <= LISTED, format!("{listed} listed, {over_limit} not"));
        }
        for flood in &self.floods {
            let (shown, missed, number) = (flood.shown, flood.missed, flood.sent.number);
            must(shown + missed == number, format!("{shown} events shown and {missed} missed of {number}"));
            must(!flood.gapless || missed == 0, format!("gapless was said, and {missed} events were missed"));
        }
        if wrong.is_empty() { Ok(()) } else { Err(format!("watching lost count: {}", wrong.join("; "))) }
    }
}

impl fmt::Display for Watching {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "| traffic of others | sent | heard | paired | dropped here | listed | memory before, peak |")?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
        for Traffic { broker, sent, frames, pairs, dropped, listed, idle, peak, .. } in &self.traffic {
            let (queue, rate, took, number) = (queue(*broker), sent.rate(), sent.took.as_secs_f64(), 2 * sent.number);
            writeln!(
                out,
                "| {queue}, {rate:.0} calls a second for {took:.1} s | {number} frames | {frames} | {pairs} | {dropped} | {listed} | {idle:.1}, {peak:.1} MiB |"
            )?;
        }
        writeln!(out)?;
        writeln!(
            out,
            "| an event on a standing watch | fired | shown | reported as missed | reads | memory before, peak |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
        for flood in &self.floods {
            let queue = queue(flood.broker);
            let Flood { sent, shown, missed, reads, idle, peak, .. } = flood;
            let (rate, took, number) = (sent.rate(), sent.took.as_secs_f64(), sent.number);
            writeln!(
                out,
                "| {queue}, {rate:.0} a second for {took:.1} s | {number} | {shown} | {missed} | {reads} | {idle:.1}, {peak:.1} MiB |"
            )?;
        }
        Ok(())
    }
}

const fn queue(broker: Kind) -> &'static str {
    match broker {
        Kind::Unbounded => "unbounded queue",
        Kind::Stock => "stock broker",
        Kind::Tuned => "tuned broker",
    }
}

/// The structured part of an answer.
fn content(answer: &str) -> Result<&str, String> {
    answer.split_once("\"structuredContent\":").map(|(_, rest)| rest).ok_or_else(|| format!("no content: {answer}"))
}

/// What follows a member of the structured part.
fn part<'a>(answer: &'a str, name: &str) -> Result<&'a str, String> {
    let member = format!("\"{name}\":");
    let found = content(answer)?.split_once(&member);
    found.map(|(_, rest)| rest).ok_or_else(|| format!("no {name}: {answer}"))
}

/// The first number of that name.
fn figure(text: &str, name: &str) -> Result<u64, String> {
    let member = format!("\"{name}\":");
    let found = text.split_once(&member).map(|(_, rest)| rest);
    let digits: String = found.unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().map_err(|_| format!("no number {name}: {text}"))
}

/// The first text of that name.
fn text<'a>(answer: &'a str, name: &str) -> Result<&'a str, String> {
    let found = part(answer, name)?.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    found.map(|(text, _)| text).ok_or_else(|| format!("no text {name}: {answer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let answer =
            r#"{"text":"{\"pairs\": 1}","structuredContent":{"counts":{"frames":12,"pairs":5},"watch":"w-1"}}"#;
        let counts = part(answer, "counts").unwrap();
        assert_eq!((figure(counts, "frames"), figure(counts, "pairs")), (Ok(12), Ok(5)));
        assert_eq!(text(answer, "watch"), Ok("w-1"));
        assert!(figure(counts, "x").is_err() && part(answer, "x").is_err() && text(answer, "counts").is_err());
    }
}
