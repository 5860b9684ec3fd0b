//! The chores of this repository: `cargo xtask test` installs the foreign parties and runs every test.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "telling a person at a terminal what happens is the job"
)]

mod bench;
mod command;
mod conform;
mod count;
mod dist;
mod fuzz;
mod image;
mod install;
mod soak;
mod test;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.split_first() {
        Some((chore, rest)) if chore == "test" => test::run_all(rest),
        Some((chore, rest)) if chore == "bench" => bench::run(rest),
        Some((chore, [])) if chore == "conform" => conform::all(),
        Some((chore, rest)) if chore == "count" => count::run(rest),
        Some((chore, rest)) if chore == "fuzz" => fuzz::run(rest),
        Some((chore, rest)) if chore == "layout" => bench::layout::run(rest),
        Some((chore, rest)) if chore == "soak" => soak::run(rest),
        Some((chore, rest)) if chore == "dist" => dist::run(rest),
        Some((chore, rest)) if chore == "image" => image::run(rest),
        Some((chore, [])) if chore == "install" => install::all(),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "\
usage: cargo xtask <chore>
  test [ARGS...]   install what the tests need, then run all of them; ARGS go to the test runner
  bench [--quick | --peers] [--binary FILE]
                   measure what a call through the bridge costs, beside the same call without it
  bench --verbs [--binary FILE] [--readme]
                   the same of every verb, over a broker and a hub; README.md gets the table
  count [--write]  count the instructions of the steps of a call (needs valgrind), and compare with what was kept in
                   benches/instructions.txt, or write that
  fuzz [TARGET...] [--for 60s] [--keep]
                   give the decoders and the doors what a fuzzer makes up, beginning with what was kept in fuzz/corpus
  conform          run the MCP conformance suite against our door, and judge it by tests/conformance/expected.txt
  layout [--binary FILE]
                   trace a session of the release binary (needs valgrind) and write build/startup.ld, by which a
                   release is laid out; after a change that moves much of what runs in every session
  soak [--for TIME] [--seed N] [--binary FILE]
                   use the bridge for five minutes, or 90s, 5m, 2h, on a network that fails as the seed's plan says, and
                   check that no command ran twice, that what was said is true, and that nothing is left
  dist [--quick] [--target TRIPLE]... [--binary FILE]
                   make the archives of a release below target/dist: static binaries and what goes with them; --quick
                   compiles in a fifth of the time what nobody should use; --binary packs that file instead of building one
  image [runtime | dev] [--from FOLDER]
                   build the images from a release (as root), start them without an engine, and hold them to docker/README.md;
                   --from takes an archive that was unpacked instead of making one
  install          only install: mosquitto and docker-compose, and under target/interop a Node and a Python tree";
