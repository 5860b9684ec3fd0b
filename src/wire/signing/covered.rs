//! The bytes a signature covers (wire.md 8.2): a JSON array without white space, then the payload as published.

use std::borrow::Cow;

/// What of a frame is signed, as texts of the packet. What is absent is empty.
#[derive(Clone, Debug, Default)]
pub struct Covered<'a> {
    /// The full topic published to.
    pub topic: &'a str,
    /// Where the answer is wanted; of a request only.
    pub response_topic: &'a str,
    /// `mr-src`.
    pub source: &'a str,
    /// `mr-kind`.
    pub kind: &'a str,
    /// `mr-path`.
    pub path: &'a str,
    /// `mr-method` if it is there, else `mr-event`.
    pub name: &'a str,
    /// The correlation data as text.
    pub correlation: Cow<'a, str>,
    /// The content type as in the packet.
    pub content_type: &'a str,
    /// `mr-code`.
    pub code: &'a str,
    /// `mr-ver`.
    pub contract_version: &'a str,
    /// `mr-ttl`, as written: `010000` is not `10000`.
    pub ttl: &'a str,
    /// `mr-idem`.
    pub idempotency_key: &'a str,
    /// `mr-fence`.
    pub fence: &'a str,
    /// `mr-deferred`.
    pub deferred: &'a str,
    /// `mr-outcome`.
    pub outcome: &'a str,
    /// `mr-seq`, as written.
    pub seq: &'a str,
    /// `mr-epoch`.
    pub epoch: &'a str,
    /// The payload, not decoded.
    pub payload: &'a [u8],
}

/// What a signed frame carries beside what it says, as it stands in the packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks<'a> {
    /// `mr-v`.
    pub layout: Option<&'a str>,
    /// `mr-nonce`.
    pub nonce: Option<&'a str>,
    /// `mr-ts`.
    pub time: Option<&'a str>,
    /// `mr-sig`.
    pub signature: Option<&'a str>,
}

/// The layout version that is signed; there is no other (W-094).
pub(super) const LAYOUT: &str = "3";

impl Covered<'_> {
    /// The bytes to sign (W-091): `time` in milliseconds since 1970, and the nonce of this one frame.
    pub fn canonical(&self, time: u64, nonce: &str) -> Vec<u8> {
        let texts = [
            LAYOUT,
            self.topic,
            self.response_topic,
            self.source,
            self.kind,
            self.path,
            self.name,
            &self.correlation,
            self.content_type,
            self.code,
            self.contract_version,
            self.ttl,
            self.idempotency_key,
            self.fence,
            self.deferred,
            self.outcome,
            self.seq,
            self.epoch,
        ];
        let length: usize = texts.iter().map(|text| text.len() + 3).sum();
        let mut bytes = Vec::with_capacity(length + nonce.len() + 32 + self.payload.len());
        bytes.push(b'[');
        for text in texts {
            quote(&mut bytes, text);
            bytes.push(b',');
        }
        bytes.extend_from_slice(time.to_string().as_bytes());
        bytes.push(b',');
        quote(&mut bytes, nonce);
        bytes.push(b']');
        bytes.extend_from_slice(self.payload);
        bytes
    }
}

/// Writes a text as a JSON string, with the escapes that JavaScript writes and no other.
fn quote(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' => bytes.extend_from_slice(b"\\\""),
            b'\\' => bytes.extend_from_slice(b"\\\\"),
            0x08 => bytes.extend_from_slice(b"\\b"),
            b'\t' => bytes.extend_from_slice(b"\\t"),
            b'\n' => bytes.extend_from_slice(b"\\n"),
            0x0C => bytes.extend_from_slice(b"\\f"),
            b'\r' => bytes.extend_from_slice(b"\\r"),
            0x00..=0x1F => {
                bytes.extend_from_slice(b"\\u00");
                bytes.extend([hex(byte >> 4), hex(byte & 0x0F)]);
            }
            _ => bytes.push(byte),
        }
    }
    bytes.push(b'"');
}

const fn hex(digit: u8) -> u8 {
    if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a text holds, it is written as the JSON of the rest of the world.
        #[test]
        fn a_text_is_quoted_as_json_is(text in any::<String>()) {
            let mut bytes = Vec::new();
            quote(&mut bytes, &text);
            prop_assert_eq!(bytes, serde_json::to_vec(&text).unwrap());
        }

        /// No two frames share their bytes: what one field loses, its neighbour cannot gain.
        #[test]
        fn the_boundaries_of_fields_are_signed(a in "[a-c\",\\\\]{0,4}", b in "[a-c\",\\\\]{0,4}", c in "[a-c\",\\\\]{0,4}", d in "[a-c\",\\\\]{0,4}") {
            let of = |path, name| Covered { path, name, ..Covered::default() }.canonical(1, "n");
            prop_assert_eq!(of(&a, &b) == of(&c, &d), (&a, &b) == (&c, &d));
        }
    }
}
