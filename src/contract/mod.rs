//! Contracts, pure: what a namespace declares ([`document`]), the type language ([`node`]) and its checks
//! ([`validate`], [`pattern`]), what a peer says about itself ([`description`]) and what we say about ourselves
//! ([`surface`], [`shape`]), how a method reads as one line ([`signature`]), how a state path is walked ([`path`]), how a
//! collection is read ([`data`]), what names one state of a row ([`stamp`]), what nodes inherit ([`context`]), how words of
//! a command line become values ([`words`]), whether one contract or live peer still serves who was built against another
//! ([`compat`]), a contract rebuilt from a description ([`rebuild`]) and as the text of its file ([`written`]), and values to
//! stand in for real ones ([`samples`]).
//!
//! Nothing here reads a clock, performs I/O or draws randomness. Everything read here may come from a hostile peer: what
//! passes a bound is left out and reported, and nothing panics.

mod audit;
pub mod compat;
pub mod context;
pub mod data;
pub mod description;
pub mod document;
mod introspection;
pub mod node;
mod parse;
pub mod path;
pub mod pattern;
mod problem;
pub mod rebuild;
mod repeats;
pub mod samples;
pub mod shape;
pub mod signature;
pub mod stamp;
pub mod surface;
#[cfg(test)]
pub(crate) mod testing;
mod text;
pub mod validate;
pub mod words;
pub mod written;

pub use description::Description;
pub use document::{Component, Contract, Deferred, Effect, Event, Method, Namespace, Semantics, Sets};
pub use introspection::introspection;
pub use node::{Field, Literal, TypeNode, Types};
pub use path::{Segments, Setter, SetterFault};
pub use pattern::Pattern;
pub use problem::Problem;
pub use repeats::repeated_keys;
pub use surface::{ServedNamespace, Surface, describe};
pub use validate::ArgumentFault;
