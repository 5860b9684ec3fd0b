//! A contract in a file that a person names.

use std::{io::Read as _, path::Path};

use super::plain;

use crate::{
    contract::{Contract, repeated_keys},
    plant::PlantError,
    wire::{Value, json},
};

/// The most bytes of one.
const LARGEST: u64 = 4 * 1024 * 1024;

/// The document in a file.
///
/// # Errors
///
/// When it cannot be read, is too large, is no JSON, or has a key twice: then it does not say which contract it is.
pub(super) fn document(path: &Path) -> Result<Value, PlantError> {
    let cannot = |why: String| PlantError::CannotRead { file: path.display().to_string(), why };
    let file = plain::open(path).map_err(|error| cannot(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| cannot(error.to_string()))?;
    if bytes.len() as u64 > LARGEST {
        return Err(cannot(format!("it has more than {LARGEST} bytes")));
    }
    let document = json::decode(&bytes).map_err(|error| cannot(error.to_string()))?;
    let problems = repeated_keys(&bytes);
    if problems.is_empty() {
        return Ok(document);
    }
    Err(PlantError::InvalidContract { contract: path.display().to_string(), problems })
}

/// The contract in a file, to compare with.
///
/// # Errors
///
/// As for [`document`], and when it is no valid contract.
pub(super) fn contract(path: &Path) -> Result<Contract, PlantError> {
    let contract = path.display().to_string();
    Contract::parse_to_compare(&document(path)?).map_err(|problems| PlantError::InvalidContract { contract, problems })
}

/// Of a contract that cannot be used a person wants to know which file it is in.
pub(super) fn named(error: PlantError, file: &Path) -> PlantError {
    match error {
        PlantError::InvalidContract { problems, .. } => {
            PlantError::InvalidContract { contract: file.display().to_string(), problems }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_holds_no_contract_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let missing = folder.path().join("missing.json");
        assert!(
            matches!(contract(&missing), Err(PlantError::CannotRead { file, .. }) if file.ends_with("missing.json"))
        );
        assert!(matches!(contract(folder.path()), Err(PlantError::CannotRead { .. })));
        assert!(matches!(contract(&file("a.json", "{")), Err(PlantError::CannotRead { .. })));
        assert!(matches!(contract(&file("b.json", "{}")), Err(PlantError::InvalidContract { .. })));
        assert!(contract(&file("c.json", r#"{"schema": 1, "namespaces": {}}"#)).is_ok());
        let twice = contract(&file("e.json", r#"{"schema": 1, "namespaces": {"a": {}, "a": {}}}"#));
        let Err(PlantError::InvalidContract { contract: told, problems }) = twice else { panic!("{twice:?}") };
        assert!(told.ends_with("e.json") && problems[0].pointer == "/namespaces/a", "{problems:?}");
        let large = " ".repeat(usize::try_from(LARGEST).unwrap() + 1);
        assert!(matches!(contract(&file("d.json", &large)), Err(PlantError::CannotRead { .. })));
    }
}
