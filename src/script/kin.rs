//! Who is whose child, as `/proc` says.

use std::{ffi::OsStr, path::Path};

use rustix::process::Pid;

/// A process that was there when it was looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) pid: Pid,
    pub(super) parent: Pid,
    /// It only waits to be reaped.
    pub(super) dead: bool,
}

/// All processes that have a parent.
pub(super) fn everybody() -> Vec<Seen> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| see(&entry.ok()?.file_name())).collect()
}

/// The living that descend from one of `roots`, without those.
pub(super) fn below(all: &[Seen], roots: &[Pid]) -> Vec<Pid> {
    let mut found = roots.to_vec();
    let mut at = 0;
    while let Some(above) = found.get(at).copied() {
        let children: Vec<Pid> = all.iter().filter(|one| one.parent == above && !one.dead).map(|one| one.pid).collect();
        found.extend(children.into_iter().filter(|child| !roots.contains(child)));
        at += 1;
    }
    found.split_off(roots.len())
}

fn see(name: &OsStr) -> Option<Seen> {
    let pid = name.to_str()?.parse().ok().and_then(Pid::from_raw)?;
    let stat = std::fs::read(Path::new("/proc").join(name).join("stat")).ok()?;
    // The name of a program stands in brackets and may hold anything, brackets too.
    let after = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(stat.get(after + 1..)?).ok()?.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok().and_then(Pid::from_raw)?;
    Some(Seen { pid, parent, dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_below_us() {
        let ours = [rustix::process::getpid()];
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(below(&everybody(), &ours).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!below(&everybody(), &ours).contains(&pid));
    }
}
