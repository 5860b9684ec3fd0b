//! The peers and the bare caller on a broker.

use std::thread::JoinHandle;

use super::Caller;
use super::peer::{Answers, EPOCH, Said, Then, names};
use super::verb::Exchange;
use crate::bench::mqtt::{Arrived, Closer, Connection, Outbox, Publish};

/// The peers, on a thread of their own; they leave when dropped.
#[derive(Debug)]
pub(super) struct Peers {
    closer: Option<Closer>,
    thread: Option<JoinHandle<()>>,
}

impl Peers {
    pub(super) fn join(port: u16) -> Result<Self, String> {
        let mut connection = Connection::open(port, "bench-peers")?;
        for name in names() {
            connection.subscribe(&format!("msgrpc/v2/req/{name}"))?;
            let topic = format!("msgrpc/v2/presence/{name}");
            let online = Publish { topic: topic.as_bytes(), retain: true, payload: b"online", ..Publish::default() };
            connection.publish(&online)?;
        }
        let closer = connection.closer()?;
        let mut answers = Answers::default();
        let serve = move || while connection.turn(|request, out| answer(request, out, &mut answers)).is_ok() {};
        Ok(Self { closer: Some(closer), thread: Some(std::thread::spawn(serve)) })
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        drop(self.closer.take());
        // A thread that panicked has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(request: &Arrived<'_>, out: &mut Outbox, answers: &mut Answers) {
    let name = request.topic.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let word = |name: &[u8]| String::from_utf8_lossy(request.property(name)).into_owned();
    let Said { kind, deferred, body, then } =
        answers.say(&String::from_utf8_lossy(name), &word(b"mr-method"), request.payload);
    let mut user: Vec<(&[u8], &[u8])> = vec![(b"mr-v", b"3"), (b"mr-src", name), (b"mr-kind", kind.as_bytes())];
    if deferred {
        user.push((b"mr-deferred", b"1"));
    }
    let to_caller = Publish {
        topic: request.response_topic,
        correlation: request.correlation,
        content_type: b"application/json",
        ..Publish::default()
    };
    out.publish(&Publish { user: &user, payload: body.as_bytes(), ..to_caller });
    match then {
        None => {}
        Some(Then::Ticket(body)) => {
            let user: [(&[u8], &[u8]); 4] =
                [(b"mr-v", b"3"), (b"mr-src", name), (b"mr-kind", b"ticket"), (b"mr-outcome", b"resolved")];
            out.publish(&Publish { user: &user, payload: body.as_bytes(), ..to_caller });
        }
        Some(Then::Event { event, body, seq }) => {
            let topic = [b"msgrpc/v2/evt/", request.property(b"mr-src")].concat();
            let seq = seq.map(|seq| seq.to_string());
            let mut user: Vec<(&[u8], &[u8])> = vec![
                (b"mr-v", b"3"),
                (b"mr-src", name),
                (b"mr-kind", b"event"),
                (b"mr-path", b"bench"),
                (b"mr-event", event.as_bytes()),
            ];
            if let Some(seq) = &seq {
                user.extend([(&b"mr-seq"[..], seq.as_bytes()), (b"mr-epoch", EPOCH.as_bytes())]);
            }
            let event = Publish { topic: &topic, user: &user, correlation: b"", payload: body.as_bytes(), ..to_caller };
            out.publish(&event);
        }
    }
}

/// A caller without a bridge.
#[derive(Debug)]
pub(super) struct Floor {
    connection: Connection,
    next: u64,
}

impl Floor {
    pub(super) fn join(port: u16) -> Result<Self, String> {
        let mut connection = Connection::open(port, NAME)?;
        connection.subscribe(&format!("msgrpc/v2/evt/{NAME}"))?;
        connection.subscribe(REPLIES)?;
        Ok(Self { connection, next: 0 })
    }
}

impl Caller for Floor {
    fn exchange(&mut self, peer: &str, exchange: &Exchange) -> Result<(), String> {
        let Exchange { path, method, args, arrive } = exchange;
        self.next += 1;
        // As long as the ids that peers draw.
        let correlation = format!("{:036}", self.next);
        let user: [(&[u8], &[u8]); 5] = [
            (b"mr-v", b"3"),
            (b"mr-src", NAME.as_bytes()),
            (b"mr-kind", exchange.kind().as_bytes()),
            (b"mr-path", path.as_bytes()),
            (b"mr-method", method.as_bytes()),
        ];
        self.connection.out().publish(&Publish {
            topic: format!("msgrpc/v2/req/{peer}").as_bytes(),
            response_topic: REPLIES.as_bytes(),
            correlation: correlation.as_bytes(),
            content_type: b"application/json",
            user: &user,
            payload: args.as_bytes(),
            ..Publish::default()
        });
        self.connection.flush()?;
        let (mut arrived, mut wrong) = (0, None);
        while arrived < *arrive {
            self.connection.turn(|message, _| {
                let is_reply = message.topic == REPLIES.as_bytes();
                if is_reply && message.correlation != correlation.as_bytes() {
                    return;
                }
                arrived += 1;
                if message.property(b"mr-kind") == b"error" {
                    wrong = Some(String::from_utf8_lossy(message.payload).into_owned());
                }
            })?;
        }
        wrong.map_or(Ok(()), |why| Err(format!("{peer} refused {path}.{method}: {why}")))
    }
}

const NAME: &str = "bench-floor";
const REPLIES: &str = "msgrpc/v2/rsp/bench-floor";
