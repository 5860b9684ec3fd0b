//! The digest of arguments, made with a salt that stays in the directory.
//!
//! Without the salt nothing can be learned from a digest, not even by trying every value there is. With the salt a small
//! value can be found by trying: that is what the salt is for, and why it is a file that only its owner reads.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value as Json};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::chain::{Hash, hex};

/// Bytes of a salt.
pub(super) const BYTES: usize = 32;

/// What digests of one directory are made with.
#[derive(Clone)]
pub(super) struct Salt {
    keyed: Hmac<Sha256>,
    mark: String,
}

impl fmt::Debug for Salt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Salt({})", self.mark)
    }
}

impl Salt {
    pub(super) fn new(bytes: &Zeroizing<[u8; BYTES]>) -> Option<Self> {
        let keyed = Hmac::new_from_slice(&**bytes).ok()?;
        let mark = Hash::of(&[b"salt ".as_slice(), &**bytes].concat()).to_string();
        Some(Self { keyed, mark: mark.get(..16)?.to_owned() })
    }

    /// Tells one salt from another, and nothing else.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// HMAC-SHA-256 over the name of the tool, a zero byte, and the arguments as JSON without blanks, the members of every
    /// object in the order of their names.
    pub(super) fn digest(&self, tool: &str, arguments: &Map<String, Json>) -> String {
        let mut mac = self.keyed.clone();
        mac.update(tool.as_bytes());
        mac.update(&[0]);
        object(&mut mac, arguments);
        hex(&mac.finalize().into_bytes())
    }
}

fn object(mac: &mut Hmac<Sha256>, members: &Map<String, Json>) {
    let mut names: Vec<&String> = members.keys().collect();
    names.sort_unstable();
    mac.update(b"{");
    for (at, name) in names.into_iter().enumerate() {
        mac.update(if at == 0 { b"" } else { b"," });
        scalar(mac, &Json::String(name.clone()));
        mac.update(b":");
        value(mac, members.get(name).unwrap_or(&Json::Null));
    }
    mac.update(b"}");
}

fn value(mac: &mut Hmac<Sha256>, json: &Json) {
    match json {
        Json::Object(members) => object(mac, members),
        Json::Array(items) => {
            mac.update(b"[");
            for (at, item) in items.iter().enumerate() {
                mac.update(if at == 0 { b"" } else { b"," });
                value(mac, item);
            }
            mac.update(b"]");
        }
        scalar_value => scalar(mac, scalar_value),
    }
}

fn scalar(mac: &mut Hmac<Sha256>, json: &Json) {
    mac.update(json.to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn digest(salt: u8, tool: &str, arguments: &Json) -> String {
        let salt = Salt::new(&Zeroizing::new([salt; BYTES])).unwrap();
        salt.digest(tool, arguments.as_object().unwrap())
    }

    /// The order of members is nothing a client means; everything else is, and so is the salt.
    #[test]
    fn a_digest_is_of_what_was_meant() {
        let one = digest(1, "set_state", &json!({"a": [1, {"x": 1, "y": "2"}], "b": null}));
        assert_eq!(one, digest(1, "set_state", &json!({"b": null, "a": [1, {"y": "2", "x": 1}]})));
        for other in [json!({"a": [1, {"x": 1, "y": 2}], "b": null}), json!({"a": [1, {"x": 1, "y": "2"}]})] {
            assert_ne!(one, digest(1, "set_state", &other));
        }
        assert_ne!(digest(1, "a", &json!({})), digest(1, "b", &json!({})));
        assert_ne!(digest(1, "a", &json!({})), digest(2, "a", &json!({})));
    }

    /// Anybody who has the salt and the arguments can make the digest again, as README.md says.
    #[test]
    fn a_digest_can_be_made_again_elsewhere() {
        let mut mac = Hmac::<Sha256>::new_from_slice(&[7; BYTES]).unwrap();
        mac.update(b"call_method\0{\"args\":[1.5,\"\\\"\"],\"peer\":\"bakery\"}");
        let told = digest(7, "call_method", &json!({"peer": "bakery", "args": [1.5, "\""]}));
        assert_eq!(told, hex(&mac.finalize().into_bytes()));
    }
}
