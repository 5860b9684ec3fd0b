//! One process that runs code for a fake, from its start to its end.

use std::{
    fmt,
    future::pending,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{
    lines::{self, Answer},
    prints,
};
use crate::script::{End, Input, Limits, Line, Plan, StartFault, Supervisor};

/// What to start.
#[derive(Clone, Debug)]
pub(super) enum Begin {
    /// Our own binary, which serves JavaScript handlers.
    JavaScript { program: PathBuf },
    /// A Python, under a supervisor.
    Python { supervisor: Supervisor, interpreter: PathBuf, environment: Vec<(String, String)> },
}

/// A process that was started. Dropped, it is ended.
#[derive(Debug)]
pub(super) struct Running {
    write: Write,
    read: BufReader<ChildStdout>,
    kept: Kept,
}

#[derive(Debug)]
enum Write {
    Pipe(ChildStdin),
    Line(Line),
}

/// What is waited for at its end.
#[derive(Debug)]
enum Kept {
    Child(Child),
    Program(End, Scratch),
}

/// An empty directory of its own, which is gone with it.
#[derive(Debug)]
struct Scratch(PathBuf);

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
    /// Starts one, for this fake.
    pub(super) async fn start(begin: &Begin, fake: &str) -> Result<Self, StartFault> {
        match begin {
            Begin::JavaScript { program } => Ok(Self::javascript(program)?),
            Begin::Python { supervisor, interpreter, environment } => {
                Self::python(supervisor, interpreter, environment.clone(), fake).await
            }
        }
    }

    /// Our own binary, with nothing of our environment, and in a process group of its own, or an interrupt from a terminal
    /// would reach it before us.
    fn javascript(program: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.arg(WORD).env_clear().kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        #[cfg(unix)]
        command.process_group(0).current_dir("/");
        let mut child = command.spawn()?;
        let missing = || io::Error::other("its pipes are not there");
        let write = Write::Pipe(child.stdin.take().ok_or_else(missing)?);
        let read = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Self { write, read, kept: Kept::Child(child) })
    }

    /// An interpreter that keeps to itself: no variables, packages or directories of the user.
    async fn python(
        supervisor: &Supervisor,
        interpreter: &Path,
        mut environment: Vec<(String, String)>,
        fake: &str,
    ) -> Result<Self, StartFault> {
        let scratch = Scratch::make()?;
        let directory = scratch.0.clone();
        environment.extend(["HOME", "TMPDIR"].map(|name| (name.to_owned(), directory.display().to_string())));
        let plan = Plan {
            program: interpreter.to_owned(),
            arguments: ["-I", "-B", "-u", "-c", PRELUDE].map(str::to_owned).to_vec(),
            environment,
            directory,
            scratch: true,
            input: Input::Passed,
            limits: Limits {
                memory: Some(MEMORY),
                open_files: Some(FILES),
                file_bytes: Some(FILE),
                ..Limits::default()
            },
        };
        let process = supervisor.start(&plan).await?;
        tokio::spawn(prints::forward(fake.to_owned(), BufReader::new(process.errors)));
        Ok(Self {
            write: Write::Line(process.line),
            read: BufReader::new(process.output),
            kept: Kept::Program(process.end, scratch),
        })
    }

    /// Says one line, and takes the answer with this number.
    pub(super) async fn exchange(&mut self, line: &[u8], id: u64, budget: Duration) -> Result<Answer, Broken> {
        let work = async {
            let written = match &mut self.write {
                Write::Pipe(pipe) => pipe.write_all(line).await,
                Write::Line(program) => program.write(line).await,
            };
            written.map_err(|_| Broken::Ended)?;
            let answer = lines::next(&mut self.read).await.map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => Broken::NoAnswer,
                _ => Broken::Ended,
            })?;
            let answer = answer.ok_or(Broken::Ended)?;
            let answer: Option<Answer> = serde_json::from_slice(&answer).ok();
            answer.filter(|answer| answer.id == id && answer.is_one()).ok_or(Broken::NoAnswer)
        };
        let kept = &mut self.kept;
        let answered = tokio::select! {
            biased;
            () = kept.over() => return Err(Broken::Ended),
            answered = timeout(budget, work) => answered.unwrap_or(Err(Broken::Late(budget))),
        };
        // What was said by somebody whom nobody holds any more may be said by anybody.
        tokio::task::yield_now().await;
        if kept.is_over() && answered.is_ok() { Err(Broken::Ended) } else { answered }
    }

    /// Waits until it ends by itself, or says something that nobody asked it. Nothing is lost when this is no longer waited
    /// for.
    pub(super) async fn over(&mut self) {
        tokio::select! {
            _ = self.read.fill_buf() => {}
            () = self.kept.over() => {}
        }
    }

    /// Ends it, and waits until nothing of it is left.
    pub(super) async fn end(self) {
        let Self { write, read, kept } = self;
        let gone = async {
            match kept {
                Kept::Child(mut child) => {
                    // One that ended meanwhile is waited for all the same.
                    let _ = child.kill().await;
                }
                Kept::Program(end, scratch) => {
                    drop((write, read));
                    let _ = end.wait().await;
                    // What a program wrote into it may take a moment.
                    let _ = tokio::task::spawn_blocking(move || drop(scratch)).await;
                }
            }
        };
        if timeout(END, gone).await.is_err() {
            tracing::warn!("the process of a fake's code does not end though it was told to");
        }
    }
}

impl Kept {
    /// Ends when a program is over, or has lost its supervisor.
    async fn over(&mut self) {
        match self {
            Self::Child(_) => pending().await,
            Self::Program(end, _) => end.begins().await,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Program(end, _) if end.has_begun())
    }
}

impl Scratch {
    fn make() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("plantbridge-{}", uuid::Uuid::new_v4()));
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The subcommand that serves JavaScript handlers.
pub(super) const WORD: &str = "handlers";
/// What has a Python serve functions.
const PRELUDE: &str = include_str!("prelude.py");
/// How long a process may take to be gone: a program is asked first, killed two seconds later, and by us when its supervisor
/// does not do that.
const END: Duration = Duration::from_secs(8);
/// Bytes of data of a program, for each of its processes.
const MEMORY: u64 = 256 << 20;
/// Files a program may have open, likewise.
const FILES: u64 = 64;
/// Bytes of one file it writes.
const FILE: u64 = 16 << 20;
