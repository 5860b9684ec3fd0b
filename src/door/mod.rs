//! Where MCP bytes come in: bytes to one valid message or one refusal ([`guard`]), in an order a session allows
//! ([`gate`]), over standard input and output ([`stdio`]).

mod batch;
pub mod gate;
pub mod guard;
pub mod lines;
pub mod outbox;
pub mod scan;
pub mod stdio;
