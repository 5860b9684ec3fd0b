//! The process that runs the JavaScript handlers of one fake: `plantbridge handlers`, started by a bridge and by nobody
//! else. It has two pipes, no environment, little memory, and no means to start anything.
//!
//! A thread of its own reads what the bridge says. When that ends, because the bridge did, however it did, the process ends
//! too, in the middle of a loop without end as well.

use std::{
    io::{self, BufRead, Read as _, Write as _},
    process::{ExitCode, exit},
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use super::{engine, lines::LINE};

/// Serves handlers over standard input and output.
pub fn run() -> ExitCode {
    let (calls, heard) = sync_channel(AHEAD);
    if thread::Builder::new().stack_size(READER).spawn(move || read(&calls)).is_err() {
        return ExitCode::FAILURE;
    }
    if limit().is_err() {
        return ExitCode::FAILURE;
    }
    let said = engine::serve(
        || heard.recv().ok(),
        |answer| {
            let Ok(mut line) = serde_json::to_vec(&answer) else { return false };
            line.push(b'\n');
            let mut out = io::stdout().lock();
            out.write_all(&line).and_then(|()| out.flush()).is_ok()
        },
    );
    if said.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Hands lines on until there is nobody to hear, and ends the process then.
#[expect(clippy::exit, reason = "the other thread may never come back from what it runs")]
fn read(calls: &SyncSender<Vec<u8>>) {
    let mut from = io::stdin().lock();
    while let Some(line) = line(&mut from) {
        if calls.try_send(line).is_err() {
            break; // the bridge asks one thing at a time
        }
    }
    exit(0)
}

fn line(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let most = u64::try_from(LINE).unwrap_or(u64::MAX);
    from.take(most).read_until(b'\n', &mut line).ok()?;
    (line.pop() == Some(b'\n')).then_some(line)
}

/// Takes away what running handlers does not need. Without these limits nothing is run.
fn limit() -> io::Result<()> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let wanted = [
            (Resource::Data, DATA),
            (Resource::Core, 0),
            (Resource::Fsize, 0),
            // What it has open it has, and it opens nothing more.
            (Resource::Nofile, 0),
            (Resource::Nproc, 0),
        ];
        for (resource, most) in wanted {
            let most = getrlimit(resource).maximum.map_or(most, |held| most.min(held));
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
    }
    Ok(())
}

/// Lines that may wait: the first one, and a call.
const AHEAD: usize = 2;
/// The stack of the reader.
const READER: usize = 256 << 10;
/// Memory of the process beside its code, in bytes; the engine's own bound is below it.
#[cfg(unix)]
const DATA: u64 = 96 << 20;
