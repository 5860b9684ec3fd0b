//! plantbridge against parties that share no code with it: a broker, peers, callers and MCP clients of other making.
//!
//! `cargo xtask test` installs them and turns on the feature `interop`, without which this binary is not built. With
//! it, a missing party is a failure, never a skipped test.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "this is all tests: what is not as expected has to stop them"
)]
#![expect(clippy::needless_pass_by_value, reason = "values are written down where they are passed")]

mod book;
mod brokers;
mod calls;
mod clients;
mod composed;
mod doctor;
mod fakes;
mod foreign;
mod hub;
mod metrics;
mod misbehaviour;
mod one_state;
mod people;
mod process;
mod relay;
#[cfg(target_os = "linux")]
mod scripts;
mod secrets;
mod served;
mod signed;
mod state;
mod support;
mod tls;
mod traffic;
#[cfg(target_os = "linux")]
mod unit;
mod watch;
mod web;
