//! Names of peers and the topic prefix (wire.md 2). Lengths count UTF-16 code units (W-001).

use std::fmt;
use std::sync::Arc;

use super::topic::sendable;

/// The name of a peer: valid on at least one kind of link, cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerName(Arc<str>);

impl PeerName {
    /// Reads a name as the MQTT link accepts it: 1–128 UTF-16 units, no control characters, no `#`, `+`, `/`.
    pub fn mqtt(text: &str) -> Result<Self, NameError> {
        check(text, MAX_NAME, |c| c.is_ascii_control() || matches!(c, '#' | '+' | '/'))?;
        Ok(Self(text.into()))
    }

    /// Reads a name as the hub link accepts it: 1–128 UTF-16 units, no control characters, no space.
    pub fn hub(text: &str) -> Result<Self, NameError> {
        check(text, MAX_NAME, |c| c.is_ascii_control() || c == ' ')?;
        Ok(Self(text.into()))
    }

    /// Reads a name that we are to go by: good on both links (W-001), and in every packet we write (W-082).
    pub fn configured(text: &str) -> Result<Self, NameError> {
        Self::hub(text)?;
        check(text, MAX_NAME, unsendable)?;
        Self::mqtt(text)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What every topic of one network begins with; `msgrpc/v2` unless configured. Both ends must agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// Reads a prefix: 1–256 UTF-16 units, no slash at either end, no control characters, no `#`, `+` (W-001).
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, MAX_PREFIX, |c| unsendable(c) || matches!(c, '#' | '+'))?;
        if text.starts_with('/') || text.ends_with('/') {
            return Err(NameError::Slash);
        }
        Ok(Self(text.into()))
    }

    /// The prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("msgrpc/v2".into())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What is wrong with a name or a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it has {units} UTF-16 units and may have {limit}")]
    TooLong {
        /// How long it is.
        units: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A character that may not stand in it.
    #[error("it may not contain {0:?}")]
    Character(char),
    /// A prefix with a slash at an end.
    #[error("it begins or ends with a slash")]
    Slash,
    /// The prefix and the name together give a reply topic that peers refuse to answer to.
    #[error("the reply topic {0:?} it leads to is refused by peers: it begins with `$` or has over 256 UTF-16 units")]
    ReplyTopic(String),
}

/// How many UTF-16 units a peer name may have.
const MAX_NAME: usize = 128;
/// How many UTF-16 units a prefix may have.
const MAX_PREFIX: usize = 256;

fn check(text: &str, limit: usize, refused: impl Fn(char) -> bool) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    let units = units(text);
    if units > limit {
        return Err(NameError::TooLong { units, limit });
    }
    text.chars().find(|&c| refused(c)).map_or(Ok(()), |c| Err(NameError::Character(c)))
}

/// How many UTF-16 code units the text has.
pub(super) fn units(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

fn unsendable(c: char) -> bool {
    !sendable(c.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::vectors;

    /// W-001, W-002: every recorded name, on both links, and its length in UTF-16 units.
    #[test]
    fn names_are_accepted_as_recorded() {
        for vector in vectors::list("names.json", "peerNames") {
            let name = vector["name"].as_str().unwrap();
            assert_eq!(Some(units(name) as u64), vector["utf16Length"].as_u64(), "{name:?}");
            let (mqtt, hub) = (vector["mqtt"].as_bool().unwrap(), vector["hub"].as_bool().unwrap());
            assert_eq!(PeerName::mqtt(name).is_ok(), mqtt, "{name:?} on MQTT");
            assert_eq!(PeerName::hub(name).is_ok(), hub, "{name:?} on a hub");
            assert_eq!(PeerName::configured(name).is_ok(), mqtt && hub, "{name:?} as our own");
        }
    }

    /// W-001: every recorded prefix.
    #[test]
    fn prefixes_are_accepted_as_recorded() {
        for vector in vectors::list("names.json", "prefixes") {
            let prefix = vector["prefix"].as_str().unwrap();
            assert_eq!(Prefix::new(prefix).is_ok(), vector["accepted"].as_bool().unwrap(), "{prefix:?}");
        }
        assert_eq!(Prefix::new(Prefix::default().as_str()), Ok(Prefix::default()));
    }

    /// W-001: each refusal says what is wrong.
    #[test]
    fn a_refusal_names_the_fault() {
        assert_eq!(PeerName::mqtt(""), Err(NameError::Empty));
        assert_eq!(PeerName::mqtt("a/b"), Err(NameError::Character('/')));
        assert_eq!(PeerName::hub("a b"), Err(NameError::Character(' ')));
        assert_eq!(PeerName::mqtt(&"🎛".repeat(65)), Err(NameError::TooLong { units: 130, limit: 128 }));
        assert_eq!(Prefix::new("/a"), Err(NameError::Slash));
    }

    /// W-082: a name or prefix that could not be written to a broker is refused when it is configured, not when used.
    #[test]
    fn our_own_names_hold_nothing_unsendable() {
        for bad in ["a\u{85}", "a\u{fdd0}", "a\u{1fffe}"] {
            assert!(PeerName::mqtt(bad).is_ok(), "{bad:?} is accepted from others");
            assert!(matches!(PeerName::configured(bad), Err(NameError::Character(_))), "{bad:?}");
            assert!(matches!(Prefix::new(bad), Err(NameError::Character(_))), "{bad:?}");
        }
    }
}
