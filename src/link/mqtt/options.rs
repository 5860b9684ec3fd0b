//! The settings of one connection, as the client library takes them.

use rumqttc::{Broker, ConnectProperties, LastWill, MqttOptions, QoS, TlsConfiguration, Transport};

use super::{Config, Tls};
use crate::link::socket::{self, Parted};

/// The CONNECT of one connection: client id (W-033), will (W-032), clean start, no session left behind.
pub(super) fn options(config: &Config, client_id: &str, tls: Option<&Tls>, parted: Parted) -> MqttOptions {
    let (host, port) = (config.broker.host().to_owned(), config.broker.port());
    // The library only names its broker towards TLS; where to connect is said to the socket below.
    let named = config.server_name.as_deref().unwrap_or(&host);
    let mut options = MqttOptions::new(client_id, Broker::tcp(named, port));
    options.set_transport(
        tls.map_or(Transport::Tcp, |tls| Transport::tls_with_config(TlsConfiguration::Rustls(tls.0.clone()))),
    );
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
    let budget = config.connect_timeout;
    options.set_socket_connector(move |_, _| {
        let (host, parted) = (host.clone(), parted.clone());
        async move { socket::connect(&host, port, budget, parted).await }
    });
    options
}

/// How many packets are written before one flush, and read before one: enough to batch, little enough to be fair.
pub(super) const BATCH: usize = 32;
