//! Signatures of frames on MQTT, pure (wire.md 8): the bytes that are signed (`covered`), keys (`key`), what was seen
//! before (`nonces`), the two sides ([`Signer`], [`Verifier`]) and the file that keys come in ([`keyfile`]); and the
//! credentials that are minted for programs (`derived`).
//!
//! Nothing here reads a clock or draws randomness: the time and the nonce are arguments. No key is ever printed, and keys
//! are wiped when they are dropped.

mod covered;
mod derived;
mod key;
pub mod keyfile;
mod nonces;
mod refusal;
mod verifier;

pub use covered::{Covered, Marks};
pub use derived::{Claims, mint};
pub use key::{PublicKey, Secret, Seed, SignatureKey, VerifierKey};
pub use keyfile::{KeyFile, KeyFileError};
pub use refusal::Refusal;
pub use verifier::{Signer, Verifier};

#[cfg(test)]
mod tests;
