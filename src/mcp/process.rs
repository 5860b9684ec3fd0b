//! What the system says of our own process. Where it says nothing, neither do we.

use std::fs;

/// Bytes of memory that are resident.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Open files, sockets among them.
pub(super) fn open_files() -> Option<u64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    // The directory that is being read is one of them.
    u64::try_from(count).ok()?.checked_sub(1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_says_what_we_hold() {
        assert!(resident_bytes().unwrap() > 100_000);
        let before = open_files().unwrap();
        let file = fs::File::open("/proc/self/status").unwrap();
        assert!(open_files().unwrap() >= 1 && before >= 1);
        drop(file);
    }
}
