//! Keys: what signs and what verifies. None is printed, and each is wiped when it is dropped.

use std::fmt;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize, Zeroizing};

/// A text that is never printed.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The secret, for whoever writes it where secrets are kept.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}

/// The secret half of an Ed25519 key pair.
#[derive(Clone)]
pub struct Seed(Zeroizing<[u8; 32]>);

impl Seed {
    /// Takes the bytes; the argument of the caller is its own to wipe.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Reads it as a key file holds it.
    pub(super) fn read(text: &str) -> Result<Self, KeyText> {
        key_bytes(text).map(Self)
    }

    /// The bytes, for what is made of them.
    pub(super) fn bytes(&self) -> &[u8] {
        &*self.0
    }

    /// As a key file holds it.
    pub fn write(&self) -> Secret {
        Secret::new(BASE64_STANDARD.encode(*self.0))
    }

    /// The half that others verify with.
    pub fn public(&self) -> PublicKey {
        PublicKey(SigningKey::from_bytes(&self.0).verifying_key())
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Seed(…)")
    }
}

/// The public half of an Ed25519 key pair; no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads it as a key file holds it. A key for which anybody can sign is none.
    pub(super) fn read(text: &str) -> Result<Self, KeyText> {
        let bytes = key_bytes(text)?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| KeyText::NoPoint)?;
        if key.is_weak() { Err(KeyText::Weak) } else { Ok(Self(key)) }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&BASE64_STANDARD.encode(self.0.as_bytes()))
    }
}

/// What is wrong with the text of a key. The text itself is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyText {
    /// Not base64.
    #[error("is not base64 (the standard alphabet, padded)")]
    Encoding,
    /// Another number of bytes.
    #[error("is {0} bytes long; an Ed25519 key has 32")]
    Length(usize),
    /// No point of the curve.
    #[error("is no Ed25519 public key")]
    NoPoint,
    /// A point of small order.
    #[error("is a key for which anybody can sign")]
    Weak,
}

fn key_bytes(text: &str) -> Result<Zeroizing<[u8; 32]>, KeyText> {
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(text).map_err(|_| KeyText::Encoding)?);
    let mut key = Zeroizing::new([0; 32]);
    if bytes.len() != key.len() {
        return Err(KeyText::Length(bytes.len()));
    }
    key.copy_from_slice(&bytes);
    Ok(key)
}

/// What we sign with.
#[derive(Clone)]
pub enum SignatureKey {
    /// A secret that whoever verifies has too.
    Hmac(Box<HmacKey>),
    /// A key pair of our own.
    Ed25519(Box<SigningKey>),
}

impl SignatureKey {
    /// The key of a secret: its UTF-8 bytes as they are (W-093).
    pub fn hmac(secret: &Secret) -> Self {
        Self::Hmac(Box::new(HmacKey::new(secret)))
    }

    /// The key pair of a seed.
    pub fn ed25519(seed: &Seed) -> Self {
        Self::Ed25519(Box::new(SigningKey::from_bytes(&seed.0)))
    }

    /// What kind it is, for people.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Hmac(_) => "HMAC-SHA256",
            Self::Ed25519(_) => "Ed25519",
        }
    }

    /// What others may know of it: the public half of a pair, nothing of a secret.
    pub fn public(&self) -> Option<PublicKey> {
        match self {
            Self::Hmac(_) => None,
            Self::Ed25519(key) => Some(PublicKey(key.verifying_key())),
        }
    }

    /// The signature as a packet carries it.
    pub(super) fn sign(&self, bytes: &[u8]) -> String {
        match self {
            Self::Hmac(key) => BASE64_STANDARD.encode(key.over(bytes).finalize().into_bytes()),
            Self::Ed25519(key) => BASE64_STANDARD.encode(key.sign(bytes).to_bytes()),
        }
    }
}

impl fmt::Debug for SignatureKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SignatureKey({} …)", self.kind())
    }
}

/// What we verify one peer with.
#[derive(Clone)]
pub enum VerifierKey {
    /// The secret it signs with.
    Hmac(Box<HmacKey>),
    /// The public half of its key pair.
    Ed25519(Box<PublicKey>),
}

impl VerifierKey {
    /// The key of a secret: its UTF-8 bytes as they are (W-093).
    pub fn hmac(secret: &Secret) -> Self {
        Self::Hmac(Box::new(HmacKey::new(secret)))
    }

    /// A public key.
    pub fn ed25519(key: PublicKey) -> Self {
        Self::Ed25519(Box::new(key))
    }

    /// Whether `signature` is that of `bytes`. Takes the same time wherever they differ (W-096).
    pub(super) fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Hmac(key) => key.over(bytes).verify_slice(signature).is_ok(),
            Self::Ed25519(key) => {
                Signature::from_slice(signature).is_ok_and(|signature| key.0.verify_strict(bytes, &signature).is_ok())
            }
        }
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Hmac(_) => "VerifierKey(HMAC-SHA256 …)",
            Self::Ed25519(_) => "VerifierKey(Ed25519 …)",
        })
    }
}

/// A secret, made ready once: each signature begins with a copy of the two hashes it starts.
#[derive(Clone)]
pub struct HmacKey(Hmac<Sha256>);

impl HmacKey {
    fn new(secret: &Secret) -> Self {
        Self::of(secret.expose().as_bytes())
    }

    /// A key of any length, made one block long as HMAC says: a longer one is hashed first.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut block = Zeroizing::new([0; BLOCK]);
        let hash: Zeroizing<[u8; 32]>;
        let key: &[u8] = if bytes.len() > BLOCK {
            hash = Zeroizing::new(Sha256::digest(bytes).into());
            &*hash
        } else {
            bytes
        };
        for (to, from) in block.iter_mut().zip(key) {
            *to = *from;
        }
        Self(Hmac::new((&*block).into()))
    }

    fn over(&self, bytes: &[u8]) -> Hmac<Sha256> {
        self.0.clone().chain_update(bytes)
    }

    /// The 32 bytes that HMAC-SHA256 makes of these.
    pub(super) fn tag(&self, bytes: &[u8]) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.over(bytes).finalize().into_bytes().into())
    }
}

/// How many bytes SHA-256 takes at a time.
const BLOCK: usize = 64;

/// The bytes of a signature; its base64 may lack the padding or be of the alphabet for addresses, as peers take it.
pub(super) fn signature_bytes(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
    const FOR_ADDRESSES: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);
    if text.len() > LONGEST_SIGNATURE {
        return None;
    }
    PLAIN.decode(text).or_else(|_| FOR_ADDRESSES.decode(text)).ok()
}

/// Longer than the text of any signature.
const LONGEST_SIGNATURE: usize = 128;

/// Every key is wiped when it is dropped; this does not compile when one is not.
const _: () = {
    const fn wiped<T: zeroize::ZeroizeOnDrop>() {}
    const fn wipes<T: Zeroize>() {}
    wiped::<SigningKey>();
    // An HMAC is two of these.
    wiped::<Sha256>();
    wipes::<Zeroizing<String>>();
};
