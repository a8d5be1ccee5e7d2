//! What code that has taken over the gate would try, from inside, each with and without confinement.
//!
//! Each attempt is a process of its own: this test program again, which confines itself like the gate,
//! tries one thing, and ends with the error's number, or 0.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use nix::unistd::{Pid, getppid, setgroups};

use super::apply;

/// Names the attempt for a process that makes one.
const ATTEMPT: &str = "VIVARIUM_GATE_ATTEMPT";
const CONFINED: &str = "VIVARIUM_GATE_CONFINED";
/// The process that started this one, asked for while it may still be asked for.
static PARENT: LazyLock<Pid> = LazyLock::new(getppid);
/// For what never ended with an error's number.
const NO_NUMBER: i32 = 255;

type Act = fn() -> io::Result<()>;
type Attempt = (&'static str, Act, Errno);

const ATTEMPTS: &[Attempt] = &[
    ("read a file", || File::open("/etc/passwd").map(drop), Errno::EACCES),
    ("list a directory", || fs::read_dir("/tmp").map(drop), Errno::EACCES),
    ("write a file", || File::create(scratch()).map(drop), Errno::EACCES),
    ("read another's memory", || File::open(of_parent("mem")).map(drop), Errno::EACCES),
    ("read another's environment", || fs::read(of_parent("environ")).map(drop), Errno::EACCES),
    (
        "reach another through its root",
        || File::open(of_parent("root/etc/passwd")).map(drop),
        Errno::EACCES,
    ),
    ("remove a file", || fs::remove_file(made()), Errno::EPERM),
    ("rename a file", || fs::rename(made(), scratch()), Errno::EPERM),
    (
        "change a mode",
        || fs::set_permissions(made(), fs::metadata("/etc/passwd")?.permissions()),
        Errno::EPERM,
    ),
    ("start a program", || Command::new("/bin/true").status().map(drop), Errno::EPERM),
    ("start a thread", || thread::Builder::new().spawn(|| ()).map(drop), Errno::EPERM),
    ("make a namespace", || Ok(unshare(CloneFlags::CLONE_NEWUTS)?), Errno::EPERM),
    ("signal another", || Ok(nix::sys::signal::kill(*PARENT, None)?), Errno::EPERM),
    ("raise a limit", || Ok(setrlimit(Resource::RLIMIT_NPROC, 5, 5)?), Errno::EPERM),
    ("become dumpable", || Ok(prctl::set_dumpable(true)?), Errno::EPERM),
    ("change groups", || Ok(setgroups(&[])?), Errno::EPERM),
    ("use a Unix socket", || UnixStream::pair().map(drop), Errno::EPERM),
    ("listen", || TcpListener::bind("127.0.0.1:0").map(drop), Errno::EACCES),
    ("send a datagram by a raw socket", || family(AddressFamily::Packet), Errno::EPERM),
    ("hear of devices by netlink", || netlink(SockProtocol::NetlinkKObjectUEvent), Errno::EPERM),
    ("talk to a hypervisor", || family(AddressFamily::Vsock), Errno::EPERM),
];

/// What the gate itself does. It has to work.
const WORK: &[(&str, Act)] = &[
    ("open a socket", || UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("read its own file", || File::open("/etc/hosts").map(drop)),
];

fn family(family: AddressFamily) -> io::Result<()> {
    let kind = if family == AddressFamily::Vsock { SockType::Stream } else { SockType::Raw };
    socket(family, kind, SockFlag::empty(), None)?;
    Ok(())
}

fn netlink(protocol: SockProtocol) -> io::Result<()> {
    socket(AddressFamily::Netlink, SockType::Raw, SockFlag::empty(), protocol)?;
    Ok(())
}

fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("vivarium-gate-{}", std::process::id()))
}

/// A file that is there before.
fn made() -> PathBuf {
    scratch().with_extension("made")
}

fn of_parent(file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{file}", *PARENT))
}

/// Makes the attempt that the environment names, and ends the process.
#[test]
#[expect(clippy::disallowed_methods, reason = "the process is there for its exit code")]
fn attempt() {
    let Ok(name) = std::env::var(ATTEMPT) else { return };
    let mut all = ATTEMPTS.iter().map(|(name, act, _)| (*name, *act)).chain(WORK.iter().copied());
    let (_, act) = all.find(|(known, _)| *known == name).unwrap();
    fs::write(made(), "there").unwrap();
    LazyLock::force(&PARENT);
    let ended = |result: io::Result<()>| match result {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(NO_NUMBER),
    };
    if std::env::var_os(CONFINED).is_some() {
        apply(&["/etc/hosts"], true).unwrap();
        // What cleans up would be refused: the parent does.
        std::process::exit(ended(act()));
    }
    let code = ended(act());
    for left in [made(), scratch()] {
        match fs::remove_file(left) {
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
    std::process::exit(code);
}

fn code_of(name: &str, is_confined: bool) -> i32 {
    let dir = tempfile::tempdir().unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "confine::tests::attempt", "--nocapture"]);
    again.env(ATTEMPT, name).env("TMPDIR", dir.path());
    if is_confined {
        again.env(CONFINED, "1");
    }
    let output = again.output().unwrap();
    output.status.code().unwrap_or_else(|| panic!("{name}: {output:?}"))
}

#[test]
fn whoever_takes_the_gate_over_is_refused_everything_but_its_work() {
    for (name, _, expected) in ATTEMPTS {
        assert_eq!(Errno::from_raw(code_of(name, true)), *expected, "{name}, confined");
        // The control. What only root may do fails for others anyway.
        let free = code_of(name, false);
        let may = nix::unistd::geteuid().is_root() || !NEEDS_ROOT.contains(name);
        assert!(
            free == 0 || !may || NOT_HERE.contains(&(name, free)),
            "{name}, free: {}",
            Errno::from_raw(free)
        );
    }
    for (name, _) in WORK {
        assert_eq!(code_of(name, true), 0, "{name}");
    }
}

const NEEDS_ROOT: &[&str] = &[
    "change groups",
    "send a datagram by a raw socket",
    "read another's memory",
    "make a namespace",
];

/// What a host may lack.
const NOT_HERE: &[(&&str, i32)] = &[(&"talk to a hypervisor", Errno::EAFNOSUPPORT as i32)];
