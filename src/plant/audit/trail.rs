//! The files of a trail: continued where the last process ended, one line at a time, a new file every day, old ones dropped.
//! Everything here waits for a disk.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use super::{
    chain::{Hash, Head},
    day::FileName,
    folder::{Folder, Unusable},
    line::{Event, Read, line},
    salt::Salt,
    tail::Tail,
};

/// How much of a trail is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// For how many days after its own a file is kept.
    pub days: u32,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Bytes a file may have before another one of the same day is begun.
const MAX_FILE: u64 = 64 * 1024 * 1024;
/// Files that are dropped at once.
const MAX_DROPPED: usize = 64;

impl Keep {
    /// So small that what is kept is about as much as may be.
    fn file(self) -> u64 {
        (self.bytes / 8).min(MAX_FILE)
    }
}

/// A trail that is being written.
#[derive(Debug)]
pub(super) struct Trail {
    folder: Folder,
    keep: Keep,
    head: Head,
    open: Open,
}

#[derive(Debug)]
struct Open {
    name: FileName,
    file: Arc<File>,
    /// Bytes of whole lines.
    length: u64,
    /// Whether a part of another may follow them.
    torn: bool,
    place: Option<Place>,
}

impl Open {
    /// Takes back a part of a line that could not be written whole.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.length)?;
            self.torn = false;
        }
        Ok(())
    }
}

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u64, u64);

impl Trail {
    /// Takes a directory and continues its trail, or begins one.
    pub(super) fn continued(path: &Path, keep: Keep, now: i64) -> Result<(Self, Salt), Unusable> {
        let folder = Folder::take(path)?;
        let salt = folder.salt()?;
        let files = folder.files()?;
        let (open, torn) = match files.last() {
            Some(name) => reopened(&folder, *name)?,
            None => (begun(&folder, FileName::first_of(now)).map_err(|problem| unwritable(&problem))?, None),
        };
        let head = head(&folder, &files)?;
        let mut trail = Self { folder, keep, head, open };
        let begin = |trail: &mut Self| {
            trail.append(now, &Event::Opened { version: env!("CARGO_PKG_VERSION"), salt: salt.mark() })?;
            if let Some(Torn { bytes, kept }) = &torn {
                let (file, sha256) = (&trail.open.name.to_string(), Hash::of(bytes));
                trail.append(now, &Event::Recovered { file, bytes: bytes.len() as u64, sha256, kept })?;
            }
            trail.keep_to_bounds(now);
            Ok(())
        };
        begin(&mut trail).map_err(|problem| unwritable(&problem))?;
        Ok((trail, salt))
    }

    /// Writes one line and gives its number. What fails leaves the trail as it was.
    pub(super) fn append(&mut self, now: i64, event: &Event<'_>) -> io::Result<u64> {
        let full = self.open.length >= self.keep.file();
        let next = self.open.name.next(now);
        if (full || self.open.name.is_over(now)) && next != self.open.name {
            self.open.mend()?;
            self.open.file.sync_all()?;
            self.open = begun(&self.folder, next)?;
            self.keep_to_bounds(now);
        }
        self.write(now, event)
    }

    /// What is to be written through to the disk.
    pub(super) fn file(&self) -> &Arc<File> {
        &self.open.file
    }

    fn write(&mut self, now: i64, event: &Event<'_>) -> io::Result<u64> {
        self.open.mend()?;
        let Open { name, file, length, torn, place } = &mut self.open;
        if *place != placed(&fs::symlink_metadata(self.folder.at(*name))?) {
            return Err(io::Error::other(format!("{name} is not where it was")));
        }
        let mut bytes = line(self.head, now, event)?;
        let hash = Hash::of(&bytes);
        bytes.push(b'\n');
        if let Err(problem) = (&**file).write_all(&bytes) {
            *torn = file.set_len(*length).is_err();
            return Err(problem);
        }
        *length += bytes.len() as u64;
        self.head = Head { seq: self.head.seq + 1, hash };
        Ok(self.head.seq)
    }

    /// What is over the bounds is tried again with the next file: it is no reason to refuse anything.
    fn keep_to_bounds(&mut self, now: i64) {
        if let Err(why) = self.drop_old(now) {
            tracing::warn!(%why, "old files of the audit trail could not be dropped");
        }
    }

    /// Drops the oldest files while they are too old or too many. The line that says so is written first, so that whoever
    /// finds them gone finds it too.
    fn drop_old(&mut self, now: i64) -> io::Result<()> {
        let files = self.folder.files().map_err(io::Error::other)?;
        let sized = files.into_iter().filter(|name| *name != self.open.name);
        let sized: Vec<_> =
            sized.map(|name| Ok((name, fs::metadata(self.folder.at(name))?.len()))).collect::<io::Result<_>>()?;
        let mut total = self.open.length + sized.iter().map(|(_, length)| length).sum::<u64>();
        // What the open file may still grow by is counted as if it had.
        let most = self.keep.bytes - self.keep.file();
        let mut over = Vec::new();
        for (name, length) in sized.into_iter().take(MAX_DROPPED) {
            if total <= most && !name.is_older(now, self.keep.days) {
                break;
            }
            total -= length;
            over.push(name);
        }
        let head = head(&self.folder, &over).map_err(io::Error::other)?;
        if over.is_empty() {
            return Ok(());
        }
        if head != Head::NONE {
            let names: Vec<String> = over.iter().map(FileName::to_string).collect();
            self.write(now, &Event::Dropped { files: &names, last: head.seq, head: head.hash })?;
            self.open.file.sync_data()?;
        }
        over.into_iter().try_for_each(|name| self.folder.remove(name))
    }
}

/// A line that the last process did not end.
struct Torn {
    bytes: Vec<u8>,
    kept: String,
}

fn unwritable(problem: &io::Error) -> Unusable {
    Unusable::of("the trail cannot be written", problem)
}

fn begun(folder: &Folder, name: FileName) -> io::Result<Open> {
    let file = folder.create(name)?;
    let place = placed(&file.metadata()?);
    Ok(Open { name, file: Arc::new(file), length: 0, torn: false, place })
}

/// Opens the last file, and puts aside what is torn at its end.
fn reopened(folder: &Folder, name: FileName) -> Result<(Open, Option<Torn>), Unusable> {
    let unusable = |problem: io::Error| Unusable::of(&format!("{name} cannot be continued"), &problem);
    let mut file = folder.open(name).map_err(unusable)?;
    let tail = Tail::read(&mut file).map_err(unusable)?.ok_or_else(|| no_trail(name))?;
    let torn = if tail.torn.is_empty() {
        None
    } else {
        let kept = folder.put_aside(name, &tail.torn).map_err(unusable)?;
        file.set_len(tail.whole).and_then(|()| file.sync_all()).map_err(unusable)?;
        tracing::warn!(file = %name, kept, "the last line of the audit trail was not whole, and was put aside");
        Some(Torn { bytes: tail.torn, kept })
    };
    let place = placed(&file.metadata().map_err(unusable)?);
    Ok((Open { name, file: Arc::new(file), length: tail.whole, torn: false, place }, torn))
}

/// Where the chain of these files ends. The last line is checked, and that it follows the one before.
fn head(folder: &Folder, files: &[FileName]) -> Result<Head, Unusable> {
    for name in files.iter().rev() {
        let unreadable = |problem: io::Error| Unusable::of(&format!("{name} cannot be read"), &problem);
        let mut file = folder.open(*name).map_err(unreadable)?;
        let tail = Tail::read(&mut file).map_err(unreadable)?.ok_or_else(|| no_trail(*name))?;
        let Some(last) = tail.last else { continue };
        let read = Read::parse(&last).ok_or_else(|| no_trail(*name))?;
        if tail.before.is_some_and(|before| Hash::of(&before) != read.prev) {
            return Err(no_trail(*name));
        }
        return Ok(Head { seq: read.seq, hash: Hash::of(&last) });
    }
    Ok(Head::NONE)
}

fn no_trail(name: FileName) -> Unusable {
    Unusable(format!(
        "the end of {name} is not that of a trail: see what `plantbridge audit verify` says of it, keep the files elsewhere, and \
         start with an empty directory"
    ))
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere files have no such number")]
fn placed(about: &fs::Metadata) -> Option<Place> {
    use std::os::unix::fs::MetadataExt as _;
    Some(Place(about.dev(), about.ino()))
}

#[cfg(not(unix))]
fn placed(_: &fs::Metadata) -> Option<Place> {
    None
}
