//! The peers at the other end: one answers for its description and one has none. Both give back what they were sent.

use std::thread::JoinHandle;

use super::looks;
use super::mqtt::{Arrived, Closer, Connection, Outbox, Publish};

/// The peer that describes itself, so that each call is checked against its description.
pub(super) const DESCRIBED: &str = "echo";
/// The peer that does not.
pub(super) const UNDESCRIBED: &str = "mute";
/// Where a bare request goes.
pub(super) const BARE: &str = "bench/floor";

/// Peers on a thread of their own; they leave when dropped.
#[derive(Debug)]
pub(super) struct Peers {
    closer: Option<Closer>,
    thread: Option<JoinHandle<()>>,
}

impl Peers {
    /// Joins both peers, and `crowd` more that are only seen.
    pub(super) fn join(port: u16, crowd: usize) -> Result<Self, String> {
        let mut connection = Connection::open(port, "bench-peers")?;
        connection.subscribe(BARE)?;
        for name in [DESCRIBED, UNDESCRIBED] {
            connection.subscribe(&format!("msgrpc/v2/req/{name}"))?;
            announce(&mut connection, name)?;
        }
        for number in 0..crowd {
            announce(&mut connection, &format!("peer-{number:04}"))?;
        }
        let closer = connection.closer()?;
        let serve = move || while connection.turn(answer).is_ok() {};
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

fn announce(connection: &mut Connection, name: &str) -> Result<(), String> {
    let topic = format!("msgrpc/v2/presence/{name}");
    connection.publish(&Publish { topic: topic.as_bytes(), retain: true, payload: b"online", ..Publish::default() })
}

fn answer(request: &Arrived<'_>, out: &mut Outbox) {
    let name = request.topic.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let (kind, content_type, payload): (&[u8], &[u8], &[u8]) = match request.property(b"mr-method") {
        b"" => (b"", b"", request.payload),
        // A list of one, in MessagePack: without its first byte it is the one.
        b"echo" => (b"result", b"application/msgpack", request.payload.get(1..).unwrap_or_default()),
        b"describe" if name == DESCRIBED.as_bytes() => (b"result", b"application/json", DESCRIPTION.as_bytes()),
        method => match looks::answer(method).filter(|_| name == DESCRIBED.as_bytes()) {
            Some(answer) => (b"result", b"application/json", answer),
            None => (b"error", b"application/json", REFUSAL.as_bytes()),
        },
    };
    let user: [(&[u8], &[u8]); 3] = [(b"mr-v", b"3"), (b"mr-src", name), (b"mr-kind", kind)];
    out.publish(&Publish {
        topic: request.response_topic,
        correlation: request.correlation,
        user: if kind.is_empty() { &[] } else { &user },
        content_type,
        payload,
        ..Publish::default()
    });
    if kind == b"result" && request.property(b"mr-method") == b"on" {
        looks::snapshot(request, name, out);
    }
}

pub(super) const DESCRIPTION: &str = r#"{"name":"echo","validating":true,"namespaces":[{"name":"bench","className":"Bench",
"created":false,"emitter":false,"methods":[{"name":"echo","params":[{"kind":"string"}],"paramNames":["text"],
"returns":{"kind":"string"},"semantics":"query","effect":"observe"},
{"name":"getOne","semantics":"query","effect":"observe"},{"name":"writable","semantics":"query","effect":"observe"}],
"component":{"props":{"kind":"any"},"state":{"kind":"any"}},"events":[]}],"types":{}}"#;

const REFUSAL: &str = r#"{"name":"ClassNotFound","message":"there is no namespace msgrpc"}"#;
