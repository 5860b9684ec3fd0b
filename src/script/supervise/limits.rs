//! What a program may use up: set on the supervisor itself just before it starts the program, which inherits them and cannot
//! raise them. The supervisor needs next to nothing of any of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::super::plan::Limits;

/// Sets them. One that cannot be set is an error: a limit that was asked for and does not hold would be worse.
pub(super) fn set(limits: &Limits, mark: u64) -> rustix::io::Result<()> {
    // A core is a copy of a memory that may hold a token.
    lower(Resource::Core, Some(0))?;
    mark_with(mark)?;
    lower(Resource::Data, limits.memory)?;
    lower(Resource::Cpu, limits.cpu_seconds)?;
    lower(Resource::Nofile, limits.open_files)?;
    lower(Resource::Fsize, limits.file_bytes)
}

#[cfg(target_os = "linux")]
fn mark_with(mark: u64) -> rustix::io::Result<()> {
    lower(Resource::Locks, Some(mark))
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "on Linux it can fail")]
fn mark_with(_mark: u64) -> rustix::io::Result<()> {
    Ok(())
}

fn lower(resource: Resource, wanted: Option<u64>) -> rustix::io::Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let most = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
}
