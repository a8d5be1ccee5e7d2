//! The kernel program of an interpreter, or the compiled component of runtime `wasm`, in a file in memory that all
//! sessions share: memfd_create(2).
//!
//! It is sealed, so that nobody who has it open, a kernel among them, can change what others run. And it stays what
//! it was when the daemon asked about it, whatever becomes of the file that it was read from.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

#[derive(Debug, Clone)]
pub struct ProgramFile(Arc<OwnedFd>);

impl ProgramFile {
    /// A file with this content.
    pub fn new(program: &[u8]) -> io::Result<Self> {
        Self::copy_of(program)
    }

    /// A file with all that is left to read here.
    pub fn copy_of(mut source: impl Read) -> io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let mut file = File::from(memfd_create(c"vivarium-kernel", flags)?);
        io::copy(&mut source, &mut file)?;
        let seals = SealFlag::F_SEAL_WRITE
            | SealFlag::F_SEAL_GROW
            | SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(Self(Arc::new(file.into())))
    }

    /// The file itself.
    pub fn shared(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.0)
    }

    /// Another descriptor of it.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn program_file_cannot_be_changed() {
        let mut source = tempfile::tempfile().unwrap();
        source.write_all_at(b"print(1)", 0).unwrap();
        for program in [ProgramFile::new(b"print(1)"), ProgramFile::copy_of(&mut source)] {
            let file = File::from(program.unwrap().descriptor().unwrap());
            source.write_all_at(b"another", 0).unwrap();
            let mut content = [0; 8];
            file.read_exact_at(&mut content, 0).unwrap();
            assert_eq!(&content, b"print(1)");
            // Nor by whoever opens it anew.
            let again = format!("/proc/self/fd/{}", file.as_raw_fd());
            let again = File::options().read(true).write(true).open(again).unwrap();
            for file in [&file, &again] {
                let refused = file.write_at(b"x", 0).unwrap_err();
                assert_eq!(refused.raw_os_error(), Some(nix::libc::EPERM));
                assert!(file.set_len(0).is_err());
            }
            source.write_all_at(b"print(1)", 0).unwrap();
        }
    }
}
