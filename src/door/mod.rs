//! Where MCP bytes come in: bytes to one valid message or one refusal ([`guard`]), in an order a session allows
//! ([`gate`]), over standard input and output ([`stdio`]) or HTTP ([`http`]), where a client is known by its token ([`auth`])
//! and we by our names ([`hosts`]).

pub mod auth;
mod batch;
pub mod gate;
pub mod guard;
pub mod hosts;
pub mod http;
pub mod lines;
mod metrics;
pub mod outbox;
pub mod scan;
pub mod stdio;
