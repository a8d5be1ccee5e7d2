//! What code plants in a home for whoever reads, lists, measures or removes it afterwards.

use std::fs;

use serde_json::json;
use vivarium_tests::program;
use vivarium_tests::wait;

use crate::{at_home, delete, end, get, paths, run, runners, setup};

#[test]
fn traps_in_a_home_lead_nobody_out() {
    for runner in runners() {
        let daemon = setup(runner, "").start();
        // The daemon could read it: positive control below.
        let secret = daemon.dir().join("run/secret");
        fs::write(&secret, "host").unwrap();
        fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let session = at_home(&daemon, "a");
        let planted = format!(
            "import os, socket\nos.chdir('/home/sandbox')\n\
             os.symlink({secret:?}, 'link')\nos.symlink('/etc', 'dir')\nos.symlink('..', 'up')\n\
             os.symlink('../record.json', 'record')\n\
             os.mkfifo('fifo')\nsocket.socket(socket.AF_UNIX).bind('socket')\n\
             open('plain', 'w').write('x')\nos.link('plain', 'hard')\n\
             os.mkdir('locked', 0o700)\nopen('locked/f', 'w').write('y')\nos.chmod('locked/f', 0)\n\
             os.chmod('locked', 0)\n\
             def fails(f, *a):\n    try: f(*a)\n    except OSError as e: return e.errno\n\
             import stat\n\
             fails(os.mknod, 'device', stat.S_IFCHR | 0o600, os.makedev(1, 3)), \
             fails(os.link, '/etc/passwd', 'passwd'), fails(os.link, '/workspace/.tmp', 'w')",
            secret = secret.to_str().unwrap()
        );
        let refused = run(&session, &planted);
        assert!(!refused.contains("None"), "{refused}");
        end(&session);
        let home = "/v1/homes/a";
        let file = |path: &str| get(&daemon, &format!("{home}/files/{path}"));
        for (path, status, code) in [
            ("link", 422, "bad_path"),
            ("dir/passwd", 422, "bad_path"),
            ("dir", 422, "bad_path"),
            ("up/record.json", 422, "bad_path"),
            ("record", 422, "bad_path"),
            ("fifo", 409, "not_a_file"),
            ("socket", 409, "not_a_file"),
            ("..%2frecord.json", 422, "bad_path"),
            ("%2e%2e/record.json", 422, "bad_path"),
            ("%2fetc%2fpasswd", 422, "bad_path"),
            ("a%00b", 422, "bad_path"),
            ("locked", 409, "not_a_file"),
            ("nothing", 404, "unknown_file"),
        ] {
            file(path).expect_problem(status, code);
        }
        get(&daemon, &format!("{home}/files?path=dir")).expect_problem(422, "bad_path");
        get(&daemon, &format!("{home}/files?path=..")).expect_problem(422, "bad_path");
        get(&daemon, &format!("{home}/files?path=%2Fetc")).expect_problem(422, "bad_path");
        assert_eq!(file("hard").body, b"x");
        assert_eq!(file("locked/f").body, b"y", "what code locked away from itself");
        let listed = paths(&daemon, home);
        for name in ["link", "dir", "fifo", "socket", "locked/f"] {
            assert!(listed.iter().any(|path| path == name), "{name} in {listed:?}");
        }
        assert!(!listed.iter().any(|path| path.starts_with("dir/")), "{listed:?}");
        let link = file("link?info=true").expect_success();
        assert_eq!(link["kind"], "link");

        // A link is removed, and not where it leads.
        for path in ["link", "dir", "up"] {
            assert_eq!(delete(&daemon, &format!("{home}/files/{path}")).status, 204, "{path}");
        }
        delete(&daemon, &format!("{home}/files/..%2frecord.json")).expect_problem(422, "bad_path");
        assert_eq!(delete(&daemon, home).status, 204);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "host");
        let left = daemon.dir().join("state/homes/default");
        let left: Vec<_> = fs::read_dir(left).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.iter().all(|path| path.ends_with("ids.json")), "{left:?}");
    }
}

#[test]
fn nothing_in_a_home_is_a_device_or_gives_privileges() {
    for runner in runners() {
        let daemon = setup(runner, "").start();
        let session = at_home(&daemon, "a");
        let mounts = "[line.split()[5] for line in open('/proc/self/mountinfo') \
                      if line.split()[4] == '/home/sandbox']";
        let options = run(&session, mounts);
        assert!(options.contains("rw,nosuid,nodev"), "{options}");
        // A program of the tenant's own runs from there, as from the workdir: the control.
        let ran = "import os, shutil, subprocess\nshutil.copy('/bin/echo', '/home/sandbox/own')\n\
                   os.chmod('/home/sandbox/own', 0o755)\n\
                   subprocess.run(['/home/sandbox/own', 'ran'], capture_output=True).stdout";
        assert_eq!(run(&session, ran), "b'ran\\n'");
        let set = "try: os.chmod('/home/sandbox/own', 0o4755)\nexcept OSError as e: print(e.errno)";
        assert_eq!(session.execute(set).ok().stdout(), "1\n");
    }
}

#[test]
fn deep_trees_and_many_files_are_removed() {
    for runner in runners() {
        let daemon = setup(runner, "max_inodes = 200").start();
        let session = at_home(&daemon, "a");
        let made = "import os\nos.chdir('/home/sandbox')\n\
                    for i in range(150):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n\
                    open('end', 'w').close()\nos.chmod('.', 0)";
        run(&session, &format!("{made}\n0"));
        end(&session);
        assert_eq!(get(&daemon, "/v1/homes/a").expect_success()["storage"]["used_inodes"], 152);
        assert_eq!(delete(&daemon, "/v1/homes/a").status, 204);
        assert_eq!(get(&daemon, "/v1/homes").expect_success(), json!({"homes": []}));
    }
}

/// A daemon that is killed in the middle of a removal ends it when it starts.
#[test]
fn half_removed_home_is_cleared_at_start() {
    let daemon = setup(program::nobody(), "").start();
    let session = at_home(&daemon, "a");
    run(&session, "open('/home/sandbox/f', 'w').write('x')");
    let dir = daemon.kill_and_check();
    let homes = dir.path().join("state/homes/default");
    fs::rename(homes.join("session-a"), homes.join(".deleted-0")).unwrap();
    let daemon = setup(program::nobody(), "").in_place_of(dir).start();
    wait::until_true("the rest's removal", || !homes.join(".deleted-0").exists());
    get(&daemon, "/v1/homes/a").expect_problem(404, "unknown_home");
}
