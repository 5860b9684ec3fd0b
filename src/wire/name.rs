//! Names of peers and the topic prefix (wire.md 2). Lengths count UTF-16 code units (W-001).

use std::sync::Arc;

/// The name of a peer: valid on at least one kind of link, cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerName(Arc<str>);

impl PeerName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for PeerName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl PeerName {
    /// Reads a name as the MQTT link accepts it: 1–128 UTF-16 units, no control characters, no `#`, `+`, `/`.
    pub fn mqtt(text: &str) -> Option<Self> {
        let units = text.encode_utf16().count();
        let bad = |c: char| c.is_ascii_control() || matches!(c, '#' | '+' | '/');
        ((1..=128).contains(&units) && !text.contains(bad)).then(|| Self(text.into()))
    }
}
