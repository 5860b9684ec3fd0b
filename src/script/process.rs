//! A program that runs, as the bridge sees it: what it says, a line to it, and its end.
//!
//! Bridge and supervisor hold the two ends of one socket. As long as the bridge keeps its [`Line`] the program may run; a
//! line that is dropped, or a bridge that is gone, is the order to end it. There is no other, so that the way out after a
//! crash is the one that is always taken.

#[cfg(not(unix))]
pub use elsewhere::{End, Line, Process, Supervisor};
#[cfg(unix)]
pub use posix::{End, Line, Process, Supervisor};

#[cfg(unix)]
mod posix {
    use std::{
        io,
        os::{fd::OwnedFd, unix::net::UnixStream as Socket},
        path::PathBuf,
        process::Stdio,
    };

    use rustix::process::{Pid, Signal, kill_process_group};
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
        net::{
            UnixStream,
            unix::{OwnedReadHalf, OwnedWriteHalf},
        },
        process::{Child, ChildStderr, ChildStdout, Command},
    };

    use super::super::plan::{Ended, EndedBy, LONGEST_LINE, Plan, Report, StartFault};

    /// Starts programs under supervision.
    #[derive(Clone, Debug)]
    pub struct Supervisor {
        program: PathBuf,
    }

    /// A program that runs. Reading both outputs is up to whoever started it: a pipe that nobody empties stops it.
    #[derive(Debug)]
    pub struct Process {
        /// Its process id, which is also that of its process group.
        pub pid: u32,
        /// The line to it; dropping this ends it.
        pub line: Line,
        /// What it writes to standard output. Ends when everything it began is gone.
        pub output: ChildStdout,
        /// What it writes to standard error, likewise.
        pub errors: ChildStderr,
        /// Its end.
        pub end: End,
    }

    /// The line to a program. Dropping it ends the program and everything it began: asked first, killed two seconds later.
    #[derive(Debug)]
    pub struct Line {
        socket: OwnedWriteHalf,
    }

    /// The end of a program.
    #[derive(Debug)]
    pub struct End {
        pid: u32,
        reports: Reports,
        supervisor: Child,
    }

    impl Supervisor {
        /// The one this process is able to be: its own binary, even one that was replaced on the disk since it started.
        #[must_use]
        pub fn own() -> Self {
            if cfg!(target_os = "linux") {
                return Self::at("/proc/self/exe".into());
            }
            Self::at(std::env::current_exe().unwrap_or_else(|_| "plantbridge".into()))
        }

        /// The binary at `program`, which must be plantbridge.
        #[must_use]
        pub fn at(program: PathBuf) -> Self {
            Self { program }
        }

        /// Starts a program; gives it back once it runs.
        ///
        /// # Errors
        ///
        /// Why it does not run. A caller that stops waiting leaves nothing behind.
        pub async fn start(&self, plan: &Plan) -> Result<Process, StartFault> {
            let mut order = serde_json::to_vec(plan).map_err(|error| StartFault::System(error.to_string()))?;
            order.push(b'\n');
            if order.len() as u64 > LONGEST_LINE {
                return Err(StartFault::System("its arguments and environment are too long".into()));
            }
            let (ours, its) = Socket::pair()?;
            ours.set_nonblocking(true)?;
            let (read, mut socket) = UnixStream::from_std(ours)?.into_split();
            let mut supervisor = self.supervisor(its)?;
            let missing = || StartFault::System("its outputs were not there".into());
            let output = supervisor.stdout.take().ok_or_else(missing)?;
            let errors = supervisor.stderr.take().ok_or_else(missing)?;
            socket.write_all(&order).await?;
            let mut reports = Reports::of(read);
            match reports.next().await? {
                Some(Report::Started(pid)) => {
                    Ok(Process { pid, line: Line { socket }, output, errors, end: End { pid, reports, supervisor } })
                }
                Some(Report::Failed(fault)) => {
                    let _ = supervisor.wait().await;
                    Err(fault)
                }
                Some(Report::Ended(_)) | None => Err(StartFault::System("the supervisor did not start it".into())),
            }
        }

        /// The supervisor itself is given nothing of our environment and stands in a process group of its own, or an interrupt
        /// from a terminal would reach it before the bridge had its say.
        fn supervisor(&self, socket: Socket) -> io::Result<Child> {
            let mut command = Command::new(&self.program);
            command.arg(super::super::supervise::WORD).env_clear().process_group(0);
            command.stdin(OwnedFd::from(socket)).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn()
        }
    }

    impl Line {
        /// Writes into the program's standard input, if that is [`Input::Passed`](super::super::Input::Passed); waits while
        /// the program does not read.
        ///
        /// # Errors
        ///
        /// When the program is gone.
        pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.socket.write_all(bytes).await
        }
    }

    impl End {
        /// Waits until the program and everything it began is gone.
        pub async fn wait(mut self) -> Ended {
            let ended = match self.reports.next().await {
                Ok(Some(Report::Ended(ended))) => ended,
                Ok(_) | Err(_) => {
                    kill_group(self.pid);
                    Ended { code: None, signal: None, by: EndedBy::Lost, left_behind: 0, survivors: 0 }
                }
            };
            let _ = self.supervisor.wait().await;
            ended
        }
    }

    /// What is left to do when the supervisor is gone without a word.
    fn kill_group(pid: u32) {
        let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
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
}

#[cfg(not(unix))]
mod elsewhere {
    //! Where a process is not held together with its children, nothing is run: what would be left behind may move a plant.

    use std::{convert::Infallible, io, path::PathBuf};

    use tokio::process::{ChildStderr, ChildStdout};

    use super::super::plan::{Ended, Plan, StartFault};

    /// Starts nothing here.
    #[derive(Clone, Debug)]
    pub struct Supervisor;

    /// There is none here.
    #[derive(Debug)]
    pub struct Process {
        /// Its process id.
        pub pid: u32,
        /// The line to it.
        pub line: Line,
        /// What it writes to standard output.
        pub output: ChildStdout,
        /// What it writes to standard error.
        pub errors: ChildStderr,
        /// Its end.
        pub end: End,
    }

    /// There is none here.
    #[derive(Debug)]
    pub struct Line(Infallible);

    /// There is none here.
    #[derive(Debug)]
    pub struct End(Infallible);

    impl Supervisor {
        /// The one this process is able to be: none.
        #[must_use]
        pub fn own() -> Self {
            Self
        }

        /// The same.
        #[must_use]
        pub fn at(_program: PathBuf) -> Self {
            Self
        }

        /// Starts nothing.
        ///
        /// # Errors
        ///
        /// Always.
        #[expect(clippy::unused_async, reason = "elsewhere it waits")]
        pub async fn start(&self, _plan: &Plan) -> Result<Process, StartFault> {
            Err(StartFault::Unsupported)
        }
    }

    impl Line {
        /// Never called.
        ///
        /// # Errors
        ///
        /// None.
        #[expect(clippy::unused_async, reason = "elsewhere it waits")]
        pub async fn write(&mut self, _bytes: &[u8]) -> io::Result<()> {
            match self.0 {}
        }
    }

    impl End {
        /// Never called.
        #[expect(clippy::unused_async, reason = "elsewhere it waits")]
        pub async fn wait(self) -> Ended {
            match self.0 {}
        }
    }
}
