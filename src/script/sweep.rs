//! What is done when a supervisor is gone and its program may not be: whatever bears the mark of the run, and whatever
//! descends from that, is killed, again and again until nothing is found any more.
//!
//! The bridge is the next in line for orphans then, so it reaps them too, each by its number: children that somebody else
//! waits for are left alone. A program that lowers its own limit on file locks *and* kills its supervisor takes the mark off;
//! what descends from a process that bears it is found even so.

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
    use std::{collections::BTreeSet, time::Duration};

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

    /// Kills all of a run whose supervisor, if it has not been waited for, is `spare`.
    pub(in super::super) async fn sweep(mark: u64, head: Option<Pid>, spare: Option<Pid>) -> Swept {
        let mut sweep = Sweep { mark, head, spare, killed: BTreeSet::new(), exit: None };
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
            let marked = all.iter().filter(|one| Some(one.pid) != self.spare && mark::of(one.pid) == Some(self.mark));
            let (dead, living): (Vec<&Seen>, Vec<&Seen>) = marked.partition(|one| one.dead);
            for one in dead.into_iter().filter(|one| one.parent == getpid()) {
                self.reap(one.pid);
            }
            let marked: Vec<Pid> = living.into_iter().map(|one| one.pid).collect();
            let others = kin::below(&all, &marked);
            let found = marked.len() + others.len();
            for pid in marked.into_iter().filter(|pid| strike(*pid, Some(self.mark))) {
                self.killed.insert(pid.as_raw_nonzero().get());
            }
            for pid in others.into_iter().filter(|pid| strike(*pid, None)) {
                self.killed.insert(pid.as_raw_nonzero().get());
            }
            found
        }

        fn reap(&mut self, pid: Pid) {
            if let Ok(Some((_, status))) = waitpid(Some(pid), WaitOptions::NOHANG)
                && self.head == Some(pid)
            {
                self.exit = Some(status);
            }
        }
    }

    /// Kills one, if it is still the one that was found.
    fn strike(pid: Pid, wanted: Option<u64>) -> bool {
        let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { return kill_process(pid, Signal::KILL).is_ok() };
        (wanted.is_none() || mark::of(pid) == wanted) && pidfd_send_signal(held, Signal::KILL).is_ok()
    }

    /// How long it is gone on for.
    const SWEPT: Duration = Duration::from_secs(2);
    /// How soon those that came while others were being killed are looked for.
    const AGAIN: Duration = Duration::from_millis(5);
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use rustix::process::{Pid, Signal, kill_process_group};

    use super::Swept;

    /// Orphans come to nobody of ours here.
    #[expect(clippy::unnecessary_wraps, reason = "on Linux it can fail")]
    pub(in super::super) fn adopt() -> rustix::io::Result<()> {
        Ok(())
    }

    /// Kills the group of the program, which is all that is known of it.
    #[expect(clippy::unused_async, reason = "on Linux it waits")]
    pub(in super::super) async fn sweep(_mark: u64, head: Option<Pid>, _spare: Option<Pid>) -> Swept {
        let _ = head.map(|head| kill_process_group(head, Signal::KILL));
        Swept::default()
    }
}
