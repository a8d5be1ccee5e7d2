//! The kernel program of an interpreter, in a file in memory that all sessions share: memfd_create(2).
//!
//! It is sealed, so that nobody who has it open, a kernel among them, can change what others run.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Or the compiled component of runtime `wasm`, in the file that it has.
#[derive(Debug, Clone)]
pub struct ProgramFile(Arc<OwnedFd>);

impl ProgramFile {
    /// A file with this content.
    pub fn new(program: &[u8]) -> io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let mut file = File::from(memfd_create(c"vivarium-kernel", flags)?);
        file.write_all(program)?;
        let seals = SealFlag::F_SEAL_WRITE
            | SealFlag::F_SEAL_GROW
            | SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(Self(Arc::new(file.into())))
    }

    /// A file that is open for reading, which nobody else can write to.
    pub fn opened(file: File) -> Self {
        Self(Arc::new(file.into()))
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
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn program_file_cannot_be_changed() {
        let program = ProgramFile::new(b"print(1)").unwrap();
        let file = File::from(program.descriptor().unwrap());
        let mut content = [0; 8];
        file.read_exact_at(&mut content, 0).unwrap();
        assert_eq!(&content, b"print(1)");
        let refused = file.write_at(b"x", 0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(nix::libc::EPERM));
        assert!(file.set_len(0).is_err());
    }
}
