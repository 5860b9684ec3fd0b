//! `cargo xtask test`: installs the foreign parties and runs every test there is.

use crate::command::{answers, cargo, run};
use crate::{bench, conform, install};

/// Installs what is missing, then runs the documentation tests, the benchmark to see that it works, the conformance suite,
/// and the unit, integration and foreign tests. `passed_on` goes to the test runner.
pub(crate) fn run_all(passed_on: &[String]) -> Result<(), String> {
    install::all()?;
    run(cargo().args(["test", "--locked", "--doc", "--quiet"]))?;
    bench::run(&["--quick".to_owned()])?;
    conform::all()?;
    let mut runner = cargo();
    if answers("cargo-nextest".as_ref(), "--version") {
        runner.args(["nextest", "run"]);
    } else {
        println!("cargo-nextest is not installed: falling back to cargo test");
        runner.args(["test", "--lib", "--bins", "--tests"]);
    }
    run(runner.args(["--locked", "--workspace", "--features", "interop"]).args(passed_on))
}
