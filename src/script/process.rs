//! A program that runs, as the bridge sees it: what it says, a line to it, and its end.
//!
//! Bridge and supervisor hold the two ends of one socket. As long as the bridge keeps its [`Line`] the program may run; a
//! line that is dropped, or a bridge that is gone, is the order to end it. There is no other, so that the way out after a
//! crash is the one that is always taken. A supervisor that does not follow it, or that its own program killed, is seen to
//! by [`keep`](super::keep).

#[cfg(not(unix))]
pub use elsewhere::{End, Line, Process, Supervisor};
#[cfg(unix)]
pub use posix::{End, Line, Process, Supervisor};

#[cfg(unix)]
mod posix {
    use std::{
        borrow::Cow,
        io,
        os::{fd::OwnedFd, unix::net::UnixStream as Socket},
        path::PathBuf,
        process::Stdio,
    };

    use tokio::{
        io::AsyncWriteExt as _,
        net::{UnixStream, unix::OwnedWriteHalf},
        process::{Child, ChildStderr, ChildStdout, Command},
        sync::{oneshot, watch},
    };
    use tokio_util::sync::{CancellationToken, DropGuard};

    use super::super::{
        keep::{Keeper, Stage},
        mark,
        plan::{Ended, EndedBy, LONGEST_LINE, Order, Plan, StartFault},
        sweep,
    };

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
        _asks: DropGuard,
    }

    /// The end of a program. It comes, in bounded time once it was asked for, whether or not anybody waits for it.
    #[derive(Debug)]
    pub struct End {
        stage: watch::Receiver<Stage>,
    }

    impl Supervisor {
        /// The one this process is able to be.
        #[must_use]
        pub fn own() -> Self {
            Self::at(super::super::own_program())
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
            let mark = mark::draw();
            let mut order = serde_json::to_vec(&Order { plan: Cow::Borrowed(plan), mark })
                .map_err(|error| StartFault::System(error.to_string()))?;
            order.push(b'\n');
            if order.len() as u64 > LONGEST_LINE {
                return Err(StartFault::System("its arguments and environment are too long".into()));
            }
            sweep::adopt().map_err(io::Error::from)?;
            let (ours, its) = Socket::pair()?;
            ours.set_nonblocking(true)?;
            let (read, socket) = UnixStream::from_std(ours)?.into_split();
            let mut supervisor = self.supervisor(its)?;
            let missing = || StartFault::System("its outputs were not there".into());
            let output = supervisor.stdout.take().ok_or_else(missing)?;
            let errors = supervisor.stderr.take().ok_or_else(missing)?;
            let asked = CancellationToken::new();
            let mut line = Line { socket, _asks: asked.clone().drop_guard() };
            let ((begun, begins), (tell, stage)) = (oneshot::channel(), watch::channel(Stage::Runs));
            tokio::spawn(Keeper::new(self.program.clone(), supervisor, read, mark, asked).keep(begun, tell));
            line.write(&order).await?;
            let gone = |_| StartFault::System("the bridge is ending".into());
            let pid = begins.await.map_err(gone)??;
            Ok(Process { pid, line, output, errors, end: End { stage } })
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
            match self.stage.wait_for(|stage| matches!(stage, Stage::Gone(_))).await.as_deref() {
                Ok(Stage::Gone(ended)) => ended.clone(),
                // The bridge is going.
                _ => Ended { code: None, signal: None, by: EndedBy::Lost, left_behind: 0, survivors: 0 },
            }
        }

        /// Waits until the program is over or nobody supervises it; not until nothing of it is left.
        pub async fn begins(&mut self) {
            let _ = self.stage.wait_for(|stage| !matches!(stage, Stage::Runs)).await;
        }

        /// Whether that is so.
        #[must_use]
        pub fn has_begun(&self) -> bool {
            !matches!(*self.stage.borrow(), Stage::Runs)
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

        /// Never called.
        #[expect(clippy::unused_async, reason = "elsewhere it waits")]
        pub async fn begins(&mut self) {
            match self.0 {}
        }

        /// Never called.
        #[must_use]
        pub fn has_begun(&self) -> bool {
            match self.0 {}
        }
    }
}
