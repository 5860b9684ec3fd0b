//! The chores of this repository: `cargo xtask test`, `cargo xtask bench`.

fn main() {}
