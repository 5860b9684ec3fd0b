//! The peers and the bare caller on a hub.

use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;

use serde_json::Value as Json;

use super::Caller;
use super::peer::{Answers, CROWD, EPOCH, PEER, Said, Then, of_crowd};
use super::verb::Exchange;
use crate::bench::pack::{self, entries, field, list, map, text};
use crate::bench::socketio::Connection;

/// The peers, on a thread of their own; they leave when dropped. One connection carries all of them.
#[derive(Debug)]
pub(super) struct Peers {
    closer: TcpStream,
    thread: Option<JoinHandle<()>>,
}

impl Peers {
    pub(super) fn join(port: u16) -> Result<Self, String> {
        let mut connection = Connection::open(port, PEER)?;
        connection.carry(PEER, &(0..CROWD).map(of_crowd).collect::<Vec<_>>())?;
        let closer = connection.closer()?;
        let mut answers = Answers::default();
        let serve = move || {
            while let Ok(frame) = connection.frame() {
                for frame in answer(&frame, &mut answers) {
                    connection.put(frame.as_bytes());
                }
                if connection.flush().is_err() {
                    break;
                }
            }
        };
        Ok(Self { closer, thread: Some(std::thread::spawn(serve)) })
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // It may be closed already.
        let _ = self.closer.shutdown(Shutdown::Both);
        // A thread that panicked has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The frames that answer one, as JSON.
fn answer(frame: &[u8], answers: &mut Answers) -> Vec<String> {
    let asked = entries(frame);
    let word = |name: &str| pack::plain(field(&asked, name));
    let (name, caller, correlation) = (word("tgt"), word("src"), word("corr"));
    let Said { kind, deferred, body, then } = answers.say(&name, &word("method"), field(&asked, "body"));
    let frame = |kind: &str, more: &str, body: &str| {
        format!(r#"{{"v":2,"src":"{name}","tgt":"{caller}","kind":"{kind}",{more}"body":{body}}}"#)
    };
    let of_call = format!(r#""corr":"{correlation}","#);
    let receipt = if deferred { r#""deferred":true,"# } else { "" };
    let mut out = vec![frame(kind, &format!("{of_call}{receipt}"), &body)];
    match then {
        None => {}
        Some(Then::Ticket(body)) => out.push(frame("ticket", &format!(r#"{of_call}"outcome":"resolved","#), body)),
        Some(Then::Event { event, body, seq }) => {
            let stamp = seq.map_or_else(String::new, |seq| format!(r#""seq":{seq},"epoch":"{EPOCH}","#));
            out.push(frame("event", &format!(r#""path":"bench","event":"{event}",{stamp}"#), &body));
        }
    }
    out
}

/// A caller without a bridge.
#[derive(Debug)]
pub(super) struct Floor {
    connection: Connection,
    next: u64,
}

impl Floor {
    pub(super) fn join(port: u16) -> Result<Self, String> {
        Ok(Self { connection: Connection::open(port, NAME)?, next: 0 })
    }
}

impl Caller for Floor {
    fn exchange(&mut self, peer: &str, exchange: &Exchange) -> Result<(), String> {
        let Exchange { path, method, args, arrive } = exchange;
        self.next += 1;
        let correlation = format!("{:036}", self.next);
        let args: Json = serde_json::from_str(args).map_err(|error| format!("{args}: {error}"))?;
        let frame = map(&[
            ("v", vec![2]),
            ("src", text(NAME)),
            ("tgt", text(peer)),
            ("kind", text(exchange.kind())),
            ("corr", text(&correlation)),
            ("path", text(path)),
            ("method", text(method)),
            ("body", packed(&args)),
        ]);
        self.connection.put(&frame);
        self.connection.flush()?;
        for _ in 0..*arrive {
            let frame = self.connection.frame()?;
            if is_refusal(&frame) {
                return Err(format!("{peer} refused {path}.{method}: {}", String::from_utf8_lossy(&frame)));
            }
        }
        Ok(())
    }
}

/// Whether a frame, in either form, is an error.
fn is_refusal(frame: &[u8]) -> bool {
    let packed = [text("kind"), text("error")].concat();
    [packed.as_slice(), br#""kind":"error""#].iter().any(|word| frame.windows(word.len()).any(|window| window == *word))
}

/// Arguments in MessagePack: texts, small numbers, short lists and maps.
fn packed(value: &Json) -> Vec<u8> {
    match value {
        Json::Null => vec![0xc0],
        Json::Bool(bit) => vec![0xc2 | u8::from(*bit)],
        Json::Number(number) => match number.as_u64().unwrap_or_default() {
            small @ 0..=0x7f => small.to_be_bytes().last().copied().into_iter().collect(),
            large => [&[0xcf][..], &large.to_be_bytes()].concat(),
        },
        Json::String(said) => text(said),
        Json::Array(items) => list(&items.iter().map(packed).collect::<Vec<_>>()),
        Json::Object(members) => {
            let members: Vec<(&str, Vec<u8>)> =
                members.iter().map(|(key, value)| (key.as_str(), packed(value))).collect();
            map(&members)
        }
    }
}

const NAME: &str = "bench-floor";
