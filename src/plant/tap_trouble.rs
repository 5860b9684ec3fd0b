//! Why what others say to each other cannot be heard.

use std::time::Duration;

use crate::link::DownReason;

/// Why the traffic of others cannot be heard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapTrouble {
    /// This bridge has no link to any network.
    #[error("that needs an MQTT broker or a hub, and this bridge has no link to one")]
    NoLink,
    /// The connection for it does not come about.
    #[error("{}", .0.detail)]
    Down(DownReason),
    /// It does not come about, and nobody says why.
    #[error("no connection for it within {} s", .0.as_secs())]
    Slow(Duration),
    /// The broker takes the subscription and delivers nothing.
    #[error(
        "the broker granted the subscription to {filter} and delivers nothing, not even the presence of this bridge, \
         which it keeps"
    )]
    Deaf {
        /// What was subscribed to.
        filter: String,
    },
}
