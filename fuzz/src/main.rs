//! The fuzzer: one binary for all targets, so that everything is built and linked once. `FUZZ_TARGET` names the one to run;
//! with `FUZZ_SEEDS` its seeds are written into that folder and nothing is run. `cargo xtask fuzz` sets both.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

mod targets;

use targets::{TARGETS, Target};

/// The target, looked up once.
static TARGET: std::sync::LazyLock<Target> = std::sync::LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    TARGETS.into_iter().find(|target| target.name == name).unwrap_or_else(|| {
        let known = TARGETS.map(|target| target.name).join(", ");
        panic!("FUZZ_TARGET is {name:?}; it can be one of {known}")
    })
});

fuzz_target!(
    init: {
        if let Some(folder) = std::env::var_os("FUZZ_SEEDS") {
            write_seeds(Path::new(&folder));
            std::process::exit(0);
        }
    },
    |data: &[u8]| {
        (TARGET.run)(data);
    }
);

fn write_seeds(folder: &Path) {
    for (at, seed) in (TARGET.seeds)().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{at:03}")), seed).expect("a folder to write to");
    }
}
