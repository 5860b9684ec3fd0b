//! Parse, log to stderr, run, exit code.

fn main() {}
