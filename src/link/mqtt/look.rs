//! A look at who goes by our name, before we connect under it. A broker ends the older of two connections of one client id
//! (W-033), so whoever joins under the name of a device throws that device off; and whoever was thrown off would do the same
//! by simply coming back.
//!
//! The look has a client id nobody else has, no presence and no will, and publishes nothing.

use std::time::Duration;

use rumqttc::{AsyncClient, Event, EventLoop, Outgoing, Packet, Publish, QoS, SubscribeReasonCode};
use tokio::time::{Instant, timeout, timeout_at};

use super::trouble::{self, Stage};
use super::{Config, LEFTOVER, Tls, options};
use crate::link::backoff;
use crate::link::holder::Look;
use crate::link::seat::down;
use crate::link::{DownKind, DownReason, socket};
use crate::wire::mqtt::is_online;

/// What a look found.
enum Found {
    /// Nobody goes by the name; or the broker does not let us see who does.
    Free,
    /// Somebody does.
    Taken,
}

/// Looks until nobody goes by our name. What a process that died left behind is waited for: its will is on the way.
pub(super) async fn is_free(
    config: &Config,
    tls: Option<&Tls>,
    looks: Look,
    ours: Option<&str>,
) -> Result<(), DownReason> {
    let seed = backoff::seed();
    let client_id = format!("msgrpc-{}-look-{seed:016x}", config.topics.me());
    let unseen = Config { announce: false, ..config.clone() };
    let parted = socket::Parted::default();
    let (client, mut network) =
        AsyncClient::builder(options::options(&unseen, &client_id, tls, parted.clone())).capacity(REQUESTS).build();
    let found = look(config, &client, &mut network, &|publish| minds(publish, looks, ours)).await;
    if found.is_ok() {
        let _ = timeout(CLOSING, goodbye(&client, &mut network)).await;
    }
    drop(network);
    if let Some(stream) = parted.take() {
        socket::part(stream, CLOSING).await;
    }
    match found {
        Ok(Found::Free) => Ok(()),
        Ok(Found::Taken) => Err(down(DownKind::NameTaken, taken(config))),
        // An account may be bound to one client id: then nobody else goes by it. If it is wrong, joining says so.
        Err(reason) if reason.kind == DownKind::Unauthorized => Ok(()),
        Err(reason) => Err(reason),
    }
}

/// Connects, subscribes to what is retained under our name, and waits for it, or for the silence that says there is nothing.
async fn look(
    config: &Config,
    client: &AsyncClient,
    network: &mut EventLoop,
    minds: &(dyn Fn(&Publish) -> bool + Sync),
) -> Result<Found, DownReason> {
    let (mut stage, mut found) = (Stage::Connecting, Found::Free);
    // CONNACK is bounded by the client library.
    let mut until = Instant::now() + config.connect_timeout * 2;
    loop {
        let Ok(event) = timeout_at(until, network.poll()).await else {
            return match stage {
                Stage::Connecting => Err(down(DownKind::Unreachable, "no answer in time")),
                Stage::Connected => Ok(found),
            };
        };
        match event {
            Ok(Event::Incoming(Packet::ConnAck(_))) => {
                stage = Stage::Connected;
                let lost = |error: rumqttc::ClientError| down(DownKind::Lost, error.to_string());
                client.try_subscribe(config.topics.presence(), QoS::AtMostOnce).map_err(lost)?;
                until = Instant::now() + config.connect_timeout;
            }
            Ok(Event::Incoming(Packet::SubAck(ack))) => {
                if !ack.return_codes.iter().all(|code| matches!(code, SubscribeReasonCode::Success(_))) {
                    return Ok(Found::Free);
                }
                if matches!(found, Found::Free) {
                    until = Instant::now() + QUIET;
                }
            }
            Ok(Event::Incoming(Packet::Publish(publish))) => {
                if !is_online(&publish.payload) {
                    // Gone; or thrown off this very moment by somebody who is about to announce himself.
                    (found, until) = (Found::Free, Instant::now() + QUIET);
                } else if matches!(found, Found::Free) && minds(&publish) {
                    found = Found::Taken;
                    until = Instant::now() + LEFTOVER;
                }
            }
            Ok(_) => {}
            Err(error) => return Err(trouble::reason(&error, stage)),
        }
    }
}

/// Whether this is somebody in our way.
fn minds(publish: &Publish, looks: Look, ours: Option<&str>) -> bool {
    let properties = publish.properties.as_ref().map(|properties| &properties.user_properties[..]).unwrap_or_default();
    let shape = properties.iter().find(|(name, _)| name == SHAPE).map(|(_, shape)| &**shape);
    looks.minds(shape, ours)
}

fn taken(config: &Config) -> String {
    let (me, topic) = (config.topics.me(), config.topics.presence());
    format!(
        "a peer named {me} is on the network; a second one would throw it off the broker. Choose another --name; or, if \
         nobody goes by it, clear what a broker that was cut off kept at {topic}"
    )
}

/// Says goodbye; until it is written, nothing that arrives counts.
async fn goodbye(client: &AsyncClient, network: &mut EventLoop) {
    if client.try_disconnect_now().is_err() {
        return;
    }
    while let Ok(event) = network.poll().await {
        if matches!(event, Event::Outgoing(Outgoing::Disconnect)) {
            return;
        }
    }
}

/// What announces the shape of a peer.
const SHAPE: &str = "shape";
/// The silence after which nothing is retained under our name, as at the end of a sweep (W-042).
const QUIET: Duration = Duration::from_millis(250);
/// How long each step of closing may take: the DISCONNECT, the broker's close.
const CLOSING: Duration = Duration::from_millis(330);
/// Room in the client library for what a look sends: one SUBSCRIBE, one DISCONNECT.
const REQUESTS: usize = 8;
