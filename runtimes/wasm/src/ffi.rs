//! Maps compiled components, the one place where machine code comes from a file, adds a filter, and calls the agent's
//! library.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use vivarium_agent::ffi::program;
use wasmtime::component::Component;
use wasmtime::{Engine, Result};

/// Maps a compiled component. The caller has made sure that only root or the daemon's user can have
/// written what `file` is.
pub fn load(engine: &Engine, file: &File) -> Result<Component> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the file holds what Component::serialize made, and nobody rewrites it while it is mapped:
    // `component::open` has checked its owner and mode on this very descriptor, and it is replaced by rename
    // only; or the supervisor has, and passes a sealed copy. Wasmtime checks version, features and CPU.
    // JUSTIFICATION: compiling 28 MB in each session takes seconds.
    unsafe { Component::deserialize_file(engine, path) }
}

/// Adds a seccomp filter to this thread, and has it never gain a privilege, without which it could not add one.
pub fn add_filter(program: &mut [libc::sock_filter]) -> io::Result<()> {
    const NONE: libc::c_ulong = 0;
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: prctl(2) reads `len` instructions of `filter`, which outlives the call, and checks them.
    // JUSTIFICATION: rustix has no seccomp.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as libc::c_ulong, NONE, NONE, NONE) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) == 0
    };
    done.then_some(()).ok_or_else(io::Error::last_os_error)
}

/// See [`program::fork_kernels`]. For `vivarium-wasm template` only.
pub fn fork_kernels() -> io::Result<Vec<Vec<u8>>> {
    // SAFETY: a zygote has executed this process as a template, and in one nothing but the library uses descriptor 3
    // before it is a kernel. What the engine, the component and the store of then own is never used by its
    // descriptor again, nor dropped (`main`, `guest::call`); the standard streams have no owner.
    // JUSTIFICATION: an inherited descriptor is a number until somebody owns it.
    unsafe { program::fork_kernels() }
}

/// See [`program::unfit`]. For `vivarium-wasm template` only.
pub fn refuse(reason: String) {
    // SAFETY, JUSTIFICATION: as above; in a kernel that was forked it does nothing.
    unsafe { program::unfit(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::ptr;

    /// Set in the process that the filter spoils.
    const CHILD: &str = "VIVARIUM_WASM_TEST_CHILD";

    fn failed(result: i64) -> Option<i32> {
        (result < 0).then(|| io::Error::last_os_error().raw_os_error().unwrap())
    }

    /// Calls without effect, each with the error that it has without a filter.
    fn attempts() -> [Option<i32>; 7] {
        let none = ptr::null::<u8>();
        let path = c"/nonexistent/program".as_ptr();
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        // SAFETY: the paths are not there, and the pointers are null, which each of them checks.
        // JUSTIFICATION: no safe way to make a call that fails.
        unsafe {
            [
                failed(libc::syscall(libc::SYS_execve, path, none, none)),
                failed(libc::syscall(
                    libc::SYS_execveat,
                    1000,
                    path,
                    none,
                    none,
                    libc::AT_EMPTY_PATH,
                )),
                failed(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, none)),
                failed(libc::syscall(libc::SYS_prctl, libc::PR_SET_SECCOMP, mode, none)),
                failed(libc::syscall(libc::SYS_fcntl, -1, libc::F_SETOWN, 0)),
                failed(libc::syscall(libc::SYS_fcntl, -1, 10, 0)), // F_SETSIG
                failed(libc::syscall(libc::SYS_fcntl, -1, 15, none)), // F_SETOWN_EX
            ]
        }
    }

    #[test]
    fn what_starts_the_program_cannot_be_done_again() {
        if std::env::var_os(CHILD).is_none() {
            let name = "ffi::tests::what_starts_the_program_cannot_be_done_again";
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", name, "--test-threads=1"])
                .env(CHILD, "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout);
            assert!(child.status.success() && said.contains("1 passed"), "{child:?}");
            return;
        }
        let run = || Command::new("/bin/true").status().map_err(|error| error.raw_os_error());
        assert!(run().unwrap().success());
        let [absent, fault, closed] = [libc::ENOENT, libc::EFAULT, libc::EBADF].map(Some);
        let control = [absent, absent, fault, fault, closed, closed, closed];
        assert_eq!(attempts(), control);
        crate::filter::install().unwrap();
        assert_eq!(attempts(), [Some(libc::EPERM); 7]);
        let file = std::fs::File::open("/dev/null").unwrap();
        rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::NONBLOCK).unwrap();
        assert_eq!(run().err(), Some(Some(libc::EPERM)));
        std::fs::read("/proc/self/status").unwrap();
    }
}
