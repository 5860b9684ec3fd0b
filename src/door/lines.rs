//! Lines out of a stream, bounded (F-03). Pure.
//!
//! Every byte is looked at once, however it arrives. A line over the limit is never kept: its beginning is dropped, the
//! rest is read past, and of both only the id is remembered.

use bytes::BytesMut;
use memchr::memchr;
use serde_json::Value as Json;

use super::scan::IdScan;

/// One line.
#[derive(Debug)]
pub enum Line {
    /// Without its newline.
    Whole(BytesMut),
    /// One over the limit: the id it named, and its first bytes.
    TooLong {
        /// The id.
        id: Option<Json>,
        /// For the log.
        head: Vec<u8>,
    },
}

/// A stream being cut into lines.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no newline.
    searched: usize,
    skipped: Option<Box<Skipped>>,
}

#[derive(Debug)]
struct Skipped {
    scan: IdScan,
    head: Vec<u8>,
}

impl Lines {
    /// Lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: BytesMut::new(), searched: 0, skipped: None }
    }

    /// Where to read into. What is written there is looked at by [`Self::next_line`].
    pub fn room(&mut self) -> &mut BytesMut {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            // A large line is over; its memory is not kept for the small ones that follow.
            self.buffer = BytesMut::new();
        }
        let spare = self.buffer.capacity() - self.buffer.len();
        if spare < CHUNK / 4 {
            self.buffer.reserve(CHUNK);
        }
        &mut self.buffer
    }

    /// The next line that is complete.
    pub fn next_line(&mut self) -> Option<Line> {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(at) = memchr(b'\n', unsearched).map(|at| at + self.searched) else {
            self.searched = self.buffer.len();
            if self.skipped.is_some() || self.buffer.len() > self.limit {
                self.skip();
            }
            return None;
        };
        let mut line = self.buffer.split_to(at + 1);
        line.truncate(at);
        self.searched = 0;
        if line.len() > KEPT {
            // What follows must not keep the memory of this line alive.
            self.buffer = BytesMut::from(self.buffer.as_ref());
        }
        Some(self.end(line))
    }

    /// What stood after the last newline when the stream ended.
    pub fn last_line(&mut self) -> Option<Line> {
        let rest = self.buffer.split();
        self.searched = 0;
        (self.skipped.is_some() || !rest.is_empty()).then(|| self.end(rest))
    }

    fn end(&mut self, line: BytesMut) -> Line {
        if self.skipped.is_none() && line.len() <= self.limit {
            return Line::Whole(line);
        }
        let mut skipped = self.skipped.take().unwrap_or_else(|| Skipped::of(&line));
        skipped.scan.feed(&line);
        Line::TooLong { id: skipped.scan.id(), head: skipped.head }
    }

    fn skip(&mut self) {
        let skipped = self.skipped.get_or_insert_with(|| Skipped::of(&self.buffer));
        skipped.scan.feed(&self.buffer);
        if self.buffer.capacity() > KEPT {
            self.buffer = BytesMut::new();
        } else {
            self.buffer.clear();
        }
        self.searched = 0;
    }
}

impl Skipped {
    fn of(beginning: &[u8]) -> Box<Self> {
        let head = beginning.get(..HEAD.min(beginning.len())).unwrap_or_default().to_vec();
        Box::new(Self { scan: IdScan::default(), head })
    }
}

/// Bytes asked of the stream at once.
const CHUNK: usize = 16 * 1024;
/// A buffer larger than this is given back.
const KEPT: usize = 256 * 1024;
/// Bytes of a line that is too long kept for the log.
const HEAD: usize = 320;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn cut(limit: usize, pieces: &[&[u8]]) -> Vec<Result<Vec<u8>, Option<Json>>> {
        let mut lines = Lines::new(limit);
        let mut out = Vec::new();
        let mut keep = |line: Line| {
            out.push(match line {
                Line::Whole(line) => Ok(line.to_vec()),
                Line::TooLong { id, .. } => Err(id),
            });
        };
        for piece in pieces {
            lines.room().extend_from_slice(piece);
            while let Some(line) = lines.next_line() {
                keep(line);
            }
        }
        if let Some(line) = lines.last_line() {
            keep(line);
        }
        out
    }

    #[test]
    fn lines_are_cut_at_newlines() {
        assert_eq!(
            cut(9, &[b"a\nb", b"", b"c\n\nd"]),
            [Ok(b"a".to_vec()), Ok(b"bc".to_vec()), Ok(vec![]), Ok(b"d".to_vec())]
        );
        assert_eq!(cut(9, &[b"a\n"]), [Ok(b"a".to_vec())]);
    }

    /// F-03: an oversized line is answered with its id, wherever that stands, and the next line is read.
    #[test]
    fn a_long_line_leaves_its_id() {
        let late = [&b"{\"x\":\"yyyyyyyy"[..], b"yyyyyyyyyyyyyyyyyyyyyyyy\",", b"\"id\":\"a", b"b\"}\nok\n"];
        assert_eq!(cut(10, &late), [Err(Some(json!("ab"))), Ok(b"ok".to_vec())]);
        assert_eq!(cut(10, &[b"{\"id\":77,\"x\":1}\nok"]), [Err(Some(json!(77))), Ok(b"ok".to_vec())]);
        assert_eq!(cut(10, &[b"0123456789\n0123456789x\n"]), [Ok(b"0123456789".to_vec()), Err(None)]);
        assert_eq!(cut(10, &[b"{\"id\":3,\"x", b"xxxxxxxxxxxxxxxx"]), [Err(Some(json!(3)))]);
    }

    /// F-03: the rest of a long line is skipped in bounded memory.
    #[test]
    fn a_long_line_is_not_kept() {
        let mut lines = Lines::new(1_000_000);
        let mut most = 0;
        for _ in 0..1_000 {
            lines.room().extend_from_slice(&[b'x'; 10_000]);
            assert!(lines.next_line().is_none());
            most = most.max(lines.buffer.len());
        }
        assert!(most <= 1_010_000, "{most}");
        assert!(lines.buffer.capacity() <= KEPT);
    }

    /// A large line that was taken gives its memory back, whatever follows it.
    #[test]
    fn a_large_line_gives_its_memory_back() {
        let mut lines = Lines::new(10_000_000);
        for _ in 0..300 {
            lines.room().extend_from_slice(&[b'x'; 10_000]);
            assert!(lines.next_line().is_none());
        }
        lines.room().extend_from_slice(b"\nnext");
        drop(lines.next_line().unwrap());
        for _ in 0..5 {
            lines.room().extend_from_slice(&[b'y'; 4_000]);
            assert!(lines.next_line().is_none());
            assert!(lines.buffer.capacity() <= KEPT, "{}", lines.buffer.capacity());
        }
    }

    proptest! {
        /// However the stream is cut, the lines are the same.
        #[test]
        fn pieces_make_no_difference(text in "[a-c\"{}\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..6)) {
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(cut(5, &pieces), cut(5, &[bytes]));
        }
    }
}
