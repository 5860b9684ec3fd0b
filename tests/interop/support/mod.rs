//! What the foreign tests stand on: a real broker, children that speak JSON lines, and the binary under test.

mod authority;
mod broker;
mod child;
mod composed;
mod foreign;
mod keys;
mod mcp;

pub(crate) use authority::{Authority, Shown};
pub(crate) use broker::{Broker, BrokerOptions};
pub(crate) use child::Child;
pub(crate) use composed::{Account, Composed};
pub(crate) use foreign::{Caller, Hub, Peer, inspector, javascript_client, metrics, python_client};
pub(crate) use keys::{Keys, Kind};
pub(crate) use mcp::{Bridge, call_arguments, error_of, structured};

use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long anything may take before the test fails. Nothing waits this long when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The binary under test.
pub(crate) const PLANTBRIDGE: &str = env!("CARGO_BIN_EXE_plantbridge");

/// Where `cargo xtask install` puts the foreign parties.
pub(crate) fn installed(what: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the scratch folder lies in the target folder");
    let path = target.join("interop").join(what);
    assert!(path.exists(), "{} is missing: run `cargo xtask test`, which installs it", path.display());
    path
}

/// A file of this folder.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name)
}
