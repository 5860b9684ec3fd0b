//! plantbridge: see the library for what it is; this only hands over the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    plantbridge::cli::main(std::env::args_os())
}
