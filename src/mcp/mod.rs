//! What a model sees: tools, results, errors, pages.
//!
//! The SDK owns the protocol; this layer owns what a tool is ([`registry`]), what it answers ([`result`], [`error`],
//! [`codes`]), how long lists are cut ([`page`], [`cursor`]), how text of the plant is made harmless ([`mod@text`]), how
//! many calls run ([`load`]), what is offered beside tools (`prompts`, `resources`, `completion`, `subscriptions`) and the one
//! handler that serves all revisions of the protocol ([`server`]). No tool knows its door.

mod audited;
pub mod check;
pub mod codes;
mod completion;
pub mod context;
pub mod cursor;
pub mod error;
mod handler;
mod instructions;
pub mod load;
mod looking;
mod meter;
pub mod page;
mod process;
mod progress;
mod prompts;
mod refusal;
mod refusal_documents;
mod refusal_scripts;
mod refusal_tickets;
pub mod registry;
mod resources;
pub mod result;
pub mod schema;
pub mod server;
mod settling;
#[cfg(feature = "otel")]
mod spans;
mod standing;
mod subscriptions;
pub mod text;
pub mod tools;

pub use codes::ErrorCode;
pub use context::{CallContext, Door};
pub use error::{NextCall, Outcome, ToolError};
pub(crate) use meter::ToolEnd;
pub(crate) use progress::ProgressTo;
pub(crate) use refusal::ticket_state;
pub use registry::{Hints, Need, Offer, Registry, Spec, Tool};
pub use result::Source;
pub use server::Server;
pub(crate) use settling::read_state;
#[cfg(feature = "otel")]
pub use spans::SpanMaker;
pub(crate) use standing::{Counts, Readiness};

/// Values of the plant as every result writes them.
pub use crate::wire::tagged;
