//! The text of one run. It is written beside the script, under a name of the run, and that is what runs: so a save or a removal
//! right after a start changes nothing of it, and what it imports from beside it is found. Gone with the run.
//!
//! Whoever runs it holds a lock on it. One without is left by a bridge that was killed, and the next start removes it.

use std::{fs::File, io::Write as _};

use super::{
    FileFault,
    folder::{Folder, Kind},
    record,
    results::Language,
    store::ScriptName,
};

/// The text of a run, as long as this lives.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) folder: Folder,
    pub(super) file: String,
    _held: File,
}

impl Pinned {
    /// Writes it.
    pub(super) fn write(
        folder: Folder,
        (name, language): (&ScriptName, Language),
        run: &str,
        text: &[u8],
    ) -> Result<Self, FileFault> {
        let file = format!(".{name}.{run}{}", language.ending());
        let mut held = folder.fresh(&file)?;
        // A disk that knows no locks runs scripts all the same.
        let _ = held.try_lock();
        let written = held.write_all(text);
        let pinned = Self { folder, file, _held: held };
        written?;
        Ok(pinned)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A person may have removed it.
        let _ = self.folder.discard(&self.file);
    }
}

/// Whether a file of the directory is the text of a run.
pub(super) fn is_pinned(file: &str) -> bool {
    let stem = Language::ALL.into_iter().find_map(|language| file.strip_suffix(language.ending()));
    let parts = stem.and_then(|stem| stem.strip_prefix('.')?.rsplit_once('.'));
    parts.is_some_and(|(_, run)| record::is_run(run))
}

/// Removes the texts of runs that nobody runs.
pub(super) fn sweep(folder: &Folder, entries: &[(String, Kind)]) {
    let left = entries.iter().filter(|(file, kind)| *kind == Kind::File && is_pinned(file));
    for (file, _) in left.filter(|(file, _)| is_left(folder, file)) {
        let _ = folder.discard(file);
    }
}

/// Whether nobody holds a file of a run.
pub(super) fn is_left(folder: &Folder, file: &str) -> bool {
    folder.plain(file).is_ok_and(|file| file.try_lock().is_ok())
}
