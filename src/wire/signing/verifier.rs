//! The two sides of a signature: what marks our frames, and what decides about those of others.

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::covered::LAYOUT;
use super::key::signature_bytes;
use super::nonces::{Nonces, WINDOW_MS};
use super::{Covered, Marks, PublicKey, Refusal, SignatureKey, VerifierKey};
use crate::wire::PeerName;
use crate::wire::value::MAX_SAFE_INTEGER;

/// Signs our frames.
#[derive(Clone, Debug)]
pub struct Signer(SignatureKey);

/// What a signed frame is sent with: `mr-nonce`, `mr-ts`, `mr-sig`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// 16 random bytes, as text.
    pub nonce: String,
    /// The time.
    pub time: String,
    /// The signature.
    pub signature: String,
}

impl Signer {
    /// Signs with this key.
    pub const fn new(key: SignatureKey) -> Self {
        Self(key)
    }

    /// What kind of key it is, for people.
    pub const fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// What others verify with, if that is no secret.
    pub fn public(&self) -> Option<PublicKey> {
        self.0.public()
    }

    /// Signs a frame: `now` in milliseconds since 1970, and a nonce that was never used and cannot be guessed.
    pub fn sign(&self, covered: &Covered<'_>, now: u64, nonce: [u8; 16]) -> Signed {
        let nonce = BASE64_STANDARD.encode(nonce);
        let signature = self.0.sign(&covered.canonical(now, &nonce));
        Signed { nonce, time: now.to_string(), signature }
    }
}

/// Decides whether a frame is believed. It remembers what it has seen, so there is one for all connections of a link.
#[derive(Debug)]
pub struct Verifier {
    /// The key of each source, and its number in the memory.
    keys: HashMap<PeerName, (usize, VerifierKey)>,
    nonces: Nonces,
}

impl Verifier {
    /// Believes these, by these keys, and nobody else.
    pub fn new(peers: impl IntoIterator<Item = (PeerName, VerifierKey)>) -> Self {
        let numbered = peers.into_iter().enumerate();
        let keys: HashMap<_, _> = numbered.map(|(number, (name, key))| (name, (number, key))).collect();
        // Numbers are given before a name that stands twice is dropped, so they end where the list does.
        let sources = keys.values().map(|(number, _)| number + 1).max().unwrap_or_default();
        Self { nonces: Nonces::new(sources), keys }
    }

    /// How many sources are believed.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Believes a frame of `source`, or says why not, in the order of wire.md 8.4; `now` in milliseconds since 1970. The
    /// key is that of the source the frame names, so who signed is who it says (W-094). The nonce counts as seen only
    /// once the signature was found right: a forged frame spends nobody's nonce (W-090).
    ///
    /// # Errors
    /// Why not.
    pub fn verify(
        &mut self,
        source: &PeerName,
        covered: &Covered<'_>,
        marks: &Marks<'_>,
        now: u64,
    ) -> Result<(), Refusal> {
        let (Some(signature), Some(nonce)) = (filled(marks.signature), filled(marks.nonce)) else {
            return Err(Refusal::Unsigned);
        };
        if marks.layout.is_some_and(|layout| layout != LAYOUT) {
            return Err(Refusal::Layout);
        }
        let time = marks.time.and_then(plain).ok_or(Refusal::Time)?;
        fresh(time, now)?;
        let (number, key) = self.keys.get(source).ok_or(Refusal::UnknownSource)?;
        self.nonces.check(*number, nonce, time)?;
        let signature = signature_bytes(signature).ok_or(Refusal::Encoding)?;
        if !key.verifies(&covered.canonical(time, nonce), &signature) {
            return Err(Refusal::Signature);
        }
        self.nonces.record(*number, nonce, time, now);
        Ok(())
    }
}

fn filled(mark: Option<&str>) -> Option<&str> {
    mark.filter(|text| !text.is_empty())
}

/// Within the window, whatever the two numbers are (W-094).
const fn fresh(time: u64, now: u64) -> Result<(), Refusal> {
    let apart = time.abs_diff(now);
    if apart <= WINDOW_MS {
        Ok(())
    } else if time < now {
        Err(Refusal::Stale { seconds: apart / 1000 })
    } else {
        Err(Refusal::Early { seconds: apart / 1000 })
    }
}

/// A time in plain digits, without a leading zero and up to 2^53−1: one number has one text, so that a text cannot be
/// replaced by another under the same signature.
fn plain(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || (text.starts_with('0') && text.len() > 1) {
        return None;
    }
    text.parse().ok().filter(|time| *time <= MAX_SAFE_INTEGER.unsigned_abs())
}
