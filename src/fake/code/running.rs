//! One process that runs code for a fake, from its start to its end.

use std::{fmt, io, path::Path, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::lines::{self, Answer};

/// A process that was started. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Running {
    write: ChildStdin,
    read: BufReader<ChildStdout>,
    child: Child,
}

/// Why a process gave no answer. It is of no use any more.
#[derive(Debug)]
pub(super) enum Broken {
    Late(Duration),
    Ended,
    NoAnswer,
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(budget) => write!(out, "did not answer within {} ms", budget.as_millis()),
            Self::Ended => out.write_str("its process ended in the middle of the call"),
            Self::NoAnswer => out.write_str("what its process said is no answer"),
        }
    }
}

impl Running {
    /// Starts what serves JavaScript handlers: our own binary, with nothing of our environment, and in a process group of its
    /// own, or an interrupt from a terminal would reach it before us.
    pub(super) fn javascript(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg(WORD).env_clear().kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        #[cfg(unix)]
        command.process_group(0).current_dir("/");
        let mut child = command.spawn()?;
        let missing = || io::Error::other("its pipes are not there");
        let write = child.stdin.take().ok_or_else(missing)?;
        let read = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Self { write, read, child })
    }

    /// Says one line, and takes the answer with this number.
    pub(super) async fn exchange(&mut self, line: &[u8], id: u64, budget: Duration) -> Result<Answer, Broken> {
        let work = async {
            self.write.write_all(line).await.map_err(|_| Broken::Ended)?;
            let answer = match lines::next(&mut self.read).await {
                Ok(Some(answer)) => answer,
                Ok(None) => return Err(Broken::Ended),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(Broken::NoAnswer),
                Err(_) => return Err(Broken::Ended),
            };
            let answer: Option<Answer> = serde_json::from_slice(&answer).ok();
            answer.filter(|answer| answer.id == id).ok_or(Broken::NoAnswer)
        };
        timeout(budget, work).await.unwrap_or(Err(Broken::Late(budget)))
    }

    /// Waits until it ends by itself. Nothing is lost when this is no longer waited for.
    pub(super) async fn over(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Ends it, and waits until nothing of it is left.
    pub(super) async fn end(mut self) {
        // One that ended meanwhile is waited for all the same.
        let _ = self.child.start_kill();
        if timeout(END, self.child.wait()).await.is_err() {
            tracing::warn!("the process of a fake's code does not end though it was killed");
        }
    }
}

/// The subcommand that serves JavaScript handlers.
pub(super) const WORD: &str = "handlers";
/// How long a process that was killed may take to be gone.
const END: Duration = Duration::from_secs(2);
