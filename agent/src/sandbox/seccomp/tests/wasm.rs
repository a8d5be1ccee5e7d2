//! The filter of runtime `wasm`: the session's, without what its program has no use for.

use nix::errno::Errno;

use super::*;
use crate::sys::{HELD_PROGRAM, HeldProgram};

const WASM: Profile = Profile { internet: true, own_files: true, own_pids: true, wasm: true };

#[test]
fn no_process_no_second_program_and_no_socket_is_made_and_nobody_is_signalled() {
    let refused = [
        (SYS_execve, [0; 6]),
        (SYS_clone, with(0, (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND) as u64)),
        (SYS_clone, with(0, SIGCHLD as u64)),
        (SYS_socket, [AF_UNIX as u64, SOCK_STREAM as u64, 0, 0, 0, 0]),
        (SYS_socketpair, with(0, AF_UNIX as u64)),
        (SYS_connect, [0; 6]),
        (SYS_bind, [0; 6]),
        (SYS_kill, [0; 6]),
        (SYS_tgkill, [0; 6]),
        (SYS_fcntl, [4, F_SETOWN as u64, 1, 0, 0, 0]),
        (SYS_fcntl, [4, 15, 0, 0, 0, 0]),              // F_SETOWN_EX
        (SYS_fcntl, [3, 10, SIGKILL as u64, 0, 0, 0]), // F_SETSIG
        #[cfg(target_arch = "x86_64")]
        (SYS_fork, [0; 6]),
        #[cfg(target_arch = "x86_64")]
        (SYS_vfork, [0; 6]),
    ];
    for (number, arguments) in refused {
        let session = Profile { wasm: false, ..WASM };
        assert_eq!(call_of(session, number, arguments), ALLOW, "control: call {number}");
        assert_eq!(call_of(WASM, number, arguments), NOT_PERMITTED, "call {number}");
    }
    assert_eq!(call_of(WASM, SYS_clone3, [0; 6]), NO_SUCH_CALL);
    for allowed in [[3, F_SETOWN as u64, 1, 0, 0, 0], [4, F_SETFL as u64, O_ASYNC as u64, 0, 0, 0]]
    {
        assert_eq!(call_of(WASM, SYS_fcntl, allowed), ALLOW, "{allowed:?}");
    }
}

#[test]
fn it_has_nothing_that_a_sessions_has_not_but_its_own_start() {
    let mut fewer = 0;
    for number in 0..=calls::NEWEST {
        let session = call_of(Profile { wasm: false, ..WASM }, number, [0; 6]);
        let wasm = call_of(WASM, number, [0; 6]);
        assert!(wasm == session || wasm == NOT_PERMITTED, "call {number}");
        fewer += usize::from(wasm != session);
    }
    assert!(fewer > 20, "{fewer}");
    let start = [HELD_PROGRAM as u64, 0, 0, 0, AT_EMPTY_PATH as u64, 0];
    assert_eq!(call_of(WASM, SYS_execveat, start), ALLOW);
    for other in [HELD_PROGRAM as u64 - 1, HELD_PROGRAM as u64 + 1, AT_FDCWD as u64] {
        let arguments = [other, 0, 0, 0, AT_EMPTY_PATH as u64, 0];
        assert_eq!(call_of(WASM, SYS_execveat, arguments), NOT_PERMITTED, "{other}");
    }
    for flags in [0, (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) as u64] {
        let arguments = [HELD_PROGRAM as u64, 0, 0, 0, flags, 0];
        assert_eq!(call_of(WASM, SYS_execveat, arguments), NOT_PERMITTED, "flags {flags:#x}");
    }
}

/// Its program forbids itself its own start by a filter of its own. No other session's code adds any.
#[test]
fn its_program_can_add_a_filter() {
    let add = [PR_SET_SECCOMP as u64, u64::from(SECCOMP_MODE_FILTER), 0, 0, 0, 0];
    assert_eq!(call_of(WASM, SYS_prctl, add), ALLOW);
    assert_eq!(call_of(Profile { wasm: false, ..WASM }, SYS_prctl, add), NOT_PERMITTED);
    let strict = [PR_SET_SECCOMP as u64, u64::from(SECCOMP_MODE_STRICT), 0, 0, 0, 0];
    for (call, arguments) in [(SYS_prctl, strict), (SYS_seccomp, [0; 6])] {
        assert_eq!(call_of(WASM, call, arguments), NOT_PERMITTED, "call {call}");
    }
    assert_eq!(call_of(WASM, SYS_prctl, with(0, PR_SET_NO_NEW_PRIVS as u64)), ALLOW);
}

#[test]
fn the_count_is_of_the_calls_that_are_left() {
    let all = calls::count();
    let refused: BTreeSet<_> = calls::not_in_wasm().map(|call| call.number).collect();
    assert_eq!(refused.len(), calls::not_in_wasm().count(), "listed twice");
    let listed: BTreeSet<_> = calls::allowed()
        .map(|call| call.number)
        .chain(arguments::CHECKED.iter().copied())
        .collect();
    assert!(refused.is_subset(&listed), "refused, and not on the list");
    assert_eq!(calls::count_in_wasm(), all - refused.len() + 1);
}

/// The program that the filter lets be executed is executed once: nothing else can have its number.
#[test]
fn a_held_program_is_executed_under_the_filter_and_no_other() {
    let name = "::a_held_program_is_executed_under_the_filter_and_no_other";
    fixture::in_child(&format!("{}{name}", module_path!()), || {
        let mut context = fixture::context(&[Layer::Seccomp], Network::None, Path::new("/"));
        context.policy.interpreter.wasm = Some(fixture::engine());
        let held = HeldProgram::open(Path::new("/bin/false")).unwrap();
        assert!(HeldProgram::open(Path::new("/bin/false")).is_err(), "its number is taken");
        let limit = HELD_PROGRAM.unsigned_abs().into();
        let resource = nix::sys::resource::Resource::RLIMIT_NOFILE;
        nix::sys::resource::setrlimit(resource, limit, limit).unwrap();

        Seccomp.restrict(&context).unwrap();

        let report = Seccomp.verify(&context).unwrap();
        assert_eq!(report.status, Status::Enforced);
        assert!(report.detail.contains("runtime wasm"), "{}", report.detail);
        let run = Command::new("/bin/true").status();
        assert_eq!(run.map_err(|error| error.raw_os_error()).err(), Some(Some(EPERM)));
        let again = nix::unistd::execve(c"/bin/true", &[c"true"], &[c""; 0]);
        assert_eq!(again, Err(Errno::EPERM));
        // Closed as execve(2) would; from now on no descriptor can be put there.
        drop(held);
        assert!(HeldProgram::open(Path::new("/bin/true")).is_err());
    });
}
