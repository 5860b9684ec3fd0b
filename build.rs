//! Lays out the code of the release binary, so that what runs in every session stands together.
//!
//! The kernel maps sixteen pages around each one that is touched. Some hundred kilobytes of code run in a session, spread over
//! the whole binary; laid out as the compiler leaves them they made half of the binary resident. `build/startup.ld` names
//! them (`cargo xtask layout` writes it), and a linker that does not find a name goes on without it.
//!
//! `PLANTBRIDGE_LAYOUT=plain` leaves the layout alone, for a linker that does not read linker scripts.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build/startup.ld");
    println!("cargo::rerun-if-env-changed=PLANTBRIDGE_LAYOUT");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    let reads_scripts = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_FAMILY", "unix");
    if reads_scripts && is("PROFILE", "release") && !is("PLANTBRIDGE_LAYOUT", "plain") {
        let here = var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{here}/build/startup.ld");
    }
    // A static binary relocates itself. What it has to know for that is half a megabyte, or, packed, a few pages.
    if is("CARGO_CFG_TARGET_ENV", "musl") && is("CARGO_CFG_TARGET_ARCH", "x86_64") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
