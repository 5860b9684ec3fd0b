//! Why something was not done with a script. Nothing was changed, unless the text says so.

use super::{FileFault, NameFault, StartFault};

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptFault {
    /// The name is none.
    #[error("'{name}' is not a usable script name: {fault}")]
    Name {
        /// As it was given.
        name: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// There is no such script.
    #[error("no script '{name}' is kept here")]
    Unknown {
        /// Its name.
        name: String,
        /// Those there are.
        names: Vec<String>,
    },
    /// It runs already, or is being started.
    #[error("'{name}' is running already, as run {run}")]
    Running {
        /// Its name.
        name: String,
        /// The run.
        run: String,
    },
    /// It does not run here.
    #[error("'{name}' is not running here")]
    NotRunning {
        /// Its name.
        name: String,
    },
    /// It was never started, or not as this run.
    #[error("{what} was never started here, and no output of it is kept")]
    NeverStarted {
        /// What.
        what: String,
    },
    /// The bridge is ending.
    #[error("the bridge is ending, and starts nothing any more")]
    Closing,
    /// As many run as may.
    #[error("{limit} scripts are running, and no more may")]
    TooMany {
        /// How many may.
        limit: usize,
    },
    /// As many are kept as may be.
    #[error("{limit} scripts are kept, and no more can be")]
    Full {
        /// How many may be.
        limit: usize,
    },
    /// What would run it is missing, too old or broken.
    #[error("{why}")]
    Toolchain {
        /// What is wrong with it.
        why: String,
        /// What a person has to do.
        fix: String,
    },
    /// What would install a package is missing, too old or broken.
    #[error("{manager} cannot be run: {why}")]
    Packager {
        /// Which package manager.
        manager: &'static str,
        /// What is wrong.
        why: String,
        /// What a person has to do.
        fix: String,
    },
    /// Its process did not start.
    #[error("'{name}' was not started: {fault}")]
    Start {
        /// Its name.
        name: String,
        /// Why.
        fault: StartFault,
    },
    /// A file of the directory.
    #[error("'{file}': {fault}")]
    File {
        /// Its name.
        file: String,
        /// What is wrong.
        fault: FileFault,
    },
    /// A file of the directory that is not what it should be.
    #[error("'{file}': {why}")]
    Content {
        /// Its name.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A file of the directory could not be read; nothing was to be written.
    #[error("{what}")]
    Unreadable {
        /// Which, and what is wrong.
        what: String,
    },
    /// What installs all the others.
    #[error("'{name}' is one of pip, setuptools and wheel, which install every other package, and stays")]
    Needed {
        /// Its name.
        name: String,
    },
    /// There is no such package to be removed.
    #[error("'{name}' is neither declared nor installed here for {manager}, so there is nothing to remove")]
    NotInstalled {
        /// Its name.
        name: String,
        /// Whose it would be.
        manager: &'static str,
    },
    /// What was asked for is no package.
    #[error("'{spec}' is not a package: {why}")]
    Spec {
        /// As it was given.
        spec: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The package manager did not do it.
    #[error("{manager} {why}")]
    Install {
        /// Which.
        manager: &'static str,
        /// Why.
        why: String,
        /// Its own words, their end if they are long.
        output: String,
    },
    /// Nobody waits for it any more; it was ended, and what it had done until then may be there.
    #[error("it was cancelled while {manager} was at work, and ended; what is installed may be incomplete")]
    Cancelled {
        /// Which.
        manager: &'static str,
    },
}

impl ScriptFault {
    /// The same, where something was to be read only.
    pub(super) fn of_reading(self) -> Self {
        match self {
            Self::File { .. } | Self::Content { .. } => Self::Unreadable { what: self.to_string() },
            other => other,
        }
    }
}
