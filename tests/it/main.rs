//! One integration binary; one module per subject.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]
#![expect(clippy::needless_pass_by_value, reason = "values are written down where they are passed")]

#[cfg(feature = "demo")]
mod bakery;
mod context;
mod contracts;
mod control;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "demo")]
mod demo_broker;
mod harness;
mod http;
mod later;
mod link_mqtt;
mod mcp;
mod node;
#[cfg(all(feature = "demo", unix))]
mod people;
mod plant;
mod rows;
mod sample_contracts;
mod scripted;
mod silence;
mod stdin;
mod tap;
mod tidy;
mod tools;
#[cfg(feature = "demo")]
mod traffic;
mod watch;
