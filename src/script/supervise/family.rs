//! Everything a program began, and how it is ended. What is portable is its process group; that nothing gets away by leaving
//! the group is known on Linux alone, where orphans come to us and `/proc` tells who is whose.

use std::time::Duration;

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, wait},
};
use tokio::{
    signal::unix::Signal as Signals,
    time::{Instant, sleep_until, timeout_at},
};

#[cfg(target_os = "linux")]
use super::super::kin;

/// How long it may take to end when asked.
const GRACE: Duration = Duration::from_secs(2);
/// How long what was killed may take to go: a process that waits for a disk cannot.
const KILLED: Duration = Duration::from_secs(5);
/// How soon those that came while others were being killed are looked for.
const AGAIN: Duration = Duration::from_millis(5);

/// How the program itself ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// A program with everything it began.
#[derive(Debug)]
pub(super) struct Family {
    head: Pid,
    /// How the head ended, once it has.
    pub(super) exit: Option<Exit>,
    /// Whether there may be a child of ours yet.
    any: bool,
}

impl Family {
    pub(super) fn of(head: Pid) -> Self {
        Self { head, exit: None, any: true }
    }

    /// Makes this process the parent of whatever is orphaned below it.
    pub(super) fn adopt() -> rustix::io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        Ok(())
    }

    /// Takes note of all that ended.
    pub(super) fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.head => {
                    self.exit = Some(Exit { code: status.exit_status(), signal: status.terminating_signal() });
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return,
                // No child of ours is left, and so nobody below one.
                Err(_) => {
                    self.any = false;
                    return;
                }
            }
        }
    }

    /// How many are left, as far as can be told.
    pub(super) fn count(&self) -> usize {
        if self.any { self.others().len() + usize::from(self.exit.is_none()) } else { 0 }
    }

    /// Asks all to end, kills what has not ended in time, and gives how many are left even so.
    pub(super) async fn end(&mut self, ended: &mut Signals) -> usize {
        self.signal(Signal::TERM);
        // One that is stopped hears nothing before it goes on.
        self.signal(Signal::CONT);
        let late = Instant::now() + GRACE;
        loop {
            self.reap();
            if !self.any {
                return 0;
            }
            if timeout_at(late, ended.recv()).await.is_err() {
                break;
            }
        }
        let given_up = Instant::now() + KILLED;
        while Instant::now() < given_up {
            self.signal(Signal::KILL);
            self.reap();
            if !self.any {
                return 0;
            }
            // Each may have begun another in the meantime.
            sleep_until(Instant::now() + AGAIN).await;
        }
        self.count()
    }

    fn signal(&self, signal: Signal) {
        // The group outlives its head, and its number is given to nobody while anyone is in it; when it is empty and the head
        // is reaped, the number may be another's.
        if self.exit.is_none() || self.others().iter().any(|pid| in_group(*pid, self.head)) {
            let _ = kill_process_group(self.head, signal);
        }
        for pid in self.others() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Everyone below us but the head.
    #[cfg(target_os = "linux")]
    fn others(&self) -> Vec<Pid> {
        let mut others = kin::below(&kin::everybody(), &[rustix::process::getpid()]);
        others.retain(|pid| *pid != self.head);
        others
    }

    #[cfg(not(target_os = "linux"))]
    fn others(&self) -> Vec<Pid> {
        Vec::new()
    }
}

fn in_group(pid: Pid, group: Pid) -> bool {
    rustix::process::getpgid(Some(pid)).is_ok_and(|of| of == group)
}
