//! What we are asked to do: frames, announcements, the farewell.

use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::connection::{Connection, FAREWELL};
use crate::link::seat::End;
use crate::link::{Claim, LinkEvent, Outbound, Rejection};
use crate::wire::Frame;
use crate::wire::flat;
use crate::wire::socketio::{Engine, Packet};

/// Why a frame was not written.
enum Unwritten {
    /// It alone.
    Frame(Rejection),
    /// The connection is over; whether anything of it left is not known.
    Connection(Error),
}

impl Connection<'_> {
    /// Takes a command and the ones right behind it, so that they leave in one write.
    pub(super) async fn commands(&mut self, first: Option<Outbound>) -> Result<(), End> {
        let mut bytes = self.command(first).await?;
        for _ in 1..BATCH {
            if self.leaving.is_some() || bytes > BATCH_BYTES {
                break;
            }
            match self.seat.commands.try_recv() {
                Ok(command) => bytes += self.command(Some(command)).await?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Does it; says how many bytes of a frame are to leave.
    async fn command(&mut self, command: Option<Outbound>) -> Result<usize, End> {
        match command {
            Some(Outbound::Frame { id, frame, claim }) => match self.frame_out(&frame, claim.as_ref()) {
                Ok(bytes) => Ok(bytes),
                Err(Unwritten::Frame(why)) => self.seat.tell(LinkEvent::Rejected { id, why }).await.map(|()| 0),
                Err(Unwritten::Connection(error)) => Err(self.failed(&error)),
            },
            Some(Outbound::Announce { shape }) => {
                self.seat.shape = shape;
                self.announce().map(|()| 0)
            }
            // A hub has no memory of us that a goodbye could spoil for whoever has our name now.
            Some(Outbound::Leave | Outbound::Yield) | None => self.leave().map(|()| 0),
        }
    }

    /// Writes a frame, unless it was withdrawn. From the claim on it counts as sent (W-075).
    fn frame_out(&mut self, frame: &Frame, claim: Option<&Claim>) -> Result<usize, Unwritten> {
        let written = flat::encode(frame);
        let bytes = written.map_err(|error| Unwritten::Frame(Rejection::Unsendable(error.to_string())))?;
        let (size, limit) = (bytes.len(), self.opening.max_payload);
        if size > limit {
            return Err(Unwritten::Frame(Rejection::TooLarge { bytes: size, limit }));
        }
        if claim.is_some_and(|claim| !claim.take()) {
            return Ok(0);
        }
        self.socket.feed_frame(bytes).map_err(Unwritten::Connection)?;
        Ok(size)
    }

    /// Announces us as the seat's shape says (W-101).
    pub(super) fn announce(&mut self) -> Result<(), End> {
        let said = flat::announcement(&self.seat.config.me, self.seat.shape.as_deref());
        match Packet::event("presence", said).write() {
            Ok((packet, _)) => {
                self.socket.feed_text(Engine::Message(&packet).write()).map_err(|error| self.failed(&error))
            }
            Err(error) => {
                tracing::warn!(%error, "we cannot announce ourselves");
                Ok(())
            }
        }
    }

    /// Writes refusals that are owed, as many as leave in one write, once what was written before has left.
    pub(super) fn pay(&mut self) -> Result<(), End> {
        if !self.socket.is_flushed() || self.leaving.is_some() {
            return Ok(());
        }
        for _ in 0..BATCH {
            let Some(refusal) = self.owed.pop_front() else { break };
            match self.frame_out(&refusal, None) {
                Ok(_) => {}
                Err(Unwritten::Frame(why)) => tracing::warn!("a refusal could not be written: {why}"),
                Err(Unwritten::Connection(error)) => return Err(self.failed(&error)),
            }
        }
        Ok(())
    }

    /// Says that we leave, and closes; the hub closes too, or our patience ends.
    fn leave(&mut self) -> Result<(), End> {
        self.leaving = Some(Instant::now() + FAREWELL);
        let (packet, _) = Packet::disconnect().write().map_err(|_| End::Left)?;
        self.socket.feed_text(Engine::Message(&packet).write()).map_err(|_| End::Left)?;
        self.socket.feed(Message::Close(None)).map_err(|_| End::Left)
    }
}

/// How many commands are taken before one flush: enough to batch, little enough to be fair.
const BATCH: usize = 32;
/// From how many bytes on no further command is taken before the flush.
const BATCH_BYTES: usize = 256 * 1024;
