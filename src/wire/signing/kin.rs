//! Keys of further peers of ours, made of the key of one: a fake signs as itself, by a key that whoever holds the key file
//! of its bridge can make again, and nobody else.
//!
//! HKDF-SHA256 (RFC 5869), one block of 32 bytes:
//!
//! ```text
//! salt  "plantbridge/kin/1"
//! key   HMAC: the secret's UTF-8 bytes. Ed25519: the 32 bytes of the seed
//! info  "hmac-sha256" or "ed25519", a zero byte, the peer's name in UTF-8
//! ```
//!
//! Of an HMAC key the standard base64 of the block is the secret of the new peer; of a seed, the block is its seed. The
//! salt is no key of anybody, so nothing that was ever signed helps to make one; the kind and the name are in what is
//! hashed, so no two peers have one key. It goes one way: the key of a fake tells nothing of that of its bridge. But whoever
//! verifies the bridge's HMAC signatures has its secret, and can make those of its fakes too; of a key pair nobody can who
//! has not the seed.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::key::HmacKey;
use super::{PublicKey, Secret, Seed, SignatureKey, Signer};
use crate::wire::PeerName;

/// What keys of further peers are made of.
#[derive(Clone, Debug)]
pub struct Kin(Root);

#[derive(Clone, Debug)]
enum Root {
    Hmac(Secret),
    Ed25519(Seed),
}

/// The key of one further peer.
#[derive(Clone, Debug)]
pub struct KinKey {
    /// What it signs with.
    pub signer: Signer,
    /// What others list it with.
    pub listed: Listed,
}

/// What a peer is listed with in the key files of others.
#[derive(Clone, Debug)]
pub enum Listed {
    /// A secret: whoever lists it can sign with it.
    Secret(Secret),
    /// A public key.
    Public(PublicKey),
}

const SALT: &[u8] = b"plantbridge/kin/1";

impl Kin {
    /// Of a secret.
    pub const fn hmac(secret: Secret) -> Self {
        Self(Root::Hmac(secret))
    }

    /// Of a key pair.
    pub const fn ed25519(seed: Seed) -> Self {
        Self(Root::Ed25519(seed))
    }

    /// The key of the peer of this name: the same each time.
    pub fn key_of(&self, name: &PeerName) -> KinKey {
        match &self.0 {
            Root::Hmac(secret) => {
                let block = expanded(secret.expose().as_bytes(), "hmac-sha256", name);
                let secret = Secret::new(BASE64_STANDARD.encode(*block));
                KinKey { signer: Signer::new(SignatureKey::hmac(&secret)), listed: Listed::Secret(secret) }
            }
            Root::Ed25519(seed) => {
                let seed = Seed::new(*expanded(seed.bytes(), "ed25519", name));
                let listed = Listed::Public(seed.public());
                KinKey { signer: Signer::new(SignatureKey::ed25519(&seed)), listed }
            }
        }
    }
}

fn expanded(key: &[u8], kind: &str, name: &PeerName) -> zeroize::Zeroizing<[u8; 32]> {
    let extracted = HmacKey::of(SALT).tag(key);
    let info = [kind.as_bytes(), &[0], name.as_str().as_bytes(), &[1]].concat();
    HmacKey::of(&*extracted).tag(&info)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> PeerName {
        PeerName::mqtt(text).unwrap()
    }

    fn listed(kin: &Kin, of: &str) -> String {
        match kin.key_of(&name(of)).listed {
            Listed::Secret(secret) => secret.expose().to_owned(),
            Listed::Public(public) => public.to_string(),
        }
    }

    /// Calculated with another implementation of HKDF and of Ed25519.
    #[test]
    fn a_key_is_that_of_hkdf() {
        let hmac = Kin::hmac(Secret::new("a secret of some length".into()));
        assert_eq!(listed(&hmac, "oven-2"), "PyVDsMULQ0MChx1FrXZ/B+Mpqn1pb8GwA4aC+0STWBI=");
        let pair = Kin::ed25519(Seed::new(std::array::from_fn(|at| u8::try_from(at).unwrap())));
        assert_eq!(listed(&pair, "öfen 2"), "uUW2MnEqQty+/QK84ChhYTN6qqtmu0tBEdzlxSeIrUw=");
    }

    #[test]
    fn every_name_and_every_root_has_its_own() {
        let roots = ["one secret", "another"].map(|text| Kin::hmac(Secret::new(text.into())));
        let pairs = [1, 2].map(|byte| Kin::ed25519(Seed::new([byte; 32])));
        let mut all = std::collections::BTreeSet::new();
        for kin in roots.iter().chain(&pairs) {
            for of in ["a", "b", "ab"] {
                assert!(all.insert(listed(kin, of)), "{of}");
                assert_eq!(listed(kin, of), listed(kin, of), "the same each time");
            }
        }
    }

    #[test]
    fn neither_is_printed() {
        let secret = "a secret of some length";
        let kin = Kin::hmac(Secret::new(secret.into()));
        let made = listed(&kin, "oven");
        let printed = format!("{kin:?} {:?}", kin.key_of(&name("oven")));
        assert!(!printed.contains(secret) && !printed.contains(&made), "{printed}");
    }
}
