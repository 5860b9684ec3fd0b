//! The scripts of one directory: `<name>.ts`, `<name>.mjs`, `<name>.py`, one of these for a name. Everything here waits for a
//! disk and runs where waiting is allowed.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use uuid::Uuid;

use super::{
    FileFault, NameFault, ScriptFault,
    folder::{Folder, Kind, Place},
    library, names,
    pinned::{self, Pinned},
    record,
    results::{Language, SavedScript, ScriptText},
};

/// The name of a script: that of its file without the ending.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptName(Arc<str>);

impl ScriptName {
    /// Takes a name (F-27).
    ///
    /// # Errors
    ///
    /// When it could be anything but a name.
    pub fn parse(text: &str) -> Result<Self, ScriptFault> {
        names::check(text, &Language::ALL.map(Language::ending))
            .map(|()| Self(text.into()))
            .map_err(|fault| ScriptFault::Name { name: text.chars().take(80).collect(), fault })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn file(&self, language: Language) -> String {
        format!("{}{}", self.0, language.ending())
    }

    /// The script a file is, if it is one.
    fn of_file(file: &str) -> Option<Result<(Self, Language), ScriptFault>> {
        let language = Language::ALL.into_iter().find(|language| file.ends_with(language.ending()))?;
        if pinned::is_pinned(file) {
            return None;
        }
        let stem = file.strip_suffix(language.ending())?;
        Some(Self::parse(stem).map(|name| (name, language)))
    }
}

impl fmt::Display for ScriptName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// One directory of scripts.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    changing: Mutex<()>,
}

/// What a directory holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    pub(super) scripts: Vec<(ScriptName, Language)>,
    pub(super) junk: Vec<String>,
    pub(super) more: bool,
}

impl Store {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, changing: Mutex::new(()) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory, made if it is not there.
    pub(super) fn folder(&self) -> Result<Folder, ScriptFault> {
        Folder::create(&self.path).map_err(|fault| file_fault(DIRECTORY, fault))
    }

    /// The same, if it is there: looking makes nothing.
    pub(super) fn folder_if_there(&self) -> Result<Option<Folder>, ScriptFault> {
        Folder::open(&self.path).map_err(|fault| file_fault(DIRECTORY, fault))
    }

    /// What is there. A directory that is not there yet is an empty one; of one name in two languages, the first counts.
    pub(super) fn list(&self) -> Result<Listing, ScriptFault> {
        let mut listing = Listing::default();
        let Some(folder) = self.folder_if_there()? else {
            return Ok(listing);
        };
        let (entries, more) = folder.entries(MAX_ENTRIES).map_err(|fault| file_fault(DIRECTORY, fault))?;
        listing.more = more;
        for (file, kind) in entries {
            match (kind, ScriptName::of_file(&file)) {
                (_, None) => {}
                (Kind::File, Some(Ok(script))) => listing.scripts.push(script),
                (Kind::File, Some(Err(fault))) => listing.junk.push(fault.to_string()),
                (Kind::Link, _) => listing.junk.push(format!("{file}: a symbolic link, which is not followed")),
                (Kind::Directory | Kind::Other, _) => listing.junk.push(format!("{file}: not a plain file")),
            }
        }
        listing.scripts.sort();
        listing.scripts.dedup_by(|later, first| later.0 == first.0);
        listing.junk.sort();
        Ok(listing)
    }

    /// The script of this name.
    pub(super) fn find(&self, name: &ScriptName) -> Result<(Folder, Language), ScriptFault> {
        let Some(folder) = self.folder_if_there()? else {
            return Err(ScriptFault::Unknown { name: name.to_string(), names: Vec::new() });
        };
        for language in Language::ALL {
            let file = name.file(language);
            match folder.kind(&file).map_err(|fault| file_fault(&file, fault))? {
                None => {}
                Some(Kind::File) => return Ok((folder, language)),
                Some(Kind::Link) => return Err(file_fault(&file, FileFault::Link)),
                Some(Kind::Directory | Kind::Other) => return Err(file_fault(&file, FileFault::NotAFile)),
            }
        }
        let names = self.list()?.scripts.into_iter().map(|(name, _)| name.to_string()).collect();
        Err(ScriptFault::Unknown { name: name.to_string(), names })
    }

    pub(super) fn read(&self, name: &ScriptName) -> Result<ScriptText, ScriptFault> {
        let (folder, language) = self.find(name)?;
        let file = name.file(language);
        let bytes = folder.read(&file, LARGEST).map_err(|fault| file_fault(&file, fault))?;
        let source = String::from_utf8(bytes)
            .map_err(|_| ScriptFault::Content { file, why: "it is not UTF-8 text".to_owned() })?;
        Ok(ScriptText { language: Some(language), source })
    }

    /// Keeps the text as it is now for a run, and tidies up after bridges that were killed.
    pub(super) fn pin(&self, name: &ScriptName, run: &str) -> Result<(Pinned, Language), ScriptFault> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (folder, language) = self.find(name).map_err(ScriptFault::of_reading)?;
        let file = name.file(language);
        let text = folder.read(&file, LARGEST).map_err(|fault| file_fault(&file, fault).of_reading())?;
        let (entries, _) = folder.entries(MAX_ENTRIES).map_err(|fault| file_fault(DIRECTORY, fault))?;
        pinned::sweep(&folder, &entries);
        let pinned =
            Pinned::write(folder, (name, language), run, &text).map_err(|fault| file_fault(DIRECTORY, fault))?;
        Ok((pinned, language))
    }

    /// Writes one, whole or not at all; what there was of that name in other languages goes after it is written.
    pub(super) fn save(&self, name: &ScriptName, language: Language, source: &str) -> Result<SavedScript, ScriptFault> {
        let mut source = source.to_owned();
        if !source.ends_with('\n') {
            source.push('\n');
        }
        if language == Language::Py && library::is_module(name.as_str()) {
            return Err(ScriptFault::Name { name: name.to_string(), fault: NameFault::Library });
        }
        let (file, bytes) = (name.file(language), source.len() as u64);
        let failed = |fault| file_fault(&file, fault);
        if bytes > LARGEST {
            return Err(failed(FileFault::TooLarge { bytes, limit: LARGEST }));
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.folder()?;
        let before = folder.kind(&file).map_err(failed)?;
        match before {
            None | Some(Kind::File) => {}
            Some(Kind::Link) => return Err(failed(FileFault::Link)),
            Some(Kind::Directory | Kind::Other) => return Err(failed(FileFault::NotAFile)),
        }
        let siblings: Vec<String> =
            Language::ALL.into_iter().filter(|other| *other != language).map(|other| name.file(other)).collect();
        let is_there = |file: &String| folder.kind(file).is_ok_and(|kind| kind.is_some());
        let removed: Vec<String> = siblings.into_iter().filter(is_there).collect();
        if before.is_none() && removed.is_empty() {
            self.has_room(name)?;
        }
        let temporary = format!(".{file}.{}.tmp", Uuid::new_v4().simple());
        folder.write(&file, &temporary, source.as_bytes(), Place::Any).map_err(failed)?;
        for sibling in &removed {
            folder.remove(sibling).map_err(|fault| file_fault(sibling, fault))?;
        }
        let manifest = manifest(&folder)?;
        let overwrote = before.is_some() || !removed.is_empty();
        Ok(SavedScript { file, bytes, overwrote, removed, running: false, manifest })
    }

    pub(super) fn delete(&self, name: &ScriptName) -> Result<String, ScriptFault> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (folder, language) = self.find(name)?;
        let file = name.file(language);
        folder.remove(&file).map_err(|fault| file_fault(&file, fault))?;
        record::forget(&folder, name);
        Ok(file)
    }

    fn has_room(&self, name: &ScriptName) -> Result<(), ScriptFault> {
        let listing = self.list()?;
        let twin = listing.scripts.iter().find(|(other, _)| other.as_str().eq_ignore_ascii_case(name.as_str()));
        if let Some((twin, _)) = twin {
            let why = format!("{twin} is there, and on other systems names that differ in capitals alone are one file");
            return Err(ScriptFault::Content { file: name.to_string(), why });
        }
        if listing.more || listing.scripts.len() >= MAX_SCRIPTS {
            return Err(ScriptFault::Full { limit: MAX_SCRIPTS });
        }
        Ok(())
    }
}

/// Makes the manifest if there is none; an existing one is left as it is, and what keeps scripts from running is told.
pub(super) fn manifest(folder: &Folder) -> Result<Option<String>, ScriptFault> {
    let text = match folder.read(MANIFEST, LARGEST) {
        Ok(text) => text,
        Err(FileFault::Missing) => {
            let temporary = format!(".{MANIFEST}.{}.tmp", Uuid::new_v4().simple());
            return match folder.write(MANIFEST, &temporary, FIRST_MANIFEST.as_bytes(), Place::Free) {
                Ok(()) => Ok(Some(format!("{MANIFEST} was made"))),
                Err(FileFault::There) => Ok(None),
                Err(fault) => Err(file_fault(MANIFEST, fault)),
            };
        }
        Err(fault) => return Err(file_fault(MANIFEST, fault)),
    };
    let is_module = serde_json::from_slice::<serde_json::Value>(&text)
        .map(|manifest| manifest.get("type").and_then(serde_json::Value::as_str) == Some("module"));
    Ok(match is_module {
        Ok(true) => None,
        Ok(false) => {
            Some(format!("{MANIFEST} does not say \"type\": \"module\", so a .ts script with imports may not start"))
        }
        Err(_) => Some(format!("{MANIFEST} is not JSON, so Node will not start a script beside it")),
    })
}

pub(super) fn file_fault(file: &str, fault: FileFault) -> ScriptFault {
    ScriptFault::File { file: file.to_owned(), fault }
}

/// How the directory itself is called in faults.
const DIRECTORY: &str = "the directory of scripts";
/// The manifest of packages.
pub(super) const MANIFEST: &str = "package.json";
const FIRST_MANIFEST: &str =
    "{\n  \"name\": \"source-rpc-scripts\",\n  \"private\": true,\n  \"type\": \"module\"\n}\n";
/// Bytes of one script.
pub(super) const LARGEST: u64 = 256 * 1024;
/// Scripts of a directory.
const MAX_SCRIPTS: usize = 512;
/// Entries of the directory that are looked at.
const MAX_ENTRIES: usize = 4_096;
