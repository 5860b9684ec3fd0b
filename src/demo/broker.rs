//! The embedded MQTT broker: on a loopback port of the system's choosing, open to whoever can reach that, everything in
//! memory. The only file that names the broker's crate.
//!
//! It is for looking at plantbridge on one machine, and for tests. What is relied on is tested in
//! `tests/it/demo_broker.rs`. It adds a user property `x-mqtt-client-id` to what it forwards; ours are prefixed `mr-`, so
//! nobody reads it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use mqtt5::broker::{
    BrokerConfig, BrokerShutdownHandle, MqttBroker,
    config::{StorageBackend, StorageConfig},
};
use tokio::{task::JoinHandle, time::timeout};

/// A running broker. Dropping it ends it too, without waiting for the end.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

/// Why there is no broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// No port could be had, or the settings were not taken.
    #[error("the embedded broker does not start: {0}")]
    Start(String),
}

impl Broker {
    /// Starts one; clients may connect as soon as this returns. Must be called inside a tokio runtime.
    pub async fn start() -> Result<Self, BrokerError> {
        let mut broker =
            MqttBroker::with_config(config()).await.map_err(|error| BrokerError::Start(error.to_string()))?;
        let address = broker.local_addr().ok_or_else(|| BrokerError::Start("it listens nowhere".into()))?;
        let shutdown = Shutdown(broker.shutdown_handle());
        let mut ready = broker.ready_receiver();
        let task = tokio::spawn(async move {
            if let Err(error) = broker.run().await {
                tracing::error!(%error, "the embedded broker ended");
            }
        });
        // A sender that is gone means that the broker ended before it was ready.
        if ready.wait_for(|ready| *ready).await.is_err() {
            return Err(BrokerError::Start("it ended at once".into()));
        }
        Ok(Self { address, shutdown, task })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as `mqtt://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("mqtt://{}", self.address)
    }

    /// Disconnects everybody and ends; at most `bound` is waited for that, then what is left is cut off.
    pub async fn stop(mut self, bound: Duration) {
        self.shutdown.0.shutdown();
        if timeout(bound, &mut self.task).await.is_err() {
            self.task.abort();
            // It was aborted: that is all its end can say.
            let _ = (&mut self.task).await;
        }
    }
}

/// Tells the broker to end when dropped. Telling it twice does no harm.
struct Shutdown(BrokerShutdownHandle);

impl Drop for Shutdown {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

impl std::fmt::Debug for Shutdown {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Shutdown")
    }
}

/// Memory only, loopback only, bounded.
fn config() -> BrokerConfig {
    // The default writes sessions and retained messages into a folder.
    let storage = StorageConfig::default()
        .with_backend(StorageBackend::Memory)
        .with_max_queued_messages_per_client(QUEUED)
        .with_max_queued_bytes_per_client(QUEUED_BYTES);
    let mut config = BrokerConfig::default()
        .with_bind_addresses(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))])
        .with_max_clients(MAX_CLIENTS)
        .with_max_packet_size(MAX_PACKET)
        .with_max_retained_messages(MAX_RETAINED)
        .with_client_channel_capacity(QUEUED);
    config.storage_config = storage;
    // Statistics of the broker are no peers, and a tap on everything would see nothing else.
    config.sys_topics_enabled = false;
    config
}

/// The largest packet; with the crate's own default some clients refuse the CONNACK.
const MAX_PACKET: usize = 16 * 1024 * 1024;
/// Connections at once.
const MAX_CLIENTS: usize = 256;
/// Presences, in the main.
const MAX_RETAINED: usize = 10_000;
/// Messages that wait for one slow client.
const QUEUED: usize = 4096;
/// Bytes that wait for one client that is away.
const QUEUED_BYTES: usize = 16 * 1024 * 1024;
