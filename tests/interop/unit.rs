//! The unit of systemd, read by systemd itself.

use std::{fs, path::Path, process::Command};

use crate::support::PLANTBRIDGE;

/// The unit as it would be with our binary installed: every line is known, and its sandbox leaves little.
#[test]
fn systemd_takes_the_unit_and_finds_little_that_it_exposes() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/plantbridge.service");
    let unit = fs::read_to_string(source).unwrap();
    assert!(unit.contains("=/usr/bin/plantbridge "), "{unit}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plantbridge.service");
    fs::write(&path, unit.replace("=/usr/bin/plantbridge ", &format!("={PLANTBRIDGE} "))).unwrap();
    let analyze = |arguments: &[&str]| {
        let output = Command::new("systemd-analyze").args(arguments).arg(&path).output();
        let output = output.expect("systemd-analyze is there; cargo xtask install installs it");
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.success(), told)
    };
    assert_eq!(analyze(&["verify", "--man=no", "--recursive-errors=no"]), (true, String::new()));
    // In tenths: below 2.0 it says OK.
    let (safe, told) = analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"]);
    assert!(safe, "{told}");
}
