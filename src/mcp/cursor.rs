//! Cursors: opaque, authenticated, bound to the tool and the filters they were made for (results.md 4).
//!
//! A cursor is base64url of `version, position, tag`; the tag is HMAC-SHA256, cut to 16 bytes, over the position, the
//! tool and the filters under a key of this process. A client cannot make one, and one of another process is stale.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use sha2::Sha256;

use super::{codes::ErrorCode, error::ToolError};

/// Where a page continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// After this key of a list sorted by it.
    After(String),
    /// At this index of a list that stands still within a generation.
    At {
        /// The generation.
        generation: u64,
        /// The index.
        index: u64,
    },
}

/// Makes cursors and reads them back.
#[derive(Clone)]
pub struct Cursors {
    mac: Hmac<Sha256>,
}

impl std::fmt::Debug for Cursors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cursors")
    }
}

impl Cursors {
    /// Cursors under a key of this process, drawn by the caller.
    pub fn new(key: [u8; 32]) -> Self {
        // An array of the block's length or less is always a valid key; the fallback only spares us a panic path.
        let mac =
            Hmac::new_from_slice(&key).unwrap_or_else(|_| Hmac::new(&hmac::digest::Key::<Hmac<Sha256>>::default()));
        Self { mac }
    }

    /// The cursor that continues `tool` with `filters` at `position`.
    pub fn seal(&self, tool: &str, filters: &impl Serialize, position: &Position) -> String {
        let mut bytes = vec![VERSION];
        match position {
            Position::After(key) => {
                bytes.push(AFTER);
                bytes.extend_from_slice(key.as_bytes());
            }
            Position::At { generation, index } => {
                bytes.push(AT);
                bytes.extend_from_slice(&generation.to_be_bytes());
                bytes.extend_from_slice(&index.to_be_bytes());
            }
        }
        let tag = self.bound(tool, filters, &bytes).finalize().into_bytes();
        bytes.extend(tag.iter().take(TAG));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Where `cursor` continues.
    ///
    /// # Errors
    ///
    /// `stale_cursor` for whatever was not sealed here for this tool and these filters.
    pub fn open(&self, tool: &str, filters: &impl Serialize, cursor: &str) -> Result<Position, ToolError> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| Self::stale())?;
        let (body, tag) =
            bytes.len().checked_sub(TAG).and_then(|at| bytes.split_at_checked(at)).ok_or_else(Self::stale)?;
        self.bound(tool, filters, body).verify_truncated_left(tag).map_err(|_| Self::stale())?;
        read(body).ok_or_else(Self::stale)
    }

    /// The refusal of a cursor.
    pub fn stale() -> ToolError {
        ToolError::new(ErrorCode::StaleCursor, "this cursor cannot be continued")
    }

    fn bound(&self, tool: &str, filters: &impl Serialize, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        // Lengths stand before parts, so that no two bindings run into the same bytes.
        for part in [body, tool.as_bytes()] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        let _ = serde_json::to_writer(Feed(&mut mac), filters);
        mac
    }
}

fn read(body: &[u8]) -> Option<Position> {
    match body.split_at_checked(2)? {
        ([VERSION, AFTER], key) => Some(Position::After(std::str::from_utf8(key).ok()?.to_owned())),
        ([VERSION, AT], numbers) => {
            let (generation, index) = numbers.split_at_checked(8)?;
            Some(Position::At {
                generation: u64::from_be_bytes(generation.try_into().ok()?),
                index: u64::from_be_bytes(index.try_into().ok()?),
            })
        }
        _ => None,
    }
}

struct Feed<'a>(&'a mut Hmac<Sha256>);

impl std::io::Write for Feed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const VERSION: u8 = 1;
const AFTER: u8 = b'k';
const AT: u8 = b'i';
const TAG: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive() {
        let cursors = Cursors::new([1; 32]);
        for position in [
            Position::After("öfen/1".into()),
            Position::After(String::new()),
            Position::At { generation: u64::MAX, index: 7 },
        ] {
            let cursor = cursors.seal("t", &["f"], &position);
            assert_eq!(cursors.open("t", &["f"], &cursor).unwrap(), position);
        }
    }

    /// results.md 4: anything that is not exactly what was sealed is `stale_cursor`.
    #[test]
    fn a_changed_cursor_is_stale() {
        let cursors = Cursors::new([1; 32]);
        let cursor = cursors.seal("t", &["f"], &Position::After("key".into()));
        for at in 0..cursor.len() {
            let mut changed = cursor.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(cursors.open("t", &["f"], &changed).unwrap_err().code(), ErrorCode::StaleCursor, "{at}");
        }
        for wrong in ["", "A", "not base64!", &"A".repeat(22), &cursor[..cursor.len() - 1]] {
            assert!(cursors.open("t", &["f"], wrong).is_err(), "{wrong}");
        }
        assert!(cursors.open("u", &["f"], &cursor).is_err());
        assert!(cursors.open("t", &["g"], &cursor).is_err());
        assert!(Cursors::new([2; 32]).open("t", &["f"], &cursor).is_err(), "another process");
    }
}
