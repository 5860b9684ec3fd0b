//! Opening a file that a person names.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

/// Opens it to be read, if it is a plain file: a pipe that nobody writes to would be waited for without end, and what comes
/// after a signal would not end the wait.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Opening a pipe must not wait for its other end; of a plain file this changes nothing.
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        options.custom_flags(i32::try_from(flags).unwrap_or_default());
    }
    let file = options.read(true).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        std::fs::write(&file, "text").unwrap();
        assert!(open(&file).is_ok());
        assert!(open(folder.path()).unwrap_err().to_string().contains("plain file"));
        #[cfg(unix)]
        {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
            assert!(open(&pipe).unwrap_err().to_string().contains("plain file"));
        }
        assert!(open(&folder.path().join("nowhere")).is_err());
    }
}
