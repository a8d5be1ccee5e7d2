use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use nix::unistd::{getegid, geteuid};

use super::*;

fn request() -> SealRequest {
    SealRequest {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        interpreter: "/usr/bin/python3".into(),
        max_bytes: 1 << 20,
        max_inodes: 100,
    }
}

fn of(path: &Path, request: &SealRequest) -> Result<SealedInfo, SealError> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    seal(&nix::fcntl::open(path, flags, Mode::empty()).unwrap(), request)
}

fn environment() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("lib/python3.11/site-packages/six-1.16.0.dist-info")).unwrap();
    fs::create_dir(at("bin")).unwrap();
    symlink("/usr/bin/python3", at("bin/python")).unwrap();
    symlink("../lib", at("bin/lib")).unwrap();
    fs::write(at("bin/tool"), "#!").unwrap();
    fs::set_permissions(at("bin/tool"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(at("lib/six.py"), "x = 1").unwrap();
    dir
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// So that it can be removed.
fn unseal(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            unseal(&entry.path());
        }
    }
}

#[test]
fn equal_contents_have_one_hash_and_others_another() {
    let (one, other) = (environment(), environment());
    let first = of(one.path(), &request()).unwrap();
    assert_eq!(first, of(other.path(), &request()).unwrap());
    assert_eq!(first, of(one.path(), &request()).unwrap(), "sealing changes no hash");
    assert_eq!((first.hash.len(), first.bytes, first.inodes), (64, 7, 10));
    assert_eq!(first.distributions, ["six-1.16.0"]);
    assert_eq!(mode(&one.path().join("bin/tool")), 0o555);
    assert_eq!(mode(&one.path().join("lib/six.py")), 0o444);
    assert_eq!(mode(one.path()), 0o555);
    let mut hashes = vec![first.hash];
    let changes: [fn(&Path); 4] = [
        |dir| fs::write(dir.join("lib/six.py"), "x = 2").unwrap(),
        |dir| fs::rename(dir.join("lib/six.py"), dir.join("lib/seven.py")).unwrap(),
        |dir| fs::set_permissions(dir.join("bin/tool"), fs::Permissions::from_mode(0o644)).unwrap(),
        |dir| fs::create_dir(dir.join("empty")).unwrap(),
    ];
    for change in changes {
        let dir = environment();
        change(dir.path());
        hashes.push(of(dir.path(), &request()).unwrap().hash);
        unseal(dir.path());
    }
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 5);
    [one, other].iter().for_each(|dir| unseal(dir.path()));
}

#[test]
fn what_no_environment_has_is_refused_by_its_path() {
    type Make = fn(&Path);
    let cases: [(&str, Make); 8] = [
        ("a device, socket or FIFO", |dir| {
            nix::unistd::mkfifo(&dir.join("f"), Mode::S_IRUSR).unwrap();
        }),
        ("set-user-id", |dir| {
            fs::write(dir.join("s"), "").unwrap();
            fs::set_permissions(dir.join("s"), fs::Permissions::from_mode(0o4755)).unwrap();
        }),
        ("set-group-id", |dir| {
            fs::create_dir(dir.join("g")).unwrap();
            fs::set_permissions(dir.join("g"), fs::Permissions::from_mode(0o2755)).unwrap();
        }),
        ("leads out of the environment, to /etc/passwd", |dir| {
            symlink("/etc/passwd", dir.join("l")).unwrap();
        }),
        ("leads out of the environment, to ../..", |dir| {
            symlink("../..", dir.join("lib/l")).unwrap();
        }),
        ("leads out of the environment, to bin/lib/..", |dir| {
            symlink("bin/lib/..", dir.join("l")).unwrap();
        }),
        ("more than 1048576 bytes", |dir| {
            fs::File::create(dir.join("h")).unwrap().set_len(2 << 20).unwrap();
        }),
        ("nest too deeply", |dir| fs::create_dir_all(dir.join("d/".repeat(70))).unwrap()),
    ];
    for (reason, trick) in cases {
        let dir = environment();
        of(dir.path(), &request()).unwrap();
        unseal(dir.path());
        trick(dir.path());
        let refusal = of(dir.path(), &request()).unwrap_err().to_string();
        assert!(refusal.contains(reason), "{refusal}");
        unseal(dir.path());
    }
    let dir = environment();
    let few = SealRequest { max_inodes: 3, ..request() };
    assert!(of(dir.path(), &few).unwrap_err().to_string().contains("more than 3 files"));
    unseal(dir.path());
}
