//! plantbridge against parties that share no code with it: a broker, peers, callers and MCP clients of other making.
//!
//! `cargo xtask test` installs them and turns on the feature `interop`, without which this binary is not built. With
//! it, a missing party is a failure, never a skipped test.

mod foreign;
mod support;
