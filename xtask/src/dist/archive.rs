//! The archive of a folder, the same bytes whenever the folder is the same, and the sums of all archives.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::command::{first_line, run};
use crate::install;

/// The one time everything of a release has, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Date(pub(super) u64);

impl Date {
    /// As `2026-01-31T12:00:00Z`.
    pub(super) fn text(self) -> String {
        let (days, seconds) = (self.0 / 86_400, self.0 % 86_400);
        let (year, month, day) = civil(days);
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// Year, month and day of the Gregorian calendar, so many days after the first of 1970. Years begin in March here, so that the
/// day that may be missing is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (month, day) = (month, day - (153 * month + 2) / 5 + 1);
    let january = month >= 10;
    (era * 400 + year + u64::from(january), if january { month - 9 } else { month + 3 }, day)
}

/// `SOURCE_DATE_EPOCH`, else the time of the last commit.
pub(super) fn date() -> Result<Date, String> {
    let said = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(said) => said,
        Err(_) => {
            let repository = install::repository().display().to_string();
            let said = first_line("git".as_ref(), &["-C", &repository, "show", "--no-patch", "--format=%ct", "HEAD"]);
            said.ok_or("git does not say when the last commit was: set SOURCE_DATE_EPOCH")?
        }
    };
    said.trim().parse().map(Date).map_err(|_| format!("SOURCE_DATE_EPOCH: expected seconds since 1970, not {said:?}"))
}

/// Packs `folder` into `into`, as `<name of the folder>.tar.gz`: sorted, everybody's, one time.
pub(super) fn pack(folder: &Path, into: &Path, date: Date) -> Result<PathBuf, String> {
    let name = folder.file_name().and_then(|name| name.to_str()).ok_or("a folder without a name")?;
    let archive = into.join(format!("{name}.tar"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg("--mode=u=rwX,go=rX").arg(format!("--mtime=@{}", date.0)).arg("--file").arg(&archive);
    run(tar.arg("--directory").arg(folder.parent().unwrap_or(folder)).arg(name))?;
    run(Command::new("gzip").args(["--no-name", "--best", "--force"]).arg(&archive))?;
    Ok(into.join(format!("{name}.tar.gz")))
}

/// Writes SHA256SUMS of every archive there is and that somebody may use, as `sha256sum --check` reads it.
pub(super) fn sums(dist: &Path) -> Result<(), String> {
    let mut lines = String::new();
    for path in install::entries(dist)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".tar.gz") && !name.ends_with("-quick.tar.gz") {
            let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let _ = writeln!(lines, "{}  {name}", sum(&bytes));
        }
    }
    let path = dist.join("SHA256SUMS");
    fs::write(&path, lines).map_err(|error| format!("{}: {error}", path.display()))
}

/// The SHA-256 of these bytes, in hexadecimal.
pub(super) fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_everybody_writes_it() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (1_796_067_562, "2026-11-30T19:39:22Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Date(seconds).text(), text);
        }
    }

    /// Written in another order, at another time, by somebody with other habits: the bytes are the same.
    #[test]
    fn the_same_folder_gives_the_same_bytes() {
        let scratch = std::env::temp_dir().join(format!("xtask-archive-{}", std::process::id()));
        let mut packed = Vec::new();
        for (turn, names) in [["a", "b", "c"], ["c", "a", "b"]].into_iter().enumerate() {
            let folder = scratch.join(turn.to_string()).join("release");
            fs::create_dir_all(&folder).unwrap();
            for name in names {
                let file = folder.join(name);
                fs::write(&file, name).unwrap();
                let mode = std::os::unix::fs::PermissionsExt::from_mode([0o600, 0o664][turn]);
                fs::set_permissions(&file, mode).unwrap();
                let file = fs::File::options().append(true).open(&file).unwrap();
                file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1 + turn as u64)).unwrap();
            }
            let into = scratch.join(turn.to_string());
            packed.push(fs::read(pack(&folder, &into, Date(1_700_000_000)).unwrap()).unwrap());
            sums(&into).unwrap();
            let mut check = Command::new("sha256sum");
            assert!(check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&into).status().unwrap().success());
        }
        fs::remove_dir_all(scratch).unwrap();
        assert!(packed[0] == packed[1] && !packed[0].is_empty());
    }
}
