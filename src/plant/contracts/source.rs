//! Where a contract comes from: given with the call, kept on disk, or rebuilt from what a live peer says of itself.
//! Whoever needs a contract takes a [`ContractSource`] and asks the plant for it.

use std::{sync::Arc, time::Duration};

use super::{ContractName, LARGEST};
use crate::{
    contract::{Contract, Description, Problem, rebuild::rebuild, written},
    plant::{Plant, PlantError},
    script::beside,
    wire::Value,
};

/// Where a contract comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum ContractSource {
    /// The document itself.
    Inline(Value),
    /// The one kept under this name.
    Saved(ContractName),
    /// What a peer says of itself now.
    Peer {
        /// Which peer.
        peer: String,
        /// How long to wait for it if it is not there.
        wait: Duration,
    },
}

/// What a contract is wanted for, which decides what it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To judge others by: sound in itself. A pattern that cannot be checked here is still compared.
    Compare,
    /// To be served: every pattern checked as well, since we would accept arguments that it forbids (S-038).
    Serve,
}

/// A contract, read, with where it came from.
#[derive(Clone, Debug)]
pub struct Sourced {
    /// What messages call it.
    pub label: String,
    /// The contract.
    pub contract: Contract,
    /// The document it was read from.
    pub document: Value,
    /// Of one that was rebuilt from a peer: what the peer serves and the document lacks, one clause each.
    pub left_out: Vec<String>,
    /// Of one that was rebuilt from a peer: what the peer said.
    pub description: Option<Arc<Description>>,
}

impl Plant {
    /// The contract from `source`.
    ///
    /// # Errors
    ///
    /// When there is none to be had from there, or it is not valid for its purpose.
    pub async fn contract(&self, source: ContractSource, purpose: Purpose) -> Result<Sourced, PlantError> {
        let mut description = None;
        let (label, document, left_out) = match source {
            ContractSource::Inline(document) => (INLINE.to_owned(), document, Vec::new()),
            ContractSource::Saved(name) => {
                let stored = self.read_contract(&name).await?;
                (format!("contract '{name}'"), stored.document, Vec::new())
            }
            ContractSource::Peer { peer, wait } => {
                let described = self.describe(&peer, wait).await?;
                let rebuilt = rebuild(&described.answer);
                description = Some(described.description);
                (format!("what {} says of itself", described.peer), rebuilt.document, rebuilt.left_out)
            }
        };
        let sourced = beside(move || read(label, document, left_out, purpose)).await?;
        Ok(Sourced { description, ..sourced })
    }
}

fn read(label: String, document: Value, left_out: Vec<String>, purpose: Purpose) -> Result<Sourced, PlantError> {
    let contract = match (written::fits(&document, LARGEST), purpose) {
        (Err(bytes), _) => {
            let what = format!("it has {bytes} bytes, and a contract at most {LARGEST}");
            Err(vec![Problem { pointer: String::new(), what }])
        }
        (Ok(()), Purpose::Compare) => Contract::parse_to_compare(&document),
        (Ok(()), Purpose::Serve) => Contract::parse_to_serve(&document),
    };
    match contract {
        Ok(contract) => Ok(Sourced { label, contract, document, left_out, description: None }),
        Err(problems) => Err(PlantError::InvalidContract { contract: label, problems }),
    }
}

/// What messages call a contract that came with the call.
const INLINE: &str = "the contract given";
