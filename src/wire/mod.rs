//! The wire, pure: what a message is ([`frame`]), how its values are encoded ([`msgpack`], [`json`]) and how they look to
//! people and models, who have JSON alone ([`tagged`], [`instant`]), how names and topics look ([`name`], [`topic`]), how
//! a frame maps onto an MQTT 5 publish ([`mqtt`]) and is signed there ([`signing`]) or is written flat for a hub ([`flat`]), how
//! a hub packs what it carries ([`socketio`]), and what a hub mirrors for whoever watches ([`bus`]).
//!
//! Nothing here reads a clock, performs I/O or draws randomness, and nothing here panics on what a network sends.

mod body;
pub mod bus;
pub mod error;
pub mod flat;
pub mod frame;
pub mod instant;
pub mod json;
pub mod mqtt;
pub mod msgpack;
pub mod name;
pub mod signing;
pub mod socketio;
pub mod tagged;
pub mod topic;
pub mod value;
#[cfg(test)]
pub(crate) mod vectors;

pub use error::{DecodeError, EncodeError};
pub use frame::{Correlation, Encoding, Frame, Message, RemoteError, Reply, ReplyRoute, Request, Stamp};
pub use name::{NameError, PeerName, Prefix};
pub use topic::Topics;
pub use value::{Map, Value};
