//! A program that is run for what it says: both outputs as one text, in bounded memory.

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{Ended, Process};

/// What a program said, and how it ended.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    pub(super) ended: Ended,
    /// Both outputs, in the order they came.
    pub(super) text: String,
    /// Whether it said more than may be, and was ended for that.
    pub(super) too_much: bool,
}

/// Waits for the end of a program. `heard` is told each piece of what it says. Dropping this ends it.
pub(super) async fn gather(process: Process, most: usize, mut heard: impl FnMut(&[u8])) -> Gathered {
    let Process { line, mut output, mut errors, end, .. } = process;
    let (mut bytes, mut out, mut err) = (Vec::new(), vec![0; 4_096], vec![0; 4_096]);
    let (mut out_open, mut err_open) = (true, true);
    while (out_open || err_open) && bytes.len() <= most {
        tokio::select! {
            read = output.read(&mut out), if out_open => out_open = take(&out, read, &mut bytes, &mut heard),
            read = errors.read(&mut err), if err_open => err_open = take(&err, read, &mut bytes, &mut heard),
        }
    }
    let too_much = bytes.len() > most;
    bytes.truncate(most);
    let waiting = end.wait();
    let ended = if too_much {
        drop(line);
        // It is ended, and must not be kept from ending by a pipe that nobody empties.
        let (ended, _) = tokio::join!(waiting, async { tokio::join!(empty(output), empty(errors)) });
        ended
    } else {
        let ended = waiting.await;
        drop(line);
        ended
    };
    Gathered { ended, text: String::from_utf8_lossy(&bytes).into_owned(), too_much }
}

fn take(buffer: &[u8], read: std::io::Result<usize>, bytes: &mut Vec<u8>, heard: &mut impl FnMut(&[u8])) -> bool {
    let piece = buffer.get(..read.unwrap_or(0)).unwrap_or_default();
    heard(piece);
    bytes.extend_from_slice(piece);
    !piece.is_empty()
}

async fn empty(mut pipe: impl AsyncRead + Unpin) {
    let mut buffer = vec![0; 4_096];
    while pipe.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}
