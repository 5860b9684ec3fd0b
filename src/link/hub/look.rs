//! A look at who goes by our name, before we announce ourselves under it. A hub gives a name to whoever announced it last,
//! so whoever joins under the name of a device gets what is for that device.
//!
//! The look announces itself under a name nobody else has, because a hub tells nobody else who is there; it sends no frame.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::Message;

use super::socket::{Socket, Turn};
use super::{Config, LEFTOVER, joining};
use crate::link::backoff;
use crate::link::holder::Look;
use crate::link::seat::down;
use crate::link::tls::Tls;
use crate::link::{DownKind, DownReason, socket};
use crate::wire::PeerName;
use crate::wire::flat::{self, Known, Presence};
use crate::wire::socketio::{Assembler, Engine, Got, Packet};

/// Looks until nobody goes by our name. What a process that died left behind is waited for: the hub is about to notice.
pub(super) async fn is_free(
    config: &Config,
    tls: &mut Option<Tls>,
    looks: Look,
    ours: Option<&str>,
) -> Result<(), DownReason> {
    let parted = socket::Parted::default();
    let (mut socket, _) = joining::join(config, tls, parted.clone()).await?;
    let taken = look(config, &mut socket, &|known| minds(config, known, looks, ours)).await;
    let _ = timeout(CLOSING, goodbye(&mut socket)).await;
    drop(socket);
    if let Some(stream) = parted.take() {
        socket::part(stream, CLOSING).await;
    }
    if taken { Err(down(DownKind::NameTaken, said(&config.me))) } else { Ok(()) }
}

/// Announces the look, and hears who is there. A hub that binds names to tokens does not answer it: then nobody goes by our
/// name who has not our token. One that falls silent or ends the connection is met again when we join.
async fn look(config: &Config, socket: &mut Socket, minds: &(dyn Fn(&Known) -> bool + Sync)) -> bool {
    let seed = backoff::seed();
    let Ok(name) = PeerName::configured(&format!("look-{seed:016x}")) else { return false };
    let Ok((packet, _)) = Packet::event("presence", flat::announcement(&name, None)).write() else { return false };
    if socket.feed_text(Engine::Message(&packet).write()).is_err() {
        return false;
    }
    let (mut taken, mut until) = (false, Instant::now() + config.sweep.min(QUIET));
    let mut assembler = Assembler::new(config.max_message);
    while let Ok(Ok(turn)) = timeout_at(until, socket.turn()).await {
        let text = match turn {
            Turn::Message(Message::Text(text)) => text,
            Turn::Message(Message::Close(_)) | Turn::Ended => return false,
            Turn::Message(Message::Binary(bytes)) => {
                // A frame: for nobody who looks.
                let _ = assembler.binary(bytes);
                continue;
            }
            Turn::Message(_) | Turn::Flushed => continue,
        };
        match Engine::parse(&text) {
            Ok(Engine::Ping(said)) if socket.feed_text(Engine::Pong(said).write()).is_err() => return false,
            Ok(Engine::Message(_)) => match presence(assembler.text(&text).ok().flatten()) {
                Some(Presence::Everybody { peers, .. }) => {
                    if !peers.iter().any(minds) {
                        return false;
                    }
                    (taken, until) = (true, Instant::now() + LEFTOVER);
                }
                Some(Presence::Offline(peer)) if peer == config.me => return false,
                _ => {}
            },
            _ => {}
        }
    }
    taken
}

/// Whether this is somebody in our way.
fn minds(config: &Config, known: &Known, looks: Look, ours: Option<&str>) -> bool {
    let carried = config.carried && looks == Look::Stranger && known.shape.is_none();
    known.peer == config.me && !carried && looks.minds(known.shape.as_deref(), ours)
}

fn presence(got: Option<Got>) -> Option<Presence> {
    let Some(Got::Packet(packet)) = got else { return None };
    let (name, mut arguments) = packet.into_event()?;
    (name == "presence" && arguments.len() == 1).then(|| flat::presence(arguments.remove(0)).ok()).flatten()
}

async fn goodbye(socket: &mut Socket) {
    let Ok((packet, _)) = Packet::disconnect().write() else { return };
    let fed = socket.feed_text(Engine::Message(&packet).write()).and_then(|()| socket.feed(Message::Close(None)));
    if fed.is_err() {
        return;
    }
    // The hub closes too.
    while !matches!(socket.turn().await, Ok(Turn::Ended) | Err(_)) {}
}

fn said(me: &PeerName) -> String {
    let me = me.as_str();
    format!(
        "a peer named {me} is on the hub; a second one would get what is for it. Choose another --name; or, if it is this \
         very bridge from before a connection was lost, wait for the hub to notice"
    )
}

/// How long a hub may take to say who is there: whoever starts waits for it.
const QUIET: Duration = Duration::from_secs(1);
/// How long each step of closing may take.
const CLOSING: Duration = Duration::from_millis(330);
