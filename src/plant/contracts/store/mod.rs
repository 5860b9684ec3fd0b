//! The contracts of one directory: `<name>.types.json`, one file each, shared with whoever else uses the directory.
//!
//! Everything here waits for a disk and runs where waiting is allowed. Changes of this process come one after the other,
//! so that what was expected still holds when it is written; another process may write between a look and a change, and
//! then the last one stands, whole.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{ContractName, NameFault};
use crate::{
    contract::{Problem, repeated_keys, written},
    script::folder::{FileFault, Folder, Kind, Place},
    wire::{Value, json::from_json},
};

/// One directory of contracts.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    changing: Mutex<()>,
}

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// What it holds.
    pub document: Value,
    /// What names exactly these bytes.
    pub sha256: String,
    /// How many there are.
    pub bytes: u64,
}

/// What the directory holds.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The contracts, by name.
    pub contracts: Vec<ListedContract>,
    /// Whatever else lies there, by name.
    pub junk: Vec<Junk>,
    /// Whether there is more than is looked at.
    pub more: bool,
}

/// One contract of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedContract {
    /// Its name.
    pub name: ContractName,
    /// What can be said of it, or why nothing can.
    pub summary: Result<Summary, String>,
}

/// What a listing says of a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its namespaces, in the order written.
    pub namespaces: Vec<String>,
    /// Version of the whole.
    pub version: Option<String>,
    /// What names exactly these bytes.
    pub sha256: String,
    /// How many there are.
    pub bytes: u64,
}

/// Something in the directory that is no contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Junk {
    /// Its name.
    pub file: String,
    /// Why it is not used.
    pub why: String,
}

/// What must hold for a change to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Nothing of that name is there yet.
    pub absent: bool,
    /// What is there has this hash.
    pub sha256: Option<String>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// What names exactly these bytes.
    pub sha256: String,
    /// How many there are.
    pub bytes: u64,
    /// The hash of what was there before.
    pub overwrote: Option<String>,
}

/// Why the store did not do it. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreFault {
    /// The file, or the directory.
    File(FileFault),
    /// Nothing of that name is there; these are.
    Unknown(Vec<String>),
    /// What was expected does not hold; this is there.
    Changed(Option<String>),
    /// As many are there as may be.
    Full,
    /// The name differs from that of another contract by capitals alone.
    Twin(String),
    /// The text is no JSON document.
    NotJson(String),
    /// It is one, and does not say which contract it is.
    Ambiguous(Vec<Problem>),
}

impl From<FileFault> for StoreFault {
    fn from(fault: FileFault) -> Self {
        Self::File(fault)
    }
}

impl Store {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, changing: Mutex::new(()) }
    }

    /// What the directory is called, without where it is.
    pub(super) fn directory(&self) -> String {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| "contracts".to_owned())
    }

    /// What is there. A directory that is not there yet is an empty one.
    pub(super) fn list(&self) -> Result<Listing, StoreFault> {
        let Some(folder) = Folder::open(&self.path)? else { return Ok(Listing::default()) };
        let (mut entries, more) = folder.entries(MAX_ENTRIES)?;
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut listing = Listing { more, ..Listing::default() };
        let mut left = MOST_READ;
        for (file, kind) in entries {
            match usable(&file, kind) {
                Ok(name) => {
                    let summary = summary(&folder, &file, &mut left);
                    listing.contracts.push(ListedContract { name, summary });
                }
                Err(why) => listing.junk.push(Junk { file, why }),
            }
        }
        listing.contracts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listing)
    }

    /// The names of those that are there; nothing is read.
    pub(super) fn names(&self) -> Result<Vec<String>, StoreFault> {
        Folder::open(&self.path)?.map_or(Ok(Vec::new()), |folder| names(&folder))
    }

    /// Reads one.
    pub(super) fn read(&self, name: &ContractName) -> Result<StoredFile, StoreFault> {
        let Some(folder) = Folder::open(&self.path)? else { return Err(StoreFault::Unknown(Vec::new())) };
        match folder.read(&name.file(), LARGEST) {
            Ok(bytes) => parse(&bytes),
            Err(FileFault::Missing) => Err(StoreFault::Unknown(names(&folder)?)),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Writes one, whole or not at all.
    pub(super) fn save(
        &self,
        name: &ContractName,
        document: &Value,
        condition: &Condition,
    ) -> Result<Saved, StoreFault> {
        let text = written::to_text(document);
        let bytes = text.len() as u64;
        if bytes > LARGEST {
            return Err(FileFault::TooLarge { bytes, limit: LARGEST }.into());
        }
        let _changing = self.changing();
        let folder = Folder::create(&self.path)?;
        let file = name.file();
        let before = present(&folder, &file)?;
        if (condition.absent && before.is_some()) || !expected(condition, before.as_deref()) {
            return Err(StoreFault::Changed(before));
        }
        if before.is_none() {
            has_room(&folder, &file)?;
        }
        // Whoever saw nothing there must not overwrite what came since, not even another program's.
        let place = if before.is_none() { Place::Free } else { Place::Any };
        let temporary = format!(".{file}.{}{TEMPORARY}", Uuid::new_v4().simple());
        match folder.write(&file, &temporary, text.as_bytes(), place) {
            Ok(()) => Ok(Saved { sha256: sha256(text.as_bytes()), bytes, overwrote: before }),
            Err(FileFault::There) => Err(StoreFault::Changed(present(&folder, &file)?)),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Removes one; gives the hash of what was there.
    pub(super) fn delete(&self, name: &ContractName, condition: &Condition) -> Result<String, StoreFault> {
        let _changing = self.changing();
        let Some(folder) = Folder::open(&self.path)? else { return Err(StoreFault::Unknown(Vec::new())) };
        let file = name.file();
        let Some(before) = present(&folder, &file)? else { return Err(StoreFault::Unknown(names(&folder)?)) };
        if !expected(condition, Some(&before)) {
            return Err(StoreFault::Changed(Some(before)));
        }
        folder.remove(&file)?;
        Ok(before)
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The contract a file holds, or why it holds none.
fn usable(file: &str, kind: Kind) -> Result<ContractName, String> {
    let why = match (kind, ContractName::of_file(file)) {
        (Kind::File, Ok(name)) => return Ok(name),
        (Kind::Link, _) => "a symbolic link, which is not followed".to_owned(),
        (Kind::Directory, _) => "a directory".to_owned(),
        (Kind::Other, _) => "not a plain file".to_owned(),
        (Kind::File, Err(Some(NameFault::Form))) => "not a usable contract name".to_owned(),
        (Kind::File, Err(Some(fault))) => format!("not a usable contract name: {fault}"),
        (Kind::File, Err(None)) if file.starts_with('.') && file.ends_with(TEMPORARY) => {
            "left by a write that did not end; it can be removed".to_owned()
        }
        (Kind::File, Err(None)) => "not a contract: its name does not end in .types.json".to_owned(),
    };
    Err(why)
}

/// What can be said of a file in a listing, on a budget for all of them.
fn summary(folder: &Folder, file: &str, left: &mut u64) -> Result<Summary, String> {
    let bytes = folder.read(file, LARGEST.min(*left)).map_err(|fault| match fault {
        FileFault::TooLarge { bytes, limit } if limit < LARGEST && bytes <= LARGEST => {
            "not looked at: the directory holds more than one listing reads".to_owned()
        }
        fault => fault.to_string(),
    })?;
    *left = left.saturating_sub(bytes.len() as u64);
    let stored = parse(&bytes).map_err(|fault| match fault {
        StoreFault::Ambiguous(problems) => problems.first().map_or_else(String::new, ToString::to_string),
        StoreFault::NotJson(why) => why,
        _ => "not a contract".to_owned(),
    })?;
    let schema = stored.document.get("schema").unwrap_or(&Value::Null);
    if *schema != Value::Null && schema.as_f64() != Some(1.0) {
        return Err("its `schema` is not 1, the only one known here".to_owned());
    }
    let Some(namespaces) = stored.document.get("namespaces").and_then(Value::as_map) else {
        return Err("not a contract: it has no `namespaces`".to_owned());
    };
    Ok(Summary {
        namespaces: namespaces.iter().map(|(name, _)| name.to_owned()).collect(),
        version: stored.document.get("version").and_then(Value::as_str).map(str::to_owned),
        sha256: stored.sha256,
        bytes: stored.bytes,
    })
}

fn parse(bytes: &[u8]) -> Result<StoredFile, StoreFault> {
    let not_json = |error| StoreFault::NotJson(format!("not JSON: {error}"));
    let json: serde_json::Value = serde_json::from_slice(bytes).map_err(not_json)?;
    let problems = repeated_keys(bytes);
    if !problems.is_empty() {
        return Err(StoreFault::Ambiguous(problems));
    }
    Ok(StoredFile { document: from_json(json), sha256: sha256(bytes), bytes: bytes.len() as u64 })
}

/// The hash of what is there; `None` if nothing is.
fn present(folder: &Folder, file: &str) -> Result<Option<String>, StoreFault> {
    match folder.read(file, LARGEST) {
        Ok(bytes) => Ok(Some(sha256(&bytes))),
        Err(FileFault::Missing) => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

fn expected(condition: &Condition, before: Option<&str>) -> bool {
    let hash = condition.sha256.as_deref();
    hash.is_none_or(|hash| before.is_some_and(|before| before.eq_ignore_ascii_case(hash)))
}

/// Whether one more file may come, and no other takes its name where capitals do not count.
fn has_room(folder: &Folder, file: &str) -> Result<(), StoreFault> {
    let (entries, more) = folder.entries(MAX_ENTRIES)?;
    if let Some((twin, _)) = entries.iter().find(|(other, _)| other.eq_ignore_ascii_case(file)) {
        return Err(StoreFault::Twin(twin.clone()));
    }
    let contracts = entries.iter().filter(|(other, kind)| usable(other, *kind).is_ok()).count();
    if more || contracts >= MAX_CONTRACTS { Err(StoreFault::Full) } else { Ok(()) }
}

fn names(folder: &Folder) -> Result<Vec<String>, StoreFault> {
    let (entries, _) = folder.entries(MAX_ENTRIES)?;
    Ok(entries.iter().filter_map(|(file, kind)| Some(usable(file, *kind).ok()?.to_string())).collect())
}

fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// What the file of a write under way ends in.
const TEMPORARY: &str = ".tmp";
/// Bytes of one contract.
pub(super) const LARGEST: u64 = 4 * 1024 * 1024;
/// Contracts of a directory.
pub(super) const MAX_CONTRACTS: usize = 512;
/// Entries of the directory that are looked at, contracts or not.
const MAX_ENTRIES: usize = 4_096;
/// Bytes one listing reads.
const MOST_READ: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests;
