//! The session's own root: what of the host is there, and what can be changed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::json;
use vivarium_tests::Setup;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::probe::{self, Attempt};

use super::contrast;
use super::planted::{self, Files, GREETING};
use crate::every_way::{daemon, setup};

#[test]
fn files_of_the_host_are_not_there() {
    let files = Files::plant();
    let read = files.attack("read", "secret");
    let write = files.attack("write", "writable");
    let make = files.attack("create", "new");
    // Without this layer Landlock still refuses; without both, everything is open.
    let both = ["mounts", "landlock"];
    for (attack, on) in [(&read, "ENOENT"), (&write, "ENOENT"), (&make, "ENOENT")] {
        contrast(&["mounts"], &[(attack, on, "EACCES")]);
        contrast(&both, &[(attack, on, "works")]);
    }
}

#[test]
fn what_is_bound_is_read_only() {
    let files = Files::plant();
    let read = files.attack("read", "secret");
    let write = files.attack("write", "writable");
    let make = files.attack("create", "new");
    let rows =
        |write_word, make_word| [(&*read, "works"), (&*write, write_word), (&*make, make_word)];
    let setup = |layers: &[&str]| {
        setup().config("environments.default", &files.read_paths()).without(layers).start()
    };
    probe::check(&setup(&[]).session(), &rows("EROFS", "EROFS|EACCES"));
    probe::check(&setup(&["landlock"]).session(), &rows("EROFS", "EROFS"));
    probe::check(&setup(&["mounts"]).session(), &rows("EACCES", "EACCES"));
    probe::check(&setup(&["mounts", "landlock"]).session(), &rows("works", "works"));
}

#[test]
fn secrets_and_homes_of_the_host_are_not_there() {
    // The control: the host has a terminal.
    let _terminal = nix::pty::openpty(None, None).unwrap();
    assert!(std::fs::read_dir("/dev/pts").unwrap().count() > 1);
    let daemon = daemon();
    let session = daemon.session();
    // The workdir's other name, and nobody's home.
    let homes = "import os; os.listdir('/home'), os.readlink('/home/user')";
    assert_eq!(session.value(homes), "(['user'], '/workspace')");
    probe::check(
        &session,
        &[
            ("read('/etc/shadow')", "ENOENT"),
            ("read('/etc/gshadow')", "ENOENT"),
            ("read('/etc/sudoers')", "ENOENT"),
            ("read('/etc/ssh/sshd_config')", "ENOENT"),
            ("read('/etc/machine-id')", "ENOENT"),
            ("os.stat('/root').st_ino", "ENOENT"),
            ("os.stat('/var').st_ino", "ENOENT"),
            ("os.stat('/run').st_ino", "ENOENT"),
            ("os.stat('/boot').st_ino", "ENOENT"),
            ("os.stat('/opt').st_ino", "ENOENT"),
            ("os.stat('/sys/fs/cgroup').st_ino", "ENOENT"),
            ("os.stat('/dev/mem').st_ino", "ENOENT"),
            ("os.stat('/dev/kmsg').st_ino", "ENOENT"),
            // Of terminals there are the session's own, and a kernel has none.
            ("os.stat('/dev/pts/0').st_ino", "ENOENT"),
            ("os.open('/dev/tty', os.O_RDWR)", "ENXIO"),
            // Tricks to get to another root.
            ("read('/proc/1/root/etc/shadow')", "EPERM|ENOENT"),
            ("read('/proc/self/root/etc/shadow')", "ENOENT"),
            ("read('/proc/self/cwd/../../../../etc/shadow')", "ENOENT"),
            ("read('/../../../../etc/shadow')", "ENOENT"),
        ],
    );
    // The users of the host are not even known by name.
    assert_eq!(session.value("len(open('/etc/passwd').readlines())"), "3");
    assert_eq!(session.value("open('/etc/resolv.conf').read()"), "''");
}

#[test]
fn another_sessions_files_are_not_there() {
    let daemon = daemon();
    let (one, other) = (daemon.session(), daemon.session());
    let plant = "for place in ('.', '/tmp', '/dev/shm'): open(place + '/mine', 'w').write('one')";
    let _planted = one.execute(plant).ok();
    let look = "[[n for n in os.listdir(p) if n == 'mine'] for p in ('.', '/tmp', '/dev/shm')]";
    let _import = other.execute("import os").ok();
    assert_eq!(other.value(look), "[[], [], []]");
    assert_eq!(one.value("open('/tmp/mine').read()"), "'one'");
}

#[test]
fn the_system_can_not_be_changed() {
    let daemon = daemon();
    let refused = "EROFS|EACCES|EPERM";
    probe::check(
        &daemon.session(),
        &[
            ("create('/usr/bin/evil')", refused),
            ("create('/usr/lib/python3/evil')", refused),
            ("create('/etc/evil')", refused),
            ("create('/evil')", refused),
            ("create('/dev/evil')", refused),
            ("create('/sys/devices/system/cpu/evil')", refused),
            ("write('/etc/hosts')", refused),
            ("write('/usr/bin/env')", refused),
            ("write('/proc/sys/kernel/hostname')", refused),
            ("write('/proc/sys/kernel/core_pattern')", refused),
            ("write('/proc/sysrq-trigger')", "EROFS|EACCES|ENOENT"),
            ("write('/sys/devices/system/cpu/cpu0/online')", "EROFS|EACCES|ENOENT"),
            ("os.rename('/etc/hosts', '/etc/other')", "EROFS|EACCES|EXDEV"),
            ("os.unlink('/etc/hosts')", refused),
            ("os.rmdir('/proc')", "EROFS|EACCES|EBUSY"),
            ("read_through_link('/', 'etc/shadow')", "ENOENT"),
            ("os.mknod('/tmp/node', 0o020666, os.makedev(1, 3))", "EPERM|EACCES"),
        ],
    );
}

#[test]
fn proc_is_the_sessions_own_and_tells_nothing_of_the_host() {
    let daemon = daemon();
    let session = daemon.session();
    // hidepid=ptraceable: proc(5).
    // What is not yet known by name is not found (ENOENT), what is may not be looked at.
    let hidden = "EPERM|ENOENT";
    probe::check(
        &session,
        &[
            ("read('/proc/1/environ')", hidden),
            ("read('/proc/1/mem')", hidden),
            ("read('/proc/1/maps')", hidden),
            ("read('/proc/1/cmdline')", hidden),
            ("os.readlink('/proc/1/cwd')", hidden),
            ("os.listdir('/proc/1/fd')", hidden),
        ],
    );
    // The kernel and the attempt's own process; the agent is hidden.
    let pids = Attempt::make(&session, "kernel_pids()").value();
    assert_eq!(pids.as_array().unwrap().len(), 2, "{pids}");
}

/// What stays is what Python and its libraries need, and what is of the session's own namespaces.
#[test]
fn what_proc_tells_of_the_host_is_blank() {
    let stays = "cpuinfo filesystems loadavg meminfo mounts net self stat sys sysvipc thread-self \
                 uptime version version_signature";
    // Of whatever this kernel has: what can be read and is not empty.
    let told = format!(
        "[n for n in os.listdir('/proc') if not n.isdigit() and n not in '{stays}'.split() \
         and probe.tells('/proc/' + n)]"
    );
    let names = |setup: Setup| {
        let daemon = setup.start();
        let session = daemon.session();
        probe::load(&session);
        let _import = session.execute("import os").ok();
        assert_eq!(
            session.value("all(map(os.path.exists, ['/proc/meminfo', '/proc/stat']))"),
            "True"
        );
        session.value(&told)
    };
    assert_eq!(names(setup()), "[]");
    let open = names(setup().without(&["mounts", "landlock"]));
    for name in ["'devices'", "'swaps'", "'vmstat'", "'tty'"] {
        assert!(open.contains(name), "{name} is not in {open}");
    }
}

#[test]
fn every_mount_is_nosuid_and_scratch_is_noexec() {
    let daemon = daemon();
    let session = daemon.session();
    let flags = "
import os
flag = lambda name: [p for p in ('/', '/usr', '/proc', '/tmp', '/dev/shm', '/workspace')
                     if not os.statvfs(p).f_flag & getattr(os, name)]
print(flag('ST_NOSUID'), flag('ST_NODEV'), flag('ST_NOEXEC'))";
    let outcome = session.execute(flags).ok();
    assert_eq!(outcome.stdout(), "[] [] ['/', '/usr', '/workspace']\n");
}

#[test]
fn what_is_written_to_scratch_is_not_executed_and_the_workdir_is() {
    let rows = [
        ("execute_copy('/tmp/true')", "EACCES"),
        ("execute_copy('/dev/shm/true')", "EACCES"),
        ("execute_copy('/workspace/true')", "works"),
    ];
    probe::check(&daemon().session(), &rows);
    // Each of two layers refuses it alone.
    probe::check(&setup().without(&["landlock"]).start().session(), &rows);
    let outside = setup().without(&["mounts", "landlock"]).start();
    let dir = super::program_dir(&outside);
    let copy = format!("execute_copy('{dir}/true')");
    probe::check(&outside.session(), &[(&copy, "works")]);
}

#[test]
fn disk_space_and_inodes_are_limited_for_the_whole_session() {
    let limits = json!({"max_disk_mb": 4, "max_inodes": 64});
    let fill = "[open('%s/' + str(n), 'wb').write(bytes(1 << 20)) for n in range(8)] and None";
    let litter = "[open('%s/n' + str(n), 'wb').close() for n in range(100)] and None";
    let daemon = setup().limits(&limits).start();
    for place in ["/workspace", "/tmp", "/dev/shm"] {
        for code in [fill, litter] {
            let session = daemon.session();
            let outcome = session.execute(&code.replace("%s", place)).raised("OSError");
            assert!(outcome.traceback().contains("[Errno 28]"), "{place}: {outcome}");
        }
    }
    let without = setup().limits(&limits).without(&["mounts"]).start();
    let session = without.session();
    for code in [fill, litter] {
        let _filled = session.execute(&code.replace("%s", ".")).ok();
    }
}

#[test]
fn sockets_of_the_host_that_have_a_path_are_not_there() {
    let files = Files::plant();
    let socket = files.path("service.sock");
    planted::path_service(&socket);
    let attack = format!("connect(socket.AF_UNIX, '{}')", socket.display());
    contrast(&["mounts", "landlock"], &[(&attack, "ENOENT", "works")]);
    let daemon = setup().without(&["mounts", "landlock"]).start();
    let session = daemon.session();
    probe::load(&session);
    assert_eq!(Attempt::make(&session, &attack).value(), GREETING);
}

/// A read-only mount does not keep anybody from connecting to a socket, or from opening a FIFO.
#[test]
fn services_of_the_host_below_what_is_bound_are_out_of_reach() {
    let files = Files::plant();
    planted::path_service(&files.path("before.sock"));
    let pipe = files.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::set_permissions(&pipe, fs::Permissions::from_mode(0o666)).unwrap();
    // Both ends, so that nobody who opens it waits.
    let mut ends = fs::File::options().read(true).write(true).open(&pipe).unwrap();
    ends.write_all(GREETING.as_bytes()).unwrap();
    let secret = fs::File::open(files.path("secret")).unwrap();
    let _lock = nix::fcntl::Flock::lock(secret, nix::fcntl::FlockArg::LockExclusive).unwrap();

    let start = |without: &[&str]| {
        setup().config("environments.default", &files.read_paths()).without(without).start()
    };
    let on = start(&[]);
    let without_landlock = start(&["landlock"]);
    let off = start(&["mounts", "landlock"]);
    planted::path_service(&files.path("later.sock"));
    let path = |name| files.path(name).display().to_string();
    let before = format!("connect(socket.AF_UNIX, '{}')", path("before.sock"));
    let later = format!("connect(socket.AF_UNIX, '{}')", path("later.sock"));
    let lock = format!("lock('{}')", path("secret"));
    let write = format!("os.write(os.open('{}', os.O_WRONLY | os.O_NONBLOCK), b'x')", path("pipe"));
    let read =
        format!("os.read(os.open('{}', os.O_RDONLY | os.O_NONBLOCK), 100).decode()", path("pipe"));
    let rows = |connect, lock_word, write_word| {
        [(&*before, connect), (&*later, connect), (&*lock, lock_word), (&*write, write_word)]
    };
    // The lock is another one.
    let refused = rows("ECONNREFUSED", "works", "EACCES");
    for network in ["none", "loopback"] {
        let session = on.session_with(&json!({"network": network}));
        probe::check(&session, &refused);
        assert_eq!(Attempt::make(&session, &read).value(), "");
        assert_eq!(session.layer("mounts")["status"], "enforced");
        let secret = format!("open('{}').read()", path("secret"));
        assert_eq!(session.value(&secret), "'of the host'");
    }
    probe::check(&without_landlock.session(), &rows("ECONNREFUSED", "works", "ENXIO"));
    let session = off.session();
    probe::load(&session);
    assert_eq!(Attempt::make(&session, &read).value(), GREETING);
    probe::check(&session, &rows("works", "EAGAIN", "works"));
}

/// In the interpreter's own directories they are looked for when the daemon starts.
#[test]
fn services_of_the_host_beside_the_interpreter_are_out_of_reach() {
    let files = Files::plant();
    let venv = files.path("venv");
    let made = std::process::Command::new("/usr/bin/python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&venv)
        .status();
    assert!(made.unwrap().success());
    let socket = venv.join("service.sock");
    planted::path_service(&socket);
    let interpreter = format!("interpreter = '{}'", venv.join("bin/python3").display());
    let setup = || setup().config("environments.default", &interpreter);
    let attack = format!("connect(socket.AF_UNIX, '{}')", socket.display());
    let on = setup().start();
    let session = on.session();
    probe::check(&session, &[(&attack, "ECONNREFUSED")]);
    assert_eq!(session.layer("mounts")["status"], "enforced");
    assert_eq!(session.value("__import__('sys').prefix"), format!("'{}'", venv.display()));
    let off = setup().without(&["mounts", "landlock"]).start();
    probe::check(&off.session(), &[(&attack, "works")]);
}

/// What overlayfs refuses is bound, and the report says what that opens.
#[test]
fn a_directory_that_overlayfs_refuses_is_reported() {
    let files = Files::plant();
    planted::path_service(&files.path("service.sock"));
    let attack = format!("connect(socket.AF_UNIX, '{}')", files.path("service.sock").display());
    let paths = format!("read_paths = ['{}', '/sys/fs']", files.path("").display());
    let daemon = setup().config("environments.default", &paths).start();
    let session = daemon.session();
    let report = session.layer("mounts");
    assert_eq!(report["status"], "partial");
    assert!(report["detail"].as_str().unwrap().contains("/sys/fs"), "{report}");
    probe::check(&session, &[(&attack, "ECONNREFUSED")]);
}

/// Landlock has no right for these: with it alone they work, and its report says so.
#[test]
fn names_modes_and_times_of_the_hosts_files_are_out_of_reach() {
    let files = Files::plant();
    let file = files.path("secret");
    if nix::unistd::geteuid().is_root() {
        let owner = host::service_user();
        nix::unistd::chown(&file, Some(owner.uid), Some(owner.gid)).unwrap();
    }
    let attacks = ["os.stat('%').st_size", "os.chmod('%', 0o646)", "os.utime('%', (1, 1))"]
        .map(|attack| attack.replace('%', &file.display().to_string()));
    let rows = |word| attacks.each_ref().map(|attack| (&**attack, word));
    probe::check(&daemon().session(), &rows("ENOENT"));
    let outside = setup().without(&["mounts"]).start();
    let session = outside.session();
    probe::check(&session, &rows("works"));
    let data = fs::metadata(&file).unwrap();
    assert_eq!((data.permissions().mode() & 0o777, data.mtime()), (0o646, 1));
    if host::has(&[Requirement::Landlock]) {
        let report = session.layer("landlock");
        assert_eq!(report["status"], "partial");
        assert!(report["detail"].as_str().unwrap().contains("modes"), "{report}");
    }
}

#[test]
fn set_user_id_programs_give_nothing() {
    if !host::has(&[Requirement::Root]) {
        return;
    }
    let files = Files::plant();
    let program = files.path("id");
    std::fs::copy("/usr/bin/id", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let attack = format!("execute('{}', '-u')", program.display());
    let id = |setup: Setup| {
        let daemon = setup.config("environments.default", &files.read_paths()).start();
        let session = daemon.session();
        probe::load(&session);
        Attempt::make(&session, &attack).value()
    };
    assert_eq!(id(setup()), "1000");
    assert_eq!(id(setup().without_sandbox()), "0");
}
