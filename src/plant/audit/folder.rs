//! The directory of a trail: whose it is, what lies in it, and the one process that writes to it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

use super::{
    chain::hex,
    day::FileName,
    salt::{BYTES, Salt},
};

/// Files of a trail that are looked at. A directory with more is refused.
const MAX_FILES: usize = 100_000;
/// The file whose lock is the right to write.
const LOCK: &str = "lock";
/// The file with the salt.
const SALT: &str = "salt";

/// Why a directory cannot be used, as a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub(super) String);

impl Unusable {
    pub(super) fn of(what: &str, problem: &io::Error) -> Self {
        Self(format!("{what}: {problem}"))
    }
}

/// A directory that this process writes to, and nobody else as long as this lives.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held, never read.
    _lock: File,
}

impl Folder {
    /// Takes the directory, which is made if its parent is there.
    pub(super) fn take(path: &Path) -> Result<Self, Unusable> {
        let path = checked(path)?;
        if !path.exists() {
            let mut builder = DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(&path).map_err(|problem| Unusable::of("the directory cannot be made", &problem))?;
        }
        kept(&path)?;
        let lock = owned(OpenOptions::new().write(true).create(true).truncate(false))
            .open(path.join(LOCK))
            .map_err(|problem| Unusable::of("nothing can be written into the directory", &problem))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Unusable(
                "another plantbridge writes its trail into this directory; give each a directory of its own".into(),
            )),
            Err(TryLockError::Error(problem)) => Err(Unusable::of("the directory cannot be locked", &problem)),
        }
    }

    /// The salt of the directory; made when there is none.
    pub(super) fn salt(&self) -> Result<Salt, Unusable> {
        let path = self.path.join(SALT);
        let bytes = match plain(&path) {
            Ok(file) => read_salt(file)?,
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => self.make_salt(&path)?,
            Err(problem) => return Err(Unusable::of("its salt cannot be read", &problem)),
        };
        Salt::new(&bytes).ok_or_else(|| Unusable("its salt is none".into()))
    }

    fn make_salt(&self, path: &Path) -> Result<Zeroizing<[u8; BYTES]>, Unusable> {
        let mut bytes = Zeroizing::new([0; BYTES]);
        getrandom::fill(&mut *bytes)
            .map_err(|problem| Unusable(format!("the system gives no random bytes: {problem}")))?;
        // Whole under its name, or not there.
        let new = self.path.join("salt.new");
        let text = Zeroizing::new(hex(&*bytes) + "\n");
        let written = fs::remove_file(&new).or_else(missing).and_then(|()| {
            let mut file = owned(OpenOptions::new().write(true).create_new(true)).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, path)?;
            self.sync()
        });
        written.map_err(|problem| Unusable::of("its salt cannot be written", &problem))?;
        Ok(bytes)
    }

    /// The files of the trail, oldest first.
    pub(super) fn files(&self) -> Result<Vec<FileName>, Unusable> {
        files(&self.path)
    }

    pub(super) fn at(&self, name: FileName) -> PathBuf {
        self.path.join(name.to_string())
    }

    /// Opens one file to be read and cut.
    pub(super) fn open(&self, name: FileName) -> io::Result<File> {
        let file = owned(OpenOptions::new().read(true).append(true)).open(self.at(name))?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
    }

    /// Makes one.
    pub(super) fn create(&self, name: FileName) -> io::Result<File> {
        let file = owned(OpenOptions::new().read(true).append(true).create_new(true)).open(self.at(name))?;
        self.sync()?;
        Ok(file)
    }

    pub(super) fn remove(&self, name: FileName) -> io::Result<()> {
        fs::remove_file(self.at(name)).or_else(missing)
    }

    /// Keeps bytes beside the trail, under a name that nothing has yet.
    pub(super) fn put_aside(&self, name: FileName, bytes: &[u8]) -> io::Result<String> {
        let free = (1..1_000).map(|number| format!("{name}.torn-{number}"));
        for kept in free {
            match owned(OpenOptions::new().write(true).create_new(true)).open(self.path.join(&kept)) {
                Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => {}
                Err(problem) => return Err(problem),
                Ok(mut file) => {
                    file.write_all(bytes)?;
                    file.sync_all()?;
                    self.sync()?;
                    return Ok(kept);
                }
            }
        }
        Err(io::Error::other("a thousand torn lines were put aside already"))
    }

    fn sync(&self) -> io::Result<()> {
        if cfg!(unix) { File::open(&self.path)?.sync_all() } else { Ok(()) }
    }
}

fn missing(problem: io::Error) -> io::Result<()> {
    if problem.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(problem) }
}

/// The path of a directory, if it is one and no way to another: what leads elsewhere can be made to lead elsewhere later.
pub(super) fn checked(path: &Path) -> Result<PathBuf, Unusable> {
    // Without the slash at its end, behind which a link would not show.
    let path: PathBuf = path.components().collect();
    match fs::symlink_metadata(&path) {
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(path),
        Err(problem) => Err(Unusable::of("the directory cannot be looked at", &problem)),
        Ok(about) if about.is_symlink() => Err(Unusable(
            "it is a symbolic link, which can be made to lead elsewhere; name the directory itself".into(),
        )),
        Ok(about) if !about.is_dir() => Err(Unusable("a directory is needed, and it is something else".into())),
        Ok(_) => Ok(path),
    }
}

/// Whether a directory is kept from others.
fn kept(path: &Path) -> Result<(), Unusable> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let about =
            fs::metadata(path).map_err(|problem| Unusable::of("the directory cannot be looked at", &problem))?;
        if about.permissions().mode() & 0o002 != 0 {
            return Err(Unusable("others can write into the directory; chmod o-w".into()));
        }
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

fn read_salt(file: File) -> Result<Zeroizing<[u8; BYTES]>, Unusable> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let about = file.metadata().map_err(|problem| Unusable::of("its salt cannot be looked at", &problem))?;
        if about.permissions().mode() & 0o077 != 0 {
            return Err(Unusable("others can read its salt; chmod 600".into()));
        }
    }
    let mut text = Zeroizing::new(String::new());
    file.take(2 * BYTES as u64 + 2)
        .read_to_string(&mut text)
        .map_err(|problem| Unusable::of("its salt cannot be read", &problem))?;
    let hash = text.strip_suffix('\n').and_then(super::chain::Hash::parse);
    let bytes =
        hash.ok_or_else(|| Unusable("its salt is none: 64 hexadecimal digits and a line feed are one".into()))?;
    Ok(Zeroizing::new(bytes.bytes()))
}

/// The files of a trail in a directory, oldest first.
pub(super) fn files(path: &Path) -> Result<Vec<FileName>, Unusable> {
    let unreadable = |problem: io::Error| Unusable::of("the directory cannot be read", &problem);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        found.extend(name.to_str().and_then(FileName::parse));
        if found.len() > MAX_FILES {
            return Err(Unusable(format!("the directory holds more than {MAX_FILES} files of a trail")));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Opens a plain file to be read, and no link to one.
pub(super) fn plain(path: &Path) -> io::Result<File> {
    let file = owned(OpenOptions::new().read(true)).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
}

/// What is made is its owner's alone, and what is opened is no link and is not waited for.
fn owned(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    }
    options
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn refusal(path: &Path) -> String {
        Folder::take(path).map_or_else(|why| why.to_string(), |_| String::new())
    }

    #[test]
    fn a_directory_is_one_writers_and_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trail");
        let taken = Folder::take(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(refusal(&path).contains("another plantbridge"));
        drop(taken);
        let taken = Folder::take(&path).unwrap();
        let salt = taken.salt().unwrap();
        assert_eq!(fs::metadata(path.join(SALT)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(taken.salt().unwrap().mark(), salt.mark(), "it is made once");
        fs::set_permissions(path.join(SALT), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(taken.salt().unwrap_err().to_string().contains("chmod 600"));
        fs::remove_file(path.join(SALT)).unwrap();
        assert_ne!(taken.salt().unwrap().mark(), salt.mark());
        fs::write(path.join(SALT), "short\n").unwrap();
        assert!(taken.salt().unwrap_err().to_string().contains("64 hexadecimal digits"));
    }

    #[test]
    fn what_leads_elsewhere_or_is_open_to_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link, file) = (folder.path().join("real"), folder.path().join("link"), folder.path().join("file"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        fs::write(&file, "").unwrap();
        assert!(refusal(&link).contains("symbolic link"));
        assert!(refusal(&link.join("")).contains("symbolic link"), "a slash at its end hides nothing");
        assert!(refusal(&file).contains("directory is needed"));
        assert!(refusal(&folder.path().join("a/b")).contains("cannot be made"));
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(refusal(&real).contains("chmod o-w"));
        fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
        symlink(&file, real.join(LOCK)).unwrap();
        assert!(refusal(&real).contains("nothing can be written"));
    }
}
