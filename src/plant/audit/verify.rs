//! Whether a trail is all there: the chain is made again, line by line, and the first line that breaks it is named.
//!
//! Bounded whatever lies there: one line is held at a time. What was cut off at the end cannot be told from what was never
//! written; who noted the hash of a line elsewhere can ask whether it is there still.

use std::path::Path;

use super::{
    chain::{Hash, Head},
    day::FileName,
    folder::{Unusable, checked, files, plain},
    line::{MAX_LINE, Read},
    tail::{Lines, Piece},
};
use crate::wire::instant;

/// Notes that are made at most; the rest are counted.
const MAX_NOTES: usize = 16;

/// What is right about a trail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many files.
    pub files: usize,
    /// How many lines.
    pub lines: u64,
    /// Number and time of the first line that is kept.
    pub first: Option<(u64, String)>,
    /// Number and time of the last.
    pub last: Option<(u64, String)>,
    /// The hash of the last line; to be noted elsewhere.
    pub head: Option<Hash>,
    /// What is worth knowing and proves nothing.
    pub notes: Vec<String>,
}

/// The first line that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// In which file.
    pub file: String,
    /// Which line of it, from 1.
    pub line: u64,
    /// What is wrong there.
    pub what: String,
}

/// Why a trail is not verified.
#[derive(Debug, thiserror::Error)]
pub enum Unverified {
    /// A line breaks the chain.
    #[error("{}:{}: {}", .0.file, .0.line, .0.what)]
    Broken(Finding),
    /// No line has the hash that somebody noted.
    #[error(
        "no line has the hash {0}: the end of the trail was cut off, the trail was written anew, or the line was dropped with its file"
    )]
    Lost(Hash),
    /// It could not be read.
    #[error("{0}")]
    Unreadable(#[from] Unusable),
}

/// Checks the trail in a directory, and that the line with the hash `noted` is in it.
///
/// # Errors
///
/// What is wrong first.
pub fn verify(path: &Path, noted: Option<Hash>) -> Result<Verified, Unverified> {
    let path = checked(path)?;
    let names = files(&path)?;
    let Some(newest) = names.last() else {
        return Err(Unusable("there are no files of a trail in it".into()).into());
    };
    let mut checker = Checker { noted, ..Checker::default() };
    for name in &names {
        let unreadable = |problem| Unusable::of(&format!("{name} cannot be read"), &problem);
        let mut lines = Lines::new(plain(&path.join(name.to_string())).map_err(unreadable)?);
        let mut number = 0;
        while let Some(piece) = lines.next().map_err(unreadable)? {
            number += 1;
            let place = Place { file: *name, number };
            match piece {
                Piece::Line(line) => {
                    let read = checker.line(place, line).map_err(Unverified::Broken)?;
                    checker.aside(&path, place, read)?;
                }
                Piece::TooLong => {
                    checker.settle(None).map_err(Unverified::Broken)?;
                    let what = format!("it is longer than the {MAX_LINE} bytes of any line we write");
                    return Err(Unverified::Broken(place.finding(what)));
                }
                Piece::Torn(_) if name == newest => checker.note(
                    "the last line is not whole: it is being written, or its process died over it; the next start puts it aside".into(),
                ),
                Piece::Torn(_) => {
                    checker.settle(None).map_err(Unverified::Broken)?;
                    return Err(Unverified::Broken(place.finding("it was cut off, and a later file follows".into())));
                }
            }
        }
    }
    checker.verified.files = names.len();
    checker.end()
}

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    file: FileName,
    number: u64,
}

impl Place {
    fn finding(self, what: String) -> Finding {
        Finding { file: self.file.to_string(), line: self.number, what }
    }
}

/// Whether a line says that what came before the first line was dropped: up to there, or with the file that line is in, which
/// a process that died over it left behind.
fn says_dropped(read: &Read, first: Place, before: Hash) -> bool {
    let left = || read.files.iter().flatten().any(|file| *file == first.file.to_string());
    read.event == "dropped" && (read.head == Some(before) || left())
}

/// A line that was read.
#[derive(Clone, Copy, Debug)]
struct Seen {
    place: Place,
    head: Head,
}

/// A line that does not name the hash of the one before it. What is wrong is told by the line after it.
#[derive(Clone, Copy, Debug)]
struct Break {
    before: Seen,
    here: Seen,
    /// Whether it would follow if the line before were not there.
    skips: bool,
}

#[derive(Debug, Default)]
struct Checker {
    noted: Option<Hash>,
    /// The hash of the line before the last.
    earlier: Option<Hash>,
    last: Option<Seen>,
    broken: Option<Break>,
    /// What the first line names, if it was not the first of all: some line must say that this was dropped.
    dropped: Option<(Place, Hash)>,
    found: bool,
    latest: i64,
    unsaid: usize,
    verified: Verified,
}

impl Checker {
    fn line(&mut self, place: Place, line: &[u8]) -> Result<Read, Finding> {
        let read = Read::parse(line);
        self.settle(read.as_ref())?;
        let read =
            read.ok_or_else(|| place.finding("it was edited or is damaged: this is no line of a trail".into()))?;
        let here = Seen { place, head: Head { seq: read.seq, hash: Hash::of(line) } };
        match self.last {
            None => self.first(place, &read)?,
            Some(before) if before.head.hash != read.prev => {
                let skips = self.earlier == Some(read.prev) && before.head.hash != here.head.hash;
                self.broken = Some(Break { before, here, skips });
            }
            Some(before) if before.head.seq + 1 != read.seq => {
                let what = format!("it was edited: its number is {} and must be {}", read.seq, before.head.seq + 1);
                return Err(place.finding(what));
            }
            Some(_) => {}
        }
        self.clock(place, &read)?;
        if let Some((_, hash)) = self.dropped.filter(|(first, hash)| says_dropped(&read, *first, *hash)) {
            self.dropped = None;
            self.found |= self.noted == Some(hash);
        }
        self.found |= self.noted == Some(here.head.hash);
        self.earlier = self.last.map(|last| last.head.hash);
        self.last = Some(here);
        self.verified.lines += 1;
        self.verified.first.get_or_insert_with(|| (read.seq, read.at.clone()));
        self.verified.last = Some((read.seq, read.at.clone()));
        Ok(read)
    }

    fn first(&mut self, place: Place, read: &Read) -> Result<(), Finding> {
        if read.prev != Hash::GENESIS {
            self.dropped = Some((place, read.prev));
        } else if read.seq != 1 {
            return Err(
                place.finding(format!("it was edited: the first line of all has the number 1, and not {}", read.seq))
            );
        }
        Ok(())
    }

    /// Times are told as the clock told them; one that goes back is no sign of anything but a clock.
    fn clock(&mut self, place: Place, read: &Read) -> Result<(), Finding> {
        let at = instant::parse(&read.at).ok_or_else(|| place.finding("it was edited: it has no time".into()))?;
        if at < self.latest {
            let (file, number) = (place.file, place.number);
            self.note(format!("{file}:{number}: the clock went back here, to {}", read.at));
        }
        self.latest = at;
        Ok(())
    }

    fn note(&mut self, note: String) {
        if self.verified.notes.len() < MAX_NOTES {
            self.verified.notes.push(note);
        } else {
            self.unsaid += 1;
        }
    }

    /// Says what a break before this line was.
    fn settle(&mut self, next: Option<&Read>) -> Result<(), Finding> {
        let Some(Break { before, here, skips }) = self.broken.take() else { return Ok(()) };
        let follows = next.map(|next| next.prev == here.head.hash);
        let (last, seq) = (before.head.seq, here.head.seq);
        Err(match (seq == last + 1, follows) {
            _ if skips => before.place.finding("it was put in: the line after it follows the one before it".into()),
            (true, Some(true)) => {
                before.place.finding("it was edited: its hash is not what the next line names".into())
            }
            (true, Some(false)) => {
                here.place.finding("it was edited: it does not name the hash of the line before".into())
            }
            (true, None) => {
                before.place.finding("it or the line after it was edited: the hash is not the one named".into())
            }
            (false, _) if seq > last && next.is_none_or(|next| next.seq > seq) => {
                let missing = seq - last - 1;
                here.place.finding(format!("{missing} lines before it were taken out: {last} is followed by {seq}"))
            }
            (false, _) => here.place.finding(format!("it was put in or moved here: {last} is followed by {seq}")),
        })
    }

    /// What a recovered line put aside must be what it was, if it is there still.
    fn aside(&mut self, path: &Path, place: Place, read: Read) -> Result<(), Unverified> {
        let (Some(kept), Some(sha256)) = (read.kept, read.sha256) else { return Ok(()) };
        let (file, number) = (place.file, place.number);
        let ours = kept.split_once(".torn-").is_some_and(|(name, at)| {
            FileName::parse(name).is_some() && at.len() < 4 && at.bytes().all(|byte| byte.is_ascii_digit())
        });
        let open = || ours.then(|| plain(&path.join(&kept)).ok()).flatten();
        let piece = open().map(Lines::new);
        let Some(mut piece) = piece else {
            self.note(format!("{file}:{number}: a torn line was put aside here; its part is not there any more"));
            return Ok(());
        };
        match piece.next() {
            Ok(Some(Piece::Torn(bytes))) if Hash::of(bytes) == sha256 => {
                self.note(format!("{file}:{number}: a process died over a line here; its part is in {kept}"));
                Ok(())
            }
            _ => Err(Unverified::Broken(place.finding(format!("what it put aside, {kept}, is not what it was")))),
        }
    }

    fn end(mut self) -> Result<Verified, Unverified> {
        self.settle(None).map_err(Unverified::Broken)?;
        if let Some((place, _)) = self.dropped {
            let what = "what came before it is missing, and no line says that it was dropped";
            return Err(Unverified::Broken(place.finding(what.into())));
        }
        if let Some(noted) = self.noted.filter(|_| !self.found) {
            return Err(Unverified::Lost(noted));
        }
        if self.unsaid > 0 {
            self.verified.notes.push(format!("{} more of the kind", self.unsaid));
        }
        self.verified.head = self.last.map(|last| last.head.hash);
        Ok(self.verified)
    }
}
