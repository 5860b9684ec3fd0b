//! Where everybody runs. Left alone, the kernel puts the five parties of a call on cores as it likes and keeps them there for
//! seconds, and that decides more than what they do: rounds of one build differed by a factor. So the plant stands on one
//! core and the callers, floors and bridge alike, on another.

/// One of two sides of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The broker and the peers.
    Plant,
    /// The floors, the bridge and its client.
    Callers,
}

/// Does this on one side: this thread, and the threads and processes it starts meanwhile, stand there. Where there is one
/// core, or a system without such a call, they stand where they like.
#[cfg(target_os = "linux")]
pub(super) fn on<T>(side: Side, work: impl FnOnce() -> T) -> T {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::sync::OnceLock;

    /// The cores this process was given.
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    let before = sched_getaffinity(None).unwrap_or_default();
    let cores = CORES.get_or_init(|| (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)).collect());
    let core = match side {
        Side::Callers => cores.first(),
        Side::Plant => cores.last(),
    };
    let mut set = CpuSet::new();
    if let Some(core) = core {
        set.set(*core);
    }
    // A system that does not allow it measures as it can.
    let _ = sched_setaffinity(None, &set);
    let done = work();
    let _ = sched_setaffinity(None, &before);
    done
}

/// This system is left alone.
#[cfg(not(target_os = "linux"))]
pub(super) fn on<T>(_: Side, work: impl FnOnce() -> T) -> T {
    work()
}
