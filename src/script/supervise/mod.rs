//! The supervisor: a process of our own binary that starts one program, and ends it and everything it began.
//!
//! Its standard input is a socket to the bridge. The first line there is the [`Plan`](super::Plan); when the bridge's end
//! closes, by intent or because the bridge was killed, the program is asked to end, and two seconds later all that is left
//! is killed. On Linux whatever the program forks becomes this process's child when its own parent goes, however it changed
//! its session or group, so that "everything" is what the system says it is.

#[cfg(unix)]
mod family;
#[cfg(unix)]
mod limits;
#[cfg(unix)]
mod run;

/// The subcommand this is.
pub const WORD: &str = "supervise";

#[cfg(unix)]
pub use run::run;

/// Supervises nothing where nothing is run.
///
/// # Errors
///
/// Always.
#[cfg(not(unix))]
#[expect(clippy::unused_async, reason = "elsewhere it waits")]
pub async fn run() -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
