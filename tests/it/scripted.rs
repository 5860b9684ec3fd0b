//! A broker that does what a test says: it accepts connections, reads whole packets and writes the bytes it is given.

use std::time::Duration;

use plantbridge::wire::mqtt::Publish;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Far longer than anything here takes; only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Broker {
    listener: TcpListener,
}

impl Broker {
    pub(crate) async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    pub(crate) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port())
    }

    /// The next connection, nothing read yet.
    pub(crate) async fn accept(&self) -> Wire {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.expect("nobody connects").unwrap();
        stream.set_nodelay(true).unwrap();
        Wire { stream }
    }

    /// The next connection, joined: every subscription granted, the announcement acknowledged.
    pub(crate) async fn join(&self) -> Wire {
        let mut wire = self.accept().await;
        wire.greet(CONNACK).await;
        wire.grant_all().await;
        wire
    }
}

pub(crate) const CONNACK: &[u8] = &[0x20, 3, 0, 0, 0];

/// One connection, seen from the broker.
pub(crate) struct Wire {
    stream: TcpStream,
}

/// One packet: its first byte and what follows the length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) first: u8,
    pub(crate) body: Vec<u8>,
}

impl Packet {
    pub(crate) const fn kind(&self) -> u8 {
        self.first >> 4
    }

    /// The whole packet again.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        packet(self.first, &self.body)
    }

    /// The packet number of anything but a PUBLISH.
    pub(crate) fn number(&self) -> u16 {
        u16::from_be_bytes([self.body[0], self.body[1]])
    }

    /// A PUBLISH, read.
    pub(crate) fn publish(&self) -> Published {
        assert_eq!(self.kind(), 3, "not a PUBLISH: {self:?}");
        let mut at = Cursor { bytes: &self.body };
        let topic = at.text();
        let number = if self.first & 6 == 0 { 0 } else { at.u16() };
        let length = at.length();
        let properties = at.take(length).to_vec();
        Published {
            retain: self.first & 1 == 1,
            qos: self.first >> 1 & 3,
            topic,
            number,
            properties,
            payload: at.bytes.to_vec(),
        }
    }
}

/// What a PUBLISH says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) retain: bool,
    pub(crate) qos: u8,
    pub(crate) topic: String,
    pub(crate) number: u16,
    pub(crate) properties: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        head
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    pub(crate) fn text(&mut self) -> String {
        let length = usize::from(self.u16());
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    pub(crate) fn length(&mut self) -> usize {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.u8();
            value |= usize::from(byte & 0x7F) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
}

impl Wire {
    /// The next packet; `None` at the end of the stream, orderly or not.
    pub(crate) async fn try_packet(&mut self) -> Option<Packet> {
        let read = async {
            let first = self.stream.read_u8().await.ok()?;
            let (mut length, mut shift) = (0, 0);
            loop {
                let byte = self.stream.read_u8().await.ok()?;
                length |= usize::from(byte & 0x7F) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            let mut body = vec![0; length];
            self.stream.read_exact(&mut body).await.ok()?;
            Some(Packet { first, body })
        };
        timeout(PATIENCE, read).await.expect("the client says nothing")
    }

    pub(crate) async fn packet(&mut self) -> Packet {
        self.try_packet().await.expect("the client closed")
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Reads CONNECT and answers with `connack`.
    pub(crate) async fn greet(&mut self, connack: &[u8]) -> Packet {
        let connect = self.packet().await;
        assert_eq!(connect.kind(), 1);
        self.send(connack).await;
        connect
    }

    /// Reads one SUBSCRIBE and answers with `reason`.
    pub(crate) async fn answer_subscribe(&mut self, reason: u8) -> Packet {
        let subscribe = self.packet().await;
        assert_eq!(subscribe.kind(), 8, "{subscribe:?}");
        let [high, low] = subscribe.number().to_be_bytes();
        self.send(&[0x90, 4, high, low, 0, reason]).await;
        subscribe
    }

    /// Grants the four subscriptions and takes the announcement, which it returns.
    pub(crate) async fn grant_all(&mut self) -> Published {
        for _ in 0..4 {
            self.answer_subscribe(1).await;
        }
        let online = self.packet().await.publish();
        self.acknowledge(online.number).await;
        online
    }

    pub(crate) async fn acknowledge(&mut self, number: u16) {
        self.answer_publish(number, 0).await;
    }

    /// Acknowledges a PUBLISH with a reason.
    pub(crate) async fn answer_publish(&mut self, number: u16, reason: u8) {
        let [high, low] = number.to_be_bytes();
        self.send(&[0x40, 4, high, low, reason, 0]).await;
    }

    /// Passes when the client has answered a message sent now, and nothing else before it.
    pub(crate) async fn fence(&mut self, topic: &str) {
        self.send(&publish(&plain(topic, b"fence"), Some(0x7777), false)).await;
        let answer = self.packet().await;
        assert_eq!((answer.kind(), answer.number()), (4, 0x7777), "{answer:?}");
    }
}

/// A message without properties.
pub(crate) fn plain(topic: &str, payload: &[u8]) -> Publish {
    Publish {
        topic: topic.into(),
        payload: payload.to_vec().into(),
        payload_format: None,
        content_type: None,
        correlation: None,
        response_topic: None,
        expiry: None,
        user_properties: Vec::new(),
    }
}

/// A PUBLISH, at QoS 1 if it has a number.
pub(crate) fn publish(message: &Publish, number: Option<u16>, retain: bool) -> Vec<u8> {
    let mut properties = Vec::new();
    if let Some(format) = message.payload_format {
        properties.extend([0x01, format]);
    }
    if let Some(expiry) = message.expiry {
        properties.push(0x02);
        properties.extend(expiry.to_be_bytes());
    }
    for (id, value) in [
        (0x03, message.content_type.as_deref().map(str::as_bytes)),
        (0x08, message.response_topic.as_deref().map(str::as_bytes)),
        (0x09, message.correlation.as_deref()),
    ] {
        if let Some(value) = value {
            properties.push(id);
            string(&mut properties, value);
        }
    }
    for (key, value) in &message.user_properties {
        properties.push(0x26);
        string(&mut properties, key.as_bytes());
        string(&mut properties, value.as_bytes());
    }
    let mut body = Vec::new();
    string(&mut body, message.topic.as_bytes());
    body.extend(number.into_iter().flat_map(u16::to_be_bytes));
    length(&mut body, properties.len());
    body.extend(properties);
    body.extend(&message.payload[..]);
    packet(0x30 | u8::from(number.is_some()) << 1 | u8::from(retain), &body)
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    length(&mut bytes, body.len());
    bytes.extend(body);
    bytes
}

fn string(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
    bytes.extend(value);
}

fn length(bytes: &mut Vec<u8>, mut value: usize) {
    loop {
        let byte = u8::try_from(value & 0x7F).unwrap();
        value >>= 7;
        bytes.push(if value == 0 { byte } else { byte | 0x80 });
        if value == 0 {
            break;
        }
    }
}
