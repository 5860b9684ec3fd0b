//! What is done when a supervisor is gone and its program may not be: whatever bears the mark of the run, and whatever
//! descends from that, is killed, again and again until nothing is found any more.
//!
//! The bridge is the next in line for orphans then, so it reaps them too, each by its number: children that somebody else
//! waits for are left alone. A program that lowers the mark of its
//! own cannot take it off: an orphan of ours with any limit of that kind, which we have not, can only be a program's.

use rustix::process::WaitStatus;

/// What a sweep found.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Processes that lived and were killed, without the program itself.
    pub(super) ended: usize,
    /// Processes that did not go.
    pub(super) survivors: usize,
    /// How the program itself ended, if it came to us.
    pub(super) head: Option<WaitStatus>,
}

#[cfg(target_os = "linux")]
pub(super) use linux::{adopt, sweep};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{adopt, sweep};

#[cfg(target_os = "linux")]
mod linux {
    use std::{collections::BTreeSet, fs::Metadata, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

    use rustix::process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, pidfd_open,
        pidfd_send_signal, set_child_subreaper, waitpid,
    };
    use tokio::time::{Instant, sleep};

    use super::{
        super::{
            beside,
            kin::{self, Seen},
            mark,
        },
        Swept,
    };

    /// Makes this process the one that orphans of a supervisor come to.
    pub(in super::super) fn adopt() -> rustix::io::Result<()> {
        set_child_subreaper(Some(getpid()))
    }

    /// Kills all of a run whose supervisor, if it has not been waited for, is `spare`. Supervisors are `program`.
    pub(in super::super) async fn sweep(mark: u64, program: &Path, head: Option<Pid>, spare: Option<Pid>) -> Swept {
        let program = program.metadata().ok().filter(|_| mark::of(getpid()).is_none()).map(|file| identity(&file));
        let mut sweep = Sweep { mark, program, head, spare, killed: BTreeSet::new(), exit: None };
        let (late, mut quiet, mut left) = (Instant::now() + SWEPT, 0, 0);
        // One that forks and ends while it is looked for can be missed once.
        while quiet < 2 && Instant::now() < late {
            (sweep, left) = beside(move || {
                let left = sweep.pass();
                (sweep, left)
            })
            .await;
            if left == 0 {
                quiet += 1;
            } else {
                quiet = 0;
                sleep(AGAIN).await;
            }
        }
        if let Some(head) = head {
            sweep.killed.remove(&head.as_raw_nonzero().get());
        }
        Swept { ended: sweep.killed.len().saturating_sub(left), survivors: left, head: sweep.exit }
    }

    struct Sweep {
        mark: u64,
        /// What our supervisors are; `None` when orphans cannot be told by having a limit.
        program: Option<(u64, u64)>,
        head: Option<Pid>,
        spare: Option<Pid>,
        killed: BTreeSet<i32>,
        exit: Option<WaitStatus>,
    }

    impl Sweep {
        /// Kills what there is, reaps what is dead; gives how many lived.
        fn pass(&mut self) -> usize {
            // Its number is nobody else's while it bears the mark.
            if let Some(head) = self.head.filter(|head| mark::of(*head) == Some(self.mark)) {
                let _ = kill_process_group(head, Signal::KILL);
            }
            let all = kin::everybody();
            let ours = |one: &&Seen| one.dead && one.parent == getpid() && self.is_known(one.pid);
            let dead: Vec<Pid> = all.iter().filter(ours).map(|one| one.pid).collect();
            for pid in dead {
                self.reap(pid);
            }
            let its = |one: &&Seen| !one.dead && Some(one.pid) != self.spare && self.is_its(one);
            let marked: Vec<Pid> = all.iter().filter(its).map(|one| one.pid).collect();
            let others = kin::below(&all, &marked);
            let found = marked.len() + others.len();
            for pid in marked.into_iter().filter(|pid| strike(*pid, true)) {
                self.killed.insert(pid.as_raw_nonzero().get());
            }
            for pid in others.into_iter().filter(|pid| strike(*pid, false)) {
                self.killed.insert(pid.as_raw_nonzero().get());
            }
            found
        }

        /// Whether a dead one is this run's, and nobody else waits for it.
        fn is_known(&self, pid: Pid) -> bool {
            let struck = self.killed.contains(&pid.as_raw_nonzero().get());
            Some(pid) != self.spare && (struck || mark::of(pid) == Some(self.mark))
        }

        /// Whether it is of this run, or an orphan of a run that took its mark for another.
        fn is_its(&self, one: &Seen) -> bool {
            let Some(mark) = mark::of(one.pid) else { return false };
            let orphan = || {
                let is =
                    std::fs::metadata(format!("/proc/{}/exe", one.pid.as_raw_nonzero())).map(|file| identity(&file));
                one.parent == getpid() && self.program.is_some_and(|program| is.is_ok_and(|is| is != program))
            };
            mark == self.mark || orphan()
        }

        fn reap(&mut self, pid: Pid) {
            if let Ok(Some((_, status))) = waitpid(Some(pid), WaitOptions::NOHANG)
                && self.head == Some(pid)
            {
                self.exit = Some(status);
            }
        }
    }

    fn identity(file: &Metadata) -> (u64, u64) {
        (file.dev(), file.ino())
    }

    /// Kills one, if it is still the one that was found.
    fn strike(pid: Pid, marked: bool) -> bool {
        let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { return kill_process(pid, Signal::KILL).is_ok() };
        (!marked || mark::of(pid).is_some()) && pidfd_send_signal(held, Signal::KILL).is_ok()
    }

    /// How long it is gone on for.
    const SWEPT: Duration = Duration::from_secs(2);
    /// How soon those that came while others were being killed are looked for.
    const AGAIN: Duration = Duration::from_millis(5);
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use std::path::Path;

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::Swept;

    /// Orphans come to nobody of ours here.
    #[expect(clippy::unnecessary_wraps, reason = "on Linux it can fail")]
    pub(in super::super) fn adopt() -> rustix::io::Result<()> {
        Ok(())
    }

    /// Kills the group of the program, which is all that is known of it.
    #[expect(clippy::unused_async, reason = "on Linux it waits")]
    pub(in super::super) async fn sweep(_mark: u64, _program: &Path, head: Option<Pid>, _spare: Option<Pid>) -> Swept {
        let _ = head.map(|head| kill_process_group(head, Signal::KILL));
        Swept::default()
    }
}
