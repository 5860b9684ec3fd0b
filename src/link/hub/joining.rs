//! Joining: socket, TLS, WebSocket, the hub's opening, our credentials. All of it within one bound.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::socket::{Socket, Turn, settings};
use super::trouble::{self, Stage};
use super::{Config, Credential};
use crate::link::seat::down;
use crate::link::socket::{self, Below, Parted};
use crate::link::tls::{self, Tls};
use crate::link::{DownKind, DownReason};
use crate::wire::Value;
use crate::wire::socketio::{Assembler, ENDPOINT, Engine, Got, Kind, Opening, Packet};

/// Joins, or says what kept us from it.
pub(super) async fn join(
    config: &Config,
    tls: &mut Option<Tls>,
    parted: Parted,
) -> Result<(Socket, Opening), DownReason> {
    let until = Instant::now() + config.connect_timeout;
    let below = within(until, "no answer in time", connect(config, tls, parted, config.connect_timeout)).await?;
    let upgraded = within(until, "no answer to the WebSocket handshake in time", upgrade(config, below));
    let mut socket = upgraded.await?;
    let opening = within(until, "the hub did not open in time", open(&mut socket)).await?;
    within(until, "the hub did not let us in in time", present(config, &mut socket)).await?;
    Ok((socket, opening))
}

async fn within<T>(
    until: Instant,
    late: &str,
    step: impl Future<Output = Result<T, DownReason>>,
) -> Result<T, DownReason> {
    timeout_at(until, step).await.unwrap_or_else(|_| Err(down(DownKind::Unreachable, late)))
}

/// The socket, and TLS on it where that is wanted.
async fn connect(
    config: &Config,
    tls: &mut Option<Tls>,
    parted: Parted,
    budget: Duration,
) -> Result<Box<dyn Below>, DownReason> {
    if config.hub.is_tls() && tls.is_none() {
        *tls = Some(Tls::of_the_system().await?);
    }
    let stream = socket::connect(config.hub.host(), config.hub.port(), budget, parted, socket::Lazy::default()).await;
    let stream = stream.map_err(|error| down(DownKind::Unreachable, error.to_string()))?;
    let Some(tls) = tls.as_ref().filter(|_| config.hub.is_tls()) else { return Ok(Box::new(stream)) };
    Ok(Box::new(tls::secure(tls, config.hub.host(), stream).await?))
}

async fn upgrade(config: &Config, below: Box<dyn Below>) -> Result<Socket, DownReason> {
    let scheme = if config.hub.is_tls() { "wss" } else { "ws" };
    let address = format!("{scheme}://{}{ENDPOINT}", config.hub.authority());
    match client_async_with_config(address, below, Some(settings(config.max_message))).await {
        Ok((stream, _)) => Ok(Socket::new(stream)),
        Err(error) => Err(trouble::reason(&error, Stage::Joining)),
    }
}

/// The hub speaks first, and says what it takes.
async fn open(socket: &mut Socket) -> Result<Opening, DownReason> {
    loop {
        let text = text(socket).await?;
        match Engine::parse(&text) {
            Ok(Engine::Open(said)) => return Opening::parse(said).map_err(|error| odd(&error)),
            Ok(Engine::Noop) => {}
            Ok(other) => return Err(odd(&format!("{other:?}"))),
            Err(error) => return Err(odd(&error)),
        }
    }
}

/// Says who we are, and is let in or not. Nothing else may be sent before that.
async fn present(config: &Config, socket: &mut Socket) -> Result<(), DownReason> {
    let credential = Credential::of(config).map_err(|why| down(DownKind::Unreachable, why))?;
    let credentials = credential.token().map(|token| {
        let entry = ("token".to_owned(), token.into());
        Value::Map([entry].into_iter().collect())
    });
    let (packet, _) = Packet::connect(credentials).write().map_err(|error| odd(&error))?;
    let fed = socket.feed_text(Engine::Message(&packet).write());
    fed.map_err(|error| trouble::reason(&error, Stage::Joining))?;
    let mut assembler = Assembler::new(0);
    loop {
        let text = text(socket).await?;
        match Engine::parse(&text).map_err(|error| odd(&error))? {
            Engine::Ping(said) => {
                let fed = socket.feed_text(Engine::Pong(said).write());
                fed.map_err(|error| trouble::reason(&error, Stage::Joining))?;
            }
            Engine::Noop => {}
            Engine::Message(_) => match assembler.text(&text).map_err(|error| odd(&error))? {
                Some(Got::Packet(packet)) if packet.kind == Kind::Connect => return Ok(()),
                Some(Got::Packet(packet)) if packet.kind == Kind::Refusal => {
                    return Err(refused(&credential, packet.data.as_ref()));
                }
                other => return Err(odd(&format!("{other:?}"))),
            },
            other => return Err(odd(&format!("{other:?}"))),
        }
    }
}

/// The next text. What was written leaves meanwhile.
async fn text(socket: &mut Socket) -> Result<String, DownReason> {
    loop {
        match socket.turn().await {
            Ok(Turn::Message(Message::Text(text))) => return Ok(text.as_str().to_owned()),
            Ok(Turn::Message(Message::Close(close))) => return Err(trouble::closed(close.as_ref(), Stage::Joining)),
            Ok(Turn::Message(Message::Binary(bytes))) => return Err(odd(&unannounced(&bytes))),
            Ok(Turn::Message(_) | Turn::Flushed) => {}
            Ok(Turn::Ended) => return Err(trouble::closed(None, Stage::Joining)),
            Err(error) => return Err(trouble::reason(&error, Stage::Joining)),
        }
    }
}

/// Why we were not let in. The hub's words are left out if our token is among them.
fn refused(credential: &Credential, said: Option<&Value>) -> DownReason {
    let words = said.and_then(|said| said.as_str().or_else(|| said.get("message")?.as_str()));
    let echoes = |words: &&str| credential.token().is_some_and(|token| words.contains(token));
    let words = words.filter(|words| !echoes(words)).map(|words| words.chars().take(200).collect::<String>());
    let presented = match (credential.token(), credential.minted) {
        (Some(_), true) => "the credential we minted",
        (Some(_), false) => "our token",
        (None, _) => "us, who present no token",
    };
    down(DownKind::Unauthorized, format!("the hub refused {presented}: {:?}", words.unwrap_or_default()))
}

fn odd(said: &dyn std::fmt::Display) -> DownReason {
    let said: String = said.to_string().chars().take(200).collect();
    down(DownKind::Protocol, format!("no Socket.IO hub answers there: {said}"))
}

fn unannounced(bytes: &Bytes) -> String {
    format!("{} bytes before anything was said", bytes.len())
}
