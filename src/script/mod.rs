//! Programs that are not ours, run beside the bridge and never in it.
//!
//! [`Supervisor`] starts one under a supervisor of our own: a second process of this binary that limits it, holds it
//! together with everything it begins, and ends all of it when the bridge says so or is gone. Who needs to run something,
//! scripts and handlers of fakes alike, begins here and nowhere else.
//!
//! [`Scripts`] are peers kept as programs: a directory of them, their runs, what they write, their packages; and
//! `scripting` is what another node may do with them.

mod environment;
mod fault;
pub(crate) mod folder;
mod gather;
mod host;
#[cfg(unix)]
mod keep;
#[cfg(target_os = "linux")]
mod kin;
mod library;
#[cfg(unix)]
mod mark;
pub(crate) mod names;
mod packager;
mod packages;
mod pinned;
mod plan;
mod process;
mod record;
mod results;
mod ring;
mod run;
mod said;
mod scripting;
mod specifier;
mod start;
mod store;
pub mod supervise;
#[cfg(unix)]
mod sweep;
mod toolchain;

pub use environment::{Inherited, Whereabouts};
pub use fault::ScriptFault;
pub use folder::FileFault;
pub use host::{Bounds, Scripts, ScriptsConfig};
pub use names::NameFault;
pub use plan::{Ended, EndedBy, Input, Limits, Plan, StartFault};
pub use process::{End, Line, Process, Supervisor};
pub use results::{
    Language, Output, Package, PackageList, Packager, PackagesChanged, RunEnd, SavedScript, ScriptLine, ScriptList,
    ScriptText, StartedScript, StoppedScript,
};
pub use said::Said;
pub use scripting::{NAMESPACE, served};
pub use specifier::Wanted;
pub use store::ScriptName;

/// Does what waits for a disk, or computes for long, on a thread where that holds up nobody.
pub(crate) async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being taken down, and whoever waits here with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Our own binary, even one that was replaced on the disk since it started.
#[must_use]
pub fn own_program() -> std::path::PathBuf {
    let own = std::path::PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && own.exists() { own } else { std::env::current_exe().unwrap_or(own) }
}

/// How a program ended, in words.
fn how(ended: &Ended) -> String {
    match (ended.code, ended.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    }
}
