//! Contracts as fakes hold them: of many fakes with one contract, one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use sha2::{Digest, Sha256};

use crate::{
    contract::Contract,
    wire::{Value, json},
};

/// The contracts somebody holds, by what is written in them.
#[derive(Debug, Default)]
pub(super) struct Contracts(Mutex<HashMap<[u8; 32], Weak<Contract>>>);

impl Contracts {
    /// The contract that was read from this document, or the one that somebody holds and that reads the same.
    pub(super) fn share(&self, document: &Value, contract: Contract) -> Arc<Contract> {
        let Ok(text) = json::encode(document) else { return Arc::new(contract) };
        let digest: [u8; 32] = Sha256::digest(&text).into();
        let mut known = self.held();
        if let Some(held) = known.get(&digest).and_then(Weak::upgrade) {
            return held;
        }
        known.retain(|_, contract| contract.strong_count() > 0);
        let contract = Arc::new(contract);
        known.insert(digest, Arc::downgrade(&contract));
        contract
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Weak<Contract>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
