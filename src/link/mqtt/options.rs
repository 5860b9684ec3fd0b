//! The settings of one connection, as the client library takes them.

use rumqttc::{Broker, ConnectProperties, LastWill, MqttOptions, QoS, Transport};

use super::connect::Route;
use super::{Config, Tls};
use crate::link::socket::{Lazy, Parted};

/// The CONNECT of one connection: client id (W-033), will (W-032), clean start, no session left behind.
pub(super) fn options(config: &Config, client_id: &str, tls: Option<&Tls>, parted: Parted) -> MqttOptions {
    unhurried(config, client_id, tls, parted, Lazy::default())
}

/// The same for a connection that can be told not to hurry.
pub(super) fn unhurried(
    config: &Config,
    client_id: &str,
    tls: Option<&Tls>,
    parted: Parted,
    lazy: Lazy,
) -> MqttOptions {
    // The library is given the finished stream; what it is told of the address goes nowhere.
    let mut options = MqttOptions::new(client_id, Broker::tcp(config.broker.host(), config.broker.port()));
    options.set_transport(Transport::Tcp);
    options.set_clean_start(true);
    let mut properties = ConnectProperties::new();
    properties.session_expiry_interval = Some(0);
    options.set_connect_properties(properties);
    // Told to the broker, which then leaves out what is larger: else one such message would cut the link.
    options.set_max_packet_size(Some(config.max_packet));
    options.set_keep_alive(u16::try_from(config.keep_alive.as_secs()).unwrap_or(u16::MAX));
    options.set_connect_timeout(config.connect_timeout);
    options.set_outgoing_inflight_upper_limit(config.window.max(1));
    options.set_max_request_batch(BATCH);
    options.set_read_batch_size(BATCH);
    if config.announce {
        options.set_last_will(LastWill::new(config.topics.presence(), "offline", QoS::AtLeastOnce, true, None));
    }
    match config.credentials.as_ref().map(|account| (&account.username, &account.password)) {
        None => {}
        Some((username, None)) => {
            options.set_username(username);
        }
        Some((username, Some(password))) => {
            options.set_credentials(username, password.expose().to_owned());
        }
    }
    let route = Route::new(config, tls, parted, lazy);
    options.set_socket_connector(move |_, _| route.clone().connect());
    options
}

/// How many packets are written before one flush, and read before one: enough to batch, little enough to be fair.
pub(super) const BATCH: usize = 32;
