//! Reading a small file that somebody else may have put there: never a device or a FIFO, which could
//! hold the daemon up, and never more than it may have.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot be read")]
    Io(#[from] io::Error),
    #[error("is not a regular file")]
    NotRegular,
    #[error("is a symbolic link")]
    Link,
    #[error("has more than {0} bytes")]
    TooLarge(u64),
    #[error("is not UTF-8")]
    NotText,
}

/// Whether the last part of a path may be a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Follow,
    Refuse,
}

/// Reads a file whole.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn read(
    path: &Path,
    links: Links,
    max_bytes: u64,
) -> Result<(String, Metadata), ReadError> {
    // A FIFO without a writer is not waited for (open(2), O_NONBLOCK).
    let mut flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    if links == Links::Refuse {
        flags |= OFlag::O_NOFOLLOW;
    }
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) => {
            return Err(ReadError::Link);
        }
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(ReadError::NotRegular);
    }
    let bytes = up_to(&file, max_bytes)?;
    let text = String::from_utf8(bytes).map_err(|_| ReadError::NotText)?;
    Ok((text, metadata))
}

/// Its size may lie (procfs), so what is read is bounded.
fn up_to(file: &File, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes { Err(ReadError::TooLarge(max_bytes)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_files_of_text_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("good"), "text").unwrap();
        std::os::unix::fs::symlink(at("good"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(at("huge"), vec![b'x'; 101]).unwrap();
        std::fs::write(at("binary"), [0xff]).unwrap();
        assert_eq!(read(&at("good"), Links::Refuse, 4).unwrap().0, "text");
        assert_eq!(read(&at("link"), Links::Follow, 4).unwrap().0, "text");
        for (name, why) in [
            ("link", "is a symbolic link"),
            ("fifo", "is not a regular file"),
            ("huge", "has more than 100 bytes"),
            ("binary", "is not UTF-8"),
            ("missing", "cannot be read"),
            (".", "is not a regular file"),
        ] {
            let error = read(&at(name), Links::Refuse, 100).unwrap_err();
            assert_eq!(error.to_string(), why, "{name}");
        }
        let endless = read(Path::new("/dev/zero"), Links::Follow, 100).unwrap_err();
        assert_eq!(endless.to_string(), "is not a regular file");
    }
}
