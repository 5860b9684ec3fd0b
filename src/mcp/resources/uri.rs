//! The addresses of resources: what a client writes, and how we write it. Pure.
//!
//! A part of an address is a name and nothing else: it is decoded once, and what is no text, is empty, or holds what cannot
//! be shown is refused. No part is ever a path of a file.

use std::fmt::Write as _;

use crate::mcp::text;

/// What an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::mcp) enum Resource {
    /// How to go about it.
    Guide,
    /// The error codes.
    Errors,
    /// How the bridge stands.
    Status,
    /// What a peer says of itself.
    Description { peer: String },
    /// What a component holds.
    State { peer: String, namespace: String },
    /// What a fake serves.
    FakeContract { name: String },
    /// A contract that is kept.
    Contract { name: String },
    /// What a standing watch holds.
    Watch { id: String },
}

impl Resource {
    /// Reads an address.
    pub(in crate::mcp) fn parse(uri: &str) -> Option<Self> {
        if uri.len() > LONGEST {
            return None;
        }
        let (scheme, rest) = uri.split_once("://")?;
        let mut parts = rest.split('/').map(decoded).collect::<Option<Vec<String>>>()?;
        let mut part = |at: usize| parts.get_mut(at).map(std::mem::take).unwrap_or_default();
        let shape: Vec<&str> = rest.split('/').collect();
        Some(match (scheme, shape.as_slice()) {
            ("plant", ["guide"]) => Self::Guide,
            ("plant", ["errors"]) => Self::Errors,
            ("plant", ["status"]) => Self::Status,
            ("peer", [_, "description"]) => Self::Description { peer: part(0) },
            ("peer", [_, _, "state"]) => Self::State { peer: part(0), namespace: part(1) },
            ("fake", [_, "contract"]) => Self::FakeContract { name: part(0) },
            ("contract", [_]) => Self::Contract { name: part(0) },
            ("watch", [_]) => Self::Watch { id: part(0) },
            _ => return None,
        })
    }

    /// Its address, as we write it.
    pub(in crate::mcp) fn uri(&self) -> String {
        match self {
            Self::Guide => "plant://guide".into(),
            Self::Errors => "plant://errors".into(),
            Self::Status => "plant://status".into(),
            Self::Description { peer } => format!("peer://{}/description", encoded(peer)),
            Self::State { peer, namespace } => format!("peer://{}/{}/state", encoded(peer), encoded(namespace)),
            Self::FakeContract { name } => format!("fake://{}/contract", encoded(name)),
            Self::Contract { name } => format!("contract://{}", encoded(name)),
            Self::Watch { id } => format!("watch://{}", encoded(id)),
        }
    }

    /// The tool that shows the same; `None` for what is always there.
    pub(in crate::mcp) const fn tool(&self) -> Option<&'static str> {
        match self {
            Self::Guide | Self::Errors | Self::Status => None,
            Self::Description { .. } => Some("describe_peer"),
            Self::State { .. } => Some("read_state"),
            Self::FakeContract { .. } => Some("list_fakes"),
            Self::Contract { .. } => Some("read_contract"),
            Self::Watch { .. } => Some("read_watch"),
        }
    }
}

/// One part of an address as a name.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            b' ' | b'"' | b'#' | b'<' | b'>' | b'?' | b'[' | b'\\' | b']' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                return None;
            }
            byte => byte,
        });
    }
    let name = String::from_utf8(bytes).ok()?;
    (!name.is_empty() && !name.chars().any(text::is_unsafe)).then_some(name)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Bytes an address may have.
const LONGEST: usize = 4_096;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_address_names_what_it_says() {
        let state = |peer: &str, namespace: &str| Resource::State { peer: peer.into(), namespace: namespace.into() };
        for (uri, resource) in [
            ("plant://guide", Resource::Guide),
            ("peer://oven-1/description", Resource::Description { peer: "oven-1".into() }),
            ("peer://oven%2F1/line.1/state", state("oven/1", "line.1")),
            ("peer://Öfen/%24data/state", state("Öfen", "$data")),
            ("peer://..%2f..%2fetc/%2E%2E/state", state("../../etc", "..")),
            ("fake://f/contract", Resource::FakeContract { name: "f".into() }),
            ("contract://pump", Resource::Contract { name: "pump".into() }),
            ("watch://wail-1-a0b1", Resource::Watch { id: "wail-1-a0b1".into() }),
        ] {
            assert_eq!(Resource::parse(uri), Some(resource), "{uri}");
        }
    }

    /// What is no address of ours, or hides something, is nothing.
    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("contract://{}", "x".repeat(LONGEST));
        for uri in [
            "",
            "plant:guide",
            "plant://",
            "plant://guide/",
            "plant://guide?x=1",
            "plant://guide#top",
            "PLANT://guide",
            "plant:///guide",
            "file:///etc/passwd",
            "peer:///description",
            "peer://a//state",
            "peer://a/b/c/state",
            "peer://a/state",
            "peer://a/%00/state",
            "peer://a/%0A/state",
            "peer://a/%E2%80%AE/state",
            "peer://a/\u{202e}/state",
            "peer://a/%ED%A0%80/state",
            "peer://a/%C0%AF/state",
            "peer://a/%zz/state",
            "peer://a/%4/state",
            "peer://a b/c/state",
            "contract://a|b",
            &long,
        ] {
            assert_eq!(Resource::parse(uri), None, "{uri}");
        }
    }

    proptest! {
        /// What we write is read back as what it was.
        #[test]
        fn an_address_is_read_back(peer in "[^\\p{C}]{1,40}", namespace in "[^\\p{C}]{1,40}") {
            prop_assume!(!peer.chars().chain(namespace.chars()).any(text::is_unsafe));
            for resource in [
                Resource::State { peer: peer.clone(), namespace: namespace.clone() },
                Resource::Description { peer: peer.clone() },
                Resource::Watch { id: namespace.clone() },
            ] {
                let uri = resource.uri();
                prop_assert!(uri.is_ascii());
                prop_assert_eq!(Resource::parse(&uri), Some(resource));
            }
        }

        /// Nothing a client writes is more than a name.
        #[test]
        fn whatever_is_read_can_be_shown(uri in "(peer|watch|contract|fake)://(%[0-9a-fA-F]{2}|[a-z/]|\\PC){0,20}(/state|/contract|)") {
            if let Some(resource) = Resource::parse(&uri) {
                let shown = format!("{resource:?}");
                prop_assert!(!shown.chars().any(text::is_unsafe), "{}", shown);
            }
        }
    }
}
