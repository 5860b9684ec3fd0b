//! What the bridge and the process that runs code for a fake say to each other: one line of JSON each, of bounded length.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The first line: what there is to run.
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    pub(super) state: Json,
    /// The source of each, by target.
    pub(super) handlers: Vec<(String, String)>,
}

/// One call.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Ask {
    pub(super) id: u64,
    pub(super) target: String,
    pub(super) params: Vec<Json>,
}

/// What it comes to. The one with the number 0 answers the first line.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Answer {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// What the handlers share from now on, if that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<Json>,
    /// What cannot be run, by target; an empty target is all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) faults: Vec<(String, String)>,
}

impl Answer {
    /// Whether it says what came of a call: nothing at all is not `null`.
    pub(super) fn is_one(&self) -> bool {
        self.id == 0 || self.result.is_some() || self.error.is_some()
    }
}

/// A `null` that is there is a result.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

/// The next line without its end; `None` when there is none any more.
///
/// # Errors
/// The system's, and one that is longer than [`LINE`]. What was read of a line is lost then, and when nobody waits for it.
pub(super) async fn next(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let chunk = from.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(None);
        }
        let end = memchr::memchr(b'\n', chunk);
        let part = end.map_or(chunk, |end| chunk.get(..end).unwrap_or_default());
        if line.len() + part.len() > LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
        }
        line.extend_from_slice(part);
        let read = end.map_or(chunk.len(), |end| end + 1);
        from.consume(read);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

/// The longest line, either way.
pub(super) const LINE: usize = 4 << 20;
