//! plantbridge joins a network of RPC peers as an ordinary peer and serves that network to MCP clients.
//!
//! The layers, lowest first. An arrow never runs the other way; `tests/it/tidy.rs` reads the paths in every file and
//! fails when one does. ARCHITECTURE.md walks one call through them.
//!
//! ```text
//! wire <- contract <- link <- node <- script <- fake <- plant <- mcp <- door <- demo <- cli
//! ```
//!
//! | layer | what it is |
//! | --- | --- |
//! | [`wire`] | pure: frames, values (MessagePack, JSON), names, topics, signatures |
//! | [`contract`] | pure: type language, validation, descriptions, shape hash, context, compatibility |
//! | [`link`] | tokio I/O, one task per transport, no RPC knowledge |
//! | [`node`] | our peer: pure state machines, one driver, a clonable handle, serving |
//! | [`script`] | programs that are not ours: their supervisor, peers kept as scripts, their packages |
//! | [`fake`] | peers that stand in for devices: contract, script, timers, who holds which name |
//! | [`plant`] | the verbs: plain async functions over the node, plain structs out |
//! | [`mcp`] | what a model sees: tools, results, errors, pages |
//! | [`door`] | where MCP bytes come in: bytes to one valid message or one refusal |
//! | `demo` | with the feature of that name: the embedded broker, the bakery, the tour |
//! | [`cli`] | what was typed, as validated configuration; the composition root |
//!
//! # Invariants
//!
//! ARCHITECTURE.md names the test that holds each.
//!
//! 1. `wire`, `contract` and `node::state` never read a clock, sleep, spawn, or draw randomness: `now` and ids are
//!    arguments.
//! 2. Only `link::mqtt` names the MQTT client, only `link` the WebSocket, only `demo::broker` the embedded broker, only
//!    `door::http` hyper, only `mcp`, `door` and the tour in `demo` name the MCP SDK.
//! 3. stdout carries protocol bytes from `door::stdio` and from nobody else. Logs go to stderr.
//! 4. A tool never bypasses `plant`, a verb never reaches past `node::Node`.
//! 5. A look leaves nothing behind: every subscription a verb opens is closed on success, failure, timeout and
//!    cancellation.
//! 6. Nothing is executed twice by us: a request that failed locally is never sent later, a command is never retried. A
//!    request has *left* once its link, while up, took the [claim](link::Claim) on it: from then on silence is an unknown
//!    outcome.
//! 7. We do not fight for a name: who goes by it is looked for before we join under one that somebody chose, and again after
//!    we were displaced; while somebody does, we stay away and say so. A fake never takes a name that somebody
//!    on the network, or the bridge itself, answers to.
//! 8. Every queue, cache, buffer and wait is bounded, and what falls over the bound is reported.
//! 9. No text from the network decides anything but data: it is never a path, a command line, a topic filter or a
//!    format string.

pub mod cli;
pub mod contract;
#[cfg(feature = "demo")]
pub mod demo;
pub mod door;
pub mod fake;
pub mod link;
pub mod mcp;
pub mod node;
pub mod plant;
pub mod script;
pub mod wire;
