//! Reading a trail: line by line, each within its bound, or the end of a file alone.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom},
};

use super::line::MAX_LINE;

/// The lines of one file.
#[derive(Debug)]
pub(super) struct Lines {
    from: BufReader<File>,
    buffer: Vec<u8>,
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A line, without its line feed.
    Line(&'a [u8]),
    /// More bytes without a line feed than a line may have.
    TooLong,
    /// The bytes at the end that no line feed follows.
    Torn(&'a [u8]),
}

impl Lines {
    pub(super) fn new(file: File) -> Self {
        Self { from: BufReader::with_capacity(64 * 1024, file), buffer: Vec::new() }
    }

    /// The next piece; none at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        self.buffer.clear();
        let most = MAX_LINE as u64 + 1;
        let read = self.from.by_ref().take(most).read_until(b'\n', &mut self.buffer)?;
        Ok(match self.buffer.split_last() {
            None => None,
            Some((b'\n', line)) => Some(Piece::Line(line)),
            Some(_) if read as u64 == most => Some(Piece::TooLong),
            Some(_) => Some(Piece::Torn(&self.buffer)),
        })
    }
}

/// The end of a file.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// The line before the last, if it was looked at.
    pub(super) before: Option<Vec<u8>>,
    /// The last line.
    pub(super) last: Option<Vec<u8>>,
    /// What no line feed follows.
    pub(super) torn: Vec<u8>,
    /// Where that begins.
    pub(super) whole: u64,
}

impl Tail {
    /// Reads the end of a file; none if it is no end that a trail has.
    pub(super) fn read(file: &mut File) -> io::Result<Option<Self>> {
        let length = file.seek(SeekFrom::End(0))?;
        let from = length.saturating_sub(3 * (MAX_LINE as u64 + 1));
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(length - from).read_to_end(&mut bytes)?;
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            let short = from == 0 && bytes.len() <= MAX_LINE;
            return Ok(short.then(|| Self { torn: bytes, ..Self::default() }));
        };
        let torn = bytes.split_off(end + 1);
        bytes.pop();
        let mut lines = bytes.rsplit(|byte| *byte == b'\n');
        let (last, before) = (lines.next(), lines.next());
        // Of a line that began before what was read, the head is missing.
        let before = before.filter(|_| from == 0 || lines.next().is_some());
        let tail = Self {
            before: before.map(<[u8]>::to_vec),
            last: last.map(<[u8]>::to_vec),
            whole: length - torn.len() as u64,
            torn,
        };
        Ok(Some(tail).filter(|tail| tail.torn.len() <= MAX_LINE))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(text: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file
    }

    #[test]
    fn lines_are_bounded_and_what_is_torn_is_told() {
        let long = vec![b'x'; MAX_LINE + 1];
        let text = [b"one\n\n".as_slice(), &long[..MAX_LINE], b"\ntorn"].concat();
        let mut lines = Lines::new(file(&text));
        assert_eq!(lines.next().unwrap(), Some(Piece::Line(b"one")));
        assert_eq!(lines.next().unwrap(), Some(Piece::Line(b"")));
        assert_eq!(lines.next().unwrap(), Some(Piece::Line(&long[..MAX_LINE])));
        assert_eq!(lines.next().unwrap(), Some(Piece::Torn(b"torn")));
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!(Lines::new(file(&long)).next().unwrap(), Some(Piece::TooLong));
    }

    #[test]
    fn the_end_of_a_file_is_read_without_the_rest() {
        let tail = |text: &[u8]| Tail::read(&mut file(text)).unwrap();
        let end = tail(b"one\ntwo\nthr").unwrap();
        assert_eq!(end.before.as_deref(), Some(b"one".as_slice()));
        assert_eq!(
            (end.last.as_deref(), end.torn.as_slice(), end.whole),
            (Some(b"two".as_slice()), b"thr".as_slice(), 8)
        );
        let end = tail(b"one\n").unwrap();
        assert_eq!((end.before, end.last.as_deref(), end.torn.len()), (None, Some(b"one".as_slice()), 0));
        assert!(tail(b"").unwrap().last.is_none());
        assert_eq!(tail(b"torn").unwrap().torn, b"torn");
        assert!(tail(&vec![b'x'; MAX_LINE + 1]).is_none(), "no line is that long");
        let many = b"a line\n".repeat(100_000);
        assert_eq!(tail(&many).unwrap().before.as_deref(), Some(b"a line".as_slice()));
    }
}
