//! What tests of the layers above the wire share.

use crate::wire::PeerName;

/// A peer name.
pub(crate) fn name(text: &str) -> PeerName {
    PeerName::mqtt(text).expect("a usable name")
}
