//! As much of MQTT 5 as a bare request and response need: blocking, QoS 1, one write for all that one read brought about.
//!
//! The socket is set up as the bridge's: no delay, and quick acknowledgement armed again after every read. It is trusted:
//! a broker of our own is at the other end.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt;

/// A connection to a broker.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    /// Where one read goes.
    piece: Vec<u8>,
    inbox: Vec<u8>,
    out: Outbox,
    /// Whether a read that waited in vain is a turn in which nothing came.
    idle: bool,
}

/// What is written with the next flush.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    last_id: u16,
}

/// A message to publish, at QoS 1 unless it says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Publish<'a> {
    pub(crate) topic: &'a [u8],
    pub(crate) retain: bool,
    /// At QoS 0: nobody acknowledges it.
    pub(crate) unacknowledged: bool,
    pub(crate) response_topic: &'a [u8],
    pub(crate) correlation: &'a [u8],
    pub(crate) content_type: &'a [u8],
    pub(crate) user: &'a [(&'a [u8], &'a [u8])],
    pub(crate) payload: &'a [u8],
}

/// A message that arrived.
#[derive(Debug, Default)]
pub(crate) struct Arrived<'a> {
    pub(crate) topic: &'a [u8],
    pub(crate) response_topic: &'a [u8],
    pub(crate) correlation: &'a [u8],
    pub(crate) user: Vec<(&'a [u8], &'a [u8])>,
    pub(crate) payload: &'a [u8],
}

impl Arrived<'_> {
    /// The value of a user property; empty if it is not there.
    pub(crate) fn property(&self, name: &[u8]) -> &[u8] {
        self.user.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).unwrap_or_default()
    }
}

impl Connection {
    /// Connects with a clean start and waits for the CONNACK.
    pub(crate) fn open(port: u16, client: &str) -> Result<Self, String> {
        Self::open_with(port, client, None)
    }

    /// The same with a will: what is published, retained, to a topic if the connection ends without a farewell.
    pub(crate) fn open_with(port: u16, client: &str, will: Option<(&str, &[u8])>) -> Result<Self, String> {
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| error.to_string())?;
        let prepared = socket.set_nodelay(true).and_then(|()| socket.set_read_timeout(Some(PATIENCE)));
        prepared.map_err(|error| error.to_string())?;
        let mut connection =
            Self { socket, piece: vec![0; 64 * 1024], inbox: Vec::new(), out: Outbox::default(), idle: false };
        // Version 5, a clean start, no keep-alive, no properties.
        let mut body = b"\x00\x04MQTT\x05".to_vec();
        body.extend_from_slice(&[if will.is_some() { CLEAN | WILL } else { CLEAN }, 0, 0, 0]);
        text(&mut body, client.as_bytes());
        if let Some((topic, payload)) = will {
            body.push(0);
            text(&mut body, topic.as_bytes());
            text(&mut body, payload);
        }
        packet(&mut connection.out.bytes, CONNECT, &body);
        connection.exchange(CONNACK)?;
        Ok(connection)
    }

    /// Subscribes at QoS 1 and waits for the acknowledgement; what comes with it is not heard.
    pub(crate) fn subscribe(&mut self, filter: &str) -> Result<(), String> {
        self.ask(filter);
        self.exchange(SUBACK)
    }

    /// Subscribes at QoS 1 with the next flush, and waits for nothing: what is retained there comes with a turn.
    pub(crate) fn ask(&mut self, filter: &str) {
        let mut body = self.out.id().to_be_bytes().to_vec();
        body.push(0);
        text(&mut body, filter.as_bytes());
        body.push(1);
        packet(&mut self.out.bytes, SUBSCRIBE, &body);
    }

    /// Publishes and waits for the acknowledgement.
    pub(crate) fn publish(&mut self, message: &Publish<'_>) -> Result<(), String> {
        self.out.publish(message);
        self.exchange(PUBACK)
    }

    /// Where to put what is to be written.
    pub(crate) fn out(&mut self) -> &mut Outbox {
        &mut self.out
    }

    /// Writes all that was put out, at once.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        if self.out.bytes.is_empty() {
            return Ok(());
        }
        let written = self.socket.write_all(&self.out.bytes);
        self.out.bytes.clear();
        written.map_err(|error| format!("write to the broker: {error}"))
    }

    /// Reads once, acknowledges and hands over every message that is complete, then writes what came of it.
    pub(crate) fn turn(&mut self, mut handle: impl FnMut(&Arrived<'_>, &mut Outbox)) -> Result<(), String> {
        self.read(|kind, body, out| {
            if kind & 0xF0 == PUBLISH {
                let (id, message) = arrived(kind, body)?;
                if let Some(id) = id {
                    packet(&mut out.bytes, PUBACK, &id.to_be_bytes());
                }
                handle(&message, out);
            }
            Some(())
        })?;
        self.flush()
    }

    /// From now on a turn lasts so long at most, and may bring nothing.
    pub(crate) fn paced(&mut self, turn: Duration) -> Result<(), String> {
        self.idle = true;
        self.socket.set_read_timeout(Some(turn)).map_err(|error| error.to_string())
    }

    /// A second handle that ends every read of this connection.
    pub(crate) fn closer(&self) -> Result<Closer, String> {
        // Whoever closes it from outside also decides how long it may wait.
        let handle = self.socket.set_read_timeout(None).and_then(|()| self.socket.try_clone());
        handle.map(Closer).map_err(|error| error.to_string())
    }

    /// Reads on a thread of its own and looks at nothing of it, so that writing never waits for what the broker says.
    pub(crate) fn unheard(&self) -> Result<Unheard, String> {
        let closer = self.closer()?;
        let mut socket = self.socket.try_clone().map_err(|error| error.to_string())?;
        let read = move || {
            let mut piece = vec![0; 64 * 1024];
            while socket.read(&mut piece).is_ok_and(|count| count > 0) {}
        };
        Ok(Unheard { closer: Some(closer), thread: Some(std::thread::spawn(read)) })
    }

    fn exchange(&mut self, wanted: u8) -> Result<(), String> {
        self.flush()?;
        let mut seen = false;
        while !seen {
            self.read(|kind, _, _| {
                seen |= kind == wanted;
                Some(())
            })?;
        }
        Ok(())
    }

    fn read(&mut self, mut each: impl FnMut(u8, &[u8], &mut Outbox) -> Option<()>) -> Result<(), String> {
        let count = match self.socket.read(&mut self.piece) {
            Err(error) if self.idle && matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(());
            }
            count => count.map_err(|error| format!("read from the broker: {error}"))?,
        };
        let _ = sockopt::set_tcp_quickack(&self.socket, true);
        if count == 0 {
            return Err("the broker closed the connection".to_owned());
        }
        self.inbox.extend_from_slice(self.piece.get(..count).unwrap_or_default());
        let mut rest = self.inbox.as_slice();
        while let Some((kind, body, after)) = split(rest) {
            each(kind, body, &mut self.out).ok_or("the broker sent something malformed")?;
            rest = after;
        }
        let taken = self.inbox.len() - rest.len();
        self.inbox.drain(..taken);
        Ok(())
    }
}

/// Ends a connection from outside.
#[derive(Debug)]
pub(crate) struct Closer(TcpStream);

impl Drop for Closer {
    fn drop(&mut self) {
        // A broker that has gone has closed it already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A connection whose incoming side nobody listens to; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Unheard {
    closer: Option<Closer>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Unheard {
    fn drop(&mut self) {
        drop(self.closer.take());
        // A thread that panicked has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Outbox {
    /// Puts a message out.
    pub(crate) fn publish(&mut self, message: &Publish<'_>) {
        let mut properties = Vec::with_capacity(256);
        for (code, value) in [
            (CONTENT_TYPE, message.content_type),
            (RESPONSE_TOPIC, message.response_topic),
            (CORRELATION, message.correlation),
        ] {
            if !value.is_empty() {
                properties.push(code);
                text(&mut properties, value);
            }
        }
        for (name, value) in message.user {
            properties.push(USER_PROPERTY);
            text(&mut properties, name);
            text(&mut properties, value);
        }
        let mut body = Vec::with_capacity(properties.len() + message.topic.len() + message.payload.len() + 8);
        text(&mut body, message.topic);
        let qos = if message.unacknowledged { 0 } else { QOS_1 };
        if qos == QOS_1 {
            body.extend_from_slice(&self.id().to_be_bytes());
        }
        length(&mut body, properties.len());
        body.extend_from_slice(&properties);
        body.extend_from_slice(message.payload);
        packet(&mut self.bytes, PUBLISH | qos | u8::from(message.retain), &body);
    }

    fn id(&mut self) -> u16 {
        self.last_id = self.last_id.checked_add(1).unwrap_or(1);
        self.last_id
    }
}

/// The first packet: its kind, its body, what follows. `None` while it is not complete.
fn split(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (size, rest) = varint(rest)?;
    let (body, rest) = rest.split_at_checked(size)?;
    Some((*kind, body, rest))
}

/// A PUBLISH: its packet number, if it wants to be acknowledged, and what it carries.
fn arrived(kind: u8, body: &[u8]) -> Option<(Option<u16>, Arrived<'_>)> {
    let (topic, mut rest) = field(body)?;
    let id = if kind & QOS_1 == 0 {
        None
    } else {
        let (id, after) = rest.split_first_chunk()?;
        rest = after;
        Some(u16::from_be_bytes(*id))
    };
    let (size, rest) = varint(rest)?;
    let (mut properties, payload) = rest.split_at_checked(size)?;
    let mut message = Arrived { topic, payload, ..Arrived::default() };
    while let Some((code, rest)) = properties.split_first() {
        properties = match *code {
            RESPONSE_TOPIC => field(rest).map(|(value, rest)| (message.response_topic = value, rest).1)?,
            CORRELATION => field(rest).map(|(value, rest)| (message.correlation = value, rest).1)?,
            CONTENT_TYPE => field(rest)?.1,
            USER_PROPERTY => {
                let (name, rest) = field(rest)?;
                let (value, rest) = field(rest)?;
                message.user.push((name, value));
                rest
            }
            PAYLOAD_FORMAT => rest.get(1..)?,
            EXPIRY => rest.get(4..)?,
            _ => return None,
        };
    }
    Some((id, message))
}

/// A field with two bytes of length before it.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u16::from_be_bytes(*size).into())
}

fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

fn text(into: &mut Vec<u8>, value: &[u8]) {
    into.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
    into.extend_from_slice(value);
}

fn length(into: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = u8::try_from(value & 0x7F).unwrap_or_default();
        value >>= 7;
        into.push(if value == 0 { low } else { low | 0x80 });
        if value == 0 {
            return;
        }
    }
}

fn packet(into: &mut Vec<u8>, kind: u8, body: &[u8]) {
    into.push(kind);
    length(into, body.len());
    into.extend_from_slice(body);
}

const CONNECT: u8 = 0x10;
const CLEAN: u8 = 0x02;
/// A will at QoS 1, retained.
const WILL: u8 = 0x2C;
const CONNACK: u8 = 0x20;
const PUBLISH: u8 = 0x30;
const PUBACK: u8 = 0x40;
const SUBSCRIBE: u8 = 0x82;
const SUBACK: u8 = 0x90;
const QOS_1: u8 = 0x02;

const PAYLOAD_FORMAT: u8 = 0x01;
const EXPIRY: u8 = 0x02;
const CONTENT_TYPE: u8 = 0x03;
const RESPONSE_TOPIC: u8 = 0x08;
const CORRELATION: u8 = 0x09;
const USER_PROPERTY: u8 = 0x26;

/// How long a broker may take to answer. Nothing takes this long when all is well.
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Outbox::default();
        let user: &[(&[u8], &[u8])] = &[(b"mr-kind", b"call"), (b"mr-method", b"echo")];
        let payload = [7; 300];
        let message = Publish {
            topic: b"a/b",
            response_topic: b"c",
            correlation: b"42",
            content_type: b"text",
            user,
            payload: &payload,
            ..Publish::default()
        };
        out.publish(&message);
        let cut = out.bytes.len() - 1;
        assert!(split(&out.bytes[..cut]).is_none(), "not complete");
        let (kind, body, rest) = split(&out.bytes).unwrap();
        let (id, read) = arrived(kind, body).unwrap();
        assert_eq!((id, rest), (Some(1), &b""[..]));
        assert_eq!((read.topic, read.response_topic, read.correlation), (&b"a/b"[..], &b"c"[..], &b"42"[..]));
        assert_eq!((read.property(b"mr-method"), read.property(b"x")), (&b"echo"[..], &b""[..]));
        assert_eq!(read.payload, payload);
    }
}
