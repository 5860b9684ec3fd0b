//! The bridge's side of one supervisor, from its start until nothing of its program is left, in a task of its own: whoever
//! started the program may stop waiting, and the supervisor may be killed or stopped by what it supervises.

use std::{io, path::PathBuf, time::Duration};

use rustix::process::{Pid, Signal, WaitStatus, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    net::unix::OwnedReadHalf,
    process::Child,
    sync::{oneshot, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    plan::{Ended, EndedBy, LONGEST_LINE, Report, StartFault},
    sweep::{Swept, sweep},
};

/// Where a program is on its way out.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// It runs, as far as is known.
    Runs,
    /// It is over, or nobody supervises it any more; what is left of it is being ended.
    Ending,
    /// Nothing is left but what this says.
    Gone(Ended),
}

/// Keeps one supervisor.
#[derive(Debug)]
pub(super) struct Keeper {
    program: PathBuf,
    supervisor: Child,
    reports: Reports,
    mark: u64,
    /// Cancelled when the line is dropped.
    asked: CancellationToken,
    late: bool,
}

impl Keeper {
    pub(super) fn new(
        program: PathBuf,
        supervisor: Child,
        read: OwnedReadHalf,
        mark: u64,
        asked: CancellationToken,
    ) -> Self {
        Self { program, supervisor, reports: Reports::of(read), mark, asked, late: false }
    }

    /// Tells what became of the start, and of the end.
    pub(super) async fn keep(mut self, begun: oneshot::Sender<Result<u32, StartFault>>, stage: watch::Sender<Stage>) {
        let first = timeout(BEGINS, self.heard()).await.ok().flatten();
        let pid = match first {
            Some(Report::Started(pid)) => pid,
            other => {
                self.clear(None).await;
                let silent = || StartFault::System("the supervisor did not start it".into());
                let fault = if let Some(Report::Failed(fault)) = other { fault } else { silent() };
                let _ = begun.send(Err(fault));
                return;
            }
        };
        let _ = begun.send(Ok(pid));
        let last = self.heard().await;
        stage.send_replace(Stage::Ending);
        let ended = match last {
            Some(Report::Ended(ended)) => self.leave(ended).await,
            _ => self.lost(pid).await,
        };
        stage.send_replace(Stage::Gone(ended));
    }

    /// The next report. `None` when there is none: the supervisor is gone, or did not do in time what it was asked to.
    async fn heard(&mut self) -> Option<Report> {
        let (asked, pid) = (self.asked.clone(), self.pid());
        let overdue = async {
            asked.cancelled().await;
            // One that its program has stopped has not heard that.
            let _ = pid.map(|pid| kill_process(pid, Signal::CONT));
            sleep(OBEYS).await;
        };
        tokio::select! {
            biased;
            report = self.reports.next() => report.ok().flatten(),
            () = overdue => {
                self.late = true;
                None
            }
        }
    }

    /// The end that a supervisor told; it has to go itself now, and what it could not kill has come to us.
    async fn leave(&mut self, mut ended: Ended) -> Ended {
        if timeout(GOES, self.supervisor.wait()).await.is_err() || ended.survivors > 0 {
            ended.survivors = self.clear(None).await.survivors;
        }
        ended
    }

    /// The end of a program whose supervisor is gone, or is no good.
    async fn lost(&mut self, pid: u32) -> Ended {
        let head = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let swept = self.clear(head).await;
        let (by, why) = if self.late {
            (EndedBy::Overdue, "did not end its program in time and was killed")
        } else {
            (EndedBy::Lost, "is gone without a word")
        };
        let (ended, survivors) = (swept.ended, swept.survivors);
        tracing::warn!(
            pid,
            ended,
            survivors,
            "the supervisor of a program {why}; what was left of it was killed by us"
        );
        let code = swept.head.and_then(WaitStatus::exit_status);
        let signal = swept.head.and_then(WaitStatus::terminating_signal);
        Ended { code, signal, by, left_behind: ended, survivors }
    }

    /// Ends the supervisor, and then all of its run.
    async fn clear(&mut self, head: Option<Pid>) -> Swept {
        let _ = self.supervisor.start_kill();
        let _ = timeout(GOES, self.supervisor.wait()).await;
        sweep(self.mark, &self.program, head, self.pid()).await
    }

    /// The supervisor, until it has been waited for.
    fn pid(&self) -> Option<Pid> {
        self.supervisor.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw)
    }
}

impl Drop for Keeper {
    /// The bridge is going: its end of the socket is closed, which a supervisor that is stopped would not notice.
    fn drop(&mut self) {
        let _ = self.pid().map(|pid| kill_process(pid, Signal::CONT));
    }
}

#[derive(Debug)]
struct Reports {
    lines: BufReader<OwnedReadHalf>,
}

impl Reports {
    fn of(read: OwnedReadHalf) -> Self {
        Self { lines: BufReader::with_capacity(512, read) }
    }

    async fn next(&mut self) -> io::Result<Option<Report>> {
        let mut line = Vec::new();
        (&mut self.lines).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
        Ok(serde_json::from_slice(&line).ok())
    }
}

/// How long a supervisor may take to start a program.
const BEGINS: Duration = Duration::from_secs(10);
/// How long a supervisor that was asked may take until nothing of its program is left: two seconds are the program's.
const OBEYS: Duration = Duration::from_secs(4);
/// How long a supervisor may take to go itself: what it still removes is removed by us otherwise.
const GOES: Duration = Duration::from_secs(1);
