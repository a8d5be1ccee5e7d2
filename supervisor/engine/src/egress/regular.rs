//! Files that the operator names.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// Opens a regular file. A FIFO without a writer is not waited for: open(2), `O_NONBLOCK`.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn a_fifo_without_a_writer_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let [file, fifo] = ["file", "fifo"].map(|name| dir.path().join(name));
        std::fs::write(&file, "").unwrap();
        mkfifo(&fifo, Mode::S_IRUSR).unwrap();
        assert!(open_regular(&file).is_ok());
        assert_eq!(open_regular(&fifo).unwrap_err().to_string(), "not a regular file");
        assert!(open_regular(dir.path()).is_err());
    }
}
