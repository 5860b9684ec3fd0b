//! What a run is known by when its supervisor is gone.
//!
//! On Linux it is the limit on file locks, which has had no effect since 2.4: a number of chance that whatever the program
//! begins inherits, in any session, group or environment; that nobody without privileges can raise; and that `/proc` tells of
//! everybody. Elsewhere there is none.

/// A number nobody else has.
pub(super) fn draw() -> u64 {
    let chance = uuid::Uuid::new_v4().as_u64_pair().0 >> 2;
    // A bridge that is itself such a program may only go lower.
    most().map_or(chance, |most| chance % most.max(1))
}

#[cfg(target_os = "linux")]
fn most() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Locks).maximum
}

#[cfg(not(target_os = "linux"))]
fn most() -> Option<u64> {
    None
}

/// The mark of a process, one that waits to be reaped included.
#[cfg(target_os = "linux")]
pub(super) fn of(pid: rustix::process::Pid) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).ok()?;
    let locks = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    locks.split_ascii_whitespace().nth(1)?.parse().ok()
}
