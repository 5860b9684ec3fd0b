//! What is to be run and how it ended, as the bridge and the supervisor tell each other: a line of JSON each way.

use std::{borrow::Cow, io, path::PathBuf};

use serde::{Deserialize, Serialize};

/// A program to run, with all it is given. Nothing of ours is added to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The program: a path, or a name that is looked for in the `PATH` of `environment`.
    pub program: PathBuf,
    /// Its arguments, each by itself; no shell reads them.
    pub arguments: Vec<String>,
    /// All of its environment.
    pub environment: Vec<(String, String)>,
    /// The directory it starts in.
    pub directory: PathBuf,
    /// Whether that directory is its own, and goes when everything it began is gone.
    pub scratch: bool,
    /// What its standard input is.
    pub input: Input,
    /// What it may use up.
    pub limits: Limits,
}

/// What the standard input of a program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Empty.
    #[default]
    Closed,
    /// What is written into the [`Line`](super::Line).
    Passed,
}

/// What a program may use up. `None` is what the bridge itself may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of data (`RLIMIT_DATA`), for each of its processes. Not its address space, of which Node reserves gigabytes.
    pub memory: Option<u64>,
    /// Seconds of processor time (`RLIMIT_CPU`), for each of its processes.
    pub cpu_seconds: Option<u64>,
    /// Milliseconds until it is ended as if it had been asked to.
    pub run_ms: Option<u64>,
    /// Open files (`RLIMIT_NOFILE`), for each of its processes.
    pub open_files: Option<u64>,
    /// Bytes of one file it writes (`RLIMIT_FSIZE`).
    pub file_bytes: Option<u64>,
}

/// How a program ended. Everything it began is gone too, but for `survivors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its exit code, if it had one.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Who ended it.
    pub by: EndedBy,
    /// Processes it had left behind, which were ended after it.
    pub left_behind: usize,
    /// Processes that did not go even when they were killed. Without Linux not known, and 0.
    pub survivors: usize,
}

/// Who ended a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Nobody: it ended by itself.
    Itself,
    /// Whoever dropped the line, or the system, which asked the supervisor to end.
    Asked,
    /// Its time was over.
    Time,
    /// Its supervisor is gone without a word, by whoever killed that. What was left was killed by the bridge.
    Lost,
    /// Its supervisor did not end it in time. Both were killed by the bridge.
    Overdue,
}

/// Why a program does not run. Nothing of it is left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFault {
    /// There is no such program, or not the directory it was to start in.
    #[error("there is no such program, or no such directory to start it in")]
    Missing,
    /// It may not be run.
    #[error("the system does not permit it to be run")]
    NotPermitted,
    /// The system refuses for another reason.
    #[error("{0}")]
    System(String),
    /// This system cannot hold a program together with what it begins.
    #[error("programs are run on Linux and macOS only: here nothing would end them together with what they begin")]
    Unsupported,
}

impl From<io::Error> for StartFault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::NotPermitted,
            _ => Self::System(error.to_string()),
        }
    }
}

/// What the bridge tells the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order<'a> {
    pub(super) plan: Cow<'a, Plan>,
    /// What everything it begins is known by, should the supervisor not live to end it.
    pub(super) mark: u64,
}

/// What the supervisor tells the bridge.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// It runs, as the leader of a process group of this number.
    Started(u32),
    /// It does not run.
    Failed(StartFault),
    /// It and everything it began is gone.
    Ended(Ended),
}

/// Bytes of a plan or a report, as a line.
pub(super) const LONGEST_LINE: u64 = 1024 * 1024;
