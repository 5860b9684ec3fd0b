//! One integration binary; one module per subject.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]
#![expect(clippy::needless_pass_by_value, reason = "values are written down where they are passed")]

mod audit;
#[expect(dead_code, reason = "the interop tests use all of it")]
#[path = "../interop/support/authority.rs"]
mod authority;
#[cfg(feature = "demo")]
mod bakery;
mod by_hand;
mod codes_of_tools;
#[cfg(all(feature = "demo", unix))]
mod config;
mod context;
mod contracts;
mod control;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "demo")]
mod demo_broker;
#[cfg(feature = "demo")]
mod fakes;
#[cfg(feature = "demo")]
mod fakes_on_hubs;
mod fuzzed;
#[cfg(all(feature = "demo", target_os = "linux"))]
mod handlers;
mod harness;
mod hostile;
mod http;
mod http2;
mod hub;
mod hub_traffic;
mod later;
mod link_hub;
mod link_mqtt;
mod link_signing;
mod link_websocket;
mod links;
mod mcp;
mod metrics;
mod names;
mod node;
mod over;
#[cfg(all(feature = "demo", unix))]
mod people;
mod plant;
mod prompts;
mod resources;
mod rows;
mod sample_contracts;
mod scripted;
#[cfg(all(feature = "demo", target_os = "linux"))]
mod scripting;
#[cfg(target_os = "linux")]
mod scripts;
#[cfg(all(feature = "demo", unix))]
mod serve;
mod silence;
mod stdin;
mod subscriptions;
#[cfg(target_os = "linux")]
mod supervise;
mod tap;
mod tidy;
mod tidy_book;
mod tools;
#[cfg(feature = "demo")]
mod traffic;
#[cfg(feature = "demo")]
mod two_links;
mod watch;
