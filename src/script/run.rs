//! One run of a script: its process, the last lines it wrote, and its end.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::AsyncReadExt as _,
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::{
    Ended, EndedBy, Line, Process,
    record::Record,
    results::{Output, RunEnd},
    ring::{Lines, Ring},
};
use crate::link::now_ms;

/// A run, on its way or over. Its output stays until the script is started again.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) pid: u32,
    ring: Mutex<Ring>,
    ended: watch::Sender<Option<RunEnd>>,
    line: Mutex<Option<Line>>,
}

impl Run {
    /// Begins to follow a process; the task that does is the caller's to start, and ends with the run.
    pub(super) fn follow(
        id: String,
        process: Process,
        record: Record,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + use<>) {
        let Process { pid, line, output, errors, end } = process;
        let run = Arc::new(Self {
            id,
            pid,
            ring: Mutex::default(),
            ended: watch::Sender::new(None),
            line: Mutex::new(Some(line)),
        });
        let followed = run.clone();
        let reading = async move {
            let mut follower = Follower { run: &followed, record: Some(record), pace: Pace::new() };
            let ended = follower.read(output, errors, end).await;
            follower.finish(ended).await;
        };
        (run, reading)
    }

    /// How it ended, if it has.
    pub(super) fn ended(&self) -> Option<RunEnd> {
        self.ended.borrow().clone()
    }

    /// Asks it to end, and waits until it has.
    pub(super) async fn stop(&self) -> RunEnd {
        drop(self.line().take());
        self.over().await
    }

    /// Waits until it has ended.
    async fn over(&self) -> RunEnd {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_default(),
            // The sender is ours.
            Err(_) => RunEnd::default(),
        }
    }

    /// What it wrote from line `after` on, at most `most` lines and about `bytes` bytes of them.
    pub(super) fn output(&self, after: u64, most: usize, bytes: usize) -> Output {
        // Before the lines: a run that ends in between has written them all by then.
        let ended = self.ended();
        let ring = self.ring();
        let (first, held) = ring.from(after);
        let mut lines = Vec::new();
        let mut size = 0;
        for line in held.take(most) {
            size += line.len();
            if size > bytes && !lines.is_empty() {
                break;
            }
            lines.push(line.to_owned());
        }
        let more = ring.total() - first - lines.len() as u64;
        Output { run: self.id.clone(), first, lines, more, fell_off: first.saturating_sub(after), ended, stored: false }
    }

    /// The number of the first of the last `most` lines.
    pub(super) fn tail(&self, most: u64) -> u64 {
        self.ring().total().saturating_sub(most)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self) -> MutexGuard<'_, Option<Line>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what a run writes.
struct Follower<'a> {
    run: &'a Run,
    record: Option<Record>,
    pace: Pace,
}

impl Follower<'_> {
    async fn read(
        &mut self,
        mut output: tokio::process::ChildStdout,
        mut errors: tokio::process::ChildStderr,
        end: super::End,
    ) -> Ended {
        let (mut out, mut err) = (Lines::marked(""), Lines::marked("! "));
        let (mut out_open, mut err_open) = (true, true);
        let (mut out_bytes, mut err_bytes) = (vec![0; CHUNK], vec![0; CHUNK]);
        let mut waiting = std::pin::pin!(end.wait());
        let mut ended: Option<(Ended, Instant)> = None;
        while out_open || err_open || ended.is_none() {
            let late = ended.as_ref().map(|(_, late)| *late);
            let writes = self.record.as_ref().is_some_and(Record::is_waiting);
            tokio::select! {
                read = output.read(&mut out_bytes), if out_open => {
                    let piece = out_bytes.get(..read.unwrap_or(0)).unwrap_or_default();
                    out_open = self.take(&mut out, piece).await;
                }
                read = errors.read(&mut err_bytes), if err_open => {
                    let piece = err_bytes.get(..read.unwrap_or(0)).unwrap_or_default();
                    err_open = self.take(&mut err, piece).await;
                }
                how = &mut waiting, if ended.is_none() => ended = Some((how, Instant::now() + LATE)),
                () = sleep(IDLE), if writes => self.write().await,
                // Somebody who survived holds a pipe.
                () = sleep_until(late.unwrap_or_else(Instant::now)), if late.is_some() => break,
            }
        }
        for lines in [&mut out, &mut err] {
            lines.end(|line| self.push(line));
        }
        match ended {
            Some((ended, _)) => ended,
            None => waiting.await,
        }
    }

    /// Takes in what was read; false when there is no more.
    async fn take(&mut self, lines: &mut Lines, piece: &[u8]) -> bool {
        if piece.is_empty() {
            return false;
        }
        lines.take(piece, |line| self.push(line));
        if self.record.as_ref().is_some_and(Record::is_full) {
            self.write().await;
        }
        // One thread drives everything: whoever waits for an answer goes between two pieces.
        tokio::task::yield_now().await;
        self.pace.keep(piece.len()).await;
        true
    }

    fn push(&mut self, line: &str) {
        self.run.ring().push(line);
        if let Some(record) = &mut self.record {
            record.push(line);
        }
    }

    /// Writes the record, beside the task that drives the network.
    async fn write(&mut self) {
        if let Some(mut record) = self.record.take() {
            let written = super::beside(move || {
                record.flush();
                record
            });
            self.record = Some(written.await);
        }
    }

    async fn finish(mut self, ended: Ended) {
        let end = RunEnd { code: ended.code, signal: ended.signal, at: now_ms(), note: note(&ended) };
        if let Some(record) = self.record.take() {
            let last =
                if record.is_cut() { self.run.ring().from(0).1.map(str::to_owned).collect() } else { Vec::new() };
            let told = end.clone();
            super::beside(move || record.end(&last, &told)).await;
        }
        drop(self.run.line().take());
        self.run.ended.send_replace(Some(end));
    }
}

/// What is to be known of an end beside code and signal.
fn note(ended: &Ended) -> Option<String> {
    let by = match (ended.by, ended.signal) {
        (EndedBy::Time, _) => Some("it was ended because its time was over"),
        (EndedBy::Lost, _) => Some("its supervisor was killed, so it was killed too"),
        (EndedBy::Overdue, _) => Some("its supervisor did not end it in time, so the bridge killed both"),
        (EndedBy::Asked, Some(9)) => Some("it did not end within two seconds of being asked to, and was killed"),
        (EndedBy::Itself, Some(25)) => Some("it wrote a file larger than a script may"),
        (EndedBy::Itself, Some(24)) => Some("it used up its processor time"),
        (EndedBy::Itself, Some(5 | 6 | 9)) => Some("if nobody killed it, it may have used up its memory"),
        (EndedBy::Asked | EndedBy::Itself, _) => None,
    };
    let left =
        (ended.left_behind > 0).then(|| format!("{} processes it had left behind were ended", ended.left_behind));
    let stay = (ended.survivors > 0).then(|| format!("{} of its processes could not be killed", ended.survivors));
    let all: Vec<String> = by.map(str::to_owned).into_iter().chain(left).chain(stay).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Keeps one that writes without end from having the process to itself: what is not read makes it wait.
struct Pace {
    since: Instant,
    bytes: usize,
}

impl Pace {
    fn new() -> Self {
        Self { since: Instant::now(), bytes: 0 }
    }

    async fn keep(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.since.elapsed() >= SLICE {
            *self = Self::new();
        } else if self.bytes > SLICE_BYTES {
            sleep_until(self.since + SLICE).await;
            *self = Self::new();
        }
    }
}

/// Bytes that are read at once.
const CHUNK: usize = 16 * 1024;
/// How long a record waits to be written.
const IDLE: Duration = Duration::from_secs(1);
/// How long a pipe is still read after everything is gone.
const LATE: Duration = Duration::from_secs(1);
/// The time in which at most [`SLICE_BYTES`] of one script are read.
const SLICE: Duration = Duration::from_millis(50);
/// Bytes of one script that are read in a slice: 20 MiB a second.
const SLICE_BYTES: usize = 1024 * 1024;
