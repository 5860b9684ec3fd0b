//! The audit trail: a line for everything that could change a plant, and for everything of that kind that was refused.
//!
//! A call reserves its place in the queue and waits until the line `begun` is in the file; only then is it made, and the line
//! `ended` says what came of it. What never began has one line, `refused`. When the trail cannot be written no call begins:
//! what could change something is refused before anything is sent, and looking goes on.
//!
//! Each line carries the hash of the one before (`chain.rs`), so that a line that is changed, taken out, put in or moved shows.
//! What was cut off at the end does not, unless somebody kept the hash of a later line elsewhere.
//!
//! One thread writes (`writer.rs`), so that a disk that hangs holds up nobody but those who wait for their line. What a line
//! says is `line.rs`, where it goes `trail.rs`, whose directory it is `folder.rs`, and whether it is all there `verify.rs`.

mod chain;
mod day;
mod entry;
mod folder;
mod line;
mod salt;
mod served;
mod show;
mod tail;
mod trail;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, Sender},
    },
};

use serde_json::{Map, Value as Json};
use tokio::sync::{Semaphore, oneshot};

pub use chain::{Hash, Head};
pub use entry::Entry;
pub use folder::Unusable;
pub use line::{Ending, Stranger};
pub use served::served;
pub use show::{Shown, show};
pub use trail::Keep;
pub use verify::{Finding, Unverified, Verified, verify};

use line::Asked;
use salt::Salt;
use trail::Trail;
use writer::{Health, Message, Place, Writer};

/// Calls that may have begun and not ended, and refusals that wait to be written.
const PLACES: usize = 1_024;

/// A trail that is being written. Clones are the same trail.
#[derive(Clone, Debug)]
pub struct Audit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    salt: Salt,
    health: Arc<Health>,
    places: Arc<Semaphore>,
    messages: Sender<Message>,
}

/// Why a call cannot be written down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The trail cannot be written.
    #[error("the audit trail cannot be written: {0}")]
    Failing(String),
    /// As many calls as it has places for are on their way.
    #[error("{PLACES} calls are being written down already")]
    Full,
    /// It takes too long.
    #[error("the audit trail was not written in time")]
    Slow,
    /// It is closed.
    #[error("the audit trail is closed")]
    Ended,
}

/// How a trail is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditStatus {
    /// Whether there is one.
    pub on: bool,
    /// Why it cannot be written, while that is so.
    pub failing: Option<String>,
    /// Lines that this process wrote.
    pub lines: u64,
    /// Calls that have begun, and refusals that are to be written.
    pub queue: usize,
}

impl Audit {
    /// Takes a directory, continues its trail or begins one, and starts to write.
    ///
    /// # Errors
    ///
    /// Why the directory cannot be used.
    pub fn open(path: &Path, keep: Keep) -> Result<Self, Unusable> {
        let (trail, salt) = Trail::continued(path, keep, writer::now())?;
        let (health, (messages, received)) = (Arc::<Health>::default(), mpsc::channel());
        Writer::start(trail, Arc::clone(&health), received)
            .map_err(|problem| Unusable::of("no thread can be started", &problem))?;
        let places = Arc::new(Semaphore::new(PLACES));
        Ok(Self(Arc::new(Shared { salt, health, places, messages })))
    }

    /// A call that a client asks for. It leaves its line however it goes.
    pub fn entry(&self, client: &str, tool: &str, arguments: &Map<String, Json>) -> Entry {
        Entry::new(self.clone(), client, tool, arguments)
    }

    /// Counts somebody who was turned away before it was known who he is: a line in a while says how many.
    pub fn turned_away(&self, stranger: Stranger) {
        if self.0.health.turned_away(stranger) {
            self.send(Message::Look);
        }
    }

    /// How it is.
    pub fn status(&self) -> AuditStatus {
        AuditStatus {
            on: true,
            failing: self.0.health.failing(),
            lines: self.0.health.lines.load(Ordering::Relaxed),
            queue: PLACES - self.0.places.available_permits().min(PLACES),
        }
    }

    /// Writes what waits and the last line. Nothing begins any more. To be bounded by the caller.
    pub async fn close(&self) {
        let (closed, heard) = oneshot::channel();
        self.send(Message::Close(closed));
        // A writer that is gone has closed.
        let _ = heard.await;
    }

    fn digest(&self, tool: &str, arguments: &Map<String, Json>) -> String {
        self.0.salt.digest(tool, arguments)
    }

    fn reserve(&self) -> Result<Place, Unavailable> {
        if let Some(why) = self.0.health.failing() {
            return Err(Unavailable::Failing(why));
        }
        Arc::clone(&self.0.places).try_acquire_owned().map_err(|_| Unavailable::Full)
    }

    fn refused(&self, asked: Arc<Asked>, ending: Ending, us: u64) {
        match self.reserve() {
            Ok(place) => self.send(Message::Refused { asked, ending, us, place }),
            Err(_) => drop(self.0.health.missed.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn send(&self, message: Message) {
        // A writer that is gone answers nobody: who waits for it learns that it ended.
        let _ = self.0.messages.send(message);
    }
}
