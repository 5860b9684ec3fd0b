//! Signatures of frames on MQTT, pure (wire.md 8): the bytes that are signed (`covered`), keys (`key`), what was seen
//! before (`nonces`), the two sides ([`Signer`], [`Verifier`]), the file that keys come in ([`keyfile`]), keys of further peers of ours
//! that are made of one key ([`Kin`]), and what they present to a hub ([`Minter`]).
//!
//! Nothing here reads a clock or draws randomness: the time and the nonce are arguments. No key is ever printed, and keys
//! are wiped when they are dropped.

mod covered;
mod key;
pub mod keyfile;
mod kin;
mod minter;
mod nonces;
mod refusal;
mod verifier;

pub use covered::{Covered, Marks};
pub use key::{PublicKey, Secret, Seed, SignatureKey, VerifierKey};
pub use keyfile::{KeyFile, KeyFileError};
pub use kin::{Kin, KinKey, Listed};
pub use minter::{Claims, Minter};
pub use refusal::Refusal;
pub use verifier::{Signer, Verifier};

#[cfg(test)]
mod tests;
