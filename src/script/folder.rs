//! One directory and the plain files in it, by name. Everything goes through a handle on the directory and follows no
//! link, so that nothing put there in the meantime leads elsewhere; the directory itself is where a person said it is, and
//! may be a link of theirs.
//!
//! Contracts and scripts are kept through it alike. On systems without such calls a file is looked at before it is opened, which is the nearest there is.

use std::io;

#[cfg(not(unix))]
pub(crate) use portable::Folder;
#[cfg(unix)]
pub(crate) use posix::Folder;

/// What stands under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A plain file.
    File,
    /// A symbolic link.
    Link,
    /// A directory.
    Directory,
    /// A device, a pipe or something else.
    Other,
}

/// Why a file was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileFault {
    /// There is none.
    #[error("it is not there")]
    Missing,
    /// One is there already.
    #[error("it is there already")]
    There,
    /// It leads elsewhere.
    #[error("it is a symbolic link, and links are not followed")]
    Link,
    /// A directory, a device, a pipe.
    #[error("it is not a plain file")]
    NotAFile,
    /// Larger than may be.
    #[error("it has {bytes} bytes, and at most {limit} are read")]
    TooLarge {
        /// How large.
        bytes: u64,
        /// How large it may be.
        limit: u64,
    },
    /// What the system says.
    #[error("{0}")]
    System(&'static str),
}

impl From<io::Error> for FileFault {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound => Self::Missing,
            Kind::AlreadyExists => Self::There,
            Kind::PermissionDenied => Self::System("the system does not permit it"),
            Kind::ReadOnlyFilesystem => Self::System("it is on a disk that is read-only"),
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Self::System("the disk is full"),
            Kind::NotADirectory => Self::System("what was to be the directory is none"),
            Kind::Interrupted | Kind::ResourceBusy => Self::System("the disk is busy"),
            _ => {
                tracing::warn!(%error, "a directory of ours");
                Self::System("the disk does not answer as it should; the log has the details")
            }
        }
    }
}

/// How a written file takes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Only where nothing is yet.
    Free,
    /// Whatever was there is gone, at once.
    Any,
}

#[cfg(unix)]
mod posix {
    use std::{
        fs::{self, File},
        io::{self, Read as _, Write as _},
        os::fd::OwnedFd,
        path::Path,
    };

    use rustix::{
        fs::{AtFlags, Dir, FileType, Mode, OFlags, linkat, mkdirat, openat, renameat, statat, unlinkat},
        io::Errno,
    };

    use super::{FileFault, Kind, Place};

    /// An open directory.
    #[derive(Debug)]
    pub(crate) struct Folder {
        directory: OwnedFd,
    }

    impl Folder {
        /// Opens it; `None` while it is not there.
        pub(crate) fn open(path: &Path) -> Result<Option<Self>, FileFault> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match rustix::fs::open(path, flags, Mode::empty()) {
                Ok(directory) => Ok(Some(Self { directory })),
                Err(Errno::NOENT) => Ok(None),
                Err(error) => Err(io::Error::from(error).into()),
            }
        }

        /// Makes it if it is not there, and opens it.
        pub(crate) fn create(path: &Path) -> Result<Self, FileFault> {
            fs::create_dir_all(path)?;
            Self::open(path)?.ok_or(FileFault::Missing)
        }

        /// A directory in this one, made if it is not there; one that is a link is refused.
        pub(crate) fn below(&self, name: &str) -> Result<Self, FileFault> {
            match mkdirat(&self.directory, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&self.directory, name, flags, Mode::empty()) {
                Ok(directory) => Ok(Self { directory }),
                // Which of these a link gives differs between systems.
                Err(Errno::LOOP | Errno::MLINK | Errno::NOTDIR) if self.kind(name)? == Some(Kind::Link) => {
                    Err(FileFault::Link)
                }
                Err(error) => Err(io::Error::from(error).into()),
            }
        }

        /// A new file, to be written little by little.
        pub(crate) fn fresh(&self, name: &str) -> Result<File, FileFault> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&self.directory, name, flags, Mode::from_raw_mode(0o666)).map_err(io::Error::from)?;
            Ok(File::from(file))
        }

        /// The names in it with what they are, at most `limit`, and whether there are more.
        pub(crate) fn entries(&self, limit: usize) -> Result<(Vec<(String, Kind)>, bool), FileFault> {
            let mut entries = Vec::new();
            for entry in Dir::read_from(&self.directory).map_err(io::Error::from)? {
                let entry = entry.map_err(io::Error::from)?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                if entries.len() >= limit {
                    return Ok((entries, true));
                }
                let kind = match entry.file_type() {
                    FileType::Unknown => statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW)
                        .map_or(Kind::Other, |stat| kind(FileType::from_raw_mode(stat.st_mode))),
                    known => kind(known),
                };
                entries.push((name.to_string_lossy().into_owned(), kind));
            }
            Ok((entries, false))
        }

        /// What stands under a name; `None` if nothing does.
        pub(crate) fn kind(&self, name: &str) -> Result<Option<Kind>, FileFault> {
            match statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Ok(Some(kind(FileType::from_raw_mode(stat.st_mode)))),
                Err(Errno::NOENT) => Ok(None),
                Err(error) => Err(io::Error::from(error).into()),
            }
        }

        /// Opens a plain file.
        pub(crate) fn plain(&self, name: &str) -> Result<File, FileFault> {
            // Non-blocking, or opening a pipe would wait for whoever writes into it.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = match openat(&self.directory, name, flags, Mode::empty()) {
                Ok(file) => File::from(file),
                Err(Errno::LOOP | Errno::MLINK) => return Err(FileFault::Link),
                Err(Errno::NXIO | Errno::ISDIR) => return Err(FileFault::NotAFile),
                Err(error) => return Err(io::Error::from(error).into()),
            };
            if file.metadata()?.is_file() { Ok(file) } else { Err(FileFault::NotAFile) }
        }

        /// Reads a plain file of at most `limit` bytes.
        pub(crate) fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, FileFault> {
            let file = self.plain(name)?;
            let length = file.metadata()?.len();
            let mut bytes = Vec::new();
            file.take(limit + 1).read_to_end(&mut bytes)?;
            let length = (bytes.len() as u64).max(length);
            if length > limit { Err(FileFault::TooLarge { bytes: length, limit }) } else { Ok(bytes) }
        }

        /// Writes a file under a name of its own and gives it `name` when it is whole and on the disk.
        pub(crate) fn write(&self, name: &str, temporary: &str, bytes: &[u8], place: Place) -> Result<(), FileFault> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o666);
            let file = openat(&self.directory, temporary, flags, mode).map_err(io::Error::from)?;
            let written = self.fill(File::from(file), bytes).and_then(|()| self.name(temporary, name, place));
            // Gone already where it was renamed.
            let _ = unlinkat(&self.directory, temporary, AtFlags::empty());
            written?;
            self.sync()
        }

        #[expect(clippy::unused_self, reason = "it reads as one of the steps of `write`")]
        fn fill(&self, mut file: File, bytes: &[u8]) -> Result<(), FileFault> {
            file.write_all(bytes)?;
            Ok(file.sync_all()?)
        }

        fn name(&self, temporary: &str, name: &str, place: Place) -> Result<(), FileFault> {
            let directory = &self.directory;
            if place == Place::Free {
                match linkat(directory, temporary, directory, name, AtFlags::empty()) {
                    Ok(()) => return Ok(()),
                    // A disk that knows no hard links: look first, then rename.
                    Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
                        if self.kind(name)?.is_some() {
                            return Err(FileFault::There);
                        }
                    }
                    Err(error) => return Err(io::Error::from(error).into()),
                }
            }
            renameat(directory, temporary, directory, name).map_err(|error| io::Error::from(error).into())
        }

        /// Removes a file.
        pub(crate) fn remove(&self, name: &str) -> Result<(), FileFault> {
            unlinkat(&self.directory, name, AtFlags::empty()).map_err(io::Error::from)?;
            self.sync()
        }

        /// Removes a file that nobody would miss if it came back: the disk is not waited for.
        pub(crate) fn discard(&self, name: &str) -> Result<(), FileFault> {
            Ok(unlinkat(&self.directory, name, AtFlags::empty()).map_err(io::Error::from)?)
        }

        /// A name is on the disk when its directory is.
        fn sync(&self) -> Result<(), FileFault> {
            match rustix::fs::fsync(&self.directory) {
                // Some file systems have nothing to do here and say so.
                Ok(()) | Err(Errno::INVAL | Errno::ROFS | Errno::BADF) => Ok(()),
                Err(error) => Err(io::Error::from(error).into()),
            }
        }
    }

    fn kind(kind: FileType) -> Kind {
        match kind {
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Link,
            FileType::Directory => Kind::Directory,
            _ => Kind::Other,
        }
    }
}

#[cfg(not(unix))]
mod portable {
    use std::{
        fs::{self, File, FileType, OpenOptions},
        io::{Read as _, Write as _},
        path::{Path, PathBuf},
    };

    use super::{FileFault, Kind, Place};

    /// A directory.
    #[derive(Debug)]
    pub(crate) struct Folder {
        path: PathBuf,
    }

    impl Folder {
        pub(crate) fn open(path: &Path) -> Result<Option<Self>, FileFault> {
            match fs::metadata(path) {
                Ok(about) if about.is_dir() => Ok(Some(Self { path: path.to_owned() })),
                Ok(_) => Err(FileFault::System("what was to be the directory is none")),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.into()),
            }
        }

        pub(crate) fn create(path: &Path) -> Result<Self, FileFault> {
            fs::create_dir_all(path)?;
            Self::open(path)?.ok_or(FileFault::Missing)
        }

        pub(crate) fn below(&self, name: &str) -> Result<Self, FileFault> {
            let path = self.path.join(name);
            if path.symlink_metadata().is_ok_and(|about| about.file_type().is_symlink()) {
                return Err(FileFault::Link);
            }
            Self::create(&path)
        }

        pub(crate) fn fresh(&self, name: &str) -> Result<File, FileFault> {
            Ok(OpenOptions::new().write(true).create_new(true).open(self.path.join(name))?)
        }

        pub(crate) fn entries(&self, limit: usize) -> Result<(Vec<(String, Kind)>, bool), FileFault> {
            let mut entries = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                if entries.len() >= limit {
                    return Ok((entries, true));
                }
                entries.push((entry.file_name().to_string_lossy().into_owned(), kind(entry.file_type()?)));
            }
            Ok((entries, false))
        }

        pub(crate) fn kind(&self, name: &str) -> Result<Option<Kind>, FileFault> {
            match fs::symlink_metadata(self.path.join(name)) {
                Ok(about) => Ok(Some(kind(about.file_type()))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.into()),
            }
        }

        pub(crate) fn plain(&self, name: &str) -> Result<File, FileFault> {
            match self.kind(name)? {
                Some(Kind::File) => Ok(File::open(self.path.join(name))?),
                None => Err(FileFault::Missing),
                Some(Kind::Link) => Err(FileFault::Link),
                Some(Kind::Directory | Kind::Other) => Err(FileFault::NotAFile),
            }
        }

        pub(crate) fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, FileFault> {
            let file = self.plain(name)?;
            let length = file.metadata()?.len();
            let mut bytes = Vec::new();
            file.take(limit + 1).read_to_end(&mut bytes)?;
            let length = (bytes.len() as u64).max(length);
            if length > limit { Err(FileFault::TooLarge { bytes: length, limit }) } else { Ok(bytes) }
        }

        pub(crate) fn write(&self, name: &str, temporary: &str, bytes: &[u8], place: Place) -> Result<(), FileFault> {
            let (name, temporary) = (self.path.join(name), self.path.join(temporary));
            let written = fill(&temporary, bytes).and_then(|()| match place {
                Place::Free if name.symlink_metadata().is_ok() => Err(FileFault::There),
                Place::Free | Place::Any => Ok(fs::rename(&temporary, &name)?),
            });
            let _ = fs::remove_file(&temporary);
            written
        }

        pub(crate) fn remove(&self, name: &str) -> Result<(), FileFault> {
            Ok(fs::remove_file(self.path.join(name))?)
        }

        pub(crate) fn discard(&self, name: &str) -> Result<(), FileFault> {
            self.remove(name)
        }
    }

    fn fill(path: &Path, bytes: &[u8]) -> Result<(), FileFault> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
        Ok(file.sync_all()?)
    }

    fn kind(kind: FileType) -> Kind {
        if kind.is_symlink() {
            Kind::Link
        } else if kind.is_dir() {
            Kind::Directory
        } else if kind.is_file() {
            Kind::File
        } else {
            Kind::Other
        }
    }
}
