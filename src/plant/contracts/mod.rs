//! Contracts kept on disk: saved, listed, read back, deleted. A disk may be slow, so all of it happens beside the task
//! that drives the network.

mod name;
mod source;
mod store;

use std::{path::PathBuf, sync::Arc};

pub use name::ContractName;
pub use source::{ContractSource, Purpose, Sourced};
pub use store::{Condition, Junk, ListedContract, Listing, Saved, StoredFile, Summary};
use store::{LARGEST, MAX_CONTRACTS, Store, StoreFault};

use super::{Plant, PlantError, nearest};
pub use crate::script::{FileFault, NameFault};
use crate::{
    contract::{Contract, Problem},
    script::beside,
    wire::Value,
};

/// The directory of contracts, if the bridge was given one.
#[derive(Clone, Debug, Default)]
pub(super) struct Contracts {
    store: Option<Arc<Store>>,
}

/// A contract from the disk, looked into.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The file.
    pub stored: StoredFile,
    /// What it says; nothing if it cannot be read as a contract.
    pub contract: Contract,
    /// Why it could not be served.
    pub problems: Vec<Problem>,
}

impl Contracts {
    pub(super) fn in_directory(path: Option<PathBuf>) -> Self {
        Self { store: path.map(|path| Arc::new(Store::new(path))) }
    }

    fn store(&self) -> Result<Arc<Store>, PlantError> {
        self.store.clone().ok_or(PlantError::NoContracts)
    }
}

impl Plant {
    /// Whether contracts can be kept.
    pub fn keeps_contracts(&self) -> bool {
        self.shared.contracts.store.is_some()
    }

    /// What the directory of contracts is called, without where it is.
    pub fn contracts_directory(&self) -> Option<String> {
        self.shared.contracts.store.as_ref().map(|store| store.directory())
    }

    /// The contracts on disk.
    ///
    /// # Errors
    ///
    /// When there is no directory for them, or it cannot be read.
    pub async fn list_contracts(&self) -> Result<Listing, PlantError> {
        let store = self.shared.contracts.store()?;
        let directory = store.directory();
        beside(move || store.list()).await.map_err(|fault| reading(&directory, fault))
    }

    /// The names of the contracts on disk; none if there is no directory for them, or it cannot be read.
    pub async fn contract_names(&self) -> Vec<String> {
        let Some(store) = self.shared.contracts.store.clone() else { return Vec::new() };
        beside(move || store.names()).await.unwrap_or_default()
    }

    /// One contract as it stands in its file, whatever it holds.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or it cannot be read.
    pub async fn read_contract(&self, name: &ContractName) -> Result<StoredFile, PlantError> {
        let store = self.shared.contracts.store()?;
        let wanted = name.clone();
        beside(move || store.read(&wanted)).await.map_err(|fault| reading(name.as_str(), fault))
    }

    /// The same, with what it says and what is wrong with it.
    ///
    /// # Errors
    ///
    /// As for [`Plant::read_contract`].
    pub async fn inspect_contract(&self, name: &ContractName) -> Result<Inspected, PlantError> {
        let stored = self.read_contract(name).await?;
        let inspect = move || {
            let problems = Contract::parse_to_serve(&stored.document).err().unwrap_or_default();
            // One with faults is shown as far as it can be read.
            let contract = Contract::parse(&stored.document).unwrap_or_default();
            Inspected { stored, contract, problems }
        };
        Ok(beside(inspect).await)
    }

    /// Keeps a contract, if it is one that could be served and `condition` holds.
    ///
    /// # Errors
    ///
    /// When it is no valid contract, or was not written; then what was there is there still.
    pub async fn save_contract(
        &self,
        name: &ContractName,
        document: Value,
        condition: Condition,
    ) -> Result<Saved, PlantError> {
        let store = self.shared.contracts.store()?;
        let (wanted, label) = (name.clone(), name.to_string());
        let saved = beside(move || {
            Contract::parse_to_serve(&document)
                .map_err(|problems| PlantError::InvalidContract { contract: label.clone(), problems })?;
            store.save(&wanted, &document, &condition).map_err(|fault| writing(&label, fault))
        });
        saved.await
    }

    /// Removes a contract, if `condition` holds; gives the hash of what was there.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or it was not removed.
    pub async fn delete_contract(&self, name: &ContractName, condition: Condition) -> Result<String, PlantError> {
        let store = self.shared.contracts.store()?;
        let wanted = name.clone();
        beside(move || store.delete(&wanted, &condition)).await.map_err(|fault| writing(name.as_str(), fault))
    }
}

fn reading(name: &str, fault: StoreFault) -> PlantError {
    match fault {
        StoreFault::File(FileFault::Missing) => unknown(name, &[]),
        StoreFault::File(why) => PlantError::CannotRead { file: name.into(), why: why.to_string() },
        StoreFault::NotJson(why) => PlantError::CannotRead { file: name.into(), why },
        StoreFault::Ambiguous(problems) => PlantError::InvalidContract { contract: name.into(), problems },
        StoreFault::Unknown(names) => unknown(name, &names),
        // Looks meet none of these.
        StoreFault::Changed(_) | StoreFault::Full | StoreFault::Twin(_) => {
            PlantError::CannotRead { file: name.into(), why: "it was changed meanwhile".into() }
        }
    }
}

fn writing(name: &str, fault: StoreFault) -> PlantError {
    let cannot = |why: String| PlantError::CannotWrite { file: name.into(), why };
    match fault {
        StoreFault::File(why) => cannot(why.to_string()),
        StoreFault::NotJson(why) => cannot(why),
        StoreFault::Ambiguous(problems) => PlantError::InvalidContract { contract: name.into(), problems },
        StoreFault::Unknown(names) => unknown(name, &names),
        StoreFault::Changed(now) => PlantError::ContractChanged { name: name.into(), now },
        StoreFault::Full => PlantError::LimitReached { what: "contracts in the directory", limit: MAX_CONTRACTS },
        StoreFault::Twin(other) => {
            cannot(format!("{other} is there, and on other systems names that differ in capitals alone are one file"))
        }
    }
}

fn unknown(name: &str, names: &[String]) -> PlantError {
    let alternatives = nearest(name, names.iter().map(String::as_str));
    PlantError::UnknownContract { name: name.into(), alternatives }
}
