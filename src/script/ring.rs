//! What a program wrote, as lines: the last of them, in bounded memory, whatever it writes.

use std::collections::VecDeque;

/// The last lines of a run.
#[derive(Debug, Default)]
pub(super) struct Ring {
    lines: VecDeque<String>,
    /// How many there were before those that are held.
    fell_off: u64,
}

/// Makes lines of bytes. A line that grows beyond its bound is cut and the rest of it skipped.
#[derive(Debug)]
pub(super) struct Lines {
    mark: &'static str,
    held: Vec<u8>,
    skipping: bool,
}

impl Ring {
    /// How many lines there were.
    pub(super) fn total(&self) -> u64 {
        self.fell_off + self.lines.len() as u64
    }

    /// The lines from number `after` on that are held, and the number of the first of them.
    pub(super) fn from(&self, after: u64) -> (u64, impl Iterator<Item = &str>) {
        let first = after.clamp(self.fell_off, self.total());
        let skip = usize::try_from(first - self.fell_off).unwrap_or(usize::MAX);
        (first, self.lines.iter().skip(skip).map(String::as_str))
    }

    pub(super) fn push(&mut self, line: &str) {
        let mut place = String::new();
        if self.lines.len() >= LINES {
            self.fell_off += 1;
            // The room of the oldest is that of the newest; one that was very long gives its room back.
            place = self.lines.pop_front().unwrap_or_default();
            place.clear();
            if place.capacity() > 1024 {
                place.shrink_to(1024);
            }
        }
        place.push_str(line);
        self.lines.push_back(place);
    }
}

impl Lines {
    /// Lines that begin with `mark`.
    pub(super) fn marked(mark: &'static str) -> Self {
        Self { mark, held: Vec::new(), skipping: false }
    }

    /// Takes in bytes; `line` is told each line that is complete.
    pub(super) fn take(&mut self, mut bytes: &[u8], mut line: impl FnMut(&str)) {
        while let Some(at) = memchr::memchr(b'\n', bytes) {
            let (head, rest) = bytes.split_at(at);
            bytes = rest.get(1..).unwrap_or_default();
            self.extend(head, &mut line);
            if !self.skipping {
                self.emit(&mut line, "");
            }
            self.skipping = false;
        }
        self.extend(bytes, &mut line);
    }

    /// What is left when nothing follows.
    pub(super) fn end(&mut self, mut line: impl FnMut(&str)) {
        if !self.held.is_empty() {
            self.emit(&mut line, "");
        }
    }

    fn extend(&mut self, bytes: &[u8], line: &mut impl FnMut(&str)) {
        if self.skipping {
            return;
        }
        let room = LONGEST - self.held.len();
        self.held.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        if bytes.len() > room {
            self.emit(line, CUT);
            self.skipping = true;
        }
    }

    fn emit(&mut self, line: &mut impl FnMut(&str), end: &str) {
        let bytes = self.held.strip_suffix(b"\r").unwrap_or(&self.held);
        let text = String::from_utf8_lossy(bytes);
        if self.mark.is_empty() && end.is_empty() {
            line(&text);
        } else {
            line(&format!("{}{text}{end}", self.mark));
        }
        self.held.clear();
        if self.held.capacity() > 1024 {
            self.held.shrink_to(1024);
        }
    }
}

/// What stands at the end of a line that was cut.
const CUT: &str = " … (the line goes on; it was cut at 16 KiB)";
/// Lines that are held of a run.
pub(super) const LINES: usize = 200;
/// Bytes of a line.
const LONGEST: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut out) = (Lines::marked(""), Vec::new());
        for chunk in chunks {
            lines.take(chunk, |line| out.push(line.to_owned()));
        }
        lines.end(|line| out.push(line.to_owned()));
        out
    }

    #[test]
    fn lines_are_lines_however_they_come() {
        assert_eq!(lines(&[b"a\nb", b"c\n\nd\r\n", b"e"]), ["a", "bc", "", "d", "e"]);
        assert_eq!(lines(&[]), [""; 0]);
        assert_eq!(lines(&[b"\xff\x00\n"]), ["\u{fffd}\0"]);
        let mut marked = Lines::marked("! ");
        marked.take(b"x\n", |line| assert_eq!(line, "! x"));
    }

    /// F-28: a line without an end is cut once, and the next line is the next line.
    #[test]
    fn a_line_without_an_end_is_cut_in_bounded_memory() {
        let (mut lines, mut out) = (Lines::marked(""), Vec::new());
        for _ in 0..1_000 {
            lines.take(&[b'x'; 4_096], |line| out.push(line.to_owned()));
            assert!(lines.held.capacity() <= 2 * LONGEST);
        }
        lines.take(b"y\nnext\n", |line| out.push(line.to_owned()));
        assert_eq!(out.len(), 2);
        assert_eq!(out[0].len(), LONGEST + CUT.len());
        assert!(out[0].ends_with(CUT));
        assert_eq!(out[1], "next");
        let exact = [b'x'; LONGEST];
        assert_eq!(self::lines(&[&exact, b"\n"])[0].len(), LONGEST);
    }

    #[test]
    fn the_ring_holds_the_last_and_counts_the_rest() {
        let mut ring = Ring::default();
        for number in 0..1_000 {
            ring.push(&number.to_string());
        }
        assert_eq!((ring.total(), ring.lines.len()), (1_000, LINES));
        let (first, held) = ring.from(0);
        assert_eq!((first, held.collect::<Vec<_>>()[0]), (800, "800"));
        let (first, held) = ring.from(998);
        assert_eq!((first, held.collect::<Vec<_>>()), (998, vec!["998", "999"]));
        assert_eq!(ring.from(5_000).0, 1_000);
    }

    proptest! {
        /// However bytes are split, the lines are the same.
        #[test]
        fn chunks_do_not_matter(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..600), at in 0_usize..600) {
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(lines(&[head, tail]), lines(&[&bytes]));
        }
    }
}
