//! What code that has taken over the gate would try, from inside, each with and without confinement.
//!
//! Each attempt is a process of its own: this test program again, which confines itself like the gate,
//! tries one thing, and ends with the error's number, or 0.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::symlink;
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

use super::{Files, apply};

/// Names the attempt for a process that makes one.
const ATTEMPT: &str = "VIVARIUM_GATE_ATTEMPT";
/// How it confines itself: [`ALONE`] or [`WITH_PACKAGES`].
const CONFINED: &str = "VIVARIUM_GATE_CONFINED";
const ALONE: &str = "alone";
const WITH_PACKAGES: &str = "with packages";
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

/// Of a gate that has wheels and a cache.
const WITH_PACKAGES_ATTEMPTS: &[Attempt] = &[
    ("list a directory", || fs::read_dir("/tmp").map(drop), Errno::EACCES),
    ("read a file", || File::open("/etc/passwd").map(drop), Errno::EACCES),
    ("write a file", || File::create(scratch()).map(drop), Errno::EACCES),
    ("remove a file", || fs::remove_file(made()), Errno::EACCES),
    ("write among wheels", || File::create(wheels().join("new")).map(drop), Errno::EACCES),
    ("change a wheel", || OpenOptions::new().append(true).open(wheel()).map(drop), Errno::EACCES),
    ("remove a wheel", || fs::remove_file(wheel()), Errno::EACCES),
    ("move a wheel", || fs::rename(wheel(), cache().join("moved")), Errno::EACCES),
    ("link out of the cache", || symlink("/etc/passwd", cache().join("link")), Errno::EPERM),
    ("start a program", || Command::new("/bin/true").status().map(drop), Errno::EPERM),
];

const WITH_PACKAGES_WORK: &[(&str, Act)] = &[
    ("list wheels", || fs::read_dir(wheels()).map(|found| assert_eq!(found.count(), 1))),
    ("read a wheel", || fs::read(wheel()).map(drop)),
    ("keep a file", || {
        let dir = cache().join("tenant");
        fs::create_dir_all(&dir)?;
        let new = tempfile::Builder::new().tempfile_in(&dir)?;
        new.as_file().set_modified(std::time::SystemTime::now())?;
        new.persist(dir.join("kept")).map_err(|error| error.error)?;
        assert_eq!(fs::read_dir(&dir)?.count(), 1);
        fs::remove_file(dir.join("kept"))
    }),
];

fn wheels() -> PathBuf {
    scratch().with_extension("wheels")
}

fn wheel() -> PathBuf {
    wheels().join("wheel")
}

fn cache() -> PathBuf {
    scratch().with_extension("cache")
}

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
    let attempts =
        ATTEMPTS.iter().chain(WITH_PACKAGES_ATTEMPTS).map(|(name, act, _)| (*name, *act));
    let work = WORK.iter().chain(WITH_PACKAGES_WORK).copied();
    let (_, act) = attempts.chain(work).find(|(known, _)| *known == name).unwrap();
    fs::write(made(), "there").unwrap();
    fs::create_dir(wheels()).and_then(|()| fs::write(wheel(), "there")).unwrap();
    fs::create_dir(cache()).unwrap();
    LazyLock::force(&PARENT);
    let ended = |result: io::Result<()>| match result {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(NO_NUMBER),
    };
    if let Ok(how) = std::env::var(CONFINED) {
        let (hosts, list, write) = (PathBuf::from("/etc/hosts"), [wheels()], cache());
        let alone = Files { read: &[&hosts], ..Files::default() };
        let with_packages = Files { list: &list, write: Some(&write), ..alone };
        apply(if how == ALONE { &alone } else { &with_packages }, true).unwrap();
        // What cleans up would be refused: the parent does.
        std::process::exit(ended(act()));
    }
    std::process::exit(ended(act()));
}

fn code_of(name: &str, how: Option<&str>) -> i32 {
    let dir = tempfile::tempdir().unwrap();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "confine::tests::attempt", "--nocapture"]);
    again.env(ATTEMPT, name).env("TMPDIR", dir.path());
    again.envs(how.map(|how| (CONFINED, how)));
    let output = again.output().unwrap();
    output.status.code().unwrap_or_else(|| panic!("{name}: {output:?}"))
}

#[test]
fn whoever_takes_the_gate_over_is_refused_everything_but_its_work() {
    is_refused_all_but(ALONE, ATTEMPTS, WORK);
}

#[test]
fn packages_give_a_gate_its_cache_to_write_and_wheels_to_read_and_no_more() {
    is_refused_all_but(WITH_PACKAGES, WITH_PACKAGES_ATTEMPTS, WITH_PACKAGES_WORK);
}

#[track_caller]
fn is_refused_all_but(how: &str, attempts: &[Attempt], work: &[(&str, Act)]) {
    for (name, _, expected) in attempts {
        assert_eq!(Errno::from_raw(code_of(name, Some(how))), *expected, "{name}, {how}");
        // The control. What only root may do fails for others anyway.
        let free = code_of(name, None);
        let may = nix::unistd::geteuid().is_root() || !NEEDS_ROOT.contains(name);
        assert!(
            free == 0 || !may || NOT_HERE.contains(&(name, free)),
            "{name}, free: {}",
            Errno::from_raw(free)
        );
    }
    for (name, _) in work {
        assert_eq!(code_of(name, Some(how)), 0, "{name}");
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
