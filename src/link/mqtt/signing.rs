//! Signatures on a link: ours on what leaves, those of others on what arrives (wire.md 8). Clock and randomness are drawn
//! here; what is decided with them is `wire::signing`'s.
//!
//! With a list of peers, frames of every kind are believed or dropped; without one, all are taken as they come. Presence is
//! never signed. Nothing is sent about a frame that is dropped.

use std::collections::BTreeMap;

use crate::link::{LinkEvent, Rejection, now_ms};
use crate::wire::mqtt::{self, Publish};
use crate::wire::signing::{KeyFile, Signer, Verifier, VerifierKey};
use crate::wire::{DecodeError, PeerName, Topics};

/// How the frames of one peer are signed, and whose are believed. Another peer of this process has its own: a frame signed
/// with somebody else's key is refused everywhere.
#[derive(Clone, Debug)]
pub struct Signing {
    /// What signs what leaves.
    pub signer: Signer,
    /// Whose frames are taken, by which key; absent: everybody's, unverified.
    pub peers: Option<Vec<(PeerName, VerifierKey)>>,
}

impl From<KeyFile> for Signing {
    fn from(file: KeyFile) -> Self {
        Self { signer: file.signer, peers: file.peers }
    }
}

/// One link's signer and verifier, and how often the latter refused.
#[derive(Debug)]
pub(super) struct Guard {
    signer: Option<Signer>,
    verifier: Option<Verifier>,
    refused: BTreeMap<&'static str, u64>,
}

impl Guard {
    pub(super) fn new(signing: Option<&Signing>) -> Self {
        let peers = signing.and_then(|signing| signing.peers.clone());
        Self {
            signer: signing.map(|signing| signing.signer.clone()),
            verifier: peers.map(Verifier::new),
            refused: BTreeMap::new(),
        }
    }

    /// Signs what is about to leave, if we sign at all.
    pub(super) fn sign(&self, publish: &mut Publish) -> Result<(), Rejection> {
        let Some(signer) = &self.signer else { return Ok(()) };
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| {
            Rejection::Unsendable(format!("the system gives no random bytes to sign with: {error}"))
        })?;
        mqtt::sign(publish, signer, now(), nonce);
        Ok(())
    }

    /// Reads what arrived, and believes it or not.
    pub(super) fn read(&mut self, publish: Publish, topics: &Topics) -> LinkEvent {
        let Some(verifier) = &mut self.verifier else {
            return match mqtt::decode(publish, topics) {
                Ok(frame) => LinkEvent::Frame(Box::new(frame)),
                Err(error) => LinkEvent::Refused(error.to_string()),
            };
        };
        match mqtt::decode_signed(publish, topics, verifier, now()) {
            Ok(frame) => LinkEvent::Verified(Box::new(frame)),
            Err(error) => {
                self.count(&error);
                LinkEvent::Refused(error.to_string())
            }
        }
    }

    /// Counts a frame that was not believed; the first of each cause is told, because it may be all that is ever seen of
    /// a wrong key or clock.
    fn count(&mut self, error: &DecodeError) {
        let DecodeError::Unverified { why, .. } = error else { return };
        let count = self.refused.entry(why.cause()).or_default();
        *count += 1;
        if *count == 1 {
            tracing::warn!("a frame was not believed, {error}; more of this cause ({}) are only counted", why.cause());
        }
    }

    /// Says at the end how often it was.
    pub(super) fn sum_up(&self) {
        if !self.refused.is_empty() {
            let counts: Vec<String> = self.refused.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
            tracing::info!("frames that were not believed: {}", counts.join(", "));
        }
    }
}

/// The moment, as signatures tell it.
fn now() -> u64 {
    u64::try_from(now_ms()).unwrap_or_default()
}
